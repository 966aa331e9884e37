/*
 * save_attention.c: saves attention as products and a softmax, in float, and rotary positions as rotations by tables.
 *
 *     scores = q k^T scale + bias,  shares = softmax(scores),  y = shares v
 *
 * The part of a mask that depends only on positions is a constant matrix. Hidden keys get a score of -1e30, so their
 * share is zero if the query sees any other key. If it sees no key, its shares are set to zero afterward.
 */
#include <math.h>
#include <stdlib.h>

#include "kernels/attention/attributes.h"
#include "kernels/rotary/attributes.h"
#include "onnx/save.h"
#include "ops/ops.h"

static const double hidden = -1e30;

/* Queries, keys and values of heads, [N, heads, S or T, D]. */
typedef struct heads {
    const char *query, *key, *value;
    int64_t samples, queries, keys, width;
    int32_t batch;
} heads;

/* ---- keys that a query's position may attend to ---- */

static bool has_places(const bgi_attention_attributes *f)
{
    return f->causal || f->window > 0 || f->alibi > 0.0;
}

static bool sees(const bgi_attention_attributes *f, int64_t query, int64_t key, int64_t keys)
{
    return key >= bgi_attention_first_key(f, query) && key < bgi_attention_end_key(f, query, keys);
}

/* Saves a constant [1, heads or 1, S, T]: numbers to add to the scores; or, for shares, 1 where a query sees a key and
 * 0 elsewhere. */
static const char *save_places(bgi_saver *s, const bgi_attention_attributes *f, const heads *h, bool as_shares)
{
    const int64_t count = f->alibi > 0.0 && !as_shares ? f->heads : 1;
    const int64_t dims[4] = {1, count, h->queries, h->keys};
    double *values;
    const char *name;

    if (h->queries * h->keys > (INT64_C(1) << 28) / count) {
        bgi_save_refuse(s, "the constant that hides keys of %lld x %lld scores would be too large",
                        (long long)h->queries, (long long)h->keys);
        return NULL;
    }
    values = malloc((size_t)(count * h->queries * h->keys) * sizeof *values);
    if (values == NULL) {
        s->is_out_of_memory = true;
        return NULL;
    }
    for (int64_t head = 0; head < count; head++)
        for (int64_t q = 0; q < h->queries; q++)
            for (int64_t k = 0; k < h->keys; k++) {
                const double far = fabs((double)(q + f->offset - k)) * bgi_attention_slope(f, head);
                const bool is_seen = sees(f, q, k, h->keys);

                values[(head * h->queries + q) * h->keys + k] = as_shares ? is_seen : is_seen ? -far : hidden;
            }
    name = bgi_save_reals(s, bgi_save_dtype(s, 0), 4, dims, values);
    free(values);
    return name;
}

static bool some_query_is_blind(const bgi_attention_attributes *f, const heads *h)
{
    for (int64_t q = 0; q < h->queries; q++) {
        const int64_t first = bgi_attention_first_key(f, q), end = bgi_attention_end_key(f, q, h->keys);

        if (first >= end)
            return true;
    }
    return false;
}

/* ---- attention ---- */

/* Saves y [N, S, heads D], in the shape of the result. `mask` (bool) and `bias` may be NULL. */
static const char *save_heads(bgi_saver *s, const bgi_attention_attributes *f, const heads *h, const char *mask,
                              const char *bias)
{
    const bg_type y_type = bgi_save_result(s, 0);
    const bg_dtype dtype = bgi_save_dtype(s, 0);
    const double scale = f->scale != 0.0 ? f->scale : 1.0 / sqrt((double)h->width);
    const char *shares, *y;

    shares = bgi_save_2(s, "MatMul", h->query, bgi_save_transpose(s, h->key, 4, (const int64_t[]){0, 1, 3, 2}));
    shares = bgi_save_2(s, "Mul", shares, bgi_save_number(s, dtype, scale));
    if (has_places(f))
        shares = bgi_save_2(s, "Add", shares, save_places(s, f, h, false));
    if (bias != NULL)
        shares = bgi_save_2(s, "Add", shares, bias);
    if (mask != NULL)
        shares = bgi_save_3(s, "Where", mask, shares, bgi_save_number(s, dtype, hidden));
    shares = bgi_save_1(s, "Softmax", shares);
    bgi_save_int(s, "axis", 3);
    if (mask != NULL)
        shares = bgi_save_3(s, "Where", mask, shares, bgi_save_number(s, dtype, 0.0));
    if (has_places(f) && (mask != NULL || some_query_is_blind(f, h)))
        shares = bgi_save_2(s, "Mul", shares, save_places(s, f, h, true));
    y = bgi_save_2(s, "MatMul", shares, h->value);
    y = bgi_save_transpose(s, y, 4, (const int64_t[]){0, 2, 1, 3});
    return bgi_save_reshape(s, y, y_type.rank, y_type.dims, h->batch);
}

