/*
 * test_struct_bytes.c: structs that callers fill contain their size. Every function reports a struct of another release
 * by name, and names the function that makes it. A struct that may start all-zero may omit the size.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <brigade.h>

/* The objects that functions under test use. */
typedef struct room {
    bg_dataset *dataset;
    bg_plan *plan;
    bg_session *session;
    bg_generator *generator;
} room;

/* Calls a function with a struct whose size is `bytes`, and frees the results of the function. */
typedef bg_status (*attempt)(const room *r, size_t bytes, bg_error *error);

static bg_status get_sample(void *user, uint64_t epoch, uint64_t index, void *const outputs[], bg_error *error)
{
    (void)user, (void)epoch, (void)error;
    *(float *)outputs[0] = (float)index;
    return BG_OK;
}

static bg_status map_sample(void *user, uint64_t epoch, uint64_t index, const void *const inputs[],
                            void *const outputs[], bg_error *error)
{
    (void)user, (void)epoch, (void)index, (void)error;
    *(float *)outputs[0] = *(const float *)inputs[0];
    return BG_OK;
}

static bg_status get_element(void *user, void *const outputs[], bool *out_has_ended, bg_error *error)
{
    (void)user, (void)outputs, (void)error;
    *out_has_ended = true;
    return BG_OK;
}

static bg_status create_dataset(size_t bytes, bg_dataset **out, bg_error *error)
{
    const bg_type type = bg_vector(BG_FLOAT32, 1);
    const bg_dataset_options options = {
        .struct_bytes = bytes, .sample_count = 8, .tensor_count = 1, .sample_types = &type, .get = get_sample};

    return bg_dataset_create(&options, out, error);
}

#define ATTEMPT(label) static bg_status label(const room *r, size_t bytes, bg_error *error)

/* ---- structs that a function initializes ---- */

ATTEMPT(optimizer)
{
    bg_optimizer optimizer = bg_adamw(0.1);

    (void)r;
    optimizer.struct_bytes = bytes;
    return bg_optimizer_validate(&optimizer, error);
}

ATTEMPT(loader)
{
    bg_loader_options options = bg_loader_options_defaults();
    bg_loader *made = NULL;
    bg_status status;

    options.struct_bytes = bytes;
    status = bg_loader_create(r->dataset, &options, &made, error);
    bg_loader_destroy(made);
    return status;
}

ATTEMPT(infeed)
{
    bg_infeed_options options = bg_infeed_options_defaults();
    bg_infeed *made = NULL;
    bg_status status;

    options.struct_bytes = bytes;
    status = bg_infeed_create_dataset(r->dataset, &options, &made, error);
    bg_infeed_destroy(made);
    return status;
}

ATTEMPT(infeed_of_a_source)
{
    bg_infeed_options options = bg_infeed_options_defaults();
    const bg_type type = bg_scalar(BG_FLOAT32);
    bg_infeed *made = NULL;
    bg_status status;

    (void)r;
    options.struct_bytes = bytes;
    status = bg_infeed_create(&type, 1, get_element, NULL, &options, &made, error);
    bg_infeed_destroy(made);
    return status;
}

ATTEMPT(sample_source)
{
    const bg_sample_source source = {.struct_bytes = bytes, .next = get_element};
    const bg_infeed_options options = bg_infeed_options_defaults();
    const bg_type type = bg_scalar(BG_FLOAT32);
    bg_infeed *made = NULL;
    bg_status status;

    (void)r;
    status = bg_infeed_create_samples(&type, 1, &source, &options, &made, error);
    bg_infeed_destroy(made);
    return status;
}

ATTEMPT(schedule_generator)
{
    bg_schedule_generator generator = *bg_schedule_generator_find("single");
    const bg_schedule_problem problem = bg_schedule_problem_defaults();
    bg_schedule *made = NULL;
    bg_status status;

    (void)r;
    generator.struct_bytes = bytes;
    status = bg_schedule_create(&problem, &generator, &made, error);
    bg_schedule_destroy(made);
    return status;
}

