/*
 * test_checkpoint_compare.c: loading a checkpoint of another optimizer, or of a model with another depth, is an error
 * that names both optimizers or both depths. Only state that the caller asks to drop is dropped.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/checkpoint.h>
#include <brigade/nn.h>
#include <brigade/ops.h>

#include "checkpoint/checkpoint.h"
#include "runtime/weights.h"
#include "support/folder.h"

enum { SAMPLES = 4, WIDTH = 6, CLASSES = 3, UPDATES = 3, LOG_BYTES = 4096, MOST_ENTRIES = 64 };

static const char *const optimizers[] = {"sgd",
                                         "sgd:momentum=0.9",
                                         "sgd:momentum=0.9,nesterov",
                                         "sgd:momentum=0.9,combined",
                                         "sgd:momentum=0.9,combined,velocity_scaling=8",
                                         "adam",
                                         "adam:uncorrected",
                                         "adamw",
                                         "adamax",
                                         "rmsprop",
                                         "rmsprop:momentum=0.9",
                                         "rmsprop:centered",
                                         "rmsprop:momentum=0.9,centered",
                                         "rmsprop:tf_variant",
                                         "rmsprop:momentum=0.9,tf_variant",
                                         "lamb",
                                         "adagrad",
                                         "adadelta"};
enum { OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

/* ---- a training ---- */

typedef struct training {
    bg_plan *plan;
    bg_session *session;
    bg_weights *weights;
    char log[LOG_BYTES];
} training;

static void keep_log(void *user, bg_log_level level, const char *text)
{
    training *t = user;
    const size_t length = strlen(t->log);

    (void)level;
    if (strstr(text, "checkpoint ") == text)
        snprintf(t->log + length, LOG_BYTES - length, "%s\n", text);
}

/* Opens a training of linear layers named layers.0, layers.1 and so on. */
static bg_status open_on(training *t, const char *optimizer_text, int layers, bg_weights *weights, bg_error *error)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, SAMPLES, WIDTH), label_type = bg_vector(BG_INT32, SAMPLES);
    bg_options options = bg_options_defaults();
    bg_optimizer optimizer;
    bg_graph *graph;
    bg_value x, loss;
    char name[32];

    memset(t, 0, sizeof *t);
    assert_int_equal(bg_optimizer_parse(optimizer_text, 0.01, &optimizer, error), BG_OK);
    assert_int_equal(bg_graph_create(&graph, error), BG_OK);
    bg_block_start(graph, "B1", 0);
    x = bg_graph_input(graph, "x", &x_type);
    for (int l = 0; l < layers; l++) {
        snprintf(name, sizeof name, "layers.%d", l);
        x = bg_relu(graph, bg_linear_layer(graph, name, x, WIDTH, true));
    }
    x = bg_linear_layer(graph, "out", x, CLASSES, true);
    loss = bg_cross_entropy(graph, "loss", x, bg_graph_input(graph, "labels", &label_type), BG_LOSS_MEAN, -100);
    options.numerics.seed = 5;
    options.execution.cores = 1;
    options.reporting.log = keep_log;
    options.reporting.log_user = t;
    if (bg_plan_create_training(graph, loss, &optimizer, &options, &t->plan, error) != BG_OK)
        fail_msg("%s: %s", optimizer_text, error->message);
    bg_graph_destroy(graph);
    if (bg_session_create(t->plan, weights, &t->session, error) != BG_OK)
        return error->status;
    t->weights = bg_session_weights(t->session);
    return BG_OK;
}

static void open_training(training *t, const char *optimizer, int layers)
{
    bg_error error = {0};

    if (open_on(t, optimizer, layers, NULL, &error) != BG_OK)
        fail_msg("%s: %s", optimizer, error.message);
}

static void close_training(training *t)
{
    bg_session_destroy(t->session);
    bg_plan_destroy(t->plan);
}

