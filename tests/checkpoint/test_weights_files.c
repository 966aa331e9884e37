/*
 * test_weights_files.c: saves weights to files and loads them: every format, different names and types, and tensors
 * that do not fit.
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
#include <unistd.h>

#include <brigade/ops.h>
#include <brigade/nn.h>
#include <brigade/readers.h>
#include <brigade/safetensors.h>
#include <brigade/weights.h>

#include "checkpoint/weights_names.h"
#include "core/narrow.h"
#include "support/folder.h"

static char folder[TEST_FOLDER_BYTES];

static const char *path_of(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bg_weights *empty(void)
{
    bg_weights *weights = NULL;

    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    return weights;
}

static void set_floats(bg_weights *weights, const char *name, int64_t rows, int64_t columns, float first)
{
    const bg_type type = bg_matrix(BG_FLOAT32, rows, columns);
    float values[64];

    for (int64_t i = 0; i < rows * columns; i++)
        values[i] = first + 0.25F * (float)i;
    assert_int_equal(bg_weights_set(weights, name, &type, values, NULL), BG_OK);
}

/* Makes weights "a.weight" [2, 3], "a.bias" [1, 2], "b.weight" [4, 4]. */
static bg_weights *model(float first)
{
    bg_weights *weights = empty();

    set_floats(weights, "a.weight", 2, 3, first);
    set_floats(weights, "a.bias", 1, 2, first + 10);
    set_floats(weights, "b.weight", 4, 4, first + 20);
    return weights;
}

static void expect_equal(bg_weights *found, bg_weights *expected)
{
    assert_int_equal(bg_weights_count(found), bg_weights_count(expected));
    for (uint32_t i = 0; i < bg_weights_count(expected); i++) {
        bg_weight want, have;
        assert_int_equal(bg_weights_at(expected, i, &want, NULL), BG_OK);
        assert_int_equal(bg_weights_find(found, want.name, &have, NULL), BG_OK);
        assert_true(bg_type_equal(&have.type, &want.type));
        assert_memory_equal(have.data, want.data, bg_type_size_bytes(&want.type));
    }
}

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* ---- round trips ---- */

static void test_round_trips(void **state)
{
    static const char *const names[] = {"w.safetensors", "w.npz", "w"};
    bg_error error = {0};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bg_weights *saved = model(1), *known = model(100), *unknown = empty();
        require(bg_weights_save(saved, path_of(names[i]), NULL, &error), &error);
        require(bg_weights_load(known, path_of(names[i]), NULL, NULL, &error), &error);
        expect_equal(known, saved);
        require(bg_weights_load(unknown, path_of(names[i]), NULL, NULL, &error), &error);
        expect_equal(unknown, saved);
        bg_weights_destroy(saved);
        bg_weights_destroy(known);
        bg_weights_destroy(unknown);
    }
    assert_int_equal(access(path_of("w/model.safetensors"), R_OK), 0);
}

/* Two tensors of 32 bytes fit into a file of at most 70 bytes, and a tensor of 64 bytes gets a separate file. A single
 * file replaces several, and several replace a single file. */
static void test_shards(void **state)
{
    bg_weights_save_options options = bg_weights_save_defaults();
    bg_weights *first = model(1), *second = model(2), *found = empty();
    bg_error error = {0};

    (void)state;
    options.folder_bytes = 70;
    require(bg_weights_save(first, path_of("shards/"), NULL, &error), &error);
    require(bg_weights_save(second, path_of("shards/"), &options, &error), &error);
    assert_int_equal(access(path_of("shards/model-00001-of-00002.safetensors"), R_OK), 0);
    assert_int_equal(access(path_of("shards/model-00002-of-00002.safetensors"), R_OK), 0);
    assert_int_equal(access(path_of("shards/model-00003-of-00002.safetensors"), F_OK), -1);
    assert_int_equal(access(path_of("shards/model.safetensors"), F_OK), -1);
    require(bg_weights_load(found, path_of("shards"), NULL, NULL, &error), &error);
    expect_equal(found, second);
    require(bg_weights_save(first, path_of("shards"), NULL, &error), &error);
    assert_int_equal(access(path_of("shards/model.safetensors.index.json"), F_OK), -1);
    require(bg_weights_load(found, path_of("shards"), NULL, NULL, &error), &error);
    expect_equal(found, first);
    bg_weights_destroy(first);
    bg_weights_destroy(second);
    bg_weights_destroy(found);
}

