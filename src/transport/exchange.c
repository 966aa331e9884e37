/*
 * exchange.c: does a member's share of a collective operation: it sums contributions in the members' order, or copies
 * them. Each element is computed once, so all readers get bit-identical values, whichever member arrives last and
 * however the bytes are sent.
 *
 * A tree splits its members at the largest power of two below their number, and rounds every sum to the elements' type:
 *
 *     ((x0 + x1) + (x2 + x3)) + (x4 + x5)
 *
 * The leaves of this tree are the sums of the replicas, each of which is a tree over the replica's micro-batches
 * (kernels/accumulate/attributes.h).
 */
#include "transport/transport.h"

#include <string.h>

#include "core/narrow.h"
#include "transport/add.h"

enum { BLOCK_BYTES = 8192, MOST_TERMS = 16 };

/* A block of sums; those of 16-bit floats are float. */
typedef union sum_block {
    float f[BLOCK_BYTES / sizeof(float)];
    double d[BLOCK_BYTES / sizeof(double)];
} sum_block;

/* One exchange of a collective operation, for the member that does its share. */
typedef struct share {
    bgi_transport *transport;
    uint32_t group, member, index;
    const bgi_exchange *exchange;
} share;

static bgi_strip contribution(const share *s, uint32_t from)
{
    return s->transport->type->contribution(s->transport, s->group, s->member, from, s->index);
}

static bgi_strip result(const share *s, uint32_t reader)
{
    return s->transport->type->result(s->transport, s->group, s->member, reader, s->index);
}

/* ---- sums ---- */

static float larger(float a, float b)
{
    return b > a || b != b ? b : a; /* a NaN stays */
}

static double larger_double(double a, double b)
{
    return b > a || b != b ? b : a;
}

static void begin_block(bg_dtype dtype, sum_block *restrict sum, const void *restrict first, size_t count)
{
    if (!bgi_dtype_is_narrow(dtype))
        memcpy(sum, first, count * bg_dtype_size_bytes(dtype));
    for (size_t i = 0; bgi_dtype_is_narrow(dtype) && i < count; i++)
        sum->f[i] = bgi_narrow_to_float(dtype, ((const uint16_t *)first)[i]);
}

static void add_block(const bgi_exchange *exchange, sum_block *restrict sum, const void *restrict term, size_t count)
{
    const bool adds = exchange->function == BG_REDUCE_SUM;
    const double *const d = term;
    const float *f = term;
    sum_block wide;

    if (bgi_dtype_is_narrow(exchange->dtype)) {
        begin_block(exchange->dtype, &wide, term, count);
        f = wide.f;
    }
    if (exchange->dtype == BG_FLOAT64)
        for (size_t i = 0; i < count; i++)
            sum->d[i] = adds ? sum->d[i] + d[i] : larger_double(sum->d[i], d[i]);
    else
        for (size_t i = 0; i < count; i++)
            sum->f[i] = adds ? sum->f[i] + f[i] : larger(sum->f[i], f[i]);
}

static void store_block(bg_dtype dtype, const sum_block *restrict sum, void *restrict to, size_t count)
{
    if (!bgi_dtype_is_narrow(dtype))
        memcpy(to, sum, count * bg_dtype_size_bytes(dtype));
    for (size_t i = 0; bgi_dtype_is_narrow(dtype) && i < count; i++)
        ((uint16_t *)to)[i] = bgi_narrow_from_float(dtype, sum->f[i]);
}

static const char *find_term(const share *s, uint32_t from, size_t row, size_t at)
{
    const bgi_strip piece = contribution(s, from);

    return piece.data + row * piece.stride + at * bg_dtype_size_bytes(s->exchange->dtype);
}

/* Returns the memory for a reader's result. Its `data` is NULL if this reader gets nothing from this member, or if the
 * transport copies the result from the caller's. */
static bgi_strip find_result(const share *s, uint32_t reader)
{
    if (bgi_pattern_put(&s->exchange->pattern, s->member, reader).rows == 0)
        return (bgi_strip){NULL, 0};
    return result(s, reader);
}

