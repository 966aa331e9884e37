/*
 * library.c: options that programs hand to the library as they are (library.def), and the options by name that hold
 * over all others: $BRIGADE_OPTIONS, then --options FILE.
 */
#include "cli/program.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/narrow.h"

/* What would take from a program what it needs. */
static bg_status refuse_options(const bg_run_options *options, bg_error *error)
{
    if (bg_run_options_is_given(options, "requests_only"))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options: requests_only is for C, where outputs are requested; this program needs its own");
    if (bg_run_options_is_given(options, "total_devices"))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options: total_devices makes replicas where the batches do not depend on their number, as "
                            "this program's do; give replicas");
    if (bg_run_options_view(options)->input_group_size != 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options: input_group_size is for C: replicas of this program have data of their own");
    return BG_OK;
}

bg_status cli_library_read(cli_library *library, bg_error *error)
{
    bg_run_options *options;

    BGI_TRY(bg_run_options_create(NULL, &library->run_options, error));
    options = library->run_options;
    BGI_TRY(bg_run_options_read_environment(options, error));
    if (library->options_path != NULL)
        BGI_TRY(bg_run_options_load(options, library->options_path, error));
    if (bg_run_options_is_given(options, "compile_only"))
        library->compile_only = bg_run_options_view(options)->compile_only;
    if (bg_run_options_is_given(options, "log_cycles"))
        library->log_cycles = bg_run_options_view(options)->log_cycles;
    return refuse_options(options, error);
}

void cli_library_clear(cli_library *library)
{
    bg_run_options_destroy(library->run_options);
    library->run_options = NULL;
}

/* Of the environment: Brigade's own variable, or those of programs that came from IPUs. */
static const char *find_cache(const char *folder)
{
    static const char *const names[] = {"BRIGADE_CACHE_DIR", "POPTORCH_CACHE_DIR", "POPXL_CACHE_DIR"};

    for (size_t i = 0; folder == NULL && i < sizeof names / sizeof names[0]; i++)
        folder = getenv(names[i]);
    return folder;
}

void cli_library_set(const cli_library *library, bg_options *options)
{
    options->matmul_proportions = library->matmul_proportions.count > 0 ? library->matmul_proportions.values : NULL;
    options->matmul_proportion_count = library->matmul_proportions.count;
    options->compile_only = library->compile_only;
    options->log_cycles = library->log_cycles;
    options->log_dir = library->log_dir;
    options->cache_dir = find_cache(library->cache_dir);
}

void cli_library_override(const cli_library *library, bg_options *options)
{
    if (library->run_options != NULL)
        bg_run_options_apply(library->run_options, options);
}

void cli_library_strategy(const cli_library *library, const char **strategy, const char **schedule, const char **stages)
{
    const bg_run_options *named = library->run_options;
    const bg_options *view = bg_run_options_view(named);

    if (bg_run_options_is_given(named, "strategy"))
        *strategy = bg_strategy_name(view->strategy);
    if (bg_run_options_is_given(named, "schedule"))
        *schedule = view->schedule;
    if (bg_run_options_is_given(named, "stages"))
        *stages = view->stages;
}

bool cli_library_keeps_16_bits(const cli_library *library, const char *weight_type)
{
    bg_options options = bg_options_defaults();

    cli_library_override(library, &options);
    return bgi_dtype_is_narrow(bg_dtype_find(weight_type)) || bgi_dtype_is_narrow(options.first_moment_dtype) ||
           bgi_dtype_is_narrow(options.second_moment_dtype);
}

uint64_t cli_library_count(const cli_library *library, const char *name, uint64_t given, uint64_t otherwise)
{
    return bg_run_options_is_given(library->run_options, name) ? given : otherwise;
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
