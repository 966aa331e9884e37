/*
 * test_optimizer.c: compares weight updates step by step with torch.optim, and tests gradient accumulation and sums of
 * many values.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "kernels/optimizer/attributes.h"
#include "kernels/reference/element.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

enum { STEPS = 8, ELEMENTS = 6 };

enum { STATES = 3 };

typedef enum rule { SGD, ADAM, RMSPROP, LAMB } rule;

typedef struct update_case {
    const char *name;
    rule rule;
    const char *states[STATES]; /* the states' names in the oracle; NULL ends the list */
    double hyper[BGI_HYPER_COUNT];
    bgi_sgd_attributes sgd;
    bgi_adam_attributes adam;
    bgi_rmsprop_attributes rmsprop;
} update_case;

#define VELOCITY                                                                                                       \
    {                                                                                                                  \
        "momentum_buffer"                                                                                              \
    }
#define MOMENTS                                                                                                        \
    {                                                                                                                  \
        "exp_avg", "exp_avg_sq"                                                                                        \
    }
#define LARGEST                                                                                                        \
    {                                                                                                                  \
        "exp_avg", "exp_inf"                                                                                           \
    }

#define CHANGES                                                                                                        \
    {                                                                                                                  \
        "square_avg", "acc_delta"                                                                                      \
    }

/* hyper: learning rate, weight decay, momentum or beta1, dampening or beta2 or alpha, epsilon */
static const update_case cases[] = {
    {"sgd", SGD, {NULL}, .hyper = {0.1}},
    {"sgd", SGD, VELOCITY, .hyper = {0.1}}, /* a velocity without momentum stays unused */
    {"sgd_decay", SGD, {NULL}, .hyper = {0.1, 0.05}},
    {"sgd_momentum", SGD, VELOCITY, .hyper = {0.1, 0.05, 0.9}},
    {"sgd_dampening", SGD, VELOCITY, .hyper = {0.1, 0.0, 0.9, 0.3}},
    {"sgd_nesterov", SGD, VELOCITY, .hyper = {0.1, 0.05, 0.9}, .sgd = {.nesterov = true}},
    {"adam", ADAM, MOMENTS, .hyper = {0.01, 0.0, 0.9, 0.999, 1e-8}},
    {"adam_decay", ADAM, MOMENTS, .hyper = {0.01, 0.1, 0.8, 0.95, 1e-6}},
    {"adam_uncorrected", ADAM, MOMENTS, .hyper = {0.01, 0.0, 0.9, 0.999, 1e-8}, .adam = {.uncorrected = true}},
    {"adamw", ADAM, MOMENTS, .hyper = {0.01, 0.01, 0.9, 0.999, 1e-8}, .adam = {.decoupled_decay = true}},
    {"adamw_decay", ADAM, MOMENTS, .hyper = {0.02, 0.1, 0.85, 0.99, 1e-6}, .adam = {.decoupled_decay = true}},
    {"adamax", ADAM, LARGEST, .hyper = {0.02, 0.0, 0.9, 0.999, 1e-8}, .adam = {.maximum = true}},
    {"adamax_decay", ADAM, LARGEST, .hyper = {0.02, 0.1, 0.8, 0.95, 1e-8}, .adam = {.maximum = true}},
    {"adamax_uncorrected", ADAM, LARGEST, .hyper = {0.01, 0.0, 0.9, 0.999, 1e-8},
     .adam = {.maximum = true, .uncorrected = true}},
    {"rmsprop", RMSPROP, {"square_avg"}, .hyper = {0.01, 0.0, 0.0, 0.99, 1e-8}},
    {"rmsprop_decay", RMSPROP, {"square_avg"}, .hyper = {0.01, 0.1, 0.0, 0.9, 1e-4}},
    {"rmsprop_momentum", RMSPROP, {"square_avg", "momentum_buffer"}, .hyper = {0.01, 0.0, 0.9, 0.99, 1e-8}},
    {"rmsprop_centered",
     RMSPROP,
     {"square_avg", "grad_avg"},
     .hyper = {0.01, 0.0, 0.0, 0.99, 1e-8},
     .rmsprop = {.centered = true}},
    {"rmsprop_all",
     RMSPROP,
     {"square_avg", "grad_avg", "momentum_buffer"},
     .hyper = {0.01, 0.05, 0.8, 0.95, 1e-8},
     .rmsprop = {.centered = true}},
    {"rmsprop_tf", RMSPROP, {"square_avg"}, .hyper = {0.01, 0.0, 0.0, 0.9, 1e-3}, .rmsprop = {.tf_variant = true}},
    {"rmsprop_tf_momentum",
     RMSPROP,
     {"square_avg", "momentum_buffer"},
     .hyper = {0.01, 0.0, 0.9, 0.9, 1e-3},
     .rmsprop = {.tf_variant = true}},
    {"rmsprop_tf_all",
     RMSPROP,
     {"square_avg", "grad_avg", "momentum_buffer"},
     .hyper = {0.01, 0.0, 0.8, 0.9, 1e-3},
     .rmsprop = {.centered = true, .tf_variant = true}},
    {"lamb", LAMB, MOMENTS, .hyper = {0.01, 0.01, 0.9, 0.999, 1e-8, [BGI_HYPER_MAX_WEIGHT_NORM] = 65500.0}},
    {"lamb_bounded", LAMB, MOMENTS, .hyper = {0.01, 0.1, 0.8, 0.95, 1e-3, [BGI_HYPER_MAX_WEIGHT_NORM] = 0.5}},
    {"adagrad", RMSPROP, {"sum"}, .hyper = {0.02, [BGI_HYPER_EPSILON] = 1e-10}, .rmsprop = {.rule = BGI_RULE_ADAGRAD}},
    {"adagrad_decay",
     RMSPROP,
     {"sum"},
     .hyper = {0.02, 0.1, [BGI_HYPER_EPSILON] = 1e-3},
     .rmsprop = {.rule = BGI_RULE_ADAGRAD}},
    {"adadelta", RMSPROP, CHANGES, .hyper = {1.0, 0.0, 0.0, 0.9, 1e-6}, .rmsprop = {.rule = BGI_RULE_ADADELTA}},
    {"adadelta_decay", RMSPROP, CHANGES, .hyper = {0.5, 0.1, 0.0, 0.8, 1e-3}, .rmsprop = {.rule = BGI_RULE_ADADELTA}},
    {"sgd_combined", SGD, VELOCITY, .hyper = {0.01, 0.05, 0.9, 0.3, [BGI_HYPER_VELOCITY_SCALING] = 3.0},
     .sgd = {.combined = true}},
    {"sgd_combined_nesterov", SGD, VELOCITY, .hyper = {0.01, 0.05, 0.9, 0.0, [BGI_HYPER_VELOCITY_SCALING] = 0.7},
     .sgd = {.combined = true, .nesterov = true}},
};