static void train(training *t)
{
    float x[SAMPLES * WIDTH];
    const int32_t labels[SAMPLES] = {0, 2, 1, 2};
    const void *const inputs[] = {x, labels};
    bg_error error = {0};

    for (int i = 0; i < SAMPLES * WIDTH; i++)
        x[i] = (float)(i * 7 % 11) / 5.0f - 1.0f;
    for (int i = 0; i < UPDATES; i++)
        if (bg_session_run(t->session, inputs, NULL, &error) != BG_OK)
            fail_msg("%s", error.message);
}

/* Makes a folder with the checkpoint of a training run of UPDATES updates. */
static void make_checkpoint(const char *optimizer, int layers, char *folder)
{
    bg_error error = {0};
    training t;

    test_folder_create(folder);
    open_training(&t, optimizer, layers);
    train(&t);
    if (bg_checkpoint_save(t.session, folder, NULL, &error) != BG_OK)
        fail_msg("%s", error.message);
    close_training(&t);
}

static bg_status load(training *t, const char *folder, const char *drop, const char *optimizer, bg_error *error)
{
    bg_checkpoint_load_options options = bg_checkpoint_load_defaults();

    bg_error_clear(error);
    t->log[0] = '\0';
    options.drop = drop;
    options.optimizer = optimizer;
    return bg_checkpoint_load(t->session, folder, &options, NULL, error);
}

static bg_safetensors *open_file(const char *folder)
{
    bg_safetensors *file = NULL;
    char path[160], name[BGI_CHECKPOINT_NAME_BYTES];

    snprintf(path, sizeof path, "%s/%s", folder, bgi_checkpoint_name(UPDATES, name));
    assert_int_equal(bg_safetensors_open(path, &file, NULL), BG_OK);
    return file;
}

/* Makes a file like those of an earlier release, without the optimizer's record. */
static void remove_record(const char *folder)
{
    bg_safetensors *file = open_file(folder);
    const size_t count = bg_safetensors_count(file);
    bg_safetensors_entry entries[MOST_ENTRIES];
    bg_safetensors_metadata metadata[MOST_ENTRIES + 8];
    char sum[BGI_CHECKPOINT_SUM_BYTES], path[160], other[200], name[BGI_CHECKPOINT_NAME_BYTES];
    size_t kept = 0;

    assert_true(count <= MOST_ENTRIES);
    for (size_t i = 0; i < count; i++)
        entries[i] = *bg_safetensors_at(file, i);
    for (size_t i = 0; i < bg_safetensors_metadata_count(file); i++) {
        const bg_safetensors_metadata *one = bg_safetensors_metadata_at(file, i);
        if (strncmp(one->key, "optimizer", 9) != 0 && strcmp(one->key, "checksum") != 0)
            metadata[kept++] = *one;
    }
    assert_int_equal(bgi_checkpoint_sum(entries, count, metadata, kept, NULL, NULL, sum, NULL), BG_OK);
    metadata[kept++] = (bg_safetensors_metadata){"checksum", sum};
    snprintf(path, sizeof path, "%s/%s", folder, bgi_checkpoint_name(UPDATES, name));
    snprintf(other, sizeof other, "%s.new", path);
    assert_int_equal(bg_safetensors_write(other, entries, count, metadata, kept, NULL), BG_OK);
    bg_safetensors_destroy(file);
    assert_int_equal(rename(other, path), 0);
}

static void describe(const char *optimizer_text, char *text)
{
    bg_optimizer optimizer;

    assert_int_equal(bg_optimizer_parse(optimizer_text, 0.01, &optimizer, NULL), BG_OK);
    bg_optimizer_describe_state(&optimizer, text);
}

static const void *value_of(bg_weights *weights, const char *name)
{
    bg_weight weight;

    assert_int_equal(bg_weights_find(weights, name, &weight, NULL), BG_OK);
    return weight.data;
}

