/*
 * analyze.c: divides the time of devices and cores into work, help and causes of waiting. A device works during its
 * events. Between events it waits, and the event after the gap determines the cause:
 *
 *     F 0 |====|          gap          |R| F 1      until the message was sent: the pipeline;
 *     S 0          |=====|>~~~~~~~~~~~>             after that, the link, or no worker was free: cores
 *
 * Time outside all runs is the host's time. A core's time is divided into work on its devices, help with other workers'
 * calls, work that overlaps with a program, and idle time.
 */
#include "profile/analysis.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/isa.h"

const char *bgi_cause_name(bgi_cause cause)
{
    static const char *const names[BGI_CAUSE_COUNT] = {"pipeline", "link", "cores", "transfers",
                                                       "replicas", "data", "host"};

    return cause < BGI_CAUSE_COUNT ? names[cause] : "unknown";
}

/* ---- runs ---- */

/* Copies the spans of the last BGI_RUN_SPANS runs, oldest first, to a->runs. */
static bg_status order_runs(bgi_analysis *a, bg_error *error)
{
    const bgi_run_spans *recorded = bgi_session_runs(a->session);
    const uint64_t kept = recorded->count < BGI_RUN_SPANS ? recorded->count : BGI_RUN_SPANS;
    bgi_run_span *spans = bgi_arena_allocate(&a->arena, (size_t)kept + 1, sizeof *spans);

    if (spans == NULL)
        return bgi_error_memory(error, "a profile", (size_t)kept * sizeof *spans);
    for (uint64_t i = 0; i < kept; i++)
        spans[i] = recorded->spans[(recorded->count - kept + i) % BGI_RUN_SPANS];
    a->runs = *recorded;
    a->runs.spans = spans;
    a->runs.count = kept;
    return BG_OK;
}

static double overlap(uint64_t from, uint64_t to, uint64_t begin, uint64_t end)
{
    const uint64_t first = from > begin ? from : begin, last = to < end ? to : end;

    return last > first ? (double)(last - first) : 0.0;
}

/* Returns the length of the part of [from, to] that is outside all runs. Time before the oldest run in a->runs counts
 * as inside. */
static double outside_runs(const bgi_analysis *a, uint64_t from, uint64_t to)
{
    uint64_t low = 0, high = a->runs.count;
    double inside = 0.0;

    if (a->runs.count == 0 || to <= from)
        return 0.0;
    if (from < a->runs.spans[0].start_ns)
        from = a->runs.spans[0].start_ns;
    if (to <= from)
        return 0.0;
    while (low < high) { /* the first run that ends after `from` */
        const uint64_t middle = low + (high - low) / 2;
        if (a->runs.spans[middle].end_ns > from)
            high = middle;
        else
            low = middle + 1;
    }
    for (; low < a->runs.count && a->runs.spans[low].start_ns < to; low++)
        inside += overlap(from, to, a->runs.spans[low].start_ns, a->runs.spans[low].end_ns);
    return (double)(to - from) - inside;
}

/* ---- the window ---- */

static uint32_t count_kept_passes(const bgi_analysis *a, uint32_t slot)
{
    const bgi_device_events *own = &a->events.devices[slot];
    bgi_recorded recorded;
    uint32_t most = 0;

    for (uint32_t i = 0; i < own->count; i++)
        if (own->instructions[i] != BGI_NO_INSTRUCTION && own->passes_after[i] + 1 > most)
            most = own->passes_after[i] + 1;
    /* Some events of the oldest pass may have been dropped. */
    if (bgi_session_recorded(a->session, slot / a->summary.device_count, slot % a->summary.device_count, &recorded) &&
        recorded.program.count > recorded.program.capacity && most > 1)
        most--;
    return most;
}

