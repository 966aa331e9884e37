/*
 * isa.c: which instruction set fast code may use.
 */
#include "core/isa.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <stdbool.h>

/* Older compilers have no name for it in __builtin_cpu_supports. Its registers are AVX's. Asking the processor itself
 * takes a virtual machine tens of microseconds: only those ask who must. */
static bool has_f16c(void)
{
#if !defined(__clang__) && __GNUC__ >= 11
    return __builtin_cpu_supports("f16c");
#else
    unsigned eax, ebx, ecx, edx;

    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
#endif
}
#endif

bgi_isa bgi_cpu_isa(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
        return BGI_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
        return BGI_ISA_AVX2;
#endif
    return BGI_ISA_PORTABLE;
}