/* Returns whether a weight has the file's value. */
static bool equals_file(bg_weights *weights, const bgi_weight *weight, const bg_safetensors *file)
{
    const bg_safetensors_entry *entry = bg_safetensors_find(file, weight->name);

    return entry != NULL &&
           memcmp(entry->data, value_of(weights, weight->name), bg_type_size_bytes(&weight->type)) == 0;
}

/* Checks that parameters have the file's values, and that the state is the file's, or with `is_new` that of a new
 * session with a count of 0. */
static void expect_loaded(const training *t, const char *folder, const char *optimizer, int layers, bool is_new)
{
    bg_safetensors *file = open_file(folder);
    training fresh;

    open_training(&fresh, optimizer, layers);
    for (uint32_t i = 0; i < t->weights->count; i++) {
        const bgi_weight *weight = &t->weights->items[i];

        if (weight->role != BG_ROLE_STATE || !is_new) {
            assert_true(equals_file(t->weights, weight, file));
            continue;
        }
        assert_memory_equal(value_of(t->weights, weight->name), value_of(fresh.weights, weight->name),
                            bg_type_size_bytes(&weight->type));
        assert_int_equal(weight->updates, 0);
        assert_false(weight->is_given);
    }
    assert_int_equal(bg_session_step(t->session), UPDATES);
    close_training(&fresh);
    bg_safetensors_destroy(file);
}

/* ---- optimizers ---- */

/* The record names the optimizer, and the kinds of state follow from the names in the file. */
static void test_the_record(void **state)
{
    char folder[TEST_FOLDER_BYTES], wanted[BG_OPTIMIZER_STATE_TEXT_BYTES], name[80];
    bg_optimizer optimizer;

    (void)state;
    for (int o = 0; o < OPTIMIZERS; o++) {
        const char *kinds;
        bg_safetensors *file;
        size_t found = 0;

        make_checkpoint(optimizers[o], 1, folder);
        file = open_file(folder);
        describe(optimizers[o], wanted);
        assert_string_equal(bg_safetensors_metadata_find(file, "optimizer"), wanted);
        kinds = bg_safetensors_metadata_find(file, "optimizer_state");
        assert_int_equal(bg_optimizer_parse(optimizers[o], 0.01, &optimizer, NULL), BG_OK);
        assert_string_equal(kinds, bg_optimizer_state_kinds(&optimizer));
        for (const char *kind = kinds; *kind != '\0'; kind += strcspn(kind, " "), kind += *kind == ' ') {
            snprintf(name, sizeof name, "layers.0.weight.%.*s", (int)strcspn(kind, " "), kind);
            assert_non_null(bg_safetensors_find(file, name));
            found++;
        }
        assert_int_equal(bg_safetensors_count(file), 4 * (1 + found));
        bg_safetensors_destroy(file);
        test_folder_remove(folder);
    }
}

/* For every pair of optimizers: a session with the file's optimizer string resumes. Another string is an error that
 * contains both strings and changes nothing, unless the state is dropped. */
