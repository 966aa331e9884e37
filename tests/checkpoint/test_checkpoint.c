/*
 * test_checkpoint.c: a run that resumes from a checkpoint gives the same bits as an uninterrupted run, at whatever step
 * it resumes. Damage at any position of the file is an error. The test also checks which files remain in the folder.
 */
#define _GNU_SOURCE /* syscall */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/file.h"
#include "checkpoint/checkpoint.h"
#include "runtime/weights.h"
#include "support/allocations.h"
#include "support/folder.h"
#include "support/toy_plan.h"
#include "support/train.h"

enum { STOP = 2, UPDATES = 4, ACCUMULATION = 3, MICRO_BATCH = 4, LOG_BYTES = 8192, STEP = 7 };

/* ---- the same bits ---- */

typedef struct way {
    bg_strategy strategy;
    const char *schedule, *stages;
    bool is_sharded, is_offloaded;
} way;

static const way ways[] = {{BG_STRATEGY_SINGLE, NULL, NULL, false, false},
                           {BG_STRATEGY_PIPELINED, "interleaved", "B1|B2|B3|B4", true, false},
                           {BG_STRATEGY_SHARDED, NULL, "B1,B2|B3,B4", false, true},
                           {BG_STRATEGY_PIPELINED, "grouped", "B1@0|B2@1|B3@0|B4@1", true, true}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static bg_options options_for(const way *w)
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = w->strategy;
    options.execution.schedule = w->schedule;
    options.execution.stages = w->stages;
    options.replicas.count = 2;
    options.execution.cores = 2;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 11;
    options.execution.wait_limit_s = 60;
    options.memory.offload_optimizer = w->is_offloaded;
    options.memory.locations[BG_LOCATION_STATE].sharded = w->is_sharded;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
    return options;
}

