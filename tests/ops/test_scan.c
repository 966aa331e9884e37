/*
 * test_scan.c: a scan equals a loop over its body. The test compares scans with the recurrent ops, including gradients
 * of all values that the body uses, time along any axis and backward, and truncated gradients. It also checks errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

enum { STEPS = 7, SAMPLES = 3, WIDTH = 4, COUNT = STEPS * SAMPLES * WIDTH };

typedef struct rig {
    bg_graph *graph;
    bg_value x, h0, weight, bias;
    bg_value y, last, one;
    bg_value gradients[4]; /* the gradients of x, h0, weight, bias */
    bgi_test_interpreter interpreter;
} rig;

static rig begin(bool batch_first)
{
    const bg_type x =
        batch_first ? bg_tensor3(BG_FLOAT64, SAMPLES, STEPS, WIDTH) : bg_tensor3(BG_FLOAT64, STEPS, SAMPLES, WIDTH);
    const bg_type h0 = bg_matrix(BG_FLOAT64, SAMPLES, WIDTH), weight = bg_matrix(BG_FLOAT64, WIDTH, WIDTH);
    const bg_type bias = bg_vector(BG_FLOAT64, WIDTH), one = bg_scalar(BG_FLOAT64);
    rig r = {0};

    assert_int_equal(bg_graph_create(&r.graph, NULL), BG_OK);
    r.x = bg_graph_parameter(r.graph, "x", &x, NULL);
    r.h0 = bg_graph_parameter(r.graph, "h0", &h0, NULL);
    r.weight = bg_graph_parameter(r.graph, "weight", &weight, NULL);
    r.bias = bg_graph_parameter(r.graph, "bias", &bias, NULL);
    r.one = bg_graph_variable(r.graph, "one", &one, BG_ROLE_BUFFER, NULL);
    return r;
}

/* Computes a step tanh(x + weight h + bias), as in bg_rnn. */
static void step_rnn(void *user, bg_graph *graph, bg_scan_step *step)
{
    const rig *r = user;

    step->states[0] =
        bg_tanh(graph, bg_add(graph, step->inputs[0], bg_linear(graph, NULL, step->states[0], r->weight, r->bias)));
    step->outputs[0] = step->states[0];
}

/* Differentiates the sum of the squares of y plus the sum of the last state, and runs the graph. */
static void run(rig *r)
{
    const bg_value operands[] = {r->x, r->h0, r->weight, r->bias};
    bg_value loss = bg_reduce(r->graph, NULL, BG_REDUCE_SUM, bg_multiply(r->graph, r->y, r->y), NULL, 0, false);
    bg_error error = {0};
    double values[COUNT];

    loss = bg_add(r->graph, loss, bg_reduce(r->graph, NULL, BG_REDUCE_SUM, r->last, NULL, 0, false));
    if (bg_graph_check(r->graph, &error) != BG_OK)
        fail_msg("%s", error.message);
    bgi_test_derive(r->graph, loss, r->one, operands, 4, r->gradients);
    bgi_test_interpreter_init(&r->interpreter, r->graph);
    for (int o = 0; o < 4; o++) {
        for (int i = 0; i < COUNT; i++)
            values[i] = sin(i * 1.7 + o * 0.9) * 0.6;
        bgi_test_set(&r->interpreter, operands[o], values);
    }
    bgi_test_set(&r->interpreter, r->one, (const double[]){1.0});
    bgi_test_interpret(&r->interpreter);
}

static void end(rig *r)
{
    bgi_test_interpreter_clear(&r->interpreter);
    bg_graph_destroy(r->graph);
}

static void compare(const rig *a, bg_value of_a, const rig *b, bg_value of_b)
{
    const bg_type type = bg_graph_type(a->graph, of_a), other = bg_graph_type(b->graph, of_b);
    double values[2][COUNT];

    assert_true(bg_type_equal(&type, &other));
    bgi_test_get(&a->interpreter, of_a, values[0]);
    bgi_test_get(&b->interpreter, of_b, values[1]);
    for (int64_t i = 0; i < bg_type_element_count(&type); i++)
        assert_true(fabs(values[0][i] - values[1][i]) < 1e-11);
}

static void test_a_scan_is_the_recurrence(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        const bool batch_first = way & 1, reverse = way >> 1;
        bg_scan_options options = bg_scan_defaults();
        rig scan = begin(batch_first), op = begin(batch_first);
        bg_value last = scan.h0, outputs[1];
        const int64_t at = reverse ? 0 : STEPS - 1;

        options.axis = batch_first ? (way == 1 ? 1 : -2) : 0;
        options.reverse = reverse;
        options.checkpoint = way; /* marks do not change results */
        scan.y = bg_scan(scan.graph, &options, &scan.x, &last, step_rnn, &scan, outputs);
        assert_int_equal(outputs[0].id, scan.y.id);
        scan.last = last;
        op.y = bg_rnn(op.graph, NULL, op.x, op.weight, op.bias, op.h0, false, batch_first, reverse);
        op.last = bg_reshape(op.graph, NULL, bg_slice(op.graph, NULL, op.y, batch_first ? 1 : 0, at, at + 1, 1), 2,
                             (const int64_t[]){SAMPLES, WIDTH});
        run(&scan);
        run(&op);
        compare(&scan, scan.y, &op, op.y);
        compare(&scan, scan.last, &op, op.last);
        for (int o = 0; o < 4; o++)
            compare(&scan, scan.gradients[o], &op, op.gradients[o]);
        end(&scan);
        end(&op);
    }
}

/* The last state's gradient reaches only the steps since the last multiple of the truncation, and not the initial
 * state.
 */