ATTEMPT(svg)
{
    const bg_schedule_svg_options options = {.struct_bytes = bytes};
    const bg_schedule_problem problem = bg_schedule_problem_defaults();
    const bg_schedule_timing timing = {.makespan = 1.0};
    char *text = NULL;
    bg_status status;

    (void)r;
    status = bg_schedule_draw_svg(&problem, &timing, &options, &text, error);
    free(text);
    return status;
}

ATTEMPT(outfeed)
{
    bg_outfeed_options options = bg_outfeed_options_defaults();
    bg_outfeed *made = NULL;
    bg_status status;

    (void)r;
    options.struct_bytes = bytes;
    options.structure = "loss";
    status = bg_outfeed_create(&options, &made, error);
    bg_outfeed_destroy(made);
    return status;
}

static bg_value add_model(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch)
{
    const bg_type type = bg_matrix(BG_FLOAT32, micro_batch, 1);

    (void)user, (void)task;
    return bg_reduce(graph, NULL, BG_REDUCE_MEAN,
                     bg_linear_layer(graph, "linear", bg_graph_input(graph, "x", &type), 1, true), NULL, 0, false);
}

ATTEMPT(trainer)
{
    bg_trainer_options options = bg_trainer_options_defaults();
    bg_trainer *made = NULL;
    bg_status status;

    (void)r;
    options.struct_bytes = bytes;
    options.model = add_model;
    status = bg_trainer_create(&options, NULL, &made, error);
    bg_trainer_destroy(made);
    return status;
}

ATTEMPT(strategy)
{
    bg_ipu_strategy strategy = bg_ipu_strategy_defaults();
    bg_options made;

    (void)r;
    strategy.struct_bytes = bytes;
    return bg_ipu_strategy_options(&strategy, true, 1, &made, error);
}

ATTEMPT(strategy_of_a_trainer)
{
    bg_trainer_options options = bg_trainer_options_defaults();
    bg_trainer *made = NULL;
    bg_status status;

    (void)r;
    options.strategy.struct_bytes = bytes;
    options.model = add_model;
    status = bg_trainer_create(&options, NULL, &made, error);
    bg_trainer_destroy(made);
    return status;
}

/* Returns the graph's error, and destroys the graph. */
static bg_status finish(bg_graph *graph, bg_error *error)
{
    const bg_status status = bg_graph_check(graph, error);

    bg_graph_destroy(graph);
    return status;
}

static bg_graph *begin(void)
{
    bg_graph *graph = NULL;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    return graph;
}

static bg_value image(bg_graph *graph)
{
    const bg_type type = bg_tensor4(BG_FLOAT32, 2, 1, 8, 8);

    return bg_graph_input(graph, "x", &type);
}

ATTEMPT(conv)
{
    bg_conv2d_options options = bg_conv2d_defaults();
    bg_graph *graph = begin();

    (void)r;
    options.struct_bytes = bytes;
    bg_conv2d_layer(graph, "conv", image(graph), 2, 3, 3, true, &options);
    return finish(graph, error);
}

ATTEMPT(pool)
{
    bg_pool2d_options options = bg_pool2d_defaults(2);
    bg_graph *graph = begin();

    (void)r;
    options.struct_bytes = bytes;
    bg_max_pool2d(graph, "pool", image(graph), &options);
    return finish(graph, error);
}

ATTEMPT(attention)
{
    const bg_type type = bg_tensor3(BG_FLOAT32, 1, 4, 12);
    bg_attention_options options = bg_attention_defaults(2);
    bg_graph *graph = begin();

    (void)r;
    options.struct_bytes = bytes;
    bg_attention(graph, "attention", bg_graph_input(graph, "qkv", &type), &options);
    return finish(graph, error);
}

ATTEMPT(parallel_linear)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 4, 8);
    bg_parallel_linear_options options = bg_parallel_linear_defaults(BG_MESH_TENSOR_1);
    bg_graph *graph = begin();

    (void)r;
    options.struct_bytes = bytes;
    bg_parallel_linear_layer(graph, "linear", bg_graph_input(graph, "x", &type), 8, &options);
    return finish(graph, error);
}

