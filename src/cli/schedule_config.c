/*
 * schedule_config.c: defines the options of `brigade schedule`, and makes the scheduling problems that they describe:
 * plain chains of stages, in any unit of time.
 */
#include "cli/schedule.h"
#include "cli/program.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

#define AT(field) .offset = offsetof(schedule_config, field)

const cli_option schedule_options[] = {
    {CLI_HEADING, .help = "The problem"},
    {CLI_COUNT, "stages", AT(stages), .value = "N", .minimum = 1, .maximum = 4096, .default_text = "4",
     .help = "number of forward stages"},
    {CLI_COUNT, "micro-batches", AT(micro_batches), .value = "M", .minimum = 1, .maximum = 65536, .default_text = "8",
     .help = "number of micro-batches in a step"},
    {CLI_COUNT, "devices", AT(devices), .value = "D", .minimum = 1, .maximum = 4096,
     .default_text = "the number that the schedule is made for", .help = "number of devices"},
    {CLI_FLAG, "inference", AT(inference), .help = "forward only"},
    {CLI_FLAG, "separate-loss", AT(separate_loss),
     .help = "the loss stage's backward is a separate step (TensorFlow) instead of following its forward at once"},
    {CLI_FLAG, "strict", AT(strict), .help = "sharded and sequential: only one device works at a time"},
    {CLI_COUNT, "send-ahead", AT(send_ahead), .value = "N", .maximum = 65536,
     .help = "number of slots for each message in addition to those that its receiver needs"},
    {CLI_HEADING, .help = "Costs, in any unit of time: one number, or one for each stage (1,1,2,1)"},
    {CLI_TEXT, "forward", AT(forward), .value = "X", .help = "time of a forward"},
    {CLI_TEXT, "backward", AT(backward), .value = "Y", .help = "time of the input gradients of a stage's backward"},
    {CLI_TEXT, "weights", AT(weights), .value = "Z",
     .help = "time of the weight gradients of a backward; added to the backward if the schedule does not split it"},
    {CLI_TEXT, "update", AT(update), .value = "U", .help = "time of a stage's update"},
    {CLI_REAL, "transfer", AT(transfer), .value = "T", .help = "time of a message between two devices"},
    {CLI_SIZE, "message", AT(message_bytes), .value = "BYTES", .default_text = "not counted",
     .help = "size of a message"},
    {CLI_SIZE, "stash", AT(stash_bytes), .value = "BYTES", .default_text = "not counted",
     .help = "bytes that a stage stores for the backward of one micro-batch"},
    {CLI_HEADING, .help = "What is printed"},
    {CLI_FLAG, "timed", AT(timed),
     .help = "show: draw actions to the scale of their costs, not as steps of equal length"},
    {CLI_COUNT, "columns", AT(columns), .value = "N", .minimum = 20, .maximum = 10000,
     .default_text = "$COLUMNS, or 120", .help = "largest width of a timed diagram"},
    {CLI_CHOICE, "color", AT(color), .choices = "auto|always|never", .help = "auto: on a terminal, without $NO_COLOR"},
    {CLI_TEXT, "svg", AT(svg_path), .value = "FILE",
     .help = "show, simulate: file for an SVG to the scale of the costs (-: standard output)"},
    {CLI_FLAG, "messages", AT(messages), .help = "draw messages as arrows in the SVG"},
    {CLI_CHOICE, "to", AT(to), .choices = "text|csv", .help = "convert, show: Brigade's text, or PyTorch's CSV"},
    CLI_OPTIONS_END,
};

schedule_config schedule_config_defaults(void)
{
    return (schedule_config){
        .forward = "1", .backward = "1", .weights = "1", .update = "0", .send_ahead = 1, .color = "auto"};
}

/* ---- costs ---- */

/* Reads the number at `text`, up to a comma or the end, and sets *end to the end of the number. */
static bool read_cost(const char *text, const char **end, double *out)
{
    const size_t length = strcspn(text, ",");
    char *stop = NULL;

    if (length == 0 || strspn(text, "0123456789.eE+-") < length)
        return false;
    errno = 0;
    *out = strtod(text, &stop);
    *end = text + length;
    return stop == *end && isfinite(*out) && !signbit(*out);
}

/* Returns the number for all stages, or the n-th number of a list. With stage_count 0 the function only checks that all
 * are numbers. */
static bg_status find_cost(const char *name, const char *list, uint64_t stage_count, uint64_t stage, double *out,
                           bg_error *error)
{
    const char *at = list;
    uint64_t count = 0;
    double value = 0.0;

    for (;; at++) {
        if (!read_cost(at, &at, &value))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--%s is `%s`; it must be a number of at least 0, or one for each stage with commas "
                                "between them",
                                name, list);
        if (count == 0 || count == stage)
            *out = value;
        count++;
        if (*at == '\0')
            break;
    }
    if (stage_count > 0 && count != 1 && count != stage_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--%s has %" PRIu64 " numbers for %" PRIu64 " stages; give one, or one for each", name,
                            count, stage_count);
    return BG_OK;
}

static uint64_t count_stages(const schedule_config *config)
{
    return config->stages > 0 ? config->stages : SCHEDULE_STAGES;
}

bg_status schedule_config_check(const schedule_config *config, bool knows_stages, bg_error *error)
{
    const uint64_t stages = knows_stages ? count_stages(config) : 0;
    double ignored;

    BGI_TRY(find_cost("forward", config->forward, stages, 0, &ignored, error));
    BGI_TRY(find_cost("backward", config->backward, stages, 0, &ignored, error));
    BGI_TRY(find_cost("weights", config->weights, stages, 0, &ignored, error));
    return find_cost("update", config->update, stages, 0, &ignored, error);
}

