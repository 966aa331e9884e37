/*
 * autodiff.c: appends the backward ops.
 *
 *     x, w -> op -> y -> loss      =>      ... d loss -> d y -> op.backward -> d x, d w
 *
 * needs: a forward graph and a float scalar in it. does: walks the ops backwards and lets each op's gradient rule add
 * ops, which get the block of their forward op and the phase BACKWARD; contributions to one value are added in the
 * order of the walk (last reader first), a fixed order. keeps: the forward ops. Gradients of variables are kept apart
 * by the block that uses them: blocks are the same under every strategy, stages are not, so that the order of the sum
 * over blocks never depends on the partition.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/narrow.h"
#include "ops/ops.h"

/* One summand of a value's gradient. */
typedef struct bgi_contribution {
    bg_value gradient;
    uint32_t block; /* of the op it comes through */
    uint32_t next;  /* index + 1 of the one before it in the list; 0 ends */
} bgi_contribution;

typedef struct bgi_differentiation {
    bg_graph *graph;
    size_t forward_values; /* ids below this are forward values */
    bool *needs;           /* depends on a parameter */
    uint32_t *newest;      /* by value: index + 1 of its newest contribution */
    bgi_contribution *contributions;
    size_t count, capacity;
} bgi_differentiation;

static void mark_needs(bgi_differentiation *d)
{
    const bg_graph *graph = d->graph;

    for (size_t v = 1; v < graph->value_count; v++)
        d->needs[v] = graph->values[v].kind == BGI_VALUE_VARIABLE && graph->values[v].role == BG_ROLE_PARAMETER &&
                      bg_dtype_is_float(graph->values[v].type.dtype);
    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        bool any = false;
        if (op->type->gradient == NULL)
            continue;
        for (uint32_t i = 0; i < op->input_count; i++)
            any |= d->needs[op->inputs[i].id];
        for (uint32_t i = 0; any && i < op->output_count; i++)
            if (bg_dtype_is_float(bg_graph_type(graph, op->outputs[i]).dtype))
                d->needs[op->outputs[i].id] = true;
    }
}

static bool contribute(bgi_differentiation *d, bg_value value, bg_value gradient, uint32_t block)
{
    if (!bgi_array_reserve((void **)&d->contributions, &d->capacity, d->count + 1, sizeof *d->contributions))
        return false;
    d->contributions[d->count++] =
        (bgi_contribution){.gradient = gradient, .block = block, .next = d->newest[value.id]};
    d->newest[value.id] = (uint32_t)d->count;
    return true;
}

#define ANY_BLOCK UINT32_MAX
enum { SUMMED_AT_ONCE = 32 };

/* The sum of a value's contributions (of one block, or of all), oldest first; null when there are none. Long lists are
 * summed in runs from the left, so the order does not change with their length. */
static bg_value sum_contributions(bgi_differentiation *d, bg_value value, uint32_t block)
{
    bg_value parts[SUMMED_AT_ONCE];
    uint32_t count = 0, oldest = 0, previous = 0;

    /* The list runs from the newest: turn it round (each list is summed once a block, so links are restored below). */
    for (uint32_t c = d->newest[value.id]; c != 0;) {
        const uint32_t next = d->contributions[c - 1].next;
        d->contributions[c - 1].next = previous;
        previous = oldest = c;
        c = next;
    }
    for (uint32_t c = oldest, after = 0; c != 0;) {
        const uint32_t next = d->contributions[c - 1].next;
        if (block == ANY_BLOCK || d->contributions[c - 1].block == block) {
            if (count == SUMMED_AT_ONCE) {
                parts[0] = bgi_add_n(d->graph, NULL, parts, count);
                count = 1;
            }
            parts[count++] = d->contributions[c - 1].gradient;
        }
        d->contributions[c - 1].next = after;
        after = c;
        c = next;
    }
    return count == 0 ? (bg_value){0} : bgi_add_n(d->graph, NULL, parts, count);
}

/* What a rule returned must be what the engine can add up: library and users' ops alike. */
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

