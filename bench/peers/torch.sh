# Benches that run PyTorch source this file. It finds a Python that has torch, and makes PyTorch compute as fast as it
# can. The caller defines `die` and may set PYTHON.
#
#   torch_find            sets `python`; fails when no Python has torch
#   torch_describe        sets `torch_line`, for tables: versions, BLAS, its core type, capabilities. Fails on a BLAS
#                         that is not optimized, because ratios to it would be meaningless
#   torch_capabilities    the values of ATEN_CPU_CAPABILITY to try; the fastest one counts
#   torch_fastest FILES   one row per key (all fields except the last two of CSV lines `key...,capability,rate`) with the
#                         highest rate: `key...,rate,capability`
#
# Debian's OpenBLAS does not recognize every processor by its model number, and then uses its oldest kernels. Therefore
# the script sets its core type by the instruction set: SkylakeX with AVX-512, Haswell with AVX2. OPENBLAS_CORETYPE in
# the environment takes precedence.

torch_find() {
    local candidate
    python=
    for candidate in ${PYTHON:-$(type -ap python3)}; do
        if "$candidate" -c 'import torch' 2>/dev/null; then
            python=$candidate
            return 0
        fi
    done
    return 1
}

torch_describe() {
    torch_capabilities=default
    if grep -qw avx512f /proc/cpuinfo; then
        : "${OPENBLAS_CORETYPE:=SkylakeX}"
        torch_capabilities="avx2 avx512"
    elif grep -qw avx2 /proc/cpuinfo; then
        : "${OPENBLAS_CORETYPE:=Haswell}"
        torch_capabilities=avx2
    fi
    [ -n "${OPENBLAS_CORETYPE:-}" ] && export OPENBLAS_CORETYPE
    torch_line=$("$python" bench/peers/torch_blas.py) || die "$torch_line"
    torch_line="$torch_line, the best of ATEN_CPU_CAPABILITY ${torch_capabilities// /, }"
}

torch_fastest() {
    awk -F, '{
            key = $1
            for (i = 2; i <= NF - 2; i++) key = key "," $i
            if (!(key in best)) order[++count] = key
            if (!(key in best) || $NF > best[key]) { best[key] = $NF; capability[key] = $(NF - 1) }
        }
        END { for (i = 1; i <= count; i++) print order[i] "," best[order[i]] "," capability[order[i]] }' "$@"
}
