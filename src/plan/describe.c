/*
 * describe.c: prints a finished plan: memory, placement, programs.
 */
#include "plan/describe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/transport.h>

#include "core/error.h"
#include "core/text.h"
#include "plan/items.h"
#include "plan/options.h"

const char *bg_memory_class_name(bg_memory_class memory_class)
{
    static const char *const names[BG_MEMORY_CLASS_COUNT] = {"weights",   "gradients", "state",   "stash",
                                                             "transient", "stream",    "windows", "remote"};

    return (unsigned)memory_class < BG_MEMORY_CLASS_COUNT ? names[memory_class] : "unknown";
}

const bg_options *bg_plan_options(const bg_plan *plan)
{
    return &plan->options;
}

const bg_optimizer *bg_plan_optimizer(const bg_plan *plan)
{
    return plan->training ? &plan->optimizer : NULL;
}

bg_plan_summary bg_plan_summarize(const bg_plan *plan)
{
    const bg_transport *transport = plan->options.execution.transport;
    bg_plan_summary summary = plan->summary;

    /* A plan is the same for any number of ranks, so the number is not stored in it. */
    summary.ranks = transport != NULL ? transport->rank_count : 1;
    summary.variable_count = plan->variable_count;
    summary.block_count = plan->block_count;
    summary.edge_count = plan->edge_count;
    summary.update_levels = plan->training ? plan->problem.update_level_count : 0;
    summary.data_replicas = plan->training ? bgi_plan_data_replicas(plan) : 1;
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            summary.sums += plan->devices[d].instructions[i].reduced_count > 0 &&
                            plan->devices[d].instructions[i].action.kind == BG_ACTION_REDUCE;
            summary.sums_beside += plan->devices[d].instructions[i].is_beside;
        }
    for (uint32_t v = 0; v < plan->variable_count; v++)
        if (plan->variables[v].role == BG_ROLE_ACCUMULATOR && plan->variables[v].piece_count > 0)
            summary.bytes_not_stored +=
                bg_type_size_bytes(&plan->variables[v].type) - bgi_plan_variable_bytes(&plan->variables[v]);
    return summary;
}

size_t bg_plan_memory_bytes(const bg_plan *plan, uint32_t device, bg_memory_class memory_class)
{
    if (device >= plan->device_count || (unsigned)memory_class >= BG_MEMORY_CLASS_COUNT)
        return 0;
    return plan->devices[device].class_bytes[memory_class];
}

size_t bg_plan_device_bytes(const bg_plan *plan, uint32_t device)
{
    return device < plan->device_count ? plan->devices[device].arena_bytes : 0;
}

const bg_schedule *bg_plan_schedule(const bg_plan *plan)
{
    return plan->schedule;
}

bg_status bg_plan_print_timetable(const bg_plan *plan, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));
    return bg_schedule_timetable(plan->schedule, &plan->problem, out_text, error);
}

/* Writes "1.23 MB": powers of 1000, three digits. */
const char *bgi_bytes_text(uint64_t bytes, char *text)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1000.0 && unit + 1 < sizeof units / sizeof units[0])
        value /= 1000.0, unit++;
    snprintf(text, BGI_BYTES_TEXT_BYTES,
             unit == 0       ? "%.0f %s"
             : value < 10.0  ? "%.2f %s"
             : value < 100.0 ? "%.1f %s"
                             : "%.0f %s",
             value, units[unit]);
    return text;
}

/* ---- memory ---- */

/* Whether the table has a column for the class before the total. Remote bytes have a column at the end; windows have
 * one only if there are any. */
static bool has_column(const bg_plan *plan, int memory_class)
{
    bool has_windows = false;

    for (uint32_t d = 0; d < plan->device_count; d++)
        has_windows = has_windows || plan->devices[d].class_bytes[BG_MEMORY_WINDOW] > 0;
    return memory_class != BG_MEMORY_REMOTE && (memory_class != BG_MEMORY_WINDOW || has_windows);
}

