/*
 * test_memmap.c: remote buffers in files give the same bits as those in memory, within a session and from one session
 * to the next. Files that are opened read-only do not change. Files that are damaged, incomplete, in use or from
 * another plan give one clear error and are not used.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <brigade/checkpoint.h>

#include "core/file.h"
#include "runtime/memmap.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "support/allocations.h"
#include "support/folder.h"
#include "support/train.h"

enum { STOP = 2, UPDATES = 4, MICRO_BATCH = 4, PATH_BYTES = 128, FILE_LIMIT = 1 << 26 };

typedef struct way {
    bg_strategy strategy;
    const char *stages;
    uint32_t replicas;
    bool is_sharded;
    unsigned model, classes; /* bit k of `classes`: the tensors of bg_location k are remote */
} way;

static const way ways[] = {{BG_STRATEGY_PHASED, "B1@0|B2@0|B3@0|B4@0", 1, false, 2, 15},
                           {BG_STRATEGY_PHASED, "B1@0|B2@1|B3@0|B4@1", 2, true, 0, 15},
                           {BG_STRATEGY_PIPELINED, "B1|B2|B3|B4", 2, true, 2, 1u << BG_LOCATION_STATE},
                           {BG_STRATEGY_PIPELINED, "B1|B2,B3|B4", 1, false, 1, 1u << BG_LOCATION_WEIGHTS},
                           {BG_STRATEGY_SINGLE, NULL, 1, false, 0, 0}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static bg_options options_for(const way *w, const char *folder)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = w->strategy;
    options.execution.stages = w->stages;
    options.replicas.count = w->replicas;
    options.execution.cores = 2;
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

static bg_plan *plan_for(const way *w, const bg_options *options)
{
    const bg_optimizer optimizer = bg_adamw(0.003);

    return test_train_plan(test_model_at(w->model), MICRO_BATCH, &optimizer, options, "plan");
}

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static void append(test_result *r, const void *bytes, size_t size)
{
    r->bytes = realloc(r->bytes, r->size + size);
    assert_non_null(r->bytes);
    memcpy(r->bytes + r->size, bytes, size);
    r->size += size;
}

/* Makes updates first .. end - 1 of test_train's sequence; appends the losses. */
static void play(bg_session *session, const bg_options *options, uint32_t first, uint32_t end, test_result *out)
{
    const uint64_t samples = (uint64_t)UPDATES * options->execution.gradient_accumulation * options->replicas.count;
    unsigned char *inputs[4] = {0};
    void *outputs[8] = {0};
    bg_stream streams[4], loss;
    bg_error error = {0};
    uint32_t output = bg_session_find_output(session, "loss");

    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        require(bg_session_input(session, i, &streams[i], &error), &error);
        inputs[i] = test_model_input(&streams[i].micro_batch_type, streams[i].name, samples);
    }
    require(bg_session_output(session, output, &loss, &error), &error);
    outputs[output] = malloc(loss.size_bytes);
    for (uint32_t update = first; update < end; update++) {
        const void *parts[4] = {0};
        for (uint32_t i = 0; i < bg_session_input_count(session); i++)
            parts[i] = inputs[i] + update * streams[i].size_bytes;
        require(bg_session_run(session, parts, outputs, &error), &error);
        append(out, outputs[output], loss.size_bytes);
    }
    free(outputs[output]);
    for (int i = 0; i < 4; i++)
        free(inputs[i]);
}

static void append_weights(bg_session *session, test_result *out)
{
    bg_weights *weights = bg_session_weights(session);
    bg_error error = {0};

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        require(bg_weights_at(weights, i, &weight, &error), &error);
        append(out, weight.data, bg_type_size_bytes(&weight.type));
    }
}

/* Runs a whole session: makes updates, writes losses to `out`, and flushes the session with `note`; if `note` is NULL,
 * appends the weights instead.
 */
