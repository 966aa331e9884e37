/*
 * options.c: defaults, names and ranges of the options. Knows no graph: what an option means for a model is checked
 * where the model is.
 */
#include "plan/options.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/schedule.h>

#include "core/error.h"
#include "core/narrow.h"
#include "core/text.h"

/* Any number that uninitialised memory is unlikely to hold. */
enum { OPTIONS_COOKIE = 0x42726f70 };

bg_options bg_options_defaults(void)
{
    const bg_tensor_location location = {.minimum_elements_remote = 2, .minimum_elements_sharded = 8192};
    bg_options options = {
        .cookie = OPTIONS_COOKIE,
        .strategy = BG_STRATEGY_PIPELINED,
        .device_iterations = 1,
        .gradient_accumulation = 1,
        .replicas = 1,
        .input_group_size = 1,
        .cast_gradients = true,
        .loss_scaling = 1.0,
        .auto_loss_scaling = {.bin_edge = 0.125,
                              .threshold = 1e-7,
                              .period = 1,
                              .increase = 2.0,
                              .decrease = 0.5,
                              .minimum = 1.0,
                              .maximum = 0x1p24},
        .partials = BG_FLOAT32,
        .wait_limit_s = 120.0,
        .trace_events = 65536,
        .phase_liveness = BG_LIVE_OFF_CHIP_AFTER_FWD,
        .io_threads = -1,
    };

    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        options.locations[k] = location;
    options.locations[BG_LOCATION_STATE].on_demand = true;
    return options;
}

/* ---- names ---- */

static const char *const strategy_names[] = {[BG_STRATEGY_SINGLE] = "single",
                                             [BG_STRATEGY_SHARDED] = "sharded",
                                             [BG_STRATEGY_PIPELINED] = "pipelined",
                                             [BG_STRATEGY_PHASED] = "phased"};
static const char *const output_mode_names[] = {[BG_OUTPUT_DEFAULT] = "default",
                                                [BG_OUTPUT_FINAL] = "final",
                                                [BG_OUTPUT_ALL] = "all",
                                                [BG_OUTPUT_SUM] = "sum",
                                                [BG_OUTPUT_EVERY_N] = "every_n"};
static const char *const accumulation_names[] = {
    [BG_ACCUMULATE_MEAN] = "mean", [BG_ACCUMULATE_SUM] = "sum", [BG_ACCUMULATE_MEAN_RUNNING] = "mean-running"};
static const char *const replica_reduction_names[] = {
    [BG_REPLICAS_LIKE_ACCUMULATION] = "default", [BG_REPLICAS_MEAN] = "mean", [BG_REPLICAS_SUM] = "sum"};

static const char *const grouping_names[] = {[BG_GROUPING_CONSECUTIVE] = "consecutive",
                                             [BG_GROUPING_ORTHOGONAL] = "orthogonal",
                                             [BG_GROUPING_ALL] = "all",
                                             [BG_GROUPING_NONE] = "none"};

static const char *const recompute_names[] = {[BG_RECOMPUTE_NONE] = "none",
                                              [BG_RECOMPUTE_STAGE] = "stage",
                                              [BG_RECOMPUTE_CHECKPOINTS] = "checkpoints",
                                              [BG_RECOMPUTE_FRACTION] = "fraction",
                                              [BG_RECOMPUTE_AUTO] = "auto"};
static const char *const recompute_order_names[] = {
    [BG_RECOMPUTE_INTERLEAVED] = "interleaved", [BG_RECOMPUTE_THEN] = "then"};

static const char *const location_class_names[BG_LOCATION_COUNT] = {"activations", "weights", "optimiser",
                                                                    "accumulators"};
static const char *const liveness_names[] = {[BG_LIVE_ALWAYS] = "always_live",
                                             [BG_LIVE_OFF_CHIP_AFTER_FWD] = "off_chip_after_fwd",
                                             [BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP] = "off_chip_after_fwd_no_overlap",
                                             [BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE] = "off_chip_after_each_phase"};
static const char *const memmap_mode_names[] = {
    [BG_MEMMAP_CONTINUE] = "continue", [BG_MEMMAP_RENEW] = "renew", [BG_MEMMAP_READ_ONLY] = "read_only"};

