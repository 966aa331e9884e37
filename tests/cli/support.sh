# support.sh: what the script tests of the program share. Source it; end with `finish`.
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${BRIGADE_BUILD:-$root/build}" && pwd)
program=$build/brigade
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0 skipped=0

pass() {
    passed=$((passed + 1))
}

# fail NAME [DETAIL...]
fail() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

finish() {
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ]
    exit
}

# check NAME COMMAND...: passes when the command succeeds.
check() {
    check_name=$1
    shift
    if "$@"; then pass; else fail "$check_name: $*"; fi
}

# error CODE WORDS ARGUMENT...: the program must end with the code and one line on stderr that has the words.
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

# make_digits [COUNT TEST_COUNT]: a small set of digits in $folder/data.
make_digits() {
    "$program" data digits --dir "$folder/data" --count "${1:-1600}" --test-count "${2:-500}" >/dev/null ||
        { fail "brigade data digits"; finish; }
}
