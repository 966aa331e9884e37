/*
 * variant_body.h: all fast kernels for the instruction set of the including file, and their table, in the order of
 * kernels.def. The includer defines BGI_VARIANT, the table's name.
 */
#include "kernels/cpu/variant.h"

#define BGI_FAMILY_FILE(family) <kernels/family/fast_body.h>
#include "kernels/kernels.def"

const bgi_cpu_variant BGI_VARIANT = {
    .lanes = LANES,
    .routines =
        {
#define BGI_KERNEL(ID, name, attributes_bytes)
#define BGI_FAST_KERNEL(ID, kernel, attributes_bytes, ...)                                                             \
    [BGI_KERNEL_##ID] = {.name = #kernel "." BGI_VARIANT_NAME, .shape = bgi_cpu_shape_##kernel, __VA_ARGS__},
#include "kernels/kernels.def"
        },
};