ATTEMPT(convnet)
{
    bg_convnet_options options = bg_convnet_defaults();
    bg_graph *graph = begin();

    (void)r;
    options.struct_bytes = bytes;
    bg_convnet_build(graph, &options);
    return finish(graph, error);
}

static bg_gpt_options tiny_gpt(size_t bytes)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.struct_bytes = bytes;
    options.layers = 1;
    options.hidden = options.vocabulary = 8;
    options.heads = 2;
    options.sequence_length = options.positions = 4;
    return options;
}

ATTEMPT(gpt)
{
    const bg_gpt_options options = tiny_gpt(bytes);
    bg_graph *graph = begin();

    (void)r;
    bg_gpt_build(graph, &options);
    return finish(graph, error);
}

ATTEMPT(gpt_step)
{
    const bg_gpt_options options = tiny_gpt(bytes);
    bg_graph *graph = begin();

    (void)r;
    bg_gpt_build_step(graph, &options, 4);
    return finish(graph, error);
}

ATTEMPT(schedule_problem)
{
    const uint32_t devices[] = {0, 1};
    bg_schedule_problem problem;
    bg_schedule *made = NULL;
    bg_schedule_edge *edges = NULL;
    bg_status status;

    (void)r;
    problem = bg_schedule_problem_defaults();
    problem.stage_count = problem.device_count = 2;
    problem.stage_devices = devices;
    assert_int_equal(bg_schedule_problem_chain(&problem, 4, &edges, NULL), BG_OK);
    problem.struct_bytes = bytes;
    status = bg_schedule_create(&problem, bg_schedule_generator_find("grouped"), &made, error);
    bg_schedule_destroy(made);
    free(edges);
    return status;
}

/* ---- structs that may begin as all-zero ---- */

ATTEMPT(dataset)
{
    bg_dataset *made = NULL;
    const bg_status status = create_dataset(bytes, &made, error);

    (void)r;
    bg_dataset_destroy(made);
    return status;
}

ATTEMPT(map)
{
    const bg_dataset_map_options options = {.struct_bytes = bytes, .map = map_sample};
    bg_dataset *made = NULL;
    const bg_status status = bg_dataset_map(r->dataset, &options, &made, error);

    bg_dataset_destroy(made);
    return status;
}

ATTEMPT(benchmark)
{
    const bg_benchmark_options options = {.struct_bytes = bytes, .epoch_count = 1, .elements_per_epoch = 1};
    char *text = NULL;
    const bg_status status = bg_dataset_benchmark(r->dataset, &options, &text, error);

    free(text);
    return status;
}

ATTEMPT(digits)
{
    const bg_digits_options options = {.struct_bytes = bytes, .count = 1};
    bg_image_set made = {.class_count = 0};
    const bg_status status = bg_digits_create(&options, &made, error);

    (void)r;
    bg_image_set_clear(&made);
    return status;
}

ATTEMPT(ipu_load)
{
    const bg_ipu_config_load_options options = {.struct_bytes = bytes};
    bg_ipu_config *made = NULL;
    const bg_status status = bg_ipu_config_parse_json("{}", "text", &options, &made, error);

    (void)r;
    bg_ipu_config_destroy(made);
    return status;
}

ATTEMPT(ipu_model)
{
    const bg_ipu_model model = {.struct_bytes = bytes};
    bg_ipu_options made = {.notes = NULL};
    bg_ipu_config *config = NULL;
    bg_status status;

    (void)r;
    assert_int_equal(bg_ipu_config_parse_json("{}", "text", NULL, &config, NULL), BG_OK);
    status = bg_ipu_config_to_options(config, false, true, &model, &made, error);
    bg_ipu_options_clear(&made);
    bg_ipu_config_destroy(config);
    return status;
}

static bg_status infer_same(const bg_op_signature *signature, bg_type *out, bg_error *error)
{
    (void)error;
    out[0] = signature->types[0];
    return BG_OK;
}

static bg_status no_kernel(const bg_op_signature *signature, bg_kernel_policy policy, bg_kernel *out, bg_error *error)
{
    (void)signature, (void)policy, (void)out, (void)error;
    return BG_OK;
}

