/*
 * graph_cases.h: defines cases of bench/ops.c that are built with the library's public functions: ops that consist of
 * others, and ops without a manual setup. A graph has the op over some operands, and the gradients of those operands
 * that a model would request. Its ops become calls, one after the other, as in a plan without fusion.
 */
#ifndef BENCH_GRAPH_CASES_H
#define BENCH_GRAPH_CASES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/graph.h>
#include <brigade/ops.h>

#include "core/error.h"
#include "graph/graph.h"
#include "ops/ops.h"

enum { GRAPH_DIMS = 9, GRAPH_OPERANDS = 8 };

typedef struct graph_rig {
    bg_graph *graph;
    bg_value operands[GRAPH_OPERANDS]; /* the operands with a gradient */
    uint32_t count;
    uint64_t random;
    bool is_positive; /* operands have values in 0.1 .. 1.1 instead of -1 .. 1 */
} graph_rig;

static uint32_t graph_draw(graph_rig *r)
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->random >> 33);
}

static bg_value graph_operand(graph_rig *r, uint32_t rank, const int64_t *dims, bool wants_gradient)
{
    const bg_type type = bg_type_make(BG_FLOAT32, rank, dims);
    char name[16];
    bg_value x;

    snprintf(name, sizeof name, "p%u", (unsigned)r->graph->value_count);
    x = bg_graph_variable(r->graph, name, &type, BG_ROLE_PARAMETER, NULL);
    if (wants_gradient)
        r->operands[r->count++] = x;
    return x;
}

/* Adds an input of whole numbers 0 .. below - 1. */
static bg_value graph_numbers(graph_rig *r, bg_dtype dtype, int64_t below, uint32_t rank, const int64_t *dims)
{
    const bg_type type = bg_type_make(dtype, rank, dims);
    const int64_t count = bg_type_element_count(&type);
    void *data = calloc((size_t)count, bg_dtype_size_bytes(dtype));
    bg_value value;

    if (data == NULL)
        exit(1);
    for (int64_t i = 0; i < count; i++)
        if (dtype == BG_UINT8)
            ((uint8_t *)data)[i] = (uint8_t)(graph_draw(r) % (uint32_t)below);
        else
            ((int32_t *)data)[i] = (int32_t)(graph_draw(r) % (uint32_t)below);
    value = bg_graph_constant(r->graph, "numbers", &type, data);
    free(data);
    return value;
}

#define GRAPH_SHAPE(...)                                                                                               \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                                  \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define X(...)              graph_operand(r, GRAPH_SHAPE(__VA_ARGS__), true)
#define FIXED(...)          graph_operand(r, GRAPH_SHAPE(__VA_ARGS__), false)
#define NUMBERS(below, ...) graph_numbers(r, BG_INT32, below, GRAPH_SHAPE(__VA_ARGS__))
#define BITS(...)           graph_numbers(r, BG_UINT8, 2, GRAPH_SHAPE(__VA_ARGS__))

/* ---- the cases ---- */

static bg_value graph_function(graph_rig *r, bg_unary function, const int64_t *d)
{
    r->is_positive = function == BG_LOG || function == BG_SQRT || function == BG_RSQRT || function == BG_RECIPROCAL ||
                     function == BG_LOG1P;
    return bg_elementwise_unary(r->graph, NULL, function, X(d[0]));
}

static bg_value graph_power(graph_rig *r, const int64_t *d)
{
    return bg_power(r->graph, X(d[0]), 3.0);
}

static bg_value graph_subtract(graph_rig *r, const int64_t *d)
{
    return bg_subtract(r->graph, X(d[0]), X(d[0]));
}

static bg_value graph_divide(graph_rig *r, const int64_t *d)
{
    r->is_positive = true;
    return bg_divide(r->graph, X(d[0]), X(d[0]));
}

