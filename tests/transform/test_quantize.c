/*
 * test_quantize.c: tests which matrices become 16-, 8- or 4-bit buffers, and which ops read them.
 */
#include "transform/small.h"

static bg_value parameter(bg_graph *graph, const char *name, int64_t rows, int64_t columns)
{
    const bg_type type = bg_matrix(BG_FLOAT32, rows, columns);
    const bg_initializer initializer = {BG_INITIALIZE_UNIFORM, -1, 1};

    return bg_graph_parameter(graph, name, &type, &initializer);
}

/* The graph has a table that is an embedding and a projection, a matrix [in, out] that is cast, and a linear layer with
 * a bias. */
static void test_text(void **state)
{
    bg_graph *graph = small_create(), *quantized = NULL;
    const bg_type ids = bg_vector(BG_INT32, 2), vector = bg_vector(BG_FLOAT32, 64);
    bg_value x, table, bias;

    (void)state;
    table = parameter(graph, "table", 100, 64);
    x = bg_embedding(graph, "rows", table, bg_graph_input(graph, "ids", &ids), -1);
    bias = bg_graph_parameter(graph, "bias", &vector, NULL);
    x = bg_linear(graph, "layer", x, parameter(graph, "w", 64, 64), bias);
    x = bg_cast(graph, NULL, x, BG_BFLOAT16);
    x = bg_matmul(graph, "mix", x, bg_cast(graph, NULL, parameter(graph, "m", 64, 64), BG_BFLOAT16), false, false);
    x = bg_linear(graph, "logits", bg_cast(graph, NULL, x, BG_FLOAT32), table, (bg_value){0});
    bg_graph_output(graph, "y", x);
    small_require(graph);
    assert_int_equal(bgi_quantize_graph(graph, BG_WEIGHTS_INT8, &quantized, NULL), BG_OK);
    small_expect_text(quantized, "input %ids int32[2]\n"
                                 "variable %bias float32[64]\n"
                                 "variable %table.int8 uint8[2,4352]\n"
                                 "variable %w.int8 uint8[1,4352]\n"
                                 "variable %m.int8 uint8[1,4352]\n"
                                 "%6 float32[2,64] = quantized_embedding(%table.int8, %ids)  # forward  `rows`\n"
                                 "%7 float32[2,64] = quantized_linear(%6, %w.int8)  # forward  `layer`\n"
                                 "%8 float32[2,64] = binary(%7, %bias)  # forward  `binary_2`\n"
                                 "%9 bfloat16[2,64] = cast(%8)  # forward  `cast_2`\n"
                                 "%10 bfloat16[2,64] = quantized_linear(%9, %m.int8)  # forward  `mix`\n"
                                 "%11 float32[2,64] = cast(%10)  # forward  `cast_5`\n"
                                 "%12 float32[2,100] = quantized_linear(%11, %table.int8)  # forward  `logits`\n"
                                 "output y = %12\n");
    bg_graph_destroy(quantized);
    bg_graph_destroy(graph);
}

/* Only reads through a cast to bfloat16 change: one matrix is also an embedding, one also a float32 product, and one is
 * cast to float16. */
static void test_casts(void **state)
{
    bg_graph *graph = small_create(), *quantized = NULL;
    const bg_type ids = bg_vector(BG_INT32, 2);
    bg_value x, table, m, h, half, y;

    (void)state;
    table = parameter(graph, "table", 100, 64);
    m = parameter(graph, "m", 64, 64);
    h = parameter(graph, "h", 64, 64);
    x = bg_embedding(graph, "rows", table, bg_graph_input(graph, "ids", &ids), -1);
    x = bg_linear(graph, "layer", x, m, (bg_value){0});
    y = bg_cast(graph, NULL, x, BG_FLOAT16);
    half = bg_cast(graph, NULL, h, BG_FLOAT16);
    y = bg_matmul(graph, "half", y, half, false, false);
    x = bg_cast(graph, NULL, x, BG_BFLOAT16);
    x = bg_linear(graph, "mix", x, bg_cast(graph, NULL, m, BG_BFLOAT16), (bg_value){0});
    x = bg_linear(graph, "logits", x, bg_cast(graph, NULL, table, BG_BFLOAT16), (bg_value){0});
    bg_graph_output(graph, "x", x);
    bg_graph_output(graph, "y", y);
    small_require(graph);
    assert_int_equal(bgi_quantize_graph(graph, BG_WEIGHTS_CAST, &quantized, NULL), BG_OK);
    small_expect_text(quantized, "variable %table float32[100,64]\n"
                                 "variable %m float32[64,64]\n"
                                 "variable %h float32[64,64]\n"
                                 "input %ids int32[2]\n"
                                 "variable %table.bfloat16 uint8[2,8192]\n"
                                 "variable %m.bfloat16 uint8[1,8192]\n"
                                 "%7 float32[2,64] = embedding(%table, %ids)  # forward  `rows`\n"
                                 "%8 float32[2,64] = linear(%7, %m)  # forward  `layer`\n"
                                 "%9 float16[2,64] = cast(%8)  # forward  `cast_2`\n"
                                 "%10 float16[64,64] = cast(%h)  # forward  `cast_3`\n"
                                 "%11 float16[2,64] = matmul(%9, %10)  # forward  `half`\n"
                                 "%12 bfloat16[2,64] = cast(%8)  # forward  `cast_5`\n"
                                 "%13 bfloat16[2,64] = quantized_linear(%12, %m.bfloat16)  # forward  `mix`\n"
                                 "%14 bfloat16[2,100] = quantized_linear(%13, %table.bfloat16)  # forward  `logits`\n"
                                 "output x = %14\n"
                                 "output y = %11\n");
    bg_graph_destroy(quantized);
    bg_graph_destroy(graph);
}

