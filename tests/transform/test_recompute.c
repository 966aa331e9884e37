/*
 * test_recompute.c: tests which ops are recomputed, where they run, and the bytes that a choice needs.
 */
#include "transform/small.h"

#include <stdio.h>

#include "graph/graph.h"
#include "kernels/dropout/attributes.h"

typedef struct pass {
    bg_graph *graph;
    bgi_stages stages;
    double *op_ns;
    bgi_recompute r;
    bool *is_kept, *is_repeated;
    bool in_stages[8];
    bgi_recomputed out;
} pass;

/* Makes a training graph and its analysis; every op costs 1. */
static void begin(pass *p, bg_graph *graph, bg_value loss, bool is_single)
{
    const bg_options options = {.execution.strategy = is_single ? BG_STRATEGY_SINGLE : BG_STRATEGY_PIPELINED,
                                .execution.gradient_accumulation = 2,
                                .replicas.count = 1,
                                .numerics.loss_scaling = 1.0};
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_error error = {0};

    *p = (pass){.graph = graph};
    small_require(graph);
    small_expect(bgi_assign_stages(graph, &options, true, &p->stages, &error), BG_OK, &error, NULL);
    small_expect(bgi_make_training(graph, loss, &optimizer, &options, &error), BG_OK, &error, NULL);
    small_expect(bgi_copy_shared_variables(graph, &p->stages, NULL, true, &error), BG_OK, &error, NULL);
    p->op_ns = malloc(graph->op_count * sizeof *p->op_ns);
    p->is_kept = calloc(graph->op_count, sizeof *p->is_kept);
    p->is_repeated = calloc(graph->op_count, sizeof *p->is_repeated);
    assert_true(p->op_ns != NULL && p->is_kept != NULL && p->is_repeated != NULL);
    for (size_t o = 0; o < graph->op_count; o++)
        p->op_ns[o] = 1.0;
    small_expect(bgi_recompute_begin(graph, &p->stages, p->op_ns, &p->r, &error), BG_OK, &error, NULL);
}

static void apply(pass *p, bg_recompute recompute, double fraction, bg_recompute_order order)
{
    const bg_options options = {
        .memory.recompute = recompute, .memory.recompute_fraction = fraction, .memory.recompute_order = order};
    bg_error error = {0};

    p->out.stages = p->in_stages;
    small_expect(bgi_recompute_choose(&p->r, &options, p->is_kept, &error), BG_OK, &error, NULL);
    small_expect(bgi_recompute_apply(&p->r, p->graph, p->is_kept, order, &p->out, &error), BG_OK, &error, NULL);
}

static void end(pass *p)
{
    bgi_recompute_clear(&p->r);
    bgi_stages_clear(&p->stages);
    free(p->op_ns);
    free(p->is_kept);
    free(p->is_repeated);
    bg_graph_destroy(p->graph);
}

/* Checks that these names occur in this order among the ops that are neither forward nor update. */
static void expect_order(const pass *p, const char *const *expected)
{
    size_t at = 0;

    for (size_t o = 0; o < p->graph->op_count; o++) {
        const bgi_op *op = &p->graph->ops[o];
        if (op->phase == BGI_PHASE_FORWARD || op->phase == BGI_PHASE_UPDATE)
            continue;
        if (expected[at] != NULL && strcmp(op->name, expected[at]) == 0)
            at++;
    }
    if (expected[at] != NULL)
        fail_msg("`%s` is not there, or stands before `%s`", expected[at], at > 0 ? expected[at - 1] : "the first");
}

static size_t find(const bg_graph *graph, const char *name, bgi_op_phase phase)
{
    for (size_t o = 0; o < graph->op_count; o++)
        if (graph->ops[o].phase == phase && strcmp(graph->ops[o].name, name) == 0)
            return o;
    return SIZE_MAX;
}

static uint32_t count_again(const bg_graph *graph, const char *name)
{
    uint32_t count = 0;

    for (size_t o = 0; o < graph->op_count; o++)
        count += graph->ops[o].phase != BGI_PHASE_FORWARD && strcmp(graph->ops[o].name, name) == 0;
    return count;
}

/* Adds a chain of squares. The backward of each square reads the square's operand, so without recomputation all values
 * except the last are kept. */
