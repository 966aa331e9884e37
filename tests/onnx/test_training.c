/*
 * test_training.c: networks exported by PyTorch train as in PyTorch (tests/oracle/onnx.py made the models and expected
 * values). The test compares the losses of 50 updates, all weights after them, and the inference of the trained model.
 * Every strategy gives the same bits.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/onnx.h>
#include <brigade/ops.h>

#include "support/folder.h"
#include "support/oracle.h"

enum { UPDATES = 50, BATCH = 4, BATCHES = 10 };
static const double tolerance = 2e-4;
static bgi_test_oracle *oracle;
static bg_error error;

static void require(bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", error.message);
}

typedef struct model {
    const char *name, *file, *inputs[2],
        *labels; /* labels NULL: the target is the first input, and the loss the mean squared error */
} model;

static const model models[] = {
    {"mlp", "mlp", {"rows6"}, "classes"},
    {"convnet", "convnet", {"images"}, "classes"},
    {"residual", "residual", {"images"}, "classes"},
    {"depthwise", "depthwise", {"images"}, "classes"},
    {"unet", "unet", {"images"}, "places"},
    {"encoder", "encoder", {"tokens"}, "classes"},
    {"decoder", "decoder", {"tokens"}, "next"},
    {"vit", "vit", {"images"}, "classes"},
    {"autoencoder", "autoencoder", {"rows6"}, NULL},
    {"two_inputs", "two_inputs", {"rows6", "rows3"}, "classes"},
    {"shared", "shared", {"rows6"}, "classes"},
    {"sequences", "sequences", {"signals"}, "classes"},
    {"lstm", "lstm", {"signals"}, "classes"},
    {"gru", "gru", {"signals"}, "classes"},
    {"branches", "branches", {"images"}, "classes"},
    {"imitation_tf", "imitation_tf", {"images"}, "classes"},
    {"imitation_scikit", "imitation_scikit", {"rows6"}, NULL},
    {"lstm", "lstm_eval", {"signals"}, "classes"},
    {"mlp", "mlp_eval", {"rows6"}, "classes"},
    {"encoder", "encoder_eval", {"tokens"}, "classes"},
    {"vit", "vit_eval", {"images"}, "classes"},
    {"depthwise", "depthwise_eval", {"images"}, "classes"},
    {"norms", "norms_eval", {"images"}, "classes"},
    {"partly", "partly", {"images"}, "classes"},
    {"tied", "tied_eval", {"tokens"}, "next"},
};

/* ---- a model that trains ---- */

typedef struct run {
    const model *model;
    bg_onnx *onnx;
    bg_weights *weights;
    float losses[UPDATES];
} run;

/* Adds the model's loss: the squared error, or cross-entropy, which needs the classes on the last axis. */
static bg_value add_loss(bg_graph *graph, const run *r, bg_value y, bg_value x)
{
    const bg_type type = bg_graph_type(graph, y);
    uint32_t permutation[BG_MAX_RANK] = {0};
    bg_type label_type = bg_type_make(BG_INT32, type.rank - 1, type.dims);
    bg_value labels;

    bg_block_begin(graph, "Loss", BG_DEVICE_NONE);
    if (r->model->labels == NULL) {
        y = bg_mse_loss(graph, "loss", y, x, BG_LOSS_MEAN);
    } else {
        for (uint32_t i = 1; i < type.rank; i++) {
            permutation[i] = i + 1 < type.rank ? i + 1 : 1;
            label_type.dims[i] = i + 1 < type.rank ? type.dims[i + 1] : 0;
        }
        labels = bg_graph_input(graph, "labels", &label_type);
        if (type.rank > 2)
            y = bg_transpose(graph, NULL, y, permutation);
        y = bg_cross_entropy(graph, "loss", y, labels, BG_LOSS_MEAN, -100);
    }
    bg_block_end(graph);
    bg_graph_output(graph, "loss", y);
    return y;
}