static void choose_window(bgi_analysis *a)
{
    uint32_t passes = UINT32_MAX;
    uint64_t events = UINT64_MAX;

    for (uint32_t s = 0; s < a->slots; s++) {
        const uint32_t kept = a->events.devices[s].count > 0 ? count_kept_passes(a, s) : UINT32_MAX;
        passes = kept > 0 && kept < passes ? kept : passes;
    }
    passes = passes == UINT32_MAX ? 1 : passes;
    for (;; passes = passes > 8 ? passes - passes / 8 : passes - 1) {
        events = 0;
        a->begin_ns = UINT64_MAX;
        a->end_ns = 0;
        for (uint32_t s = 0; s < a->slots; s++)
            for (uint32_t i = 0; i < a->events.devices[s].count; i++) {
                const bg_trace_event *event = &a->events.devices[s].events[i];
                if (event->is_beside || a->events.devices[s].passes_after[i] >= passes)
                    continue;
                events++;
                a->begin_ns = event->start_ns < a->begin_ns ? event->start_ns : a->begin_ns;
                a->end_ns = event->end_ns > a->end_ns ? event->end_ns : a->end_ns;
            }
        if (events <= BGI_MOST_WINDOW_EVENTS || passes <= 1)
            break;
    }
    if (a->begin_ns > a->end_ns)
        a->begin_ns = a->end_ns = 0;
    a->window_steps = passes;
}

/* ---- causes ---- */

static int compare_sends(const void *left, const void *right)
{
    const bg_trace_event *a = *(const bg_trace_event *const *)left, *b = *(const bg_trace_event *const *)right;

    if (a->replica != b->replica)
        return a->replica < b->replica ? -1 : 1;
    if (a->action.index != b->action.index)
        return a->action.index < b->action.index ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return a->action.micro_batch < b->action.micro_batch ? -1 : a->action.micro_batch > b->action.micro_batch;
}

typedef struct sends {
    const bg_trace_event **items;
    size_t count;
} sends;

static bg_status list_sends(bgi_analysis *a, sends *out, bg_error *error)
{
    size_t limit = 0;

    for (uint32_t s = 0; s < a->slots; s++)
        limit += a->events.devices[s].count;
    out->items = bgi_arena_allocate(&a->arena, limit + 1, sizeof *out->items);
    if (out->items == NULL)
        return bgi_error_memory(error, "a profile", limit * sizeof *out->items);
    for (uint32_t s = 0; s < a->slots; s++)
        for (uint32_t i = 0; i < a->events.devices[s].count; i++)
            if (a->events.devices[s].events[i].action.kind == BG_ACTION_SEND)
                out->items[out->count++] = &a->events.devices[s].events[i];
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, compare_sends);
    return BG_OK;
}

static const bg_trace_event *find_send(const sends *all, const bg_trace_event *receive)
{
    const bg_trace_event **found = NULL;

    if (all->count > 0)
        found = bsearch(&receive, all->items, all->count, sizeof *all->items, compare_sends);
    return found != NULL ? *found : NULL;
}

static uint32_t count_workers(const bgi_analysis *a)
{
    return bgi_session_worker_count(a->session);
}

/* Returns whether a rank has more devices than workers. */
static bool is_crowded(const bgi_analysis *a, uint32_t rank)
{
    uint32_t devices = 0;

    for (uint32_t s = 0; s < a->slots; s++)
        devices += a->devices[s].rank == rank;
    return devices > count_workers(a);
}

/* Returns whether the instruction directly before starts a sum that overlaps with the program, and first waits for an
 * earlier sum. Such an instruction has no event. */
static bool follows_waiting_sum(const bgi_plan_device *device, const bgi_instruction *instruction)
{
    return instruction > device->instructions && instruction[-1].is_beside && instruction[-1].needs_sum;
}

/* Returns why a device waited in a gap within runs, before an event of an instruction. */
static bgi_cause find_cause(const bgi_plan_device *device, const bgi_instruction *instruction)
{
    switch (instruction->action.kind) {
    case BG_ACTION_REDUCE:
    case BG_ACTION_GATHER:
        return BGI_CAUSE_REPLICAS;
    case BG_ACTION_LOAD:
    case BG_ACTION_STORE:
        return BGI_CAUSE_TRANSFERS;
    default:
        if (instruction->needs_sum || follows_waiting_sum(device, instruction))
            return BGI_CAUSE_REPLICAS;
        return instruction->io_wait > 0 || instruction->call_waits != NULL ? BGI_CAUSE_TRANSFERS : BGI_CAUSE_PIPELINE;
    }
}

typedef struct gap {
    uint64_t from, to;
    const bg_trace_event *event; /* the event after the gap; NULL if there is none */
    const bgi_instruction *instruction;
    bool begins_pass;
} gap;

