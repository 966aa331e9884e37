/*
 * test_accumulation.c: splitting a batch over micro-batches or replicas does not change its mean, however the loss is
 * wrapped; and optimiser state that is new counts from its own beginning.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/nn.h>
#include <brigade/session.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 8, IN = 6, CLASSES = 5 };

typedef bg_value (*wrap_function)(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels);

static bg_value bare(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    (void)graph, (void)logits, (void)labels;
    return loss;
}

static bg_value scaled(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    (void)logits, (void)labels;
    return bg_scale(graph, NULL, loss, 0.5, 1.0);
}

static bg_value reshaped(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    const int64_t one = 1;

    (void)logits, (void)labels;
    return bg_reshape(graph, NULL, bg_reshape(graph, NULL, loss, 1, &one), 0, NULL);
}

static bg_value added(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    const bg_value other = bg_cross_entropy(graph, "other", bg_tanh(graph, logits), labels, BG_LOSS_MEAN, -100);

    return bg_subtract(graph, loss, bg_scale(graph, NULL, other, 0.25, 0.0));
}

static bg_value in_another_block(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    (void)logits, (void)labels;
    bg_block_start(graph, "last", BG_DEVICE_NONE);
    return bg_scale(graph, NULL, loss, 3.0, 0.0);
}

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bg_plan *make_plan(wrap_function wrap, int64_t micro_batch, uint32_t replicas, bg_strategy strategy,
                          const bg_optimiser *optimiser, bg_options *options)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, IN), label_type = bg_vector(BG_INT32, micro_batch);
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;
    bg_value x, labels, loss;

    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &x_type);
    labels = bg_graph_input(graph, "labels", &label_type);
    bg_block_start(graph, "first", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "fc", x, CLASSES, true);
    bg_block_start(graph, "second", BG_DEVICE_NONE);
    loss = wrap(graph, bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100), x, labels);
    *options = bg_options_defaults();
    options->strategy = strategy;
    options->replicas = replicas;
    options->gradient_accumulation = (uint32_t)(BATCH / micro_batch / replicas);
    require(bg_plan_create_training(graph, loss, optimiser, options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static void fill(float *x, int32_t *labels)
{
    for (int i = 0; i < BATCH * IN; i++)
        x[i] = (float)((i * 37) % 23) / 11.0f - 1.0f;
    for (int i = 0; i < BATCH; i++)
        labels[i] = i % 3 == 0 || i == 1 ? -100 : i % CLASSES; /* parts of the batch count differently many */
}

/* The weight after two updates over one batch, cut in micro-batches. */
static void train(wrap_function wrap, int64_t micro_batch, uint32_t replicas, bg_strategy strategy, float *out)
{
    const bg_optimiser optimiser = bg_sgd(0.5);
    bg_options options;
    bg_plan *plan = make_plan(wrap, micro_batch, replicas, strategy, &optimiser, &options);
    bg_session *session;
    bg_error error = {0};
    bg_weight weight;
    float x[BATCH * IN];
    int32_t labels[BATCH];
    const void *inputs[] = {x, labels};

    fill(x, labels);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (int update = 0; update < 2; update++)
        require(bg_session_run(session, inputs, (void *[]){NULL}, &error), &error);
    require(bg_weights_find(bg_session_weights(session), "fc.weight", &weight, &error), &error);
    memcpy(out, weight.data, CLASSES * IN * sizeof(float));
    bg_session_destroy(session);
    bg_plan_destroy(plan);
}

static void test_a_split_batch_equals_the_whole(void **state)
{
    static const wrap_function wraps[] = {bare, scaled, reshaped, added, in_another_block};
    static const struct {
        int64_t micro_batch;
        uint32_t replicas;
    } cuts[] = {{4, 1}, {2, 1}, {1, 1}, {2, 2}, {4, 2}, {1, 4}};

    (void)state;
    for (size_t w = 0; w < sizeof wraps / sizeof wraps[0]; w++) {
        float whole[CLASSES * IN], cut[CLASSES * IN];
        train(wraps[w], BATCH, 1, BG_STRATEGY_SINGLE, whole);
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
            train(wraps[w], cuts[c].micro_batch, cuts[c].replicas,
                  c % 2 == 0 ? BG_STRATEGY_PIPELINED : BG_STRATEGY_SINGLE, cut);
            for (int i = 0; i < CLASSES * IN; i++)
                if (!(fabsf(cut[i] - whole[i]) <= 2e-6f))
                    fail_msg("wrap %zu, micro-batch %d, replicas %u: weight %d is %.9g, %.9g expected", w,
                             (int)cuts[c].micro_batch, cuts[c].replicas, i, (double)cut[i], (double)whole[i]);
        }
    }
}

