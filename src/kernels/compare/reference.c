/*
 * reference.c: comparisons, logical functions, and choices by their results. Integers are compared as integers, and
 * floats in double, which represents every float type exactly. WHERE copies elements as bytes, so every type passes
 * unchanged.
 */
#include "kernels/compare/attributes.h"
#include "kernels/kernels.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/element.h"

/* The relations between two elements, one bit each. Logical functions compare truth values. */
enum { BELOW = 1, EQUAL = 2, ABOVE = 4, UNORDERED = 8, BOTH = 16, ONE = 32 };

/* For each comparison, the relations for which it is true. */
static const unsigned holds_for[BGI_COMPARE_COUNT] = {
    [BG_LESS] = BELOW,
    [BG_LESS_EQUAL] = BELOW | EQUAL,
    [BG_EQUAL] = EQUAL,
    [BG_NOT_EQUAL] = BELOW | ABOVE | UNORDERED,
    [BG_GREATER] = ABOVE,
    [BG_GREATER_EQUAL] = ABOVE | EQUAL,
    [BGI_COMPARE_LOGIC + BG_LOGIC_AND] = BOTH,
    [BGI_COMPARE_LOGIC + BG_LOGIC_OR] = BOTH | ONE,
    [BGI_COMPARE_LOGIC + BG_LOGIC_XOR] = ONE,
};

static unsigned relate_truths(bool a, bool b)
{
    return a && b ? BOTH : a || b ? ONE : 0;
}

static unsigned relate_floats(double a, double b)
{
    return (a < b ? BELOW : a > b ? ABOVE : a == b ? EQUAL : UNORDERED) | relate_truths(a != 0.0, b != 0.0);
}

static unsigned relate_integers(int64_t a, int64_t b)
{
    return (a < b ? BELOW : a > b ? ABOVE : EQUAL) | relate_truths(a != 0, b != 0);
}

void bgi_reference_compare(const bg_kernel_call *call, uint32_t part)
{
    const uint32_t function = ((const bgi_compare_attributes *)call->attributes)->function;
    const bg_type *a = &call->types[0], *b = &call->types[1], *y = &call->types[2];
    const int64_t count = bg_type_element_count(y);
    uint8_t *out = call->operands[2];

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at_a = bgi_broadcast_index(y, a, i), at_b = bgi_broadcast_index(y, b, i);
        const unsigned relations = bg_dtype_is_float(a->dtype)
                                       ? relate_floats(bgi_load(a->dtype, call->operands[0], at_a),
                                                       bgi_load(b->dtype, call->operands[1], at_b))
                                       : relate_integers(bgi_load_integer(a->dtype, call->operands[0], at_a),
                                                         bgi_load_integer(b->dtype, call->operands[1], at_b));

        out[i] = (holds_for[function] & relations) != 0;
    }
}

void bgi_reference_where(const bg_kernel_call *call, uint32_t part)
{
    const uint8_t *condition = call->operands[0];
    const bg_type *y = &call->types[3];
    const int64_t count = bg_type_element_count(y);
    const size_t size = bg_dtype_size_bytes(y->dtype);

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t chosen = condition[bgi_broadcast_index(y, &call->types[0], i)] != 0 ? 1 : 2;
        const size_t from = (size_t)bgi_broadcast_index(y, &call->types[chosen], i);

        memcpy((char *)call->operands[3] + (size_t)i * size, (const char *)call->operands[chosen] + from * size, size);
    }
}

void bgi_reference_where_gradient(const bg_kernel_call *call, uint32_t part)
{
    const bgi_where_gradient_attributes *attributes = call->attributes;
    const uint8_t *condition = call->operands[1];
    const bg_type *dy = &call->types[0];
    const int64_t count = bg_type_element_count(dy);
    const size_t size = bg_dtype_size_bytes(dy->dtype);

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        const bool is_first = condition[bgi_broadcast_index(dy, &call->types[1], i)] != 0;
        char *to = (char *)call->operands[2] + (size_t)i * size;

        if (is_first != (attributes->is_second != 0))
            memmove(to, (const char *)call->operands[0] + (size_t)i * size, size);
        else
            memset(to, 0, size);
    }
}
