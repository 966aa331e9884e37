/*
 * variant_portable.c: the fast kernels in plain vectors of four, for every processor.
 */
#define BGI_VARIANT bgi_cpu_portable
#include "kernels/cpu/variant_body.h"
