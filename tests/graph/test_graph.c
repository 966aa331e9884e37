/*
 * test_graph.c: builds graphs of toy ops.
 */
#include "graph/toy_ops.h"

#include <stdio.h>

static void test_values_have_types_and_names(void **state)
{
    bg_graph *graph = toy_graph();
    const bg_value x = toy_input(graph, "x"), w = toy_variable(graph, "w");
    const toy_sum_attributes with_note = {1};
    bg_value outputs[2], y;
    bg_type type;

    (void)state;
    y = bg_graph_add(graph, &toy_sum, "first", (bg_value[]){x, w}, 2, &with_note, outputs);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    assert_int_equal(y.id, outputs[0].id);
    assert_string_equal(bg_graph_name(graph, y), "first");
    assert_string_equal(bg_graph_name(graph, outputs[1]), "first.1");
    type = bg_graph_type(graph, outputs[1]);
    assert_int_equal(type.rank, 0);
    assert_string_equal(bg_graph_name(graph, toy_add(graph, NULL, x, w)), "sum_1");
    assert_int_equal(bg_graph_op_count(graph), 2);
    assert_string_equal(bg_graph_name(graph, (bg_value){0}), "");
    assert_int_equal(bg_graph_type(graph, (bg_value){999}).dtype, BG_DTYPE_NONE);
    bg_graph_destroy(graph);
    bg_graph_destroy(NULL);
}

static void test_absent_operands(void **state)
{
    bg_graph *graph = toy_graph();
    const bg_value x = toy_input(graph, "x");
    bg_value outputs[2] = {{77}, {77}};
    const toy_sum_attributes plain = {0};

    (void)state;
    /* A trailing null input is absent, and an output without a type from the shape rule is null. */
    bg_graph_add(graph, &toy_sum, NULL, (bg_value[]){x, {0}}, 2, &plain, outputs);
    assert_int_equal(bg_graph_check(graph, NULL), BG_OK);
    assert_int_equal(graph->ops[0].input_count, 1);
    assert_int_equal(graph->ops[0].output_count, 1);
    assert_true(bg_value_is_null(outputs[1]));
    bg_graph_add(graph, &toy_sum, "hole", (bg_value[]){{0}, x}, 2, &plain, outputs);
    toy_expect_error(graph, BG_ERROR_INVALID, "sum `hole`: operand 0 is not a value of this graph");
    bg_graph_destroy(graph);
}

static void test_first_error_stays(void **state)
{
    bg_graph *graph = toy_graph();
    const bg_type other = bg_vector(BG_FLOAT32, 4);
    const bg_value x = toy_input(graph, "x"), z = bg_graph_parameter(graph, "z", &other, NULL);

    (void)state;
    assert_true(bg_value_is_null(toy_add(graph, "bad", x, z)));
    assert_true(bg_value_is_null(toy_add(graph, "good", x, x)));
    assert_true(bg_value_is_null(toy_input(graph, "y")));
    bg_graph_output(graph, "o", x);
    bg_block_end(graph);
    bg_graph_fail(graph, BG_ERROR_INVALID, "later");
    toy_expect_error(graph, BG_ERROR_SHAPE, "sum `bad`: float32[2,3] and float32[4] cannot be added");
    assert_int_equal(bg_graph_op_count(graph), 0);
    bg_graph_destroy(graph);
}

static const float zeros[6];

