/*
 * devices.c: places stages on devices, and checks the rules about devices.
 *
 *     device_mapping        as given; neighbors on one device stay two stages
 *     @ or device ids       as given; a stage without one is on the device of its own number
 *     nothing               the schedule's placement (line, loop, fold); with phases, stage i of each phase is on
 *                           device i or, with two groups, on device 2 i (even phases) or 2 i + 1 (odd phases)
 *
 * Device numbers may have gaps; the devices in the gaps exist and are idle.
 *
 * This file knows stages and their order, but no data flow.
 */
#include "plan/devices.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "plan/log.h"
#include "core/text.h"
#include "options/choices.h"
#include "plan/options.h"

enum { MOST_IDLE_DEVICES = 64 };

bool bgi_merges_neighbors(const bg_options *options, const bg_schedule_generator *generator)
{
    return options->execution.strategy != BG_STRATEGY_PHASED && options->execution.device_mapping == NULL &&
           generator->placement != BG_PLACEMENT_FOLD;
}

/* ---- placement ---- */

static bg_status apply_mapping(const bg_options *options, bgi_stages *stages, bg_error *error)
{
    if (stages->has_text_devices)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "device_mapping and @ in stages `%s` both give devices; use one of them",
                            options->execution.stages);
    if (options->execution.device_mapping_count != stages->stage_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "device_mapping has %u devices, but there are %u stages; give one device for each stage",
                            options->execution.device_mapping_count, stages->stage_count);
    memcpy(stages->stage_devices, options->execution.device_mapping,
           stages->stage_count * sizeof *stages->stage_devices);
    return BG_OK;
}

static bool has_given_device(const bgi_stages *stages)
{
    for (uint32_t s = 0; s < stages->stage_count; s++)
        if (stages->stage_devices[s] != BG_DEVICE_NONE)
            return true;
    return false;
}

static void fill_by_number(bgi_stages *stages)
{
    for (uint32_t s = 0; s < stages->stage_count; s++)
        if (stages->stage_devices[s] == BG_DEVICE_NONE)
            stages->stage_devices[s] = s;
}

static void place_phases(const bg_options *options, bgi_stages *stages)
{
    uint32_t number = 0; /* the stage's number within its phase */

    for (uint32_t s = 0; s < stages->stage_count; s++) {
        const uint32_t phase = stages->stage_phases[s];
        number = s > 0 && stages->stage_phases[s - 1] == phase ? number + 1 : 0;
        stages->stage_devices[s] = options->execution.phases_parallel ? 2 * number + phase % 2 : number;
    }
}

static bg_status place_by_schedule(const bg_options *options, const bg_schedule_generator *generator,
                                   bgi_stages *stages, bg_error *error)
{
    const uint32_t count = options->execution.device_count != 0
                               ? options->execution.device_count
                               : bg_schedule_default_devices(generator, stages->stage_count);

    return bg_schedule_place(generator, stages->stage_count, count, stages->stage_devices, error);
}

/* ---- checks ---- */

/* Warns of devices without a stage, which are idle. Rejects more than MOST_IDLE_DEVICES of them, because a device
 * number far beyond the stages is probably a mistake. */
static bg_status check_idle(const bg_options *options, const bgi_stages *stages, uint32_t count, bg_error *error)
{
    uint32_t idle = 0, first = 0;
    char text[160];

    for (uint32_t d = count; d-- > 0;) {
        bool used = false;
        for (uint32_t s = 0; s < stages->stage_count && !used; s++)
            used = stages->stage_devices[s] == d;
        if (used)
            continue;
        idle++;
        first = d;
    }
    if (idle == 0)
        return BG_OK;
    if (idle > MOST_IDLE_DEVICES)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "device %u has no stage, but device %u has; %u devices would be idle, but at most %u may "
                            "be: number the devices from 0 without gaps",
                            first, count - 1, idle, MOST_IDLE_DEVICES);
    snprintf(text, sizeof text, "devices without a stage are idle: %u of %u, first device %u", idle, count, first);
    bgi_log(options, BG_LOG_WARNING, text);
    return BG_OK;
}

