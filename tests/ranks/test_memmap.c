/*
 * test_memmap.c: remote buffers in files over three ranks. Each rank has the files of its own devices. Any number of
 * ranks can resume from the files of any other number, with the same bits as a run in memory. When one rank cannot use
 * its files, all ranks return the same error.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <brigade.h>

#include "plan/plan.h"
#include "ranks/wrap.h"
#include "runtime/agree.h"
#include "runtime/memmap.h"
#include "runtime/session.h"
#include "support/folder.h"
#include "support/train.h"

enum { RANKS = 3, UPDATES = 4, MICRO_BATCH = 4, PATH_BYTES = 192, WIDTH = 600, DEVICES = 4 };

/* Runs before main, which forks. */
__attribute__((constructor)) static void want_three_ranks(void)
{
    setenv("BRIGADE_TEST_RANKS", "3", 1);
}

static uint32_t own_rank(void)
{
    return test_ranks_transport()->rank;
}

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("rank %u: %s", own_rank(), error->message);
}

/* Waits until all ranks have called this function. */
static void meet(void)
{
    const uint32_t owners[1] = {0};
    const bgi_ranks ranks = {.carrier = test_ranks_transport(), .owners = owners, .wait_limit_s = 60.0};
    bgi_transport *transport = NULL;
    bg_error error = {0};

    require(bgi_ranks_talk(&ranks, &transport, &error), &error);
    require(bgi_ranks_settle(transport, BG_OK, NULL, &error), &error);
    transport->type->destroy(transport);
}

/* ---- folders that all ranks use ---- */

static void make_folder(char folder[TEST_FOLDER_BYTES])
{
    static int count;

    snprintf(folder, TEST_FOLDER_BYTES, "/tmp/brigade-test-%d.%d", (int)(own_rank() == 0 ? getpid() : getppid()),
             count++);
    if (own_rank() == 0)
        assert_int_equal(mkdir(folder, 0777), 0);
    meet();
}

static void remove_folder(const char *folder)
{
    meet();
    if (own_rank() == 0)
        test_folder_remove(folder);
}

static void join(const char *folder, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_BYTES];

    join(folder, name, path);
    return access(path, F_OK) == 0;
}

/* ---- sessions ---- */

typedef struct way {
    bg_strategy strategy;
    const char *stages;
    uint32_t replicas;
    bool is_sharded;
    unsigned model, classes; /* bit k of `classes`: the tensors of bg_location k are remote */
    const char *layout;      /* for the ranks that resume */
} way;

static const way ways[] = {
    {BG_STRATEGY_PHASED, "B1@0|B2@1|B3@0|B4@1", 2, true, 0, 15, "2,1,0,0"},
    {BG_STRATEGY_PIPELINED, "B1|B2|B3|B4", 2, true, 2, 1u << BG_LOCATION_STATE, "data,stage,tensor"},
    {BG_STRATEGY_PIPELINED, "B1|B2,B3|B4", 1, false, 1, 1u << BG_LOCATION_WEIGHTS, "2,0,1"},
    {BG_STRATEGY_PIPELINED, "B1|B2|B3|B4", 1, false, 0, 0, "0,2,1,1"},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static bg_options options_for(const way *w, const char *folder)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = w->strategy;
    options.execution.stages = w->stages;
    options.replicas.count = w->replicas;
    options.execution.cores = 1;
    options.execution.gradient_accumulation = 3;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 5;
    options.execution.wait_limit_s = 60;
    options.files.memmap_dir = folder;
    for (int k = 0; k < BG_LOCATION_COUNT; k++) {
        options.memory.locations[k].place = (w->classes >> k & 1) != 0 ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
        options.memory.locations[k].sharded = w->is_sharded && k != BG_LOCATION_ACTIVATIONS;
        options.memory.locations[k].minimum_elements_sharded = 1;
    }
    if ((w->classes >> BG_LOCATION_WEIGHTS & 1) == 0)
        options.memory.locations[BG_LOCATION_WEIGHTS].sharded = false;
    return options;
}

