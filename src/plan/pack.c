/*
 * pack.c: first fit by decreasing size. Knows nothing of what it packs.
 */
#include "plan/pack.h"

#include <stdlib.h>
#include <string.h>

bool bgi_units_meet_in_time(const void *context, const bgi_unit *a, const bgi_unit *b)
{
    (void)context;
    return a->first <= b->last && b->first <= a->last;
}

/* Larger before smaller, then by number: an order that does not depend on the sort. */
static int compare_units(const void *a, const void *b)
{
    const bgi_unit *first = *(bgi_unit *const *)a, *second = *(bgi_unit *const *)b;

    if (first->size != second->size)
        return first->size > second->size ? -1 : 1;
    return first < second ? -1 : first > second;
}

/* Gives the unit the lowest offset at which it meets no placed unit. */
static void place_unit(bgi_unit **order, uint32_t placed_count, bgi_unit *unit, bgi_units_meet meet,
                       const void *context)
{
    uint32_t at = 0;

    unit->offset = 0;
    for (uint32_t i = 0; i < placed_count; i++) {
        const bgi_unit *other = order[i];
        if (!meet(context, other, unit))
            continue;
        if (other->offset >= unit->offset + unit->size)
            break;
        if (other->offset + other->size > unit->offset)
            unit->offset = other->offset + other->size;
    }
    while (at < placed_count && order[at]->offset <= unit->offset)
        at++;
    memmove(order + at + 1, order + at, (placed_count - at) * sizeof(bgi_unit *));
    order[at] = unit;
}

size_t bgi_pack(bgi_unit *units, uint32_t count, bgi_unit **order, bgi_units_meet meet, const void *context)
{
    size_t peak = 0;

    for (uint32_t i = 0; i < count; i++)
        order[i] = &units[i];
    qsort(order, count, sizeof(bgi_unit *), compare_units);
    for (uint32_t n = 0; n < count; n++) {
        bgi_unit *unit = order[n];
        place_unit(order, n, unit, meet, context);
        if (unit->offset + unit->size > peak)
            peak = unit->offset + unit->size;
    }
    return peak;
}
