/*
 * test_loss_terms.c: tests how a loss is split into terms by the labels over which they average. It also tests which
 * ops may be between a mean over counted labels and the loss, and which are errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <brigade/ops.h>

#include "kernels/elementwise/attributes.h"
#include "ops/ops.h"
#include "transform/transform.h"

enum { ROWS = 3, CLASSES = 4 };

typedef struct rig {
    bg_graph *graph;
    bg_value weights, logits, labels, others; /* logits depend on the parameter `weights` */
} rig;

static rig open_rig(void)
{
    const bg_type logits = bg_matrix(BG_FLOAT32, ROWS, CLASSES), labels = bg_vector(BG_INT32, ROWS);
    const bg_initializer half = {.kind = BG_INITIALIZE_CONSTANT, .a = 0.5};
    rig r;

    assert_int_equal(bg_graph_create(&r.graph, NULL), BG_OK);
    r.weights = bg_graph_parameter(r.graph, "weights", &logits, &half);
    r.logits = bg_multiply(r.graph, bg_graph_input(r.graph, "x", &logits), r.weights);
    r.labels = bg_graph_input(r.graph, "labels", &labels);
    r.others = bg_graph_input(r.graph, "others", &labels);
    return r;
}

static bg_value add_loss(const rig *r, bg_value labels, bg_loss_reduction reduction, int64_t ignored)
{
    return bg_cross_entropy(r->graph, NULL, r->logits, labels, reduction, ignored);
}

static bg_value add_mean(const rig *r, bg_value of)
{
    return bg_reduce(r->graph, NULL, BG_REDUCE_MEAN, bg_multiply(r->graph, of, of), NULL, 0, false);
}

/* Checks that the loss has one term for each letter of `kinds`: c has a weight, p (plain) does not. */
static uint32_t expect(const rig *r, bg_value loss, const char *kinds, bgi_loss_term *terms)
{
    bg_error error = {0};
    uint32_t count = 0;

    assert_int_equal(bg_graph_check(r->graph, NULL), BG_OK);
    if (bgi_split_loss(r->graph, loss, false, terms, &count, &error) != BG_OK)
        fail_msg("%s: %s", kinds, error.message);
    assert_int_equal(count, strlen(kinds));
    for (uint32_t t = 0; t < count; t++) {
        assert_int_equal(bg_value_is_null(terms[t].weight), kinds[t] == 'p');
        assert_int_equal(bg_graph_type(r->graph, terms[t].loss).rank, 0);
    }
    if (count == 1)
        assert_int_equal(terms[0].loss.id, loss.id);
    return count;
}

static void test_one_term(void **state)
{
    const rig r = open_rig();
    const bg_value mean = add_loss(&r, r.labels, BG_LOSS_MEAN, -100);
    const float two = 2.0f;
    const bg_type scalar = bg_scalar(BG_FLOAT32);
    const bg_value constant = bg_graph_constant(r.graph, "two", &scalar, &two);
    bgi_loss_term terms[BGI_MOST_LOSS_TERMS];
    size_t ops;

    (void)state;
    expect(&r, mean, "c", terms);
    expect(&r, bg_scale(r.graph, NULL, mean, 0.5, 1.0), "c", terms);
    expect(&r, add_loss(&r, r.labels, BG_LOSS_SUM, -100), "p", terms);
    expect(&r, add_mean(&r, r.logits), "p", terms);
    expect(&r, bg_elementwise_unary(r.graph, NULL, BG_EXP, add_mean(&r, r.logits)), "p", terms);
    /* Two means over the same labels that ignore the same label count the same elements. */
    expect(&r, bg_add(r.graph, mean, mean), "c", terms);
    expect(&r, bg_subtract(r.graph, mean, add_loss(&r, r.labels, BG_LOSS_MEAN, -100)), "c", terms);
    /* A summand that does not depend on parameters is not a term. */
    expect(&r, bg_add(r.graph, mean, constant), "c", terms);
    expect(&r, bg_add(r.graph, mean, bg_multiply(r.graph, constant, constant)), "c", terms);
    ops = r.graph->op_count;
    expect(&r, bg_reduce(r.graph, NULL, BG_REDUCE_MEAN, r.weights, NULL, 0, false), "p", terms);
    assert_int_equal(r.graph->op_count, ops + 1); /* the test added this op; a single term adds no op */
    bg_graph_destroy(r.graph);
}

static const bgi_op *op_of(const rig *r, bg_value value)
{
    return &r->graph->ops[bgi_graph_value(r->graph, value)->op];
}

