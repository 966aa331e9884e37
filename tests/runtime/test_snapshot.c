/*
 * test_snapshot.c: a copy of many values has the newest values, wherever they are and however they are sharded. The
 * session owns the copy's memory, and reports whether a processor is free during a run.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#ifdef __linux__
#include <sched.h>
#endif
#include <stdlib.h>
#include <string.h>

#include <brigade/nn.h>
#include <brigade/ops.h>

#include "runtime/session.h"
#include "support/folder.h"
#include "support/toy_plan.h"

enum { WIDTH = 96, LARGE_WIDTH = 1100, SAMPLES = 2, MOST_WEIGHTS = 16 };

typedef struct form {
    const char *name;
    int64_t width;
    uint32_t replicas; /* number of replicas; the optimizer state is sharded over them */
    bool is_in_files;
} form;

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_error error;
    int64_t width;
    uint32_t replicas;
    char folder[TEST_FOLDER_BYTES];
} rig;

static void require(const rig *r, bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", r->error.message);
}

/* Builds a linear layer, whose weight has 4.8 MB with LARGE_WIDTH and is then copied by several threads, and a vector
 * in two sections. */
static bg_value build(bg_graph *graph, int64_t width)
{
    const bg_type type = bg_matrix(BG_FLOAT32, SAMPLES, width);
    const bg_initializer initializer = {.kind = BG_INITIALIZE_TRUNCATED_NORMAL, .a = 0.5, .b = 0.25};
    bg_section first = {.name = "shift", .whole = bg_vector(BG_FLOAT32, 2 * width), .count = width}, last = first;
    bg_value y;

    last.first = width;
    bg_block_begin(graph, "B", BG_DEVICE_NONE);
    y = bg_linear_layer(graph, "fc", bg_graph_input(graph, "x", &type), width, true);
    y = bg_multiply(graph, bg_add(graph, y, bg_graph_section_parameter(graph, "shift.a", &first, &initializer)),
                    bg_graph_section_parameter(graph, "shift.b", &last, &initializer));
    y = bg_reduce(graph, "loss", BG_REDUCE_MEAN, bg_multiply(graph, y, y), NULL, 0, false);
    bg_block_end(graph);
    bg_graph_output(graph, "loss", y);
    return y;
}

static void open_rig(rig *r, const form *f)
{
    const bg_optimizer optimizer = bg_adamw(0.01);
    bg_options options = bg_options_defaults();
    bg_value loss;

    memset(r, 0, sizeof *r);
    test_folder_create(r->folder);
    r->width = f->width;
    r->replicas = f->replicas;
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.cores = 2;
    options.replicas.count = f->replicas;
    options.memory.locations[BG_LOCATION_STATE].sharded = f->replicas > 1;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
    if (f->is_in_files) {
        options.files.memmap_dir = r->folder;
        options.memory.locations[BG_LOCATION_WEIGHTS].place = options.memory.locations[BG_LOCATION_STATE].place =
            BG_PLACE_REMOTE;
    }
    require(r, bg_graph_create(&r->graph, &r->error));
    loss = build(r->graph, f->width);
    require(r, bg_plan_create_training(r->graph, loss, &optimizer, &options, &r->plan, &r->error));
    require(r, bg_session_create(r->plan, NULL, &r->session, &r->error));
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->graph);
    test_folder_remove(r->folder);
}

static void train(rig *r)
{
    const size_t count = (size_t)r->replicas * SAMPLES * (size_t)r->width;
    float *x = malloc(count * sizeof *x), losses[4];

    assert_non_null(x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(i % 23) * 0.1f - 1.0f;
    require(r, bg_session_run(r->session, (const void *[]){x}, (void *[]){losses}, &r->error));
    free(x);
}

/* Copies all weights to separate memory, to which `values` point. */
static uint32_t copy_all(rig *r, void *values[MOST_WEIGHTS])
{
    bg_weights *weights = bg_session_weights(r->session);
    const uint32_t count = bgi_weights_end(weights);
    bgi_value_copy copies[MOST_WEIGHTS];

    assert_in_range(count, 4, MOST_WEIGHTS);
    for (uint32_t i = 0; i < count; i++) {
        const bgi_tensor tensor = bgi_weights_tensor(weights, i);
        values[i] = calloc(1, bg_type_size_bytes(&tensor.type));
        assert_non_null(values[i]);
        copies[i] = (bgi_value_copy){i, values[i]};
    }
    require(r, bgi_weights_enter(weights, r->session, "test", &r->error));
    require(r, bgi_session_copy_values(r->session, copies, count, &r->error));
    bgi_weights_leave(weights);
    return count;
}

static void expect_newest(rig *r)
{
    bg_weights *weights = bg_session_weights(r->session);
    void *values[MOST_WEIGHTS];
    const uint32_t count = copy_all(r, values);

    for (uint32_t i = 0; i < count; i++) {
        const bgi_tensor tensor = bgi_weights_tensor(weights, i);
        bg_weight weight;
        require(r, bg_weights_find(weights, tensor.name, &weight, &r->error));
        assert_memory_equal(values[i], weight.data, bg_type_size_bytes(&weight.type));
        free(values[i]);
    }
}

/* After updates, values are on the devices, and values that were read are on the host too. The test also sets one
 * value. */
static void values_are_the_newest(void **state)
{
    static const form forms[] = {{"plain", LARGE_WIDTH, 1, false},
                                 {"pieces", WIDTH, 3, false},
                                 {"files", WIDTH, 1, true},
                                 {"both", WIDTH, 2, true}};
    float given[LARGE_WIDTH];

    (void)state;
    for (size_t i = 0; i < LARGE_WIDTH; i++)
        given[i] = (float)i;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const bg_type type = bg_vector(BG_FLOAT32, forms[i].width);
        rig r;
        print_message("%s\n", forms[i].name);
        open_rig(&r, &forms[i]);
        expect_newest(&r);
        train(&r);
        train(&r);
        expect_newest(&r);
        expect_newest(&r);
        require(&r, bg_weights_set(bg_session_weights(r.session), "fc.bias", &type, given, &r.error));
        expect_newest(&r);
        train(&r);
        expect_newest(&r);
        close_rig(&r);
    }
}

