/*
 * zoo.h: calls each public function that adds an op to a graph, with random shapes and attributes. test_zoo.c checks
 * all ops, and index_page.c makes the tables of docs/ops.md from them. A new op needs a function here.
 */
#ifndef TESTS_OPS_ZOO_H
#define TESTS_OPS_ZOO_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/reference/element.h"
#include "ops/ops.h"
#include "support/build_case.h"

enum { MOST_PARAMETERS = 8 };

/* A graph of one op of the zoo, its operands, and its random numbers. */
typedef struct zoo {
    bg_graph *graph;
    bg_dtype dtype;
    uint64_t random;
    bg_value parameters[MOST_PARAMETERS];
    uint32_t count;
    double low, high; /* the range of the operands' values */
} zoo;

static int64_t draw(zoo *z, int64_t low, int64_t high)
{
    z->random = z->random * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((z->random >> 33) % (uint64_t)(high - low + 1));
}

static bg_value operand(zoo *z, uint32_t rank, const int64_t *dims)
{
    const bg_type type = bg_type_make(z->dtype, rank, dims);
    char name[16];

    snprintf(name, sizeof name, "p%u", z->count);
    return z->parameters[z->count++] = bg_graph_variable(
               z->graph, name, &type, bg_dtype_is_float(z->dtype) ? BG_ROLE_PARAMETER : BG_ROLE_BUFFER, NULL);
}

#define DIMS(...)                                                                                                      \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                                  \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define OPERAND(...) operand(z, DIMS(__VA_ARGS__))

/* Adds an operand of whole numbers from 0 to `below` - 1. */
static bg_value numbers(zoo *z, bg_dtype dtype, int64_t below, uint32_t rank, const int64_t *dims)
{
    const bg_type type = bg_type_make(dtype, rank, dims);
    void *data = calloc(1, bg_type_size_bytes(&type));
    bg_value value;

    assert_non_null(data);
    for (int64_t i = 0; i < bg_type_element_count(&type); i++)
        bgi_store(dtype, data, i, (double)draw(z, 0, below - 1));
    value = bg_graph_constant(z->graph, "numbers", &type, data);
    free(data);
    return value;
}

#define NUMBERS(below, ...) numbers(z, BG_INT32, below, DIMS(__VA_ARGS__))

static bg_value buffer(zoo *z, const char *name, bg_type type)
{
    return bg_graph_variable(z->graph, name, &type, BG_ROLE_BUFFER, NULL);
}

/* ---- the ops of the zoo; `kind` selects a variant ---- */

static bg_value unary(zoo *z, int kind)
{
    const bool is_above_one = kind == BG_ACOSH;

    z->low = is_above_one ? 1.2 : 0.11;
    z->high = is_above_one ? 3.0 : 0.93;
    return bg_elementwise_unary(z->graph, NULL, (bg_unary)kind, OPERAND(draw(z, 1, 4), draw(z, 1, 40)));
}

static bg_value binary(zoo *z, int kind)
{
    const int64_t rows = draw(z, 1, 4), columns = draw(z, 1, 20);
    const bg_value a = OPERAND(rows, columns);

    z->low = 0.2;
    return bg_elementwise_binary(z->graph, NULL, (bg_binary)(kind % BG_BINARY_COUNT), a,
                                 kind < BG_BINARY_COUNT ? OPERAND(rows, columns) : OPERAND(columns));
}

