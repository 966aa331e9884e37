/*
 * test_memory.c: compares the predicted memory of a process with the measured peak, for each model of the zoo in
 * training and in inference. Each run is a separate process, which makes its plan, predicts, and then runs.
 *
 * The program prints a table. The test's bound is wider than the error on a quiet machine, because pages of programs
 * and libraries depend on the system.
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
#include <sys/wait.h>
#include <unistd.h>

#include <brigade/plan.h>
#include <brigade/session.h>

#include "predict/memory.h"
#include "support/zoo.h"

enum { MICRO_BATCHES = 2, CORES = 2, MOST_STREAMS = 16 };

typedef struct outcome {
    bgi_process_memory predicted;
    size_t measured_bytes;
    char failure[256];
} outcome;

static bool is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
    return true;
#endif
#endif
    return getenv("LD_PRELOAD") != NULL;
}

/* ---- in the process of a run ---- */

static bg_status make_plan(const test_zoo_model *model, bool training, bg_plan **out, bg_error *error)
{
    const bg_optimizer optimizer = bg_adamw(1e-3);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_status status = bg_graph_create(&graph, error);
    bg_value loss;

    if (status != BG_OK)
        return status;
    options.execution.cores = CORES;
    options.execution.gradient_accumulation = training ? MICRO_BATCHES : 1;
    options.execution.device_iterations = training ? 1 : MICRO_BATCHES;
    options.numerics.initialize_missing = true;
    loss = model->build(graph, model->micro_batch);
    status = training ? bg_plan_create_training(graph, loss, &optimizer, &options, out, error)
                      : bg_plan_create_inference(graph, &options, out, error);
    bg_graph_destroy(graph);
    return status;
}

static size_t count_data(const bg_plan *plan)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < plan->input_count; i++)
        bytes += bg_type_size_bytes(&plan->inputs[i].type) * plan->micro_batches * plan->iterations;
    return bytes;
}

static bg_status run_plan(const bg_plan *plan, bg_error *error)
{
    bg_session *session = NULL;
    void *streams[MOST_STREAMS];
    bg_status status = bg_session_create(plan, NULL, &session, error);
    const uint32_t inputs = status == BG_OK ? bg_session_input_count(session) : 0;

    for (uint32_t i = 0; status == BG_OK && i < inputs + bg_session_output_count(session); i++) {
        bg_stream stream;
        status = i < inputs ? bg_session_input(session, i, &stream, error)
                            : bg_session_output(session, i - inputs, &stream, error);
        streams[i] = status == BG_OK ? malloc(stream.size_bytes) : NULL;
        if (streams[i] != NULL)
            memset(streams[i], 0, stream.size_bytes); /* calloc would not touch the pages */
    }
    if (status == BG_OK)
        status = bg_session_run(session, (const void *const *)streams, streams + inputs, error);
    return status;
}

static void try_model(const test_zoo_model *model, bool training, outcome *out)
{
    bg_plan *plan = NULL;
    bg_error error = {0};
    size_t now;
    bg_status status = make_plan(model, training, &plan, &error);

    if (status == BG_OK)
        status = bgi_process_memory_predict(plan, CORES, count_data(plan), &out->predicted, &error);
    if (status == BG_OK)
        status = run_plan(plan, &error);
    if (status != BG_OK || !bgi_process_memory_read(&now, &out->measured_bytes))
        snprintf(out->failure, sizeof out->failure, "%.250s", error.message);
}

/* ---- */

static outcome measure(const test_zoo_model *model, bool training)
{
    outcome result = {.measured_bytes = 0};
    int ends[2], code = 0;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        try_model(model, training, &result);
        _exit(write(ends[1], &result, sizeof result) == (ssize_t)sizeof result ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &result, sizeof result) != (ssize_t)sizeof result)
        snprintf(result.failure, sizeof result.failure, "the process ended early");
    close(ends[0]);
    assert_int_equal(waitpid(child, &code, 0), child);
    if (result.failure[0] != '\0' || code != 0)
        fail_msg("%s: %s (code %d)", model->name, result.failure, code);
    return result;
}

static void print_row(const char *name, bool training, const outcome *o)
{
    printf("| %s | %s |", name, training ? "training" : "inference");
    for (int k = 0; k < BGI_PROCESS_PART_COUNT; k++)
        printf(" %.2f |", 1e-6 * (double)o->predicted.bytes[k]);
    printf(" %.2f | %.2f | %+.1f |\n", 1e-6 * (double)o->predicted.peak_bytes, 1e-6 * (double)o->measured_bytes,
           100.0 * ((double)o->predicted.peak_bytes / (double)o->measured_bytes - 1.0));
}

/* Predictions differ from the measured peaks by at most 5 % and 2 MB. */
static void test_processes(void **state)
{
    const test_zoo_model *model;

    (void)state;
    if (is_sanitized())
        skip();
    printf("| MB |");
    for (int k = 0; k < BGI_PROCESS_PART_COUNT; k++)
        printf(" %s |", bgi_process_part_name((bgi_process_part)k));
    printf(" predicted | measured | off, %% |\n");
    for (unsigned i = 0; (model = test_zoo_at(i)) != NULL; i += getenv("BRIGADE_TEST_QUICK") != NULL ? 3 : 1)
        for (int training = 1; training >= 0; training--) {
            const outcome result = measure(model, training != 0);
            const double most = 0.05 * (double)result.measured_bytes + 2e6;

            print_row(model->name, training != 0, &result);
            if (fabs((double)result.predicted.peak_bytes - (double)result.measured_bytes) > most)
                fail_msg("%s: predicted %zu bytes, measured %zu", model->name, result.predicted.peak_bytes,
                         result.measured_bytes);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_processes)};

    return cmocka_run_group_tests_name("predict/memory", tests, NULL, NULL);
}