static bg_plan *plan_for(const way *w, const bg_options *options, bg_transport *transport)
{
    const bg_optimizer optimizer = bg_adamw(0.003);
    bg_plan *plan = test_train_plan(test_model_at(w->model), MICRO_BATCH, &optimizer, options, "plan");

    plan->options.execution.transport = transport;
    return plan;
}

/* Makes updates first .. end - 1 of a sequence. */
static bg_status play(bg_session *session, const bg_options *options, uint32_t first, uint32_t end, bg_error *error)
{
    const uint64_t samples = (uint64_t)UPDATES * options->execution.gradient_accumulation * options->replicas.count;
    unsigned char *inputs[4] = {0};
    void *outputs[8] = {0};
    bg_stream streams[4];
    bg_status status = BG_OK;

    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        require(bg_session_input(session, i, &streams[i], error), error);
        inputs[i] = test_model_input(&streams[i].micro_batch_type, streams[i].name, samples);
    }
    for (uint32_t update = first; update < end && status == BG_OK; update++) {
        const void *parts[4] = {0};
        for (uint32_t i = 0; i < bg_session_input_count(session); i++)
            parts[i] = inputs[i] + update * streams[i].size_bytes;
        status = bg_session_run(session, parts, outputs, error);
    }
    for (int i = 0; i < 4; i++)
        free(inputs[i]);
    return status;
}

static test_result take_weights(bg_session *session)
{
    bg_weights *weights = bg_session_weights(session);
    test_result r = {0};
    bg_error error = {0};

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        size_t size;
        require(bg_weights_at(weights, i, &weight, &error), &error);
        size = bg_type_size_bytes(&weight.type);
        r.bytes = realloc(r.bytes, r.size + size);
        assert_non_null(r.bytes);
        memcpy(r.bytes + r.size, weight.data, size);
        r.size += size;
    }
    return r;
}

/* Runs a session over `transport` (NULL: only this rank) from one update to another, flushes it, and returns its
 * weights. `note` is the expected note, or NULL. */
static test_result train(const way *w, const bg_options *options, bg_transport *transport, uint32_t first, uint32_t end,
                         const char *note)
{
    bg_plan *plan = plan_for(w, options, transport);
    bg_session *session = NULL;
    bg_error error = {0};
    test_result r;
    char text[32];

    require(bg_session_create(plan, NULL, &session, &error), &error);
    assert_int_equal(bg_session_step(session), first);
    if (note != NULL)
        assert_string_equal(bg_session_note(session), note);
    else
        assert_null(bg_session_note(session));
    require(play(session, options, first, end, &error), &error);
    snprintf(text, sizeof text, "after %u", end);
    require(bg_session_flush(session, text, &error), &error);
    r = take_weights(session);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    return r;
}

/* ---- the same bits ---- */

static void any_number_of_ranks_goes_on(void **state)
{
    (void)state;
    for (int i = 0; i < WAYS; i++) {
        const way *w = &ways[i];
        bg_options options = options_for(w, NULL);
        const test_result expected = train(w, &options, NULL, 0, UPDATES, NULL);
        char folder[TEST_FOLDER_BYTES];

        make_folder(folder);
        options.files.memmap_dir = folder;
        free(train(w, &options, test_ranks_transport(), 0, 1, NULL).bytes);
        meet();
        if (own_rank() == 0)
            free(train(w, &options, NULL, 1, 2, "after 1").bytes);
        meet();
        options.execution.layout = w->layout;
        free(train(w, &options, test_ranks_transport(), 2, 3, "after 2").bytes);
        meet();
        options.execution.layout = NULL;
        test_train_expect(train(w, &options, test_ranks_transport(), 3, UPDATES, "after 3"), &expected,
                          "over ranks, at last");
        meet();
        if (own_rank() == 0) /* the files' content has not changed */
            test_train_expect(train(w, &options, NULL, UPDATES, UPDATES, "after 4"), &expected, "alone, at last");
        free(expected.bytes);
        remove_folder(folder);
    }
}