static bg_graph *build(run *r, bool is_training, bg_value *loss)
{
    const bg_onnx_contents *contents = bg_onnx_contents_of(r->onnx);
    bg_onnx_options options = bg_onnx_defaults();
    bg_graph *graph;

    options.batch_size = BATCH;
    require(bg_graph_create(&graph, &error));
    require(bg_onnx_build(r->onnx, &options, graph, &error));
    if (is_training)
        *loss = add_loss(graph, r, contents->outputs[0].value, contents->inputs[0].value);
    else
        bg_graph_output(graph, "output", contents->outputs[0].value);
    return graph;
}

/* Returns `updates` micro-batches from `first` on, in the type of the session's input. */
static void *make_input(const bg_stream *stream, const bgi_test_tensor *data, int first, int updates)
{
    const int64_t batch = bg_type_element_count(&stream->micro_batch_type);
    const size_t bytes = bg_dtype_size_bytes(stream->micro_batch_type.dtype);
    char *made = malloc((size_t)updates * (size_t)batch * bytes);

    assert_int_equal(stream->size_bytes, (size_t)updates * (size_t)batch * bytes);
    assert_int_equal(data->count, batch * BATCHES);
    for (int64_t i = 0; i < updates * batch; i++) {
        const double value = data->values[(i + first * batch) % data->count];
        char *place = made + (size_t)i * bytes;

        if (stream->micro_batch_type.dtype == BG_FLOAT32)
            *(float *)(void *)place = (float)value;
        else if (stream->micro_batch_type.dtype == BG_INT64)
            *(int64_t *)(void *)place = (int64_t)value;
        else
            *(int32_t *)(void *)place = (int32_t)value;
    }
    return made;
}

static void run_session(const run *r, const bg_plan *plan, int updates, const char *output, void *out)
{
    void *inputs[4] = {0}, *outputs[8] = {0};
    bg_session *session;

    require(bg_session_create(plan, r->weights, &session, &error));
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        bg_stream stream;
        const char *name;

        require(bg_session_input(session, i, &stream, &error));
        name = strcmp(stream.name, "labels") == 0 ? r->model->labels : r->model->inputs[strcmp(stream.name, "y") == 0];
        inputs[i] = make_input(&stream, bgi_test_oracle_find(oracle, "data", name), 0, updates);
    }
    assert_int_not_equal(bg_session_find_output(session, output), UINT32_MAX);
    outputs[bg_session_find_output(session, output)] = out;
    require(bg_session_run(session, (const void *const *)inputs, outputs, &error));
    bg_session_destroy(session);
    for (int i = 0; i < 4; i++)
        free(inputs[i]);
}