static bg_value elements(zoo *z, int kind)
{
    const bg_value x = OPERAND(3, draw(z, 2, 20));
    const bg_type type = bg_graph_type(z->graph, x);

    switch (kind) {
    case 0:
        return bg_scale(z->graph, NULL, x, 1.5, -0.25);
    case 1:
        return bg_cast(z->graph, NULL, x, z->dtype == BG_FLOAT32 ? BG_BFLOAT16 : BG_FLOAT32);
    case 2:
        return bg_where(z->graph, NULL, numbers(z, BG_UINT8, 2, DIMS(3, type.dims[1])), x, OPERAND(3, type.dims[1]));
    case 3:
        return bg_prelu(z->graph, NULL, x, OPERAND(1));
    case 4:
        return bg_triangle(z->graph, NULL, x, true, draw(z, -2, 2));
    case 5:
        return bg_standardize(z->graph, NULL, x, z->dtype, 2.0f, 0.25f, 0.5f);
    case 6:
        return bg_dropout(z->graph, NULL, x, 0.4);
    case 7:
        return bg_stop_gradient(z->graph, NULL, x);
    case 8:
        return bg_compare(z->graph, NULL, (bg_comparison)draw(z, 0, BG_COMPARISON_COUNT - 1), x,
                          OPERAND(3, type.dims[1]));
    case 9:
        return bg_logical(z->graph, NULL, (bg_logic)draw(z, 0, BG_LOGIC_COUNT - 1), x, OPERAND(type.dims[1]));
    default:
        return bg_logical_not(z->graph, NULL, x);
    }
}

static bg_value product(zoo *z, int kind)
{
    const int64_t m = draw(z, 1, 9), k = draw(z, 1, 40), n = draw(z, 1, 20);

    switch (kind) {
    case 0:
        return bg_linear(z->graph, NULL, OPERAND(m, k), OPERAND(n, k), OPERAND(n));
    case 1:
        return bg_matmul(z->graph, NULL, OPERAND(2, m, k), OPERAND(2, k, n), false, false);
    case 2:
        return bg_matmul(z->graph, NULL, OPERAND(2, k, m), OPERAND(1, n, k), true, true);
    default:
        return bg_einsum(z->graph, NULL, "bij,bjk->bki", (const bg_value[]){OPERAND(2, m, k), OPERAND(2, k, n)}, 2);
    }
}

static bg_value convolution(zoo *z, int kind)
{
    const int64_t groups = draw(z, 1, 2), c = groups * draw(z, 1, 3), o = groups * draw(z, 1, 3);
    const int64_t size = draw(z, 5, 9), window = draw(z, 1, 3);
    bg_conv_options options = bg_conv_defaults();
    bg_conv2d_options flat = bg_conv2d_defaults();

    options.groups = flat.groups = groups;
    for (int i = 0; i < 3; i++) {
        options.stride[i] = draw(z, 1, 2);
        options.padding[i] = draw(z, 0, (window - 1) / 2);
    }
    flat.stride[0] = options.stride[0];
    flat.padding[1] = options.padding[1];
    switch (kind) {
    case 0:
        return bg_conv2d(z->graph, NULL, OPERAND(2, c, size, size), OPERAND(o, c / groups, window, window), OPERAND(o),
                         &flat);
    case 1:
        return bg_conv(z->graph, NULL, OPERAND(2, c, size), OPERAND(o, c / groups, window), OPERAND(o), &options);
    case 2:
        return bg_conv(z->graph, NULL, OPERAND(1, c, 5, 5, 5), OPERAND(o, c / groups, 2, 2, 2), (bg_value){0},
                       &options);
    case 3:
        return bg_conv_transpose(z->graph, NULL, OPERAND(2, c, size, size), OPERAND(c, o / groups, window, window),
                                 OPERAND(o), &options);
    case 4:
        return bg_conv_transpose(z->graph, NULL, OPERAND(2, c, size), OPERAND(c, o / groups, window), OPERAND(o),
                                 &options);
    default:
        return bg_conv_transpose(z->graph, NULL, OPERAND(1, c, 3, 3, 3), OPERAND(c, o / groups, 2, 2, 2), (bg_value){0},
                                 &options);
    }
}

