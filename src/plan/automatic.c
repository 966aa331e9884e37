/*
 * automatic.c: converts a graph to a line of items (items.h), which balance.h cuts, and converts the cut to stages.
 *
 *     ops          a b | c d e | f g        blocks, or single ops with "auto-ops"
 *     items        [a b c] [d e] [f] [g]    ops that must stay together form one item
 *     stages       [a b c] [d e | f g]      the longest stage is as short as possible
 *
 * Costs and memory are those of the training graph itself. A copy of the model is turned into a training graph with
 * each item as a stage, and the pass that estimates the costs of stages thereby estimates those of items. Transients,
 * messages and host buffers are not counted, because they are known only when the plan is made. A plan that exceeds a
 * budget shows how many bytes were not counted: the next cut counts them too, and avoids the stage that did not fit. A
 * device's memory depends almost only on the items of its own stages, so a stage that did not fit is never tried again.
 * At most MOST_TRIES cuts are tried.
 */
#include "plan/automatic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/log.h"
#include "core/text.h"
#include "plan/balance.h"
#include "plan/costs.h"
#include "plan/devices.h"
#include "plan/items.h"

#define NO_ITEM UINT32_MAX

typedef struct bgi_chooser {
    bgi_compiler *compiler;
    bgi_cuts *cuts;
    const bg_options *options;
    bg_graph *graph; /* the compiler's */
    bgi_arena scratch;
    bool cuts_blocks;
    uint32_t stage_count;
    uint32_t *op_items; /* by op: its item, and after the cut its stage */
    uint32_t item_count;
    bgi_balance_item *items;
    uint32_t *first; /* by stage: its first item */
} bgi_chooser;

/* The largest number of cuts that are tried for one plan. */
enum { MOST_TRIES = 64 };

static const char by_blocks[] = "auto:", by_ops[] = "auto-ops:";

bool bgi_stages_are_automatic(const char *text)
{
    return text != NULL &&
           (strncmp(text, by_blocks, strlen(by_blocks)) == 0 || strncmp(text, by_ops, strlen(by_ops)) == 0);
}

static bg_status read_text(bgi_chooser *c, bg_error *error)
{
    const char *text = c->options->execution.stages, *digits;
    char *end = NULL;
    unsigned long count;

    c->cuts_blocks = strncmp(text, by_ops, strlen(by_ops)) == 0;
    digits = text + strlen(c->cuts_blocks ? by_ops : by_blocks);
    count = digits[0] >= '0' && digits[0] <= '9' ? strtoul(digits, &end, 10) : 0;
    if (count < 1 || count > BGI_MOST_DEVICES || *end != '\0')
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "stages are `%s`; automatic stages are written \"auto:4\" or \"auto-ops:4\", with a number from 1 to "
            "%d",
            text, BGI_MOST_DEVICES);
    c->stage_count = (uint32_t)count;
    return BG_OK;
}

/* ---- items ---- */

static bg_status find_items(bgi_chooser *c, bg_error *error)
{
    bgi_items items = {.are_ops = c->cuts_blocks};

    BGI_TRY(bgi_items_find(c->graph, c->compiler->plan->training, &c->scratch, &items, error));
    c->cuts_blocks = items.are_ops;
    c->op_items = items.op_items;
    c->item_count = items.count;
    return BG_OK;
}

static bg_status check_count(const bgi_chooser *c, bg_error *error)
{
    if (c->stage_count > c->item_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "stages `%s`: the model can be cut into at most %u stages%s; ask for fewer",
                            c->options->execution.stages, c->item_count,
                            c->cuts_blocks ? "" : " at block borders (auto-ops cuts inside blocks too)");
    return BG_OK;
}

/* ---- costs and memory of items ---- */

/* The model with each item as a stage. */
typedef struct bgi_trial {
    bg_graph *graph;
    bgi_stages stages;
    bgi_partition partition;
} bgi_trial;