static bg_value add_chain(bg_graph *graph, bg_value x, const char *prefix, uint32_t length, uint32_t checkpoint)
{
    for (uint32_t i = 0; i < length; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s%u", prefix, i);
        x = bg_elementwise_binary(graph, name, BG_MULTIPLY, x, x);
        if (i == checkpoint)
            bg_graph_checkpoint(graph, x);
    }
    return x;
}

static bg_value build(bg_graph *graph, uint32_t checkpoint)
{
    bg_value x = small_input(graph, "x"), loss;

    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "in", x, small_weight(graph, "wa"));
    x = add_chain(graph, x, "a", 4, checkpoint);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = small_linear(graph, "out", x, small_weight(graph, "wb"));
    x = add_chain(graph, x, "b", 2, UINT32_MAX);
    loss = bg_reduce(graph, "loss", BG_REDUCE_SUM, x, NULL, 0, false);
    return loss;
}

enum { LINE = 64 }; /* the bytes that a value [2,3] takes */

static void test_a_stage_keeps_what_enters_it(void **state)
{
    bg_graph *graph = small_create();
    pass p;
    bgi_recompute_effect all;

    (void)state;
    begin(&p, graph, build(graph, UINT32_MAX), false);
    for (size_t o = 0; o < graph->op_count; o++)
        p.is_kept[o] = true;
    all = bgi_recompute_measure(&p.r, 0, p.is_kept, p.is_repeated);
    assert_int_equal(all.own_bytes, 4 * LINE);   /* in, a0, a1, a2; block B reads a3 and gets it as a message */
    assert_int_equal(all.stash_bytes, 5 * LINE); /* and x */
    assert_true(all.ns == 0.0);
    apply(&p, BG_RECOMPUTE_STAGE, 0, BG_RECOMPUTE_INTERLEAVED);
    /* Stage 1 has the loss, so the values that it would stash are still live when its backward pass begins. */
    assert_int_equal(p.out.op_count, 4);
    assert_true(p.out.ns == 4.0);
    assert_int_equal(count_again(graph, "in") + count_again(graph, "a0") + count_again(graph, "a1"), 3);
    assert_int_equal(count_again(graph, "a2"), 1);
    assert_int_equal(count_again(graph, "a3") + count_again(graph, "out") + count_again(graph, "b0"), 0);
    assert_true(!p.in_stages[0] && !p.in_stages[1]);
    expect_order(&p, (const char *const[]){"in", "a0", "a1", "a2", NULL});
    end(&p);
}

/* Between checkpoints, the last part is recomputed first, and each part right before its backward. */
static void test_parts_between_checkpoints(void **state)
{
    bg_graph *graph = small_create();
    pass p;
    bgi_recompute_effect effect;
    size_t part, early, reader;
    const bg_options options = {.memory.recompute = BG_RECOMPUTE_CHECKPOINTS};

    (void)state;
    begin(&p, graph, build(graph, 1), false);
    assert_int_equal(bgi_recompute_choose(&p.r, &options, p.is_kept, NULL), BG_OK);
    effect = bgi_recompute_measure(&p.r, 0, p.is_kept, p.is_repeated);
    assert_int_equal(effect.own_bytes, LINE);       /* a1 */
    assert_int_equal(effect.stash_bytes, 2 * LINE); /* and x */
    assert_true(effect.ns == 3.0);
    apply(&p, BG_RECOMPUTE_CHECKPOINTS, 0, BG_RECOMPUTE_INTERLEAVED);
    assert_int_equal(count_again(graph, "a1"), 0);
    part = find(graph, "a2", BGI_PHASE_BACKWARD);
    early = find(graph, "in", BGI_PHASE_BACKWARD);
    assert_true(part != SIZE_MAX && early != SIZE_MAX && early > part + 1);
    /* With INTERLEAVED, a value is recomputed right before the op that reads it. */
    reader = part + 1;
    assert_true(graph->ops[reader].inputs[0].id == graph->ops[part].outputs[0].id ||
                graph->ops[reader].inputs[1].id == graph->ops[part].outputs[0].id);
    end(&p);
}