static void ranks_open_their_own_stores(void **state)
{
    const way *w = &ways[0];
    char folder[TEST_FOLDER_BYTES], name[BGI_MAPPED_STORE_NAME_BYTES];
    bg_session *session = NULL;
    bg_error error = {0};
    bg_options options;
    bg_plan *plan;

    (void)state;
    make_folder(folder);
    options = options_for(w, folder);
    plan = plan_for(w, &options, test_ranks_transport());
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (uint32_t i = 0; i < DEVICES; i++) {
        bgi_mapped_store_name(i / 2, i % 2, name);
        assert_int_equal(bgi_memmap_address(session->memmap, i) != NULL, bg_session_has_device(session, i / 2, i % 2));
        assert_true(is_there(folder, name));
    }
    meet();
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    meet();
    if (own_rank() == 0)
        assert_int_equal(test_folder_count(folder), 1); /* the lock: files that were never used are removed */
    remove_folder(folder);
}

/* Compiles a model with weights of 1.4 MB. If they are not in a store, they are sent from the index, in rounds, to the
 * ranks that need them. */
static bg_plan *plan_large(const char *folder, bg_transport *transport)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, WIDTH);
    const bg_optimizer optimizer = bg_adamw(0.003);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;
    bg_value x;

    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &type);
    for (uint32_t b = 0; b < RANKS; b++) {
        char block[8];
        snprintf(block, sizeof block, "B%u", b + 1);
        bg_block_start(graph, block, b);
        x = bg_linear_layer(graph, block, x, WIDTH, false);
    }
    x = bg_reduce(graph, "loss", BG_REDUCE_MEAN, x, NULL, 0, false);
    options.execution.cores = 1;
    options.execution.wait_limit_s = 60;
    options.numerics.seed = 5;
    options.files.memmap_dir = folder;
    options.memory.locations[BG_LOCATION_STATE].place = BG_PLACE_REMOTE;
    require(bg_plan_create_training(graph, x, &optimizer, &options, &plan, &error), &error);
    plan->options.execution.transport = transport;
    bg_graph_destroy(graph);
    return plan;
}

static void values_of_the_index_go_to_who_has_them(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[PATH_BYTES];
    bg_session *session = NULL;
    test_result expected;
    bg_error error = {0};
    struct stat facts;
    bg_plan *plan;

    (void)state;
    make_folder(folder);
    plan = plan_large(folder, test_ranks_transport());
    require(bg_session_create(plan, NULL, &session, &error), &error);
    require(bg_session_flush(session, "", &error), &error);
    expected = take_weights(session);
    bg_session_destroy(session);
    join(folder, BGI_MEMMAP_INDEX, path);
    assert_int_equal(stat(path, &facts), 0);
    assert_true(facts.st_size > RANKS * WIDTH * WIDTH * 4);
    meet();
    plan->options.numerics.seed = 6; /* so that no value is an initial value from the seed */
    require(bg_session_create(plan, NULL, &session, &error), &error);
    test_train_expect(take_weights(session), &expected, "from the index");
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    free(expected.bytes);
    remove_folder(folder);
}

/* ---- unusable files ---- */

/* Checks that all ranks return the same error. */
static void refuse(const way *w, const bg_options *options, bg_status status, const char *words)
{
    bg_plan *plan = plan_for(w, options, test_ranks_transport());
    bg_session *session = NULL;
    bg_error error = {0};
    const bg_status found = bg_session_create(plan, NULL, &session, &error);

    if (found != status || strstr(error.message, words) == NULL)
        fail_msg("rank %u: %d `%s`, expected %d `%s`", own_rank(), (int)found, error.message, (int)status, words);
    assert_null(session);
    bg_plan_destroy(plan);
    meet();
}