/* Computes ((x0 + x1) + x2) + ... of the members' elements of one row from `at` on. */
static void add_in_order(const share *s, size_t row, size_t at, size_t count, sum_block *sum)
{
    begin_block(s->exchange->dtype, sum, find_term(s, 0, row, at), count);
    for (uint32_t from = 1; from < s->exchange->pattern.size; from++)
        add_block(s->exchange, sum, find_term(s, from, row, at), count);
}

/* Adds the sums of both halves and rounds the result to the elements' type; the sums are rounded already. */
static void join(bg_dtype dtype, sum_block *restrict sum, const sum_block *restrict right, size_t count)
{
    if (dtype == BG_FLOAT64)
        for (size_t i = 0; i < count; i++)
            sum->d[i] += right->d[i];
    else
        for (size_t i = 0; i < count; i++)
            sum->f[i] += right->f[i];
    for (size_t i = 0; bgi_dtype_is_narrow(dtype) && i < count; i++)
        sum->f[i] = bgi_narrow_to_float(dtype, bgi_narrow_from_float(dtype, sum->f[i]));
}

/* Sums the elements of `members` members from `first` on. The recursion is as deep as the tree, with a block on each
 * level. */
static void add_tree(const share *s, uint32_t first, uint32_t members, size_t row, size_t at, size_t count,
                     sum_block *sum)
{
    uint32_t left = 1;
    sum_block right;

    if (members == 1) {
        begin_block(s->exchange->dtype, sum, find_term(s, first, row, at), count);
        return;
    }
    while (left < members - left)
        left *= 2;
    add_tree(s, first, left, row, at, count, sum);
    add_tree(s, first + left, members - left, row, at, count, &right);
    join(s->exchange->dtype, sum, &right, count);
}

/* Whether float32 terms are summed in order, so that one pass writes the sum to the result directly. A tree of up to
 * three members has this order. */
static bool is_one_pass(const bgi_exchange *exchange)
{
    return exchange->dtype == BG_FLOAT32 && exchange->function == BG_REDUCE_SUM &&
           exchange->pattern.size <= (exchange->is_tree ? 3 : MOST_TERMS);
}

/* Returns the address of element `at` of a row. */
static float *element(const bgi_strip *strip, size_t row, size_t at)
{
    return (float *)(void *)(strip->data + row * strip->stride) + at;
}

/* Sums in blocks that stay in the nearest cache, into the results of the first reader, and copies each block to the
 * other readers. */
static void sum_in_one_pass(const share *s, const bgi_region *own)
{
    const bgi_exchange *exchange = s->exchange;
    const bgi_add add = bgi_add_choose(s->transport->setup.isa);
    const size_t block = BLOCK_BYTES / sizeof(float);
    bgi_strip from[MOST_TERMS], to[MOST_TERMS];
    const float *terms[MOST_TERMS];
    uint32_t readers = 0;

    for (uint32_t m = 0; m < exchange->pattern.size; m++) {
        from[m] = contribution(s, m);
        to[readers] = find_result(s, m);
        readers += to[readers].data != NULL;
    }
    for (size_t row = 0; row < own->rows && readers > 0; row++)
        for (size_t at = 0; at < own->length; at += block) {
            const size_t count = own->length - at < block ? own->length - at : block;
            float *first = element(&to[0], row, at);
            for (uint32_t m = 0; m < exchange->pattern.size; m++)
                terms[m] = element(&from[m], row, at);
            add(first, terms, exchange->pattern.size, count);
            for (uint32_t r = 1; r < readers; r++)
                memcpy(element(&to[r], row, at), first, count * sizeof *first);
        }
}

/* Sums one row for its readers, in blocks that stay in the nearest cache. */
static void sum_row(const share *s, size_t row, size_t length)
{
    const bgi_exchange *exchange = s->exchange;
    const size_t block = BLOCK_BYTES / (exchange->dtype == BG_FLOAT64 ? sizeof(double) : sizeof(float));
    const size_t element_bytes = bg_dtype_size_bytes(exchange->dtype);
    sum_block sum;

    for (size_t at = 0; at < length; at += block) {
        const size_t count = length - at < block ? length - at : block;
        if (exchange->is_tree)
            add_tree(s, 0, exchange->pattern.size, row, at, count, &sum);
        else
            add_in_order(s, row, at, count, &sum);
        for (uint32_t reader = 0; reader < exchange->pattern.size; reader++) {
            const bgi_strip to = find_result(s, reader);
            if (to.data != NULL)
                store_block(exchange->dtype, &sum, to.data + row * to.stride + at * element_bytes, count);
        }
    }
}

