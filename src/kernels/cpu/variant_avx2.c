/*
 * variant_avx2.c: the fast kernels for AVX2. Without its compiler flags (on another architecture) the file is empty.
 */
#include "kernels/cpu/variant.h"

#if defined(__AVX2__)
#define BGI_VARIANT bgi_cpu_avx2
#include "kernels/cpu/variant_body.h"
#endif
