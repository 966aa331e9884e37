/*
 * test_serialized.c: compares layers in pieces with the plain layers, forward and backward. Results have the same bits
 * where sums keep their order, and are within a tolerance otherwise.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/nn.h>
#include <brigade/session.h>

#include "support/build_case.h"
#include "support/interpret.h"

enum { ROWS = 12, WIDTH = 8, MOST = 4, OUT = 12, SAMPLES = 6 };

static float number(uint32_t i)
{
    return (float)((int)(i * 2654435761u >> 20) - 2048) / 1024.0f;
}

static void fill(float *data, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        data[i] = number((uint32_t)i + seed * 977u);
}

static bg_value piece_of(bg_graph *graph, const char *format, uint32_t piece, uint32_t factor, const char *plain)
{
    char name[64];

    snprintf(name, sizeof name, factor == 1 ? plain : format, piece);
    return bg_graph_find_variable(graph, name);
}

static void expect_close(const float *found, const float *wanted, size_t count, double tolerance, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)wanted[i]) <= tolerance))
            fail_msg("%s[%zu] is %.9g instead of %.9g", what, i, (double)found[i], (double)wanted[i]);
}

/* Compares values and gradients of a plain layer and of a layer in pieces with the same weight, which is split along
 * `axis`. */
static void compare(bg_graph *graph, bg_value plain_y, bg_value y, bg_value plain_weight, const bg_value *pieces,
                    uint32_t factor, uint32_t axis, bg_value x, bg_value plain_bias, bg_value bias, double tolerance)
{
    const bg_type type = bg_graph_type(graph, y), weight_type = bg_graph_type(graph, plain_weight);
    const size_t count = (size_t)bg_type_element_count(&type), weights = (size_t)bg_type_element_count(&weight_type);
    bg_value seed = bg_graph_input(graph, "seed", &type), plain_gradient = {0}, gradients[MOST] = {{0}};
    float weight[OUT * 16], back[OUT * 16];
    void *parts[MOST];
    bgi_test_interpreter it;
    bg_error error = {0};

    bgi_test_derive(graph, plain_y, seed, &plain_weight, 1, &plain_gradient);
    bgi_test_derive(graph, y, seed, pieces, factor, gradients);
    if (bg_graph_check(graph, &error) != BG_OK)
        fail_msg("%s", error.message);
    bgi_test_interpreter_init(&it, graph);
    fill(weight, weights, 1);
    memcpy(bgi_test_data(&it, plain_weight), weight, weights * sizeof weight[0]);
    for (uint32_t i = 0; i < factor; i++)
        parts[i] = bgi_test_data(&it, pieces[i]);
    assert_int_equal(bg_serialized_weight_cut(weight, &weight_type, axis, factor, parts, NULL), BG_OK);
    fill(bgi_test_data(&it, seed), count, 2);
    if (bg_graph_type(graph, x).dtype == BG_INT32)
        for (int i = 0; i < SAMPLES; i++)
            ((int32_t *)bgi_test_data(&it, x))[i] = (int32_t[]){0, 11, 5, -1, 12, 5}[i];
    else
        fill(bgi_test_data(&it, x), SAMPLES * WIDTH, 3);
    if (!bg_value_is_null(bias)) {
        fill(bgi_test_data(&it, bias), OUT, 4);
        fill(bgi_test_data(&it, plain_bias), OUT, 4);
    }
    bgi_test_interpret(&it);
    expect_close(bgi_test_data(&it, y), bgi_test_data(&it, plain_y), count, tolerance, "y");
    for (uint32_t i = 0; i < factor; i++)
        parts[i] = bgi_test_data(&it, gradients[i]);
    assert_int_equal(bg_serialized_weight_join((const void *const *)parts, &weight_type, axis, factor, back, NULL),
                     BG_OK);
    expect_close(back, bgi_test_data(&it, plain_gradient), weights, tolerance, "gradient");
    for (uint32_t i = 0; i < factor; i++)
        parts[i] = bgi_test_data(&it, pieces[i]);
    assert_int_equal(bg_serialized_weight_join((const void *const *)parts, &weight_type, axis, factor, back, NULL),
                     BG_OK);
    assert_memory_equal(back, weight, weights * sizeof weight[0]);
    bgi_test_interpreter_clear(&it);
}