static void add_memory_rows(bgi_string *text, const bg_plan *plan)
{
    bgi_string_add(text, "%-8s", "bytes");
    for (int k = 0; k < BG_MEMORY_CLASS_COUNT; k++)
        if (has_column(plan, k))
            bgi_string_add(text, " %11s", bg_memory_class_name((bg_memory_class)k));
    bgi_string_add(text, " %11s %11s %11s\n", "device", "budget", "remote");
    for (uint32_t d = 0; d < plan->device_count; d++) {
        const bgi_plan_device *device = &plan->devices[d];
        bgi_string_add(text, "device %u", d);
        for (int k = 0; k < BG_MEMORY_CLASS_COUNT; k++)
            if (has_column(plan, k))
                bgi_string_add(text, " %11zu", device->class_bytes[k]);
        bgi_string_add(text, " %11zu", device->arena_bytes);
        if (bgi_options_budget(&plan->options, d) != 0)
            bgi_string_add(text, " %11zu", bgi_options_budget(&plan->options, d));
        else
            bgi_string_add(text, " %11s", "unlimited");
        bgi_string_add(text, " %11zu\n", device->remote_bytes);
    }
}

bg_status bg_plan_print_memory(const bg_plan *plan, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};

    add_memory_rows(&text, plan);
    return bgi_string_finish(&text, out_text, error);
}

static bg_memory_class find_largest_class(const bg_plan *plan, uint32_t device)
{
    bg_memory_class largest = BG_MEMORY_WEIGHTS;

    for (int k = 0; k < BG_MEMORY_CLASS_COUNT; k++)
        if (k != BG_MEMORY_REMOTE && plan->devices[device].class_bytes[k] > plan->devices[device].class_bytes[largest])
            largest = (bg_memory_class)k;
    return largest;
}

/* ---- advice for a device that is over its budget ---- */

/* What would make a class of memory smaller: "a, b, or c". */
typedef struct advice {
    const char *items[4];
    unsigned count;
    char smaller[64], schedule[128]; /* texts that items refer to */
} advice;

static void add_advice(advice *a, const char *item)
{
    a->items[a->count++] = item;
}

/* Advises more stages only if another stage could begin on the device. */
static void add_more_stages(advice *a, const bg_plan *plan, bool divides)
{
    if (divides)
        add_advice(a, plan->options.execution.strategy != BG_STRATEGY_SINGLE
                          ? "use more stages"
                          : "use a strategy with stages (--strategy pipelined)");
}

static void add_smaller_micro_batch(advice *a, const bg_plan *plan)
{
    const uint32_t micro_batch = bg_plan_summarize(plan).micro_batch;

    if (micro_batch <= 1)
        return;
    snprintf(a->smaller, sizeof a->smaller, "use a smaller micro-batch (now %u)", micro_batch);
    add_advice(a, a->smaller);
}

static void print_advice(bgi_string *text, const advice *a)
{
    if (a->count == 0)
        bgi_string_add(text, "; raise the budget");
    for (unsigned i = 0; i < a->count; i++)
        bgi_string_add(text, "%s%s", i == 0 ? "; " : i + 1 < a->count ? ", " : ", or ", a->items[i]);
}

/* Finds the edge to the device whose slots together are the largest; NULL: there is none. */
static const bgi_plan_edge *find_largest_edge(const bg_plan *plan, uint32_t device, bool is_stash)
{
    const bgi_plan_edge *largest = NULL;
    size_t most = 0;

    for (uint32_t e = 0; e < plan->edge_count; e++) {
        const bgi_plan_edge *edge = &plan->edges[e];
        if (edge->to_device == device && !edge->is_ring && edge->is_stash == is_stash &&
            edge->slot_bytes * edge->depth > most) {
            most = edge->slot_bytes * edge->depth;
            largest = edge;
        }
    }
    return largest;
}

/* Adds the schedules that would make the largest stash of the device smaller. In a pipeline of N stages, `interleaved`
 * stashes N - k micro-batches in stage k, and `sequential` stashes one. */
static void add_schedule_advice(advice *a, const bg_plan *plan, uint32_t device)
{
    const char *name = plan->options.execution.schedule;
    const bgi_plan_edge *largest = find_largest_edge(plan, device, true);
    bool is_shorter;

    if (plan->options.execution.strategy != BG_STRATEGY_PIPELINED || plan->device_count == 1 || largest == NULL ||
        largest->depth <= 1 || (name != NULL && strcmp(name, "sequential") == 0))
        return;
    is_shorter = name != NULL && strcmp(name, "interleaved") != 0 &&
                 largest->depth > plan->stage_count - plan->problem.edges[largest - plan->edges].to_stage;
    snprintf(a->schedule, sizeof a->schedule, "use a schedule with fewer micro-batches in flight (%s`sequential`)",
             is_shorter ? "`interleaved` or " : "");
    add_advice(a, a->schedule);
}

