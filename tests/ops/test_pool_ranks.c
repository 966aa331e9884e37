/*
 * test_pool_ranks.c: compares pools over one, two and three dimensions, and adaptive pools, with PyTorch. It also
 * checks errors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "support/build_case.h"

typedef struct pool_case {
    bool is_max, is_adaptive;
    bg_pool_options options;
    const int64_t *sizes;
} pool_case;

static bg_value build_pool(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const pool_case *c = argument;

    if (c->is_adaptive)
        return c->is_max ? bg_adaptive_max_pool(graph, "pool", inputs[0], c->sizes)
                         : bg_adaptive_avg_pool(graph, "pool", inputs[0], c->sizes);
    return c->is_max ? bg_max_pool(graph, "pool", inputs[0], &c->options)
                     : bg_avg_pool(graph, "pool", inputs[0], &c->options);
}

static void check(const void *oracle, const char *name, const pool_case *c)
{
    bgi_test_build_case(oracle, name, BG_FLOAT64, build_pool, c, 1e-8, 1e-8);
    bgi_test_build_case(oracle, name, BG_FLOAT32, build_pool, c, 1e-5, 1e-5);
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    pool_case c = {.options = bg_pool_defaults(1)};
    char name[64];

    memcpy(c.options.kernel, (int64_t[]){3, 2, 3}, sizeof c.options.kernel);
    memcpy(c.options.stride, (int64_t[]){2, 3, 2}, sizeof c.options.stride);
    memcpy(c.options.padding, (int64_t[]){1, 1, 0}, sizeof c.options.padding);
    for (int dims = 1; dims <= 3; dims++)
        for (int ceil_mode = 0; ceil_mode < 2; ceil_mode++) {
            c.options.ceil_mode = ceil_mode;
            c.is_max = true;
            memcpy(c.options.dilation, (int64_t[]){1, 2, 1}, sizeof c.options.dilation);
            snprintf(name, sizeof name, "max%d_%d", dims, ceil_mode);
            check(*state, name, &c);
            c.is_max = false;
            memcpy(c.options.dilation, (int64_t[]){1, 1, 1}, sizeof c.options.dilation);
            for (int pad = 0; pad < 2; pad++) {
                c.options.count_include_pad = pad;
                snprintf(name, sizeof name, "avg%d_%d%d", dims, ceil_mode, pad);
                check(*state, name, &c);
            }
        }
    c = (pool_case){.is_max = true, .options = bg_pool_defaults(2)};
    check(*state, "max3_equal", &c);
}

static void test_given_sizes(void **state)
{
    static const int64_t even[] = {2, 3, 4}, uneven[] = {4, 5, 3};
    static const struct {
        const char *name;
        const int64_t *sizes;
    } kinds[] = {{"global", NULL}, {"even", even}, {"uneven", uneven}};
    char name[64];

    for (int dims = 1; dims <= 3; dims++)
        for (size_t k = 0; k < 3; k++)
            for (int is_max = 0; is_max < 2; is_max++) {
                const pool_case c = {.is_max = is_max, .is_adaptive = true, .sizes = kinds[k].sizes};

                snprintf(name, sizeof name, "adaptive_%s%d_%s", is_max ? "max" : "avg", dims, kinds[k].name);
                check(*state, name, &c);
            }
}

/* The last op that a function adds has the given name. */
static void test_names(void **state)
{
    static const int64_t sizes[] = {3, 4, 5}, same[] = {6, 4, 6};
    bg_pool_options options = bg_pool_defaults(2);
    bg_graph *graph = NULL;
    uint32_t count = 0;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    for (uint32_t dims = 1; dims <= 3; dims++) {
        const bg_type type = bg_type_make(BG_FLOAT32, 2 + dims, (int64_t[]){1, 2, 6, 6, 6});
        char names[8][8];
        bg_value x;

        for (int i = 0; i < 8; i++)
            snprintf(names[i], sizeof names[i], "n%u", (unsigned)count++);
        x = bg_graph_input(graph, names[0], &type);
        assert_string_equal(bg_graph_name(graph, bg_max_pool(graph, names[1], x, &options)), names[1]);
        assert_string_equal(bg_graph_name(graph, bg_avg_pool(graph, names[2], x, &options)), names[2]);
        assert_string_equal(bg_graph_name(graph, bg_adaptive_max_pool(graph, names[3], x, sizes)), names[3]);
        assert_string_equal(bg_graph_name(graph, bg_adaptive_avg_pool(graph, names[4], x, sizes)), names[4]);
        assert_string_equal(bg_graph_name(graph, bg_adaptive_avg_pool(graph, names[5], x, NULL)), names[5]);
        if (dims > 1)
            assert_string_equal(bg_graph_name(graph, bg_adaptive_max_pool(graph, names[6], x, same)), names[6]);
    }
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    bg_graph_destroy(graph);
}

static void test_what_is_wrong_is_said(void **state)
{
    static const int64_t none[] = {0};
    const bg_type x = bg_type_make(BG_FLOAT32, 3, (int64_t[]){1, 2, 130}), flat = bg_matrix(BG_FLOAT32, 3, 4);
    pool_case c = {.is_max = true, .options = bg_pool_defaults(3)};

    (void)state;
    bgi_test_build_fails(build_pool, &c, &flat, 1, BG_ERROR_SHAPE,
                         "max_pool `pool`: x is float32[3,4]; it must be float");
    c.options.padding[0] = 2;
    bgi_test_build_fails(build_pool, &c, &x, 1, BG_ERROR_INVALID, "padding[0] is 2; it must be between 0 and 1 (half");
    c.options = bg_pool_defaults(0);
    bgi_test_build_fails(build_pool, &c, &x, 1, BG_ERROR_INVALID, "kernel[0] is 0");
    c = (pool_case){.is_adaptive = true, .sizes = none};
    bgi_test_build_fails(build_pool, &c, &x, 1, BG_ERROR_INVALID, "adaptive_avg_pool `pool`: sizes[0] is 0");
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/spatial.txt");
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
        cmocka_unit_test(test_given_sizes),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
