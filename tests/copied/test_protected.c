/*
 * test_protected.c: checks the protected devices and the copying transport: an access to a device's memory outside
 * enter and leave ends the process with a line that names the device, and runs copy messages.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <brigade/session.h>

#include "copied/copying_transport.h"
#include "copied/protected_device.h"
#include "support/toy_plan.h"

static bgi_device *create_device(void)
{
    bgi_device *device = NULL;

    assert_int_equal(
        test_device_protected.create(&(bgi_device_setup){.arena_bytes = 100, .store_bytes = 100}, &device, NULL),
        BG_OK);
    return device;
}

/* In a separate process, touches a byte of a device after another device or, with `is_entered`, this device was
 * entered; returns the exit status. */
static int touch(bool in_store, bool is_entered, char *text, size_t size)
{
    int ends[2], status = 0;
    pid_t child;
    ssize_t length;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bgi_device *other = create_device(), *device = create_device();
        dup2(ends[1], STDERR_FILENO);
        bgi_device_enter(device);
        bgi_device_leave(device);
        bgi_device_enter(is_entered ? device : other);
        ((volatile char *)(in_store ? device->store : device->arena))[7] = 1;
        _exit(0);
    }
    close(ends[1]);
    length = read(ends[0], text, size - 1);
    text[length > 0 ? length : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void memory_of_others_is_closed(void **state)
{
    char text[256];

    (void)state;
    assert_int_equal(touch(false, true, text, sizeof text), 0);
    assert_int_equal(touch(false, false, text, sizeof text), TEST_FAULT_EXIT);
    assert_string_equal(text, "byte 7 of the arena of device 1 touched by somebody else\n");
    assert_int_equal(touch(true, false, text, sizeof text), TEST_FAULT_EXIT);
    assert_string_equal(text, "byte 7 of the store of device 1 touched by somebody else\n");
}

/* The toy plan gives the same bits when all messages are copied and arrive in many different orders. */
static void runs_go_through_copies(void **state)
{
    static float inputs[4096], wanted[4096], found[4096], weights[TOY_MOST_STAGES * TOY_WIDTH];

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        toy_options options = toy_defaults();
        const uint64_t before = test_transport_bytes();
        bg_session *session = NULL;
        bg_plan *plan;
        options.replicas = 1 + (uint32_t)(seed % 3);
        options.copies_sends = seed % 2 == 0;
        options.updates_pieces = seed % 5 == 0;
        plan = toy_plan_create(&options);
        assert_non_null(plan);
        test_transport_seed(seed * 1000);
        assert_int_equal(bg_session_create(plan, NULL, &session, NULL), BG_OK);
        for (uint32_t s = 0; s < options.stage_count; s++) {
            const bg_type type = bg_vector(BG_FLOAT32, TOY_WIDTH);
            char name[16];
            for (uint32_t i = 0; i < TOY_WIDTH; i++)
                weights[s * TOY_WIDTH + i] = toy_first_weight(s, i);
            snprintf(name, sizeof name, "w%u", s);
            assert_int_equal(bg_weights_set(bg_session_weights(session), name, &type, &weights[s * TOY_WIDTH], NULL),
                             BG_OK);
        }
        for (uint32_t i = 0; i < options.iterations * options.micro_batches * options.replicas * TOY_WIDTH; i++) {
            assert_true(i < 4096);
            inputs[i] = toy_input(i / TOY_WIDTH, i % TOY_WIDTH);
        }
        assert_int_equal(bg_session_run(session, (const void *[]){inputs}, (void *[]){found}, NULL), BG_OK);
        toy_compute(&options, 0, weights, wanted);
        assert_memory_equal(found, wanted,
                            options.iterations * options.micro_batches * options.replicas * TOY_WIDTH * sizeof(float));
        assert_true(test_transport_bytes() > before);
        bg_session_destroy(session);
        toy_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_others_is_closed),
        cmocka_unit_test(runs_go_through_copies),
    };

    return cmocka_run_group_tests_name("copied/protected", tests, NULL, NULL);
}
