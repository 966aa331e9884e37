/*
 * insights.c: derives the advice of a report, the most useful first. Each insight has a measurement, an option that
 * would change it, and the expected gain. Gains in time are predicted by simulating the schedule with measured costs,
 * before and after the change. Both simulations have the measured number of workers, so that a gain is not larger than
 * the cores allow. If a change would remove a wait, the gain is the wait's share of the time.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"
#include "profile/analysis.h"

/* Smaller gains and waits are not reported. */
static const double least_gain = 0.02, least_wait = 0.03, least_imbalance = 1.15;
enum { LEAST_SAVED_BYTES = 1 << 16, MOST_BLOCKS = 512 };

static bgi_insight *add_insight(bgi_analysis *a, const char *id, double gain, double bytes)
{
    bgi_insight *insight;

    if (a->insight_count == BGI_MOST_INSIGHTS)
        return NULL;
    insight = &a->insights[a->insight_count++];
    *insight = (bgi_insight){.id = id, .text = "", .option = "", .gain = gain, .bytes = bytes, .weight = gain};
    return insight;
}

/* Allocates a string that lives as long as the analysis; "" if memory is exhausted. */
static const char *say(bgi_analysis *a, const char *format, ...) BG_PRINTF(2, 3);
static const char *say(bgi_analysis *a, const char *format, ...)
{
    char text[640];
    const char *kept;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kept = bgi_arena_string(&a->arena, text);
    return kept != NULL ? kept : "";
}

static double cause_share(const bgi_analysis *a, bgi_cause cause)
{
    double lost = 0.0, all = 0.0;

    for (uint32_t s = 0; s < a->slots; s++) {
        if (a->events.devices[s].count == 0)
            continue;
        lost += a->devices[s].cause_ns[cause];
        all += (double)(a->end_ns - a->begin_ns);
    }
    return all > 0.0 ? lost / all : 0.0;
}

/* ---- simulation ---- */

/* A variant of the plan's pipeline, whose time per step is to be simulated. */
typedef struct candidate {
    const bg_stage_cost *costs;
    uint32_t stage_count, micro_batches;
    const bool *recomputes; /* NULL: as in the plan */
    double bytes_per_ns;    /* 0: messages are free */
    size_t edge_bytes;
} candidate;

static double sum_work(const bgi_analysis *a, const candidate *of)
{
    double work = 0.0;

    for (uint32_t s = 0; s < of->stage_count; s++) {
        const bg_stage_cost *cost = &of->costs[s];
        const bool recomputes = of->recomputes != NULL && of->recomputes[s];
        work += (cost->forward_ns + cost->backward_ns + cost->weights_ns + (recomputes ? cost->recompute_ns : 0.0)) *
                    of->micro_batches +
                cost->update_ns;
    }
    return work * a->summary.replicas;
}

static double simulate(const bgi_analysis *a, const candidate *of)
{
    const bg_schedule_generator *generator = bg_schedule_generator_find(bg_plan_schedule_name(a->plan));
    const double workers = a->machine.workers > 0 ? a->machine.workers : 1;
    bg_schedule_problem problem = bg_schedule_problem_defaults();
    uint32_t *devices = calloc((size_t)of->stage_count + 1, sizeof *devices);
    bg_schedule_edge *edges = NULL;
    bg_schedule *schedule = NULL;
    bg_schedule_timing timing = {.events = NULL};
    bg_error ignored = {0};
    double result = 0.0;

    if (generator == NULL || devices == NULL ||
        bg_schedule_place(generator, of->stage_count, a->summary.device_count, devices, &ignored) != BG_OK) {
        free(devices);
        return 0.0;
    }
    problem.stage_count = of->stage_count;
    problem.device_count = a->summary.device_count;
    problem.stage_devices = devices;
    problem.micro_batch_count = of->micro_batches;
    problem.training = a->plan->training;
    problem.splits_weights = generator->splits_weights;
    problem.merges_loss = a->plan->problem.merges_loss;
    problem.costs = of->costs;
    problem.stage_recomputes = of->recomputes;
    problem.bytes_per_ns = of->bytes_per_ns;
    if (bg_schedule_problem_chain(&problem, of->edge_bytes, &edges, &ignored) == BG_OK &&
        bg_schedule_create(&problem, generator, &schedule, &ignored) == BG_OK &&
        bg_schedule_simulate(schedule, &problem, &timing, &ignored) == BG_OK)
        result = timing.makespan;
    /* The number of workers limits the time too, because each worker runs one action at a time. */
    if (result > 0.0 && a->rank_count == 1 && sum_work(a, of) / workers > result)
        result = sum_work(a, of) / workers;
    bg_schedule_timing_clear(&timing);
    bg_schedule_destroy(schedule);
    free(edges);
    free(devices);
    return result;
}

