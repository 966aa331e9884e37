/*
 * test_dropout.c: the mask is the documented function of seed, step, sample, op and element, and does not depend on how
 * samples are divided into micro-batches. The gradient has the same mask.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/session.h>

#include <math.h>
#include <string.h>

#include <brigade/random.h>

#include "kernels/dropout/attributes.h"
#include "ops/ops.h"
#include "support/interpret.h"
#include "support/op_case.h"

enum { SAMPLES = 4, ELEMENTS = 6 * 7 /* not a multiple of 4 */, COUNT = SAMPLES * ELEMENTS, MOST = 256 };

/* Runs dropout on ones. */
static void drop_ones(const bg_type *type, const bgi_dropout_attributes *attributes, const bg_kernel_env *env,
                      double *out)
{
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    double ones[MOST];
    bg_value x, y;

    assert_true(bg_type_element_count(type) <= MOST);
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", type);
    y = bg_graph_add(graph, &bgi_op_dropout, "dropout", &x, 1, attributes, NULL);
    bgi_test_interpreter_init(&interpreter, graph);
    interpreter.env = *env;
    for (int i = 0; i < MOST; i++)
        ones[i] = 1.0;
    bgi_test_set(&interpreter, x, ones);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, y, out);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);
}

/* Runs the op on `samples` samples. */
static void drop(int64_t samples, double probability, uint32_t random_id, const bg_kernel_env *env, double *out)
{
    const bg_type type = bg_tensor3(BG_FLOAT64, samples, 6, 7);
    const bgi_dropout_attributes attributes = {.probability = probability, .random_id = random_id};

    drop_ones(&type, &attributes, env, out);
}

static void test_mask_is_the_documented_one(void **state)
{
    const bg_kernel_env env = {.seed = 0x123456789abcdef0u, .step = 0x5500000003u, .micro_batch = 9, .training = true};
    double y[COUNT];

    (void)state;
    drop(SAMPLES, 0.3, 77, &env, y);
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t element = i % ELEMENTS, sample = 9 * SAMPLES + i / ELEMENTS;
        uint32_t words[4];

        bg_philox((const uint32_t[]){element / 4, sample, 77, 3}, (const uint32_t[]){0x9abcdef0u, 0x12345678u ^ 0x55u},
                  words);
        assert_true(y[i] == (words[element % 4] * 0x1p-32 >= 0.3 ? 1.0 / 0.7 : 0.0));
    }
}

/* One micro-batch of four samples has the masks of two micro-batches of two samples. */
static void test_mask_follows_the_sample(void **state)
{
    const bg_kernel_env whole = {.seed = 5, .step = 2, .micro_batch = 3, .training = true};
    double expected[COUNT], y[COUNT];

    (void)state;
    drop(4, 0.5, 1, &whole, expected);
    for (uint32_t half = 0; half < 2; half++) {
        const bg_kernel_env env = {.seed = 5, .step = 2, .micro_batch = 6 + half, .training = true};

        drop(2, 0.5, 1, &env, &y[half * COUNT / 2]);
    }
    assert_memory_equal(y, expected, sizeof y);
}

static uint32_t count_kept(const double *y, double *out_differences, const double *other)
{
    uint32_t kept = 0;

    *out_differences = 0;
    for (int i = 0; i < COUNT; i++) {
        kept += y[i] != 0.0;
        *out_differences += y[i] != other[i];
    }
    return kept;
}

/* Another seed, step, micro-batch or random_id changes the mask, and the share of kept elements is about the requested
 * one. */
static void test_masks_differ(void **state)
{
    const bg_kernel_env base = {.seed = 5, .step = 2, .micro_batch = 3, .training = true};
    bg_kernel_env others[] = {base, base, base, base};
    double y[COUNT], other[COUNT], differences;

    (void)state;
    others[0].seed = 6;
    others[1].seed = 5 + (1ull << 32);
    others[2].step = 3;
    others[3].micro_batch = 4;
    drop(SAMPLES, 0.5, 1, &base, y);
    for (int i = 0; i < 5; i++) {
        uint32_t kept;

        drop(SAMPLES, 0.5, i == 4 ? 2 : 1, i == 4 ? &base : &others[i], other);
        kept = count_kept(other, &differences, y);
        assert_in_range(kept, COUNT * 35 / 100, COUNT * 65 / 100);
        assert_true(differences > COUNT * 0.35);
    }
}

/* Runs dropout on the shard that replica `place` has of rows of eight elements, which are divided into two shards along
 * an axis. */
static void drop_piece(bg_mesh_axis axis, const bg_mesh *place, double *out)
{
    const bg_type type = bg_tensor3(BG_FLOAT64, 1, 64, 4);
    const bgi_dropout_attributes attributes = {
        .probability = 0.5, .random_id = 3, .axis = axis, .pieces = axis == BG_MESH_NONE ? 0 : 2};

    drop_ones(&type, &attributes, &(bg_kernel_env){.seed = 5, .place = *place, .training = true}, out);
}

