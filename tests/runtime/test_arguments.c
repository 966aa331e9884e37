/*
 * test_arguments.c: tests how every public function that can fail handles its arguments. A NULL for a required value is
 * an error that names the parameter. A bg_error needs no preparation: success leaves it clear, and failure reports only
 * its own cause. tests/style/test_entry.sh checks that every function clears it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade.h>

/* Gives the error an invalid status and a message without a terminating zero, as an uninitialized local variable could
 * have. */
static void fill_with_garbage(bg_error *error)
{
    memset(error, 0xA5, sizeof *error);
}

static void fill_with_failure(bg_error *error)
{
    memset(error, 0, sizeof *error);
    bg_error_set(error, BG_ERROR_IO, "an older failure");
}

static void expect_refusal(const char *call, bg_status status, const bg_error *error)
{
    if (status != BG_ERROR_INVALID && status != BG_ERROR_NOT_FOUND)
        fail_msg("%s returned %s", call, bg_status_name(status));
    if (error->status != status)
        fail_msg("%s returned %s, its error has %d", call, bg_status_name(status), (int)error->status);
    if (error->message[0] == '\0' || memchr(error->message, '\0', sizeof error->message) == NULL ||
        strchr(error->message, '\xA5') != NULL || strstr(error->message, "an older failure") != NULL)
        fail_msg("%s: its message is `%.80s`", call, error->message);
}

