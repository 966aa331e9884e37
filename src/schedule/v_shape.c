/*
 * v_shape.c: generates pipelines with two stages per device, placed as a V, with a choice of memory: zb-v, v-half,
 * v-min (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024). Because device 0 has the first and the last
 * stage, the stash of a micro-batch is spread evenly over devices, and its time on a device can be made short.
 *
 * A building block defines when a micro-batch visits each device. It repeats every 6 steps (F, B and W of two stages),
 * and its visits to a device fall on 4 different steps modulo 6, so that blocks never collide. v-min, p = 4:
 *
 *     step 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15
 *     dev0 F0 .  .  .  .  .  .  F7 B7 .  .  .  .  .  .  B0        visits: down by the first stages, up by the last
 *     dev1 .  F1 .  .  .  .  F6 .  .  B6 .  .  .  .  B1 .         ones, then down and up again with the gradients
 *     dev2 .  .  F2 .  .  F5 .  .  .  .  B5 .  .  B2 .  .         (numbers are stages)
 *     dev3 .  .  .  F3 F4 .  .  .  .  .  .  B4 B3 .  .  .
 *
 *             steps per device   kept by a device (stages x micro-batches)   idle steps of a device, F = B = W
 *             down  up
 *     zb-v    4     2            2 p                  (as 1F1B)              0
 *     v-half  2     1            2 floor((p + 2) / 2) (half)                 about 3 p
 *     v-min   1     1            2 floor((p + 4) / 3) (a third)              about 4 p; 1F1B 6 (p - 1)
 *
 * The order of a device is that of the visits without gaps, from a run in which every action takes one step. In each
 * step a device runs its next visit if its input exists, otherwise a W, otherwise, for zb-v, which has enough memory, a
 * visit ahead of its turn. W also comes first when a forward would exceed the limit of stashed micro-batches. Costs do
 * not affect the order.
 */
#include "schedule/schedule.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>

enum { BLOCK_STEPS = 6 };

/* In the order in which a micro-batch makes them. */
typedef enum visit { VISIT_FORWARD_DOWN = 0, VISIT_FORWARD_UP, VISIT_BACKWARD_DOWN, VISIT_BACKWARD_UP, VISITS } visit;

typedef struct block {
    uint64_t down, up;            /* steps from device to device */
    uint64_t top_gap, bottom_gap; /* further steps where the micro-batch turns: before its first backward, and between
                                     its two backwards */
    uint32_t most_kept;           /* the largest number of forwards on a device whose W is not done */
    bool runs_ahead;
} block;

typedef struct device_state {
    uint64_t starts[VISITS];
    uint32_t done[VISITS];  /* the number of micro-batches whose visit is done */
    uint32_t kept, waiting; /* the number of forwards whose W is not done, and of those the number whose B is done */
    size_t weights_begin;   /* `begin` of bgi_schedule_emit_oldest_weights */
} device_state;

typedef struct weaver {
    const bg_schedule_problem *problem;
    const block *block;
    device_state *devices;
    uint32_t device_count;
} weaver;

enum { CHOICE_WEIGHTS = VISITS, CHOICE_NOTHING };

static bool is_forward(int v)
{
    return v == VISIT_FORWARD_DOWN || v == VISIT_FORWARD_UP;
}

static void place_visits(const block *b, uint32_t device_count, uint32_t device, uint64_t *starts)
{
    const uint64_t last = device_count - 1, up_length = b->up * last, down_length = b->down * last;
    const uint64_t down = b->down * device, up = b->up * (last - device);

    starts[VISIT_FORWARD_DOWN] = down;
    starts[VISIT_FORWARD_UP] = down_length + 1 + up;
    starts[VISIT_BACKWARD_DOWN] = down_length + 1 + up_length + 1 + b->top_gap + down;
    starts[VISIT_BACKWARD_UP] = 2 * down_length + up_length + 3 + b->top_gap + b->bottom_gap + up;
}

/* Whether the visit is possible: the previous visit of the same micro-batch is done. */
static bool has_input(const weaver *w, uint32_t device, int v)
{
    const uint32_t micro_batch = w->devices[device].done[v];
    const bool is_down = v == VISIT_FORWARD_DOWN || v == VISIT_BACKWARD_DOWN;

    if (device == (is_down ? 0 : w->device_count - 1))
        return v == VISIT_FORWARD_DOWN || w->devices[device].done[v - 1] > micro_batch;
    return w->devices[is_down ? device - 1 : device + 1].done[v] > micro_batch;
}

/* Returns the `rank`-th (from 0) of the device's next visits in the order of the blocks, or VISITS if there are fewer.
 * No two visits of a device fall on one step. */
static int find_turn(const weaver *w, const device_state *state, uint32_t rank)
{
    for (int v = 0; v < VISITS; v++) {
        uint32_t before = 0;
        for (int other = 0; other < VISITS; other++)
            before += state->done[other] < w->problem->micro_batch_count &&
                      state->starts[other] + (uint64_t)BLOCK_STEPS * state->done[other] <
                          state->starts[v] + (uint64_t)BLOCK_STEPS * state->done[v];
        if (before == rank && state->done[v] < w->problem->micro_batch_count)
            return v;
    }
    return VISITS;
}

/* Whether the device has the input and the memory for a visit ahead of its turn. The first stage leaves memory for the
 * last stage, for which all backwards wait. */
static bool may_run_ahead(const weaver *w, uint32_t device, int v)
{
    const uint32_t room = w->block->most_kept - (v == VISIT_FORWARD_DOWN ? 1 : 0);

    return has_input(w, device, v) && (!is_forward(v) || w->devices[device].kept + 1 <= room);
}