/* Later updates of the weights do not change the copy. */
static void updates_do_not_reach_it(void **state)
{
    void *before[MOST_WEIGHTS], *same[MOST_WEIGHTS], *after[MOST_WEIGHTS];
    uint32_t count, changed = 0;
    rig r;

    (void)state;
    open_rig(&r, &(form){"plain", WIDTH, 1, false});
    train(&r);
    count = copy_all(&r, before);
    copy_all(&r, same);
    train(&r);
    copy_all(&r, after);
    for (uint32_t i = 0; i < count; i++) {
        const bgi_tensor tensor = bgi_weights_tensor(bg_session_weights(r.session), i);
        const size_t size_bytes = bg_type_size_bytes(&tensor.type);
        assert_memory_equal(before[i], same[i], size_bytes);
        changed += memcmp(before[i], after[i], size_bytes) != 0;
        free(before[i]);
        free(same[i]);
        free(after[i]);
    }
    assert_true(changed >= 3); /* parameters, and their state */
    close_rig(&r);
}

static void its_memory_stays(void **state)
{
    bool first_is_kept, second_is_kept;
    void *first, *second;
    rig r;

    (void)state;
    open_rig(&r, &(form){"plain", WIDTH, 1, false});
    first = bgi_session_take_room(r.session, 1000, &first_is_kept);
    second = bgi_session_take_room(r.session, 1000, &second_is_kept);
    assert_true(first != NULL && second != NULL && first != second);
    assert_true(first_is_kept && !second_is_kept);
    bgi_session_drop_room(r.session); /* memory is not released while the copy is used */
    assert_ptr_equal(r.session->room.memory, first);
    memset(first, 1, 1000);
    bgi_session_return_room(r.session, second, second_is_kept);
    bgi_session_return_room(r.session, first, first_is_kept);
    assert_ptr_equal(bgi_session_take_room(r.session, 999, &second_is_kept), first);
    assert_true(second_is_kept);
    bgi_session_return_room(r.session, first, true);
    second = bgi_session_take_room(r.session, 100000, &second_is_kept);
    assert_true(second != NULL && second_is_kept);
    memset(second, 1, 100000);
    assert_int_equal(r.session->room.size_bytes, 100000);
    bgi_session_return_room(r.session, second, true);
    bgi_session_drop_room(r.session);
    assert_null(r.session->room.memory);
    assert_int_equal(r.session->room.size_bytes, 0);
    assert_non_null(bgi_session_take_room(r.session, 10, &first_is_kept)); /* the session frees it */
    bgi_session_return_room(r.session, r.session->room.memory, first_is_kept);
    close_rig(&r);
}

/* ---- a free processor ---- */

typedef struct question {
    bg_session *session;
    uint32_t asked, answered_yes;
} question;

static void ask(const bg_kernel_call *call, uint32_t part)
{
    question *q = call->state;

    (void)part;
    q->asked++;
    q->answered_yes += bgi_session_leaves_processor(q->session);
}

/* Checks the answer while one worker runs all the time: no processor is free on a machine with one processor, and at
 * least one is free on a larger machine.
 */
static void expect_answer(bool is_free)
{
    toy_options options = toy_defaults();
    question q = {0};
    float *x, *y;
    bg_error error = {0};
    size_t count;
    bg_plan *plan;

    options.generator = "single";
    options.device_count = options.cores = options.part_count = options.replicas = 1;
    options.forward = ask;
    options.state = &q;
    count = (size_t)options.iterations * options.micro_batches * TOY_WIDTH;
    x = calloc(count, sizeof *x);
    y = calloc(count, sizeof *y);
    plan = toy_plan_create(&options);
    assert_true(x != NULL && y != NULL && plan != NULL);
    if (bg_session_create(plan, NULL, &q.session, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_true(bgi_session_leaves_processor(q.session));
    for (uint32_t s = 0; s < options.stage_count; s++) {
        const bg_type type = bg_vector(BG_FLOAT32, TOY_WIDTH);
        const char name[] = {'w', (char)('0' + s), '\0'};
        assert_int_equal(bg_weights_set(bg_session_weights(q.session), name, &type, x, &error), BG_OK);
    }
    if (bg_session_run(q.session, (const void *[]){x}, (void *[]){y}, &error) != BG_OK)
        fail_msg("%s", error.message);
    assert_true(q.asked > 0);
    assert_int_equal(q.answered_yes, is_free ? q.asked : 0);
    assert_true(bgi_session_leaves_processor(q.session));
    bg_session_destroy(q.session);
    toy_plan_destroy(plan);
    free(x);
    free(y);
}

static void a_run_says_whether_a_processor_is_free(void **state)
{
#ifdef __linux__
    cpu_set_t all, one;
    int first = 0;

    (void)state;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        skip();
    expect_answer(CPU_COUNT(&all) > 1);
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    expect_answer(false);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
#else
    (void)state;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_newest),
        cmocka_unit_test(updates_do_not_reach_it),
        cmocka_unit_test(its_memory_stays),
        cmocka_unit_test(a_run_says_whether_a_processor_is_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
