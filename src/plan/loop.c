/*
 * loop.c: implements loops inside graphs. A loop is an op whose kernel runs the plan of its body repeatedly in the op's
 * scratch memory.
 *
 * The body is compiled when the op's kernel is chosen, for a single device and forward only. So three nested loops are
 * three nested plans, each of which runs in a call of the plan around it. The seed of each iteration is computed from
 * the run's seed and the iteration's number. So iterations differ, and a repeated run gives the same numbers.
 */
#include <brigade/loop.h>

#include <stdlib.h>
#include <string.h>

#include <brigade/random.h>

#include "core/error.h"
#include "plan/compile.h"

static void fill_lists(bg_loop *loop, const bg_value *carried, const bg_value *results, uint32_t count)
{
    loop->carried_count = count;
    for (uint32_t i = 0; i < count && i < BG_LOOP_MOST_CARRIED; i++) {
        loop->carried[i] = carried[i];
        loop->results[i] = results[i];
    }
}

bg_loop bg_repeat(uint64_t iterations, const bg_value *carried, const bg_value *results, uint32_t count)
{
    bg_loop loop = {.iterations = iterations};

    fill_lists(&loop, carried, results, count);
    return loop;
}

bg_loop bg_while(const bg_graph *condition, uint64_t most_iterations, const bg_value *carried, const bg_value *results,
                 uint32_t count)
{
    bg_loop loop = {.iterations = most_iterations, .condition = condition};

    fill_lists(&loop, carried, results, count);
    return loop;
}

/* ---- the kernel ---- */

typedef struct loop_state {
    bg_plan *plan;
    uint64_t iterations;
    uint32_t carried[BG_LOOP_MOST_CARRIED]; /* by carried value: its operand */
    uint32_t inputs[64];                    /* by other input: its operand */
    bool has_condition;
} loop_state;

static void destroy_state(void *state)
{
    loop_state *loop = state;

    bg_plan_destroy(loop->plan);
    free(loop);
}

static void *find_carried(const loop_state *loop, char *memory, uint32_t i)
{
    return memory + loop->plan->variables[loop->plan->carried[i]].places[0].operand.offset;
}

/* Whether the first iteration runs. The condition's plan uses the memory behind that of the body. */
static bool begins(const loop_state *loop, char *memory)
{
    const void *values[BG_LOOP_MOST_CARRIED];
    char *behind = memory + bgi_align(loop->plan->devices[0].arena_bytes);
    double goes_on = 0.0;

    if (!loop->has_condition)
        return true;
    for (uint32_t i = 0; i < loop->plan->carried_count; i++)
        values[i] = find_carried(loop, memory, i);
    bgi_interpret_begin(loop->plan->condition, behind);
    bgi_interpret_condition(loop->plan->condition, behind, values, &goes_on);
    return goes_on > 0.0;
}

static bg_kernel_env find_env(const bg_kernel_env *outer, uint64_t iteration)
{
    const uint32_t counter[4] = {(uint32_t)iteration, (uint32_t)(iteration >> 32), 0, 0x6c6f6f70u};
    const uint32_t key[2] = {(uint32_t)outer->seed, (uint32_t)(outer->seed >> 32)};
    bg_kernel_env env = *outer;
    uint32_t words[4];

    bg_philox(counter, key, words);
    env.seed = words[0] | (uint64_t)words[1] << 32;
    return env;
}

static void run_loop(const bg_kernel_call *call, uint32_t part)
{
    const loop_state *loop = call->state;
    const bg_plan *plan = loop->plan;
    const void *inputs[64] = {0};
    char *memory = call->scratch;
    double goes_on = 1.0;

    (void)part;
    bgi_interpret_begin(plan, memory);
    for (uint32_t i = 0; i < plan->input_count; i++)
        inputs[i] = call->operands[loop->inputs[i]];
    for (uint32_t i = 0; i < plan->carried_count; i++)
        memcpy(find_carried(loop, memory, i), call->operands[loop->carried[i]],
               bg_type_size_bytes(&call->types[loop->carried[i]]));
    for (uint64_t n = 0; n < loop->iterations && (n > 0 ? goes_on > 0.0 : begins(loop, memory)); n++) {
        const bg_kernel_env env = find_env(call->env, n);
        bgi_interpret_step(plan, memory, inputs, &env, loop->has_condition ? plan->condition_output : UINT32_MAX,
                           &goes_on);
    }
    for (uint32_t i = 0; i < plan->carried_count; i++)
        memcpy(call->operands[call->input_count + i], find_carried(loop, memory, i),
               bg_type_size_bytes(&call->types[call->input_count + i]));
}

/* ---- the op ---- */

typedef struct loop_attributes {
    const bg_graph *body;
    bg_loop loop;
} loop_attributes;

/* Returns the number of the operand that an input of the body reads: input i reads operand i. */
static uint32_t find_operand(const bg_graph *body, bg_value input)
{
    uint32_t operand = 0;

    for (uint32_t v = 1; v < input.id; v++)
        operand += body->values[v].kind == BGI_VALUE_INPUT;
    return operand;
}

