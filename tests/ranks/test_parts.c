/*
 * test_parts.c: tests checkpoints that several ranks write in parts. One process, and ranks with another strategy, load
 * them from one folder and from several. Incomplete, damaged or missing parts give the same error on all ranks.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <brigade.h>

#include "checkpoint/checkpoint.h"
#include "plan/plan.h"
#include "ranks/wrap.h"
#include "runtime/state.h"
#include "support/folder.h"
#include "support/held_thread.h"
#include "support/models.h"

enum { MICRO_BATCH = 4, PATH_BYTES = 128 };

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_error error;
} rig;

static uint32_t own_rank(void)
{
    return test_ranks_transport()->rank;
}

/* Opens a rig. `held` lends the thread that writes checkpoints; if `held` is NULL, the library creates the thread. */
static void open_rig_with(rig *r, bg_strategy strategy, bool is_alone, test_held_thread *held)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_options options = bg_options_defaults();
    bg_value loss;

    memset(r, 0, sizeof *r);
    options.execution.strategy = strategy;
    if (strategy != BG_STRATEGY_SINGLE)
        options.execution.stages = "B1|B2|B3|B4";
    options.execution.gradient_accumulation = 2;
    options.execution.cores = 1;
    options.execution.wait_limit_s = 20.0;
    options.execution.start_thread = held != NULL ? test_held_thread_start : NULL;
    options.execution.start_thread_user = held;
    assert_int_equal(bg_graph_create(&r->graph, &r->error), BG_OK);
    loss = test_model_at(0)->build(r->graph, MICRO_BATCH);
    assert_int_equal(bg_plan_create_training(r->graph, loss, &optimizer, &options, &r->plan, &r->error), BG_OK);
    if (is_alone)
        r->plan->options.execution.transport = NULL;
    if (bg_session_create(r->plan, NULL, &r->session, &r->error) != BG_OK)
        fail_msg("%s", r->error.message);
}

static void open_rig(rig *r, bg_strategy strategy, bool is_alone)
{
    open_rig_with(r, strategy, is_alone, NULL);
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
        unsigned char *data[4] = {NULL};
        void *outputs[4] = {NULL};

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

/* Copies all values, one after the other. */
static size_t copy_values(rig *r, unsigned char **out)
{
    bg_weights *weights = bg_session_weights(r->session);
    size_t size = 0;

    *out = NULL;
    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        size_t bytes;
        assert_int_equal(bg_weights_at(weights, i, &weight, NULL), BG_OK);
        bytes = bg_type_size_bytes(&weight.type);
        *out = realloc(*out, size + bytes);
        memcpy(*out + size, weight.data, bytes);
        size += bytes;
    }
    return size;
}

/* Compares the weights of two rigs by name. */
static void expect_same(rig *a, rig *b)
{
    bg_weights *first = bg_session_weights(a->session), *second = bg_session_weights(b->session);

    assert_int_equal(bg_weights_count(first), bg_weights_count(second));
    for (uint32_t i = 0; i < bg_weights_count(first); i++) {
        bg_weight x, y;
        void *kept;
        assert_int_equal(bg_weights_at(first, i, &x, NULL), BG_OK);
        kept = malloc(bg_type_size_bytes(&x.type));
        memcpy(kept, x.data, bg_type_size_bytes(&x.type));
        assert_int_equal(bg_weights_find(second, x.name, &y, NULL), BG_OK);
        assert_memory_equal(kept, y.data, bg_type_size_bytes(&x.type));
        free(kept);
    }
    assert_int_equal(bg_session_step(a->session), bg_session_step(b->session));
}

/* Writes the path of one folder for all ranks, or of a separate folder for this rank. Rank 0 is the parent of the
 * others. */
static const char *folder_of(char path[PATH_BYTES], const char *name, bool is_shared)
{
    snprintf(path, PATH_BYTES, "/tmp/brigade-parts-%ld-%s-%u", (long)(own_rank() == 0 ? getpid() : getppid()), name,
             is_shared ? 0 : own_rank());
    return path;
}

/* Waits for all ranks. */
static void meet(const rig *r)
{
    assert_int_equal(bgi_session_settle(r->session, BG_OK, NULL), BG_OK);
}

static uint32_t count_files(const char *folder, const char *words)
{
    DIR *directory = opendir(folder);
    uint32_t count = 0;

    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        count += strstr(entry->d_name, words) != NULL;
    if (directory != NULL)
        closedir(directory);
    return count;
}

static void save(rig *r, const char *folder, uint32_t most)
{
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();

    options.max_checkpoints = most;
    options.info = "parts";
    if (bg_checkpoint_save(r->session, folder, &options, &r->error) != BG_OK)
        fail_msg("%s", r->error.message);
}

static void load(rig *r, const char *folder)
{
    bg_checkpoint found = {0};

    if (bg_checkpoint_load(r->session, folder, NULL, &found, &r->error) != BG_OK)
        fail_msg("%s", r->error.message);
    assert_string_equal(found.info, "parts");
    bg_checkpoint_clear(&found);
}

/* ---- saving and loading ---- */