typedef struct update_graph {
    bg_graph *graph;
    bg_value parameter, gradient, hyper, scale, states[STATES];
    bgi_test_interpreter interpreter;
} update_graph;

/* Adds LAMB as for a parameter whose updates are sharded over three replicas. */
static void add_lamb(update_graph *u)
{
    const bg_type type = bg_graph_type(u->graph, u->parameter);
    const bgi_lamb_attributes attributes = bgi_lamb_describe(&type, 3, false, false);
    const bg_value *s = u->states;
    const bg_value squares =
        bgi_lamb_moments(u->graph, NULL, u->parameter, u->gradient, u->hyper, u->scale, s[0], s[1], &attributes);

    bgi_lamb_update(u->graph, NULL, u->parameter, squares, u->hyper, s[0], s[1], &attributes);
}

static void add_update(update_graph *u, const update_case *c)
{
    const bg_value *s = u->states;

    switch (c->rule) {
    case SGD:
        bgi_sgd_update(u->graph, NULL, u->parameter, u->gradient, u->hyper, u->scale, s[0], &c->sgd);
        break;
    case ADAM:
        bgi_adam_update(u->graph, NULL, u->parameter, u->gradient, u->hyper, u->scale, s[0], s[1], &c->adam);
        break;
    case RMSPROP:
        bgi_rmsprop_update(u->graph, NULL, u->parameter, u->gradient, u->hyper, u->scale, s[0], s[1],
                           s[c->rmsprop.centered || c->rmsprop.rule == BGI_RULE_ADADELTA ? 2 : 1], &c->rmsprop);
        break;
    case LAMB:
        add_lamb(u);
        break;
    }
}

static void create_update(update_graph *u, const update_case *c, bg_dtype dtype, bg_dtype gradient_dtype)
{
    const bg_type type = bg_vector(dtype, ELEMENTS), gradient = bg_vector(gradient_dtype, ELEMENTS);
    const bg_type state = bg_vector(dtype == BG_FLOAT64 ? BG_FLOAT64 : BG_FLOAT32, ELEMENTS);
    const bg_type hyper = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT), scalar = bg_scalar(BG_FLOAT32);

    memset(u, 0, sizeof *u);
    assert_int_equal(bg_graph_create(&u->graph, NULL), BG_OK);
    u->parameter = bg_graph_parameter(u->graph, "p", &type, NULL);
    u->gradient = bg_graph_variable(u->graph, "g", &gradient, BG_ROLE_ACCUMULATOR, NULL);
    u->hyper = bg_graph_variable(u->graph, "hyper", &hyper, BG_ROLE_HYPER, NULL);
    u->scale = bg_graph_variable(u->graph, "scale", &scalar, BG_ROLE_BUFFER, NULL);
    for (int s = 0; s < STATES && c->states[s] != NULL; s++)
        u->states[s] = bg_graph_variable(u->graph, c->states[s], &state, BG_ROLE_STATE, NULL);
    add_update(u, c);
    assert_int_equal(bg_graph_check(u->graph, NULL), BG_OK);
    bgi_test_interpreter_init(&u->interpreter, u->graph);
    bgi_test_set(&u->interpreter, u->hyper, c->hyper);
    bgi_test_set(&u->interpreter, u->parameter, bgi_test_oracle_find(bgi_test_ops_oracle, c->name, "start")->values);
    bgi_test_set(&u->interpreter, u->scale, (double[]){1.0});
}