static bg_status check_numbers(const bg_options *options, bgi_stages *stages, bg_error *error)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < stages->stage_count; s++)
        if (stages->stage_devices[s] + 1 > count)
            count = stages->stage_devices[s] + 1;
    BGI_TRY(check_idle(options, stages, count, error));
    stages->device_count = count;
    if (options->execution.device_count != 0 && options->execution.device_count != count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "device_count is %u, but the stages are on %u devices; leave it 0, or change the stages",
                            options->execution.device_count, count);
    if (options->execution.device_model_count != 0 && options->execution.device_model_count != count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "devices: speed or memory is given for %u devices, but the stages are on %u; give one "
                            "entry for each device",
                            options->execution.device_model_count, count);
    if (options->memory.matmul_proportion_count > 1 && options->memory.matmul_proportion_count != count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "matmul_proportions has %u shares, but the stages are on %u devices; give one for all, or "
                            "one for each device",
                            options->memory.matmul_proportion_count, count);
    return BG_OK;
}

static bg_status check_concurrent(const bgi_stages *stages, bg_error *error)
{
    for (uint32_t s = 1; s < stages->stage_count; s++)
        for (uint32_t t = s; t-- > 0 && stages->stage_positions[t] == stages->stage_positions[s];)
            if (stages->stage_devices[t] == stages->stage_devices[s])
                return bg_error_set(error, BG_ERROR_INVALID,
                                    "concurrent stages %u and %u are both on device %u; give each a separate device, "
                                    "or separate them with | instead of &",
                                    t, s, stages->stage_devices[s]);
    return BG_OK;
}

/* Checks that parallel phases have even phases on even devices and odd phases on odd ones. The error names every stage
 * on the wrong parity. */
static bg_status check_parity(const bgi_stages *stages, bg_error *error)
{
    bgi_string wrong = {0};
    bg_status status = BG_OK;

    for (uint32_t s = 0; s < stages->stage_count; s++) {
        const uint32_t phase = stages->stage_phases[s], device = stages->stage_devices[s];
        if (phase % 2 != device % 2)
            bgi_string_add(&wrong, "%sstage %u of phase %u (%s) is on device %u", wrong.length > 0 ? ", " : "", s,
                           phase, phase % 2 == 0 ? "even" : "odd", device);
    }
    if (wrong.failed)
        status = bgi_error_memory(error, "phases", 0);
    else if (wrong.length > 0)
        status = bg_error_set(error, BG_ERROR_INVALID,
                              "parallel phases: %s; even phases are on even devices and odd phases on odd ones, or run "
                              "the phases serially",
                              wrong.data);
    bgi_string_clear(&wrong);
    return status;
}

static bg_status check_phases(const bg_options *options, const bgi_stages *stages, bg_error *error)
{
    if (stages->has_phases && options->execution.strategy != BG_STRATEGY_PHASED)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "stages `%s` have phases (;), but the strategy is %s; separate stages with |, or use the phased strategy",
            options->execution.stages, bgi_strategy_name(options->execution.strategy));
    return options->execution.phases_parallel ? check_parity(stages, error) : BG_OK;
}

bg_status bgi_place_stages(const bg_options *options, const bg_schedule_generator *generator, bgi_stages *stages,
                           bg_error *error)
{
    if (options->execution.device_mapping != NULL)
        BGI_TRY(apply_mapping(options, stages, error));
    else if (has_given_device(stages))
        fill_by_number(stages);
    else if (options->execution.strategy == BG_STRATEGY_PHASED)
        place_phases(options, stages);
    else
        BGI_TRY(place_by_schedule(options, generator, stages, error));
    BGI_TRY(check_phases(options, stages, error));
    BGI_TRY(check_numbers(options, stages, error));
    return check_concurrent(stages, error);
}

/* ---- limits of IPU software ---- */

static bg_status check_stage_count(const bg_options *options, const bgi_stages *stages, bg_error *error)
{
    if (!options->execution.ipu_limits || options->execution.strategy != BG_STRATEGY_PIPELINED ||
        stages->stage_count >= 2)
        return BG_OK;
    return bg_error_set(
        error, BG_ERROR_INVALID,
        "the pipeline has %u stage; on IPUs it needs at least 2: give more stages, or use the single strategy",
        stages->stage_count);
}

/* Rejects stages whose devices do not ascend: same_as_ipu numbers stages by devices, so returning to a device would
 * mean returning to its stage. */
