/*
 * mnist_costs.c: reads the costs of the digit network's stages for --schedule auto from a file, or measures them.
 */
#include "cli/mnist.h"

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/error.h"
#include "core/file.h"

/* The first run is slower, because it touches memory for the first time; the median over several runs excludes its
 * time. */
enum { MEASURED_RUNS = 4 };

/* Measures the costs with a plan that has the same stages and shapes but runs on one core, because in a pipeline the
 * other workers are busy and do not help. Waiting time is not measured, so the order does not matter. */
static bg_status measure(mnist_config *config, bg_error *error)
{
    mnist_config timed = *config;
    mnist_shape shape = mnist_training_shape(config);
    bg_costs *costs = &config->costs;
    bg_plan *plan = NULL;
    bg_status status;

    timed.recipe.profile = true;
    shape.device_iterations = 1;
    shape.replicas = 1;
    shape.logs_all = false;
    timed.recipe.library.run_options = NULL;
    BGI_TRY(bg_run_options_clone(config->recipe.library.run_options, &timed.recipe.library.run_options, error));
    status = bg_run_options_set(timed.recipe.library.run_options, "cores", "1", error);
    if (status == BG_OK)
        status = mnist_plan_create(&timed, &shape, &plan, error);
    cli_library_clear(&timed.recipe.library);
    if (status != BG_OK)
        return status;
    costs->stage_count = bg_plan_summarize(plan).stage_count;
    costs->stages = calloc(costs->stage_count, sizeof *costs->stages);
    status = costs->stages != NULL
                 ? bg_profile_measure(plan, MEASURED_RUNS, costs->stages, &costs->message_bytes_per_ns, error)
                 : bgi_error_memory(error, "costs", costs->stage_count * sizeof *costs->stages);
    bg_plan_destroy(plan);
    return status;
}

bg_status mnist_costs_find(mnist_config *config, bool may_run, bg_error *error)
{
    if (config->recipe.library.options.execution.schedule == NULL ||
        strcmp(config->recipe.library.options.execution.schedule, "auto") != 0)
        return BG_OK;
    if (config->costs_path != NULL && bgi_file_exists(config->costs_path))
        return bg_costs_load(config->costs_path, &config->costs, error);
    if (!may_run)
        return config->costs_path == NULL
                   ? BG_OK
                   : bg_error_set(error, BG_ERROR_NOT_FOUND,
                                  "--costs %s: the file does not exist; `brigade mnist --schedule auto --costs %s` "
                                  "with the same options measures the costs and writes the file",
                                  config->costs_path, config->costs_path);
    BGI_TRY(measure(config, error));
    if (config->recipe.debug)
        for (uint32_t stage = 0; stage < config->costs.stage_count; stage++)
            cli_say("mnist", "stage %u: forward %.1f us, backward %.1f us, update %.1f us", stage,
                    1e-3 * config->costs.stages[stage].forward_ns, 1e-3 * config->costs.stages[stage].backward_ns,
                    1e-3 * config->costs.stages[stage].update_ns);
    return config->costs_path != NULL ? bg_costs_save(&config->costs, config->costs_path, error) : BG_OK;
}
