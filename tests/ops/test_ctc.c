/*
 * test_ctc.c: compares connectionist temporal classification with PyTorch and with the sum over all paths, gradients
 * with finite differences, and fast kernels with plain ones. It also tests impossible targets.
 */
#include "kernels/kernel_case.h"

#include "kernels/ctc/attributes.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

enum { SAMPLES = 5, STEPS = 9, CLASSES = 5, TARGETS = 4 };

/* The cases of tests/oracle/ctc.py. */
static const int32_t targets[SAMPLES][TARGETS] = {{1, 2, 2, 3}, {4, 4, 4, 4}, {3, 1, 0, 0}, {2, 2, 2, 2}, {1, 1, 1, 1}};
static const int32_t lengths[SAMPLES] = {9, 8, 5, 4, 3}, tight[SAMPLES] = {9, 6, 5, 4, 3},
                     target_lengths[SAMPLES] = {4, 4, 2, 0, 1};
static const int32_t last_targets[3][TARGETS] = {{1, 2, 2, 3}, {3, 3, 3, 3}, {3, 1, 0, 0}};

typedef struct ctc_case {
    const void *targets;
    const int32_t *lengths, *target_lengths; /* NULL: no lengths are given */
    int64_t samples;
    int32_t blank;
    bool zeroes_infinity;
    bg_loss_reduction reduction;
} ctc_case;

static bg_value add_integers(bg_graph *graph, const char *name, bg_type type, const void *data)
{
    return data != NULL ? bg_graph_constant(graph, name, &type, data) : (bg_value){0};
}

static bg_value build(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const ctc_case *c = argument;

    return bg_ctc_loss(graph, "ctc", bg_elementwise_unary(graph, NULL, BG_LOG, bg_softmax(graph, NULL, inputs[0], -1)),
                       add_integers(graph, "targets", bg_matrix(BG_INT32, c->samples, TARGETS), c->targets),
                       add_integers(graph, "lengths", bg_vector(BG_INT32, c->samples), c->lengths),
                       add_integers(graph, "target_lengths", bg_vector(BG_INT32, c->samples), c->target_lengths),
                       c->blank, c->zeroes_infinity, c->reduction);
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    static const char *const reductions[] = {"mean", "sum", "none"};
    const ctc_case last = {.targets = last_targets, .samples = 3, .blank = 4, .reduction = BG_LOSS_NONE};

    for (int r = 0; r < 3; r++)
        for (int is_tight = 0; is_tight < 2; is_tight++) {
            const ctc_case c = {targets,  is_tight ? tight : lengths, target_lengths, SAMPLES, 0,
                                is_tight, (bg_loss_reduction)r};
            char name[32];

            snprintf(name, sizeof name, "%s%s", reductions[r], is_tight ? "_tight" : "");
            bgi_test_build_case(*state, name, BG_FLOAT64, build, &c, 1e-7, 1e-7);
            bgi_test_build_case(*state, name, BG_FLOAT32, build, &c, 1e-5, 1e-5);
        }
    bgi_test_build_case(*state, "last", BG_FLOAT64, build, &last, 1e-7, 1e-7);
}

/* Runs only the op, on logarithms of values that need not add up to 1. */
static void run_op(const double *x, const int32_t *of, int32_t steps, int32_t length, bool zeroes_infinity,
                   double *out_loss, double *out_gradient)
{
    const bg_type type = bg_tensor3(BG_FLOAT64, 1, 3, 3), of_type = bg_matrix(BG_INT32, 1, 2);
    const bg_type lengths_type = bg_vector(BG_INT32, 1), seed_type = bg_vector(BG_FLOAT64, 1);
    const bgi_ctc_attributes attributes = {.zeroes_infinity = zeroes_infinity};
    const double one = 1.0;
    bgi_test_interpreter interpreter;
    bg_graph *graph;
    bg_value operands[4], loss, gradient;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    operands[0] = bg_graph_input(graph, "x", &type);
    operands[1] = bg_graph_constant(graph, "targets", &of_type, of);
    operands[2] = bg_graph_constant(graph, "steps", &lengths_type, &steps);
    operands[3] = bg_graph_constant(graph, "length", &lengths_type, &length);
    loss = bg_graph_add(graph, &bgi_op_ctc_loss, NULL, operands, 4, &attributes, NULL);
    bgi_test_derive(graph, loss, bg_graph_constant(graph, "one", &seed_type, &one), operands, 1, &gradient);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, operands[0], x);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, loss, out_loss);
    bgi_test_get(&interpreter, gradient, out_gradient);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