static void destroy_update(update_graph *u)
{
    bgi_test_interpreter_clear(&u->interpreter);
    bg_graph_destroy(u->graph);
}

static void run_step(update_graph *u, uint64_t step, const double *gradient)
{
    u->interpreter.env.optimizer_step = step;
    bgi_test_set(&u->interpreter, u->gradient, gradient);
    bgi_test_interpret(&u->interpreter);
}

static void compare_state(const update_graph *u, const update_case *c, bg_value value, const char *name)
{
    const bgi_test_tensor *wanted = bgi_test_oracle_try(bgi_test_ops_oracle, c->name, name);
    double elements[ELEMENTS];

    if (wanted == NULL)
        return;
    bgi_test_get(&u->interpreter, value, elements);
    bgi_test_compare(wanted, elements, 1e-7, 2e-6);
}

/* Makes eight steps; as in the oracle, the learning rate is halved before the fifth. */
static void follow_oracle(const update_case *c, bg_dtype dtype, bg_dtype gradient_dtype, double scale, double absolute)
{
    const double *gradients = bgi_test_oracle_find(bgi_test_ops_oracle, c->name, "gradients")->values;
    const bgi_test_tensor *history = bgi_test_oracle_find(bgi_test_ops_oracle, c->name, "history");
    double found[STEPS * ELEMENTS];
    update_graph u;

    create_update(&u, c, dtype, gradient_dtype);
    bgi_test_set(&u.interpreter, u.scale, &scale);
    for (uint64_t step = 0; step < STEPS; step++) {
        double gradient[ELEMENTS];

        if (step == 4)
            ((double *)bgi_test_data(&u.interpreter, u.hyper))[BGI_HYPER_LEARNING_RATE] *= 0.5;
        for (int i = 0; i < ELEMENTS; i++)
            gradient[i] = gradients[step * ELEMENTS + (uint64_t)i] / scale;
        run_step(&u, step, gradient);
        bgi_test_get(&u.interpreter, u.parameter, found + step * ELEMENTS);
    }
    bgi_test_compare(history, found, absolute, absolute);
    for (int s = 0; dtype == BG_FLOAT32 && s < STATES && c->states[s] != NULL; s++)
        compare_state(&u, c, u.states[s], c->states[s]);
    destroy_update(&u);
}

static void test_updates_follow_pytorch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        follow_oracle(&cases[i], BG_FLOAT32, BG_FLOAT32, 1.0, 5e-7);
        follow_oracle(&cases[i], BG_FLOAT64, BG_FLOAT64, 1.0, 5e-6);
        follow_oracle(&cases[i], BG_BFLOAT16, BG_FLOAT32, 1.0, 0.06);
        follow_oracle(&cases[i], BG_FLOAT16, BG_FLOAT32, 1.0, 0.008);
    }
}

/* Scaling by a power of two is exact, so a loss scale of 1/4 gives the same numbers. */
static void test_scale_multiplies_the_gradient_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        follow_oracle(&cases[i], BG_FLOAT32, BG_FLOAT32, 0.25, 5e-7);
}

/* Steps 5 to 8 from saved state equal those of the full run, because t and the velocity depend only on the state. */
static void test_a_resumed_update_continues(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double *gradients = bgi_test_oracle_find(bgi_test_ops_oracle, cases[i].name, "gradients")->values;
        double kept[1 + STATES][ELEMENTS], whole[ELEMENTS], resumed[ELEMENTS];
        update_graph u;

        create_update(&u, &cases[i], BG_FLOAT32, BG_FLOAT32);
        for (uint64_t step = 0; step < STEPS; step++) {
            run_step(&u, step, gradients + step * ELEMENTS);
            if (step != 3)
                continue;
            bgi_test_get(&u.interpreter, u.parameter, kept[0]);
            for (int s = 0; s < STATES; s++)
                if (!bg_value_is_null(u.states[s]))
                    bgi_test_get(&u.interpreter, u.states[s], kept[1 + s]);
        }
        bgi_test_get(&u.interpreter, u.parameter, whole);
        destroy_update(&u);

        create_update(&u, &cases[i], BG_FLOAT32, BG_FLOAT32);
        bgi_test_set(&u.interpreter, u.parameter, kept[0]);
        for (int s = 0; s < STATES; s++)
            if (!bg_value_is_null(u.states[s]))
                bgi_test_set(&u.interpreter, u.states[s], kept[1 + s]);
        for (uint64_t step = 4; step < STEPS; step++)
            run_step(&u, step, gradients + step * ELEMENTS);
        bgi_test_get(&u.interpreter, u.parameter, resumed);
        destroy_update(&u);
        assert_memory_equal(whole, resumed, sizeof whole);
    }
}

/* With a velocity scaling that is a power of two, the velocity is the unscaled one times that power. Without scaling
 * and dampening the combined variant is plain SGD. Weights and gradients are the oracle's. */