static bg_value pool(zoo *z, int kind)
{
    const int64_t size = draw(z, 5, 9), sizes[] = {draw(z, 1, 4), draw(z, 1, 4)};
    bg_pool2d_options options = bg_pool2d_defaults(draw(z, 1, 3));
    const bg_pool_options any = bg_pool_defaults(2);

    options.stride[0] = draw(z, 1, 3);
    options.ceil_mode = draw(z, 0, 1);
    switch (kind) {
    case 0:
        return bg_max_pool2d(z->graph, NULL, OPERAND(2, 3, size, size), &options);
    case 1:
        return bg_avg_pool2d(z->graph, NULL, OPERAND(2, 3, size, size), &options);
    case 2:
        return bg_adaptive_max_pool(z->graph, NULL, OPERAND(2, 3, size, size), sizes);
    case 3:
        return bg_adaptive_avg_pool(z->graph, NULL, OPERAND(2, 3, size, size), sizes);
    case 4:
        return bg_max_pool(z->graph, NULL, OPERAND(2, 3, size), &any);
    case 5:
        return bg_avg_pool(z->graph, NULL, OPERAND(1, 2, 4, 4, size), &any);
    case 6:
        return bg_max_pool(z->graph, NULL, OPERAND(1, 2, 4, 4, size), &any);
    default:
        return bg_avg_pool(z->graph, NULL, OPERAND(2, 3, size), &any);
    }
}

static bg_value interpolation(zoo *z, int kind)
{
    bg_interpolate_options options = bg_interpolate_defaults((bg_interpolation)kind);

    options.size[0] = draw(z, 1, 12);
    options.size[1] = draw(z, 1, 12);
    return bg_interpolate(z->graph, NULL, OPERAND(2, 2, draw(z, 2, 7), draw(z, 2, 7)), &options);
}

static bg_value move(zoo *z, int kind)
{
    const int64_t a = draw(z, 2, 5), b = draw(z, 3, 9), c = draw(z, 1, 20);
    const bg_value x = kind == 1 ? (bg_value){0} : OPERAND(a, b, c);
    const uint32_t turned[] = {2, 0, 1};
    const int64_t before[] = {draw(z, 0, 1), draw(z, 0, 2), 0}, after[] = {1, draw(z, 0, 2), 0};

    switch (kind) {
    case 0:
        return bg_transpose(z->graph, NULL, x, turned);
    case 1:
        return bg_broadcast(z->graph, NULL, OPERAND(b, 1), DIMS(a, b, c));
    case 2:
        return bg_slice(z->graph, NULL, x, 1, 1, b, draw(z, 1, 2));
    case 3:
        return bg_concat(z->graph, NULL, (const bg_value[]){x, OPERAND(a, 2, c)}, 2, 1);
    case 4:
        return bg_reshape(z->graph, NULL, x, DIMS(a * b, c));
    case 5:
        return bg_roll(z->graph, NULL, x, 1, 1);
    case 6:
        return bg_flip(z->graph, NULL, x, 1);
    case 7:
        return bg_stack(z->graph, NULL, (const bg_value[]){x, OPERAND(a, b, c)}, 2, 1);
    case 8:
        return bg_tile(z->graph, NULL, x, (const int64_t[]){1, 2, 3});
    default:
        return bg_pad(z->graph, NULL, x, (bg_pad_mode)(kind - 9), before, after, 0.5);
    }
}

static bg_value index_of(zoo *z, int kind)
{
    const int64_t a = draw(z, 2, 4), b = draw(z, 4, 9), c = draw(z, 1, 6);
    const bg_value x = kind < 5 ? OPERAND(a, b, c) : (bg_value){0};

    switch (kind) {
    case 0:
        return bg_gather(z->graph, NULL, x, 1, NUMBERS(b, 5));
    case 1:
        return bg_scatter_add(z->graph, NULL, x, 1, NUMBERS(b, 5), OPERAND(a, 5, c));
    case 2:
        return bg_gather_elements(z->graph, NULL, x, 1, NUMBERS(b, a, 3, c));
    case 3:
        return bg_scatter_elements_add(z->graph, NULL, x, 1, NUMBERS(b, a, 3, c), OPERAND(a, 3, c));
    case 4:
        return bg_top_k(z->graph, NULL, x, draw(z, 1, c), draw(z, 0, 1), NULL);
    case 5:
        return bg_one_hot(z->graph, NULL, NUMBERS(b, 7), b, z->dtype);
    default:
        return bg_embedding(z->graph, NULL, OPERAND(b, c), NUMBERS(b, 2, 7), -1);
    }
}

