/*
 * autodiff.c: appends the backward ops.
 *
 *     x, w -> op -> y -> loss      =>      ... d loss -> d y -> op.backward -> d x, d w
 *
 * Needs: a forward graph and a float scalar in it. Does: visits the ops from last to first and lets each op's gradient
 * rule add ops, which get the block of their forward op and the phase BACKWARD. Contributions to one value are added in
 * the order in which the pass visits their ops (last reader first), which is fixed. When all readers are in one block
 * the sum is made there, so that only the sum is sent to the previous block. Contributions of slices are concatenated
 * rather than padded and added, so that they cost only their own bytes (slice_gradients.c). Keeps: the forward ops.
 * Gradients of variables are separate for each block that uses them. Blocks, unlike stages, are the same under every
 * strategy, so the order of the sum over blocks never depends on the partition.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/narrow.h"
#include "kernels/reshape/attributes.h"
#include "ops/ops.h"

/* One summand of a value's gradient. */
typedef struct bgi_contribution {
    bg_value gradient;
    const bgi_slice_attributes *slice; /* the elements that the gradient is for; NULL: all */
    uint32_t block;                    /* the block of the op that has the gradient rule */
    uint32_t next;                     /* index + 1 of the previous one in the list; 0 ends the list */
} bgi_contribution;

typedef struct bgi_differentiation {
    bg_graph *graph;
    size_t forward_values; /* ids below this are forward values */
    bool *needs;           /* by value: depends on a parameter */
    uint32_t *newest;      /* by value: index + 1 of its newest contribution */
    bgi_contribution *contributions;
    size_t count, capacity;
    /* Parts of the value whose contributions are being added: */
    bg_value *parts;
    bgi_slice_gradient *slices;
    size_t part_capacity, slice_capacity;
} bgi_differentiation;

static void mark_needs(bgi_differentiation *d)
{
    const bg_graph *graph = d->graph;

    for (size_t v = 1; v < graph->value_count; v++)
        d->needs[v] = graph->values[v].kind == BGI_VALUE_VARIABLE && graph->values[v].role == BG_ROLE_PARAMETER &&
                      !graph->values[v].is_frozen && bg_dtype_is_float(graph->values[v].type.dtype);
    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        bool any = false;
        if (op->type == &bgi_op_stop_gradient || op->phase != BGI_PHASE_FORWARD) /* backward ops of another term */
            continue;
        for (uint32_t i = 0; i < op->input_count; i++)
            any |= d->needs[op->inputs[i].id];
        for (uint32_t i = 0; any && i < op->output_count; i++)
            if (bg_dtype_is_float(bg_graph_type(graph, op->outputs[i]).dtype))
                d->needs[op->outputs[i].id] = true;
    }
}

static bool contribute(bgi_differentiation *d, bg_value value, bg_value gradient, const bgi_slice_attributes *slice,
                       uint32_t block)
{
    if (!bgi_array_reserve((void **)&d->contributions, &d->capacity, d->count + 1, sizeof *d->contributions))
        return false;
    d->contributions[d->count++] =
        (bgi_contribution){.gradient = gradient, .slice = slice, .block = block, .next = d->newest[value.id]};
    d->newest[value.id] = (uint32_t)d->count;
    return true;
}

#define ANY_BLOCK UINT32_MAX
enum { SUMMED_AT_ONCE = 32 };

/* Adds runs from the left, so that the order does not change with the number of parts. */
static bg_value sum_parts(bg_graph *graph, const bg_value *parts, size_t count)
{
    bg_value run[SUMMED_AT_ONCE];
    uint32_t length = 0;

    for (size_t i = 0; i < count; i++) {
        if (length == SUMMED_AT_ONCE) {
            run[0] = bgi_add_n(graph, NULL, run, length);
            length = 1;
        }
        run[length++] = parts[i];
    }
    return length == 0 ? (bg_value){0} : bgi_add_n(graph, NULL, run, length);
}

/* Sets *out to the sum of a value's contributions (of one block, or of all), oldest first; null if there is none.
 * Contributions of slices are joined before, and the joined ones are added at the position of the oldest slice. */