static candidate as_it_is(const bgi_analysis *a, const bg_stage_cost *costs)
{
    size_t edge_bytes = 0;

    for (uint32_t e = 0; e < a->plan->edge_count; e++)
        if (!a->plan->edges[e].is_stash && !a->plan->edges[e].per_step && a->plan->edges[e].payload_bytes > edge_bytes)
            edge_bytes = a->plan->edges[e].payload_bytes;
    return (candidate){.costs = costs,
                       .stage_count = a->plan->stage_count,
                       .micro_batches = a->summary.micro_batches_per_step,
                       .recomputes = a->plan->problem.stage_recomputes,
                       .bytes_per_ns = a->message_bytes_per_ns,
                       .edge_bytes = edge_bytes};
}

/* Returns the gain in throughput from simulated times before and after a change. Simulated times exclude the time
 * between runs, which does not change and is added here. */
static double temper(const bgi_analysis *a, double before, double after)
{
    const double outside = cause_share(a, BGI_CAUSE_DATA) + cause_share(a, BGI_CAUSE_HOST);
    const double rest = outside / (1.0 - (outside < 0.99 ? outside : 0.99)) * before;

    return after > 0.0 ? (before + rest) / (after + rest) - 1.0 : 0.0;
}

/* ---- uneven stages ---- */

static double cut_best(const double *times, uint32_t count, uint32_t parts, uint32_t *ends)
{
    /* Finds by bisection the smallest bound such that no part's sum exceeds it. */
    double low = 0.0, high = 0.0;

    for (uint32_t i = 0; i < count; i++) {
        high += times[i];
        low = times[i] > low ? times[i] : low;
    }
    for (int turn = 0; turn < 60; turn++) {
        const double middle = 0.5 * (low + high);
        uint32_t used = 1;
        double sum = 0.0;
        for (uint32_t i = 0; i < count; i++) {
            if (sum + times[i] > middle) {
                used++;
                sum = 0.0;
            }
            sum += times[i];
        }
        if (used <= parts)
            high = middle;
        else
            low = middle;
    }
    for (uint32_t i = 0, part = 0; i < count; i++) { /* leaves at least one block for each remaining part */
        const uint32_t begin = part > 0 ? ends[part - 1] : 0;
        double sum = 0.0;
        for (uint32_t k = begin; k < i; k++)
            sum += times[k];
        if (i > begin && part + 1 < parts && (sum + times[i] > high * (1.0 + 1e-9) || count - i <= parts - part - 1))
            ends[part++] = i;
        if (i + 1 == count)
            ends[part] = count;
    }
    return high;
}

/* Lists each block once, in the order of the data flow, if option `stages` can have the blocks' names. */
static bool list_blocks(const bgi_analysis *a, const char **names, double *times, bg_stage_cost *costs, uint32_t *count)
{
    *count = 0;
    for (uint32_t b = 0; b < a->plan->block_count; b++) {
        const bgi_block_row *block = &a->blocks[b];
        if (block->name[0] == '\0' && !(block->step_ns > 0.0))
            continue;
        if (block->name[0] == '\0' || *count == MOST_BLOCKS || strpbrk(block->name, ",|@") != NULL)
            return false;
        for (uint32_t k = 0; k < *count; k++)
            if (strcmp(names[k], block->name) == 0)
                return false; /* a block that is cut occurs twice */
        names[*count] = block->name;
        times[*count] = block->step_ns;
        costs[*count] = (bg_stage_cost){0};
        (*count)++;
    }
    return *count > 1;
}

