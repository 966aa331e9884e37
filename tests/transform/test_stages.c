/*
 * test_stages.c: tests the explicit and automatic mapping of blocks to stages and devices, and every error.
 */
#include "transform/small.h"

#include <stdio.h>

/* Adds one op for each letter, in the block of that name ("A@2": with the block's device; "-": after a scope has
 * closed; "^": before any block). */
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

/* Checks "stage@device" of each op, with "-" for a device that is not given. */
static void check_options(const char *const *blocks, const bg_options *options, bool merges, const char *expected)
{
    bg_graph *graph = chain(blocks);
    bgi_stages out = {0};
    bg_error error = {0};
    char text[256] = "", device[16];

    small_expect(bgi_assign_stages(graph, options, merges, &out, &error), BG_OK, &error, NULL);
    for (size_t o = 0; o < graph->op_count; o++) {
        const uint32_t stage = out.block_stages[graph->ops[o].block];
        snprintf(device, sizeof device, out.stage_devices[stage] == BG_DEVICE_NONE ? "-" : "%u",
                 out.stage_devices[stage]);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u@%s", o == 0 ? "" : " ", stage, device);
    }
    assert_string_equal(text, expected);
    bgi_stages_clear(&out);
    bg_graph_destroy(graph);
}

static void check(const char *const *blocks, bg_strategy strategy, const char *stages, const char *expected)
{
    const bg_options options = {.execution.strategy = strategy, .execution.stages = stages};

    check_options(blocks, &options, true, expected);
}

#define BLOCKS(...)                                                                                                    \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

static void test_explicit(void **state)
{
    (void)state;
    check(BLOCKS("A", "B", "C", "D"), BG_STRATEGY_PIPELINED, "A,B|C,D", "0@- 0@- 1@- 1@-");
    check(BLOCKS("A", "B", "C", "D"), BG_STRATEGY_PIPELINED, "A|B|C|D", "0@- 1@- 2@- 3@-");
    check(BLOCKS("A", "B", "C"), BG_STRATEGY_SHARDED, " A @1 | B , C @ 0", "0@1 1@0 1@0");
    check(BLOCKS("A", "B", "C", "D"), BG_STRATEGY_PIPELINED, "A@0|B@1|C@2|D@1", "0@0 1@1 2@2 3@1");
    check(BLOCKS("A@7", "B"), BG_STRATEGY_PIPELINED, "A@0|B@1", "0@0 1@1"); /* the stage's device is used */
    check(BLOCKS("A@7", "B"), BG_STRATEGY_PIPELINED, "A|B@1", "0@7 1@1");   /* otherwise that of its blocks */
    check(BLOCKS("A@1", "B", "C@1"), BG_STRATEGY_PIPELINED, "A,B|C", "0@1 0@1 0@1");
    check(BLOCKS("A", "B", "C"), BG_STRATEGY_PIPELINED, "A@0|B@0|C@1", "0@0 0@0 1@1"); /* neighbors merge */
    check(BLOCKS("^", "A", "B"), BG_STRATEGY_PIPELINED, "A|B", "0@- 0@- 1@-");
    check(BLOCKS("L10", "L1", "L"), BG_STRATEGY_PIPELINED, "L10|L1|L", "0@- 1@- 2@-"); /* names match as a whole */
    check(BLOCKS("A", "B", "A"), BG_STRATEGY_SINGLE, "A|B", "0@0 0@0 0@0");
}

/* If a schedule folds the line of stages, its middle pair remains two stages. */
static void test_neighbors_that_stay(void **state)
{
    const bg_options text = {.execution.strategy = BG_STRATEGY_PIPELINED, .execution.stages = "A@0|B@1|C@1|D@0"};
    const bg_options automatic = {.execution.strategy = BG_STRATEGY_PIPELINED};

    (void)state;
    check_options(BLOCKS("A", "B", "C", "D"), &text, false, "0@0 1@1 2@1 3@0");
    check_options(BLOCKS("A", "B", "C", "D"), &text, true, "0@0 1@1 1@1 2@0");
    check_options(BLOCKS("A@0", "B@0", "C@1"), &automatic, false, "0@0 1@0 2@1");
}

static void test_automatic(void **state)
{
    (void)state;
    check(BLOCKS("A", "B", "B", "C"), BG_STRATEGY_PIPELINED, NULL, "0@- 1@- 1@- 2@-");
    check(BLOCKS("A@0", "B@0", "C@1"), BG_STRATEGY_PIPELINED, NULL, "0@0 0@0 1@1"); /* neighbors merge */
    check(BLOCKS("A@0", "B@1", "C@0"), BG_STRATEGY_PIPELINED, NULL, "0@0 1@1 2@0");
    check(BLOCKS("A@0", "B@1", "C@2", "D@1"), BG_STRATEGY_PIPELINED, NULL, "0@0 1@1 2@2 3@1");
    check(BLOCKS("^"), BG_STRATEGY_PIPELINED, NULL, "0@-");
    check(BLOCKS("^", "A", "B"), BG_STRATEGY_PIPELINED, NULL, "0@- 0@- 1@-");
}

