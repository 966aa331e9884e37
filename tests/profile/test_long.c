/*
 * test_long.c: after many updates with a profile, the files and the memory of the process are bounded.
 * BRIGADE_TEST_LONG=N trains N updates instead of a few, alternates with a session without recording, and prints the
 * overhead.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <brigade/convnet.h>
#include <brigade/profile.h>
#include <brigade/session.h>

#include "core/clock.h"
#include "predict/memory.h"
#include "runtime/record.h"
#include "support/folder.h"

enum { MICRO_BATCH = 40, MICRO_BATCHES = 4, UPDATES_A_RUN = 10, SHORT_UPDATES = 40, MOST_STREAMS = 16 };

static const off_t most_file_bytes = 24 << 20;
static const size_t most_growth_bytes = 3 << 20;

typedef struct rig {
    bg_plan *plan;
    bg_session *session;
    void *streams[MOST_STREAMS];
    uint32_t inputs;
} rig;

static void open_rig(rig *r, bool traces)
{
    const bg_optimizer optimizer = bg_adamw(1e-3);
    bg_convnet_options network = bg_convnet_defaults();
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_stream stream;

    *r = (rig){.plan = NULL};
    network.micro_batch = MICRO_BATCH;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    options.execution.device_iterations = UPDATES_A_RUN;
    options.reporting.trace = traces;
    assert_int_equal(bg_graph_create(&graph, NULL), BG_OK);
    assert_int_equal(
        bg_plan_create_training(graph, bg_convnet_build(graph, &network).loss, &optimizer, &options, &r->plan, NULL),
        BG_OK);
    bg_graph_destroy(graph);
    assert_int_equal(bg_session_create(r->plan, NULL, &r->session, NULL), BG_OK);
    r->inputs = bg_session_input_count(r->session);
    for (uint32_t i = 0; i < r->inputs; i++) {
        assert_int_equal(bg_session_input(r->session, i, &stream, NULL), BG_OK);
        r->streams[i] = calloc(1, stream.size_bytes);
        assert_non_null(r->streams[i]);
    }
}

static void close_rig(rig *r)
{
    for (uint32_t i = 0; i < r->inputs; i++)
        free(r->streams[i]);
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
}

static double run_ns(rig *r)
{
    const uint64_t start_ns = bgi_clock_ns();

    assert_int_equal(bg_session_run(r->session, (const void *const *)r->streams, r->streams + r->inputs, NULL), BG_OK);
    return (double)(bgi_clock_ns() - start_ns);
}

static int compare_numbers(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

static void check_files(const char *folder)
{
    static const char *const names[] = {"report.html", "summary.json", "trace.json"};
    char path[TEST_FOLDER_BYTES + 32];
    struct stat facts;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(stat(path, &facts), 0);
        printf("%s: %.2f MB\n", names[i], 1e-6 * (double)facts.st_size);
        assert_true(facts.st_size > 0 && facts.st_size <= most_file_bytes);
    }
}

/* Returns the median ratio of the times of neighboring runs with and without a profile. */
static double train(rig *traced, rig *plain, uint64_t runs)
{
    double *ratios = calloc(runs, sizeof *ratios), middle;

    assert_non_null(ratios);
    for (uint64_t i = 0; i < runs; i++) {
        const double first = plain != NULL && i % 2 == 0 ? run_ns(plain) : 0.0, own = run_ns(traced);
        ratios[i] = plain != NULL ? own / (i % 2 == 0 ? first : run_ns(plain)) : 1.0;
    }
    qsort(ratios, runs, sizeof *ratios, compare_numbers);
    middle = ratios[runs / 2];
    free(ratios);
    return middle;
}

static void test_files_and_memory_are_bounded(void **state)
{
    const char *wanted = getenv("BRIGADE_TEST_LONG");
    const uint64_t updates = wanted != NULL ? strtoull(wanted, NULL, 10) : SHORT_UPDATES;
    const uint64_t runs = updates / UPDATES_A_RUN > 4 ? updates / UPDATES_A_RUN : 4;
    size_t before = 0, after = 0, rings, peak;
    char folder[TEST_FOLDER_BYTES];
    rig traced, plain;
    double ratio;
    bool can_read;

    (void)state;
    open_rig(&traced, true);
    if (wanted != NULL)
        open_rig(&plain, false);
    rings = wanted == NULL ? bgi_engine_table_bytes(traced.plan) : 0; /* in a short run the rings are not full yet */
    assert_int_equal(bg_profile_start(traced.session, NULL), BG_OK);
    train(&traced, wanted != NULL ? &plain : NULL,
          runs / 2); /* touches all memory; in long runs this includes the rings */
    can_read = bgi_process_memory_read(&before, &peak);
    ratio = train(&traced, wanted != NULL ? &plain : NULL, runs - runs / 2);
    assert_int_equal(bgi_process_memory_read(&after, &peak), can_read);
    assert_int_equal(bg_profile_stop(traced.session, NULL), BG_OK);
    if (wanted != NULL)
        printf("overhead %+.2f %%\n", 100.0 * (ratio - 1.0));
    if (can_read && after > before + most_growth_bytes + rings)
        fail_msg("the process grew from %zu to %zu bytes", before, after);
    test_folder_create(folder);
    assert_int_equal(bg_profile_write(traced.session, NULL, folder, NULL), BG_OK);
    printf("%llu updates with a profile: memory from %.1f to %.1f MB in the second half\n",
           (unsigned long long)(runs * UPDATES_A_RUN), 1e-6 * (double)before, 1e-6 * (double)after);
    check_files(folder);
    test_folder_remove(folder);
    if (wanted != NULL)
        close_rig(&plain);
    close_rig(&traced);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files_and_memory_are_bounded)};

    return cmocka_run_group_tests_name("profile/long", tests, NULL, NULL);
}