static void add_stash_remedy(advice *a, const bg_plan *plan, uint32_t device, bool divides)
{
    if (plan->options.memory.recompute == BG_RECOMPUTE_NONE)
        add_advice(a, "recompute activations instead of stashing them (--recompute auto)");
    add_schedule_advice(a, plan, device);
    add_more_stages(a, plan, divides);
    add_smaller_micro_batch(a, plan);
}

/* A device that works on one stage at a time holds fewer remote tensors when it loads them on demand. A device with one
 * stage needs them all. */
static void add_window_remedy(advice *a, const bg_plan *plan, bool divides)
{
    add_more_stages(a, plan, divides);
    if (plan->options.execution.strategy == BG_STRATEGY_PHASED && !plan->options.execution.phases_parallel &&
        plan->options.memory.phase_liveness != BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE)
        add_advice(a, "load remote tensors on demand (--phase-liveness off_chip_after_each_phase)");
}

/* Adds advice for transient memory, with only those remedies that are not in use yet. */
static void add_transient_remedy(advice *a, const bg_plan *plan, uint32_t device, bool divides)
{
    const bool offloads = plan->devices[device].class_bytes[BG_MEMORY_STATE] > 0,
               recomputes = plan->options.memory.recompute == BG_RECOMPUTE_NONE &&
                            plan->devices[device].class_bytes[BG_MEMORY_STASH] > 0;

    add_more_stages(a, plan, divides);
    add_smaller_micro_batch(a, plan);
    add_advice(a, "split this op over devices (tensor parallelism)");
    if (offloads || recomputes)
        add_advice(a, offloads && recomputes
                          ? "keep something else off the device (--offload optimizer, --recompute auto)"
                      : offloads ? "keep something else off the device (--offload optimizer)"
                                 : "keep something else off the device (--recompute auto)");
}

/* Adds advice that makes a class of memory smaller. `divides`: another stage could begin on the device. */
static void add_remedy(bgi_string *text, const bg_plan *plan, uint32_t device, bg_memory_class class, bool divides)
{
    advice a = {.count = 0};

    switch (class) {
    case BG_MEMORY_STATE:
        add_advice(&a, "offload the optimizer's state (--offload optimizer)");
        add_more_stages(&a, plan, divides);
        break;
    case BG_MEMORY_WINDOW:
        add_window_remedy(&a, plan, divides);
        break;
    case BG_MEMORY_STASH:
        add_stash_remedy(&a, plan, device, divides);
        break;
    case BG_MEMORY_TRANSIENT:
        add_transient_remedy(&a, plan, device, divides);
        break;
    case BG_MEMORY_STREAM:
        add_more_stages(&a, plan, divides);
        add_smaller_micro_batch(&a, plan);
        break;
    default:
        add_more_stages(&a, plan, divides);
        if (plan->devices[device].class_bytes[BG_MEMORY_STATE] > 0)
            add_advice(&a, "offload the optimizer's state (--offload optimizer)");
    }
    print_advice(text, &a);
}

/* Returns the bytes that a call reads and writes in its device's transient memory (the end of the arena), plus its
 * scratch memory. */
static size_t transient_bytes(const bgi_plan_device *device, const bgi_call *call)
{
    const size_t begin = device->arena_bytes - device->class_bytes[BG_MEMORY_TRANSIENT];
    size_t total = call->kernel.scratch_bytes;

    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const bgi_operand *operand = &call->operands[i];
        bool is_first = operand->memory == BGI_MEMORY_ARENA && operand->edge == BGI_NO_EDGE && operand->offset >= begin;
        for (uint32_t before = 0; before < i && is_first; before++)
            is_first =
                call->operands[before].memory != BGI_MEMORY_ARENA || call->operands[before].offset != operand->offset;
        if (is_first)
            total += bg_type_size_bytes(&call->types[i]);
    }
    return total;
}

static void add_largest_op(bgi_string *text, const bgi_plan_device *device)
{
    const bgi_call *largest = NULL;
    size_t most = 0;
    char size[32];

    for (uint32_t i = 0; i < device->instruction_count; i++)
        for (uint32_t c = 0; c < device->instructions[i].call_count; c++) {
            const size_t bytes = transient_bytes(device, &device->instructions[i].calls[c]);
            if (bytes > most) {
                most = bytes;
                largest = &device->instructions[i].calls[c];
            }
        }
    if (largest != NULL)
        bgi_string_add(text, ", of which the op `%s`%s%s needs %s at once", largest->name,
                       largest->block[0] != '\0' ? " of block " : "", largest->block, bgi_bytes_text(most, size));
}