static void test_combined_sgd(void **state)
{
    const double *gradients = bgi_test_oracle_find(bgi_test_ops_oracle, "sgd_momentum", "gradients")->values;
    double found[4][ELEMENTS], velocity[4][ELEMENTS];

    (void)state;
    for (int way = 0; way < 4; way++) {
        update_case c = {"sgd_momentum", SGD, VELOCITY, .hyper = {0.1, 0.05, 0.9}};
        update_graph u;

        c.sgd.combined = way > 0;
        c.hyper[BGI_HYPER_VELOCITY_SCALING] = way == 2 ? 1024.0 : 1.0;
        c.hyper[BGI_HYPER_DAMPENING] = way == 3 ? 0.5 : 0.0;
        create_update(&u, &c, BG_FLOAT32, BG_FLOAT32);
        for (uint64_t step = 0; step < STEPS; step++)
            run_step(&u, step, gradients + step * ELEMENTS);
        bgi_test_get(&u.interpreter, u.parameter, found[way]);
        bgi_test_get(&u.interpreter, u.states[0], velocity[way]);
        destroy_update(&u);
    }
    assert_memory_equal(found[0], found[1], sizeof found[0]);
    assert_memory_equal(found[1], found[2], sizeof found[1]);
    assert_memory_equal(velocity[0], velocity[1], sizeof velocity[0]);
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(velocity[2][i] == 1024.0 * velocity[1][i]);
    assert_memory_not_equal(found[1], found[3], sizeof found[1]);
}

/* If a norm is 0, the trust ratio is 1: zero weights move by the plain direction, and without gradient and decay
 * weights do not move. */
static void test_lamb_without_norms(void **state)
{
    static const update_case zero = {"lamb", LAMB, MOMENTS,
                                     .hyper = {0.5, 0.0, 0.9, 0.999, 0.0, [BGI_HYPER_MAX_WEIGHT_NORM] = INFINITY}};
    const double ones[ELEMENTS] = {1, -1, 1, -1, 1, 1}, nothing[ELEMENTS] = {0};
    double found[ELEMENTS];
    update_case still = zero;
    update_graph u;

    (void)state;
    create_update(&u, &zero, BG_FLOAT32, BG_FLOAT32);
    bgi_test_set(&u.interpreter, u.parameter, nothing);
    run_step(&u, 0, ones);
    bgi_test_get(&u.interpreter, u.parameter, found);
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(fabs(found[i] + 0.5 * ones[i]) < 1e-6);
    destroy_update(&u);

    still.hyper[BGI_HYPER_EPSILON] = 1e-8;
    create_update(&u, &still, BG_FLOAT32, BG_FLOAT32);
    bgi_test_set(&u.interpreter, u.parameter, ones);
    run_step(&u, 0, nothing);
    bgi_test_get(&u.interpreter, u.parameter, found);
    assert_memory_equal(found, ones, sizeof found);
    destroy_update(&u);
}

/* ---- stochastic rounding ---- */

enum { MANY = 1 << 16 };

typedef struct many_update {
    bg_dtype dtype;
    bg_graph *graph;
    bg_value parameter, gradient;
    bgi_test_interpreter interpreter;
} many_update;

/* Builds the update w -= rate g of many weights, which have 16 bits each. */
static void create_many(many_update *u, bg_dtype dtype, double rate, double weight, double gradient)
{
    const bg_type type = bg_vector(dtype, MANY), gradients = bg_vector(BG_FLOAT32, MANY);
    const bg_type hyper = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT), scalar = bg_scalar(BG_FLOAT32);
    const bgi_sgd_attributes attributes = {.rounding = {.elements = MANY, .piece = MANY, .random_id = 17}};
    bg_value h, scale;

    memset(u, 0, sizeof *u);
    u->dtype = dtype;
    assert_int_equal(bg_graph_create(&u->graph, NULL), BG_OK);
    u->parameter = bg_graph_parameter(u->graph, "p", &type, NULL);
    u->gradient = bg_graph_variable(u->graph, "g", &gradients, BG_ROLE_ACCUMULATOR, NULL);
    h = bg_graph_variable(u->graph, "hyper", &hyper, BG_ROLE_HYPER, NULL);
    scale = bg_graph_variable(u->graph, "scale", &scalar, BG_ROLE_BUFFER, NULL);
    bgi_sgd_update(u->graph, NULL, u->parameter, u->gradient, h, scale, (bg_value){0}, &attributes);
    assert_int_equal(bg_graph_check(u->graph, NULL), BG_OK);
    bgi_test_interpreter_init(&u->interpreter, u->graph);
    bgi_test_set(&u->interpreter, h, (double[BGI_HYPER_COUNT]){rate});
    bgi_test_set(&u->interpreter, scale, (double[]){1.0});
    for (int i = 0; i < MANY; i++) {
        bgi_store(dtype, bgi_test_data(&u->interpreter, u->parameter), i, weight);
        bgi_store(BG_FLOAT32, bgi_test_data(&u->interpreter, u->gradient), i, gradient);
    }
}

static double find_mean(const many_update *u)
{
    double sum = 0.0;

    for (int i = 0; i < MANY; i++)
        sum += bgi_load(u->dtype, bgi_test_data(&u->interpreter, u->parameter), i);
    return sum / MANY;
}