/* Creates a session with these weights, and saves a checkpoint to `directory` or loads one from it. */
static void with_session(const test_model *model, const bg_optimizer *optimizer, const way *w, bg_weights *weights,
                         const char *directory, bool is_save, const char *what)
{
    const bg_options options = options_for(w);
    bg_plan *plan = test_train_plan(model, MICRO_BATCH, optimizer, &options, what);
    bg_checkpoint_load_options load = bg_checkpoint_load_defaults();
    bg_session *session = NULL;
    bg_error error = {0};

    load.differences = BG_CHECKPOINT_REFUSE;
    if (bg_session_create(plan, weights, &session, &error) != BG_OK ||
        (is_save ? bg_checkpoint_save(session, directory, NULL, &error)
                 : bg_checkpoint_load(session, directory, &load, NULL, &error)) != BG_OK)
        fail_msg("%s: %s", what, error.message);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

static bg_weights *make_weights(uint64_t step)
{
    bg_weights *weights = NULL;

    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    weights->step = step;
    return weights;
}

/* The results of an uninterrupted run: its losses, and the checkpoint of its last state as a file's bytes. */
typedef struct expectation {
    test_result losses; /* losses, followed by all weights and states */
    char *file;
    size_t file_bytes;
} expectation;

/* Saves the weights in the given way and reads the file's bytes. */
static char *load_saved(const test_model *model, const bg_optimizer *optimizer, const way *w, bg_weights *weights,
                        size_t *size_bytes, const char *what)
{
    char folder[TEST_FOLDER_BYTES], name[BGI_CHECKPOINT_NAME_BYTES], path[160], *content = NULL;

    test_folder_create(folder);
    with_session(model, optimizer, w, weights, folder, true, what);
    snprintf(path, sizeof path, "%s/%s", folder, bgi_checkpoint_name(weights->step, name));
    assert_int_equal(bgi_file_load(path, (size_t)1 << 26, &content, size_bytes, NULL), BG_OK);
    test_folder_remove(folder);
    return content;
}

/* Runs one form for STOP updates and resumes in another form; `first_step` is the step of the initial weights. */
static void resume(const test_model *model, const bg_optimizer *optimizer, const way *from, const way *to,
                   uint64_t first_step, bool is_session, const expectation *expected, const char *what)
{
    const size_t update_bytes = sizeof(float) * ACCUMULATION * 2;
    const bg_options before = options_for(from), after = options_for(to);
    bg_weights *weights = make_weights(first_step);
    char folder[TEST_FOLDER_BYTES], *file;
    bg_error error = {0};
    size_t file_bytes = 0;
    test_result part;

    test_folder_create(folder);
    free(test_train(model, MICRO_BATCH, optimizer, &before, weights, 0, STOP, what).bytes);
    with_session(model, optimizer, from, weights, folder, true, what);
    bg_weights_destroy(weights);
    weights = make_weights(0);
    if (is_session)
        with_session(model, optimizer, to, weights, folder, false, what);
    else if (bg_checkpoint_load_weights(weights, folder, NULL, NULL, &error) != BG_OK)
        fail_msg("%s: %s", what, error.message);
    part = test_train(model, MICRO_BATCH, optimizer, &after, weights, STOP, UPDATES, what);
    assert_memory_equal(part.bytes, expected->losses.bytes + STOP * update_bytes, (UPDATES - STOP) * update_bytes);
    file = load_saved(model, optimizer, to, weights, &file_bytes, what);
    if (file_bytes != expected->file_bytes || memcmp(file, expected->file, file_bytes) != 0)
        fail_msg("%s: ends with other weights, state or counts", what);
    free(file);
    free(part.bytes);
    bg_weights_destroy(weights);
    test_folder_remove(folder);
}

static void run_ways(unsigned model_index, const bg_optimizer *optimizer, uint64_t first_step)
{
    const test_model *model = test_model_at(model_index);
    const bg_options whole = options_for(&ways[0]);
    bg_weights *weights = make_weights(first_step);
    expectation expected = {0};

    expected.losses = test_train(model, MICRO_BATCH, optimizer, &whole, weights, 0, UPDATES, "never stopped");
    expected.file = load_saved(model, optimizer, &ways[0], weights, &expected.file_bytes, "never stopped");
    for (unsigned from = 0; from < WAYS; from++)
        for (unsigned to = 0; to < WAYS; to++) {
            char what[96];
            if ((from + to + model_index) % 3 != 0 && getenv("BRIGADE_TEST_ALL") == NULL)
                continue;
            snprintf(what, sizeof what, "%s, from way %u to way %u", model->name, from, to);
            resume(model, optimizer, &ways[from], &ways[to], first_step, from % 2 == 0, &expected, what);
        }
    free(expected.losses.bytes);
    free(expected.file);
    bg_weights_destroy(weights);
}

static void test_resumed_runs_equal_uninterrupted_ones(void **state)
{
    const bg_optimizer adam = bg_adamw(0.003);
    const bg_optimizer lamb = bg_lamb(0.01), adagrad = bg_adagrad(0.01), adadelta = bg_adadelta(1.0);
    bg_optimizer momentum = bg_sgd(0.05), rmsprop = bg_rmsprop(0.003), combined = bg_sgd(0.05);
    (void)state;

    momentum.momentum = 0.9;
    run_ways(1, &momentum, 0);
    run_ways(2, &adam, 0);
    run_ways(2, &lamb, 0);
    rmsprop.centered = true, rmsprop.momentum = 0.9;
    run_ways(3, &rmsprop, 0);
    combined.momentum = 0.9, combined.combined = true, combined.velocity_scaling = 8.0;
    run_ways(3, &combined, 0);
    run_ways(3, &adagrad, 0);
    run_ways(3, &adadelta, 0);
    /* The optimizer state is newer than the weights, so Adam's own count differs from the step. */
    run_ways(3, &adam, 20);
}

/* ---- small checkpoints ---- */

/* A session of the toy plan, a folder, and the text of the log. */
typedef struct fixture {
    bg_plan *plan;
    bg_session *session;
    bg_weights *weights; /* the session's */
    char folder[TEST_FOLDER_BYTES];
    char log[LOG_BYTES];
} fixture;

static void keep_log(void *user, bg_log_level level, const char *text)
{
    fixture *f = user;
    const size_t length = strlen(f->log);

    assert_int_equal(level, BG_LOG_WARNING);
    snprintf(f->log + length, LOG_BYTES - length, "%s\n", text);
}

static int set_up(void **state)
{
    const toy_options options = toy_defaults();
    fixture *f = calloc(1, sizeof *f);

    if (f == NULL)
        return -1;
    test_folder_create(f->folder);
    f->plan = toy_plan_create(&options);
    if (f->plan == NULL)
        return -1;
    f->plan->options.reporting.log = keep_log;
    f->plan->options.reporting.log_user = f;
    f->plan->options.numerics.seed = 42;
    if (bg_session_create(f->plan, NULL, &f->session, NULL) != BG_OK)
        return -1;
    f->weights = bg_session_weights(f->session);
    for (uint32_t s = 0; s < options.stage_count; s++) {
        float values[TOY_WIDTH];
        for (uint32_t i = 0; i < TOY_WIDTH; i++)
            values[i] = toy_first_weight(s, i);
        if (bg_weights_set(f->weights, f->weights->items[s].name, &f->weights->items[s].type, values, NULL) != BG_OK)
            return -1;
    }
    assert_int_equal(bg_session_set_step(f->session, STEP, NULL), BG_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    bg_session_destroy(f->session);
    toy_plan_destroy(f->plan);
    test_folder_remove(f->folder);
    free(f);
    return 0;
}

static void save(fixture *f, uint64_t step, const bg_checkpoint_save_options *options)
{
    bg_error error = {0};

    assert_int_equal(bg_session_set_step(f->session, step, NULL), BG_OK);
    if (bg_checkpoint_save(f->session, f->folder, options, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static const char *path_of(const fixture *f, uint64_t step, char path[160])
{
    char name[BGI_CHECKPOINT_NAME_BYTES];

    snprintf(path, 160, "%s/%s", f->folder, bgi_checkpoint_name(step, name));
    return path;
}

static bool has_step(const fixture *f, uint64_t step)
{
    char path[160];

    return bgi_file_exists(path_of(f, step, path));
}

static void scramble(fixture *f)
{
    for (uint32_t i = 0; i < f->weights->count; i++) {
        const bgi_weight *weight = &f->weights->items[i];
        float values[TOY_WIDTH];
        memset(values, 0x3e, sizeof values);
        assert_int_equal(bg_weights_set(f->weights, weight->name, &weight->type, values, NULL), BG_OK);
    }
    assert_int_equal(bg_session_set_step(f->session, 3, NULL), BG_OK);
}

/* Checks that all parts of the session have the values set by scramble. */
static void assert_scrambled(fixture *f)
{
    assert_int_equal(bg_session_step(f->session), 3);
    for (uint32_t i = 0; i < bg_weights_count(f->weights); i++) {
        bg_weight weight;
        assert_int_equal(bg_weights_at(f->weights, i, &weight, NULL), BG_OK);
        for (size_t byte = 0; byte < bg_type_size_bytes(&weight.type); byte++)
            assert_int_equal(((const unsigned char *)weight.data)[byte], 0x3e);
    }
}

static void assert_fails(fixture *f, const char *file, bg_status expected, const char *text)
{
    bg_checkpoint_load_options options = bg_checkpoint_load_defaults();
    bg_checkpoint found = {0};
    bg_error error = {0};
    bg_status status;

    options.file = file;
    options.differences = BG_CHECKPOINT_REFUSE;
    status = bg_checkpoint_load(f->session, f->folder, &options, &found, &error);
    if (strstr(error.message, text) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", error.message, text);
    assert_int_equal(status, expected);
    assert_null(found.path);
    assert_scrambled(f);
}

static void test_what_was_saved_comes_back(void **state)
{
    const unsigned char blob[] = {0, 1, 0xab, 0xff, 0};
    const char info[] = "epoch 3, \"quoted\" \xc3\xa9\n";
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    fixture *f = *state;
    bg_weights *other = make_weights(0);
    bg_checkpoint found = {0};
    bg_error error = {0};
    bg_weight weight;

    options.blob = blob;
    options.blob_bytes = sizeof blob;
    options.info = info;
    save(f, UINT64_MAX - 1, &options);
    scramble(f);
    if (bg_checkpoint_load(f->session, f->folder, NULL, &found, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_true(found.step == UINT64_MAX - 1 && bg_session_step(f->session) == found.step);
    assert_int_equal(found.seed, 42);
    assert_string_equal(found.info, info);
    assert_int_equal(found.blob_bytes, sizeof blob);
    assert_memory_equal(found.blob, blob, sizeof blob);
    assert_true(bgi_file_exists(found.path));
    bg_checkpoint_clear(&found);
    assert_null(found.path);
    for (uint32_t s = 0; s < 4; s++) {
        assert_int_equal(bg_weights_at(f->weights, s, &weight, NULL), BG_OK);
        for (uint32_t i = 0; i < TOY_WIDTH; i++)
            assert_true(((const float *)weight.data)[i] == toy_first_weight(s, i));
    }
    assert_string_equal(f->log, "");
    /* A folder without a checkpoint causes no message, and weights that no session uses accept every name. */
    save(f, UINT64_MAX, NULL);
    assert_int_equal(bg_checkpoint_load_weights(other, f->folder, NULL, &found, &error), BG_OK);
    assert_string_equal(found.info, "");
    assert_null(found.blob);
    assert_int_equal(bg_weights_count(other), 4);
    assert_int_equal(bg_weights_find(other, "w2", &weight, NULL), BG_OK);
    assert_true(((const float *)weight.data)[5] == toy_first_weight(2, 5));
    bg_checkpoint_clear(&found);
    bg_weights_destroy(other);
}

static void test_roles_and_counts_come_back(void **state)
{
    static const bgi_weight cases[] = {{.role = BG_ROLE_STATE, .updates = 5},
                                       {.role = BG_ROLE_BUFFER, .is_given = true},
                                       {.role = BG_ROLE_PARAMETER, .updates = 0},
                                       {.role = BG_ROLE_STATE, .is_given = true}};
    fixture *f = *state;
    bg_weights *other = make_weights(0);

    for (uint32_t i = 0; i < 4; i++) {
        f->weights->items[i].role = cases[i].role;
        f->weights->items[i].is_given = cases[i].is_given;
        f->weights->items[i].updates = cases[i].updates;
    }
    save(f, 9, NULL);
    assert_int_equal(bg_checkpoint_load_weights(other, f->folder, NULL, NULL, NULL), BG_OK);
    for (uint32_t i = 0; i < 4; i++) {
        const bgi_weight *found = &other->items[bgi_weights_index(other, f->weights->items[i].name)];
        assert_int_equal(found->role, cases[i].role);
        assert_int_equal(found->is_given, cases[i].is_given);
        assert_int_equal(found->updates, cases[i].updates);
    }
    bg_weights_destroy(other);
}

/* ---- damage ---- */

static void write_plainly(const char *path, const char *content, size_t size_bytes)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

/* Writes one byte in place, because replacing a file repeatedly is slow on some file systems. */
static void write_byte(const char *path, size_t at, char value)
{
    FILE *file = fopen(path, "r+b");

    assert_non_null(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(&value, 1, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

/* Changes every bit of every eighth byte and one bit of each other byte, and truncates the file to every length. */
static void test_damage_anywhere_is_found(void **state)
{
    const size_t stride = getenv("BRIGADE_TEST_QUICK") != NULL ? 11 : 1;
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    fixture *f = *state;
    char path[160], *content = NULL;
    size_t size_bytes = 0;
    bg_error error = {0};

    options.max_checkpoints = 2;
    options.info = "text";
    options.blob = "blob";
    options.blob_bytes = 4;
    save(f, 6, &options);
    save(f, STEP, &options);
    assert_int_equal(bgi_file_load(path_of(f, STEP, path), 1 << 20, &content, &size_bytes, &error), BG_OK);
    scramble(f);
    for (size_t at = 0; at < size_bytes; at += stride)
        for (unsigned bit = at % 8 == 0 ? 0 : (unsigned)at % 7; bit < 8; bit += at % 8 == 0 ? 1 : 8) {
            bg_status status;
            write_byte(path, at, (char)(content[at] ^ 1 << bit));
            bg_error_clear(&error);
            status = bg_checkpoint_load(f->session, f->folder, NULL, NULL, &error);
            if (status != BG_ERROR_PARSE && status != BG_ERROR_UNSUPPORTED)
                fail_msg("byte %zu, bit %u: status %d, %s", at, bit, status, error.message);
            assert_non_null(strstr(error.message, path));
            assert_non_null(strstr(error.message, "`checkpoint_train_step_6.safetensors`, the latest of the others"));
            write_byte(path, at, content[at]);
        }
    for (size_t length = size_bytes; length > stride; length -= stride) {
        assert_int_equal(truncate(path, (off_t)(length - stride)), 0);
        assert_int_equal(bg_checkpoint_load(f->session, f->folder, NULL, NULL, NULL), BG_ERROR_PARSE);
    }
    assert_scrambled(f);
    assert_string_equal(f->log, "");
    /* The remedy that the message names works, and the original file is valid. */
    options.max_checkpoints = 1;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(bg_checkpoint_load(f->session, f->folder, NULL, NULL, NULL), BG_OK);
    assert_int_equal(bg_session_step(f->session), 6);
    write_plainly(path, content, size_bytes);
    assert_int_equal(bg_checkpoint_load(f->session, f->folder, NULL, NULL, NULL), BG_OK);
    assert_int_equal(bg_session_step(f->session), STEP);
    free(content);
}

static void test_names_that_lie(void **state)
{
    fixture *f = *state;
    char path[160], other[160];

    save(f, STEP, NULL);
    scramble(f);
    assert_int_equal(rename(path_of(f, STEP, path), path_of(f, 9, other)), 0);
    assert_fails(f, NULL, BG_ERROR_PARSE, "holds step 7: it was renamed");
    assert_fails(f, NULL, BG_ERROR_PARSE, "has no other: start a new training");
    assert_fails(f, "absent", BG_ERROR_NOT_FOUND, "absent");
    assert_int_equal(unlink(other), 0);
    assert_fails(f, NULL, BG_ERROR_NOT_FOUND, "has no checkpoint");
    assert_int_equal(symlink("absent", path), 0);
    assert_fails(f, NULL, BG_ERROR_IO, "No such file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_fails(f, NULL, BG_ERROR_IO, "is a folder");
    assert_int_equal(rmdir(path), 0);
}

/* The metadata have a correct checksum and wrong content. */
static void test_hostile_metadata(void **state)
{
    static const struct {
        const char *key, *value, *text; /* value NULL: missing */
        bg_status status;
    } cases[] = {
        {"checkpoint_version", "2", "version 2 of the format", BG_ERROR_UNSUPPORTED},
        {"checkpoint_version", NULL, "`checkpoint_version`: is missing", BG_ERROR_PARSE},
        {"checkpoint_version", "1.0", "`checkpoint_version`: 1.0", BG_ERROR_PARSE},
        {"checksum", NULL, "no `checksum`", BG_ERROR_PARSE},
        {"checksum", "0123456789abcdef", "but the file records 0123456789abcdef", BG_ERROR_PARSE},
        {"step", NULL, "`step`: is missing", BG_ERROR_PARSE},
        {"step", "", "`step`: , but it must be a number", BG_ERROR_PARSE},
        {"step", "-1", "`step`: -1", BG_ERROR_PARSE},
        {"step", "07", "`step`: 07", BG_ERROR_PARSE},
        {"step", "7 ", "`step`: 7 ", BG_ERROR_PARSE},
        {"step", "18446744073709551616", "`step`: 18446744073709551616", BG_ERROR_PARSE},
        {"step", "99999999999999999999999999999999999999999999999999", "`step`: 9999", BG_ERROR_PARSE},
        {"seed", NULL, "`seed`: is missing", BG_ERROR_PARSE},
        {"seed", "0x2a", "`seed`: 0x2a", BG_ERROR_PARSE},
        {"seed", "43", "was made with seed 43, this session has 42", BG_ERROR_INVALID},
        {"blob", "abc", "3 digits", BG_ERROR_PARSE},
        {"blob", "0g", "digits 0 and 1", BG_ERROR_PARSE},
        {"blob", "00AB", "digits 2 and 3", BG_ERROR_PARSE},
        {"weight:w", NULL, "`weight:w`: is missing", BG_ERROR_PARSE},
        {"weight:w", "", "`weight:w`: ``", BG_ERROR_PARSE},
        {"weight:w", "state", "`state`", BG_ERROR_PARSE},
        {"weight:w", "state ", "`state `", BG_ERROR_PARSE},
        {"weight:w", "state -1", "`state -1`", BG_ERROR_PARSE},
        {"weight:w", "state givens", "`state givens`", BG_ERROR_PARSE},
        {"weight:w", "accumulator 1", "`accumulator 1`", BG_ERROR_PARSE},
        {"weight:w", "hyper given", "`hyper given`", BG_ERROR_PARSE},
        {"format", "pt", "has no `w0`, `w1`, `w2`, `w3`", BG_ERROR_INVALID},
    };
    static const char *const keys[] = {"blob", "checkpoint_version", "format", "seed", "step", "weight:w"};
    static const char *const values[] = {"00ff", "1", "pt", "42", "7", "parameter 0"};
    const float value = 1;
    const bg_safetensors_entry entry = {"w", bg_scalar(BG_FLOAT32), &value};
    fixture *f = *state;

    scramble(f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_safetensors_metadata metadata[8];
        char sum[BGI_CHECKPOINT_SUM_BYTES], path[160];
        size_t count = 0;
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            const bool is_changed = strcmp(keys[k], cases[i].key) == 0;
            if (!is_changed || cases[i].value != NULL)
                metadata[count++] = (bg_safetensors_metadata){keys[k], is_changed ? cases[i].value : values[k]};
        }
        assert_int_equal(bgi_checkpoint_sum(&entry, 1, metadata, count, NULL, NULL, sum, NULL), BG_OK);
        if (strcmp(cases[i].key, "checksum") != 0)
            metadata[count++] = (bg_safetensors_metadata){"checksum", sum};
        else if (cases[i].value != NULL)
            metadata[count++] = (bg_safetensors_metadata){"checksum", cases[i].value};
        assert_int_equal(bg_safetensors_write(path_of(f, 7, path), &entry, 1, metadata, count, NULL), BG_OK);
        assert_fails(f, NULL, cases[i].status, cases[i].text);
        assert_fails(f, "checkpoint_train_step_7.safetensors", cases[i].status, cases[i].text);
    }
}

/* ---- differences ---- */

static bg_status load_as(fixture *f, bg_checkpoint_differences differences, bg_error *error)
{
    bg_checkpoint_load_options options = bg_checkpoint_load_defaults();

    bg_error_clear(error);
    f->log[0] = '\0';
    scramble(f);
    options.differences = differences;
    return bg_checkpoint_load(f->session, f->folder, &options, NULL, error);
}

/* Models do not count as different if only one of them has the state of automatic loss scaling. */
static void test_missing_and_extra_names(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    const float two[2] = {8, 9};
    fixture *f = *state;
    bg_weights *weights = f->weights;
    bg_error error = {0};
    bg_weight weight;

    assert_int_equal(bg_weights_set(weights, "extra", &type, two, NULL), BG_OK);
    weights->items[4].role = BG_ROLE_TRAINING;
    save(f, STEP, NULL);
    free(weights->items[4].name);
    weights->items[4].name = strdup("missing");
    assert_int_equal(bg_weights_set(weights, "missing", &type, two, NULL), BG_OK);
    assert_int_equal(load_as(f, BG_CHECKPOINT_REFUSE, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "has no `missing`"));
    assert_scrambled(f);
    assert_int_equal(load_as(f, BG_CHECKPOINT_WARN, &error), BG_OK);
    assert_non_null(strstr(f->log, "has no `missing`; weights that the checkpoint lacks keep their values\n"));
    assert_non_null(strstr(f->log, "has tensors that the weights lack: `extra`; these are left out\n"));
    assert_int_equal(bg_weights_count(weights), 5);
    assert_int_equal(bg_weights_at(weights, 4, &weight, NULL), BG_OK);
    assert_int_equal(*(const unsigned char *)weight.data, 0x3e);
    assert_int_equal(bg_weights_at(weights, 3, &weight, NULL), BG_OK);
    assert_true(((const float *)weight.data)[2] == toy_first_weight(3, 2));
    assert_int_equal(load_as(f, BG_CHECKPOINT_IGNORE, &error), BG_OK);
    assert_string_equal(f->log, "");
    assert_int_equal(bg_session_step(f->session), STEP);
    assert_int_equal(load_as(f, (bg_checkpoint_differences)3, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "differences is 3"));
}

static void test_other_types_and_seeds(void **state)
{
    fixture *f = *state;
    bg_error error = {0};

    f->weights->items[2].type = bg_matrix(BG_FLOAT32, 2, TOY_WIDTH / 2);
    save(f, STEP, NULL);
    f->weights->items[2].type = bg_vector(BG_FLOAT32, TOY_WIDTH);
    assert_int_equal(load_as(f, BG_CHECKPOINT_IGNORE, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "`w2` is float32[2,24], but the weight is float32[48]"));
    assert_scrambled(f);
    save(f, STEP, NULL);
    f->plan->options.numerics.seed = 43;
    assert_int_equal(load_as(f, BG_CHECKPOINT_WARN, &error), BG_OK);
    assert_non_null(strstr(f->log, "was made with seed 42, this session has 43; random numbers"));
    assert_int_equal(load_as(f, BG_CHECKPOINT_REFUSE, &error), BG_ERROR_INVALID);
    assert_scrambled(f);
}

/* Loading into a session with other training settings logs the settings of both. */
static void test_other_settings(void **state)
{
    fixture *f = *state;
    bg_error error = {0};

    save(f, STEP, NULL);
    assert_int_equal(load_as(f, BG_CHECKPOINT_WARN, &error), BG_OK);
    assert_string_equal(f->log, "");
    f->plan->options.numerics.precision = BG_PRECISION_BF16_MIXED;
    assert_int_equal(load_as(f, BG_CHECKPOINT_WARN, &error), BG_OK);
    assert_non_null(strstr(f->log, "was made with precision=32 batch="));
    assert_non_null(strstr(f->log, "this session has precision=bf16-mixed batch="));
    assert_int_equal(load_as(f, BG_CHECKPOINT_IGNORE, &error), BG_OK);
    assert_string_equal(f->log, "");
    assert_int_equal(load_as(f, BG_CHECKPOINT_REFUSE, &error), BG_OK);
    assert_non_null(strstr(f->log, "this session has precision=bf16-mixed"));
    f->plan->options.numerics.precision = BG_PRECISION_32;
    f->plan->options.numerics.canonical_reductions = true;
    assert_int_equal(load_as(f, BG_CHECKPOINT_WARN, &error), BG_OK);
    assert_non_null(strstr(f->log, "results differ from those of a run without a stop"));
    f->plan->options.numerics.canonical_reductions = false;
}

/* Values that a failed run lost cannot be saved; loading a checkpoint restores them. */
static void test_lost_weights(void **state)
{
    fixture *f = *state;
    bg_error error = {0};

    save(f, STEP, NULL);
    f->weights->items[1].is_lost = true;
    assert_int_equal(bg_session_set_step(f->session, STEP + 1, NULL), BG_OK);
    assert_int_equal(bg_checkpoint_save(f->session, f->folder, NULL, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "`w1`"));
    assert_true(has_step(f, STEP) && test_folder_count(f->folder) == 1);
    assert_int_equal(bg_checkpoint_load_weights(f->weights, f->folder, NULL, NULL, NULL), BG_OK);
    save(f, STEP + 1, NULL);
}

/* ---- which files are kept ---- */

static void test_newest_are_kept(void **state)
{
    static const char *const others[] = {"notes.txt",
                                         "checkpoint_train_step_01.safetensors",
                                         "checkpoint_train_step_1.safetensors.old",
                                         "checkpoint_train_step_1.safetensors.tmp-by-hand",
                                         "checkpoint_train_step_.safetensors",
                                         "xcheckpoint_train_step_1.safetensors"};
    enum { OTHERS = sizeof others / sizeof others[0] };
    bg_checkpoint_save_options options = bg_checkpoint_save_defaults();
    fixture *f = *state;
    bg_error error = {0};
    char path[160];

    for (size_t i = 0; i < OTHERS; i++) {
        snprintf(path, sizeof path, "%s/%s", f->folder, others[i]);
        write_plainly(path, "x", 1);
    }
    snprintf(path, sizeof path, "%s/checkpoint_train_step_8.safetensors.tmp-abc123", f->folder);
    write_plainly(path, "half", 4);
    options.max_checkpoints = 3;
    for (uint64_t step = 8; step <= 12; step++)
        save(f, step, &options);
    save(f, 12, &options);
    assert_int_equal(test_folder_count(f->folder), OTHERS + 3);
    assert_true(has_step(f, 10) && has_step(f, 11) && has_step(f, 12));
    /* Files are ordered by number, not alphabetically. */
    save(f, 100, &options);
    assert_true(!has_step(f, 10) && has_step(f, 11) && has_step(f, 12) && has_step(f, 100));
    assert_int_equal(bg_session_set_step(f->session, 99, NULL), BG_OK);
    assert_int_equal(bg_checkpoint_save(f->session, f->folder, &options, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "`checkpoint_train_step_100.safetensors`, which is later than step 99"));
    save(f, 101, NULL);
    assert_int_equal(test_folder_count(f->folder), OTHERS + 1);
    assert_true(has_step(f, 101));
    assert_string_equal(f->log, "");
}

static void test_refusals(void **state)
{
    static const struct {
        bg_checkpoint_save_options options;
        const char *text;
    } cases[] = {
        {{.max_checkpoints = 0}, "max_checkpoints is 0; it must be at least 1"},
        {{.max_checkpoints = 1, .blob = "", .blob_bytes = BG_CHECKPOINT_BLOB_LIMIT + 1}, "blob_bytes is 1048577"},
        {{.max_checkpoints = 1, .blob_bytes = 1}, "but blob is NULL"},
        {{.max_checkpoints = 1, .info = "\xff"}, "not UTF-8"}};
    fixture *f = *state;
    char path[160];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_checkpoint_save_options options = cases[i].options;
        bg_error error = {0};
        options.struct_bytes = sizeof options;
        assert_int_equal(bg_checkpoint_save(f->session, f->folder, &options, &error), BG_ERROR_INVALID);
        assert_non_null(strstr(error.message, cases[i].text));
    }
    assert_int_equal(bg_checkpoint_save(f->session, "", NULL, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_checkpoint_load(f->session, NULL, NULL, NULL, NULL), BG_ERROR_INVALID);
    assert_int_equal(test_folder_count(f->folder), 0);
    snprintf(path, sizeof path, "%s/new/inner", f->folder);
    assert_int_equal(bg_checkpoint_load(f->session, path, NULL, NULL, NULL), BG_ERROR_NOT_FOUND);
    assert_int_equal(bg_checkpoint_save(f->session, path, NULL, NULL), BG_OK);
    assert_int_equal(test_folder_count(path), 1);
    snprintf(path, sizeof path, "%s/file", f->folder);
    write_plainly(path, "x", 1);
    assert_int_equal(bg_checkpoint_save(f->session, path, NULL, NULL), BG_ERROR_IO);
    assert_int_equal(bg_checkpoint_load(f->session, path, NULL, NULL, NULL), BG_ERROR_IO);
}

/* Checks that only the previous checkpoint remains and that it loads. */
static void assert_last_is_intact(fixture *f)
{
    assert_int_equal(test_folder_count(f->folder), 1);
    scramble(f);
    assert_int_equal(bg_checkpoint_load(f->session, f->folder, NULL, NULL, NULL), BG_OK);
    assert_int_equal(bg_session_step(f->session), STEP);
}

/* Writing fails after each number of bytes in turn, as on a full disk. */
static void test_full_disk(void **state)
{
    fixture *f = *state;
    struct rlimit before;
    char path[160];
    struct stat about;

    save(f, STEP, NULL);
    assert_int_equal(stat(path_of(f, STEP, path), &about), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    for (rlim_t limit = 0; limit < (rlim_t)about.st_size; limit += 97) {
        const struct rlimit small = {.rlim_cur = limit, .rlim_max = before.rlim_max};
        bg_error error = {0};
        bg_status status;
        assert_int_equal(bg_session_set_step(f->session, STEP + 1, NULL), BG_OK);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        status = bg_checkpoint_save(f->session, f->folder, NULL, &error);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, BG_ERROR_IO);
        assert_non_null(strstr(error.message, "checkpoint_train_step_8.safetensors: cannot write: "));
        assert_last_is_intact(f);
    }
}

/* Root may write to every folder, so the test changes its user. */
static void test_read_only_folder(void **state)
{
    fixture *f = *state;
    const bool is_root = geteuid() == 0;
    bg_error error = {0};
    bg_status status;

    save(f, STEP, NULL);
    assert_int_equal(bg_session_set_step(f->session, STEP + 1, NULL), BG_OK);
    assert_int_equal(chmod(f->folder, 0555), 0);
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    status = bg_checkpoint_save(f->session, f->folder, NULL, &error);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(f->folder, 0755), 0);
    assert_int_equal(status, BG_ERROR_IO);
    assert_non_null(strstr(error.message, "Permission denied"));
    assert_last_is_intact(f);
}

/* Checks that the latest checkpoint is of this step and has the session's weights. */
static void assert_loads(fixture *f, uint64_t step)
{
    bg_weights *other = make_weights(0);
    bg_error error = {0};

    if (bg_checkpoint_load_weights(other, f->folder, NULL, NULL, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(other->step, step);
    assert_int_equal(bg_weights_count(other), bg_weights_count(f->weights));
    for (uint32_t i = 0; i < bg_weights_count(other); i++) {
        bg_weight mine, theirs;
        assert_int_equal(bg_weights_at(other, i, &theirs, NULL), BG_OK);
        assert_int_equal(bg_weights_find(f->weights, theirs.name, &mine, NULL), BG_OK);
        assert_memory_equal(theirs.data, mine.data, bg_type_size_bytes(&mine.type));
    }
    bg_weights_destroy(other);
}

/* Each allocation fails once, also in other libraries. The error reports it, nothing changes or leaks, and the final
 * checkpoint is bit-identical to the weights. */
static void test_out_of_memory(void **state)
{
    fixture *f = *state;

    if (!test_allocations_available())
        skip();
    save(f, STEP, NULL);
    for (int saving = 0; saving < 2; saving++) {
        bg_status status = BG_ERROR_MEMORY;
        for (uint64_t n = 1; status != BG_OK; n++) {
            const int64_t live = test_allocations_live();
            bg_weights *other = make_weights(0);
            bg_error error = {0};
            assert_int_equal(bg_session_set_step(f->session, STEP + 1, NULL), BG_OK);
            test_allocations_fail_anywhere(n);
            status = saving ? bg_checkpoint_save(f->session, f->folder, NULL, &error)
                            : bg_checkpoint_load_weights(other, f->folder, NULL, NULL, &error);
            test_allocations_fail(0);
            assert_true(status == BG_OK || (status == BG_ERROR_MEMORY && strstr(error.message, "out of memory")));
            assert_int_equal(bg_weights_count(other), !saving && status == BG_OK ? 4 : 0);
            bg_weights_destroy(other);
            assert_int_equal(test_allocations_live(), live);
            if (status != BG_OK)
                assert_true(has_step(f, STEP) && test_folder_count(f->folder) == 1);
            assert_loads(f, saving && status == BG_OK ? STEP + 1 : STEP);
            assert_true(n < 1000);
        }
    }
    /* The last operation to fail is the removal of the old file, which the log reports. */
    assert_true(has_step(f, STEP + 1));
    assert_int_equal(has_step(f, STEP), strstr(f->log, "cannot remove") != NULL);
}

/* A file becomes a checkpoint only after it was read back under its temporary name. In this test the disk stores one
 * wrong byte and does not report this. */
static int64_t flipped_byte = -1; /* the position of this byte in the file that is read; -1: no byte */
static unsigned flips;

ssize_t pread(int descriptor, void *out, size_t size_bytes, off_t offset)
{
    const ssize_t got = syscall(SYS_pread64, descriptor, out, size_bytes, offset);

    if (flipped_byte >= offset && flipped_byte < offset + got) {
        ((unsigned char *)out)[flipped_byte - offset] ^= 1;
        flips++;
    }
    return got;
}

static int unlink_errno; /* 0: files can be removed */

int unlink(const char *path)
{
    if (unlink_errno == 0)
        return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    errno = unlink_errno;
    return -1;
}

static void assert_read_back_refused(fixture *f, size_t at, const char *text)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];
    bg_error error = {0};
    bg_status status;

    assert_int_equal(bg_session_set_step(f->session, STEP + 1, NULL), BG_OK);
    flips = 0;
    flipped_byte = (int64_t)at;
    status = bg_checkpoint_save(f->session, f->folder, NULL, &error);
    flipped_byte = -1;
    if (flips == 0)
        fail_msg("byte %zu was not read back", at);
    if (status != BG_ERROR_IO || strstr(error.message, bgi_checkpoint_name(STEP + 1, name)) == NULL ||
        strstr(error.message, f->folder) == NULL || strstr(error.message, "reading the file back") == NULL ||
        strstr(error.message, text) == NULL)
        fail_msg("byte %zu: status %d: \"%s\" instead of one with \"%s\"", at, status, error.message, text);
    if (!has_step(f, STEP) || test_folder_count(f->folder) != 1)
        fail_msg("byte %zu: the older checkpoint is gone, or another file is there", at);
}

/* Returns the position of this text in a file's bytes. */
static size_t find_bytes(const char *content, size_t size_bytes, const char *text)
{
    size_t at = 0;

    while (at + strlen(text) <= size_bytes && memcmp(content + at, text, strlen(text)) != 0)
        at++;
    assert_true(at + strlen(text) <= size_bytes);
    return at;
}

static void test_what_reads_back_wrong(void **state)
{
    const size_t stride = getenv("BRIGADE_TEST_QUICK") != NULL ? 13 : 1;
    fixture *f = *state;
    char path[160], *content = NULL;
    size_t size_bytes = 0, header_end;

    save(f, STEP + 1, NULL);
    assert_int_equal(bgi_file_load(path_of(f, STEP + 1, path), 1 << 20, &content, &size_bytes, NULL), BG_OK);
    assert_int_equal(unlink(path), 0);
    save(f, STEP, NULL);
    memcpy(&header_end, content, sizeof header_end); /* size_t has 64 bits on all supported systems */
    header_end += sizeof header_end;
    /* Damages the header; the metadata; the values, including the last one. */
    assert_read_back_refused(f, 0, "");
    assert_read_back_refused(f, find_bytes(content, size_bytes, "F32"), "dtype is `G32`");
    assert_read_back_refused(f, find_bytes(content, size_bytes, "\"w2\":{") + 1,
                             "does not read back as it was written");
    assert_read_back_refused(f, find_bytes(content, size_bytes, "\"seed\":\"42") + 9,
                             "does not read back as it was written");
    assert_read_back_refused(f, header_end, "the checksum is");
    assert_read_back_refused(f, size_bytes - 1, "the checksum is");
    for (size_t at = 0; at < size_bytes; at += stride)
        assert_read_back_refused(f, at, "");
    assert_loads(f, STEP);
    assert_string_equal(f->log, "");
    free(content);
}

enum { LARGE = 3 << 20 };

static bg_status write_large(const char *path, const bg_safetensors_entry *entries, char sum[BGI_CHECKPOINT_SUM_BYTES],
                             bg_error *error)
{
    const bg_safetensors_metadata metadata[] = {{.key = BGI_CHECKPOINT_SUM, .value = sum}, {.key = "x", .value = "y"}};
    char expected[BGI_CHECKPOINT_SUM_BYTES];
    bg_status status = bgi_checkpoint_write_summed(path, entries, 3, metadata, 2, NULL, NULL, NULL, NULL, sum, error);

    assert_int_equal(bgi_checkpoint_sum(entries, 3, metadata, 2, NULL, NULL, expected, NULL), BG_OK);
    if (status == BG_OK)
        assert_string_equal(sum, expected);
    return status;
}

/* Another thread reads back a file of many megabytes while it is written. The order of the values in the file differs
 * from that in the checksum, and lengths are not multiples of a chunk. */
static void test_large_files_are_read_back(void **state)
{
    fixture *f = *state;
    unsigned char *values = malloc(4 * LARGE);
    const bg_safetensors_entry entries[] = {
        {.name = "a", .type = bg_vector(BG_UINT8, LARGE - 5), .data = values},
        {.name = "b", .type = bg_vector(BG_FLOAT32, LARGE - 3), .data = values},
        {.name = "c", .type = bg_vector(BG_UINT8, 7), .data = values + 9},
    };
    char path[160], sum[BGI_CHECKPOINT_SUM_BYTES];
    bg_safetensors *file = NULL;
    bg_error error = {0};

    assert_non_null(values);
    for (size_t i = 0; i < 4 * LARGE; i++)
        values[i] = (unsigned char)(i * 7 + (i >> 9));
    assert_int_equal(bgi_folder_create(f->folder, NULL), BG_OK);
    path_of(f, STEP, path);
    assert_int_equal(write_large(path, entries, sum, &error), BG_OK);
    assert_int_equal(bg_safetensors_open_header(path, &file, &error), BG_OK);
    assert_int_equal(bgi_checkpoint_check_sum(file, "checkpoint", &error), BG_OK);
    bg_safetensors_destroy(file);
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < 2; i++) {
        flips = 0;
        flipped_byte = i == 0 ? LARGE : 5 * LARGE - 20;
        assert_int_equal(write_large(path, entries, sum, &error), BG_ERROR_IO);
        flipped_byte = -1;
        assert_int_equal(flips, 1);
        assert_non_null(strstr(error.message, "reading the file back: the checksum is"));
        assert_int_equal(test_folder_count(f->folder), 0);
        memset(&error, 0, sizeof error);
    }
    free(values);
}

/* Saving succeeds if the checkpoint is complete, even if older checkpoints cannot be removed; the log names these.
 */
static void test_files_that_cannot_be_removed(void **state)
{
    fixture *f = *state;
    bg_error error = {0};
    bg_status status;

    save(f, STEP, NULL);
    unlink_errno = EBUSY;
    save(f, STEP + 1, NULL);
    unlink_errno = 0;
    assert_true(has_step(f, STEP) && has_step(f, STEP + 1));
    assert_non_null(strstr(f->log, "cannot remove checkpoint_train_step_7.safetensors in "));
    assert_non_null(strstr(f->log, ": Device or resource busy; remove old files by hand"));
    assert_loads(f, STEP + 1);
    /* A file that was already removed is not reported. */
    f->log[0] = '\0';
    unlink_errno = ENOENT;
    save(f, STEP + 2, NULL);
    unlink_errno = 0;
    assert_string_equal(f->log, "");
    /* The invalid file remains under its temporary name, which the error mentions. */
    assert_int_equal(bg_session_set_step(f->session, STEP + 3, NULL), BG_OK);
    unlink_errno = EBUSY;
    flipped_byte = 0;
    status = bg_checkpoint_save(f->session, f->folder, NULL, &error);
    flipped_byte = -1;
    unlink_errno = 0;
    assert_int_equal(status, BG_ERROR_IO);
    assert_non_null(strstr(error.message, ".tmp-"));
    assert_non_null(strstr(error.message, " was not removed: Device or resource busy"));
    assert_loads(f, STEP + 2);
    /* The next save removes the invalid file, like the older checkpoints. */
    save(f, STEP + 3, NULL);
    assert_int_equal(test_folder_count(f->folder), 1);
}

#define FIXTURE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resumed_runs_equal_uninterrupted_ones),
        FIXTURE_TEST(test_what_was_saved_comes_back),
        FIXTURE_TEST(test_roles_and_counts_come_back),
        FIXTURE_TEST(test_damage_anywhere_is_found),
        FIXTURE_TEST(test_names_that_lie),
        FIXTURE_TEST(test_hostile_metadata),
        FIXTURE_TEST(test_missing_and_extra_names),
        FIXTURE_TEST(test_other_types_and_seeds),
        FIXTURE_TEST(test_other_settings),
        FIXTURE_TEST(test_lost_weights),
        FIXTURE_TEST(test_newest_are_kept),
        FIXTURE_TEST(test_refusals),
        FIXTURE_TEST(test_full_disk),
        FIXTURE_TEST(test_read_only_folder),
        FIXTURE_TEST(test_out_of_memory),
        FIXTURE_TEST(test_what_reads_back_wrong),
        FIXTURE_TEST(test_large_files_are_read_back),
        FIXTURE_TEST(test_files_that_cannot_be_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
