/*
 * recipe.c: checks the training options that do not depend on the model, and converts them to options of the library.
 */
#include "cli/recipe.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "options/choices.h"

cli_recipe cli_recipe_defaults(const char *program)
{
    return (cli_recipe){.command = program,
                        .program = program,
                        .sample_word = "sample",
                        .sample_words = "samples",
                        .data_hint = "give the same data",
                        .batch_size = 1,
                        .epochs = 1,
                        .optimizer = "adamw",
                        .learning_rate = 0.001,
                        .no_validation = "this program makes none",
                        .library = cli_library_defaults(),
                        .last_batch = "drop",
                        .loader_mode = "async",
                        .num_workers = 1,
                        .prefetch = 3};
}

/* Reads the first rule of a list; *next is the remaining list, or NULL at the end. */
static bg_status read_rule(const char *list, uint32_t *out_classes, const char **out_pattern, size_t *out_length,
                           const char **next, bg_error *error)
{
    const size_t length = strcspn(list, ";"), colon = strcspn(list, ":");

    *next = list[length] == ';' ? list + length + 1 : NULL;
    if (colon + 1 >= length)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--offload-rule %.*s has no pattern; it must be CLASSES:PATTERN, as in \"weights:layer3.*\"", (int)length,
            list);
    *out_pattern = list + colon + 1;
    *out_length = length - colon - 1;
    return cli_classes_find("offload-rule", list, colon, out_classes, error);
}

static bg_status check_rules(const char *rules, bg_error *error)
{
    const char *pattern, *next = rules;
    uint32_t classes, count = 0;
    size_t length;

    for (; next != NULL; count++)
        BGI_TRY(read_rule(next, &classes, &pattern, &length, &next, error));
    if (count > CLI_MOST_RULES || (rules != NULL && strlen(rules) >= CLI_RULES_BYTES))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--offload-rule has %u rules in %zu characters; it can have at most %d rules in %d characters", count,
            strlen(rules), CLI_MOST_RULES, CLI_RULES_BYTES - 1);
    return BG_OK;
}

static bg_status check_recompute(const cli_recipe *recipe, bg_error *error)
{
    bg_options options = bg_options_defaults();
    const bool has_order = cli_library_is_given(&recipe->library, "recompute-order");

    cli_recompute_find(recipe->library.recompute, &options);
    if (options.memory.recompute == BG_RECOMPUTE_NONE && (has_order || recipe->checkpoint_blocks))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s is given without --recompute, to which it applies; add --recompute",
                            recipe->checkpoint_blocks ? "--checkpoint-blocks" : "--recompute-order");
    if (options.memory.recompute == BG_RECOMPUTE_CHECKPOINTS && !recipe->checkpoint_blocks)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--recompute checkpoints is given, but no values are marked; add --checkpoint-blocks");
    return BG_OK;
}

bg_status cli_recipe_check_optimizer(const cli_recipe *recipe, bg_error *error)
{
    const bg_status status = bg_optimizer_parse(recipe->optimizer, recipe->learning_rate, &(bg_optimizer){0}, error);

    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--optimizer %s", recipe->optimizer);
}

bg_status cli_recipe_rate(const cli_recipe *recipe, bg_rate_schedule *out, bg_error *error)
{
    bg_status status = bg_rate_parse(recipe->rate_schedule, recipe->learning_rate, recipe->steps, out, error);

    if (status == BG_OK && out->kind == BG_RATE_PLATEAU && recipe->no_validation != NULL)
        status = bg_error_set(error, BG_ERROR_INVALID,
                              "a plateau needs the losses of validations, but there is no validation; %s",
                              recipe->no_validation);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--rate-schedule %s", recipe->rate_schedule);
}

void cli_recipe_report(cli_recipe *recipe, double loss)
{
    const double before = recipe->rate.scale;

    if (recipe->rate_schedule == NULL || recipe->rate.kind != BG_RATE_PLATEAU)
        return;
    bg_rate_report(&recipe->rate, loss);
    recipe->plateau_reports++;
    if (!recipe->quiet && recipe->rate.scale != before)
        printf("Learning rate: %g\n", recipe->rate.rate * recipe->rate.scale);
}