/* Returns whether the path gives the labels `of` after repeated classes are merged and blanks are removed. */
static bool says(const int *path, int steps, const int32_t *of, int length)
{
    int found = 0;

    for (int t = 0; t < steps; t++)
        if (path[t] != 0 && (t == 0 || path[t] != path[t - 1]) && (found >= length || path[t] != of[found++]))
            return false;
    return found == length;
}

static void test_it_is_the_sum_over_all_paths(void **state)
{
    static const int32_t of[][2] = {{1, 2}, {2, 2}, {2, 1}};
    double x[9];

    (void)state;
    for (int i = 0; i < 9; i++)
        x[i] = -0.3 * (1 + i * 7 % 5);
    for (int which = 0; which < 3; which++)
        for (int length = 0; length <= 2; length++)
            for (int steps = 1; steps <= 3; steps++) {
                double sum = 0.0, loss, gradient[9];

                for (int path = 0; path < 27; path++) {
                    const int classes[3] = {path % 3, path / 3 % 3, path / 9};
                    double all = 0.0;

                    for (int t = 0; t < steps; t++)
                        all += x[t * 3 + classes[t]];
                    if ((steps == 3 || classes[2] == 0) && (steps >= 2 || classes[1] == 0) &&
                        says(classes, steps, of[which], length))
                        sum += exp(all);
                }
                run_op(x, of[which], steps, length, false, &loss, gradient);
                if (sum == 0.0 ? loss != INFINITY : fabs(loss + log(sum)) > 1e-12)
                    fail_msg("targets %d, %d of them, %d steps: %.15g, %.15g expected", which, length, steps, loss,
                             -log(sum));
            }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type types[] = {bg_tensor3(BG_FLOAT64, SAMPLES, STEPS, CLASSES), bg_matrix(BG_INT32, SAMPLES, TARGETS),
                             bg_vector(BG_INT32, SAMPLES), bg_vector(BG_INT32, SAMPLES)};
    const bgi_ctc_attributes attributes = {0};
    bg_gradient_check_options options = bg_gradient_check_defaults();
    bg_error error = {0};

    (void)state;
    options.input_low = -3.0;
    options.input_high = 0.0;
    if (bg_gradient_check(&bgi_op_ctc_loss, &attributes, types,
                          (const void *[]){NULL, targets, lengths, target_lengths}, 4, &options, &error) != BG_OK)
        fail_msg("%s", error.message);
}

/* Tests targets that need more steps than there are, and invalid lengths and classes. */
static void test_what_cannot_be(void **state)
{
    static const int32_t twice[2] = {2, 2}, blank[2] = {0, 1}, beyond[2] = {1, 3}, below[2] = {-1, 1};
    static const struct {
        const int32_t *of;
        int32_t steps, length;
    } wrong[] = {{twice, 4, 1}, {twice, -1, 1}, {twice, 3, 3}, {twice, 3, -1},
                 {blank, 3, 2}, {beyond, 3, 2}, {below, 3, 2}};
    const double x[9] = {-1, -2, -3, -1, -2, -3, -1, -2, -3};
    double loss, gradient[9];

    (void)state;
    run_op(x, twice, 2, 2, false, &loss, gradient);
    assert_true(isinf(loss) && loss > 0 && isnan(gradient[0]));
    run_op(x, twice, 2, 2, true, &loss, gradient);
    assert_true(loss == 0.0 && gradient[0] == 0.0 && gradient[5] == 0.0);
    run_op(x, twice, 0, 0, false, &loss, gradient);
    assert_true(loss == 0.0 && gradient[0] == 0.0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int zeroes = 0; zeroes < 2; zeroes++) {
            run_op(x, wrong[i].of, wrong[i].steps, wrong[i].length, zeroes, &loss, gradient);
            if (!isnan(loss) || !isnan(gradient[0]) || !isnan(gradient[8]))
                fail_msg("%zu: loss %g, gradients %g to %g", i, loss, gradient[0], gradient[8]);
        }
    run_op(x, beyond, 3, 1, false, &loss, gradient); /* the invalid class is ignored */
    assert_true(isfinite(loss));
}