static bg_value graph_minimum(graph_rig *r, const int64_t *d)
{
    return bg_elementwise_binary(r->graph, NULL, BG_MINIMUM, X(d[0]), X(d[0]));
}

static bg_value graph_scale(graph_rig *r, const int64_t *d)
{
    return bg_scale(r->graph, NULL, X(d[0]), 1.5, 0.25);
}

static bg_value graph_cast(graph_rig *r, const int64_t *d)
{
    return bg_cast(r->graph, NULL, X(d[0]), BG_BFLOAT16);
}

static bg_value graph_compare(graph_rig *r, const int64_t *d)
{
    return bg_compare(r->graph, NULL, BG_LESS, FIXED(d[0]), FIXED(d[0]));
}

static bg_value graph_logical(graph_rig *r, const int64_t *d)
{
    return bg_logical(r->graph, NULL, BG_LOGIC_AND, BITS(d[0]), BITS(d[0]));
}

static bg_value graph_prelu(graph_rig *r, const int64_t *d)
{
    return bg_prelu(r->graph, NULL, X(d[0], d[1], d[2]), X(d[1]));
}

static bg_value graph_triangle(graph_rig *r, const int64_t *d)
{
    return bg_triangle(r->graph, NULL, X(d[0], d[1], d[2]), false, 0);
}

static bg_value graph_conv1d(graph_rig *r, const int64_t *d)
{
    bg_conv_options options = bg_conv_defaults();

    options.padding[0] = d[4] / 2;
    return bg_conv(r->graph, NULL, X(d[0], d[1], d[2]), X(d[3], d[1], d[4]), (bg_value){0}, &options);
}

static bg_value graph_conv3d(graph_rig *r, const int64_t *d)
{
    bg_conv_options options = bg_conv_defaults();

    for (int i = 0; i < 3; i++)
        options.padding[i] = d[4] / 2;
    return bg_conv(r->graph, NULL, X(d[0], d[1], d[2], d[2], d[2]), X(d[3], d[1], d[4], d[4], d[4]), (bg_value){0},
                   &options);
}

static bg_value graph_max_pool1d(graph_rig *r, const int64_t *d)
{
    const bg_pool_options options = bg_pool_defaults(d[3]);

    return bg_max_pool(r->graph, NULL, X(d[0], d[1], d[2]), &options);
}

static bg_value graph_max_pool3d(graph_rig *r, const int64_t *d)
{
    const bg_pool_options options = bg_pool_defaults(d[3]);

    return bg_max_pool(r->graph, NULL, X(d[0], d[1], d[2], d[2], d[2]), &options);
}

static bg_value graph_adaptive_avg(graph_rig *r, const int64_t *d)
{
    return bg_adaptive_avg_pool(r->graph, NULL, X(d[0], d[1], d[2], d[2]), (const int64_t[]){d[3], d[3]});
}

static bg_value graph_adaptive_max(graph_rig *r, const int64_t *d)
{
    return bg_adaptive_max_pool(r->graph, NULL, X(d[0], d[1], d[2], d[2]), (const int64_t[]){d[3], d[3]});
}

static bg_value graph_slice(graph_rig *r, const int64_t *d)
{
    return bg_slice(r->graph, NULL, X(d[0], d[1], d[2]), 1, d[1] / 4, d[1], 1);
}

static bg_value graph_concat(graph_rig *r, const int64_t *d)
{
    return bg_concat(r->graph, NULL, (const bg_value[]){X(d[0], d[1], d[2]), X(d[0], d[1], d[2])}, 2, 1);
}

static bg_value graph_stack(graph_rig *r, const int64_t *d)
{
    return bg_stack(r->graph, NULL, (const bg_value[]){X(d[0], d[1], d[2]), X(d[0], d[1], d[2])}, 2, 1);
}

static bg_value graph_tile(graph_rig *r, const int64_t *d)
{
    return bg_tile(r->graph, NULL, X(d[0], d[1], d[2]), (const int64_t[]){1, 4, 1});
}

