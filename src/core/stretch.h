/*
 * stretch.h: describes a part of a tensor (a shard or a section) as runs of elements that are contiguous both in the
 * part and in the whole tensor. Code uses the runs to copy between part and whole, and to make the values of the part
 * without the whole tensor.
 */
#ifndef BGI_CORE_STRETCH_H
#define BGI_CORE_STRETCH_H

#include <brigade/graph.h>

/* A run of `length` elements; `whole` and `part` are the positions of its first element in the two tensors. */
typedef struct bgi_stretch {
    int64_t whole, part, length;
} bgi_stretch;

typedef void bgi_visit_stretch(void *user, const bgi_stretch *stretch);

/* Visits the shard at these coordinates, without its padding (shard.c). Errors: those of bg_shard_cut. */
bg_status bgi_shard_walk(const bg_mesh *mesh, const bg_shard *shard, const bg_mesh *coordinates,
                         bgi_visit_stretch *visit, void *user, bg_error *error);
/* Visits the elements of a section (section.c). */
void bgi_section_walk(const bg_section *section, bgi_visit_stretch *visit, void *user);

#endif
