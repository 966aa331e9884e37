/*
 * rotary.c: defines rotary positions. The gradient of a rotation by an angle is the rotation by the opposite angle, so
 * the gradient is the same op.
 */
#include <brigade/ops.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/rotary/attributes.h"
#include "ops/ops.h"
#include "ops/shape.h"

BGI_OP_KERNEL(select_rotary, ROTARY)

static bg_status check_numbers(const bg_type *x, const bgi_rotary_attributes *attributes, bg_error *error)
{
    const int64_t width = x->dims[x->rank - 1], heads = attributes->heads, features = attributes->features;
    const bool is_yarn = attributes->kind == BG_ROTARY_YARN;
    char text[BG_TYPE_TEXT_BYTES];

    if (heads < 1 || width % heads != 0)
        return bg_error_set(error, BG_ERROR_SHAPE, "x is %s; its last dimension must be %lld heads x their width",
                            bg_type_text(x, text), (long long)heads);
    if (features < 2 || features % 2 != 0 || features > width / heads)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "features is %lld; it must be even, at least 2 and at most the width of a head, %lld",
                            (long long)features, (long long)(width / heads));
    if (!(attributes->base > 0.0 && isfinite(attributes->base)))
        return bg_error_set(error, BG_ERROR_INVALID, "base is %g; it must be finite and above 0 (the paper has 10000)",
                            attributes->base);
    if (!(attributes->scaling > 0.0 && isfinite(attributes->scaling)))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "scaling is %g; it must be finite and above 0 (1 means no scaling)", attributes->scaling);
    if (attributes->magnitude < 0.0 || !isfinite(attributes->magnitude))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "magnitude is %g; it must be finite and above 0, or 0 for the magnitude of the scaling rule",
            attributes->magnitude);
    if (attributes->kind == BG_ROTARY_LINEAR)
        return BG_OK;
    if (attributes->kind != BG_ROTARY_YARN && attributes->kind != BG_ROTARY_LLAMA3)
        return bg_error_set(error, BG_ERROR_INVALID, "kind is %d; it must be one of bg_rotary_scaling",
                            (int)attributes->kind);
    if (!(attributes->trained_length >= 1.0))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "trained_length is %g: this kind of scaling needs the number of positions that the model was trained with",
            attributes->trained_length);
    if (!(attributes->least_turns > 0.0 && attributes->least_turns < attributes->most_turns &&
          isfinite(attributes->most_turns)))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s is %g and %s is %g; the first must be above 0 and below the second",
                            is_yarn ? "beta_slow" : "low_frequency", attributes->least_turns,
                            is_yarn ? "beta_fast" : "high_frequency", attributes->most_turns);
    if (is_yarn && attributes->base <= 1.0)
        return bg_error_set(error, BG_ERROR_INVALID, "base is %g; with this kind of scaling it must be above 1",
                            attributes->base);
    return BG_OK;
}

static bg_status check_positions(const bg_type *positions, const bg_type *x, bg_error *error)
{
    const bg_type all = bgi_type_rows(x, BG_INT32);
    char text[BG_TYPE_TEXT_BYTES], wanted[BG_TYPE_TEXT_BYTES];

    if (bg_type_equal(positions, &all) ||
        (positions->dtype == BG_INT32 && positions->rank == 1 && positions->dims[0] == x->dims[x->rank - 2]))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "positions are %s; they must be int32[%lld] or %s",
                        bg_type_text(positions, text), (long long)x->dims[x->rank - 2], bg_type_text(&all, wanted));
}

static bg_status infer_rotary(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type *x = &op->types[0];

    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_minimum_rank(x, "x", 2, "[..., S, heads D]", error));
    BGI_TRY(check_numbers(x, op->attributes, error));
    if (op->input_count > 1)
        BGI_TRY(check_positions(&op->types[1], x, error));
    outputs[0] = *x;
    return BG_OK;
}

