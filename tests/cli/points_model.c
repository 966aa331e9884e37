/*
 * points_model.c: a user's model for the program: a network of two layers that learns in which quadrant of the plane a
 * point lies. Only this file and `CLI_MODEL(points)` in models.def are needed; test_models.sh builds a program with
 * them.
 */
#include "cli/model.h"

#include <inttypes.h>
#include <stddef.h>

#include <brigade/nn.h>

#include "cli/command.h"

enum { POINTS = 256 };

/* ---- options ---- */

typedef struct points_settings {
    uint64_t hidden, steps;
    double learning_rate;
    cli_library library;
} points_settings;

#define AT(field) .offset = offsetof(points_settings, field)

static const cli_option flags[] = {
    {.help = "Training"},
    {CLI_COUNT, "hidden", AT(hidden), .value = "N", .minimum = 1, .maximum = 4096, .help = "units of the first layer"},
    {CLI_COUNT, "steps", AT(steps), .value = "N", .minimum = 1, .maximum = INT32_MAX, .help = "weight updates"},
    {CLI_REAL, "learning-rate", AT(learning_rate), .value = "X", .help = "of Adam"},
    {CLI_LIBRARY, .name = "seed"},
    {.help = "Devices"},
    {CLI_LIBRARY, .name = "strategy"},
    {CLI_LIBRARY, .name = "stages", .default_text = "hidden|scores"},
    {CLI_LIBRARY, .name = "cores", .default_text = "all"},
#include "cli/library.def"
    CLI_OPTIONS_END,
};

static void set_defaults(void *settings, const char *command)
{
    (void)command;
    *(points_settings *)settings =
        (points_settings){.hidden = 16, .steps = 200, .learning_rate = 0.02, .library = cli_library_defaults()};
}

static int resolve(void *settings, bg_error *error)
{
    cli_library *library = &((points_settings *)settings)->library;

    return cli_library_read(library, error) == BG_OK && cli_library_check(library, error) == BG_OK ? CLI_DONE
                                                                                                   : CLI_USAGE;
}

static void clear_settings(void *settings)
{
    cli_library_clear(&((points_settings *)settings)->library);
}

/* ---- build ---- */

static bg_value add_model(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch)
{
    const points_settings *settings = user;
    const bg_type point = bg_matrix(BG_FLOAT32, micro_batch, 2), label = bg_vector(BG_UINT8, micro_batch);
    bg_value hidden, loss;

    (void)task;
    bg_block_start(graph, "hidden", BG_DEVICE_NONE);
    hidden = bg_linear_layer(graph, "fc1", bg_graph_input(graph, "point", &point), (int64_t)settings->hidden, true);
    hidden = bg_tanh(graph, hidden);
    bg_block_start(graph, "scores", BG_DEVICE_NONE);
    loss = bg_cross_entropy(graph, "loss", bg_linear_layer(graph, "fc2", hidden, 4, true),
                            bg_graph_input(graph, "quarter", &label), BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", loss);
    return loss;
}

static bg_status build(void *settings, const cli_training *training, cli_build *out, bg_error *error)
{
    points_settings *own = settings;
    bg_trainer_options *trainer = &out->trainer;

    (void)training, (void)error;
    out->training = cli_library_options(&own->library);
    out->training.execution.gradient_accumulation = 4;
    cli_library_override(&own->library, &out->training);
    out->plan_parts = CLI_PLAN_STAGES | CLI_PLAN_MEMORY | CLI_PLAN_TIMETABLE;
    trainer->model = add_model;
    trainer->model_user = own;
    trainer->optimizer = bg_adam(own->learning_rate);
    trainer->micro_batch[BG_TRAINER_FIT] = 16;
    trainer->max_epochs = UINT64_MAX;
    trainer->max_steps = own->steps;
    trainer->interrupt = &cli_received_signal;
    return BG_OK;
}

/* ---- data ---- */

static const char *const inputs[] = {"point", "quarter"};

static bg_status get_point(void *user, uint64_t epoch, uint64_t index, void *const outputs[], bg_error *error)
{
    float *point = outputs[0];

    (void)user, (void)epoch, (void)error;
    point[0] = (float)(index % 16) / 8.0f - 0.9375f;
    point[1] = (float)(index / 16) / 8.0f - 0.9375f;
    *(uint8_t *)outputs[1] = (uint8_t)((point[0] > 0) + 2 * (point[1] > 0));
    return BG_OK;
}

static bg_status open_run(cli_training *training, bg_error *error)
{
    const bg_type types[] = {bg_vector(BG_FLOAT32, 2), bg_scalar(BG_UINT8)};
    const bg_dataset_options options = {
        .sample_count = POINTS, .tensor_count = 2, .sample_types = types, .get = get_point};

    return bg_dataset_create(&options, &training->data, error);
}

/* ---- outputs ---- */

static bg_status on_event(cli_training *training, bg_trainer_event *event, bg_error *error)
{
    const uint64_t step = bg_trainer_step(event->trainer);

    (void)training, (void)error;
    if (event->kind == BG_ON_CALL_END && step % 50 == 0)
        printf("update %" PRIu64 ": loss %.4f\n", step,
               *(const float *)bg_trainer_call_output(event->call, "loss", NULL));
    return BG_OK;
}

static void close_run(cli_training *training)
{
    bg_dataset_destroy(training->data);
}

const cli_model cli_model_points = {
    .name = "points",
    .program = "points",
    .says = "points",
    .summary = "learn the quarters of the plane",
    .purpose = "Learns in which quarter of the plane a point lies.\n",
    .plan = "Shows the plan of `brigade points`.\n",
    .samples = "points",

    .flags = flags,
    .library_flags = BGI_COMMAND_GPT,
    .settings_bytes = sizeof(points_settings),
    .library = offsetof(points_settings, library),
    .set_defaults = set_defaults,
    .resolve = resolve,
    .clear_settings = clear_settings,

    .build = build,
    .inputs = inputs,
    .state_bytes = 1,
    .open = open_run,
    .on_event = on_event,
    .close = close_run,
};