static void from_ranks_to_anything(void **state)
{
    char folder[PATH_BYTES];
    rig whole, half, other;

    (void)state;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        folder_of(folder, "any", is_shared);
        open_rig(&whole, BG_STRATEGY_PIPELINED, false);
        train(&whole, 5);
        open_rig(&half, BG_STRATEGY_PIPELINED, false);
        train(&half, 3);
        save(&half, folder, 1);
        assert_int_equal(count_files(folder, ".part-"), is_shared ? 2 : 1);
        open_rig(&other, BG_STRATEGY_SHARDED, false);
        load(&other, folder);
        expect_same(&half, &other);
        train(&other, 2);
        expect_same(&whole, &other);
        close_rig(&other);
        if (is_shared) {
            open_rig(&other, BG_STRATEGY_SINGLE, true);
            load(&other, folder);
            train(&other, 2);
            expect_same(&whole, &other);
            close_rig(&other);
        }
        meet(&half);
        close_rig(&half);
        close_rig(&whole);
        if (!is_shared || own_rank() == 0)
            test_folder_remove(folder);
    }
}

/* Loads a file that one process saved, and one that ranks saved together. */
static void from_one_file_to_ranks(void **state)
{
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    char folder[PATH_BYTES];
    rig alone, together, other;

    (void)state;
    folder_of(folder, "one", false);
    open_rig(&alone, BG_STRATEGY_SINGLE, true);
    train(&alone, 2);
    save(&alone, folder, 1);
    assert_int_equal(count_files(folder, ".part-"), 0);
    open_rig(&together, BG_STRATEGY_PIPELINED, false);
    load(&together, folder);
    expect_same(&together, &alone);
    train(&together, 1);
    options.one_file = true;
    folder_of(folder, "one", true);
    assert_int_equal(bg_checkpoint_save(together.session, folder, &options, &together.error), BG_OK);
    assert_int_equal(count_files(folder, ".part-"), 0);
    open_rig(&other, BG_STRATEGY_SINGLE, true);
    assert_int_equal(bg_checkpoint_load(other.session, folder, NULL, NULL, &other.error), BG_OK);
    expect_same(&together, &other);
    meet(&together);
    close_rig(&other);
    close_rig(&alone);
    close_rig(&together);
    test_folder_remove(folder_of(folder, "one", false));
}

/* Each rank copies its own part, and training continues; the thread that writes the copy begins after that. */
static void writing_beside_training(void **state)
{
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    test_held_thread held = TEST_HELD_THREAD;
    bg_checkpoint_writer *writer = NULL;
    char folder[PATH_BYTES];
    bool is_written = false;
    rig whole, half, other;

    (void)state;
    folder_of(folder, "beside", true);
    options.info = "parts";
    open_rig(&whole, BG_STRATEGY_PIPELINED, false);
    train(&whole, 3);
    open_rig_with(&half, BG_STRATEGY_PIPELINED, false, &held);
    train(&half, 3);
    assert_int_equal(bg_checkpoint_reserve_memory(half.session, &half.error), BG_OK);
    assert_int_equal(bg_checkpoint_begin(half.session, folder, &options, &writer, &half.error), BG_OK);
    train(&half, 2);
    assert_int_equal(bg_checkpoint_is_written(writer, &is_written, &half.error), BG_OK);
    assert_false(is_written);
    test_held_thread_release(&held);
    while (!is_written)
        assert_int_equal(bg_checkpoint_is_written(writer, &is_written, &half.error), BG_OK);
    assert_int_equal(bg_checkpoint_finish(writer, &half.error), BG_OK);
    test_held_thread_join(&held);
    open_rig(&other, BG_STRATEGY_PIPELINED, false);
    load(&other, folder);
    expect_same(&whole, &other);
    meet(&half);
    options.one_file = true;
    assert_int_equal(bg_checkpoint_begin(half.session, folder, &options, &writer, &half.error), BG_ERROR_INVALID);
    close_rig(&other);
    close_rig(&half);
    close_rig(&whole);
    if (own_rank() == 0)
        test_folder_remove(folder);
}

/* ---- the files of checkpoints ---- */

static void older_parts_go(void **state)
{
    char folder[PATH_BYTES], path[2 * PATH_BYTES];
    FILE *stream;
    rig r;

    (void)state;
    folder_of(folder, "old", true);
    open_rig(&r, BG_STRATEGY_PIPELINED, false);
    for (int step = 1; step <= 4; step++) {
        train(&r, 1);
        save(&r, folder, 2);
        assert_int_equal(count_files(folder, ".part-"), step == 1 ? 2 : 4);
        meet(&r);
        if (step == 2 && own_rank() == 0) { /* a part of a run that was killed before it wrote its manifest */
            snprintf(path, sizeof path, "%s/checkpoint_train_step_9.01234567.part-00000-of-00002.safetensors", folder);
            stream = fopen(path, "w");
            assert_non_null(stream);
            fclose(stream);
        }
        meet(&r);
    }
    assert_int_equal(count_files(folder, ""), 4 + 2 + 2); /* parts, manifests, "." and ".." */
    save(&r, folder, 2);                                  /* the same step again, whose parts have other names */
    assert_int_equal(count_files(folder, ".part-"), 4);
    meet(&r);
    close_rig(&r);
    if (own_rank() == 0)
        test_folder_remove(folder);
}

