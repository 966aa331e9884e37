/*
 * pattern.c: computes which elements each member takes from each other member.
 */
#include "transport/pattern.h"

static bgi_region between(size_t first, size_t end)
{
    return (bgi_region){.first = first, .length = end - first, .stride = end - first, .rows = 1};
}

/* Returns the member's slice of all elements, which are cut into almost equal slices. */
static bgi_region find_slice(const bgi_pattern *pattern, uint32_t member)
{
    const uint64_t count = pattern->count;

    return between((size_t)(count * member / pattern->size), (size_t)(count * (member + 1) / pattern->size));
}

/* Returns the member's piece, which may be shorter at the end of the elements. */
static bgi_region find_piece(const bgi_pattern *pattern, uint32_t member)
{
    const uint64_t first = (uint64_t)pattern->piece * member, end = first + pattern->piece, count = pattern->count;

    return between((size_t)(first < count ? first : count), (size_t)(end < count ? end : count));
}

/* Return the member's pieces, one of the `size` pieces in each row, as a region of the whole; and the region of the
 * same pieces without the others. */
static bgi_region find_columns(const bgi_pattern *pattern, uint32_t member)
{
    return (bgi_region){.first = member * pattern->piece,
                        .length = pattern->piece,
                        .stride = pattern->size * pattern->piece,
                        .rows = pattern->count};
}

static bgi_region find_rows(const bgi_pattern *pattern)
{
    return (bgi_region){.length = pattern->piece, .stride = pattern->piece, .rows = pattern->count};
}

bgi_region bgi_pattern_take(const bgi_pattern *pattern, uint32_t member, uint32_t from)
{
    switch (pattern->kind) {
    case BGI_PATTERN_SUM:
        return find_slice(pattern, member);
    case BGI_PATTERN_SUM_ALONE:
        return between(0, pattern->count);
    case BGI_PATTERN_SUM_PIECES:
        return find_piece(pattern, member);
    case BGI_PATTERN_GATHER_PIECES:
        return from != member ? find_piece(pattern, from) : (bgi_region){0};
    case BGI_PATTERN_SUM_ROWS:
        return find_columns(pattern, member);
    default:
        return find_rows(pattern);
    }
}

bgi_region bgi_pattern_put(const bgi_pattern *pattern, uint32_t maker, uint32_t reader)
{
    switch (pattern->kind) {
    case BGI_PATTERN_SUM:
        return find_slice(pattern, maker);
    case BGI_PATTERN_SUM_ALONE:
        return maker == reader ? between(0, pattern->count) : (bgi_region){0};
    case BGI_PATTERN_SUM_PIECES:
        return maker == reader ? find_piece(pattern, maker) : (bgi_region){0};
    case BGI_PATTERN_GATHER_PIECES:
        return maker != reader ? find_piece(pattern, maker) : (bgi_region){0};
    case BGI_PATTERN_SUM_ROWS:
        return maker == reader ? find_rows(pattern) : (bgi_region){0};
    default:
        return find_columns(pattern, maker);
    }
}