static void add_wrong_input_count(bg_graph *g, bg_value x)
{
    bg_graph_add(g, &toy_view, "v", (bg_value[]){x, x}, 2, NULL, NULL);
}
static void add_too_many_operands(bg_graph *g, bg_value x)
{
    bg_op_type type = toy_view;
    bg_value many[64];

    for (int i = 0; i < 64; i++)
        many[i] = x;
    type.maximum_inputs = 64;
    bg_graph_add(g, &type, "v", many, 64, NULL, NULL);
}
static void add_without_attributes(bg_graph *g, bg_value x)
{
    bg_graph_add(g, &toy_sum, "s", &x, 1, NULL, NULL);
}
static void add_unexpected_attributes(bg_graph *g, bg_value x)
{
    bg_graph_add(g, &toy_view, "v", &x, 1, &(toy_sum_attributes){0}, NULL);
}
static void add_untyped_result(bg_graph *g, bg_value x)
{
    bg_op_type type = toy_view;

    type.alias_input = BG_NO_OPERAND;
    type.infer = toy_infer_nothing;
    bg_graph_add(g, &type, "v", &x, 1, NULL, NULL);
}
static void add_write_of_input(bg_graph *g, bg_value x)
{
    bg_graph_add(g, &toy_tick, "t", (bg_value[]){x, x}, 2, NULL, NULL);
}
static void add_write_of_result(bg_graph *g, bg_value x)
{
    bg_graph_add(g, &toy_tick, "t", (bg_value[]){toy_add(g, NULL, x, x), x}, 2, NULL, NULL);
}
static void add_foreign_value(bg_graph *g, bg_value x)
{
    toy_add(g, "s", x, (bg_value){1000});
}
static void add_input_twice(bg_graph *g, bg_value x)
{
    (void)x;
    toy_input(g, "x");
}
static void add_variable_twice(bg_graph *g, bg_value x)
{
    (void)x;
    toy_variable(g, "w");
    toy_variable(g, "w");
}
static void add_nameless_input(bg_graph *g, bg_value x)
{
    (void)x;
    toy_input(g, NULL);
}
static void add_bad_type(bg_graph *g, bg_value x)
{
    const bg_type type = bg_vector(BG_FLOAT32, 0);
    (void)x;
    bg_graph_parameter(g, "p", &type, NULL);
}
static void add_constant_without_data(bg_graph *g, bg_value x)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    (void)x;
    bg_graph_constant(g, "c", &type, NULL);
}
static void add_output_twice(bg_graph *g, bg_value x)
{
    bg_graph_output(g, "o", x);
    bg_graph_output(g, "o", x);
}
static void add_null_output(bg_graph *g, bg_value x)
{
    (void)x;
    bg_graph_output(g, "o", (bg_value){0});
}
static void add_nameless_output(bg_graph *g, bg_value x)
{
    bg_graph_output(g, NULL, x);
}
static void add_alias_of_other_size(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_sum;
    type.infer = toy_infer_view;
    type.alias_input = 0;
    const toy_sum_attributes attributes = {0};
    /* The shape rule gives the result as many elements as operand 0, but the alias names operand 1, which is
     * smaller. */
    type.alias_input = 1;
    const bg_type small = bg_vector(BG_FLOAT32, 2);
    bg_graph_add(g, &type, "a", (bg_value[]){x, bg_graph_constant(g, "c", &small, zeros)}, 2, &attributes, NULL);
}
static void add_alias_of_absent(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    const toy_sum_attributes attributes = {0};
    type = toy_sum;
    type.alias_input = 1;
    bg_graph_add(g, &type, "a", &x, 1, &attributes, NULL);
}

/* Adds an op without a name; the message uses the name that the op would have got. */
static void add_nameless_op(bg_graph *g, bg_value x)
{
    bg_graph_add(g, &toy_view, NULL, (bg_value[]){toy_add(g, "first", x, x), x}, 2, NULL, NULL);
}
static void add_without_operands(bg_graph *g, bg_value x)
{
    (void)x;
    bg_graph_add(g, &toy_view, NULL, NULL, 1, NULL, NULL);
}
static void add_no_type(bg_graph *g, bg_value x)
{
    bg_graph_add(g, NULL, "s", &x, 1, NULL, &(bg_value){0});
}
static void add_nameless_type(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_view;
    type.name = NULL;
    bg_graph_add(g, &type, "s", &x, 1, NULL, NULL);
}
static void add_type_without_rule(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_view;
    type.infer = NULL;
    bg_graph_add(g, &type, NULL, &x, 1, NULL, NULL);
}
static void add_type_without_kernel(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_view;
    type.kernel = NULL;
    bg_graph_add(g, &type, "s", &x, 1, NULL, NULL);
}
static void add_type_of_no_operands(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_view;
    type.minimum_inputs = 2;
    bg_graph_add(g, &type, "s", &x, 1, NULL, NULL);
}
/* Adds an alias without an output; without BG_OP_TYPE_DEFAULTS the alias is operand 0. */
static void add_alias_without_output(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_view;
    type.output_count = 0;
    bg_graph_add(g, &type, "s", &x, 1, NULL, NULL);
}
static void add_alias_and_reuse(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_view;
    type.alias_input = type.reuse_input = 0;
    bg_graph_add(g, &type, "s", &x, 1, NULL, NULL);
}
static void add_alias_of_nothing(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_view;
    type.alias_input = type.maximum_inputs;
    bg_graph_add(g, &type, "s", &x, 1, NULL, NULL);
}
static void add_reuse_of_nothing(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_view;
    type.alias_input = BG_NO_OPERAND;
    type.reuse_input = type.maximum_inputs;
    bg_graph_add(g, &type, "s", &x, 1, NULL, NULL);
}
static void add_loss_that_is_its_weight(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_view;
    type.weight_output = 0;
    bg_graph_add(g, &type, "s", &x, 1, NULL, NULL);
}
static void add_weight_of_nothing(bg_graph *g, bg_value x)
{
    static bg_op_type type;
    type = toy_view;
    type.weight_output = type.output_count;
    bg_graph_add(g, &type, "s", &x, 1, NULL, NULL);
}
static void add_half_accumulating(bg_graph *g, bg_value x)
{
    static bg_op_type type, accumulating;
    type = accumulating = toy_view;
    accumulating.kernel = NULL;
    type.accumulating = &accumulating;
    bg_graph_add(g, &type, "s", &x, 1, NULL, NULL);
}
static void add_nameless_variable(bg_graph *g, bg_value x)
{
    (void)x;
    toy_variable(g, NULL);
}
static void add_untyped_variable(bg_graph *g, bg_value x)
{
    (void)x;
    bg_graph_variable(g, "w", NULL, BG_ROLE_PARAMETER, NULL);
}
static void add_nameless_constant(bg_graph *g, bg_value x)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    (void)x;
    bg_graph_constant(g, NULL, &type, NULL);
}
static void add_nameless_buffer(bg_graph *g, bg_value x)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    (void)x;
    bg_graph_remote_buffer(g, NULL, &type, 3);
}
static void add_untyped_buffer(bg_graph *g, bg_value x)
{
    (void)x;
    bg_graph_remote_buffer(g, "b", NULL, 3);
}
static void add_piece_of_nothing(bg_graph *g, bg_value x)
{
    (void)x;
    bg_graph_sharded_parameter(g, "w", NULL, NULL);
}
static void add_section_of_nothing(bg_graph *g, bg_value x)
{
    (void)x;
    bg_graph_section_parameter(g, "w", NULL, NULL);
}

