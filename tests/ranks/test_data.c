/*
 * test_data.c: a rank reads only the samples of its devices, in the same order as one process. The last samples of an
 * epoch, and batches that max_steps cuts, are read completely. Infeeds behave in the same way. test_fit.c tests
 * training with these samples.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <brigade.h>

#include "plan/plan.h"
#include "ranks/wrap.h"
#include "support/trainer_rig.h"

enum { MICRO_BATCH = 2, CALL = 16, REST = 5, SAMPLES = 3 * CALL + REST };

/* ---- counting samples ---- */

static atomic_uint fetched;

static bg_status get(void *user, uint64_t epoch, uint64_t index, void *const outputs[], bg_error *error)
{
    const test_net_samples *samples = user;

    (void)epoch, (void)error;
    atomic_fetch_add(&fetched, 1);
    memcpy(outputs[0], (const float *)samples->arrays[0].data + index * TEST_NET_FEATURES,
           TEST_NET_FEATURES * sizeof(float));
    memcpy(outputs[1], (const uint8_t *)samples->arrays[1].data + index, 1);
    return BG_OK;
}

typedef struct fit {
    const char *name;
    uint32_t iterations, accumulation, replicas, devices;
    const char *layout;
    uint64_t max_steps;
    uint32_t wanted[2]; /* for each rank, the samples of an epoch */
    uint32_t tested[2]; /* samples of a test after the fit; batches have CALL samples in inference too */
} fit;

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s", what, error->message);
}

static void expect(const char *name, const char *what, uint32_t wanted)
{
    const uint32_t found = atomic_exchange(&fetched, 0);

    if (found != wanted)
        fail_msg("%s, rank %u: %u samples fetched %s, %u expected", name, test_ranks_transport()->rank, found, what,
                 wanted);
}

static void train(const fit *f)
{
    const uint32_t rank = test_ranks_transport()->rank;
    const test_net net = {.device_count = f->devices};
    bg_trainer_options options = bg_trainer_options_defaults();
    bg_loader_options loading = bg_loader_options_defaults();
    bg_options training = bg_options_defaults(), inference = bg_options_defaults();
    bg_trainer_data data = {.loading = &loading};
    bg_dataset_options counted = {.sample_count = SAMPLES, .tensor_count = 2, .get = get};
    test_net_samples samples;
    bg_dataset *dataset = NULL;
    bg_trainer *trainer;
    bg_type types[2];
    bg_error error = {0};

    test_net_samples_make(&samples, SAMPLES);
    for (uint32_t t = 0; t < 2; t++)
        types[t] = *bg_dataset_sample_type(samples.dataset, t);
    counted.sample_types = types;
    counted.user = &samples;
    require(bg_dataset_create(&counted, &dataset, &error), &error, f->name);
    training.execution.device_iterations = f->iterations;
    training.execution.gradient_accumulation = f->accumulation;
    training.execution.layout = f->layout;
    training.replicas.count = f->replicas;
    inference.execution.device_iterations = CALL / MICRO_BATCH / f->replicas;
    inference.execution.layout = f->layout;
    inference.replicas.count = f->replicas;
    options.model = test_net_model;
    options.model_user = (void *)&net;
    options.micro_batch[BG_TRAINER_FIT] = MICRO_BATCH;
    options.strategy.training_options = &training;
    options.strategy.inference_options = &inference;
    options.max_epochs = 2;
    options.max_steps = f->max_steps;
    loading.mode = BG_LOADER_SYNC; /* no samples are fetched ahead */
    loading.shuffle = true;
    loading.drop_last = false;
    data.dataset = dataset;
    require(bg_trainer_create(&options, NULL, &trainer, &error), &error, f->name);
    require(bg_trainer_fit(trainer, &data, NULL, &error), &error, f->name);
    expect(f->name, "in the fit", f->max_steps > 0 ? f->wanted[rank] : 2 * f->wanted[rank]);
    require(bg_trainer_test(trainer, &data, &error), &error, f->name);
    expect(f->name, "in the test", f->tested[rank]);
    bg_trainer_destroy(trainer);
    bg_dataset_destroy(dataset);
    test_net_samples_clear(&samples);
}