static void destroy_many(many_update *u)
{
    bgi_test_interpreter_clear(&u->interpreter);
    bg_graph_destroy(u->graph);
}

/* Updates move a weight by 3/16 of a last place, so rounding to nearest would never change it. Each weight moves to the
 * next value of its type or stays. The mean of all weights is within five deviations of the exact value. After 16
 * updates, each with different random numbers, the distance moved is 16 times as large. */
static void check_mean(bg_dtype dtype, double weight, double place)
{
    const double share = 3.0 / 16.0, deviation = place * sqrt(share * (1.0 - share) / MANY);
    many_update u;

    create_many(&u, dtype, 1.0, weight, share * place);
    for (uint64_t step = 0; step < 16; step++) {
        const double wanted = weight - (double)(step + 1) * share * place;

        u.interpreter.env.step = step;
        bgi_test_interpret(&u.interpreter);
        for (int i = 0; step == 0 && i < MANY; i++) {
            const double w = bgi_load(dtype, bgi_test_data(&u.interpreter, u.parameter), i);
            assert_true(w == weight || w == weight - place);
        }
        if (!(fabs(find_mean(&u) - wanted) < 5.0 * deviation * sqrt((double)(step + 1))))
            fail_msg("step %d: the mean is %.9g, not %.9g", (int)step, find_mean(&u), wanted);
    }
    destroy_many(&u);
}

static void test_mean_of_many_roundings(void **state)
{
    (void)state;
    check_mean(BG_BFLOAT16, -1.0, 0x1p-7);
    check_mean(BG_FLOAT16, -1.0, 0x1p-10);
    check_mean(BG_FLOAT16, 0.0, 0x1p-24); /* among the subnormals, and from them into the normal numbers */
    check_mean(BG_FLOAT16, -0x3fep-24, 0x1p-24);
    check_mean(BG_FLOAT16, 0x1p-14, 0x1p-24);
}

/* Between the largest float16 and 65536, the random number decides between the largest float16 and infinity. From 65536
 * on the result is infinity. */
static void test_beyond_the_largest(void **state)
{
    many_update u;
    int infinite = 0;

    (void)state;
    create_many(&u, BG_FLOAT16, 1.0, 65504.0, -8.0);
    bgi_test_interpret(&u.interpreter);
    for (int i = 0; i < MANY; i++) {
        const double w = bgi_load(BG_FLOAT16, bgi_test_data(&u.interpreter, u.parameter), i);

        assert_true(w == 65504.0 || w == (double)INFINITY);
        infinite += w != 65504.0;
    }
    assert_true(fabs(infinite - MANY / 4.0) < 5.0 * sqrt(MANY * 3.0 / 16.0));
    destroy_many(&u);
    create_many(&u, BG_FLOAT16, 1.0, -65504.0, 32.0);
    bgi_test_interpret(&u.interpreter);
    assert_true(find_mean(&u) == (double)-INFINITY);
    destroy_many(&u);
}

/* Counts for how many of the 65536 values of 16 random bits the value is rounded up; a value of the bits that does not
 * decide counts half. */
static double find_share_up(float value, uint32_t *out_down)
{
    uint32_t open = 0, up = 0;

    *out_down = bgi_float16_by_chance(value, 0, &open);
    open = 0;
    for (uint32_t chance = 0, is_open = 0; chance < 65536; chance++, open += is_open, is_open = 0)
        up += bgi_float16_by_chance(value, chance, &is_open) - *out_down;
    return (double)up + (double)open / 2.0; /* bgi_float16_goes_up decides the open values */
}

/* If 16 bits are enough, the probability of rounding up is exactly the distance from the lower neighbor, divided by the
 * distance between the two neighbors. Otherwise one of the 65536 values does
 * not decide. Then 128 more bits decide: the number is rounded up if they are below the remainder. */
static void test_chances_are_exact(void **state)
{
    static const float values[] = {1.0f + 0x1p-23f, 0x1.ffdp-15f, 0x1.8p-15f, 0x1.002p-20f, 0x1p-25f, 0x1.8p-25f};
    static const float tiny[] = {0x1p-41f, 0x1.000002p-30f, 0x1.fffffep-26f, 0x1p-149f, 0x1.8p-80f, 0x1.234566p-18f};
    uint32_t down;

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const double share = find_share_up(values[i], &down);
        const double from = bgi_float16_to_float((uint16_t)down), to = bgi_float16_to_float((uint16_t)(down + 1));

        assert_true(share == 65536.0 * ((double)values[i] - from) / (to - from));
    }
    for (size_t i = 0; i < sizeof tiny / sizeof tiny[0]; i++) {
        const double steps = (double)tiny[i] * 0x1p40, left = steps - floor(steps);
        const double share = find_share_up(tiny[i], &down);
        uint32_t words[4] = {0};
        double rest = left;

        assert_true(left > 0.0 && share == fmod(floor(steps), 65536.0) + 0.5);
        for (int w = 0; w < 4; w++) {
            words[w] = (uint32_t)floor(rest * 0x1p32);
            rest = rest * 0x1p32 - floor(rest * 0x1p32);
        }
        assert_true(rest == 0.0 && !bgi_float16_goes_up(tiny[i], words)); /* equal to the remainder, so not below it */
        for (int w = 3; w >= 0 && words[w]-- == 0; w--)
            ;
        assert_true(bgi_float16_goes_up(tiny[i], words)); /* one unit in the last place less */
    }
}