/* Sets costs, sizes and the speed of messages for a problem that has its stages and edges. */
static bg_status set_costs(const schedule_config *config, schedule_problem *made, bg_error *error)
{
    bg_schedule_problem *problem = &made->problem;
    const uint64_t stages = problem->stage_count;
    /* If no sizes are given, all messages have the same size, so `auto` prefers the fewest messages among orders of
     * equal time. */
    const size_t message_bytes = config->message_bytes > 0 ? config->message_bytes : 1;
    const size_t stash_bytes = config->stash_bytes > 0 ? config->stash_bytes : 1;

    made->costs = calloc(stages, sizeof *made->costs);
    if (made->costs == NULL)
        return bgi_error_memory(error, "the costs of stages", stages * sizeof *made->costs);
    for (uint32_t stage = 0; stage < stages; stage++) {
        bg_stage_cost *cost = &made->costs[stage];
        BGI_TRY(find_cost("forward", config->forward, stages, stage, &cost->forward_ns, error));
        BGI_TRY(find_cost("backward", config->backward, stages, stage, &cost->backward_ns, error));
        BGI_TRY(find_cost("weights", config->weights, stages, stage, &cost->weights_ns, error));
        BGI_TRY(find_cost("update", config->update, stages, stage, &cost->update_ns, error));
        if (!problem->splits_weights)
            cost->backward_ns += cost->weights_ns;
    }
    for (uint32_t edge = 0; edge < problem->edge_count; edge++)
        made->edges[edge].size_bytes =
            made->edges[edge].from_stage == made->edges[edge].to_stage ? stash_bytes : message_bytes;
    problem->costs = made->costs;
    problem->bytes_per_ns = config->transfer > 0 ? (double)message_bytes / config->transfer : 0.0;
    problem->send_ahead = (uint32_t)config->send_ahead;
    problem->is_strict = config->strict;
    problem->merges_loss = !config->separate_loss;
    problem->stop = cli_is_asked_to_stop;
    return BG_OK;
}

/* ---- problems ---- */

/* Places stages as the generator does; if a line has fewer devices than stages, neighbors share a device. */
static bg_status place_stages(const bg_schedule_generator *generator, uint32_t stages, uint32_t devices,
                              uint32_t *stage_devices, bg_error *error)
{
    if (generator->placement != BG_PLACEMENT_LINE || devices >= stages)
        return bg_schedule_place(generator, stages, devices, stage_devices, error);
    for (uint32_t stage = 0; stage < stages; stage++)
        stage_devices[stage] = (uint32_t)((uint64_t)stage * devices / stages);
    return BG_OK;
}

bg_status schedule_problem_create(const schedule_config *config, const bg_schedule_generator *generator,
                                  schedule_problem *out, bg_error *error)
{
    const uint32_t stages = (uint32_t)count_stages(config);
    schedule_problem made = {.is_inferred = false};
    bg_status status;

    made.problem = bg_schedule_problem_defaults();
    made.problem.stage_count = stages;
    made.problem.device_count =
        config->devices > 0 ? (uint32_t)config->devices : bg_schedule_default_devices(generator, stages);
    made.problem.micro_batch_count =
        config->micro_batches > 0 ? (uint32_t)config->micro_batches : SCHEDULE_MICRO_BATCHES;
    made.problem.training = !config->inference;
    made.problem.splits_weights = generator->splits_weights && !config->inference;
    made.stage_devices = calloc(stages, sizeof *made.stage_devices);
    made.problem.stage_devices = made.stage_devices;
    if (made.stage_devices == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "the devices of stages", stages * sizeof *made.stage_devices));
    BGI_TRY_CLEANUP(place_stages(generator, stages, made.problem.device_count, made.stage_devices, error));
    BGI_TRY_CLEANUP(bg_schedule_problem_chain(&made.problem, 0, &made.edges, error));
    BGI_TRY_CLEANUP(set_costs(config, &made, error));
    *out = made;
    return BG_OK;

cleanup:
    schedule_problem_clear(&made);
    return status;
}

static bg_status check_agreement(const char *option, uint64_t given, uint32_t found, const char *path, bg_error *error)
{
    if (given == 0 || given == found)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID, "--%s is %" PRIu64 ", but %s has %" PRIu32, option, given, path,
                        found);
}

bg_status schedule_problem_infer(const schedule_config *config, const bg_schedule *schedule, const char *path,
                                 schedule_problem *out, bg_error *error)
{
    schedule_problem made = {.is_inferred = true};
    bg_status status = bg_schedule_problem_infer(schedule, 0, &made.problem, error);

    if (status != BG_OK)
        return bg_error_context(error, status, "%s", path);
    made.edges = (bg_schedule_edge *)(uintptr_t)made.problem.edges; /* allocated for this problem */
    BGI_TRY_CLEANUP(check_agreement("stages", config->stages, made.problem.stage_count, path, error));
    BGI_TRY_CLEANUP(
        check_agreement("micro-batches", config->micro_batches, made.problem.micro_batch_count, path, error));
    BGI_TRY_CLEANUP(check_agreement("devices", config->devices, made.problem.device_count, path, error));
    BGI_TRY_CLEANUP(set_costs(config, &made, error));
    *out = made;
    return BG_OK;

cleanup:
    schedule_problem_clear(&made);
    return status;
}

void schedule_problem_clear(schedule_problem *made)
{
    free(made->costs);
    if (made->is_inferred) {
        bg_schedule_problem_free(&made->problem);
    } else {
        free(made->edges);
        free(made->stage_devices);
    }
    *made = (schedule_problem){.is_inferred = false};
}