static void sum_block_costs(const bgi_analysis *a, const char *const *names, uint32_t count, bg_stage_cost *costs)
{
    const double micro_batches = a->summary.micro_batches_per_step > 0 ? a->summary.micro_batches_per_step : 1;

    for (uint32_t i = 0; i < a->op_count; i++) {
        const bgi_op_row *op = &a->ops[i];
        const double step_ns = op->mean_ns * op->calls_per_step;
        for (uint32_t b = 0; b < count; b++) {
            if (strcmp(op->block, names[b]) != 0)
                continue;
            if (op->kind == BG_ACTION_FORWARD)
                costs[b].forward_ns += step_ns / micro_batches;
            else if (op->kind == BG_ACTION_RECOMPUTE)
                costs[b].recompute_ns += step_ns / micro_batches;
            else if (op->kind == BG_ACTION_BACKWARD)
                costs[b].backward_ns += step_ns / micro_batches;
            else if (op->kind == BG_ACTION_WEIGHTS)
                costs[b].weights_ns += step_ns / micro_batches;
            else
                costs[b].update_ns += step_ns;
            break;
        }
    }
}

static void add_cost(bg_stage_cost *sum, const bg_stage_cost *term)
{
    sum->forward_ns += term->forward_ns;
    sum->recompute_ns += term->recompute_ns;
    sum->backward_ns += term->backward_ns;
    sum->weights_ns += term->weights_ns;
    sum->update_ns += term->update_ns;
}

/* Cuts the same blocks into the same number of stages, so that the longest stage is as short as possible. */
static void find_better_cut(bgi_analysis *a, uint32_t longest, double times_the_mean)
{
    const uint32_t stage_count = a->plan->stage_count;
    const char **names = calloc(MOST_BLOCKS, sizeof *names);
    double *times = calloc(MOST_BLOCKS, sizeof *times);
    bg_stage_cost *blocks = calloc(MOST_BLOCKS, sizeof *blocks);
    bg_stage_cost *now = calloc(stage_count, sizeof *now), *better = calloc(stage_count, sizeof *better);
    uint32_t *ends = calloc(stage_count, sizeof *ends), count = 0;
    bgi_string text = {0};
    candidate before, after;
    double gain = 0.0;
    bgi_insight *insight;

    if (names == NULL || times == NULL || blocks == NULL || now == NULL || better == NULL || ends == NULL ||
        !list_blocks(a, names, times, blocks, &count) || count < stage_count)
        goto cleanup;
    sum_block_costs(a, names, count, blocks);
    cut_best(times, count, stage_count, ends);
    for (uint32_t s = 0, b = 0; s < stage_count; s++) {
        bgi_string_add(&text, "%s", s > 0 ? "|" : "");
        for (const uint32_t begin = b; b < ends[s]; b++) {
            bgi_string_add(&text, "%s%s", b > begin ? "," : "", names[b]);
            add_cost(&better[s], &blocks[b]);
        }
    }
    for (uint32_t b = 0; b < count; b++) /* both times are sums of calls, so they can be compared */
        for (uint32_t p = 0; p < a->plan->block_count; p++)
            if (strcmp(a->blocks[p].name, names[b]) == 0) {
                add_cost(&now[a->blocks[p].stage], &blocks[b]);
                break;
            }
    before = as_it_is(a, now);
    after = as_it_is(a, better);
    gain = temper(a, simulate(a, &before), simulate(a, &after));
    if (gain < least_gain && (insight = add_insight(a, "cut", 0.0, 0.0)) != NULL) {
        insight->text = say(a,
                            "Stage %u takes %.1f times the mean of all stages. With %u workers for %u devices another "
                            "cut of the same blocks would gain less than %.0f %%.",
                            longest, times_the_mean, a->machine.workers, a->slots, 100.0 * least_gain);
    } else if (!text.failed && text.length < 400 && (insight = add_insight(a, "imbalance", gain, 0.0)) != NULL) {
        insight->option = say(a, "--stages '%s'", text.data);
        insight->text =
            say(a,
                "Stage %u takes %.1f times the mean of all stages, and the others wait for it. %s would raise "
                "throughput by %.0f %%.",
                longest, times_the_mean, insight->option, 100.0 * gain);
    }
cleanup:
    bgi_string_clear(&text);
    free(names);
    free(times);
    free(blocks);
    free(now);
    free(better);
    free(ends);
}

