/*
 * dot_product_attention.c: defines attention over separate queries, keys and values, with a bias or a mask, and its
 * gradient. As in attention.c the op keeps the logarithm of each row's sum of exponentials instead of the scores. The
 * bias's gradient is a separate op, which computes the scores again. The separate op needs memory for one bias, whereas
 * the op of the other gradients would need as much memory for each sample and head.
 */
#include <brigade/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/attention/attributes.h"
#include "kernels/reference/element.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_forward, DOT_PRODUCT_ATTENTION)
BGI_OP_KERNEL(select_backward, DOT_PRODUCT_ATTENTION_BACKWARD)
BGI_OP_KERNEL(select_cached, DOT_PRODUCT_ATTENTION_CACHED)
BGI_OP_KERNEL(select_bias_backward, DOT_PRODUCT_ATTENTION_BIAS_BACKWARD)

static bg_status check_numbers(const bgi_attention_attributes *attributes, bg_error *error)
{
    const int64_t farthest = (int64_t)1 << 40;

    if (attributes->heads < 1 || attributes->key_heads < 1 || attributes->heads % attributes->key_heads != 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "heads is %lld and key_heads is %lld; both must be at least 1, and key_heads must divide heads",
            (long long)attributes->heads, (long long)attributes->key_heads);
    if (attributes->window < 0 || attributes->window > farthest)
        return bg_error_set(error, BG_ERROR_INVALID, "window is %lld; it must be 1 to 2^40, or 0 for none",
                            (long long)attributes->window);
    if (attributes->offset < -farthest || attributes->offset > farthest)
        return bg_error_set(error, BG_ERROR_INVALID, "offset is %lld; it must be within -2^40 .. 2^40",
                            (long long)attributes->offset);
    if (!isfinite(attributes->scale))
        return bg_error_set(error, BG_ERROR_INVALID, "scale is %g; it must be a finite number, or 0 for 1 / sqrt(D)",
                            attributes->scale);
    if (!(attributes->probability >= 0.0 && attributes->probability < 1.0))
        return bg_error_set(error, BG_ERROR_INVALID, "dropout is %g; it must be at least 0 and below 1",
                            attributes->probability);
    if (!(attributes->alibi >= 0.0 && isfinite(attributes->alibi)))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "alibi is %g; it must be finite and above 0 (the paper has 8), or 0 for none",
                            attributes->alibi);
    if (attributes->alibi > 0.0 && attributes->axis != BG_MESH_NONE)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "alibi is set, but the heads are split over an axis; a head's slope depends on the number "
                            "of all heads, so pass the bias instead");
    return BG_OK;
}

/* Checks q [N,S,HD], k and v [N,T,GD]. */
static bg_status check_inputs(const bg_type *types, const bgi_attention_attributes *attributes, bg_error *error)
{
    const bg_type *q = &types[0], *k = &types[1];
    char text[BG_TYPE_TEXT_BYTES];
    bg_type wanted;

    BGI_TRY(bgi_shape_float(q, "the query", error));
    BGI_TRY(bgi_shape_rank(q, "the query", 3, "[N, S, heads D]", error));
    BGI_TRY(check_numbers(attributes, error));
    if (q->dims[2] % attributes->heads != 0)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the query is %s; its last dimension must be %lld heads x their width",
                            bg_type_text(q, text), (long long)attributes->heads);
    BGI_TRY(bgi_shape_rank(k, "the key", 3, "[N, T, key_heads D]", error));
    wanted = bg_tensor3(q->dtype, q->dims[0], k->dims[1], q->dims[2] / attributes->heads * attributes->key_heads);
    BGI_TRY(bgi_shape_equal(k, "the key", &wanted, "the query's type, number of samples and head width", error));
    BGI_TRY(bgi_shape_equal(&types[2], "the value", &wanted, "the key's type", error));
    /* Checks that a 32-bit counter can number a sample's random numbers, in groups of four. */
    if (attributes->probability > 0.0 &&
        (double)attributes->heads * (double)q->dims[1] * (double)((k->dims[1] + 3) / 4) > (double)UINT32_MAX)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "dropout over %lld heads of %lld x %lld scores: a sample can have at most 2^34",
                            (long long)attributes->heads, (long long)q->dims[1], (long long)k->dims[1]);
    return BG_OK;
}

