/*
 * test_creation.c: the creation of a session reports its progress, and can be canceled at each call. After that,
 * weights, memory and folders are as before, and a session that is created later gives the same bits.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/ops.h>

#include "support/folder.h"
#include "support/train.h"

enum { MICRO_BATCH = 2, UPDATES = 2 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* ---- the callback's arguments ---- */

typedef struct asked {
    uint64_t calls, cancel_at, done, total;
    uint64_t memory, files, weights; /* calls of each kind */
    char what[128];
} asked;

static bool ask(void *user, const char *what, uint64_t done, uint64_t total)
{
    asked *a = user;

    assert_true(done < total);
    assert_true(a->calls == 0 ? done == 0 : done >= a->done && total == a->total);
    a->done = done;
    a->total = total;
    snprintf(a->what, sizeof a->what, "%s", what);
    if (strncmp(what, "memory of ", 10) == 0)
        a->memory++;
    else if (strstr(what, ".store") != NULL)
        a->files++;
    else
        a->weights++;
    return ++a->calls == a->cancel_at;
}

/* ---- memory ---- */

static _Atomic int64_t lent;

static void *lend(void *user, size_t alignment, size_t size_bytes)
{
    void *memory = NULL;

    (void)user;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size_bytes) != 0)
        return NULL;
    atomic_fetch_add(&lent, 1);
    return memory;
}

static void take_back(void *user, void *memory, size_t size_bytes)
{
    (void)user, (void)size_bytes;
    atomic_fetch_sub(&lent, 1);
    free(memory);
}

/* ---- trainings ---- */

static bg_options make_options(bool is_remote, const char *folder, asked *a)
{
    bg_options options = bg_options_defaults();

    options.execution.cores = 2;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.gradient_accumulation = 4;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.memory.allocate = lend;
    options.memory.release = take_back;
    options.reporting.progress = a != NULL ? ask : NULL;
    options.reporting.progress_user = a;
    if (is_remote) {
        options.execution.strategy = BG_STRATEGY_PHASED;
        options.execution.stages = "B1@0|B2@1|B3@0|B4@1";
        options.replicas.count = 2;
        options.files.memmap_dir = folder;
        for (int k = 0; k < BG_LOCATION_COUNT; k++) {
            options.memory.locations[k].place = BG_PLACE_REMOTE;
            options.memory.locations[k].sharded = k != BG_LOCATION_ACTIVATIONS;
            options.memory.locations[k].minimum_elements_sharded = 1;
        }
    }
    return options;
}

static bg_plan *make_plan(const bg_options *options)
{
    const bg_optimizer optimizer = bg_adamw(0.003);

    return test_train_plan(test_model_at(0), MICRO_BATCH, &optimizer, options, "plan");
}

/* Cancels the creation at each call, or at every `step`th. */
static void cancel_each(const bg_plan *plan, bg_weights *weights, const char *folder, asked *a, uint64_t calls,
                        uint64_t step)
{
    const int64_t before = atomic_load(&lent);

    for (uint64_t k = 1; k <= calls; k += step) {
        bg_session *session = NULL;
        char words[200];
        bg_error error = {0};

        *a = (asked){.cancel_at = k};
        assert_int_equal(bg_session_create(plan, weights, &session, &error), BG_ERROR_CANCELED);
        snprintf(words, sizeof words, "progress canceled the session before `%s`", a->what);
        assert_non_null(strstr(error.message, words));
        assert_null(session);
        assert_int_equal(a->calls, k);
        assert_int_equal(bg_weights_count(weights), 0);
        assert_int_equal(atomic_load(&lent), before);
        if (folder != NULL) /* the lock */
            assert_true(test_folder_count(folder) <= 1);
    }
}

