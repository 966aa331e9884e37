/*
 * library.c: evaluates flags of the library's options, and options by name, which override all flags. $BRIGADE_OPTIONS
 * is read before --options FILE, which overrides it.
 */
#include "cli/program.h"

#include <stdlib.h>
#include <string.h>

#include <brigade/topology.h>

#include "cli/ranks.h"
#include "core/error.h"
#include "core/narrow.h"
#include "options/choices.h"

/* Refuses options that work only in C, or that the program's batches exclude. */
static bg_status refuse_options(const bg_run_options *options, bg_error *error)
{
    if (bg_run_options_is_given(options, "requests_only"))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "options: requests_only works only in C, where outputs are requested; this program needs its own outputs");
    if (bg_run_options_is_given(options, "total_devices"))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options: total_devices cannot be used, because this program's batches depend on the "
                            "number of replicas; give replicas");
    if (bg_run_options_view(options)->replicas.input_group_size != 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options: input_group_size works only in C: each replica of this program has its own data");
    return BG_OK;
}

cli_library cli_library_defaults(void)
{
    const bg_options options = bg_options_defaults();
    const bg_tensor_location *location = &options.memory.locations[BG_LOCATION_WEIGHTS];

    return (cli_library){.options = options,
                         .offload_minimum = location->minimum_elements_remote,
                         .shard_minimum = location->minimum_elements_sharded,
                         .accumulator_type = "default"};
}

bool cli_library_is_given(const cli_library *library, const char *flag)
{
    const cli_option *option = library->table->options;

    for (; option->name != NULL || option->help != NULL; option++)
        if (option->name != NULL && strcmp(option->name, flag) == 0)
            return library->given[option - library->table->options];
    return false;
}

/* Replaces another system's name of a schedule with Brigade's; cli_library_check refuses an unknown name. */
static void use_own_schedule_name(bg_options *options)
{
    const bg_schedule_generator *generator = bg_schedule_generator_find(options->execution.schedule);

    if (generator != NULL)
        options->execution.schedule = generator->name;
}

bg_status cli_library_read(cli_library *library, bg_error *error)
{
    bg_run_options *options;

    BGI_TRY(bg_run_options_create(NULL, &library->run_options, error));
    options = library->run_options;
    BGI_TRY(bg_run_options_read_environment(options, error));
    if (library->options_path != NULL)
        BGI_TRY(bg_run_options_load(options, library->options_path, error));
    BGI_TRY(refuse_options(options, error));
    bg_run_options_apply(options, &library->options);
    use_own_schedule_name(&library->options);
    return BG_OK;
}

void cli_library_clear(cli_library *library)
{
    bg_run_options_destroy(library->run_options);
    library->run_options = NULL;
}

bool cli_library_list_passes(const cli_library *library)
{
    const char *name, *what;
    const char *after = library->options.reporting.dump_after;

    if (after == NULL || strcmp(after, "list") != 0)
        return false;
    for (uint32_t i = 0; (name = bg_plan_pass_at(i, &what)) != NULL; i++)
        printf("%-12s %s\n", name, what);
    return true;
}

static void print_dump(void *user, const char *pass, const char *text)
{
    const size_t length = strlen(text);

    (void)user;
    printf("After pass `%s`:\n%s%s\n", pass, text, length > 0 && text[length - 1] == '\n' ? "" : "\n");
}

/* Returns the cache folder from the environment: from Brigade's own variable, or from those of IPU programs. */
static const char *find_cache(const char *folder)
{
    static const char *const names[] = {"BRIGADE_CACHE_DIR", "POPTORCH_CACHE_DIR", "POPXL_CACHE_DIR"};

    for (size_t i = 0; folder == NULL && i < sizeof names / sizeof names[0]; i++)
        folder = getenv(names[i]);
    return folder;
}

bg_status cli_library_check(const cli_library *library, bg_error *error)
{
    const bg_strategy strategy = library->options.execution.strategy;
    bg_options scratch = bg_options_defaults();
    uint32_t classes;

    BGI_TRY(cli_schedule_check(strategy, library->options.execution.schedule, error));
    if (library->phases != NULL && strategy != BG_STRATEGY_PHASED)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--phases %s is given with --strategy %s, but only the phased strategy has phases",
                            library->phases, bgi_strategy_name(strategy));
    if (library->options.execution.stages != NULL && strategy == BG_STRATEGY_SINGLE)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--stages %s is given with --strategy single, which has one stage; use pipelined or sharded",
            library->options.execution.stages);
    if (!cli_recompute_find(library->recompute, &scratch))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--recompute is `%s`; it must be none, stage, checkpoints, auto, or a number from 0 to 1",
                            library->recompute);
    if (scratch.memory.recompute == BG_RECOMPUTE_AUTO && library->device_memory.count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--recompute auto needs --device-memory as the budget to meet; give both, or use "
                            "--recompute stage");
    if (!cli_loss_scaling_find(library->loss_scaling, &scratch))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "--loss-scaling is `%s`; it must be a number above 0, auto, or auto:X with an initial scale X",
            library->loss_scaling);
    if (library->offload != NULL)
        BGI_TRY(cli_classes_find("offload", library->offload, strlen(library->offload), &classes, error));
    return library->shard != NULL ? cli_classes_find("shard", library->shard, strlen(library->shard), &classes, error)
                                  : BG_OK;
}

bg_options cli_library_options(const cli_library *library)
{
    bg_options options = library->options;

    options.execution.phases_parallel = library->phases != NULL && strcmp(library->phases, "parallel") == 0;
    if (library->device_memory.count == 1)
        options.memory.device_memory_bytes = (size_t)library->device_memory.values[0];
    cli_recompute_find(library->recompute, &options);
    cli_loss_scaling_find(library->loss_scaling, &options);
    cli_accumulator_type_set(library->accumulator_type, &options);
    options.files.cache_dir = find_cache(options.files.cache_dir);
    options.reporting.dump = print_dump;
    options.execution.transport = cli_ranks();
    options.execution.processor_order = bg_topology_order;
    return options;
}

void cli_library_override(const cli_library *library, bg_options *options)
{
    if (library->run_options != NULL)
        bg_run_options_apply(library->run_options, options);
    if (library->replay == NULL)
        return;
    options->execution.device_iterations = 1;
    options->execution.layout = NULL;
    options->numerics.guard_loss = true;
    options->reporting.output_mode = BG_OUTPUT_ALL;
}

bool cli_library_keeps_16_bits(const cli_library *library, const char *weight_type)
{
    bg_options options = bg_options_defaults();

    cli_library_override(library, &options);
    return bgi_dtype_is_narrow(bg_dtype_find(weight_type)) ||
           bgi_dtype_is_narrow(options.numerics.first_moment_dtype) ||
           bgi_dtype_is_narrow(options.numerics.second_moment_dtype);
}

bg_status cli_options_check(const bg_options *options, bg_error *error)
{
    char *problems = NULL, *end;
    bg_status status = BG_OK;

    BGI_TRY(bg_options_problems(options, true, &problems, error));
    if (problems[0] != '\0') {
        while ((end = strchr(problems, '\n')) != NULL)
            *end = end[1] != '\0' ? ';' : '\0';
        status = bg_error_set(error, BG_ERROR_INVALID, "options: %s", problems);
    }
    free(problems);
    return status;
}
