/*
 * test_loss_weight.c: over how many elements a loss is a mean: found through what keeps a mean a mean, and said where
 * two means have no one weight.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/ops.h>

#include "transform/transform.h"

enum { ROWS = 3, CLASSES = 4 };

typedef struct rig {
    bg_graph *graph;
    bg_value logits, labels, others;
} rig;

static rig open_rig(void)
{
    const bg_type logits = bg_matrix(BG_FLOAT32, ROWS, CLASSES), labels = bg_vector(BG_INT32, ROWS);
    rig r;

    assert_int_equal(bg_graph_create(&r.graph, NULL), BG_OK);
    r.logits = bg_graph_input(r.graph, "logits", &logits);
    r.labels = bg_graph_input(r.graph, "labels", &labels);
    r.others = bg_graph_input(r.graph, "others", &labels);
    return r;
}

static bg_value add_loss(const rig *r, bg_value labels, bg_loss_reduction reduction, int64_t ignored)
{
    return bg_cross_entropy(r->graph, NULL, r->logits, labels, reduction, ignored);
}

/* Whether the loss has a weight, and whether it mixes several. */
static void expect(const rig *r, bg_value loss, bool has_weight, bool is_mixed)
{
    bool found_mixed = false;
    bg_value weight;

    assert_int_equal(bg_graph_check(r->graph, NULL), BG_OK);
    weight = bgi_find_loss_weight(r->graph, loss, &found_mixed);
    assert_int_equal(!bg_value_is_null(weight), has_weight);
    assert_int_equal(found_mixed, is_mixed);
}

static void test_one_mean(void **state)
{
    const rig r = open_rig();
    const bg_value mean = add_loss(&r, r.labels, BG_LOSS_MEAN, -100);
    const bg_value sum = add_loss(&r, r.labels, BG_LOSS_SUM, -100);
    const bg_value penalty = bg_reduce(r.graph, NULL, BG_REDUCE_MEAN, r.logits, NULL, 0, false);

    (void)state;
    expect(&r, mean, true, false);
    expect(&r, bg_scale(r.graph, NULL, mean, 0.5, 0.0), true, false);
    expect(&r, bg_add(r.graph, bg_elementwise_unary(r.graph, NULL, BG_NEGATE, mean), penalty), true, false);
    expect(&r, sum, false, false);
    expect(&r, penalty, false, false);
    expect(&r, bg_elementwise_unary(r.graph, NULL, BG_SQUARE, mean), true, true);
    expect(&r, bg_multiply(r.graph, mean, penalty), true, true);
    bg_graph_destroy(r.graph);
}

/* Of the same labels, ignoring the same, two means count the same elements. */
static void test_two_means(void **state)
{
    const rig r = open_rig();
    const bg_value mean = add_loss(&r, r.labels, BG_LOSS_MEAN, -100);

    (void)state;
    expect(&r, bg_add(r.graph, mean, mean), true, false);
    expect(&r, bg_add(r.graph, mean, add_loss(&r, r.labels, BG_LOSS_MEAN, -100)), true, false);
    expect(&r, bg_add(r.graph, mean, add_loss(&r, r.labels, BG_LOSS_MEAN, 0)), true, true);
    expect(&r, bg_add(r.graph, mean, add_loss(&r, r.others, BG_LOSS_MEAN, -100)), true, true);
    bg_graph_destroy(r.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_mean),
        cmocka_unit_test(test_two_means),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