/* With THEN, a separate segment before the backward recomputes all values in the order of the forward. */
static void test_then(void **state)
{
    bg_graph *graph = small_create();
    pass p;
    bgi_partition partition;
    bg_error error = {0};
    uint32_t segment, into = 0, out_of = 0;

    (void)state;
    begin(&p, graph, build(graph, UINT32_MAX), false);
    apply(&p, BG_RECOMPUTE_STAGE, 0, BG_RECOMPUTE_THEN);
    assert_true(p.in_stages[0] && !p.in_stages[1]);
    small_expect(bgi_cut_segments(graph, &p.stages, true, false, &partition, &error), BG_OK, &error, NULL);
    segment = bgi_partition_find(&partition, BGI_SEGMENT_RECOMPUTE, 0, 0);
    assert_true(segment != UINT32_MAX);
    assert_int_equal(partition.segments[segment].op_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        static const char *const names[] = {"in", "a0", "a1", "a2"};
        assert_string_equal(graph->ops[partition.segments[segment].ops[i]].name, names[i]);
    }
    for (uint32_t i = 0; i < partition.crossing_count; i++) {
        const bgi_crossing *crossing = &partition.crossings[i];
        into += crossing->to_kind == BGI_SEGMENT_RECOMPUTE;
        if (crossing->from_segment == segment) {
            out_of++;
            assert_int_equal(crossing->to_kind, BGI_SEGMENT_BACKWARD);
            assert_int_equal(crossing->to_stage, 0);
        }
    }
    assert_int_equal(into, 1);   /* x */
    assert_int_equal(out_of, 4); /* all four are read */
    bgi_partition_clear(&partition);
    end(&p);
}

/* Values that both B and W read are made in B and sent to W; values that only W reads are made in W. */
static void test_split_weights(void **state)
{
    bg_graph *graph = small_create();
    bg_value x = small_input(graph, "x"), mid, y;
    bgi_partition partition;
    bg_error error = {0};
    size_t o;
    pass p;

    (void)state;
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "in", x, small_weight(graph, "wa"));
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    mid = bg_scale(graph, "mid", x, 2, 0); /* its backward reads no values; lin's weight gradient needs mid */
    y = small_linear(graph, "lin", mid, small_weight(graph, "wb"));
    y = bg_elementwise_binary(graph, "square", BG_MULTIPLY, y, y); /* its backward, in B, reads lin */
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    begin(&p, graph, bg_reduce(graph, "loss", BG_REDUCE_SUM, y, NULL, 0, false), false);
    apply(&p, BG_RECOMPUTE_STAGE, 0, BG_RECOMPUTE_INTERLEAVED);
    small_expect(bgi_cut_segments(graph, &p.stages, true, true, &partition, &error), BG_OK, &error, NULL);
    o = find(graph, "lin", BGI_PHASE_BACKWARD);
    assert_true(o != SIZE_MAX);
    assert_int_equal(partition.segments[partition.op_segments[o]].kind, BGI_SEGMENT_BACKWARD);
    o = find(graph, "mid", BGI_PHASE_BACKWARD);
    assert_true(o != SIZE_MAX); /* lin's clone in B needs mid, and so does W */
    assert_int_equal(partition.segments[partition.op_segments[o]].kind, BGI_SEGMENT_BACKWARD);
    for (uint32_t i = partition.first_crossings[graph->ops[o].outputs[0].id]; i != 0;
         i = partition.crossings[i - 1].next)
        assert_int_equal(partition.crossings[i - 1].to_kind, BGI_SEGMENT_WEIGHTS);
    assert_true(partition.first_crossings[graph->ops[o].outputs[0].id] != 0);
    bgi_partition_clear(&partition);
    end(&p);
}

