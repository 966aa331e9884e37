/*
 * pack.c: places units of memory by first fit, the largest unit first. It does not know the units' contents.
 *
 * A unit must not share bytes with units that are needed at the same time. Comparing it with each of them is quadratic,
 * and thousands of layers have 100,000 units. So a segment tree over the times at which spans begin and end records the
 * bytes in use: its nodes hold sets of byte ranges.
 *
 *     moments       0   1   2   3         a span [1, 3] is cut into the nodes that it covers: [1, 1] and [2, 3]
 *                 [     0 - 3     ]       covering   ranges of the units that need the node's whole stretch
 *                 [ 0-1 ] [ 2 - 3 ]       touching   ranges of the units that need any moment of it
 *                 [0] [1] [2] [3]
 *
 * A unit shares time with a span if it touches a node that the span is cut into, or covers an ancestor of such a node.
 * A set keeps the union of its ranges. Units are packed densely, so a set has few ranges even for many units, and the
 * lowest fit is found by jumping over ranges.
 */
#include "plan/pack.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"

enum { MOST_NODES = 128 }; /* the largest number of nodes that a span is cut into, two for each level */

typedef struct range {
    size_t begin, end;
} range;

/* Disjoint ranges that do not touch, ascending; malloc'ed. */
typedef struct range_set {
    range *ranges;
    size_t count, capacity;
} range_set;

typedef struct node {
    range_set covering, touching;
} node;

/* A tree of 2 * size nodes: node 1 is the root, nodes size .. 2 size - 1 are the moments. */
typedef struct packer {
    uint32_t *moments; /* ascending */
    size_t moment_count, size;
    node *nodes;
    const range_set **sets; /* the sets whose ranges the current unit must avoid */
    size_t set_count, set_capacity;
} packer;

/* ---- ranges ---- */