static bg_status check_bias(const bg_type *bias, const bg_type *q, const bg_type *k, int64_t heads, bg_error *error)
{
    const int64_t dims[] = {q->dims[0], heads, q->dims[1]};
    char text[BG_TYPE_TEXT_BYTES];
    bool fits = bias->rank == 4 && bias->dims[3] == k->dims[1];

    for (uint32_t i = 0; fits && i < 3; i++)
        fits = bias->dims[i] == 1 || bias->dims[i] == dims[i];
    if (!fits)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the bias is %s; it must be [%lld, %lld, %lld, %lld] (samples, heads, queries, keys), or 1 "
                            "in any of the first three",
                            bg_type_text(bias, text), (long long)dims[0], (long long)heads, (long long)dims[2],
                            (long long)k->dims[1]);
    if (bias->dtype != BG_UINT8 && bias->dtype != q->dtype && bias->dtype != BG_FLOAT32)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the bias is %s; it must be of the query's type or float32, or uint8 for a mask",
                            bg_type_text(bias, text));
    return BG_OK;
}

static bg_type find_statistics(const bg_type *q, int64_t heads)
{
    return bg_tensor3(bgi_statistics_dtype(q->dtype), q->dims[0], heads, q->dims[1]);
}

/* ---- q, k, v, bias? -> y, log_sum_exp ---- */

static bg_status infer_forward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_attention_attributes *attributes = op->attributes;

    BGI_TRY(check_inputs(op->types, attributes, error));
    if (op->input_count > 3)
        BGI_TRY(check_bias(&op->types[3], &op->types[0], &op->types[1], attributes->heads, error));
    outputs[0] = op->types[0];
    outputs[1] = find_statistics(&op->types[0], attributes->heads);
    return BG_OK;
}

static bg_status differentiate(bg_op_gradient *gradient, bg_error *error)
{
    const bool has_bias = gradient->op.input_count > 3;
    bg_value inputs[7] = {{0},
                          gradient->inputs[0],
                          gradient->inputs[1],
                          gradient->inputs[2],
                          gradient->outputs[0],
                          gradient->outputs[1],
                          has_bias ? gradient->inputs[3] : (bg_value){0}};
    bg_value outputs[3] = {{0}};

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (gradient->needs[0] || gradient->needs[1] || gradient->needs[2])
        bg_graph_add(gradient->graph, &bgi_op_dot_product_attention_backward, NULL, inputs, 7, gradient->op.attributes,
                     outputs);
    for (uint32_t i = 0; i < 3; i++)
        if (gradient->needs[i])
            gradient->input_gradients[i] = outputs[i];
    if (has_bias && gradient->needs[3] && bg_dtype_is_float(gradient->op.types[3].dtype))
        gradient->input_gradients[3] = bg_graph_add(gradient->graph, &bgi_op_dot_product_attention_bias_backward, NULL,
                                                    inputs, 7, gradient->op.attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

/* Counts, for each pair of tokens, D multiplications and additions in each of `products` products, and about ten
 * operations for the exponential. */
static bg_cost cost_pairs(const bg_op_signature *op, const bg_type *q, const bg_type *k, double products)
{
    const bgi_attention_attributes *attributes = op->attributes;
    const double seen = (double)k->dims[1] * (attributes->causal ? 0.5 : 1.0);
    const double keys = attributes->window > 0 && (double)attributes->window < seen ? (double)attributes->window : seen;
    const double pairs = (double)q->dims[0] * (double)q->dims[1] * (double)attributes->heads * keys;

    return bgi_cost_once(op, 2.0 * products * bgi_type_elements(q) * keys + 10.0 * pairs);
}

static bg_cost cost_forward(const bg_op_signature *op)
{
    return cost_pairs(op, &op->types[0], &op->types[1], 2.0);
}

const bg_op_type bgi_op_dot_product_attention = {
    BG_OP_TYPE_DEFAULTS,    .name = "dot_product_attention",
    .minimum_inputs = 3,    .maximum_inputs = 4,
    .output_count = 2,      .attributes_bytes = sizeof(bgi_attention_attributes),
    .infer = infer_forward, .gradient = differentiate,
    .cost = cost_forward,   .kernel = select_forward,
};

/* ---- dy, q, k, v, y, log_sum_exp, bias? -> dq, dk, dv; the same -> dbias ---- */

static bg_status check_backward(const bg_op_signature *op, bg_error *error)
{
    const bgi_attention_attributes *attributes = op->attributes;
    const bg_type *q = &op->types[1];
    bg_type statistics;

    BGI_TRY(check_inputs(q, attributes, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", q, "y's type", error));
    BGI_TRY(bgi_shape_equal(&op->types[4], "y", q, "the forward op's", error));
    statistics = find_statistics(q, attributes->heads);
    BGI_TRY(bgi_shape_equal(&op->types[5], "log_sum_exp", &statistics, "the forward op's", error));
    if (op->input_count > 6)
        BGI_TRY(check_bias(&op->types[6], q, &op->types[2], attributes->heads, error));
    return BG_OK;
}

static bg_status infer_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_backward(op, error));
    for (uint32_t i = 0; i < 3; i++)
        outputs[i] = op->types[1 + i];
    return BG_OK;
}

static bg_cost cost_backward(const bg_op_signature *op)
{
    return cost_pairs(op, &op->types[1], &op->types[2], 5.0);
}

const bg_op_type bgi_op_dot_product_attention_backward = {
    BG_OP_TYPE_DEFAULTS,       .name = "dot_product_attention_backward",
    .minimum_inputs = 6,       .maximum_inputs = 7,
    .output_count = 3,         .attributes_bytes = sizeof(bgi_attention_attributes),
    .infer = infer_backward,   .cost = cost_backward,
    .kernel = select_backward,
};

static bg_status infer_bias_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(check_backward(op, error));
    BGI_TRY(bgi_shape_float(&op->types[6], "the bias", error));
    outputs[0] = op->types[6];
    return BG_OK;
}

static bg_cost cost_bias_backward(const bg_op_signature *op)
{
    return cost_pairs(op, &op->types[1], &op->types[2], 2.0);
}

const bg_op_type bgi_op_dot_product_attention_bias_backward = {
    BG_OP_TYPE_DEFAULTS,
    .name = "dot_product_attention_bias_backward",
    .minimum_inputs = 7,
    .maximum_inputs = 7,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_attention_attributes),
    .infer = infer_bias_backward,
    .cost = cost_bias_backward,
    .kernel = select_bias_backward,
};