ATTEMPT(op_type)
{
    const bg_op_type type = {BG_OP_TYPE_DEFAULTS, .struct_bytes = bytes, .name = "same",      .minimum_inputs = 1,
                             .maximum_inputs = 1, .output_count = 1,     .infer = infer_same, .kernel = no_kernel};
    bg_graph *graph = begin();
    const bg_value x = image(graph);

    (void)r;
    bg_graph_add(graph, &type, "same", &x, 1, NULL, NULL);
    return finish(graph, error);
}

ATTEMPT(run)
{
    float values[128] = {0};
    void *outputs[] = {values};
    const void *inputs[] = {values};
    const bg_run run = {.struct_bytes = bytes, .inputs = inputs, .outputs = outputs};

    return bg_session_execute(r->session, &run, NULL, error);
}

ATTEMPT(save)
{
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();

    options.struct_bytes = bytes;
    return bg_checkpoint_save(r->session, "", &options, error);
}

ATTEMPT(load)
{
    bg_checkpoint_load_options options = bg_checkpoint_load_defaults();

    options.struct_bytes = bytes;
    return bg_checkpoint_load(r->session, "no such folder", &options, NULL, error);
}

ATTEMPT(sampling)
{
    bg_sampling sampling = bg_sampling_defaults();
    uint32_t token;

    sampling.struct_bytes = bytes;
    return bg_generator_sample(r->generator, &sampling, &token, error);
}

ATTEMPT(generator)
{
    const bg_gpt_options options = tiny_gpt(bytes);
    bg_generator *made = NULL;
    bg_status status;

    (void)r;
    status = bg_generator_create(&options, NULL, NULL, &made, error);
    bg_generator_destroy(made);
    return status;
}

ATTEMPT(download)
{
    bg_mnist_download_options options = bg_mnist_download_options_defaults(NULL);

    (void)r;
    options.struct_bytes = bytes;
    return bg_mnist_download(&options, error);
}

ATTEMPT(gradient_check)
{
    const bg_op_type type = {.name = "none"};
    const bg_type x = bg_scalar(BG_FLOAT64);
    bg_gradient_check_options options = bg_gradient_check_defaults();

    (void)r;
    options.struct_bytes = bytes;
    return bg_gradient_check(&type, NULL, &x, NULL, 1, &options, error);
}

ATTEMPT(normalize)
{
    const bg_normalize_options options = {.struct_bytes = bytes, .channel_count = 1};
    bg_dataset *made = NULL;
    const bg_status status = bg_dataset_normalize(r->dataset, &options, &made, error);

    bg_dataset_destroy(made);
    return status;
}

ATTEMPT(stream)
{
    bg_sample_stream made_of = bg_dataset_stream(r->dataset);
    const bg_loader_options options = bg_loader_options_defaults();
    bg_loader *made = NULL;
    bg_status status;

    made_of.struct_bytes = bytes;
    status = bg_loader_create_stream(&made_of, &options, &made, error);
    bg_loader_destroy(made);
    return status;
}

ATTEMPT(tokens)
{
    const bg_tokens_options options = {.struct_bytes = bytes, .sequence_length = 1};
    bg_dataset *made = NULL;

    (void)r;
    return bg_dataset_open_tokens("no such file.u16", &options, &made, error);
}

ATTEMPT(tfrecord)
{
    const bg_tokens_options options = {.struct_bytes = bytes, .sequence_length = 1};
    bg_dataset *made = NULL;

    (void)r;
    return bg_dataset_open_tfrecord("no such file.tfrecord", &options, &made, error);
}

ATTEMPT(csv)
{
    const bg_csv_options options = {.struct_bytes = bytes};
    bg_dataset *made = NULL;

    (void)r;
    return bg_dataset_open_csv("no such file.csv", &options, &made, error);
}

ATTEMPT(csv_arrays)
{
    const bg_csv_options options = {.struct_bytes = bytes};
    bg_array features, labels;

    (void)r;
    return bg_csv_read("no such file.csv", &options, &features, &labels, error);
}