static bool is_cut(bgi_saver *s, const bgi_attention_attributes *f)
{
    if (f->axis == BG_MESH_NONE || s->graph->mesh.tensor_1 * s->graph->mesh.tensor_2 <= 1)
        return false;
    bgi_save_refuse(s, "its heads are cut over a mesh");
    return true;
}

/* Saves attention over qkv [N, S, 3 heads D] or [N S, 3 heads D]. */
static void save_attention(bgi_saver *s)
{
    const bgi_attention_attributes *f = s->op->attributes;
    const bg_type type = bgi_save_type(s, 0);
    const int64_t width = type.dims[type.rank - 1] / (3 * f->heads);
    const int64_t samples = bg_type_element_count(&type) / (f->sequence_length * type.dims[type.rank - 1]);
    const int64_t dims[5] = {samples, f->sequence_length, 3, f->heads, width};
    heads h = {.samples = samples, .queries = f->sequence_length, .keys = f->sequence_length, .width = width};
    const char *qkv, *parts[3];

    if (is_cut(s, f))
        return;
    h.batch = bgi_save_batch_first(s, 0);
    bgi_save_widen(s);
    qkv = bgi_save_reshape(s, bgi_save_in(s, 0), 5, dims, h.batch);
    qkv = bgi_save_transpose(s, qkv, 5, (const int64_t[]){2, 0, 3, 1, 4});
    for (int i = 0; i < 3; i++) {
        parts[i] = bgi_save_2(s, "Gather", qkv, bgi_save_number(s, BG_INT64, i));
        bgi_save_int(s, "axis", 0);
    }
    h.query = parts[0];
    h.key = parts[1];
    h.value = parts[2];
    bgi_save_out(s, 0, save_heads(s, f, &h, NULL, NULL), h.batch);
}

/* Saves [N, T, count D] as [N, heads, T, D]: each key head is repeated for the query heads that share it. */
static const char *part_heads(bgi_saver *s, uint32_t input, int64_t count, int64_t heads_of_queries, int32_t batch)
{
    const bg_type type = bgi_save_type(s, input);
    const int64_t repeats = heads_of_queries / count, width = type.dims[2] / count;
    const char *x = bgi_save_in(s, input);

    if (repeats > 1) {
        x = bgi_save_reshape(s, x, 5, (const int64_t[]){type.dims[0], type.dims[1], count, 1, width}, batch);
        x = bgi_save_2(s, "Expand", x, bgi_save_list(s, (const int64_t[]){1, 1, 1, repeats, 1}, 5));
    }
    x = bgi_save_reshape(s, x, 4, (const int64_t[]){type.dims[0], type.dims[1], heads_of_queries, width}, batch);
    return bgi_save_transpose(s, x, 4, (const int64_t[]){0, 2, 1, 3});
}

static void save_dot_product_attention(bgi_saver *s)
{
    const bgi_attention_attributes *f = s->op->attributes;
    const bg_type q = bgi_save_type(s, 0), k = bgi_save_type(s, 1), bias_type = bgi_save_type(s, 3);
    heads h = {.samples = q.dims[0], .queries = q.dims[1], .keys = k.dims[1], .width = q.dims[2] / f->heads};
    const char *mask = NULL, *bias = NULL;

    if (is_cut(s, f))
        return;
    h.batch = bgi_save_batch(s, 0);
    for (uint32_t i = 0; i < s->op->input_count; i++) {
        const bool may_lack = i == 3 && bias_type.dims[0] == 1 && bgi_save_batch(s, 3) == BGI_SAVE_NO_BATCH;

        if (bgi_save_batch(s, i) > 0 || (bgi_save_batch(s, i) != h.batch && !may_lack))
            bgi_save_fix(s, "the samples of its operands are in different dimensions");
    }
    bgi_save_widen(s);
    h.query = part_heads(s, 0, f->heads, f->heads, h.batch);
    h.key = part_heads(s, 1, f->key_heads, f->heads, h.batch);
    h.value = part_heads(s, 2, f->key_heads, f->heads, h.batch);
    if (bias_type.dtype == BG_UINT8)
        mask = bgi_save_truth(s, 3);
    else if (bgi_save_given(s, 3))
        bias = bgi_save_in(s, 3);
    bgi_save_out(s, 0, save_heads(s, f, &h, mask, bias), h.batch);
}

