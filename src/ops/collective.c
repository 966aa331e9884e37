/*
 * collective.c: defines the ops that communicate between the replicas of a group along a mesh's tensor axes and, in
 * updates, its data axis. This file has shape rules and gradients; the engine communicates (runtime/collective.c). Ops
 * have the sizes of groups but no replica's number, because all replicas run one graph.
 *
 *     op                                    forward          gradient
 *     all_reduce                            sum or maximum   all_reduce; as identical gradients: nothing
 *     identical_inputs                      nothing          all_reduce
 *     all_gather along a dimension          gather           reduce_scatter
 *     reduce_scatter along a dimension      sum, piece       all_gather
 */
#include <brigade/ops.h>

#include "graph/graph.h"
#include "kernels/collective/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

/* ---- rules ---- */

/* Checks attributes, which may come from files. */
static bg_status check_attributes(const bg_op_signature *op, bgi_collective_kind kind, bg_error *error)
{
    const bgi_collective_attributes *attributes = op->attributes;

    BGI_TRY(bgi_shape_float(&op->types[0], "x", error));
    if (attributes->kind != kind || attributes->axes == 0 || attributes->axes > BG_MESH_ALL ||
        attributes->members < 2 || attributes->members > INT32_MAX || attributes->passes_gradient > 1 ||
        (kind != BGI_COLLECTIVE_REDUCE && attributes->axis >= op->types[0].rank))
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "attributes that no collective over x has: axes 0x%x, %u members, dimension %u",
                            attributes->axes, attributes->members, attributes->axis);
    return BG_OK;
}