#define REFUSES(call)                                                                                                  \
    do {                                                                                                               \
        bg_error error;                                                                                                \
        fill_with_garbage(&error);                                                                                     \
        expect_refusal(#call, call, &error);                                                                           \
        fill_with_failure(&error);                                                                                     \
        expect_refusal(#call, call, &error);                                                                           \
    } while (0)

/* The functions are in the order of the headers. */
static void nothing_at_all_is_refused(void **state)
{
    (void)state;
    REFUSES(bg_type_validate(NULL, &error));
    REFUSES(bg_checkpoint_save(NULL, NULL, NULL, &error));
    REFUSES(bg_checkpoint_load(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_checkpoint_load_weights(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_ipu_config_create(NULL, &error));
    REFUSES(bg_ipu_config_clone(NULL, NULL, &error));
    REFUSES(bg_ipu_config_set_mode(NULL, NULL, &error));
    REFUSES(bg_ipu_config_get(NULL, NULL, NULL, &error));
    REFUSES(bg_ipu_config_set(NULL, NULL, NULL, &error));
    REFUSES(bg_ipu_config_update_from_string(NULL, NULL, &error));
    REFUSES(bg_ipu_config_print(NULL, NULL, &error));
    REFUSES(bg_ipu_config_print_notes(NULL, NULL, &error));
    REFUSES(bg_ipu_config_load(NULL, NULL, NULL, &error));
    REFUSES(bg_ipu_config_parse_json(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_ipu_config_parse_yaml(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_ipu_config_save(NULL, NULL, &error));
    REFUSES(bg_ipu_config_print_json(NULL, NULL, &error));
    REFUSES(bg_ipu_config_print_yaml(NULL, NULL, &error));
    REFUSES(bg_layers_expand(NULL, 1, 1, 1, NULL, &error));
    REFUSES(bg_ipu_config_split_encoder_decoder(NULL, 1, 1, NULL, NULL, &error));
    REFUSES(bg_ipu_config_to_options(NULL, false, false, NULL, NULL, &error));
    REFUSES(bg_options_set(NULL, NULL, NULL, &error));
    REFUSES(bg_options_print(NULL, NULL, &error));
    REFUSES(bg_run_options_create(NULL, NULL, &error));
    REFUSES(bg_run_options_clone(NULL, NULL, &error));
    REFUSES(bg_run_options_set(NULL, NULL, NULL, &error));
    REFUSES(bg_run_options_set_value(NULL, NULL, NULL, &error));
    REFUSES(bg_run_options_set_transport(NULL, NULL, &error));
    REFUSES(bg_run_options_set_integer(NULL, NULL, 1, &error));
    REFUSES(bg_run_options_set_text(NULL, NULL, NULL, &error));
    REFUSES(bg_run_options_add_anchor(NULL, NULL, NULL, (bg_output_mode)0, 1, &error));
    REFUSES(bg_run_options_get(NULL, NULL, NULL, &error));
    REFUSES(bg_run_options_parse(NULL, NULL, NULL, &error));
    REFUSES(bg_run_options_load(NULL, NULL, &error));
    REFUSES(bg_run_options_read_environment(NULL, &error));
    REFUSES(bg_run_options_print_json(NULL, NULL, &error));
    REFUSES(bg_array_init(NULL, NULL, &error));
    REFUSES(bg_idx_read(NULL, NULL, &error));
    REFUSES(bg_idx_write(NULL, NULL, &error));
    REFUSES(bg_image_set_read(NULL, NULL, 1, NULL, &error));
    REFUSES(bg_image_set_write_mnist(NULL, NULL, false, false, &error));
    REFUSES(bg_mnist_load(NULL, 1, false, NULL, &error));
    REFUSES(bg_mnist_download(NULL, &error));
    REFUSES(bg_digits_create(NULL, NULL, &error));
    REFUSES(bg_dataset_create(NULL, NULL, &error));
    REFUSES(bg_dataset_create_arrays(NULL, 1, NULL, &error));
    REFUSES(bg_dataset_take(NULL, 1, NULL, &error));
    REFUSES(bg_dataset_skip(NULL, 1, NULL, &error));
    REFUSES(bg_dataset_concatenate(NULL, 1, NULL, &error));
    REFUSES(bg_dataset_shard(NULL, 1, 1, NULL, &error));
    REFUSES(bg_dataset_repeat(NULL, 1, NULL, &error));
    REFUSES(bg_dataset_shuffle(NULL, 1, 1, NULL, &error));
    REFUSES(bg_dataset_cache(NULL, NULL, &error));
    REFUSES(bg_dataset_map(NULL, NULL, NULL, &error));
    REFUSES(bg_dataset_normalize(NULL, NULL, NULL, &error));
    REFUSES(bg_loader_create(NULL, NULL, NULL, &error));
    REFUSES(bg_loader_create_stream(NULL, NULL, NULL, &error));
    REFUSES(bg_loader_begin_epoch(NULL, 1, &error));
    REFUSES(bg_loader_begin_at(NULL, 1, 1, &error));
    REFUSES(bg_loader_next(NULL, NULL, &error));
    REFUSES(bg_dataset_benchmark(NULL, NULL, NULL, &error));
    REFUSES(bg_infeed_benchmark(NULL, NULL, NULL, &error));
    REFUSES(bg_infeed_benchmark_source(NULL, 1, NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_stream_shape(NULL, (bg_stream_form)0, NULL, &error));
    REFUSES(bg_session_check_input(NULL, 1, NULL, &error));
    REFUSES(bg_infeed_create(NULL, 1, NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_infeed_create_loader(NULL, NULL, NULL, &error));
    REFUSES(bg_infeed_create_dataset(NULL, NULL, NULL, &error));
    REFUSES(bg_infeed_start(NULL, NULL, &error));
    REFUSES(bg_outfeed_create(NULL, NULL, &error));
    REFUSES(bg_outfeed_attach(NULL, NULL, &error));
    REFUSES(bg_outfeed_leaf_at(NULL, 1, NULL, &error));
    REFUSES(bg_outfeed_next(NULL, NULL, NULL, &error));
    REFUSES(bg_outfeed_wait(NULL, 1.0, NULL, &error));
    REFUSES(bg_outfeed_dequeue(NULL, false, NULL, NULL, &error));
    REFUSES(bg_session_execute(NULL, NULL, NULL, &error));
    REFUSES(bg_session_run_infeed(NULL, NULL, NULL, &error));
    REFUSES(bg_session_run_loader(NULL, NULL, 1, NULL, &error));
    REFUSES(bg_generator_create(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_generator_feed(NULL, NULL, 1, &error));
    REFUSES(bg_generator_sample(NULL, NULL, NULL, &error));
    REFUSES(bg_graph_create(NULL, &error));
    REFUSES(bg_graph_check(NULL, &error));
    REFUSES(bg_graph_print(NULL, NULL, &error));
    REFUSES(bg_graph_print_dot(NULL, NULL, &error));
    REFUSES(bg_gpt_directory_read_options(NULL, NULL, &error));
    REFUSES(bg_gpt_directory_load(NULL, NULL, NULL, &error));
    REFUSES(bg_gpt_directory_save(NULL, NULL, NULL, &error));
    REFUSES(bg_plan_create_loop(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_mesh_validate(NULL, &error));
    REFUSES(bg_replica_group_resolve(1, NULL, NULL, &error));
    REFUSES(bg_replica_group_assign(1, NULL, NULL, &error));
    REFUSES(bg_replica_group_transpose(1, NULL, NULL, &error));
    REFUSES(bg_replica_group_constant(1, NULL, NULL, &error));
    REFUSES(bg_mesh_find_axes(NULL, NULL, NULL, &error));
    REFUSES(bg_shard_piece(NULL, NULL, NULL, &error));
    REFUSES(bg_shard_cut(NULL, NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_shard_join(NULL, NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_serialized_weight_cut(NULL, NULL, 1, 1, NULL, &error));
    REFUSES(bg_serialized_weight_join(NULL, NULL, 1, 1, NULL, &error));
    REFUSES(bg_gradient_check(NULL, NULL, NULL, NULL, 1, NULL, &error));
    REFUSES(bg_options_problems(NULL, false, NULL, &error));
    REFUSES(bg_optimizer_parse(NULL, 1.0, NULL, &error));
    REFUSES(bg_optimizer_validate(NULL, &error));
    REFUSES(bg_plan_create_training(NULL, (bg_value){0}, NULL, NULL, NULL, &error));
    REFUSES(bg_plan_create_inference(NULL, NULL, NULL, &error));
    REFUSES(bg_plan_print_memory(NULL, NULL, &error));
    REFUSES(bg_plan_print_phases(NULL, NULL, &error));
    REFUSES(bg_plan_print_remote(NULL, NULL, &error));
    REFUSES(bg_plan_print_placement(NULL, NULL, &error));
    REFUSES(bg_plan_print_timetable(NULL, NULL, &error));
    REFUSES(bg_plan_print_program(NULL, NULL, &error));
    REFUSES(bg_profile_write_trace(NULL, NULL, NULL, &error));
    REFUSES(bg_profile_print_summary(NULL, NULL, NULL, &error));
    REFUSES(bg_profile_costs(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_profile_measure(NULL, 1, NULL, NULL, &error));
    REFUSES(bg_costs_save(NULL, NULL, &error));
    REFUSES(bg_costs_load(NULL, NULL, &error));
    REFUSES(bg_npy_read(NULL, NULL, &error));
    REFUSES(bg_npz_read(NULL, NULL, &error));
    REFUSES(bg_dataset_open_npy(NULL, 1, NULL, &error));
    REFUSES(bg_dataset_open_npz(NULL, NULL, 1, NULL, &error));
    REFUSES(bg_dataset_open_tokens(NULL, NULL, NULL, &error));
    REFUSES(bg_dataset_open_tfrecord(NULL, NULL, NULL, &error));
    REFUSES(bg_csv_read(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_dataset_open_csv(NULL, NULL, NULL, &error));
    REFUSES(bg_png_read(NULL, 1, NULL, &error));
    REFUSES(bg_dataset_open_images(NULL, 0, NULL, &error));
    REFUSES(bg_safetensors_write(NULL, NULL, 1, NULL, 1, &error));
    REFUSES(bg_safetensors_write_fetched(NULL, NULL, 1, NULL, 1, NULL, NULL, &error));
    REFUSES(bg_safetensors_open(NULL, NULL, &error));
    REFUSES(bg_schedule_problem_chain(NULL, 1, NULL, &error));
    REFUSES(bg_schedule_place(NULL, 1, 1, NULL, &error));
    REFUSES(bg_schedule_create(NULL, NULL, NULL, &error));
    REFUSES(bg_schedule_emit(NULL, 1, (bg_action){0}, &error));
    REFUSES(bg_schedule_verify(NULL, NULL, &error));
    REFUSES(bg_schedule_simulate(NULL, NULL, NULL, &error));
    REFUSES(bg_schedule_print(NULL, NULL, &error));
    REFUSES(bg_schedule_parse(NULL, NULL, NULL, &error));
    REFUSES(bg_schedule_timetable(NULL, NULL, NULL, &error));
    REFUSES(bg_schedule_print_csv(NULL, NULL, NULL, &error));
    REFUSES(bg_schedule_parse_csv(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_schedule_problem_infer(NULL, 1, NULL, &error));
    REFUSES(bg_schedule_draw_svg(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_weights_create(NULL, &error));
    REFUSES(bg_weights_at(NULL, 1, NULL, &error));
    REFUSES(bg_weights_find(NULL, NULL, NULL, &error));
    REFUSES(bg_weights_set(NULL, NULL, NULL, NULL, &error));
    REFUSES(bg_session_create(NULL, NULL, NULL, &error));
    REFUSES(bg_session_input(NULL, 1, NULL, &error));
    REFUSES(bg_session_output(NULL, 1, NULL, &error));
    REFUSES(bg_session_run(NULL, NULL, NULL, &error));
    REFUSES(bg_session_set_optimizer(NULL, NULL, &error));
    REFUSES(bg_session_set_learning_rate(NULL, 1.0, &error));
    REFUSES(bg_session_set_step(NULL, 1, &error));
    REFUSES(bg_session_flush(NULL, NULL, &error));
    REFUSES(bg_session_print_workers(NULL, NULL, &error));
    REFUSES(bg_session_trace_event(NULL, 1, 1, 1, NULL, &error));
    REFUSES(bg_tokenizer_open(NULL, NULL, &error));
    REFUSES(bg_tokenizer_create_bytes(NULL, &error));
    REFUSES(bg_tokenizer_encode(NULL, NULL, 1, false, NULL, &error));
    REFUSES(bg_tokenizer_decode(NULL, NULL, 1, NULL, NULL, &error));
    REFUSES(bg_ipu_strategy_set_devices(NULL, NULL, &error));
    REFUSES(bg_ipu_strategy_options(NULL, false, 1, NULL, &error));
    REFUSES(bg_trainer_create(NULL, NULL, NULL, &error));
    REFUSES(bg_trainer_fit(NULL, NULL, NULL, &error));
    REFUSES(bg_trainer_validate(NULL, NULL, &error));
    REFUSES(bg_trainer_test(NULL, NULL, &error));
    REFUSES(bg_trainer_predict(NULL, NULL, NULL, &error));
    REFUSES(bg_trainer_prepare(NULL, (bg_trainer_task)0, &error));
    REFUSES(bg_trainer_set_optimizer(NULL, NULL, &error));
    REFUSES(bg_trainer_metric_at(NULL, (bg_trainer_task)0, 1, NULL, &error));
    REFUSES(bg_trainer_metric_find(NULL, (bg_trainer_task)0, NULL, NULL, &error));
}

/* ---- one missing argument ---- */

#define EXPECT(call, part)                                                                                             \
    do {                                                                                                               \
        bg_error error;                                                                                                \
        fill_with_garbage(&error);                                                                                     \
        expect_refusal(#call, call, &error);                                                                           \
        if (strstr(error.message, part) == NULL)                                                                       \
            fail_msg("%s: `%s` does not say `%s`", #call, error.message, part);                                        \
    } while (0)

static bg_graph *open_graph(void)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    bg_graph *graph = NULL;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_output(graph, "y", bg_scale(graph, NULL, bg_graph_input(graph, "x", &type), 2.0, 0.0));
    return graph;
}

static void a_missing_argument_is_named(void **state)
{
    const char *const result = "`out` is NULL; it must be the address for the result";
    const bg_options options = bg_options_defaults();
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    bg_graph *graph = open_graph();
    bg_session *session = NULL;
    bg_weights *weights = NULL;
    bg_plan *plan = NULL;
    bg_stream stream;

    (void)state;
    EXPECT(bg_graph_create(NULL, &error), "bg_graph_create: `out` is NULL; it must be the address");
    EXPECT(bg_graph_print(graph, NULL, &error), "bg_graph_print: `out_text` is NULL");
    EXPECT(bg_plan_create_inference(graph, &options, NULL, &error), result);
    assert_int_equal(bg_plan_create_inference(graph, &options, &plan, NULL), BG_OK);
    EXPECT(bg_session_create(plan, NULL, NULL, &error), result);
    assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
    EXPECT(bg_session_input(session, 0, NULL, &error), result);
    EXPECT(bg_session_input(NULL, 0, &stream, &error),
           "bg_session_input: `session` is NULL; this argument is required");
    EXPECT(bg_session_run(NULL, NULL, NULL, &error), "bg_session_run: `session` is NULL");
    EXPECT(bg_session_run_loader(session, NULL, 0, NULL, &error), "bg_session_run_loader: `loader` is NULL");
    EXPECT(bg_weights_create(NULL, &error), result);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    EXPECT(bg_weights_set(weights, NULL, &type, (const float[]){1, 2}, &error), "bg_weights_set: `name` is NULL");
    EXPECT(bg_idx_read(NULL, &(bg_array){.data = NULL}, &error), "bg_idx_read: `path` is NULL");
    EXPECT(bg_checkpoint_save(session, NULL, NULL, &error), "bg_checkpoint_save: `directory` is NULL");
    bg_weights_destroy(weights);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* A NULL for required options, for a list that has a count, or for bytes to read is an error that names the
 * parameter. */
static void a_missing_list_is_named(void **state)
{
    const bg_config_value integers = {.kind = BG_CONFIG_INTEGERS, .count = 2};
    const bg_config_value reals = {.kind = BG_CONFIG_REALS, .count = 2};
    const bg_csv_options labeled = {.label = "y"};
    const bg_mesh mesh = {1, 1, 1};
    const bg_type type = bg_matrix(BG_FLOAT32, 2, 2);
    const bg_shard shard = {.whole = type};
    const bg_gpt_options gpt = bg_gpt_defaults();
    bg_array arrays[2] = {{.data = NULL}};
    uint32_t numbers[2];
    int64_t layers[2];
    float values[4] = {0};
    bg_dataset *dataset = NULL, *other;
    bg_image_set images;
    bg_ipu_config *config = NULL;
    bg_loader *loader;
    bg_replica_group group;
    bg_run_options *run_options = NULL;
    bg_sample_stream stream;
    bg_session *session = NULL;
    bg_token_list tokens = {.items = NULL};
    bg_tokenizer *tokenizer = NULL;
    bg_weights *weights = NULL;
    bg_graph *graph = open_graph();
    bg_plan *plan = NULL;
    const bg_options options = bg_options_defaults();
    size_t size_bytes;
    char *text;

    (void)state;
    assert_int_equal(bg_array_init(&arrays[0], &type, NULL), BG_OK);
    assert_int_equal(bg_dataset_create_arrays(arrays, 1, &dataset, NULL), BG_OK);
    stream = bg_dataset_stream(dataset);
    EXPECT(bg_loader_create(dataset, NULL, &loader, &error), "bg_loader_create: `options` is NULL");
    EXPECT(bg_loader_create_stream(&stream, NULL, &loader, &error), "bg_loader_create_stream: `options` is NULL");
    EXPECT(bg_dataset_map(dataset, NULL, &other, &error), "bg_dataset_map: `options` is NULL");
    EXPECT(bg_dataset_normalize(dataset, NULL, &other, &error), "bg_dataset_normalize: `options` is NULL");
    EXPECT(bg_dataset_open_images(NULL, 0, &other, &error), "bg_dataset_open_images: `folder` is NULL");
    EXPECT(bg_dataset_open_tokens("none.u16", NULL, &other, &error), "bg_dataset_open_tokens: `options` is NULL");
    EXPECT(bg_dataset_open_tfrecord("none", NULL, &other, &error), "bg_dataset_open_tfrecord: `options` is NULL");
    EXPECT(bg_dataset_open_csv("none", NULL, &other, &error), "bg_dataset_open_csv: `options` is NULL");
    EXPECT(bg_csv_read("none", NULL, &arrays[0], &arrays[1], &error), "bg_csv_read: `options` is NULL");
    EXPECT(bg_csv_read("none", &labeled, &arrays[0], NULL, &error), "bg_csv_read: `out_labels` is NULL");
    EXPECT(bg_dataset_open_npy(NULL, 2, &other, &error), "bg_dataset_open_npy: `paths` is NULL");
    EXPECT(bg_dataset_open_npz("none", NULL, 1, &other, &error), "bg_dataset_open_npz: `names` is NULL");
    EXPECT(bg_mnist_load(NULL, 2, true, &images, &error), "bg_mnist_load: `folders` is NULL");
    EXPECT(bg_safetensors_write("none", NULL, 1, NULL, 0, &error), "bg_safetensors_write: `entries` is NULL");
    EXPECT(bg_safetensors_write("none", NULL, 0, NULL, 1, &error), "bg_safetensors_write: `metadata` is NULL");
    bg_dataset_destroy(dataset);
    bg_array_clear(&arrays[0]);

    EXPECT(bg_replica_group_transpose(2, NULL, numbers, &error), "bg_replica_group_transpose: `groups` is NULL");
    EXPECT(bg_replica_group_constant(2, NULL, &group, &error), "bg_replica_group_constant: `groups` is NULL");
    EXPECT(bg_mesh_find_axes(&mesh, NULL, numbers, &error), "bg_mesh_find_axes: `groups` is NULL");
    EXPECT(bg_shard_cut(&mesh, &shard, &mesh, NULL, values, &error), "bg_shard_cut: `whole` is NULL");
    EXPECT(bg_shard_join(&mesh, &shard, &mesh, NULL, values, &error), "bg_shard_join: `piece` is NULL");
    EXPECT(bg_serialized_weight_cut(NULL, &type, 0, 1, (void *[]){values}, &error),
           "bg_serialized_weight_cut: `plain` is NULL");
    EXPECT(bg_serialized_weight_cut(values, &type, 0, 2, (void *[]){values, NULL}, &error), "piece 1 of the 2");
    EXPECT(bg_serialized_weight_join(NULL, &type, 0, 1, values, &error), "bg_serialized_weight_join: `pieces` is NULL");

    assert_int_equal(bg_ipu_config_create(&config, NULL), BG_OK);
    EXPECT(bg_ipu_config_set(config, "layers_per_ipu", &integers, &error),
           "bg_ipu_config_set: `value->integers` is NULL");
    EXPECT(bg_ipu_config_set(config, "matmul_proportion", &reals, &error), "bg_ipu_config_set: `value->reals` is NULL");
    EXPECT(bg_layers_expand(NULL, 2, 2, 2, layers, &error), "bg_layers_expand: `layers` is NULL");
    bg_ipu_config_destroy(config);
    assert_int_equal(bg_run_options_create(&options, &run_options, NULL), BG_OK);
    EXPECT(bg_run_options_set_value(run_options, "device_mapping", &integers, &error),
           "bg_run_options_set_value: `value->integers` is NULL");
    EXPECT(bg_run_options_set_value(run_options, "matmul_proportions", &reals, &error),
           "bg_run_options_set_value: `value->reals` is NULL");
    bg_run_options_destroy(run_options);

    assert_int_equal(bg_tokenizer_create_bytes(&tokenizer, NULL), BG_OK);
    EXPECT(bg_tokenizer_encode(tokenizer, NULL, 1, false, &tokens, &error), "bg_tokenizer_encode: `text` is NULL");
    EXPECT(bg_tokenizer_decode(tokenizer, NULL, 1, &text, &size_bytes, &error),
           "bg_tokenizer_decode: `tokens` is NULL");
    bg_tokenizer_destroy(tokenizer);
    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    EXPECT(bg_gpt_directory_save("none", NULL, weights, &error), "bg_gpt_directory_save: `options` is NULL");
    EXPECT(bg_gpt_directory_save("none", &gpt, NULL, &error), "bg_gpt_directory_save: `weights` is NULL");
    EXPECT(bg_gpt_directory_load("none", NULL, NULL, &error), "bg_gpt_directory_load: `weights` is NULL");
    bg_weights_destroy(weights);
    assert_int_equal(bg_plan_create_inference(graph, &options, &plan, NULL), BG_OK);
    assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
    EXPECT(bg_session_execute(session, NULL, NULL, &error), "bg_session_execute: `run` is NULL");
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* Builders return no status: bg_graph_check returns their error. */
#define FAILS_TO_BUILD(call, part)                                                                                     \
    do {                                                                                                               \
        const bg_type matrix = bg_matrix(BG_FLOAT32, 2, 12);                                                           \
        bg_graph *graph = NULL;                                                                                        \
        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);                                                        \
        bg_value x = bg_graph_input(graph, "x", &matrix);                                                              \
        (void)x;                                                                                                       \
        call;                                                                                                          \
        EXPECT(bg_graph_check(graph, &error), part);                                                                   \
        bg_graph_destroy(graph);                                                                                       \
    } while (0)

static void what_a_builder_lacks_is_named(void **state)
{
    const bg_split_placement placement = {.splits = NULL, .device_count = 2};

    (void)state;
    FAILS_TO_BUILD(bg_concat(graph, "both", NULL, 2, 0), "concat `both`: values is NULL, but count is 2");
    FAILS_TO_BUILD(bg_reshape(graph, "r", x, 2, NULL), "reshape `r`: dims is NULL, but rank is 2");
    FAILS_TO_BUILD(bg_broadcast(graph, "b", x, 2, NULL), "broadcast `b`: dims is NULL, but rank is 2");
    FAILS_TO_BUILD(bg_reduce(graph, "sum", BG_REDUCE_SUM, x, NULL, 1, false),
                   "reduce `sum`: axes is NULL, but axis_count is 1");
    FAILS_TO_BUILD(bg_attention(graph, "a", x, NULL), "attention `a`: it has no options");
    FAILS_TO_BUILD(bg_attention_cached(graph, "a", x, x, x, NULL), "`a`: it has no options");
    FAILS_TO_BUILD(bg_parallel_linear_layer(graph, "p", x, 4, NULL), "parallel linear layer `p`: it has no options");
    FAILS_TO_BUILD(bg_split_projection_layer(graph, "s", x, 4, true, BG_SERIALIZE_OUTPUT_CHANNELS, 0, &placement),
                   "split projection layer `s`: splits is NULL, but there are 2 devices");
    FAILS_TO_BUILD(bg_graph_set_mesh(graph, NULL), "the mesh is NULL");
}

/* ---- success ---- */

#define SUCCEEDS(call)                                                                                                 \
    do {                                                                                                               \
        bg_error error;                                                                                                \
        for (int i = 0; i < 2; i++) {                                                                                  \
            i == 0 ? fill_with_garbage(&error) : fill_with_failure(&error);                                            \
            if (call != BG_OK)                                                                                         \
                fail_msg("%s: %s", #call, error.message);                                                              \
            if (error.status != BG_OK || error.message[0] != '\0')                                                     \
                fail_msg("%s succeeds and leaves an error", #call);                                                    \
        }                                                                                                              \
    } while (0)

static void success_leaves_a_clear_error(void **state)
{
    const bg_optimizer optimizer = bg_sgd(0.1);
    const bg_options options = bg_options_defaults();
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    bg_optimizer parsed;
    bg_graph *graph = open_graph();
    bg_session *session = NULL;
    bg_plan *plan = NULL;
    char *text = NULL;
    float y[2];

    (void)state;
    SUCCEEDS(bg_type_validate(&type, &error));
    SUCCEEDS(bg_graph_check(graph, &error));
    SUCCEEDS(bg_optimizer_validate(&optimizer, &error));
    SUCCEEDS(bg_optimizer_parse("sgd:momentum=0.5", 0.1, &parsed, &error));
    SUCCEEDS((free(text), bg_graph_print(graph, &text, &error)));
    SUCCEEDS((bg_plan_destroy(plan), bg_plan_create_inference(graph, &options, &plan, &error)));
    SUCCEEDS((bg_session_destroy(session), bg_session_create(plan, NULL, &session, &error)));
    SUCCEEDS(bg_session_run(session, (const void *[]){(const float[]){1, 2}}, (void *[]){y}, &error));
    free(text);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* A bg_error that is passed to several calls in turn has the cause of the last failure. */
static void a_reused_error_tells_the_new_cause(void **state)
{
    const bg_type empty = bg_vector(BG_FLOAT32, 0);
    bg_optimizer optimizer;
    bg_error error;

    (void)state;
    fill_with_garbage(&error);
    assert_int_equal(bg_idx_read("/nonexistent/file", &(bg_array){.data = NULL}, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "/nonexistent/file"));
    assert_int_equal(bg_type_validate(&empty, &error), BG_ERROR_SHAPE);
    assert_int_equal(error.status, BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "dimension"));
    assert_null(strstr(error.message, "/nonexistent/file"));
    assert_int_equal(bg_optimizer_parse("none_such", 0.1, &optimizer, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "none_such"));
    assert_null(strstr(error.message, "float32"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_at_all_is_refused),    cmocka_unit_test(a_missing_argument_is_named),
        cmocka_unit_test(a_missing_list_is_named),      cmocka_unit_test(what_a_builder_lacks_is_named),
        cmocka_unit_test(success_leaves_a_clear_error), cmocka_unit_test(a_reused_error_tells_the_new_cause),
    };

    return cmocka_run_group_tests_name("runtime/arguments", tests, NULL, NULL);
}