static void add_largest_edge(bgi_string *text, const bg_plan *plan, uint32_t device, bool is_stash)
{
    const bgi_plan_edge *largest = find_largest_edge(plan, device, is_stash);
    char size[32];

    if (largest != NULL)
        bgi_string_add(text, ", and the largest part of it is %s of stage %u, %u slot%s of %zu bytes, %s",
                       is_stash ? "the stash" : "the stream", plan->problem.edges[largest - plan->edges].to_stage,
                       largest->depth, largest->depth == 1 ? "" : "s", largest->slot_bytes,
                       bgi_bytes_text(largest->slot_bytes * largest->depth, size));
}

static void add_largest_variable(bgi_string *text, const bg_plan *plan, uint32_t device)
{
    const char *name = NULL;
    size_t most = 0;
    char size[32];

    for (uint32_t v = 0; v < plan->variable_count; v++)
        for (uint32_t p = 0; p < plan->variables[v].place_count; p++)
            if (plan->variables[v].places[p].device == device &&
                plan->variables[v].places[p].operand.memory == BGI_MEMORY_ARENA &&
                bgi_plan_variable_bytes(&plan->variables[v]) > most) {
                most = bgi_plan_variable_bytes(&plan->variables[v]);
                name = plan->variables[v].name;
            }
    if (name != NULL)
        bgi_string_add(text, ", and the largest variable is `%s`, %s", name, bgi_bytes_text(most, size));
}

/* Names the largest user of a class of memory on a device. */
static void add_largest(bgi_string *text, const bg_plan *plan, uint32_t device, bg_memory_class class)
{
    if (class == BG_MEMORY_TRANSIENT)
        add_largest_op(text, &plan->devices[device]);
    else if (class == BG_MEMORY_STASH || class == BG_MEMORY_STREAM)
        add_largest_edge(text, plan, device, class == BG_MEMORY_STASH);
    else if (class != BG_MEMORY_WINDOW)
        add_largest_variable(text, plan, device);
}

static size_t bytes_over(const bg_plan *plan, uint32_t device)
{
    const size_t budget = bgi_options_budget(&plan->options, device), need = plan->devices[device].arena_bytes;

    return budget != 0 && need > budget ? need - budget : 0;
}

bg_status bgi_describe_over_budget(const bgi_compiler *compiler, const bg_plan *plan, bg_error *error)
{
    bgi_string text = {0};
    char need[32], have[32], part[32];
    uint32_t worst = 0;
    bg_memory_class largest;
    size_t budget;

    for (uint32_t d = 1; d < plan->device_count; d++)
        if (bytes_over(plan, d) > bytes_over(plan, worst))
            worst = d;
    budget = bgi_options_budget(&plan->options, worst);
    largest = find_largest_class(plan, worst);
    bgi_string_add(&text, "device %u needs %s (%zu bytes), but its budget is %s (%zu bytes); most of it is %s (%s)",
                   worst, bgi_bytes_text(plan->devices[worst].arena_bytes, need), plan->devices[worst].arena_bytes,
                   bgi_bytes_text(budget, have), budget, bg_memory_class_name(largest),
                   bgi_bytes_text(plan->devices[worst].class_bytes[largest], part));
    add_largest(&text, plan, worst, largest);
    add_remedy(&text, plan, worst, largest, bgi_device_divides(compiler, worst));
    bgi_string_add(&text, "\n");
    add_memory_rows(&text, plan);
    if (text.length > 0 && !text.failed)
        text.data[text.length - 1] = '\0'; /* an error must not end in a newline */
    bg_error_set(error, BG_ERROR_BUDGET, "%s", text.data != NULL ? text.data : "a device is over its budget");
    bgi_string_clear(&text);
    return BG_ERROR_BUDGET;
}

/* ---- placement ---- */

bg_status bg_plan_print_placement(const bg_plan *plan, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};

    for (uint32_t b = 0; b < plan->block_count; b++)
        bgi_string_add(&text, "block %s: stage %u, device %u\n", plan->blocks[b].name, plan->blocks[b].stage,
                       plan->stage_devices[plan->blocks[b].stage]);
    return bgi_string_finish(&text, out_text, error);
}

/* ---- programs ---- */

/* Writes "d0+64" for the arena of device 0, "d0+64[e2]" for slots there, "remote 0+64", or "e1+64" for a message of
 * edge 1. */