static bg_status check_devices(const cli_recipe *recipe, bg_error *error)
{
    const uint32_t speeds = recipe->library.device_speeds.count, budgets = recipe->library.device_memory.count;
    const bg_execution_options *execution = &recipe->library.options.execution;

    if (speeds > 0 && budgets > 1 && speeds != budgets)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--device-speeds has %u values and --device-memory has %u; give one for each device",
                            speeds, budgets);
    if (execution->auto_round_devices && !execution->ipu_limits)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--auto-round-devices is given without --ipu-limits, but only IPUs come in powers of two; "
                            "add --ipu-limits");
    return BG_OK;
}

static bg_status check_output(const cli_recipe *recipe, bg_error *error)
{
    const bg_reporting_options *reporting = &recipe->library.options.reporting;
    const uint32_t iterations = recipe->library.options.execution.device_iterations;
    const bool is_every_n = reporting->output_mode == BG_OUTPUT_EVERY_N;

    if (reporting->output_period > 0 && !is_every_n)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--output-period %u is given with --output-mode %s, but it applies only to every_n",
                            reporting->output_period, bgi_output_mode_name(reporting->output_mode));
    if (is_every_n && reporting->output_period == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "--output-mode every_n needs --output-period");
    if (is_every_n && iterations % reporting->output_period != 0)
        return bg_error_set(error, BG_ERROR_INVALID, "--output-period %u does not divide --device-iterations %u",
                            reporting->output_period, iterations);
    return BG_OK;
}

static bg_status check_checkpoints(const cli_recipe *recipe, bg_error *error)
{
    const char *alone = recipe->resume                      ? "resume"
                        : recipe->checkpoint_steps > 0      ? "checkpoint-steps"
                        : recipe->checkpoint_async          ? "checkpoint-async"
                        : recipe->checkpoint_keep > 0       ? "checkpoint-keep"
                        : recipe->checkpoint_interval_s > 0 ? "checkpoint-keep-every"
                        : recipe->checkpoint_best != NULL   ? "checkpoint-keep-best"
                                                            : NULL;

    if (recipe->checkpoint_dir == NULL && alone != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--%s is given without a folder; add --checkpoint DIR", alone);
    if (!recipe->resume && (recipe->resume_drop != NULL || recipe->resume_optimizer != NULL))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--resume-%s is given without --resume; it applies only to resuming",
                            recipe->resume_drop != NULL ? "drop" : "optimizer");
    if (recipe->resume && recipe->init_path != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--resume is given with --init %s, but both give the weights: leave one of them out",
                            recipe->init_path);
    return BG_OK;
}

void cli_recipe_replay(cli_recipe *recipe)
{
    if (recipe->library.replay == NULL)
        return;
    recipe->checkpoint_dir = recipe->init_path = recipe->save_path = recipe->log_path = recipe->profile_dir = NULL;
    recipe->resume_drop = recipe->resume_optimizer = recipe->checkpoint_best = NULL;
    recipe->limits[BG_TRAINER_FIT] = NULL;
    recipe->checkpoint_steps = recipe->checkpoint_keep = recipe->checkpoint_interval_s = 0;
    recipe->resume = recipe->checkpoint_async = recipe->profile = false;
    recipe->no_shuffle = true;
    recipe->library.options.execution.device_iterations = 1;
    recipe->library.options.files.memmap_dir = NULL;
    recipe->library.options.reporting.output_mode = BG_OUTPUT_ALL;
}

/* ---- limits ---- */

/* Reads a limit. A number with a decimal point is a share, as in Lightning: 1.0 means all batches, and 1 means one
 * batch. */
static bg_status read_limit(const char *text, const char *flag, bool may_be_none, uint64_t *out_number,
                            double *out_share, bg_error *error)
{
    const bool is_share = strchr(text, '.') != NULL;
    const bool is_plain = text[0] != '\0' && strspn(text, "0123456789.") == strlen(text);
    char *end = NULL;

    *out_number = BG_ALL_BATCHES;
    *out_share = 1.0;
    errno = 0;
    if (is_share)
        *out_share = strtod(text, &end);
    else
        *out_number = strtoull(text, &end, 10);
    if (!is_plain || *end != '\0' || errno != 0 || *out_share > 1.0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--%s is `%s`; it must be a number of batches, such as 10, or a share of them with a "
                            "decimal point, from 0.0 to 1.0",
                            flag, text);
    if (!may_be_none && (*out_share == 0.0 || *out_number == 0))
        return bg_error_set(error, BG_ERROR_INVALID, "--%s is %s, which trains nothing; it must be above 0", flag,
                            text);
    return BG_OK;
}

