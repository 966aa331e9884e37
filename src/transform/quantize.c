/*
 * quantize.c: converts weights for inference to buffers of 16, 8 or 4 bits.
 *
 *     %w float32[768,3072]          =>  %w.int8 uint8[48,52224]
 *     x, %w -> matmul -> y              x, %w.int8 -> quantized_linear -> y
 *     %t float32[50257,768]             %t.int8 uint8[786,52224]
 *     %t, ids -> embedding -> e         %t.int8, ids -> quantized_embedding -> e
 *     x, %t, bias -> linear -> z        x, %t.int8 -> quantized_linear -> s;  s + bias -> z
 *
 * With BG_WEIGHTS_CAST, only reads through a cast to bfloat16 change, so every result keeps its bits:
 *
 *     %t, ids -> embedding -> e         the same, with the float32 table
 *     %t -> cast -> c;  x, c -> linear  x, %t.bfloat16 -> quantized_linear
 *
 * Needs: a forward graph that is not trained. Does: replaces each float32 parameter that is the matrix of products, or
 * of products and embeddings, by a buffer that records the parameter (bgi_value.quantized). Products of 16 bits, which
 * read the matrix through a cast, are included. Matrices that would not become smaller, that are cut over replicas or
 * that other ops read stay as they are. Keeps: blocks, names of ops, the order of other variables. Results are those of
 * the rounded matrices.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/narrow.h"
#include "kernels/elementwise/attributes.h"
#include "kernels/linear/attributes.h"
#include "kernels/quantized/attributes.h"
#include "ops/ops.h"
#include "transform/rebuild.h"

typedef enum matrix_use { UNUSED = 0, OUT_IN, IN_OUT, REFUSED } matrix_use;

typedef struct quantizer {
    const bg_graph *graph;
    uint32_t bits;
    bool only_casts;   /* the weights type is BG_WEIGHTS_CAST */
    const char *name;  /* the type's name, which is the suffix of the buffers' names */
    uint32_t *matrix;  /* by value: the parameter, if the value is one or a cast of one; otherwise 0 */
    matrix_use *uses;  /* by value, for parameters: how ops read it; if only_casts, how they read its casts */
    bool *has_product; /* by value, for parameters: one of the ops that read it is a product */
    bool *needed;      /* by value: leaves that stay */
    bg_value *buffers; /* by value, for parameters: the buffer in the new graph, or null */
    bgi_rebuild rebuild;
} quantizer;

static bool is_matrix(const bgi_value *value)
{
    return value->kind == BGI_VALUE_VARIABLE && value->role == BG_ROLE_PARAMETER && value->type.dtype == BG_FLOAT32 &&
           value->type.rank == 2 && value->shard == NULL && value->section == NULL && !value->is_remote;
}

/* Returns how the op reads the matrix that is input `input`. */
static matrix_use find_use(const quantizer *q, const bgi_op *op, uint32_t input, bool *out_product)
{
    const bool is_cast = q->matrix[op->inputs[input].id] != op->inputs[input].id;
    const bgi_matmul_attributes *layout = op->attributes;
    const bg_type x = bg_graph_type(q->graph, op->inputs[0]);
    const bool has_type = q->only_casts ? x.dtype == BG_BFLOAT16 : bgi_dtype_is_single(x.dtype);

    *out_product = op->type == &bgi_op_linear || op->type == &bgi_op_matmul;
    if (*out_product && input == 1 && has_type) {
        if (op->type == &bgi_op_linear)
            return OUT_IN;
        return layout->transpose_a ? REFUSED : layout->transpose_b ? OUT_IN : IN_OUT;
    }
    *out_product = false;
    return op->type == &bgi_op_embedding && input == 0 && !is_cast ? OUT_IN : REFUSED;
}

static void note_use(quantizer *q, uint32_t matrix, matrix_use use, bool is_product)
{
    q->uses[matrix] = q->uses[matrix] == UNUSED || q->uses[matrix] == use ? use : REFUSED;
    q->has_product[matrix] |= is_product;
}

/* Returns whether the op is a cast that counts as the matrix in another type: a cast to bfloat16 if only_casts,
 * otherwise a cast to any type of 16 bits. */
static bool is_cast_of_matrix(const quantizer *q, const bgi_op *op)
{
    bg_dtype to;

    if (op->type != &bgi_op_cast || q->matrix[op->inputs[0].id] != op->inputs[0].id || op->inputs[0].id == 0)
        return false;
    to = ((const bgi_cast_attributes *)op->attributes)->dtype;
    return q->only_casts ? to == BG_BFLOAT16 : bgi_dtype_is_narrow(to);
}