static void sum_all(const share *s)
{
    const bgi_region own = bgi_pattern_take(&s->exchange->pattern, s->member, 0);

    if (own.rows == 0 || own.length == 0) /* a member without elements has no memory for terms */
        return;
    if (is_one_pass(s->exchange)) {
        sum_in_one_pass(s, &own);
        return;
    }
    for (size_t row = 0; row < own.rows; row++)
        sum_row(s, row, own.length);
}

/* ---- copies ---- */

/* Copies the whole result to the caller's destination. */
static void copy_all(const share *s)
{
    const bgi_exchange *exchange = s->exchange;
    const size_t element_bytes = bg_dtype_size_bytes(exchange->dtype);

    for (uint32_t from = 0; from < exchange->pattern.size; from++) {
        const bgi_region taken = bgi_pattern_take(&exchange->pattern, s->member, from);
        const bgi_region put = bgi_pattern_put(&exchange->pattern, from, s->member);
        char *to = (char *)exchange->to + put.first * element_bytes;
        bgi_strip piece;
        if (taken.rows == 0 || taken.length == 0)
            continue;
        piece = contribution(s, from);
        for (size_t row = 0; row < taken.rows; row++)
            memcpy(to + row * put.stride * element_bytes, piece.data + row * piece.stride,
                   taken.length * element_bytes);
    }
}

/* ---- rounds ---- */

static size_t count_bytes(const bgi_exchange *exchange)
{
    const bgi_pattern *pattern = &exchange->pattern;
    const bool is_rows = pattern->kind == BGI_PATTERN_SUM_ROWS || pattern->kind == BGI_PATTERN_GATHER_ROWS;

    return pattern->count * (is_rows ? pattern->size * pattern->piece : 1) * bg_dtype_size_bytes(exchange->dtype);
}

/* Returns the exchange of elements `first` .. `first` + `count` - 1 of a sum. */
static bgi_exchange cut_out(const bgi_exchange *exchange, size_t first, size_t count)
{
    const size_t offset = first * bg_dtype_size_bytes(exchange->dtype);
    bgi_exchange part = *exchange;

    part.pattern.count = count;
    if (exchange->from != NULL)
        part.from = (const char *)exchange->from + offset;
    if (exchange->to != NULL)
        part.to = (char *)exchange->to + offset;
    return part;
}

uint32_t bgi_exchange_cut(size_t round_bytes, const bgi_exchange *exchanges, uint32_t count, bgi_cut *cut,
                          bgi_exchange *out_round)
{
    uint32_t taken = 0;
    size_t bytes = 0;

    while (cut->exchange < count) {
        const bgi_exchange *next = &exchanges[cut->exchange];
        const size_t next_bytes = count_bytes(next);
        if (taken > 0 && (next_bytes > round_bytes || bytes > round_bytes - next_bytes))
            break;
        if (next->pattern.kind == BGI_PATTERN_SUM && count > 1 && next_bytes > round_bytes) {
            const size_t most = round_bytes / bg_dtype_size_bytes(next->dtype);
            const size_t left = next->pattern.count - cut->element, some = left < most ? left : most;
            *out_round = cut_out(next, cut->element, some);
            *cut = some == left ? (bgi_cut){cut->exchange + 1, 0} : (bgi_cut){cut->exchange, cut->element + some};
            return 1;
        }
        out_round[taken++] = *next;
        bytes += next_bytes;
        cut->exchange++;
        if (bytes > round_bytes)
            break;
    }
    return taken;
}

/* ---- a member's share ---- */

void bgi_exchange_run(bgi_transport *transport, uint32_t group, uint32_t member, const bgi_exchange *exchanges,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bgi_exchange exchange = exchanges[i];
        const share s = {transport, group, member, i, &exchange};
        if (transport->type->pattern != NULL)
            exchange.pattern = transport->type->pattern(transport, group, member, exchange.pattern);
        if (bgi_pattern_sums(&exchange.pattern))
            sum_all(&s);
        else
            copy_all(&s);
    }
}
