/*
 * test_background.c: checkpoints that are written in the background during training. They contain the state at the time
 * of the request, and report write failures at the end. The test also covers which older checkpoints are kept, by their
 * times or their metrics.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <brigade/checkpoint.h>

#include "checkpoint/checkpoint.h"
#include "core/file.h"
#include "plan/plan.h"
#include "runtime/session.h"
#include "support/folder.h"
#include "support/held_thread.h"
#include "support/models.h"

enum { MICRO_BATCH = 4, PATH_BYTES = 160 };

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_error error;
} rig;

static void open_rig_with(rig *r, bool (*start_thread)(void *user, void (*function)(void *), void *argument),
                          void *user)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_options options = bg_options_defaults();
    bg_value loss;

    options.execution.start_thread = start_thread;
    options.execution.start_thread_user = user;

    memset(r, 0, sizeof *r);
    options.execution.stages = "B1|B2|B3|B4";
    options.execution.gradient_accumulation = 2;
    options.execution.cores = 1;
    assert_int_equal(bg_graph_create(&r->graph, &r->error), BG_OK);
    loss = test_model_at(0)->build(r->graph, MICRO_BATCH);
    assert_int_equal(bg_plan_create_training(r->graph, loss, &optimizer, &options, &r->plan, &r->error), BG_OK);
    assert_int_equal(bg_session_create(r->plan, NULL, &r->session, &r->error), BG_OK);
}

static void open_rig(rig *r)
{
    open_rig_with(r, NULL, NULL);
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->graph);
}

static void train(rig *r, int updates)
{
    for (int k = 0; k < updates; k++) {
        const void *inputs[4] = {NULL};
        void *outputs[4] = {NULL};
        unsigned char *data[4] = {NULL};

        for (uint32_t i = 0; i < bg_session_input_count(r->session); i++) {
            bg_stream stream;
            assert_int_equal(bg_session_input(r->session, i, &stream, NULL), BG_OK);
            inputs[i] = data[i] = test_model_input(&stream.micro_batch_type, stream.name, stream.count);
        }
        if (bg_session_run(r->session, inputs, outputs, &r->error) != BG_OK)
            fail_msg("%s", r->error.message);
        for (uint32_t i = 0; i < 4; i++)
            free(data[i]);
    }
}

static void expect_same(rig *a, rig *b)
{
    bg_weights *first = bg_session_weights(a->session), *second = bg_session_weights(b->session);

    assert_int_equal(bg_session_step(a->session), bg_session_step(b->session));
    assert_int_equal(bg_weights_count(first), bg_weights_count(second));
    for (uint32_t i = 0; i < bg_weights_count(first); i++) {
        bg_weight x, y;
        assert_int_equal(bg_weights_at(first, i, &x, NULL), BG_OK);
        assert_int_equal(bg_weights_find(second, x.name, &y, NULL), BG_OK);
        assert_memory_equal(x.data, y.data, bg_type_size_bytes(&x.type));
    }
}

static const char *path_of(const char *folder, uint64_t step, char path[PATH_BYTES])
{
    char name[BGI_CHECKPOINT_NAME_BYTES];

    snprintf(path, PATH_BYTES, "%s/%s", folder, bgi_checkpoint_name(step, name));
    return path;
}

static void test_writing_beside_training(void **state)
{
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    char folder[TEST_FOLDER_BYTES], info[] = "beside", blob[] = "place";
    bg_checkpoint_writer *writer = NULL;
    bg_checkpoint found = {0};
    bool is_written = false;
    rig r, other, whole;

    (void)state;
    test_folder_create(folder);
    open_rig(&r);
    train(&r, 2);
    assert_int_equal(bg_checkpoint_save(r.session, folder, NULL, &r.error), BG_OK);
    train(&r, 1);
    options.info = info;
    options.blob = blob;
    options.blob_bytes = sizeof blob;
    assert_int_equal(bg_checkpoint_begin(r.session, folder, &options, &writer, &r.error), BG_OK);
    memset(info, 'x', sizeof info - 1); /* the writer reads copies */
    memset(blob, 'x', sizeof blob - 1);
    train(&r, 2);
    while (!is_written)
        assert_int_equal(bg_checkpoint_is_written(writer, &is_written, &r.error), BG_OK);
    assert_int_equal(bg_checkpoint_finish(writer, &r.error), BG_OK);
    assert_int_equal(test_folder_count(folder), 1); /* the previous checkpoint is removed */
    open_rig(&other);
    assert_int_equal(bg_checkpoint_load(other.session, folder, NULL, &found, &other.error), BG_OK);
    assert_string_equal(found.info, "beside");
    assert_string_equal(found.blob, "place");
    open_rig(&whole);
    train(&whole, 3);
    expect_same(&whole, &other);
    train(&other, 2);
    expect_same(&r, &other);
    bg_checkpoint_clear(&found);
    close_rig(&whole);
    close_rig(&other);
    close_rig(&r);
    test_folder_remove(folder);
}