static void ranks_fetch_their_own(void **state)
{
    enum { WHOLE = 3 * CALL };
    static const fit fits[] = {
        {"replicas", 2, 2, 2, 1, NULL, 0, {WHOLE / 2 + REST, WHOLE / 2 + REST}, {WHOLE / 2 + REST, WHOLE / 2 + REST}},
        /* Of four replicas, rank 1 has only one. */
        {"uneven",
         1,
         2,
         4,
         1,
         "0,0,0,1",
         0,
         {WHOLE * 3 / 4 + REST, WHOLE / 4 + REST},
         {WHOLE * 3 / 4 + REST, WHOLE / 4 + REST}},
        /* The first stage reads x, the last one labels; a sample's tensors are read together. */
        {"stages", 2, 4, 1, 4, NULL, 0, {SAMPLES, SAMPLES}, {SAMPLES, SAMPLES}},
        {"a rank in the middle", 2, 4, 1, 4, "0,1,1,0", 0, {SAMPLES, REST}, {SAMPLES, REST}},
        /* 5 updates are two and a half calls: the third call has only a part of a batch. */
        {"cut by max_steps", 2, 2, 2, 1, NULL, 5, {WHOLE, WHOLE}, {WHOLE / 2 + REST, WHOLE / 2 + REST}},
        {"max_steps of whole calls", 2, 2, 2, 1, NULL, 6, {WHOLE / 2, WHOLE / 2}, {WHOLE / 2 + REST, WHOLE / 2 + REST}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++)
        train(&fits[i]);
}

/* Tests which part of an input a rank reads. */
static void sessions_say_what_they_read(void **state)
{
    const uint32_t rank = test_ranks_transport()->rank;
    const test_net net = {.device_count = 4};
    const bg_optimizer optimizer = bg_sgd(0.1);

    (void)state;
    for (int canonical = 0; canonical < 2; canonical++) {
        bg_options options = bg_options_defaults();
        bg_graph *graph;
        bg_plan *plan;
        bg_session *session;
        bg_value loss;
        bg_error error = {0};
        options.execution.gradient_accumulation = 4;
        options.execution.layout = "0,0,0,1,1,1,1,1"; /* rank 1 has the loss of replica 0 */
        options.replicas.count = 2;
        options.numerics.canonical_reductions = canonical == 1;
        require(bg_graph_create(&graph, &error), &error, "graph");
        loss = test_net_model((void *)&net, graph, BG_TRAINER_FIT, MICRO_BATCH);
        require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error, "plan");
        require(bg_session_create(plan, NULL, &session, &error), &error, "session");
        for (uint32_t i = 0; i < 8; i++) {
            const bool is_first = canonical == 1 ? i < 4 : i % 2 == 0; /* of replica 0 */
            assert_int_equal(bg_session_reads(session, 0, i), rank == 0 ? is_first : !is_first);
            assert_int_equal(bg_session_reads(session, 1, i), rank == 1);
        }
        bg_session_destroy(session);
        bg_plan_destroy(plan);
        bg_graph_destroy(graph);
    }
}

/* ---- infeeds ---- */

enum { FED_ITERATIONS = 3, FED_MICRO_BATCHES = 4, MOST_FED = 2 * FED_ITERATIONS * FED_MICRO_BATCHES };

/* A source of successive elements that counts how often each of their tensors was written. */
typedef struct feed {
    const test_net_samples *samples;
    uint64_t next, end;
    uint32_t made[2];
} feed;

static bg_status next_element(void *user, void *const tensors[], bool *out_has_ended, bg_error *error)
{
    static const size_t sizes[2] = {MICRO_BATCH * TEST_NET_FEATURES * sizeof(float), MICRO_BATCH};
    feed *f = user;

    (void)error;
    *out_has_ended = f->next == f->end;
    for (int t = 0; t < 2 && !*out_has_ended; t++)
        if (tensors[t] != NULL) {
            memcpy(tensors[t], (const char *)f->samples->arrays[t].data + f->next * sizes[t], sizes[t]);
            f->made[t]++;
        }
    f->next++;
    return BG_OK;
}

typedef struct fed {
    const char *name, *layout;
    uint32_t replicas, devices;
    uint32_t x[2], labels[2]; /* the number of elements that a rank writes of each tensor */
} fed;

typedef enum feeding { OF_READ, OF_ALL, OF_DATASET } feeding;

static void open_infeed(feeding how, feed *f, const bg_dataset *dataset, bg_infeed **out)
{
    const bg_type types[2] = {bg_matrix(BG_FLOAT32, MICRO_BATCH, TEST_NET_FEATURES), bg_vector(BG_UINT8, MICRO_BATCH)};
    bg_infeed_options options = bg_infeed_options_defaults();
    bg_error error = {0};

    options.omit_unread = how == OF_READ;
    if (how == OF_DATASET)
        require(bg_infeed_create_dataset(dataset, &options, out, &error), &error, "infeed");
    else
        require(bg_infeed_create(types, 2, next_element, f, &options, out, &error), &error, "infeed");
}