static bg_value graph_roll(graph_rig *r, const int64_t *d)
{
    return bg_roll(r->graph, NULL, X(d[0], d[1], d[2]), 1, d[1] / 3);
}

static bg_value graph_flip(graph_rig *r, const int64_t *d)
{
    return bg_flip(r->graph, NULL, X(d[0], d[1], d[2]), 1);
}

static bg_value graph_broadcast(graph_rig *r, const int64_t *d)
{
    return bg_broadcast(r->graph, NULL, X(d[0], 1, d[2]), 3, d);
}

static bg_value graph_pad(graph_rig *r, const int64_t *d, bg_pad_mode mode)
{
    const int64_t sides[] = {0, 0, d[4], d[4]};

    return bg_pad(r->graph, NULL, X(d[0], d[1], d[2], d[3]), mode, sides, sides, 0.0);
}

static bg_value graph_pad_constant(graph_rig *r, const int64_t *d)
{
    return graph_pad(r, d, BG_PAD_CONSTANT);
}

static bg_value graph_pad_replicate(graph_rig *r, const int64_t *d)
{
    return graph_pad(r, d, BG_PAD_REPLICATE);
}

static bg_value graph_scatter_add(graph_rig *r, const int64_t *d)
{
    return bg_scatter_add(r->graph, NULL, X(d[0], d[1]), 0, NUMBERS(d[0], d[2]), X(d[2], d[1]));
}

static bg_value graph_gather_elements(graph_rig *r, const int64_t *d)
{
    return bg_gather_elements(r->graph, NULL, X(d[0], d[1]), 1, NUMBERS(d[1], d[0], d[2]));
}

static bg_value graph_scatter_elements_add(graph_rig *r, const int64_t *d)
{
    return bg_scatter_elements_add(r->graph, NULL, X(d[0], d[1]), 1, NUMBERS(d[1], d[0], d[2]), X(d[0], d[2]));
}

static bg_value graph_one_hot(graph_rig *r, const int64_t *d)
{
    return bg_one_hot(r->graph, NULL, NUMBERS(d[1], d[0]), d[1], BG_INT32);
}

static bg_value graph_top_k(graph_rig *r, const int64_t *d)
{
    return bg_top_k(r->graph, NULL, X(d[0], d[1]), d[2], false, NULL);
}

static bg_value graph_argmax(graph_rig *r, const int64_t *d)
{
    return bg_argmax(r->graph, NULL, FIXED(d[0], d[1]));
}

static bg_value graph_group_norm(graph_rig *r, const int64_t *d)
{
    return bg_group_norm(r->graph, NULL, X(d[0], d[1], d[2], d[2]), d[3], X(d[1]), X(d[1]), 1e-5);
}

static bg_value graph_einsum(graph_rig *r, const int64_t *d)
{
    return bg_einsum(r->graph, NULL, "bhqd,bhkd->bhqk",
                     (const bg_value[]){X(d[0], d[1], d[2], d[3]), X(d[0], d[1], d[2], d[3])}, 2);
}

/* Adds attention of one new token over a cache. */
static bg_value graph_attention_cached(graph_rig *r, const int64_t *d)
{
    bg_dot_product_attention_options options = bg_dot_product_attention_defaults(d[2]);
    const int64_t width = d[3] * d[4];

    options.key_heads = d[3];
    return bg_dot_product_attention_cached(r->graph, NULL, FIXED(d[0], 1, d[2] * d[4]), FIXED(d[0], 1, width),
                                           FIXED(d[0], 1, width), FIXED(d[0], d[1], width), FIXED(d[0], d[1], width),
                                           bg_scale(r->graph, NULL, NUMBERS(1, d[0]), 1.0, (double)d[1] - 1.0),
                                           &options);
}

static bg_value graph_pointwise(graph_rig *r, const int64_t *d, bg_pointwise_loss_function function, double parameter)
{
    return bg_pointwise_loss(r->graph, NULL, function, parameter, X(d[0]), FIXED(d[0]), BG_LOSS_MEAN);
}