static void cut(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    struct stat facts;

    join(folder, name, path);
    if (own_rank() == 0) {
        assert_int_equal(stat(path, &facts), 0);
        assert_int_equal(truncate(path, facts.st_size - 1), 0);
    }
    meet();
}

static void what_one_rank_cannot_use_all_refuse(void **state)
{
    const way *w = &ways[0];
    char folder[TEST_FOLDER_BYTES], path[PATH_BYTES];
    bg_options options;

    (void)state;
    make_folder(folder);
    options = options_for(w, folder);
    free(train(w, &options, test_ranks_transport(), 0, 1, NULL).bytes);
    meet();
    cut(folder, "replica1.device1.store"); /* the last rank's file */
    refuse(w, &options, BG_ERROR_PARSE, "rank 2: memmap_dir: ");
    refuse(w, &options, BG_ERROR_PARSE, "replica1.device1.store is truncated");
    assert_true(is_there(folder, BGI_MEMMAP_INDEX));
    options.files.memmap_mode = BG_MEMMAP_RENEW;
    free(train(w, &options, test_ranks_transport(), 0, 1, NULL).bytes);
    meet();
    options.files.memmap_mode = BG_MEMMAP_CONTINUE;
    cut(folder, BGI_MEMMAP_INDEX);
    refuse(w, &options, BG_ERROR_PARSE, "index: the checksum is");
    join(folder, BGI_MEMMAP_INDEX, path);
    if (own_rank() == 0)
        assert_int_equal(unlink(path), 0);
    meet();
    refuse(w, &options, BG_ERROR_INVALID, "has remote stores without index");
    remove_folder(folder);
}

static void ranks_have_one_directory(void **state)
{
    const way *w = &ways[0];
    char folder[TEST_FOLDER_BYTES], other[TEST_FOLDER_BYTES + 8];
    bg_options options;

    (void)state;
    make_folder(folder);
    snprintf(other, sizeof other, "%s/other", folder);
    options = options_for(w, own_rank() == 1 ? other : folder);
    refuse(w, &options, BG_ERROR_INVALID, "option memmap_dir is `");
    assert_int_equal(test_folder_count(folder), 0);
    options = options_for(w, own_rank() == 1 ? NULL : folder);
    refuse(w, &options, BG_ERROR_INVALID, "` on rank 0 and the default on rank 1");
    remove_folder(folder);
}

static void sessions_exclude_each_other(void **state)
{
    const way *w = &ways[0];
    char folder[TEST_FOLDER_BYTES], lock[PATH_BYTES], kept[PATH_BYTES];
    bg_options options;
    bg_plan *plan, *alone;
    bg_session *session = NULL, *second = NULL;
    bg_error error = {0};

    (void)state;
    make_folder(folder);
    options = options_for(w, folder);
    plan = plan_for(w, &options, test_ranks_transport());
    alone = plan_for(w, &options, NULL);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    require(bg_session_flush(session, "", &error), &error);
    refuse(w, &options, BG_ERROR_INVALID, "is in use by another session");
    /* Hosts other than rank 0's have no lock of the directory, so the locks of the stores decide. */
    join(folder, BGI_MEMMAP_LOCK, lock);
    join(folder, "kept", kept);
    if (own_rank() == 0) {
        assert_int_equal(rename(lock, kept), 0);
        assert_int_equal(bg_session_create(alone, NULL, &second, &error), BG_ERROR_INVALID);
        assert_non_null(strstr(error.message, "replica0.device0.store is in use by another session"));
        alone->options.files.memmap_mode = BG_MEMMAP_RENEW;
        assert_int_equal(bg_session_create(alone, NULL, &second, &error), BG_ERROR_INVALID);
        assert_non_null(strstr(error.message, "replica0.device0.store is in use by another session"));
        assert_true(is_there(folder, "replica0.device0.store") && is_there(folder, BGI_MEMMAP_INDEX));
    }
    meet();
    bg_session_destroy(session);
    bg_plan_destroy(alone);
    bg_plan_destroy(plan);
    remove_folder(folder);
}