static void add_gap(bgi_analysis *a, uint32_t slot, const sends *all, const gap *of, double loader_share)
{
    bgi_device_times *device = &a->devices[slot];
    const double outside = outside_runs(a, of->from, of->to);
    const bool crowded = is_crowded(a, device->rank);
    double inside = (double)(of->to - of->from) - outside;
    const bg_trace_event *send;

    device->cause_ns[BGI_CAUSE_DATA] += outside * loader_share;
    device->cause_ns[BGI_CAUSE_HOST] += outside * (1.0 - loader_share);
    if (!(inside > 0.0))
        return;
    if (of->event != NULL && of->event->action.kind == BG_ACTION_RECEIVE &&
        (send = find_send(all, of->event)) != NULL) {
        const double late = overlap(of->from, of->to, send->end_ns, UINT64_MAX);
        const uint32_t sender = slot - slot % a->summary.device_count + send->device;
        const bool crosses = a->devices[sender].rank != device->rank;
        const double waited = late < inside ? late : inside;
        device->cause_ns[crosses || !crowded ? BGI_CAUSE_LINK : BGI_CAUSE_CORES] += waited;
        if ((crosses || !crowded) && of->event->action.index < a->summary.edge_count)
            a->edge_wait_ns[of->event->action.index] += waited;
        device->cause_ns[BGI_CAUSE_PIPELINE] += inside - waited;
        return;
    }
    if (of->instruction != NULL && !of->begins_pass) {
        const bgi_cause cause = find_cause(&a->plan->devices[slot % a->summary.device_count], of->instruction);
        device->cause_ns[cause == BGI_CAUSE_PIPELINE && crowded ? BGI_CAUSE_CORES : cause] += inside;
        return;
    }
    device->cause_ns[BGI_CAUSE_PIPELINE] += inside;
}

static void analyze_device(bgi_analysis *a, uint32_t slot, const sends *all, double loader_share)
{
    const bgi_device_events *own = &a->events.devices[slot];
    const bgi_plan_device *program = &a->plan->devices[slot % a->summary.device_count];
    bgi_device_times *device = &a->devices[slot];
    uint64_t until = a->begin_ns;
    uint32_t pass = UINT32_MAX;

    for (uint32_t i = 0; i < own->count; i++) {
        const bg_trace_event *event = &own->events[i];
        const uint64_t start = event->start_ns > a->begin_ns ? event->start_ns : a->begin_ns;
        const uint32_t at = own->instructions[i];
        if (event->is_beside || !bgi_in_window(a, event))
            continue;
        if (start > until)
            add_gap(a, slot, all,
                    &(gap){.from = until,
                           .to = start,
                           .event = event,
                           .instruction = at != BGI_NO_INSTRUCTION ? &program->instructions[at] : NULL,
                           .begins_pass = pass != own->passes_after[i]},
                    loader_share);
        pass = own->passes_after[i];
        if (event->end_ns > until) {
            device->busy_ns += (double)(event->end_ns - (start > until ? start : until));
            until = event->end_ns;
        }
    }
    if (a->end_ns > until)
        add_gap(a, slot, all, &(gap){.from = until, .to = a->end_ns}, loader_share);
}

static void read_totals(bgi_analysis *a, uint32_t slot)
{
    bgi_device_times *device = &a->devices[slot];
    bgi_recorded recorded;

    if (!bgi_session_recorded(a->session, slot / a->summary.device_count, slot % a->summary.device_count, &recorded))
        return;
    device->rank = recorded.rank;
    for (int kind = 0; kind < BG_ACTION_KIND_COUNT; kind++) {
        device->kind_ns[kind] = (double)recorded.program.kind_ns[kind];
        device->kind_count[kind] = (double)recorded.program.kind_count[kind];
        device->beside_ns[kind] = (double)recorded.beside.kind_ns[kind];
        device->beside_count[kind] = (double)recorded.beside.kind_count[kind];
    }
    a->event_count += recorded.program.count + recorded.beside.count;
    a->dropped_count +=
        recorded.program.count > recorded.program.capacity ? recorded.program.count - recorded.program.capacity : 0;
    a->dropped_count +=
        recorded.beside.count > recorded.beside.capacity ? recorded.beside.count - recorded.beside.capacity : 0;
}