static bg_value graph_l1(graph_rig *r, const int64_t *d)
{
    return graph_pointwise(r, d, BG_LOSS_ABSOLUTE, 0.0);
}

static bg_value graph_smooth_l1(graph_rig *r, const int64_t *d)
{
    return graph_pointwise(r, d, BG_LOSS_SMOOTH_L1, 1.0);
}

static bg_value graph_huber(graph_rig *r, const int64_t *d)
{
    return graph_pointwise(r, d, BG_LOSS_HUBER, 1.0);
}

static bg_value graph_binary(graph_rig *r, const int64_t *d)
{
    r->is_positive = true; /* clamped to 0.05 .. 0.95, so that both logarithms are finite */
    return bg_pointwise_loss(r->graph, NULL, BG_LOSS_BINARY, 0.0, bg_clamp(r->graph, X(d[0]), 0.05, 0.95), FIXED(d[0]),
                             BG_LOSS_MEAN);
}

static bg_value graph_kl(graph_rig *r, const int64_t *d)
{
    r->is_positive = true;
    return graph_pointwise(r, d, BG_LOSS_KL, 0.0);
}

static bg_value graph_cosine(graph_rig *r, const int64_t *d)
{
    return bg_cosine_similarity(r->graph, NULL, X(d[0], d[1]), X(d[0], d[1]), 1, 1e-8);
}

static bg_value graph_cosine_loss(graph_rig *r, const int64_t *d)
{
    return bg_cosine_embedding_loss(r->graph, NULL, X(d[0], d[1]), X(d[0], d[1]),
                                    bg_scale(r->graph, NULL, NUMBERS(2, d[0]), 2.0, -1.0), 0.0, BG_LOSS_MEAN);
}

static bg_value graph_weighted_loss(graph_rig *r, const int64_t *d)
{
    r->is_positive = true;
    return bg_weighted_cross_entropy(r->graph, NULL, X(d[0], d[1]), NUMBERS(d[1], d[0]), FIXED(d[1]), 0.0, BG_LOSS_MEAN,
                                     -100);
}

#define SIZES(op)                                                                                                      \
    {op, {4096}}, {op, {262144}},                                                                                      \
    {                                                                                                                  \
        op,                                                                                                            \
        {                                                                                                              \
            4194304                                                                                                    \
        }                                                                                                              \
    }
#define BLOCKS(op)                                                                                                     \
    {op, {4, 16, 256}}, {op, {16, 128, 256}},                                                                          \
    {                                                                                                                  \
        op,                                                                                                            \
        {                                                                                                              \
            64, 64, 512                                                                                                \
        }                                                                                                              \
    }

