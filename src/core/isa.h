/*
 * isa.h: which instruction set fast code may use. Files named *_avx2.c and *_avx512.c are compiled for theirs; who has
 * several forms of a function chooses among them with this.
 */
#ifndef BGI_CORE_ISA_H
#define BGI_CORE_ISA_H

typedef enum bgi_isa { BGI_ISA_PORTABLE = 0, BGI_ISA_AVX2, BGI_ISA_AVX512 } bgi_isa;

/* What the processor can do. */
bgi_isa bgi_cpu_isa(void);

#endif