static void test_names(void **state)
{
    const bg_weights_rename renames[] = {{"linear.bias", "a.bias"}, {"encoder.*", "a.*"}, {"*.w", "*.weight"}};
    bg_weights_save_options save = bg_weights_save_defaults();
    bg_weights_load_options load = bg_weights_load_defaults();
    bg_weights *saved = model(1), *found = model(50);
    bg_weights_report report = {0};
    bg_safetensors *file = NULL;
    bg_error error = {0};

    (void)state;
    save.prefix = load.prefix = "net.";
    save.renames = load.renames = renames;
    save.rename_count = load.rename_count = 3;
    require(bg_weights_save(saved, path_of("names.safetensors"), &save, &error), &error);
    require(bg_safetensors_open(path_of("names.safetensors"), &file, &error), &error);
    assert_int_equal(bg_safetensors_count(file), 3);
    assert_string_equal(bg_safetensors_at(file, 0)->name, "net.b.w");
    assert_string_equal(bg_safetensors_at(file, 1)->name, "net.encoder.weight");
    assert_string_equal(bg_safetensors_at(file, 2)->name, "net.linear.bias");
    bg_safetensors_destroy(file);
    require(bg_weights_load(found, path_of("names.safetensors"), &load, &report, &error), &error);
    expect_equal(found, saved);
    assert_int_equal(report.counts[BG_WEIGHTS_LOADED], 3);
    assert_int_equal(report.result_count, 3);
    assert_string_equal(report.results[0].name, "a.bias");
    assert_string_equal(report.results[0].in_file, "net.linear.bias");
    bg_weights_report_clear(&report);
    load.prefix = "other."; /* no part of the file is read */
    assert_int_equal(bg_weights_load(found, path_of("names.safetensors"), &load, &report, &error), BG_ERROR_NOT_FOUND);
    assert_int_equal(report.counts[BG_WEIGHTS_IGNORED], 3);
    assert_int_equal(report.counts[BG_WEIGHTS_MISSING], 3);
    bg_weights_report_clear(&report);
    bg_weights_destroy(saved);
    bg_weights_destroy(found);
}

static void test_wrong_names(void **state)
{
    const bg_weights_rename both[] = {{"*.weight", "*"}, {"*.bias", "*"}};
    const bg_weights_rename wrong[][1] = {{{"a.*", "b"}}, {{"a", "*"}}, {{"*.*", "*.*"}}, {{NULL, "a"}}, {{"a", NULL}}};
    bg_weights_load_options load = bg_weights_load_defaults();
    bg_weights_save_options save = bg_weights_save_defaults();
    bg_weights *weights = model(1), *known = empty();
    bg_error error = {0};

    (void)state;
    require(bg_weights_save(weights, path_of("two.safetensors"), NULL, &error), &error);
    load.rename_count = save.rename_count = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        load.renames = save.renames = wrong[i];
        assert_int_equal(bg_weights_load(weights, path_of("two.safetensors"), &load, NULL, &error), BG_ERROR_INVALID);
        assert_int_equal(bg_weights_save(weights, path_of("no.safetensors"), &save, &error), BG_ERROR_INVALID);
    }
    /* Both tensors of `a` would get one weight's name. */
    set_floats(known, "a", 2, 3, 0);
    load.renames = both;
    load.rename_count = 2;
    assert_int_equal(bg_weights_load(known, path_of("two.safetensors"), &load, NULL, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "`a.weight`"));
    assert_non_null(strstr(error.message, "`a.bias`"));
    save.renames = (const bg_weights_rename[]){{"same", "a.bias"}, {"same", "a.weight"}};
    save.rename_count = 2;
    assert_int_equal(bg_weights_save(weights, path_of("no.safetensors"), &save, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_weights_save(weights, path_of("no.bin"), NULL, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, ".safetensors"));
    assert_int_equal(bg_weights_save(known, path_of("nowhere/w.npz"), NULL, &error), BG_ERROR_NOT_FOUND);
    bg_weights_destroy(known);
    known = empty();
    assert_int_equal(bg_weights_save(known, path_of("no.safetensors"), NULL, &error), BG_ERROR_INVALID);
    assert_int_equal(access(path_of("no.safetensors"), F_OK), -1);
    bg_weights_destroy(weights);
    bg_weights_destroy(known);
}