static bg_status analyze_devices(bgi_analysis *a, bg_error *error)
{
    const double between = (double)(a->runs.end_ns - a->runs.start_ns) - (double)a->runs.total_ns;
    const double loader_share = between > 0.0 && (double)a->loader_wait_ns < between
                                    ? (double)a->loader_wait_ns / between
                                : between > 0.0 && a->loader_wait_ns > 0 ? 1.0
                                                                         : 0.0;
    sends all = {.items = NULL};

    for (uint32_t s = 0; s < a->slots; s++)
        read_totals(a, s);
    BGI_TRY(list_sends(a, &all, error));
    for (uint32_t s = 0; s < a->slots; s++)
        if (a->events.devices[s].count > 0)
            analyze_device(a, s, &all, loader_share);
    return BG_OK;
}

/* ---- cores ---- */

typedef struct core_span {
    uint64_t start_ns, end_ns;
    uint32_t core; /* index in a->cores */
    uint32_t use;  /* 0: work, 1: help, 2: work that overlaps with a program */
} core_span;

static int compare_spans(const void *left, const void *right)
{
    const core_span *a = left, *b = right;

    if (a->core != b->core)
        return a->core < b->core ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->use < b->use ? -1 : a->use > b->use;
}

static uint32_t find_core(bgi_analysis *a, uint32_t rank, uint32_t worker)
{
    for (uint32_t i = 0; i < a->core_count; i++)
        if (a->cores[i].rank == rank && a->cores[i].worker == worker)
            return i;
    a->cores[a->core_count] = (bgi_core_times){.rank = rank, .worker = worker};
    return a->core_count++;
}

/* Sums the time of each core by use. Spans of a core may overlap, because a core that waits in one span may work in
 * another. Each moment counts once, for the span that began first. */
static void sum_cores(bgi_analysis *a, const core_span *spans, size_t count)
{
    uint64_t until = 0;

    for (size_t i = 0; i < count; i++) {
        bgi_core_times *core = &a->cores[spans[i].core];
        double *sum = spans[i].use == 0 ? &core->work_ns : spans[i].use == 1 ? &core->help_ns : &core->beside_ns;
        if (i == 0 || spans[i].core != spans[i - 1].core)
            until = a->begin_ns;
        if (spans[i].end_ns > until) {
            *sum +=
                overlap(spans[i].start_ns > until ? spans[i].start_ns : until, spans[i].end_ns, a->begin_ns, a->end_ns);
            until = spans[i].end_ns;
        }
    }
    for (uint32_t i = 0; i < a->core_count; i++)
        a->cores[i].idle_ns =
            (double)(a->end_ns - a->begin_ns) - a->cores[i].work_ns - a->cores[i].help_ns - a->cores[i].beside_ns;
}

static bg_status analyze_cores(bgi_analysis *a, bg_error *error)
{
    const uint32_t own = a->plan->options.execution.transport != NULL ? a->plan->options.execution.transport->rank : 0;
    size_t limit = 0, count = 0;
    core_span *spans;

    for (uint32_t s = 0; s < a->slots; s++)
        limit += a->events.devices[s].count;
    for (uint32_t r = 0; r < a->rank_count; r++)
        limit += (size_t)a->help_counts[r];
    limit += count_workers(a);
    spans = malloc((limit + 1) * sizeof *spans);
    a->cores = bgi_arena_allocate(&a->arena, limit + 1, sizeof *a->cores);
    if (spans == NULL || a->cores == NULL) {
        free(spans);
        return bgi_error_memory(error, "a profile", limit * sizeof *spans);
    }
    for (uint32_t w = 0; w < count_workers(a); w++)
        find_core(a, own, w);
    for (uint32_t s = 0; s < a->slots; s++)
        for (uint32_t i = 0; i < a->events.devices[s].count; i++) {
            const bg_trace_event *event = &a->events.devices[s].events[i];
            if (bgi_in_window(a, event))
                spans[count++] = (core_span){event->start_ns, event->end_ns,
                                             find_core(a, a->devices[s].rank, event->worker), event->is_beside ? 2 : 0};
        }
    for (uint32_t r = 0; r < a->rank_count; r++)
        for (uint64_t i = 0; i < a->help_counts[r]; i++)
            if (bgi_in_window(a, &a->helps[r][i]))
                spans[count++] = (core_span){a->helps[r][i].start_ns, a->helps[r][i].end_ns,
                                             find_core(a, r, a->helps[r][i].worker), 1};
    if (count > 0)
        qsort(spans, count, sizeof *spans, compare_spans);
    sum_cores(a, spans, count);
    free(spans);
    return BG_OK;
}

