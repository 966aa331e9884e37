/*
 * test_embedding.c: compares embeddings with PyTorch and central differences, and tests ids outside the table and error
 * messages.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "kernels/embedding/attributes.h"
#include "ops/ops.h"
#include "support/interpret.h"
#include "support/op_case.h"

static void test_oracle(void **state)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/ops_a.txt");

    (void)state;
    for (int i = 0; i < 2; i++) {
        const bgi_embedding_attributes attributes = {.padding_index = i == 0 ? -1 : 2};
        const bgi_test_op_case test = {.name = i == 0 ? "embedding_plain" : "embedding_padding",
                                       .op_type = &bgi_op_embedding,
                                       .attributes = &attributes,
                                       .inputs = {"table", "ids"},
                                       .outputs = {"y"},
                                       .integers = "ids",
                                       .integer_dtype = BG_INT32};

        bgi_test_op_case_run_all(oracle, &test, true);
        /* The padding row has a derivative, which the rule omits on purpose. */
        if (i == 0)
            bgi_test_op_case_check_gradient(oracle, &test);
    }
    bgi_test_oracle_close(oracle);
}

/* With 3 rows, ids -1 and 3 give zeros and no gradient, at any position among repeated ids; the width is larger than
 * the kernel sums in one pass. */
static void test_ids_outside(void **state)
{
    enum { WIDTH = 130, IDS = 6, ROWS = 3 };
    const int32_t ids[IDS] = {1, -1, 1, 3, 0, INT32_MIN};
    const double uses[ROWS] = {1, 2, 0};
    const bgi_embedding_backward_attributes attributes = {{.padding_index = -1}, bg_matrix(BG_FLOAT32, ROWS, WIDTH)};
    const bg_type ids_type = bg_vector(BG_INT32, IDS);
    double table_values[ROWS * WIDTH], y_values[IDS * WIDTH], dy_values[IDS * WIDTH], dtable_values[ROWS * WIDTH];
    bgi_test_interpreter interpreter;
    bg_value table, id, y, dy, dtable;
    bg_graph *graph = NULL;
    bg_type y_type;

    (void)state;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    table = bg_graph_parameter(graph, "table", &attributes.result, NULL);
    id = bg_graph_input(graph, "ids", &ids_type);
    y = bg_embedding(graph, "embedding", table, id, -1);
    y_type = bg_graph_type(graph, y);
    dy = bg_graph_input(graph, "dy", &y_type);
    dtable = bg_graph_add(graph, &bgi_op_embedding_backward, NULL, (const bg_value[]){dy, id}, 2, &attributes, NULL);
    bgi_test_interpreter_init(&interpreter, graph);
    for (int i = 0; i < ROWS * WIDTH; i++)
        table_values[i] = i + 1;
    for (int i = 0; i < IDS * WIDTH; i++)
        dy_values[i] = i % WIDTH;
    bgi_test_set(&interpreter, table, table_values);
    bgi_test_set(&interpreter, dy, dy_values);
    memcpy(bgi_test_data(&interpreter, id), ids, sizeof ids);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, y, y_values);
    bgi_test_get(&interpreter, dtable, dtable_values);
    for (int i = 0; i < IDS * WIDTH; i++) {
        const int32_t row = ids[i / WIDTH];

        assert_true(y_values[i] == (row < 0 || row >= ROWS ? 0.0 : table_values[row * WIDTH + i % WIDTH]));
    }
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(dtable_values[i] == uses[i / WIDTH] * (i % WIDTH));
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

static void test_messages(void **state)
{
    const bg_type good[] = {bg_matrix(BG_FLOAT32, 7, 4), bg_matrix(BG_INT32, 2, 3)};
    const bg_type wrong_ids[] = {good[0], bg_matrix(BG_FLOAT32, 2, 3)};
    const bg_type wrong_table[] = {bg_vector(BG_FLOAT32, 7), good[1]};
    const int64_t ones[] = {1, 1, 1, 1, 1, 1};
    const bg_type deep[] = {good[0], bg_type_make(BG_INT32, 6, ones)};
    const bgi_embedding_attributes plain = {.padding_index = -1}, beyond = {.padding_index = 7},
                                   below = {.padding_index = -2};

    (void)state;
    bgi_test_op_refuses(&bgi_op_embedding, &plain, wrong_ids, 2, BG_ERROR_SHAPE,
                        (const char *const[]){"ids is float32[2,3]", "int32", NULL});
    bgi_test_op_refuses(&bgi_op_embedding, &plain, wrong_table, 2, BG_ERROR_SHAPE,
                        (const char *const[]){"table is float32[7]", "[V,H]", NULL});
    bgi_test_op_refuses(&bgi_op_embedding, &plain, deep, 2, BG_ERROR_SHAPE,
                        (const char *const[]){"int32[1,1,1,1,1,1]", "at most 5", NULL});
    bgi_test_op_refuses(&bgi_op_embedding, &beyond, good, 2, BG_ERROR_INVALID,
                        (const char *const[]){"padding_index is 7", "-1", "float32[7,4]", NULL});
    bgi_test_op_refuses(&bgi_op_embedding, &below, good, 2, BG_ERROR_INVALID,
                        (const char *const[]){"padding_index is -2", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_ids_outside),
        cmocka_unit_test(test_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
