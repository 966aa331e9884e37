/*
 * test_place.c: tests the devices on which strategies place their stages by default.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/schedule.h>

#include <string.h>

static void assert_placed(const char *name, uint32_t stage_count, uint32_t device_count, const uint32_t *expected)
{
    uint32_t devices[16];
    bg_error error = {0};

    if (bg_schedule_place(bg_schedule_generator_find(name), stage_count, device_count, devices, &error) != BG_OK)
        fail_msg("%s: %s", name, error.message);
    for (uint32_t stage = 0; stage < stage_count; stage++)
        assert_int_equal(devices[stage], expected[stage]);
}

static void test_each_placement(void **state)
{
    (void)state;
    assert_placed("interleaved", 4, 4, (const uint32_t[]){0, 1, 2, 3});
    assert_placed("grouped", 1, 1, (const uint32_t[]){0});
    assert_placed("single", 3, 1, (const uint32_t[]){0, 0, 0});
    assert_placed("looped", 6, 2, (const uint32_t[]){0, 1, 0, 1, 0, 1});
    assert_placed("looped-bfs", 6, 3, (const uint32_t[]){0, 1, 2, 0, 1, 2});
    assert_placed("looped", 3, 3, (const uint32_t[]){0, 1, 2});
    assert_placed("phased", 4, 1, (const uint32_t[]){0, 0, 0, 0});
    assert_placed("zb-v", 6, 3, (const uint32_t[]){0, 1, 2, 2, 1, 0});
    assert_placed("dualpipev", 2, 1, (const uint32_t[]){0, 0});
    assert_placed("auto", 4, 4, (const uint32_t[]){0, 1, 2, 3});
    assert_placed("auto", 4, 3, (const uint32_t[]){0, 1, 2, 0});
}

/* A strategy accepts the placement that it chooses. */
static void test_generators_take_their_placement(void **state)
{
    (void)state;
    for (uint32_t i = 0; bg_schedule_generator_at(i) != NULL; i++)
        for (uint32_t stage_count = 1; stage_count <= 8; stage_count++)
            for (uint32_t device_count = 1; device_count <= stage_count; device_count++) {
                const bg_schedule_generator *generator = bg_schedule_generator_at(i);
                bg_schedule_problem problem;
                bg_schedule *schedule = NULL;
                uint32_t devices[8];
                bg_error error = {0};

                if (bg_schedule_place(generator, stage_count, device_count, devices, NULL) != BG_OK)
                    continue;
                problem = bg_schedule_problem_defaults();
                problem.stage_count = stage_count;
                problem.device_count = device_count;
                problem.stage_devices = devices;
                problem.splits_weights = generator->splits_weights;
                if (bg_schedule_create(&problem, generator, &schedule, &error) != BG_OK)
                    fail_msg("%u stages on %u devices: %s", (unsigned)stage_count, (unsigned)device_count,
                             error.message);
                bg_schedule_destroy(schedule);
            }
}

static void test_how_many_devices_when_nobody_says(void **state)
{
    static const struct {
        const char *name;
        uint32_t stage_count, device_count;
    } cases[] = {{"single", 1, 1}, {"single", 4, 1}, {"single", 5, 1}, {"interleaved", 4, 4}, {"looped", 4, 2},
                 {"looped", 5, 5}, {"zb-v", 6, 3},   {"zb-v", 5, 5},   {"auto", 4, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(bg_schedule_default_devices(bg_schedule_generator_find(cases[i].name), cases[i].stage_count),
                         cases[i].device_count);
}

static void assert_refused(const char *name, uint32_t stage_count, uint32_t device_count, const char *part)
{
    uint32_t devices[16] = {7, 7};
    bg_error error = {0};

    assert_int_equal(bg_schedule_place(bg_schedule_generator_find(name), stage_count, device_count, devices, &error),
                     BG_ERROR_INVALID);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, error.message);
    assert_int_equal(devices[0], 7);
}

static void test_counts_that_do_not_fit(void **state)
{
    (void)state;
    assert_refused("interleaved", 4, 3,
                   "schedule `interleaved` needs one device for each stage, but there are 4 stages and 3");
    assert_refused(
        "looped", 5, 2,
        "needs a number of stages that is a multiple of the number of devices, but there are 5 stages and 2");
    assert_refused("zb-v", 5, 2, "needs two stages on each device");
    assert_refused("v-min", 4, 3,
                   "needs two stages on each device, but there are 4 stages and 3 devices: change one of them");
    assert_refused("single", 4, 2, "needs one device for all stages, but there are 4 stages and 2 devices");
    assert_refused("looped", 0, 2, "0 stages on 2 devices; both numbers must be at least 1");
    assert_refused("looped", 2, 0, "2 stages on 0 devices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_placement),
        cmocka_unit_test(test_generators_take_their_placement),
        cmocka_unit_test(test_how_many_devices_when_nobody_says),
        cmocka_unit_test(test_counts_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
