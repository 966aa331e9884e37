/*
 * test_stream.c: inputs appear in the outputs that the output mode selects, for every element type; and sums over
 * replicas are made in replica order. The plans here have no kernels: HOST_IN writes a buffer, and HOST_OUT reads it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/session.h>

#include "kernels/reference/element.h"
#include "plan/plan.h"

enum { WIDTH = 5, MOST_MICRO_BATCHES = 16, MOST_INSTRUCTIONS = 3 * MOST_MICRO_BATCHES };

/* A complete plan of one device that returns its input. The struct must not be moved, because it has pointers to
 * itself. */
typedef struct echo {
    bg_plan plan;
    bgi_plan_device device;
    bgi_instruction instructions[MOST_INSTRUCTIONS];
    bgi_copy copy;
    bgi_reduced reduced;
    bgi_plan_input input;
    bgi_plan_output output;
} echo;

static void init_echo(echo *e, bg_type type, bg_output_mode mode, uint32_t period, bool with_reduce)
{
    memset(e, 0, sizeof *e);
    e->copy = (bgi_copy){.operand = {.edge = BGI_NO_EDGE}, .size_bytes = bg_type_size_bytes(&type)};
    e->reduced =
        (bgi_reduced){.operand = e->copy.operand, .dtype = type.dtype, .element_count = bg_type_element_count(&type)};
    e->input = (bgi_plan_input){"in", type};
    e->output = (bgi_plan_output){.name = "out", .type = type, .mode = mode, .period = period};
    e->device.arena_bytes = 64;
    e->device.instructions = e->instructions;
    e->plan.options = (bg_options){.execution.cores = 2, .execution.wait_limit_s = 20.0};
    e->plan.training = with_reduce;
    e->plan.device_count = e->plan.replicas = e->plan.micro_batches = e->plan.iterations = 1;
    e->plan.input_group_size = 1;
    e->plan.devices = &e->device;
    e->plan.hyper_variable = UINT32_MAX;
    e->plan.input_count = e->plan.output_count = 1;
    e->plan.inputs = &e->input;
    e->plan.outputs = &e->output;
}

static void add_instruction(echo *e, bg_action_kind kind, uint32_t micro_batch)
{
    bgi_instruction *instruction = &e->instructions[e->device.instruction_count++];

    instruction->action = (bg_action){.kind = kind, .micro_batch = micro_batch};
    instruction->copies = &e->copy;
    instruction->copy_count = kind == BG_ACTION_REDUCE ? 0 : 1;
    instruction->reduced = &e->reduced;
    instruction->reduced_count = kind == BG_ACTION_REDUCE ? 1 : 0;
}

static void fill_program(echo *e, bool with_reduce)
{
    for (uint32_t m = 0; m < e->plan.micro_batches; m++) {
        add_instruction(e, BG_ACTION_HOST_IN, m);
        if (with_reduce)
            add_instruction(e, BG_ACTION_REDUCE, m);
        add_instruction(e, BG_ACTION_HOST_OUT, m);
    }
}