static bg_status read_helps(bgi_analysis *a, bg_error *error)
{
    a->helps = bgi_arena_allocate(&a->arena, a->rank_count, sizeof *a->helps);
    a->help_counts = bgi_arena_allocate(&a->arena, a->rank_count, sizeof *a->help_counts);
    if (a->helps == NULL || a->help_counts == NULL)
        return bgi_error_memory(error, "a profile", a->rank_count * sizeof *a->helps);
    for (uint32_t r = 0; r < a->rank_count; r++)
        BGI_TRY(bgi_session_helps(a->session, r, &a->helps[r], &a->help_counts[r], error));
    return BG_OK;
}

/* ---- calls ---- */

static uint32_t count_calls(const bg_plan *plan)
{
    uint32_t count = 0;
    const bgi_call *last = NULL;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            if (plan->devices[d].instructions[i].calls != last) {
                last = plan->devices[d].instructions[i].calls;
                count += plan->devices[d].instructions[i].call_count;
            }
    return count;
}

/* A pass over a stage, whose calls have consecutive rows in a->ops. */
typedef struct pass_rows {
    const bgi_call *calls;
    uint32_t call_count;
    uint32_t first; /* row of the first call */
} pass_rows;

/* Returns the pass that contains the calls of an instruction; NULL if there is none. An instruction may have only a
 * part of a pass's calls. */
static const pass_rows *find_pass(const pass_rows *passes, uint32_t count, const bgi_instruction *instruction)
{
    for (uint32_t p = count; p > 0; p--)
        if (instruction->calls >= passes[p - 1].calls &&
            instruction->calls < passes[p - 1].calls + passes[p - 1].call_count)
            return &passes[p - 1];
    return NULL;
}

static void start_row(const bgi_instruction *instruction, const bgi_call *call, bgi_op_row *row)
{
    *row = (bgi_op_row){.name = call->name != NULL ? call->name : "",
                        .block = call->block != NULL ? call->block : "",
                        .kernel = call->kernel.name != NULL ? call->kernel.name : "",
                        .kind = instruction->action.kind,
                        .stage = instruction->action.stage,
                        .flops = call->cost.flops,
                        .bytes = call->cost.bytes_read + call->cost.bytes_written};
}

static void add_times(const bgi_analysis *a, uint32_t device, uint32_t instruction, uint32_t call, bgi_op_row *row)
{
    for (uint32_t r = 0; r < a->summary.replicas; r++) {
        bgi_recorded recorded;
        const bgi_call_time *time;
        if (!bgi_session_recorded(a->session, r, device, &recorded) || recorded.times == NULL)
            continue;
        time = &recorded.times[recorded.first[instruction] + call];
        if (time->count == 0)
            continue;
        row->least_ns =
            row->count == 0 || (double)time->least_ns < row->least_ns ? (double)time->least_ns : row->least_ns;
        row->most_ns = (double)time->most_ns > row->most_ns ? (double)time->most_ns : row->most_ns;
        row->mean_ns =
            (row->mean_ns * (double)row->count + (double)time->total_ns) / (double)(row->count + time->count);
        row->count += time->count;
    }
}

/* Calls that only start a transfer or wait for other replicas are not timed as calls. */
static bool is_timed(const bgi_call *call)
{
    return !call->is_transfer && !call->is_collective;
}