static void train(const way *w, const bg_options *options, uint32_t first, uint32_t end, const char *note,
                  test_result *out)
{
    bg_plan *plan = plan_for(w, options);
    bg_session *session = NULL;
    bg_error error = {0};

    require(bg_session_create(plan, NULL, &session, &error), &error);
    assert_int_equal(bg_session_step(session), first);
    play(session, options, first, end, out);
    if (note != NULL)
        require(bg_session_flush(session, note, &error), &error);
    else
        append_weights(session, out);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

static test_result expect(const way *w)
{
    const bg_options options = options_for(w, NULL);
    test_result r = {0};

    train(w, &options, 0, UPDATES, NULL, &r);
    return r;
}

/* Checks that creating a session with these options fails, and what the message contains. */
static void refuse(const way *w, const bg_options *options, bg_status status, const char *words)
{
    bg_plan *plan = plan_for(w, options);
    bg_session *session = NULL;
    bg_error error = {0};

    assert_int_equal(bg_session_create(plan, NULL, &session, &error), status);
    if (strstr(error.message, words) == NULL)
        fail_msg("`%s`, expected `%s`", error.message, words);
    assert_null(session);
    bg_plan_destroy(plan);
}

static void join(const char *folder, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

/* Returns the content of all files of the folder. */
static test_result read_files(const char *folder)
{
    static const char *const names[] = {BGI_MEMMAP_INDEX, "replica0.device0.store", "replica0.device1.store",
                                        "replica1.device0.store", "replica1.device1.store"};
    test_result r = {0};
    char path[PATH_BYTES], *data = NULL;
    size_t size = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        join(folder, names[i], path);
        if (bgi_file_load(path, FILE_LIMIT, &data, &size, NULL) != BG_OK)
            continue;
        append(&r, data, size);
        free(data);
    }
    return r;
}

/* ---- the same bits ---- */

static void sessions_go_on_with_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < WAYS; i++) {
        const test_result expected = expect(&ways[i]);
        char folder[TEST_FOLDER_BYTES];
        bg_options options;
        test_result found = {0}, same = {0};
        bg_session *session = NULL;
        bg_error error = {0};
        bg_plan *plan;

        test_folder_create(folder);
        options = options_for(&ways[i], folder);
        train(&ways[i], &options, 0, STOP, "after two", &found);
        plan = plan_for(&ways[i], &options);
        require(bg_session_create(plan, NULL, &session, &error), &error);
        assert_non_null(bg_session_note(session));
        assert_string_equal(bg_session_note(session), "after two");
        assert_int_equal(bg_session_step(session), STOP);
        play(session, &options, STOP, UPDATES, &found);
        append_weights(session, &found);
        bg_session_destroy(session);
        bg_plan_destroy(plan);
        test_train_expect(found, &expected, "in two sessions");
        test_folder_remove(folder);
        test_folder_create(folder);
        options.files.memmap_dir = folder;
        train(&ways[i], &options, 0, UPDATES, NULL, &same);
        test_train_expect(same, &expected, "in one session");
        free(expected.bytes);
        test_folder_remove(folder);
    }
}

/* Remote values have no copy in memory, and are read in place. */
static void values_have_one_place(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    bg_options options;
    bg_session *session = NULL;
    bg_error error = {0};
    uint32_t remote = 0;
    bg_plan *plan;

    (void)state;
    test_folder_create(folder);
    options = options_for(&ways[0], folder);
    plan = plan_for(&ways[0], &options);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (uint32_t v = 0; v < plan->variable_count; v++) {
        const uint32_t index = bgi_weights_index(bg_session_weights(session), plan->variables[v].name);
        const char *store = bgi_memmap_address(session->memmap, plan->variables[v].places[0].device);
        bg_weight weight;
        if (index == UINT32_MAX || plan->variables[v].places[0].operand.memory != BGI_MEMORY_REMOTE)
            continue;
        remote++;
        assert_null(bg_session_weights(session)->items[index].data);
        require(bg_weights_at(bg_session_weights(session), index, &weight, &error), &error);
        assert_ptr_equal(weight.data, store + plan->variables[v].places[0].operand.offset);
    }
    assert_true(remote > 10);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    assert_int_equal(test_folder_count(folder), 1); /* the lock: files that were never used are removed */
    test_folder_remove(folder);
}

/* ---- read-only ---- */