/* Dropout draws by the number in its attributes, which the recomputed op shares. Batch norm is never recomputed. */
static void test_dropout_and_batch_norm(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 3);
    const bg_initializer one = {BG_INITIALIZE_CONSTANT, 1, 0};
    bg_graph *graph = small_create();
    bg_value x = small_input(graph, "x"), gamma, beta, mean, variance;
    const bgi_dropout_attributes *first, *again;
    size_t o;
    pass p;

    (void)state;
    gamma = bg_graph_parameter(graph, "gamma", &type, &one);
    beta = bg_graph_parameter(graph, "beta", &type, NULL);
    mean = bg_graph_variable(graph, "mean", &type, BG_ROLE_BUFFER, NULL);
    variance = bg_graph_variable(graph, "variance", &type, BG_ROLE_BUFFER, &one);
    bg_graph_next_random_id(graph); /* so that the number is not 0 */
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "in", x, small_weight(graph, "wa"));
    x = bg_dropout(graph, "drop", x, 0.5);
    x = bg_elementwise_binary(graph, "square", BG_MULTIPLY, x, x);
    x = bg_batch_norm(graph, "norm", x, gamma, beta, mean, variance, 0.1, 1e-5);
    x = bg_elementwise_binary(graph, "after", BG_MULTIPLY, x, mean); /* the statistics change with each micro-batch */
    x = bg_elementwise_binary(graph, "last", BG_MULTIPLY, x, x);
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = small_linear(graph, "out", x, small_weight(graph, "wb"));
    begin(&p, graph, bg_reduce(graph, "loss", BG_REDUCE_SUM, x, NULL, 0, false), false);
    o = find(graph, "norm", BGI_PHASE_FORWARD);
    assert_false(p.r.may_repeat[o]);
    assert_false(p.r.may_repeat[find(graph, "after", BGI_PHASE_FORWARD)]);
    assert_true(p.r.may_repeat[find(graph, "drop", BGI_PHASE_FORWARD)]);
    apply(&p, BG_RECOMPUTE_STAGE, 0, BG_RECOMPUTE_INTERLEAVED);
    assert_int_equal(count_again(graph, "norm") + count_again(graph, "after"), 0);
    assert_int_equal(count_again(graph, "drop"), 1);
    assert_int_equal(count_again(graph, "square"), 1);
    first = graph->ops[find(graph, "drop", BGI_PHASE_FORWARD)].attributes;
    again = graph->ops[find(graph, "drop", BGI_PHASE_BACKWARD)].attributes;
    assert_memory_equal(first, again, sizeof *first);
    end(&p);
}

/* Each further tenth saves more memory, and at most the requested amount is recomputed. */
static void test_fractions(void **state)
{
    size_t previous = SIZE_MAX;

    (void)state;
    for (int tenth = 0; tenth <= 10; tenth++) {
        bg_graph *graph = small_create();
        pass p;
        const bg_options options = {.memory.recompute = BG_RECOMPUTE_FRACTION,
                                    .memory.recompute_fraction = tenth / 10.0};
        size_t all, left;

        begin(&p, graph, build(graph, UINT32_MAX), true);
        for (size_t o = 0; o < graph->op_count; o++)
            p.is_kept[o] = true;
        all = bgi_recompute_measure(&p.r, 0, p.is_kept, p.is_repeated).stash_bytes;
        assert_int_equal(bgi_recompute_choose(&p.r, &options, p.is_kept, NULL), BG_OK);
        left = bgi_recompute_measure(&p.r, 0, p.is_kept, p.is_repeated).stash_bytes;
        assert_true(left <= previous);
        if (tenth < 9) {
            assert_true((double)left <= (1.0 - tenth / 10.0) * (double)all + 1e-6);
            /* With one more stashed value, the stash would be too large. */
            assert_true((double)left + LINE > (1.0 - tenth / 10.0) * (double)all);
        }
        if (tenth == 10)
            assert_int_equal(left, LINE); /* x */
        previous = left;
        end(&p);
    }
}

/* The values that take the least time per byte are recomputed first, in any order of the graph. */
static void test_cheapest_first(void **state)
{
    static const char *const chain[] = {"a0", "a1", "a2"};

    (void)state;
    for (int cheap = 0; cheap < 3; cheap++) {
        const bg_options options = {.memory.recompute = BG_RECOMPUTE_FRACTION, .memory.recompute_fraction = 0.05};
        bg_graph *graph = small_create();
        pass p;

        begin(&p, graph, build(graph, UINT32_MAX), true);
        for (size_t o = 0; o < graph->op_count; o++)
            p.op_ns[o] = 2.0;
        p.op_ns[find(graph, chain[cheap], BGI_PHASE_FORWARD)] = 1.0;
        assert_int_equal(bgi_recompute_choose(&p.r, &options, p.is_kept, NULL), BG_OK);
        bgi_recompute_measure(&p.r, 0, p.is_kept, p.is_repeated);
        for (size_t o = 0; o < graph->op_count; o++)
            if (graph->ops[o].phase == BGI_PHASE_FORWARD)
                assert_int_equal(p.is_repeated[o], strcmp(graph->ops[o].name, chain[cheap]) == 0);
        end(&p);
    }
}

/* Builds in -> scale -> sigmoid -> scale -> sigmoid -> scale -> sigmoid -> square: half of these values are needed only
 * to recompute the next one. */