static bg_status make_trial(bgi_chooser *c, bg_value loss, bgi_trial *t, bg_error *error)
{
    const bg_plan *plan = c->compiler->plan;
    bg_options quiet = plan->options;

    bgi_disable_log(&quiet);
    BGI_TRY(bgi_graph_clone(c->graph, &t->graph, error));
    if (c->cuts_blocks)
        BGI_TRY(bgi_split_blocks(t->graph, c->op_items, c->item_count, error));
    t->stages.block_stages = malloc(t->graph->block_count * sizeof *t->stages.block_stages);
    if (t->stages.block_stages == NULL)
        return bgi_error_memory(error, "automatic stages", t->graph->block_count * sizeof *t->stages.block_stages);
    memset(t->stages.block_stages, 0xff, t->graph->block_count * sizeof *t->stages.block_stages);
    for (uint32_t item = 0; item < c->item_count; item++)
        if (!bgi_stages_add(&t->stages, item, item, item))
            return bgi_error_memory(error, "automatic stages", 0);
    for (size_t o = 0; o < t->graph->op_count; o++)
        t->stages.block_stages[t->graph->ops[o].block] = c->op_items[o];
    t->stages.block_stages[0] = 0;
    if (plan->training)
        BGI_TRY(bgi_make_training(t->graph, loss, &plan->optimizer, &quiet, error));
    if (plan->training && !quiet.numerics.no_fusion)
        BGI_TRY(bgi_fuse_accumulation(&t->graph, error));
    BGI_TRY(bgi_copy_shared_variables(t->graph, &t->stages, NULL, plan->training, error));
    return bgi_cut_segments(t->graph, &t->stages, plan->training, false, &t->partition, error);
}

static void clear_trial(bgi_trial *t)
{
    bgi_partition_clear(&t->partition);
    bgi_stages_clear(&t->stages);
    bg_graph_destroy(t->graph);
}

static bg_status price_items(bgi_chooser *c, const bgi_trial *t, bg_error *error)
{
    bg_stage_cost *costs = bgi_arena_allocate(&c->scratch, c->item_count, sizeof *costs);

    c->items = bgi_arena_allocate(&c->scratch, c->item_count, sizeof *c->items);
    if (costs == NULL || c->items == NULL)
        return bgi_error_memory(error, "automatic stages", c->item_count * sizeof *costs);
    BGI_TRY(bgi_estimate_costs(t->graph, &t->partition, c->options, costs, NULL, error));
    for (uint32_t item = 0; item < c->item_count; item++)
        c->items[item].ns = costs[item].forward_ns + costs[item].backward_ns + costs[item].weights_ns;
    return BG_OK;
}

/* Adds the bytes of variables and constants to the items that hold them. A variable (weight, gradient or state) is held
 * where it is written or, if no op writes it, wherever it is read. */
static bg_status add_variables(bgi_chooser *c, const bgi_trial *t, bg_error *error)
{
    const bg_graph *graph = t->graph;
    uint32_t *writers = bgi_arena_allocate(&c->scratch, graph->value_count,
                                           sizeof *writers); /* by variable: 1 + the item that writes it; 0: none */
    uint32_t *counted =
        bgi_arena_allocate(&c->scratch, graph->value_count,
                           sizeof *counted); /* by variable or constant: 1 + the last item that counts it; 0: none */

    if (writers == NULL || counted == NULL)
        return bgi_error_memory(error, "automatic stages", graph->value_count * sizeof *writers);
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++)
            if (bgi_op_type_writes(graph->ops[o].type, i))
                writers[graph->ops[o].inputs[i].id] = t->partition.op_stages[o] + 1;
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++) {
            const uint32_t v = t->partition.roots[graph->ops[o].inputs[i].id].id;
            const bgi_value *value = &graph->values[v];
            const uint32_t item = writers[v] != 0 ? writers[v] - 1 : t->partition.op_stages[o];
            if ((value->kind != BGI_VALUE_VARIABLE && value->kind != BGI_VALUE_CONSTANT) || value->is_remote ||
                counted[v] == item + 1)
                continue;
            counted[v] = item + 1;
            c->items[item].held_bytes += bgi_align(bg_type_size_bytes(&value->type));
        }
    return BG_OK;
}

static bool is_kept(const bgi_trial *t, const bgi_crossing *crossing)
{
    return t->partition.segments[crossing->from_segment].kind == BGI_SEGMENT_FORWARD &&
           crossing->last_kind != BGI_SEGMENT_FORWARD;
}