/* Numbers begin at 1; stage 0 is the part before the first block, and is omitted if that part is empty. */
static void test_auto_increment(void **state)
{
    const bg_options options = {.execution.strategy = BG_STRATEGY_PIPELINED,
                                .execution.auto_stage = BG_AUTO_STAGE_INCREMENT};

    (void)state;
    check_options(BLOCKS("A@0", "B@1", "C@0"), &options, true, "0@0 1@1 2@0");
    check_options(BLOCKS("A", "B", "C"), &options, true, "0@- 1@- 2@-");
    check_options(BLOCKS("^", "A", "B"), &options, true, "0@- 1@- 2@-");
    check_options(BLOCKS("^", "A@1", "B@2"), &options, true, "0@0 1@1 2@2");
    check_options(BLOCKS("^", "A@0", "B@1"), &options, true, "0@0 0@0 1@1"); /* one device, one stage */
    check_options(BLOCKS("A@0", "B@0", "C@1"), &options, true, "0@0 0@0 1@1");
    check_options(BLOCKS("^"), &options, true, "0@-");
}

/* Builds x -> A -> (B, C) -> D = concat(B, C), each with a weight; with `shared`, C has B's weight, or reads B. */
static bg_graph *diamond(const char *shared)
{
    bg_graph *graph = small_create();
    bg_value x = small_input(graph, "x"), parts[2], weight;

    bg_block_start(graph, "A", BG_DEVICE_NONE);
    x = small_linear(graph, "a", x, small_weight(graph, "wa"));
    bg_block_start(graph, "B", BG_DEVICE_NONE);
    weight = small_weight(graph, "wb");
    parts[0] = small_linear(graph, "b", x, weight);
    bg_block_start(graph, "C", BG_DEVICE_NONE);
    parts[1] = small_linear(graph, "c", strcmp(shared, "data") == 0 ? parts[0] : x,
                            strcmp(shared, "weight") == 0 ? weight : small_weight(graph, "wc"));
    bg_block_start(graph, "D", BG_DEVICE_NONE);
    bg_graph_output(graph, "y", bg_concat(graph, "d", parts, 2, 1));
    small_require(graph);
    return graph;
}

