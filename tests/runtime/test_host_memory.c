/*
 * test_host_memory.c: reads the system's free memory from folders that imitate /proc and /sys, and creates a session
 * that needs more memory than is free.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <brigade/nn.h>
#include <brigade/session.h>

#include "runtime/host_memory.h"
#include "support/folder.h"

enum { PATH_BYTES = 512 };

/* Writes root/path with its folders. */
static void put(const char *root, const char *path, const char *text)
{
    char full[PATH_BYTES];
    FILE *file;

    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect(const char *root, uint64_t free_bytes, bool is_limit)
{
    const bgi_host_memory memory = bgi_host_memory_read(root);

    assert_int_equal(memory.free_bytes, free_bytes);
    assert_int_equal(memory.is_limit, is_limit);
}

static void the_least_holds(void **state)
{
    char root[TEST_FOLDER_BYTES];

    (void)state;
    test_folder_create(root);
    expect(root, UINT64_MAX, false);
    put(root, "proc/meminfo", "MemTotal: 900000 kB\nMemFree: 7 kB\nMemAvailable:   300000 kB\nSwapFree:  100 kB\n");
    expect(root, 1024 * UINT64_C(300100), false);
    /* A group without a limit, or with a limit above the machine's memory, changes nothing. */
    put(root, "proc/self/cgroup", "0::/user/job\n");
    put(root, "sys/fs/cgroup/user/job/memory.max", "max\n");
    put(root, "sys/fs/cgroup/user/job/memory.current", "4096\n");
    expect(root, 1024 * UINT64_C(300100), false);
    put(root, "sys/fs/cgroup/user/job/memory.max", "999999999999\n");
    expect(root, 1024 * UINT64_C(300100), false);
    /* A parent of the process's group has a limit; the parent's file cache counts as free. */
    put(root, "sys/fs/cgroup/user/memory.max", "10000000\n");
    put(root, "sys/fs/cgroup/user/memory.current", "4000000\n");
    expect(root, 6000000, true);
    put(root, "sys/fs/cgroup/user/memory.stat", "anon 5\ninactive_file 1000000\nactive_file 500000\nfile 9\n");
    expect(root, 7500000, true);
    /* Above the limit no memory is left. */
    put(root, "sys/fs/cgroup/user/memory.current", "20000000\n");
    expect(root, 0, true);
    test_folder_remove(root);
}

static void old_groups_and_mounts_of_a_container(void **state)
{
    char root[TEST_FOLDER_BYTES];

    (void)state;
    test_folder_create(root);
    put(root, "proc/meminfo", "MemAvailable: 300000 kB\n");
    /* The path is that of the host; only the mount point exists here. */
    put(root, "proc/self/cgroup", "12:cpu,cpuacct:/x\n4:memory:/docker/0123\n0::/docker/0123\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "2000000\n");
    put(root, "sys/fs/cgroup/memory/memory.stat", "cache 3\ntotal_inactive_file 200\ntotal_active_file 50\n");
    expect(root, 3000250, true);
    put(root, "sys/fs/cgroup/memory.max", "900000\n");
    put(root, "sys/fs/cgroup/memory.current", "100000\n");
    expect(root, 800000, true);
    /* A file that cannot be read sets no limit. */
    put(root, "proc/self/cgroup", "garbage\n0:\n::\n");
    expect(root, 1024 * UINT64_C(300000), false);
    put(root, "proc/meminfo", "MemAvailable: lots\n");
    expect(root, UINT64_MAX, false);
    test_folder_remove(root);
}

/* Creates a session of 65535 replicas, whose memory exceeds that of any machine that the test is for. */
static void a_session_that_does_not_fit_is_refused(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 4096, 1024);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_session *session = NULL;
    bg_error error = {0};
    bg_value x;

    (void)state;
    if (bgi_host_memory_read("").free_bytes > UINT64_C(1) << 40)
        skip(); /* free memory is unknown, or more than a terabyte */
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    x = bg_graph_input(graph, "x", &type);
    bg_graph_output(graph, "y", bg_linear_layer(graph, "layer", x, 1024, true));
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.replicas.count = 65535;
    options.numerics.initialize_missing = true;
    assert_int_equal(bg_plan_create_inference(graph, &options, &plan, &error), BG_OK);
    assert_int_equal(bg_session_create(plan, NULL, &session, &error), BG_ERROR_BUDGET);
    assert_non_null(strstr(error.message, "for 65535 devices (65535 replicas)"));
    assert_non_null(strstr(error.message, "free; use fewer replicas or smaller micro-batches"));
    assert_null(session);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

static void what_is_free_may_be_taken(void **state)
{
    const bgi_host_memory little = {.free_bytes = 1000, .is_limit = true};
    bg_plan plan = {.replicas = 1, .device_count = 2};
    bg_error error = {0};

    (void)state;
    assert_int_equal(bgi_host_memory_check(&little, &plan, 1000, &error), BG_OK);
    assert_int_equal(bgi_host_memory_check(&little, &plan, 1001, &error), BG_ERROR_BUDGET);
    assert_non_null(
        strstr(error.message, "for 2 devices (1 replica), but the control group of this process has only 1.00 kB"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_holds),
        cmocka_unit_test(old_groups_and_mounts_of_a_container),
        cmocka_unit_test(a_session_that_does_not_fit_is_refused),
        cmocka_unit_test(what_is_free_may_be_taken),
    };

    return cmocka_run_group_tests_name("runtime/host_memory", tests, NULL, NULL);
}