static bg_value along(zoo *z, int kind)
{
    const int64_t rows = draw(z, 2, 6), columns = draw(z, 2, 40);
    const bg_value x = OPERAND(rows, columns, 3);
    const int32_t axis = (int32_t)draw(z, 0, 2);

    switch (kind) {
    case 0:
    case 1:
    case 2:
        return bg_reduce(z->graph, NULL, (bg_reduction)kind, x, &axis, 1, draw(z, 0, 1));
    case 3:
        return bg_cumulative_sum(z->graph, NULL, x, axis, draw(z, 0, 1), draw(z, 0, 1));
    case 4:
        return bg_softmax(z->graph, NULL, x, axis);
    case 5:
        return bg_log_softmax(z->graph, NULL, x, axis);
    default:
        return bg_argmax(z->graph, NULL, x);
    }
}

static bg_value norm(zoo *z, int kind)
{
    const int64_t c = 2 * draw(z, 1, 8), n = draw(z, 2, 5);

    switch (kind) {
    case 0:
        return bg_layer_norm(z->graph, NULL, OPERAND(n, c), OPERAND(c), OPERAND(c), 1e-3);
    case 1:
        return bg_rms_norm(z->graph, NULL, OPERAND(n, c), OPERAND(c), 1e-3);
    case 2:
        return bg_group_norm(z->graph, NULL, OPERAND(n, c, 3), 2, OPERAND(c), OPERAND(c), 1e-3);
    default:
        return bg_batch_norm(z->graph, NULL, OPERAND(n, c, 3, 2), OPERAND(c), OPERAND(c),
                             buffer(z, "mean", bg_vector(z->dtype, c)), buffer(z, "variance", bg_vector(z->dtype, c)),
                             0.1, 1e-3);
    }
}

static bg_value attention(zoo *z, int kind)
{
    const int64_t groups = draw(z, 1, 2), heads = groups * draw(z, 1, 2), depth = 2 * draw(z, 1, 6);
    const int64_t n = draw(z, 1, 2), s = draw(z, 2, 6), t = kind == 1 ? s : draw(z, 2, 6);
    bg_attention_options packed = bg_attention_defaults(heads);
    bg_dot_product_attention_options options = bg_dot_product_attention_defaults(heads);
    bg_rotary_options turn = bg_rotary_defaults(heads);

    options.key_heads = groups;
    options.window = kind == 1 ? draw(z, 0, 3) : 0;
    options.alibi = kind == 1 ? 8.0 : 0.0;
    turn.interleaved = draw(z, 0, 1);
    turn.kind = (bg_rotary_scaling)draw(z, 0, BG_ROTARY_LLAMA3);
    turn.scaling = 2.0;
    turn.trained_length = 8;
    switch (kind) {
    case 0:
        packed.causal = draw(z, 0, 1);
        return bg_attention(z->graph, NULL, OPERAND(n, s, 3 * heads * depth), &packed);
    case 1:
    case 2:
        options.causal = kind == 1;
        return bg_dot_product_attention(z->graph, NULL, OPERAND(n, s, heads * depth), OPERAND(n, t, groups * depth),
                                        OPERAND(n, t, groups * depth),
                                        kind == 2 ? OPERAND(1, heads, s, t) : (bg_value){0}, &options);
    case 3:
        return bg_rotary(z->graph, NULL, OPERAND(n, s, heads * depth), (bg_value){0}, &turn);
    case 4:
        return bg_attention_cached(z->graph, NULL, OPERAND(s, 3 * heads * depth),
                                   buffer(z, "cache", bg_matrix(z->dtype, s + 3, 2 * heads * depth)), NUMBERS(3, s),
                                   &packed);
    case 5:
        return bg_length_mask(z->graph, NULL, numbers(z, bg_dtype_is_float(z->dtype) ? BG_INT32 : z->dtype, s, DIMS(n)),
                              s);
    default:
        return bg_dot_product_attention_cached(
            z->graph, NULL, OPERAND(n, s, heads * depth), OPERAND(n, s, groups * depth), OPERAND(n, s, groups * depth),
            buffer(z, "keys", bg_tensor3(z->dtype, n, s + 3, groups * depth)),
            buffer(z, "values", bg_tensor3(z->dtype, n, s + 3, groups * depth)), NUMBERS(3, n), &options);
    }
}

