/*
 * final.c: sums gradients over replicas as soon as they are final. If a device would only wait in a REDUCE, the
 * preceding backward pass is cut: gradients that its later calls do not touch are summed while these calls run. This
 * file knows no schedule and no graph; it only reads each device's instructions.
 *
 *     B1 ............................ REDUCE 1 | U1
 *     B1 ........ REDUCE 1 | B1 ..... REDUCE 1 | B1 .. REDUCE 1 | U1       each REDUCE sums some of the variables
 *
 * Calls keep their order and each variable is still summed separately, so results do not change. No value lives longer,
 * so devices need no more memory. Each cut costs a synchronization of the replicas. So at least
 * options.replicas.reduce_bytes bytes, and 1 / MOST_CUTS of all bytes, must be final at a cut. The work of the calls
 * that remain (FLOPs and bytes) must be at least these bytes, so that the sum ends before the calls do. Strict plans
 * are not cut, and neither is the pass before a REDUCE that already overlaps with other passes.
 */
#include "plan/compile.h"

#include <stdlib.h>

#include "core/error.h"

enum { MOST_CUTS = 8 };

/* The gradient of a variable of a REDUCE. */
typedef struct gradient {
    bgi_extent where;
    uint32_t number;      /* its index in the REDUCE */
    uint32_t final_after; /* the number of calls of the backward pass after which the gradient is final */
} gradient;

/* A backward pass that is cut into parts. */
typedef struct cutting {
    const bgi_instruction *backward, *sum;
    gradient *gradients; /* the gradients of the sum, in the order in which they become final */
    uint32_t gradient_count;
    uint32_t count;            /* places where the backward pass is cut */
    uint32_t after[MOST_CUTS]; /* by cut: the number of calls of the backward pass after which the gradients that are
                                  final by then are summed */
} cutting;

typedef struct cutter {
    bgi_compiler *compiler;
    const bgi_plan_device *on;
    cutting *cuts;
    uint32_t cut_count;
    bgi_extent *places; /* memory for the extents of the largest sum */
    uint32_t *at;       /* by instruction: 1 + the cut whose backward pass or sum it is; 0: no cut */
} cutter;

/* ---- when gradients become final ---- */

static int compare_places(const void *a, const void *b)
{
    const gradient *x = a, *y = b;

    return x->where.begin < y->where.begin ? -1 : x->where.begin > y->where.begin;
}

static int compare_finals(const void *a, const void *b)
{
    const gradient *x = a, *y = b;

    if (x->final_after != y->final_after)
        return x->final_after < y->final_after ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Records that call number `calls` (from 1) of the backward pass touches an extent; gradients are in the order of their
 * addresses. */
static void touch(gradient *gradients, uint32_t count, bgi_extent touched, uint32_t calls)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (gradients[middle].where.end > touched.begin)
            high = middle;
        else
            low = middle + 1;
    }
    for (; low < count && gradients[low].where.begin < touched.end; low++)
        gradients[low].final_after = calls;
}

static void touch_by_call(const bg_plan *plan, const bgi_call *call, gradient *gradients, uint32_t count,
                          uint32_t calls)
{
    bgi_extent touched;

    if (bgi_call_meets_replicas(call))
        touch(gradients, count, (bgi_extent){0, SIZE_MAX}, calls);
    for (uint32_t i = 0; i <= call->input_count + call->output_count; i++)
        if (bgi_call_extent(plan, call, i, &touched))
            touch(gradients, count, touched, calls);
}

/* Sorts the gradients by the calls after which they are final. Returns whether the backward pass touches any of them.
 */
static bool find_finals(const bg_plan *plan, const bgi_instruction *backward, gradient *gradients, uint32_t count)
{
    qsort(gradients, count, sizeof *gradients, compare_places);
    for (uint32_t i = 0; i < count; i++)
        gradients[i].final_after = 0;
    for (uint32_t c = 0; c < backward->call_count; c++)
        touch_by_call(plan, &backward->calls[c], gradients, count, c + 1);
    qsort(gradients, count, sizeof *gradients, compare_finals);
    return gradients[count - 1].final_after > 0;
}

/* ---- where to cut ---- */

static size_t bytes_of(const gradient *of)
{
    return of->where.end - of->where.begin;
}

static double work_of(const bgi_call *call)
{
    return call->cost.flops + call->cost.bytes_read + call->cost.bytes_written;
}