/* Trains on UPDATES micro-batches, with one or several in each update. */
static void train(run *r, const bg_optimizer *optimizer, const bg_options *given)
{
    bg_options options = given != NULL ? *given : bg_options_defaults();
    const uint32_t each = options.execution.gradient_accumulation * options.replicas.count;
    bg_value loss = {0};
    bg_graph *graph = build(r, true, &loss);
    bg_plan *plan;

    if (options.execution.stages == NULL)
        options.execution.stages = "auto:1"; /* variables that two blocks change must be in one stage */
    options.execution.device_iterations = UPDATES / each;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    require(bg_weights_create(&r->weights, &error));
    require(bg_onnx_set_weights(r->onnx, r->weights, &error));
    require(bg_plan_create_training(graph, loss, optimizer, &options, &plan, &error));
    run_session(r, plan, UPDATES, "loss", r->losses);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void open_run(run *r, const model *m)
{
    char path[128];

    *r = (run){.model = m};
    snprintf(path, sizeof path, "tests/oracle/onnx/%s.onnx", m->file);
    require(bg_onnx_open(path, &r->onnx, &error));
}

static void close_run(run *r)
{
    bg_weights_destroy(r->weights);
    bg_onnx_destroy(r->onnx);
}

/* ---- compared with PyTorch ---- */

/* Compares the weights. Transposed and folded weights have names that the exporter generated; other names are
 * PyTorch's. */
static void compare_weights(run *r, const char *case_name)
{
    unsigned compared = 0;

    for (uint32_t i = 0; i < bg_weights_count(r->weights); i++) {
        const bgi_test_tensor *wanted;
        bg_weight weight;

        require(bg_weights_at(r->weights, i, &weight, &error));
        if (weight.role != BG_ROLE_PARAMETER && weight.role != BG_ROLE_BUFFER)
            continue;
        wanted = bgi_test_oracle_try(oracle, case_name, weight.name);
        if (wanted == NULL) {
            assert_true(strncmp(weight.name, "onnx::", 6) == 0);
            continue;
        }
        for (int64_t k = 0; k < wanted->count; k++)
            if (!(fabs((double)((const float *)weight.data)[k] - wanted->values[k]) <=
                  tolerance + tolerance * fabs(wanted->values[k])))
                fail_msg("%s, `%s`, element %lld: %.9g, PyTorch's is %.9g", case_name, weight.name, (long long)k,
                         (double)((const float *)weight.data)[k], wanted->values[k]);
        compared++;
    }
    assert_true(compared > 0);
}

static void compare_inference(run *r, const char *case_name)
{
    const bgi_test_tensor *wanted = bgi_test_oracle_find(oracle, case_name, "evaluated");
    bg_options options = bg_options_defaults();
    float *out = malloc((size_t)wanted->count * sizeof *out);
    bg_graph *graph = build(r, false, NULL);
    bg_plan *plan;

    options.execution.stages = "auto:1";
    require(bg_plan_create_inference(graph, &options, &plan, &error));
    run_session(r, plan, 1, "output", out);
    for (int64_t i = 0; i < wanted->count; i++)
        if (!(fabs((double)out[i] - wanted->values[i]) <= 10 * tolerance * (1.0 + fabs(wanted->values[i]))))
            fail_msg("%s (%s), element %lld: %.9g, PyTorch's is %.9g", case_name, r->model->file, (long long)i,
                     (double)out[i], wanted->values[i]);
    free(out);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void compare(const model *m, const char *suffix, const bg_optimizer *optimizer)
{
    const bgi_test_tensor *wanted;
    char case_name[64];
    run r;

    snprintf(case_name, sizeof case_name, "%s/%s", m->name, suffix);
    wanted = bgi_test_oracle_find(oracle, case_name, "loss");
    assert_int_equal(wanted->count, UPDATES);
    open_run(&r, m);
    train(&r, optimizer, NULL);
    for (int u = 0; u < UPDATES; u++)
        if (!(fabs((double)r.losses[u] - wanted->values[u]) <= tolerance * (1.0 + fabs(wanted->values[u]))))
            fail_msg("%s (%s), update %d: loss %.9g, PyTorch's is %.9g", case_name, m->file, u, (double)r.losses[u],
                     wanted->values[u]);
    compare_weights(&r, case_name);
    compare_inference(&r, case_name);
    close_run(&r);
}

static void sgd_is_that_of_pytorch(void **state)
{
    bg_optimizer optimizer = bg_sgd(0.05);

    (void)state;
    optimizer.momentum = 0.9;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        compare(&models[i], "sgd", &optimizer);
}

static void adamw_is_that_of_pytorch(void **state)
{
    bg_optimizer optimizer = bg_adamw(0.003);

    (void)state;
    optimizer.epsilon = 1e-4;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        compare(&models[i], "adamw", &optimizer);
}

/* ---- strategies ---- */

static void compare_bits(run *a, run *b, const char *what, bool with_buffers)
{
    if (memcmp(a->losses, b->losses, sizeof a->losses) != 0)
        fail_msg("%s, %s: other losses than one device has", a->model->file, what);
    for (uint32_t i = 0; i < bg_weights_count(a->weights); i++) {
        bg_weight x, y;

        require(bg_weights_at(a->weights, i, &x, &error));
        if (x.role != BG_ROLE_PARAMETER && !(with_buffers && x.role == BG_ROLE_BUFFER))
            continue;
        require(bg_weights_find(b->weights, x.name, &y, &error));
        if (memcmp(x.data, y.data, bg_type_size_bytes(&x.type)) != 0)
            fail_msg("%s, %s: another `%s` than one device has", a->model->file, what, x.name);
    }
}

static void strategies_have_the_same_bits(void **state)
{
    const bg_optimizer optimizer = bg_adamw(0.003);

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        static const struct {
            const char *name, *stages;
            bg_strategy strategy;
        } ways[] = {{"pipelined", "auto:2", BG_STRATEGY_PIPELINED},
                    {"sharded", "auto:2", BG_STRATEGY_SHARDED},
                    {"phased", "auto:2", BG_STRATEGY_PHASED},
                    {"cut inside blocks", "auto-ops:3", BG_STRATEGY_PIPELINED}};
        run single;

        open_run(&single, &models[i]);
        train(&single, &optimizer, NULL);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            bg_options options = bg_options_defaults();
            run other;

            options.execution.strategy = ways[w].strategy;
            options.execution.stages = ways[w].stages;
            open_run(&other, &models[i]);
            train(&other, &optimizer, &options);
            compare_bits(&single, &other, ways[w].name, true);
            close_run(&other);
        }
        close_run(&single);
    }
}

