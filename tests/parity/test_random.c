/*
 * test_random.c: trains random unusual models under random strategies and evaluates the training graph op by op with
 * the same (reference) kernels. Weights, optimizer state and losses must be bit-identical.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/session.h>

#include "kernels/optimizer/attributes.h"
#include "ops/evaluate.h"
#include "plan/plan.h"
#include "support/random_model.h"
#include "transform/transform.h"

enum { STEPS = 3 };

typedef struct reference {
    bg_graph *graph;
    void **buffers;
    uint32_t first_update;
} reference;

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s: %s", what, bg_status_name(status), error->message);
}

static reference make_reference(const bgi_test_model *model, const bg_plan *plan, bg_weights *weights, const char *what)
{
    const bg_optimizer *o = &plan->optimizer;
    const double hyper[BGI_HYPER_COUNT] = {[BGI_HYPER_LEARNING_RATE] = o->learning_rate,
                                           [BGI_HYPER_WEIGHT_DECAY] = o->weight_decay,
                                           [BGI_HYPER_BETA1] = o->beta1,
                                           [BGI_HYPER_BETA2] = o->beta2,
                                           [BGI_HYPER_EPSILON] = o->epsilon};
    reference r = {0};
    bg_value loss = model->loss;
    bg_error error = {0};

    require(bgi_fuse(model->graph, NULL, &loss, &r.graph, &error), &error, what);
    for (size_t op = 0; op < r.graph->op_count; op++)
        if (r.graph->ops[op].block == BGI_BLOCK_NONE)
            r.graph->ops[op].block = 0;
    require(bgi_make_training(r.graph, loss, o, &plan->options, &error), &error, what);
    require(bgi_evaluate_create_buffers(r.graph, &r.buffers, &error), &error, what);
    while (r.first_update < r.graph->op_count && r.graph->ops[r.first_update].phase != BGI_PHASE_UPDATE)
        r.first_update++;
    for (size_t v = 1; v < r.graph->value_count; v++) {
        const bgi_value *value = &r.graph->values[v];
        bg_weight weight;
        if (value->kind == BGI_VALUE_VARIABLE && value->role == BG_ROLE_HYPER)
            memcpy(r.buffers[v], hyper, sizeof hyper);
        else if (value->kind == BGI_VALUE_VARIABLE && bg_weights_find(weights, value->name, &weight, NULL) == BG_OK)
            memcpy(r.buffers[v], weight.data, bg_type_size_bytes(&value->type));
    }
    return r;
}

/* Runs one step over micro-batches of labels and rows, and writes the losses to `losses`. */
static void step_reference(reference *r, const bg_plan *plan, uint32_t step, const int32_t *labels, const float *rows,
                           const bg_value *inputs, uint8_t *losses, const char *what)
{
    bg_kernel_env env = {.seed = plan->options.numerics.seed, .step = step, .optimizer_step = step, .training = true};
    const size_t label_bytes = bg_type_size_bytes(&r->graph->values[inputs[0].id].type);
    const size_t row_bytes = bg_type_size_bytes(&r->graph->values[inputs[1].id].type);
    bg_error error = {0};

    for (uint32_t m = 0; m < plan->micro_batches; m++) {
        env.micro_batch = env.accumulated = m;
        memcpy(r->buffers[inputs[0].id], (const char *)labels + m * label_bytes, label_bytes);
        memcpy(r->buffers[inputs[1].id], (const char *)rows + m * row_bytes, row_bytes);
        require(bgi_evaluate(r->graph, 0, r->first_update, &env, r->buffers, &error), &error, what);
        for (size_t i = 0; i < r->graph->output_count; i++)
            if (strcmp(r->graph->outputs[i].name, "loss") == 0)
                memcpy(losses + 4 * m, r->buffers[r->graph->outputs[i].value.id], 4);
    }
    env.micro_batch = env.accumulated = 0;
    require(bgi_evaluate(r->graph, r->first_update, (uint32_t)r->graph->op_count, &env, r->buffers, &error), &error,
            what);
}