/* Adds a step of a leaky sum with a learned leak. */
static void leak(void *user, bg_graph *graph, bg_scan_step *step)
{
    step->states[0] = bg_add(graph, bg_multiply(graph, step->states[0], *(bg_value *)user), step->inputs[0]);
    step->outputs[0] = step->states[0];
}

static bg_value scan(zoo *z)
{
    const int64_t n = draw(z, 1, 4);
    const bg_value x = OPERAND(draw(z, 1, 5), n);
    bg_value state = OPERAND(n), rate = OPERAND(n);
    bg_scan_options options = bg_scan_defaults();

    options.reverse = draw(z, 0, 1);
    return bg_scan(z->graph, &options, &x, &state, leak, &rate, NULL);
}

static bg_value recurrence(zoo *z, int kind)
{
    const int64_t t = draw(z, 1, 4), n = draw(z, 1, 4), h = draw(z, 1, 6), gates = kind == 0 ? 4 : kind < 3 ? 3 : 1;
    const bool batch_first = draw(z, 0, 1), reverse = draw(z, 0, 1);

    if (kind == 5)
        return scan(z);
    const bg_value x = batch_first ? OPERAND(n, t, gates * h) : OPERAND(t, n, gates * h);
    const bg_value w = OPERAND(gates * h, h), b = OPERAND(gates * h), h0 = OPERAND(n, h);

    switch (kind) {
    case 0:
        return bg_lstm(z->graph, NULL, x, w, b, h0, OPERAND(n, h), batch_first, reverse, NULL);
    case 1:
        return bg_gru(z->graph, NULL, x, w, b, h0, batch_first, reverse);
    case 2:
        return bg_gru_reset_first(z->graph, NULL, x, w, b, h0, batch_first, reverse);
    default:
        return bg_rnn(z->graph, NULL, x, w, b, h0, kind == 4, batch_first, reverse);
    }
}

