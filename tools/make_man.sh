#!/bin/sh
# Makes the manual pages of the program, one for each command, from its --help, which comes from the tables of options.
#
#   tools/make_man.sh PROGRAM FOLDER      writes FOLDER/brigade.1, FOLDER/brigade-mnist.1, ...
set -eu
program=$1 folder=$2
version=$("$program" --version | sed -n 's/^brigade //p')
mkdir -p "$folder"

# Converts help to the body of a page. Usage comes first, and a heading ends with a colon. Options and names of a list
# begin in column 3, the text of an option in column 29. Examples are printed unchanged.
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
    /^Examples:$/ { print ".SH EXAMPLES"; print ".nf"; in_examples = 1; next }
    in_examples { sub(/^  /, ""); print escape($0); next }
    NR == 1 { print ".SH SYNOPSIS"; print ".nf"; sub(/^Usage: /, ""); print escape($0); in_usage = 1; next }
    in_usage && /^       / { sub(/^ +/, ""); print escape($0); next }
    in_usage { in_usage = 0; print ".fi"; print ".SH DESCRIPTION" }
    /^  / { is_gap = 0 }
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
    /^  [a-zA-Z]/ {
        name = substr($0, 3)
        gap = index(name, "  ")
        words = gap > 0 ? substr(name, gap) : ""
        sub(/^ +/, "", words)
        printf ".TP\n.B %s\n%s\n", escape(gap > 0 ? substr(name, 1, gap - 1) : name), escape(words)
        next
    }
    /:$/ { is_gap = 0; printf ".SS \"%s\"\n", escape(substr($0, 1, length($0) - 1)); next }
    /^$/ { is_gap = 1; next }
    is_gap { is_gap = 0; print ".PP" }
    { print escape($0) }'
}

# page NAME SUMMARY WORD...: writes the page of a command.
page() {
    file=$1 text=$2
    shift 2
    {
        printf '.TH %s 1 "" "brigade %s" "User Commands"\n' "$(echo "$file" | tr '[:lower:]' '[:upper:]')" "$version"
        printf '.SH NAME\n%s \\- %s\n' "$(echo "$file" | sed 's/-/\\-/g')" "$text"
        "$program" "$@" --help all | sections
        printf '.SH SEE ALSO\n.BR brigade (1)\n'
    } >"$folder/$file.1"
}

# Rows of the list of commands in a help: "name  summary".
rows() {
    awk '/^Commands:$/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ { print }' | sed 's/^  \([a-z]*\) */\1 /'
}

"$program" --help | rows >"$folder/commands"
while read -r name summary; do
    page "brigade-$name" "$summary" "$name"
    case $name in
    gpt | data)
        "$program" "$name" --help | rows | while read -r own what; do
            page "brigade-$name-$own" "$what" "$name" "$own"
        done
        ;;
    esac
done <"$folder/commands"

{
    cat <<END
.TH BRIGADE 1 "" "brigade $version" "User Commands"
.SH NAME
brigade \\- train and run neural networks that are split over several devices
.SH SYNOPSIS
.B brigade
.I COMMAND
.RI [ OPTION ]...
.SH DESCRIPTION
The program trains and runs neural networks that are split over several devices.
Each command has a separate manual page:
.BR brigade\\-mnist (1)
for
.BR "brigade mnist" .
.SS Commands
END
    while read -r name summary; do
        printf '.TP\n.BR brigade\\-%s (1)\n%s\n' "$name" "$summary"
    done <"$folder/commands"
    cat <<'END'
.SH ENVIRONMENT
.TP
.B BRIGADE_OPTIONS
options of the library by name, as NAME=VALUE words or as JSON
.TP
.B BRIGADE_DATA
folder with data sets
.TP
.B BRIGADE_CACHE_DIR
folder for cached plans
.TP
.B BRIGADE_PRESETS
folder with further presets
.SH EXIT STATUS
The exit status is 0 after success, 1 after a failure, and 2 after a mistake on the command line. When a signal ended the program, it is 128 plus the number of the signal (for brigade gpt pretrain: 0).
.SH SEE ALSO
.BR brigade (3)
END
} >"$folder/brigade.1"
rm "$folder/commands"