/* Runs twice (the first run must not affect the second) and returns the malloc'ed result of the second run. */
static void *run_echo(const echo *e, const void *input, uint64_t *out_count)
{
    bg_session *session = NULL;
    bg_error error = {0};
    bg_stream stream;
    void *result;

    if (bg_session_create(&e->plan, NULL, &session, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(bg_session_output(session, 0, &stream, &error), BG_OK);
    assert_int_equal(stream.size_bytes, stream.count * bg_type_size_bytes(&stream.micro_batch_type));
    result = malloc(stream.size_bytes + 1);
    assert_non_null(result);
    for (int run = 0; run < 2; run++) {
        const void *inputs[] = {input};
        void *outputs[] = {result};
        memset(result, 0x5a, stream.size_bytes + 1);
        if (bg_session_run(session, inputs, outputs, &error) != BG_OK)
            fail_msg("%s", error.message);
    }
    assert_int_equal(((unsigned char *)result)[stream.size_bytes], 0x5a);
    *out_count = stream.count;
    bg_session_destroy(session);
    return result;
}

/* ---- output modes ---- */

typedef struct mode_case {
    bg_output_mode mode;
    uint32_t period;
    bool training;
    uint32_t iterations, micro_batches;
    uint32_t count;                      /* rows of results of one replica */
    uint32_t places[MOST_MICRO_BATCHES]; /* the micro-batches of these rows */
} mode_case;

static const mode_case mode_cases[] = {
    {BG_OUTPUT_ALL, 0, true, 2, 3, 6, {0, 1, 2, 3, 4, 5}},
    {BG_OUTPUT_ALL, 0, false, 1, 4, 4, {0, 1, 2, 3}},
    {BG_OUTPUT_FINAL, 0, true, 3, 2, 1, {5}},
    {BG_OUTPUT_FINAL, 0, false, 1, 5, 1, {4}},
    {BG_OUTPUT_EVERY_N, 2, true, 5, 2, 4, {2, 3, 6, 7}},
    {BG_OUTPUT_EVERY_N, 1, true, 2, 2, 4, {0, 1, 2, 3}},
    {BG_OUTPUT_EVERY_N, 3, true, 2, 2, 0, {0}},
    {BG_OUTPUT_EVERY_N, 3, false, 1, 7, 2, {2, 5}},
};

static void each_mode_returns_its_micro_batches(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof mode_cases / sizeof mode_cases[0]; c++) {
        const mode_case *wanted = &mode_cases[c];
        for (uint32_t replicas = 1; replicas <= 3; replicas++) {
            int32_t input[3 * MOST_MICRO_BATCHES][WIDTH], *result;
            uint64_t count;
            echo e;
            init_echo(&e, bg_vector(BG_INT32, WIDTH), wanted->mode, wanted->period, false);
            e.plan.training = wanted->training;
            e.plan.iterations = wanted->iterations;
            e.plan.micro_batches = wanted->micro_batches;
            e.plan.replicas = replicas;
            fill_program(&e, false);
            for (int i = 0; i < 3 * MOST_MICRO_BATCHES * WIDTH; i++)
                input[i / WIDTH][i % WIDTH] = i;
            result = run_echo(&e, input, &count);
            assert_int_equal(count, wanted->count * replicas);
            for (uint32_t i = 0; i < count; i++)
                assert_memory_equal(&result[i * WIDTH], input[wanted->places[i / replicas] * replicas + i % replicas],
                                    sizeof input[0]);
            free(result);
        }
    }
}

/* Sums are in micro-batch order, separately for each replica; those of float32 and of types of 16 bits are in
 * float32. */
static void sums_of_every_type(void **state)
{
    static const bg_dtype dtypes[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT16, BG_FLOAT64, BG_INT32, BG_INT64};
    enum { MICRO_BATCHES = 9, REPLICAS = 2 };

    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const bg_dtype dtype = dtypes[d];
        double input[MICRO_BATCHES * REPLICAS * WIDTH], expected[REPLICAS * WIDTH];
        uint64_t count;
        void *result;
        echo e;
        init_echo(&e, bg_vector(dtype, WIDTH), BG_OUTPUT_SUM, 0, false);
        e.plan.micro_batches = MICRO_BATCHES;
        e.plan.replicas = REPLICAS;
        fill_program(&e, false);
        for (int64_t i = 0; i < MICRO_BATCHES * REPLICAS * WIDTH; i++)
            bgi_store(dtype, input, i,
                      !bg_dtype_is_float(dtype) ? (double)(i * 7 - 20) : 0.3 + (double)(i * 11 % 17) * 1.7e-3);
        for (int64_t i = 0; i < REPLICAS * WIDTH; i++) {
            double sum = bgi_load(dtype, input, i);
            for (int64_t m = 1; m < MICRO_BATCHES; m++) {
                sum += bgi_load(dtype, input, m * REPLICAS * WIDTH + i);
                if (dtype != BG_FLOAT64)
                    sum = (float)sum;
            }
            bgi_store(dtype, expected, i, sum);
        }
        result = run_echo(&e, input, &count);
        assert_int_equal(count, REPLICAS);
        assert_memory_equal(result, expected, REPLICAS * WIDTH * bg_dtype_size_bytes(dtype));
        free(result);
    }
}

/* Sums of integers that are equal as doubles, and sums beyond the largest integer, which wrap around. */
static void sums_of_int64_are_whole(void **state)
{
    enum { MICRO_BATCHES = 5 };
    int64_t input[MICRO_BATCHES][WIDTH];
    uint64_t expected[WIDTH] = {0}, count;
    int64_t *result;
    echo e;

    (void)state;
    init_echo(&e, bg_vector(BG_INT64, WIDTH), BG_OUTPUT_SUM, 0, false);
    e.plan.micro_batches = MICRO_BATCHES;
    fill_program(&e, false);
    for (int m = 0; m < MICRO_BATCHES; m++)
        for (int i = 0; i < WIDTH; i++) {
            input[m][i] = i == 0 ? INT64_MAX - m : ((int64_t)1 << 58) + 1 + m * i;
            expected[i] += (uint64_t)input[m][i];
        }
    result = run_echo(&e, input, &count);
    assert_int_equal(count, 1);
    assert_memory_equal(result, expected, sizeof expected);
    free(result);
}

