/*
 * reuse.h: places transients in slots of the stash.
 */
#ifndef BGI_PLAN_REUSE_H
#define BGI_PLAN_REUSE_H

#include "plan/compile.h"
#include "plan/pack.h"

/* Arrays by value; times are positions of ops in their segment. */
typedef struct bgi_life_times {
    uint32_t *made_at;
    uint32_t *last_use; /* position of the value's last reader in segment used_in - 1 */
    uint32_t *used_in;
} bgi_life_times;

/* Sets the places of a segment's units. Units of at least `least_bytes` are placed in slots if possible. Other units
 * are placed behind `base`, or before it in the slot of the device's tail edge. The field places[i].edge is BGI_NO_EDGE
 * if the place is the same for all micro-batches. The first `value_units` units are values; each other unit is the
 * scratch memory of one call. The spans of units are those of the segment; values that the host reads afterward end at
 * its op_count. *out_peak: the bytes behind `base`. Returns false when memory is out. */
bool bgi_reuse_slots(bgi_compiler *c, uint32_t segment, const bgi_life_times *times, const bgi_unit *units,
                     uint32_t value_units, uint32_t count, size_t least_bytes, size_t base, bgi_operand *places,
                     size_t *out_peak);

/* Chooses each device's largest stash of one slot, which the layout puts right before the transients. Orders its values
 * so that the first ones to become free are next to the transients. Returns false when memory is out. */
bool bgi_choose_tail_edges(bgi_compiler *c);

#endif
