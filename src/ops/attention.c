/*
 * attention.c: defines multi-head self-attention over a product whose rows hold queries, keys and values one after
 * another, and its gradient. For the backward pass the op keeps the logarithm of each row's sum of exponentials instead
 * of the scores.
 *
 *     row of qkv (one token):  | q of head 0 | q of head 1 | ... | k of head 0 | ... | v of head 0 | ... |
 */
#include <brigade/ops.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/attention/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

static bg_status check_numbers(const bgi_attention_attributes *attributes, bg_error *error)
{
    const int64_t length = attributes->sequence_length;

    if (attributes->heads < 1)
        return bg_error_set(error, BG_ERROR_INVALID, "heads is %lld; it must be at least 1",
                            (long long)attributes->heads);
    if (length < 1)
        return bg_error_set(error, BG_ERROR_INVALID, "the sequence length is %lld; it must be at least 1",
                            (long long)length);
    if (!isfinite(attributes->scale))
        return bg_error_set(error, BG_ERROR_INVALID, "scale is %g; it must be a finite number, or 0 for 1 / sqrt(D)",
                            attributes->scale);
    if (!(attributes->probability >= 0.0 && attributes->probability < 1.0))
        return bg_error_set(error, BG_ERROR_INVALID, "dropout is %g; it must be at least 0 and below 1",
                            attributes->probability);
    if (attributes->serialization < 1 || length % attributes->serialization != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "serialization is %lld; it must be at least 1 and divide the %lld queries of a sequence",
                            (long long)attributes->serialization, (long long)length);
    /* Checks that a 32-bit counter can number a sample's random numbers, in groups of four. */
    if (attributes->probability > 0.0 &&
        (double)attributes->heads * (double)length * (double)((length + 3) / 4) > (double)UINT32_MAX)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "dropout over %lld heads of %lld x %lld scores: a sample can have at most 2^34",
                            (long long)attributes->heads, (long long)length, (long long)length);
    return BG_OK;
}

/* Derives the types of y and of the rows' statistics from qkv, [N, S, 3 heads D] or [N S, 3 heads D]. */
static bg_status infer_from(const bg_type *qkv, const bgi_attention_attributes *attributes, bg_type *out_y,
                            bg_type *out_statistics, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];
    int64_t rows;

    BGI_TRY(bgi_shape_float(qkv, "qkv", error));
    if (qkv->rank != 2 && qkv->rank != 3)
        return bg_error_set(error, BG_ERROR_SHAPE, "qkv is %s; it must be [N, S, 3 heads D] or [N S, 3 heads D]",
                            bg_type_text(qkv, text));
    BGI_TRY(check_numbers(attributes, error));
    if (attributes->heads > qkv->dims[qkv->rank - 1] || qkv->dims[qkv->rank - 1] % (3 * attributes->heads) != 0)
        return bg_error_set(
            error, BG_ERROR_SHAPE,
            "qkv is %s; its last dimension must be 3 (queries, keys, values) x %lld heads x their width",
            bg_type_text(qkv, text), (long long)attributes->heads);
    rows = qkv->rank == 3 ? qkv->dims[1] : qkv->dims[0];
    if (qkv->rank == 3 ? rows != attributes->sequence_length : rows % attributes->sequence_length != 0)
        return bg_error_set(error, BG_ERROR_SHAPE, "qkv is %s: %lld tokens are not a whole number of sequences of %lld",
                            bg_type_text(qkv, text), (long long)rows, (long long)attributes->sequence_length);
    *out_y = *qkv;
    out_y->dims[qkv->rank - 1] /= 3;
    *out_statistics =
        bg_tensor3(bgi_statistics_dtype(qkv->dtype), qkv->rank == 3 ? qkv->dims[0] : rows / attributes->sequence_length,
                   attributes->heads, attributes->sequence_length);
    return BG_OK;
}

/* ---- qkv -> y, log_sum_exp ---- */

static bg_status infer_forward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    return infer_from(&op->types[0], op->attributes, &outputs[0], &outputs[1], error);
}