static bg_status check_ascending(const bg_options *options, const bgi_stages *stages, bg_error *error)
{
    if (!options->execution.ipu_limits || options->execution.stages != NULL ||
        options->execution.auto_stage != BG_AUTO_STAGE_SAME_AS_IPU || options->execution.device_mapping != NULL)
        return BG_OK;
    for (uint32_t s = 1; s < stages->stage_count; s++)
        if (stages->stage_devices[s] < stages->stage_devices[s - 1])
            return bg_error_set(error, BG_ERROR_INVALID,
                                "stage %u is on device %u after device %u: with auto_stage same_as_ipu devices are "
                                "stages, which ascend on IPUs; use auto_increment, or list the stages",
                                s, stages->stage_devices[s], stages->stage_devices[s - 1]);
    return BG_OK;
}

static bg_status check_phases_given(const bg_options *options, const bgi_stages *stages, bg_error *error)
{
    if (!options->execution.ipu_limits || options->execution.strategy != BG_STRATEGY_PHASED || stages->has_phases)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "the strategy is phased, but stages have no phases; on IPUs they must be given: \"B1|B2;B3\" "
                        "(; separates phases)");
}

/* Rejects a number of devices that is not a power of two, as IPU systems require, or warns that it is rounded up. */
static bg_status check_power_of_two(const bg_options *options, const bgi_stages *stages, bg_error *error)
{
    const uint64_t total = (uint64_t)stages->device_count * options->replicas.count;
    uint64_t rounded = 1;
    char text[160];

    while (rounded < total)
        rounded *= 2;
    if (!options->execution.ipu_limits || rounded == total)
        return BG_OK;
    if (!options->execution.auto_round_devices)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%u devices x %u replicas = %llu devices; IPUs come in powers of two: use %llu, or let "
                            "auto_round_devices reserve them",
                            stages->device_count, options->replicas.count, (unsigned long long)total,
                            (unsigned long long)rounded);
    snprintf(text, sizeof text, "%llu devices are reserved for %llu: %llu of them are idle (%.0f%%)",
             (unsigned long long)rounded, (unsigned long long)total, (unsigned long long)(rounded - total),
             100.0 * (double)(rounded - total) / (double)rounded);
    bgi_log(options, BG_LOG_WARNING, text);
    return BG_OK;
}

/* Rejects variables that stages on several devices use. On IPUs, layers that share a variable must be on one device;
 * Brigade keeps copies. */
static bg_status check_shared(const bg_graph *graph, const bg_options *options, const bgi_stages *stages,
                              bg_error *error)
{
    bgi_arena scratch = {0};
    uint32_t *users; /* by value: 1 + a stage that uses it */
    bg_status status = BG_OK;

    if (!options->execution.ipu_limits)
        return BG_OK;
    users = bgi_arena_allocate(&scratch, graph->value_count, sizeof *users);
    if (users == NULL)
        return bgi_error_memory(error, "shared variables", graph->value_count * sizeof *users);
    for (size_t o = 0; status == BG_OK && o < graph->op_count; o++)
        for (uint32_t i = 0; status == BG_OK && i < graph->ops[o].input_count; i++) {
            const uint32_t v = graph->ops[o].inputs[i].id, stage = stages->block_stages[graph->ops[o].block];
            if (graph->values[v].kind != BGI_VALUE_VARIABLE)
                continue;
            if (users[v] != 0 && stages->stage_devices[users[v] - 1] != stages->stage_devices[stage])
                status = bg_error_set(error, BG_ERROR_INVALID,
                                      "variable `%s` is used by stage %u on device %u and by stage %u on device %u; on "
                                      "IPUs layers that share it must be on one device",
                                      graph->values[v].name, users[v] - 1, stages->stage_devices[users[v] - 1], stage,
                                      stages->stage_devices[stage]);
            users[v] = stage + 1;
        }
    bgi_arena_clear(&scratch);
    return status;
}

bg_status bgi_check_ipu_limits(const bg_graph *graph, const bg_options *options, const bgi_stages *stages,
                               bg_error *error)
{
    BGI_TRY(check_phases_given(options, stages, error));
    BGI_TRY(check_stage_count(options, stages, error));
    BGI_TRY(check_ascending(options, stages, error));
    BGI_TRY(check_power_of_two(options, stages, error));
    return check_shared(graph, options, stages, error);
}
