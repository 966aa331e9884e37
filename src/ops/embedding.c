/*
 * embedding.c: rows of a table by id, and the gradient of the table. Ids are data: what they are is known at run time
 * only, so an id outside the table is not an error here (ops.h says what it reads as).
 */
#include <brigade/ops.h>

#include <string.h>

#include "ops/ops.h"
#include "ops/shape.h"

/* [..., H] for ids [...] */
static bg_status infer_rows(const bg_type *table, const bg_type *ids, const bgi_embedding_attributes *attributes,
                            bg_type *out, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];
    bg_type y = *ids;

    BGI_TRY(bgi_shape_float(table, "table", error));
    BGI_TRY(bgi_shape_rank(table, "table", 2, "[V,H]", error));
    BGI_TRY(bgi_shape_dtype(ids, "ids", BG_INT32, "they count rows of the table", error));
    if (ids->rank >= BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_SHAPE, "ids is %s: it must have at most %d dimensions",
                            bg_type_text(ids, text), BG_MAX_RANK - 1);
    if (attributes->padding_index < -1 || attributes->padding_index >= table->dims[0])
        return bg_error_set(error, BG_ERROR_INVALID,
                            "padding_index is %lld: it must be -1 (none) or a row of the table, %s",
                            (long long)attributes->padding_index, bg_type_text(table, text));
    y.dtype = table->dtype;
    y.dims[y.rank++] = table->dims[1];
    *out = y;
    return BG_OK;
}

static bg_status infer_embedding(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    return infer_rows(&op->types[0], &op->types[1], op->attributes, &outputs[0], error);
}

static bg_status differentiate_embedding(bg_op_gradient *gradient, bg_error *error)
{
    bgi_embedding_backward_attributes attributes;
    bg_value inputs[2] = {{0}, gradient->inputs[1]};

    memset(&attributes, 0, sizeof attributes);
    memcpy(&attributes.forward, gradient->op.attributes, sizeof attributes.forward);
    attributes.result = gradient->op.types[0];
    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_embedding_backward, NULL, inputs, 2, &attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

/* Reads the rows that are asked for, not the table. */
static bg_cost cost_embedding(const bg_op_signature *op)
{
    bg_cost cost = bgi_cost_once(op, 0.0);

    cost.bytes_read = cost.bytes_written + (double)bg_type_size_bytes(&op->types[1]);
    return cost;
}

BGI_OP_KERNEL(select_embedding, EMBEDDING)

const bg_op_type bgi_op_embedding = {
    BG_OP_TYPE_DEFAULTS,      .name = "embedding",
    .minimum_inputs = 2,      .maximum_inputs = 2,
    .output_count = 1,        .attributes_bytes = sizeof(bgi_embedding_attributes),
    .infer = infer_embedding, .gradient = differentiate_embedding,
    .cost = cost_embedding,   .kernel = select_embedding,
};

/* ---- dy, ids -> dtable ---- */

static bg_status infer_embedding_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_embedding_backward_attributes *attributes = op->attributes;
    bg_type y;

    BGI_TRY(infer_rows(&attributes->result, &op->types[1], &attributes->forward, &y, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", &y, "the embedding's output", error));
    outputs[0] = attributes->result;
    return BG_OK;
}

static bg_cost cost_embedding_backward(const bg_op_signature *op)
{
    return bgi_cost_once(op, bgi_type_elements(&op->types[0]));
}

BGI_OP_KERNEL(select_embedding_backward, EMBEDDING_BACKWARD)

const bg_op_type bgi_op_embedding_backward = {
    BG_OP_TYPE_DEFAULTS,
    .name = "embedding_backward",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_embedding_backward_attributes),
    .infer = infer_embedding_backward,
    .cost = cost_embedding_backward,
    .kernel = select_embedding_backward,
};

bg_value bg_embedding(bg_graph *graph, const char *name, bg_value table, bg_value ids, int64_t padding_index)
{
    const bg_value inputs[] = {table, ids};
    bgi_embedding_attributes attributes;

    memset(&attributes, 0, sizeof attributes); /* padding too: see bg_op_type */
    attributes.padding_index = padding_index;
    return bg_graph_add(graph, &bgi_op_embedding, name, inputs, 2, &attributes, NULL);
}
