#!/bin/sh
# Every public header compiles alone, as C11 and as C++17, with strict warnings.
. "$(dirname "$0")/support.sh"

warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror"

for header in "$root"/include/brigade.h "$root"/include/brigade/*.h; do
    name=${header#"$root/include/"}
    printf '#include <%s>\n#include <%s>\nint main(void);\nint main(void) { return 0; }\n' "$name" "$name" >"$folder/a.c"
    cp "$folder/a.c" "$folder/a.cc"
    # This header needs an MPI and is for programs that use one.
    if [ "$name" = brigade/mpi.h ]; then
        for mpi in openmpi mpich; do
            if command -v mpicc.$mpi >/dev/null 2>&1; then
                check "$name as C11, $mpi" mpicc.$mpi -std=c11 $warnings -I"$root/include" -fsyntax-only "$folder/a.c"
            else
                skipped=$((skipped + 1))
            fi
        done
        continue
    fi
    check "$name as C11" ${CC:-cc} -std=c11 $warnings -Wstrict-prototypes -I"$root/include" -fsyntax-only "$folder/a.c"
    if command -v ${CXX:-c++} >/dev/null 2>&1; then
        check "$name as C++17" ${CXX:-c++} -std=c++17 $warnings -I"$root/include" -fsyntax-only "$folder/a.cc"
    else
        skipped=$((skipped + 1))
    fi
done
# The main header includes all others, those of the core through core.h, except the MPI header, which needs mpi.h.
for header in "$root"/include/brigade/*.h; do
    [ "${header##*/}" = mpi.h ] && continue
    check "brigade.h includes ${header##*/}" grep -q "<brigade/${header##*/}>" "$root/include/brigade.h" "$root/include/brigade/core.h"
done
finish
