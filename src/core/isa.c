/*
 * isa.c: which instruction set fast code may use.
 */
#include "core/isa.h"

bgi_isa bgi_cpu_isa(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
        return BGI_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
        return BGI_ISA_AVX2;
#endif
    return BGI_ISA_PORTABLE;
}