enum {
    ACCUMULATION_COUNT = sizeof accumulation_names / sizeof accumulation_names[0],
    REPLICA_REDUCTION_COUNT = sizeof replica_reduction_names / sizeof replica_reduction_names[0],
    LIVENESS_COUNT = sizeof liveness_names / sizeof liveness_names[0],
    MEMMAP_MODE_COUNT = sizeof memmap_mode_names / sizeof memmap_mode_names[0],
    MOST_IO_THREADS = 64,
    STRATEGY_COUNT = sizeof strategy_names / sizeof strategy_names[0],
    GROUPING_COUNT = sizeof grouping_names / sizeof grouping_names[0],
    OUTPUT_MODE_COUNT = sizeof output_mode_names / sizeof output_mode_names[0],
    RECOMPUTE_COUNT = sizeof recompute_names / sizeof recompute_names[0],
    RECOMPUTE_ORDER_COUNT = sizeof recompute_order_names / sizeof recompute_order_names[0]
};

/* Index of `name`, or `count`. */
static uint32_t find_name(const char *const *names, uint32_t count, const char *name)
{
    uint32_t i = 0;

    while (i < count && (name == NULL || strcmp(names[i], name) != 0))
        i++;
    return i;
}

const char *bg_strategy_name(bg_strategy strategy)
{
    return (uint32_t)strategy < STRATEGY_COUNT ? strategy_names[strategy] : "none";
}

bool bg_strategy_find(const char *name, bg_strategy *out)
{
    uint32_t i = find_name(strategy_names, STRATEGY_COUNT, name);

    if (i == STRATEGY_COUNT)
        return false;
    *out = (bg_strategy)i;
    return true;
}

const char *bg_accumulation_name(bg_accumulation accumulation)
{
    return (uint32_t)accumulation < ACCUMULATION_COUNT ? accumulation_names[accumulation] : "none";
}

bool bg_accumulation_find(const char *name, bg_accumulation *out)
{
    uint32_t i = find_name(accumulation_names, ACCUMULATION_COUNT, name);

    if (i == ACCUMULATION_COUNT)
        return false;
    *out = (bg_accumulation)i;
    return true;
}

const char *bg_replica_reduction_name(bg_replica_reduction reduction)
{
    return (uint32_t)reduction < REPLICA_REDUCTION_COUNT ? replica_reduction_names[reduction] : "none";
}

bool bg_replica_reduction_find(const char *name, bg_replica_reduction *out)
{
    uint32_t i = find_name(replica_reduction_names, REPLICA_REDUCTION_COUNT, name);

    if (i == REPLICA_REDUCTION_COUNT)
        return false;
    *out = (bg_replica_reduction)i;
    return true;
}

const char *bg_grouping_name(bg_grouping grouping)
{
    return (uint32_t)grouping < GROUPING_COUNT ? grouping_names[grouping] : "unknown";
}

bool bg_grouping_find(const char *name, bg_grouping *out)
{
    uint32_t i = find_name(grouping_names, GROUPING_COUNT, name);

    if (i == GROUPING_COUNT)
        return false;
    *out = (bg_grouping)i;
    return true;
}

const char *bg_output_mode_name(bg_output_mode mode)
{
    return (uint32_t)mode < OUTPUT_MODE_COUNT ? output_mode_names[mode] : "none";
}

bool bg_output_mode_find(const char *name, bg_output_mode *out)
{
    uint32_t i = find_name(output_mode_names, OUTPUT_MODE_COUNT, name);

    if (i == OUTPUT_MODE_COUNT)
        return false;
    *out = (bg_output_mode)i;
    return true;
}

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
    const bool has_own = options->devices != NULL && device < options->device_model_count;

    return has_own && options->devices[device].memory_bytes != 0 ? options->devices[device].memory_bytes
                                                                 : options->device_memory_bytes;
}

size_t bgi_options_scratch(const bg_options *options, uint32_t device)
{
    const size_t budget = bgi_options_budget(options, device), memory = budget != 0 ? budget : BG_NOMINAL_MEMORY_BYTES;
    double bytes;

    if (options->matmul_proportion_count == 0)
        return 0;
    if (device >= options->matmul_proportion_count) /* one for all */
        device = options->matmul_proportion_count - 1;
    bytes = (double)memory * options->matmul_proportions[device];
    return bytes < 1.0 ? 1 : bytes >= (double)(SIZE_MAX / 2) ? 0 : (size_t)bytes;
}