/* ---- q, k, v, key cache, value cache, positions -> y ---- */

static bg_status infer_cached(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *q = &op->types[0], *k = &op->types[1], *cache = &op->types[3];
    char text[BG_TYPE_TEXT_BYTES], other[BG_TYPE_TEXT_BYTES];
    bg_type wanted;

    BGI_TRY(check_inputs(op->types, op->attributes, error));
    if (k->dims[1] != q->dims[1])
        return bg_error_set(error, BG_ERROR_SHAPE, "the key is %s; it must have the %lld new tokens that the query has",
                            bg_type_text(k, text), (long long)q->dims[1]);
    if (cache->rank != 3 || cache->dims[1] < q->dims[1])
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the key cache is %s; for the query %s it must be [N, L, key_heads D], where L is at least "
                            "the query's number of tokens",
                            bg_type_text(cache, text), bg_type_text(q, other));
    wanted = *k;
    wanted.dims[1] = cache->dims[1];
    BGI_TRY(bgi_shape_equal(cache, "the key cache", &wanted, "the key's type with L positions", error));
    BGI_TRY(bgi_shape_equal(&op->types[4], "the value cache", &wanted, "the key cache's type", error));
    wanted = bg_vector(BG_INT32, q->dims[0]);
    BGI_TRY(bgi_shape_equal(&op->types[5], "positions", &wanted, "one for each sample", error));
    outputs[0] = *q;
    return BG_OK;
}

static bg_cost cost_cached(const bg_op_signature *op)
{
    return cost_pairs(op, &op->types[0], &op->types[3], 2.0);
}

const bg_op_type bgi_op_dot_product_attention_cached = {
    BG_OP_TYPE_DEFAULTS,
    .name = "dot_product_attention_cached",
    .minimum_inputs = 6,
    .maximum_inputs = 6,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_attention_attributes),
    .written_inputs = 1U << 3 | 1U << 4,
    .infer = infer_cached,
    .cost = cost_cached,
    .kernel = select_cached,
};

/* ---- builders ---- */