/* Values that 16 bits represent are unchanged, and so is NaN. */
static void test_exact_values_are_not_rounded(void **state)
{
    static const double exact[2][6] = {{1.0, -0.0, 3.140625, INFINITY, -INFINITY, 0x1p-130},
                                       {0x1p-24, -0.0, -0x3ffp-24, INFINITY, -INFINITY, 65504.0}};
    many_update u;

    (void)state;
    for (int i = 0; i < 12; i++) {
        create_many(&u, i < 6 ? BG_BFLOAT16 : BG_FLOAT16, 1.0, exact[i / 6][i % 6], 0.0);
        bgi_test_interpret(&u.interpreter);
        for (int e = 0; e < MANY; e++)
            assert_true(bgi_load(u.dtype, bgi_test_data(&u.interpreter, u.parameter), e) == exact[i / 6][i % 6]);
        destroy_many(&u);
    }
    for (int d = 0; d < 2; d++) {
        create_many(&u, d == 0 ? BG_BFLOAT16 : BG_FLOAT16, 1.0, NAN, 0.0);
        bgi_test_interpret(&u.interpreter);
        assert_true(isnan(find_mean(&u)));
        destroy_many(&u);
    }
}

/* The same seed and step give the same bits; another seed or step gives other bits. */
static void test_chances(void **state)
{
    uint16_t first[MANY];

    (void)state;
    for (int way = 0; way < 4; way++) {
        many_update u;

        create_many(&u, BG_BFLOAT16, 1.0, 1.0, 0x1p-10);
        u.interpreter.env.seed = way == 2 ? 8 : 7;
        u.interpreter.env.step = way == 3 ? 4 : 3;
        bgi_test_interpret(&u.interpreter);
        if (way == 0)
            memcpy(first, bgi_test_data(&u.interpreter, u.parameter), sizeof first);
        assert_true((memcmp(first, bgi_test_data(&u.interpreter, u.parameter), sizeof first) == 0) == (way < 2));
        destroy_many(&u);
    }
}

/* The moments may have different types: after the first step, each is the float32 moment rounded to its type, and the
 * parameter is computed from the unrounded one. */
static void test_moments_of_different_types(void **state)
{
    static const bg_dtype dtypes[][2] = {{BG_FLOAT32, BG_FLOAT32},  {BG_FLOAT32, BG_BFLOAT16},
                                         {BG_BFLOAT16, BG_FLOAT32}, {BG_BFLOAT16, BG_BFLOAT16},
                                         {BG_FLOAT16, BG_FLOAT32},  {BG_FLOAT16, BG_BFLOAT16}};
    const double hyper[BGI_HYPER_COUNT] = {0.01, 0.01, 0.9, 0.999, 1e-8};
    const bg_type type = bg_vector(BG_FLOAT32, 3), scalar = bg_scalar(BG_FLOAT32);
    const bg_type hyper_type = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT);
    double first[3], found[3], moments[2][3], exact[2][3];

    (void)state;
    for (int d = 0; d < 6; d++) {
        bgi_test_interpreter interpreter;
        bg_graph *graph = NULL;
        bg_value p, g, h, scale, states[2];

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        p = bg_graph_parameter(graph, "p", &type, NULL);
        g = bg_graph_variable(graph, "g", &type, BG_ROLE_ACCUMULATOR, NULL);
        h = bg_graph_variable(graph, "hyper", &hyper_type, BG_ROLE_HYPER, NULL);
        scale = bg_graph_variable(graph, "scale", &scalar, BG_ROLE_BUFFER, NULL);
        for (int i = 0; i < 2; i++) {
            const bg_type moment = bg_vector(dtypes[d][i], 3);
            states[i] = bg_graph_variable(graph, i == 0 ? "m" : "v", &moment, BG_ROLE_STATE, NULL);
        }
        bgi_adam_update(graph, NULL, p, g, h, scale, states[0], states[1],
                        &(bgi_adam_attributes){.decoupled_decay = true});
        assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
        bgi_test_interpreter_init(&interpreter, graph);
        bgi_test_set(&interpreter, h, hyper);
        bgi_test_set(&interpreter, scale, (double[]){1.0});
        bgi_test_set(&interpreter, p, (double[]){1.0, -2.0, 0.3});
        bgi_test_set(&interpreter, g, (double[]){0.7, -1.3, 11.0});
        bgi_test_interpret(&interpreter);
        bgi_test_get(&interpreter, p, d == 0 ? first : found);
        for (int i = 0; i < 2; i++)
            bgi_test_get(&interpreter, states[i], d == 0 ? exact[i] : moments[i]);
        for (int i = 0; d > 0 && i < 6; i++) {
            const double wanted = exact[i / 3][i % 3], got = moments[i / 3][i % 3];
            if (dtypes[d][i / 3] == BG_FLOAT32)
                assert_true(got == wanted);
            else
                assert_true(fabs(got - wanted) <= fabs(wanted) / 256.0);
        }
        if (d > 0)
            assert_memory_equal(found, first, sizeof first);
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(graph);
    }
}

