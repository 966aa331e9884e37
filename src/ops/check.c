/*
 * check.c: checks whether a gradient rule agrees with its kernel, for users' ops as well as the library's.
 *
 * The checker builds the op once over float64 operands, calls the gradient rule to add the backward ops, and runs both
 * with reference kernels. The scalar that is differentiated is L = sum(output * weight) with random weights, because
 * then dL/d(output) is just the weights:
 *
 *     operands --> op --> outputs --> L          numeric:  (L(x + h) - L(x - h)) / 2h, one element at a time
 *     weights  --> gradient rule --> dL/dx       analytic: all elements at once
 */
#include <brigade/ops.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "kernels/reference/element.h"
#include "ops/evaluate.h"

enum { MAXIMUM_OPERANDS = 32 };

void bg_gradient_check_options_init(bg_gradient_check_options *options, size_t struct_bytes)
{
    const bg_gradient_check_options made = {.struct_bytes = struct_bytes,
                                            .seed = 1,
                                            .step = 1e-5,
                                            .absolute_tolerance = 1e-7,
                                            .relative_tolerance = 1e-5,
                                            .elements_per_input = 0,
                                            .input_low = -1.0,
                                            .input_high = 1.0,
                                            .outputs = 1};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

typedef struct checker {
    const bg_op_type *op_type;
    bg_gradient_check_options options;
    bg_kernel_env env;
    uint64_t random; /* state of the generator */
    bg_graph *graph;
    uint32_t input_count;
    bg_value inputs[MAXIMUM_OPERANDS];
    bool widened;                 /* an operand was converted because its type was not float64 */
    bool moves[MAXIMUM_OPERANDS]; /* float operands that the op does not change in place */
    bg_value outputs[MAXIMUM_OPERANDS];
    bg_value weights[MAXIMUM_OPERANDS]; /* weights of the outputs that are part of the sum */
    bg_value gradients[MAXIMUM_OPERANDS];
    bgi_arena arena;
    void *originals[MAXIMUM_OPERANDS]; /* the operands' values, because some ops change operands in place */
    void **buffers;
} checker;

/* Draws a double in [0, 1) with splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
 * 2014). */
static double draw(checker *c)
{
    uint64_t z = c->random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* ---- building ---- */

static bg_status fill_operand(checker *c, uint32_t i, const bg_type *given, const void *values, bg_error *error)
{
    const bg_type type = bg_graph_type(c->graph, c->inputs[i]);
    const int64_t count = bg_type_element_count(&type);
    double *data = bgi_arena_allocate(&c->arena, 1, bg_type_size_bytes(&type));

    if (data == NULL)
        return bgi_error_memory(error, "an operand", bg_type_size_bytes(&type));
    c->originals[i] = data;
    if (!bg_dtype_is_float(type.dtype)) {
        if (values == NULL)
            return bg_error_set(error, BG_ERROR_INVALID, "operand %u holds integers; its values must be given",
                                (unsigned)i);
        memcpy(data, values, bg_type_size_bytes(&type));
        return BG_OK;
    }
    for (int64_t e = 0; e < count; e++)
        data[e] = values != NULL ? bgi_load(given->dtype, values, e)
                                 : c->options.input_low + (c->options.input_high - c->options.input_low) * draw(c);
    return BG_OK;
}

/* Adds every operand as a variable, because some ops require variables. */
static bg_status add_operands(checker *c, const bg_type *types, const void *const *values, bg_error *error)
{
    for (uint32_t i = 0; i < c->input_count; i++) {
        bg_type type = types[i];
        char name[32];

        c->widened |= bg_dtype_is_float(type.dtype) && type.dtype != BG_FLOAT64;
        if (bg_dtype_is_float(type.dtype))
            type.dtype = BG_FLOAT64;
        snprintf(name, sizeof name, "operand%u", (unsigned)i);
        c->inputs[i] = bg_graph_variable(c->graph, name, &type, BG_ROLE_PARAMETER, NULL);
        BGI_TRY(bg_graph_check(c->graph, error));
        c->moves[i] = bg_dtype_is_float(type.dtype) && (c->op_type->written_inputs >> i & 1u) == 0;
        BGI_TRY(fill_operand(c, i, &types[i], values != NULL ? values[i] : NULL, error));
    }
    return BG_OK;
}

/* Adds the weights of the sum: variables of the outputs' types, filled once buffers exist. */
static bg_status add_weights(checker *c, bg_error *error)
{
    bool is_any = false;

    for (uint32_t o = 0; o < c->op_type->output_count; o++) {
        const bg_type type = bg_graph_type(c->graph, c->outputs[o]);
        char name[32];

        if (bg_value_is_null(c->outputs[o]) || !bg_dtype_is_float(type.dtype) || (c->options.outputs >> o & 1u) == 0)
            continue;
        snprintf(name, sizeof name, "weight%u", (unsigned)o);
        c->weights[o] = bg_graph_variable(c->graph, name, &type, BG_ROLE_BUFFER, NULL);
        is_any = true;
    }
    if (!is_any)
        return bg_error_set(error, BG_ERROR_INVALID, "none of the outputs to check is a float tensor");
    return bg_graph_check(c->graph, error);
}

static bg_status ask_rule(checker *c, bg_error *error)
{
    bg_type types[2 * MAXIMUM_OPERANDS];
    /* The op's struct moves when the rule adds ops, but the memory that it points to does not. */
    const bgi_op op = c->graph->ops[0];
    bg_op_gradient gradient = {.graph = c->graph,
                               .op = bgi_op_signature(c->graph, &op, types),
                               .inputs = c->inputs,
                               .outputs = c->outputs,
                               .output_gradients = c->weights,
                               .needs = c->moves,
                               .input_gradients = c->gradients};

    BGI_TRY(c->op_type->gradient(&gradient, error));
    BGI_TRY(bg_graph_check(c->graph, error));
    for (uint32_t i = 0; i < c->input_count; i++) {
        const bg_type wanted = bg_graph_type(c->graph, c->inputs[i]), given = bg_graph_type(c->graph, c->gradients[i]);
        char wanted_text[BG_TYPE_TEXT_BYTES], given_text[BG_TYPE_TEXT_BYTES];

        if (c->moves[i] && !bg_value_is_null(c->gradients[i]) && !bg_type_equal(&wanted, &given))
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "the gradient of operand %u is %s; it must be %s like the operand", (unsigned)i,
                                bg_type_text(&given, given_text), bg_type_text(&wanted, wanted_text));
    }
    return BG_OK;
}

static bg_status build(checker *c, const void *attributes, const bg_type *types, const void *const *values,
                       bg_error *error)
{
    if (c->op_type->gradient == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the op type has no gradient rule, so there is nothing to check");
    if (c->op_type->attributes_bytes > 0 && attributes == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "attributes is NULL, but the op needs attributes");
    if (c->input_count > MAXIMUM_OPERANDS || c->op_type->output_count > MAXIMUM_OPERANDS)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "the op has %u operands; the checker supports at most %d",
                            (unsigned)c->input_count, MAXIMUM_OPERANDS);
    BGI_TRY(bg_graph_create(&c->graph, error));
    BGI_TRY(add_operands(c, types, values, error));
    bg_graph_add(c->graph, c->op_type, "checked", c->inputs, c->input_count, attributes, c->outputs);
    BGI_TRY(bg_graph_check(c->graph, error));
    BGI_TRY(add_weights(c, error));
    BGI_TRY(ask_rule(c, error));
    return bgi_evaluate_create_buffers(c->graph, &c->buffers, error);
}

/* ---- running ---- */

static void restore_operands(checker *c)
{
    for (uint32_t i = 0; i < c->input_count; i++) {
        const bg_type type = bg_graph_type(c->graph, c->inputs[i]);

        memcpy(c->buffers[c->inputs[i].id], c->originals[i], bg_type_size_bytes(&type));
    }
}

static void draw_weights(checker *c)
{
    for (uint32_t o = 0; o < c->op_type->output_count; o++) {
        const bg_type type = bg_graph_type(c->graph, c->weights[o]);

        if (bg_value_is_null(c->weights[o]))
            continue;
        for (int64_t e = 0; e < bg_type_element_count(&type); e++)
            bgi_store(type.dtype, c->buffers[c->weights[o].id], e, 2.0 * draw(c) - 1.0);
    }
}

static double sum_outputs(const checker *c)
{
    double sum = 0.0;

    for (uint32_t o = 0; o < c->op_type->output_count; o++) {
        const bg_type type = bg_graph_type(c->graph, c->weights[o]);

        if (bg_value_is_null(c->weights[o]))
            continue;
        for (int64_t e = 0; e < bg_type_element_count(&type); e++)
            sum += bgi_load(type.dtype, c->buffers[c->weights[o].id], e) *
                   bgi_load(type.dtype, c->buffers[c->outputs[o].id], e);
    }
    return sum;
}

/* Computes L with element `e` of operand `i` set to `value`. */
static bg_status evaluate_at(checker *c, uint32_t i, int64_t e, double value, double *out, bg_error *error)
{
    restore_operands(c);
    ((double *)c->buffers[c->inputs[i].id])[e] = value;
    BGI_TRY(bgi_evaluate(c->graph, 0, 1, &c->env, c->buffers, error));
    *out = sum_outputs(c);
    return BG_OK;
}

static bg_status compare_element(checker *c, uint32_t i, int64_t e, double analytic, bg_error *error)
{
    const double at = ((const double *)c->originals[i])[e];
    const double step = c->options.step * fmax(1.0, fabs(at));
    /* The difference above - below is the actual step after rounding, because at + step is not exact. */
    const double above = at + step, below = at - step;
    double sum_above, sum_below, numeric, allowed;

    BGI_TRY(evaluate_at(c, i, e, above, &sum_above, error));
    BGI_TRY(evaluate_at(c, i, e, below, &sum_below, error));
    numeric = (sum_above - sum_below) / (above - below);
    allowed = c->options.absolute_tolerance + c->options.relative_tolerance * fmax(fabs(numeric), fabs(analytic));
    if (fabs(numeric - analytic) <= allowed)
        return BG_OK;
    return bg_error_set(
        error, BG_ERROR_INVALID,
        "operand %u, element %lld (at %.9g): %s %.9g but central differences give %.9g; they may differ by at most "
        "%.3g. The check passes float64 operands to the kernels, so kernels must read and write the dtype in "
        "`call->types`; one that always uses float32 fails here",
        (unsigned)i, (long long)e, at,
        bg_value_is_null(c->gradients[i]) ? "the rule gives no gradient, which means" : "the rule gives", analytic,
        numeric, allowed);
}

static bg_status compare_operand(checker *c, uint32_t i, const double *analytic, bg_error *error)
{
    const bg_type type = bg_graph_type(c->graph, c->inputs[i]);
    const int64_t count = bg_type_element_count(&type);
    const int64_t wanted = c->options.elements_per_input;
    const bool all = wanted == 0 || wanted >= count;

    for (int64_t k = 0; k < (all ? count : wanted); k++) {
        const int64_t e = all ? k : (int64_t)(draw(c) * (double)count);

        BGI_TRY(compare_element(c, i, e, analytic != NULL ? analytic[e] : 0.0, error));
    }
    return BG_OK;
}

static bg_status check_gradients(checker *c, bg_error *error)
{
    double *analytic[MAXIMUM_OPERANDS] = {NULL};

    draw_weights(c);
    restore_operands(c);
    BGI_TRY(bgi_evaluate(c->graph, 0, bg_graph_op_count(c->graph), &c->env, c->buffers, error));
    for (uint32_t i = 0; i < c->input_count; i++) {
        const bg_type type = bg_graph_type(c->graph, c->inputs[i]);

        if (!c->moves[i] || bg_value_is_null(c->gradients[i]))
            continue;
        analytic[i] = bgi_arena_copy(&c->arena, c->buffers[c->gradients[i].id], bg_type_size_bytes(&type));
        if (analytic[i] == NULL)
            return bgi_error_memory(error, "a gradient", bg_type_size_bytes(&type));
    }
    for (uint32_t i = 0; i < c->input_count; i++)
        if (c->moves[i])
            BGI_TRY(compare_operand(c, i, analytic[i], error));
    return BG_OK;
}

bg_status bg_gradient_check(const bg_op_type *op_type, const void *attributes, const bg_type *types,
                            const void *const *values, uint32_t input_count, const bg_gradient_check_options *options,
                            bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(op_type, "op_type", __func__, error));
    BGI_TRY(bgi_require(types, "types", __func__, error));
    if (options != NULL)
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_gradient_check_options",
                                 "bg_gradient_check_defaults()", error));

    checker *c = calloc(1, sizeof *c);
    bg_status status;

    if (c == NULL)
        return bgi_error_memory(error, "a gradient check", sizeof *c);
    c->op_type = op_type;
    c->options = options != NULL ? *options : bg_gradient_check_defaults();
    c->env = (bg_kernel_env){.seed = c->options.seed, .training = true};
    c->random = c->options.seed;
    c->input_count = input_count;
    status = build(c, attributes, types, values, error);
    if (status == BG_OK)
        status = check_gradients(c, error);
    if (status != BG_OK)
        bg_error_context(error, status, "gradient of %s%s", op_type->name,
                         c->widened && c->buffers == NULL ? ", which is checked over float64" : "");
    if (c->graph != NULL)
        bgi_evaluate_destroy_buffers(c->graph, c->buffers);
    bg_graph_destroy(c->graph);
    bgi_arena_clear(&c->arena);
    free(c);
    return status;
}
