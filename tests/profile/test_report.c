/*
 * test_report.c: a recorded session's folder. The summary shows the recorded data, times add up, and files are bounded.
 * Names of models and folders are treated as data and never as markup. Invalid summaries are errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <brigade/convnet.h>
#include <brigade/profile.h>

#include "core/file.h"
#include "profile/report.h"
#include "support/folder.h"

enum { MICRO_BATCH = 4, ACCUMULATION = 6, ITERATIONS = 3 };

typedef struct recorded {
    bg_plan *plan;
    bg_session *session;
    void *inputs[4], *outputs[4];
    char folder[64];
} recorded;

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

/* The last values that the progress callback got, which all plans here share. */
static struct asked {
    uint64_t calls, cancel_at, done, total;
    bool rises;
    char what[96];
} asked;

static bool ask(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    asked.rises = asked.calls == 0 ? done == 0 : asked.rises && done == asked.done + 1 && total == asked.total;
    asked.done = done;
    asked.total = total;
    snprintf(asked.what, sizeof asked.what, "%s", what);
    return ++asked.calls == asked.cancel_at;
}

static void open_network(recorded *r, bool trace, uint32_t events)
{
    bg_convnet_options network = bg_convnet_defaults();
    const bg_optimizer optimizer = bg_adamw(0.001);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_convnet net;

    *r = (recorded){.plan = NULL};
    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.device_iterations = ITERATIONS;
    options.execution.cores = 2;
    options.reporting.trace = trace;
    options.reporting.trace_events = events;
    options.reporting.progress = ask;
    options.numerics.initialize_missing = true;
    network.micro_batch = MICRO_BATCH;
    require(bg_graph_create(&graph, &error), &error);
    net = bg_convnet_build(graph, &network);
    require(bg_plan_create_training(graph, net.loss, &optimizer, &options, &r->plan, &error), &error);
    bg_graph_destroy(graph);
    require(bg_session_create(r->plan, NULL, &r->session, &error), &error);
    for (uint32_t i = 0; i < bg_session_input_count(r->session); i++) {
        bg_stream stream;
        require(bg_session_input(r->session, i, &stream, &error), &error);
        r->inputs[i] = calloc(1, stream.size_bytes);
        assert_non_null(r->inputs[i]);
    }
    test_folder_create(r->folder);
}

static void run(recorded *r, int count)
{
    bg_error error = {0};

    for (int i = 0; i < count; i++)
        require(bg_session_run(r->session, (const void *const *)r->inputs, r->outputs, &error), &error);
}

static void close_network(recorded *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    for (int i = 0; i < 4; i++)
        free(r->inputs[i]);
    test_folder_remove(r->folder);
}

static char *load(const recorded *r, const char *name, size_t *size_bytes)
{
    char *path = bgi_path_join(r->folder, name), *text = NULL;
    bg_error error = {0};

    assert_non_null(path);
    require(bgi_file_load(path, (size_t)1 << 28, &text, size_bytes, &error), &error);
    free(path);
    return text;
}

static json_t *write_and_read(recorded *r, const bg_profile_notes *notes)
{
    size_t size_bytes;
    bg_error error = {0};
    json_error_t json_error;
    json_t *root;
    char *text;

    require(bg_profile_write(r->session, notes, r->folder, &error), &error);
    text = load(r, "summary.json", &size_bytes);
    root = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (root == NULL)
        fail_msg("summary.json:%d: %s", json_error.line, json_error.text);
    free(text);
    return root;
}

static double at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value))
        fail_msg("no number `%s`", key);
    return json_number_value(value);
}

static double sum_values(const json_t *object)
{
    const json_t *value;
    const char *key;
    double sum = 0.0;

    json_object_foreach((json_t *)(uintptr_t)object, key, value) sum += json_number_value(value);
    return sum;
}

/* ---- contents ---- */

/* Times add up, except for rounding to whole nanoseconds. */
static void test_times_add_up(void **state)
{
    recorded r;
    const json_t *item;
    json_t *root;
    size_t index;
    double window;

    (void)state;
    open_network(&r, true, 65536);
    run(&r, 3);
    root = write_and_read(&r, NULL);
    window = at(json_object_get(root, "recorded"), "window_ns");
    assert_true(window > 0.0);
    assert_int_equal(at(json_object_get(root, "recorded"), "steps"), 3 * ITERATIONS);
    assert_int_equal(json_array_size(json_object_get(root, "cores")), 2);
    json_array_foreach(json_object_get(root, "cores"), index, item)
    {
        const double sum = at(item, "work_ns") + at(item, "help_ns") + at(item, "beside_ns") + at(item, "idle_ns");
        assert_true(fabs(sum - window) <= 4.0);
    }
    json_array_foreach(json_object_get(root, "devices"), index, item)
    {
        const double sum = at(item, "busy_ns") + sum_values(json_object_get(item, "lost_ns"));
        assert_true(fabs(sum - window) <= 10.0);
        assert_true(at(item, "busy_ns") > 0.0);
    }
    assert_int_equal(index, 4);
    json_decref(root);
    close_network(&r);
}

