/*
 * test_zoo.c: every op that a model can have, with its gradient, over random shapes and attributes. Each op must meet
 * three conditions: a fast kernel for each type and instruction set, or a row that says why not; derivatives that
 * central differences confirm in float64; and attributes of any bytes must be refused or accepted, without a crash.
 *
 * A new op needs a function here; otherwise the first test names it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/narrow.h"
#include "graph/graph.h"
#include "kernels/cpu/variant.h"
#include "kernels/pool/attributes.h"
#include "kernels/reference/element.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

enum { MOST_PARAMETERS = 8, MOST_TYPES = 256 };

/* The graph of one case, its float operands, and its random numbers. */
typedef struct zoo {
    bg_graph *graph;
    bg_dtype dtype;
    uint64_t random;
    bg_value parameters[MOST_PARAMETERS];
    uint32_t count;
    double low, high; /* of the operands' values */
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
    return z->parameters[z->count++] = bg_graph_variable(z->graph, name, &type, BG_ROLE_PARAMETER, NULL);
}

#define DIMS(...)                                                                                                      \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                                  \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define OPERAND(...) operand(z, DIMS(__VA_ARGS__))

/* Whole numbers 0 .. below - 1, of int32 unless another type is given. */
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

/* ---- the animals: each takes one of `kinds` ---- */

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
        return bg_where(z->graph, NULL, bg_compare(z->graph, NULL, BG_LESS, x, OPERAND(3, type.dims[1])), x,
                        OPERAND(3, type.dims[1]));
    case 3:
        return bg_prelu(z->graph, NULL, x, OPERAND(1));
    case 4:
        return bg_triangle(z->graph, NULL, x, true, draw(z, -2, 2));
    case 5:
        return bg_standardize(z->graph, NULL, x, z->dtype, 2.0f, 0.25f, 0.5f);
    case 6:
        return bg_dropout(z->graph, NULL, x, 0.4);
    default:
        return bg_stop_gradient(z->graph, NULL, x);
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
    default:
        return bg_conv_transpose(z->graph, NULL, OPERAND(2, c, size, size), OPERAND(c, o / groups, window, window),
                                 OPERAND(o), &options);
    }
}

static bg_value pool(zoo *z, int kind)
{
    const int64_t size = draw(z, 5, 9), sizes[] = {draw(z, 1, 4), draw(z, 1, 4)};
    bg_pool2d_options options = bg_pool2d_defaults(draw(z, 1, 3));
    const bg_value x = OPERAND(2, 3, size, size);

    options.stride[0] = draw(z, 1, 3);
    options.ceil_mode = draw(z, 0, 1);
    switch (kind) {
    case 0:
        return bg_max_pool2d(z->graph, NULL, x, &options);
    case 1:
        return bg_avg_pool2d(z->graph, NULL, x, &options);
    case 2:
        return bg_adaptive_max_pool(z->graph, NULL, x, sizes);
    default:
        return bg_adaptive_avg_pool(z->graph, NULL, x, sizes);
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
    const bg_value x = OPERAND(a, b, c);
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
        return bg_roll(z->graph, NULL, bg_flip(z->graph, NULL, x, 1), 1, 1);
    default:
        return bg_pad(z->graph, NULL, x, (bg_pad_mode)(kind - 6), before, after, 0.5);
    }
}

static bg_value index_of(zoo *z, int kind)
{
    const int64_t a = draw(z, 2, 4), b = draw(z, 4, 9), c = draw(z, 1, 6);
    const bg_value x = OPERAND(a, b, c);

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
    default:
        return bg_dot_product_attention_cached(
            z->graph, NULL, OPERAND(n, s, heads * depth), OPERAND(n, s, groups * depth), OPERAND(n, s, groups * depth),
            buffer(z, "keys", bg_tensor3(z->dtype, n, s + 3, groups * depth)),
            buffer(z, "values", bg_tensor3(z->dtype, n, s + 3, groups * depth)), NUMBERS(3, n), &options);
    }
}

