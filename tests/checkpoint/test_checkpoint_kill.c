/*
 * test_checkpoint_kill.c: repeatedly kills a trainer that saves after every update, at random times. The last
 * checkpoint equals that of a trainer that was never killed, byte for byte.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <brigade/checkpoint.h>

#include "core/file.h"
#include "core/random.h"
#include "support/folder.h"
#include "support/train.h"

enum { UPDATES = 40, MICRO_BATCH = 4, ACCUMULATION = 3, MOST_INPUTS = 4, LONGEST_LIFE_US = 60000 };

static bg_options run_options(void)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = BG_STRATEGY_PIPELINED;
    options.execution.stages = "B1|B2|B3|B4";
    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.cores = 2;
    options.numerics.seed = 5;
    return options;
}

/* Trains from the checkpoint to the end; the caller's blob must match the weights. */
static bg_status train(bg_session *session, const char *directory, bg_error *error)
{
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    bg_checkpoint_load_options load = bg_checkpoint_load_defaults();
    const void *parts[MOST_INPUTS] = {0};
    unsigned char *inputs[MOST_INPUTS] = {0};
    bg_stream streams[MOST_INPUTS];
    void *outputs[MOST_INPUTS] = {0};
    bg_checkpoint found = {0};
    uint64_t position = 0;
    bg_status status;

    load.differences = BG_CHECKPOINT_REFUSE;
    status = bg_checkpoint_load(session, directory, &load, &found, error);
    if (status == BG_ERROR_NOT_FOUND)
        bg_error_clear(error);
    else if (status != BG_OK)
        return status;
    if (found.blob_bytes == sizeof position)
        memcpy(&position, found.blob, sizeof position);
    if (position != bg_session_step(session) || (found.info != NULL && strcmp(found.info, "killed often") != 0))
        return bg_error_set(error, BG_ERROR_INTERNAL, "step %" PRIu64 " came with the data of step %" PRIu64,
                            bg_session_step(session), position);
    bg_checkpoint_clear(&found);
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        bg_session_input(session, i, &streams[i], NULL);
        inputs[i] = test_model_input(&streams[i].micro_batch_type, streams[i].name, UPDATES * ACCUMULATION);
    }
    options.max_checkpoints = 2;
    options.blob = &position;
    options.blob_bytes = sizeof position;
    options.info = "killed often";
    for (status = BG_OK; position < UPDATES && status == BG_OK;) {
        for (uint32_t i = 0; i < bg_session_input_count(session); i++)
            parts[i] = inputs[i] + position * streams[i].size_bytes;
        status = bg_session_run(session, parts, outputs, error);
        position = bg_session_step(session);
        if (status == BG_OK)
            status = bg_checkpoint_save(session, directory, &options, error);
    }
    /* Another save cleans up after a run that was killed between its last checkpoint and the removal of older ones. */
    if (status == BG_OK)
        status = bg_checkpoint_save(session, directory, &options, error);
    for (uint32_t i = 0; i < MOST_INPUTS; i++)
        free(inputs[i]);
    return status;
}

static bg_status run_trainer(const char *directory, bg_error *error)
{
    const bg_options options = run_options();
    const bg_optimizer optimizer = bg_adamw(0.003);
    bg_plan *plan = test_train_plan(test_model_at(3), MICRO_BATCH, &optimizer, &options, "trainer");
    bg_session *session = NULL;
    bg_status status = bg_session_create(plan, NULL, &session, error);

    if (status == BG_OK)
        status = train(session, directory, error);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    return status;
}

static pid_t start_trainer(const char *directory)
{
    const pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        bg_error error = {0};
        const bg_status status = run_trainer(directory, &error);
        if (status != BG_OK)
            fprintf(stderr, "trainer: %s\n", error.message);
        _exit(status == BG_OK ? 0 : 1);
    }
    return child;
}

static char *load_last(const char *directory, size_t *size_bytes)
{
    char path[128], *content = NULL;
    bg_error error = {0};

    snprintf(path, sizeof path, "%s/checkpoint_train_step_%d.safetensors", directory, UPDATES);
    if (bgi_file_load(path, (size_t)1 << 26, &content, size_bytes, &error) != BG_OK)
        fail_msg("%s", error.message);
    return content;
}

/* Waits for a trainer, and compares its results if it reached the end. Returns true if it was killed before that. */
static bool was_killed(pid_t child, const char *directory, const char *expected, size_t expected_bytes)
{
    size_t size_bytes = 0;
    int status = 0;
    char *found;

    assert_true(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the trainer failed after a kill: status %d", status);
    found = load_last(directory, &size_bytes);
    assert_int_equal(size_bytes, expected_bytes);
    assert_memory_equal(found, expected, size_bytes);
    free(found);
    /* The two newest checkpoints remain, and no incomplete file. */
    assert_int_equal(test_folder_count(directory), 2);
    return false;
}

static void test_kills(void **state)
{
    const int wanted = getenv("BRIGADE_TEST_ALL") != NULL ? 50 : getenv("BRIGADE_TEST_QUICK") != NULL ? 3 : 10;
    char whole[TEST_FOLDER_BYTES], directory[TEST_FOLDER_BYTES];
    bgi_random random = bgi_random_make((uint64_t)time(NULL), (uint64_t)getpid());
    size_t expected_bytes = 0;
    char *expected;
    int kills = 0, status = 0;
    (void)state;

    test_folder_create(whole);
    test_folder_create(directory);
    assert_true(waitpid(start_trainer(whole), &status, 0) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    expected = load_last(whole, &expected_bytes);
    for (bool is_killed = true; kills < wanted || is_killed;) {
        const pid_t child = start_trainer(directory);
        const struct timespec life = {.tv_nsec = 1000 * (long)bgi_random_below(&random, LONGEST_LIFE_US)};
        if (kills < wanted) {
            nanosleep(&life, NULL);
            kill(child, SIGKILL);
        }
        is_killed = was_killed(child, directory, expected, expected_bytes);
        kills += is_killed;
        /* A trainer that ended before it could be killed begins again. */
        if (!is_killed && kills < wanted) {
            test_folder_remove(directory);
            test_folder_create(directory);
        }
    }
    free(expected);
    test_folder_remove(whole);
    test_folder_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kills)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
