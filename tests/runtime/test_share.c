/*
 * test_share.c: a helper runs the parts of a call until all are taken, or until a device can continue. One thread has
 * both roles, on an engine of two devices that the test builds: the owner's first part helps with its own call.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "runtime/engine.h"

enum { PARTS = 8 };

typedef struct shared_call {
    bg_plan plan;
    bgi_runner runners[2]; /* the first runs the call, the second waits */
    bgi_counter awaited;
    bgi_engine engine;
    uint32_t ready_after; /* number of the helper's parts after which the second device can continue */
    uint32_t helped;
    uint32_t runs[PARTS], ran_as[PARTS];
    uint32_t depth, entered; /* number of workers in the device now, and of entries so far */
} shared_call;

/* Counts the workers that have entered the device; the owner enters once. */
typedef struct entered_device {
    bgi_device base;
    shared_call *call;
} entered_device;

static void enter(bgi_device *device)
{
    shared_call *s = ((entered_device *)device)->call;

    s->depth++;
    s->entered++;
}

static void leave(bgi_device *device)
{
    ((entered_device *)device)->call->depth--;
}

static const bgi_device_type entered_type = {.name = "entered", .enter = enter, .leave = leave};

static void run_part(const bg_kernel_call *call, uint32_t part)
{
    shared_call *s = call->state;

    assert_int_equal(s->depth, call->runner == 0 ? 1 : 2);
    s->runs[part]++;
    s->ran_as[part] = call->runner;
    if (part == 0)
        s->helped = bgi_parts_help(&s->runners[0]);
    else if (part == PARTS - s->ready_after)
        atomic_store(&s->awaited.value, 1);
}

/* Lets a helper run parts of a call before the owner has run any, and returns the number of these parts. */
static uint32_t count_helped(uint32_t ready_after)
{
    static shared_call s;
    entered_device device = {{.type = &entered_type}, &s};
    bgi_runner *local[] = {&s.runners[1], &s.runners[0]};

    memset(&s, 0, sizeof s);
    s.ready_after = ready_after;
    s.plan.device_count = 2;
    s.plan.replicas = 1;
    s.engine.plan = &s.plan;
    s.engine.runners = s.runners;
    s.engine.device_count = 2;
    s.engine.local = local;
    s.engine.local_count = 2;
    assert_true(bgi_event_count_init(&s.engine.events));
    s.engine.has_helpers = true;
    for (uint32_t i = 0; i < 2; i++) {
        s.runners[i].engine = &s.engine;
        s.runners[i].device = &device.base;
        atomic_store(&s.runners[i].wait_counter, &s.awaited);
        atomic_store(&s.runners[i].wait_target, 1);
    }
    atomic_store(&s.runners[0].is_owned, true);
    s.runners[0].kernel_call.state = &s;
    s.runners[0].run_part = run_part;
    s.runners[0].part_count = PARTS;
    bgi_device_enter(&device.base);
    bgi_parts_run(&s.runners[0], false);
    bgi_device_leave(&device.base);
    assert_int_equal(s.depth, 0);
    assert_int_equal(s.entered, 1 + s.helped);
    assert_false(bgi_parts_wanted(&s.runners[0]));
    for (uint32_t part = 0; part < PARTS; part++) {
        assert_int_equal(s.runs[part], 1);
        /* All parts that the helper runs get the number of its first part. */
        assert_int_equal(s.ran_as[part], part < PARTS - s.helped ? 0 : PARTS - 1);
    }
    bgi_event_count_clear(&s.engine.events);
    return s.helped;
}

static void a_helper_stays_while_no_device_can_go_on(void **state)
{
    (void)state;
    assert_int_equal(count_helped(PARTS), PARTS - 1);
}

static void a_helper_leaves_for_a_device_that_can_go_on(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts < PARTS; parts++)
        assert_int_equal(count_helped(parts), parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_helper_stays_while_no_device_can_go_on),
        cmocka_unit_test(a_helper_leaves_for_a_device_that_can_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