/* A write failure on one rank is an error on all, and no file of that checkpoint remains. */
static void a_rank_that_cannot_write(void **state)
{
    char folder[PATH_BYTES];
    FILE *stream;
    rig r;

    (void)state;
    folder_of(folder, "bad", false);
    open_rig(&r, BG_STRATEGY_PIPELINED, false);
    train(&r, 1);
    save(&r, folder, 1);
    if (own_rank() == 1) { /* a file with the folder's name makes writing fail */
        test_folder_remove(folder);
        stream = fopen(folder, "w");
        assert_non_null(stream);
        fclose(stream);
    }
    train(&r, 1);
    assert_int_equal(bg_checkpoint_save(r.session, folder, NULL, &r.error), BG_ERROR_IO);
    assert_non_null(strstr(r.error.message, "rank 1: "));
    if (own_rank() == 0) {
        assert_int_equal(count_files(folder, "step_1."), 2);
        assert_int_equal(count_files(folder, "step_2."), 0);
    }
    bg_error_clear(&r.error);
    if (own_rank() == 1)
        remove(folder);
    meet(&r);
    save(&r, folder, 1); /* the next checkpoint succeeds */
    close_rig(&r);
    test_folder_remove(folder);
}

/* ---- errors ---- */

/* Finds the path of a rank's part. */
static void find_part(const char *folder, uint32_t rank, char path[3 * PATH_BYTES])
{
    DIR *directory = opendir(folder);
    char words[32];

    path[0] = '\0';
    snprintf(words, sizeof words, ".part-%05u", rank);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        if (strstr(entry->d_name, words) != NULL)
            snprintf(path, 3 * PATH_BYTES, "%s/%.200s", folder, entry->d_name);
    if (directory != NULL)
        closedir(directory);
}

static void expect_refusal(rig *r, const char *folder, const char *words)
{
    unsigned char *before, *after;
    const size_t size = copy_values(r, &before);

    assert_int_equal(bg_checkpoint_load(r->session, folder, NULL, NULL, &r->error), BG_ERROR_PARSE);
    if (strstr(r->error.message, words) == NULL)
        fail_msg("`%s` does not say `%s`", r->error.message, words);
    bg_error_clear(&r->error);
    assert_int_equal(copy_values(r, &after), size);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
}

static void damage_is_told_by_all(void **state)
{
    char folder[PATH_BYTES], path[3 * PATH_BYTES];
    FILE *stream;
    rig r;
    int byte;

    (void)state;
    folder_of(folder, "damage", false);
    open_rig(&r, BG_STRATEGY_PIPELINED, false);
    train(&r, 2);
    save(&r, folder, 1);
    find_part(folder, 1, path);
    if (own_rank() == 1) {
        stream = fopen(path, "r+b");
        assert_non_null(stream);
        fseek(stream, -1, SEEK_END);
        byte = fgetc(stream);
        fseek(stream, -1, SEEK_END);
        fputc(byte ^ 1, stream);
        fclose(stream);
    }
    meet(&r);
    expect_refusal(&r, folder, "part-00001-of-00002.safetensors`: the checksum is");
    if (own_rank() == 1)
        assert_int_equal(truncate(path, 100), 0);
    meet(&r);
    expect_refusal(&r, folder, "rank 1: ");
    if (own_rank() == 1)
        remove(path);
    meet(&r);
    expect_refusal(&r, folder, "part 1 of 2, `checkpoint_train_step_2.");
    close_rig(&r);
    test_folder_remove(folder);
}

/* A rank whose folder is empty gets all values from the others. */
static void a_rank_without_files(void **state)
{
    char folder[PATH_BYTES], part[3 * PATH_BYTES], there[3 * PATH_BYTES];
    rig r, other;

    (void)state;
    folder_of(folder, "none", true);
    open_rig(&r, BG_STRATEGY_PIPELINED, false);
    train(&r, 2);
    save(&r, folder, 1);
    meet(&r);
    folder_of(part, "none", false);
    snprintf(there, sizeof there, "%s", own_rank() == 0 ? folder : part);
    open_rig(&other, BG_STRATEGY_SHARDED, false);
    load(&other, there);
    expect_same(&r, &other);
    close_rig(&other);
    meet(&r);
    assert_int_equal(bg_checkpoint_load(r.session, "/tmp/brigade-no-such-folder", NULL, NULL, &r.error),
                     BG_ERROR_NOT_FOUND);
    close_rig(&r);
    if (own_rank() == 0)
        test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_ranks_to_anything),   cmocka_unit_test(from_one_file_to_ranks),
        cmocka_unit_test(writing_beside_training),  cmocka_unit_test(older_parts_go),
        cmocka_unit_test(a_rank_that_cannot_write), cmocka_unit_test(damage_is_told_by_all),
        cmocka_unit_test(a_rank_without_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