/* Lists the values that items keep for their backward passes, each with the next item that keeps the same value. */
static bg_status add_kept(bgi_chooser *c, const bgi_trial *t, bg_error *error)
{
    const bgi_partition *partition = &t->partition;
    bgi_kept *kept = bgi_arena_allocate(&c->scratch, partition->crossing_count, sizeof *kept);
    bgi_kept *end = kept;

    if (kept == NULL)
        return bgi_error_memory(error, "automatic stages", partition->crossing_count * sizeof *kept);
    for (uint32_t i = 0; i < partition->crossing_count; i++)
        c->items[partition->crossings[i].to_stage].kept_count += is_kept(t, &partition->crossings[i]);
    for (uint32_t item = 0; item < c->item_count; end += c->items[item++].kept_count)
        c->items[item].kept = end;
    for (uint32_t item = 0; item < c->item_count; item++)
        c->items[item].kept_count = 0;
    for (uint32_t i = 0; i < partition->crossing_count; i++) {
        const bgi_crossing *crossing = &partition->crossings[i];
        bgi_balance_item *item = &c->items[crossing->to_stage];
        bgi_kept *entry = &kept[item->kept - kept] + item->kept_count;
        if (!is_kept(t, crossing))
            continue;
        item->kept_count++;
        *entry = (bgi_kept){.bytes = bgi_align(bg_type_size_bytes(&bgi_graph_value(t->graph, crossing->value)->type)),
                            .next_item = NO_ITEM};
        for (uint32_t o = partition->first_crossings[crossing->value.id]; o != 0;
             o = partition->crossings[o - 1].next) {
            const bgi_crossing *other = &partition->crossings[o - 1];
            if (is_kept(t, other) && other->to_stage > crossing->to_stage && other->to_stage < entry->next_item)
                entry->next_item = other->to_stage;
        }
    }
    return BG_OK;
}

static bg_status measure_items(bgi_chooser *c, bg_value loss, bg_error *error)
{
    bgi_trial trial = {0};
    bg_status status;

    BGI_TRY_CLEANUP(make_trial(c, loss, &trial, error));
    BGI_TRY_CLEANUP(price_items(c, &trial, error));
    BGI_TRY_CLEANUP(add_variables(c, &trial, error));
    BGI_TRY_CLEANUP(add_kept(c, &trial, error));
cleanup:
    clear_trial(&trial);
    return status;
}

/* ---- the cut ---- */

/* Sets the speeds and budgets of the stages from those of their devices; the stages of one device get equal shares of
 * its memory. A pipeline holds N - k micro-batches in stage k (1F1B); other strategies hold one. */
static bg_status describe_devices(bgi_chooser *c, bgi_balance *balance, bg_error *error)
{
    const uint32_t stage_count = c->stage_count;
    double *speeds = bgi_arena_allocate(&c->scratch, stage_count, sizeof *speeds);
    size_t *budgets = bgi_arena_allocate(&c->scratch, stage_count, sizeof *budgets);
    uint32_t *depths = bgi_arena_allocate(&c->scratch, stage_count, sizeof *depths);
    bgi_stages stages = {0};
    bg_status status = BG_OK;

    if (speeds == NULL || budgets == NULL || depths == NULL)
        return bgi_error_memory(error, "automatic stages", stage_count * sizeof *speeds);
    for (uint32_t s = 0; s < stage_count; s++)
        if (!bgi_stages_add(&stages, BG_DEVICE_NONE, s, s))
            BGI_TRY_CLEANUP(bgi_error_memory(error, "automatic stages", 0));
    BGI_TRY_CLEANUP(bgi_place_stages(c->options, c->compiler->scheduling->generator, &stages, error));
    for (uint32_t s = 0; s < stage_count; s++) {
        const uint32_t device = stages.stage_devices[s], micro_batches = c->compiler->plan->micro_batches;
        uint32_t sharing = 0;
        for (uint32_t t = 0; t < stage_count; t++)
            sharing += stages.stage_devices[t] == device;
        speeds[s] = bgi_options_speed(c->options, device);
        budgets[s] = bgi_options_budget(c->options, device);
        if (budgets[s] != 0) {
            const size_t share = budgets[s] / sharing, missed = c->cuts->missed_bytes[s];
            budgets[s] = share > missed ? share - missed : 1; /* a budget of 0 would mean no limit */
        }
        c->cuts->stage_devices[s] = device;
        depths[s] = c->options->execution.strategy != BG_STRATEGY_PIPELINED ? 1 : stage_count - s;
        if (depths[s] > micro_batches)
            depths[s] = micro_batches;
    }
    balance->stage_speeds = speeds;
    balance->stage_budgets = budgets;
    balance->stage_depths = depths;
cleanup:
    bgi_stages_clear(&stages);
    return status;
}

static uint32_t stage_of_item(const bgi_chooser *c, uint32_t item)
{
    uint32_t stage = 0;

    while (stage + 1 < c->stage_count && c->first[stage + 1] <= item)
        stage++;
    return stage;
}