double bgi_options_speed(const bg_options *options, uint32_t device)
{
    return options->devices != NULL && device < options->device_model_count ? options->devices[device].speed : 1.0;
}

const char *bg_recompute_name(bg_recompute recompute)
{
    return (uint32_t)recompute < RECOMPUTE_COUNT ? recompute_names[recompute] : "unknown";
}

bool bg_recompute_find(const char *name, bg_recompute *out)
{
    uint32_t i = find_name(recompute_names, RECOMPUTE_COUNT, name);

    if (i == RECOMPUTE_COUNT)
        return false;
    *out = (bg_recompute)i;
    return true;
}

const char *bg_recompute_order_name(bg_recompute_order order)
{
    return (uint32_t)order < RECOMPUTE_ORDER_COUNT ? recompute_order_names[order] : "unknown";
}

bool bg_recompute_order_find(const char *name, bg_recompute_order *out)
{
    uint32_t i = find_name(recompute_order_names, RECOMPUTE_ORDER_COUNT, name);

    if (i == RECOMPUTE_ORDER_COUNT)
        return false;
    *out = (bg_recompute_order)i;
    return true;
}

const char *bg_location_class_name(bg_location_class location_class)
{
    return (uint32_t)location_class < BG_LOCATION_COUNT ? location_class_names[location_class] : "none";
}

bool bg_location_class_find(const char *name, bg_location_class *out)
{
    uint32_t i = find_name(location_class_names, BG_LOCATION_COUNT, name);

    if (i == BG_LOCATION_COUNT)
        return false;
    *out = (bg_location_class)i;
    return true;
}

const char *bg_phase_liveness_name(bg_phase_liveness liveness)
{
    return (uint32_t)liveness < LIVENESS_COUNT ? liveness_names[liveness] : "none";
}

bool bg_phase_liveness_find(const char *name, bg_phase_liveness *out)
{
    uint32_t i = find_name(liveness_names, LIVENESS_COUNT, name);

    if (i == LIVENESS_COUNT)
        return false;
    *out = (bg_phase_liveness)i;
    return true;
}

const char *bg_memmap_mode_name(bg_memmap_mode mode)
{
    return (uint32_t)mode < MEMMAP_MODE_COUNT ? memmap_mode_names[mode] : "none";
}

bool bg_memmap_mode_find(const char *name, bg_memmap_mode *out)
{
    uint32_t i = find_name(memmap_mode_names, MEMMAP_MODE_COUNT, name);

    if (i == MEMMAP_MODE_COUNT)
        return false;
    *out = (bg_memmap_mode)i;
    return true;
}

/* ---- ranges ---- */

/* The problems found so far, a line each. */
typedef struct problem_list {
    bgi_text text;
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
    bgi_text_escape(line, sizeof line, false);
    bgi_text_add(&list->text, "%s\n", line);
    list->count++;
}

static void check_counts(problem_list *list, const bg_options *options, bool training)
{
    if (options->device_iterations < 1)
        add_problem(list, "device_iterations is 0; a run has at least 1 %s",
                    training ? "weight update" : "micro-batch");
    if (options->gradient_accumulation < 1)
        add_problem(list, "gradient_accumulation is 0; a weight update takes at least 1 micro-batch");
    if (!training && options->gradient_accumulation > 1)
        add_problem(list,
                    "gradient_accumulation is %u in inference, where there are no gradients; set it to 1 and raise "
                    "device_iterations for more micro-batches a run",
                    options->gradient_accumulation);
    if (options->replicas < 1)
        add_problem(list, "replicas is 0; there is at least 1 copy of the model");
}