/* Returns whether the buffer may replace the value, which is a parameter or a cast of one. */
static bool is_replaceable(const quantizer *q, uint32_t value)
{
    return q->matrix[value] != 0 && !(q->only_casts && q->matrix[value] == value);
}

static void find_uses(quantizer *q)
{
    const bg_graph *graph = q->graph;

    for (uint32_t v = 1; v < graph->value_count; v++)
        if (is_matrix(&graph->values[v]))
            q->matrix[v] = v;
    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];

        if (is_cast_of_matrix(q, op)) {
            q->matrix[op->outputs[0].id] = op->inputs[0].id;
            continue;
        }
        for (uint32_t i = 0; i < op->input_count; i++) {
            const uint32_t value = op->inputs[i].id;
            bool is_product;

            if (is_replaceable(q, value)) {
                const matrix_use use = find_use(q, op, i, &is_product);

                note_use(q, q->matrix[value], use, is_product);
            } else if (q->matrix[value] != 0) {
                q->needed[value] = true;
            }
        }
    }
    for (size_t i = 0; i < graph->output_count; i++)
        note_use(q, q->matrix[graph->outputs[i].value.id], REFUSED, false);
}

static bgi_quantized describe(const quantizer *q, uint32_t matrix)
{
    const bg_type *type = &q->graph->values[matrix].type;
    const bool in_out = q->uses[matrix] == IN_OUT;

    return (bgi_quantized){.in = type->dims[in_out ? 0 : 1],
                           .out = type->dims[in_out ? 1 : 0],
                           .bits = (uint8_t)q->bits,
                           .in_out = in_out};
}

/* Returns whether a parameter is quantized. Small matrices may need more memory, because panels are filled up. */
static bool is_quantized(const quantizer *q, uint32_t matrix)
{
    bgi_quantized made;
    bg_type type;

    if (matrix == 0 || q->uses[matrix] == REFUSED || !q->has_product[matrix])
        return false;
    made = describe(q, matrix);
    if (!bgi_quantized_is_valid(made.in, made.out, made.bits))
        return false;
    type = bgi_quantized_type(made.in, made.out, made.bits);
    return bg_type_size_bytes(&type) < bg_type_size_bytes(&q->graph->values[matrix].type);
}

/* ---- building ---- */

/* Adds the buffer of a parameter. The buffer has the parameter's number and initializer, so that a session whose
 * weights lack the parameter can make its first values. */
static bg_status add_buffer(quantizer *q, uint32_t matrix, bg_error *error)
{
    const bgi_value *value = &q->graph->values[matrix];
    bg_graph *to = q->rebuild.to;
    const bgi_quantized made = describe(q, matrix);
    const bg_type type = bgi_quantized_type(made.in, made.out, made.bits);
    const char *name = bgi_arena_format(&to->arena, "%s.%s", value->name, q->name);
    bg_value buffer;

    if (name == NULL)
        return bgi_error_memory(error, "a name", strlen(value->name));
    buffer = bg_graph_variable(to, name, &type, BG_ROLE_BUFFER, &value->initializer);
    BGI_TRY(bg_graph_check(to, error));
    to->values[buffer.id].variable = value->variable;
    to->values[buffer.id].quantized = made;
    q->buffers[matrix] = buffer;
    return BG_OK;
}

/* Returns the parameter whose buffer replaces an input of the op, or 0. */
static uint32_t find_replaced(const quantizer *q, const bgi_op *op, uint32_t input)
{
    const uint32_t value = input < op->input_count ? op->inputs[input].id : 0;

    return is_replaceable(q, value) && !bg_value_is_null(q->buffers[q->matrix[value]]) ? q->matrix[value] : 0;
}

static void add_product(quantizer *q, const bgi_op *op, uint32_t matrix)
{
    const bgi_quantized made = describe(q, matrix);
    const bg_value inputs[] = {bgi_rebuild_value(&q->rebuild, op->inputs[0]), q->buffers[matrix]};
    bgi_quantized_attributes attributes;
    bg_value y;

    memset(&attributes, 0, sizeof attributes); /* also the padding bytes: see bg_op_type */
    attributes.in = made.in;
    attributes.out = made.out;
    attributes.bits = made.bits;
    y = bg_graph_add(q->rebuild.to, &bgi_op_quantized_linear, op->name, inputs, 2, &attributes, NULL);
    if (op->input_count > 2)
        y = bg_add(q->rebuild.to, y, bgi_rebuild_value(&q->rebuild, op->inputs[2]));
    bgi_rebuild_map(&q->rebuild, op->outputs[0], y);
}