static bg_value recurrence(zoo *z, int kind)
{
    const int64_t t = draw(z, 1, 4), n = draw(z, 1, 4), h = draw(z, 1, 6), gates = kind == 0 ? 4 : kind < 3 ? 3 : 1;
    const bool batch_first = draw(z, 0, 1), reverse = draw(z, 0, 1);
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
        return bg_ctc_loss(
            z->graph, NULL, bg_log_softmax(z->graph, NULL, OPERAND(n, t, c + 1), -1),
            bg_elementwise_binary(z->graph, NULL, BG_ADD, NUMBERS(c, n, 2), numbers(z, BG_INT32, 1, DIMS(1))),
            (bg_value){0}, (bg_value){0}, (int32_t)c, true, reduction);
    case 4:
        return bg_cosine_embedding_loss(z->graph, NULL, OPERAND(n, c), OPERAND(n, c), NUMBERS(2, n), -0.9, reduction);
    case 5:
        return bg_correct_count(z->graph, NULL, OPERAND(n, c), NUMBERS(c, n));
    default:
        return bg_pointwise_loss(z->graph, NULL, (bg_pointwise_loss_function)(kind - 6), 0.5, OPERAND(n, c),
                                 OPERAND(n, c), reduction);
    }
}

static const struct {
    const char *name;
    bg_value (*build)(zoo *z, int kind);
    int kinds;
} animals[] = {
    {"unary", unary, BG_UNARY_COUNT},
    {"binary", binary, 2 * BG_BINARY_COUNT},
    {"elements", elements, 8},
    {"product", product, 4},
    {"convolution", convolution, 4},
    {"pool", pool, 4},
    {"interpolation", interpolation, BG_INTERPOLATION_COUNT},
    {"move", move, 6 + BG_PAD_MODE_COUNT},
    {"index", index_of, 6},
    {"along", along, 7},
    {"norm", norm, 4},
    {"attention", attention, 6},
    {"recurrence", recurrence, 5},
    {"loss", loss, 6 + BG_LOSS_FUNCTION_COUNT},
};

enum { ANIMALS = sizeof animals / sizeof *animals };

static zoo create(int animal, int kind, bg_dtype dtype, uint64_t seed, bg_value *out)
{
    zoo z = {.dtype = dtype, .random = seed * 7919 + (uint64_t)(animal * 100 + kind), .low = -0.9, .high = 0.9};
    bg_error error = {0};

    assert_int_equal(bg_graph_create(&z.graph, NULL), BG_OK);
    *out = animals[animal].build(&z, kind);
    if (bg_graph_check(z.graph, &error) != BG_OK)
        fail_msg("%s %d, seed %d: %s", animals[animal].name, kind, (int)seed, error.message);
    return z;
}

/* Adds d sum(value x seed) / d operands if the value is a float; otherwise returns false. */
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

/* docs/ops.md lists the ops without a fast kernel, and their types. */
static const struct {
    const char *op;
    bool wide, narrow; /* float32; types of 16 bits */
} plain[] = {
    {"pad_backward", false, true}, {"embedding_backward", false, true}, {"gather_elements", false, true},
    {"top_k", false, true},        {"standardize", true, true}, /* of floats; images have one */
};

static bool is_plain(const char *op, bg_dtype dtype)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(plain[i].op, op) == 0)
            return dtype == BG_FLOAT32 ? plain[i].wide : plain[i].narrow;
    return false;
}