/* A graph without casts of matrices to bfloat16 does not change. */
static void test_no_casts(void **state)
{
    bg_graph *graph = small_create(), *quantized = NULL;
    const bg_type rows = bg_matrix(BG_FLOAT32, 3, 64);

    (void)state;
    bg_graph_output(
        graph, "y",
        bg_matmul(graph, NULL, bg_graph_input(graph, "x", &rows), parameter(graph, "w", 64, 64), false, false));
    small_require(graph);
    assert_int_equal(bgi_quantize_graph(graph, BG_WEIGHTS_CAST, &quantized, NULL), BG_OK);
    assert_null(quantized);
    bg_graph_destroy(graph);
}

/* ---- unchanged matrices ---- */

typedef enum refusal { PLAIN = 0, NO_PRODUCT, OTHER_READER, OUTPUT, BOTH_WAYS, SMALL, TRANSPOSED_A, BUFFER } refusal;

static bg_graph *build(refusal how)
{
    bg_graph *graph = small_create();
    const bg_type rows = bg_matrix(BG_FLOAT32, how == TRANSPOSED_A ? 64 : 3, how == TRANSPOSED_A ? 3 : 64);
    const bg_type square = bg_matrix(BG_FLOAT32, 64, 64), ids = bg_vector(BG_INT32, 2);
    const bg_value x = bg_graph_input(graph, "x", &rows);
    const bg_value w = how == SMALL    ? parameter(graph, "w", 8, 64)
                       : how == BUFFER ? bg_graph_variable(graph, "w", &square, BG_ROLE_BUFFER, NULL)
                                       : parameter(graph, "w", 64, 64);
    bg_value y = how == NO_PRODUCT ? bg_embedding(graph, NULL, w, bg_graph_input(graph, "ids", &ids), -1)
                                   : bg_matmul(graph, NULL, x, w, how == TRANSPOSED_A, how == SMALL);

    if (how == OTHER_READER)
        bg_graph_output(graph, "z", bg_relu(graph, w));
    if (how == OUTPUT)
        bg_graph_output(graph, "w", w);
    if (how == BOTH_WAYS)
        y = bg_matmul(graph, NULL, y, w, false, true);
    bg_graph_output(graph, "y", y);
    small_require(graph);
    return graph;
}

static void test_what_stays(void **state)
{
    (void)state;
    for (int how = PLAIN; how <= BUFFER; how++) {
        bg_graph *graph = build((refusal)how), *quantized = NULL;
        bg_error error = {0};
        const bg_status status = bgi_quantize_graph(graph, BG_WEIGHTS_INT4, &quantized, &error);

        if (how == PLAIN) {
            assert_int_equal(status, BG_OK);
            assert_false(bg_value_is_null(bg_graph_find_variable(quantized, "w.int4")));
        } else {
            small_expect(status, BG_ERROR_UNSUPPORTED, &error,
                         "weights_type is int4, but no product of the graph reads a float32 matrix");
        }
        bg_graph_destroy(quantized);
        bg_graph_destroy(graph);
    }
}

static void test_mesh(void **state)
{
    const bg_mesh mesh = {.data = 1, .tensor_1 = 2, .tensor_2 = 1};
    bg_graph *graph = small_create(), *quantized = NULL;
    bg_error error = {0};

    (void)state;
    bg_graph_set_mesh(graph, &mesh);
    bg_graph_output(graph, "y", small_linear(graph, NULL, small_input(graph, "x"), small_weight(graph, "w")));
    small_require(graph);
    small_expect(bgi_quantize_graph(graph, BG_WEIGHTS_INT8, &quantized, &error), BG_ERROR_UNSUPPORTED, &error,
                 "the graph's mesh has 2 x 1 tensor replicas");
    assert_int_equal(bgi_quantize_graph(graph, BG_WEIGHTS_CAST, &quantized, NULL), BG_OK);
    assert_null(quantized);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_casts),
                                       cmocka_unit_test(test_no_casts), cmocka_unit_test(test_what_stays),
                                       cmocka_unit_test(test_mesh)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
