/*
 * test_loss.c: compares cross-entropy with PyTorch and central differences. It also tests labels that are ignored,
 * invalid or bytes, the weights of a mean, and the count of correct rows.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kernels/loss/attributes.h"
#include "ops/ops.h"
#include "support/interpret.h"
#include "support/op_case.h"

static void test_cross_entropy_oracle(void **state)
{
    static const struct {
        const char *name;
        bgi_loss_attributes attributes;
    } cases[] = {
        {"cross_entropy_mean", {.reduction = BG_LOSS_MEAN, .ignore_index = -100}},
        {"cross_entropy_ignore", {.reduction = BG_LOSS_MEAN, .ignore_index = 1}},
        {"cross_entropy_sum", {.reduction = BG_LOSS_SUM, .ignore_index = 2}},
        {"cross_entropy_none", {.reduction = BG_LOSS_NONE, .ignore_index = 0}},
        {"cross_entropy_deep", {.reduction = BG_LOSS_MEAN, .ignore_index = -100}},
    };
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/ops_a.txt");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int is_byte = 0; is_byte < 2; is_byte++) {
            const bgi_test_op_case test = {.name = cases[i].name,
                                           .op_type = &bgi_op_cross_entropy,
                                           .attributes = &cases[i].attributes,
                                           .inputs = {"logits", "labels"},
                                           .outputs = {"y", "log_sum_exp"},
                                           .integers = "labels",
                                           .integer_dtype = is_byte ? BG_UINT8 : BG_INT32};

            bgi_test_op_case_run_all(oracle, &test, true);
            bgi_test_op_case_check_gradient(oracle, &test);
        }
    bgi_test_oracle_close(oracle);
}

/* With logits of 1e4 in float32, no value overflows, and the gradient keeps its digits. */
static void test_cross_entropy_extreme(void **state)
{
    const bgi_loss_attributes attributes = {.reduction = BG_LOSS_MEAN, .ignore_index = -100};
    const bgi_test_op_case test = {.name = "cross_entropy_extreme",
                                   .op_type = &bgi_op_cross_entropy,
                                   .attributes = &attributes,
                                   .inputs = {"logits", "labels"},
                                   .outputs = {"y", "log_sum_exp"},
                                   .integers = "labels",
                                   .integer_dtype = BG_INT32};
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/ops_a.txt");

    (void)state;
    bgi_test_op_case_run(oracle, &test, BG_FLOAT64, 1e-8, 1e-8, true);
    bgi_test_op_case_run(oracle, &test, BG_FLOAT32, 1e-6, 1e-6, true);
    bgi_test_oracle_close(oracle);
}

/* Mean cross-entropy of 3 rows of 2 logits and its gradient for a given dloss. */
typedef struct mean_result {
    double loss, weight, gradient[6];
} mean_result;

static mean_result compute_mean(const int32_t labels[3], double dloss)
{
    const bg_type logits_type = bg_matrix(BG_FLOAT32, 3, 2), labels_type = bg_vector(BG_INT32, 3);
    const bg_type scalar = bg_scalar(BG_FLOAT32);
    const bgi_loss_attributes attributes = {.reduction = BG_LOSS_MEAN, .ignore_index = -100};
    bgi_test_interpreter interpreter;
    bg_value inputs[2], outputs[3], seed, dlogits;
    bg_graph *graph = NULL;
    mean_result result;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    inputs[0] = bg_graph_input(graph, "logits", &logits_type);
    inputs[1] = bg_graph_input(graph, "labels", &labels_type);
    seed = bg_graph_variable(graph, "dloss", &scalar, BG_ROLE_BUFFER, NULL);
    bg_graph_add(graph, &bgi_op_cross_entropy, "loss", inputs, 2, &attributes, outputs);
    dlogits =
        bg_graph_add(graph, &bgi_op_cross_entropy_backward, NULL,
                     (const bg_value[]){seed, inputs[0], inputs[1], outputs[1], outputs[2]}, 5, &attributes, NULL);
    bgi_test_interpreter_init(&interpreter, graph);
    bgi_test_set(&interpreter, inputs[0], (const double[]){1, 1, 2, 2, 3, 3});
    memcpy(bgi_test_data(&interpreter, inputs[1]), labels, 3 * sizeof *labels);
    bgi_test_set(&interpreter, seed, &dloss);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, outputs[0], &result.loss);
    bgi_test_get(&interpreter, outputs[2], &result.weight);
    bgi_test_get(&interpreter, dlogits, result.gradient);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
    return result;
}

static void test_mean_weight(void **state)
{
    mean_result result = compute_mean((const int32_t[]){0, -100, 1}, 2.0);

    (void)state;
    assert_int_equal(bgi_op_cross_entropy.weight_output, 2);
    assert_true(result.weight == 2.0);
    assert_true(fabs(result.loss - log(2.0)) < 1e-7);
    /* with the weight as seed, the gradient is that of the sum */
    assert_memory_equal(result.gradient, ((const double[]){-0.5, 0.5, 0, 0, 0.5, -0.5}), sizeof result.gradient);

    /* if no label counts, loss and gradient are 0 and not NaN, for any seed */
    result = compute_mean((const int32_t[]){-100, -100, -100}, 0.0);
    assert_true(result.weight == 0.0 && result.loss == 0.0);
    for (int i = 0; i < 6; i++)
        assert_true(result.gradient[i] == 0.0);
}