/* The cases that bench/peers/ops_torch.py also builds. */
static const struct {
    const char *op;
    int64_t dims[GRAPH_DIMS];
} graph_cases[] = {
    SIZES("silu"),
    SIZES("gelu_tanh"),
    SIZES("mish"),
    SIZES("softsign"),
    SIZES("softplus"),
    SIZES("log_sigmoid"),
    SIZES("elu"),
    SIZES("leaky_relu"),
    SIZES("hard_sigmoid"),
    SIZES("hard_swish"),
    SIZES("clamp"),
    SIZES("expm1"),
    SIZES("log"),
    SIZES("log1p"),
    SIZES("sqrt"),
    SIZES("rsqrt"),
    SIZES("square"),
    SIZES("reciprocal"),
    SIZES("negate"),
    SIZES("abs"),
    SIZES("sign"),
    SIZES("round"),
    SIZES("floor"),
    SIZES("ceil"),
    SIZES("trunc"),
    SIZES("erf"),
    SIZES("sin"),
    SIZES("cos"),
    SIZES("pow"),
    SIZES("subtract"),
    SIZES("divide"),
    SIZES("minimum"),
    SIZES("scale"),
    SIZES("cast"),
    SIZES("compare"),
    SIZES("logical_and"),
    SIZES("l1_loss"),
    SIZES("smooth_l1_loss"),
    SIZES("huber_loss"),
    SIZES("bce"),
    SIZES("kl_div"),
    BLOCKS("prelu"),
    BLOCKS("triangle"),
    BLOCKS("slice"),
    BLOCKS("concat"),
    BLOCKS("stack"),
    BLOCKS("tile"),
    BLOCKS("roll"),
    BLOCKS("flip"),
    BLOCKS("broadcast"),
    /* n c length, o, window */
    {"conv1d", {16, 64, 512, 64, 3}},
    {"conv1d", {8, 128, 1024, 128, 5}},
    {"conv1d", {32, 32, 256, 64, 9}},
    /* n c edge, o, window */
    {"conv3d", {2, 16, 32, 32, 3}},
    {"conv3d", {4, 32, 16, 64, 3}},
    {"conv3d", {8, 64, 8, 64, 3}},
    /* n c length, window */
    {"max_pool1d", {16, 64, 1024, 2}},
    {"max_pool1d", {32, 128, 256, 4}},
    {"max_pool1d", {8, 32, 4096, 2}},
    /* n c edge, window */
    {"max_pool3d", {4, 32, 32, 2}},
    {"max_pool3d", {8, 64, 16, 2}},
    {"max_pool3d", {2, 16, 48, 3}},
    /* n c edge, edge of the result */
    {"adaptive_avg_pool", {32, 512, 7, 1}},
    {"adaptive_avg_pool", {8, 64, 56, 7}},
    {"adaptive_avg_pool", {8, 64, 32, 5}},
    {"adaptive_max_pool", {32, 512, 7, 1}},
    {"adaptive_max_pool", {8, 64, 56, 7}},
    {"adaptive_max_pool", {8, 64, 32, 5}},
    /* n c h w, elements on each side */
    {"pad_constant", {8, 64, 56, 56, 1}},
    {"pad_constant", {32, 16, 32, 32, 2}},
    {"pad_constant", {4, 3, 224, 224, 3}},
    {"pad_replicate", {8, 64, 56, 56, 1}},
    {"pad_replicate", {32, 16, 32, 32, 2}},
    {"pad_replicate", {4, 3, 224, 224, 3}},
    /* rows, columns, ids; with `elements`: ids of each row */
    {"scatter_add", {256, 128, 768}},
    {"scatter_add", {4096, 512, 1024}},
    {"scatter_add", {1000, 64, 4096}},
    {"gather_elements", {64, 1024, 128}},
    {"gather_elements", {1024, 256, 256}},
    {"gather_elements", {4096, 64, 16}},
    {"scatter_elements_add", {64, 1024, 128}},
    {"scatter_elements_add", {1024, 256, 256}},
    {"scatter_elements_add", {4096, 64, 16}},
    /* rows, classes or columns, k of top_k */
    {"one_hot", {1024, 10}},
    {"one_hot", {1024, 1000}},
    {"one_hot", {16384, 64}},
    {"top_k", {64, 1000, 5}},
    {"top_k", {16, 50257, 40}},
    {"top_k", {1024, 256, 8}},
    {"argmax", {128, 10}},
    {"argmax", {1024, 1000}},
    {"argmax", {64, 50257}},
    /* n c edge, groups */
    {"group_norm", {16, 32, 64, 8}},
    {"group_norm", {16, 64, 32, 16}},
    {"group_norm", {8, 128, 16, 128}},
    /* n heads queries width */
    {"einsum", {4, 8, 128, 64}},
    {"einsum", {2, 12, 256, 64}},
    {"einsum", {16, 4, 64, 32}},
    /* samples, cache, heads, heads of keys, width */
    {"attention_cached", {1, 1024, 12, 12, 64}},
    {"attention_cached", {8, 512, 12, 4, 64}},
    {"attention_cached", {16, 256, 8, 8, 64}},
    /* rows, columns */
    {"cosine_similarity", {128, 512}},
    {"cosine_similarity", {1024, 768}},
    {"cosine_similarity", {4096, 128}},
    {"cosine_embedding_loss", {128, 512}},
    {"cosine_embedding_loss", {1024, 768}},
    {"cosine_embedding_loss", {4096, 128}},
    {"weighted_loss", {128, 10}},
    {"weighted_loss", {768, 256}},
    {"weighted_loss", {256, 50257}},
};
enum { GRAPH_CASES = sizeof graph_cases / sizeof *graph_cases };