ATTEMPT(loop)
{
    const bg_loop described = {.struct_bytes = bytes, .iterations = 1};
    const bg_options plan_options = bg_options_defaults();
    bg_graph *graph = begin();
    bg_plan *made = NULL;
    bg_status status;

    (void)r;
    status = bg_plan_create_loop(graph, &described, &plan_options, &made, error);
    bg_plan_destroy(made);
    bg_graph_destroy(graph);
    return status;
}

ATTEMPT(trainer_data)
{
    bg_trainer_options options = bg_trainer_options_defaults();
    const bg_trainer_data data = {.struct_bytes = bytes, .dataset = r->dataset};
    bg_trainer *made = NULL;
    bg_status status;

    options.model = add_model;
    assert_int_equal(bg_trainer_create(&options, NULL, &made, NULL), BG_OK);
    status = bg_trainer_fit(made, &data, NULL, error);
    bg_trainer_destroy(made);
    return status;
}

ATTEMPT(loading)
{
    bg_loader_options loading_options = bg_loader_options_defaults();
    bg_trainer_options options = bg_trainer_options_defaults();
    const bg_trainer_data data = {.dataset = r->dataset, .loading = &loading_options};
    bg_trainer *made = NULL;
    bg_status status;

    options.model = add_model;
    loading_options.struct_bytes = bytes;
    assert_int_equal(bg_trainer_create(&options, NULL, &made, NULL), BG_OK);
    status = bg_trainer_fit(made, &data, NULL, error);
    bg_trainer_destroy(made);
    return status;
}

/* ---- all structs ---- */

typedef struct candidate {
    const char *type, *maker; /* maker NULL: all-zero is valid */
    size_t size_bytes;
    attempt try;
} candidate;

#define MADE(type, maker, try)                                                                                         \
    {                                                                                                                  \
#type, maker, sizeof(type), try                                                                                \
    }
#define ZERO(type, try)                                                                                                \
    {                                                                                                                  \
#type, NULL, sizeof(type), try                                                                                 \
    }

static const candidate candidates[] = {
    MADE(bg_optimizer, "bg_adamw()", optimizer),
    MADE(bg_loader_options, "bg_loader_options_defaults()", loader),
    MADE(bg_infeed_options, "bg_infeed_options_defaults()", infeed),
    MADE(bg_infeed_options, "bg_infeed_options_defaults()", infeed_of_a_source),
    MADE(bg_outfeed_options, "bg_outfeed_options_defaults()", outfeed),
    MADE(bg_trainer_options, "bg_trainer_options_defaults()", trainer),
    MADE(bg_ipu_strategy, "bg_ipu_strategy_defaults()", strategy),
    MADE(bg_ipu_strategy, "bg_ipu_strategy_defaults()", strategy_of_a_trainer),
    MADE(bg_conv2d_options, "bg_conv2d_defaults()", conv),
    MADE(bg_pool2d_options, "bg_pool2d_defaults(kernel)", pool),
    MADE(bg_attention_options, "bg_attention_defaults(heads)", attention),
    MADE(bg_parallel_linear_options, "bg_parallel_linear_defaults(in_axis)", parallel_linear),
    MADE(bg_convnet_options, "bg_convnet_defaults()", convnet),
    MADE(bg_gpt_options, "bg_gpt_defaults()", gpt),
    MADE(bg_gpt_options, "bg_gpt_defaults()", gpt_step),
    MADE(bg_schedule_problem, "bg_schedule_problem_defaults()", schedule_problem),
    MADE(bg_checkpoint_save_options, "bg_checkpoint_save_defaults()", save),
    MADE(bg_checkpoint_load_options, "bg_checkpoint_load_defaults()", load),
    MADE(bg_sampling, "bg_sampling_defaults()", sampling),
    MADE(bg_gpt_options, "bg_gpt_defaults()", generator),
    MADE(bg_mnist_download_options, "bg_mnist_download_options_defaults()", download),
    MADE(bg_gradient_check_options, "bg_gradient_check_defaults()", gradient_check),
    MADE(bg_loader_options, "bg_loader_options_defaults()", loading),
    ZERO(bg_run, run),
    ZERO(bg_sample_source, sample_source),
    ZERO(bg_schedule_generator, schedule_generator),
    ZERO(bg_schedule_svg_options, svg),
    ZERO(bg_normalize_options, normalize),
    ZERO(bg_sample_stream, stream),
    ZERO(bg_tokens_options, tokens),
    ZERO(bg_tokens_options, tfrecord),
    ZERO(bg_csv_options, csv),
    ZERO(bg_csv_options, csv_arrays),
    ZERO(bg_loop, loop),
    ZERO(bg_trainer_data, trainer_data),
    ZERO(bg_dataset_options, dataset),
    ZERO(bg_dataset_map_options, map),
    ZERO(bg_benchmark_options, benchmark),
    ZERO(bg_digits_options, digits),
    ZERO(bg_ipu_config_load_options, ipu_load),
    ZERO(bg_ipu_model, ipu_model),
    ZERO(bg_op_type, op_type),
};

