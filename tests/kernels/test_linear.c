/*
 * test_linear.c: compares matrix products of every layout with the reference.
 */
#include "kernels/kernel_case.h"
#include "kernels/linear/attributes.h"

static kernel_case begin_case(bgi_kernel_id id, const void *attributes, bg_dtype dtype, int64_t terms)
{
    return (kernel_case){
        .id = id, .attributes = attributes, .relative = 2 * unit_of(dtype), .absolute = sum_tolerance((double)terms)};
}

static void finish_case(kernel_case *c)
{
    assert_int_equal(case_check(c, 0), count_isas());
    case_clear(c);
}

static void check_linear(random_state *random, bg_dtype dtype, int64_t rows, int64_t in, int64_t out, bool bias)
{
    const bgi_linear_backward_attributes attributes = {bias};
    kernel_case forward = begin_case(BGI_KERNEL_LINEAR, NULL, dtype, in);
    kernel_case backward = begin_case(BGI_KERNEL_LINEAR_BACKWARD_INPUT, NULL, dtype, out);
    kernel_case weights = begin_case(BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS, &attributes, dtype, rows);

    case_input(&forward, bg_matrix(dtype, rows, in), random, -1, 1);
    case_input(&forward, bg_matrix(dtype, out, in), random, -1, 1);
    if (bias)
        case_input(&forward, bg_vector(dtype, out), random, -1, 1);
    case_output(&forward, bg_matrix(dtype, rows, out));
    finish_case(&forward);

    case_input(&backward, bg_matrix(dtype, rows, out), random, -1, 1);
    case_input(&backward, bg_matrix(dtype, out, in), random, -1, 1);
    case_output(&backward, bg_matrix(dtype, rows, in));
    finish_case(&backward);

    case_input(&weights, bg_matrix(dtype, rows, out), random, -1, 1);
    case_input(&weights, bg_matrix(dtype, rows, in), random, -1, 1);
    case_output(&weights, bg_matrix(dtype, out, in));
    if (bias)
        case_output(&weights, bg_vector(dtype, out));
    case_check_accumulating(&weights, random);
    finish_case(&weights);
}

static void test_linear_shapes(void **state)
{
    random_state random = {1};
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 1000 : 60;

    (void)state;
    for (int i = 0; i < rounds; i++)
        check_linear(&random, draw_float(&random), draw_between(&random, 1, 41), draw_between(&random, 1, 70),
                     draw_between(&random, 1, 70), draw_between(&random, 0, 1));
}

/* Products have several blocks of rows, panels and depth. */
static void test_linear_blocks(void **state)
{
    random_state random = {2};

    (void)state;
    check_linear(&random, BG_FLOAT32, 40, 320, 256, true);
    check_linear(&random, BG_FLOAT32, 1, 400, 130, true);
    check_linear(&random, BG_FLOAT32, 300, 797, 67, true);
    check_linear(&random, BG_BFLOAT16, 270, 400, 150, true);
    check_linear(&random, BG_FLOAT16, 270, 400, 150, true);
    check_linear(&random, BG_FLOAT32, 21, 150, 600, false);
}

static void check_matmul(random_state *random, const bg_type *a, const bg_type *b, const bg_type *y,
                         bgi_matmul_attributes attributes)
{
    const int64_t k = a->dims[attributes.transpose_a ? a->rank - 2 : a->rank - 1];
    kernel_case c = begin_case(BGI_KERNEL_MATMUL, &attributes, a->dtype, k);

    case_input(&c, *a, random, -1, 1);
    case_input(&c, *b, random, -1, 1);
    case_output(&c, *y);
    case_check_accumulating(&c, random);
    finish_case(&c);
}

static bg_type make_operand(bg_dtype dtype, const int64_t *batch, uint32_t batch_rank, int64_t rows, int64_t columns,
                            bool transpose)
{
    int64_t dims[BG_MAX_RANK];

    for (uint32_t i = 0; i < batch_rank; i++)
        dims[i] = batch[i];
    dims[batch_rank] = transpose ? columns : rows;
    dims[batch_rank + 1] = transpose ? rows : columns;
    return bg_type_make(dtype, batch_rank + 2, dims);
}