static void check_embedding(uint32_t factor, int64_t padding)
{
    const bg_type type = bg_vector(BG_INT32, SAMPLES);
    bg_graph *graph = NULL;
    bg_value ids, plain, y, pieces[MOST];

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    ids = bg_graph_input(graph, "ids", &type);
    plain = bg_embedding_layer(graph, "plain", ids, ROWS, WIDTH, padding, BG_FLOAT32);
    y = bg_serialized_embedding_layer(graph, "cut", ids, ROWS, WIDTH, padding, BG_FLOAT32, factor, NULL);
    for (uint32_t i = 0; i < factor; i++)
        pieces[i] = piece_of(graph, "cut.split_embeddings.%u.weight", i, factor, "cut.weight");
    compare(graph, plain, y, bg_graph_find_variable(graph, "plain.weight"), pieces, factor, 0, ids, (bg_value){0},
            (bg_value){0}, 0.0);
    bg_graph_destroy(graph);
}

/* Results are equal, because all pieces except one contribute zeros to a row. The padding row is the first, inside a
 * piece, or the last. */
static void test_embedding(void **state)
{
    (void)state;
    for (uint32_t factor = 1; factor <= MOST; factor++)
        for (int64_t padding = -1; padding < ROWS; padding += 3)
            check_embedding(factor, padding);
    check_embedding(4, 0);
    check_embedding(3, 11);
}

/* Inputs of ranks 2 to 4 have the same rows of features. */
static const bg_type inputs[] = {
    {BG_FLOAT32, 2, {SAMPLES, WIDTH}},
    {BG_FLOAT32, 3, {2, SAMPLES / 2, WIDTH}},
    {BG_FLOAT32, 4, {SAMPLES / 2, 1, 2, WIDTH}},
};
enum { INPUTS = sizeof inputs / sizeof inputs[0] };

static void check_rank(bg_type type, bg_serialize_mode mode, uint32_t factor, bool bias, bool is_split)
{
    const uint32_t pieces_count = is_split ? factor : 1;
    bg_graph *graph = NULL;
    bg_value x, plain, y, pieces[MOST];

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    plain = bg_linear_layer(graph, "plain", x, OUT, bias);
    y = is_split ? bg_split_projection_layer(graph, "cut", x, OUT, bias, mode, factor, NULL)
                 : bg_serialized_linear_layer(graph, "cut", x, OUT, bias, mode, factor);
    for (uint32_t i = 0; i < pieces_count; i++)
        pieces[i] = piece_of(graph, "cut.split_linear_layers.%u.weight", i, pieces_count, "cut.weight");
    compare(graph, plain, y, bg_graph_find_variable(graph, "plain.weight"), pieces, pieces_count,
            is_split && mode == BG_SERIALIZE_REDUCING_DIM, x, bg_graph_find_variable(graph, "plain.bias"),
            bg_graph_find_variable(graph, "cut.bias"), 1e-5);
    bg_graph_destroy(graph);
}

static void check_linear(bg_serialize_mode mode, uint32_t factor, bool bias, bool is_split)
{
    for (int i = 0; i < INPUTS; i++)
        check_rank(inputs[i], mode, factor, bias, is_split);
}

static void test_serialized_linear(void **state)
{
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        check_linear(BG_SERIALIZE_NONE, 4, bias, false);
        check_linear(BG_SERIALIZE_INPUT_CHANNELS, 3, bias, false);
        check_linear(BG_SERIALIZE_REDUCING_DIM, 4, bias, false);
        check_linear(BG_SERIALIZE_OUTPUT_CHANNELS, 4, bias, false);
    }
}

static void test_split_projection(void **state)
{
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        check_linear(BG_SERIALIZE_OUTPUT_CHANNELS, 3, bias, true);
        check_linear(BG_SERIALIZE_REDUCING_DIM, 4, bias, true);
        check_linear(BG_SERIALIZE_OUTPUT_CHANNELS, 1, bias, true);
    }
}

static void refuse(uint32_t factor, const int64_t *splits, const char *words)
{
    const bg_split_placement placement = {splits, 4};
    const bg_type type = bg_vector(BG_INT32, SAMPLES);
    bg_graph *graph = NULL;
    bg_error error = {0};

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_serialized_embedding_layer(graph, "cut", bg_graph_input(graph, "ids", &type), ROWS, WIDTH, -1, BG_FLOAT32,
                                  factor, splits != NULL ? &placement : NULL);
    assert_int_equal(bg_graph_check(graph, &error), BG_ERROR_INVALID);
    if (strstr(error.message, words) == NULL)
        fail_msg("`%s` does not say `%s`", error.message, words);
    bg_graph_destroy(graph);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse(5, NULL, "the factor must divide them");
    refuse(0, NULL, "into 0 equal pieces");
    refuse(0, (int64_t[]){3, 0, 1, 0}, "consecutive devices");
    refuse(0, (int64_t[]){0, 0, 0, 0}, "their sum is 0");
    refuse(3, (int64_t[]){3, 1, 0, 0}, "their sum is 4");
}