/* Whether the size divides the replicas is seen once these are counted. */
static void check_input_groups(problem_list *list, const bg_options *options)
{
    if (options->input_group_size < 1)
        add_problem(list, "input_group_size is 0; 1 gives each replica data of its own");
    if ((uint32_t)options->input_grouping >= GROUPING_COUNT)
        add_problem(list, "input_grouping is %d; it must be BG_GROUPING_CONSECUTIVE, _ORTHOGONAL or _NONE",
                    (int)options->input_grouping);
    if (options->input_grouping == BG_GROUPING_ALL)
        add_problem(list, "input_grouping is all, which is not for inputs; for the same data on all replicas make "
                          "input_group_size the number of replicas");
    if (options->input_grouping == BG_GROUPING_NONE && options->input_group_size > 1)
        add_problem(list, "input_grouping is none and input_group_size is %u; without groups it is 1",
                    options->input_group_size);
    if (options->total_devices > BGI_MOST_DEVICES)
        add_problem(list, "total_devices is %u; there are at most %d", options->total_devices, BGI_MOST_DEVICES);
}

/* The micro-batches of a run are counted in 32 bits. */
static void check_product(problem_list *list, const bg_options *options)
{
    uint64_t step = (uint64_t)options->gradient_accumulation * options->replicas;

    if (options->gradient_accumulation < 1 || options->replicas < 1 || options->device_iterations < 1)
        return;
    if (step > UINT32_MAX || step * options->device_iterations > UINT32_MAX)
        add_problem(list,
                    "device_iterations %u x gradient_accumulation %u x replicas %u micro-batches a run; it must be "
                    "below 2^32: use fewer device iterations and more runs",
                    options->device_iterations, options->gradient_accumulation, options->replicas);
}

static void check_schedule(problem_list *list, const bg_options *options)
{
    char names[320];

    if (options->schedule == NULL)
        return;
    if (bg_schedule_generator_find(options->schedule) == NULL)
        add_problem(list, "schedule `%s` is unknown; there are %s", options->schedule,
                    bgi_options_schedules(names, sizeof names));
    else if (options->strategy != BG_STRATEGY_PIPELINED &&
             strcmp(options->schedule, bg_strategy_name(options->strategy)) != 0)
        add_problem(list,
                    "schedule `%s` with the %s strategy, which has its own order; leave schedule NULL or take the "
                    "pipelined strategy",
                    options->schedule, bg_strategy_name(options->strategy));
    else if (options->strategy == BG_STRATEGY_PIPELINED && strcmp(options->schedule, "phased") == 0)
        add_problem(list, "schedule `phased` with the pipelined strategy; take the phased strategy");
}

static void check_strategy(problem_list *list, const bg_options *options)
{
    if ((uint32_t)options->strategy >= STRATEGY_COUNT)
        add_problem(list, "strategy is %d; it must be BG_STRATEGY_SINGLE, _SHARDED, _PIPELINED or _PHASED",
                    (int)options->strategy);
    if (options->phases_parallel && options->strategy != BG_STRATEGY_PHASED)
        add_problem(list, "phases_parallel with the %s strategy, which has no phases; take the phased strategy",
                    bg_strategy_name(options->strategy));
    if (options->auto_stage != BG_AUTO_STAGE_SAME_AS_IPU && options->auto_stage != BG_AUTO_STAGE_INCREMENT)
        add_problem(list, "auto_stage is %d; it must be BG_AUTO_STAGE_SAME_AS_IPU or _INCREMENT",
                    (int)options->auto_stage);
    if (options->auto_stage == BG_AUTO_STAGE_INCREMENT && options->stages != NULL)
        add_problem(list, "auto_stage is auto_increment and stages are `%s`; give one of the two", options->stages);
    check_schedule(list, options);
}

static void check_mapping(problem_list *list, const bg_options *options)
{
    if (options->device_mapping == NULL && options->device_mapping_count > 0)
        add_problem(list, "device_mapping_count is %u and device_mapping is NULL", options->device_mapping_count);
    if (options->device_mapping != NULL && options->device_mapping_count == 0)
        add_problem(list, "device_mapping_count is 0; give a device for each stage, or set device_mapping to NULL");
    if (options->strategy == BG_STRATEGY_SINGLE && (options->device_mapping != NULL || options->device_count > 1))
        add_problem(list, "%s with the single strategy, which has one stage on one device",
                    options->device_mapping != NULL ? "device_mapping" : "device_count above 1");
    for (uint32_t s = 0; options->device_mapping != NULL && s < options->device_mapping_count; s++)
        if (options->device_mapping[s] >= BGI_MOST_DEVICES)
            add_problem(list, "device_mapping[%u] is %u; devices go from 0 to %d", s, options->device_mapping[s],
                        BGI_MOST_DEVICES - 1);
    if (options->device_count > BGI_MOST_DEVICES)
        add_problem(list, "device_count is %u; there are at most %d", options->device_count, BGI_MOST_DEVICES);
}