/* Reads the limits of the passes; if `out` is NULL, the limits are only checked. */
static bg_status read_limits(const cli_recipe *recipe, bg_trainer_options *out, bg_error *error)
{
    static const char *const flags[BG_TRAINER_TASK_COUNT] = {[BG_TRAINER_FIT] = "limit-train-batches",
                                                             [BG_TRAINER_VALIDATE] = "limit-val-batches",
                                                             [BG_TRAINER_TEST] = "limit-test-batches"};

    for (int task = 0; task < BG_TRAINER_TASK_COUNT; task++) {
        uint64_t number;
        double share;

        if (recipe->limits[task] == NULL)
            continue;
        BGI_TRY(read_limit(recipe->limits[task], flags[task], task != BG_TRAINER_FIT, &number, &share, error));
        if (out != NULL) {
            out->batch_limits[task] = number;
            out->batch_shares[task] = share;
        }
    }
    return BG_OK;
}

bg_status cli_recipe_check(const cli_recipe *recipe, bg_error *error)
{
    BGI_TRY(read_limits(recipe, NULL, error));
    BGI_TRY(check_checkpoints(recipe, error));
    BGI_TRY(check_rules(recipe->library.offload_rules, error));
    BGI_TRY(cli_library_check(&recipe->library, error));
    BGI_TRY(check_devices(recipe, error));
    BGI_TRY(check_recompute(recipe, error));
    if (recipe->learning_rate > (double)FLT_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "--learning-rate is %g; it must be at most %g",
                            recipe->learning_rate, (double)FLT_MAX);
    BGI_TRY(cli_recipe_check_optimizer(recipe, error));
    if (recipe->rate_schedule != NULL)
        BGI_TRY(cli_recipe_rate(recipe, &(bg_rate_schedule){0}, error));
    BGI_TRY(check_output(recipe, error));
    if (recipe->debug && recipe->quiet)
        return bg_error_set(error, BG_ERROR_INVALID, "--debug and --quiet contradict each other; use one of them");
    return BG_OK;
}

/* ---- values of the flags ---- */

/* Always prints errors and warnings; prints other messages only with --debug or log_cycles. */
static void print_message(void *user, bg_log_level level, const char *text)
{
    const cli_recipe *recipe = user;
    static const char *const names[] = {"error", "warning", "info", "debug"};

    if (level > BG_LOG_WARNING && !recipe->debug && !recipe->library.options.reporting.log_cycles)
        return;
    cli_clear_line(recipe->quiet); /* clears a line that says that a plan is being compiled */
    if (level == BG_LOG_WARNING)
        cli_warn(recipe->command, text);
    else
        cli_say(recipe->command, "%s: %s", (unsigned)level < 4 ? names[level] : "note", text);
}

/* Describes the devices one by one if --device-memory has several values or --device-speeds is given. A single value of
 * --device-memory is the budget of each device. */
static void describe_devices(const cli_recipe *recipe, bg_device_model *devices, bg_options *options)
{
    const cli_library *library = &recipe->library;
    const uint32_t speeds = library->device_speeds.count, budgets = library->device_memory.count;
    const uint32_t count = speeds > 0 ? speeds : budgets > 1 ? budgets : 0;

    for (uint32_t d = 0; d < count; d++)
        devices[d] = (bg_device_model){.speed = speeds > 0 ? library->device_speeds.values[d] : 1.0,
                                       .memory_bytes = budgets > 1 ? (size_t)library->device_memory.values[d] : 0};
    options->execution.devices = count > 0 ? devices : NULL;
    options->execution.device_model_count = count;
}

/* Makes the rules of --offload-rule. A rule stores tensors remotely, and has the other settings of its class. */
static void set_rules(const cli_recipe *recipe, bg_options *options, cli_plan_room *room)
{
    const char *pattern = NULL, *next = recipe->library.offload_rules;
    size_t length = 0, used = 0;

    options->memory.location_rules = room->rules;
    while (next != NULL) {
        uint32_t classes = 0;
        read_rule(next, &classes, &pattern, &length, &next, NULL);
        memcpy(room->patterns + used, pattern, length);
        room->patterns[used + length] = '\0';
        for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++) {
            bg_location_rule *rule = &room->rules[options->memory.location_rule_count];
            if ((classes >> k & 1) == 0)
                continue;
            *rule = (bg_location_rule){
                .classes = 1u << k, .pattern = room->patterns + used, .location = options->memory.locations[k]};
            rule->location.place = BG_PLACE_REMOTE;
            options->memory.location_rule_count++;
        }
        used += length + 1;
    }
}