static double alpha_of(const rig *r, bg_value value)
{
    assert_true(op_of(r, value)->type == &bgi_op_scale);
    return ((const bgi_scale_attributes *)op_of(r, value)->attributes)->alpha;
}

/* Summands of the loss itself are terms without changes; a common factor is applied to each. */
static void test_several_terms(void **state)
{
    const rig r = open_rig();
    const bg_value first = add_loss(&r, r.labels, BG_LOSS_MEAN, -100), other = add_loss(&r, r.labels, BG_LOSS_MEAN, 0);
    const bg_value another = add_loss(&r, r.others, BG_LOSS_MEAN, -100), plain = add_mean(&r, r.logits);
    const bg_value factor =
        bg_elementwise_unary(r.graph, NULL, BG_EXP, bg_reduce(r.graph, NULL, BG_REDUCE_SUM, r.weights, NULL, 0, false));
    const bg_value both = bg_add(r.graph, first, plain);
    const bg_type weights_type = bg_vector(BG_FLOAT32, CLASSES);
    const bg_value weights = bg_graph_input(r.graph, "class_weights", &weights_type), none = {0};
    const bg_value weighted =
        bg_weighted_cross_entropy(r.graph, NULL, r.logits, r.labels, weights, 0.0, BG_LOSS_MEAN, -100);
    const bg_value likelihood = bg_nll_loss(r.graph, NULL, r.logits, r.labels, weights, BG_LOSS_MEAN, -100);
    const bg_value smooth = bg_weighted_cross_entropy(r.graph, NULL, r.logits, r.labels, none, 0.5, BG_LOSS_MEAN, -100);
    bgi_loss_term terms[BGI_MOST_LOSS_TERMS];

    (void)state;
    expect(&r, both, "cp", terms);
    assert_int_equal(terms[0].loss.id, first.id);
    assert_int_equal(terms[1].loss.id, plain.id);
    expect(&r, bg_scale(r.graph, NULL, both, 0.5, 3.0), "cp", terms);
    assert_true(alpha_of(&r, terms[0].loss) == 0.5 && alpha_of(&r, terms[1].loss) == 0.5);
    assert_int_equal(op_of(&r, terms[0].loss)->inputs[0].id, first.id);
    assert_int_equal(op_of(&r, terms[1].loss)->inputs[0].id, plain.id);
    expect(&r, bg_subtract(r.graph, first, plain), "cp", terms);
    assert_true(alpha_of(&r, terms[1].loss) == -1.0);
    /* A trained factor remains a factor of each term. */
    expect(&r, bg_multiply(r.graph, factor, both), "cp", terms);
    for (int t = 0; t < 2; t++) {
        assert_true(op_of(&r, terms[t].loss)->type == &bgi_op_binary);
        assert_int_equal(op_of(&r, terms[t].loss)->inputs[0].id, factor.id);
        assert_int_equal(op_of(&r, terms[t].loss)->inputs[1].id, t == 0 ? first.id : plain.id);
    }
    expect(&r, bg_divide(r.graph, both, factor), "cp", terms);
    expect(&r, bg_add(r.graph, first, other), "cc", terms);
    expect(&r, bg_add(r.graph, first, another), "cc", terms);
    /* Class weights change the counted values; smoothing and likelihoods do not. */
    expect(&r, bg_add(r.graph, first, weighted), "cc", terms);
    expect(&r, bg_add(r.graph, weighted, likelihood), "c", terms);
    expect(&r, bg_add(r.graph, first, smooth), "c", terms);
    expect(&r, bg_add(r.graph, both, bg_add(r.graph, other, bg_add(r.graph, another, first))), "cccp", terms);
    expect(&r, bg_elementwise_unary(r.graph, NULL, BG_NEGATE, bg_add(r.graph, other, both)), "ccp", terms);
    bg_graph_destroy(r.graph);
}

static void expect_refused(const rig *r, bg_value loss, const char *op)
{
    bgi_loss_term terms[BGI_MOST_LOSS_TERMS];
    bg_error error = {0};
    uint32_t count = 0;

    assert_int_equal(bg_graph_check(r->graph, NULL), BG_OK);
    assert_int_equal(bgi_split_loss(r->graph, loss, false, terms, &count, &error), BG_ERROR_UNSUPPORTED);
    if (strstr(error.message, op) == NULL || strstr(error.message, "one micro-batch") == NULL)
        fail_msg("message `%s`, without `%s`", error.message, op);
    /* With all samples in one micro-batch there is nothing to average. */
    assert_int_equal(bgi_split_loss(r->graph, loss, true, terms, &count, &error), BG_OK);
    assert_int_equal(count, 1);
    assert_true(terms[0].loss.id == loss.id && bg_value_is_null(terms[0].weight));
}