static void look_at_stages(bgi_analysis *a)
{
    double sum = 0.0, most = 0.0;
    uint32_t longest = 0;

    for (uint32_t s = 0; s < a->plan->stage_count; s++) {
        sum += a->stages[s].step_ns;
        if (a->stages[s].step_ns > most) {
            most = a->stages[s].step_ns;
            longest = s;
        }
    }
    if (a->plan->stage_count > 1 && most * a->plan->stage_count > least_imbalance * sum)
        find_better_cut(a, longest, most * a->plan->stage_count / sum);
}

/* ---- waits ---- */

/* Returns the gain in throughput if a wait with this share of all time is removed. */
static double gain_of(double share)
{
    return share < 0.99 ? share / (1.0 - share) : 99.0;
}

static void look_at_data(bgi_analysis *a)
{
    const double share = cause_share(a, BGI_CAUSE_DATA);
    bgi_insight *insight;

    if (share < least_wait || (insight = add_insight(a, "data", gain_of(share), 0.0)) == NULL)
        return;
    insight->option = say(a, "--loader-mode async");
    insight->text = say(
        a,
        "Devices wait for the loader %.0f %% of the time, because it does not keep up. Reading ahead (%s, more loader "
        "workers, or data that are cheaper to read) would raise throughput by up to %.0f %%.",
        100.0 * share, insight->option, 100.0 * insight->gain);
}

static void look_at_host(bgi_analysis *a)
{
    const double share = cause_share(a, BGI_CAUSE_HOST);
    bgi_insight *insight;

    if (share < least_wait || (insight = add_insight(a, "host", gain_of(share), 0.0)) == NULL)
        return;
    insight->option = say(a, "--device-iterations %u", 4 * a->summary.steps_per_run);
    insight->text =
        say(a,
            "Devices wait %.0f %% of the time for the program between two calls. More steps in a call (%s) would raise "
            "throughput by up to %.0f %%.",
            100.0 * share, insight->option, 100.0 * insight->gain);
}

static void look_at_links(bgi_analysis *a)
{
    const double share = cause_share(a, BGI_CAUSE_LINK);
    uint32_t worst = 0;
    bgi_insight *insight;

    if (share < least_wait || (insight = add_insight(a, "link", gain_of(share), 0.0)) == NULL)
        return;
    for (uint32_t e = 1; e < a->summary.edge_count; e++)
        if (a->edge_wait_ns[e] > a->edge_wait_ns[worst])
            worst = e;
    insight->text =
        say(a,
            "Devices wait for messages that are on their way %.0f %% of the time, most between devices %u and %u. A "
            "faster link there, both devices on one host, or a cut with fewer bytes to send, would raise throughput by "
            "up to "
            "%.0f %%.",
            100.0 * share, a->plan->edges[worst].from_device, a->plan->edges[worst].to_device, 100.0 * insight->gain);
}

static void look_at_transfers(bgi_analysis *a)
{
    const double share = cause_share(a, BGI_CAUSE_TRANSFERS);
    bgi_insight *insight;

    if (share < least_wait || (insight = add_insight(a, "transfers", gain_of(share), 0.0)) == NULL)
        return;
    insight->option = say(a, "--io-threads 1");
    insight->text = say(a,
                        "Devices wait for loads and stores of remote memory %.0f %% of the time. Keeping more on the "
                        "devices, or a separate thread for transfers (%s), would raise throughput by up to %.0f %%.",
                        100.0 * share, insight->option, 100.0 * insight->gain);
}

/* Returns the gain in throughput if each device had a core. A step has the same work, so throughput is proportional to
 * the share of the time in which devices work. Waits for data and for the host would keep their share. */
static double find_gain_of_cores(const bgi_analysis *a)
{
    const double outside = cause_share(a, BGI_CAUSE_DATA) + cause_share(a, BGI_CAUSE_HOST);
    double busy_ns = 0.0, all_ns = 0.0;

    for (uint32_t s = 0; s < a->slots; s++) {
        if (a->events.devices[s].count == 0)
            continue;
        busy_ns += a->devices[s].busy_ns;
        all_ns += (double)(a->end_ns - a->begin_ns);
    }
    if (busy_ns <= 0.0 || a->simulated_ns <= 0.0)
        return 0.0;
    return (1.0 - a->simulated.bubble) * (1.0 - outside) * all_ns / busy_ns - 1.0;
}