static bg_value graph_build(graph_rig *r, size_t i)
{
    static const struct {
        const char *op;
        bg_unary function;
    } functions[] = {{"silu", BG_SILU},
                     {"gelu_tanh", BG_GELU_TANH},
                     {"mish", BG_MISH},
                     {"softsign", BG_SOFTSIGN},
                     {"softplus", BG_SOFTPLUS},
                     {"log_sigmoid", BG_LOG_SIGMOID},
                     {"elu", BG_ELU},
                     {"leaky_relu", BG_LEAKY_RELU},
                     {"hard_sigmoid", BG_HARD_SIGMOID},
                     {"hard_swish", BG_HARD_SWISH},
                     {"clamp", BG_CLAMP},
                     {"expm1", BG_EXPM1},
                     {"log", BG_LOG},
                     {"log1p", BG_LOG1P},
                     {"sqrt", BG_SQRT},
                     {"rsqrt", BG_RSQRT},
                     {"square", BG_SQUARE},
                     {"reciprocal", BG_RECIPROCAL},
                     {"negate", BG_NEGATE},
                     {"abs", BG_ABS},
                     {"sign", BG_SIGN},
                     {"round", BG_ROUND},
                     {"floor", BG_FLOOR},
                     {"ceil", BG_CEIL},
                     {"trunc", BG_TRUNC},
                     {"erf", BG_ERF},
                     {"sin", BG_SIN},
                     {"cos", BG_COS}};
    static const struct {
        const char *op;
        bg_value (*build)(graph_rig *r, const int64_t *d);
    } builders[] = {{"pow", graph_power},
                    {"subtract", graph_subtract},
                    {"divide", graph_divide},
                    {"minimum", graph_minimum},
                    {"scale", graph_scale},
                    {"cast", graph_cast},
                    {"compare", graph_compare},
                    {"logical_and", graph_logical},
                    {"prelu", graph_prelu},
                    {"triangle", graph_triangle},
                    {"conv1d", graph_conv1d},
                    {"conv3d", graph_conv3d},
                    {"max_pool1d", graph_max_pool1d},
                    {"max_pool3d", graph_max_pool3d},
                    {"adaptive_avg_pool", graph_adaptive_avg},
                    {"adaptive_max_pool", graph_adaptive_max},
                    {"slice", graph_slice},
                    {"concat", graph_concat},
                    {"stack", graph_stack},
                    {"tile", graph_tile},
                    {"roll", graph_roll},
                    {"flip", graph_flip},
                    {"broadcast", graph_broadcast},
                    {"pad_constant", graph_pad_constant},
                    {"pad_replicate", graph_pad_replicate},
                    {"scatter_add", graph_scatter_add},
                    {"gather_elements", graph_gather_elements},
                    {"scatter_elements_add", graph_scatter_elements_add},
                    {"one_hot", graph_one_hot},
                    {"top_k", graph_top_k},
                    {"argmax", graph_argmax},
                    {"group_norm", graph_group_norm},
                    {"einsum", graph_einsum},
                    {"attention_cached", graph_attention_cached},
                    {"l1_loss", graph_l1},
                    {"smooth_l1_loss", graph_smooth_l1},
                    {"huber_loss", graph_huber},
                    {"bce", graph_binary},
                    {"kl_div", graph_kl},
                    {"cosine_similarity", graph_cosine},
                    {"cosine_embedding_loss", graph_cosine_loss},
                    {"weighted_loss", graph_weighted_loss}};

    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        if (strcmp(functions[f].op, graph_cases[i].op) == 0)
            return graph_function(r, functions[f].function, graph_cases[i].dims);
    for (size_t b = 0; b < sizeof builders / sizeof *builders; b++)
        if (strcmp(builders[b].op, graph_cases[i].op) == 0)
            return builders[b].build(r, graph_cases[i].dims);
    return (bg_value){0};
}