static bg_status sum_contributions(bgi_differentiation *d, bg_value value, uint32_t block, bg_value *out,
                                   bg_error *error)
{
    const bg_type whole = bg_graph_type(d->graph, value);
    size_t part_count = 0, slice_count = 0, place = 0, joined_count = 0;

    *out = (bg_value){0};
    /* The list begins with the newest. */
    for (uint32_t c = d->newest[value.id]; c != 0; c = d->contributions[c - 1].next) {
        const bgi_contribution *contribution = &d->contributions[c - 1];
        if (block != ANY_BLOCK && contribution->block != block)
            continue;
        if (!bgi_array_reserve((void **)&d->parts, &d->part_capacity, part_count + 1, sizeof *d->parts) ||
            !bgi_array_reserve((void **)&d->slices, &d->slice_capacity, slice_count + 1, sizeof *d->slices))
            return bgi_error_memory(error, "gradients", (part_count + slice_count) * sizeof *d->slices);
        if (contribution->slice == NULL) {
            d->parts[part_count++] = contribution->gradient;
        } else {
            d->slices[slice_count++] = (bgi_slice_gradient){.gradient = contribution->gradient,
                                                            .axis = contribution->slice->axis,
                                                            .start = contribution->slice->start,
                                                            .stop = contribution->slice->stop};
            place = part_count; /* the number of parts that are newer than the oldest slice */
        }
    }
    if (slice_count > 0) {
        BGI_TRY(bgi_join_slice_gradients(d->graph, &whole, d->slices, slice_count, &joined_count, error));
        if (!bgi_array_reserve((void **)&d->parts, &d->part_capacity, part_count + joined_count, sizeof *d->parts))
            return bgi_error_memory(error, "gradients", (part_count + joined_count) * sizeof *d->parts);
        memmove(d->parts + place + joined_count, d->parts + place, (part_count - place) * sizeof *d->parts);
        for (size_t i = 0; i < joined_count; i++) /* newest first, because the loop below reverses all parts */
            d->parts[place + i] = d->slices[joined_count - 1 - i].gradient;
        part_count += joined_count;
    }
    for (size_t i = 0; i < part_count / 2; i++) {
        const bg_value other = d->parts[i];
        d->parts[i] = d->parts[part_count - 1 - i];
        d->parts[part_count - 1 - i] = other;
    }
    *out = sum_parts(d->graph, d->parts, part_count);
    return bg_graph_check(d->graph, error);
}

/* Returns the block of all contributions to a value; `other` when there are several blocks, or no contribution. */
static uint32_t find_readers_block(const bgi_differentiation *d, bg_value value, uint32_t other)
{
    const uint32_t newest = d->newest[value.id];

    if (newest == 0)
        return other;
    for (uint32_t c = newest; c != 0; c = d->contributions[c - 1].next)
        if (d->contributions[c - 1].block != d->contributions[newest - 1].block)
            return other;
    return d->contributions[newest - 1].block;
}

/* Checks that the gradient that a rule returned can be added; the rule is a library op's or a user's. */
static bg_status check_input_gradient(const bg_graph *graph, const bgi_op *op, uint32_t input, bg_value gradient,
                                      bg_error *error)
{
    const bg_type have = bg_graph_type(graph, gradient), want = bg_graph_type(graph, op->inputs[input]);
    char have_text[BG_TYPE_TEXT_BYTES], want_text[BG_TYPE_TEXT_BYTES];

    if (gradient.id < graph->value_count && bg_type_equal(&have, &want))
        return BG_OK;
    return bg_error_set(
        error, BG_ERROR_SHAPE,
        "gradient of %s `%s`: its rule gives %s for input %u (`%s`), which is %s; both must be the same",
        op->type->name, op->name, bg_type_text(&have, have_text), input, bg_graph_name(graph, op->inputs[input]),
        bg_type_text(&want, want_text));
}

/* Reports an op without a gradient rule whose gradient is needed: without the error, parameters before the op would
 * stay unchanged. */
static bg_status refuse_missing_rule(const bg_graph *graph, const bgi_op *op, const bool *needs, bg_error *error)
{
    uint32_t input = 0;

    while (!needs[input])
        input++;
    return bg_error_set(
        error, BG_ERROR_UNSUPPORTED,
        "gradient of %s `%s`: its op type has no gradient rule, but the loss needs the gradient of input "
        "%u (`%s`); add a rule to the type, or pass that input through bg_stop_gradient",
        op->type->name, op->name, input, bg_graph_name(graph, op->inputs[input]));
}