static void test_what_has_no_average(void **state)
{
    const rig r = open_rig();
    const bg_value mean = add_loss(&r, r.labels, BG_LOSS_MEAN, -100), plain = add_mean(&r, r.logits);
    const int64_t one = 1;
    const bg_value pair[] = {bg_reshape(r.graph, NULL, mean, 1, &one), bg_reshape(r.graph, NULL, plain, 1, &one)};

    (void)state;
    expect_refused(&r, bg_elementwise_unary(r.graph, NULL, BG_SQUARE, mean), "unary");
    expect_refused(&r, bg_add(r.graph, plain, bg_elementwise_unary(r.graph, NULL, BG_EXP, mean)), "unary");
    expect_refused(&r, bg_multiply(r.graph, mean, plain), "binary");
    expect_refused(&r, bg_multiply(r.graph, mean, mean), "binary");
    expect_refused(&r, bg_divide(r.graph, plain, mean), "binary");
    expect_refused(&r, bg_elementwise_binary(r.graph, NULL, BG_MAXIMUM, mean, plain), "binary");
    expect_refused(&r, bg_reduce(r.graph, NULL, BG_REDUCE_SUM, bg_concat(r.graph, "pair", pair, 2, 0), NULL, 0, false),
                   "reduce");
    /* The logits depend on another mean. */
    expect_refused(&r,
                   bg_cross_entropy(r.graph, "outer", bg_multiply(r.graph, r.logits, mean), r.others, BG_LOSS_MEAN, 0),
                   "cross_entropy `outer`");
    bg_graph_destroy(r.graph);
}

/* A whole batch in one micro-batch has one term. With only one mean, the term has that mean's weight, so that it has
 * the same bits as in several micro-batches. */
static void test_a_whole_batch_is_not_split(void **state)
{
    const rig r = open_rig();
    const bg_value mean = add_loss(&r, r.labels, BG_LOSS_MEAN, -100);
    const bg_value both = bg_add(r.graph, mean, add_mean(&r, r.logits));
    const size_t ops = r.graph->op_count;
    bgi_loss_term terms[BGI_MOST_LOSS_TERMS];
    uint32_t count = 0;

    (void)state;
    assert_int_equal(bgi_split_loss(r.graph, mean, true, terms, &count, NULL), BG_OK);
    assert_true(count == 1 && terms[0].loss.id == mean.id && !bg_value_is_null(terms[0].weight));
    assert_int_equal(bgi_split_loss(r.graph, both, true, terms, &count, NULL), BG_OK);
    assert_true(count == 1 && terms[0].loss.id == both.id && bg_value_is_null(terms[0].weight));
    assert_int_equal(r.graph->op_count, ops);
    bg_graph_destroy(r.graph);
}

static void test_more_terms_than_there_may_be(void **state)
{
    const rig r = open_rig();
    bgi_loss_term terms[BGI_MOST_LOSS_TERMS];
    bg_value loss = add_mean(&r, r.logits);
    bg_error error = {0};
    uint32_t count;

    (void)state;
    for (int64_t ignored = 0; ignored < BGI_MOST_LOSS_TERMS - 1; ignored++)
        loss = bg_add(r.graph, loss, add_loss(&r, r.labels, BG_LOSS_MEAN, ignored));
    assert_int_equal(bgi_split_loss(r.graph, loss, false, terms, &count, &error), BG_OK);
    assert_int_equal(count, BGI_MOST_LOSS_TERMS);
    loss = bg_add(r.graph, loss, add_loss(&r, r.labels, BG_LOSS_MEAN, -100));
    assert_int_equal(bgi_split_loss(r.graph, loss, false, terms, &count, &error), BG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "more than 15 different sets of labels"));
    bg_graph_destroy(r.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_term),
        cmocka_unit_test(test_several_terms),
        cmocka_unit_test(test_what_has_no_average),
        cmocka_unit_test(test_a_whole_batch_is_not_split),
        cmocka_unit_test(test_more_terms_than_there_may_be),
    };

    return cmocka_run_group_tests_name("transform/loss_terms", tests, NULL, NULL);
}