static void test_accumulate_sets_then_adds(void **state)
{
    const bg_dtype dtypes[][2] = {{BG_FLOAT32, BG_FLOAT32}, {BG_FLOAT32, BG_BFLOAT16}, {BG_FLOAT64, BG_FLOAT64}};

    (void)state;
    for (int d = 0; d < 3; d++) {
        const bg_type accumulator = bg_vector(dtypes[d][0], 2), gradient = bg_vector(dtypes[d][1], 2);
        bgi_test_interpreter interpreter;
        bg_graph *graph = NULL;
        bg_value a, g;
        double found[2];

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        a = bg_graph_variable(graph, "a", &accumulator, BG_ROLE_ACCUMULATOR, NULL);
        g = bg_graph_input(graph, "g", &gradient);
        bgi_accumulate(graph, NULL, a, g, (bg_value){0});
        bgi_test_interpreter_init(&interpreter, graph);
        bgi_test_set(&interpreter, a, (double[]){99.0, NAN}); /* the result of an earlier step */
        for (uint32_t m = 0; m < 3; m++) {
            interpreter.env.accumulated = m;
            bgi_test_set(&interpreter, g, (double[]){1.5, -2.0 * m});
            bgi_test_interpret(&interpreter);
        }
        bgi_test_get(&interpreter, a, found);
        assert_true(found[0] == 4.5 && found[1] == -6.0);
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(graph);
    }
}

/* Returns the sum in the documented order, ((0 + 1) + (2 + 3)) + 4 and so on. */
static double add_leaves(bg_dtype dtype, const double *leaves, uint32_t count)
{
    uint32_t left = 1;
    double sum;

    if (count == 1)
        return dtype == BG_FLOAT32 ? (double)(float)leaves[0] : leaves[0];
    for (uint32_t twice = 2; twice < count; twice *= 2)
        left = twice;
    sum = add_leaves(dtype, leaves, left) + add_leaves(dtype, leaves + left, count - left);
    return dtype == BG_FLOAT32 ? (double)(float)sum : sum;
}

static void test_a_tree_adds_as_promised(void **state)
{
    static const bg_dtype dtypes[] = {BG_FLOAT32, BG_FLOAT64};
    double leaves[17];

    (void)state;
    for (uint32_t i = 0; i < 17; i++)
        leaves[i] = sin(1.0 + 3.0 * i) * (i % 5 == 0 ? 1e4 : 0.3);
    for (uint32_t count = 1; count <= 17; count++)
        for (int d = 0; d < 2; d++) {
            const bg_type scalar = bg_vector(dtypes[d], 1), given = bg_vector(BG_FLOAT64, 1);
            bgi_test_interpreter interpreter;
            bg_type partials_type;
            bg_graph *graph = NULL;
            bg_value a, g, partials = {0};
            double found;

            assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
            a = bg_graph_variable(graph, "a", &scalar, BG_ROLE_ACCUMULATOR, NULL);
            g = bg_graph_input(graph, "g", &given);
            if (bgi_tree_partials(&scalar, count, &partials_type))
                partials = bg_graph_variable(graph, "p", &partials_type, BG_ROLE_ACCUMULATOR, NULL);
            assert_int_equal(bg_value_is_null(partials), count <= 2);
            bgi_accumulate_tree(graph, NULL, a, g, partials, count);
            bgi_test_interpreter_init(&interpreter, graph);
            bgi_test_set(&interpreter, a, (double[]){NAN}); /* the result of an earlier step */
            if (!bg_value_is_null(partials))
                bgi_test_set(&interpreter, partials, (double[]){NAN, NAN, NAN, NAN});
            for (uint32_t m = 0; m < count; m++) {
                interpreter.env.accumulated = m;
                bgi_test_set(&interpreter, g, &leaves[m]);
                bgi_test_interpret(&interpreter);
            }
            bgi_test_get(&interpreter, a, &found);
            if (found != add_leaves(dtypes[d], leaves, count))
                fail_msg("%u leaves: %.17g, %.17g expected", count, found, add_leaves(dtypes[d], leaves, count));
            bgi_test_interpreter_clear(&interpreter);
            bg_graph_destroy(graph);
        }
}

/* Several ops add more values than one op accepts. */
static void test_add_n_adds_many(void **state)
{
    enum { COUNT = 150 };
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    bgi_test_interpreter interpreter;
    bg_value values[COUNT], sum;
    bg_graph *graph = NULL;
    double found[2];

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    for (int i = 0; i < COUNT; i++) {
        const float data[] = {(float)i, 1.0f};

        values[i] = bg_graph_constant(graph, "c", &type, data);
    }
    sum = bgi_add_n(graph, "sum", values, COUNT);
    assert_int_equal(bg_graph_op_count(graph), 3);
    assert_int_equal(bgi_add_n(graph, NULL, values, 1).id, values[0].id);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, sum, found);
    assert_true(found[0] == COUNT * (COUNT - 1) / 2.0 && found[1] == COUNT);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_add_n_gradient(void **state)
{
    const bg_type types[] = {bg_vector(BG_FLOAT64, 3), bg_vector(BG_FLOAT64, 3), bg_vector(BG_FLOAT64, 3)};

    (void)state;
    bgi_test_gradient(&bgi_op_add_n, NULL, types, 3, -1.0, 1.0);
}