static void add_operand(bgi_string *text, uint32_t device, const bgi_operand *operand)
{
    const bool is_window = operand->memory == BGI_MEMORY_WINDOW;

    bgi_string_add(text, "%s%u+%zu",
                   is_window                              ? "e"
                   : operand->memory == BGI_MEMORY_REMOTE ? "remote "
                                                          : "d",
                   is_window ? operand->edge : device, operand->offset);
    if (operand->stride != 0)
        bgi_string_add(text, "+r*%zu", operand->stride);
    if (operand->edge != BGI_NO_EDGE && !is_window)
        bgi_string_add(text, "[e%u]", operand->edge);
}

static void add_call(bgi_string *text, uint32_t device, const bgi_call *call)
{
    bgi_string_add(text, "    %s `%s`", call->kernel.name, call->name);
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        bgi_string_add(text, "%s", i == call->input_count ? " -> " : i == 0 ? " " : ", ");
        add_operand(text, device, &call->operands[i]);
    }
    bgi_string_add(text, "\n");
}

static void add_instruction(bgi_string *text, uint32_t device, const bgi_instruction *instruction)
{
    const bg_action *action = &instruction->action;

    bgi_string_add(text, "  %s stage %u micro-batch %u", bg_action_kind_name(action->kind), action->stage,
                   action->micro_batch);
    if (action->kind == BG_ACTION_SEND || action->kind == BG_ACTION_RECEIVE)
        bgi_string_add(text, " edge %u", action->index);
    if (instruction->after_calls > 0)
        bgi_string_add(text, " after call %u", instruction->after_calls);
    if (action->kind == BG_ACTION_UPDATE)
        bgi_string_add(text, " level %u", action->index);
    if (instruction->is_part)
        bgi_string_add(text, " in part");
    for (uint32_t i = 0; i < instruction->acquire_count; i++)
        bgi_string_add(text, " acquire e%u", instruction->acquires[i]);
    for (uint32_t i = 0; i < instruction->release_count; i++)
        bgi_string_add(text, " release e%u", instruction->releases[i]);
    if (instruction->issues > 0)
        bgi_string_add(text, " buffer %u, %u transfers", action->index, instruction->issues);
    if (instruction->io_wait > 0)
        bgi_string_add(text, " after transfer %u", instruction->io_wait);
    if (instruction->is_beside)
        bgi_string_add(text, " beside what follows");
    if (instruction->needs_sum)
        bgi_string_add(text, " after the sum");
    bgi_string_add(text, "\n");
    for (uint32_t i = 0; i < instruction->call_count; i++) {
        if (instruction->call_waits != NULL && instruction->call_waits[i] > 0)
            bgi_string_add(text, "    after transfer %u\n", instruction->call_waits[i]);
        add_call(text, device, &instruction->calls[i]);
    }
    for (uint32_t i = 0; i < instruction->copy_count; i++) {
        bgi_string_add(text, "    copy %zu bytes ", instruction->copies[i].size_bytes);
        add_operand(text, device, &instruction->copies[i].operand);
        bgi_string_add(text, "\n");
    }
    for (uint32_t i = 0; i < instruction->reduced_count; i++) {
        const bgi_reduced *reduced = &instruction->reduced[i];
        bgi_string_add(text, "    %" PRId64 " elements ", reduced->element_count);
        add_operand(text, device, &reduced->operand);
        if (reduced->piece_count > 0)
            bgi_string_add(text, ", pieces of %" PRId64, reduced->piece_count);
        bgi_string_add(text, "\n");
    }
}

bg_status bg_plan_print_program(const bg_plan *plan, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};

    for (uint32_t e = 0; e < plan->edge_count; e++)
        bgi_string_add(&text, "edge %u: device %u -> %u, %u slots of %zu bytes at %zu%s%s\n", e,
                       plan->edges[e].from_device, plan->edges[e].to_device, plan->edges[e].depth,
                       plan->edges[e].slot_bytes, plan->edges[e].offset, plan->edges[e].is_stash ? ", stash" : "",
                       plan->edges[e].per_step    ? ", once a step"
                       : plan->edges[e].is_remote ? ", remote"
                       : plan->edges[e].is_ring   ? ", ring"
                                                  : "");
    for (uint32_t d = 0; d < plan->device_count; d++) {
        bgi_string_add(&text, "device %u: %zu bytes, %zu remote\n", d, plan->devices[d].arena_bytes,
                       plan->devices[d].remote_bytes);
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            add_instruction(&text, d, &plan->devices[d].instructions[i]);
    }
    return bgi_string_finish(&text, out_text, error);
}
