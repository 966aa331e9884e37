/*
 * problem.c: makes scheduling problems (defaults, a plain chain of stages) and checks them, so that other files can use
 * a problem's numbers as indices. It knows no strategy.
 */
#include "schedule/schedule.h"

#include "core/error.h"

#include <inttypes.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* With these limits the products below fit easily into 64 bits, and instance numbers into 32 bits. */
enum {
    LARGEST_STAGE_COUNT = 1 << 20,
    LARGEST_DEVICE_COUNT = 1 << 20,
    LARGEST_MICRO_BATCH_COUNT = 1 << 24,
    LARGEST_LEVEL_COUNT = 1 << 10,
    LARGEST_EDGE_COUNT = 1 << 22,
    LARGEST_ACTION_COUNT = 1 << 30
};

void bg_schedule_problem_init(bg_schedule_problem *problem, size_t struct_bytes)
{
    const bg_schedule_problem made = {.struct_bytes = struct_bytes,
                                      .device_count = 1,
                                      .micro_batch_count = 1,
                                      .training = true,
                                      .merges_loss = true,
                                      .update_level_count = 1,
                                      .send_ahead = 1};

    bgi_struct_fill(problem, struct_bytes, &made, sizeof made);
}

bool bgi_schedule_stage_has_host_in(const bg_schedule_problem *problem, uint32_t stage)
{
    return problem->stage_host_in != NULL ? problem->stage_host_in[stage] : stage == 0;
}

bool bgi_schedule_stage_has_host_out(const bg_schedule_problem *problem, uint32_t stage)
{
    return problem->stage_host_out != NULL ? problem->stage_host_out[stage] : stage + 1 == problem->stage_count;
}

bool bgi_schedule_stage_gathers(const bg_schedule_problem *problem, uint32_t stage)
{
    return problem->training && problem->stage_gathers != NULL && problem->stage_gathers[stage];
}

bool bgi_schedule_stage_recomputes(const bg_schedule_problem *problem, uint32_t stage)
{
    return problem->training && problem->stage_recomputes != NULL && problem->stage_recomputes[stage];
}

double bgi_schedule_cost(const bg_schedule_problem *problem, const bg_action *action)
{
    const bg_stage_cost *cost = problem->costs != NULL ? &problem->costs[action->stage] : NULL;

    switch (action->kind) {
    case BG_ACTION_FORWARD:
        return cost != NULL ? cost->forward_ns : 1.0;
    case BG_ACTION_RECOMPUTE:
        return cost != NULL ? cost->recompute_ns : 1.0;
    case BG_ACTION_BACKWARD:
        return cost != NULL ? cost->backward_ns : 1.0;
    case BG_ACTION_WEIGHTS:
        return cost != NULL ? cost->weights_ns : 1.0;
    case BG_ACTION_UPDATE:
        return cost != NULL ? cost->update_ns / problem->update_level_count : 0.0;
    default:
        return 0.0;
    }
}

static bg_status check_count(const char *name, uint32_t value, uint32_t largest, bg_error *error)
{
    if (value < 1 || value > largest)
        return bg_error_set(error, BG_ERROR_INVALID, "%s is %" PRIu32 "; it must be 1 to %" PRIu32, name, value,
                            largest);
    return BG_OK;
}

static bg_status check_counts(const bg_schedule_problem *problem, bg_error *error)
{
    const uint64_t micro_batches = problem->micro_batch_count;
    uint64_t actions;

    BGI_TRY(check_count("stage_count", problem->stage_count, LARGEST_STAGE_COUNT, error));
    BGI_TRY(check_count("device_count", problem->device_count, LARGEST_DEVICE_COUNT, error));
    BGI_TRY(check_count("micro_batch_count", problem->micro_batch_count, LARGEST_MICRO_BATCH_COUNT, error));
    if (problem->training)
        BGI_TRY(check_count("update_level_count", problem->update_level_count, LARGEST_LEVEL_COUNT, error));
    if (problem->edge_count > LARGEST_EDGE_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "edge_count is %" PRIu32 "; it must be at most %d",
                            problem->edge_count, LARGEST_EDGE_COUNT);
    actions = problem->stage_count * (6 * micro_batches + (problem->training ? problem->update_level_count : 0)) +
              2 * problem->edge_count * micro_batches;
    if (actions > LARGEST_ACTION_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%" PRIu32 " stages, %" PRIu32 " edges and %" PRIu32 " micro-batches make up to %" PRIu64
                            " actions a step; the limit is %d",
                            problem->stage_count, problem->edge_count, problem->micro_batch_count, actions,
                            LARGEST_ACTION_COUNT);
    return BG_OK;
}