static void check_models(problem_list *list, const bg_options *options)
{
    if ((options->devices == NULL) != (options->device_model_count == 0))
        add_problem(list, "devices is %s and device_model_count is %u; both describe the devices or none",
                    options->devices == NULL ? "NULL" : "given", options->device_model_count);
    for (uint32_t d = 0; options->devices != NULL && d < options->device_model_count; d++)
        if (!isfinite(options->devices[d].speed) || !(options->devices[d].speed > 0))
            add_problem(list, "devices[%u].speed is %g; it must be above 0 (1 is like the others)", d,
                        options->devices[d].speed);
    if ((options->block_costs == NULL) != (options->block_cost_count == 0))
        add_problem(list, "block_costs is %s and block_cost_count is %u; give both or none",
                    options->block_costs == NULL ? "NULL" : "given", options->block_cost_count);
    for (uint32_t b = 0; options->block_costs != NULL && b < options->block_cost_count; b++) {
        const bg_block_cost *cost = &options->block_costs[b];
        const double values[] = {cost->forward_ns, cost->backward_ns, cost->weights_ns};
        if (cost->name == NULL)
            add_problem(list, "block_costs[%u] names no block", b);
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
            if (!isfinite(values[i]) || values[i] < 0)
                add_problem(list, "block_costs[%u] has a time of %g ns; it must be 0 or more", b, values[i]);
    }
}

static void check_output_mode(problem_list *list, const char *what, bg_output_mode mode, uint32_t period,
                              uint32_t iterations)
{
    if ((uint32_t)mode >= OUTPUT_MODE_COUNT)
        add_problem(list, "%s is %d; it must be one of the bg_output_mode values", what, (int)mode);
    if (mode == BG_OUTPUT_EVERY_N && (period < 1 || iterations % period != 0))
        add_problem(list, "%s every_n has period %u; it must be at least 1 and divide device_iterations (%u)", what,
                    period, iterations);
}

static void check_outputs(problem_list *list, const bg_options *options)
{
    check_output_mode(list, "output_mode", options->output_mode, options->output_period, options->device_iterations);
    if (options->output_request_count > 0 && options->output_requests == NULL) {
        add_problem(list, "output_request_count is %u and output_requests is NULL", options->output_request_count);
        return;
    }
    for (uint32_t i = 0; i < options->output_request_count; i++) {
        const bg_output_request *request = &options->output_requests[i];
        char what[64];

        snprintf(what, sizeof what, "output_requests[%u]", i);
        if (request->output == NULL)
            add_problem(list, "%s names no output", what);
        check_output_mode(list, what, request->mode, request->period, options->device_iterations);
    }
}

/* What may be where, and why the rest may not. */
static void check_location(problem_list *list, const bg_options *options, const char *what, uint32_t classes,
                           const bg_tensor_location *location)
{
    const bool is_remote = location->place == BG_PLACE_REMOTE ||
                           (location->place == BG_PLACE_DEFAULT && options->strategy == BG_STRATEGY_PHASED);

    if ((uint32_t)location->place > BG_PLACE_REMOTE)
        add_problem(list, "%s has place %d; it must be BG_PLACE_DEFAULT, _DEVICE or _REMOTE", what,
                    (int)location->place);
    if (location->sharded && (classes >> BG_LOCATION_ACTIVATIONS & 1) != 0 && !is_remote)
        add_problem(list,
                    "%s: activations are sharded and on the device, where the backward pass needs them whole; make "
                    "them remote: of those that tensor-parallel replicas have in common each store then keeps a piece",
                    what);
    if (location->sharded && (classes >> BG_LOCATION_WEIGHTS & 1) != 0 && !is_remote)
        add_problem(
            list,
            "%s: weights are sharded and on the device, where every forward and backward pass needs them whole; "
            "make them remote: each replica's store then keeps a piece, and a load brings all of them",
            what);
}

