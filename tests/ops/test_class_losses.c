/*
 * test_class_losses.c: compares losses over classes (with weights and smoothed labels), negative log-likelihoods,
 * cosine similarity and the cosine embedding loss with PyTorch, and gradients with finite differences. It also checks
 * errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/loss/attributes.h"
#include "kernels/reference/element.h"
#include "ops/ops.h"
#include "support/build_case.h"
#include "support/interpret.h"

enum { ROWS = 6, CLASSES = 5 };

/* The cases of tests/oracle/class_losses.py. */
static const int32_t labels[ROWS] = {2, 0, 4, 1, 1, 3};

typedef struct loss_case {
    bool is_likelihood;
    double smoothing;
    bg_loss_reduction reduction;
    int64_t ignored;
    const bgi_test_tensor *weights; /* or NULL */
} loss_case;

static bg_value add_constant(bg_graph *graph, const char *name, bg_dtype dtype, const bgi_test_tensor *tensor)
{
    const bg_type type = bgi_test_tensor_type(tensor, dtype);
    double data[ROWS * CLASSES];

    for (int64_t i = 0; i < tensor->count; i++)
        bgi_store(dtype, data, i, tensor->values[i]);
    return bg_graph_constant(graph, name, &type, data);
}

static bg_value build_loss(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const loss_case *c = argument;
    const bg_type type = bg_vector(BG_INT32, ROWS);
    const bg_value of = bg_graph_constant(graph, "labels", &type, labels);
    bg_value weights = {0};

    if (c->weights != NULL)
        weights = add_constant(graph, "weights", bg_graph_type(graph, inputs[0]).dtype, c->weights);
    return c->is_likelihood
               ? bg_nll_loss(graph, "l", inputs[0], of, weights, c->reduction, c->ignored)
               : bg_weighted_cross_entropy(graph, "l", inputs[0], of, weights, c->smoothing, c->reduction, c->ignored);
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    static const struct {
        const char *name;
        bool is_likelihood, is_weighted;
        double smoothing;
    } kinds[] = {{"smooth", false, false, 0.2},
                 {"weighted", false, true, 0.0},
                 {"both", false, true, 0.3},
                 {"nll", true, false, 0.0},
                 {"nll_weighted", true, true, 0.0}};
    static const char *const reductions[] = {"mean", "sum", "none"};

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (int r = 0; r < 3; r++)
            for (int some = 0; some < 2; some++) {
                loss_case c = {kinds[k].is_likelihood, kinds[k].smoothing, (bg_loss_reduction)r, some ? 1 : -100, NULL};
                char name[64];

                snprintf(name, sizeof name, "%s_%s_%s", kinds[k].name, reductions[r], some ? "some" : "all");
                if (kinds[k].is_weighted)
                    c.weights = bgi_test_oracle_find(*state, name, "fixed");
                bgi_test_build_case(*state, name, BG_FLOAT64, build_loss, &c, 1e-6, 1e-6);
                bgi_test_build_case(*state, name, BG_FLOAT32, build_loss, &c, 1e-5, 1e-5);
            }
}

static void test_gradients_are_derivatives(void **state)
{
    const bg_type types[] = {bg_matrix(BG_FLOAT64, ROWS, CLASSES), bg_vector(BG_INT32, ROWS)};
    const bg_gradient_check_options options = bg_gradient_check_defaults();
    bgi_loss_attributes attributes = {.ignore_index = 4};
    bg_error error = {0};

    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        attributes.reduction = (bg_loss_reduction)(kind % 3);
        attributes.smoothing = kind < 3 ? 0.15 : 0.0;
        attributes.are_log_likelihoods = kind >= 3;
        if (bg_gradient_check(&bgi_op_cross_entropy, &attributes, types, (const void *[]){NULL, labels}, 2, &options,
                              &error) != BG_OK)
            fail_msg("%s", error.message);
    }
}

static bg_value build_cosine(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const double *numbers = argument; /* the axis, epsilon */

    return bg_cosine_similarity(graph, "c", inputs[0], inputs[1], (int32_t)numbers[0], numbers[1]);
}

static void test_cosines(void **state)
{
    const double small[] = {1, 0.3};

    for (int axis = 0; axis < 3; axis++) {
        const double numbers[] = {axis == 2 ? -1 : axis, 1e-8};
        char name[32];

        snprintf(name, sizeof name, "cosine_%d", axis);
        bgi_test_build_case(*state, name, BG_FLOAT64, build_cosine, numbers, 1e-8, 1e-8);
        bgi_test_build_case(*state, name, BG_FLOAT32, build_cosine, numbers, 1e-6, 1e-5);
        bgi_test_build_case(*state, name, BG_FLOAT16, build_cosine, numbers, 4e-3, 1e-2);
    }
    bgi_test_build_case(*state, "cosine_small", BG_FLOAT64, build_cosine, small, 1e-8, 1e-8);
}

typedef struct pair_case {
    bg_loss_reduction reduction;
    const bgi_test_tensor *signs;
    bg_dtype dtype;
} pair_case;

static bg_value build_pairs(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const pair_case *c = argument;

    return bg_cosine_embedding_loss(graph, "p", inputs[0], inputs[1], add_constant(graph, "signs", c->dtype, c->signs),
                                    0.3, c->reduction);
}