/* Each op of a pass is listed with the time of a call, and the sum of all ops is the time of the actions. */
static void test_ops(void **state)
{
    double ops_ns[4] = {0}, forward_ns;
    bool has_convolution = false;
    recorded r;
    const json_t *item;
    json_t *root;
    size_t index;

    (void)state;
    open_network(&r, true, 65536);
    run(&r, 3);
    root = write_and_read(&r, NULL);
    json_array_foreach(json_object_get(root, "ops"), index, item)
    {
        const char *kernel = json_string_value(json_object_get(item, "kernel"));
        const char *pass = json_string_value(json_object_get(item, "pass"));
        assert_non_null(kernel);
        assert_true(at(item, "timed") > 0.0);
        assert_true(at(item, "least_ns") <= at(item, "mean_ns") && at(item, "mean_ns") <= at(item, "most_ns"));
        has_convolution = has_convolution || strstr(kernel, "conv") != NULL;
        if (strcmp(pass, "F") == 0)
            ops_ns[(int)at(item, "stage")] += at(item, "mean_ns");
    }
    assert_true(has_convolution);
    json_array_foreach(json_object_get(root, "devices"), index, item)
    {
        const json_t *forwards = json_object_get(json_object_get(item, "kinds"), "F");
        assert_int_equal(json_integer_value(json_array_get(forwards, 0)), 3 * ITERATIONS * ACCUMULATION);
        forward_ns = json_number_value(json_array_get(forwards, 1)) / (3 * ITERATIONS * ACCUMULATION);
        assert_true(ops_ns[index] > 0.5 * forward_ns && ops_ns[index] <= 1.01 * forward_ns);
    }
    json_array_foreach(json_object_get(root, "stages"), index, item) assert_true(at(item, "forward_ns") > 0.0);
    assert_true(at(json_object_get(root, "rates"), "flops_per_step") > 0.0);
    assert_true(at(json_object_get(root, "machine"), "flops_per_s") > 1e6);
    json_decref(root);
    close_network(&r);
}

/* The live bytes never exceed the plan's number, and reach it at some time. */
static void test_memory(void **state)
{
    recorded r;
    const json_t *device, *span, *other;
    json_t *root;
    size_t index, i, k;

    (void)state;
    open_network(&r, true, 65536);
    run(&r, 2);
    root = write_and_read(&r, NULL);
    json_array_foreach(json_object_get(root, "memory"), index, device)
    {
        const json_t *spans = json_object_get(device, "spans");
        const double always = sum_values(json_object_get(device, "always"));
        double most = 0.0;
        json_array_foreach(spans, i, span)
        {
            const double moment = json_number_value(json_array_get(span, 0));
            double live = always;
            json_array_foreach(spans, k, other)
            {
                if (json_number_value(json_array_get(other, 0)) <= moment &&
                    moment < json_number_value(json_array_get(other, 1)))
                    live += json_number_value(json_array_get(other, 2));
            }
            most = fmax(most, live);
        }
        assert_true(most > always);
        assert_true(most <= at(device, "bytes"));
        assert_true(at(device, "touched_bytes") == at(device, "bytes"));
    }
    assert_true(json_array_size(json_object_get(root, "tensors")) > 0);
    json_decref(root);
    close_network(&r);
}

/* ---- the trace ---- */

static bool is_number(const json_t *event, const char *key)
{
    return json_is_number(json_object_get(event, key)) && json_number_value(json_object_get(event, key)) >= 0.0;
}

/* Returns whether the event has the fields that the Trace Event Format requires for its phase. */
static bool keeps_format(const json_t *event, const char *phase)
{
    const json_t *args = json_object_get(event, "args");

    if (!json_is_string(json_object_get(event, "name")) || !json_is_integer(json_object_get(event, "pid")))
        return false;
    switch (phase[0]) {
    case 'M':
        return json_is_string(json_object_get(args, "name"));
    case 'X':
        return json_is_string(json_object_get(event, "cat")) && json_is_integer(json_object_get(event, "tid")) &&
               is_number(event, "ts") && is_number(event, "dur") && json_is_object(args);
    case 'C':
        return is_number(event, "ts") && json_is_number(json_object_get(args, "bytes"));
    case 's':
    case 'f':
        return json_is_string(json_object_get(event, "cat")) && json_is_string(json_object_get(event, "id")) &&
               json_is_integer(json_object_get(event, "tid")) && is_number(event, "ts") &&
               (phase[0] == 's' || strcmp(json_string_value(json_object_get(event, "bp")), "e") == 0);
    default:
        return false;
    }
}