static bg_status infer_reduce(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_collective_attributes *attributes = op->attributes;

    BGI_TRY(check_attributes(op, BGI_COLLECTIVE_REDUCE, error));
    if (attributes->function != BG_REDUCE_SUM && attributes->function != BG_REDUCE_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "function is %d; it must be BG_REDUCE_SUM or BG_REDUCE_MAX",
                            (int)attributes->function);
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status infer_gather(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_collective_attributes *attributes = op->attributes;

    BGI_TRY(check_attributes(op, BGI_COLLECTIVE_GATHER, error));
    outputs[0] = op->types[0];
    outputs[0].dims[attributes->axis] *= attributes->members;
    return BG_OK;
}

static bg_status infer_scatter(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_collective_attributes *attributes = op->attributes;
    char text[BG_TYPE_TEXT_BYTES];
    int64_t dim;

    BGI_TRY(check_attributes(op, BGI_COLLECTIVE_SCATTER, error));
    dim = op->types[0].dims[attributes->axis];
    if (dim % attributes->members != 0)
        return bg_error_set(error, BG_ERROR_SHAPE, "x is %s; the %u replicas of a group must divide dimension %u",
                            bg_type_text(&op->types[0], text), attributes->members, attributes->axis);
    outputs[0] = op->types[0];
    outputs[0].dims[attributes->axis] = dim / attributes->members;
    return BG_OK;
}

static bg_status infer_identical(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(bgi_shape_float(&op->types[0], "x", error));
    outputs[0] = op->types[0];
    return BG_OK;
}

static bg_status derive_collective(bg_op_gradient *gradient, bg_error *error)
{
    bgi_collective_attributes attributes = *(const bgi_collective_attributes *)gradient->op.attributes;
    const bg_op_type *op_type = &bgi_op_all_reduce;
    bg_value dy;

    BGI_TRY(bgi_gradient_of_result(gradient, &dy, error));
    if (!gradient->needs[0] || attributes.function == BG_REDUCE_MAX)
        return BG_OK;
    if (attributes.passes_gradient) {
        gradient->input_gradients[0] = dy;
        return BG_OK;
    }
    if (attributes.kind == BGI_COLLECTIVE_GATHER) {
        attributes.kind = BGI_COLLECTIVE_SCATTER;
        op_type = &bgi_op_reduce_scatter;
    } else if (attributes.kind == BGI_COLLECTIVE_SCATTER) {
        attributes.kind = BGI_COLLECTIVE_GATHER;
        op_type = &bgi_op_all_gather;
    }
    gradient->input_gradients[0] = bg_graph_add(gradient->graph, op_type, NULL, &dy, 1, &attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

/* Counts what each member reads and writes: it reads its slice of every member's x, and writes that slice or all
 * slices. */
static bg_cost cost_collective(const bg_op_signature *op)
{
    const bgi_collective_attributes *attributes = op->attributes;
    const bool adds = attributes->kind != BGI_COLLECTIVE_GATHER;

    return bgi_cost_once(op, adds ? bgi_type_elements(&op->types[0]) : 0.0);
}

static bg_cost cost_nothing(const bg_op_signature *op)
{
    (void)op;
    return (bg_cost){0};
}

/* Reports an error, because a collective has no kernel. Plans do not call this function, but code that runs a single op
 * does. */
static bg_status refuse_kernel(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op;
    (void)policy;
    (void)out;
    return bg_error_set(error, BG_ERROR_UNSUPPORTED, "a collective has no kernel; run it in a session with replicas");
}

const bg_op_type bgi_op_all_reduce = {
    .alias_input = BG_NO_OPERAND,
    .reuse_input = 0,
    .weight_output = BG_NO_OPERAND,
    .name = "all_reduce",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_collective_attributes),
    .infer = infer_reduce,
    .gradient = derive_collective,
    .cost = cost_collective,
    .kernel = refuse_kernel,
    .is_collective = true,
};

const bg_op_type bgi_op_all_gather = {
    BG_OP_TYPE_DEFAULTS,     .name = "all_gather",
    .minimum_inputs = 1,     .maximum_inputs = 1,
    .output_count = 1,       .attributes_bytes = sizeof(bgi_collective_attributes),
    .infer = infer_gather,   .gradient = derive_collective,
    .cost = cost_collective, .kernel = refuse_kernel,
    .is_collective = true,
};

const bg_op_type bgi_op_reduce_scatter = {
    BG_OP_TYPE_DEFAULTS,     .name = "reduce_scatter",
    .minimum_inputs = 1,     .maximum_inputs = 1,
    .output_count = 1,       .attributes_bytes = sizeof(bgi_collective_attributes),
    .infer = infer_scatter,  .gradient = derive_collective,
    .cost = cost_collective, .kernel = refuse_kernel,
    .is_collective = true,
};

const bg_op_type bgi_op_identical_inputs = {
    .alias_input = 0,
    .reuse_input = BG_NO_OPERAND,
    .weight_output = BG_NO_OPERAND,
    .name = "identical_inputs",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_collective_attributes),
    .infer = infer_identical,
    .gradient = derive_collective,
    .cost = cost_nothing,
    .kernel = refuse_kernel,
};

/* ---- builders ---- */

/* Adds the op, or returns x itself when the group is one replica. */
static bg_value add_collective(bg_graph *graph, const bg_op_type *op_type, const char *name, bg_value x,
                               bgi_collective_attributes attributes)
{
    const bg_mesh mesh = bg_graph_mesh(graph);

    if ((attributes.axes & ~(uint32_t)BG_MESH_TENSOR) != 0) {
        bgi_graph_fail_op(graph, op_type->name, name, BG_ERROR_INVALID,
                          "axes are 0x%x; they must be BG_MESH_TENSOR_1, BG_MESH_TENSOR_2 or both", attributes.axes);
        return (bg_value){0};
    }
    attributes.members = bg_mesh_group_size(&mesh, attributes.axes);
    return attributes.members > 1 ? bg_graph_add(graph, op_type, name, &x, 1, &attributes, NULL) : x;
}

bg_value bg_all_reduce(bg_graph *graph, const char *name, bg_value x, bg_reduction function, uint32_t axes)
{
    return add_collective(graph, &bgi_op_all_reduce, name, x,
                          (bgi_collective_attributes){.function = function, .axes = axes});
}

bg_value bgi_all_reduce_data(bg_graph *graph, const char *name, bg_value x, bg_reduction function, uint32_t replicas)
{
    const bgi_collective_attributes attributes = {.function = function, .axes = BG_MESH_DATA, .members = replicas};

    return replicas > 1 ? bg_graph_add(graph, &bgi_op_all_reduce, name, &x, 1, &attributes, NULL) : x;
}

bg_value bgi_all_gather_data(bg_graph *graph, const char *name, bg_value x, uint32_t replicas)
{
    const bgi_collective_attributes attributes = {
        .kind = BGI_COLLECTIVE_GATHER, .axes = BG_MESH_DATA, .members = replicas};

    return replicas > 1 ? bg_graph_add(graph, &bgi_op_all_gather, name, &x, 1, &attributes, NULL) : x;
}

bg_value bg_identical_gradients(bg_graph *graph, const char *name, bg_value x, uint32_t axes)
{
    return add_collective(graph, &bgi_op_all_reduce, name, x,
                          (bgi_collective_attributes){.axes = axes, .passes_gradient = 1});
}

bg_value bg_identical_inputs(bg_graph *graph, const char *name, bg_value x, uint32_t axes)
{
    return add_collective(graph, &bgi_op_identical_inputs, name, x, (bgi_collective_attributes){.axes = axes});
}

static bg_value add_along(bg_graph *graph, const bg_op_type *op_type, const char *name, bg_value x, int32_t axis,
                          bgi_collective_attributes attributes)
{
    if (!bgi_graph_axis(graph, op_type, name, x, axis, &attributes.axis))
        return (bg_value){0};
    return add_collective(graph, op_type, name, x, attributes);
}

bg_value bg_all_gather(bg_graph *graph, const char *name, bg_value x, int32_t axis, uint32_t axes)
{
    return add_along(graph, &bgi_op_all_gather, name, x, axis,
                     (bgi_collective_attributes){.kind = BGI_COLLECTIVE_GATHER, .axes = axes});
}

bg_value bg_reduce_scatter(bg_graph *graph, const char *name, bg_value x, int32_t axis, uint32_t axes)
{
    return add_along(graph, &bgi_op_reduce_scatter, name, x, axis,
                     (bgi_collective_attributes){.kind = BGI_COLLECTIVE_SCATTER, .axes = axes});
}