static void test_losses_of_pairs(void **state)
{
    static const char *const names[] = {"cosine_loss_mean", "cosine_loss_sum", "cosine_loss_none"};

    for (int r = 0; r < 3; r++)
        for (int is_integer = 0; is_integer < 2; is_integer++) {
            const pair_case c = {(bg_loss_reduction)r, bgi_test_oracle_find(*state, names[r], "fixed"),
                                 is_integer ? BG_INT32 : BG_FLOAT32};

            bgi_test_build_case(*state, names[r], BG_FLOAT64, build_pairs, &c, 1e-7, 1e-7);
            bgi_test_build_case(*state, names[r], BG_FLOAT32, build_pairs, &c, 1e-5, 1e-5);
        }
}

/* Adds the similarities of zero vectors, which are 0 and not infinite, to those of the inputs. */
static bg_value build_zero_cosine(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const bg_value zeros = bg_scale(graph, NULL, inputs[0], 0.0, 0.0);

    (void)argument;
    return bg_add(graph, bg_cosine_similarity(graph, "c", zeros, inputs[1], 2, 1e-8),
                  bg_cosine_similarity(graph, NULL, inputs[0], inputs[1], 2, 1e-8));
}

static void test_nothing_is_like_nothing(void **state)
{
    bgi_test_build_case(*state, "cosine_2", BG_FLOAT64, build_zero_cosine, NULL, 1e-8, 1e-8);
}

static bg_value build_count(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const bg_type type = bg_vector(BG_UINT8, 3);
    const uint8_t of[] = {2, 0, 9}; /* the last one is not a class */

    return bg_top_k_correct_count(graph, "count", inputs[0], bg_graph_constant(graph, "of", &type, of),
                                  *(const int64_t *)argument);
}

/* The labels are the class with the second largest logit, the class with the third largest, and no class. */
static void test_labels_among_the_largest(void **state)
{
    static const double logits[] = {1, 3, 2, 0, -1, -1, 2, 2, 1, 0, 0, 0};
    static const int32_t wanted[] = {0, 1, 2, 2};
    const bg_type x_type = bg_matrix(BG_FLOAT32, 3, 4), short_type = bg_matrix(BG_FLOAT32, 2, 4);
    const int64_t too_many = 5;

    (void)state;
    for (int64_t k = 1; k <= 4; k++) {
        bgi_test_interpreter interpreter;
        bg_graph *graph = NULL;
        bg_value x, count;

        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        x = bg_graph_input(graph, "x", &x_type);
        count = build_count(graph, &x, &k);
        assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
        assert_string_equal(bg_graph_name(graph, count), "count");
        bgi_test_interpreter_init(&interpreter, graph);
        bgi_test_set(&interpreter, x, logits);
        bgi_test_interpret(&interpreter);
        assert_int_equal(*(const int32_t *)bgi_test_data(&interpreter, count), wanted[k - 1]);
        bgi_test_interpreter_clear(&interpreter);
        bg_graph_destroy(graph);
    }
    bgi_test_build_fails(build_count, &too_many, &x_type, 1, BG_ERROR_INVALID, "k is 5");
    bgi_test_build_fails(build_count, &too_many, &short_type, 1, BG_ERROR_SHAPE,
                         "top_k_correct_count `count`: labels is uint8[3]");
}

static void test_what_is_wrong_is_said(void **state)
{
    const bg_type x = bg_matrix(BG_FLOAT32, ROWS, CLASSES), other = bg_matrix(BG_FLOAT32, ROWS, 4);
    const bgi_test_tensor *signs = bgi_test_oracle_find(*state, "cosine_loss_mean", "fixed");
    loss_case c = {.smoothing = 1.5, .weights = signs};
    const pair_case pairs = {(bg_loss_reduction)3, signs, BG_FLOAT32};
    double numbers[] = {1, 0};

    bgi_test_build_fails(build_loss, &c, &x, 1, BG_ERROR_INVALID, "label_smoothing is 1.5; it must be between 0 and 1");
    c.smoothing = NAN;
    bgi_test_build_fails(build_loss, &c, &x, 1, BG_ERROR_INVALID, "label_smoothing is");
    c.smoothing = 0.0;
    bgi_test_build_fails(build_loss, &c, &x, 1, BG_ERROR_SHAPE, "class_weights is float32[6]");
    bgi_test_build_fails(build_cosine, numbers, (bg_type[]){x, x}, 2, BG_ERROR_INVALID, "epsilon is 0");
    bgi_test_build_fails(build_cosine, numbers, (bg_type[]){x, other}, 2, BG_ERROR_SHAPE,
                         "cosine_similarity `c`: a is float32[6,5] and b is float32[6,4]");
    bgi_test_build_fails(build_pairs, &pairs, (bg_type[]){x, x}, 2, BG_ERROR_INVALID, "cosine_embedding_loss `p`");
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/class_losses.txt");
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
        cmocka_unit_test(test_pytorch_has_the_same_numbers),
        cmocka_unit_test(test_gradients_are_derivatives),
        cmocka_unit_test(test_cosines),
        cmocka_unit_test(test_losses_of_pairs),
        cmocka_unit_test(test_nothing_is_like_nothing),
        cmocka_unit_test(test_labels_among_the_largest),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