static void readers_leave_the_files_untouched(void **state)
{
    const way *w = &ways[1];
    const test_result expected = expect(w);
    test_result before, found = {0}, two = {0};
    char folder[TEST_FOLDER_BYTES];
    bg_options options;
    bg_session *other = NULL;
    bg_error error = {0};
    bg_plan *plan;

    (void)state;
    test_folder_create(folder);
    options = options_for(w, folder);
    train(w, &options, 0, STOP, "", &found);
    before = read_files(folder);
    options.files.memmap_mode = BG_MEMMAP_READ_ONLY;
    plan = plan_for(w, &options);
    require(bg_session_create(plan, NULL, &other, &error), &error); /* readers do not exclude each other */
    train(w, &options, STOP, UPDATES, NULL, &found);
    test_train_expect(found, &expected, "read only");
    require(bg_session_flush(other, "nothing", &error), &error);
    test_train_expect(read_files(folder), &before, "files");
    options.files.memmap_mode = BG_MEMMAP_CONTINUE;
    refuse(w, &options, BG_ERROR_INVALID, "in use by another session");
    bg_session_destroy(other);
    bg_plan_destroy(plan);
    train(w, &options, STOP, UPDATES, "", &two);
    free(two.bytes);
    free(before.bytes);
    free(expected.bytes);
    test_folder_remove(folder);
}

static void readers_of_nothing_write_nothing(void **state)
{
    const test_result expected = expect(&ways[0]);
    char folder[TEST_FOLDER_BYTES], path[PATH_BYTES];
    bg_options options;
    test_result found = {0}, again = {0};

    (void)state;
    test_folder_create(folder);
    join(folder, "none", path);
    options = options_for(&ways[0], path);
    options.files.memmap_mode = BG_MEMMAP_READ_ONLY;
    train(&ways[0], &options, 0, UPDATES, NULL, &found);
    test_train_expect(found, &expected, "without a folder");
    assert_int_equal(test_folder_count(folder), 0);
    options.files.memmap_dir = folder;
    train(&ways[0], &options, 0, UPDATES, NULL, &again);
    test_train_expect(again, &expected, "in an empty folder");
    assert_int_equal(test_folder_count(folder), 0);
    free(expected.bytes);
    test_folder_remove(folder);
}

/* ---- unusable files ---- */

static void runs_that_did_not_end_are_refused(void **state)
{
    const way *w = &ways[0];
    char folder[TEST_FOLDER_BYTES];
    bg_options options;
    test_result r = {0};

    (void)state;
    test_folder_create(folder);
    options = options_for(w, folder);
    train(w, &options, 0, STOP, NULL, &r);
    refuse(w, &options, BG_ERROR_INVALID, "did not end properly");
    options.files.memmap_mode = BG_MEMMAP_READ_ONLY;
    refuse(w, &options, BG_ERROR_INVALID, "did not end properly");
    options.files.memmap_mode = BG_MEMMAP_RENEW;
    train(w, &options, 0, STOP, "", &r);
    train(w, &options, STOP, UPDATES, "", &r); /* files of a complete run are not renewed */
    free(r.bytes);
    test_folder_remove(folder);
    /* After a second run that does not end properly, the index of the first run is gone. */
    r = (test_result){0};
    test_folder_create(folder);
    options = options_for(w, folder);
    train(w, &options, 0, STOP, "", &r);
    train(w, &options, STOP, UPDATES, NULL, &r);
    refuse(w, &options, BG_ERROR_INVALID, "did not end properly");
    free(r.bytes);
    test_folder_remove(folder);
}

/* Stores with an index of version 0.1 are not treated as those of a failed run, and are renewed only on request. */
static void an_index_of_an_earlier_release_is_refused(void **state)
{
    const way *w = &ways[0];
    char folder[TEST_FOLDER_BYTES], path[PATH_BYTES], other[PATH_BYTES];
    bg_options options;
    test_result r = {0};

    (void)state;
    test_folder_create(folder);
    options = options_for(w, folder);
    train(w, &options, 0, STOP, "", &r);
    join(folder, BGI_MEMMAP_INDEX, path);
    join(folder, "index.safetensors", other);
    assert_int_equal(rename(path, other), 0);
    refuse(w, &options, BG_ERROR_UNSUPPORTED, "is an index of Brigade 0.1");
    options.files.memmap_mode = BG_MEMMAP_RENEW;
    free(r.bytes);
    r = (test_result){0};
    train(w, &options, 0, STOP, "", &r);
    assert_int_not_equal(access(other, F_OK), 0);
    free(r.bytes);
    test_folder_remove(folder);
}

static void sessions_exclude_each_other(void **state)
{
    const way *w = &ways[0];
    char folder[TEST_FOLDER_BYTES];
    bg_options options;
    bg_session *session = NULL;
    bg_error error = {0};
    bg_plan *plan;

    (void)state;
    test_folder_create(folder);
    options = options_for(w, folder);
    plan = plan_for(w, &options);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    refuse(w, &options, BG_ERROR_INVALID, "in use by another session");
    bg_session_destroy(session);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    test_folder_remove(folder);
}

