/*
 * test_stages.c: blocks to stages and devices: explicit, automatic, and every refusal.
 */
#include "transform/small.h"

#include <stdio.h>

/* One op a letter, in that block ("A@2": the block's device; "-": after a scope has closed; "^": before any). */
static bg_graph *chain(const char *const *blocks)
{
    bg_graph *graph = small_create();
    bg_value x = small_input(graph, "x");

    for (; *blocks != NULL; blocks++) {
        char name[32];
        const char *at = strchr(*blocks, '@');
        snprintf(name, sizeof name, "%.*s", at != NULL ? (int)(at - *blocks) : 31, *blocks);
        if (strcmp(name, "-") == 0) {
            bg_block_begin(graph, "closed", BG_DEVICE_NONE);
            bg_block_end(graph);
        } else if (strcmp(name, "^") != 0) {
            bg_block_start(graph, name, at != NULL ? (uint32_t)atoi(at + 1) : BG_DEVICE_NONE);
        }
        x = bg_scale(graph, NULL, x, 2, 0);
    }
    small_require(graph);
    return graph;
}

static void check(const char *const *blocks, bg_strategy strategy, const char *stages, const char *expected)
{
    bg_graph *graph = chain(blocks);
    const bg_options options = {.strategy = strategy, .stages = stages};
    bgi_stages out = {0};
    bg_error error = {0};
    char text[256] = "";

    small_expect(bgi_assign_stages(graph, &options, &out, &error), BG_OK, &error, NULL);
    for (size_t o = 0; o < graph->op_count; o++) {
        const uint32_t stage = out.block_stages[graph->ops[o].block];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u@%u", o == 0 ? "" : " ", stage,
                 out.stage_devices[stage]);
    }
    assert_string_equal(text, expected);
    bgi_stages_clear(&out);
    bg_graph_destroy(graph);
}

#define BLOCKS(...)                                                                                                    \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

static void test_explicit(void **state)
{
    (void)state;
    check(BLOCKS("A", "B", "C", "D"), BG_STRATEGY_PIPELINED, "A,B|C,D", "0@0 0@0 1@1 1@1");
    check(BLOCKS("A", "B", "C", "D"), BG_STRATEGY_PIPELINED, "A|B|C|D", "0@0 1@1 2@2 3@3");
    check(BLOCKS("A", "B", "C"), BG_STRATEGY_SHARDED, " A @1 | B , C @ 0", "0@1 1@0 1@0");
    check(BLOCKS("A", "B", "C", "D"), BG_STRATEGY_PIPELINED, "A@0|B@1|C@2|D@1", "0@0 1@1 2@2 3@1");
    check(BLOCKS("A@7", "B"), BG_STRATEGY_PIPELINED, "A|B@1", "0@0 1@1");              /* the stage's device counts */
    check(BLOCKS("A", "B", "C"), BG_STRATEGY_PIPELINED, "A@0|B@0|C@1", "0@0 0@0 1@1"); /* neighbours merge */
    check(BLOCKS("^", "A", "B"), BG_STRATEGY_PIPELINED, "A|B", "0@0 0@0 1@1");
    check(BLOCKS("A", "B", "A"), BG_STRATEGY_SINGLE, "A|B", "0@0 0@0 0@0");
}

static void test_automatic(void **state)
{
    (void)state;
    check(BLOCKS("A", "B", "B", "C"), BG_STRATEGY_PIPELINED, NULL, "0@0 1@1 1@1 2@2");
    check(BLOCKS("A@0", "B@0", "C@1"), BG_STRATEGY_PIPELINED, NULL, "0@0 0@0 1@1"); /* neighbours merge */
    check(BLOCKS("A@0", "B@1", "C@0"), BG_STRATEGY_PIPELINED, NULL, "0@0 1@1 2@0");
    check(BLOCKS("A@0", "B@1", "C@2", "D@1"), BG_STRATEGY_PIPELINED, NULL, "0@0 1@1 2@2 3@1");
    check(BLOCKS("^"), BG_STRATEGY_PIPELINED, NULL, "0@0");
    check(BLOCKS("^", "A", "B"), BG_STRATEGY_PIPELINED, NULL, "0@0 0@0 1@1");
}