static void test_gradients_are_cut_off(void **state)
{
    bg_scan_options options = bg_scan_defaults();
    rig r = begin(false);
    bg_value last = r.h0;
    double dx[COUNT], dh[SAMPLES * WIDTH];

    (void)state;
    options.truncate = 3;
    bg_scan(r.graph, &options, &r.x, &last, step_rnn, &r, NULL);
    r.last = last;
    r.y = bg_scale(r.graph, NULL, last, 0.0, 0.0);
    run(&r);
    bgi_test_get(&r.interpreter, r.gradients[0], dx);
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < SAMPLES * WIDTH; i++)
            assert_true((dx[step * SAMPLES * WIDTH + i] != 0.0) == (step == 6));
    if (!bg_value_is_null(r.gradients[1])) {
        bgi_test_get(&r.interpreter, r.gradients[1], dh);
        for (int i = 0; i < SAMPLES * WIDTH; i++)
            assert_true(dh[i] == 0.0);
    }
    end(&r);
}

/* Adds a step with two sequences, two states, and two outputs. The first output is the second state; the other one is
 * the first state plus the step number that the body gets. */
static void step_pairs(void *user, bg_graph *graph, bg_scan_step *step)
{
    const double value = (double)step->step;
    const bg_type type = bg_scalar(BG_FLOAT64);

    (void)user;
    step->states[0] = bg_add(graph, step->states[0], step->inputs[0]);
    step->states[1] = bg_add(graph, step->states[1], bg_multiply(graph, step->inputs[0], step->inputs[1]));
    step->outputs[0] = step->states[1];
    step->outputs[1] = bg_add(graph, step->states[0], bg_graph_constant(graph, "step", &type, &value));
}

static void test_several_of_each(void **state)
{
    const bg_type sequence = bg_vector(BG_FLOAT64, 4), scalar = bg_scalar(BG_FLOAT64);
    const double a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, zero = 0.0;
    /* Both are added up from the last step backward; the sums also contain the step number. */
    const double products[] = {70, 65, 53, 32}, sums[] = {13, 11, 8, 4};
    bg_scan_options options = bg_scan_defaults();
    bg_value inputs[2], states[2], outputs[2];
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    double got[4];

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "a", &sequence);
    inputs[1] = bg_graph_input(graph, "b", &sequence);
    states[0] = states[1] = bg_graph_constant(graph, "zero", &scalar, &zero);
    options.input_count = options.state_count = options.output_count = 2;
    options.reverse = true;
    bg_scan(graph, &options, inputs, states, step_pairs, NULL, outputs);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, inputs[0], a);
    bgi_test_set(&interpreter, inputs[1], b);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, outputs[0], got);
    for (int i = 0; i < 4; i++)
        assert_true(got[i] == products[i]);
    bgi_test_get(&interpreter, outputs[1], got);
    for (int i = 0; i < 4; i++)
        assert_true(got[i] == sums[i]);
    bgi_test_get(&interpreter, states[1], got);
    assert_true(got[0] == 70.0);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void step_nothing(void *user, bg_graph *graph, bg_scan_step *step)
{
    (void)user;
    (void)graph;
    (void)step;
}

static void step_wider(void *user, bg_graph *graph, bg_scan_step *step)
{
    (void)user;
    step->outputs[0] = step->inputs[0];
    step->states[0] = bg_concat(graph, NULL, (const bg_value[]){step->states[0], step->states[0]}, 2, 0);
}

static void expect(const bg_scan_options *options, const bg_type *types,
                   void (*body)(void *user, bg_graph *graph, bg_scan_step *step), bg_status status, const char *part)
{
    const bg_type state_type = bg_vector(BG_FLOAT32, 2);
    bg_value inputs[2], states[2];
    bg_error error = {0};
    bg_graph *graph = NULL;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "a", &types[0]);
    inputs[1] = bg_graph_input(graph, "b", &types[1]);
    states[0] = states[1] = bg_graph_input(graph, "state", &state_type);
    assert_true(bg_value_is_null(bg_scan(graph, options, inputs, states, body, NULL, NULL)));
    assert_int_equal(bg_graph_check(graph, &error), status);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", error.message, part);
    bg_graph_destroy(graph);
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type types[] = {bg_matrix(BG_FLOAT32, 3, 2), bg_matrix(BG_FLOAT32, 4, 2)};
    bg_scan_options options = bg_scan_defaults();

    (void)state;
    expect(NULL, types, step_nothing, BG_ERROR_INVALID, "it has no options");
    expect(&options, types, step_nothing, BG_ERROR_INVALID, "the body did not set output 0 (the loop has 3 steps)");
    expect(&options, types, step_wider, BG_ERROR_SHAPE,
           "the body changes state 0 to float32[4]; it must stay float32[2]");
    expect(&options, types, NULL, BG_ERROR_INVALID, "it needs a body");
    options.input_count = 2;
    expect(&options, types, step_nothing, BG_ERROR_SHAPE, "input 1 has 4 steps");
    options.input_count = 1;
    options.axis = 2;
    expect(&options, types, step_nothing, BG_ERROR_SHAPE, "input 0 has no axis 2");
    options.axis = 0;
    options.truncate = -1;
    expect(&options, types, step_nothing, BG_ERROR_INVALID, "truncate is -1");
    options.truncate = 0;
    options.output_count = 17;
    expect(&options, types, step_nothing, BG_ERROR_INVALID, "17 outputs; each number can be at most 16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_scan_is_the_recurrence), cmocka_unit_test(test_gradients_are_cut_off),
        cmocka_unit_test(test_several_of_each), cmocka_unit_test(test_what_is_wrong_is_said)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