/* Checks that a file with one changed byte is refused, and restores the byte. */
static void refuse_damage(const way *w, const bg_options *options, const char *path, long at, const char *words)
{
    const int file = open(path, O_RDWR);
    unsigned char byte, changed;

    assert_int_equal(pread(file, &byte, 1, at), 1);
    changed = byte ^ 0x10;
    assert_int_equal(pwrite(file, &changed, 1, at), 1);
    refuse(w, options, BG_ERROR_PARSE, words);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

static void damage_is_refused(void **state)
{
    const way *w = &ways[1];
    char folder[TEST_FOLDER_BYTES], elsewhere[TEST_FOLDER_BYTES];
    char path[PATH_BYTES], other[PATH_BYTES], third[PATH_BYTES];
    bg_options options, another;
    test_result r = {0}, before;
    struct stat facts;

    (void)state;
    test_folder_create(folder);
    options = options_for(w, folder);
    train(w, &options, 0, STOP, "note", &r);
    before = read_files(folder);
    join(folder, BGI_MEMMAP_INDEX, path);
    assert_int_equal(stat(path, &facts), 0);
    for (long at = 0; at < (long)facts.st_size; at += 1 + (long)facts.st_size / 16)
        refuse_damage(w, &options, path, at, "it is not used");
    join(folder, "replica1.device1.store", path);
    for (long at = 0; at < 64; at += 5)
        refuse_damage(w, &options, path, at, "replica1.device1.store");
    assert_int_equal(stat(path, &facts), 0);
    join(folder, "away", other);
    assert_int_equal(rename(path, other), 0);
    refuse(w, &options, BG_ERROR_PARSE, "is missing");
    join(folder, "replica0.device1.store", third);
    assert_int_equal(link(third, path), 0);
    refuse(w, &options, BG_ERROR_PARSE, "does not belong to the index in the same directory");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(other, path), 0);
    test_train_expect(read_files(folder), &before, "files that were refused");
    /* The store belongs to the same plan and step, but to another training. */
    test_folder_create(elsewhere);
    another = options_for(w, elsewhere);
    free(r.bytes);
    r = (test_result){0};
    train(w, &another, 0, STOP, "note", &r);
    assert_int_equal(rename(path, other), 0);
    join(elsewhere, "replica1.device1.store", third);
    assert_int_equal(rename(third, path), 0);
    refuse(w, &options, BG_ERROR_PARSE, "does not belong to the index in the same directory");
    assert_int_equal(rename(other, path), 0);
    test_folder_remove(elsewhere);
    assert_int_equal(truncate(path, facts.st_size - 1), 0);
    refuse(w, &options, BG_ERROR_PARSE, "is truncated");
    free(before.bytes);
    free(r.bytes);
    test_folder_remove(folder);
}

static void other_plans_are_refused(void **state)
{
    const way *w = &ways[1];
    char folder[TEST_FOLDER_BYTES];
    bg_options options, other;
    way larger = *w;
    test_result r = {0};

    (void)state;
    test_folder_create(folder);
    options = options_for(w, folder);
    train(w, &options, 0, STOP, "", &r);
    other = options;
    other.execution.stages = "B1@0|B2@0|B3@0|B4@0";
    refuse(w, &other, BG_ERROR_INVALID, "belongs to another plan");
    larger.model = 3;
    refuse(&larger, &options, BG_ERROR_INVALID, "belongs to another plan");
    train(w, &options, STOP, UPDATES, "", &r);
    free(r.bytes);
    test_folder_remove(folder);
}