static void check_rule(problem_list *list, const bg_options *options, const bg_location_rule *rule, uint32_t number)
{
    char what[64];

    snprintf(what, sizeof what, "location_rules[%u]", number);
    if (rule->pattern == NULL || rule->pattern[0] == '\0')
        add_problem(list, "%s has no pattern; \"*\" matches every name", what);
    if (rule->classes == 0 || rule->classes >> BG_LOCATION_COUNT != 0)
        add_problem(list, "%s is for classes %#x; it must be bits 1 << bg_location_class", what, rule->classes);
    check_location(list, options, what, rule->classes, &rule->location);
}

static void check_locations(problem_list *list, const bg_options *options)
{
    const bool is_serial_only = options->phase_liveness == BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP ||
                                options->phase_liveness == BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
    char what[64];

    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++) {
        snprintf(what, sizeof what, "locations[%u]", k);
        check_location(list, options, what, 1u << k, &options->locations[k]);
    }
    if (options->location_rule_count > 0 && options->location_rules == NULL)
        add_problem(list, "location_rule_count is %u and location_rules is NULL", options->location_rule_count);
    for (uint32_t i = 0; options->location_rules != NULL && i < options->location_rule_count; i++)
        check_rule(list, options, &options->location_rules[i], i);
    if ((uint32_t)options->phase_liveness >= LIVENESS_COUNT)
        add_problem(list, "phase_liveness is %d; it must be one of the bg_phase_liveness values",
                    (int)options->phase_liveness);
    else if (options->phases_parallel && is_serial_only)
        add_problem(list,
                    "phase_liveness is %s and the phases are parallel, which are for loads that overlap; take "
                    "off_chip_after_fwd or always_live, or serial phases",
                    bg_phase_liveness_name(options->phase_liveness));
    if ((uint32_t)options->memmap_mode >= MEMMAP_MODE_COUNT)
        add_problem(list, "memmap_mode is %d; it must be BG_MEMMAP_CONTINUE, _RENEW or _READ_ONLY",
                    (int)options->memmap_mode);
    if (options->io_threads < -1 || options->io_threads > MOST_IO_THREADS)
        add_problem(list, "io_threads is %d; it must be 0 (workers do loads and stores) to %d, or -1 (automatic)",
                    (int)options->io_threads, MOST_IO_THREADS);
}

static void check_recompute(problem_list *list, const bg_options *options)
{
    bool has_budget = options->device_memory_bytes != 0;

    if ((uint32_t)options->recompute >= RECOMPUTE_COUNT)
        add_problem(list, "recompute is %d; it must be BG_RECOMPUTE_NONE, _STAGE, _CHECKPOINTS, _FRACTION or _AUTO",
                    (int)options->recompute);
    if ((uint32_t)options->recompute_order >= RECOMPUTE_ORDER_COUNT)
        add_problem(list, "recompute_order is %d; it must be BG_RECOMPUTE_INTERLEAVED or BG_RECOMPUTE_THEN",
                    (int)options->recompute_order);
    if (!(options->recompute_fraction >= 0.0 && options->recompute_fraction <= 1.0))
        add_problem(list, "recompute_fraction is %g; it must be 0 (nothing runs again) to 1",
                    options->recompute_fraction);
    for (uint32_t d = 0; options->devices != NULL && d < options->device_model_count; d++)
        has_budget |= options->devices[d].memory_bytes != 0;
    if (options->recompute == BG_RECOMPUTE_AUTO && !has_budget)
        add_problem(list,
                    "recompute is auto and device_memory_bytes is 0 (unlimited), so there is nothing to meet; give a "
                    "budget, or use BG_RECOMPUTE_STAGE");
}

