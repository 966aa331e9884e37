#!/bin/sh
# Tests the library inside another program that provides memory and threads, and has signal handlers and child
# processes; also linked with -static and under valgrind. The program, tests/embedding/program.c, uses only the core.
. "$(dirname "$0")/../cli/support.sh"
cd "$root" || exit 1

objects=
for room in $(sed -n 's/^CORE_ROOMS := //p' Makefile); do
    for source in src/"$room"/*.c src/"$room"/*/*.c; do
        [ -f "$source" ] && objects="$objects $build/${source%.c}.o"
    done
done
# Finds the sanitizer that the build folder's objects have.
sanitize=
if nm "$build/src/core/error.o" | grep -q __asan_; then sanitize=address,undefined; fi
if nm "$build/src/core/error.o" | grep -q __tsan_; then sanitize=thread; fi
if nm "$build/src/core/error.o" | grep -q __sanitizer_cov_; then sanitize=fuzzer-no-link,address,undefined; fi
compiler=${CC:-cc}
[ "${sanitize#fuzzer}" = "$sanitize" ] || compiler=clang
flags="-std=c11 -Wall -Wextra -Wpedantic -Werror -g -Iinclude ${sanitize:+-fsanitize=$sanitize}"

# runs NAME COMMAND...: runs all checks of the program.
runs() {
    run_name=$1
    shift
    "$@" >"$folder/out" 2>&1
    code=$?
    if [ "$code" -eq 0 ] && grep -q '^[45][0-9] passed, 0 failed$' "$folder/out"; then
        pass
    else
        fail "$run_name: exit code $code:" "$(cat "$folder/out")"
    fi
}

begin_case program
check "the program links" $compiler $flags tests/embedding/program.c $objects -lm -pthread -o "$folder/program"
runs "the program" "$folder/program"

# All threads are started by one function, which blocks their signals. (The MPI libraries have a separate one, because
# they link no internals.)
begin_case threads_begin_in_one_place
starters=$(find "$build/src" -name '*.o' ! -path '*/mpi/*' -exec nm -uA {} + | sed -n 's|^.*/src/\(.*\): .* pthread_create$|\1|p')
check "files that start threads: $starters" test "$starters" = core/threads.o

# The library installs no signal handlers: its objects do not refer to such functions. Workers block signals
# (pthread_sigmask), so that the program's threads get them.
begin_case no_signal_handlers
known=$(find "$build/src" -name '*.o' ! -path '*/cli/*' ! -path '*/mpi/*' -exec nm -u {} + |
    grep -wE 'sigaction|signal|bsd_signal|__sysv_signal|sigwait|sigwaitinfo|signalfd|sigaltstack|atexit|pthread_atfork|__register_atfork|on_exit')
if [ -z "$sanitize" ]; then
    check "handlers: $known" test -z "$known"
else
    skipped=$((skipped + 1))
fi

begin_case static
if [ -z "$sanitize" ] && echo 'int main(void) { return 0; }' >"$folder/one.c" && $compiler -static "$folder/one.c" -o "$folder/one" 2>/dev/null; then
    check "the program links with -static" $compiler $flags -static tests/embedding/program.c $objects -lm -pthread -o "$folder/static"
    check "it brings no library" sh -c 'LC_ALL=C ldd "$1" 2>&1 | grep -q "not a dynamic executable"' sh "$folder/static"
    runs "the static program" "$folder/static"
else
    echo "skipped: a sanitizer, or no static C library"
    skipped=$((skipped + 1))
fi

begin_case valgrind
if [ -z "$sanitize" ] && command -v valgrind >/dev/null 2>&1; then
    runs "under valgrind" env BRIGADE_TEST_QUICK=1 valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect \
        --fair-sched=try --child-silent-after-fork=yes "$folder/program"
    check "it says nothing: $(grep '^==' "$folder/out" | head -n 20)" sh -c '! grep -q "^==" "$1"' sh "$folder/out"
else
    echo "skipped: a sanitizer, or no valgrind"
    skipped=$((skipped + 1))
fi
finish