static int choose(const weaver *w, uint32_t device)
{
    const device_state *state = &w->devices[device];
    const int due = find_turn(w, state, 0);
    const bool is_full = due < VISITS && is_forward(due) && state->kept + 1 > w->block->most_kept;

    if (due < VISITS && has_input(w, device, due) && !(is_full && state->waiting > 0))
        return due;
    if (state->waiting > 0)
        return CHOICE_WEIGHTS;
    for (uint32_t rank = 1; w->block->runs_ahead && rank < VISITS; rank++) {
        const int v = find_turn(w, state, rank);
        if (v < VISITS && may_run_ahead(w, device, v))
            return v;
    }
    return CHOICE_NOTHING;
}

static bg_status act(weaver *w, bg_schedule *schedule, uint32_t device, int choice, bg_error *error)
{
    device_state *state = &w->devices[device];
    const bool is_first = choice == VISIT_FORWARD_DOWN || choice == VISIT_BACKWARD_UP;

    if (choice == CHOICE_WEIGHTS) {
        state->waiting--;
        state->kept--;
        return bgi_schedule_emit_oldest_weights(schedule, w->problem->stage_devices[device], &state->weights_begin,
                                                error);
    }
    if (is_forward(choice))
        state->kept++;
    else
        state->waiting++;
    return bgi_schedule_emit_action(w->problem, schedule, is_forward(choice) ? BG_ACTION_FORWARD : BG_ACTION_BACKWARD,
                                    is_first ? device : w->problem->stage_count - 1 - device, state->done[choice]++,
                                    error);
}

/* Executes the visits in steps, one action for each device and step. All devices choose before any of them acts. The
 * remaining visit with the earliest turn always has its input, so every step makes progress. */
static bg_status weave(weaver *w, bg_schedule *schedule, int *choices, bg_error *error)
{
    uint64_t left = (uint64_t)w->device_count * BLOCK_STEPS * w->problem->micro_batch_count;

    while (left > 0) {
        for (uint32_t device = 0; device < w->device_count; device++)
            choices[device] = choose(w, device);
        for (uint32_t device = 0; device < w->device_count; device++)
            if (choices[device] != CHOICE_NOTHING) {
                BGI_TRY(act(w, schedule, device, choices[device], error));
                left--;
            }
    }
    return bgi_schedule_emit_updates(w->problem, schedule, error);
}

static bg_status generate(const bg_schedule_problem *problem, bg_schedule *schedule, const block *b, bg_error *error)
{
    weaver w = {.problem = problem, .block = b, .device_count = problem->stage_count / 2};
    int *choices = NULL;
    bg_status status = BG_OK;

    if (!problem->training)
        return bgi_schedule_emit_forward_pipeline(problem, schedule, error);
    BGI_TRY(bgi_schedule_require_split_weights(problem, error));
    BGI_TRY(bgi_schedule_require_fold(problem, error));
    w.devices = calloc(w.device_count, sizeof *w.devices);
    choices = calloc(w.device_count, sizeof *choices);
    if (w.devices == NULL || choices == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "weaving a schedule", w.device_count * sizeof *w.devices));
    for (uint32_t device = 0; device < w.device_count; device++)
        place_visits(b, w.device_count, device, w.devices[device].starts);
    BGI_TRY_CLEANUP(weave(&w, schedule, choices, error));

cleanup:
    free(choices);
    free(w.devices);
    return status;
}

static bg_status generate_zb_v(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint32_t p = problem->stage_count / 2;
    const block b = {.down = 4, .up = 2, .most_kept = 2 * p, .runs_ahead = true};

    return generate(problem, schedule, &b, error);
}

/* Generates v-half. The gaps put the visits of a device on different steps modulo 6. */
static bg_status generate_v_half(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint32_t p = problem->stage_count / 2;
    const block b = {
        .down = 2, .up = 1, .top_gap = p % 2 == 0 ? 3 : 0, .bottom_gap = 1, .most_kept = 2 * ((p + 2) / 2)};

    return generate(problem, schedule, &b, error);
}

static bg_status generate_v_min(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error)
{
    const uint32_t p = problem->stage_count / 2;
    const block b = {.down = 1, .up = 1, .top_gap = p % 3 == 0 ? 2 : 0, .most_kept = 2 * ((p + 4) / 3)};

    return generate(problem, schedule, &b, error);
}

const bg_schedule_generator bgi_schedule_zb_v = {
    .name = "zb-v",
    .summary = "a V of two stages a device: no idle time, the memory of 1F1B (ZB-V)",
    .generate = generate_zb_v,
    .minimum_micro_batches = bgi_schedule_minimum_of_stages,
    .placement = BG_PLACEMENT_FOLD,
    .splits_weights = true,
};

const bg_schedule_generator bgi_schedule_v_half = {
    .name = "v-half",
    .summary = "a V of two stages a device: half the memory of 1F1B (V-Half)",
    .generate = generate_v_half,
    .minimum_micro_batches = bgi_schedule_minimum_of_stages,
    .placement = BG_PLACEMENT_FOLD,
    .splits_weights = true,
};

const bg_schedule_generator bgi_schedule_v_min = {
    .name = "v-min",
    .summary = "a V of two stages a device: a third of the memory of 1F1B (V-Min)",
    .generate = generate_v_min,
    .minimum_micro_batches = bgi_schedule_minimum_of_stages,
    .placement = BG_PLACEMENT_FOLD,
    .splits_weights = true,
};