/* A label that is neither a class nor ignored must be detected, and must not read outside the logits. */
static void test_wrong_label_is_nan(void **state)
{
    const int32_t wrong[] = {2, -1, INT32_MAX, INT32_MIN};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const mean_result result = compute_mean((const int32_t[]){0, wrong[i], 1}, 1.0);

        assert_true(isnan(result.loss));
        assert_true(result.weight == 3.0);
        assert_true(isnan(result.gradient[2]) && isnan(result.gradient[3]));
        assert_false(isnan(result.gradient[0]) || isnan(result.gradient[4]));
    }
}

static void test_correct_count(void **state)
{
    const bg_type logits_type = bg_matrix(BG_FLOAT32, 6, 3), labels_type = bg_vector(BG_UINT8, 6);
    const bg_type deep_type = bg_tensor3(BG_FLOAT32, 2, 3, 3), deep_labels_type = bg_matrix(BG_INT32, 2, 3);
    /* correct; wrong; the first of two equal logits is correct; the second is wrong; NaN is the largest; an invalid
     * class
     */
    const double logits[] = {1, 3, 2, 1, 3, 2, 5, 5, 1, 5, 5, 1, 9, NAN, 1, 0, 0, 0};
    const double labels[] = {1, 2, 0, 1, 1, 200};
    bg_value values[4], count, deep;
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    values[0] = bg_graph_input(graph, "logits", &logits_type);
    values[1] = bg_graph_input(graph, "labels", &labels_type);
    values[2] = bg_graph_input(graph, "deep", &deep_type);
    values[3] = bg_graph_input(graph, "deep_labels", &deep_labels_type);
    count = bg_correct_count(graph, "count", values[0], values[1]);
    deep = bg_correct_count(graph, "deep count", values[2], values[3]);
    bgi_test_interpreter_init(&interpreter, graph);
    for (int i = 0; i < 4; i++)
        bgi_test_set(&interpreter, values[i], i % 2 == 0 ? logits : labels);
    bgi_test_interpret(&interpreter);
    assert_int_equal(*(const int32_t *)bgi_test_data(&interpreter, count), 3);
    assert_int_equal(*(const int32_t *)bgi_test_data(&interpreter, deep), 3);
    assert_null(bgi_op_correct_count.gradient);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_messages(void **state)
{
    const bg_type logits = bg_matrix(BG_FLOAT32, 40, 10);
    const bg_type wrong_rows[] = {logits, bg_vector(BG_INT32, 39)}, wrong_type[] = {logits, bg_vector(BG_FLOAT32, 40)};
    const bg_type fits[] = {logits, bg_vector(BG_UINT8, 40)};
    const bgi_loss_attributes mean = {.reduction = BG_LOSS_MEAN, .ignore_index = -100},
                              unknown = {.reduction = (bg_loss_reduction)3, .ignore_index = -100};

    (void)state;
    bgi_test_op_refuses(&bgi_op_cross_entropy, &mean, wrong_rows, 2, BG_ERROR_SHAPE,
                        (const char *const[]){"labels is int32[39]", "int32[40]", NULL});
    bgi_test_op_refuses(&bgi_op_cross_entropy, &mean, wrong_type, 2, BG_ERROR_SHAPE,
                        (const char *const[]){"labels is float32[40]", "int32 or uint8", NULL});
    bgi_test_op_refuses(&bgi_op_cross_entropy, &unknown, fits, 2, BG_ERROR_INVALID,
                        (const char *const[]){"reduction is 3", "BG_LOSS_MEAN", NULL});
    bgi_test_op_refuses(&bgi_op_correct_count, NULL, wrong_rows, 2, BG_ERROR_SHAPE,
                        (const char *const[]){"labels is int32[39]", "int32[40]", NULL});
}

/* Losses are float32 for bfloat16 operands. */
static void test_loss_types(void **state)
{
    const bg_type logits = bg_tensor3(BG_BFLOAT16, 2, 5, 10), labels = bg_matrix(BG_INT32, 2, 5);
    bg_graph *graph = NULL;
    bg_type type;
    bg_value x, y;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "logits", &logits);
    y = bg_graph_input(graph, "labels", &labels);
    type = bg_graph_type(graph, bg_cross_entropy(graph, NULL, x, y, BG_LOSS_MEAN, -100));
    assert_true(type.dtype == BG_FLOAT32 && type.rank == 0);
    type = bg_graph_type(graph, bg_cross_entropy(graph, NULL, x, y, BG_LOSS_NONE, -100));
    assert_true(type.dtype == BG_FLOAT32 && type.rank == 2 && type.dims[1] == 5);
    type = bg_graph_type(graph, bg_mse_loss(graph, NULL, x, x, BG_LOSS_NONE));
    assert_true(type.dtype == BG_FLOAT32 && type.rank == 3);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cross_entropy_oracle), cmocka_unit_test(test_cross_entropy_extreme),
        cmocka_unit_test(test_mean_weight),          cmocka_unit_test(test_wrong_label_is_nan),
        cmocka_unit_test(test_correct_count),        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_loss_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
