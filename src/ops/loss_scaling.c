/*
 * loss_scaling.c: defines the ops for automatic loss scaling, and for the check that losses are finite. Transforms add
 * these ops; no gradient flows through them.
 */
#include "kernels/loss_scaling/attributes.h"
#include "kernels/optimizer/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_range_count, RANGE_COUNT)
BGI_OP_KERNEL(select_loss_scale, LOSS_SCALE)
BGI_OP_KERNEL(select_loss_guard, LOSS_GUARD)

/* Infers the counts; in an update x may be only a replica's piece of the tensor. */
static bg_status infer_range_count(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_range_count_attributes *attributes = op->attributes;
    const int64_t elements = bg_type_element_count(&op->types[0]);

    BGI_TRY(bgi_shape_float(&op->types[0], "x", error));
    if (attributes->pieces > INT32_MAX || attributes->elements > INT64_MAX / 2 ||
        (attributes->elements != elements &&
         (attributes->pieces == 0 || bgi_piece_size(attributes->elements, attributes->pieces) != elements)))
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "%u pieces of a tensor of %lld elements do not fit x, which has %lld elements",
                            attributes->pieces, (long long)attributes->elements, (long long)elements);
    outputs[0] = bg_vector(BG_FLOAT64, BGI_RANGE_COUNTS);
    return BG_OK;
}

static bg_cost cost_range_count(const bg_op_signature *op)
{
    return bgi_cost_once(op, 2.0 * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_range_count = {
    .name = "range_count",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_range_count_attributes),
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_range_count,
    .cost = cost_range_count,
    .kernel = select_range_count,
};

bg_value bgi_range_count(bg_graph *graph, const char *name, bg_value x, double edge)
{
    const bg_type type = bg_graph_type(graph, x);
    const bgi_range_count_attributes attributes = {.edge = (float)edge, .elements = bg_type_element_count(&type)};

    return bg_graph_add(graph, &bgi_op_range_count, name, &x, 1, &attributes, NULL);
}

bg_value bgi_count_not_finite(bg_graph *graph, const char *name, bg_value x, double edge, uint32_t pieces)
{
    const bg_type type = bg_graph_type(graph, x);
    const bgi_range_count_attributes attributes = {
        .edge = (float)edge, .elements = bg_type_element_count(&type), .pieces = pieces, .only_not_finite = true};

    return bg_graph_add(graph, &bgi_op_range_count, name, &x, 1, &attributes, NULL);
}

enum { LOSS_SCALE = 0, STATISTICS, COUNTS, SCALE, HYPER, INPUTS };

static bg_status infer_loss_scale(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type scale = bg_scalar(BG_FLOAT32), hyper = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT);
    const bg_type statistics = bg_vector(BG_FLOAT64, BGI_STATISTICS_COUNT);
    const bg_type counts = bg_vector(BG_FLOAT64, BGI_RANGE_COUNTS);

    BGI_TRY(bgi_shape_equal(&op->types[LOSS_SCALE], "the loss scale", &scale, "a factor of the loss", error));
    BGI_TRY(bgi_shape_equal(&op->types[STATISTICS], "statistics", &statistics, "of the preceding updates", error));
    BGI_TRY(bgi_shape_equal(&op->types[COUNTS], "counts", &counts, "of one update", error));
    BGI_TRY(bgi_shape_equal(&op->types[SCALE], "the scale", &scale, "a factor of the gradient", error));
    BGI_TRY(bgi_shape_equal(&op->types[HYPER], "hyper", &hyper, "the numbers of the optimizer", error));
    outputs[0] = scale;
    outputs[1] = hyper;
    outputs[2] = scale;
    return BG_OK;
}

const bg_op_type bgi_op_loss_scale = {
    .name = "loss_scale",
    .minimum_inputs = INPUTS,
    .maximum_inputs = INPUTS,
    .output_count = 3,
    .attributes_bytes = sizeof(bgi_loss_scale_attributes),
    .written_inputs = 1u << LOSS_SCALE | 1u << STATISTICS,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_loss_scale,
    .kernel = select_loss_scale,
};

bg_value bgi_loss_scale(bg_graph *graph, const char *name, bg_value loss_scale, bg_value statistics, bg_value counts,
                        bg_value scale, bg_value hyper, const bgi_loss_scale_attributes *attributes,
                        bg_value *out_hyper, bg_value *out_used)
{
    const bg_value inputs[] = {loss_scale, statistics, counts, scale, hyper};
    bg_value outputs[3] = {{0}};

    bg_graph_add(graph, &bgi_op_loss_scale, name, inputs, INPUTS, attributes, outputs);
    *out_hyper = outputs[1];
    *out_used = outputs[2];
    return outputs[0];
}

static bg_status infer_loss_guard(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type hyper = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT), counts = bg_vector(BG_FLOAT64, BGI_RANGE_COUNTS);

    BGI_TRY(bgi_shape_equal(&op->types[0], "hyper", &hyper, "the numbers of the optimizer", error));
    BGI_TRY(bgi_shape_equal(&op->types[1], "counts", &counts, "of the losses of one update", error));
    outputs[0] = hyper;
    return BG_OK;
}

const bg_op_type bgi_op_loss_guard = {
    .name = "loss_guard",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .written_inputs = 1u << 0,
    BG_OP_TYPE_DEFAULTS,
    .infer = infer_loss_guard,
    .kernel = select_loss_guard,
};

bg_value bgi_loss_guard(bg_graph *graph, const char *name, bg_value hyper, bg_value counts)
{
    const bg_value inputs[] = {hyper, counts};

    return bg_graph_add(graph, &bgi_op_loss_guard, name, inputs, 2, NULL, NULL);
}