static void test_every_pair(void **state)
{
    char folder[TEST_FOLDER_BYTES], of_file[BG_OPTIMIZER_STATE_TEXT_BYTES + 2], own[BG_OPTIMIZER_STATE_TEXT_BYTES + 2];
    int refused = 0;

    (void)state;
    for (int a = 0; a < OPTIMIZERS; a++) {
        make_checkpoint(optimizers[a], 1, folder);
        for (int b = 0; b < OPTIMIZERS; b++) {
            bg_error error = {0};
            bg_status status;
            training t;

            of_file[0] = own[0] = '`';
            describe(optimizers[a], of_file + 1);
            describe(optimizers[b], own + 1);
            strcat(of_file, "`");
            strcat(own, "`");
            open_training(&t, optimizers[b], 1);
            status = load(&t, folder, NULL, NULL, &error);
            if (strcmp(of_file, own) == 0) {
                if (status != BG_OK)
                    fail_msg("%s under %s: %s", optimizers[a], optimizers[b], error.message);
                expect_loaded(&t, folder, optimizers[b], 1, false);
                assert_string_equal(t.log, "");
                close_training(&t);
                continue;
            }
            refused++;
            assert_int_equal(status, BG_ERROR_INVALID);
            assert_non_null(strstr(error.message, of_file));
            assert_non_null(strstr(error.message, own));
            assert_non_null(strstr(error.message, "give options.drop optimizer"));
            assert_int_equal(bg_session_step(t.session), 0);
            if (load(&t, folder, "parameters", NULL, &error) != BG_ERROR_INVALID)
                fail_msg("%s under %s: dropping parameters dropped the optimizer", optimizers[a], optimizers[b]);
            if ((a + b) % 4 != 0 && getenv("BRIGADE_TEST_ALL") == NULL) {
                close_training(&t);
                continue;
            }
            train(&t); /* existing state is reset too */
            if (load(&t, folder, "optimizer", NULL, &error) != BG_OK)
                fail_msg("%s under %s: %s", optimizers[a], optimizers[b], error.message);
            expect_loaded(&t, folder, optimizers[b], 1, true);
            assert_true((strstr(t.log, "the optimizer's state (") != NULL) == (a != 0));
            train(&t);
            close_training(&t);
        }
        test_folder_remove(folder);
    }
    /* Only momentum and nesterov, and adam and adam:uncorrected, can use each other's state. */
    assert_int_equal(refused, OPTIMIZERS * (OPTIMIZERS - 1) - 4);
}

/* If state is dropped, the session trains like a new one that begins with these weights, and has the same values after
 * more updates. */
static void test_dropped_state_begins_anew(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    bg_error error = {0};
    training dropped, begun;
    bg_safetensors *file;

    (void)state;
    make_checkpoint("adamw", 2, folder);
    open_training(&dropped, "lamb", 2);
    assert_int_equal(load(&dropped, folder, "optimizer", NULL, &error), BG_OK);
    open_training(&begun, "lamb", 2);
    file = open_file(folder);
    for (uint32_t i = 0; i < begun.weights->count; i++) {
        const bgi_weight *weight = &begun.weights->items[i];
        const bg_safetensors_entry *entry = bg_safetensors_find(file, weight->name);
        if (weight->role != BG_ROLE_STATE)
            assert_int_equal(bg_weights_set(begun.weights, weight->name, &entry->type, entry->data, &error), BG_OK);
    }
    bg_safetensors_destroy(file);
    train(&dropped);
    train(&begun);
    for (uint32_t i = 0; i < begun.weights->count; i++) {
        bg_weight a, b;
        assert_int_equal(bg_weights_at(begun.weights, i, &a, &error), BG_OK);
        assert_int_equal(bg_weights_find(dropped.weights, a.name, &b, &error), BG_OK);
        assert_memory_equal(a.data, b.data, bg_type_size_bytes(&a.type));
    }
    close_training(&begun);
    close_training(&dropped);
    test_folder_remove(folder);
}

/* If a file has no record of its optimizer, the kinds of state or the caller determine it; otherwise loading is an
 * error. */
