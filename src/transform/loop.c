/*
 * loop.c: turns a body into one iteration of a loop.
 *
 *     x (input) -> body -> x'           x (variable) -> body -> x';   carry(x, x')
 *                                =>     condition(x') -> "condition"
 *
 * Needs: a forward graph. Does: makes carried inputs variables. At the end of the iteration all of them take their next
 * values together; a next value that is itself a carried value, or only a reshape of one, is copied first. The
 * condition's ops are appended; they read the next values. Keeps: the existing ops and values.
 */
#include "transform/transform.h"

#include <string.h>

#include "core/error.h"
#include "ops/ops.h"

/* ---- the op that ends an iteration ---- */

static bg_status infer_carry(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    char have[BG_TYPE_TEXT_BYTES], want[BG_TYPE_TEXT_BYTES];

    (void)outputs;
    if (!bg_type_equal(&op->types[0], &op->types[1]))
        return bg_error_set(error, BG_ERROR_SHAPE, "the next value is %s, but the carried one is %s",
                            bg_type_text(&op->types[1], have), bg_type_text(&op->types[0], want));
    return BG_OK;
}

static void run_carry(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    memcpy(call->operands[0], call->operands[1], bg_type_size_bytes(&call->types[0]));
}

static bg_status select_carry(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)op;
    (void)policy;
    (void)error;
    *out = (bg_kernel){.name = "carry", .run = run_carry, .part_count = 1};
    return BG_OK;
}

const bg_op_type bgi_op_carry = {BG_OP_TYPE_DEFAULTS,  .name = "carry",      .minimum_inputs = 2,   .maximum_inputs = 2,
                                 .written_inputs = 1u, .infer = infer_carry, .kernel = select_carry};

/* ---- checks ---- */

static bool is_value(const bg_graph *graph, bg_value value)
{
    return value.id != 0 && value.id < graph->value_count;
}

static bg_status check_carried(const bg_graph *graph, const bg_loop *loop, uint32_t i, bg_error *error)
{
    char have[BG_TYPE_TEXT_BYTES], want[BG_TYPE_TEXT_BYTES];
    const bg_value carried = loop->carried[i], result = loop->results[i];

    if (!is_value(graph, carried) || bgi_graph_value(graph, carried)->kind != BGI_VALUE_INPUT)
        return bg_error_set(error, BG_ERROR_INVALID, "loop: carried value %u is not an input of the body", i);
    if (!is_value(graph, result))
        return bg_error_set(error, BG_ERROR_INVALID, "loop: result %u is not a value of the body", i);
    if (!bg_type_equal(&bgi_graph_value(graph, carried)->type, &bgi_graph_value(graph, result)->type))
        return bg_error_set(error, BG_ERROR_SHAPE, "loop: `%s` is carried as %s, but its next value is %s",
                            bg_graph_name(graph, carried), bg_type_text(&bgi_graph_value(graph, carried)->type, want),
                            bg_type_text(&bgi_graph_value(graph, result)->type, have));
    for (uint32_t other = 0; other < i; other++)
        if (loop->carried[other].id == carried.id)
            return bg_error_set(error, BG_ERROR_INVALID, "loop: `%s` is carried twice", bg_graph_name(graph, carried));
    return BG_OK;
}

/* ---- values ---- */

/* Returns whether a value has the bytes of a variable, such as a carried value. */
static bool is_carried(const bg_graph *graph, bg_value value)
{
    for (;;) {
        const bgi_value *v = bgi_graph_value(graph, value);
        const bgi_op *op;
        if (v->kind != BGI_VALUE_RESULT)
            return v->kind == BGI_VALUE_VARIABLE;
        op = &graph->ops[v->op];
        if (v->output != 0 || op->type->alias_input == BG_NO_OPERAND)
            return false;
        value = op->inputs[op->type->alias_input];
    }
}

/* Returns the block of the first op that reads a value; if no op reads it, the block of the last op. */
static uint32_t find_block(const bg_graph *graph, bg_value value)
{
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++)
            if (graph->ops[o].inputs[i].id == value.id)
                return graph->ops[o].block;
    return graph->op_count > 0 ? graph->ops[graph->op_count - 1].block : 0;
}

static bg_status make_variable(bg_graph *graph, bg_value input, bg_error *error)
{
    bgi_value *value = &graph->values[input.id];

    value->name = bgi_arena_format(&graph->arena, "carried.%s", value->name);
    if (value->name == NULL)
        return bgi_error_memory(error, "a name", 0);
    value->kind = BGI_VALUE_VARIABLE;
    value->role = BG_ROLE_CARRIED;
    value->variable = graph->number_count++;
    graph->variable_count++;
    return BG_OK;
}

/* ---- the condition ---- */

