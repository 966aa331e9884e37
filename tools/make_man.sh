#!/bin/sh
# The manual page of the program, from its --help, which comes from the tables of options.
#
#   tools/make_man.sh PROGRAM > brigade.1
set -eu
program=$1
version=$("$program" --version | sed 's/^brigade //')

# Help as sections: usage comes first, a heading ends with a colon, options and names of a list begin in the third column,
# words of an option in the 29th.
sections() {
    awk '
    function escape(text) {
        gsub(/\\/, "\\e", text)
        gsub(/-/, "\\-", text)
        if (text ~ /^[.'"'"']/)
            text = "\\&" text
        return text
    }
    { sub(/[ \t]+$/, "") }
    /^  -/ {
        text = substr($0, 3)
        gap = index(text, "  ")
        flag = gap > 0 ? substr(text, 1, gap - 1) : text
        if (length($0) > 28 && substr($0, 28, 1) == " " && gap == 0) {
            flag = substr($0, 3, 25)
            gap = 26
        }
        words = gap > 0 ? substr(text, gap) : ""
        sub(/^ +/, "", words)
        printf ".TP\n\\fB%s\\fR\n", escape(flag)
        if (words != "")
            print escape(words)
        next
    }
    /^            / { sub(/^ +/, ""); print escape($0); next }
    /^  [a-z]/ {
        sub(/^ +/, "")
        name = $1
        sub(/^[^ ]+ +/, "")
        printf ".TP\n.B %s\n%s\n", escape(name), escape($0)
        next
    }
    /^       / { sub(/^ +/, ""); print ".br"; print escape($0); is_usage = 1; next }
    NR == 1 { print escape($0); is_usage = 1; next }
    is_usage { is_usage = 0; print ".PP" }
    /:$/ { printf ".SS \"%s\"\n", escape(substr($0, 1, length($0) - 1)); next }
    /^$/ { print ".PP"; next }
    { print escape($0) }'
}

# command NAME...: what a command prints, without the line of its usage, which is the heading.
command() {
    printf '.SH "BRIGADE %s"\n' "$(echo "$*" | tr '[:lower:]' '[:upper:]')"
    "$program" "$@" --help | sed 's/^Usage: //' | sections
}

cat <<EOF
.TH BRIGADE 1 "" "brigade $version" "User Commands"
.SH NAME
brigade \\- train and run neural networks that are split over several devices
.SH SYNOPSIS
.B brigade
.I COMMAND
.RI [ OPTION ]...
.SH DESCRIPTION
EOF
"$program" --help | sed 1d | awk '
    /^Commands:/ { print ".SS Commands"; in_list = 1; next }
    in_list && /^  / { sub(/^ +/, ""); name = $1; sub(/^[^ ]+ +/, ""); printf ".TP\n.B %s\n%s\n", name, $0; next }
    /^$/ { print ".PP"; in_list = 0; next }
    { gsub(/-/, "\\-"); print }'
command mnist
command train
command infer
command inspect
command gpt pretrain
command gpt bench
command gpt generate
command gpt eval
command schedule
command config
command data
command data bench
command data tokenize
command options
cat <<'EOF'
.SH ENVIRONMENT
.TP
.B BRIGADE_OPTIONS
options of the library by name, as words or JSON
.TP
.B BRIGADE_DATA
folder of data sets
.TP
.B BRIGADE_CACHE_DIR
folder of compiled plans
.TP
.B BRIGADE_PRESETS
folder of presets
.SH EXIT STATUS
0 after success, 1 after a failure, 2 after a mistake on the command line, 128 and the signal's number when a signal ended it.
EOF
