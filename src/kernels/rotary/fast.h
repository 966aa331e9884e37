/*
 * fast.h: how rotary positions divide their work. A piece of work is a position; all samples that share the position
 * use its angles.
 */
#ifndef BGI_KERNELS_ROTARY_FAST_H
#define BGI_KERNELS_ROTARY_FAST_H

#include "kernels/cpu/variant.h"
#include "kernels/rotary/attributes.h"

typedef struct bgi_rotary {
    bg_dtype dtype;
    bool has_positions;
    int64_t places, repeats; /* rows: repeats x places */
    int64_t heads, depth, width, pairs;
    int64_t row_floats, pair_floats, part_floats;
    uint32_t parts;
} bgi_rotary;

/* Returns the plan. Scratch of a part: frequencies in double, cosines, sines; a row of x and one of y, for 16-bit
 * types. */
static inline bgi_rotary bgi_rotary_plan(const bg_type *types, uint32_t input_count,
                                         const bgi_rotary_attributes *attributes)
{
    const bg_type *x = &types[0];
    bgi_rotary r = {.dtype = x->dtype,
                    .has_positions = input_count > 1 && types[1].dtype != BG_DTYPE_NONE,
                    .heads = attributes->heads,
                    .width = x->dims[x->rank - 1],
                    .pairs = attributes->features / 2};

    r.places = bgi_rotary_places(x, r.has_positions ? &types[1] : NULL);
    r.repeats = bg_type_element_count(x) / r.width / r.places;
    r.depth = r.width / r.heads;
    r.row_floats = bgi_cpu_round_up(r.width, 16);
    r.pair_floats = bgi_cpu_round_up(r.pairs, 16);
    r.part_floats = 4 * r.pair_floats + 2 * r.row_floats;
    /* a sine and a cosine take as long as thirty elements */
    r.parts = bgi_cpu_part_count(
        r.places, (double)r.places * ((double)r.repeats * (double)r.width + 30.0 * (double)r.pairs), 16384);
    return r;
}

#endif