/* Makes a run that uses up its infeed, and stores the losses. If `transport` is NULL, the run has only this rank. */
static void run_fed(const fed *c, feeding how, bg_transport *transport, float losses[MOST_FED], feed *out)
{
    const test_net net = {.device_count = c->devices};
    const bg_optimizer optimizer = bg_sgd(0.1);
    const uint64_t elements = (uint64_t)c->replicas * FED_ITERATIONS * FED_MICRO_BATCHES;
    bg_dataset_options counted = {.sample_count = elements * MICRO_BATCH, .tensor_count = 2, .get = get};
    bg_options options = bg_options_defaults();
    void *outputs[8] = {0};
    test_net_samples samples;
    bg_dataset *dataset = NULL;
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_infeed *infeed = NULL;
    bg_value loss;
    bg_error error = {0};
    bg_type types[2];

    test_net_samples_make(&samples, TEST_NET_MOST_SAMPLES);
    for (uint32_t t = 0; t < 2; t++)
        types[t] = *bg_dataset_sample_type(samples.dataset, t);
    counted.sample_types = types;
    counted.user = &samples;
    require(bg_dataset_create(&counted, &dataset, &error), &error, c->name);
    options.execution.gradient_accumulation = FED_MICRO_BATCHES;
    options.execution.device_iterations = FED_ITERATIONS;
    options.execution.layout = transport != NULL ? c->layout : NULL;
    options.replicas.count = c->replicas;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    require(bg_graph_create(&graph, &error), &error, c->name);
    loss = test_net_model((void *)&net, graph, BG_TRAINER_FIT, MICRO_BATCH);
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error, c->name);
    plan->options.execution.transport = transport;
    require(bg_session_create(plan, NULL, &session, &error), &error, c->name);
    *out = (feed){.samples = &samples, .end = elements};
    open_infeed(how, out, dataset, &infeed);
    require(bg_infeed_start(infeed, session, &error), &error, c->name);
    outputs[bg_session_find_output(session, "loss")] = losses;
    require(bg_session_run_infeed(session, infeed, outputs, &error), &error, c->name);
    bg_infeed_destroy(infeed);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    bg_dataset_destroy(dataset);
    test_net_samples_clear(&samples);
}

static void infeeds_make_what_devices_read(void **state)
{
    static const fed cases[] = {
        {"replicas", NULL, 2, 1, {12, 12}, {12, 12}},
        {"stages", NULL, 1, 4, {12, 0}, {0, 12}},
        {"a rank in the middle", "0,1,1,0", 1, 4, {12, 0}, {12, 0}},
        {"one loss", "0,0,0,0,0,0,0,1", 2, 4, {24, 0}, {12, 12}},
    };
    const uint32_t rank = test_ranks_transport()->rank;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fed *c = &cases[i];
        const uint32_t all = c->replicas * FED_ITERATIONS * FED_MICRO_BATCHES;
        const uint32_t most = c->x[rank] > c->labels[rank] ? c->x[rank] : c->labels[rank];
        float alone[MOST_FED] = {0}, together[MOST_FED] = {0};
        feed f;

        run_fed(c, OF_READ, NULL, alone, &f);
        assert_int_equal(f.made[0], all);
        assert_int_equal(f.made[1], all);
        run_fed(c, OF_READ, test_ranks_transport(), together, &f);
        assert_memory_equal(together, alone, all * sizeof *alone);
        if (f.made[0] != c->x[rank] || f.made[1] != c->labels[rank])
            fail_msg("%s, rank %u: %u x and %u labels, expected %u and %u", c->name, rank, f.made[0], f.made[1],
                     c->x[rank], c->labels[rank]);
        memset(together, 0, sizeof together);
        run_fed(c, OF_ALL, test_ranks_transport(), together, &f);
        assert_memory_equal(together, alone, all * sizeof *alone);
        assert_int_equal(f.made[0], most > 0 ? all : 0);
        memset(together, 0, sizeof together);
        atomic_store(&fetched, 0);
        run_fed(c, OF_DATASET, test_ranks_transport(), together, &f);
        assert_memory_equal(together, alone, all * sizeof *alone);
        expect(c->name, "by an infeed", most * MICRO_BATCH); /* whole samples */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_fetch_their_own),
        cmocka_unit_test(sessions_say_what_they_read),
        cmocka_unit_test(infeeds_make_what_devices_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
