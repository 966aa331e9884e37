/*
 * options.c: checks rules between several options; the range of each option is in the table (options/). It knows no
 * graph; the passes that use options check them against the model.
 */
#include "plan/options.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/schedule.h>

#include "core/error.h"
#include "core/text.h"
#include "options/choices.h"
#include "options/table.h"

const char *bgi_options_schedules(char *text, size_t size)
{
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t i = 0; bg_schedule_generator_at(i) != NULL && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", i == 0 ? "" : ", ",
                                   bg_schedule_generator_at(i)->name);
    return text;
}

size_t bgi_options_budget(const bg_options *options, uint32_t device)
{
    const bool has_own = options->execution.devices != NULL && device < options->execution.device_model_count;

    return has_own && options->execution.devices[device].memory_bytes != 0
               ? options->execution.devices[device].memory_bytes
               : options->memory.device_memory_bytes;
}

size_t bgi_options_scratch(const bg_options *options, uint32_t device)
{
    const size_t budget = bgi_options_budget(options, device), memory = budget != 0 ? budget : BG_NOMINAL_MEMORY_BYTES;
    double bytes;

    if (options->memory.matmul_proportion_count == 0)
        return 0;
    if (device >= options->memory.matmul_proportion_count) /* the last proportion is also that of all further devices */
        device = options->memory.matmul_proportion_count - 1;
    bytes = (double)memory * options->memory.matmul_proportions[device];
    return bytes < 1.0 ? 1 : bytes >= (double)(SIZE_MAX / 2) ? 0 : (size_t)bytes;
}

double bgi_options_speed(const bg_options *options, uint32_t device)
{
    return options->execution.devices != NULL && device < options->execution.device_model_count
               ? options->execution.devices[device].speed
               : 1.0;
}

/* ---- checks ---- */

/* The problems found so far, one per line. */
typedef struct problem_list {
    bgi_string text;
    uint32_t count;
} problem_list;

static void add_problem(problem_list *list, const char *format, ...) BG_PRINTF(2, 3);

