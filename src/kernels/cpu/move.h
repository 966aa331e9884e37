/*
 * move.h: how kernels that move rows of elements divide their work.
 */
#ifndef BGI_CPU_MOVE_H
#define BGI_CPU_MOVE_H

#include "kernels/cpu/variant.h"

#define BGI_MOVE_PART_BYTES (256 * 1024)

/* Returns the number of parts of a row-wise move; rows are not split. */
static inline uint32_t bgi_move_parts(int64_t rows, const bg_type *type)
{
    return bgi_cpu_part_count(rows, (double)bg_type_size_bytes(type), BGI_MOVE_PART_BYTES);
}

#endif
