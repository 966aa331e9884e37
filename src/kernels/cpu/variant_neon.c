/*
 * variant_neon.c: the fast kernels for NEON, which every aarch64 processor has. On another architecture the file is
 * empty.
 */
#include "kernels/cpu/variant.h"

#if defined(__aarch64__)
#define BGI_NEON
#define BGI_VARIANT bgi_cpu_neon
#include "kernels/cpu/variant_body.h"
#endif