/* Finds the first range that ends after `offset`. */
static size_t find_range(const range_set *set, size_t offset)
{
    size_t low = 0, high = set->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (set->ranges[middle].end > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Adds [begin, end) to the union of ranges. */
static bool add_range(range_set *set, size_t begin, size_t end)
{
    /* Ranges that touch the new one join it, from the first that ends at or after `begin`. */
    const size_t first = begin > 0 ? find_range(set, begin - 1) : 0;
    size_t behind = first;

    while (behind < set->count && set->ranges[behind].begin <= end) {
        begin = set->ranges[behind].begin < begin ? set->ranges[behind].begin : begin;
        end = set->ranges[behind].end > end ? set->ranges[behind].end : end;
        behind++;
    }
    if (behind == first) {
        if (!bgi_array_reserve((void **)&set->ranges, &set->capacity, set->count + 1, sizeof *set->ranges))
            return false;
        memmove(set->ranges + first + 1, set->ranges + first, (set->count - first) * sizeof *set->ranges);
        set->count++;
    } else {
        memmove(set->ranges + first + 1, set->ranges + behind, (set->count - behind) * sizeof *set->ranges);
        set->count -= behind - first - 1;
    }
    set->ranges[first] = (range){begin, end};
    return true;
}

/* Finds the lowest offset of `size` bytes that are in none of the sets. */
static size_t find_gap(const packer *p, size_t size)
{
    size_t offset = 0, passed = 0;

    /* The loop ends when every set in turn has accepted the offset. */
    for (size_t i = 0; passed < p->set_count; i = (i + 1) % p->set_count) {
        const range_set *set = p->sets[i];
        size_t at = find_range(set, offset);
        const size_t before = offset;
        while (at < set->count && set->ranges[at].begin < offset + size)
            offset = set->ranges[at++].end;
        passed = offset == before ? passed + 1 : 1;
    }
    return offset;
}

/* ---- moments ---- */

static bool is_empty(const bgi_span *span)
{
    return span->last < span->first;
}

static int compare_moments(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static size_t find_moment(const packer *p, uint32_t moment)
{
    const uint32_t *found = bsearch(&moment, p->moments, p->moment_count, sizeof *p->moments, compare_moments);

    return (size_t)(found - p->moments);
}

/* Whether spans overlap depends only on the order of their ends, so moments between ends are left out. */
static bool list_moments(packer *p, const bgi_unit *units, uint32_t count)
{
    size_t most = 0, different = 0;

    for (uint32_t i = 0; i < count; i++)
        most += 2 * (size_t)units[i].span_count;
    p->moments = malloc((most + 1) * sizeof *p->moments);
    if (p->moments == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t s = 0; s < units[i].span_count; s++)
            if (!is_empty(&units[i].spans[s])) {
                p->moments[p->moment_count++] = units[i].spans[s].first;
                p->moments[p->moment_count++] = units[i].spans[s].last;
            }
    if (p->moment_count > 0)
        qsort(p->moments, p->moment_count, sizeof *p->moments, compare_moments);
    for (size_t i = 0; i < p->moment_count; i++)
        if (different == 0 || p->moments[i] != p->moments[different - 1])
            p->moments[different++] = p->moments[i];
    p->moment_count = different;
    for (p->size = 1; p->size < p->moment_count;)
        p->size *= 2;
    p->nodes = calloc(2 * p->size, sizeof *p->nodes);
    return p->nodes != NULL;
}

/* Lists the nodes that a span is cut into, from the bottom up. */
static uint32_t cut_span(const packer *p, const bgi_span *span, size_t *nodes)
{
    uint32_t count = 0;

    for (size_t left = p->size + find_moment(p, span->first), right = p->size + find_moment(p, span->last) + 1;
         left < right; left /= 2, right /= 2) {
        if ((left & 1) != 0)
            nodes[count++] = left++;
        if ((right & 1) != 0)
            nodes[count++] = --right;
    }
    return count;
}

/* ---- units ---- */

static bool look_at(packer *p, const range_set *set)
{
    if (set->count == 0)
        return true;
    if (!bgi_array_reserve((void **)&p->sets, &p->set_capacity, p->set_count + 1, sizeof *p->sets))
        return false;
    p->sets[p->set_count++] = set;
    return true;
}

/* A unit that covers a node above those that the span is cut into shares time with the span. Such a node extends beyond
 * the span, so it is above the span's first or last moment. */
static bool look_at_span(packer *p, const bgi_span *span)
{
    size_t nodes[MOST_NODES];
    const uint32_t count = is_empty(span) ? 0 : cut_span(p, span, nodes);
    bool good = true;

    for (uint32_t i = 0; good && i < count; i++)
        good = look_at(p, &p->nodes[nodes[i]].touching);
    for (size_t n = count > 0 ? p->size + find_moment(p, span->first) : 0; good && n > 0; n /= 2)
        good = look_at(p, &p->nodes[n].covering);
    for (size_t n = count > 0 ? p->size + find_moment(p, span->last) : 0; good && n > 0; n /= 2)
        good = look_at(p, &p->nodes[n].covering);
    return good;
}

static bool occupy(packer *p, const bgi_span *span, size_t begin, size_t end)
{
    size_t nodes[MOST_NODES];
    const uint32_t count = is_empty(span) ? 0 : cut_span(p, span, nodes);
    bool good = true;

    for (uint32_t i = 0; good && i < count; i++) {
        good = add_range(&p->nodes[nodes[i]].covering, begin, end);
        for (size_t n = nodes[i]; good && n > 0; n /= 2)
            good = add_range(&p->nodes[n].touching, begin, end);
    }
    return good;
}

static bool occupy_unit(packer *p, const bgi_unit *unit)
{
    bool good = true;

    for (uint32_t s = 0; good && unit->size > 0 && s < unit->span_count; s++)
        good = occupy(p, &unit->spans[s], unit->offset, unit->offset + unit->size);
    return good;
}

static bool place_unit(packer *p, bgi_unit *unit, size_t limit)
{
    bool good = true;

    unit->offset = 0;
    if (unit->size == 0)
        return true;
    p->set_count = 0;
    for (uint32_t s = 0; good && s < unit->span_count; s++)
        good = look_at_span(p, &unit->spans[s]);
    if (good)
        unit->offset = find_gap(p, unit->size);
    if (unit->offset > limit || unit->size > limit - unit->offset) {
        unit->offset = BGI_UNIT_HAS_NO_PLACE;
        return good;
    }
    return good && occupy_unit(p, unit);
}

/* Orders larger units before smaller ones, and equal ones by number, so that the order does not depend on the sort. */
static int compare_units(const void *a, const void *b)
{
    const bgi_unit *first = *(bgi_unit *const *)a, *second = *(bgi_unit *const *)b;

    if (first->size != second->size)
        return first->size > second->size ? -1 : 1;
    return first < second ? -1 : first > second;
}

static void clear_packer(packer *p)
{
    for (size_t n = 0; p->nodes != NULL && n < 2 * p->size; n++) {
        free(p->nodes[n].covering.ranges);
        free(p->nodes[n].touching.ranges);
    }
    free(p->nodes);
    free(p->moments);
    free(p->sets);
}

/* Places the units after the first `fixed_count`, which already have offsets. */
static bool pack(bgi_unit *units, uint32_t fixed_count, uint32_t count, size_t limit)
{
    packer p = {0};
    bgi_unit **order = malloc(((size_t)count + 1) * sizeof(bgi_unit *));
    bool good = order != NULL && list_moments(&p, units, count);

    for (uint32_t i = 0; good && i < count; i++)
        order[i] = &units[i];
    for (uint32_t i = 0; good && i < fixed_count; i++)
        good = occupy_unit(&p, &units[i]);
    if (good && count > fixed_count)
        qsort(order + fixed_count, count - fixed_count, sizeof(bgi_unit *), compare_units);
    for (uint32_t i = fixed_count; good && i < count; i++)
        good = place_unit(&p, order[i], limit);
    clear_packer(&p);
    free(order);
    return good;
}

bool bgi_pack_around(bgi_unit *units, uint32_t fixed_count, uint32_t count, size_t limit)
{
    return pack(units, fixed_count, count, limit);
}

bool bgi_pack(bgi_unit *units, uint32_t count, size_t *out_peak)
{
    size_t peak = 0;
    const bool good = pack(units, 0, count, SIZE_MAX);

    for (uint32_t i = 0; good && i < count; i++)
        if (units[i].offset + units[i].size > peak)
            peak = units[i].offset + units[i].size;
    *out_peak = peak;
    return good;
}