static bg_status infer_loop(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const loop_attributes *attributes = op->attributes;
    const bg_graph *body = attributes->body;
    char have[BG_TYPE_TEXT_BYTES], want[BG_TYPE_TEXT_BYTES];
    uint32_t input = 0;

    if (attributes->loop.carried_count == 0 || attributes->loop.carried_count > BG_LOOP_MOST_CARRIED)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the loop has %u carried values; inside a graph it must have 1 to %d",
                            attributes->loop.carried_count, BG_LOOP_MOST_CARRIED);
    if (attributes->loop.iterations == UINT64_MAX && attributes->loop.condition == NULL)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "the loop is endless, but inside a graph it must have a number of iterations or a condition");
    BGI_TRY(bg_graph_check(body, error));
    for (uint32_t v = 1; v < body->value_count; v++) {
        if (body->values[v].kind == BGI_VALUE_VARIABLE)
            return bg_error_set(error, BG_ERROR_INVALID, "the body has a variable, `%s`; make it an input",
                                body->values[v].name);
        if (body->values[v].kind != BGI_VALUE_INPUT)
            continue;
        if (input < op->input_count && !bg_type_equal(&op->types[input], &body->values[v].type))
            return bg_error_set(error, BG_ERROR_SHAPE, "operand %u is %s, but the body's input `%s` is %s", input,
                                bg_type_text(&op->types[input], have), body->values[v].name,
                                bg_type_text(&body->values[v].type, want));
        input++;
    }
    if (input != op->input_count)
        return bg_error_set(error, BG_ERROR_INVALID, "the loop has %u operands, but its body has %u inputs",
                            op->input_count, input);
    for (uint32_t i = 0; i < attributes->loop.carried_count; i++) {
        const bg_value carried = attributes->loop.carried[i];
        if (carried.id == 0 || carried.id >= body->value_count || body->values[carried.id].kind != BGI_VALUE_INPUT)
            return bg_error_set(error, BG_ERROR_INVALID, "carried value %u is not an input of the body", i);
        outputs[i] = body->values[carried.id].type;
    }
    return BG_OK;
}

static bg_status derive_loop(bg_op_gradient *gradient, bg_error *error)
{
    for (uint32_t i = 0; i < gradient->op.input_count; i++)
        if (gradient->needs[i])
            return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                                "a loop inside a graph has no gradient; add the body's ops once for each iteration");
    return BG_OK;
}

static bg_status select_loop(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    const loop_attributes *attributes = op->attributes;
    bg_options options = bg_options_defaults();
    loop_state *state = calloc(1, sizeof *state);
    bg_status status;
    uint32_t other = 0, operand = 0;

    if (state == NULL)
        return bgi_error_memory(error, "a loop", sizeof *state);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.numerics.kernels = policy;
    status = bg_plan_create_loop(attributes->body, &attributes->loop, &options, &state->plan, error);
    if (status != BG_OK) {
        free(state);
        return status;
    }
    if (state->plan->devices[0].remote_bytes > 0) {
        bg_plan_destroy(state->plan);
        free(state);
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "the body of a loop inside a graph has a remote buffer: use a variable, or make the loop "
                            "the program (bg_plan_create_loop)");
    }
    state->iterations = attributes->loop.iterations;
    state->has_condition = state->plan->condition != NULL;
    for (uint32_t v = 1; v < attributes->body->value_count; v++) {
        bool is_carried = false;
        if (attributes->body->values[v].kind != BGI_VALUE_INPUT)
            continue;
        for (uint32_t i = 0; i < attributes->loop.carried_count; i++)
            if (attributes->loop.carried[i].id == v) {
                state->carried[i] = find_operand(attributes->body, attributes->loop.carried[i]);
                is_carried = true;
            }
        if (!is_carried)
            state->inputs[other++] = operand;
        operand++;
    }
    *out =
        (bg_kernel){.name = "loop",
                    .run = run_loop,
                    .part_count = 1,
                    .scratch_bytes = bgi_align(state->plan->devices[0].arena_bytes) +
                                     (state->has_condition ? state->plan->condition->devices[0].arena_bytes : 0) + 64,
                    .state = state,
                    .destroy = destroy_state};
    return BG_OK;
}

static const bg_op_type op_loop = {
    BG_OP_TYPE_DEFAULTS,
    .name = "loop",
    .minimum_inputs = 1,
    .maximum_inputs = 64 - BG_LOOP_MOST_CARRIED,
    .output_count = BG_LOOP_MOST_CARRIED,
    .attributes_bytes = sizeof(loop_attributes),
    .infer = infer_loop,
    .gradient = derive_loop,
    .kernel = select_loop,
};

void bg_graph_loop(bg_graph *graph, const char *name, const bg_graph *body, const bg_loop *loop, const bg_value *inputs,
                   uint32_t input_count, bg_value *outputs)
{
    const loop_attributes attributes = {.body = body, .loop = *loop};
    bg_value all[BG_LOOP_MOST_CARRIED];

    if (body == NULL) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "the loop has no body");
        return;
    }
    bg_graph_add(graph, &op_loop, name, inputs, input_count, &attributes, all);
    for (uint32_t i = 0; i < loop->carried_count && i < BG_LOOP_MOST_CARRIED; i++)
        outputs[i] = all[i];
}