static void what_cannot_be_summed_is_refused(void **state)
{
    bg_session *session = NULL;
    bg_error error = {0};
    echo e;

    (void)state;
    init_echo(&e, bg_vector(BG_UINT8, WIDTH), BG_OUTPUT_SUM, 0, false);
    fill_program(&e, false);
    assert_int_equal(bg_session_create(&e.plan, NULL, &session, &error), BG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "`out`"));
    assert_non_null(strstr(error.message, "uint8"));
    bg_error_clear(&error);
    init_echo(&e, bg_vector(BG_FLOAT32, WIDTH), BG_OUTPUT_EVERY_N, 0, false);
    fill_program(&e, false);
    assert_int_equal(bg_session_create(&e.plan, NULL, &session, &error), BG_ERROR_INVALID);
}

static void outputs_that_nobody_wants_are_skipped(void **state)
{
    const int32_t input[WIDTH] = {1, 2, 3, 4, 5};
    const void *inputs[] = {input};
    void *outputs[] = {NULL};
    bg_session *session = NULL;
    bg_error error = {0};
    echo e;

    (void)state;
    init_echo(&e, bg_vector(BG_INT32, WIDTH), BG_OUTPUT_ALL, 0, false);
    fill_program(&e, false);
    assert_int_equal(bg_session_create(&e.plan, NULL, &session, NULL), BG_OK);
    assert_int_equal(bg_session_run(session, inputs, outputs, NULL), BG_OK);
    assert_int_equal(bg_session_find_input(session, "in"), 0);
    assert_int_equal(bg_session_find_input(session, "out"), UINT32_MAX);
    assert_int_equal(bg_session_find_output(session, "out"), 0);
    assert_int_equal(bg_session_find_output(session, "in"), UINT32_MAX);
    inputs[0] = NULL;
    assert_int_equal(bg_session_run(session, inputs, outputs, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "`in`"));
    bg_session_destroy(session);
}

/* ---- reductions ---- */

/* The replica order is visible: (1e8 + 1) - 1e8 is 0 in float32, and any other order gives 1 or 2. */
static void replicas_are_summed_in_order(void **state)
{
    static const float terms[] = {1e8f, 1.0f, -1e8f, 3.0f, 1e-3f};

    (void)state;
    for (uint32_t replicas = 1; replicas <= 5; replicas++)
        for (uint32_t cores = 1; cores <= 4; cores++)
            for (int64_t width = 1; width <= 11; width += 2) {
                float input[2 * 5 * 11], *result, sum = terms[0];
                uint64_t count;
                echo e;
                init_echo(&e, bg_vector(BG_FLOAT32, width), BG_OUTPUT_ALL, 0, true);
                e.plan.replicas = replicas;
                e.plan.micro_batches = 2;
                e.plan.options.execution.cores = cores;
                fill_program(&e, true);
                for (int64_t i = 0; i < 2 * replicas * width; i++)
                    input[i] = terms[i / width % replicas] * (i / width < replicas ? 1.0f : 2.0f);
                for (uint32_t r = 1; r < replicas; r++)
                    sum += terms[r];
                result = run_echo(&e, input, &count);
                assert_int_equal(count, 2 * replicas);
                for (int64_t i = 0; i < 2 * replicas * width; i++)
                    assert_true(result[i] == (i / width < replicas ? sum : 2.0f * sum));
                free(result);
            }
}

static void float64_is_summed_in_float64(void **state)
{
    enum { REPLICAS = 3 };
    double input[REPLICAS * WIDTH], *result;
    uint64_t count;
    echo e;

    (void)state;
    init_echo(&e, bg_vector(BG_FLOAT64, WIDTH), BG_OUTPUT_ALL, 0, true);
    e.plan.replicas = REPLICAS;
    fill_program(&e, true);
    for (int i = 0; i < REPLICAS * WIDTH; i++)
        input[i] = 1.0 + 1e-12 * i;
    result = run_echo(&e, input, &count);
    for (int i = 0; i < REPLICAS * WIDTH; i++)
        assert_true(result[i] == (input[i % WIDTH] + input[WIDTH + i % WIDTH]) + input[2 * WIDTH + i % WIDTH]);
    free(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mode_returns_its_micro_batches),
        cmocka_unit_test(sums_of_every_type),
        cmocka_unit_test(sums_of_int64_are_whole),
        cmocka_unit_test(what_cannot_be_summed_is_refused),
        cmocka_unit_test(outputs_that_nobody_wants_are_skipped),
        cmocka_unit_test(replicas_are_summed_in_order),
        cmocka_unit_test(float64_is_summed_in_float64),
    };

    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
