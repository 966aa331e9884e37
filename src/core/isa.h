/*
 * isa.h: finds the instruction set that fast code may use. Files named *_avx2.c, *_avx512.c, *_avx512bf16.c, *_amx.c
 * and *_neon.c are compiled for these instruction sets. Code with several forms of a function chooses one with this
 * header. Each set of x86-64 includes all earlier ones of x86-64; aarch64 has one set. Every processor has the portable
 * set.
 */
#ifndef BGI_CORE_ISA_H
#define BGI_CORE_ISA_H

#include <stdbool.h>

/* In this order `isa >= BGI_ISA_AVX2` is false on aarch64, and so is the comparison with a later set of x86-64. */
typedef enum bgi_isa {
    BGI_ISA_PORTABLE = 0,
    BGI_ISA_NEON, /* aarch64 */
    BGI_ISA_AVX2, /* from here on x86-64 */
    BGI_ISA_AVX512,
    BGI_ISA_AVX512_BF16, /* products of bfloat16 in pairs */
    BGI_ISA_AMX,         /* products of bfloat16 in pairs and in tiles */
    BGI_ISA_COUNT
} bgi_isa;

/* Returns the largest set that the processor supports and the system allows. Linux gives tiles only to processes that
 * request them, which this function does. */
bgi_isa bgi_cpu_isa(void);

/* Whether `isa` is the set `has`, or a set that `has` includes. */
bool bgi_isa_includes(bgi_isa has, bgi_isa isa);

/* Returns the largest set that two processors have in common. */
bgi_isa bgi_isa_common(bgi_isa a, bgi_isa b);

/* Returns "portable", "neon", "avx2", "avx512", "avx512-bf16" or "amx". */
const char *bgi_isa_name(bgi_isa isa);

#endif