static bg_status list_ops(bgi_analysis *a, bg_error *error)
{
    const bg_plan *plan = a->plan;
    const uint32_t limit = count_calls(plan);
    pass_rows *passes;
    uint32_t pass_count, most = 1;

    for (uint32_t d = 0; d < plan->device_count; d++)
        most = plan->devices[d].instruction_count > most ? plan->devices[d].instruction_count : most;
    a->ops = bgi_arena_allocate(&a->arena, (size_t)limit + 1, sizeof *a->ops);
    passes = malloc(most * sizeof *passes);
    if (a->ops == NULL || passes == NULL) {
        free(passes);
        return bgi_error_memory(error, "a profile", limit * sizeof *a->ops);
    }
    for (uint32_t d = 0; d < plan->device_count; d++) {
        pass_count = 0;
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            const bgi_instruction *instruction = &plan->devices[d].instructions[i];
            const pass_rows *pass;
            uint32_t row;
            if (instruction->call_count == 0)
                continue;
            pass = find_pass(passes, pass_count, instruction);
            if (pass == NULL) {
                passes[pass_count] = (pass_rows){instruction->calls, instruction->call_count, a->op_count};
                pass = &passes[pass_count++];
                for (uint32_t c = 0; c < instruction->call_count && a->op_count < limit; c++)
                    if (is_timed(&instruction->calls[c])) {
                        start_row(instruction, &instruction->calls[c], &a->ops[a->op_count]);
                        add_times(a, d, i, c, &a->ops[a->op_count++]);
                    }
            }
            row = pass->first;
            for (const bgi_call *call = pass->calls; call < instruction->calls; call++)
                row += is_timed(call);
            for (uint32_t c = 0; c < instruction->call_count && row < a->op_count; c++)
                if (is_timed(&instruction->calls[c]))
                    a->ops[row++].calls_per_step += 1.0;
        }
    }
    free(passes);
    return BG_OK;
}

/* ---- stages ---- */

/* Returns the stage whose forward reads the value at an offset of a device's arena; the device's first stage if no
 * forward reads it. */
static uint32_t find_stage(const bg_plan *plan, const bgi_place *place)
{
    const bgi_plan_device *device = &plan->devices[place->device];

    for (uint32_t i = 0; i < device->instruction_count; i++) {
        const bgi_instruction *instruction = &device->instructions[i];
        if (instruction->action.kind != BG_ACTION_FORWARD || instruction->action.micro_batch != 0)
            continue;
        for (uint32_t c = 0; c < instruction->call_count; c++)
            for (uint32_t o = 0; o < instruction->calls[c].input_count; o++) {
                const bgi_operand *operand = &instruction->calls[c].operands[o];
                if (operand->memory == place->operand.memory && operand->edge == BGI_NO_EDGE &&
                    operand->offset == place->operand.offset)
                    return instruction->action.stage;
            }
    }
    for (uint32_t s = 0; s < plan->stage_count; s++)
        if (plan->stage_devices[s] == place->device)
            return s;
    return 0;
}

static void sum_stages(bgi_analysis *a)
{
    const bg_plan *plan = a->plan;
    const double micro_batches = a->summary.micro_batches_per_step > 0 ? a->summary.micro_batches_per_step : 1;

    for (uint32_t v = 0; v < plan->variable_count; v++) {
        const bgi_plan_variable *variable = &plan->variables[v];
        if (variable->role != BG_ROLE_PARAMETER || variable->place_count == 0)
            continue;
        bgi_stage_row *stage = &a->stages[find_stage(plan, &variable->places[0])];
        stage->parameters += (uint64_t)bg_type_element_count(&variable->type);
        stage->weight_bytes += bg_type_size_bytes(&variable->type);
    }
    for (uint32_t e = 0; e < plan->edge_count && e < plan->problem.edge_count; e++)
        if (plan->edges[e].is_stash && !plan->edges[e].is_remote)
            a->stages[plan->problem.edges[e].to_stage].stash_bytes += plan->edges[e].depth * plan->edges[e].slot_bytes;
    for (uint32_t i = 0; i < a->op_count; i++) {
        const bgi_op_row *op = &a->ops[i];
        const uint32_t block_count = plan->block_count;
        a->flops_per_step += op->flops * op->calls_per_step * a->summary.replicas;
        if (op->stage < plan->stage_count)
            a->stages[op->stage].flops += op->flops * op->calls_per_step / micro_batches;
        for (uint32_t b = 0; b < block_count; b++)
            if (strcmp(a->blocks[b].name, op->block) == 0 && a->blocks[b].stage == op->stage)
                a->blocks[b].step_ns += op->mean_ns * op->calls_per_step;
    }
}