static void try_training(bool is_remote, const char *folder)
{
    const bool is_quick = getenv("BRIGADE_TEST_QUICK") != NULL;
    asked a = {0};
    const bg_options plain = make_options(is_remote, NULL, NULL), options = make_options(is_remote, folder, &a);
    const bg_optimizer optimizer = bg_adamw(0.003);
    const test_result expected =
        test_train(test_model_at(0), MICRO_BATCH, &optimizer, &plain, NULL, 0, UPDATES, "nobody asks");
    bg_plan *plan = make_plan(&options);
    bg_weights *weights = NULL;
    bg_session *session = NULL;
    bg_weight last;
    uint64_t calls;
    bg_error error = {0};

    /* At the last call, only the bytes of the last weight remain. */
    a = (asked){.calls = 0};
    require(bg_session_create(plan, NULL, &session, &error), &error);
    assert_int_equal(a.memory, is_remote ? 4 : 1);
    assert_int_equal(a.files, folder != NULL ? 4 : 0);
    assert_int_equal(a.weights % bg_weights_count(bg_session_weights(session)), 0);
    assert_int_equal(a.weights / bg_weights_count(bg_session_weights(session)), 2);
    require(bg_weights_find(bg_session_weights(session), a.what, &last, &error), &error);
    assert_int_equal(a.total - a.done, bg_type_size_bytes(&last.type));
    calls = a.calls;
    bg_session_destroy(session);
    if (folder != NULL) /* nothing ran */
        assert_int_equal(test_folder_count(folder), 1);

    require(bg_weights_create(&weights, &error), &error);
    cancel_each(plan, weights, folder, &a, calls, is_quick ? 11 : is_remote ? 3 : 1);
    a = (asked){.calls = 0};
    test_train_expect(test_train_run(plan, &options, weights, 0, UPDATES, "after cancels"), &expected, "after cancels");
    assert_int_equal(a.calls, calls); /* no calls during runs */
    bg_weights_destroy(weights);
    free(expected.bytes);
}

static void test_one_device(void **state)
{
    (void)state;
    try_training(false, NULL);
}

static void test_remote_buffers(void **state)
{
    (void)state;
    try_training(true, NULL);
}

static void test_files(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    (void)state;

    test_folder_create(folder);
    try_training(true, folder);
    test_folder_remove(folder);
}

/* ---- inference ---- */

/* A canceled creation does not change the given weights; the creation of a reader calls the callback too. */
static void test_inference(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, 2), weight = bg_matrix(BG_FLOAT32, 2, 2);
    const float values[] = {1, 2, 3, 4}, x[] = {5, 6};
    asked a = {0};
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_weights *weights = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    (void)state;

    options.reporting.progress = ask;
    options.reporting.progress_user = &a;
    require(bg_graph_create(&graph, &error), &error);
    bg_graph_output(graph, "y",
                    bg_linear(graph, "fc", bg_graph_input(graph, "x", &type),
                              bg_graph_parameter(graph, "w", &weight, NULL), (bg_value){0}));
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    require(bg_weights_create(&weights, &error), &error);
    require(bg_weights_set(weights, "w", &weight, values, &error), &error);
    for (int reads = 0; reads <= 1; reads++)
        for (uint64_t cancel_at = 3; cancel_at-- > 0;) {
            bg_session *session = NULL;
            float y[2] = {0};
            bg_status status;

            a = (asked){.cancel_at = cancel_at};
            status = reads ? bg_session_create_reader(plan, weights, &session, &error)
                           : bg_session_create(plan, weights, &session, &error);
            assert_int_equal(bg_weights_count(weights), 1);
            if (cancel_at > 0) {
                assert_int_equal(status, BG_ERROR_CANCELED);
                assert_null(session);
                assert_string_equal(a.what, cancel_at == 1 ? "memory of device 0" : "w");
                continue;
            }
            require(status, &error);
            assert_int_equal(a.calls, 2);
            require(bg_session_run(session, (const void *[]){x}, (void *[]){y}, &error), &error);
            assert_float_equal(y[0], 17, 0);
            assert_float_equal(y[1], 39, 0);
            require(bg_weights_set(weights, "w", &weight, values, &error),
                    &error); /* a run after this must not call the callback */
            require(bg_session_run(session, (const void *[]){x}, (void *[]){y}, &error), &error);
            assert_int_equal(a.calls, 2);
            bg_session_destroy(session);
        }
    bg_plan_destroy(plan);
    bg_weights_destroy(weights);
}

/* Requests cancellation if the weights can be used during the creation. */
static bool use_weights(void *user, const char *what, uint64_t done, uint64_t total)
{
    bg_weight weight;

    (void)what, (void)total;
    return done > 0 && bg_weights_at(user, 0, &weight, NULL) != BG_ERROR_INVALID;
}

static void test_weights_in_use(void **state)
{
    bg_options options = make_options(false, NULL, NULL);
    bg_weights *weights = NULL;
    bg_session *session = NULL;
    bg_plan *plan;
    bg_error error = {0};
    (void)state;

    require(bg_weights_create(&weights, &error), &error);
    options.reporting.progress = use_weights;
    options.reporting.progress_user = weights;
    plan = make_plan(&options);
    require(bg_session_create(plan, weights, &session, &error), &error);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_weights_destroy(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_device), cmocka_unit_test(test_remote_buffers), cmocka_unit_test(test_files),
        cmocka_unit_test(test_inference),  cmocka_unit_test(test_weights_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