/* The leading dims of either factor may broadcast. */
static void test_matmul_shapes(void **state)
{
    random_state random = {3};
    const int rounds = getenv("BRIGADE_TEST_ALL") ? 1000 : 80;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        const bg_dtype dtype = draw_float(&random);
        const bgi_matmul_attributes attributes = {draw_between(&random, 0, 1), draw_between(&random, 0, 1)};
        const int64_t m = draw_between(&random, 1, 30), n = draw_between(&random, 1, 70),
                      k = draw_between(&random, 1, 50);
        const int64_t full[2] = {draw_between(&random, 1, 3), draw_between(&random, 1, 4)};
        const int64_t part[2] = {draw_between(&random, 0, 1) ? full[0] : 1, draw_between(&random, 0, 1) ? full[1] : 1};
        const uint32_t drop = (uint32_t)draw_between(&random, 0, 2); /* leading dims that one operand lacks */
        const bool a_is_full = draw_between(&random, 0, 1);
        const bg_type a =
            make_operand(dtype, a_is_full ? full : part + drop, a_is_full ? 2 : 2 - drop, m, k, attributes.transpose_a);
        const bg_type b =
            make_operand(dtype, a_is_full ? part + drop : full, a_is_full ? 2 - drop : 2, k, n, attributes.transpose_b);
        const bg_type y = make_operand(dtype, full, 2, m, n, false);

        check_matmul(&random, &a, &b, &y, attributes);
    }
}

/* Products have several partial blocks of rows, of columns and of depth. */
static void test_large_matmuls(void **state)
{
    random_state random = {7};

    (void)state;
    for (int i = 0; i < (getenv("BRIGADE_TEST_ALL") ? 8 : 4); i++) {
        const bgi_matmul_attributes attributes = {i % 2, i / 2 % 2};
        const int64_t m = i == 1 ? 270 : 75, n = 53, k = 523;
        const bg_type a = make_operand(BG_FLOAT32, NULL, 0, m, k, attributes.transpose_a);
        const bg_type b = make_operand(BG_FLOAT32, NULL, 0, k, n, attributes.transpose_b);
        const bg_type y = make_operand(BG_FLOAT32, NULL, 0, m, n, false);

        check_matmul(&random, &a, &b, &y, attributes);
    }
}

/* ---- partial sums in 16 bits ---- */

/* Returns whether results with float32 and with 16-bit partial sums have the same bits. */
static bool is_same_without(const kernel_case *c, bgi_isa isa)
{
    const uint32_t output = c->input_count;
    kernel_case plain = *c;
    void *rounded[CASE_OPERANDS], *wanted[CASE_OPERANDS];
    bool is_same;

    plain.partials = BG_FLOAT32;
    assert_true(case_run(c, isa, 0, rounded));
    assert_true(case_run(&plain, isa, 0, wanted));
    is_same = memcmp(rounded[output], wanted[output], bg_type_size_bytes(&c->types[output])) == 0;
    free_results(c, rounded);
    free_results(&plain, wanted);
    return is_same;
}

/* Checks that a product of K terms in each of the four kernels is bit-identical to the reference on every instruction
 * set. */
