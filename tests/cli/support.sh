# support.sh: code that the script tests of the program share. Source it; end with `finish`.
#
# A script has named cases. `begin_case NAME`, on a separate line, starts a case, which lasts until the next case or
# `end_case`. `finish` prints a line with the counts of each case. A case that never began, or that made no check,
# fails. A name in docs/capabilities.md therefore refers to checks that ran.
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
script=$root/tests/$(basename "$(cd "$(dirname "$0")" && pwd)")/$(basename "$0")
build=$(cd "${BRIGADE_BUILD:-$root/build}" && pwd)
program=$build/brigade
# The build folder may be anywhere; presets come from this source tree.
export BRIGADE_PRESETS=$root/share/presets
folder=$(mktemp -d)
# `brigade plan` measures only if a test requests it, and stores measurements here.
export BRIGADE_CALIBRATE=never XDG_CACHE_HOME=$folder/.cache
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0 skipped=0
case_name='' case_lines='' cases_begun=' '

pass() {
    passed=$((passed + 1))
}

# await_handler PID: waits until the program catches SIGTERM, and a little longer, so that it is working. If the system
# does not report which signals a process catches, the function waits only for the short time.
await_handler() {
    handler_tries=0
    while [ -r "/proc/$1/status" ] && [ $handler_tries -lt 600 ]; do
        # Bit 14 of the mask is signal 15.
        case $(sed -n 's/^SigCgt:.*\(.\)...$/\1/p' "/proc/$1/status" 2>/dev/null) in [4-7c-f]) break ;; esac
        handler_tries=$((handler_tries + 1))
        sleep 0.05
    done
    sleep 0.5
}

# fail NAME [DETAIL...]: counts a failure and prints it.
fail() {
    echo "FAILED: ${case_name:+$case_name: }$*"
    failed=$((failed + 1))
}

begin_case() {
    end_case
    case_name=$1 case_passed=$passed case_failed=$failed case_skipped=$skipped
    cases_begun="$cases_begun$1 "
}

end_case() {
    [ -n "$case_name" ] || return 0
    [ $((passed + failed + skipped)) -gt $((case_passed + case_failed + case_skipped)) ] || fail "no check"
    case_lines="${case_lines}case $case_name: $((passed - case_passed)) passed, $((failed - case_failed)) failed
"
    case_name=
}

# Checks that every case of the script began, unless cases were skipped, for example under sanitizers.
check_cases() {
    for declared in $(sed -n 's/^ *begin_case \([A-Za-z0-9_-]*\)$/\1/p' "$script"); do
        case $cases_begun in
        *" $declared "*) ;;
        *) [ "$skipped" -gt 0 ] || [ -n "${BRIGADE_TEST_QUICK:-}" ] || fail "the case $declared never began" ;;
        esac
    done
}

finish() {
    end_case
    check_cases
    printf '%s' "$case_lines"
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ]
    exit
}

# check NAME COMMAND...: passes if the command succeeds.
check() {
    check_name=$1
    shift
    if "$@"; then pass; else fail "$check_name: $*"; fi
}

# error CODE WORDS ARGUMENT...: the program must exit with the code and print one line with the words on stderr.
error() {
    error_code=$1 error_words=$2
    shift 2
    "$program" "$@" >"$folder/out" 2>"$folder/err" </dev/null
    error_got=$?
    if [ "$error_got" -ne "$error_code" ]; then
        fail "$* ends with $error_got instead of $error_code:" "$(cat "$folder/err")"
    elif [ "$(wc -l <"$folder/err")" -ne 1 ]; then
        fail "$* does not say one line:" "$(cat "$folder/err")"
    elif ! grep -q -F -e "$error_words" "$folder/err"; then
        fail "$* does not say \`$error_words\`:" "$(cat "$folder/err")"
    else
        pass
    fi
}

# make_digits [COUNT TEST_COUNT]: makes a small set of digits in $folder/data.
make_digits() {
    "$program" data digits --dir "$folder/data" --count "${1:-1600}" --test-count "${2:-500}" >/dev/null ||
        { fail "brigade data digits"; finish; }
}
