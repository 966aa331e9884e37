/*
 * test_passes.c: tests the table of the compiler's passes. Its rows are complete, each pass finds its inputs,
 * `dump_after` shows the results of a pass, and a damaged partition is detected.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <brigade/nn.h>
#include <brigade/plan.h>

#include "support/folder.h"
#include "support/models.h"
#include "transform/transform.h"

enum { MICRO_BATCH = 4, MOST_PASSES = 64 };

/* The dumped text of each pass. */
typedef struct dumps {
    uint32_t count;
    char names[MOST_PASSES][24];
    char *texts[MOST_PASSES];
} dumps;

static void keep(void *user, const char *pass, const char *text)
{
    dumps *all = user;

    assert_true(all->count < MOST_PASSES);
    assert_true(strlen(pass) < sizeof all->names[0]);
    strcpy(all->names[all->count], pass);
    all->texts[all->count] = strdup(text);
    assert_non_null(all->texts[all->count++]);
}

static void clear(dumps *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        free(all->texts[i]);
    all->count = 0;
}

static const char *find(const dumps *all, const char *pass)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (strcmp(all->names[i], pass) == 0)
            return all->texts[i];
    return NULL;
}

static bool has_dump(const dumps *all, const char *pass, const char *part)
{
    const char *text = find(all, pass);

    return text != NULL && strstr(text, part) != NULL;
}

static bg_status make(const bg_options *options, bool training, bg_error *error)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_status status;
    bg_value loss;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    loss = test_model_at(0)->build(graph, MICRO_BATCH);
    status = training ? bg_plan_create_training(graph, loss, &optimizer, options, &plan, error)
                      : bg_plan_create_inference(graph, options, &plan, error);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return status;
}

static bg_options dump_options(const char *pass, dumps *all)
{
    bg_options options = bg_options_defaults();

    options.execution.gradient_accumulation = 4;
    options.reporting.dump_after = pass;
    options.reporting.dump = keep;
    options.reporting.dump_user = all;
    return options;
}

/* ---- the table ---- */

static void test_each_row_is_whole(void **state)
{
    uint32_t count = 0;

    (void)state;
    for (const char *name, *what = NULL; (name = bg_plan_pass_at(count, &what)) != NULL; count++) {
        assert_true(strlen(name) > 0 && strlen(name) <= 12);
        assert_true(strlen(what) > 10 && what[strlen(what) - 1] != '.');
        for (uint32_t i = 0; i < count; i++)
            assert_string_not_equal(bg_plan_pass_at(i, NULL), name);
    }
    assert_true(count > 20 && count < MOST_PASSES);
    assert_null(bg_plan_pass_at(UINT32_MAX, NULL));
}

/* `all` dumps each pass that applies once, in the order of the table. */
static void test_passes_run_in_the_order_of_the_table(void **state)
{
    dumps all = {.count = 0};
    const bg_options options = dump_options("all", &all);
    uint32_t next = 0;

    (void)state;
    assert_int_equal(make(&options, true, NULL), BG_OK);
    for (uint32_t i = 0; bg_plan_pass_at(i, NULL) != NULL; i++)
        if (next < all.count && strcmp(bg_plan_pass_at(i, NULL), all.names[next]) == 0)
            next++;
    assert_int_equal(next, all.count);
    assert_null(find(&all, "prune"));
    assert_null(find(&all, "loop"));
    assert_null(find(&all, "cut"));
    assert_non_null(find(&all, "train"));
    assert_string_equal(all.names[all.count - 1], "budget");
    clear(&all);
}

/* ---- dumps ---- */

static void test_a_dump_shows_what_the_pass_made(void **state)
{
    dumps all = {.count = 0};
    bg_options options = dump_options("all", &all);

    (void)state;
    assert_int_equal(make(&options, true, NULL), BG_OK);
    assert_false(has_dump(&all, "anchors", "conv2d_pool"));
    assert_true(has_dump(&all, "fuse", "conv2d_pool"));
    assert_false(has_dump(&all, "generator", "# stage"));
    assert_true(has_dump(&all, "stages", "# stage 3 on device 3: B4"));
    assert_false(has_dump(&all, "synchronize", "backward"));
    assert_true(has_dump(&all, "train", "# backward B1"));
    assert_true(has_dump(&all, "train", "# update"));
    assert_false(has_dump(&all, "products", "segment "));
    assert_true(has_dump(&all, "partition", "segment F stage 0:"));
    assert_true(has_dump(&all, "partition", ": F stage 0 to F stage 1"));
    assert_true(has_dump(&all, "schedule", "F"));
    assert_false(has_dump(&all, "schedule", "segment "));
    assert_true(has_dump(&all, "programs", "F stage 1 micro-batch 0"));
    clear(&all);
    options.execution.gradient_accumulation = 1;
    options.numerics.no_fusion = true;
    assert_int_equal(make(&options, false, NULL), BG_OK);
    assert_non_null(find(&all, "prune"));
    assert_null(find(&all, "fuse"));
    assert_null(find(&all, "train"));
    clear(&all);
}

