/*
 * test_recurrent.c: compares recurrences and their gradients with the reference: any number of steps and samples,
 * widths around those of vectors and panels, both orders of time and samples, both directions.
 */
#include "kernels/kernel_case.h"
#include "kernels/recurrent/attributes.h"

static kernel_case begin_case(bgi_kernel_id id, const bgi_recurrent_attributes *attributes, bg_dtype dtype,
                              int64_t width, int64_t steps)
{
    return (kernel_case){.id = id,
                         .attributes = attributes,
                         .relative = dtype == BG_FLOAT32 ? 1e-4 : 1.0 / 32,
                         .absolute = dtype == BG_FLOAT32 ? (double)steps * sum_tolerance((double)width) : 3e-2};
}

/* Adds a copy of an operand of `from`, an input or a result, as an input of `to`. */
static void take(kernel_case *to, const kernel_case *from, void **results, uint32_t operand, random_state *random)
{
    const bg_type type = from->types[operand];

    memcpy(case_input(to, type, random, 0, 1), results[operand], bg_type_size_bytes(&type));
}

typedef enum kind { LSTM, GRU, RESET_FIRST, RNN, KINDS } kind;

/* Runs the forward, and the backward from the reference's own results. */
static void check(kind which, int64_t steps, int64_t samples, int64_t width, int round, bg_dtype dtype,
                  random_state *random)
{
    static const bgi_kernel_id forward[] = {BGI_KERNEL_LSTM, BGI_KERNEL_GRU, BGI_KERNEL_GRU, BGI_KERNEL_RNN};
    static const bgi_kernel_id backward[] = {BGI_KERNEL_LSTM_BACKWARD, BGI_KERNEL_GRU_BACKWARD, BGI_KERNEL_GRU_BACKWARD,
                                             BGI_KERNEL_RNN_BACKWARD};
    const bool is_lstm = which == LSTM;
    const int64_t gates = is_lstm        ? 4
                          : which == RNN ? 1
                                         : 3,
                  first = round % 2 ? samples : steps, second = round % 2 ? steps : samples;
    const bgi_recurrent_attributes attributes = {.batch_first = round % 2,
                                                 .reverse = round / 2 % 2,
                                                 .relu = which == RNN && round / 4 % 2,
                                                 .reset_first = which == RESET_FIRST};
    const bg_type x = bg_tensor3(dtype, first, second, gates * width), y = bg_tensor3(dtype, first, second, width);
    const bg_type kept = bg_tensor3(dtype, first, second, 4 * width), state = bg_matrix(dtype, samples, width);
    const double range = 1.0 / sqrt((double)width);
    kernel_case c = begin_case(forward[which], &attributes, dtype, width, steps);
    kernel_case back = begin_case(backward[which], &attributes, dtype, width, steps);
    void *results[CASE_OPERANDS];

    case_input(&c, x, random, -1, 1);
    case_input(&c, bg_matrix(dtype, gates * width, width), random, -range, range);
    case_input(&c, state, random, -1, 1);
    if (is_lstm)
        case_input(&c, state, random, -1, 1);
    if (round % 3)
        case_input(&c, bg_vector(dtype, gates * width), random, -range, range);
    case_output(&c, y);
    if (which != RNN)
        case_output(&c, kept);
    if (is_lstm)
        case_output(&c, y);
    assert_int_equal(case_check(&c, 0), count_isas());

    assert_true(case_run(&c, REFERENCE, 0, results));
    for (uint32_t i = 1; i < (is_lstm ? 4u : 3u); i++)
        take(&back, &c, results, i, random);
    for (uint32_t i = 0; i < c.output_count; i++)
        take(&back, &c, results, c.input_count + i, random);
    case_input(&back, y, random, -1, 1);
    if (is_lstm && round % 5)
        case_input(&back, y, random, -1, 1);
    case_output(&back, x);
    if (which != RNN)
        case_output(&back, is_lstm ? state : x);
    case_output(&back, state);
    assert_int_equal(case_check(&back, 0), count_isas());
    free_results(&c, results);
    case_clear(&c);
    case_clear(&back);
}

static void test_drawn(void **state)
{
    random_state random = {1};

    (void)state;
    for (int i = 0; i < 160; i++)
        check((kind)(i % KINDS), draw_between(&random, 1, 6), draw_between(&random, 1, 20),
              draw_between(&random, 1, 40), i / KINDS, draw_float(&random), &random);
}

/* There are more samples than one part has and more samples than parts, several panels, and many steps. */
static void test_shapes(void **state)
{
    static const int64_t shapes[][3] = {{2, 33, 17}, {2, 70, 5}, {1, 1100, 3}, {3, 9, 64}, {60, 2, 8}};
    random_state random = {2};

    (void)state;
    for (int i = 0; i < 5 * KINDS; i++)
        check((kind)(i % KINDS), shapes[i / KINDS][0], shapes[i / KINDS][1], shapes[i / KINDS][2], i, BG_FLOAT32,
              &random);
}

/* A NaN that reaches relu stays NaN, and the gradient of its result flows on. */
static void test_relu_keeps_nan(void **state)
{
    enum { STEPS = 3, SAMPLES = 5, WIDTH = 19, AT = (1 * SAMPLES + 2) * WIDTH + 4 };
    const bgi_recurrent_attributes attributes = {.relu = true};
    const bg_type x = bg_tensor3(BG_FLOAT32, STEPS, SAMPLES, WIDTH), state_type = bg_matrix(BG_FLOAT32, SAMPLES, WIDTH);
    kernel_case c = begin_case(BGI_KERNEL_RNN, &attributes, BG_FLOAT32, WIDTH, STEPS);
    kernel_case back = begin_case(BGI_KERNEL_RNN_BACKWARD, &attributes, BG_FLOAT32, WIDTH, STEPS);
    random_state random = {3};
    void *results[CASE_OPERANDS];
    const float *y, *dx;

    (void)state;
    ((float *)case_input(&c, x, &random, -1, 1))[AT] = NAN;
    case_input(&c, bg_matrix(BG_FLOAT32, WIDTH, WIDTH), &random, -0.2, 0.2);
    case_input(&c, state_type, &random, -1, 1);
    case_output(&c, x);
    assert_int_equal(case_check(&c, 0), count_isas());
    assert_true(case_run(&c, REFERENCE, 0, results));
    y = results[c.input_count];
    for (int i = 0; i < STEPS * SAMPLES * WIDTH; i++) /* the NaN, and the later states of its sample */
        assert_int_equal(isnan(y[i]) != 0, i == AT || (i >= 2 * SAMPLES * WIDTH && i / WIDTH % SAMPLES == 2));

    take(&back, &c, results, 1, &random);
    take(&back, &c, results, 2, &random);
    take(&back, &c, results, c.input_count, &random);
    case_input(&back, x, &random, 0.5, 1);
    case_output(&back, x);
    case_output(&back, state_type);
    assert_int_equal(case_check(&back, 0), count_isas());
    free_results(&c, results);
    assert_true(case_run(&back, REFERENCE, 0, results));
    dx = results[back.input_count];
    for (int unit = 0; unit < WIDTH; unit++) /* all are NaN in the last step, which is the first of the backward pass */
        assert_true(dx[(2 * SAMPLES + 2) * WIDTH + unit] >= 0.5f);
    free_results(&back, results);
    case_clear(&c);
    case_clear(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drawn), cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_relu_keeps_nan)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