/* Checks that numbers begin with 0, ascend, and leave no gaps. `name` is "position" or "phase". */
static bg_status check_ascent(const char *name, const uint32_t *numbers, uint32_t count, bg_error *error)
{
    for (uint32_t stage = 0; stage < count; stage++) {
        const uint32_t before = stage > 0 ? numbers[stage - 1] : 0;
        if (stage == 0 && numbers[0] != 0)
            return bg_error_set(error, BG_ERROR_INVALID, "stage 0 is at %s %" PRIu32 "; %ss begin with 0", name,
                                numbers[0], name);
        if (numbers[stage] != before && numbers[stage] != before + 1)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "stage %" PRIu32 " is at %s %" PRIu32 ", but stage %" PRIu32 " is at %" PRIu32
                                "; a stage has the %s of the stage before it, or the next one",
                                stage, name, numbers[stage], stage - 1, before, name);
    }
    return BG_OK;
}

/* Checks the positions of stages; rejects concurrent stages on one device, where they would wait for each other. */
static bg_status check_positions(const bg_schedule_problem *problem, bg_error *error)
{
    uint32_t *latest; /* by device: 1 + the latest stage on the device; 0: none */
    bg_status status = BG_OK;

    if (problem->stage_positions == NULL)
        return BG_OK;
    BGI_TRY(check_ascent("position", problem->stage_positions, problem->stage_count, error));
    latest = calloc(problem->device_count, sizeof *latest);
    if (latest == NULL)
        return bgi_error_memory(error, "the stages of devices", problem->device_count * sizeof *latest);
    for (uint32_t stage = 0; status == BG_OK && stage < problem->stage_count; stage++) {
        const uint32_t device = problem->stage_devices[stage], other = latest[device];
        if (other != 0 && problem->stage_positions[other - 1] == problem->stage_positions[stage])
            status = bg_error_set(error, BG_ERROR_INVALID,
                                  "stages %" PRIu32 " and %" PRIu32 " are concurrent (position %" PRIu32
                                  "), but both are on device %" PRIu32 "; give each a separate device, or put them "
                                  "one after the other",
                                  other - 1, stage, problem->stage_positions[stage], device);
        latest[device] = stage + 1;
    }
    free(latest);
    return status;
}

static bg_status check_phases(const bg_schedule_problem *problem, bg_error *error)
{
    if (problem->stage_phases == NULL)
        return BG_OK;
    BGI_TRY(check_ascent("phase", problem->stage_phases, problem->stage_count, error));
    for (uint32_t stage = 1; stage < problem->stage_count; stage++)
        if (bgi_schedule_position(problem, stage) == bgi_schedule_position(problem, stage - 1) &&
            problem->stage_phases[stage] != problem->stage_phases[stage - 1])
            return bg_error_set(error, BG_ERROR_INVALID,
                                "stages %" PRIu32 " and %" PRIu32 " are concurrent, but in phases %" PRIu32
                                " and %" PRIu32 "; put them into one phase",
                                stage - 1, stage, problem->stage_phases[stage - 1], problem->stage_phases[stage]);
    return BG_OK;
}

static bg_status check_stages(const bg_schedule_problem *problem, bg_error *error)
{
    if (problem->stage_devices == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "stage_devices is NULL; it must name the device of each stage");
    for (uint32_t stage = 0; stage < problem->stage_count; stage++)
        if (problem->stage_devices[stage] >= problem->device_count)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "stage %" PRIu32 " is on device %" PRIu32 ", but there are %" PRIu32 " devices", stage,
                                problem->stage_devices[stage], problem->device_count);
    BGI_TRY(check_positions(problem, error));
    BGI_TRY(check_phases(problem, error));
    for (uint32_t stage = 0; problem->costs != NULL && stage < problem->stage_count; stage++) {
        const bg_stage_cost *cost = &problem->costs[stage];
        const double values[] = {cost->forward_ns, cost->recompute_ns, cost->backward_ns, cost->weights_ns,
                                 cost->update_ns};
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
            if (!isfinite(values[i]) || values[i] < 0)
                return bg_error_set(error, BG_ERROR_INVALID,
                                    "a cost of stage %" PRIu32 " is %g ns; it must be finite and at least 0", stage,
                                    values[i]);
    }
    if (!isfinite(problem->bytes_per_ns) || problem->bytes_per_ns < 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "bytes_per_ns is %g; it must be finite and at least 0 (0: messages are free)",
                            problem->bytes_per_ns);
    return BG_OK;
}