static void assert_refused(const candidate *c, const room *r, size_t bytes, const char *said)
{
    bg_error error = {0};

    assert_int_equal(c->try(r, bytes, &error), BG_ERROR_INVALID);
    if (strstr(error.message, said) == NULL)
        fail_msg("%s of %zu bytes: `%s` does not say `%s`", c->type, bytes, error.message, said);
}

/* Checks that the size is accepted; some calls fail later for another reason, such as a missing file. */
static void assert_taken(const candidate *c, const room *r, size_t bytes)
{
    bg_error error = {0};

    c->try(r, bytes, &error);
    if (strstr(error.message, "struct_bytes") != NULL || strstr(error.message, "compile the program") != NULL)
        fail_msg("%s of %zu bytes: %s", c->type, bytes, error.message);
}

static void open_room(room *out)
{
    bg_options options = bg_options_defaults();
    const bg_gpt_options model = tiny_gpt(sizeof model);
    bg_graph *graph = begin();

    options.numerics.initialize_missing = true; /* the generator's weights get initial values */
    assert_int_equal(create_dataset(0, &out->dataset, NULL), BG_OK);
    bg_graph_output(graph, "y", bg_relu(graph, image(graph)));
    assert_int_equal(bg_plan_create_inference(graph, &options, &out->plan, NULL), BG_OK);
    bg_graph_destroy(graph);
    assert_int_equal(bg_session_create(out->plan, NULL, &out->session, NULL), BG_OK);
    assert_int_equal(bg_generator_create(&model, &options, NULL, &out->generator, NULL), BG_OK);
}

static void close_room(room *r)
{
    bg_generator_destroy(r->generator);
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_dataset_destroy(r->dataset);
}

static void test_every_struct(void **state)
{
    room r = {.dataset = NULL};

    (void)state;
    open_room(&r);
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        const candidate *c = &candidates[i];
        assert_taken(c, &r, c->size_bytes);
        if (c->maker == NULL)
            assert_taken(c, &r, 0);
        else
            assert_refused(c, &r, 0, c->maker);
        assert_refused(c, &r, c->size_bytes - 8, c->try == op_type ? "struct_bytes" : c->type);
        assert_refused(c, &r, c->size_bytes + 8, "compile the program for the library that it runs with");
    }
    close_room(&r);
}

/* An older, smaller struct is filled up to its size and no further; a newer, larger struct ends in zeros. */
static void test_other_sizes_are_filled(void **state)
{
    struct {
        bg_loader_options options;
        unsigned char behind[16];
    } place;
    const size_t smaller = offsetof(bg_loader_options, shuffle);

    (void)state;
    memset(&place, 0xab, sizeof place);
    bg_loader_options_init(&place.options, smaller);
    assert_int_equal(place.options.struct_bytes, smaller);
    assert_int_equal(place.options.batch_size, 1);
    for (size_t b = smaller; b < sizeof place; b++)
        assert_int_equal(((unsigned char *)&place)[b], 0xab);
    bg_loader_options_init(&place.options, sizeof place);
    assert_int_equal(place.options.struct_bytes, sizeof place);
    for (size_t b = 0; b < sizeof place.behind; b++)
        assert_int_equal(place.behind[b], 0);
    bg_optimizer_init(NULL, sizeof(bg_optimizer), BG_SGD, 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_struct),
        cmocka_unit_test(test_other_sizes_are_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