static void test_one_pass_is_dumped_alone(void **state)
{
    dumps all = {.count = 0};
    bg_options options = dump_options("partition", &all);

    (void)state;
    assert_int_equal(make(&options, true, NULL), BG_OK);
    assert_int_equal(all.count, 1);
    assert_string_equal(all.names[0], "partition");
    clear(&all);
    /* Trials of a search are not dumped: there is one dump in total. */
    options.execution.schedule = "auto";
    options.memory.device_memory_bytes = 3 << 20;
    assert_int_equal(make(&options, true, NULL), BG_OK);
    assert_int_equal(all.count, 1);
    clear(&all);
    options.reporting.dump = NULL;
    assert_int_equal(make(&options, true, NULL), BG_OK);
    assert_int_equal(all.count, 0);
}

static void test_an_unknown_pass_is_refused_with_the_names(void **state)
{
    dumps all = {.count = 0};
    const bg_options options = dump_options("fuze", &all);
    bg_error error = {0};

    (void)state;
    assert_int_equal(make(&options, true, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "dump_after is `fuze`"));
    assert_non_null(strstr(error.message, "anchors, copies, loop, precision, prune, quantize, fuse"));
    assert_int_equal(all.count, 0);
}

/* A plan from the cache does not run any pass. */
static void test_the_cache_is_left_alone(void **state)
{
    char folder[TEST_FOLDER_BYTES];
    dumps all = {.count = 0};
    bg_options options = dump_options(NULL, &all);

    (void)state;
    test_folder_create(folder);
    options.files.cache_dir = folder;
    assert_int_equal(make(&options, true, NULL), BG_OK);
    assert_int_equal(test_folder_count(folder), 1);
    options.reporting.dump_after = "fuse";
    assert_int_equal(make(&options, true, NULL), BG_OK);
    assert_int_equal(all.count, 1);
    clear(&all);
    test_folder_remove(folder);
}

/* ---- verification of a partition ---- */

typedef struct cut {
    bg_graph *graph;
    bgi_stages stages;
    bgi_partition partition;
} cut;

static void setup(cut *c)
{
    const bg_options options = bg_options_defaults();

    memset(c, 0, sizeof *c);
    assert_int_equal(bg_graph_create(&c->graph, NULL), BG_OK);
    test_model_at(0)->build(c->graph, MICRO_BATCH);
    assert_int_equal(bgi_assign_stages(c->graph, &options, false, &c->stages, NULL), BG_OK);
    assert_int_equal(bgi_cut_segments(c->graph, &c->stages, false, false, &c->partition, NULL), BG_OK);
    assert_int_equal(bgi_partition_verify(&c->partition, c->graph, NULL), BG_OK);
    assert_true(c->partition.crossing_count > 0 && c->partition.segment_count == 4);
}

static void teardown(cut *c)
{
    bgi_partition_clear(&c->partition);
    bgi_stages_clear(&c->stages);
    bg_graph_destroy(c->graph);
}

static void expect_defect(const cut *c, const char *part)
{
    bg_error error = {0};

    assert_int_equal(bgi_partition_verify(&c->partition, c->graph, &error), BG_ERROR_INTERNAL);
    if (strstr(error.message, part) == NULL)
        fail_msg("`%s` instead of `%s`", error.message, part);
}

static void test_a_damaged_partition_is_noticed(void **state)
{
    cut c;
    bgi_segment *segments;
    uint32_t *ops, kept;

    (void)state;
    setup(&c);
    segments = c.partition.segments;
    ops = (uint32_t *)(uintptr_t)segments[1].ops;

    kept = ops[0];
    ops[0] = segments[0].ops[0];
    expect_defect(&c, "in two segments");
    ops[0] = (uint32_t)c.graph->op_count;
    expect_defect(&c, "is not in the graph");
    ops[0] = kept;

    segments[1].op_count--;
    expect_defect(&c, "is in no segment");
    segments[1].op_count++;

    c.partition.op_segments[kept] = 3;
    expect_defect(&c, "recorded in 3");
    c.partition.op_segments[kept] = 1;

    segments[2].stage = 4;
    expect_defect(&c, "segment 2 is of stage 4, but there are 4 stages");
    segments[2].stage = 2;

    c.partition.crossings[0].to_stage = 9;
    expect_defect(&c, "to stage 9 of 4");
    c.partition.crossings[0].to_stage = 1;
    c.partition.crossings[0].from_segment = 2;
    expect_defect(&c, "comes from segment 2");
    c.partition.crossings[0].from_segment = 0;
    c.partition.crossings[0].value.id = 0;
    expect_defect(&c, "which has no separate bytes");
    teardown(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_is_whole),
        cmocka_unit_test(test_passes_run_in_the_order_of_the_table),
        cmocka_unit_test(test_a_dump_shows_what_the_pass_made),
        cmocka_unit_test(test_one_pass_is_dumped_alone),
        cmocka_unit_test(test_an_unknown_pass_is_refused_with_the_names),
        cmocka_unit_test(test_the_cache_is_left_alone),
        cmocka_unit_test(test_a_damaged_partition_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