void bg_dot_product_attention_options_init(bg_dot_product_attention_options *options, size_t struct_bytes,
                                           int64_t heads)
{
    const bg_dot_product_attention_options made = {.struct_bytes = struct_bytes, .heads = heads};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* Adds the missing dimensions in front of a bias, with size 1. */
static bg_value view_bias(bg_graph *graph, bg_value bias)
{
    const bg_type type = bg_graph_type(graph, bias);
    int64_t dims[4] = {1, 1, 1, 1};

    if (bg_value_is_null(bias) || type.rank < 1 || type.rank >= 4)
        return bias;
    for (uint32_t i = 0; i < type.rank; i++)
        dims[4 - type.rank + i] = type.dims[i];
    return bg_reshape(graph, NULL, bias, 4, dims);
}

/* Returns false and records the failure in the graph when options are invalid. */
static bool check_options(bg_graph *graph, const bg_op_type *type, const char *name,
                          const bg_dot_product_attention_options *options)
{
    if (options == NULL) {
        bgi_graph_fail_op(graph, type->name, name, BG_ERROR_INVALID,
                          "it has no options; bg_dot_product_attention_defaults(heads) makes them");
        return false;
    }
    return bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_dot_product_attention_options",
                                  "bg_dot_product_attention_defaults(heads)");
}

/* Fills everything except dropout and positions. */
static void fill_attributes(const bg_graph *graph, bg_value query, const bg_dot_product_attention_options *options,
                            bgi_attention_attributes *out)
{
    const bg_type type = bg_graph_type(graph, query);

    memset(out, 0, sizeof *out); /* zeroes padding bytes too: see bg_op_type */
    out->heads = options->heads;
    out->key_heads = options->key_heads > 0 ? options->key_heads : options->heads;
    out->window = options->window;
    out->scale = options->scale;
    out->alibi = options->alibi;
    out->axis = options->axis;
    if (out->scale == 0.0 && out->heads >= 1 && type.rank == 3)
        out->scale = 1.0 / sqrt((double)type.dims[2] / (double)out->heads);
}

bg_value bg_dot_product_attention_cached(bg_graph *graph, const char *name, bg_value query, bg_value key,
                                         bg_value value, bg_value key_cache, bg_value value_cache, bg_value positions,
                                         const bg_dot_product_attention_options *options)
{
    bgi_attention_attributes attributes;

    if (!check_options(graph, &bgi_op_dot_product_attention_cached, name, options))
        return (bg_value){0};
    fill_attributes(graph, query, options, &attributes);
    attributes.causal = true;
    return bg_graph_add(graph, &bgi_op_dot_product_attention_cached, name,
                        (const bg_value[]){query, key, value, key_cache, value_cache, positions}, 6, &attributes, NULL);
}

bg_value bg_length_mask(bg_graph *graph, const char *name, bg_value lengths, int64_t length)
{
    const bg_type type = bg_graph_type(graph, lengths);
    const bg_type places_type = bg_tensor4(type.dtype, 1, 1, 1, length > 0 ? length : 1);
    char text[BG_TYPE_TEXT_BYTES];
    bg_value places;
    void *data;

    if (bg_graph_check(graph, NULL) != BG_OK)
        return (bg_value){0};
    if ((type.dtype != BG_INT32 && type.dtype != BG_INT64) || type.rank != 1 || length < 1 || length > INT32_MAX) {
        bgi_graph_fail_op(
            graph, "length_mask", name, BG_ERROR_SHAPE,
            "lengths are %s, of at most %lld; they must be int32 or int64 [N], and the longest at least 1",
            bg_type_text(&type, text), (long long)length);
        return (bg_value){0};
    }
    data = malloc(bg_type_size_bytes(&places_type));
    if (data == NULL) {
        bg_graph_fail(graph, BG_ERROR_MEMORY, "out of memory for a mask of %lld positions", (long long)length);
        return (bg_value){0};
    }
    for (int64_t i = 0; i < length; i++)
        bgi_store(type.dtype, data, i, (double)i);
    places = bg_graph_constant(graph, "places", &places_type, data);
    free(data);
    return bg_compare(graph, name, BG_LESS, places,
                      bg_reshape(graph, NULL, lengths, 4, (const int64_t[]){type.dims[0], 1, 1, 1}));
}

bg_value bg_dot_product_attention(bg_graph *graph, const char *name, bg_value query, bg_value key, bg_value value,
                                  bg_value bias, const bg_dot_product_attention_options *options)
{
    bgi_attention_attributes attributes;

    if (!check_options(graph, &bgi_op_dot_product_attention, name, options))
        return (bg_value){0};
    fill_attributes(graph, query, options, &attributes);
    attributes.causal = options->causal;
    attributes.offset = options->offset;
    attributes.probability = options->dropout;
    attributes.random_id = options->dropout > 0.0 ? bg_graph_next_random_id(graph) : 0;
    return bg_graph_add(graph, &bgi_op_dot_product_attention, name,
                        (const bg_value[]){query, key, value, view_bias(graph, bias)}, 4, &attributes, NULL);
}
