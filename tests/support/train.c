/*
 * train.c: whole training runs of test models.
 */
#include "support/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STREAMS = 8 };

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s", what, error->message);
}

static void append(test_result *result, const void *bytes, size_t size)
{
    result->bytes = realloc(result->bytes, result->size + size);
    assert_non_null(result->bytes);
    memcpy(result->bytes + result->size, bytes, size);
    result->size += size;
}

bg_plan *test_train_plan(const test_model *model, int64_t micro_batch, const bg_optimizer *optimizer,
                         const bg_options *options, const char *what)
{
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_value loss;

    require(bg_graph_create(&graph, &error), &error, what);
    loss = model->build(graph, micro_batch);
    require(bg_plan_create_training(graph, loss, optimizer, options, &plan, &error), &error, what);
    bg_graph_destroy(graph);
    return plan;
}

static void append_weights(test_result *result, bg_weights *weights, const char *what)
{
    bg_error error = {0};

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        require(bg_weights_at(weights, i, &weight, &error), &error, what);
        append(result, weight.data, bg_type_size_bytes(&weight.type));
    }
}

/* Checks that each device touched exactly the bytes that the plan predicted. */
static void check_memory(const bg_session *session, const bg_plan *plan, const char *what)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);

    for (uint32_t replica = 0; replica < summary.replicas; replica++)
        for (uint32_t device = 0; device < summary.device_count; device++) {
            const size_t planned = bg_plan_device_bytes(plan, device);
            const size_t touched = bg_session_device_bytes(session, replica, device);
            if (bg_session_has_device(session, replica, device) && planned != touched)
                fail_msg("%s: device %u of replica %u touched %zu bytes, planned are %zu", what, device, replica,
                         touched, planned);
        }
}

test_result test_train_run(bg_plan *plan, const bg_options *options, bg_weights *weights, uint32_t first, uint32_t end,
                           const char *what)
{
    const uint64_t samples = (uint64_t)end * options->execution.gradient_accumulation * options->replicas.count;
    unsigned char *inputs[MOST_STREAMS] = {0};
    bg_stream streams[MOST_STREAMS], loss;
    bg_session *session = NULL;
    void *outputs[MOST_STREAMS] = {0};
    test_result result = {0};
    bg_error error = {0};
    uint32_t output;

    require(bg_session_create(plan, weights, &session, &error), &error, what);
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        require(bg_session_input(session, i, &streams[i], &error), &error, what);
        inputs[i] = test_model_input(&streams[i].micro_batch_type, streams[i].name, samples);
    }
    output = bg_session_find_output(session, "loss");
    require(bg_session_output(session, output, &loss, &error), &error, what);
    outputs[output] = malloc(loss.size_bytes);
    for (uint32_t update = first; update < end; update += options->execution.device_iterations) {
        const void *parts[MOST_STREAMS] = {0};
        for (uint32_t i = 0; i < bg_session_input_count(session); i++)
            parts[i] = inputs[i] + update / options->execution.device_iterations * streams[i].size_bytes;
        require(bg_session_run(session, parts, outputs, &error), &error, what);
        append(&result, outputs[output], loss.size_bytes);
    }
    if (options->reporting.trace)
        check_memory(session, plan, what);
    append_weights(&result, bg_session_weights(session), what);
    for (uint32_t i = 0; i < MOST_STREAMS; i++)
        free(inputs[i]);
    free(outputs[output]);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    return result;
}

test_result test_train(const test_model *model, int64_t micro_batch, const bg_optimizer *optimizer,
                       const bg_options *options, bg_weights *weights, uint32_t first, uint32_t end, const char *what)
{
    return test_train_run(test_train_plan(model, micro_batch, optimizer, options, what), options, weights, first, end,
                          what);
}

void test_train_expect(test_result found, const test_result *expected, const char *what)
{
    size_t at = 0;

    while (at < found.size && at < expected->size && found.bytes[at] == expected->bytes[at])
        at++;
    if (at < found.size || at < expected->size)
        fail_msg("%s: differs at byte %zu of %zu (%zu expected)", what, at, found.size, expected->size);
    free(found.bytes);
}
