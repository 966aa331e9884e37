/*
 * build.c: collects what a model needs to be built, and makes its training plan.
 */
#include "cli/model.h"

#include <brigade/plan.h>

#include "core/error.h"

bg_status cli_build_make(cli_build *build, const cli_settings *settings, const cli_training *training, bg_error *error)
{
    *build = (cli_build){.trainer = bg_trainer_options_defaults(),
                         .training = bg_options_defaults(),
                         .inference = bg_options_defaults()};
    return settings->model->build(settings->values, training, build, error);
}

bg_status cli_build_plan(const cli_build *build, const bg_options *options, bg_plan **out, bg_error *error)
{
    const bg_trainer_options *trainer = &build->trainer;
    bg_graph *graph = NULL;
    bg_value loss;
    bg_status status;

    BGI_TRY(bg_graph_create(&graph, error));
    loss = trainer->model(trainer->model_user, graph, BG_TRAINER_FIT, trainer->micro_batch[BG_TRAINER_FIT]);
    status = bg_plan_create_training(graph, loss, &trainer->optimizer, options != NULL ? options : &build->training,
                                     out, error);
    bg_graph_destroy(graph);
    return status;
}