static bool are_weights_remote(const bg_options *options)
{
    const bg_place place = options->memory.locations[BG_LOCATION_WEIGHTS].place;

    return place == BG_PLACE_REMOTE || (place == BG_PLACE_DEFAULT && options->execution.strategy == BG_STRATEGY_PHASED);
}

static void set_locations(const cli_recipe *recipe, bg_options *options, cli_plan_room *room)
{
    const cli_library *library = &recipe->library;
    uint32_t remote = 0, sharded = 0;

    if (library->offload != NULL)
        cli_classes_find("offload", library->offload, strlen(library->offload), &remote, NULL);
    if (library->shard != NULL)
        cli_classes_find("shard", library->shard, strlen(library->shard), &sharded, NULL);
    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++) {
        bg_tensor_location *location = &options->memory.locations[k];
        if (library->offload != NULL)
            location->place = (remote >> k & 1) != 0 ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
        location->sharded = (sharded >> k & 1) != 0;
        location->minimum_elements_remote = (size_t)library->offload_minimum;
        location->minimum_elements_sharded = (size_t)library->shard_minimum;
    }
    set_rules(recipe, options, room);
    /* If only weights with certain names are remote, only these are sharded. */
    for (uint32_t i = 0; i < options->memory.location_rule_count && !are_weights_remote(options); i++)
        if (options->memory.location_rules[i].classes == 1u << BG_LOCATION_WEIGHTS)
            options->memory.locations[BG_LOCATION_WEIGHTS].sharded = false;
}

bg_options cli_recipe_options(const cli_recipe *recipe, cli_plan_room *room)
{
    bg_options options = cli_library_options(&recipe->library);

    set_locations(recipe, &options, room);
    describe_devices(recipe, room->devices, &options);
    /* The guard is also enabled if the run writes checkpoints or remote buffers in files. */
    options.numerics.guard_loss =
        options.numerics.guard_loss || recipe->checkpoint_dir != NULL || options.files.memmap_dir != NULL;
    cli_library_override(&recipe->library, &options);
    options.reporting.log = print_message;
    options.reporting.log_user = (void *)(uintptr_t)recipe;
    options.execution.stop = cli_is_asked_to_stop;
    return options;
}

/* Removes sharding: --shard applies only to the replicas of training. */
static void keep_whole(bg_options *options, cli_plan_room *room)
{
    for (uint32_t k = 0; k < BG_LOCATION_COUNT; k++)
        options->memory.locations[k].sharded = false;
    for (uint32_t i = 0; options->memory.location_rules == room->rules && i < options->memory.location_rule_count; i++)
        room->rules[i].location.sharded = false;
}

void cli_recipe_infer(const cli_recipe *recipe, bg_options *options, cli_plan_room *room)
{
    options->memory.recompute = BG_RECOMPUTE_NONE;
    options->memory.offload_optimizer = false;
    options->numerics.auto_loss_scaling.enabled = options->numerics.guard_loss = false;
    options->reporting.trace = recipe->profile;
    if (recipe->profile)
        options->reporting.trace_events = CLI_PROFILE_EVENTS;
    if (options->replicas.count == 1 && recipe->library.options.replicas.count > 1)
        keep_whole(options, room);
}

bg_status cli_recipe_trainer(cli_recipe *recipe, bg_trainer_options *out, bg_error *error)
{
    out->micro_batch[BG_TRAINER_FIT] = (uint32_t)recipe->batch_size;
    out->max_epochs = recipe->library.replay != NULL && recipe->epochs > 0 ? 1 : recipe->epochs;
    out->max_steps = recipe->steps;
    BGI_TRY(read_limits(recipe, out, error));
    out->interrupt = &cli_received_signal;
    if (recipe->checkpoint_dir != NULL) {
        out->checkpoint_steps = recipe->checkpoint_steps;
        out->checkpoint_end = true;
    }
    if (recipe->rate_schedule != NULL) {
        BGI_TRY(cli_recipe_rate(recipe, &recipe->rate, error));
        out->learning_rate = bg_rate_at;
        out->learning_rate_user = &recipe->rate;
        out->learning_rate_updates = true;
    }
    return bg_optimizer_parse(recipe->optimizer, recipe->learning_rate, &out->optimizer, error);
}

