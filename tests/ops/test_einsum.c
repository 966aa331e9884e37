/*
 * test_einsum.c: compares Einstein sums with PyTorch and checks errors.
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

typedef struct sum_case {
    const char *equation;
    uint32_t count;
} sum_case;

static bg_value build_einsum(bg_graph *graph, const bg_value *inputs, const void *argument)
{
    const sum_case *c = argument;
    const bg_value y = bg_einsum(graph, "sum", c->equation, inputs, c->count);

    if (!bg_value_is_null(y))
        assert_string_equal(bg_graph_name(graph, y), "sum");
    return y;
}

static void test_pytorch_has_the_same_numbers(void **state)
{
    /* The cases of tests/oracle/einsum.py. */
    static const char *const equations[] = {
        "ab,bc->ac",     "ab,cb->ac",       "ba,bc->ac",   "abc,acd->abd", "abc,cbd->adb",
        "abc,abd->bcd",  "ab,cd->acbd",     "a,a->",       "ab->ba",       "abc->b",
        "abc->",         "ab,ab->ab",       "ab,ab->ba",   "abc,b->ac",    "ab,bc,cd->ad",
        "ab,ac,ad->bcd", "abcd,aecd->abec", "ab,bc",       "cB,Bb",        "abc, cde -> abde",
        "a,b,c->cab",    "abcd,efcd->abef", "ab,abd,c->d",
    };

    for (size_t i = 0; i < sizeof equations / sizeof equations[0]; i++) {
        sum_case c = {equations[i], 1};
        char name[32];

        for (const char *at = equations[i]; *at != '\0' && *at != '-'; at++)
            c.count += *at == ',';
        snprintf(name, sizeof name, "einsum_%u", (unsigned)i);
        bgi_test_build_case(*state, name, BG_FLOAT64, build_einsum, &c, 1e-8, 1e-8);
        bgi_test_build_case(*state, name, BG_FLOAT32, build_einsum, &c, 1e-4, 1e-5);
    }
}

static void test_what_is_wrong_is_said(void **state)
{
    static const struct {
        sum_case c;
        bg_status status;
        const char *expected;
    } wrong[] = {
        {{"ab,bc->ac", 1}, BG_ERROR_INVALID, "einsum `sum`: `ab,bc->ac`: it names more operands than are given"},
        {{"ab->ac", 2}, BG_ERROR_INVALID, "it names fewer operands than are given"},
        {{"aa->a", 1}, BG_ERROR_INVALID, "a letter occurs twice"},
        {{"a.->a", 1}, BG_ERROR_INVALID, "it may contain only letters, commas, spaces and one arrow"},
        {{"ab-a", 1}, BG_ERROR_INVALID, "a `-` must be followed by `>`"},
        {{"ab->c", 1}, BG_ERROR_INVALID, "the result has a letter that no operand has"},
        {{"ab->a,b", 1}, BG_ERROR_INVALID, "there is more text after the result"},
        {{"abcdefg->a", 1}, BG_ERROR_INVALID, "more letters than a value can have dimensions"},
        {{"abc->a", 1}, BG_ERROR_SHAPE, "operand 0 is float32[2,3]; it must be a float"},
        {{"ab,ab->a", 2}, BG_ERROR_SHAPE, "`a` has size 2 in one operand and 4 in operand 1, which is float32[4,3]"},
        {{"ab", 0}, BG_ERROR_INVALID, "it needs an equation and 1 to 16 operands, but 0 operands are given"},
        {{NULL, 1}, BG_ERROR_INVALID, "it needs an equation"},
    };
    const bg_type types[] = {bg_matrix(BG_FLOAT32, 2, 3), bg_matrix(BG_FLOAT32, 4, 3)};
    const bg_type wide[] = {bg_type_make(BG_FLOAT32, 4, (int64_t[]){1, 1, 1, 1}),
                            bg_type_make(BG_FLOAT32, 4, (int64_t[]){1, 1, 1, 1}), bg_vector(BG_FLOAT32, 1),
                            bg_vector(BG_FLOAT32, 1)};
    const sum_case between = {"abcd,efgh,a,e->bcdfgh", 4};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        bgi_test_build_fails(build_einsum, &wrong[i].c, types, 2, wrong[i].status, wrong[i].expected);
    bgi_test_build_fails(build_einsum, &between, wide, 4, BG_ERROR_UNSUPPORTED,
                         "the product of `abcd` and `efgh` has more than 6 dimensions");
}

static int open_oracle(void **state)
{
    *state = bgi_test_oracle_open("tests/oracle/einsum.txt");
    return 0;
}

static int close_oracle(void **state)
{
    bgi_test_oracle_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pytorch_has_the_same_numbers),
                                       cmocka_unit_test(test_what_is_wrong_is_said)};

    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