/* ---- gradients ---- */

static void graph_fail(const bg_error *error)
{
    fprintf(stderr, "ops: %s\n", error->message);
    exit(1);
}

static void graph_derive_op(bg_graph *graph, const bgi_op *op, const bool *depends, bg_value *gradients)
{
    bg_type types[64];
    bg_value output_gradients[32] = {{0}}, input_gradients[32] = {{0}};
    bool needs[32] = {false}, flows = false;
    bg_error error = {0};
    bg_op_gradient gradient = {.graph = graph,
                               .op = bgi_op_signature(graph, op, types),
                               .inputs = op->inputs,
                               .outputs = op->outputs,
                               .output_gradients = output_gradients,
                               .needs = needs,
                               .input_gradients = input_gradients};

    for (uint32_t o = 0; o < op->output_count; o++) {
        output_gradients[o] = gradients[op->outputs[o].id];
        flows = flows || !bg_value_is_null(output_gradients[o]);
    }
    if (!flows || op->type->gradient == NULL)
        return;
    for (uint32_t i = 0; i < op->input_count; i++)
        needs[i] = depends[op->inputs[i].id];
    if (op->type->gradient(&gradient, &error) != BG_OK)
        graph_fail(&error);
    for (uint32_t i = 0; i < op->input_count; i++) {
        bg_value *sum = &gradients[op->inputs[i].id];

        if (!bg_value_is_null(input_gradients[i]))
            *sum = bg_value_is_null(*sum) ? input_gradients[i]
                                          : bgi_add_n(graph, NULL, (const bg_value[]){*sum, input_gradients[i]}, 2);
    }
}

/* Adds the gradients of the operands, from a given gradient of y. */
static void graph_derive(graph_rig *r, bg_value y)
{
    bg_graph *graph = r->graph;
    const bg_type type = bg_graph_type(graph, y);
    const size_t values = graph->value_count + 1;
    const uint32_t ops = bg_graph_op_count(graph);
    bg_value *gradients = calloc(values, sizeof *gradients);
    bool *depends = calloc(values, sizeof *depends);
    bg_error error = {0};

    if (gradients == NULL || depends == NULL)
        exit(1);
    for (uint32_t i = 0; i < r->count; i++)
        depends[r->operands[i].id] = true;
    for (uint32_t o = 0; o < ops; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++)
            for (uint32_t k = 0; depends[graph->ops[o].inputs[i].id] && k < graph->ops[o].output_count; k++)
                depends[graph->ops[o].outputs[k].id] =
                    bg_dtype_is_float(bg_graph_type(graph, graph->ops[o].outputs[k]).dtype);
    if (r->count > 0 && bg_dtype_is_float(type.dtype))
        gradients[y.id] = bg_graph_variable(graph, "seed", &type, BG_ROLE_BUFFER, NULL);
    for (uint32_t i = ops; i-- > 0;) {
        const bgi_op op = graph->ops[i];

        graph_derive_op(graph, &op, depends, gradients);
    }
    if (bg_graph_check(graph, &error) != BG_OK)
        graph_fail(&error);
    free(gradients);
    free(depends);
}

#undef X
#undef FIXED
#undef NUMBERS
#undef BITS
#undef SIZES
#undef BLOCKS

#endif