/* Calls the op's gradient rule, which adds the backward ops. */
static bg_status differentiate_op(bgi_differentiation *d, uint32_t op_index, bg_error *error)
{
    /* The arrays may move while ops are added, so the op is copied; what it points to is in the arena. */
    const bgi_op op = d->graph->ops[op_index];
    bg_value output_gradients[64] = {{0}}, input_gradients[64] = {{0}};
    bool needs[64] = {false}, any_output = false, any_input = false;
    bg_type types[64];
    bg_op_gradient gradient = {.graph = d->graph,
                               .op = bgi_op_signature(d->graph, &op, types),
                               .inputs = op.inputs,
                               .outputs = op.outputs,
                               .output_gradients = output_gradients,
                               .needs = needs,
                               .input_gradients = input_gradients};
    bg_status status;

    for (uint32_t i = 0; i < op.input_count; i++)
        any_input |= needs[i] = d->needs[op.inputs[i].id];
    if (!any_input || op.type == &bgi_op_stop_gradient)
        return BG_OK;
    for (uint32_t i = 0; i < op.output_count; i++)
        if (op.outputs[i].id != 0) {
            d->graph->current_block = find_readers_block(d, op.outputs[i], op.block);
            BGI_TRY(sum_contributions(d, op.outputs[i], ANY_BLOCK, &output_gradients[i], error));
            any_output |= !bg_value_is_null(output_gradients[i]);
        }
    if (!any_output)
        return bg_graph_check(d->graph, error);
    if (op.type->gradient == NULL)
        return refuse_missing_rule(d->graph, &op, needs, error);
    d->graph->current_block = op.block;
    if (op.type == &bgi_op_slice && ((const bgi_slice_attributes *)op.attributes)->step == 1)
        return contribute(d, op.inputs[0], output_gradients[0], op.attributes, op.block)
                   ? BG_OK
                   : bgi_error_memory(error, "gradients", d->count * sizeof *d->contributions);
    status = op.type->gradient(&gradient, error);
    if (status != BG_OK) {
        bgi_error_unexplained(error, status, "the gradient rule");
        return bg_error_context(error, status, "gradient of %s `%s`", op.type->name, op.name);
    }
    BGI_TRY(bg_graph_check(d->graph, error));
    for (uint32_t i = 0; i < op.input_count; i++) {
        if (!needs[i] || bg_value_is_null(input_gradients[i]))
            continue;
        BGI_TRY(check_input_gradient(d->graph, &op, i, input_gradients[i], error));
        if (!contribute(d, op.inputs[i], input_gradients[i], NULL, op.block))
            return bgi_error_memory(error, "gradients", d->count * sizeof *d->contributions);
    }
    return BG_OK;
}

static bg_value scale_seed(bg_graph *graph, bg_value seed, bg_value scale)
{
    const bg_dtype dtype = bg_graph_type(graph, seed).dtype;

    if (dtype != bg_graph_type(graph, scale).dtype)
        scale = bg_cast(graph, "loss.cast_scale", scale, dtype);
    return bg_elementwise_binary(graph, "loss.scaled_seed", BG_MULTIPLY, seed, scale);
}