static void choose_places(const bg_plan *plan, cutting *cut)
{
    size_t total = 0, ready = 0, least;
    double left = 0.0;
    uint32_t next = 0;

    for (uint32_t i = 0; i < cut->gradient_count; i++)
        total += bytes_of(&cut->gradients[i]);
    least = total / MOST_CUTS > plan->options.replicas.reduce_bytes ? total / MOST_CUTS
                                                                    : plan->options.replicas.reduce_bytes;
    for (uint32_t c = 0; c < cut->backward->call_count; c++)
        left += work_of(&cut->backward->calls[c]);
    for (uint32_t c = 0; c < cut->backward->call_count && cut->count < MOST_CUTS; c++) {
        for (; next < cut->gradient_count && cut->gradients[next].final_after == c; next++)
            ready += bytes_of(&cut->gradients[next]);
        if (ready >= least && left >= (double)ready && next < cut->gradient_count) {
            cut->after[cut->count++] = c;
            ready = 0;
        }
        left -= work_of(&cut->backward->calls[c]);
    }
}

/* Finds the last pass before the sum that touches the summed variables (the only one that is cut), and chooses where to
 * cut it. */
static bg_status find_cut(cutter *k, uint32_t sum, bg_error *error)
{
    const bg_plan *plan = k->compiler->plan;
    const bgi_instruction *list = k->on->instructions;
    cutting *found = &k->cuts[k->cut_count];
    uint32_t at = sum;

    *found = (cutting){.sum = &list[sum], .gradient_count = list[sum].reduced_count};
    found->gradients = bgi_arena_allocate(&k->compiler->scratch, found->gradient_count, sizeof *found->gradients);
    if (found->gradients == NULL)
        return bgi_error_memory(error, "sums of gradients", found->gradient_count * sizeof *found->gradients);
    for (uint32_t i = 0; i < found->gradient_count; i++)
        found->gradients[i] = (gradient){.where = bgi_summed_extent(plan, &list[sum].reduced[i]), .number = i};
    while (found->backward == NULL && at-- > 0) {
        const bg_action *action = &list[at].action;
        if (action->stage == list[sum].action.stage &&
            (action->kind == BG_ACTION_BACKWARD || action->kind == BG_ACTION_WEIGHTS) &&
            find_finals(plan, &list[at], found->gradients, found->gradient_count))
            found->backward = &list[at];
    }
    if (found->backward == NULL)
        return BG_OK;
    choose_places(plan, found);
    if (found->count > 0 && k->at[at] == 0)
        k->at[at] = k->at[sum] = ++k->cut_count;
    return BG_OK;
}

/* ---- rewriting the program ---- */

/* Writes a sum of those gradients from `first` on that are final after `calls` calls, or of all remaining gradients. */
static bg_status write_sum(const cutter *k, const cutting *cut, uint32_t *first, uint32_t calls, bgi_instruction *out,
                           bg_error *error)
{
    bgi_reduced *reduced;
    uint32_t end = *first;

    while (end < cut->gradient_count && cut->gradients[end].final_after <= calls)
        end++;
    reduced = bgi_arena_allocate(&k->compiler->plan->arena, end - *first, sizeof *reduced);
    if (reduced == NULL)
        return bgi_error_memory(error, "sums of gradients", (end - *first) * sizeof *reduced);
    for (uint32_t i = *first; i < end; i++)
        reduced[i - *first] = cut->sum->reduced[cut->gradients[i].number];
    *out = *cut->sum;
    out->reduced = reduced;
    out->reduced_count = end - *first;
    out->io_wait = cut->backward->io_wait; /* the backward pass has waited for these transfers */
    *first = end;
    return BG_OK;
}

/* Writes calls `begin` .. `end` - 1 of the backward pass, and the messages that leave among them. */
static uint32_t write_part(const cutter *k, const cutting *cut, uint32_t begin, uint32_t end, bgi_instruction *out)
{
    const bgi_instruction *list_end = k->on->instructions + k->on->instruction_count;
    const bool is_last = end == cut->backward->call_count;
    uint32_t count = 0;

    if (begin == end)
        return 0;
    out[count] = *cut->backward;
    out[count].calls += begin;
    out[count].call_count = end - begin;
    out[count].is_part = end - begin < cut->backward->call_count;
    if (!is_last) {
        out[count].releases = NULL;
        out[count].release_count = 0;
    }
    count++;
    for (const bgi_instruction *send = cut->backward + 1; send < list_end && send->action.kind == BG_ACTION_SEND;
         send++)
        if (send->after_calls > begin && send->after_calls <= end) {
            out[count] = *send;
            out[count++].after_calls = send->after_calls < end ? send->after_calls - begin : 0;
        }
    return count;
}