static void add_problem(problem_list *list, const char *format, ...)
{
    char line[BG_ERROR_MESSAGE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    bgi_string_escape(line, sizeof line, false);
    bgi_string_add(&list->text, "%s\n", line);
    list->count++;
}

static void check_inference(problem_list *list, const bg_options *options, bool training)
{
    if (!training && options->execution.gradient_accumulation > 1)
        add_problem(list,
                    "gradient_accumulation is %u in inference, where there are no gradients; set it to 1 and raise "
                    "device_iterations for more micro-batches a run",
                    options->execution.gradient_accumulation);
    if (training && options->numerics.weights_type != BG_WEIGHTS_FLOAT &&
        options->numerics.weights_type != BG_WEIGHTS_CAST)
        add_problem(list,
                    "weights_type is %s in training, where updates need float weights; leave it float, and set it for "
                    "the plan that infers",
                    bg_option_value_name("weights_type", (int)options->numerics.weights_type));
}

/* Whether the size divides the number of replicas is checked once that number is known. */
static void check_input_groups(problem_list *list, const bg_options *options)
{
    if (options->replicas.input_grouping == BG_GROUPING_ALL)
        add_problem(list, "input_grouping is all, which inputs do not support; to give all replicas the same data, set "
                          "input_group_size to the number of replicas");
    if (options->replicas.input_grouping == BG_GROUPING_NONE && options->replicas.input_group_size > 1)
        add_problem(list, "input_grouping is none, but input_group_size is %u; without groups it must be 1",
                    options->replicas.input_group_size);
}

/* Checks that 32 bits can count the micro-batches of a run. */
static void check_product(problem_list *list, const bg_options *options)
{
    uint64_t step = (uint64_t)options->execution.gradient_accumulation * options->replicas.count;

    if (options->execution.gradient_accumulation < 1 || options->replicas.count < 1 ||
        options->execution.device_iterations < 1)
        return;
    if (step > UINT32_MAX || step * options->execution.device_iterations > UINT32_MAX)
        add_problem(list,
                    "a run has device_iterations %u x gradient_accumulation %u x replicas %u micro-batches; the "
                    "product must be below 2^32: use fewer device iterations and more runs",
                    options->execution.device_iterations, options->execution.gradient_accumulation,
                    options->replicas.count);
}

static void check_schedule(problem_list *list, const bg_options *options)
{
    const bg_schedule_generator *generator = bg_schedule_generator_find(options->execution.schedule);
    char names[320];

    if (options->execution.schedule == NULL)
        return;
    if (generator == NULL)
        add_problem(list, "schedule `%s` is unknown; the schedules are %s", options->execution.schedule,
                    bgi_options_schedules(names, sizeof names));
    else if (options->execution.strategy != BG_STRATEGY_PIPELINED &&
             strcmp(generator->name, bgi_strategy_name(options->execution.strategy)) != 0)
        add_problem(list,
                    "schedule is `%s`, but the %s strategy has its own order; leave schedule NULL or use the "
                    "pipelined strategy",
                    options->execution.schedule, bgi_strategy_name(options->execution.strategy));
    else if (options->execution.strategy == BG_STRATEGY_PIPELINED && strcmp(generator->name, "phased") == 0)
        add_problem(list, "schedule is `phased`, but the strategy is pipelined; use the phased strategy");
}

static void check_strategy(problem_list *list, const bg_options *options)
{
    if (options->execution.phases_parallel && options->execution.strategy != BG_STRATEGY_PHASED)
        add_problem(list, "phases_parallel is set, but the %s strategy has no phases; use the phased strategy",
                    bgi_strategy_name(options->execution.strategy));
    if (options->execution.auto_stage == BG_AUTO_STAGE_INCREMENT && options->execution.stages != NULL)
        add_problem(list, "auto_stage is auto_increment, but stages are `%s`; give only one of the two",
                    options->execution.stages);
    if (options->execution.strategy == BG_STRATEGY_SINGLE &&
        (options->execution.device_mapping != NULL || options->execution.device_count > 1))
        add_problem(
            list,
            "%s is set, but the single strategy has one stage on one device; leave it out, or use another strategy",
            options->execution.device_mapping != NULL ? "device_mapping" : "device_count above 1");
    check_schedule(list, options);
}

static void check_period(problem_list *list, const char *what, bg_output_mode mode, uint32_t period,
                         uint32_t iterations)
{
    if (mode == BG_OUTPUT_EVERY_N && (period < 1 || iterations % period != 0))
        add_problem(list, "%s every_n has period %u; it must be at least 1 and divide device_iterations (%u)", what,
                    period, iterations);
}

static void check_outputs(problem_list *list, const bg_options *options)
{
    check_period(list, "output_mode", options->reporting.output_mode, options->reporting.output_period,
                 options->execution.device_iterations);
    for (uint32_t i = 0; options->reporting.output_requests != NULL && i < options->reporting.output_request_count;
         i++) {
        const bg_output_request *request = &options->reporting.output_requests[i];
        char what[64];

        snprintf(what, sizeof what, "output_requests[%u]", i);
        check_period(list, what, request->mode, request->period, options->execution.device_iterations);
    }
}

/* Checks that tensor locations are possible; each message explains why a location is not. */
static void check_location(problem_list *list, const bg_options *options, const char *what, uint32_t classes,
                           const bg_tensor_location *location)
{
    const bool is_remote = location->place == BG_PLACE_REMOTE ||
                           (location->place == BG_PLACE_DEFAULT && options->execution.strategy == BG_STRATEGY_PHASED);

    if (location->sharded && (classes >> BG_LOCATION_ACTIVATIONS & 1) != 0 && !is_remote)
        add_problem(list,
                    "%s: activations are sharded and on the device, where the backward pass needs them whole; make "
                    "them remote, so that each tensor-parallel replica stores a piece",
                    what);
    if (location->sharded && (classes >> BG_LOCATION_WEIGHTS & 1) != 0 && !is_remote)
        add_problem(list,
                    "%s: weights are sharded and on the device, where every forward and backward pass needs them "
                    "whole; make them remote, so that each replica stores a piece and loads all pieces",
                    what);
}

static void check_locations(problem_list *list, const bg_options *options)
{
    const bool is_serial_only = options->memory.phase_liveness == BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP ||
                                options->memory.phase_liveness == BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
    char what[64];

    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++) {
        snprintf(what, sizeof what, "locations[%u]", k);
        check_location(list, options, what, 1u << k, &options->memory.locations[k]);
    }
    for (uint32_t i = 0; options->memory.location_rules != NULL && i < options->memory.location_rule_count; i++) {
        snprintf(what, sizeof what, "location_rules[%u]", i);
        check_location(list, options, what, options->memory.location_rules[i].classes,
                       &options->memory.location_rules[i].location);
    }
    if (options->execution.phases_parallel && is_serial_only)
        add_problem(list,
                    "phase_liveness is %s, but the phases are parallel and need loads that overlap; use "
                    "off_chip_after_fwd or always_live, or serial phases",
                    bgi_phase_liveness_name(options->memory.phase_liveness));
}