static void check_accumulator(problem_list *list, const bg_options *options)
{
    const bool is_given = options->accumulator_type == BG_ACCUMULATOR_GIVEN;
    const bool is_chosen = options->accumulator_type == BG_ACCUMULATOR_CALLBACK;

    if ((uint32_t)options->accumulator_type > BG_ACCUMULATOR_CALLBACK)
        add_problem(list, "accumulator_type is %d; it must be one of the bg_accumulator_type values",
                    (int)options->accumulator_type);
    if (is_given && !bgi_dtype_is_single(options->accumulator_dtype))
        add_problem(list, "accumulator_dtype is %s; it must be float32, bfloat16 or float16",
                    bg_dtype_name(options->accumulator_dtype));
    if (!is_given && options->accumulator_dtype != BG_DTYPE_NONE)
        add_problem(list, "accumulator_dtype is %s, which counts with BG_ACCUMULATOR_GIVEN only; leave one of them out",
                    bg_dtype_name(options->accumulator_dtype));
    if (is_chosen != (options->choose_accumulator != NULL))
        add_problem(list, is_chosen
                              ? "accumulator_type is a callback and choose_accumulator is NULL"
                              : "choose_accumulator is set, which counts with BG_ACCUMULATOR_CALLBACK only; leave "
                                "one of them out");
}

static void check_moment(problem_list *list, const char *what, bg_dtype dtype)
{
    if (dtype != BG_DTYPE_NONE && !bgi_dtype_is_single(dtype))
        add_problem(list, "%s is %s; it must be float32, bfloat16 or float16 (float64 parameters keep float64)", what,
                    bg_dtype_name(dtype));
}

/* Settings count when it is on; what they hold else is nobody's business. */
static void check_auto_loss_scaling(problem_list *list, const bg_options *options, bool training)
{
    const bg_auto_loss_scaling *a = &options->auto_loss_scaling;

    if (!a->enabled)
        return;
    if (!training)
        add_problem(list, "auto_loss_scaling is on in inference, where there are no gradients; leave it off");
    if (options->accumulation == BG_ACCUMULATE_SUM || options->replica_reduction == BG_REPLICAS_SUM)
        add_problem(list, "auto_loss_scaling is on and gradients are sums; it needs the mean of micro-batches and of "
                          "replicas");
    if (!(a->bin_edge > 0.0 && a->bin_edge <= 1.0))
        add_problem(list, "auto_loss_scaling.bin_edge is %g; it must be above 0, up to 1 (the end of the range)",
                    a->bin_edge);
    if (!(a->threshold >= 0.0 && a->threshold < 1.0))
        add_problem(list, "auto_loss_scaling.threshold is %g; it must be from 0 to below 1", a->threshold);
    if (a->period < 1)
        add_problem(list, "auto_loss_scaling.period is 0; the scale is adapted every 1 or more updates");
    if (!(a->increase >= 1.0 && isfinite(a->increase)) || !(a->decrease > 0.0 && a->decrease <= 1.0))
        add_problem(list,
                    "auto_loss_scaling has increase %g and decrease %g; they must be at least 1, and above 0 up "
                    "to 1",
                    a->increase, a->decrease);
    if (!(a->minimum >= 0x1p-64 && a->minimum <= a->maximum && a->maximum <= 0x1p64))
        add_problem(list, "auto_loss_scaling has minimum %g and maximum %g; they must ascend, from 2^-64 to 2^64",
                    a->minimum, a->maximum);
    else if (!(options->loss_scaling >= a->minimum && options->loss_scaling <= a->maximum))
        add_problem(list,
                    "loss_scaling is %g, where auto_loss_scaling begins; it must be from its minimum %g to its "
                    "maximum %g",
                    options->loss_scaling, a->minimum, a->maximum);
}

static void check_gradients(problem_list *list, const bg_options *options)
{
    if ((uint32_t)options->accumulation >= ACCUMULATION_COUNT)
        add_problem(list,
                    "accumulation is %d; it must be BG_ACCUMULATE_MEAN, BG_ACCUMULATE_SUM or "
                    "BG_ACCUMULATE_MEAN_RUNNING",
                    (int)options->accumulation);
    if ((uint32_t)options->replica_reduction >= REPLICA_REDUCTION_COUNT)
        add_problem(list, "replica_reduction is %d; it must be one of the bg_replica_reduction values",
                    (int)options->replica_reduction);
    check_accumulator(list, options);
    check_moment(list, "first_moment_dtype", options->first_moment_dtype);
    check_moment(list, "second_moment_dtype", options->second_moment_dtype);
    if (!(options->max_gradient_norm >= 0.0))
        add_problem(list, "max_gradient_norm is %g; it must be above 0, or 0 for gradients as they are",
                    options->max_gradient_norm);
    if (!(options->loss_scaling >= 0x1p-64 && options->loss_scaling <= 0x1p64))
        add_problem(list, "loss_scaling is %g; it must be from 2^-64 to 2^64 (1 leaves the gradients alone)",
                    options->loss_scaling);
}