static void test_trace_format(void **state)
{
    size_t size_bytes, index, starts = 0, ends = 0;
    const json_t *event;
    recorded r;
    json_t *root;
    char *text;

    (void)state;
    open_network(&r, true, 65536);
    run(&r, 2);
    json_decref(write_and_read(&r, NULL));
    text = load(&r, "trace.json", &size_bytes);
    root = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_true(json_array_size(json_object_get(root, "traceEvents")) > 100);
    json_array_foreach(json_object_get(root, "traceEvents"), index, event)
    {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        assert_non_null(phase);
        assert_int_equal(strlen(phase), 1);
        if (!keeps_format(event, phase))
            fail_msg("event %zu of phase %s breaks the format", index, phase);
        starts += phase[0] == 's';
        ends += phase[0] == 'f';
    }
    assert_true(starts > 0);
    assert_int_equal(starts, ends);
    json_decref(root);
    free(text);
    close_network(&r);
}

/* ---- recording ---- */

static void test_start_and_stop(void **state)
{
    recorded r;
    json_t *root;
    bg_error error = {0};

    (void)state;
    open_network(&r, true, 65536);
    run(&r, 3);
    require(bg_profile_start(r.session, &error), &error);
    run(&r, 2);
    require(bg_profile_stop(r.session, &error), &error);
    run(&r, 4);
    root = write_and_read(&r, NULL);
    assert_int_equal(at(json_object_get(root, "recorded"), "runs"), 2);
    assert_int_equal(at(json_object_get(root, "recorded"), "steps"), 2 * ITERATIONS);
    json_decref(root);
    close_network(&r);

    open_network(&r, false, 1);
    run(&r, 1);
    assert_int_equal(bg_profile_start(r.session, &error), BG_ERROR_INVALID);
    assert_int_equal(bg_profile_write(r.session, NULL, r.folder, &error), BG_ERROR_INVALID);
    close_network(&r);
}

static off_t size_of(const recorded *r, const char *name)
{
    char *path = bgi_path_join(r->folder, name);
    struct stat status;

    assert_non_null(path);
    assert_int_equal(stat(path, &status), 0);
    free(path);
    return status.st_size;
}

/* For runs of any length, files are bounded, totals cover everything, and omitted entries are reported. */
static void test_bounded(void **state)
{
    const char *const quick = getenv("BRIGADE_TEST_QUICK");
    const int runs = quick != NULL && quick[0] == '1' ? 100 : 700;
    recorded r;
    json_t *root;
    off_t short_bytes, long_bytes;

    (void)state;
    open_network(&r, true, 2000);
    run(&r, 60);
    json_decref(write_and_read(&r, NULL));
    short_bytes = size_of(&r, "report.html") + size_of(&r, "trace.json");
    run(&r, runs);
    root = write_and_read(&r, NULL);
    long_bytes = size_of(&r, "report.html") + size_of(&r, "trace.json");
    assert_true(long_bytes < short_bytes + short_bytes / 4);
    assert_true(size_of(&r, "report.html") < 4 << 20);
    assert_int_equal(at(json_object_get(root, "recorded"), "steps"), (60 + runs) * ITERATIONS);
    assert_true(at(json_object_get(root, "recorded"), "events_dropped") > 0.0);
    json_decref(root);
    close_network(&r);
}

/* ---- text and HTML ---- */

static void test_names_are_data(void **state)
{
    const char *const settings[] = {"--note", "</script><img src=x onerror=alert(1)>", NULL};
    const bg_profile_notes notes = {
        .program = "<b>me</b>", .model = "</script><script>bad()</script>\x1b[31m", .settings = settings};
    recorded r;
    char *html, *text = NULL;
    size_t size_bytes, scripts = 0;
    bg_error error = {0};

    (void)state;
    open_network(&r, true, 65536);
    run(&r, 1);
    json_decref(write_and_read(&r, &notes));
    html = load(&r, "report.html", &size_bytes);
    assert_null(strstr(html, "bad()</script>"));
    assert_null(strstr(html, "<img src=x"));
    for (const char *next = html; (next = strstr(next, "</script>")) != NULL; next++)
        scripts++;
    assert_int_equal(scripts, 2); /* the ends of the data script and of the page's script */
    free(html);
    require(bg_profile_print_report(r.folder, r.folder, false, &text, &error), &error);
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "<b>me</b>"));
    assert_non_null(strstr(text, "What to change"));
    assert_non_null(strstr(text, "Comparison"));
    free(text);
    require(bg_profile_print_report(r.folder, NULL, true, &text, &error), &error);
    assert_non_null(strstr(text, "\x1b[1m"));
    free(text);
    close_network(&r);
}