static void test_total_scale_is_the_reciprocal_or_zero(void **state)
{
    const bg_dtype dtypes[] = {BG_FLOAT32, BG_INT32, BG_FLOAT64};

    (void)state;
    for (int d = 0; d < 3; d++) {
        const bg_type type = bg_scalar(dtypes[d]);
        bgi_test_interpreter interpreter;
        bg_graph *graph = NULL;
        bg_value total, y;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        total = bg_graph_variable(graph, "total", &type, BG_ROLE_ACCUMULATOR, NULL);
        y = bgi_total_scale(graph, NULL, total, 1.0);
        bgi_test_interpreter_init(&interpreter, graph);
        bgi_test_interpret(&interpreter);
        assert_true(*(float *)bgi_test_data(&interpreter, y) == 0.0f);
        bgi_test_set(&interpreter, total, (double[]){3.0});
        bgi_test_interpret(&interpreter);
        assert_true(*(float *)bgi_test_data(&interpreter, y) == 1.0f / 3.0f);
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(graph);
    }
}

static bg_value build_sgd(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    (void)argument;
    bgi_sgd_update(graph, "u", inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], &(bgi_sgd_attributes){0});
    return (bg_value){0};
}

static bg_value build_accumulate(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    (void)argument;
    bgi_accumulate(graph, "a", inputs[0], inputs[1], inputs[2]);
    return (bg_value){0};
}

static bg_value build_add_n(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    return bgi_add_n(graph, "n", inputs, *(const uint32_t *)argument);
}

static void test_shape_errors_say_what_would_be_right(void **state)
{
    const bg_type p = bg_vector(BG_FLOAT32, 3), hyper = bg_vector(BG_FLOAT64, BGI_HYPER_COUNT),
                  scale = bg_scalar(BG_FLOAT32);
    const bg_type half = bg_vector(BG_BFLOAT16, 3), other = bg_vector(BG_FLOAT32, 4);
    const uint32_t two = 2, none = 0;

    (void)state;
    bgi_test_build_fails(build_sgd, NULL, (bg_type[]){p, other, hyper, scale}, 4, BG_ERROR_SHAPE,
                         "sgd_update `u`: the gradient is float32[4]; it must be float32[3] (the parameter's shape)");
    bgi_test_build_fails(build_sgd, NULL, (bg_type[]){p, p, p, scale}, 4, BG_ERROR_SHAPE,
                         "hyper is float32[3]; it must be float64[8]");
    bgi_test_build_fails(build_sgd, NULL, (bg_type[]){half, half, hyper, scale, other}, 5, BG_ERROR_SHAPE,
                         "the velocity is float32[4]; it must be float32[3]");
    bgi_test_build_fails(build_accumulate, NULL, (bg_type[]){half, p, p}, 3, BG_ERROR_SHAPE,
                         "factors is float32[3]; it must be float32[2]");
    bgi_test_build_fails(build_accumulate, NULL, (bg_type[]){other, p}, 2, BG_ERROR_SHAPE,
                         "the accumulator is float32[4]; it must be float32[3]");
    bgi_test_build_fails(build_add_n, &two, (bg_type[]){p, other}, 2, BG_ERROR_SHAPE,
                         "operand 1 is float32[4]; it must be float32[3] (as operand 0)");
    bgi_test_build_fails(build_add_n, &none, &p, 1, BG_ERROR_INVALID, "count is 0; it must be at least 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates_follow_pytorch),
        cmocka_unit_test(test_scale_multiplies_the_gradient_first),
        cmocka_unit_test(test_a_resumed_update_continues),
        cmocka_unit_test(test_moments_of_different_types),
        cmocka_unit_test(test_lamb_without_norms),
        cmocka_unit_test(test_combined_sgd),
        cmocka_unit_test(test_mean_of_many_roundings),
        cmocka_unit_test(test_beyond_the_largest),
        cmocka_unit_test(test_chances_are_exact),
        cmocka_unit_test(test_exact_values_are_not_rounded),
        cmocka_unit_test(test_chances),
        cmocka_unit_test(test_accumulate_sets_then_adds),
        cmocka_unit_test(test_a_tree_adds_as_promised),
        cmocka_unit_test(test_add_n_adds_many),
        cmocka_unit_test(test_add_n_gradient),
        cmocka_unit_test(test_total_scale_is_the_reciprocal_or_zero),
        cmocka_unit_test(test_shape_errors_say_what_would_be_right),
    };

    return cmocka_run_group_tests(tests, bgi_test_open_ops_oracle, bgi_test_close_ops_oracle);
}