/* A failure to write is reported at the end, and the previous checkpoint remains. */
static void test_a_folder_that_cannot_be_written(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[PATH_BYTES];
    bg_checkpoint_writer *writer = NULL;
    rig r, other;

    (void)state;
    test_folder_create(folder);
    open_rig(&r);
    train(&r, 1);
    assert_int_equal(bg_checkpoint_save(r.session, folder, NULL, &r.error), BG_OK);
    train(&r, 1);
    assert_int_equal(bg_checkpoint_begin(r.session, path_of(folder, 1, path), NULL, &writer, &r.error), BG_ERROR_IO);
    assert_null(writer);
    assert_int_equal(mkdir(path_of(folder, 2, path), 0700), 0); /* a folder with the file's name makes writing fail */
    assert_int_equal(bg_checkpoint_begin(r.session, folder, NULL, &writer, &r.error), BG_OK);
    train(&r, 1);
    assert_int_equal(bg_checkpoint_finish(writer, &r.error), BG_ERROR_IO);
    assert_non_null(strstr(r.error.message, "checkpoint_train_step_2.safetensors"));
    assert_int_equal(remove(path), 0);
    open_rig(&other);
    assert_int_equal(bg_checkpoint_load(other.session, folder, NULL, NULL, &other.error), BG_OK);
    assert_int_equal(bg_session_step(other.session), 1);
    assert_int_equal(bg_checkpoint_finish(NULL, NULL), BG_OK);
    close_rig(&other);
    close_rig(&r);
    test_folder_remove(folder);
}

/* Checkpoints are made in minutes 0, 1, 2, ...; the newest one is kept, and one for each interval of two and a half
 * minutes. */
static void test_older_ones_by_time(void **state)
{
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    char folder[TEST_FOLDER_BYTES], path[PATH_BYTES];
    rig r;

    (void)state;
    options.keep_interval_s = 150;
    test_folder_create(folder);
    open_rig(&r);
    for (uint64_t step = 1; step <= 9; step++) {
        const struct timespec minute = {.tv_sec = 1000000 + 60 * (time_t)step}, times[2] = {minute, minute};
        train(&r, 1);
        assert_int_equal(bg_checkpoint_save(r.session, folder, &options, &r.error), BG_OK);
        assert_int_equal(utimensat(AT_FDCWD, path_of(folder, step, path), times, 0), 0);
    }
    for (uint64_t step = 1; step <= 9; step++)
        assert_int_equal(bgi_file_exists(path_of(folder, step, path)),
                         step == 1 || step == 4 || step == 7 || step == 9);
    close_rig(&r);
    test_folder_remove(folder);
}

/* ---- threads of the program ---- */

typedef struct lender {
    pthread_t thread;
    void (*function)(void *argument);
    void *argument;
    int asked, limit;
} lender;

static void *run_lent(void *user)
{
    lender *l = user;

    l->function(l->argument);
    return NULL;
}

static bool lend_thread(void *user, void (*function)(void *argument), void *argument)
{
    lender *l = user;

    if (l->asked++ >= l->limit)
        return false;
    l->function = function;
    l->argument = argument;
    return pthread_create(&l->thread, NULL, run_lent, l) == 0;
}

/* The thread writes after the training has ended, and the file has the state at the time of the request. The copy's
 * memory is kept for the next checkpoint and not released while a writer uses it. */
static void test_a_late_writer(void **state)
{
    test_held_thread held = TEST_HELD_THREAD;
    char folder[TEST_FOLDER_BYTES];
    bg_checkpoint_writer *writer = NULL;
    bool is_written = false;
    rig r, other, whole;

    (void)state;
    test_folder_create(folder);
    open_rig_with(&r, test_held_thread_start, &held);
    train(&r, 1);
    assert_int_equal(bg_checkpoint_reserve_memory(r.session, &r.error), BG_OK);
    assert_non_null(r.session->room.memory);
    for (int turn = 0; turn < 2; turn++) {
        const void *memory = r.session->room.memory;
        assert_int_equal(bg_checkpoint_begin(r.session, folder, NULL, &writer, &r.error), BG_OK);
        assert_ptr_equal(r.session->room.memory, memory);
        assert_int_equal(bg_checkpoint_release_memory(r.session, &r.error), BG_OK);
        train(&r, 2);
        assert_int_equal(bg_checkpoint_is_written(writer, &is_written, &r.error), BG_OK);
        assert_false(is_written);
        test_held_thread_release(&held);
        assert_int_equal(bg_checkpoint_finish(writer, &r.error), BG_OK);
        test_held_thread_join(&held);
        assert_non_null(r.session->room.memory);
        open_rig(&other);
        assert_int_equal(bg_checkpoint_load(other.session, folder, NULL, NULL, &other.error), BG_OK);
        open_rig(&whole);
        train(&whole, 1 + 2 * turn);
        expect_same(&whole, &other);
        train(&other, 2);
        expect_same(&r, &other);
        close_rig(&whole);
        close_rig(&other);
    }
    assert_int_equal(bg_checkpoint_release_memory(r.session, &r.error), BG_OK);
    assert_null(r.session->room.memory);
    close_rig(&r);
    test_folder_remove(folder);
}

