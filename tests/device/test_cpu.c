/*
 * test_cpu.c: memory of CPU devices, and the order of the steps of a kernel call.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "device/device.h"

static bgi_device *create(const bgi_device_setup *setup)
{
    bgi_device *device = NULL;

    assert_int_equal(bgi_device_cpu.create(setup, &device, NULL), BG_OK);
    assert_ptr_equal(device->type, &bgi_device_cpu);
    return device;
}

static void memory_is_aligned_and_zero(void **state)
{
    static const char zeros[5000];
    bgi_device *device = create(&(bgi_device_setup){.arena_bytes = 5000, .store_bytes = 100});

    (void)state;
    assert_int_equal((uintptr_t)device->arena % 4096, 0);
    assert_int_equal((uintptr_t)device->store % 4096, 0);
    assert_memory_equal(device->arena, zeros, 5000);
    assert_memory_equal(device->store, zeros, 100);
    bgi_device_cpu.destroy(device);
    device = create(&(bgi_device_setup){.arena_bytes = 64});
    assert_null(device->store);
    bgi_device_cpu.destroy(device);
    bgi_device_cpu.destroy(NULL);
}

static void too_much_is_an_error(void **state)
{
    bgi_device *device = NULL;
    bg_error error = {0};

    (void)state;
    assert_int_equal(bgi_device_cpu.create(&(bgi_device_setup){.arena_bytes = SIZE_MAX / 4}, &device, &error),
                     BG_ERROR_MEMORY);
    assert_non_null(strstr(error.message, "a device's arena"));
    error = (bg_error){0};
    assert_int_equal(
        bgi_device_cpu.create(&(bgi_device_setup){.arena_bytes = 64, .store_bytes = SIZE_MAX / 4}, &device, &error),
        BG_ERROR_MEMORY);
    assert_non_null(strstr(error.message, "remote store"));
    assert_null(device);
}

/* A store uses memory that its owner provides, and does not free it. */
static void a_store_may_be_somebody_elses(void **state)
{
    char *store = malloc(256), seen[4] = "";
    bgi_device *device = create(&(bgi_device_setup){.arena_bytes = 64, .store_bytes = 256, .store = store});

    (void)state;
    assert_ptr_equal(device->store, store);
    bgi_device_cpu.copy_in(device, device->arena + 8, "abc", 4);
    bgi_device_cpu.copy(device, device->store + 16, device->arena + 8, 4);
    bgi_device_cpu.copy_out(device, seen, device->store + 16, 4);
    assert_string_equal(seen, "abc");
    assert_ptr_equal(bgi_device_cpu.map(device, device->store + 16), store + 16);
    bgi_device_enter(device); /* these have no effect on the CPU */
    bgi_device_leave(device);
    bgi_device_cpu.destroy(device);
    assert_string_equal(store + 16, "abc");
    free(store);
}

/* ---- launches ---- */

typedef struct record {
    char text[32];
    uint32_t stops_after; /* letters; 0: never */
} record;

static void add(record *r, char letter)
{
    const size_t length = strlen(r->text);

    assert_true(length + 1 < sizeof r->text);
    r->text[length] = letter;
}

static void prepare(const bg_kernel_call *call)
{
    add(call->state, 'p');
}

static void run(const bg_kernel_call *call, uint32_t part)
{
    add(call->state, (char)('0' + part));
}

static void combine(const bg_kernel_call *call, uint32_t part)
{
    add(call->state, (char)('a' + part));
}

static void finish(const bg_kernel_call *call)
{
    add(call->state, 'f');
}

static const bg_kernel_call *current;

static void run_parts(void *user, bg_kernel_function function, uint32_t part_count, bool is_main)
{
    add(user, is_main ? 'M' : 'C');
    for (uint32_t part = 0; part < part_count; part++)
        function(current, part);
}

static bool goes_on(void *user)
{
    const record *r = user;

    return r->stops_after == 0 || strlen(r->text) < r->stops_after;
}

static void expect_launch(const bg_kernel *kernel, uint32_t stops_after, const char *expected)
{
    bgi_device *device = create(&(bgi_device_setup){.arena_bytes = 64});
    record r = {.stops_after = stops_after};
    const bg_kernel_call call = {.state = &r};
    const bgi_launch how = {.user = &r, .run = run_parts, .goes_on = goes_on};

    current = &call;
    bgi_device_cpu.launch(device, kernel, &call, &how);
    assert_string_equal(r.text, expected);
    bgi_device_cpu.destroy(device);
}

static void calls_are_carried_out_in_order(void **state)
{
    const bg_kernel plain = {.run = run, .part_count = 2};
    const bg_kernel whole = {
        .prepare = prepare, .run = run, .combine = combine, .finish = finish, .part_count = 3, .combine_count = 2};

    (void)state;
    expect_launch(&plain, 0, "M01");
    expect_launch(&whole, 0, "pM012Cabf");
    expect_launch(&whole, 1, "p");
    expect_launch(&whole, 5, "pM012");
    expect_launch(&whole, 8, "pM012Cab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_and_zero),
        cmocka_unit_test(too_much_is_an_error),
        cmocka_unit_test(a_store_may_be_somebody_elses),
        cmocka_unit_test(calls_are_carried_out_in_order),
    };

    return cmocka_run_group_tests_name("device/cpu", tests, NULL, NULL);
}