/* Checks the action at one end of an edge; `end` is "from", "to" or "last". */
static bg_status check_edge_end(const bg_schedule_problem *problem, uint32_t edge, const char *end, bg_action_kind kind,
                                uint32_t stage, uint32_t level, bg_error *error)
{
    if (stage >= problem->stage_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "edge %" PRIu32 ": its %s stage is %" PRIu32 ", but there are %" PRIu32 " stages", edge,
                            end, stage, problem->stage_count);
    if (kind > BG_ACTION_UPDATE)
        return bg_error_set(error, BG_ERROR_INVALID, "edge %" PRIu32 ": its %s kind is %s; it must be F, R, B, W or U",
                            edge, end, bg_action_kind_name(kind));
    if (kind != BG_ACTION_FORWARD && !problem->training)
        return bg_error_set(error, BG_ERROR_INVALID, "edge %" PRIu32 ": its %s kind is %s; inference has only F", edge,
                            end, bg_action_kind_name(kind));
    if (kind == BG_ACTION_RECOMPUTE && !bgi_schedule_stage_recomputes(problem, stage))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "edge %" PRIu32 ": its %s kind is R, but stage %" PRIu32
                            " does not recompute (stage_recomputes); use B",
                            edge, end, stage);
    if (kind == BG_ACTION_WEIGHTS && !problem->splits_weights)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "edge %" PRIu32 ": its %s kind is W, but the problem does not split weights; use B", edge,
                            end);
    if (kind == BG_ACTION_UPDATE && level >= problem->update_level_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "edge %" PRIu32 ": its %s level is %" PRIu32 ", but there are %" PRIu32 " levels", edge,
                            end, level, problem->update_level_count);
    return BG_OK;
}

static bg_status check_edge(const bg_schedule_problem *problem, uint32_t index, bg_error *error)
{
    const bg_schedule_edge *edge = &problem->edges[index];
    const bool is_update = edge->from_kind == BG_ACTION_UPDATE;
    const bool is_loop = edge->from_kind == edge->to_kind && edge->from_stage == edge->to_stage &&
                         (!is_update || edge->from_level == edge->to_level);

    BGI_TRY(check_edge_end(problem, index, "from", edge->from_kind, edge->from_stage, edge->from_level, error));
    BGI_TRY(check_edge_end(problem, index, "to", edge->to_kind, edge->to_stage, edge->to_level, error));
    BGI_TRY(check_edge_end(problem, index, "last", edge->last_kind, edge->to_stage, edge->to_level, error));
    if (is_update != (edge->to_kind == BG_ACTION_UPDATE) || is_update != (edge->last_kind == BG_ACTION_UPDATE))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "edge %" PRIu32 ": goes from %s to %s and %s; an edge has U at all ends or at none", index,
                            bg_action_kind_name(edge->from_kind), bg_action_kind_name(edge->to_kind),
                            bg_action_kind_name(edge->last_kind));
    if (edge->last_kind < edge->to_kind)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "edge %" PRIu32 ": its last reader %s runs before its first reader %s", index,
                            bg_action_kind_name(edge->last_kind), bg_action_kind_name(edge->to_kind));
    if (is_loop)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "edge %" PRIu32 ": goes from %s of stage %" PRIu32
                            " to itself; an edge must end at another action",
                            index, bg_action_kind_name(edge->from_kind), edge->from_stage);
    return BG_OK;
}

/* Checks that the time of all actions, messages and transfers together, which no order exceeds, is finite. */
static bg_status check_total_time(const bg_schedule_problem *problem, bg_error *error)
{
    double total_ns = 0.0;

    for (uint32_t stage = 0; problem->costs != NULL && stage < problem->stage_count; stage++) {
        const bg_stage_cost *cost = &problem->costs[stage];
        total_ns += problem->micro_batch_count *
                        (cost->forward_ns + cost->recompute_ns + cost->backward_ns + cost->weights_ns) +
                    cost->update_ns;
    }
    for (uint32_t edge = 0; problem->bytes_per_ns > 0 && edge < problem->edge_count; edge++)
        total_ns += problem->micro_batch_count * ((double)problem->edges[edge].size_bytes / problem->bytes_per_ns);
    /* Each use of a buffer may need a load and a store, and a micro-batch uses a buffer at most four times. */
    for (uint32_t buffer = 0; problem->remote_bytes_per_ns > 0 && buffer < problem->buffer_count; buffer++)
        total_ns += 8.0 * problem->micro_batch_count *
                    ((double)problem->buffers[buffer].size_bytes / problem->remote_bytes_per_ns);
    if (!isfinite(total_ns))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the costs of all stages, messages and transfers add up to more than the largest number "
                            "(%g); use a larger unit of time",
                            DBL_MAX);
    return BG_OK;
}

