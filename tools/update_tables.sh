#!/bin/sh
# Writes the tables of documents anew that come from the program's tables: what stands between
#
#   <!-- table: ARGUMENTS of `brigade options --to markdown` -->
#   <!-- end of table -->
#
#   tools/update_tables.sh PROGRAM FILE...
set -eu
program=$1
shift
made=$(mktemp)
table=$(mktemp)
trap 'rm -f "$made" "$table"' EXIT
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
            # shellcheck disable=SC2086
            "$program" options --to markdown $arguments >"$table"
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