static void test_patterns(void **state)
{
    (void)state;
    assert_true(bgi_weights_names_match("*.num_batches_tracked", "bn.num_batches_tracked"));
    assert_false(bgi_weights_names_match("*.num_batches_tracked", "num_batches_tracked"));
    assert_true(bgi_weights_names_match("a,b*c,d", "bxc"));
    assert_true(bgi_weights_names_match("*a*b", "xaab"));
    assert_true(bgi_weights_names_match("*ab*", "aab"));
    assert_false(bgi_weights_names_match("*ab", "aba"));
    assert_true(bgi_weights_names_match("*", ""));
    assert_true(bgi_weights_names_match("x,*", "y"));
    assert_false(bgi_weights_names_match("a,b", "ab"));
    assert_false(bgi_weights_names_match("", "a"));
    assert_false(bgi_weights_names_match(NULL, "a"));
}

/* ---- mismatches ---- */

static void test_problems(void **state)
{
    bg_weights_load_options lenient = bg_weights_load_defaults();
    bg_weights *saved = model(1), *found = empty();
    bg_weights_report report = {0};
    bg_weight weight;
    bg_error error = {0};
    char *text = NULL;
    float before[6];

    (void)state;
    require(bg_weights_save(saved, path_of("m.safetensors"), NULL, &error), &error);
    set_floats(found, "a.weight", 2, 3, 50);
    set_floats(found, "a.bias", 1, 3, 60); /* [1, 2] in the file, which also has b.weight, but not c.weight */
    set_floats(found, "c.weight", 1, 1, 70);
    require(bg_weights_find(found, "a.weight", &weight, &error), &error);
    memcpy(before, weight.data, sizeof before);

    assert_int_equal(bg_weights_load(found, path_of("m.safetensors"), NULL, &report, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "1 missing, 1 unexpected, 1 of another shape"));
    assert_non_null(
        strstr(error.message, "misfit `a.bias`: the file has float32[1,2], but the model has float32[1,3]"));
    assert_non_null(strstr(error.message, "missing `c.weight` float32[1,1]"));
    require(bg_weights_find(found, "a.weight", &weight, &error), &error);
    assert_memory_equal(weight.data, before, sizeof before);
    require(bg_weights_report_print(&report, &text, &error), &error);
    assert_string_equal(text, "misfit `a.bias`: the file has float32[1,2], but the model has float32[1,3]\n"
                              "unexpected `b.weight` float32[4,4]\n"
                              "missing `c.weight` float32[1,1]\n");
    free(text);
    bg_weights_report_clear(&report);

    lenient.strict = false;
    require(bg_weights_load(found, path_of("m.safetensors"), &lenient, &report, &error), &error);
    assert_int_equal(report.counts[BG_WEIGHTS_LOADED], 1);
    assert_int_equal(report.counts[BG_WEIGHTS_MISSING], 1);
    assert_int_equal(report.counts[BG_WEIGHTS_UNEXPECTED], 1);
    assert_int_equal(report.counts[BG_WEIGHTS_MISFIT], 1);
    require(bg_weights_find(found, "a.weight", &weight, &error), &error);
    assert_float_equal(((const float *)weight.data)[0], 1, 0);
    require(bg_weights_find(found, "a.bias", &weight, &error), &error);
    assert_float_equal(((const float *)weight.data)[0], 60, 0);
    assert_int_equal(bg_weights_find(found, "b.weight", &weight, NULL), BG_ERROR_NOT_FOUND);
    bg_weights_report_clear(&report);
    bg_weights_destroy(found);

    /* Checks each kind of error separately, and its status. */
    found = model(3);
    set_floats(found, "more", 1, 1, 0);
    assert_int_equal(bg_weights_load(found, path_of("m.safetensors"), NULL, NULL, &error), BG_ERROR_NOT_FOUND);
    bg_weights_destroy(found);
    found = empty();
    set_floats(found, "a.weight", 2, 3, 0);
    assert_int_equal(bg_weights_load(found, path_of("m.safetensors"), NULL, NULL, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_weights_load(found, path_of("none"), NULL, NULL, &error), BG_ERROR_NOT_FOUND);
    assert_int_equal(bg_weights_load(found, folder, NULL, NULL, &error), BG_ERROR_NOT_FOUND);
    assert_int_equal(bg_weights_load(NULL, folder, NULL, NULL, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_weights_load(found, NULL, NULL, NULL, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_weights_save(NULL, folder, NULL, &error), BG_ERROR_INVALID);
    bg_weights_destroy(found);
    bg_weights_destroy(saved);
}

/* If there are many names, the message contains the first ones and the number of names. */
static void test_many_problems(void **state)
{
    bg_weights *saved = model(1), *found = model(2);
    bg_error error = {0};
    char name[16];

    (void)state;
    require(bg_weights_save(saved, path_of("few.npz"), NULL, &error), &error);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "extra.%02d", i);
        set_floats(found, name, 1, 1, 0);
    }
    assert_int_equal(bg_weights_load(found, path_of("few.npz"), NULL, NULL, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "20 missing"));
    assert_non_null(strstr(error.message, "`extra.04`"));
    assert_null(strstr(error.message, "`extra.05`"));
    assert_non_null(strstr(error.message, "and 15 more"));
    bg_weights_destroy(saved);
    bg_weights_destroy(found);
}

/* ---- progress ---- */

typedef struct progress {
    uint64_t calls, last, total, cancel_at;
    char what[3][32];
} progress;

static bool report(void *user, const char *what, uint64_t done, uint64_t total)
{
    progress *p = user;

    assert_true(p->calls == 0 ? done == 0 : done > p->last && total == p->total);
    assert_true(p->calls < 3 && done < total);
    p->last = done;
    p->total = total;
    snprintf(p->what[p->calls], sizeof p->what[0], "%s", what);
    return ++p->calls == p->cancel_at;
}

static void test_progress(void **state)
{
    const uint64_t all = 4 * (6 + 2 + 16);
    bg_weights_load_options load = bg_weights_load_defaults();
    bg_weights_save_options save = bg_weights_save_defaults();
    bg_weights *saved = model(1), *found = model(2);
    progress p = {.calls = 0};
    bg_weight weight;
    bg_error error = {0};

    (void)state;
    load.progress = save.progress = report;
    load.progress_user = save.progress_user = &p;
    require(bg_weights_save(saved, path_of("steps.safetensors"), &save, &error), &error);
    assert_int_equal(p.calls, 3);
    assert_int_equal(p.total, all);
    p = (progress){.cancel_at = 2};
    assert_int_equal(bg_weights_save(saved, path_of("canceled.safetensors"), &save, &error), BG_ERROR_CANCELED);
    assert_int_equal(p.calls, 2);
    assert_non_null(strstr(error.message, "progress canceled the save before `"));
    assert_int_equal(access(path_of("canceled.safetensors"), F_OK), -1);

    p = (progress){.cancel_at = 2};
    assert_int_equal(bg_weights_load(found, path_of("steps.safetensors"), &load, NULL, &error), BG_ERROR_CANCELED);
    assert_string_equal(p.what[0], "a.bias");
    assert_string_equal(p.what[1], "a.weight");
    assert_non_null(strstr(error.message, "progress canceled the load before `a.weight`"));
    require(bg_weights_find(found, "a.weight", &weight, &error), &error);
    assert_float_equal(((const float *)weight.data)[0], 2, 0); /* as before */
    p = (progress){.calls = 0};
    require(bg_weights_load(found, path_of("steps.safetensors"), &load, NULL, &error), &error);
    assert_int_equal(p.calls, 3);
    assert_int_equal(p.total, all);
    expect_equal(found, saved);
    bg_weights_destroy(saved);
    bg_weights_destroy(found);
}

/* ---- types ---- */

static const float values[4] = {1.5F, -0.3F, 65519.0F, 1e-7F};

static void test_float_types(void **state)
{
    static const bg_dtype types[] = {BG_FLOAT32, BG_FLOAT16, BG_BFLOAT16, BG_FLOAT64};
    const bg_type type = bg_vector(BG_FLOAT32, 4);
    bg_weights_load_options exact = bg_weights_load_defaults();
    bg_weights_save_options save = bg_weights_save_defaults();
    bg_error error = {0};

    (void)state;
    exact.exact_types = true;
    for (size_t t = 0; t < 4; t++) {
        bg_weights *saved = empty(), *found = empty(), *as_is = empty();
        bg_weight weight;
        assert_int_equal(bg_weights_set(saved, "w", &type, values, NULL), BG_OK);
        assert_int_equal(bg_weights_set(found, "w", &type, (const float[4]){0}, NULL), BG_OK);
        save.floats = types[t];
        require(bg_weights_save(saved, path_of("t.safetensors"), &save, &error), &error);
        require(bg_weights_load(as_is, path_of("t.safetensors"), NULL, NULL, &error), &error);
        require(bg_weights_find(as_is, "w", &weight, &error), &error);
        assert_int_equal(weight.type.dtype, types[t]);
        assert_int_equal(bg_weights_load(found, path_of("t.safetensors"), &exact, NULL, &error),
                         types[t] == BG_FLOAT32 ? BG_OK : BG_ERROR_SHAPE);
        require(bg_weights_load(found, path_of("t.safetensors"), NULL, NULL, &error), &error);
        require(bg_weights_find(found, "w", &weight, &error), &error);
        for (int i = 0; i < 4; i++) {
            const float expected = bgi_dtype_is_narrow(types[t])
                                       ? bgi_narrow_to_float(types[t], bgi_narrow_from_float(types[t], values[i]))
                                       : values[i];
            assert_memory_equal((const float *)weight.data + i, &expected, sizeof expected);
        }
        bg_weights_destroy(saved);
        bg_weights_destroy(found);
        bg_weights_destroy(as_is);
    }
    save.floats = BG_BFLOAT16; /* NumPy has no such type */
    {
        bg_weights *saved = model(1);
        assert_int_equal(bg_weights_save(saved, path_of("t.npz"), &save, &error), BG_ERROR_UNSUPPORTED);
        assert_int_equal(access(path_of("t.npz"), F_OK), -1);
        save.floats = BG_INT32;
        assert_int_equal(bg_weights_save(saved, path_of("t.npz"), &save, &error), BG_ERROR_INVALID);
        bg_weights_destroy(saved);
    }
}

static void write_foreign(const char *path)
{
    static const char header[] = "{\"flags\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[8,11]},"
                                 "\"bn.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                                 "\"tiny\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[11,12]}}";
    const uint64_t length = sizeof header - 1;
    const unsigned char data[12] = {7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 9};
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(&length, sizeof length, 1, file), 1);
    assert_int_equal(fwrite(header, length, 1, file), 1);
    assert_int_equal(fwrite(data, sizeof data, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

/* Booleans are bytes; a counter is left out unless it is requested; a tensor of a type that Brigade does not have is
 * unexpected. */
static void test_other_types(void **state)
{
    const bg_type bytes = bg_vector(BG_UINT8, 3), count = {.dtype = BG_INT32};
    const unsigned char expected[3] = {1, 0, 1};
    bg_weights_load_options options = bg_weights_load_defaults();
    bg_weights *found = empty();
    bg_weights_report report = {0};
    bg_weight weight;
    bg_error error = {0};
    const int64_t large[2] = {INT64_C(1) << 40, 3};
    const bg_type wide = bg_vector(BG_INT64, 2), narrow = bg_vector(BG_INT32, 2);

    (void)state;
    write_foreign(path_of("f.safetensors"));
    assert_int_equal(bg_weights_set(found, "flags", &bytes, (const unsigned char[3]){9, 9, 9}, NULL), BG_OK);
    options.strict = false;
    require(bg_weights_load(found, path_of("f.safetensors"), &options, &report, &error), &error);
    assert_int_equal(report.counts[BG_WEIGHTS_LOADED], 1);
    assert_int_equal(report.counts[BG_WEIGHTS_IGNORED], 1);
    assert_int_equal(report.counts[BG_WEIGHTS_UNEXPECTED], 1);
    bg_weights_report_clear(&report);
    require(bg_weights_find(found, "flags", &weight, &error), &error);
    assert_memory_equal(weight.data, expected, sizeof expected);

    options.ignore = "tiny"; /* now the counter is requested, as int32 */
    options.strict = true;
    assert_int_equal(bg_weights_set(found, "bn.num_batches_tracked", &count, &(int32_t){0}, NULL), BG_OK);
    require(bg_weights_load(found, path_of("f.safetensors"), &options, NULL, &error), &error);
    require(bg_weights_find(found, "bn.num_batches_tracked", &weight, &error), &error);
    assert_int_equal(*(const int32_t *)weight.data, 7);
    bg_weights_destroy(found);

    found = empty();
    assert_int_equal(bg_weights_set(found, "n", &wide, large, NULL), BG_OK);
    require(bg_weights_save(found, path_of("n.safetensors"), NULL, &error), &error);
    bg_weights_destroy(found);
    found = empty();
    assert_int_equal(bg_weights_set(found, "n", &narrow, (const int32_t[2]){0}, NULL), BG_OK);
    assert_int_equal(bg_weights_load(found, path_of("n.safetensors"), NULL, NULL, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "1099511627776"));
    bg_weights_destroy(found);
}

/* ---- a plan selects tensors ---- */

static void test_plan(void **state)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 2, 3);
    const bg_optimizer adam = bg_adam(0.1);
    bg_options options = bg_options_defaults();
    bg_weights_load_options load = bg_weights_load_defaults();
    bg_weights *weights = empty();
    bg_session *training = NULL, *inference = NULL;
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value y, loss;
    const float x[2][3] = {{1, 2, 3}, {-1, 0, 1}};
    float trained[2][4], found[2][4], sink;

    (void)state;
    require(bg_graph_create(&graph, &error), &error);
    y = bg_linear_layer(graph, "fc", bg_graph_input(graph, "x", &x_type), 4, true);
    bg_graph_output(graph, "y", y);
    loss = bg_reduce(graph, "loss", BG_REDUCE_MEAN, y, NULL, 0, false);
    bg_graph_output(graph, "loss", loss);
    require(bg_session_create_training(graph, loss, &adam, NULL, NULL, &training, &error), &error);
    for (int step = 0; step < 3; step++)
        require(bg_session_run(training, (const void *[]){x}, (void *[]){trained, &sink}, &error), &error);
    require(bg_weights_save(bg_session_weights(training), path_of("p.safetensors"), NULL, &error), &error);
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    require(bg_session_create(plan, bg_session_weights(training), &inference, &error), &error);
    require(bg_session_run(inference, (const void *[]){x}, (void *[]){trained, &sink}, &error), &error);
    bg_session_destroy(inference);

    load.plan = plan;
    require(bg_weights_load(weights, path_of("p.safetensors"), &load, NULL, &error), &error);
    assert_int_equal(bg_weights_count(weights), 2); /* without the optimizer's state */
    require(bg_session_create(plan, weights, &inference, &error), &error);
    require(bg_session_run(inference, (const void *[]){x}, (void *[]){found, &sink}, &error), &error);
    assert_memory_equal(found, trained, sizeof found);
    bg_session_destroy(inference);
    load.prefix = "none.";
    assert_int_equal(bg_weights_load(weights, path_of("p.safetensors"), &load, NULL, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "2 missing"));
    bg_weights_destroy(weights);
    bg_session_destroy(training);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* A session continues training with weights that were loaded into the session. */
static void test_session(void **state)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, 1, 2);
    const bg_optimizer still = bg_sgd(0.0);
    bg_session *session = NULL;
    bg_graph *graph = NULL;
    bg_weights *given = empty();
    bg_error error = {0};
    bg_value loss;
    const float x[2] = {1, 1};
    float sum;

    (void)state;
    set_floats(given, "w", 1, 2, 2); /* 2 and 2.25 */
    require(bg_weights_save(given, path_of("s.npz"), NULL, &error), &error);
    require(bg_graph_create(&graph, &error), &error);
    loss = bg_graph_input(graph, "x", &x_type);
    loss = bg_linear(graph, "fc", loss, bg_graph_parameter(graph, "w", &x_type, NULL), (bg_value){0});
    loss = bg_reduce(graph, "loss", BG_REDUCE_SUM, loss, NULL, 0, false);
    bg_graph_output(graph, "loss", loss);
    require(bg_session_create_training(graph, loss, &still, NULL, NULL, &session, &error), &error);
    require(bg_session_run(session, (const void *[]){x}, (void *[]){&sum}, &error), &error);
    require(bg_weights_load(bg_session_weights(session), path_of("s.npz"), NULL, NULL, &error), &error);
    require(bg_session_run(session, (const void *[]){x}, (void *[]){&sum}, &error), &error);
    assert_float_equal(sum, 4.25, 0);
    bg_session_destroy(session);
    bg_graph_destroy(graph);
    bg_weights_destroy(given);
}

