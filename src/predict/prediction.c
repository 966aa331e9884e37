/*
 * prediction.c: makes a prediction from a plan and prices, and prints it.
 */
#include "predict/prediction.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"
#include "plan/costs.h"

/* The largest number of simulated steps: the first fills the pipeline, and the others follow without a gap. */
enum { MOST_STEPS = 4 };

/* ---- prices ---- */

/* Returns the type of a call's arithmetic, which is that of its first floating-point operand; float32 if there is
 * none. */
static bg_dtype arithmetic_type(const bgi_call *call)
{
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++)
        if (bg_dtype_is_float(call->types[i].dtype))
            return call->types[i].dtype;
    return BG_FLOAT32;
}

double bgi_model_call_ns(const void *user, const bgi_call *call)
{
    const bgi_device_model *model = user;
    const double compute = call->cost.flops / bgi_device_model_flops(model, arithmetic_type(call));
    const double memory = (call->cost.bytes_read + call->cost.bytes_written) / model->memory_bytes_per_ns;

    return model->call_ns + fmax(compute, memory) / model->efficiency;
}

void bgi_prices_of_model(const bgi_device_model *model, bgi_prices *out)
{
    *out = (bgi_prices){.model = *model, .call_ns = bgi_model_call_ns};
    out->user = &out->model;
    snprintf(out->basis, sizeof out->basis, "operations and bytes of each op at %.4g %% of the device's peak",
             100.0 * model->efficiency);
}

void bgi_device_model_static(bgi_device_model *out)
{
    *out = (bgi_device_model){.name = "one core a device",
                              .source = "the planner's static costs",
                              .memory_bytes = 1e18,
                              .memory_bytes_per_ns = BGI_MODEL_BYTES_PER_NS,
                              .flops_per_ns = {[BG_FLOAT32] = BGI_MODEL_FLOPS_PER_NS},
                              .efficiency = 1.0,
                              .call_ns = BGI_MODEL_CALL_NS,
                              .link = {BGI_MODEL_BYTES_PER_NS, 0.0},
                              .link_devices = UINT32_MAX,
                              .network = {BGI_MODEL_BYTES_PER_NS, 0.0},
                              .remote = {BGI_MODEL_REMOTE_BYTES_PER_NS, 0.0}};
}

/* ---- making ---- */

static bgi_simulation_setup set_up(const bg_plan *plan, const bgi_prices *prices)
{
    const uint32_t steps = bg_plan_summarize(plan).steps_per_run;

    return (bgi_simulation_setup){.model = &prices->model,
                                  .call_ns = prices->call_ns,
                                  .divisible_ns = prices->divisible_ns,
                                  .user = prices->user,
                                  .instruction_ns = prices->instruction_ns,
                                  .steps = steps == 0           ? 1
                                           : steps < MOST_STEPS ? steps
                                                                : MOST_STEPS};
}

/* Uses the times that calls take while other cores work too, if these are known. */
static void use_shared_prices(bgi_simulation_setup *setup, const bgi_prices *prices)
{
    if (prices->shared_user != NULL)
        setup->user = prices->shared_user;
}

bg_status bgi_prediction_make(const bg_plan *plan, const bgi_prices *prices, uint32_t cores, bool wants_events,
                              bgi_prediction *out, bg_error *error)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);
    bgi_simulation_setup setup = set_up(plan, prices);
    bgi_prediction made = {.plan = plan, .prices = prices, .cores = cores};

    setup.wants_events = wants_events;
    BGI_TRY(bgi_simulate(plan, &setup, &made.own, error));
    if (cores > 0) {
        bg_status status;
        setup.cores = cores;
        setup.wants_events = false;
        if (cores > 1)
            use_shared_prices(&setup, prices);
        status = bgi_simulate(plan, &setup, &made.shared, error);
        if (status != BG_OK) {
            bgi_prediction_clear(&made);
            return status;
        }
    }
    made.own_run_ns = bgi_simulation_run_ns(&made.own, summary.steps_per_run);
    made.shared_run_ns = cores > 0 ? bgi_simulation_run_ns(&made.shared, summary.steps_per_run) : 0.0;
    *out = made;
    return BG_OK;
}