/* Writes "B1|B2,B3", the blocks of each stage in their order; by then, op_items has the stages. */
static bg_status write_text(bgi_chooser *c, bg_error *error)
{
    bg_plan *plan = c->compiler->plan;
    uint32_t *block_stages =
        bgi_arena_allocate(&c->scratch, c->graph->block_count, sizeof *block_stages); /* stage + 1 */
    bgi_string text = {0};

    if (block_stages == NULL)
        return bgi_error_memory(error, "automatic stages", c->graph->block_count * sizeof *block_stages);
    for (size_t o = 0; o < c->graph->op_count; o++)
        block_stages[c->graph->ops[o].block] = c->op_items[o] + 1;
    for (uint32_t stage = 0; stage < c->stage_count; stage++) {
        const char *separator = stage == 0 ? "" : "|";
        for (size_t b = 1; b < c->graph->block_count; b++)
            if (block_stages[b] == stage + 1) {
                bgi_string_add(&text, "%s%s", separator, c->graph->blocks[b].name);
                separator = ",";
            }
    }
    plan->options.execution.stages = text.failed ? NULL : bgi_arena_string(&plan->arena, text.data);
    bgi_string_clear(&text);
    return plan->options.execution.stages != NULL ? BG_OK : bgi_error_memory(error, "automatic stages", 0);
}

static void report(const bgi_chooser *c, const bgi_balance *balance, double longest)
{
    double sum = 0, speed = 0;
    bgi_string text = {0};

    for (uint32_t item = 0; item < c->item_count; item++)
        sum += c->items[item].ns;
    for (uint32_t s = 0; s < c->stage_count; s++)
        speed += balance->stage_speeds[s];
    bgi_string_add(&text, "automatic stages: %s; the longest takes %.2f times its even share",
                   c->compiler->plan->options.execution.stages, sum > 0 ? longest * speed / sum : 1.0);
    if (!text.failed)
        bgi_log(c->options, BG_LOG_INFO, text.data);
    bgi_string_clear(&text);
}

/* Before the first cut, allocates the arrays that record why earlier cuts did not fit. */
static bg_status begin_cuts(bgi_chooser *c, bg_error *error)
{
    const uint32_t stages = c->stage_count;
    bgi_cuts *cuts = c->cuts;

    if (cuts->first == NULL) {
        cuts->stage_count = stages;
        cuts->cuts_blocks = c->cuts_blocks;
        cuts->most_tries = c->item_count < MOST_TRIES ? c->item_count : MOST_TRIES;
        cuts->stage_devices = bgi_arena_allocate(&cuts->arena, stages, sizeof *cuts->stage_devices);
        cuts->counted_bytes = bgi_arena_allocate(&cuts->arena, stages, sizeof *cuts->counted_bytes);
        cuts->missed_bytes = bgi_arena_allocate(&cuts->arena, stages, sizeof *cuts->missed_bytes);
        cuts->refused = bgi_arena_allocate(&cuts->arena, (size_t)cuts->most_tries * stages, sizeof *cuts->refused);
        cuts->first = bgi_arena_allocate(&cuts->arena, (size_t)stages + 1, sizeof *cuts->first);
        if (cuts->stage_devices == NULL || cuts->counted_bytes == NULL || cuts->missed_bytes == NULL ||
            cuts->refused == NULL || cuts->first == NULL)
            return bgi_error_memory(error, "automatic stages", stages * sizeof *cuts->counted_bytes);
    }
    c->first = cuts->first;
    c->first[stages] = c->item_count;
    return BG_OK;
}

/* Whether a plan needs at least the estimated memory: everything stays on its device, every stage has a device of its
 * own, nothing is recomputed, and the schedule is not sequential. */
static bool is_bound(const bgi_chooser *c)
{
    const bg_options *options = c->options;

    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++)
        if (bgi_find_location(options, (bg_location_class)k, "", INT64_MAX).place == BG_PLACE_REMOTE)
            return false;
    for (uint32_t s = 0; s < c->stage_count; s++)
        for (uint32_t t = 0; t < s; t++)
            if (c->cuts->stage_devices[t] == c->cuts->stage_devices[s])
                return false;
    return options->memory.recompute == BG_RECOMPUTE_NONE && options->memory.location_rule_count == 0 &&
           strcmp(c->compiler->scheduling->generator->name, "sequential") != 0;
}

/* Chooses the next cut. The estimated memory may be too large, because a plan may recompute, or keep fewer
 * micro-batches. So when no cut seems to fit, chooses the cut that exceeds the budgets least. */
