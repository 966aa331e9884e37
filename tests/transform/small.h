/*
 * small.h: the small graphs that the tests of this folder use.
 */
#ifndef BGI_TEST_SMALL_H
#define BGI_TEST_SMALL_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "transform/transform.h"

static inline bg_graph *small_create(void)
{
    bg_graph *graph = NULL;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    return graph;
}

static inline bg_value small_input(bg_graph *graph, const char *name)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 2, 3);

    return bg_graph_input(graph, name, &type);
}

/* Adds a parameter of [3, 3]. */
static inline bg_value small_weight(bg_graph *graph, const char *name)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 3, 3);
    const bg_initializer initializer = {BG_INITIALIZE_UNIFORM, -1, 1};

    return bg_graph_parameter(graph, name, &type, &initializer);
}

static inline bg_value small_linear(bg_graph *graph, const char *name, bg_value x, bg_value weight)
{
    return bg_linear(graph, name, x, weight, (bg_value){0});
}

static inline bg_value small_loss(bg_graph *graph, const char *name, bg_value x)
{
    return bg_reduce(graph, name, BG_REDUCE_MEAN, x, NULL, 0, false);
}

static inline void small_require(const bg_graph *graph)
{
    bg_error error = {0};

    if (bg_graph_check(graph, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static inline void small_expect_text(const bg_graph *graph, const char *expected)
{
    char *text = NULL;

    small_require(graph);
    assert_int_equal(bg_graph_print(graph, &text, NULL), BG_OK);
    assert_string_equal(text, expected);
    free(text);
}

static inline void small_expect(bg_status have, bg_status want, const bg_error *error, const char *part)
{
    if (have != want || (part != NULL && strstr(error->message, part) == NULL))
        fail_msg("status %s, message `%s`; expected %s, `%s`", bg_status_name(have), error->message,
                 bg_status_name(want), part != NULL ? part : "");
}

#endif
