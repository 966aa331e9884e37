/*
 * fast.h: how batch norms and group norms divide their work: parts are runs of channels, or of groups.
 */
#ifndef BGI_KERNELS_NORM_FAST_H
#define BGI_KERNELS_NORM_FAST_H

#include "kernels/cpu/rows.h"
#include "kernels/norm/channels.h"

enum {
    BGI_CHANNELS_LINE = 16, /* channels in a cache line, when they are adjacent */
    BGI_CHANNELS_TOGETHER =
        64, /* the largest number of channels that are processed together if each has several elements */
    BGI_CHANNELS_CHUNK = 1024 /* elements that are processed together */
};

/* Returns the number of channels in a group; parts consist of whole groups. */
static inline int64_t bgi_channels_group(const bgi_channels *all)
{
    return all->inner == 1 ? BGI_CHANNELS_LINE : 1;
}

static inline uint32_t bgi_channels_parts(const bgi_channels *all)
{
    const int64_t group = bgi_channels_group(all);

    return bgi_cpu_part_count((all->c + group - 1) / group, (double)all->n * (double)all->c * (double)all->inner,
                              BGI_ROWS_PART_ELEMENTS);
}

/* Returns the first channel of part `part`; the end of the part is the first channel of part + 1. */
static inline int64_t bgi_channels_start(const bgi_channels *all, uint32_t part)
{
    const int64_t group = bgi_channels_group(all);
    const int64_t start = bgi_cpu_part_start((all->c + group - 1) / group, part, bgi_channels_parts(all)) * group;

    return start < all->c ? start : all->c;
}

/* Returns the number of channels that are processed together: several small channels fill a chunk, because reading
 * adjacent memory is fastest. */
static inline int64_t bgi_channels_block(const bgi_channels *all)
{
    const int64_t fit = BGI_CHANNELS_CHUNK / all->inner;
    const int64_t most = all->inner == 1 ? BGI_CHANNELS_CHUNK : BGI_CHANNELS_TOGETHER;

    return fit < 1 ? 1 : fit > most ? most : fit;
}

/* Scratch: in the backward pass, dgamma and dbeta of each sample; then, for 16-bit types, three groups and the vectors
 * gamma and beta in float32 for each part. */
typedef struct bgi_group_work {
    bgi_groups all;
    bg_dtype dtype;
    uint32_t parts;
    int64_t c, group_floats, vector_floats, shared_floats, part_floats;
} bgi_group_work;

static inline bgi_group_work bgi_group_work_read(const bg_type *x, const bgi_group_norm_attributes *attributes,
                                                 bool is_backward)
{
    bgi_group_work w = {.all = bgi_groups_read(x, attributes), .dtype = x->dtype, .c = x->dims[1]};

    w.parts = bgi_cpu_part_count(w.all.n * w.all.groups, (double)bg_type_element_count(x), BGI_ROWS_PART_ELEMENTS);
    w.group_floats = w.dtype == BG_FLOAT32 ? 0 : bgi_cpu_round_up(w.all.length, 16);
    w.vector_floats = w.dtype == BG_FLOAT32 ? 0 : bgi_cpu_round_up(w.c, 16);
    w.shared_floats = is_backward ? bgi_cpu_round_up(2 * w.all.n * w.c, 16) : 0;
    w.part_floats = 3 * w.group_floats + 2 * w.vector_floats;
    return w;
}

#endif