static bg_value copy_leaf(bg_graph *graph, const bgi_value *value, const bg_loop *loop, const bg_value *results,
                          uint32_t *input)
{
    char have[BG_TYPE_TEXT_BYTES], want[BG_TYPE_TEXT_BYTES];

    if (value->kind == BGI_VALUE_CONSTANT)
        return bg_graph_constant(graph, value->name, &value->type, value->data);
    if (value->kind == BGI_VALUE_VARIABLE)
        bg_graph_fail(graph, BG_ERROR_INVALID, "the condition has a variable, `%s`; it can read only carried values",
                      value->name);
    else if (*input >= loop->carried_count)
        bg_graph_fail(graph, BG_ERROR_SHAPE, "the condition has more inputs than the %u carried values",
                      loop->carried_count);
    else if (!bg_type_equal(&value->type, &graph->values[results[*input].id].type))
        bg_graph_fail(graph, BG_ERROR_SHAPE, "input %u of the condition is %s, but the carried value is %s", *input,
                      bg_type_text(&value->type, have), bg_type_text(&graph->values[results[*input].id].type, want));
    else
        return results[(*input)++];
    return (bg_value){0};
}

static bg_status add_condition(bg_graph *graph, const bg_loop *loop, const bg_value *results, bg_error *error)
{
    const bg_graph *condition = loop->condition;
    const uint32_t block = graph->op_count > 0 ? graph->ops[graph->op_count - 1].block : 0;
    bgi_arena scratch = {0};
    bg_value *map, value, inputs[64], outputs[64];
    uint32_t input = 0;
    bg_status status;

    BGI_TRY(bg_graph_check(condition, error));
    if (condition->output_count != 1 ||
        bg_type_element_count(&bgi_graph_value(condition, condition->outputs[0].value)->type) != 1)
        return bg_error_set(error, BG_ERROR_INVALID, "loop: the condition must have one output, a scalar");
    map = bgi_arena_allocate(&scratch, condition->value_count, sizeof *map);
    if (map == NULL)
        return bgi_error_memory(error, "a condition", condition->value_count * sizeof *map);
    graph->current_block = block;
    for (size_t v = 1; v < condition->value_count; v++)
        if (condition->values[v].kind != BGI_VALUE_RESULT)
            map[v] = copy_leaf(graph, &condition->values[v], loop, results, &input);
    for (size_t o = 0; o < condition->op_count; o++) {
        const bgi_op *op = &condition->ops[o];
        for (uint32_t i = 0; i < op->input_count; i++)
            inputs[i] = map[op->inputs[i].id];
        bg_graph_add(graph, op->type, op->name, inputs, op->input_count, op->attributes, outputs);
        for (uint32_t i = 0; i < op->output_count; i++)
            map[op->outputs[i].id] = outputs[i];
        map[0] = (bg_value){0};
    }
    value = map[condition->outputs[0].value.id];
    bgi_arena_clear(&scratch);
    status = bg_graph_check(graph, error);
    if (status != BG_OK)
        return bg_error_context(error, status, "condition of a loop");
    bg_graph_output(graph, BGI_CONDITION, bgi_copy(graph, BGI_CONDITION, value));
    return bg_graph_check(graph, error);
}

/* ---- the pass ---- */

bg_status bgi_make_loop(bg_graph *graph, const bg_loop *loop, bg_error *error)
{
    bg_value results[BG_LOOP_MOST_CARRIED];

    for (uint32_t i = 0; i < loop->carried_count; i++)
        BGI_TRY(check_carried(graph, loop, i, error));
    for (uint32_t i = 0; i < loop->carried_count; i++)
        BGI_TRY(make_variable(graph, loop->carried[i], error));
    for (uint32_t i = 0; i < loop->carried_count; i++) {
        results[i] = loop->results[i];
        graph->current_block = find_block(graph, loop->carried[i]);
        if (is_carried(graph, results[i]))
            results[i] = bgi_copy(graph, NULL, results[i]);
    }
    if (loop->condition != NULL)
        BGI_TRY(add_condition(graph, loop, results, error));
    for (uint32_t i = 0; i < loop->carried_count; i++) {
        const bg_value operands[] = {loop->carried[i], results[i]};
        const bgi_value *result;
        BGI_TRY(bg_graph_check(graph, error));
        result = bgi_graph_value(graph, results[i]);
        graph->current_block =
            result->kind == BGI_VALUE_RESULT ? graph->ops[result->op].block : find_block(graph, loop->carried[i]);
        bg_graph_add(graph, &bgi_op_carry, NULL, operands, 2, NULL, NULL);
    }
    BGI_TRY(bg_graph_check(graph, error));
    return bgi_graph_verify(graph, error);
}