static void add_variable_of_no_role(bg_graph *graph, bg_value x)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);

    (void)x;
    bg_graph_variable(graph, "r", &type, (bg_variable_role)(BG_ROLE_TRAINING + 1), NULL);
}

static void add_variable_of_no_initializer(bg_graph *graph, bg_value x)
{
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    const bg_initializer initializer = {.kind = (bg_initializer_kind)(BG_INITIALIZE_SPARSE + 1)};

    (void)x;
    bg_graph_variable(graph, "r", &type, BG_ROLE_PARAMETER, &initializer);
}

static void test_errors(void **state)
{
    static const struct {
        void (*add)(bg_graph *, bg_value);
        bg_status status;
        const char *part;
    } cases[] = {
        {add_wrong_input_count, BG_ERROR_INVALID, "view `v`: 2 operands are given; the op takes 1 to 1"},
        {add_too_many_operands, BG_ERROR_INVALID,
         "view `v`: 64 operands are given, and the op has 1 outputs; both together can be at most 64"},
        {add_without_attributes, BG_ERROR_INVALID, "attributes is NULL"},
        {add_unexpected_attributes, BG_ERROR_INVALID,
         "view `v`: attributes are given, but `attributes_bytes` of the op type is 0"},
        {add_untyped_result, BG_ERROR_INVALID, "view `v`: the shape rule returned BG_OK but set no type for output 0"},
        {add_nameless_op, BG_ERROR_INVALID, "view `view_1`: 2 operands are given; the op takes 1 to 1"},
        {add_without_operands, BG_ERROR_INVALID, "view `view_0`: `inputs` is NULL; it must hold the 1 operands"},
        {add_no_type, BG_ERROR_INVALID, "op `s`: the op type is NULL"},
        {add_nameless_type, BG_ERROR_INVALID, "op `s`: the op type has no name; set `name`"},
        {add_type_without_rule, BG_ERROR_INVALID, "view `view_0`: the op type has no shape rule; set `infer`"},
        {add_type_without_kernel, BG_ERROR_INVALID, "view `s`: the op type has no kernel; set `kernel`"},
        {add_type_of_no_operands, BG_ERROR_INVALID, "`minimum_inputs` must be at most `maximum_inputs`"},
        {add_alias_without_output, BG_ERROR_INVALID, "view `s`: the op type has an alias of an operand but no output"},
        {add_alias_and_reuse, BG_ERROR_INVALID, "start from BG_OP_TYPE_DEFAULTS, which sets both to BG_NO_OPERAND"},
        {add_alias_of_nothing, BG_ERROR_INVALID, "an alias of an operand that it does not have"},
        {add_reuse_of_nothing, BG_ERROR_INVALID, "writes output 0 over an operand that it does not have"},
        {add_loss_that_is_its_weight, BG_ERROR_INVALID, "`weight_output`) in output 0, which is the loss"},
        {add_weight_of_nothing, BG_ERROR_INVALID, "or in an output that it does not have"},
        {add_half_accumulating, BG_ERROR_INVALID, "the op type's accumulating type must have a name, a shape rule and"},
        {add_nameless_variable, BG_ERROR_INVALID, "variable without a name"},
        {add_untyped_variable, BG_ERROR_INVALID, "variable without a type"},
        {add_nameless_constant, BG_ERROR_INVALID, "constant without a name"},
        {add_nameless_buffer, BG_ERROR_INVALID, "remote buffer without a name"},
        {add_untyped_buffer, BG_ERROR_INVALID, "remote buffer without a type"},
        {add_piece_of_nothing, BG_ERROR_INVALID, "sharded variable without a shard"},
        {add_section_of_nothing, BG_ERROR_INVALID, "section parameter without a section"},
        {add_write_of_input, BG_ERROR_INVALID, "operand 0 (`x`) is changed in place, so it must be a variable"},
        {add_write_of_result, BG_ERROR_INVALID, "must be a variable"},
        {add_foreign_value, BG_ERROR_INVALID, "operand 1 is not a value of this graph"},
        {add_input_twice, BG_ERROR_INVALID, "input `x` already exists"},
        {add_variable_twice, BG_ERROR_INVALID, "variable `w` already exists"},
        {add_variable_of_no_role, BG_ERROR_INVALID, "variable `r`: role 7 is not one of bg_variable_role"},
        {add_variable_of_no_initializer, BG_ERROR_INVALID, "variable `r`: initializer 8 is not one of"},
        {add_nameless_input, BG_ERROR_INVALID, "input without a name"},
        {add_bad_type, BG_ERROR_SHAPE, "variable `p`"},
        {add_constant_without_data, BG_ERROR_INVALID, "constant `c` has no data"},
        {add_output_twice, BG_ERROR_INVALID, "output `o` already exists"},
        {add_null_output, BG_ERROR_INVALID, "output `o` is not a value"},
        {add_nameless_output, BG_ERROR_INVALID, "output without a name"},
        {add_alias_of_other_size, BG_ERROR_SHAPE, "is an alias of operand 1 but has 24 bytes instead of 8"},
        {add_alias_of_absent, BG_ERROR_INVALID, "alias of operand 1, which is absent"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bg_graph *graph = toy_graph();
        cases[i].add(graph, toy_input(graph, "x"));
        toy_expect_error(graph, cases[i].status, cases[i].part);
        bg_graph_destroy(graph);
    }
}

static void test_many_variables_are_found(void **state)
{
    bg_graph *graph = toy_graph();
    char name[32];

    (void)state;
    assert_true(bg_value_is_null(bg_graph_find_variable(graph, "v0")));
    for (uint32_t i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "v%u", i);
        assert_int_equal(toy_variable(graph, name).id, i + 1);
    }
    for (uint32_t i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "v%u", i);
        assert_int_equal(bg_graph_find_variable(graph, name).id, i + 1);
        assert_int_equal(graph->values[i + 1].variable, i);
    }
    assert_true(bg_value_is_null(bg_graph_find_variable(graph, "v3000")));
    assert_true(bg_value_is_null(bg_graph_find_variable(graph, NULL)));
    bg_graph_destroy(graph);
}

static void test_data_is_copied(void **state)
{
    bg_graph *graph = toy_graph();
    const bg_type type = bg_vector(BG_FLOAT32, 2);
    float data[2] = {1, 2};
    char name[] = "c";
    bg_value c;

    (void)state;
    c = bg_graph_constant(graph, name, &type, data);
    data[0] = 9;
    name[0] = 'z';
    assert_true(((const float *)graph->values[c.id].data)[0] == 1.0f);
    assert_string_equal(bg_graph_name(graph, c), "c");
    assert_int_equal(bg_graph_next_random_id(graph), 0);
    assert_int_equal(bg_graph_next_random_id(graph), 1);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_have_types_and_names), cmocka_unit_test(test_absent_operands),
        cmocka_unit_test(test_first_error_stays),           cmocka_unit_test(test_errors),
        cmocka_unit_test(test_many_variables_are_found),    cmocka_unit_test(test_data_is_copied),
    };

    return cmocka_run_group_tests_name("graph/graph", tests, NULL, NULL);
}