static void expect_numbers(const char *what, const uint32_t *numbers, uint32_t count, const char *expected)
{
    char text[64] = "";

    for (uint32_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", i == 0 ? "" : " ", numbers[i]);
    if (strcmp(text, expected) != 0)
        fail_msg("%s are %s instead of %s", what, text, expected);
}

static void test_positions_and_phases(void **state)
{
    static const struct {
        const char *stages, *positions, *phases, *devices;
    } cases[] = {
        {"A|B&C|D", "0 1 1 2", "0 1 1 2", ""},
        {"A|B|C|D", "0 1 2 3", "0 1 2 3", ""},
        {"A|B&C;D", "0 1 1 2", "0 0 0 1", ""},
        {"A;B&C;D", "0 1 1 2", "0 1 1 2", ""},
        {"A,B|C;D", "0 1 2", "0 0 1", ""},
        {"A@2|B@1&C@0|D@2", "0 1 1 2", "0 1 1 2", "2 1 0 2"},
        {"A@0|B@0&C@1|D@1", "0 1 1 2", "0 1 1 2", "0 0 1 1"}, /* the value that D needs of B is between C and D */
        {"A@0|B@0|C@0;D@0", "0 1", "0 1", "0 0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = diamond("");
        const bg_options options = {.execution.strategy = BG_STRATEGY_PHASED, .execution.stages = cases[i].stages};
        bgi_stages out = {0};
        bg_error error = {0};
        small_expect(bgi_assign_stages(graph, &options, true, &out, &error), BG_OK, &error, NULL);
        expect_numbers(cases[i].stages, out.stage_positions, out.stage_count, cases[i].positions);
        expect_numbers(cases[i].stages, out.stage_phases, out.stage_count, cases[i].phases);
        assert_int_equal(out.has_phases, strchr(cases[i].stages, ';') != NULL);
        assert_int_equal(out.has_text_devices, strchr(cases[i].stages, '@') != NULL);
        if (cases[i].devices[0] != '\0')
            expect_numbers(cases[i].stages, out.stage_devices, out.stage_count, cases[i].devices);
        bgi_stages_clear(&out);
        bg_graph_destroy(graph);
    }
}

static void test_concurrent_stages_share_nothing(void **state)
{
    static const struct {
        const char *shared, *stages, *part;
    } cases[] = {
        {"data", "A|B&C|D",
         "concurrent stages 1 and 2 share data: linear `c` (block `C`) needs `b` of block `B`; separate them with |"},
        {"data", "A|C&B|D", "concurrent stages 2 and 1 share data"},
        {"weight", "A|B&C|D", "concurrent stages 1 and 2 share the variable `wb`"},
        {"", "A&B|C|D", "concurrent stages 0 and 1 share data"},
        {"", "A|B|C&D", "concurrent stages 2 and 3 share data"},
        {"", "A|D&C|B", "the stages form a cycle: concat `d` (block `D`, stage 1)"},
        {"", "B&C|A|D", "the stages form a cycle: linear `b` (block `B`, stage 0)"},
        {"", "A|B&|C,D", "stage 2 has an empty block name"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = diamond(cases[i].shared);
        const bg_options options = {.execution.strategy = BG_STRATEGY_PIPELINED, .execution.stages = cases[i].stages};
        bgi_stages out = {0};
        bg_error error = {0};
        small_expect(bgi_assign_stages(graph, &options, true, &out, &error), BG_ERROR_INVALID, &error, cases[i].part);
        bg_graph_destroy(graph);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        const char *blocks[5], *stages;
        bg_status status;
        const char *part;
    } cases[] = {
        {{"A", "B"}, "A|X", BG_ERROR_NOT_FOUND, "block `X` is not in the model; its blocks are `A`, `B`"},
        {{"A", "B"}, "A|", BG_ERROR_INVALID, "stage 1 has an empty block name"},
        {{"A", "B"}, "A,,B", BG_ERROR_INVALID, "stage 0 has an empty block name"},
        {{"A", "B"}, "", BG_ERROR_INVALID, "stage 0 has an empty block name"},
        {{"A", "B"}, "A|B,A", BG_ERROR_INVALID, "block `A` is in stage 0 and in stage 1"},
        {{"A", "B"}, "A", BG_ERROR_INVALID, "block `B` is in no stage; each block"},
        {{"A", "B", "C", "D"}, "B", BG_ERROR_INVALID, "block `A` is in no stage, and neither are `C`, `D`; each block"},
        {{"A", "B"}, "B|A", BG_ERROR_INVALID, "the stages form a cycle"},
        {{"A", "B", "A"}, "A|B", BG_ERROR_INVALID, "the stages form a cycle"},
        {{"A", "B", "A"}, NULL, BG_ERROR_INVALID, "the stages form a cycle"},
        {{"A", "B"}, "A@x|B", BG_ERROR_INVALID, "`x` is not a device number (in stage 0, after @)"},
        {{"A", "B"}, "A@1 2|B", BG_ERROR_INVALID, "`1 2` is not a device number"},
        {{"A", "B"}, "A@-1|B", BG_ERROR_INVALID, "`-1` is not a device number"},
        {{"A", "B"}, "A@|B", BG_ERROR_INVALID, "`` is not a device number"},
        {{"A", "B"}, "A@99999|B", BG_ERROR_INVALID, "`99999` is not a device number"},
        {{"A@0", "B@1", "C"}, "A,B|C", BG_ERROR_INVALID, "blocks `A` and `B` of stage 0 have devices 0 and 1"},
        {{"A", "B"}, "A;;B", BG_ERROR_INVALID, "stage 1 has an empty block name"},
        {{"A@0", "B"}, NULL, BG_ERROR_INVALID, "block `A` has device 0 but block `B` has none"},
        {{"A", "-"}, NULL, BG_ERROR_INVALID, "no active block at scale"},
        {{"A", "-"}, "A|closed", BG_ERROR_INVALID, "all ops must belong to a block"},
        {{"A", "B", "-"}, "A|B|closed", BG_ERROR_INVALID, "no active block"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = chain(cases[i].blocks);
        const bg_options options = {.execution.strategy = BG_STRATEGY_PIPELINED, .execution.stages = cases[i].stages};
        bgi_stages out = {0};
        bg_error error = {0};
        small_expect(bgi_assign_stages(graph, &options, true, &out, &error), cases[i].status, &error, cases[i].part);
        assert_null(out.stage_devices);
        bg_graph_destroy(graph);
    }
}

static void test_empty_stage(void **state)
{
    bg_graph *graph = chain(BLOCKS("A", "B"));
    const bg_options options = {.execution.strategy = BG_STRATEGY_PIPELINED, .execution.stages = "A|empty|B"};
    bgi_stages out = {0};
    bg_error error = {0};

    (void)state;
    bg_block_start(graph, "empty", BG_DEVICE_NONE);
    small_expect(bgi_assign_stages(graph, &options, true, &out, &error), BG_ERROR_INVALID, &error,
                 "stage 1 has no ops: its blocks are empty");
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explicit),
        cmocka_unit_test(test_neighbors_that_stay),
        cmocka_unit_test(test_automatic),
        cmocka_unit_test(test_auto_increment),
        cmocka_unit_test(test_positions_and_phases),
        cmocka_unit_test(test_concurrent_stages_share_nothing),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_empty_stage),
    };

    return cmocka_run_group_tests_name("transform/stages", tests, NULL, NULL);
}
