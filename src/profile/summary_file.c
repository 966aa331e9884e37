/*
 * summary_file.c: writes an analysis as JSON (docs/formats.md). The file contains everything that a report shows, so a
 * report needs only the file, also in a later release. Long lists are cut, and the numbers of omitted devices, ops and
 * spans are stored.
 */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/isa.h"
#include "formats/json_write.h"
#include "profile/analysis.h"

enum {
    MOST_OPS = 1500,
    MOST_BESIDE = 4000,
    MOST_HELPS = 4000,
    MOST_SPANS = 3000, /* spans of live memory, for each device */
    MOST_TENSORS = 40,
    MOST_SIMULATED = 4000,
    MOST_SLOTS = 256,
    DIGITS = 9
};

static void write_real(bgi_json_writer *w, const char *key, double value)
{
    bgi_json_real(w, key, value, DIGITS);
}

/* Writes a time, rounded to whole nanoseconds. */
static void write_ns(bgi_json_writer *w, const char *key, double value)
{
    bgi_json_count(w, key, value > 0.0 ? (uint64_t)(value + 0.5) : 0);
}

/* ---- what was run ---- */

static void write_configuration(bgi_json_writer *w, const bgi_analysis *a, const bg_profile_notes *notes)
{
    const bg_options *options = bg_plan_options(a->plan);

    bgi_json_open(w, "configuration", '{');
    bgi_json_text(w, "schedule", bg_plan_schedule_name(a->plan));
    bgi_json_bool(w, "training", a->plan->training);
    bgi_json_count(w, "stages", a->plan->stage_count);
    bgi_json_count(w, "devices", a->summary.device_count);
    bgi_json_count(w, "replicas", a->summary.replicas);
    bgi_json_count(w, "ranks", a->rank_count);
    bgi_json_count(w, "micro_batch", a->summary.micro_batch);
    bgi_json_count(w, "micro_batches_per_step", a->summary.micro_batches_per_step);
    bgi_json_count(w, "steps_per_run", a->summary.steps_per_run);
    bgi_json_count(w, "device_memory_bytes", options->memory.device_memory_bytes);
    bgi_json_text(w, "recompute", bg_option_value_name("recompute", (int)options->memory.recompute));
    bgi_json_close(w, '}');
    bgi_json_open(w, "settings", '[');
    for (uint32_t i = 0;
         notes != NULL && notes->settings != NULL && notes->settings[i] != NULL && notes->settings[i + 1] != NULL;
         i += 2) {
        bgi_json_open(w, NULL, '[');
        bgi_json_text(w, NULL, notes->settings[i]);
        bgi_json_text(w, NULL, notes->settings[i + 1]);
        bgi_json_close(w, ']');
    }
    bgi_json_close(w, ']');
    bgi_json_open(w, "machine", '{');
    bgi_json_text(w, "instructions", bgi_isa_name(bgi_cpu_isa()));
    bgi_json_count(w, "processors", a->machine.processors);
    bgi_json_count(w, "workers", a->machine.workers);
    write_real(w, "flops_per_s", a->machine.flops_per_s);
    write_real(w, "bytes_per_s", a->machine.bytes_per_s);
    bgi_json_close(w, '}');
}

static double wall_ns(const bgi_analysis *a)
{
    return (double)(a->runs.end_ns - a->runs.start_ns);
}

static double samples_per_step(const bgi_analysis *a)
{
    return a->summary.steps_per_run > 0 ? (double)a->summary.samples_per_run / a->summary.steps_per_run : 0.0;
}

