/*
 * test_liveness.c: compares a step's peak on one device with the lower bound that liveness gives, for each model of the
 * zoo.
 *
 * The bound depends only on the program, not on the places that the planner chose. A line of 64 bytes is live from the
 * call or copy that writes it to the last one that reads that content. Weights, gradients and optimizer state are live
 * all the time. Every layout of the same program needs at least the largest number of lines that are live at the same
 * time.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/plan.h>

#include "plan/plan.h"
#include "support/zoo.h"

enum { LINE_BYTES = 64, MICRO_BATCHES = 2 };

/* ---- the bound ---- */

typedef struct walk {
    const bg_plan *plan;
    uint32_t *written, *read; /* for each line: the moments of the last write and of the last read; 0: not written */
    int64_t *changes; /* for each moment: lines that become live, minus those that were live until the moment before */
    size_t line_count;
    size_t first_free; /* the first line after weights, gradients and state */
    uint32_t moment, moment_count;
} walk;

static size_t slot_offset(const bg_plan *plan, const bgi_operand *operand, const bg_action *action)
{
    const bgi_plan_edge *edge;

    if (operand->edge == BGI_NO_EDGE)
        return operand->offset;
    edge = &plan->edges[operand->edge];
    return operand->offset + edge->slot_bytes * ((edge->per_step ? 0 : action->micro_batch) % edge->depth);
}

static void end_life(walk *w, size_t line)
{
    if (w->written[line] == 0)
        return;
    w->changes[w->written[line]]++;
    w->changes[(w->read[line] > w->written[line] ? w->read[line] : w->written[line]) + 1]--;
}

static void touch(walk *w, size_t offset, size_t size_bytes, bool writes)
{
    for (size_t line = offset / LINE_BYTES; line < (offset + size_bytes + LINE_BYTES - 1) / LINE_BYTES; line++) {
        assert_true(line < w->line_count);
        if (line < w->first_free)
            continue;
        if (writes) {
            end_life(w, line);
            w->written[line] = w->moment;
        } else {
            w->read[line] = w->moment;
        }
    }
}

static void touch_operand(walk *w, const bgi_operand *operand, const bg_action *action, size_t size_bytes, bool writes)
{
    if (operand->memory == BGI_MEMORY_ARENA)
        touch(w, slot_offset(w->plan, operand, action), size_bytes, writes);
}

static void walk_instruction(walk *w, const bgi_instruction *instruction)
{
    for (uint32_t c = 0; c < instruction->call_count; c++) {
        const bgi_call *call = &instruction->calls[c];
        w->moment++;
        for (uint32_t i = 0; i < call->input_count; i++)
            touch_operand(w, &call->operands[i], &instruction->action, bg_type_size_bytes(&call->types[i]), false);
        for (uint32_t i = call->input_count; i < call->input_count + call->output_count; i++)
            touch_operand(w, &call->operands[i], &instruction->action, bg_type_size_bytes(&call->types[i]), true);
        w->changes[w->moment] += (int64_t)(call->kernel.scratch_bytes + LINE_BYTES - 1) / LINE_BYTES;
        w->changes[w->moment + 1] -= (int64_t)(call->kernel.scratch_bytes + LINE_BYTES - 1) / LINE_BYTES;
    }
    w->moment++;
    for (uint32_t i = 0; i < instruction->copy_count; i++)
        touch_operand(w, &instruction->copies[i].operand, &instruction->action, instruction->copies[i].size_bytes,
                      instruction->action.kind == BG_ACTION_HOST_IN);
}

static size_t find_bound(const bg_plan *plan)
{
    const bgi_plan_device *device = &plan->devices[0];
    walk w = {.plan = plan, .line_count = device->arena_bytes / LINE_BYTES, .moment_count = 2};
    int64_t live = 0, most = 0;

    for (uint32_t i = 0; i < device->instruction_count; i++)
        w.moment_count += 1 + device->instructions[i].call_count;
    w.first_free = (device->class_bytes[BG_MEMORY_WEIGHTS] + device->class_bytes[BG_MEMORY_GRADIENTS] +
                    device->class_bytes[BG_MEMORY_STATE]) /
                   LINE_BYTES;
    w.written = calloc(w.line_count + 1, sizeof *w.written);
    w.read = calloc(w.line_count + 1, sizeof *w.read);
    w.changes = calloc(w.moment_count + 2u, sizeof *w.changes);
    assert_true(w.written != NULL && w.read != NULL && w.changes != NULL);
    for (uint32_t i = 0; i < device->instruction_count; i++)
        walk_instruction(&w, &device->instructions[i]);
    for (size_t line = 0; line < w.line_count; line++)
        end_life(&w, line);
    for (uint32_t m = 0; m < w.moment_count; m++) {
        live += w.changes[m];
        most = live > most ? live : most;
    }
    free(w.written);
    free(w.read);
    free(w.changes);
    return (w.first_free + (size_t)most) * LINE_BYTES;
}

/* ---- the zoo ---- */

static bg_plan *make_plan(const test_zoo_model *model, bool training)
{
    const bg_optimizer optimizer = bg_adamw(1e-3);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value loss;
    bg_status status;

    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.compile_only = true;
    options.execution.gradient_accumulation = training ? MICRO_BATCHES : 1;
    options.execution.device_iterations = training ? 1 : MICRO_BATCHES;
    assert_int_equal(bg_graph_create(&graph, &error), BG_OK);
    loss = model->build(graph, model->micro_batch);
    status = training ? bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error)
                      : bg_plan_create_inference(graph, &options, &plan, &error);
    if (status != BG_OK)
        fail_msg("%s: %s", model->name, error.message);
    bg_graph_destroy(graph);
    return plan;
}

/* Each model's peak is at most 5 % above the bound. */
static void test_peaks(void **state)
{
    const test_zoo_model *model;
    unsigned over = 0;

    (void)state;
    printf("%-10s %-9s %12s %12s %8s\n", "model", "", "peak, bytes", "bound, bytes", "over, %");
    for (unsigned i = 0; (model = test_zoo_at(i)) != NULL; i++)
        for (int training = 1; training >= 0; training--) {
            bg_plan *plan = make_plan(model, training != 0);
            const size_t peak = bg_plan_device_bytes(plan, 0), bound = find_bound(plan);

            assert_int_equal(plan->device_count, 1);
            printf("%-10s %-9s %12zu %12zu %8.2f\n", model->name, training != 0 ? "training" : "inference", peak, bound,
                   100.0 * ((double)peak / (double)bound - 1.0));
            assert_true(bound <= peak);
            over += (double)peak > 1.05 * (double)bound;
            bg_plan_destroy(plan);
        }
    assert_int_equal(over, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_peaks)};

    return cmocka_run_group_tests_name("plan/liveness", tests, NULL, NULL);
}