/* Replicas that have the same values along an axis have the same mask; shards have different masks. */
static void test_masks_on_a_mesh(void **state)
{
    static const bg_mesh places[] = {{0, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 1, 1}};
    static const bg_mesh_axis axes[] = {BG_MESH_NONE, BG_MESH_TENSOR_1, BG_MESH_TENSOR_2};
    double masks[4][64 * 4];

    (void)state;
    for (int a = 0; a < 3; a++) {
        for (int p = 0; p < 4; p++)
            drop_piece(axes[a], &places[p], masks[p]);
        for (int p = 0; p < 4; p++)
            for (int q = 0; q < 4; q++) {
                const bool is_same =
                    axes[a] == BG_MESH_NONE || (axes[a] == BG_MESH_TENSOR_1 ? places[p].tensor_1 == places[q].tensor_1
                                                                            : places[p].tensor_2 == places[q].tensor_2);
                assert_true((memcmp(masks[p], masks[q], sizeof masks[p]) == 0) == is_same);
            }
    }
}

static void test_edges(void **state)
{
    const bg_kernel_env training = {.seed = 1, .training = true}, inference = {.seed = 1};
    double y[COUNT];

    (void)state;
    drop(SAMPLES, 0.0, 0, &training, y);
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == 1.0);
    drop(SAMPLES, 1.0, 0, &training, y);
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == 0.0);
    drop(SAMPLES, 1.0, 0, &inference, y);
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == 1.0);
}

static void test_gradient(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 3, 10);
    const bgi_dropout_attributes attributes = {.probability = 0.4, .random_id = 3};
    bg_error error = {0};

    (void)state;
    if (bg_gradient_check(&bgi_op_dropout, &attributes, &type, NULL, 1, NULL, &error) != BG_OK)
        fail_msg("%s", error.message);
}

static void test_builder(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 3, 10), scalar = bg_scalar(BG_FLOAT32);
    const bgi_dropout_attributes good = {.probability = 0.5};
    const double bad[] = {-0.1, 1.1, NAN};
    bgi_test_interpreter interpreter;
    bg_graph *graph = NULL;
    double ones[30], first[30], second[30];
    bg_value x, a, b;

    (void)state;
    /* two dropouts of one graph have different masks */
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    a = bg_dropout(graph, "a", x, 0.5);
    b = bg_dropout(graph, "b", x, 0.5);
    bgi_test_interpreter_init(&interpreter, graph);
    for (int i = 0; i < 30; i++)
        ones[i] = 1.0;
    bgi_test_set(&interpreter, x, ones);
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, a, first);
    bgi_test_get(&interpreter, b, second);
    assert_memory_not_equal(first, second, sizeof first);
    bgi_test_interpreter_clear(&interpreter);
    bg_graph_destroy(graph);

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const bgi_dropout_attributes attributes = {.probability = bad[i]};

        bgi_test_op_refuses(&bgi_op_dropout, &attributes, &type, 1, BG_ERROR_INVALID,
                            (const char *const[]){"probability is", "between 0 and 1", NULL});
    }
    bgi_test_op_refuses(&bgi_op_dropout, &good, &scalar, 1, BG_ERROR_SHAPE,
                        (const char *const[]){"x is float32[]", "samples first", NULL});
}

/* ---- in a run ---- */

/* Two layers, two micro-batches and two updates have eight different masks. */
static void test_masks_of_a_run(void **state)
{
    enum { ROWS = 4, WIDTH = 256, SIZE = ROWS * WIDTH };
    const bg_type type = bg_matrix(BG_FLOAT32, ROWS, WIDTH), row = bg_vector(BG_FLOAT32, WIDTH);
    const bg_initializer one = {.kind = BG_INITIALIZE_CONSTANT, .a = 1.0};
    const bg_optimizer optimizer = bg_sgd(0.0);
    static float x[4][SIZE], masks[2][4][SIZE];
    bg_options options = bg_options_defaults();
    void *outputs[3] = {NULL};
    bg_value y, dropped[2], loss;
    bg_session *session = NULL;
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};

    (void)state;
    for (int i = 0; i < 4 * SIZE; i++)
        x[i / SIZE][i % SIZE] = 1.0f;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    y = bg_multiply(graph, bg_graph_input(graph, "x", &type), bg_graph_parameter(graph, "w", &row, &one));
    dropped[0] = bg_dropout(graph, "a", y, 0.5);
    dropped[1] = bg_dropout(graph, "b", y, 0.5);
    bg_graph_output(graph, "a", dropped[0]);
    bg_graph_output(graph, "b", dropped[1]);
    loss = bg_reduce(graph, NULL, BG_REDUCE_MEAN, bg_add(graph, dropped[0], dropped[1]), NULL, 0, false);
    bg_graph_output(graph, "loss", loss);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.gradient_accumulation = options.execution.device_iterations = 2;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    if (bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error) != BG_OK ||
        bg_session_create(plan, NULL, &session, &error) != BG_OK)
        fail_msg("%s", error.message);
    outputs[bg_session_find_output(session, "a")] = masks[0];
    outputs[bg_session_find_output(session, "b")] = masks[1];
    if (bg_session_run(session, (const void *[]){x}, outputs, &error) != BG_OK)
        fail_msg("%s", error.message);
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < i; k++) {
            int different = 0;
            for (int e = 0; e < SIZE; e++) {
                assert_true(masks[i / 4][i % 4][e] == 0.0f || masks[i / 4][i % 4][e] == 2.0f);
                different += masks[i / 4][i % 4][e] != masks[k / 4][k % 4][e];
            }
            assert_in_range(different, SIZE * 2 / 5, SIZE * 3 / 5);
        }
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_is_the_documented_one),
        cmocka_unit_test(test_mask_follows_the_sample),
        cmocka_unit_test(test_masks_differ),
        cmocka_unit_test(test_masks_on_a_mesh),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_builder),
        cmocka_unit_test(test_masks_of_a_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
