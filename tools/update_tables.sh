#!/bin/sh
# Rewrites the tables of documents that come from the program's tables, between the lines
#
#   <!-- table: ARGUMENTS of `brigade options --to markdown` -->
#   <!-- end of table -->
#
# `<!-- table: flags -->` is the table of the flags of all commands, from their help.
#
#   tools/update_tables.sh PROGRAM FILE...
set -eu
program=$1
shift
made=$(mktemp)
table=$(mktemp)
trap 'rm -f "$made" "$table"' EXIT

# Prints the commands that have options, as listed in the help. `brigade plan MODEL` has those of the model's command.
commands() {
    for command in $("$program" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
        case $command in
        gpt | data) "$program" $command --help | sed -n "s/^  \([a-z]*\)  .*/$command \1/p" ;;
        plan) ;;
        *) echo "$command" ;;
        esac
    done
}

# Prints a row for each flag and description, with the commands that have it and their defaults.
flags() {
    printf '| Flag | Commands | Default | What it does |\n|---|---|---|---|\n'
    commands | while read -r command; do
        # shellcheck disable=SC2086
        "$program" $command --help table </dev/null | sed "s/^[^\t]*\t/$command\t/"
    done | awk -F'\t' '
        function cell(text) {
            gsub(/\|/, "\\|", text)
            return text
        }
        {
            key = $2 "\t" $3 "\t" $5
            if (!(key in commands))
                keys[++count] = key
            commands[key] = commands[key] (key in commands && commands[key] != "" ? ", " : "") $1
            differs[key] = differs[key] || (key in standard && standard[key] != $4)
            standard[key] = $4
            all[key] = all[key] (all[key] != "" ? "; " : "") $1 ": " $4
        }
        END {
            for (i = 1; i <= count; i++) {
                split(keys[i], part, "\t")
                printf "| `%s%s` | %s | %s | %s |\n", part[1], part[2] != "" ? " " cell(part[2]) : "", commands[keys[i]],
                    cell(differs[keys[i]] ? all[keys[i]] : standard[keys[i]]), cell(part[3])
            }
        }' | LC_ALL=C sort
}

for file; do
    grep -q '^<!-- table: ' "$file" || continue
    : >"$made"
    skips=0
    while IFS= read -r line; do
        case $line in
        '<!-- table: '*)
            arguments=${line#<!-- table: }
            arguments=${arguments% -->}
            [ "$arguments" = options ] && arguments=''
            if [ "$arguments" = flags ]; then
                flags >"$table"
            else
                # shellcheck disable=SC2086
                "$program" options --to markdown $arguments >"$table"
            fi
            printf '%s\n\n' "$line" >>"$made"
            cat "$table" >>"$made"
            printf '\n' >>"$made"
            skips=1
            ;;
        '<!-- end of table -->')
            skips=0
            printf '%s\n' "$line" >>"$made"
            ;;
        *) [ "$skips" -eq 1 ] || printf '%s\n' "$line" >>"$made" ;;
        esac
    done <"$file"
    cmp -s "$made" "$file" || cat "$made" >"$file"
done