static void check_recompute(problem_list *list, const bg_options *options)
{
    bool has_budget = options->memory.device_memory_bytes != 0;

    for (uint32_t d = 0; options->execution.devices != NULL && d < options->execution.device_model_count; d++)
        has_budget |= options->execution.devices[d].memory_bytes != 0;
    if (options->memory.recompute == BG_RECOMPUTE_AUTO && !has_budget)
        add_problem(list, "recompute is auto, but device_memory_bytes is 0 (unlimited), so there is no budget to meet; "
                          "give one, or use BG_RECOMPUTE_STAGE");
}

static void check_accumulator(problem_list *list, const bg_options *options)
{
    const bool is_given = options->numerics.accumulator_type == BG_ACCUMULATOR_GIVEN;
    const bool is_chosen = options->numerics.accumulator_type == BG_ACCUMULATOR_CALLBACK;

    if (is_given && options->numerics.accumulator_dtype == BG_DTYPE_NONE)
        add_problem(list, "accumulator_dtype is %s; it must be float32, bfloat16 or float16",
                    bg_dtype_name(options->numerics.accumulator_dtype));
    if (!is_given && options->numerics.accumulator_dtype != BG_DTYPE_NONE)
        add_problem(list,
                    "accumulator_dtype is %s, which needs accumulator_type BG_ACCUMULATOR_GIVEN; leave one of them out",
                    bg_dtype_name(options->numerics.accumulator_dtype));
    if (is_chosen != (options->numerics.choose_accumulator != NULL))
        add_problem(list, is_chosen ? "accumulator_type is a callback, but choose_accumulator is NULL; set the function"
                                    : "choose_accumulator is set, which needs accumulator_type "
                                      "BG_ACCUMULATOR_CALLBACK; leave one of them out");
}

/* Checks the settings of automatic loss scaling, if it is on. */
static void check_auto_loss_scaling(problem_list *list, const bg_options *options, bool training)
{
    const bg_auto_loss_scaling *a = &options->numerics.auto_loss_scaling;

    if (!a->enabled)
        return;
    if (!training)
        add_problem(list, "auto_loss_scaling is on in inference, where there are no gradients; leave it off");
    if (options->numerics.accumulation == BG_ACCUMULATE_SUM || options->replicas.replica_reduction == BG_REPLICAS_SUM)
        add_problem(list, "auto_loss_scaling is on, but gradients are sums; it needs the mean of micro-batches and of "
                          "replicas");
    if (!(a->bin_edge > 0.0 && a->bin_edge <= 1.0))
        add_problem(list, "auto_loss_scaling.bin_edge is %g; it must be above 0 and at most 1 (the end of the range)",
                    a->bin_edge);
    if (!(a->threshold >= 0.0 && a->threshold < 1.0))
        add_problem(list, "auto_loss_scaling.threshold is %g; it must be at least 0 and below 1", a->threshold);
    if (a->period < 1)
        add_problem(list, "auto_loss_scaling.period is 0 but must be at least 1 update");
    if (!(a->increase >= 1.0 && isfinite(a->increase)) || !(a->decrease > 0.0 && a->decrease <= 1.0))
        add_problem(list,
                    "auto_loss_scaling has increase %g and decrease %g; increase must be at least 1, and decrease "
                    "above 0 and at most 1",
                    a->increase, a->decrease);
    if (!(a->minimum >= 0x1p-64 && a->minimum <= a->maximum && a->maximum <= 0x1p64))
        add_problem(list,
                    "auto_loss_scaling has minimum %g and maximum %g; both must be from 2^-64 to 2^64, with minimum at "
                    "most maximum",
                    a->minimum, a->maximum);
    else if (!(options->numerics.loss_scaling >= a->minimum && options->numerics.loss_scaling <= a->maximum))
        add_problem(list,
                    "loss_scaling is %g, but auto_loss_scaling begins there, so it must be from the minimum %g to the "
                    "maximum %g",
                    options->numerics.loss_scaling, a->minimum, a->maximum);
}