/* ---- rotary positions ---- */

/* Saves cosines and sines of each position: [S, 1, pairs]. */
static void save_table(bgi_saver *s, const bgi_rotary_attributes *f, int64_t places, const char *out[2])
{
    const int64_t pairs = f->features / 2, dims[3] = {places, 1, pairs};
    double *values = malloc((size_t)(places * pairs) * sizeof *values);

    for (int which = 0; which < 2 && values != NULL; which++) {
        for (int64_t i = 0; i < places * pairs; i++) {
            const double angle = (double)(i / pairs) * bgi_rotary_frequency(f, i % pairs);

            values[i] = bgi_rotary_magnitude(f) * (which == 0 ? cos(angle) : f->inverse ? -sin(angle) : sin(angle));
        }
        out[which] = bgi_save_reals(s, bgi_save_dtype(s, 0), 3, dims, values);
    }
    s->is_out_of_memory = s->is_out_of_memory || values == NULL;
    free(values);
}

/* Saves cosines and sines for positions from an input, in double: [.., S, 1, pairs]. */
static void save_angles(bgi_saver *s, const bgi_rotary_attributes *f, const char *out[2])
{
    const bg_type type = bgi_save_type(s, 1);
    const int64_t pairs = f->features / 2;
    double *frequencies = malloc((size_t)pairs * sizeof *frequencies);
    int64_t dims[BG_MAX_RANK + 2];
    const char *angles;

    if (frequencies == NULL || type.rank + 2 > BG_MAX_RANK) {
        s->is_out_of_memory = frequencies == NULL;
        free(frequencies);
        bgi_save_refuse(s, "positions have %u dimensions, which are too many", (unsigned)type.rank);
        return;
    }
    for (int64_t i = 0; i < pairs; i++)
        frequencies[i] = bgi_rotary_frequency(f, i);
    for (uint32_t i = 0; i < type.rank; i++)
        dims[i] = type.dims[i];
    dims[type.rank] = dims[type.rank + 1] = 1;
    angles = bgi_save_cast(s, bgi_save_in(s, 1), BGI_ONNX_DOUBLE);
    angles = bgi_save_reshape(s, angles, type.rank + 2, dims, bgi_save_batch(s, 1));
    angles = bgi_save_2(s, "Mul", angles, bgi_save_reals(s, BG_FLOAT64, 1, &pairs, frequencies));
    free(frequencies);
    for (int which = 0; which < 2; which++) {
        const char *name = bgi_save_1(s, which == 0 ? "Cos" : "Sin", angles);

        if (which == 1 && f->inverse)
            name = bgi_save_1(s, "Neg", name);
        if (bgi_rotary_magnitude(f) != 1.0)
            name = bgi_save_2(s, "Mul", name, bgi_save_reals(s, BG_FLOAT64, 0, NULL, (const double[]){f->magnitude}));
        out[which] = bgi_save_cast(s, name, bgi_onnx_dtype_element(bgi_save_dtype(s, 0)));
    }
}

static const char *take(bgi_saver *s, const char *x, int64_t axis, int64_t start, int64_t stop)
{
    const char *operands[4] = {x, bgi_save_list(s, &start, 1), NULL, NULL};

    operands[2] = bgi_save_list(s, &stop, 1);
    operands[3] = bgi_save_list(s, &axis, 1);
    return bgi_save_node(s, "Slice", 4, operands);
}

static const char *join(bgi_saver *s, const char *const *parts, uint32_t count, int64_t axis)
{
    const char *y = bgi_save_node(s, "Concat", count, parts);

    bgi_save_int(s, "axis", axis);
    return y;
}

