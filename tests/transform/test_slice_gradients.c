/*
 * test_slice_gradients.c: the gradient of a value that is read in slices is correct, and the ops that combine 512
 * slices write at most three times the bytes of the value.
 */
#include "transform/small.h"

#include <stdio.h>

#include "support/interpret.h"

enum { MOST_SLICES = 600 };

typedef struct reading {
    int32_t axis;
    int64_t start, stop, step;
} reading;

/* A parameter w [rows, columns] that is read in slices; the loss is the sum of the products of each slice and an input.
 */
typedef struct rig {
    bg_graph *graph;
    bg_type whole;
    bg_value w, inputs[MOST_SLICES];
    bgi_parameter_gradient *gradients;
    uint32_t count;
    size_t forward_ops;
} rig;

static void open_rig(rig *r, int64_t rows, int64_t columns, const reading *readings, uint32_t count, bool reads_whole)
{
    const bg_initializer initializer = {BG_INITIALIZE_CONSTANT, 1, 0};
    bg_value loss = {0};
    bg_error error = {0};

    *r = (rig){.graph = small_create(), .whole = bg_matrix(BG_FLOAT32, rows, columns)};
    r->w = bg_graph_parameter(r->graph, "w", &r->whole, &initializer);
    bg_block_start(r->graph, "A", BG_DEVICE_NONE);
    if (reads_whole)
        loss = bg_reduce(r->graph, NULL, BG_REDUCE_SUM, r->w, NULL, 0, false);
    for (uint32_t i = 0; i < count; i++) {
        const bg_value slice =
            bg_slice(r->graph, NULL, r->w, readings[i].axis, readings[i].start, readings[i].stop, readings[i].step);
        const bg_type type = bg_graph_type(r->graph, slice);
        bg_value term;
        char name[32];
        snprintf(name, sizeof name, "c%u", i);
        r->inputs[i] = bg_graph_input(r->graph, name, &type);
        term = bg_reduce(r->graph, NULL, BG_REDUCE_SUM, bg_multiply(r->graph, slice, r->inputs[i]), NULL, 0, false);
        loss = loss.id == 0 ? term : bg_add(r->graph, loss, term);
    }
    small_require(r->graph);
    r->forward_ops = r->graph->op_count;
    if (bgi_differentiate(r->graph, loss, (bg_value){0}, 1.0, (bg_value){0}, &r->gradients, &r->count, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_int_equal(r->count, 1);
    assert_int_equal(bgi_graph_verify(r->graph, NULL), BG_OK);
}

static void close_rig(rig *r)
{
    free(r->gradients);
    bg_graph_destroy(r->graph);
}

static uint32_t count_ops(const rig *r, const bg_op_type *type)
{
    uint32_t count = 0;

    for (size_t o = r->forward_ops; o < r->graph->op_count; o++)
        count += r->graph->ops[o].type == type;
    return count;
}

/* Checks the gradient: slice i is multiplied by 1, 2, 3, ... plus 100 i, and the gradient of an element of w is the sum
 * of its factors. */
static void check_numbers(int64_t rows, int64_t columns, const reading *readings, uint32_t count, bool reads_whole)
{
    const size_t size = (size_t)(rows * columns);
    double *expected = calloc(size, sizeof *expected), *found = calloc(size, sizeof *found);
    bgi_test_interpreter interpreter;
    rig r;

    open_rig(&r, rows, columns, readings, count, reads_whole);
    for (size_t e = 0; e < size; e++)
        expected[e] = reads_whole ? 1.0 : 0.0;
    bgi_test_interpreter_init(&interpreter, r.graph);
    for (uint32_t i = 0; i < count; i++) {
        double *factors = calloc(size, sizeof *factors), next = 100.0 * i;
        size_t at = 0;
        for (int64_t row = 0; row < rows; row++)
            for (int64_t column = 0; column < columns; column++) {
                const int64_t place = readings[i].axis == 0 ? row : column;
                if (place < readings[i].start || place >= readings[i].stop ||
                    (place - readings[i].start) % readings[i].step != 0)
                    continue;
                factors[at++] = next += 1.0;
                expected[row * columns + column] += next;
            }
        bgi_test_set(&interpreter, r.inputs[i], factors);
        free(factors);
    }
    bgi_test_interpret(&interpreter);
    bgi_test_get(&interpreter, r.gradients[0].gradient, found);
    for (size_t e = 0; e < size; e++)
        if (found[e] != expected[e])
            fail_msg("element %zu is %g instead of %g", e, found[e], expected[e]);
    bgi_test_interpreter_clear(&interpreter);
    close_rig(&r);
    free(expected);
    free(found);
}

static void test_numbers(void **state)
{
    static const reading whole[] = {{0, 0, 2, 1}, {0, 2, 3, 1}, {0, 3, 7, 1}};
    static const reading gaps[] = {{0, 5, 6, 1}, {0, 1, 2, 1}, {0, 2, 4, 1}};
    static const reading overlap[] = {{0, 0, 4, 1}, {0, 2, 6, 1}, {0, 2, 6, 1}, {0, 6, 7, 1}, {0, 3, 4, 1}};
    static const reading axes[] = {{0, 0, 3, 1}, {1, 1, 3, 1}, {0, 3, 7, 1}, {1, 0, 1, 1}, {1, 3, 5, 1}};
    static const reading steps[] = {{0, 0, 7, 2}, {0, 1, 4, 1}, {0, 4, 7, 1}};
    static const reading one[] = {{1, 2, 4, 1}};

    (void)state;
    for (int reads_whole = 0; reads_whole < 2; reads_whole++) {
        check_numbers(7, 5, whole, 3, reads_whole);
        check_numbers(7, 5, gaps, 3, reads_whole);
        check_numbers(7, 5, overlap, 5, reads_whole);
        check_numbers(7, 5, axes, 5, reads_whole);
        check_numbers(7, 5, steps, 3, reads_whole);
        check_numbers(7, 5, one, 1, reads_whole);
    }
}

/* Slices that make up the whole are concatenated without padding or additions. */
static void test_pieces_of_a_whole(void **state)
{
    static const reading readings[] = {{0, 4, 7, 1}, {0, 0, 2, 1}, {0, 2, 4, 1}};
    rig r;

    (void)state;
    open_rig(&r, 7, 5, readings, 3, false);
    assert_int_equal(count_ops(&r, &bgi_op_concat), 1);
    assert_int_equal(count_ops(&r, &bgi_op_slice_backward), 0);
    assert_int_equal(count_ops(&r, &bgi_op_add_n), 0);
    close_rig(&r);
}

/* Returns the bytes that the ops which combine `count` slices write, in multiples of the bytes of the whole value. */
static double measure_joining(uint32_t count, int64_t gap)
{
    static reading readings[MOST_SLICES];
    double bytes = 0.0;
    rig r;

    for (uint32_t i = 0; i < count; i++)
        readings[i] = (reading){0, (int64_t)i * (1 + gap), (int64_t)i * (1 + gap) + 1, 1};
    open_rig(&r, (int64_t)count * (1 + gap), 64, readings, count, false);
    for (size_t o = r.forward_ops; o < r.graph->op_count; o++) {
        const bg_op_type *type = r.graph->ops[o].type;
        if (type == &bgi_op_concat || type == &bgi_op_slice_backward || type == &bgi_op_add_n) {
            const bg_type y = bg_graph_type(r.graph, r.graph->ops[o].outputs[0]);
            bytes += (double)bg_type_size_bytes(&y);
        }
    }
    bytes /= (double)bg_type_size_bytes(&r.whole);
    close_rig(&r);
    return bytes;
}

static void test_slices_cost_their_own_bytes(void **state)
{
    (void)state;
    assert_true(measure_joining(512, 0) == 2.0);
    assert_true(measure_joining(30, 0) == 1.0);
    assert_true(measure_joining(512, 1) == 3.0); /* each slice is also padded to its neighbor */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_pieces_of_a_whole),
        cmocka_unit_test(test_slices_cost_their_own_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