static void refuse(const char *text, bg_status expected)
{
    bgi_report_part part = {.name = "input", .summary = text, .size_bytes = strlen(text)};
    char *out = NULL;
    bg_error error = {0};

    assert_int_equal(bgi_summary_check("input", text, strlen(text), &error), expected);
    assert_int_equal(bgi_report_print(&part, 1, false, &out, &error), expected);
    assert_true(strlen(error.message) > 0);
    assert_null(out);
}

static void test_other_files(void **state)
{
    static const char strange[] =
        "{\"format\":\"brigade-profile\",\"version\":1,\"stages\":[1,null,{\"stage\":1e308}],\"ops\":{},\"memory\":"
        "\"x\","
        "\"insights\":[[],{\"text\":5},{\"text\":\"a\\u001b[31mb\"}],\"tensors\":[{\"bytes\":-1}],\"time\":[]}";
    const bgi_report_part part = {.name = "", .summary = strange, .size_bytes = strlen(strange)};
    char *out = NULL;
    bg_error error = {0};

    (void)state;
    refuse("", BG_ERROR_PARSE);
    refuse("{", BG_ERROR_PARSE);
    refuse("[]", BG_ERROR_PARSE);
    refuse("{\"format\":\"other\"}", BG_ERROR_PARSE);
    refuse("{\"format\":\"brigade-profile\"}", BG_ERROR_PARSE);
    refuse("{\"format\":\"brigade-profile\",\"version\":2}", BG_ERROR_PARSE);
    require(bgi_report_print(&part, 1, false, &out, &error), &error);
    assert_null(strchr(out, '\x1b'));
    free(out);
    assert_int_equal(bg_profile_report("/nonexistent", NULL, "/tmp/never.html", &error), BG_ERROR_NOT_FOUND);
}

/* ---- progress ---- */

/* A canceled report leaves no new folder and does not change an older report. */
static void test_progress(void **state)
{
    recorded r;
    char folder[96], trace[96], *before, *after;
    size_t before_bytes, after_bytes;
    uint64_t parts;
    bg_error error = {0};
    (void)state;

    open_network(&r, true, 512);
    run(&r, 1);
    asked = (struct asked){.cancel_at = 0};
    require(bg_profile_write(r.session, NULL, r.folder, &error), &error);
    parts = asked.calls;
    assert_true(asked.rises);
    assert_int_equal(parts, asked.total);
    before = load(&r, "summary.json", &before_bytes);
    run(&r, 1);
    snprintf(folder, sizeof folder, "%s/new", r.folder);
    for (int i = 0; i < 3; i++) { /* the first part, a part during the first file, and the last part */
        asked = (struct asked){.cancel_at = i == 0 ? 1 : i == 1 ? parts - 2 : parts};
        assert_int_equal(bg_profile_write(r.session, NULL, i == 1 ? folder : r.folder, &error), BG_ERROR_CANCELED);
        assert_non_null(strstr(error.message, "progress canceled the report before `"));
        assert_non_null(strstr(error.message, asked.what));
        assert_int_equal(asked.calls, asked.cancel_at);
        assert_int_equal(test_folder_count(r.folder), 3);
    }
    after = load(&r, "summary.json", &after_bytes);
    assert_int_equal(after_bytes, before_bytes);
    assert_memory_equal(after, before, before_bytes);
    free(after);
    free(before);

    snprintf(trace, sizeof trace, "%s/alone.json", r.folder);
    asked = (struct asked){.cancel_at = 2};
    assert_int_equal(bg_profile_write_trace(r.session, r.plan, trace, &error), BG_ERROR_CANCELED);
    assert_non_null(strstr(error.message, "progress canceled the trace before `trace of replica 0, device 1`"));
    assert_int_equal(test_folder_count(r.folder), 3);
    asked = (struct asked){.cancel_at = 0};
    require(bg_profile_write_trace(r.session, r.plan, trace, &error), &error);
    assert_int_equal(asked.calls, asked.total);
    require(bg_profile_write(r.session, NULL, folder, &error), &error);
    assert_int_equal(test_folder_count(folder), 3);
    test_folder_remove(folder);
    close_network(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_add_up), cmocka_unit_test(test_ops),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_start_and_stop),
        cmocka_unit_test(test_bounded),      cmocka_unit_test(test_names_are_data),
        cmocka_unit_test(test_other_files),  cmocka_unit_test(test_trace_format),
        cmocka_unit_test(test_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