static void look_at_cores(bgi_analysis *a)
{
    const double share = cause_share(a, BGI_CAUSE_CORES), gain = find_gain_of_cores(a);
    bgi_insight *insight;

    if (share < 0.10 || a->slots <= a->machine.workers || (insight = add_insight(a, "cores", 0.0, 0.0)) == NULL)
        return;
    if (gain < least_gain)
        insight->text = say(a, "%u devices share %u cores and wait for a free one %.0f %% of the time.", a->slots,
                            a->machine.workers, 100.0 * share);
    else
        insight->text = say(a,
                            "%u devices share %u cores and wait for a free one %.0f %% of the time. A core for each "
                            "device would raise throughput by up to %.0f %%; the schedule would then leave the devices "
                            "idle for %.0f %% of the time.",
                            a->slots, a->machine.workers, 100.0 * share, 100.0 * gain, 100.0 * a->simulated.bubble);
}

/* ---- the bubble ---- */

static void look_at_bubble(bgi_analysis *a)
{
    bg_stage_cost *costs = calloc(a->plan->stage_count, sizeof *costs);
    const uint32_t micro_batches = a->summary.micro_batches_per_step;
    candidate now, more;
    double gain;
    bgi_insight *insight;

    if (costs == NULL || !a->plan->training || a->plan->stage_count < 2 || cause_share(a, BGI_CAUSE_PIPELINE) < 0.05) {
        free(costs);
        return;
    }
    for (uint32_t s = 0; s < a->plan->stage_count; s++)
        costs[s] = a->stages[s].cost;
    now = more = as_it_is(a, costs);
    more.micro_batches = 2 * micro_batches;
    gain = temper(a, 2.0 * simulate(a, &now), simulate(a, &more));
    if (gain >= least_gain && (insight = add_insight(a, "bubble", gain, 0.0)) != NULL) {
        insight->option = say(a, "--gradient-accumulation %u", 2 * micro_batches);
        insight->text =
            say(a,
                "Filling and emptying the pipeline takes a large part of a step of %u micro-batches. %s, with half the "
                "weight updates for the same number of samples, would raise throughput by %.0f %%.",
                micro_batches, insight->option, 100.0 * gain);
    }
    free(costs);
}

/* ---- memory ---- */

/* Returns the bytes of the stash that recomputation would remove from a device: values that forwards compute and keep,
 * except those of one micro-batch, which are recomputed for the backward. Values that forwards receive stay. */
static double find_stash_made(const bgi_analysis *a, uint32_t device)
{
    double bytes = 0.0;

    for (uint32_t e = 0; e < a->plan->edge_count && e < a->plan->problem.edge_count; e++) {
        const bg_schedule_edge *edge = &a->plan->problem.edges[e];
        if (a->plan->edges[e].is_stash && !a->plan->edges[e].is_remote && a->plan->edges[e].to_device == device &&
            edge->from_kind == BG_ACTION_FORWARD && edge->from_stage == edge->to_stage)
            bytes += (double)((a->plan->edges[e].depth - 1) * a->plan->edges[e].slot_bytes);
    }
    return bytes;
}

static double find_recompute_cost(bgi_analysis *a)
{
    bg_stage_cost *costs = calloc(a->plan->stage_count, sizeof *costs);
    bool *recomputes = calloc((size_t)a->plan->stage_count + 1, sizeof *recomputes);
    candidate now, then;
    double before, after, cost = 0.0;

    if (costs != NULL && recomputes != NULL) {
        for (uint32_t s = 0; s < a->plan->stage_count; s++) {
            costs[s] = a->stages[s].cost;
            costs[s].recompute_ns = costs[s].forward_ns;
            recomputes[s] = s + 1 < a->plan->stage_count || a->plan->stage_count == 1;
        }
        now = then = as_it_is(a, costs);
        now.recomputes = NULL;
        then.recomputes = recomputes;
        before = simulate(a, &now);
        after = simulate(a, &then);
        cost = before > 0.0 && after > before ? 1.0 - before / after : 0.0;
    }
    free(costs);
    free(recomputes);
    return cost;
}

