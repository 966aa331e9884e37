/*
 * fast_body.h: comparisons and logical functions, and choices by their results. Comparisons of floats widen operands as
 * elementwise kernels do. Choices move elements of 1, 2, 4 or 8 bytes without interpreting them, so they support every
 * type. The loops are plain C that compilers vectorize. A chunk is read before it is written, so a result may overwrite
 * an operand of the same shape.
 */
#ifndef BGI_KERNELS_COMPARE_FAST_BODY_H
#define BGI_KERNELS_COMPARE_FAST_BODY_H

#include "kernels/compare/attributes.h"
#include "kernels/elementwise/fast_body.h"

#define COMPARE_LOOP(name, relation)                                                                                   \
    static void name##_loop(const float *a, const float *b, uint8_t *y, int64_t count)                                 \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++)                                                                            \
            y[i] = relation;                                                                                           \
    }

COMPARE_LOOP(less, a[i] < b[i])
COMPARE_LOOP(less_equal, a[i] <= b[i])
COMPARE_LOOP(equal, a[i] == b[i])
COMPARE_LOOP(not_equal, a[i] != b[i])
COMPARE_LOOP(greater, a[i] > b[i])
COMPARE_LOOP(greater_equal, a[i] >= b[i])
COMPARE_LOOP(both, (a[i] != 0.0f) & (b[i] != 0.0f))
COMPARE_LOOP(either, (a[i] != 0.0f) | (b[i] != 0.0f))
COMPARE_LOOP(one, (a[i] != 0.0f) ^ (b[i] != 0.0f))

static void (*const compare_table[BGI_COMPARE_COUNT])(const float *a, const float *b, uint8_t *y,
                                                      int64_t count) = {[BG_LESS] = less_loop,
                                                                        [BG_LESS_EQUAL] = less_equal_loop,
                                                                        [BG_EQUAL] = equal_loop,
                                                                        [BG_NOT_EQUAL] = not_equal_loop,
                                                                        [BG_GREATER] = greater_loop,
                                                                        [BG_GREATER_EQUAL] = greater_equal_loop,
                                                                        [BGI_COMPARE_LOGIC + BG_LOGIC_AND] = both_loop,
                                                                        [BGI_COMPARE_LOGIC + BG_LOGIC_OR] = either_loop,
                                                                        [BGI_COMPARE_LOGIC + BG_LOGIC_XOR] = one_loop};

static void compare_floats(const bg_kernel_call *call, uint32_t part)
{
    const uint32_t function = ((const bgi_compare_attributes *)call->attributes)->function;
    const bg_type *type = &call->types[2];
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(type), end = bgi_elementwise_start(count, part + 1);
    bgi_broadcast_view a = {1, 1}, b = {1, 1};
    float in_a[BGI_ELEMENTWISE_CHUNK], in_b[BGI_ELEMENTWISE_CHUNK];

    bgi_broadcast_view_make(type, &call->types[0], &a);
    bgi_broadcast_view_make(type, &call->types[1], &b);
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);

        compare_table[function](view_broadcast(dtype, call->operands[0], a, i, chunk, in_a),
                                view_broadcast(dtype, call->operands[1], b, i, chunk, in_b),
                                (uint8_t *)call->operands[2] + i, chunk);
    }
}

/* ---- choices ---- */

/* Elements of 1, 2, 4 and 8 bytes, of any type. */
typedef uint8_t bytes1;
typedef uint16_t bytes2 __attribute__((may_alias));
typedef uint32_t bytes4 __attribute__((may_alias));
typedef uint64_t bytes8 __attribute__((may_alias));