static bg_status write_parts(const cutter *k, const cutting *cut, bgi_instruction *out, uint32_t *count,
                             bg_error *error)
{
    uint32_t begin = 0, first = 0;

    for (uint32_t i = 0; i < cut->count; i++) {
        *count += write_part(k, cut, begin, cut->after[i], out + *count);
        BGI_TRY(write_sum(k, cut, &first, cut->after[i], &out[*count], error));
        out[(*count)++].is_part = true;
        begin = cut->after[i];
    }
    *count += write_part(k, cut, begin, cut->backward->call_count, out + *count);
    return BG_OK;
}

/* Writes the sum of the remaining gradients (at least one) where the whole sum was. After this instruction all sums are
 * complete. */
static bg_status write_rest(const cutter *k, const cutting *cut, bgi_instruction *out, uint32_t *count, bg_error *error)
{
    uint32_t first = 0;

    while (first < cut->gradient_count && cut->gradients[first].final_after <= cut->after[cut->count - 1])
        first++;
    BGI_TRY(write_sum(k, cut, &first, UINT32_MAX, &out[*count], error));
    out[(*count)++].io_wait = cut->sum->io_wait;
    return BG_OK;
}

static bg_status write_program(const cutter *k, bgi_plan_device *on, bg_error *error)
{
    const bgi_instruction *list = on->instructions;
    bgi_instruction *out;
    uint32_t count = 0;
    bool have_left = false; /* true for the SENDs after a cut backward pass; write_parts has already written those that
                               leave early */
    size_t most = on->instruction_count;

    for (uint32_t i = 0; i < k->cut_count; i++)
        most += 2 * (size_t)k->cuts[i].count;
    out = bgi_arena_allocate(&k->compiler->plan->arena, most, sizeof *out);
    if (out == NULL)
        return bgi_error_memory(error, "a program", most * sizeof *out);
    for (uint32_t i = 0; i < on->instruction_count; i++) {
        const cutting *cut = k->at[i] > 0 ? &k->cuts[k->at[i] - 1] : NULL;
        const bool is_backward = cut != NULL && cut->backward == &list[i];
        have_left = is_backward || (have_left && list[i].action.kind == BG_ACTION_SEND);
        if (is_backward)
            BGI_TRY(write_parts(k, cut, out, &count, error));
        else if (cut != NULL)
            BGI_TRY(write_rest(k, cut, out, &count, error));
        else if (!have_left || list[i].after_calls == 0)
            out[count++] = list[i];
    }
    on->instructions = out;
    on->instruction_count = count;
    return BG_OK;
}

/* Whether other passes already run during the sum. */
static bool has_passes_beside(const cutter *k, uint32_t device, uint32_t sum, uint32_t transfers_before)
{
    bool has_work;
    const uint32_t touch = bgi_find_first_touch(k->compiler->plan, device, sum, transfers_before, k->places, &has_work);

    for (uint32_t i = sum + 1; has_work && touch != BGI_NO_INSTRUCTION && i < touch; i++)
        if (k->on->instructions[i].call_count > 0 && k->on->instructions[i].action.kind < BG_ACTION_UPDATE)
            return true;
    return false;
}

static bg_status cut_device(bgi_compiler *c, uint32_t device, bg_error *error)
{
    bgi_plan_device *on = &c->plan->devices[device];
    cutter k = {.compiler = c,
                .on = on,
                .places = bgi_arena_allocate(&c->scratch, bgi_count_most_reduced(on), sizeof *k.places),
                .cuts = bgi_arena_allocate(&c->scratch, on->instruction_count, sizeof *k.cuts),
                .at = bgi_arena_allocate(&c->scratch, on->instruction_count, sizeof *k.at)};
    uint32_t transfers = 0;

    if (k.places == NULL || k.cuts == NULL || k.at == NULL)
        return bgi_error_memory(error, "sums of gradients", on->instruction_count * sizeof *k.cuts);
    for (uint32_t i = 0; i < on->instruction_count; i++) {
        const bgi_instruction *instruction = &on->instructions[i];
        transfers += bgi_count_transfers(instruction);
        if (instruction->action.kind == BG_ACTION_REDUCE && instruction->reduced_count > 0 &&
            !has_passes_beside(&k, device, i, transfers))
            BGI_TRY(find_cut(&k, i, error));
    }
    return k.cut_count > 0 ? write_program(&k, on, error) : BG_OK;
}

bg_status bgi_reduce_when_final(bgi_compiler *c, bg_error *error)
{
    const bool is_asked_for = c->plan->options.replicas.reduce_bytes > 0 && bgi_reduces_in_backward(c->plan);

    if (!is_asked_for || bgi_plan_data_replicas(c->plan) <= 1 || bgi_plan_is_strict(c->plan))
        return BG_OK;
    for (uint32_t d = 0; d < c->plan->device_count; d++)
        BGI_TRY(cut_device(c, d, error));
    return BG_OK;
}