static void compare_weights(const reference *r, bg_weights *weights, const char *what)
{
    for (size_t v = 1; v < r->graph->value_count; v++) {
        const bgi_value *value = &r->graph->values[v];
        bg_weight weight;
        if (value->kind != BGI_VALUE_VARIABLE || (value->role != BG_ROLE_PARAMETER && value->role != BG_ROLE_STATE) ||
            bg_weights_find(weights, value->name, &weight, NULL) != BG_OK)
            continue;
        if (memcmp(weight.data, r->buffers[v], bg_type_size_bytes(&value->type)) != 0)
            fail_msg("%s: `%s` differs from the reference", what, value->name);
    }
}

static void run_case(uint64_t seed)
{
    bgi_test_model model = bgi_test_random_model(seed);
    char stages[256], what[400];
    bg_options options = bgi_test_random_options(&model, seed, true, stages);
    const bg_optimizer optimizer = bg_adamw(0.01);
    const bg_output_request request = {.output = "loss", .mode = BG_OUTPUT_ALL};
    const uint32_t samples = 5, width = 12;
    uint32_t batches;
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    bg_error error = {0};
    reference r;
    uint64_t random = seed;

    snprintf(what, sizeof what, "seed %llu, %s %s, %s, %u micro-batches", (unsigned long long)seed,
             bg_option_value_name("strategy", options.execution.strategy),
             options.execution.schedule != NULL ? options.execution.schedule : "", stages,
             options.execution.gradient_accumulation);
    options.reporting.output_requests = &request;
    options.reporting.output_request_count = 1;
    options.reporting.requests_only = true;
    options.execution.device_iterations = STEPS;
    options.numerics.seed = seed;
    require(bg_plan_create_training(model.graph, model.loss, &optimizer, &options, &plan, &error), &error, what);
    require(bg_session_create(plan, NULL, &session, &error), &error, what);
    r = make_reference(&model, plan, bg_session_weights(session), what);
    batches = STEPS * plan->micro_batches;
    int32_t *labels = malloc(batches * samples * sizeof *labels);
    float *rows = malloc(batches * samples * width * sizeof *rows);
    uint8_t *losses = malloc(batches * 4), *wanted = malloc(batches * 4);
    for (uint32_t i = 0; i < batches * samples; i++) /* some labels do not count */
        labels[i] = (int32_t)bgi_test_random_below(&random, 13) == 12 ? -100 : (int32_t)(i % 12);
    for (uint32_t i = 0; i < batches * samples * width; i++)
        rows[i] = (float)bgi_test_random_below(&random, 2000) / 1000.0f - 1.0f;
    require(bg_session_run(session, (const void *const[]){labels, rows}, (void *const[]){losses}, &error), &error,
            what);
    for (uint32_t step = 0; step < STEPS; step++) {
        const bg_value inputs[] = {{1}, {2}};
        const size_t first = (size_t)step * plan->micro_batches;
        step_reference(&r, plan, step, labels + first * samples, rows + first * samples * width, inputs,
                       wanted + 4 * first, what);
    }
    if (memcmp(losses, wanted, batches * 4) != 0)
        fail_msg("%s: losses differ from the reference", what);
    compare_weights(&r, bg_session_weights(session), what);
    free(labels), free(rows), free(losses), free(wanted);
    bgi_evaluate_destroy_buffers(r.graph, r.buffers);
    bg_graph_destroy(r.graph);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(model.graph);
}

static void test_random_models(void **state)
{
    const uint64_t count = getenv("BRIGADE_TEST_ALL") != NULL ? 3000 : 120;

    (void)state;
    for (uint64_t seed = 0; seed < count; seed++)
        run_case(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_models)};

    return cmocka_run_group_tests_name("parity/random", tests, NULL, NULL);
}