/* Defines view_broadcast for elements of one size, and the loop y[i] = condition[i] ? a[i] : b[i]. */
#define CHOICE(element)                                                                                                \
    static const element *view_##element(const void *data, bgi_broadcast_view view, int64_t index, int64_t count,      \
                                         element *buffer)                                                              \
    {                                                                                                                  \
        const element *from = data;                                                                                    \
        int64_t at = index / view.run % view.count, left = view.run - index % view.run;                                \
                                                                                                                       \
        if (view.run == 1 && at + count <= view.count)                                                                 \
            return from + at;                                                                                          \
        for (int64_t i = 0, run; view.run == 1 && i < count; i += run, at = 0) {                                       \
            run = clip(count - i, view.count - at);                                                                    \
            memcpy(buffer + i, from + at, (size_t)run * sizeof(element));                                              \
        }                                                                                                              \
        for (int64_t i = 0; view.run > 1 && i < count;) {                                                              \
            const int64_t run = clip(count - i, left);                                                                 \
                                                                                                                       \
            for (int64_t e = 0; e < run; e++)                                                                          \
                buffer[i + e] = from[at];                                                                              \
            i += run;                                                                                                  \
            left = view.run;                                                                                           \
            at = at + 1 == view.count ? 0 : at + 1;                                                                    \
        }                                                                                                              \
        return buffer;                                                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    static void choose_##element(const uint8_t *condition, const element *a, const element *b, element *y,             \
                                 int64_t count)                                                                        \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++)                                                                            \
            y[i] = condition[i] != 0 ? a[i] : b[i];                                                                    \
    }

CHOICE(bytes1)
CHOICE(bytes2)
CHOICE(bytes4)
CHOICE(bytes8)

/* ---- comparisons of integers ---- */

#define COMPARE_INTEGERS(element, bytes)                                                                               \
    static void compare_##element(uint32_t function, const element *a, const element *b, uint8_t *y, int64_t count)    \
    {                                                                                                                  \
        const bool is_turned = function == BG_GREATER || function == BG_GREATER_EQUAL;                                 \
        const element *left = is_turned ? b : a, *right = is_turned ? a : b;                                           \
                                                                                                                       \
        switch (function) {                                                                                            \
        case BG_EQUAL:                                                                                                 \
        case BG_NOT_EQUAL:                                                                                             \
            for (int64_t i = 0; i < count; i++)                                                                        \
                y[i] = (left[i] == right[i]) == (function == BG_EQUAL);                                                \
            break;                                                                                                     \
        case BG_LESS:                                                                                                  \
        case BG_GREATER:                                                                                               \
            for (int64_t i = 0; i < count; i++)                                                                        \
                y[i] = left[i] < right[i];                                                                             \
            break;                                                                                                     \
        case BG_LESS_EQUAL:                                                                                            \
        case BG_GREATER_EQUAL:                                                                                         \
            for (int64_t i = 0; i < count; i++)                                                                        \
                y[i] = left[i] <= right[i];                                                                            \
            break;                                                                                                     \
        case BGI_COMPARE_LOGIC + BG_LOGIC_AND:                                                                         \
            for (int64_t i = 0; i < count; i++)                                                                        \
                y[i] = (left[i] != 0) & (right[i] != 0);                                                               \
            break;                                                                                                     \
        case BGI_COMPARE_LOGIC + BG_LOGIC_OR:                                                                          \
            for (int64_t i = 0; i < count; i++)                                                                        \
                y[i] = (left[i] != 0) | (right[i] != 0);                                                               \
            break;                                                                                                     \
        default:                                                                                                       \
            for (int64_t i = 0; i < count; i++)                                                                        \
                y[i] = (left[i] != 0) ^ (right[i] != 0);                                                               \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void compare_chunk_##element(const bg_kernel_call *call, bgi_broadcast_view a, bgi_broadcast_view b,        \
                                        int64_t i, int64_t count)                                                      \
    {                                                                                                                  \
        bytes in_a[BGI_ELEMENTWISE_CHUNK], in_b[BGI_ELEMENTWISE_CHUNK];                                                \
                                                                                                                       \
        compare_##element(((const bgi_compare_attributes *)call->attributes)->function,                                \
                          (const element *)view_##bytes(call->operands[0], a, i, count, in_a),                         \
                          (const element *)view_##bytes(call->operands[1], b, i, count, in_b),                         \
                          (uint8_t *)call->operands[2] + i, count);                                                    \
    }

typedef int32_t integers4 __attribute__((may_alias));
typedef int64_t integers8 __attribute__((may_alias));

COMPARE_INTEGERS(bytes1, bytes1)
COMPARE_INTEGERS(integers4, bytes4)
COMPARE_INTEGERS(integers8, bytes8)

