/*
 * isa.h: the instruction set that fast code may use. Files named *_avx2.c, *_avx512.c, *_avx512bf16.c and *_amx.c are
 * compiled for these sets. Code with several forms of a function chooses one with this header. Each set includes all
 * earlier ones.
 */
#ifndef BGI_CORE_ISA_H
#define BGI_CORE_ISA_H

typedef enum bgi_isa {
    BGI_ISA_PORTABLE = 0,
    BGI_ISA_AVX2,
    BGI_ISA_AVX512,
    BGI_ISA_AVX512_BF16, /* products of bfloat16 in pairs */
    BGI_ISA_AMX,         /* and in tiles */
    BGI_ISA_COUNT
} bgi_isa;

/* What the processor supports and the system allows: Linux gives tiles to processes that ask, which this function
 * does. */
bgi_isa bgi_cpu_isa(void);

/* "portable", "avx2", "avx512", "avx512-bf16", "amx" */
const char *bgi_isa_name(bgi_isa isa);

#endif