static void count_warnings(void *user, bg_log_level level, const char *text)
{
    if (level == BG_LOG_WARNING && strstr(text, "different numbers of elements") != NULL)
        ++*(int *)user;
}

static bg_value squared(bg_graph *graph, bg_value loss, bg_value logits, bg_value labels)
{
    (void)logits, (void)labels;
    return bg_multiply(graph, loss, loss);
}

static void test_a_mean_inside_a_function_warns(void **state)
{
    const bg_optimiser optimiser = bg_sgd(0.5);
    const bg_type x_type = bg_matrix(BG_FLOAT32, 4, IN), label_type = bg_vector(BG_INT32, 4);
    int warnings = 0;
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_graph *graph;
    bg_plan *plan;
    bg_value x, labels;

    (void)state;
    options.strategy = BG_STRATEGY_SINGLE;
    options.log = count_warnings;
    options.log_user = &warnings;
    require(bg_graph_create(&graph, &error), &error);
    x = bg_linear_layer(graph, "fc", bg_graph_input(graph, "x", &x_type), CLASSES, true);
    labels = bg_graph_input(graph, "labels", &label_type);
    x = squared(graph, bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100), x, labels);
    require(bg_plan_create_training(graph, x, &optimiser, &options, &plan, &error), &error);
    assert_int_equal(warnings, 1);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* Adam's first update moves each weight that has a gradient by the learning rate, whatever was trained before. */
static void test_new_optimiser_state_starts_from_its_own_beginning(void **state)
{
    const bg_optimiser sgd = bg_sgd(0.1), adam = bg_adam(0.01);
    bg_options options;
    bg_plan *first = make_plan(bare, 4, 1, BG_STRATEGY_SINGLE, &sgd, &options);
    bg_plan *second = make_plan(bare, 4, 1, BG_STRATEGY_SINGLE, &adam, &options);
    bg_session *with_sgd, *with_adam;
    bg_error error = {0};
    bg_weight weight;
    float x[BATCH * IN], before[CLASSES * IN], largest = 0.0f;
    int32_t labels[BATCH];
    const void *inputs[] = {x, labels};

    (void)state;
    fill(x, labels);
    require(bg_session_create(first, NULL, &with_sgd, &error), &error);
    for (int update = 0; update < 50; update++)
        require(bg_session_run(with_sgd, inputs, (void *[]){NULL}, &error), &error);
    require(bg_session_create(second, bg_session_weights(with_sgd), &with_adam, &error), &error);
    bg_session_set_step(with_adam, 1000);
    require(bg_weights_find(bg_session_weights(with_adam), "fc.weight", &weight, &error), &error);
    memcpy(before, weight.data, sizeof before);
    require(bg_session_run(with_adam, inputs, (void *[]){NULL}, &error), &error);
    require(bg_weights_find(bg_session_weights(with_adam), "fc.weight", &weight, &error), &error);
    for (int i = 0; i < CLASSES * IN; i++)
        largest = fmaxf(largest, fabsf(((const float *)weight.data)[i] - before[i]));
    assert_true(fabsf(largest - 0.01f) < 1e-4f);
    assert_int_equal(bg_session_step(with_adam), 1001);
    bg_session_destroy(with_adam);
    bg_session_destroy(with_sgd);
    bg_plan_destroy(second);
    bg_plan_destroy(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_split_batch_equals_the_whole),
        cmocka_unit_test(test_a_mean_inside_a_function_warns),
        cmocka_unit_test(test_new_optimiser_state_starts_from_its_own_beginning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