static void check_proportions(problem_list *list, const bg_options *options)
{
    if ((options->matmul_proportions == NULL) != (options->matmul_proportion_count == 0))
        add_problem(list, "matmul_proportions is %s and matmul_proportion_count is %u; give both or none",
                    options->matmul_proportions == NULL ? "NULL" : "given", options->matmul_proportion_count);
    for (uint32_t d = 0; options->matmul_proportions != NULL && d < options->matmul_proportion_count; d++)
        if (!(options->matmul_proportions[d] >= 0.0))
            add_problem(list, "matmul_proportions[%u] is %g; it is a share of a device's memory, at least 0", d,
                        options->matmul_proportions[d]);
}

static void check_costs(problem_list *list, const bg_options *options)
{
    if (options->stage_cost_count > 0 && options->stage_costs == NULL)
        add_problem(list, "stage_cost_count is %u and stage_costs is NULL", options->stage_cost_count);
    for (uint32_t i = 0; options->stage_costs != NULL && i < options->stage_cost_count; i++) {
        const bg_stage_cost *cost = &options->stage_costs[i];
        const double values[] = {cost->forward_ns, cost->recompute_ns, cost->backward_ns, cost->weights_ns,
                                 cost->update_ns};
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            if (!isfinite(values[k]) || values[k] < 0)
                add_problem(list, "stage_costs[%u] holds %g ns; costs are zero or more", i, values[k]);
    }
    if (!isfinite(options->message_bytes_per_ns) || options->message_bytes_per_ns < 0)
        add_problem(list, "message_bytes_per_ns is %g; it must be zero (free) or more", options->message_bytes_per_ns);
}
static void check_rest(problem_list *list, const bg_options *options)
{
    check_costs(list, options);
    check_proportions(list, options);
    if (options->kernels != BG_KERNELS_FAST && options->kernels != BG_KERNELS_REFERENCE)
        add_problem(list, "kernels is %d; it must be BG_KERNELS_FAST or BG_KERNELS_REFERENCE", (int)options->kernels);
    if (options->partials != BG_DTYPE_NONE && !bgi_dtype_is_single(options->partials))
        add_problem(list, "partials is %s; it must be float32, bfloat16 or float16", bg_dtype_name(options->partials));
    if (!(options->wait_limit_s > 0.0))
        add_problem(list, "wait_limit_s is %g; it must be above 0 (120 is the default, INFINITY waits for ever)",
                    options->wait_limit_s);
    if (options->trace && options->trace_events < 1)
        add_problem(list, "trace is on and trace_events is 0; keep at least 1 event for each device");
}

static bg_status check_made(const bg_options *options, bg_error *error)
{
    if (options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "options: none given; begin with bg_options_defaults()");
    if (options->cookie != OPTIONS_COOKIE)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options: the struct was not made by bg_options_defaults(); begin with it and change what "
                            "should differ");
    return BG_OK;
}

static void check_all(problem_list *list, const bg_options *options, bool training)
{
    check_counts(list, options, training);
    check_product(list, options);
    check_input_groups(list, options);
    check_strategy(list, options);
    check_mapping(list, options);
    check_models(list, options);
    check_outputs(list, options);
    check_locations(list, options);
    check_recompute(list, options);
    check_gradients(list, options);
    check_auto_loss_scaling(list, options, training);
    check_rest(list, options);
}

bg_status bg_options_problems(const bg_options *options, bool training, char **out_text, bg_error *error)
{
    problem_list list = {.count = 0};

    BGI_TRY(check_made(options, error));
    check_all(&list, options, training);
    return bgi_text_finish(&list.text, out_text, error);
}

/* As many of the problems as there is room for, in one line, and how many more there are. */
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

    BGI_TRY(check_made(options, error));
    check_all(&list, options, training);
    status = bgi_text_finish(&list.text, &lines, error);
    if (status == BG_OK && list.count > 0)
        status = report(lines, list.count, error);
    free(lines);
    return status;
}