/* Adds the gradient of the loss with respect to itself, in the loss's block. */
static bg_status seed_loss(bgi_differentiation *d, bg_value loss, bg_value weight, double scaling, bg_value scale,
                           bg_error *error)
{
    bg_graph *graph = d->graph;
    const bgi_value *value = bgi_graph_value(graph, loss);
    uint32_t block; /* ops move when one is added */
    bg_value seed;

    if (value->kind != BGI_VALUE_RESULT || value->type.rank != 0 || !bg_dtype_is_float(value->type.dtype)) {
        char text[BG_TYPE_TEXT_BYTES];
        return bg_error_set(error, BG_ERROR_SHAPE, "the loss `%s` is %s; it must be a float scalar that an op computes",
                            value->name, bg_type_text(&value->type, text));
    }
    graph->current_block = block = graph->ops[value->op].block;
    if (!bg_value_is_null(weight)) {
        seed = weight;
        if (bg_graph_type(graph, seed).dtype != value->type.dtype)
            seed = bg_cast(graph, "loss.seed", seed, value->type.dtype);
    } else {
        const double one64 = 1.0;
        const float one32 = 1.0f;
        const bg_type type = value->type;
        const uint16_t one16 = bgi_narrow_from_float(type.dtype, one32);
        seed = bg_graph_constant(graph, "loss.seed", &type,
                                 type.dtype == BG_FLOAT64   ? (const void *)&one64
                                 : type.dtype == BG_FLOAT32 ? (const void *)&one32
                                                            : (const void *)&one16);
    }
    if (!bg_value_is_null(scale))
        seed = scale_seed(graph, seed, scale);
    else if (scaling != 1.0)
        seed = bg_scale(graph, "loss.scaled_seed", seed, scaling, 0.0);
    BGI_TRY(bg_graph_check(graph, error));
    if (!contribute(d, loss, seed, NULL, block))
        return bgi_error_memory(error, "gradients", sizeof *d->contributions);
    return BG_OK;
}

/* Collects the gradients of parameters by block, in the order of variables and blocks. */
static bg_status collect(bgi_differentiation *d, bgi_parameter_gradient **out, uint32_t *out_count, bg_error *error)
{
    bgi_parameter_gradient *gradients = NULL;
    size_t count = 0, capacity = 0;

    for (uint32_t v = 1; v < d->forward_values; v++) {
        if (d->graph->values[v].kind != BGI_VALUE_VARIABLE || d->newest[v] == 0)
            continue;
        for (uint32_t block = 0; block < d->graph->block_count; block++) {
            bg_value gradient;
            bg_status status;
            d->graph->current_block = block;
            status = sum_contributions(d, (bg_value){v}, block, &gradient, error);
            if (status == BG_OK && bg_value_is_null(gradient))
                continue;
            if (status == BG_OK && !bgi_array_reserve((void **)&gradients, &capacity, count + 1, sizeof *gradients))
                status = bgi_error_memory(error, "gradients", count * sizeof *gradients);
            if (status != BG_OK) {
                free(gradients);
                return status;
            }
            gradients[count++] = (bgi_parameter_gradient){.parameter = {v}, .block = block, .gradient = gradient};
        }
    }
    *out = gradients;
    *out_count = (uint32_t)count;
    return bg_graph_check(d->graph, error);
}

bg_status bgi_differentiate(bg_graph *graph, bg_value loss, bg_value weight, double scaling, bg_value scale,
                            bgi_parameter_gradient **out_gradients, uint32_t *out_count, bg_error *error)
{
    bgi_differentiation d = {.graph = graph, .forward_values = graph->value_count};
    const size_t forward_ops = graph->op_count;
    bg_status status;

    *out_gradients = NULL;
    d.needs = calloc(graph->value_count + 1, sizeof *d.needs);
    d.newest = calloc(graph->value_count + 1, sizeof *d.newest);
    if (d.needs == NULL || d.newest == NULL) {
        status = bgi_error_memory(error, "gradients", graph->value_count);
        goto cleanup;
    }
    mark_needs(&d);
    if (!d.needs[loss.id]) {
        status = bg_error_set(error, BG_ERROR_INVALID,
                              "the loss `%s` depends on no trainable parameter: nothing can be trained",
                              bg_graph_name(graph, loss));
        goto cleanup;
    }
    graph->phase = BGI_PHASE_BACKWARD;
    BGI_TRY_CLEANUP(seed_loss(&d, loss, weight, scaling, scale, error));
    for (size_t o = forward_ops; o-- > 0;)
        BGI_TRY_CLEANUP(differentiate_op(&d, (uint32_t)o, error));
    BGI_TRY_CLEANUP(collect(&d, out_gradients, out_count, error));
cleanup:
    free(d.needs);
    free(d.newest);
    free(d.contributions);
    free(d.parts);
    free(d.slices);
    if (status != BG_OK) {
        free(*out_gradients);
        *out_gradients = NULL;
    }
    return status;
}