static void compare_integers(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *type = &call->types[2];
    const int64_t count = bg_type_element_count(type), end = bgi_elementwise_start(count, part + 1);
    bgi_broadcast_view a = {1, 1}, b = {1, 1};
    int64_t step = BGI_ELEMENTWISE_CHUNK;

    bgi_broadcast_view_make(type, &call->types[0], &a);
    bgi_broadcast_view_make(type, &call->types[1], &b);
    if (a.run == 1 && a.count == count && b.run == 1 && b.count == count)
        step = count; /* no elements are gathered in buffers */
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += step) {
        const int64_t chunk = clip(end - i, step);

        if (call->types[0].dtype == BG_UINT8)
            compare_chunk_bytes1(call, a, b, i, chunk);
        else if (call->types[0].dtype == BG_INT32)
            compare_chunk_integers4(call, a, b, i, chunk);
        else
            compare_chunk_integers8(call, a, b, i, chunk);
    }
}

static void run_compare(const bg_kernel_call *call, uint32_t part)
{
    if (bg_dtype_is_float(call->types[0].dtype))
        compare_floats(call, part);
    else
        compare_integers(call, part);
}

#define WHERE_CHUNK(element)                                                                                           \
    do {                                                                                                               \
        element in_a[BGI_ELEMENTWISE_CHUNK], in_b[BGI_ELEMENTWISE_CHUNK];                                              \
                                                                                                                       \
        choose_##element(chosen, view_##element(call->operands[1], a, i, chunk, in_a),                                 \
                         view_##element(call->operands[2], b, i, chunk, in_b), (element *)call->operands[3] + i,       \
                         chunk);                                                                                       \
    } while (0)

static void run_where(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *type = &call->types[3];
    const int64_t count = bg_type_element_count(type), end = bgi_elementwise_start(count, part + 1);
    bgi_broadcast_view condition = {1, 1}, a = {1, 1}, b = {1, 1};
    uint8_t in_condition[BGI_ELEMENTWISE_CHUNK];

    bgi_broadcast_view_make(type, &call->types[0], &condition);
    bgi_broadcast_view_make(type, &call->types[1], &a);
    bgi_broadcast_view_make(type, &call->types[2], &b);
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);
        const uint8_t *chosen = view_bytes1(call->operands[0], condition, i, chunk, in_condition);

        switch (bg_dtype_size_bytes(type->dtype)) {
        case 1:
            WHERE_CHUNK(bytes1);
            break;
        case 2:
            WHERE_CHUNK(bytes2);
            break;
        case 4:
            WHERE_CHUNK(bytes4);
            break;
        default:
            WHERE_CHUNK(bytes8);
        }
    }
}

#define WHERE_GRADIENT_CHUNK(element)                                                                                  \
    do {                                                                                                               \
        const element *dy = (const element *)call->operands[0] + i;                                                    \
                                                                                                                       \
        choose_##element(chosen, is_second ? (const element *)zeros : dy, is_second ? dy : (const element *)zeros,     \
                         (element *)call->operands[2] + i, chunk);                                                     \
    } while (0)

static void run_where_gradient(const bg_kernel_call *call, uint32_t part)
{
    static const uint64_t zeros[BGI_ELEMENTWISE_CHUNK] = {0};
    const bool is_second = ((const bgi_where_gradient_attributes *)call->attributes)->is_second != 0;
    const bg_type *type = &call->types[0];
    const int64_t count = bg_type_element_count(type), end = bgi_elementwise_start(count, part + 1);
    bgi_broadcast_view condition = {1, 1};
    uint8_t in_condition[BGI_ELEMENTWISE_CHUNK];

    bgi_broadcast_view_make(type, &call->types[1], &condition);
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const int64_t chunk = clip(end - i, BGI_ELEMENTWISE_CHUNK);
        const uint8_t *chosen = view_bytes1(call->operands[1], condition, i, chunk, in_condition);

        switch (bg_dtype_size_bytes(type->dtype)) {
        case 2:
            WHERE_GRADIENT_CHUNK(bytes2);
            break;
        case 4:
            WHERE_GRADIENT_CHUNK(bytes4);
            break;
        default:
            WHERE_GRADIENT_CHUNK(bytes8);
        }
    }
}

#endif