static bool has_statistics(const run *r)
{
    const bg_onnx_contents *contents = bg_onnx_contents_of(r->onnx);

    for (uint32_t i = 0; i < contents->weight_count; i++)
        if (contents->weights[i].use == BG_ONNX_BUFFER)
            return true;
    return false;
}

/* Two replicas process the micro-batches that one replica processes one after the other. Batch norms are excluded,
 * because each replica has separate statistics. */
static void replicas_have_the_same_bits(void **state)
{
    const bg_optimizer optimizer = bg_adamw(0.003);

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        bg_options options = bg_options_defaults();
        run one, two;

        options.numerics.canonical_reductions = true;
        options.execution.gradient_accumulation = 2;
        open_run(&one, &models[i]);
        if (has_statistics(&one)) {
            close_run(&one);
            continue;
        }
        train(&one, &optimizer, &options);
        options.execution.gradient_accumulation = 1;
        options.replicas.count = 2;
        open_run(&two, &models[i]);
        train(&two, &optimizer, &options);
        compare_bits(&one, &two, "two replicas", false);
        close_run(&one);
        close_run(&two);
    }
}

/* ---- files ---- */

/* A saved file has the new weights, and is the same model. */
static void saved_files_go_on(void **state)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    char folder[TEST_FOLDER_BYTES], path[TEST_FOLDER_BYTES + 32];

    (void)state;
    test_folder_create(folder);
    snprintf(path, sizeof path, "%s/saved.onnx", folder);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        run r, again;

        open_run(&r, &models[i]);
        train(&r, &optimizer, NULL);
        require(bg_onnx_save_weights(r.onnx, r.weights, path, &error));
        again = (run){.model = &models[i]};
        require(bg_onnx_open(path, &again.onnx, &error));
        require(bg_weights_create(&again.weights, &error));
        bg_graph_destroy(build(&again, false, NULL));
        require(bg_onnx_set_weights(again.onnx, again.weights, &error));
        memcpy(again.losses, r.losses, sizeof r.losses);
        compare_bits(&again, &r, "saved", true);
        snprintf(path, sizeof path, "%s/saved.onnx", folder);
        close_run(&again);
        close_run(&r);
    }
    test_folder_remove(folder);
}

static int open_oracle(void **state)
{
    (void)state;
    oracle = bgi_test_oracle_open("tests/oracle/onnx.txt");
    return 0;
}

static int close_oracle(void **state)
{
    (void)state;
    bgi_test_oracle_close(oracle);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_that_of_pytorch),
        cmocka_unit_test(adamw_is_that_of_pytorch),
        cmocka_unit_test(strategies_have_the_same_bits),
        cmocka_unit_test(replicas_have_the_same_bits),
        cmocka_unit_test(saved_files_go_on),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