static void test_files_without_the_record(void **state)
{
    static const struct {
        const char *of_file, *own, *given, *text; /* text NULL: the file loads */
    } cases[] = {
        {"adamw", "adamw", NULL, "which may be `adam` or `adamw` or `lamb`; this session trains with `adamw`"},
        {"adamw", "lamb", NULL, "give options.optimizer with the optimizer that made it"},
        {"adamw", "adamw", "adamw", NULL},
        {"adamw", "lamb", "adamw",
         "state of optimizer `adamw` (exp_avg exp_avg_sq), but this session trains with `lamb`"},
        {"adamw", "adamw", "adamww", "there is no `adamww`"},
        {"adamw", "sgd:momentum=0.9", NULL, "state of optimizer `adam` or `adamw` or `lamb`"},
        {"adamw", "adamax", NULL, "this session trains with `adamax` (exp_avg exp_inf)"},
        {"adamax", "adamax", NULL, NULL},
        {"adagrad", "adagrad", NULL, NULL},
        {"adadelta", "adadelta", NULL, NULL},
        {"sgd", "sgd", NULL, NULL},
        {"sgd", "adamw", NULL, "has the state of optimizer `none` (no state), but this session trains with `adamw`"},
        {"sgd:momentum=0.9", "sgd:momentum=0.9", NULL, "which may be `sgd:momentum` or `sgd:momentum,combined"},
        {"sgd:momentum=0.9", "sgd:momentum=0.9", "sgd:momentum=0.5", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[TEST_FOLDER_BYTES];
        bg_error error = {0};
        bg_status status;
        training t;

        make_checkpoint(cases[i].of_file, 1, folder);
        remove_record(folder);
        open_training(&t, cases[i].own, 1);
        status = load(&t, folder, NULL, cases[i].given, &error);
        if ((status == BG_OK) != (cases[i].text == NULL))
            fail_msg("case %zu: %s", i, error.message);
        if (cases[i].text != NULL && strstr(error.message, cases[i].text) == NULL)
            fail_msg("case %zu: `%s` lacks `%s`", i, error.message, cases[i].text);
        if (status == BG_OK) {
            expect_loaded(&t, folder, cases[i].own, 1, false);
        } else {
            assert_int_equal(bg_session_step(t.session), 0);
            assert_int_equal(load(&t, folder, "optimizer", NULL, &error), BG_OK);
            expect_loaded(&t, folder, cases[i].own, 1, true);
        }
        close_training(&t);
        test_folder_remove(folder);
    }
}

/* Weights record which optimizer's state they have, for every way to set this state. */
static void test_weights_without_a_session(void **state)
{
    bg_checkpoint_load_options options = bg_checkpoint_load_defaults();
    char folder[TEST_FOLDER_BYTES];
    bg_error error = {0};
    bg_weights *weights;
    training t, other;

    (void)state;
    make_checkpoint("adamw", 1, folder);
    for (int drops = 0; drops < 2; drops++) {
        assert_int_equal(bg_weights_create(&weights, &error), BG_OK);
        options.drop = drops ? "optimizer" : NULL;
        assert_int_equal(bg_checkpoint_load_weights(weights, folder, &options, NULL, &error), BG_OK);
        assert_int_equal(bg_weights_count(weights), drops ? 4 : 12);
        assert_int_equal(open_on(&t, "lamb", 1, weights, &error), drops ? BG_OK : BG_ERROR_INVALID);
        if (!drops)
            assert_non_null(strstr(error.message, "of optimizer `adamw`, but the plan trains with `lamb`"));
        close_training(&t);
        bg_error_clear(&error);
        if (!drops) {
            assert_int_equal(open_on(&t, "adamw", 1, weights, &error), BG_OK);
            close_training(&t);
        }
        bg_weights_destroy(weights);
    }
    /* A second session on the same weights is an error too if its optimizer's state has the same names, but another
     * meaning. An optimizer whose state has other names may train the weights.
     */
    open_training(&t, "adamw", 1);
    train(&t);
    assert_int_equal(open_on(&other, "adam", 1, t.weights, &error), BG_ERROR_INVALID);
    close_training(&other);
    bg_error_clear(&error);
    assert_int_equal(open_on(&other, "sgd:momentum=0.9", 1, t.weights, &error), BG_OK);
    close_training(&other);
    /* Existing state cannot be reset without a session. */
    options.drop = "optimizer";
    assert_int_equal(bg_checkpoint_load_weights(t.weights, folder, &options, NULL, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "only a session can reset its optimizer's state"));
    close_training(&t);
    test_folder_remove(folder);
}

/* ---- parameters ---- */

static void expect_refused(const training *t, const bg_error *error, const char *const *texts)
{
    for (; *texts != NULL; texts++)
        if (strstr(error->message, *texts) == NULL)
            fail_msg("`%s` lacks `%s`", error->message, *texts);
    assert_int_equal(error->status, BG_ERROR_INVALID);
    assert_int_equal(bg_session_step(t->session), 0);
}

static void test_other_depths(void **state)
{
    static const char *const more[] = {"has 2 of `layers.*` where the model has 3",
                                       "6 parameters where the model has 8",
                                       "it has no `layers.2.weight`, `layers.2.bias`",
                                       "and 2 more",
                                       "give options.drop parameters",
                                       NULL};
    static const char *const less[] = {"has 2 of `layers.*` where the model has 1",
                                       "6 parameters where the model has 4",
                                       "the model has no `layers.1.bias`",
                                       "and 2 more",
                                       "give options.drop parameters",
                                       NULL};
    char folder[TEST_FOLDER_BYTES];
    bg_safetensors *file;
    bg_error error = {0};

    (void)state;
    make_checkpoint("adamw", 2, folder);
    file = open_file(folder);
    for (int layers = 1; layers <= 3; layers += 2) {
        training t, fresh;

        open_training(&t, "adamw", layers);
        for (int d = 0; d <= (int)BG_CHECKPOINT_REFUSE; d++) {
            bg_checkpoint_load_options options = bg_checkpoint_load_defaults();
            options.differences = (bg_checkpoint_differences)d;
            bg_error_clear(&error);
            assert_int_equal(bg_checkpoint_load(t.session, folder, &options, NULL, &error), BG_ERROR_INVALID);
            expect_refused(&t, &error, layers == 3 ? more : less);
        }
        assert_int_equal(load(&t, folder, "optimizer", NULL, &error), BG_ERROR_INVALID);
        assert_int_equal(load(&t, folder, "parameters", NULL, &error), BG_OK);
        assert_non_null(strstr(t.log, "has 2 of `layers.*`"));
        assert_true((strstr(t.log, "weights that the checkpoint lacks keep their values") != NULL) == (layers == 3));
        assert_true((strstr(t.log, "weights that the model lacks are dropped") != NULL) == (layers == 1));
        assert_int_equal(bg_session_step(t.session), UPDATES);
        open_training(&fresh, "adamw", layers);
        for (uint32_t i = 0; i < t.weights->count; i++) {
            const bgi_weight *weight = &t.weights->items[i];
            if (strncmp(weight->name, "layers.2.", 9) == 0)
                assert_memory_equal(value_of(t.weights, weight->name), value_of(fresh.weights, weight->name),
                                    bg_type_size_bytes(&weight->type));
            else
                assert_true(equals_file(t.weights, weight, file));
        }
        close_training(&fresh);
        train(&t);
        assert_int_equal(load(&t, folder, "optimizer,parameters", NULL, &error), BG_OK);
        close_training(&t);
    }
    bg_safetensors_destroy(file);
    test_folder_remove(folder);
}

static void test_words_of_drop(void **state)
{
    static const char *const words[] = {"everything", "optimiser", "optimizer,x",
                                        ",optimizer", "optimize",  "optimizer parameters"};
    char folder[TEST_FOLDER_BYTES];
    bg_error error = {0};
    training t;

    (void)state;
    make_checkpoint("adamw", 1, folder);
    open_training(&t, "adamw", 1);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_int_equal(load(&t, folder, words[i], NULL, &error), BG_ERROR_INVALID);
        assert_non_null(strstr(error.message, "it must be `optimizer`, `parameters`, or both"));
        assert_non_null(strstr(error.message, words[i]));
    }
    assert_int_equal(load(&t, folder, "", NULL, &error), BG_OK);
    close_training(&t);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_record),
        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_dropped_state_begins_anew),
        cmocka_unit_test(test_files_without_the_record),
        cmocka_unit_test(test_weights_without_a_session),
        cmocka_unit_test(test_other_depths),
        cmocka_unit_test(test_words_of_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