/* LAMB's state has the same names as AdamW's, but only the plan that made the files can resume from them. */
static void another_optimizer_is_refused(void **state)
{
    const bg_optimizer lamb = bg_lamb(0.003);
    const way *w = &ways[1];
    char folder[TEST_FOLDER_BYTES];
    bg_options options;
    bg_session *session = NULL;
    test_result r = {0};
    bg_error error = {0};
    bg_plan *plan;

    (void)state;
    test_folder_create(folder);
    options = options_for(w, folder);
    train(w, &options, 0, STOP, "", &r);
    plan = test_train_plan(test_model_at(w->model), MICRO_BATCH, &lamb, &options, "lamb");
    assert_int_equal(bg_session_create(plan, NULL, &session, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "has the state of optimizer `adamw`, but the plan trains with `lamb`"));
    bg_plan_destroy(plan);
    train(w, &options, STOP, UPDATES, "", &r);
    /* After BG_MEMMAP_RENEW the files are LAMB's. */
    options.files.memmap_mode = BG_MEMMAP_RENEW;
    plan = test_train_plan(test_model_at(w->model), MICRO_BATCH, &lamb, &options, "lamb");
    bg_error_clear(&error);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    assert_null(bg_session_note(session));
    require(bg_session_flush(session, "", &error), &error);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    options.files.memmap_mode = BG_MEMMAP_CONTINUE;
    refuse(w, &options, BG_ERROR_INVALID, "has the state of optimizer `lamb`, but the plan trains with `adamw`");
    free(r.bytes);
    test_folder_remove(folder);
}

/* A limit on the size of files simulates a full disk. */
static void a_full_disk_is_an_error_before_the_run(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    struct rlimit usual, small;
    bg_options options;

    (void)state;
    test_folder_create(folder);
    options = options_for(&ways[0], folder);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    small = usual;
    small.rlim_cur = 8192;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    refuse(&ways[0], &options, BG_ERROR_IO, "MB are free there");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    assert_int_equal(test_folder_count(folder), 1);
    test_folder_remove(folder);
}

static void foreign_files_are_not_overwritten(void **state)
{
    char folder[TEST_FOLDER_BYTES], path[PATH_BYTES];
    bg_options options;

    (void)state;
    test_folder_create(folder);
    options = options_for(&ways[0], folder);
    options.files.memmap_mode = BG_MEMMAP_RENEW;
    join(folder, "replica0.device0.store", path);
    require(bgi_file_save(path, "a letter to somebody", 20, NULL), &(bg_error){.message = "no file"});
    refuse(&ways[0], &options, BG_ERROR_INVALID, "is not overwritten");
    options.files.memmap_mode = BG_MEMMAP_CONTINUE;
    refuse(&ways[0], &options, BG_ERROR_INVALID, "did not end properly");
    assert_true(bgi_file_exists(path));
    test_folder_remove(folder);
}

/* Each allocation fails once; the folder then has no files or the previous files, and no temporary files. */
static void out_of_memory_is_an_error(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    bg_options options;
    test_result losses = {0};
    bg_session *session = NULL;
    bg_error error = {0};
    bg_plan *plan;
    int64_t live;
    bool has_failed = true;

    (void)state;
    if (!test_allocations_available())
        skip();
    test_folder_create(folder);
    options = options_for(&ways[1], folder);
    plan = plan_for(&ways[1], &options);
    live = test_allocations_live();
    for (uint64_t n = 1; has_failed; n++) {
        test_allocations_fail(n);
        const bg_status status = bg_session_create(plan, NULL, &session, NULL);
        has_failed = test_allocations_have_failed();
        test_allocations_fail(0);
        if (status == BG_OK)
            bg_session_destroy(session);
        else
            assert_int_equal(status, BG_ERROR_MEMORY);
        assert_true(test_folder_count(folder) <= 1);
        if (test_allocations_live() != live)
            fail_msg("allocation %llu: %lld blocks are left", (unsigned long long)n,
                     (long long)(test_allocations_live() - live));
    }
    has_failed = true;
    require(bg_session_create(plan, NULL, &session, &error), &error);
    play(session, &options, 0, STOP, &losses);
    for (uint64_t n = 1; has_failed; n++) {
        test_allocations_fail(n);
        const bg_status status = bg_session_flush(session, "note", NULL);
        has_failed = test_allocations_have_failed();
        test_allocations_fail(0);
        if (has_failed)
            assert_int_equal(status, BG_ERROR_MEMORY);
        else
            assert_int_equal(status, BG_OK);
    }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    train(&ways[1], &options, STOP, UPDATES, "", &losses);
    free(losses.bytes);
    test_folder_remove(folder);
}

/* ---- with checkpoints and other sessions ---- */

static test_result save_checkpoint(bg_session *session, const char *folder)
{
    char path[PATH_BYTES], *data = NULL;
    test_result r = {0};
    bg_error error = {0};
    size_t size = 0;

    require(bg_checkpoint_save(session, folder, NULL, &error), &error);
    join(folder, "checkpoint_train_step_2.safetensors", path);
    require(bgi_file_load(path, FILE_LIMIT, &data, &size, &error), &error);
    append(&r, data, size);
    free(data);
    return r;
}