static void write_recorded(bgi_json_writer *w, const bgi_analysis *a, const bg_profile_notes *notes)
{
    const double seconds = wall_ns(a) / 1e9, steps = (double)a->runs.steps;
    const bgi_run_spans *runs = bgi_session_runs(a->session);

    bgi_json_open(w, "recorded", '{');
    bgi_json_count(w, "runs", runs->count);
    bgi_json_count(w, "steps", a->runs.steps);
    write_ns(w, "wall_ns", wall_ns(a));
    bgi_json_count(w, "run_ns", a->runs.total_ns);
    bgi_json_count(w, "events", a->event_count);
    bgi_json_count(w, "events_dropped", a->dropped_count);
    bgi_json_count(w, "window_steps", a->window_steps);
    bgi_json_count(w, "window_ns", a->end_ns - a->begin_ns);
    bgi_json_count(w, "loader_wait_ns", a->loader_wait_ns);
    bgi_json_count(w, "loader_batches", notes != NULL ? notes->loader_batches : 0);
    bgi_json_count(w, "loader_misses", notes != NULL ? notes->loader_misses : 0);
    bgi_json_close(w, '}');
    bgi_json_open(w, "rates", '{');
    write_real(w, "samples_per_s", seconds > 0.0 ? steps * samples_per_step(a) / seconds : 0.0);
    write_real(w, "steps_per_s", seconds > 0.0 ? steps / seconds : 0.0);
    write_real(w, "flops_per_step", a->flops_per_step);
    write_real(w, "flops_per_s", seconds > 0.0 ? steps * a->flops_per_step / seconds : 0.0);
    bgi_json_close(w, '}');
}

/* ---- time ---- */

static void write_causes(bgi_json_writer *w, const char *key, const double *cause_ns)
{
    bgi_json_open(w, key, '{');
    for (int cause = 0; cause < BGI_CAUSE_COUNT; cause++)
        write_ns(w, bgi_cause_name((bgi_cause)cause), cause_ns[cause]);
    bgi_json_close(w, '}');
}

static void write_kinds(bgi_json_writer *w, const char *key, const double *ns, const double *counts)
{
    bgi_json_open(w, key, '{');
    for (int kind = 0; kind < BG_ACTION_KIND_COUNT; kind++)
        if (counts[kind] > 0.0) {
            bgi_json_open(w, bg_action_kind_name((bg_action_kind)kind), '[');
            write_ns(w, NULL, counts[kind]);
            write_ns(w, NULL, ns[kind]);
            bgi_json_close(w, ']');
        }
    bgi_json_close(w, '}');
}

static void write_time(bgi_json_writer *w, const bgi_analysis *a)
{
    double causes[BGI_CAUSE_COUNT] = {0}, busy = 0.0, window = (double)(a->end_ns - a->begin_ns), all = 0.0;

    for (uint32_t s = 0; s < a->slots; s++) {
        if (a->events.devices[s].count == 0)
            continue;
        busy += a->devices[s].busy_ns;
        all += window;
        for (int cause = 0; cause < BGI_CAUSE_COUNT; cause++)
            causes[cause] += a->devices[s].cause_ns[cause];
    }
    bgi_json_open(w, "time", '{'); /* sums over all devices */
    write_ns(w, "all_ns", all);
    write_ns(w, "busy_ns", busy);
    write_real(w, "bubble_share", all > 0.0 ? causes[BGI_CAUSE_PIPELINE] / all : 0.0);
    write_causes(w, "lost_ns", causes);
    write_real(w, "simulated_step_ns", a->simulated_ns);
    write_real(w, "simulated_idle_share", a->simulated.bubble);
    bgi_json_close(w, '}');
}