bg_loader_options cli_recipe_loading(const cli_recipe *recipe)
{
    bg_loader_options options = bg_loader_options_defaults();

    options.shuffle = !recipe->no_shuffle;
    options.drop_last = strcmp(recipe->last_batch, "drop") == 0;
    options.seed = recipe->library.options.numerics.seed;
    options.mode = strcmp(recipe->loader_mode, "sync") == 0    ? BG_LOADER_SYNC
                   : strcmp(recipe->loader_mode, "async") == 0 ? BG_LOADER_ASYNC
                                                               : BG_LOADER_ASYNC_REBATCHED;
    options.worker_count = (uint32_t)recipe->num_workers;
    options.prefetch_depth = (uint32_t)recipe->prefetch;
    return options;
}

uint64_t cli_recipe_samples_per_update(const cli_recipe *recipe)
{
    return cli_multiply(cli_multiply(recipe->batch_size, recipe->library.options.replicas.count),
                        recipe->library.options.execution.gradient_accumulation);
}

uint64_t cli_recipe_samples_per_call(const cli_recipe *recipe)
{
    return cli_multiply(cli_recipe_samples_per_update(recipe), recipe->library.options.execution.device_iterations);
}

/* ---- files of results ---- */

bg_status cli_recipe_check_places(const cli_recipe *recipe, const char *save_path, int *folder, bg_error *error)
{
    if (!cli_ranks_is_first()) /* other ranks write nothing */
        return BG_OK;
    if (save_path != NULL)
        BGI_TRY(cli_save_check(save_path, "save", error));
    if (recipe->log_path != NULL)
        BGI_TRY(cli_log_check(recipe->log_path, error));
    if (recipe->profile)
        BGI_TRY(cli_profile_check(recipe, error));
    return cli_checkpoint_check(recipe, folder, error);
}

bg_status cli_recipe_check_distinct(const cli_recipe *recipe, const char *save_path, const cli_file *more,
                                    size_t more_count, bg_error *error)
{
    enum { PROFILE = 3, OWN = PROFILE + CLI_PROFILE_FILES };
    cli_file *files = calloc(OWN + more_count, sizeof *files);
    char *profile[CLI_PROFILE_FILES];
    bg_status status;

    if (files == NULL)
        return bgi_error_memory(error, "files", (OWN + more_count) * sizeof *files);
    files[0] = (cli_file){.option = "--init", .path = recipe->init_path, .is_weights = true};
    files[1] = (cli_file){.option = "--save", .path = save_path, .is_written = true, .is_weights = true};
    files[2] = (cli_file){.option = "--log", .path = recipe->log_path, .is_written = true};
    cli_profile_paths(recipe, profile);
    for (int i = 0; i < CLI_PROFILE_FILES; i++)
        files[PROFILE + i] = (cli_file){.option = "--profile", .path = profile[i], .is_written = true};
    for (size_t i = 0; i < more_count; i++)
        files[OWN + i] = more[i];
    status = cli_files_check(files, OWN + more_count, error);
    for (int i = 0; i < CLI_PROFILE_FILES; i++)
        free(profile[i]);
    free(files);
    return status;
}

void cli_recipe_agree(const cli_recipe *recipe)
{
    for (int task = 0; task < BG_TRAINER_TASK_COUNT; task++)
        cli_ranks_agree("limit %d %s\n", task, recipe->limits[task] != NULL ? recipe->limits[task] : "");
    cli_ranks_agree("steps %" PRIu64 "\nepochs %" PRIu64 "\nno-shuffle %d\nlast-batch %s\ncheckpoint-steps %" PRIu64
                    "\ncheckpoint %d\ncheckpoint-async %d\ncheckpoint-keep-best %s\nresume %d\nsave %d\n",
                    recipe->steps, recipe->epochs, recipe->no_shuffle, recipe->last_batch, recipe->checkpoint_steps,
                    recipe->checkpoint_dir != NULL, recipe->checkpoint_async,
                    recipe->checkpoint_best != NULL ? recipe->checkpoint_best : "", recipe->resume,
                    recipe->save_path != NULL);
}