/* Ops that only plans add, or that need a mesh, replicas or a remote buffer, have their own tests. */
static const bg_op_type *const elsewhere[] = {
    &bgi_op_linear_backward_weights_accumulate,
    &bgi_op_matmul_accumulate,
    &bgi_op_fused_product,
    &bgi_op_fused_conv2d,
    &bgi_op_copy,
    &bgi_op_accumulate,
    &bgi_op_accumulate_tree,
    &bgi_op_scaled_sum,
    &bgi_op_sgd_update,
    &bgi_op_adam_update,
    &bgi_op_rmsprop_update,
    &bgi_op_lamb_moments,
    &bgi_op_lamb_update,
    &bgi_op_total_scale,
    &bgi_op_running_factors,
    &bgi_op_square_sum,
    &bgi_op_gradient_norm,
    &bgi_op_clip_scale,
    &bgi_op_range_count,
    &bgi_op_loss_scale,
    &bgi_op_loss_guard,
    &bgi_op_conv2d_backward_weights_accumulate,
    &bgi_op_conv2d_pool,
    &bgi_op_conv2d_pool_backward_input,
    &bgi_op_conv2d_pool_backward_weights,
    &bgi_op_conv2d_pool_backward_weights_accumulate,
    &bgi_op_batch_norm_moments,
    &bgi_op_sync_batch_norm,
    &bgi_op_batch_norm_gradient_sums,
    &bgi_op_sync_batch_norm_backward,
    &bgi_op_embedding_slots,
    &bgi_op_embedding_rows,
    &bgi_op_embedding_rows_add,
    &bgi_op_remote_load,
    &bgi_op_remote_store,
    &bgi_op_all_reduce,
    &bgi_op_all_gather,
    &bgi_op_reduce_scatter,
    &bgi_op_identical_inputs,
    &bgi_op_norm_sums,
    &bgi_op_sharded_norm,
    &bgi_op_norm_gradient_sums,
    &bgi_op_sharded_norm_backward,
    &bgi_op_logit_maximum,
    &bgi_op_logit_sums,
    &bgi_op_sharded_cross_entropy,
};

static const bg_op_type *const all_types[] = {
#define TYPE(name) &bgi_op_##name,
    BGI_OP_TYPES(TYPE)
#undef TYPE
};

enum { TYPES = sizeof all_types / sizeof *all_types };

/* The float type that an op works in: that of its operands and results other than statistics. */
static bool works_in(const bg_graph *graph, const bgi_op *op, bg_dtype dtype)
{
    for (uint32_t i = 0; i < op->input_count; i++)
        if (bgi_graph_value(graph, op->inputs[i])->type.dtype == dtype)
            return true;
    return op->outputs[0].id != 0 && bgi_graph_value(graph, op->outputs[0])->type.dtype == dtype;
}

/* Aliases run no kernel. */
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

static const struct {
    bg_kernel_policy policy;
    bgi_isa isa;
    const char *suffix;
} sets[] = {{BG_KERNELS_PORTABLE, BGI_ISA_PORTABLE, ".portable"},
            {BG_KERNELS_NEON, BGI_ISA_NEON, ".neon"},
            {BG_KERNELS_AVX2, BGI_ISA_AVX2, ".avx2"},
            {BG_KERNELS_AVX512, BGI_ISA_AVX512, ".avx512"}};
enum { SETS = sizeof sets / sizeof sets[0] };
static const bg_dtype dtypes[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT16};

/* For an op type: the types in which it occurred, and for which of them and which instruction sets it had a fast kernel
 * for some shape. */
typedef struct record {
    bool is_met, is_met_as[3], is_fast[3][SETS];
} record;

static void look(const bg_graph *graph, int d, record *records)
{
    for (size_t o = 0; o < graph->op_count; o++)
        for (int t = 0; t < TYPES; t++) {
            const bgi_op *op = &graph->ops[o];

            if (all_types[t] != op->type)
                continue;
            records[t].is_met = true;
            if (!works_in(graph, op, dtypes[d]))
                continue;
            records[t].is_met_as[d] = true;
            for (int s = 0; s < SETS; s++)
                if (bgi_isa_includes(bgi_cpu_isa(), sets[s].isa) && is_fast(graph, op, sets[s].policy, sets[s].suffix))
                    records[t].is_fast[d][s] = true;
        }
}

static void report(const record *records)
{
    char missing[4096] = "";
    size_t length = 0;

    for (int t = 0; t < TYPES; t++)
        for (int d = 0; d < 3; d++)
            for (int s = 0; s < SETS; s++) {
                const bool is_wanted = records[t].is_met_as[d] && !is_plain(all_types[t]->name, dtypes[d]);

                if (!bgi_isa_includes(bgi_cpu_isa(), sets[s].isa) || records[t].is_fast[d][s] == is_wanted ||
                    !records[t].is_met_as[d])
                    continue;
                if (length < sizeof missing - 100)
                    length += (size_t)snprintf(missing + length, sizeof missing - length, " %s %s%s %s;",
                                               all_types[t]->name, bg_dtype_name(dtypes[d]), sets[s].suffix,
                                               is_wanted ? "is missing" : "is there and not known");
            }
    if (length > 0)
        fail_msg("fast kernels:%s", missing);
}

