#!/bin/sh
# Checks for words and symbols that must not be in the tree or in the library. Usage: test_words.sh [BUILD]
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
build=${1:-${BRIGADE_BUILD:-build}}
passed=0 failed=0

check() { # name, text of findings ("" is good)
    if [ -n "$2" ]; then
        printf '%s:\n%s\n' "$1" "$2" | head -20
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

files=$(git ls-files 2>/dev/null | grep -v '^tests/style/test_words.sh$')
check "paths of a machine" "$(grep -nIE '(^|[ "=])/w[o]rk/|(^|[ "=])/r[o]ot/|/h[o]me/[a-z]|/tmp/b[a]sh' $files 2>/dev/null)"
check "unfinished work" "$(grep -nIE 'T[O]DO|F[I]XME|(^|[^X])X[X]X([^X]|$)|not i[m]plemented|for n[o]w' $(echo "$files" | grep -E '\.(c|h|sh|md)$|Makefile') 2>/dev/null)"
# American spelling, as is usual in the field. Exceptions are renamed items, another program's key, and intentionally
# wrong words.
check "spelling" "$(grep -noIiE '[a-z_]*(optimi|initiali|seriali|tokeni|normali|standardi|summari|recogni|synchroni|quanti|vectori|paralleli)s(e|es|ed|er|ers|ing|ation|ations)([^a-z]|$)|[a-z_]*(colour|neighbour|behaviour|centred|labelled|cancelled)[a-z_]*' $files 2>/dev/null |
    grep -vE '^CHANGELOG.md:|attention_serialisation|^src/profile/report.js:[0-9]*:labelledby$|^tests/(cli/test_errors.sh|checkpoint/test_checkpoint_compare.c):[0-9]*:optimiser')"
check "files without a head comment" "$(awk 'FNR == 1 && !/^\/\*/ { print FILENAME }' $(echo "$files" | grep -E '^(src|include|tests|bench|examples)/.*\.[ch]$'))"
check "the library prints, exits or aborts" "$(grep -nE '(^|[^a-z_])(printf|puts|putchar|perror|exit|abort|fprintf)[[:space:]]*\(' $(echo "$files" | grep -E '^src/' | grep -v '^src/cli/') 2>/dev/null |
    grep -vE '^[^:]*:[0-9]*:[[:space:]]*(/?\*|//)')"
if [ -f "$build/libbrigade.so" ]; then
    check "exported symbols that are not bg_" "$(nm -D --defined-only "$build/libbrigade.so" | awk '$2 ~ /[TDBR]/ && $3 !~ /^bg_/ && $3 !~ /^(_init|_fini|_edata|_end|__bss_start)$/ { print $3 }')"
    # Constant tables of pointers are in .data.rel.ro, which the loader writes once and then makes read-only.
    check "variables that can change (global state)" "$(find "$build/src" -name '*.o' ! -path '*/cli/*' | xargs objdump -t |
        awk '/file format/ { object = $1 }
            / O / { section = $(NF - 2); if (section ~ /^\.(data|bss)/ && section !~ /^\.data\.rel\.ro/) print object " " $NF }' |
        grep -vE '__|\.str|asan|ubsan|tsan')"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