static bg_status check_shared_store(const bg_schedule_problem *problem, uint32_t index, bg_error *error)
{
    const bg_schedule_buffer *buffer = &problem->buffers[index], *of;
    const bg_schedule_edge *edge = &problem->edges[buffer->edge], *before;

    of = buffer->store_of < index ? &problem->buffers[buffer->store_of] : NULL;
    before = of != NULL && of->per_micro_batch && !of->shares_store ? &problem->edges[of->edge] : NULL;
    if (before != NULL && before->to_kind == edge->from_kind && before->to_stage == edge->from_stage &&
        of->size_bytes == buffer->size_bytes)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "buffer %" PRIu32 " shares the store of buffer %" PRIu32
                        "; that buffer must come before it, be of the same size and have STOREs, and its edge must end "
                        "at the action where this buffer's edge begins",
                        index, buffer->store_of);
}

static bg_status check_edge_buffer(const bg_schedule_problem *problem, uint32_t index, bg_error *error)
{
    const bg_schedule_buffer *buffer = &problem->buffers[index];
    const bg_schedule_edge *edge;

    if (buffer->edge >= problem->edge_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "buffer %" PRIu32 ": its edge is %" PRIu32 ", but there are %" PRIu32 " edges", index,
                            buffer->edge, problem->edge_count);
    edge = &problem->edges[buffer->edge];
    if (edge->from_kind == BG_ACTION_UPDATE ||
        problem->stage_devices[edge->from_stage] != problem->stage_devices[edge->to_stage] ||
        edge->to_stage != buffer->stage || buffer->slots < 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "buffer %" PRIu32 ": edge %" PRIu32 " from stage %" PRIu32 " to %" PRIu32 ", %" PRIu32
                            " slots, for stage %" PRIu32
                            "; a buffer's edge must stay on one device, have a value for each micro-batch and end at "
                            "the buffer's stage, and the buffer needs at least 1 slot",
                            index, buffer->edge, edge->from_stage, edge->to_stage, buffer->slots, buffer->stage);
    if (buffer->shares_store)
        BGI_TRY(check_shared_store(problem, index, error));
    for (uint32_t other = 0; other < index; other++)
        if (problem->buffers[other].per_micro_batch && problem->buffers[other].edge == buffer->edge)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "buffers %" PRIu32 " and %" PRIu32 " are both of edge %" PRIu32
                                "; an edge has at most one buffer",
                                other, index, buffer->edge);
    return BG_OK;
}

static bg_status check_buffer(const bg_schedule_problem *problem, uint32_t index, bg_error *error)
{
    const bg_schedule_buffer *buffer = &problem->buffers[index];
    const uint32_t users = buffer->reads | buffer->writes;

    if (buffer->stage >= problem->stage_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "buffer %" PRIu32 ": its stage is %" PRIu32 ", but there are %" PRIu32 " stages", index,
                            buffer->stage, problem->stage_count);
    if (buffer->store_bytes > buffer->size_bytes)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "buffer %" PRIu32 ": STORE copies %zu bytes, but the buffer has %zu", index,
                            buffer->store_bytes, buffer->size_bytes);
    if (buffer->per_micro_batch)
        return check_edge_buffer(problem, index, error);
    if (users == 0 || (users & ~(1u << BG_ACTION_REDUCE | 1u << BG_ACTION_GATHER)) >> (BG_ACTION_UPDATE + 1) != 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "buffer %" PRIu32 ": used by kinds %#" PRIx32
                            "; it needs a user among F, R, B, W, U, REDUCE and GATHER",
                            index, users);
    if ((unsigned)buffer->residency > BG_RESIDENCY_VISIT)
        return bg_error_set(error, BG_ERROR_INVALID, "buffer %" PRIu32 ": residency %d is unknown", index,
                            (int)buffer->residency);
    return BG_OK;
}