/* Splits features [.., S, heads, features] into the first and second elements of pairs, [.., S, heads, pairs]. */
static void part_pairs(bgi_saver *s, const bgi_rotary_attributes *f, const char *x, const bg_type *type, int32_t batch,
                       const char *out[2])
{
    const uint32_t last = type->rank; /* of [.., S, heads, features] */
    int64_t dims[BG_MAX_RANK + 2];

    for (int which = 0; which < 2; which++) {
        if (!f->interleaved) {
            out[which] = take(s, x, last, which * f->features / 2, (which + 1) * f->features / 2);
            continue;
        }
        for (uint32_t i = 0; i + 1 < type->rank; i++)
            dims[i] = type->dims[i];
        dims[last - 1] = f->heads;
        dims[last] = f->features / 2;
        dims[last + 1] = 2;
        out[which] = bgi_save_reshape(s, x, last + 2, dims, batch);
        out[which] = take(s, out[which], last + 1, which, which + 1);
        out[which] = bgi_save_reshape(s, out[which], last + 1, dims, batch);
    }
}

/* Joins the first and second elements of pairs to [.., S, heads, features]. */
static const char *join_pairs(bgi_saver *s, const bgi_rotary_attributes *f, const char *const parts[2],
                              const bg_type *type, int32_t batch)
{
    const uint32_t last = type->rank;
    int64_t dims[BG_MAX_RANK + 2];
    const char *ends[2];

    if (!f->interleaved)
        return join(s, parts, 2, last);
    for (uint32_t i = 0; i + 1 < type->rank; i++)
        dims[i] = type->dims[i];
    dims[last - 1] = f->heads;
    dims[last] = f->features / 2;
    dims[last + 1] = 1;
    for (int i = 0; i < 2; i++)
        ends[i] = bgi_save_reshape(s, parts[i], last + 2, dims, batch);
    dims[last] = f->features;
    return bgi_save_reshape(s, join(s, ends, 2, last + 1), last + 1, dims, batch);
}

static void save_rotary(bgi_saver *s)
{
    const bgi_rotary_attributes *f = s->op->attributes;
    const bg_type type = bgi_save_type(s, 0);
    const int64_t width = type.dims[type.rank - 1] / f->heads;
    const int32_t batch = bgi_save_batch(s, 0);
    int64_t dims[BG_MAX_RANK + 1];
    const char *table[2] = {NULL, NULL}, *parts[2], *turned[2], *x, *whole, *y;

    if (type.rank + 2 > BG_MAX_RANK) {
        bgi_save_refuse(s, "x has %u dimensions but at most %d can be written", (unsigned)type.rank, BG_MAX_RANK - 2);
        return;
    }
    if (batch >= (int32_t)type.rank - 1 || (batch == (int32_t)type.rank - 2 && !bgi_save_given(s, 1)) ||
        (bgi_save_batch(s, 1) != BGI_SAVE_NO_BATCH && bgi_save_batch(s, 1) != batch))
        bgi_save_fix(s, "the samples are in the dimension of positions");
    bgi_save_widen(s);
    if (bgi_save_given(s, 1))
        save_angles(s, f, table);
    else
        save_table(s, f, type.dims[type.rank - 2], table);
    for (uint32_t i = 0; i + 1 < type.rank; i++)
        dims[i] = type.dims[i];
    dims[type.rank - 1] = f->heads;
    dims[type.rank] = width;
    whole = bgi_save_reshape(s, bgi_save_in(s, 0), type.rank + 1, dims, batch);
    x = f->features < width ? take(s, whole, type.rank, 0, f->features) : whole;
    part_pairs(s, f, x, &type, batch, parts);
    turned[0] =
        bgi_save_2(s, "Sub", bgi_save_2(s, "Mul", parts[0], table[0]), bgi_save_2(s, "Mul", parts[1], table[1]));
    turned[1] =
        bgi_save_2(s, "Add", bgi_save_2(s, "Mul", parts[1], table[0]), bgi_save_2(s, "Mul", parts[0], table[1]));
    y = join_pairs(s, f, turned, &type, batch);
    if (f->features < width) {
        const char *both[2] = {y, take(s, whole, type.rank, f->features, width)};

        y = join(s, both, 2, type.rank);
    }
    bgi_save_out(s, 0, bgi_save_reshape(s, y, type.rank, type.dims, batch), batch);
}

const bgi_save_row bgi_save_attention[] = {
    {&bgi_op_attention, save_attention, 0, NULL},
    {&bgi_op_dot_product_attention, save_dot_product_attention, 0, NULL},
    {&bgi_op_rotary, save_rotary, 0, NULL},
    {&bgi_op_attention_cached, NULL, 0,
     "it writes into a cache but files have no state; write the model that takes the whole sequence"},
    {&bgi_op_dot_product_attention_cached, NULL, 0,
     "it writes into a cache but files have no state; write the model that takes the whole sequence"},
    {0},
};