static bg_status differentiate_rotary(bg_op_gradient *gradient, bg_error *error)
{
    bgi_rotary_attributes attributes;
    bg_value inputs[2] = {{0}, gradient->op.input_count > 1 ? gradient->inputs[1] : (bg_value){0}};

    memcpy(&attributes, gradient->op.attributes, sizeof attributes);
    attributes.inverse = !attributes.inverse;
    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_rotary, NULL, inputs, 2, &attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

static bg_cost cost_rotary(const bg_op_signature *op)
{
    return bgi_cost_once(op, 3.0 * bgi_type_elements(&op->types[0]));
}

const bg_op_type bgi_op_rotary = {
    BG_OP_TYPE_DEFAULTS,   .name = "rotary",
    .minimum_inputs = 1,   .maximum_inputs = 2,
    .output_count = 1,     .attributes_bytes = sizeof(bgi_rotary_attributes),
    .infer = infer_rotary, .gradient = differentiate_rotary,
    .cost = cost_rotary,   .kernel = select_rotary,
};

void bg_rotary_options_init(bg_rotary_options *options, size_t struct_bytes, int64_t heads)
{
    const bg_rotary_options made = {.struct_bytes = struct_bytes,
                                    .heads = heads,
                                    .base = 10000.0,
                                    .scaling = 1.0,
                                    .beta_fast = 32.0,
                                    .beta_slow = 1.0,
                                    .low_frequency = 1.0,
                                    .high_frequency = 4.0};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* Returns the base increased by the NTK rule, which lowers the frequencies. `s` is the factor by which the number of
 * positions grows. */
static double stretch_base(const bgi_rotary_attributes *attributes, double s)
{
    const double features = (double)attributes->features;

    return features > 2.0 ? attributes->base * pow(s, features / (features - 2.0)) : attributes->base;
}

static void scale_frequencies(const bg_rotary_options *options, int64_t length, bgi_rotary_attributes *attributes)
{
    const double s = options->scaling, trained = (double)options->trained_length;
    const double most = fmax(trained, (double)(options->length > 0 ? options->length : length));
    const bool is_yarn = options->kind == BG_ROTARY_YARN;

    attributes->scaling = s;
    attributes->kind = (unsigned)options->kind <= BG_ROTARY_LLAMA3 ? (uint8_t)options->kind : UINT8_MAX;
    if (options->kind == BG_ROTARY_NTK || options->kind == BG_ROTARY_DYNAMIC_NTK) {
        const bool is_fixed = options->kind == BG_ROTARY_NTK;

        attributes->kind = BG_ROTARY_LINEAR;
        if (s > 0.0) { /* otherwise the shape rule rejects it */
            attributes->base = stretch_base(attributes, is_fixed ? s : s * most / trained - (s - 1.0));
            attributes->scaling = 1.0;
        }
    }
    if (is_yarn || options->kind == BG_ROTARY_LLAMA3) {
        attributes->trained_length = trained;
        attributes->most_turns = is_yarn ? options->beta_fast : options->high_frequency;
        attributes->least_turns = is_yarn ? options->beta_slow : options->low_frequency;
    }
    if (is_yarn)
        attributes->magnitude = options->magnitude != 0.0 ? options->magnitude : s > 1.0 ? 0.1 * log(s) + 1.0 : 1.0;
}

bg_value bg_rotary(bg_graph *graph, const char *name, bg_value x, bg_value positions, const bg_rotary_options *options)
{
    const bg_type type = bg_graph_type(graph, x);
    bgi_rotary_attributes attributes;

    if (options == NULL) {
        bgi_graph_fail_op(graph, bgi_op_rotary.name, name, BG_ERROR_INVALID,
                          "it has no options; bg_rotary_defaults(heads) makes them");
        return (bg_value){0};
    }
    if (!bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_rotary_options",
                                "bg_rotary_defaults(heads)"))
        return (bg_value){0};
    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    attributes.heads = options->heads;
    attributes.features = options->features;
    attributes.base = options->base;
    attributes.interleaved = options->interleaved;
    if (attributes.features == 0 && attributes.heads >= 1 && type.rank >= 1)
        attributes.features = type.dims[type.rank - 1] / attributes.heads;
    if (options->kind == BG_ROTARY_DYNAMIC_NTK && options->trained_length < 1) {
        bgi_graph_fail_op(graph, bgi_op_rotary.name, name, BG_ERROR_INVALID,
                          "trained_length is %lld: this kind of scaling needs the number of positions that the model "
                          "was trained with",
                          (long long)options->trained_length);
        return (bg_value){0};
    }
    scale_frequencies(options, type.rank >= 2 ? type.dims[type.rank - 2] : 0, &attributes);
    return bg_graph_add(graph, &bgi_op_rotary, name, (const bg_value[]){x, positions}, 2, &attributes, NULL);
}