static void test_shapes_that_cannot_be(void **state)
{
    const bg_type x = bg_tensor3(BG_FLOAT32, SAMPLES, STEPS, CLASSES), flat = bg_matrix(BG_FLOAT32, SAMPLES, CLASSES);
    ctc_case c = {targets, lengths, target_lengths, SAMPLES, 5, false, BG_LOSS_NONE};

    (void)state;
    bgi_test_build_fails(build, &c, &x, 1, BG_ERROR_INVALID, "blank is 5; it must be one of the 5 classes");
    c.blank = -1;
    bgi_test_build_fails(build, &c, &x, 1, BG_ERROR_INVALID, "blank is -1");
    c.blank = 0;
    bgi_test_build_fails(build, &c, &flat, 1, BG_ERROR_SHAPE, "log_probabilities");
    c.samples = 3;
    bgi_test_build_fails(build, &c, &x, 1, BG_ERROR_SHAPE, "targets");
    c.samples = SAMPLES, c.reduction = (bg_loss_reduction)7;
    bgi_test_build_fails(build, &c, &x, 1, BG_ERROR_INVALID, "ctc_loss `ctc`");
}

/* ---- the fast kernels ---- */

static void test_fast_kernels(void **state)
{
    random_state random = {3};

    (void)state;
    for (int i = 0; i < 200; i++) {
        const int64_t samples = draw_between(&random, 1, 6), steps = draw_between(&random, 1, 20);
        const int64_t classes = draw_between(&random, 2, 9), most = draw_between(&random, 1, 7);
        const bgi_ctc_attributes attributes = {(int32_t)draw_between(&random, 0, classes - 1), (uint32_t)i & 1};
        const bg_type x = bg_tensor3(draw_float(&random), samples, steps, classes);
        const bg_type of = bg_matrix(BG_INT32, samples, most), length = bg_vector(BG_INT32, samples);
        const bg_type alpha = bg_tensor3(BG_FLOAT64, samples, steps, 2 * most + 1);
        kernel_case c = {.id = BGI_KERNEL_CTC_LOSS,
                         .attributes = &attributes,
                         .relative = x.dtype == BG_FLOAT32 ? 2e-7 : 1.0 / 128,
                         .absolute = 1e-9};
        kernel_case back = c;
        int32_t *data[2][3];

        back.id = BGI_KERNEL_CTC_LOSS_BACKWARD;
        case_input(&back, bg_vector(BG_FLOAT32, samples), &random, -1, 1);
        for (int k = 0; k < 2; k++) {
            kernel_case *into = k == 0 ? &c : &back;
            case_input(into, x, &random, -4, 0);
            data[k][0] = case_input(into, of, &random, 0, 1);
            data[k][1] = case_input(into, length, &random, 0, 1);
            data[k][2] = case_input(into, length, &random, 0, 1);
        }
        for (int64_t s = 0; s < samples; s++) {
            for (int64_t t = 0; t < most; t++)
                data[0][0][s * most + t] = (int32_t)draw_between(&random, i % 10 == 0 ? -1 : 0, classes - 1);
            data[0][1][s] = (int32_t)draw_between(&random, 0, steps);
            data[0][2][s] = (int32_t)draw_between(&random, 0, most);
        }
        memcpy(data[1][0], data[0][0], bg_type_size_bytes(&of));
        memcpy(data[1][1], data[0][1], bg_type_size_bytes(&length));
        memcpy(data[1][2], data[0][2], bg_type_size_bytes(&length));
        case_output(&c, bg_vector(BG_FLOAT32, samples));
        case_output(&c, alpha);
        assert_int_equal(case_check(&c, 0), count_isas());
        case_input(&back, alpha, &random, -20, 0);
        case_output(&back, x);
        case_output(&back, bg_matrix(BG_FLOAT64, samples, 2 * most + 1 + classes));
        assert_int_equal(case_check(&back, 0), count_isas());
        case_clear(&c);
        case_clear(&back);
    }
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/ctc.txt");
    return 0;
}

static int close_oracle(void **state)
{
    bgi_test_oracle_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch_has_the_same_numbers), cmocka_unit_test(test_it_is_the_sum_over_all_paths),
        cmocka_unit_test(test_gradients_are_derivatives),    cmocka_unit_test(test_what_cannot_be),
        cmocka_unit_test(test_shapes_that_cannot_be),        cmocka_unit_test(test_fast_kernels),
    };

    return cmocka_run_group_tests_name("ops/ctc", tests, open_oracle, close_oracle);
}
