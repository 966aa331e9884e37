/*
 * embedding.c: defines the lookup of rows of a table by id, and the gradient of the table. Ids are data that are known
 * only at run time, so an id outside the table is not an error here (brigade/ops.h defines the result).
 */
#include <brigade/ops.h>

#include <string.h>

#include "kernels/embedding/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

/* Infers the type of the rows: [..., H] for ids [...]. */
static bg_status infer_rows(const bg_type *table, const bg_type *ids, const bgi_embedding_attributes *attributes,
                            bg_type *out, bg_error *error)
{
    char text[BG_TYPE_TEXT_BYTES];
    bg_type y = *ids;

    BGI_TRY(bgi_shape_float(table, "table", error));
    BGI_TRY(bgi_shape_rank(table, "table", 2, "[V,H]", error));
    BGI_TRY(bgi_shape_dtype(ids, "ids", BG_INT32, "they are row numbers of the table", error));
    if (ids->rank >= BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_SHAPE, "ids is %s; it must have at most %d dimensions",
                            bg_type_text(ids, text), BG_MAX_RANK - 1);
    if (attributes->padding_index < -1 || attributes->padding_index >= table->dims[0])
        return bg_error_set(error, BG_ERROR_INVALID,
                            "padding_index is %lld; it must be -1 (none) or a row of the table, %s",
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

/* Counts only the rows that are read. */
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

/* ---- the gradient in rows: ids, slots -> uses; dy, uses -> rows; rows -> dtable ---- */

bg_type bgi_embedding_slots_type(const bg_type *table)
{
    return bg_vector(BG_INT32, 2 * table->dims[0] + 1);
}

bg_type bgi_embedding_uses_type(const bg_type *ids)
{
    return bg_matrix(BG_INT32, 2, bg_type_element_count(ids));
}

static bg_status infer_embedding_slots(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(bgi_shape_dtype(&op->types[0], "ids", BG_INT32, "they are row numbers of the table", error));
    BGI_TRY(bgi_shape_dtype(&op->types[1], "slots", BG_INT32, "they count rows", error));
    BGI_TRY(bgi_shape_rank(&op->types[1], "slots", 1, "[2V+1]", error));
    outputs[0] = bgi_embedding_uses_type(&op->types[0]);
    return BG_OK;
}

/* Counts only the rows that ids name. */
static bg_cost cost_embedding_slots(const bg_op_signature *op)
{
    const double bytes = (double)bg_type_size_bytes(&op->types[0]);

    return (bg_cost){.bytes_read = 3.0 * bytes, .bytes_written = 4.0 * bytes};
}

BGI_OP_KERNEL(select_embedding_slots, EMBEDDING_SLOTS)

const bg_op_type bgi_op_embedding_slots = {
    BG_OP_TYPE_DEFAULTS,
    .name = "embedding_slots",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_embedding_attributes),
    .written_inputs = 1u << 1,
    .infer = infer_embedding_slots,
    .cost = cost_embedding_slots,
    .kernel = select_embedding_slots,
};

static bg_status check_rows(const bg_type *rows, int64_t width, bg_error *error)
{
    BGI_TRY(bgi_shape_dtype(rows, "rows", BG_FLOAT32, "gradients are summed in it", error));
    BGI_TRY(bgi_shape_rank(rows, "rows", 2, "[S,H]", error));
    return bgi_shape_dim(rows, "rows", 1, width, "the width of the gradient", error);
}

static bg_status infer_embedding_rows(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *dy = &op->types[0];
    const int64_t width = dy->rank > 0 ? dy->dims[dy->rank - 1] : 1;
    const bg_type uses = bg_matrix(BG_INT32, 2, width > 0 ? bg_type_element_count(dy) / width : 0);

    (void)outputs;
    BGI_TRY(bgi_shape_float(dy, "dy", error));
    BGI_TRY(bgi_shape_minimum_rank(dy, "dy", 1, "[...,H]", error));
    BGI_TRY(bgi_shape_equal(&op->types[1], "uses", &uses, "two for each row of dy", error));
    return check_rows(&op->types[2], width, error);
}

/* Counts the rows as read and as written. */
static bg_cost cost_embedding_rows(const bg_op_signature *op)
{
    const double elements = bgi_type_elements(&op->types[0]), row_bytes = elements * sizeof(float);

    return (bg_cost){.flops = 2.0 * elements,
                     .bytes_read = (double)bg_type_size_bytes(&op->types[0]) + row_bytes,
                     .bytes_written = row_bytes};
}

BGI_OP_KERNEL(select_embedding_rows, EMBEDDING_ROWS)

const bg_op_type bgi_op_embedding_rows = {
    BG_OP_TYPE_DEFAULTS,         .name = "embedding_rows",        .minimum_inputs = 3,
    .maximum_inputs = 3,         .written_inputs = 1u << 2,       .infer = infer_embedding_rows,
    .cost = cost_embedding_rows, .kernel = select_embedding_rows,
};

void bgi_embedding_rows(bg_graph *graph, const char *name, bg_value dy, bg_value uses, bg_value rows)
{
    const bg_value inputs[] = {dy, uses, rows};

    bg_graph_add(graph, &bgi_op_embedding_rows, name, inputs, 3, NULL, NULL);
}

static bg_status infer_embedding_rows_add(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *gradient = &op->types[0];
    bg_type slots;

    (void)outputs;
    BGI_TRY(bgi_shape_dtype(gradient, "gradient", BG_FLOAT32, "the element type of its rows", error));
    BGI_TRY(bgi_shape_rank(gradient, "gradient", 2, "[V,H]", error));
    BGI_TRY(check_rows(&op->types[1], gradient->dims[1], error));
    slots = bgi_embedding_slots_type(gradient);
    return bgi_shape_equal(&op->types[2], "slots", &slots, "for each row of the gradient", error);
}

static bg_cost cost_embedding_rows_add(const bg_op_signature *op)
{
    bg_cost cost = bgi_cost_once(op, bgi_type_elements(&op->types[0]));

    cost.bytes_written = (double)bg_type_size_bytes(&op->types[0]);
    return cost;
}

BGI_OP_KERNEL(select_embedding_rows_add, EMBEDDING_ROWS_ADD)

const bg_op_type bgi_op_embedding_rows_add = {
    BG_OP_TYPE_DEFAULTS,
    .name = "embedding_rows_add",
    .minimum_inputs = 3,
    .maximum_inputs = 3,
    .written_inputs = 1u << 0,
    .infer = infer_embedding_rows_add,
    .cost = cost_embedding_rows_add,
    .kernel = select_embedding_rows_add,
};

void bgi_embedding_rows_add(bg_graph *graph, const char *name, bg_value gradient, bg_value rows, bg_value slots)
{
    const bg_value inputs[] = {gradient, rows, slots};

    bg_graph_add(graph, &bgi_op_embedding_rows_add, name, inputs, 3, NULL, NULL);
}

bg_value bg_embedding(bg_graph *graph, const char *name, bg_value table, bg_value ids, int64_t padding_index)
{
    const bg_value inputs[] = {table, ids};
    bgi_embedding_attributes attributes;

    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.padding_index = padding_index;
    return bg_graph_add(graph, &bgi_op_embedding, name, inputs, 2, &attributes, NULL);
}