bg_status bgi_prediction_add_ranks(bgi_prediction *prediction, const bgi_link_model *link, uint32_t cores,
                                   bg_error *error)
{
    const bg_plan *plan = prediction->plan;
    const uint32_t rank_count = plan->device_count * plan->replicas;
    bgi_device_model model = prediction->prices->model;
    bgi_simulation_setup setup = set_up(plan, prediction->prices);

    model.link = model.network = *link;
    setup.model = &model;
    setup.are_ranks = true;
    setup.rank_cores = cores;
    if (rank_count <= prediction->prices->core_ratio_count && (cores == 0 || rank_count <= cores)) {
        setup.core_ratios = prediction->prices->core_ratios;
        setup.core_ratio_count = prediction->prices->core_ratio_count;
    }
    setup.message_user = setup.user;
    if (rank_count > 1)
        use_shared_prices(&setup, prediction->prices);
    BGI_TRY(bgi_simulate(plan, &setup, &prediction->ranks, error));
    prediction->rank_link = *link;
    prediction->rank_cores = cores;
    prediction->ranks_run_ns = bgi_simulation_run_ns(&prediction->ranks, bg_plan_summarize(plan).steps_per_run);
    return BG_OK;
}

void bgi_prediction_clear(bgi_prediction *prediction)
{
    bgi_simulation_clear(&prediction->ranks);
    bgi_simulation_clear(&prediction->own);
    bgi_simulation_clear(&prediction->shared);
}

/* ---- figures ---- */

static bool is_work(int time_class)
{
    return time_class <= BGI_TIME_COPIES;
}

double bgi_prediction_idle_share(const bgi_simulation *simulation)
{
    double work = 0.0;

    for (uint32_t d = 0; d < simulation->device_count; d++)
        for (int k = 0; k < BGI_TIME_CLASS_COUNT; k++)
            work += is_work(k) ? simulation->times[d][k] : 0.0;
    return simulation->total_ns > 0.0 ? fmax(0.0, 1.0 - work / (simulation->total_ns * simulation->device_count)) : 0.0;
}

uint64_t bgi_plan_message_bytes(const bg_plan *plan)
{
    uint64_t bytes = 0;

    for (uint32_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].from_device != plan->edges[e].to_device)
            bytes += (uint64_t)plan->edges[e].payload_bytes * (plan->edges[e].per_step ? 1 : plan->micro_batches);
    return bytes;
}

bool bgi_prediction_fits(const bgi_prediction *prediction, uint32_t *out_device, size_t *out_bytes,
                         size_t *out_remote_bytes)
{
    const bg_plan *plan = prediction->plan;
    const bgi_device_model *model = &prediction->prices->model;

    *out_device = 0;
    *out_bytes = *out_remote_bytes = 0;
    for (uint32_t d = 0; d < plan->device_count; d++) {
        if (plan->devices[d].arena_bytes > *out_bytes) {
            *out_bytes = plan->devices[d].arena_bytes;
            *out_device = d;
        }
        if (plan->devices[d].remote_bytes > *out_remote_bytes)
            *out_remote_bytes = plan->devices[d].remote_bytes;
    }
    return (double)*out_bytes <= model->memory_bytes &&
           (model->remote_bytes == 0.0 || (double)*out_remote_bytes <= model->remote_bytes);
}

/* ---- text ---- */

/* Prints a time with three digits: "1.23 ms". */
static const char *time_text(double ns, char text[32])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    unsigned unit = 0;

    while (ns >= 1000.0 && unit + 1 < sizeof units / sizeof units[0])
        ns /= 1000.0, unit++;
    snprintf(text, 32, "%.*f %s", ns < 10.0 ? 2 : ns < 100.0 ? 1 : 0, ns, units[unit]);
    return text;
}

static void add_step(bgi_string *text, const bgi_prediction *p, const char *who, double run_ns, const char *samples)
{
    const bg_plan_summary summary = bg_plan_summarize(p->plan);
    const double steps = summary.steps_per_run > 0 ? summary.steps_per_run : 1;
    char time[32];

    bgi_string_add(text, "%s: an update takes %s, %.4g %s/s", who, time_text(run_ns / steps, time),
                   run_ns > 0.0 ? 1e9 * (double)summary.samples_per_run / run_ns : 0.0, samples);
}

static void add_memory(bgi_string *text, const bgi_prediction *p)
{
    const bgi_device_model *model = &p->prices->model;
    char need[BGI_BYTES_TEXT_BYTES], have[BGI_BYTES_TEXT_BYTES];
    uint32_t device;
    size_t bytes, remote;
    const bool fits = bgi_prediction_fits(p, &device, &bytes, &remote);

    bgi_string_add(text, "memory: device %u needs the most, %s", device, bgi_bytes_text(bytes, need));
    if (model->memory_bytes < 1e18)
        bgi_string_add(text, " of %s", bgi_bytes_text((uint64_t)model->memory_bytes, have));
    if (remote > 0) {
        bgi_string_add(text, "; streaming memory, %s", bgi_bytes_text(remote, need));
        if (model->remote_bytes > 0.0)
            bgi_string_add(text, " of %s", bgi_bytes_text((uint64_t)model->remote_bytes, have));
    }
    bgi_string_add(text, "%s\n", fits ? "" : ": it does not fit");
    bytes = (size_t)bgi_plan_message_bytes(p->plan);
    if (bytes > 0)
        bgi_string_add(text, "messages between devices: %s an update of a replica\n", bgi_bytes_text(bytes, need));
}

