/*
 * remote.c: defines loads and stores of remote buffers' entries, at an index that is known only at run time. The buffer
 * is a variable in the device's remote store, which never moves to the device as a whole; the op's kernel copies one
 * entry when the program reaches it. (plan/transfers.c handles the loads and stores of variables, which run
 * concurrently with the program.)
 */
#include <brigade/ops.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "ops/shape.h"

/* Returns the type of one entry. */
static bg_status infer_entry(const bg_op_signature *op, bg_type *out, bg_error *error)
{
    const bg_type *buffer = &op->types[0], *index = &op->types[1];
    char text[BG_TYPE_TEXT_BYTES];

    if (buffer->rank == 0)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the buffer is %s; its first dimension must be the number of entries",
                            bg_type_text(buffer, text));
    BGI_TRY(bgi_shape_dtype(index, "index", BG_INT32, "it counts entries", error));
    if (bg_type_element_count(index) != 1)
        return bg_error_set(error, BG_ERROR_SHAPE, "index is %s; it must be one number", bg_type_text(index, text));
    *out = *buffer;
    out->rank--;
    for (uint32_t i = 0; i < out->rank; i++)
        out->dims[i] = buffer->dims[i + 1];
    out->dims[out->rank] = 0;
    return BG_OK;
}

static bg_status infer_load(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    return infer_entry(op, &outputs[0], error);
}

static bg_status infer_store(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    bg_type entry;

    BGI_TRY(infer_entry(op, &entry, error));
    BGI_TRY(bgi_shape_equal(&op->types[2], "the value", &entry, "an entry", error));
    outputs[0] = op->types[1];
    return BG_OK;
}

/* Counts one entry as read and written, regardless of the buffer's size. */
static bg_cost cost_entry(const bg_op_signature *op)
{
    const double bytes = (double)bg_type_size_bytes(&op->types[0]) / (double)op->types[0].dims[0];

    return (bg_cost){.bytes_read = bytes, .bytes_written = bytes};
}

BGI_OP_KERNEL(select_load, REMOTE_LOAD)
BGI_OP_KERNEL(select_store, REMOTE_STORE)

const bg_op_type bgi_op_remote_load = {
    BG_OP_TYPE_DEFAULTS, .name = "remote_load", .minimum_inputs = 2, .maximum_inputs = 2,
    .output_count = 1,   .infer = infer_load,   .cost = cost_entry,  .kernel = select_load,
};

const bg_op_type bgi_op_remote_store = {
    BG_OP_TYPE_DEFAULTS,  .name = "remote_store", .minimum_inputs = 3, .maximum_inputs = 3,    .output_count = 1,
    .written_inputs = 1u, .infer = infer_store,   .cost = cost_entry,  .kernel = select_store,
};

bg_value bg_remote_load(bg_graph *graph, const char *name, bg_value buffer, bg_value index)
{
    const bg_value inputs[] = {buffer, index};

    return bg_graph_add(graph, &bgi_op_remote_load, name, inputs, 2, NULL, NULL);
}

bg_value bg_remote_store(bg_graph *graph, const char *name, bg_value buffer, bg_value index, bg_value value)
{
    const bg_value inputs[] = {buffer, index, value};

    return bg_graph_add(graph, &bgi_op_remote_store, name, inputs, 3, NULL, NULL);
}
