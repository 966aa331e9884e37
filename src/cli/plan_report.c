/*
 * plan_report.c: prints a description of a plan.
 */
#include "cli/command.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <brigade/plan.h>
#include <brigade/session.h>

#include "cli/program.h"
#include "cli/ranks.h"
#include "core/error.h"

void cli_begin_compilation(bool quiet)
{
    if (quiet || !cli_writes_to_terminal())
        return;
    fputs("Compiling...", stdout);
    fflush(stdout);
}

void cli_report_compilation(const bg_plan *plan)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);

    printf("%s %.1f ms\n", summary.is_cached ? "Plan: loaded from cache in" : "Graph compilation:", summary.compile_ms);
}

/* Explains the devices' idle share when there may be more devices than cores. The time of a step is at least the work
 * of all devices divided by the number of cores. */
static void report_idle_share(const bg_plan *plan, const bg_plan_summary *summary, bool is_measured)
{
    const uint64_t devices = (uint64_t)summary->device_count * summary->replicas;
    const double busy = (double)devices * (1.0 - summary->idle_share);
    const uint32_t wanted = bg_plan_options(plan)->execution.cores;
    uint32_t cores = bg_processor_count();

    if (wanted > 0 && wanted < cores)
        cores = wanted;
    printf("idle share %.1f %% of the devices' time by %s costs, if each had its own core", 100.0 * summary->idle_share,
           is_measured ? "measured" : "static");
    if (cores < devices)
        printf("; here %" PRIu64 " devices share %u core%s, whose idle share is at least %.1f %%", devices, cores,
               cli_s(cores), 100.0 * fmax(0.0, 1.0 - busy / cores));
    putchar('\n');
}

/* Reports when gradients are summed over replicas, and how this affects overlap and memory. */
static void report_sums(const bg_plan *plan, const bg_plan_summary *summary)
{
    const bg_reduce_time time = bg_plan_options(plan)->replicas.reduce_time;

    if (summary->data_replicas == 1)
        return;
    printf("gradients are summed over %u replicas %s (--reduce %s)", summary->data_replicas,
           time != BG_REDUCE_IN_UPDATE ? "after each stage's backward" : "with the update",
           bg_option_value_name("reduce_time", (int)time));
    if (summary->sums_beside > 0)
        printf(", %u of %u sums overlap with later work", summary->sums_beside, summary->sums);
    if (summary->bytes_not_stored > 0)
        printf("; so remote stores keep %.3g MB less of them", 1e-6 * (double)summary->bytes_not_stored);
    putchar('\n');
}

void cli_plan_report(const bg_plan *plan, const char *samples, bool is_measured)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);
    char mesh[80] = "";

    if (summary.data_replicas != summary.replicas)
        snprintf(mesh, sizeof mesh, " (data_parallel %u x tensor parallel %u)", summary.data_replicas,
                 summary.replicas / summary.data_replicas);
    printf("%u stage%s on %u device%s, %u replica%s%s; %u micro-batches of %u %s an update, %u updates a call\n"
           "%.2f Mflop a micro-batch; %s in %.1f ms\n",
           summary.stage_count, cli_s(summary.stage_count), summary.device_count, cli_s(summary.device_count),
           summary.replicas, cli_s(summary.replicas), mesh, summary.micro_batches_per_step, summary.micro_batch,
           samples, summary.steps_per_run, 1e-6 * summary.flops_per_micro_batch,
           summary.is_cached ? "loaded from cache" : "compiled", summary.compile_ms);
    report_idle_share(plan, &summary, is_measured);
    if (summary.recomputed_op_count > 0)
        printf("%u ops run again for the backward pass, %.1f %% of the time by static costs\n",
               summary.recomputed_op_count, 100.0 * summary.recompute_share);
    report_sums(plan, &summary);
}

bg_status cli_plan_report_ranks(const bg_plan *plan, const char *before, bg_error *error)
{
    const uint32_t planned = bg_plan_options(plan)->execution.planned_ranks;
    const bool is_wanted = planned > 0 || bg_plan_summarize(plan).ranks > 1;
    char *text = NULL;

    if (!is_wanted && bg_plan_options(plan)->execution.layout == NULL)
        return BG_OK;
    BGI_TRY(bg_plan_print_ranks(plan, planned, &text, error)); /* for a single process at least the layout is checked */
    if (is_wanted)
        printf("%sRanks\n%s\n", before, text);
    free(text);
    return BG_OK;
}