static bg_value build_pairs(bg_graph *graph)
{
    bg_value x = small_linear(graph, "in", small_input(graph, "x"), small_weight(graph, "w"));

    for (int i = 0; i < 3; i++)
        x = bg_sigmoid(graph, bg_scale(graph, NULL, x, 2, 0));
    x = bg_elementwise_binary(graph, "square", BG_MULTIPLY, x, x);
    return bg_reduce(graph, "loss", BG_REDUCE_SUM, x, NULL, 0, false);
}

/* Updating the choice op by op, in any order, gives the same bytes as measuring the whole stage. */
static void test_giving_up_is_measured(void **state)
{
    (void)state;
    for (uint32_t order = 1; order < 60; order++) {
        bg_graph *graph = small_create();
        bgi_recompute_effect effect, whole;
        bgi_recompute again;
        bool *is_repeated;
        uint32_t *stack;
        pass p;

        begin(&p, graph, build_pairs(graph), true);
        assert_int_equal(bgi_recompute_begin(graph, &p.stages, p.op_ns, &again, NULL), BG_OK);
        stack = calloc(graph->op_count, sizeof *stack);
        is_repeated = calloc(graph->op_count, sizeof *is_repeated);
        assert_true(stack != NULL && is_repeated != NULL);
        for (size_t o = 0; o < graph->op_count; o++) {
            p.is_kept[o] = true;
            p.op_ns[o] = (double)(1u << o % 20);
        }
        effect = bgi_recompute_measure(&p.r, 0, p.is_kept, p.is_repeated);
        for (uint32_t i = 0; i < 61; i++) {
            const uint32_t o = i * order % 61; /* each op once; `order` determines the sequence */
            if (o >= graph->op_count || graph->ops[o].phase != BGI_PHASE_FORWARD)
                continue;
            bgi_recompute_give_up(&p.r, 0, o, p.is_kept, p.is_repeated, stack, &effect);
            whole = bgi_recompute_measure(&again, 0, p.is_kept, is_repeated);
            assert_int_equal(effect.own_bytes, whole.own_bytes);
            assert_int_equal(effect.stash_bytes, whole.stash_bytes);
            assert_true(effect.ns == whole.ns);
            for (size_t k = 0; k < graph->op_count; k++)
                if (graph->ops[k].phase == BGI_PHASE_FORWARD)
                    assert_int_equal(p.is_repeated[k], is_repeated[k]);
        }
        bgi_recompute_clear(&again);
        free(stack);
        free(is_repeated);
        end(&p);
    }
}

/* If recomputing a value requires that another value of the same size is stashed instead, no memory is saved, so
 * nothing is recomputed. */
static void test_nothing_is_gained(void **state)
{
    const bg_type type = bg_vector(BG_FLOAT32, 3);
    const bg_initializer one = {BG_INITIALIZE_CONSTANT, 1, 0};
    bg_graph *graph = small_create();
    bg_value x = small_input(graph, "x"), counter;
    pass p;

    (void)state;
    counter = bg_graph_variable(graph, "variance", &type, BG_ROLE_BUFFER, &one);
    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = bg_batch_norm(graph, "norm", x, bg_graph_parameter(graph, "gamma", &type, &one),
                      bg_graph_parameter(graph, "beta", &type, NULL),
                      bg_graph_variable(graph, "mean", &type, BG_ROLE_BUFFER, NULL), counter, 0.1, 1e-5);
    x = bg_relu(graph, x); /* relu's backward could use relu's result instead of the input, which has the same size */
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    x = small_linear(graph, "out", x, small_weight(graph, "wb"));
    begin(&p, graph, bg_reduce(graph, "loss", BG_REDUCE_SUM, x, NULL, 0, false), false);
    apply(&p, BG_RECOMPUTE_STAGE, 0, BG_RECOMPUTE_INTERLEAVED);
    assert_int_equal(p.out.op_count, 0);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stage_keeps_what_enters_it),
        cmocka_unit_test(test_parts_between_checkpoints),
        cmocka_unit_test(test_then),
        cmocka_unit_test(test_split_weights),
        cmocka_unit_test(test_dropout_and_batch_norm),
        cmocka_unit_test(test_fractions),
        cmocka_unit_test(test_cheapest_first),
        cmocka_unit_test(test_giving_up_is_measured),
        cmocka_unit_test(test_nothing_is_gained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