static void test_every_op_has_its_kernels(void **state)
{
    static record records[TYPES];

    (void)state;
    for (int a = 0; a < ANIMALS; a++)
        for (int kind = 0; kind < animals[a].kinds; kind++)
            for (int d = 0; d < 3; d++)
                for (uint64_t round = 1; round <= 2; round++) {
                    bg_value value, seed, gradients[MOST_PARAMETERS];
                    zoo z = create(a, kind, dtypes[d], round, &value);

                    derive(&z, value, &seed, gradients);
                    look(z.graph, d, records);
                    bg_graph_destroy(z.graph);
                }
    report(records);
    for (int t = 0; t < TYPES; t++) {
        bool is_elsewhere = false;

        for (size_t e = 0; e < sizeof elsewhere / sizeof *elsewhere; e++)
            is_elsewhere = is_elsewhere || elsewhere[e] == all_types[t];
        if (records[t].is_met == is_elsewhere)
            fail_msg("%s: it is %s", all_types[t]->name,
                     is_elsewhere ? "here and elsewhere" : "neither here nor elsewhere");
    }
}

/* ---- gradients ---- */

static double sum_products(const bgi_test_interpreter *interpreter, bg_value value, bg_value seed)
{
    const bg_type type = bg_graph_type(interpreter->graph, value);
    double sum = 0.0;

    for (int64_t i = 0; i < bg_type_element_count(&type); i++)
        sum += bgi_load(type.dtype, bgi_test_data(interpreter, value), i) *
               bgi_load(type.dtype, bgi_test_data(interpreter, seed), i);
    return sum;
}

/* Moves some elements of each operand up and down. */
static void check_differences(zoo *z, bg_value value, bg_value seed, const bg_value *gradients, const char *what)
{
    const double step = 1e-5;
    bgi_test_interpreter interpreter;

    bgi_test_interpreter_init(&interpreter, z->graph);
    interpreter.env.training = true;
    for (uint32_t v = 1; v < z->graph->value_count; v++) {
        const bgi_value *leaf = &z->graph->values[v];

        for (int64_t i = 0; leaf->kind == BGI_VALUE_VARIABLE && i < bg_type_element_count(&leaf->type); i++)
            bgi_store(leaf->type.dtype, bgi_test_data(&interpreter, (bg_value){v}), i,
                      z->low + (z->high - z->low) * (double)draw(z, 0, 1000000) * 1e-6);
    }
    for (uint32_t p = 0; p < z->count; p++) {
        const bg_type type = bg_graph_type(z->graph, z->parameters[p]);
        const int64_t count = bg_type_element_count(&type);

        for (int round = 0; round < 3; round++) {
            const int64_t at = draw(z, 0, count - 1);
            double *data = bgi_test_data(&interpreter, z->parameters[p]), found = 0.0, sums[2], numeric;
            const double before = data[at];

            for (int side = 0; side < 2; side++) {
                data[at] = before + (side == 0 ? step : -step);
                bgi_test_interpret(&interpreter);
                sums[side] = sum_products(&interpreter, value, seed);
            }
            data[at] = before;
            bgi_test_interpret(&interpreter);
            if (!bg_value_is_null(gradients[p]))
                found = ((const double *)bgi_test_data(&interpreter, gradients[p]))[at];
            numeric = (sums[0] - sums[1]) / (2.0 * step);
            if (!(fabs(numeric - found) <= 2e-6 + 2e-4 * fabs(numeric)))
                fail_msg("%s: d operand %u [%lld] is %.9g, by differences %.9g", what, p, (long long)at, found,
                         numeric);
        }
    }
    bgi_test_interpreter_clear(&interpreter);
}

static bool is_quick(void)
{
    return getenv("BRIGADE_TEST_QUICK") != NULL;
}