/* Rejects options whose results depend on the number of replicas by definition, not only through the order of sums. */
static void check_canonical(problem_list *list, const bg_options *options, bool training)
{
    const bool sums = options->numerics.accumulation == BG_ACCUMULATE_SUM;
    const bg_replica_reduction reduction = options->replicas.replica_reduction;

    if (!options->numerics.canonical_reductions || !training)
        return;
    if (options->numerics.accumulation == BG_ACCUMULATE_MEAN_RUNNING)
        add_problem(list, "canonical_reductions is on, but gradients are a running mean, which has its own order; use "
                          "BG_ACCUMULATE_MEAN or BG_ACCUMULATE_SUM");
    if ((sums && reduction == BG_REPLICAS_MEAN) || (!sums && reduction == BG_REPLICAS_SUM))
        add_problem(list, "canonical_reductions is on, but replica_reduction differs from the accumulation, so the "
                          "result would depend on the number of replicas; leave replica_reduction at its default");
}

/* Checks the threads and the memory that the program provides. */
static void check_loans(problem_list *list, const bg_options *options)
{
    if (options->execution.start_thread != NULL && options->execution.pinning != BG_PINNING_NONE)
        add_problem(
            list,
            "start_thread is set with pinning %s, but the program decides where its own threads run; use pinning none",
            bg_option_value_name("pinning", (int)options->execution.pinning));
    if ((options->memory.allocate == NULL) != (options->memory.release == NULL))
        add_problem(list, "%s is given without %s; give both, or neither",
                    options->memory.allocate != NULL ? "allocate" : "release",
                    options->memory.allocate != NULL ? "release" : "allocate");
}

static void add_line(void *list, const char *line)
{
    add_problem(list, "%s", line);
}

static void check_all(problem_list *list, const bg_options *options, bool training)
{
    bgi_options_check_ranges(options, add_line, list);
    check_inference(list, options, training);
    check_product(list, options);
    check_input_groups(list, options);
    check_strategy(list, options);
    check_outputs(list, options);
    check_locations(list, options);
    check_recompute(list, options);
    check_accumulator(list, options);
    check_auto_loss_scaling(list, options, training);
    check_canonical(list, options, training);
    check_loans(list, options);
    if (options->reporting.trace && options->reporting.trace_events < 1)
        add_problem(list, "trace is on, but trace_events is 0; keep at least 1 event for each device");
}

bg_status bg_options_problems(const bg_options *options, bool training, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    problem_list list = {.count = 0};

    BGI_TRY(bgi_options_check_made(options, error));
    check_all(&list, options, training);
    return bgi_string_finish(&list.text, out_text, error);
}

/* Reports the problems that fit in one line, and the number of the others. */
static bg_status report(char *lines, uint32_t count, bg_error *error)
{
    enum { ROOM = BG_ERROR_MESSAGE_BYTES - 96 };
    char text[ROOM + 64];
    size_t length = 0;
    uint32_t shown = 0;

    for (char *line = lines, *end; *line != '\0'; line = end + 1, shown++) {
        const size_t left = ROOM - length;
        int written;
        end = strchr(line, '\n');
        if ((size_t)(end - line) + 3 > left && shown > 0)
            break;
        written = snprintf(text + length, left, "%s%.*s", shown > 0 ? "; " : "", (int)(end - line), line);
        length += (size_t)written < left ? (size_t)written : left - 1;
    }
    if (shown < count)
        snprintf(text + length, sizeof text - length, "; and %u more (bg_options_problems lists all)", count - shown);
    return bg_error_set(error, BG_ERROR_INVALID, "options: %s", text);
}

bg_status bgi_options_validate(const bg_options *options, bool training, bg_error *error)
{
    problem_list list = {.count = 0};
    char *lines = NULL;
    bg_status status;

    BGI_TRY(bgi_options_check_made(options, error));
    check_all(&list, options, training);
    status = bgi_string_finish(&list.text, &lines, error);
    if (status == BG_OK && list.count > 0)
        status = report(lines, list.count, error);
    free(lines);
    return status;
}