static bg_status check_buffers(const bg_schedule_problem *problem, bg_error *error)
{
    if (problem->buffers == NULL && problem->buffer_count > 0)
        return bg_error_set(error, BG_ERROR_INVALID, "buffers is NULL, but buffer_count is %" PRIu32,
                            problem->buffer_count);
    if (problem->buffer_count > LARGEST_EDGE_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "buffer_count is %" PRIu32 "; it must be at most %d",
                            problem->buffer_count, LARGEST_EDGE_COUNT);
    if (!isfinite(problem->remote_bytes_per_ns) || problem->remote_bytes_per_ns < 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "remote_bytes_per_ns is %g; it must be finite and at least 0 (0: transfers are free)",
                            problem->remote_bytes_per_ns);
    for (uint32_t buffer = 0; buffer < problem->buffer_count; buffer++)
        BGI_TRY(check_buffer(problem, buffer, error));
    return BG_OK;
}

bg_status bgi_schedule_problem_check(const bg_schedule_problem *problem, bg_error *error)
{
    if (problem == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the schedule problem is NULL");
    BGI_TRY(bgi_struct_check(problem->struct_bytes, sizeof *problem, "bg_schedule_problem",
                             "bg_schedule_problem_defaults()", error));
    BGI_TRY(check_counts(problem, error));
    BGI_TRY(check_stages(problem, error));
    if (problem->edges == NULL && problem->edge_count > 0)
        return bg_error_set(error, BG_ERROR_INVALID, "edges is NULL, but edge_count is %" PRIu32, problem->edge_count);
    for (uint32_t edge = 0; edge < problem->edge_count; edge++)
        BGI_TRY(check_edge(problem, edge, error));
    BGI_TRY(check_buffers(problem, error));
    return check_total_time(problem, error);
}

static bg_schedule_edge make_edge(bg_action_kind from_kind, uint32_t from_stage, bg_action_kind to_kind,
                                  bg_action_kind last_kind, uint32_t to_stage, size_t size_bytes)
{
    return (bg_schedule_edge){.from_kind = from_kind,
                              .from_stage = from_stage,
                              .to_kind = to_kind,
                              .last_kind = last_kind,
                              .to_stage = to_stage,
                              .size_bytes = size_bytes};
}

bg_status bg_schedule_problem_chain(bg_schedule_problem *problem, size_t edge_bytes, bg_schedule_edge **out_edges,
                                    bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(problem, "problem", __func__, error));
    BGI_TRY(bgi_require(out_edges, "out_edges", __func__, error));

    /* If a stage has W, its W also reads the gradients that reach the stage, and the stash. */
    const bg_action_kind last = problem->splits_weights ? BG_ACTION_WEIGHTS : BG_ACTION_BACKWARD;
    const size_t room = 4 * (size_t)problem->stage_count;
    bg_schedule_edge *edges;
    uint32_t count = 0;

    BGI_TRY(check_count("stage_count", problem->stage_count, LARGEST_STAGE_COUNT, error));
    edges = calloc(room, sizeof *edges);
    if (edges == NULL)
        return bgi_error_memory(error, "the edges of a chain", room * sizeof *edges);
    for (uint32_t stage = 0; stage + 1 < problem->stage_count; stage++)
        edges[count++] =
            make_edge(BG_ACTION_FORWARD, stage, BG_ACTION_FORWARD, BG_ACTION_FORWARD, stage + 1, edge_bytes);
    for (uint32_t stage = 0; problem->training && stage + 1 < problem->stage_count; stage++)
        edges[count++] = make_edge(BG_ACTION_BACKWARD, stage + 1, BG_ACTION_BACKWARD, last, stage, edge_bytes);
    for (uint32_t stage = 0; problem->training && stage < problem->stage_count; stage++) {
        bg_action_kind from = BG_ACTION_FORWARD;
        if (bgi_schedule_stage_recomputes(problem, stage)) {
            from = BG_ACTION_RECOMPUTE;
            edges[count++] = make_edge(BG_ACTION_FORWARD, stage, from, from, stage, edge_bytes);
        }
        edges[count++] = make_edge(from, stage, BG_ACTION_BACKWARD, last, stage, edge_bytes);
    }
    problem->edges = edges;
    problem->edge_count = count;
    *out_edges = edges;
    return BG_OK;
}