/* Lets one op's rule add its backward ops. */
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
    if (!any_input || op.type->gradient == NULL)
        return BG_OK;
    d->graph->current_block = op.block;
    for (uint32_t i = 0; i < op.output_count; i++)
        if (op.outputs[i].id != 0) {
            output_gradients[i] = sum_contributions(d, op.outputs[i], ANY_BLOCK);
            any_output |= !bg_value_is_null(output_gradients[i]);
        }
    if (!any_output)
        return bg_graph_check(d->graph, error);
    status = op.type->gradient(&gradient, error);
    if (status != BG_OK) {
        bg_error_set(error, status, "the gradient rule failed without saying why");
        return bg_error_context(error, status, "gradient of %s `%s`", op.type->name, op.name);
    }
    BGI_TRY(bg_graph_check(d->graph, error));
    for (uint32_t i = 0; i < op.input_count; i++) {
        if (!needs[i] || bg_value_is_null(input_gradients[i]))
            continue;
        BGI_TRY(check_input_gradient(d->graph, &op, i, input_gradients[i], error));
        if (!contribute(d, op.inputs[i], input_gradients[i], op.block))
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

/* The gradient of the loss itself, made in the loss's block. */
static bg_status seed_loss(bgi_differentiation *d, bg_value loss, bool weighted, double scaling, bg_value scale,
                           bg_value *out_weight, bg_error *error)
{
    bg_graph *graph = d->graph;
    const bgi_value *value = bgi_graph_value(graph, loss);
    bool is_mixed = false;
    uint32_t block; /* ops move when one is added */
    bg_value seed;

    *out_weight = (bg_value){0};
    if (value->kind != BGI_VALUE_RESULT || value->type.rank != 0 || !bg_dtype_is_float(value->type.dtype)) {
        char text[BG_TYPE_TEXT_BYTES];
        return bg_error_set(error, BG_ERROR_SHAPE, "the loss `%s` is %s; it must be a float scalar that an op computes",
                            value->name, bg_type_text(&value->type, text));
    }
    graph->current_block = block = graph->ops[value->op].block;
    if (weighted)
        *out_weight = bgi_find_loss_weight(graph, loss, &is_mixed);
    if (is_mixed)
        *out_weight = (bg_value){0};
    if (!bg_value_is_null(*out_weight)) {
        seed = *out_weight;
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
    if (!contribute(d, loss, seed, block))
        return bgi_error_memory(error, "gradients", sizeof *d->contributions);
    return BG_OK;
}

/* Gradients of parameters, apart by block, in the order of variables and blocks. */
static bg_status collect(bgi_differentiation *d, bgi_parameter_gradient **out, uint32_t *out_count, bg_error *error)
{
    bgi_parameter_gradient *gradients = NULL;
    size_t count = 0, capacity = 0;

    for (uint32_t v = 1; v < d->forward_values; v++) {
        if (d->graph->values[v].kind != BGI_VALUE_VARIABLE || d->newest[v] == 0)
            continue;
        for (uint32_t block = 0; block < d->graph->block_count; block++) {
            bg_value gradient;
            d->graph->current_block = block;
            gradient = sum_contributions(d, (bg_value){v}, block);
            if (bg_value_is_null(gradient))
                continue;
            if (!bgi_array_reserve((void **)&gradients, &capacity, count + 1, sizeof *gradients)) {
                free(gradients);
                return bgi_error_memory(error, "gradients", count * sizeof *gradients);
            }
            gradients[count++] = (bgi_parameter_gradient){{v}, block, gradient};
        }
    }
    *out = gradients;
    *out_count = (uint32_t)count;
    return bg_graph_check(d->graph, error);
}

bg_status bgi_differentiate(bg_graph *graph, bg_value loss, bool weighted, double scaling, bg_value scale,
                            bgi_parameter_gradient **out_gradients, uint32_t *out_count, bg_value *out_weight,
                            bg_error *error)
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
        status = bg_error_set(error, BG_ERROR_INVALID, "the loss `%s` depends on no parameter: nothing can be trained",
                              bg_graph_name(graph, loss));
        goto cleanup;
    }
    graph->phase = BGI_PHASE_BACKWARD;
    BGI_TRY_CLEANUP(seed_loss(&d, loss, weighted, scaling, scale, out_weight, error));
    for (size_t o = forward_ops; o-- > 0;)
        BGI_TRY_CLEANUP(differentiate_op(&d, (uint32_t)o, error));
    BGI_TRY_CLEANUP(collect(&d, out_gradients, out_count, error));
cleanup:
    free(d.needs);
    free(d.newest);
    free(d.contributions);
    if (status != BG_OK) {
        free(*out_gradients);
        *out_gradients = NULL;
    }
    return status;
}
