/*
 * variant_avx512.c: the fast kernels for AVX-512. Without its compiler flags (on another architecture) the file is
 * empty.
 */
#include "kernels/cpu/variant.h"

#if defined(__AVX512F__)
#define BGI_VARIANT bgi_cpu_avx512
#include "kernels/cpu/variant_body.h"
#endif