/* The split [3, 1, 0, 0] makes a block of three pieces on device 0 and a block of one piece on device 1. */
static void test_places(void **state)
{
    const bg_split_placement placement = {(int64_t[]){3, 1, 0, 0}, 4};
    const bg_type type = bg_vector(BG_INT32, SAMPLES);
    bg_graph *graph = NULL;
    char *text = NULL;
    (void)state;

    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_serialized_embedding_layer(graph, "cut", bg_graph_input(graph, "ids", &type), ROWS, WIDTH, -1, BG_FLOAT32, 0,
                                  &placement);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    assert_int_equal(bg_graph_print(graph, &text, NULL), BG_OK);
    assert_non_null(strstr(text, "Embedding-0-2"));
    assert_non_null(strstr(text, "Embedding-3"));
    free(text);
    bg_graph_destroy(graph);
}

/* Pieces are on the devices that the splits give, even if device 0 has no pieces. */
static void test_devices(void **state)
{
    const bg_split_placement placement = {(int64_t[]){0, 3, 1, 0}, 4};
    const bg_type type = bg_vector(BG_INT32, SAMPLES);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    char *text = NULL;
    (void)state;

    options.execution.strategy = BG_STRATEGY_PIPELINED;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    bg_graph_output(graph, "y",
                    bg_serialized_embedding_layer(graph, "cut", bg_graph_input(graph, "ids", &type), ROWS, WIDTH, -1,
                                                  BG_FLOAT32, 0, &placement));
    if (bg_plan_create_inference(graph, &options, &plan, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_plan_print_placement(plan, &text, NULL), BG_OK);
    assert_string_equal(text, "block Embedding-0-2: stage 0, device 1\nblock Embedding-3: stage 1, device 2\n");
    free(text);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* More pieces than one op can join, by rows and by columns, give the plain layer's results in the same order. */
static void test_many_pieces(void **state)
{
    enum { ROW_COUNT = 240, COLUMNS = 240 };
    static const struct {
        bg_serialize_mode mode;
        uint32_t factor;
        bool is_split;
    } cases[] = {{BG_SERIALIZE_INPUT_CHANNELS, 60, false},
                 {BG_SERIALIZE_INPUT_CHANNELS, 240, false},
                 {BG_SERIALIZE_OUTPUT_CHANNELS, 80, false},
                 {BG_SERIALIZE_OUTPUT_CHANNELS, 120, true}};
    const bg_type type = bg_matrix(BG_FLOAT32, ROW_COUNT, WIDTH), weight_type = bg_matrix(BG_FLOAT32, COLUMNS, WIDTH);
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = NULL;
        bgi_test_interpreter it;
        float weight[COLUMNS * WIDTH];
        void *parts[ROW_COUNT];
        bg_value x, plain, y;
        bg_error error = {0};
        assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
        x = bg_graph_input(graph, "x", &type);
        plain = bg_linear_layer(graph, "plain", x, COLUMNS, false);
        y = cases[i].is_split
                ? bg_split_projection_layer(graph, "cut", x, COLUMNS, false, cases[i].mode, cases[i].factor, NULL)
                : bg_serialized_linear_layer(graph, "cut", x, COLUMNS, false, cases[i].mode, cases[i].factor);
        if (bg_graph_check(graph, &error) != BG_OK)
            fail_msg("%s", error.message);
        bgi_test_interpreter_init(&it, graph);
        fill(weight, COLUMNS * WIDTH, 1);
        memcpy(bgi_test_data(&it, bg_graph_find_variable(graph, "plain.weight")), weight, sizeof weight);
        for (uint32_t k = 0; cases[i].is_split && k < cases[i].factor; k++)
            parts[k] = bgi_test_data(
                &it, piece_of(graph, "cut.split_linear_layers.%u.weight", k, cases[i].factor, "cut.weight"));
        if (cases[i].is_split)
            assert_int_equal(bg_serialized_weight_cut(weight, &weight_type, 0, cases[i].factor, parts, NULL), BG_OK);
        else
            memcpy(bgi_test_data(&it, bg_graph_find_variable(graph, "cut.weight")), weight, sizeof weight);
        fill(bgi_test_data(&it, x), ROW_COUNT * WIDTH, 3);
        bgi_test_interpret(&it);
        expect_close(bgi_test_data(&it, y), bgi_test_data(&it, plain), ROW_COUNT * COLUMNS, 0.0, "y");
        bgi_test_interpreter_clear(&it);
        bg_graph_destroy(graph);
    }
}

/* In 16 bits results have the plain layer's type; lookups in pieces and additions of biases use this type. */
static void test_16_bits(void **state)
{
    const bg_type ids_type = bg_vector(BG_INT32, SAMPLES), type = bg_matrix(BG_BFLOAT16, SAMPLES, WIDTH);
    double x[SAMPLES * WIDTH], table[ROWS * WIDTH], weight[OUT * WIDTH], bias[OUT], ids[SAMPLES] = {0, 11, 5, 7, 3, 5};
    double found[SAMPLES * OUT], wanted[SAMPLES * OUT];
    bg_value x_value, ids_value, plain, y, plain_rows, rows;
    bgi_test_interpreter it;
    bg_graph *graph = NULL;
    (void)state;

    for (int i = 0; i < ROWS * WIDTH; i++)
        table[i] = (double)number((uint32_t)i);
    for (int i = 0; i < OUT * WIDTH; i++)
        weight[i] = i % 3 == 0 ? 1.0 : 0.0; /* sums that fit in 16 bits */
    for (int i = 0; i < SAMPLES * WIDTH; i++)
        x[i] = i % 4;
    for (int i = 0; i < OUT; i++)
        bias[i] = 8.0 * i;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    ids_value = bg_graph_input(graph, "ids", &ids_type);
    x_value = bg_graph_input(graph, "x", &type);
    plain_rows = bg_embedding_layer(graph, "rows", ids_value, ROWS, WIDTH, -1, BG_BFLOAT16);
    rows = bg_serialized_embedding_layer(graph, "cut_rows", ids_value, ROWS, WIDTH, -1, BG_BFLOAT16, 2, NULL);
    plain = bg_linear_layer(graph, "plain", x_value, OUT, true);
    y = bg_split_projection_layer(graph, "cut", x_value, OUT, true, BG_SERIALIZE_OUTPUT_CHANNELS, 2, NULL);
    assert_int_equal(bg_graph_type(graph, rows).dtype, BG_BFLOAT16);
    assert_int_equal(bg_graph_type(graph, y).dtype, BG_BFLOAT16);
    bgi_test_interpreter_init(&it, graph);
    bgi_test_set(&it, ids_value, ids);
    bgi_test_set(&it, x_value, x);
    bgi_test_set(&it, bg_graph_find_variable(graph, "rows.weight"), table);
    bgi_test_set(&it, bg_graph_find_variable(graph, "plain.weight"), weight);
    bgi_test_set(&it, bg_graph_find_variable(graph, "plain.bias"), bias);
    bgi_test_set(&it, bg_graph_find_variable(graph, "cut.bias"), bias);
    for (uint32_t k = 0; k < 2; k++) {
        bgi_test_set(&it, piece_of(graph, "cut_rows.split_embeddings.%u.weight", k, 2, NULL),
                     table + k * (ROWS * WIDTH / 2));
        bgi_test_set(&it, piece_of(graph, "cut.split_linear_layers.%u.weight", k, 2, NULL),
                     weight + k * (OUT * WIDTH / 2));
    }
    bgi_test_interpret(&it);
    bgi_test_get(&it, plain_rows, wanted);
    bgi_test_get(&it, rows, found);
    assert_memory_equal(found, wanted, SAMPLES * WIDTH * sizeof found[0]);
    bgi_test_get(&it, plain, wanted);
    bgi_test_get(&it, y, found);
    assert_memory_equal(found, wanted, sizeof found);
    assert_true(wanted[OUT - 1] >= bias[OUT - 1]);
    bgi_test_interpreter_clear(&it);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding),        cmocka_unit_test(test_serialized_linear),
        cmocka_unit_test(test_split_projection), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_places),           cmocka_unit_test(test_devices),
        cmocka_unit_test(test_many_pieces),      cmocka_unit_test(test_16_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