static void write_devices(bgi_json_writer *w, const bgi_analysis *a)
{
    bgi_json_open(w, "devices", '[');
    for (uint32_t s = 0; s < a->slots && s < MOST_SLOTS; s++) {
        const bgi_device_times *device = &a->devices[s];
        bgi_json_open(w, NULL, '{');
        bgi_json_count(w, "replica", s / a->summary.device_count);
        bgi_json_count(w, "device", s % a->summary.device_count);
        bgi_json_count(w, "rank", device->rank);
        write_ns(w, "busy_ns", device->busy_ns);
        write_causes(w, "lost_ns", device->cause_ns);
        write_kinds(w, "kinds", device->kind_ns, device->kind_count);
        write_kinds(w, "beside", device->beside_ns, device->beside_count);
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
    bgi_json_count(w, "devices_left_out", a->slots > MOST_SLOTS ? a->slots - MOST_SLOTS : 0);
    bgi_json_open(w, "cores", '[');
    for (uint32_t i = 0; i < a->core_count && i < MOST_SLOTS; i++) {
        const bgi_core_times *core = &a->cores[i];
        bgi_json_open(w, NULL, '{');
        bgi_json_count(w, "rank", core->rank);
        bgi_json_count(w, "worker", core->worker);
        write_ns(w, "work_ns", core->work_ns);
        write_ns(w, "help_ns", core->help_ns);
        write_ns(w, "beside_ns", core->beside_ns);
        write_ns(w, "idle_ns", core->idle_ns);
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
}

static void write_stages(bgi_json_writer *w, const bgi_analysis *a)
{
    double sum = 0.0;

    for (uint32_t s = 0; s < a->plan->stage_count; s++)
        sum += a->stages[s].step_ns;
    bgi_json_open(w, "stages", '[');
    for (uint32_t s = 0; s < a->plan->stage_count; s++) {
        const bgi_stage_row *stage = &a->stages[s];
        bgi_json_open(w, NULL, '{');
        bgi_json_count(w, "stage", s);
        bgi_json_count(w, "device", stage->device);
        bgi_json_open(w, "blocks", '[');
        for (uint32_t b = 0; b < a->plan->block_count; b++)
            if (a->blocks[b].stage == s && a->blocks[b].name[0] != '\0')
                bgi_json_text(w, NULL, a->blocks[b].name);
        bgi_json_close(w, ']');
        bgi_json_count(w, "parameters", stage->parameters);
        bgi_json_count(w, "weight_bytes", stage->weight_bytes);
        bgi_json_count(w, "stash_bytes", stage->stash_bytes);
        write_real(w, "flops", stage->flops);
        write_ns(w, "forward_ns", stage->cost.forward_ns);
        write_ns(w, "recompute_ns", stage->cost.recompute_ns);
        write_ns(w, "backward_ns", stage->cost.backward_ns);
        write_ns(w, "weights_ns", stage->cost.weights_ns);
        write_ns(w, "update_ns", stage->cost.update_ns);
        write_ns(w, "step_ns", stage->step_ns);
        write_real(w, "times_the_mean", sum > 0.0 ? stage->step_ns * a->plan->stage_count / sum : 0.0);
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
}

static double op_step_ns(const bgi_op_row *op)
{
    return op->mean_ns * op->calls_per_step;
}

static int compare_ops(const void *left, const void *right)
{
    const double a = op_step_ns(*(const bgi_op_row *const *)left), b = op_step_ns(*(const bgi_op_row *const *)right);

    return a > b ? -1 : a < b;
}

/* Writes the ops in the order in which they run; if there are too many, only those that take longest. */
static bg_status write_ops(bgi_json_writer *w, const bgi_analysis *a, bg_error *error)
{
    const bgi_op_row **order = calloc((size_t)a->op_count + 1, sizeof *order);
    double least = -1.0, left_out = 0.0;
    uint32_t count = 0, written = 0;

    if (order == NULL)
        return bgi_error_memory(error, "a profile", a->op_count * sizeof *order);
    for (uint32_t i = 0; i < a->op_count; i++)
        order[i] = &a->ops[i];
    if (a->op_count > MOST_OPS) {
        qsort(order, a->op_count, sizeof *order, compare_ops);
        least = op_step_ns(order[MOST_OPS - 1]);
    }
    free(order);
    bgi_json_open(w, "ops", '[');
    for (uint32_t i = 0; i < a->op_count; i++) {
        const bgi_op_row *op = &a->ops[i];
        if (op_step_ns(op) < least || written == MOST_OPS) {
            left_out += op_step_ns(op);
            count++;
            continue;
        }
        written++;
        bgi_json_open(w, NULL, '{');
        bgi_json_text(w, "name", op->name);
        bgi_json_text(w, "block", op->block);
        bgi_json_text(w, "kernel", op->kernel);
        bgi_json_text(w, "pass", bg_action_kind_name(op->kind));
        bgi_json_count(w, "stage", op->stage);
        write_ns(w, "calls_per_step", op->calls_per_step);
        bgi_json_count(w, "timed", op->count);
        write_ns(w, "mean_ns", op->mean_ns);
        write_ns(w, "least_ns", op->least_ns);
        write_ns(w, "most_ns", op->most_ns);
        write_real(w, "flops", op->flops);
        write_real(w, "bytes", op->bytes);
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
    bgi_json_count(w, "ops_left_out", count);
    write_ns(w, "ops_left_out_ns_per_step", left_out);
    return BG_OK;
}

/* ---- values ---- */

typedef struct tensor {
    uint32_t device;
    bg_memory_class memory_class;
    size_t bytes;
    const char *name, *origin;
    const bg_type *type; /* NULL if there are several values */
} tensor;

static void add_tensor(tensor *list, uint32_t *count, tensor of)
{
    uint32_t at = *count;

    if (at == MOST_TENSORS && list[at - 1].bytes >= of.bytes)
        return;
    for (uint32_t i = 0; i < *count; i++) /* calls of several passes make the same value */
        if (list[i].name == of.name && list[i].device == of.device && list[i].bytes == of.bytes)
            return;
    if (at == MOST_TENSORS)
        at--;
    else
        (*count)++;
    for (; at > 0 && list[at - 1].bytes < of.bytes; at--)
        list[at] = list[at - 1];
    list[at] = of;
}

static bg_memory_class class_of(const bgi_plan_variable *variable)
{
    return variable->places[0].operand.memory == BGI_MEMORY_REMOTE ? BG_MEMORY_REMOTE
           : variable->role == BG_ROLE_STATE                       ? BG_MEMORY_STATE
           : variable->role == BG_ROLE_ACCUMULATOR                 ? BG_MEMORY_GRADIENTS
                                                                   : BG_MEMORY_WEIGHTS;
}

/* Returns the first call that writes a message; NULL if there is none, as for an input. */
static const bgi_call *find_maker(const bg_plan *plan, uint32_t edge)
{
    const bgi_call *last = NULL;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            const bgi_instruction *instruction = &plan->devices[d].instructions[i];
            if (instruction->calls == last || instruction->action.micro_batch > 0)
                continue;
            last = instruction->calls;
            for (uint32_t c = 0; c < instruction->call_count; c++) {
                const bgi_call *call = &instruction->calls[c];
                for (uint32_t o = call->input_count; o < call->input_count + call->output_count; o++)
                    if (call->operands[o].edge == edge)
                        return call;
            }
        }
    return NULL;
}

static void list_tensors(const bgi_analysis *a, const bgi_call *const *makers, tensor *list, uint32_t *count)
{
    const bg_plan *plan = a->plan;

    for (uint32_t v = 0; v < plan->variable_count; v++)
        if (plan->variables[v].place_count > 0)
            add_tensor(list, count,
                       (tensor){.device = plan->variables[v].places[0].device,
                                .memory_class = class_of(&plan->variables[v]),
                                .bytes = bgi_plan_variable_bytes(&plan->variables[v]),
                                .name = plan->variables[v].name,
                                .origin = "variable",
                                .type = &plan->variables[v].type});
    for (uint32_t e = 0; e < plan->edge_count; e++)
        add_tensor(list, count,
                   (tensor){.device = plan->edges[e].to_device,
                            .memory_class = plan->edges[e].is_stash ? BG_MEMORY_STASH : BG_MEMORY_STREAM,
                            .bytes = plan->edges[e].depth * plan->edges[e].slot_bytes,
                            .name = makers[e] != NULL && makers[e]->name != NULL ? makers[e]->name : "input",
                            .origin = makers[e] != NULL && makers[e]->block != NULL ? makers[e]->block : ""});
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            const bgi_instruction *instruction = &plan->devices[d].instructions[i];
            if (instruction->action.micro_batch > 0)
                continue;
            for (uint32_t c = 0; c < instruction->call_count; c++) {
                const bgi_call *call = &instruction->calls[c];
                for (uint32_t o = call->input_count; o < call->input_count + call->output_count; o++)
                    if (instruction->action.kind != BG_ACTION_UPDATE && call->operands[o].memory == BGI_MEMORY_ARENA &&
                        call->operands[o].edge == BGI_NO_EDGE && instruction->transient_bytes > 0 &&
                        bg_type_size_bytes(&call->types[o]) <= instruction->transient_bytes)
                        add_tensor(list, count,
                                   (tensor){.device = d,
                                            .memory_class = BG_MEMORY_TRANSIENT,
                                            .bytes = bg_type_size_bytes(&call->types[o]),
                                            .name = call->name != NULL ? call->name : "",
                                            .origin = call->block != NULL ? call->block : "",
                                            .type = &call->types[o]});
            }
        }
}

static void write_tensors(bgi_json_writer *w, const bgi_analysis *a, const bgi_call *const *makers)
{
    tensor list[MOST_TENSORS + 1];
    char text[BG_TYPE_TEXT_BYTES];
    uint32_t count = 0;

    list_tensors(a, makers, list, &count);
    bgi_json_open(w, "tensors", '[');
    for (uint32_t i = 0; i < count; i++) {
        bgi_json_open(w, NULL, '{');
        bgi_json_count(w, "device", list[i].device);
        bgi_json_text(w, "class", bg_memory_class_name(list[i].memory_class));
        bgi_json_count(w, "bytes", list[i].bytes);
        bgi_json_text(w, "name", list[i].name);
        bgi_json_text(w, "origin", list[i].origin);
        bgi_json_text(w, "type", list[i].type != NULL ? bg_type_text(list[i].type, text) : "");
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
}

static void write_edges(bgi_json_writer *w, const bgi_analysis *a, const bgi_call *const *makers)
{
    const bg_plan *plan = a->plan;

    bgi_json_open(w, "edges", '[');
    for (uint32_t e = 0; e < plan->edge_count; e++) {
        const bgi_plan_edge *edge = &plan->edges[e];
        bgi_json_open(w, NULL, '{');
        bgi_json_count(w, "from", edge->from_device);
        bgi_json_count(w, "to", edge->to_device);
        bgi_json_bool(w, "stash", edge->is_stash);
        bgi_json_count(w, "bytes", edge->payload_bytes);
        bgi_json_count(w, "per_step", edge->per_step ? 1 : a->summary.micro_batches_per_step);
        bgi_json_count(w, "depth", edge->depth);
        bgi_json_text(w, "value", makers[e] != NULL && makers[e]->name != NULL ? makers[e]->name : "input");
        bgi_json_text(w, "block", makers[e] != NULL && makers[e]->block != NULL ? makers[e]->block : "");
        write_ns(w, "wait_ns", a->edge_wait_ns[e]);
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
    bgi_json_open(w, "traffic", '[');
    for (uint32_t d = 0; d < plan->device_count; d++) {
        bgi_json_open(w, NULL, '{');
        for (int kind = 0; kind < BG_TRAFFIC_COUNT; kind++) {
            uint64_t bytes = 0;
            for (int location = 0; location < BG_LOCATION_COUNT; location++)
                bytes += bg_plan_traffic_bytes(plan, d, (bg_plan_traffic)kind, (bg_location_class)location);
            bgi_json_count(w, bg_plan_traffic_name((bg_plan_traffic)kind), bytes);
        }
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
}

/* ---- memory ---- */

/* Returns the time at which the last step began on a replica's devices. */
static uint64_t find_last_step(const bgi_analysis *a, uint32_t replica)
{
    uint64_t begin = a->end_ns;

    for (uint32_t d = 0; d < a->summary.device_count; d++) {
        const bgi_device_events *own = &a->events.devices[replica * a->summary.device_count + d];
        for (uint32_t i = 0; i < own->count; i++)
            if (own->instructions[i] != BGI_NO_INSTRUCTION && own->passes_after[i] == 0 &&
                own->events[i].start_ns < begin)
                begin = own->events[i].start_ns;
    }
    return begin;
}

static int compare_span_starts(const void *left, const void *right)
{
    const bgi_memory_span *a = left, *b = right;

    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

static void write_span(bgi_json_writer *w, const bgi_memory_span *span, uint64_t begin)
{
    bgi_json_open(w, NULL, '[');
    bgi_json_count(w, NULL, span->start_ns > begin ? span->start_ns - begin : 0);
    bgi_json_count(w, NULL, span->end_ns - begin);
    bgi_json_count(w, NULL, span->bytes);
    bgi_json_text(w, NULL, bg_memory_class_name(span->memory_class));
    bgi_json_integer(w, NULL, span->edge != UINT32_MAX ? (int64_t)span->edge : -1);
    bgi_json_text(w, NULL, span->edge != UINT32_MAX ? "" : bg_action_kind_name(span->action.kind));
    bgi_json_count(w, NULL, span->action.micro_batch);
    bgi_json_close(w, ']');
}

/* Returns the bytes of the slots of a device's edges: of stashes if `is_stash`, otherwise of messages. All other bytes
 * of the memory class are always live. */
static size_t find_slots(const bg_plan *plan, uint32_t device, bool is_stash)
{
    size_t bytes = 0;

    for (uint32_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].to_device == device && plan->edges[e].is_stash == is_stash && !plan->edges[e].is_ring &&
            !plan->edges[e].is_remote)
            bytes += plan->edges[e].depth * plan->edges[e].slot_bytes;
    return bytes;
}

static bg_status write_memory(bgi_json_writer *w, const bgi_analysis *a, bg_error *error)
{
    const uint64_t begin = find_last_step(a, 0);

    bgi_json_open(w, "memory", '[');
    for (uint32_t d = 0; d < a->summary.device_count && d < MOST_SLOTS; d++) {
        bgi_memory_span *spans = NULL;
        size_t count = 0;
        if (a->events.devices[d].count > 0)
            BGI_TRY(bgi_memory_spans(&a->events, a->plan, 0, d, begin, &spans, &count, error));
        if (count > 1)
            qsort(spans, count, sizeof *spans, compare_span_starts);
        bgi_json_open(w, NULL, '{');
        bgi_json_count(w, "device", d);
        bgi_json_count(w, "bytes", bg_plan_device_bytes(a->plan, d));
        bgi_json_count(w, "touched_bytes", bg_session_device_bytes(a->session, 0, d));
        bgi_json_count(w, "budget_bytes", bg_plan_options(a->plan)->memory.device_memory_bytes);
        bgi_json_count(w, "span_ns", a->end_ns - begin);
        bgi_json_open(w, "classes", '{');
        for (int c = 0; c < BG_MEMORY_CLASS_COUNT; c++)
            bgi_json_count(w, bg_memory_class_name((bg_memory_class)c),
                           bg_plan_memory_bytes(a->plan, d, (bg_memory_class)c));
        bgi_json_close(w, '}');
        bgi_json_open(w, "always", '{');
        for (int c = 0; c < BG_MEMORY_CLASS_COUNT; c++) {
            size_t bytes = bg_plan_memory_bytes(a->plan, d, (bg_memory_class)c), slots;
            if (c == BG_MEMORY_TRANSIENT || c == BG_MEMORY_REMOTE)
                continue;
            slots = c == BG_MEMORY_STASH || c == BG_MEMORY_STREAM ? find_slots(a->plan, d, c == BG_MEMORY_STASH) : 0;
            bgi_json_count(w, bg_memory_class_name((bg_memory_class)c), bytes > slots ? bytes - slots : 0);
        }
        bgi_json_close(w, '}');
        bgi_json_open(w, "spans", '[');
        for (size_t i = 0; i < count && i < MOST_SPANS; i++)
            write_span(w, &spans[i], begin);
        bgi_json_close(w, ']');
        bgi_json_count(w, "spans_left_out", count > MOST_SPANS ? count - MOST_SPANS : 0);
        bgi_json_close(w, '}');
        free(spans);
    }
    bgi_json_close(w, ']');
    return BG_OK;
}

/* ---- the timeline ---- */

static void write_event(bgi_json_writer *w, const bgi_analysis *a, uint32_t slot, const bg_trace_event *event)
{
    const uint64_t start = event->start_ns > a->begin_ns ? event->start_ns - a->begin_ns : 0;

    bgi_json_open(w, NULL, '[');
    bgi_json_count(w, NULL, slot);
    bgi_json_count(w, NULL, event->action.kind);
    bgi_json_count(w, NULL, event->action.stage);
    bgi_json_count(w, NULL, event->action.micro_batch);
    bgi_json_count(w, NULL, event->action.index);
    bgi_json_count(w, NULL, event->step);
    bgi_json_count(w, NULL, event->worker);
    bgi_json_count(w, NULL, start);
    bgi_json_count(w, NULL, event->end_ns - event->start_ns);
    bgi_json_close(w, ']');
}

static void write_events(bgi_json_writer *w, const bgi_analysis *a, bool beside, uint64_t most, uint64_t *left_out)
{
    uint64_t written = 0;

    for (uint32_t s = 0; s < a->slots && s < MOST_SLOTS; s++)
        for (uint32_t i = 0; i < a->events.devices[s].count; i++) {
            const bg_trace_event *event = &a->events.devices[s].events[i];
            if (event->is_beside != beside || !bgi_in_window(a, event))
                continue;
            if (written++ < most)
                write_event(w, a, s, event);
            else
                (*left_out)++;
        }
}

static void write_timeline(bgi_json_writer *w, const bgi_analysis *a)
{
    uint64_t left_out = 0, written = 0;

    bgi_json_open(w, "timeline", '{');
    bgi_json_count(w, "span_ns", a->end_ns - a->begin_ns);
    bgi_json_open(w, "kinds", '[');
    for (int kind = 0; kind < BG_ACTION_KIND_COUNT; kind++)
        bgi_json_text(w, NULL, bg_action_kind_name((bg_action_kind)kind));
    bgi_json_close(w, ']');
    bgi_json_open(w, "events", '[');
    write_events(w, a, false, BGI_MOST_WINDOW_EVENTS, &left_out);
    bgi_json_close(w, ']');
    bgi_json_open(w, "beside", '[');
    write_events(w, a, true, MOST_BESIDE, &left_out);
    bgi_json_close(w, ']');
    bgi_json_open(w, "helps", '[');
    for (uint32_t r = 0; r < a->rank_count; r++)
        for (uint64_t i = 0; i < a->help_counts[r]; i++) {
            const bg_trace_event *event = &a->helps[r][i];
            if (!bgi_in_window(a, event))
                continue;
            if (written++ < MOST_HELPS)
                write_event(w, a, event->replica * a->summary.device_count + event->device, event);
            else
                left_out++;
        }
    bgi_json_close(w, ']');
    bgi_json_open(w, "runs", '[');
    for (uint64_t i = 0; i < a->runs.count; i++)
        if (a->runs.spans[i].end_ns > a->begin_ns && a->runs.spans[i].start_ns < a->end_ns) {
            const uint64_t start =
                a->runs.spans[i].start_ns > a->begin_ns ? a->runs.spans[i].start_ns - a->begin_ns : 0;
            bgi_json_open(w, NULL, '[');
            bgi_json_count(w, NULL, start);
            bgi_json_count(w, NULL, a->runs.spans[i].end_ns - a->begin_ns);
            bgi_json_close(w, ']');
        }
    bgi_json_close(w, ']');
    bgi_json_count(w, "left_out", left_out);
    bgi_json_close(w, '}');
    bgi_json_open(w, "simulated", '[');
    for (size_t i = 0; i < a->simulated.event_count && i < MOST_SIMULATED; i++) {
        const struct bg_schedule_event *event = &a->simulated.events[i];
        if (event->action.kind > BG_ACTION_UPDATE)
            continue;
        bgi_json_open(w, NULL, '[');
        bgi_json_count(w, NULL, event->device);
        bgi_json_count(w, NULL, event->action.kind);
        bgi_json_count(w, NULL, event->action.stage);
        bgi_json_count(w, NULL, event->action.micro_batch);
        write_ns(w, NULL, event->start);
        write_ns(w, NULL, event->end - event->start);
        bgi_json_close(w, ']');
    }
    bgi_json_close(w, ']');
}

static void write_insights(bgi_json_writer *w, const bgi_analysis *a)
{
    bgi_json_open(w, "insights", '[');
    for (uint32_t i = 0; i < a->insight_count; i++) {
        const bgi_insight *insight = &a->insights[i];
        bgi_json_open(w, NULL, '{');
        bgi_json_text(w, "id", insight->id);
        bgi_json_text(w, "text", insight->text);
        bgi_json_text(w, "option", insight->option);
        write_real(w, "gain", insight->gain);
        write_real(w, "cost", insight->cost);
        write_ns(w, "bytes", insight->bytes);
        bgi_json_close(w, '}');
    }
    bgi_json_close(w, ']');
}

bg_status bgi_summary_write(const bgi_analysis *analysis, const bg_profile_notes *notes, char **out, size_t *out_bytes,
                            bg_error *error)
{
    const bg_plan *plan = analysis->plan;
    const bgi_call **makers = calloc((size_t)plan->edge_count + 1, sizeof *makers);
    bgi_json_writer w = {.indent = 0};
    bg_status status;

    if (makers == NULL)
        return bgi_error_memory(error, "a profile", plan->edge_count * sizeof *makers);
    for (uint32_t e = 0; e < plan->edge_count; e++)
        makers[e] = find_maker(plan, e);
    bgi_json_open(&w, NULL, '{');
    bgi_json_text(&w, "format", "brigade-profile");
    bgi_json_count(&w, "version", 1);
    bgi_json_text(&w, "made_by", bg_version());
    bgi_json_text(&w, "program", notes != NULL && notes->program != NULL ? notes->program : "");
    bgi_json_text(&w, "model", notes != NULL && notes->model != NULL ? notes->model : "");
    bgi_json_text(&w, "samples", notes != NULL && notes->samples != NULL ? notes->samples : "samples");
    write_configuration(&w, analysis, notes);
    write_recorded(&w, analysis, notes);
    write_time(&w, analysis);
    write_insights(&w, analysis);
    write_devices(&w, analysis);
    write_stages(&w, analysis);
    BGI_TRY_CLEANUP(write_ops(&w, analysis, error));
    write_edges(&w, analysis, makers);
    write_tensors(&w, analysis, makers);
    BGI_TRY_CLEANUP(write_memory(&w, analysis, error));
    write_timeline(&w, analysis);
    bgi_json_close(&w, '}');
    status = bgi_json_finish(&w, out, out_bytes, error);
cleanup:
    bgi_json_clear(&w);
    free(makers);
    return status;
}