/* The program lends a thread to the writer; if it lends no thread, the failure is reported at the end. A plain save
 * needs no thread. */
static void test_lent_thread(void **state)
{
    lender l = {.limit = 1};
    char folder[TEST_FOLDER_BYTES];
    bg_checkpoint_writer *writer = NULL;
    rig r, other;

    (void)state;
    test_folder_create(folder);
    open_rig_with(&r, lend_thread, &l);
    train(&r, 1);
    assert_int_equal(l.asked, 0); /* a session of one worker */
    assert_int_equal(bg_checkpoint_begin(r.session, folder, NULL, &writer, &r.error), BG_OK);
    assert_int_equal(bg_checkpoint_finish(writer, &r.error), BG_OK);
    assert_true(l.asked >= 1);
    pthread_join(l.thread, NULL);
    open_rig(&other);
    assert_int_equal(bg_checkpoint_load(other.session, folder, NULL, NULL, &other.error), BG_OK);
    expect_same(&r, &other);
    train(&r, 1);
    assert_int_equal(bg_checkpoint_begin(r.session, folder, NULL, &writer, &r.error), BG_OK);
    assert_int_equal(bg_checkpoint_finish(writer, &r.error), BG_ERROR_IO);
    assert_non_null(strstr(r.error.message, "start_thread refused a thread"));
    assert_int_equal(bg_checkpoint_save(r.session, folder, NULL, &r.error), BG_OK);
    assert_int_equal(bg_checkpoint_load(other.session, folder, NULL, NULL, &other.error), BG_OK);
    expect_same(&r, &other);
    close_rig(&other);
    close_rig(&r);
    test_folder_remove(folder);
}

/* Of nine checkpoints, all except one have losses. In addition to the newest, the two best are kept; of two with equal
 * losses, the earlier is better. A checkpoint with another metric starts a new comparison. */
static void test_best_ones(void **state)
{
    static const double losses[] = {0.9, 0.4, 0.7, 0.4, -1.0, 0.5, 0.3, 0.8};
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    char folder[TEST_FOLDER_BYTES], path[PATH_BYTES];
    bg_checkpoint_writer *writer = NULL;
    rig r;

    (void)state;
    options.keep_best = 2;
    test_folder_create(folder);
    open_rig(&r);
    for (uint64_t step = 1; step <= 8; step++) {
        char name[] = "validation loss";
        train(&r, 1);
        options.metric_name = step == 5 ? NULL : name;
        options.metric = step == 8 ? NAN : losses[step - 1];
        if (step % 2 == 0) {
            assert_int_equal(bg_checkpoint_save(r.session, folder, &options, &r.error), BG_OK);
        } else {
            assert_int_equal(bg_checkpoint_begin(r.session, folder, &options, &writer, &r.error), BG_OK);
            memset(name, 'x', sizeof name - 1); /* the string was valid only during the call */
            assert_int_equal(bg_checkpoint_finish(writer, &r.error), BG_OK);
        }
        /* up to step 2 all checkpoints are kept, later the newest and the two best */
        for (uint64_t old = 1; old <= step; old++) {
            const bool is_best = step <= 2   ? true
                                 : step == 3 ? old == 2 || old == 3
                                 : step <= 6 ? old == 2 || old == 4
                                             : old == 2 || old == 7;
            assert_int_equal(bgi_file_exists(path_of(folder, old, path)), old == step || is_best);
        }
    }
    train(&r, 1);
    options.metric_name = "accuracy";
    options.metric = 0.1;
    options.metric_rises = true;
    assert_int_equal(bg_checkpoint_save(r.session, folder, &options, &r.error), BG_OK);
    assert_int_equal(test_folder_count(folder), 1);
    train(&r, 1);
    options.metric = 0.05;
    options.keep_best = 1;
    assert_int_equal(bg_checkpoint_save(r.session, folder, &options, &r.error), BG_OK);
    assert_true(bgi_file_exists(path_of(folder, 9, path)) && bgi_file_exists(path_of(folder, 10, path)));
    train(&r, 1);
    options.metric = 0.2;
    assert_int_equal(bg_checkpoint_save(r.session, folder, &options, &r.error), BG_OK);
    assert_int_equal(test_folder_count(folder), 1);
    options.metric_name = "";
    assert_int_equal(bg_checkpoint_save(r.session, folder, &options, &r.error), BG_ERROR_INVALID);
    close_rig(&r);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writing_beside_training), cmocka_unit_test(test_a_folder_that_cannot_be_written),
        cmocka_unit_test(test_older_ones_by_time),      cmocka_unit_test(test_lent_thread),
        cmocka_unit_test(test_a_late_writer),           cmocka_unit_test(test_best_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