static void add_embedding(quantizer *q, const bgi_op *op, uint32_t matrix)
{
    const bgi_quantized made = describe(q, matrix);
    const bg_value inputs[] = {q->buffers[matrix], bgi_rebuild_value(&q->rebuild, op->inputs[1])};
    bgi_quantized_attributes attributes;

    memset(&attributes, 0, sizeof attributes);
    attributes.in = made.in;
    attributes.out = made.out;
    attributes.bits = made.bits;
    bgi_rebuild_map(&q->rebuild, op->outputs[0],
                    bg_graph_add(q->rebuild.to, &bgi_op_quantized_embedding, op->name, inputs, 2, &attributes, NULL));
}

static void add_op(quantizer *q, const bgi_op *op)
{
    const uint32_t table = find_replaced(q, op, 0), weight = find_replaced(q, op, 1);
    const uint32_t cast = op->output_count > 0 ? q->matrix[op->outputs[0].id] : 0;

    bgi_rebuild_place(&q->rebuild, op);
    if (table != 0 && op->type == &bgi_op_embedding)
        add_embedding(q, op, table);
    else if (weight != 0)
        add_product(q, op, weight);
    else if (bg_value_is_null(q->buffers[cast])) /* otherwise the op is a cast, the result of which no op reads now */
        bgi_rebuild_op(&q->rebuild, op);
}

static bg_status refuse_mesh(const bg_graph *graph, const char *name, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                        "numerics.weights_type is %s, but the graph's mesh has %u x %u tensor replicas, over which "
                        "quantized weights are not cut; use a mesh without tensor axes (stages may be many), or "
                        "float weights",
                        name, graph->mesh.tensor_1, graph->mesh.tensor_2);
}

/* Builds the new graph. If there is no matrix to replace, *out does not change if only_casts; otherwise this is an
 * error. */
static bg_status build(quantizer *q, bg_graph **out, bg_error *error)
{
    uint32_t count = 0;

    find_uses(q);
    for (uint32_t v = 1; v < q->graph->value_count; v++) {
        q->needed[v] |= q->matrix[v] != v || !is_quantized(q, v);
        count += is_quantized(q, v) && q->matrix[v] == v;
    }
    if (count == 0 && q->only_casts)
        return BG_OK;
    if (count == 0)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "numerics.weights_type is %s, but no product of the graph reads a float32 matrix of "
                            "parameters that would become smaller; use float weights",
                            q->name);
    BGI_TRY(bgi_rebuild_begin(&q->rebuild, q->graph, q->needed, error));
    for (uint32_t v = 1; v < q->graph->value_count; v++)
        if (q->matrix[v] == v && is_quantized(q, v))
            BGI_TRY(add_buffer(q, v, error));
    for (size_t o = 0; o < q->graph->op_count; o++)
        add_op(q, &q->graph->ops[o]);
    return bgi_rebuild_finish(&q->rebuild, out, error);
}

bg_status bgi_quantize_graph(const bg_graph *graph, bg_weights_type type, bg_graph **out, bg_error *error)
{
    quantizer q = {.graph = graph,
                   .bits = type == BG_WEIGHTS_INT8   ? 8
                           : type == BG_WEIGHTS_INT4 ? 4
                                                     : 16,
                   .only_casts = type == BG_WEIGHTS_CAST,
                   .matrix = calloc(graph->value_count, sizeof *q.matrix),
                   .uses = calloc(graph->value_count, sizeof *q.uses),
                   .has_product = calloc(graph->value_count, sizeof *q.has_product),
                   .needed = calloc(graph->value_count, sizeof *q.needed),
                   .buffers = calloc(graph->value_count, sizeof *q.buffers)};
    const bool is_cut = graph->mesh.tensor_1 * graph->mesh.tensor_2 > 1;
    bg_status status = BG_OK;

    q.name = bgi_quantized_name(q.bits);
    if (is_cut && !q.only_casts)
        status = refuse_mesh(graph, q.name, error);
    else if (q.matrix == NULL || q.uses == NULL || q.has_product == NULL || q.needed == NULL || q.buffers == NULL)
        status = bgi_error_memory(error, "matrices", graph->value_count * sizeof *q.matrix);
    else if (!is_cut)
        status = build(&q, out, error);
    bgi_rebuild_clear(&q.rebuild);
    free(q.buffers);
    free(q.needed);
    free(q.has_product);
    free(q.uses);
    free(q.matrix);
    return status;
}