static void test_refusals(void **state)
{
    static const struct {
        const char *blocks[5], *stages;
        bg_status status;
        const char *part;
    } cases[] = {
        {{"A", "B"}, "A|X", BG_ERROR_NOT_FOUND, "block `X` is not in the model; its blocks are `A`, `B`"},
        {{"A", "B"}, "A|", BG_ERROR_INVALID, "an empty block name in stage 1"},
        {{"A", "B"}, "A,,B", BG_ERROR_INVALID, "an empty block name in stage 0"},
        {{"A", "B"}, "", BG_ERROR_INVALID, "an empty block name in stage 0"},
        {{"A", "B"}, "A|B,A", BG_ERROR_INVALID, "block `A` is in stage 0 and in stage 1"},
        {{"A", "B"}, "A", BG_ERROR_INVALID, "block `B` is in no stage"},
        {{"A", "B"}, "B|A", BG_ERROR_INVALID, "a cycle between stages"},
        {{"A", "B", "A"}, "A|B", BG_ERROR_INVALID, "a cycle between stages"},
        {{"A", "B", "A"}, NULL, BG_ERROR_INVALID, "a cycle between stages"},
        {{"A", "B"}, "A@x|B", BG_ERROR_INVALID, "`x` is no device number (in stage 0, after @)"},
        {{"A", "B"}, "A@1 2|B", BG_ERROR_INVALID, "`1 2` is no device number"},
        {{"A", "B"}, "A@-1|B", BG_ERROR_INVALID, "`-1` is no device number"},
        {{"A", "B"}, "A@|B", BG_ERROR_INVALID, "`` is no device number"},
        {{"A", "B"}, "A@99999|B", BG_ERROR_INVALID, "`99999` is no device number"},
        {{"A", "B"}, "A@0|B@2", BG_ERROR_INVALID, "device 1 has no stage, but device 2 has"},
        {{"A@1", "B@2"}, NULL, BG_ERROR_INVALID, "device 0 has no stage, but device 2 has"},
        {{"A@0", "B"}, NULL, BG_ERROR_INVALID, "block `A` has device 0 but block `B` has none"},
        {{"A", "-"}, NULL, BG_ERROR_INVALID, "no active block at scale"},
        {{"A", "-"}, "A|closed", BG_ERROR_INVALID, "all ops must belong to a block"},
        {{"A", "B", "-"}, "A|B|closed", BG_ERROR_INVALID, "no active block"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = chain(cases[i].blocks);
        const bg_options options = {.strategy = BG_STRATEGY_PIPELINED, .stages = cases[i].stages};
        bgi_stages out = {0};
        bg_error error = {0};
        small_expect(bgi_assign_stages(graph, &options, &out, &error), cases[i].status, &error, cases[i].part);
        assert_null(out.stage_devices);
        bg_graph_destroy(graph);
    }
}

static void test_empty_stage(void **state)
{
    bg_graph *graph = chain(BLOCKS("A", "B"));
    const bg_options options = {.strategy = BG_STRATEGY_PIPELINED, .stages = "A|empty|B"};
    bgi_stages out = {0};
    bg_error error = {0};

    (void)state;
    bg_block_start(graph, "empty", BG_DEVICE_NONE);
    small_expect(bgi_assign_stages(graph, &options, &out, &error), BG_ERROR_INVALID, &error,
                 "stage 1 has no ops: its blocks are empty");
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explicit),
        cmocka_unit_test(test_automatic),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_empty_stage),
    };

    return cmocka_run_group_tests_name("transform/stages", tests, NULL, NULL);
}
