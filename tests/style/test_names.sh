#!/bin/sh
# Names in the documents exist: functions, types and constants of the headers, members of bg_options, options of the
# program.
. "$(dirname "$0")/../cli/support.sh"
cd "$root" || exit 1
documents="README.md CONTRIBUTING.md SECURITY.md examples/README.md $(ls docs/*.md docs/*/*.md)"

# unknown KNOWN PATTERN DOCUMENT...: prints "DOCUMENT NAME" for names that match the pattern and are in no line of
# KNOWN. It ignores names of files, families of names that end with `_` or `*`, and the first columns of tables with
# other systems' names.
unknown() {
    known=$1 pattern=$2
    shift 2
    awk -v pattern="$pattern" '
        FILENAME == ARGV[1] { known[$0] = 1; next }
        FNR == 1 { skip = 0 }
        /^\| *[Tt]here *\|/ { skip = 1 }
        !/^\|/ { skip = 0 }
        skip { sub(/^\|[^|]*\|/, "") }
        {
            gsub(/[A-Za-z_.\/-]+[.](c|h|md|py|sh|svg|json|html)[^a-z_]/, " ")
            text = " " $0
            while (match(text, "[^-A-Za-z0-9_]" pattern "[_*]?")) {
                name = substr(text, RSTART + 1, RLENGTH - 1)
                text = substr(text, RSTART + RLENGTH)
                if (name !~ /[_*]$/ && !(name in known)) print FILENAME, name
            }
        }' "$known" "$@" | LC_ALL=C sort -u
}

symbol='(bg|BG)_[A-Za-z0-9_]+'
member='options[.](execution|memory|replicas|numerics|files|reporting)[.][a-z_0-9]+'
flag='--[a-z][a-z0-9-]*[a-z0-9]'

# Words of the headers, of the Python package, and of programs whose code a page shows; for pages about internals, also
# of the sources.
begin_case symbols
echo bg_function >"$folder/symbols" # stands for any name in docs/embedding.md
cat include/brigade.h include/brigade/* python/brigade/*.py tests/ops/test_check.c examples/*.[chf]* examples/tutorial/*.c |
    grep -oE "\\b$symbol" | sort -u >>"$folder/symbols"
cat src/*/*.[ch] src/*/*.def src/kernels/*/*.[ch] include/brigade/*.h | grep -oE "\\b$symbol" | sort -u >"$folder/inside"
inside="docs/architecture.md docs/adding-an-op.md"
others=$(echo "$documents" | tr ' ' '\n' | grep -vxF -e docs/architecture.md -e docs/adding-an-op.md)
found=$(unknown "$folder/symbols" "$symbol" $others)
check "the headers have no: $found" test -z "$found"
found=$(unknown "$folder/inside" "$symbol" $inside)
check "the sources have no: $found" test -z "$found"

# options.GROUP.MEMBER: a member of the struct bg_GROUP_options.
begin_case members
for group in execution memory replicas numerics files reporting; do
    sed -n "/^typedef struct bg_${group}_options {/,/^} bg_${group}_options;/p" include/brigade/options.h | sed 's,/\*.*,,' |
        grep -oE '[a-z_0-9]+' | sed "s/^/options.$group./"
done >"$folder/members"
found=$(unknown "$folder/members" "$member" $documents)
check "bg_options has no: $found" test -z "$found"

# --option must be in a command's help, or belong to another program on the page.
begin_case options
cat >"$folder/flags" <<END
--cflags
--libs
--static
--host
--oversubscribe
--mca
--bind-to
--record
--roofline
--bfloat16
--kill-on-bad-exit
--mpi
--ntasks-per-node
--schedul
--losses
--draw
--beside
--eval
--float16
--processor-time
--wandb
--batch
--network
--only
--slower
--tool
--clip-grad
--loss-scale
--pipeline-model-parallel-size
--recompute-granularity
END
help() { # the whole help, even if `--help` shows only the most needed options
    "$program" "$@" --help 2>/dev/null
    "$program" "$@" --help all 2>/dev/null
}
parts() { # prints the words of the help on standard input
    sed -n '/^Commands:/,/^$/p' | awk '/^  [a-z]/ { print $1 }'
}
for command in $(help | parts); do
    help "$command"
    for part in $(help "$command" | parts); do
        help "$command" "$part"
    done
done >"$folder/help"
{ help; help plan mnist; help plan train; cat "$folder/help"; } | grep -oE -- "$flag" >>"$folder/flags"
check "commands have options" test "$(sort -u "$folder/flags" | wc -l)" -gt 150
found=$(unknown "$folder/flags" "$flag" $documents)
check "no command has: $found" test -z "$found"

# The last columns of docs/migrating.md: a word in backquotes with an underscore is of the headers, or a field of the GPT
# configuration.
begin_case migrating
{
    cat include/brigade/*.h src/config/*.def src/cli/*.def 2>/dev/null | grep -oE '[a-z][a-z0-9]*(_[a-z0-9]+)+'
    grep -oE '^ *[a-z_0-9]+:' share/presets/gpt/*.yaml | sed 's/.*[: ]\([a-z_0-9]*\):$/\1/'
} | LC_ALL=C sort -u >"$folder/words"
grep -E '^\|' docs/migrating.md | sed -E 's/^\|[^|]*\|//' | grep -oE '`[^`]*`' | grep -oE '[a-z][a-z0-9]*(_[a-z0-9]+)+' | LC_ALL=C sort -u >"$folder/used"
check "docs/migrating.md has rows" test "$(wc -l <"$folder/used")" -gt 60
found=$(LC_ALL=C comm -13 "$folder/words" "$folder/used" | tr '\n' ' ')
check "nothing has the names: $found" test -z "$found"

# A page with names that do not exist, in a table and after other text.
begin_case damage
cat >"$folder/page.md" <<END
\`bg_graph_creat\` and \`options.memory.budgets\`, with \`--recomputed stage\`; \`bg_graph_create\`, \`bg_plan_*\`, \`BG_ROLE_\`.

| There | Here |
|---|---|
| \`--their-option\`, \`bg_theirs\` | \`--stages\`, \`bg_ours\` |
END
notices() { # KNOWN PATTERN NAME...
    found=$(unknown "$folder/$1" "$2" "$folder/page.md" | sed 's/.* //' | tr '\n' ' ')
    shift 2
    check "notices $*: $found" test "$found" = "$* "
}
notices symbols "$symbol" bg_graph_creat bg_ours
notices members "$member" options.memory.budgets
notices flags "$flag" --recomputed
finish