static bg_status list_stages(bgi_analysis *a, bg_error *error)
{
    const bg_plan *plan = a->plan;
    bg_stage_cost *costs = bgi_arena_allocate(&a->arena, plan->stage_count, sizeof *costs);
    bg_error ignored = {0};

    a->stages = bgi_arena_allocate(&a->arena, plan->stage_count, sizeof *a->stages);
    a->blocks = bgi_arena_allocate(&a->arena, plan->block_count + 1, sizeof *a->blocks);
    if (costs == NULL || a->stages == NULL || a->blocks == NULL)
        return bgi_error_memory(error, "a profile", plan->stage_count * sizeof *a->stages);
    for (uint32_t b = 0; b < plan->block_count; b++)
        a->blocks[b] = (bgi_block_row){.name = plan->blocks[b].name, .stage = plan->blocks[b].stage};
    if (bg_profile_costs(a->session, plan, costs, &a->message_bytes_per_ns, &ignored) != BG_OK)
        memset(costs, 0, plan->stage_count * sizeof *costs);
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const bg_stage_cost *cost = &costs[s];
        a->stages[s] =
            (bgi_stage_row){.stage = s,
                            .device = plan->stage_devices[s],
                            .cost = *cost,
                            .step_ns = (cost->forward_ns + cost->recompute_ns + cost->backward_ns + cost->weights_ns) *
                                           a->summary.micro_batches_per_step +
                                       cost->update_ns};
    }
    sum_stages(a);
    return BG_OK;
}

/* ---- the whole analysis ---- */

/* Simulates the plan's schedule with the measured costs, as if each device had its own processor. */
static void simulate(bgi_analysis *a)
{
    bg_schedule_problem problem = a->plan->problem;
    bg_stage_cost *costs = bgi_arena_allocate(&a->arena, a->plan->stage_count, sizeof *costs);
    bg_error ignored = {0};

    if (costs == NULL || a->plan->schedule == NULL)
        return;
    for (uint32_t s = 0; s < a->plan->stage_count; s++)
        costs[s] = a->stages[s].cost;
    problem.costs = costs;
    problem.bytes_per_ns = a->message_bytes_per_ns;
    if (bg_schedule_simulate(a->plan->schedule, &problem, &a->simulated, &ignored) == BG_OK)
        a->simulated_ns = a->simulated.makespan;
}

static bg_status analyze(bgi_analysis *a, bgi_progress *progress, bg_error *error)
{
    BGI_TRY(bgi_progress_begin(progress, "analysis", 1, error));
    BGI_TRY(bgi_events_read(a->session, a->plan, &a->events, error));
    BGI_TRY(order_runs(a, error));
    a->devices = bgi_arena_allocate(&a->arena, a->slots, sizeof *a->devices);
    a->edge_wait_ns = bgi_arena_allocate(&a->arena, (size_t)a->summary.edge_count + 1, sizeof *a->edge_wait_ns);
    if (a->devices == NULL || a->edge_wait_ns == NULL)
        return bgi_error_memory(error, "a profile", a->slots * sizeof *a->devices);
    choose_window(a);
    BGI_TRY(analyze_devices(a, error));
    BGI_TRY(read_helps(a, error));
    BGI_TRY(analyze_cores(a, error));
    BGI_TRY(list_ops(a, error));
    BGI_TRY(list_stages(a, error));
    simulate(a);
    BGI_TRY(bgi_progress_begin(progress, "machine", 1, error));
    BGI_TRY(bgi_machine_measure(count_workers(a), &a->machine, error));
    BGI_TRY(bgi_progress_begin(progress, "insights", 1, error));
    bgi_find_insights(a);
    return BG_OK;
}

bg_status bgi_analyze(const bg_session *session, const bg_profile_notes *notes, bgi_progress *progress,
                      bgi_analysis *out, bg_error *error)
{
    const bg_plan *plan = bg_session_plan(session);

    *out = (bgi_analysis){.session = session,
                          .plan = plan,
                          .summary = bg_plan_summarize(plan),
                          .rank_count = bgi_session_rank_count(session),
                          .loader_wait_ns = notes != NULL ? notes->loader_wait_ns : 0};
    out->slots = out->summary.device_count * out->summary.replicas;
    if (bgi_session_runs(session) == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "profile: the plan must be created with options.reporting.trace");
    return analyze(out, progress, error);
}

void bgi_analysis_clear(bgi_analysis *analysis)
{
    for (uint32_t r = 0; analysis->helps != NULL && r < analysis->rank_count; r++)
        free(analysis->helps[r]);
    bg_schedule_timing_clear(&analysis->simulated);
    bgi_events_clear(&analysis->events);
    bgi_arena_clear(&analysis->arena);
}