/* Checkpoints from memory and from files are the same file, which loads into either. */
static void checkpoints_are_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const way *w = &ways[i];
        const test_result expected = expect(w);
        char folder[TEST_FOLDER_BYTES], saved[TEST_FOLDER_BYTES];
        bg_options in_memory = options_for(w, NULL), options;
        test_result of_memory = {0}, losses = {0}, found = {0};
        bg_session *session = NULL;
        bg_error error = {0};
        bg_plan *plan = plan_for(w, &in_memory);

        test_folder_create(folder);
        test_folder_create(saved);
        require(bg_session_create(plan, NULL, &session, &error), &error);
        play(session, &in_memory, 0, STOP, &losses);
        of_memory = save_checkpoint(session, saved);
        bg_session_destroy(session);
        bg_plan_destroy(plan);
        options = options_for(w, folder);
        plan = plan_for(w, &options);
        require(bg_session_create(plan, NULL, &session, &error), &error);
        play(session, &options, 0, STOP, &found);
        test_train_expect(save_checkpoint(session, saved), &of_memory, "a checkpoint");
        play(session, &options, STOP, STOP + 1, &losses);
        require(bg_checkpoint_load(session, saved, NULL, NULL, &error), &error);
        play(session, &options, STOP, UPDATES, &found);
        append_weights(session, &found);
        test_train_expect(found, &expected, "back to a checkpoint");
        bg_session_destroy(session);
        bg_plan_destroy(plan);
        free(of_memory.bytes);
        free(losses.bytes);
        free(expected.bytes);
        test_folder_remove(folder);
        test_folder_remove(saved);
    }
}

/* Two sessions, one in files and one in memory, train the same weights alternately; the weights outlive both. */
static void weights_are_shared(void **state)
{
    const way *w = &ways[1];
    const test_result expected = expect(w);
    char folder[TEST_FOLDER_BYTES];
    bg_options options, in_memory = options_for(w, NULL);
    bg_session *sessions[2] = {0};
    test_result found = {0};
    bg_weights *weights = NULL;
    bg_error error = {0};
    bg_plan *plans[2];

    (void)state;
    test_folder_create(folder);
    options = options_for(w, folder);
    plans[0] = plan_for(w, &options);
    plans[1] = plan_for(w, &in_memory);
    require(bg_weights_create(&weights, &error), &error);
    require(bg_session_create(plans[1], weights, &sessions[1], &error), &error);
    require(bg_session_create(plans[0], weights, &sessions[0], &error), &error); /* the weights move into the files */
    for (uint32_t update = 0; update < UPDATES; update++)
        play(sessions[update % 2], &options, update, update + 1, &found);
    append_weights(sessions[0], &found);
    test_train_expect(found, &expected, "in turns");
    found = (test_result){0};
    bg_session_destroy(sessions[0]);
    for (uint32_t i = 0; i < bg_weights_count(weights); i++)
        assert_non_null(weights->items[i].data);
    append_weights(sessions[1], &found);
    for (size_t i = 0; i < found.size; i++)
        if (found.bytes[i] != expected.bytes[expected.size - found.size + i])
            fail_msg("weights that have left their files differ at byte %zu", i);
    bg_session_destroy(sessions[1]);
    bg_weights_destroy(weights);
    bg_plan_destroy(plans[0]);
    bg_plan_destroy(plans[1]);
    free(found.bytes);
    free(expected.bytes);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_go_on_with_the_same_bits),
        cmocka_unit_test(values_have_one_place),
        cmocka_unit_test(readers_leave_the_files_untouched),
        cmocka_unit_test(readers_of_nothing_write_nothing),
        cmocka_unit_test(runs_that_did_not_end_are_refused),
        cmocka_unit_test(an_index_of_an_earlier_release_is_refused),
        cmocka_unit_test(sessions_exclude_each_other),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(other_plans_are_refused),
        cmocka_unit_test(another_optimizer_is_refused),
        cmocka_unit_test(a_full_disk_is_an_error_before_the_run),
        cmocka_unit_test(foreign_files_are_not_overwritten),
        cmocka_unit_test(out_of_memory_is_an_error),
        cmocka_unit_test(checkpoints_are_the_same),
        cmocka_unit_test(weights_are_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