static bool has_time(const bgi_simulation *simulation, int time_class)
{
    for (uint32_t d = 0; d < simulation->device_count; d++)
        if (simulation->times[d][time_class] >= 0.0005 * simulation->total_ns)
            return true;
    return false;
}

/* Returns whether the table would show equal rows for two devices. */
static bool looks_equal(const bgi_simulation *simulation, uint32_t a, uint32_t b)
{
    for (int k = 0; k < BGI_TIME_CLASS_COUNT; k++)
        if (fabs(simulation->times[a][k] - simulation->times[b][k]) >= 0.0005 * simulation->total_ns)
            return false;
    return true;
}

static void add_times(bgi_string *text, const bgi_simulation *simulation)
{
    char name[48];

    bgi_string_add(text, "%-14s", "% of the time");
    for (int k = 0; k < BGI_TIME_CLASS_COUNT; k++)
        if (has_time(simulation, k))
            bgi_string_add(text, " %11s", bgi_time_class_name((bgi_time_class)k));
    bgi_string_add(text, "\n");
    for (uint32_t d = 0, end; d < simulation->device_count; d = end) {
        for (end = d + 1; end < simulation->device_count && looks_equal(simulation, d, end);)
            end++;
        if (end > d + 1)
            snprintf(name, sizeof name, "devices %u-%u", d, end - 1);
        else
            snprintf(name, sizeof name, "device %u", d);
        bgi_string_add(text, "%-14s", name);
        for (int k = 0; k < BGI_TIME_CLASS_COUNT; k++)
            if (has_time(simulation, k))
                bgi_string_add(text, " %11.1f",
                               simulation->total_ns > 0.0 ? 100.0 * simulation->times[d][k] / simulation->total_ns
                                                          : 0.0);
        bgi_string_add(text, "\n");
    }
}

bg_status bgi_prediction_print(const bgi_prediction *p, const char *samples, char **out_text, bg_error *error)
{
    const uint64_t devices = (uint64_t)p->plan->device_count * p->plan->replicas;
    bgi_string text = {0};
    char who[160];

    bgi_string_add(&text, "%s, %s\n", p->prices->model.name, p->prices->basis);
    snprintf(who, sizeof who, "%llu separate device%s", (unsigned long long)devices, devices == 1 ? "" : "s");
    add_step(&text, p, devices == 1 ? "1 separate device" : who, p->own_run_ns, samples);
    bgi_string_add(&text, "; idle %.1f %%\n", 100.0 * bgi_prediction_idle_share(&p->own));
    if (p->shared.device_count > 0) {
        snprintf(who, sizeof who, "%u core%s shared by them", p->cores, p->cores == 1 ? "" : "s");
        add_step(&text, p, who, p->shared_run_ns, samples);
        bgi_string_add(
            &text, "; idle %.1f %%\n",
            100.0 * fmax(0.0, 1.0 - p->shared.core_busy_ns / (p->shared.total_ns * (p->cores > 0 ? p->cores : 1))));
    }
    if (p->ranks.device_count > 0) {
        snprintf(who, sizeof who, "%llu rank%s of a core, %.3g us and %.3g GB/s between them",
                 (unsigned long long)devices, devices == 1 ? "" : "s", 1e-3 * p->rank_link.latency_ns,
                 p->rank_link.bytes_per_ns);
        add_step(&text, p, who, p->ranks_run_ns, samples);
        bgi_string_add(&text, "; idle %.1f %%\n", 100.0 * bgi_prediction_idle_share(&p->ranks));
    }
    add_memory(&text, p);
    add_times(&text, &p->own);
    return bgi_string_finish(&text, out_text, error);
}

bg_status bgi_prediction_draw(const bgi_prediction *p, const char *title, char **out_text, bg_error *error)
{
    const bg_schedule_svg_options options = {.title = title};

    return bg_schedule_draw_svg(&p->plan->problem, &p->own.timing, &options, out_text, error);
}