static bg_status choose_cut(bgi_chooser *c, const bgi_balance *balance, double *longest, bg_error *error)
{
    bg_error reason = {0};
    bg_status status = bgi_balance_cut(balance, c->first, longest, &reason);

    if (status == BG_ERROR_BUDGET) {
        if (c->cuts->tries == 0 && is_bound(c)) /* later budgets are smaller by what the first plan missed */
            c->cuts->bound_error = reason;
        return bgi_balance_cut_tightly(balance, c->first, longest, error);
    }
    return status == BG_OK ? BG_OK : bg_error_set(error, status, "%s", reason.message);
}

static bg_status cut(bgi_chooser *c, bg_error *error)
{
    bgi_balance balance = {.items = c->items, .item_count = c->item_count, .stage_count = c->stage_count};
    double longest = 0;

    BGI_TRY(begin_cuts(c, error));
    BGI_TRY(describe_devices(c, &balance, error));
    balance.refused = c->cuts->refused;
    balance.refused_count = c->cuts->refused_count;
    BGI_TRY(choose_cut(c, &balance, &longest, error));
    for (uint32_t s = 0; s < c->stage_count; s++)
        c->cuts->counted_bytes[s] = bgi_balance_bytes(&balance, s, c->first[s], c->first[s + 1]);
    for (size_t o = 0; o < c->graph->op_count; o++)
        c->op_items[o] = stage_of_item(c, c->op_items[o]);
    if (c->cuts_blocks)
        BGI_TRY(bgi_split_blocks(c->graph, c->op_items, c->stage_count, error));
    BGI_TRY(write_text(c, error));
    report(c, &balance, longest);
    return BG_OK;
}

bg_status bgi_choose_stages(bgi_compiler *compiler, bg_value loss, bgi_cuts *cuts, bg_error *error)
{
    bgi_chooser c = {.compiler = compiler, .cuts = cuts, .options = &compiler->plan->options, .graph = compiler->graph};
    bg_status status;

    BGI_TRY_CLEANUP(read_text(&c, error));
    BGI_TRY_CLEANUP(find_items(&c, error));
    BGI_TRY_CLEANUP(check_count(&c, error));
    BGI_TRY_CLEANUP(measure_items(&c, loss, error));
    BGI_TRY_CLEANUP(cut(&c, error));
cleanup:
    bgi_arena_clear(&c.scratch);
    return status;
}

/* ---- after a plan ---- */

/* Records for each stage of the device an equal share of the bytes that were not counted, and refuses the largest of
 * these stages. A device usually has one stage; when it has several, the one that needs the most memory must become
 * smaller. */
static void record_device_overrun(bgi_cuts *cuts, uint32_t device, size_t need_bytes)
{
    uint32_t largest = UINT32_MAX, sharing = 0;
    size_t counted = 0;

    for (uint32_t s = 0; s < cuts->stage_count; s++) {
        if (cuts->stage_devices[s] != device)
            continue;
        sharing++;
        counted += cuts->counted_bytes[s];
        if (largest == UINT32_MAX || cuts->counted_bytes[s] > cuts->counted_bytes[largest])
            largest = s;
    }
    for (uint32_t s = 0; s < cuts->stage_count && need_bytes > counted; s++) {
        const size_t missed = (need_bytes - counted) / sharing;
        if (cuts->stage_devices[s] == device && missed > cuts->missed_bytes[s])
            cuts->missed_bytes[s] = missed;
    }
    if (largest != UINT32_MAX)
        cuts->refused[cuts->refused_count++] =
            (bgi_refused_stage){.stage = largest, .first = cuts->first[largest], .end = cuts->first[largest + 1]};
}

bool bgi_cuts_record_overrun(bgi_cuts *cuts, const bg_plan *plan)
{
    const uint32_t known = cuts->refused_count;

    if (cuts->first == NULL || plan->devices == NULL || ++cuts->tries >= cuts->most_tries)
        return false;
    for (uint32_t d = 0; d < plan->device_count; d++) {
        const size_t budget = bgi_options_budget(&plan->options, d), need = plan->devices[d].arena_bytes;
        if (budget != 0 && need > budget)
            record_device_overrun(cuts, d, need);
    }
    return cuts->refused_count > known;
}

void bgi_cuts_clear(bgi_cuts *cuts)
{
    bgi_arena_clear(&cuts->arena);
    *cuts = (bgi_cuts){.first = NULL};
}