static bg_status differentiate_attention(bg_op_gradient *gradient, bg_error *error)
{
    bg_value inputs[4] = {{0}, gradient->inputs[0], gradient->outputs[0], gradient->outputs[1]};

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_attention_backward, NULL, inputs, 4, gradient->op.attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

/* Counts, for each pair of tokens, D multiplications and additions in each of `products` products, and about ten
 * operations for the exponential. */
static bg_cost cost_pairs(const bg_op_signature *op, const bg_type *y, double products)
{
    const bgi_attention_attributes *attributes = op->attributes;
    const double keys = (double)attributes->sequence_length * (attributes->causal ? 0.5 : 1.0);
    const double pairs = bgi_type_elements(y) / (double)y->dims[y->rank - 1] * (double)attributes->heads * keys;

    return bgi_cost_once(op, 2.0 * products * bgi_type_elements(y) * keys + 10.0 * pairs);
}

static bg_cost cost_forward(const bg_op_signature *op)
{
    return cost_pairs(op, &op->types[1], 2.0);
}

BGI_OP_KERNEL(select_attention, ATTENTION)

const bg_op_type bgi_op_attention = {
    BG_OP_TYPE_DEFAULTS,    .name = "attention",
    .minimum_inputs = 1,    .maximum_inputs = 1,
    .output_count = 2,      .attributes_bytes = sizeof(bgi_attention_attributes),
    .infer = infer_forward, .gradient = differentiate_attention,
    .cost = cost_forward,   .kernel = select_attention,
};

/* ---- dy, qkv, y, log_sum_exp -> dqkv ---- */

static bg_status infer_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    bg_type y, statistics;

    BGI_TRY(infer_from(&op->types[1], op->attributes, &y, &statistics, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", &y, "y's type", error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "y", &y, "the forward op's", error));
    BGI_TRY(bgi_shape_equal(&op->types[3], "log_sum_exp", &statistics, "the forward op's", error));
    outputs[0] = op->types[1];
    return BG_OK;
}

static bg_cost cost_backward(const bg_op_signature *op)
{
    return cost_pairs(op, &op->types[0], 5.0);
}

BGI_OP_KERNEL(select_attention_backward, ATTENTION_BACKWARD)

const bg_op_type bgi_op_attention_backward = {
    BG_OP_TYPE_DEFAULTS,
    .name = "attention_backward",
    .minimum_inputs = 4,
    .maximum_inputs = 4,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_attention_attributes),
    .infer = infer_backward,
    .cost = cost_backward,
    .kernel = select_attention_backward,
};

/* ---- qkv, cache, positions -> y ---- */

static bg_status infer_cached(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_attention_attributes *attributes = op->attributes;
    const bg_type *qkv = &op->types[0], *cache = &op->types[1], *positions = &op->types[2];
    char text[BG_TYPE_TEXT_BYTES], other[BG_TYPE_TEXT_BYTES];
    bg_type statistics;

    BGI_TRY(infer_from(qkv, attributes, &outputs[0], &statistics, error));
    if (!attributes->causal || attributes->probability != 0.0)
        return bg_error_set(error, BG_ERROR_INVALID, "attention with a cache must be causal and cannot have dropout");
    if (qkv->rank != 2 || qkv->dims[0] != attributes->sequence_length)
        return bg_error_set(error, BG_ERROR_SHAPE, "qkv is %s; it must be [S, 3 heads D], the tokens of one sequence",
                            bg_type_text(qkv, text));
    if (cache->dtype != qkv->dtype || cache->rank != 2 || 3 * cache->dims[1] != 2 * qkv->dims[1] ||
        cache->dims[0] < qkv->dims[0])
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the cache is %s; for qkv %s it must be [at least %lld, %lld] of the same type",
                            bg_type_text(cache, text), bg_type_text(qkv, other), (long long)qkv->dims[0],
                            (long long)qkv->dims[1] / 3 * 2);
    if (positions->dtype != BG_INT32)
        return bg_error_set(error, BG_ERROR_SHAPE, "positions are %s; they must be int32",
                            bg_type_text(positions, text));
    return BG_OK;
}

static bg_cost cost_cached(const bg_op_signature *op)
{
    return bgi_cost_once(op, 4.0 * bgi_type_elements(&op->types[3]) * (double)op->types[1].dims[0]);
}

BGI_OP_KERNEL(select_cached, ATTENTION_CACHED)

const bg_op_type bgi_op_attention_cached = {
    BG_OP_TYPE_DEFAULTS,       .name = "attention_cached", .minimum_inputs = 3,
    .maximum_inputs = 3,       .output_count = 1,          .attributes_bytes = sizeof(bgi_attention_attributes),
    .written_inputs = 1U << 1, .infer = infer_cached,      .cost = cost_cached,
    .kernel = select_cached,
};

/* ---- builders ---- */

void bg_attention_options_init(bg_attention_options *options, size_t struct_bytes, int64_t heads)
{
    const bg_attention_options made = {
        .struct_bytes = struct_bytes, .heads = heads, .causal = true, .serialization = 1};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* Fills in the attributes; the shape rules report invalid heads and other options. */
static void fill_attributes(bg_graph *graph, const bg_type *type, const bg_attention_options *options,
                            bgi_attention_attributes *out)
{
    memset(out, 0, sizeof *out); /* zeroes padding bytes too: see bg_op_type */
    out->heads = options->heads;
    out->sequence_length = options->sequence_length;
    out->causal = options->causal;
    out->scale = options->scale;
    out->probability = options->dropout;
    out->random_id = options->dropout > 0.0 ? bg_graph_next_random_id(graph) : 0;
    out->serialization = options->serialization;
    out->axis = options->axis;
    if (out->scale == 0.0 && out->heads >= 1 && type->rank >= 1)
        out->scale = 1.0 / sqrt((double)type->dims[type->rank - 1] / (3.0 * (double)out->heads));
}

static bool check_options(bg_graph *graph, const char *type_name, const char *name, const bg_attention_options *options)
{
    if (options == NULL) {
        bgi_graph_fail_op(graph, type_name, name, BG_ERROR_INVALID,
                          "it has no options; bg_attention_defaults(heads) makes them");
        return false;
    }
    return bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_attention_options",
                                  "bg_attention_defaults(heads)");
}

bg_value bg_attention(bg_graph *graph, const char *name, bg_value qkv, const bg_attention_options *options)
{
    const bg_type type = bg_graph_type(graph, qkv);
    bgi_attention_attributes attributes;

    if (!check_options(graph, bgi_op_attention.name, name, options))
        return (bg_value){0};
    fill_attributes(graph, &type, options, &attributes);
    if (attributes.sequence_length == 0 && type.rank == 3)
        attributes.sequence_length = type.dims[1];
    return bg_graph_add(graph, &bgi_op_attention, name, &qkv, 1, &attributes, NULL);
}

bg_value bg_attention_cached(bg_graph *graph, const char *name, bg_value qkv, bg_value cache, bg_value positions,
                             const bg_attention_options *options)
{
    const bg_type type = bg_graph_type(graph, qkv);
    const bg_value inputs[] = {qkv, cache, positions};
    bgi_attention_attributes attributes;

    if (!check_options(graph, bgi_op_attention_cached.name, name, options))
        return (bg_value){0};
    fill_attributes(graph, &type, options, &attributes);
    attributes.sequence_length = type.dims[0];
    return bg_graph_add(graph, &bgi_op_attention_cached, name, inputs, 3, &attributes, NULL);
}