/* ---- .npz as NumPy expects it ---- */

static void test_npz(void **state)
{
    bg_weights *saved = model(1);
    bg_npz npz = {0};
    bg_error error = {0};
    unsigned char begin[80];
    FILE *file;

    (void)state;
    require(bg_weights_save(saved, path_of("n.npz"), NULL, &error), &error);
    require(bg_npz_read(path_of("n.npz"), &npz, &error), &error);
    assert_int_equal(npz.count, 3);
    assert_string_equal(npz.names[0], "a.bias");
    assert_int_equal(npz.arrays[0].type.rank, 2);
    bg_npz_clear(&npz);
    file = fopen(path_of("n.npz"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(begin, 1, sizeof begin, file), sizeof begin);
    fclose(file);
    assert_memory_equal(begin, "PK\3\4", 4);
    assert_memory_equal(begin + 30, "a.bias.npy", 10);
    assert_memory_equal(begin + 40, "\x93NUMPY\1\0", 8);
    bg_weights_destroy(saved);
}

static int make_folder(void **state)
{
    (void)state;
    test_folder_create(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_shards),        cmocka_unit_test(test_names),
        cmocka_unit_test(test_wrong_names), cmocka_unit_test(test_patterns),      cmocka_unit_test(test_problems),
        cmocka_unit_test(test_progress),    cmocka_unit_test(test_many_problems), cmocka_unit_test(test_float_types),
        cmocka_unit_test(test_other_types), cmocka_unit_test(test_plan),          cmocka_unit_test(test_session),
        cmocka_unit_test(test_npz),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
