/*
 * isa.c: finds the instruction set that fast code may use.
 */
#define _DEFAULT_SOURCE /* syscall */
#include "core/isa.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <stdbool.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Whether the processor converts float16. Older compilers have no name for F16C in __builtin_cpu_supports. In a virtual
 * machine the instruction cpuid takes tens of microseconds, so it is used only for these compilers. */
static bool has_f16c(void)
{
#if !defined(__clang__) && __GNUC__ >= 11
    return __builtin_cpu_supports("f16c");
#else
    unsigned eax, ebx, ecx, edx;

    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
#endif
}

/* Requests tiles from the system; returns whether it allows them. Tiles add eight kilobytes to the state that the
 * system saves for a thread, so Linux allows them only to processes that request them. A process may request them more
 * than once. */
static bool may_use_tiles(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

static bool has_amx(void)
{
#if !defined(__clang__) && __GNUC__ >= 11
    return __builtin_cpu_supports("amx-bf16") && __builtin_cpu_supports("amx-tile") && may_use_tiles();
#else
    enum { BF16 = 1u << 22, TILES = 1u << 24 };
    unsigned eax, ebx, ecx, edx;

    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & BF16) != 0 && (edx & TILES) != 0 &&
           may_use_tiles();
#endif
}
#endif

bgi_isa bgi_cpu_isa(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
        return !__builtin_cpu_supports("avx512bf16") ? BGI_ISA_AVX512 : has_amx() ? BGI_ISA_AMX : BGI_ISA_AVX512_BF16;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
        return BGI_ISA_AVX2;
#endif
#if defined(__aarch64__)
    return BGI_ISA_NEON; /* every processor of this architecture has it */
#else
    return BGI_ISA_PORTABLE;
#endif
}

bool bgi_isa_includes(bgi_isa has, bgi_isa isa)
{
    return isa == BGI_ISA_PORTABLE || isa == has || (isa > BGI_ISA_NEON && isa < has);
}

bgi_isa bgi_isa_common(bgi_isa a, bgi_isa b)
{
    return bgi_isa_includes(a, b) ? b : bgi_isa_includes(b, a) ? a : BGI_ISA_PORTABLE;
}

const char *bgi_isa_name(bgi_isa isa)
{
    static const char *const names[BGI_ISA_COUNT] = {[BGI_ISA_PORTABLE] = "portable",
                                                     [BGI_ISA_NEON] = "neon",
                                                     [BGI_ISA_AVX2] = "avx2",
                                                     [BGI_ISA_AVX512] = "avx512",
                                                     [BGI_ISA_AVX512_BF16] = "avx512-bf16",
                                                     [BGI_ISA_AMX] = "amx"};

    return (unsigned)isa < BGI_ISA_COUNT ? names[isa] : "unknown";
}
