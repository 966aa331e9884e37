/*
 * test_device_model.c: tests the device descriptions that the program includes, and each invalid value.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "predict/device_model.h"

static const char good[] =
    "{\"format\": \"brigade device 1\", \"name\": \"d\", \"source\": \"s\", \"memory_bytes\": 1e9,\n"
    " \"memory_bytes_per_s\": 2e12, \"efficiency\": 0.5, \"call_ns\": 10,\n"
    " \"flops_per_s\": {\"float32\": 3e12, \"float16\": 12e12},\n"
    " \"link\": {\"bytes_per_s\": 1e11, \"latency_ns\": 500, \"devices\": 8},\n"
    " \"network\": {\"bytes_per_s\": 1e10, \"latency_ns\": 2000},\n"
    " \"remote_memory\": {\"bytes\": 4e9, \"bytes_per_s\": 2e10, \"latency_ns\": 0}}";

static bg_status parse(const char *text, bgi_device_model *out, bg_error *error)
{
    bg_error_clear(error);
    return bgi_device_model_parse("file", text, strlen(text), out, error);
}

static void values_arrive(void **state)
{
    bgi_device_model model;
    bg_error error = {0};

    (void)state;
    assert_int_equal(parse(good, &model, &error), BG_OK);
    assert_string_equal(model.name, "d");
    assert_true(model.memory_bytes == 1e9 && model.memory_bytes_per_ns == 2e12 * 1e-9);
    assert_true(model.efficiency == 0.5 && model.call_ns == 10.0);
    assert_true(bgi_device_model_flops(&model, BG_FLOAT32) == 3e12 * 1e-9);
    assert_true(bgi_device_model_flops(&model, BG_FLOAT16) == 12e12 * 1e-9);
    assert_true(bgi_device_model_flops(&model, BG_FLOAT64) == 3e12 * 1e-9); /* as float32 */
    assert_true(model.link.bytes_per_ns == 1e11 * 1e-9 && model.link.latency_ns == 500.0 && model.link_devices == 8);
    assert_true(model.network.bytes_per_ns == 1e10 * 1e-9 && model.remote_bytes == 4e9);
}

/* Stores `good` in `out`, with one string replaced by another. */
static void with(const char *from, const char *to, char *out, size_t capacity)
{
    const char *at = strstr(good, from);

    assert_non_null(at);
    snprintf(out, capacity, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"brigade device 1", "brigade device 2", "its `format` is \"brigade device 2\""},
        {"\"name\": \"d\", ", "", "`name` is missing"},
        {"\"source\": \"s\"", "\"source\": \"\"", "`source` is missing, empty or not a string"},
        {"\"memory_bytes\": 1e9", "\"memory_bytes\": 0", "`memory_bytes` is 0; it must be a number from 1"},
        {"\"memory_bytes\": 1e9", "\"memory_bytes\": \"1e9\"", "`memory_bytes` is not a number"},
        {"\"efficiency\": 0.5", "\"efficiency\": 1.5", "`efficiency` is 1.5"},
        {"\"efficiency\": 0.5", "\"efficency\": 0.5", "unknown key `efficency`"},
        {"\"call_ns\": 10", "\"call_ns\": -1", "`call_ns` is -1"},
        {"\"float32\": 3e12", "\"float33\": 3e12", "unknown key `flops_per_s.float33`"},
        {"\"float32\": 3e12, ", "", "`flops_per_s.float32` is missing"},
        {"\"devices\": 8", "\"devices\": 8.5", "`link.devices` is 8.5; it must be a whole number"},
        {"\"devices\": 8", "\"devices\": 0", "`link.devices` is 0"},
        {"\"latency_ns\": 2000", "\"latency_ns\": 1e30", "`network.latency_ns` is 1e+30"},
        {"{\"bytes_per_s\": 1e10, \"latency_ns\": 2000}", "7", "`network` is not an object"},
        {"\"remote_memory\"", "\"remote\"", "unknown key `remote`"},
        {"\"bytes_per_s\": 2e10", "\"bytes_per_s\": 0", "`remote_memory.bytes_per_s` is 0"},
    };
    char text[1024];
    bgi_device_model model = {.call_ns = 77.0};
    bg_error error = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        with(cases[i].from, cases[i].to, text, sizeof text);
        assert_int_equal(parse(text, &model, &error), BG_ERROR_PARSE);
        if (strstr(error.message, cases[i].says) == NULL || strncmp(error.message, "file", 4) != 0)
            fail_msg("case %zu: `%s`, expected `%s`", i, error.message, cases[i].says);
        assert_true(model.call_ns == 77.0); /* untouched */
    }
    assert_int_equal(parse("[]", &model, &error), BG_ERROR_PARSE);
    assert_int_equal(parse("{", &model, &error), BG_ERROR_PARSE);
}

static void shipped_ones_read_and_name_their_source(void **state)
{
    static const char *const paths[] = {"share/presets/devices/ipu-mk2.json", "share/presets/devices/h100.json"};
    bgi_device_model model;
    bg_error error = {0};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (bgi_device_model_load(paths[i], &model, &error) != BG_OK)
            fail_msg("%s", error.message);
        assert_non_null(strstr(model.source, "data sheet"));
        assert_true(bgi_device_model_flops(&model, BG_FLOAT16) > bgi_device_model_flops(&model, BG_FLOAT32));
        assert_true(model.link.bytes_per_ns > model.network.bytes_per_ns);
    }
    assert_int_equal(bgi_device_model_load("share/presets/devices/none.json", &model, &error), BG_ERROR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(shipped_ones_read_and_name_their_source),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