static bg_value loss(zoo *z, int kind)
{
    const int64_t n = draw(z, 2, 6), c = draw(z, 2, 9), t = draw(z, 4, 6);
    const bg_loss_reduction reduction = (bg_loss_reduction)draw(z, 0, 2);

    z->low = 0.1;
    switch (kind) {
    case 0:
        return bg_cross_entropy(z->graph, NULL, OPERAND(n, c), NUMBERS(c, n), reduction, 0);
    case 1:
        return bg_weighted_cross_entropy(z->graph, NULL, OPERAND(n, c), NUMBERS(c, n), (bg_value){0}, 0.1, reduction,
                                         -100);
    case 2:
        return bg_nll_loss(z->graph, NULL, OPERAND(n, c), NUMBERS(c, n), (bg_value){0}, reduction, -100);
    case 3:
        return bg_ctc_loss(z->graph, NULL, bg_log_softmax(z->graph, NULL, OPERAND(n, t, c + 1), -1), NUMBERS(c, n, 2),
                           (bg_value){0}, (bg_value){0}, (int32_t)c, true, reduction);
    case 4:
        return bg_cosine_embedding_loss(z->graph, NULL, OPERAND(n, c), OPERAND(n, c), NUMBERS(2, n), -0.9, reduction);
    case 5:
        return bg_correct_count(z->graph, NULL, OPERAND(n, c), NUMBERS(c, n));
    case 6:
        return bg_top_k_correct_count(z->graph, NULL, OPERAND(n, c), NUMBERS(c, n), 2);
    case 7:
        return bg_class_counts(z->graph, NULL, OPERAND(n, c), NUMBERS(c, n));
    case 8:
        return bg_binary_counts(z->graph, NULL, OPERAND(n, c), OPERAND(n, c), 0.5);
    case 9:
        return bg_likelihood_sums(z->graph, NULL, OPERAND(n, c), NUMBERS(c, n), -100);
    case 10:
        return bg_cosine_similarity(z->graph, NULL, OPERAND(n, c), OPERAND(n, c), 1, 1e-8);
    default:
        return bg_pointwise_loss(z->graph, NULL, (bg_pointwise_loss_function)(kind - 11), 0.5, OPERAND(n, c),
                                 OPERAND(n, c), reduction);
    }
}

/* ---- all ops ---- */

static const struct {
    const char *name;
    bg_value (*build)(zoo *z, int kind);
    int kinds;
} animals[] = {
    {"unary", unary, BG_UNARY_COUNT},
    {"binary", binary, 2 * BG_BINARY_COUNT},
    {"elements", elements, 11},
    {"product", product, 4},
    {"convolution", convolution, 6},
    {"pool", pool, 8},
    {"interpolation", interpolation, BG_INTERPOLATION_COUNT},
    {"move", move, 9 + BG_PAD_MODE_COUNT},
    {"index", index_of, 7},
    {"along", along, 7},
    {"norm", norm, 4},
    {"attention", attention, 7},
    {"recurrence", recurrence, 6},
    {"loss", loss, 11 + BG_LOSS_FUNCTION_COUNT},
};

enum { ANIMALS = sizeof animals / sizeof *animals };

static zoo create_graph(int animal, int kind, bg_dtype dtype, uint64_t seed, bg_value *out)
{
    zoo z = {.dtype = dtype, .random = seed * 7919 + (uint64_t)(animal * 100 + kind), .low = -0.9, .high = 0.9};

    assert_int_equal(bg_graph_create(&z.graph, NULL), BG_OK);
    *out = animals[animal].build(&z, kind);
    return z;
}

/* Adds d sum(value x seed) / d operands if the value is a float; returns false if it is not. */
static bool derive(zoo *z, bg_value value, bg_value *out_seed, bg_value *gradients)
{
    const bg_type type = bg_graph_type(z->graph, value);

    if (!bg_dtype_is_float(type.dtype))
        return false;
    *out_seed = bg_graph_variable(z->graph, "seed", &type, BG_ROLE_BUFFER, NULL);
    bgi_test_derive(z->graph, value, *out_seed, z->parameters, z->count, gradients);
    return true;
}

/* ---- kernels ---- */

/* Returns whether the op's kernel has the name of the instruction set. Aliases run no kernel. */
static bool is_fast(const bg_graph *graph, const bgi_op *op, bg_kernel_policy policy, const char *suffix)
{
    bg_type types[64];
    const bg_op_signature signature = bgi_op_signature(graph, op, types);
    bg_kernel kernel = {0};
    bg_error error = {0};

    if (op->type->alias_input != BG_NO_OPERAND)
        return true;
    if (op->type->kernel(&signature, policy, &kernel, &error) != BG_OK)
        fail_msg("%s: %s", op->type->name, error.message);
    return strlen(kernel.name) >= strlen(suffix) &&
           strcmp(kernel.name + strlen(kernel.name) - strlen(suffix), suffix) == 0;
}

#endif