static void check_partials(random_state *random, bg_dtype dtype, int64_t k, bool transposed)
{
    const bgi_linear_backward_attributes no_bias = {false};
    const bgi_matmul_attributes layout = {transposed, !transposed};
    const int64_t m = 70, n = 53;
    kernel_case cases[] = {{.id = BGI_KERNEL_LINEAR},
                           {.id = BGI_KERNEL_LINEAR_BACKWARD_INPUT},
                           {.id = BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS, .attributes = &no_bias},
                           {.id = BGI_KERNEL_MATMUL, .attributes = &layout}};
    const bg_type types[][2] = {
        {bg_matrix(dtype, m, k), bg_matrix(dtype, n, k)},
        {bg_matrix(dtype, m, k), bg_matrix(dtype, k, n)},
        {bg_matrix(dtype, k, m), bg_matrix(dtype, k, n)},
        {make_operand(dtype, NULL, 0, m, k, transposed), make_operand(dtype, NULL, 0, k, n, !transposed)}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kernel_case *c = &cases[i];

        c->partials = i % 2 == 0 ? BG_BFLOAT16 : BG_FLOAT16; /* either one means the operands' type */
        case_input(c, types[i][0], random, -1, 1);
        case_input(c, types[i][1], random, -1, 1);
        if (c->id == BGI_KERNEL_LINEAR)
            case_input(c, bg_vector(dtype, n), random, -1, 1);
        case_output(c, bg_matrix(dtype, m, n));
        for (int isa = (int)REFERENCE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa))
            if (is_same_without(c, (bgi_isa)isa) != (dtype == BG_FLOAT32))
                fail_msg("%s, isa %d, %s, %lld terms: partial sums have no or a wrong effect", bgi_kernel_name(c->id),
                         isa, bg_dtype_name(dtype), (long long)k);
        if (dtype != BG_FLOAT32)
            finish_case(c);
        else
            case_clear(c);
    }
}

static void test_partials(void **state)
{
    random_state random = {4};

    (void)state;
    check_partials(&random, BG_BFLOAT16, 257, false);
    check_partials(&random, BG_BFLOAT16, 600, true);
    check_partials(&random, BG_BFLOAT16, 1111, false);
    check_partials(&random, BG_FLOAT16, 257, true);
    check_partials(&random, BG_FLOAT16, 600, false);
    check_partials(&random, BG_FLOAT16, 1111, true);
    check_partials(&random, BG_FLOAT32, 600, true);
}

/* ---- scratch ---- */

static size_t find_scratch(const bgi_kernel_request *request, bgi_isa isa)
{
    bg_kernel kernel;

    assert_true(bgi_cpu_select(request, isa, &kernel));
    return kernel.scratch_bytes;
}

/* The scratch shrinks step by step with the limit, down to one small part. Every case also checks that no bit changes.
 */
static void test_scratch_is_bounded(void **state)
{
    const bg_dtype dtypes[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT16};
    (void)state;

    for (int i = 0; i < 6; i++)
        for (int isa = BGI_ISA_PORTABLE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa)) {
            const bg_dtype dtype = dtypes[i % 3];
            const bg_type forward[] = {bg_matrix(dtype, 600, 512), bg_matrix(dtype, 700, 512),
                                       bg_matrix(dtype, 600, 700)};
            const bg_type weights[] = {bg_matrix(dtype, 600, 700), bg_matrix(dtype, 600, 512),
                                       bg_matrix(dtype, 700, 512)};
            const bgi_linear_backward_attributes attributes = {.bias = false};
            bgi_kernel_request request = {.id = i < 3 ? BGI_KERNEL_LINEAR : BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS,
                                          .types = i < 3 ? forward : weights,
                                          .input_count = 2,
                                          .output_count = 1,
                                          .attributes = i < 3 ? NULL : &attributes};
            const size_t whole = find_scratch(&request, (bgi_isa)isa);
            size_t least, before = whole;

            request.scratch_limit = 1;
            least = find_scratch(&request, (bgi_isa)isa);
            assert_true(least > 0 && least <= 512 * 1024 && whole > 8 * least);
            for (request.scratch_limit = whole; request.scratch_limit > least; request.scratch_limit /= 2) {
                const size_t found = find_scratch(&request, (bgi_isa)isa);
                assert_true(found <= before && (found <= request.scratch_limit || found == least));
                before = found;
            }
            request.scratch_limit = SIZE_MAX;
            assert_int_equal(find_scratch(&request, (bgi_isa)isa), whole);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear_shapes), cmocka_unit_test(test_linear_blocks),
                                       cmocka_unit_test(test_matmul_shapes), cmocka_unit_test(test_large_matmuls),
                                       cmocka_unit_test(test_partials),      cmocka_unit_test(test_scratch_is_bounded)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