static void readers_leave_the_files_untouched(void **state)
{
    const way *w = &ways[1];
    char folder[TEST_FOLDER_BYTES];
    bg_options options = options_for(w, NULL);
    const test_result expected = train(w, &options, NULL, 0, UPDATES, NULL);
    bg_session *session = NULL;
    bg_error error = {0};
    bg_plan *plan;

    (void)state;
    make_folder(folder);
    options.files.memmap_dir = folder;
    options.files.memmap_mode = BG_MEMMAP_READ_ONLY;
    test_train_expect(train(w, &options, test_ranks_transport(), 0, UPDATES, NULL), &expected, "without files");
    assert_int_equal(test_folder_count(folder), 0);
    options.files.memmap_mode = BG_MEMMAP_CONTINUE;
    free(train(w, &options, test_ranks_transport(), 0, 2, NULL).bytes);
    meet();
    options.files.memmap_mode = BG_MEMMAP_READ_ONLY;
    for (int time = 0; time < 2; time++) { /* a second session sees the values of the first */
        plan = plan_for(w, &options, test_ranks_transport());
        require(bg_session_create(plan, NULL, &session, &error), &error);
        require(play(session, &options, 2, UPDATES, &error), &error);
        test_train_expect(take_weights(session), &expected, "read only");
        bg_session_destroy(session);
        bg_plan_destroy(plan);
    }
    free(expected.bytes);
    remove_folder(folder);
}

/* ---- completeness of files, on all ranks ---- */

static void a_failure_of_rank_0_is_of_all(void **state)
{
    const way *w = &ways[0];
    char folder[TEST_FOLDER_BYTES], path[PATH_BYTES], inner[PATH_BYTES + 8];
    bg_session *session = NULL;
    bg_error error = {0};
    bg_options options;
    bg_plan *plan;

    (void)state;
    make_folder(folder);
    join(folder, BGI_MEMMAP_INDEX, path);
    snprintf(inner, sizeof inner, "%s/inner", path);
    options = options_for(w, folder);
    plan = plan_for(w, &options, test_ranks_transport());
    require(bg_session_create(plan, NULL, &session, &error), &error);
    /* The index cannot be written because a folder has its name. */
    if (own_rank() == 0)
        assert_true(mkdir(path, 0777) == 0 && mkdir(inner, 0777) == 0);
    meet();
    assert_int_not_equal(bg_session_flush(session, "", &error), BG_OK);
    assert_non_null(strstr(error.message, "index"));
    if (own_rank() == 0)
        assert_true(rmdir(inner) == 0 && rmdir(path) == 0);
    meet();
    require(bg_session_flush(session, "", &error), &error);
    /* The old files are not removed before a run either: no rank begins the run, and the files do not change. */
    if (own_rank() == 0)
        assert_true(unlink(path) == 0 && mkdir(path, 0777) == 0 && mkdir(inner, 0777) == 0);
    meet();
    assert_int_equal(play(session, &options, 0, 1, &error), BG_ERROR_IO);
    assert_non_null(strstr(error.message, "index cannot be removed"));
    assert_int_equal(bg_session_step(session), 0);
    if (own_rank() == 0)
        assert_true(rmdir(inner) == 0 && rmdir(path) == 0);
    meet();
    require(play(session, &options, 0, 1, &error), &error);
    meet();
    assert_false(is_there(folder, BGI_MEMMAP_INDEX));
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    meet();
    refuse(w, &options, BG_ERROR_INVALID, "did not end properly");
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_goes_on),
        cmocka_unit_test(ranks_open_their_own_stores),
        cmocka_unit_test(values_of_the_index_go_to_who_has_them),
        cmocka_unit_test(what_one_rank_cannot_use_all_refuse),
        cmocka_unit_test(ranks_have_one_directory),
        cmocka_unit_test(sessions_exclude_each_other),
        cmocka_unit_test(readers_leave_the_files_untouched),
        cmocka_unit_test(a_failure_of_rank_0_is_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