static void test_every_gradient_is_a_derivative(void **state)
{
    (void)state;
    for (int a = 0; a < ANIMALS; a++)
        for (int kind = 0; kind < animals[a].kinds; kind++)
            for (uint64_t seed = 1; seed <= (is_quick() ? 1 : 4); seed++) {
                bg_value value, weights, gradients[MOST_PARAMETERS] = {{0}};
                zoo z = create(a, kind, BG_FLOAT64, seed, &value);
                char what[64];

                snprintf(what, sizeof what, "%s %d, seed %d", animals[a].name, kind, (int)seed);
                /* float32 inside the op cannot show such small differences; ops that stop gradients, and caches, have
                 * none */
                if (!(animals[a].build == elements && (kind == 1 || kind == 5 || kind == 7)) &&
                    !(animals[a].build == attention && kind >= 4) && derive(&z, value, &weights, gradients))
                    check_differences(&z, value, weights, gradients, what);
                bg_graph_destroy(z.graph);
            }
}

/* ---- attributes of any bytes: of ops that a caller adds, and of their gradients ---- */

/* Types that a graph accepts and for which the machine has memory, because kernels read each element along an axis. */
static bool are_types(const bg_type *types, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (types[i].dtype != BG_DTYPE_NONE &&
            (bg_type_validate(&types[i], NULL) != BG_OK || bg_type_element_count(&types[i]) > 1 << 24))
            return false;
    return true;
}

static bool is_pool(const bg_op_type *type)
{
    return type == &bgi_op_max_pool2d || type == &bgi_op_avg_pool2d || type == &bgi_op_max_pool2d_backward ||
           type == &bgi_op_avg_pool2d_backward;
}

static void fuzz(zoo *z, const bgi_op *op, int rounds)
{
    const size_t bytes = op->type->attributes_bytes;
    bg_type types[64], outputs[64];
    unsigned char *attributes = malloc(bytes + 1);

    assert_non_null(attributes);
    for (int round = 0; round < rounds; round++) {
        bg_op_signature signature = bgi_op_signature(z->graph, op, types);
        bg_kernel kernel = {0};
        bg_error error = {0};

        memcpy(attributes, op->attributes, bytes);
        for (int64_t changes = draw(z, 1, 3); changes > 0; changes--) {
            static const unsigned char values[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0xfe, 0xf0};

            attributes[draw(z, 0, (int64_t)bytes - 1)] =
                draw(z, 0, 1) ? values[draw(z, 0, 7)] : (unsigned char)draw(z, 0, 255);
        }
        if (is_pool(op->type)) { /* a bool has only these values; the backward's attributes begin with the forward's */
            bg_pool2d_options *options = &((bgi_pool2d_attributes *)(void *)attributes)->options;

            *(unsigned char *)&options->ceil_mode &= 1;
            *(unsigned char *)&options->count_include_pad &= 1;
        }
        signature.attributes = attributes;
        memset(outputs, 0, sizeof outputs);
        if (op->type->infer(&signature, outputs, &error) != BG_OK) {
            assert_true(error.message[0] != '\0');
            continue;
        }
        if (!are_types(outputs, op->output_count)) /* they are not planned */
            continue;
        for (uint32_t i = 0; i < op->output_count; i++)
            types[op->input_count + i] = outputs[i];
        if (op->type->cost != NULL)
            op->type->cost(&signature);
        if (op->type->kernel != NULL)
            op->type->kernel(&signature, BG_KERNELS_FAST, &kernel, &error);
    }
    free(attributes);
}

static void test_any_attributes_are_judged(void **state)
{
    (void)state;
    for (int a = 0; a < ANIMALS; a++)
        for (int kind = 0; kind < animals[a].kinds; kind++) {
            bg_value value, weights, gradients[MOST_PARAMETERS] = {{0}};
            zoo z = create(a, kind, BG_FLOAT32, 5, &value);

            derive(&z, value, &weights, gradients);
            for (size_t o = 0; o < z.graph->op_count; o++)
                if (z.graph->ops[o].type->attributes_bytes > 0)
                    fuzz(&z, &z.graph->ops[o], is_quick() ? 20 : 200);
            bg_graph_destroy(z.graph);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_has_its_kernels),
        cmocka_unit_test(test_every_gradient_is_a_derivative),
        cmocka_unit_test(test_any_attributes_are_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