static void look_at_memory(bgi_analysis *a)
{
    char saved_text[BGI_BYTES_TEXT_BYTES], peak_text[BGI_BYTES_TEXT_BYTES];
    const bg_options *options = bg_plan_options(a->plan);
    double peak = 0.0, stash, state, budget = (double)options->memory.device_memory_bytes;
    uint32_t device = 0;
    bgi_insight *insight;

    for (uint32_t d = 0; d < a->summary.device_count; d++) {
        if ((double)bg_plan_device_bytes(a->plan, d) > peak) {
            peak = (double)bg_plan_device_bytes(a->plan, d);
            device = d;
        }
    }
    stash = find_stash_made(a, device);
    state = (double)bg_plan_memory_bytes(a->plan, device, BG_MEMORY_STATE);
    if (a->plan->training && options->memory.recompute == BG_RECOMPUTE_NONE && stash > 0.2 * peak &&
        stash >= LEAST_SAVED_BYTES && (insight = add_insight(a, "stash", 0.0, stash)) != NULL) {
        insight->cost = find_recompute_cost(a);
        insight->option = say(a, "--recompute stage");
        insight->text = say(
            a,
            "Device %u needs %s, the most of all devices. Activations that are kept for the backward are %.0f %% of "
            "it. Recomputing them (%s) would cost %.0f %% of throughput and save about %s there.",
            device, bgi_bytes_text((uint64_t)peak, peak_text), 100.0 * stash / peak, insight->option,
            100.0 * insight->cost, bgi_bytes_text((uint64_t)stash, saved_text));
    } else if (a->plan->training && state > 0.3 * peak && state >= LEAST_SAVED_BYTES &&
               (insight = add_insight(a, "state", 0.0, state)) != NULL) {
        insight->option = say(a, "--offload optimizer");
        insight->text = say(
            a,
            "Device %u needs %s, the most of all devices, and the optimizer's state is %.0f %% of it. %s would keep "
            "%s off the device between updates.",
            device, bgi_bytes_text((uint64_t)peak, peak_text), 100.0 * state / peak, insight->option,
            bgi_bytes_text((uint64_t)state, saved_text));
    } else {
        return;
    }
    /* If the peak is above 3/4 of the budget, the insight comes first: its weight is above 1. Otherwise its weight is
     * at most 0.02, the smallest gain that is reported, so it usually follows insights about throughput. */
    insight->weight = budget > 0.0 && peak > 0.75 * budget ? 1.0 + peak / budget : 0.02 * insight->bytes / peak;
}

static void look_at_recomputation(bgi_analysis *a)
{
    double recompute_ns = 0.0, all_ns = 0.0, gain;
    bgi_insight *insight;

    for (uint32_t s = 0; s < a->slots; s++)
        for (int kind = 0; kind <= BG_ACTION_UPDATE; kind++) {
            all_ns += a->devices[s].kind_ns[kind];
            recompute_ns += kind == BG_ACTION_RECOMPUTE ? a->devices[s].kind_ns[kind] : 0.0;
        }
    if (!(all_ns > 0.0) || recompute_ns < least_wait * all_ns)
        return;
    gain = recompute_ns / (all_ns - recompute_ns);
    insight = add_insight(a, "recompute", 0.0, 0.0);
    if (insight == NULL)
        return;
    insight->weight = 0.25 * gain;
    insight->option = say(a, "--recompute none");
    insight->text =
        say(a,
            "Recomputing forwards takes %.0f %% of the work. If the devices have memory for the activations, %s "
            "could save up to this share.",
            100.0 * recompute_ns / all_ns, insight->option);
}

static int compare_weights(const void *left, const void *right)
{
    const bgi_insight *a = left, *b = right;

    return a->weight > b->weight ? -1 : a->weight < b->weight;
}

void bgi_find_insights(bgi_analysis *analysis)
{
    look_at_stages(analysis);
    look_at_bubble(analysis);
    look_at_data(analysis);
    look_at_host(analysis);
    look_at_links(analysis);
    look_at_transfers(analysis);
    look_at_cores(analysis);
    look_at_memory(analysis);
    look_at_recomputation(analysis);
    if (analysis->insight_count > 1)
        qsort(analysis->insights, analysis->insight_count, sizeof analysis->insights[0], compare_weights);
}
