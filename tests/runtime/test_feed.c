/*
 * test_feed.c: infeeds and outfeeds deliver the same data as arrays, whichever side waits. The test covers every way in
 * which one side stops.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <brigade.h>

#include "plan/plan.h"
#include "support/allocations.h"
#include "support/models.h"

enum { MICRO_BATCH = 4, WIDTH = 3 };

/* ---- a small model, trained in four stages ---- */

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_error error;
} rig;

typedef struct rig_options {
    const char *stages, *schedule;
    uint32_t device_iterations, accumulation, replicas, cores;
} rig_options;

static void open_rig(rig *r, const rig_options *wanted)
{
    const test_model *model = test_model_at(3);
    const bg_optimizer optimizer = bg_sgd(0.05);
    bg_options options = bg_options_defaults();
    bg_value loss;

    memset(r, 0, sizeof *r);
    assert_int_equal(bg_graph_create(&r->graph, &r->error), BG_OK);
    loss = model->build(r->graph, MICRO_BATCH);
    if (wanted->stages == NULL)
        options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.stages = wanted->stages;
    options.execution.schedule = wanted->schedule;
    options.execution.device_iterations = wanted->device_iterations;
    options.execution.gradient_accumulation = wanted->accumulation;
    options.replicas.count = wanted->replicas;
    options.execution.cores = wanted->cores;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.execution.wait_limit_s = 20.0;
    if (bg_plan_create_training(r->graph, loss, &optimizer, &options, &r->plan, &r->error) != BG_OK ||
        bg_session_create(r->plan, NULL, &r->session, &r->error) != BG_OK)
        fail_msg("%s", r->error.message);
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->graph);
}

static void expect_ok(const rig *r, bg_status status)
{
    if (status != BG_OK)
        fail_msg("%s", r->error.message);
}

static void sleep_ms(long milliseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

/* ---- a source: the session's inputs, made in memory ---- */

typedef struct source {
    uint32_t tensor_count;
    bg_type types[4];
    unsigned char *data[4];
    uint64_t next, end, fail_at; /* numbers of elements; the source fails at element fail_at; UINT64_MAX: never */
    bool fails_silently;
    atomic_uint calls;
    atomic_bool *go; /* if not NULL, the last element arrives only when this is set, or after ten seconds */
} source;

static void init_source(source *s, const bg_session *session, uint64_t count)
{
    memset(s, 0, sizeof *s);
    s->tensor_count = bg_session_input_count(session);
    s->end = count;
    s->fail_at = UINT64_MAX;
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        bg_stream stream;
        assert_int_equal(bg_session_input(session, i, &stream, NULL), BG_OK);
        s->types[i] = stream.micro_batch_type;
        s->data[i] = test_model_input(&stream.micro_batch_type, stream.name, count);
    }
}

static void clear_source(source *s)
{
    for (uint32_t i = 0; i < s->tensor_count; i++)
        free(s->data[i]);
}

static bg_status next_element(void *user, void *const tensors[], bool *out_has_ended, bg_error *error)
{
    source *s = user;

    atomic_fetch_add(&s->calls, 1);
    if (s->next == s->fail_at)
        return s->fails_silently ? BG_ERROR_IO : bg_error_set(error, BG_ERROR_IO, "the disk is on fire");
    *out_has_ended = s->next == s->end;
    for (int wait = 0; s->go != NULL && s->next + 1 == s->end && wait < 2000 && !atomic_load(s->go); wait++)
        sleep_ms(5);
    for (uint32_t i = 0; i < s->tensor_count && !*out_has_ended; i++) {
        const size_t size = bg_type_size_bytes(&s->types[i]);
        memcpy(tensors[i], s->data[i] + s->next * size, size);
    }
    s->next++;
    return BG_OK;
}

static bg_infeed *open_infeed(source *s, rig *r, uint32_t depth)
{
    bg_infeed_options options = bg_infeed_options_defaults();
    bg_infeed *infeed = NULL;

    options.prefetch_depth = depth;
    expect_ok(r, bg_infeed_create(s->types, s->tensor_count, next_element, s, &options, &infeed, &r->error));
    expect_ok(r, bg_infeed_start(infeed, r->session, &r->error));
    return infeed;
}

static bg_outfeed *open_outfeed(rig *r, const bg_outfeed_options *options)
{
    bg_outfeed *outfeed = NULL;

    expect_ok(r, bg_outfeed_create(options, &outfeed, &r->error));
    expect_ok(r, bg_outfeed_attach(outfeed, r->session, &r->error));
    return outfeed;
}

/* Returns the number of threads of this process. */
static uint32_t count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    uint32_t count = 0;

    if (folder == NULL)
        return 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* Waits until the process has `count` threads, because the system may still list a joined thread for a short time. */
static void expect_threads(uint32_t count)
{
    for (int look = 0; look < 1000 && count_threads() != count; look++)
        sleep_ms(1);
    assert_int_equal(count_threads(), count);
}

/* ---- the same bits ---- */

static const rig_options ways[] = {
    {NULL, NULL, 3, 4, 1, 1},
    {"B1|B2|B3|B4", "interleaved", 3, 4, 1, 2},
    {"B1|B2|B3|B4", "grouped", 2, 6, 2, 2},
    {"B1|B2|B3|B4", "gpipe", 3, 5, 1, 3},
    {"B1|B2|B3|B4", "zb-h1", 3, 4, 2, 2},
    {"B1,B2|B3,B4", "sequential", 4, 1, 3, 2},
};
enum { WAY_COUNT = sizeof ways / sizeof ways[0], RUNS = 2 };

static uint64_t count_elements(const rig_options *way)
{
    return (uint64_t)way->device_iterations * way->accumulation * way->replicas;
}

/* Stores the losses of RUNS runs with arrays. */
static void run_arrays(const rig_options *way, float *losses)
{
    const uint64_t count = count_elements(way);
    rig r;
    source s;

    open_rig(&r, way);
    init_source(&s, r.session, RUNS * count);
    for (uint64_t run = 0; run < RUNS; run++) {
        const void *inputs[4];
        void *outputs[4] = {NULL};
        for (uint32_t i = 0; i < s.tensor_count; i++)
            inputs[i] = s.data[i] + run * count * bg_type_size_bytes(&s.types[i]);
        outputs[bg_session_find_output(r.session, "loss")] = losses + run * count;
        expect_ok(&r, bg_session_run(r.session, inputs, outputs, &r.error));
    }
    clear_source(&s);
    close_rig(&r);
}

static void queues_give_the_bits_of_arrays(void **state)
{
    (void)state;
    for (uint32_t w = 0; w < WAY_COUNT; w++) {
        const uint64_t count = count_elements(&ways[w]);
        const uint32_t depth = w % 2 == 0 ? 1 : 1 + w * 50;
        bg_outfeed_options options = bg_outfeed_options_defaults();
        float *wanted = calloc(RUNS * count, sizeof *wanted);
        bg_outfeed *outfeed;
        bg_infeed *infeed;
        bg_array array = {0};
        uint64_t rows;
        source s;
        rig r;
        assert_non_null(wanted);
        run_arrays(&ways[w], wanted);
        open_rig(&r, &ways[w]);
        init_source(&s, r.session, RUNS * count);
        options.structure = "loss";
        outfeed = open_outfeed(&r, &options);
        infeed = open_infeed(&s, &r, depth);
        for (int run = 0; run < RUNS; run++)
            expect_ok(&r, bg_session_run_infeed(r.session, infeed, NULL, &r.error));
        expect_ok(&r, bg_outfeed_dequeue(outfeed, true, &array, &rows, &r.error));
        assert_int_equal(rows * ways[w].replicas, RUNS * count);
        assert_memory_equal(array.data, wanted, RUNS * count * sizeof *wanted);
        assert_int_equal(bg_infeed_used_count(infeed), RUNS * count);
        bg_array_clear(&array);
        bg_outfeed_destroy(outfeed);
        close_rig(&r);
        bg_infeed_destroy(infeed);
        clear_source(&s);
        free(wanted);
    }
}

/* Sums over the micro-batches of a step are computed in order. */
static void accumulated_rows_are_sums(void **state)
{
    const rig_options *way = &ways[1];
    const uint64_t count = count_elements(way);
    bg_outfeed_options options = bg_outfeed_options_defaults();
    float wanted[64], row;
    double wide;
    bg_outfeed *sums, *wides;
    bool has;
    source s;
    rig r;

    (void)state;
    assert_true(RUNS * count <= 64);
    run_arrays(way, wanted);
    open_rig(&r, way);
    init_source(&s, r.session, RUNS * count);
    bg_infeed *infeed = open_infeed(&s, &r, 1);
    options.loss = options.accumulate = true;
    sums = open_outfeed(&r, &options);
    options.accumulate_dtype = BG_FLOAT64;
    wides = open_outfeed(&r, &options);
    /* The second run's rows use the slots of the first run's rows. */
    for (uint32_t run = 0; run < RUNS; run++) {
        expect_ok(&r, bg_session_run_infeed(r.session, infeed, NULL, &r.error));
        for (uint32_t step = 0; step < way->device_iterations; step++) {
            const float *losses = wanted + run * count + step * way->accumulation;
            float sum = losses[0];
            double wide_sum = losses[0];
            for (uint32_t m = 1; m < way->accumulation; m++)
                sum += losses[m], wide_sum += losses[m];
            expect_ok(&r, bg_outfeed_next(sums, (void *[]){&row}, &has, &r.error));
            assert_true(has);
            assert_memory_equal(&row, &sum, sizeof sum);
            expect_ok(&r, bg_outfeed_next(wides, (void *[]){&wide}, &has, &r.error));
            assert_memory_equal(&wide, &wide_sum, sizeof wide);
        }
        expect_ok(&r, bg_outfeed_next(sums, (void *[]){&row}, &has, &r.error));
        assert_false(has);
    }
    bg_outfeed_destroy(sums);
    bg_outfeed_destroy(wides);
    close_rig(&r);
    bg_infeed_destroy(infeed);
    clear_source(&s);
}

/* A sum of 16-bit values may have more bits than the values: 8 times 1 + 2^-7, a bfloat16, is 8.0625. */
static void sums_of_16_bits_are_wide(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 1, 1), scalar = bg_scalar(BG_FLOAT32);
    const bg_initializer one = {.kind = BG_INITIALIZE_CONSTANT, .a = 1.0};
    const bg_optimizer optimizer = bg_sgd(0.0);
    bg_outfeed_options outfeed_options = bg_outfeed_options_defaults();
    bg_options options = bg_options_defaults();
    char text[BG_TYPE_TEXT_BYTES];
    float x[8], row = 0.0f;
    bg_outfeed *sums;
    bg_outfeed_leaf leaf;
    bg_value loss;
    rig r = {0};
    bool has;

    (void)state;
    for (int i = 0; i < 8; i++)
        x[i] = 1.0078125f;
    assert_int_equal(bg_graph_create(&r.graph, &r.error), BG_OK);
    loss = bg_multiply(r.graph, bg_graph_input(r.graph, "x", &type), bg_graph_parameter(r.graph, "w", &scalar, &one));
    loss = bg_cast(r.graph, NULL, bg_reduce(r.graph, NULL, BG_REDUCE_SUM, loss, NULL, 0, false), BG_BFLOAT16);
    bg_graph_output(r.graph, "narrow", loss);
    loss = bg_cast(r.graph, NULL, loss, BG_FLOAT32);
    bg_graph_output(r.graph, "loss", loss);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.gradient_accumulation = 8;
    expect_ok(&r, bg_plan_create_training(r.graph, loss, &optimizer, &options, &r.plan, &r.error));
    expect_ok(&r, bg_session_create(r.plan, NULL, &r.session, &r.error));
    outfeed_options.structure = "narrow";
    outfeed_options.accumulate = true;
    sums = open_outfeed(&r, &outfeed_options);
    assert_int_equal(bg_outfeed_leaf_at(sums, 0, &leaf, NULL), BG_OK);
    assert_string_equal(bg_type_text(&leaf.type, text), "float32[]");
    expect_ok(&r, bg_session_execute(r.session, &(bg_run){.inputs = (const void *[]){x}}, NULL, &r.error));
    expect_ok(&r, bg_outfeed_next(sums, (void *[]){&row}, &has, &r.error));
    assert_true(has && row == 8.0625f);
    bg_outfeed_destroy(sums);
    close_rig(&r);
}

/* Rows of integers are summed as integers, which wrap around; bytes are an error. */
static void accumulated_integers_are_whole(void **state)
{
    enum { MICRO_BATCHES = 4 };
    const bg_type floats = bg_matrix(BG_FLOAT32, 1, 1), ones = bg_vector(BG_INT32, 1), wides = bg_vector(BG_INT64, 1);
    const bg_type bytes = bg_vector(BG_UINT8, 1);
    const bg_optimizer optimizer = bg_sgd(0.1);
    const int64_t large = ((int64_t)1 << 60) + 1;
    const float x[MICRO_BATCHES] = {1, 1, 1, 1};
    const int32_t counts[MICRO_BATCHES] = {INT32_MAX, 5, 6, 7};
    const int64_t wide_counts[MICRO_BATCHES] = {large, large + 1, large + 2, large + 3};
    const uint8_t letters[MICRO_BATCHES] = {1, 2, 3, 4};
    bg_outfeed_options outfeed_options = bg_outfeed_options_defaults();
    bg_options options = bg_options_defaults();
    bg_outfeed *sums, *refused = NULL;
    int32_t row[1];
    int64_t wide_row[1];
    bg_value loss;
    bool has;
    rig r = {0};

    (void)state;
    assert_int_equal(bg_graph_create(&r.graph, &r.error), BG_OK);
    loss = bg_linear(r.graph, NULL, bg_graph_input(r.graph, "x", &floats),
                     bg_graph_parameter(r.graph, "w", &floats, &(bg_initializer){.a = 1}), (bg_value){0});
    loss = bg_reduce(r.graph, NULL, BG_REDUCE_SUM, loss, NULL, 0, false);
    bg_graph_output(r.graph, "n", bg_reshape(r.graph, NULL, bg_graph_input(r.graph, "counts", &ones), 0, NULL));
    bg_graph_output(r.graph, "m", bg_reshape(r.graph, NULL, bg_graph_input(r.graph, "wide_counts", &wides), 0, NULL));
    bg_graph_output(r.graph, "letter", bg_reshape(r.graph, NULL, bg_graph_input(r.graph, "letters", &bytes), 0, NULL));
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.gradient_accumulation = MICRO_BATCHES;
    expect_ok(&r, bg_plan_create_training(r.graph, loss, &optimizer, &options, &r.plan, &r.error));
    expect_ok(&r, bg_session_create(r.plan, NULL, &r.session, &r.error));
    outfeed_options.accumulate = true;
    outfeed_options.structure = "letter";
    assert_int_equal(bg_outfeed_create(&outfeed_options, &refused, NULL), BG_OK);
    assert_int_equal(bg_outfeed_attach(refused, r.session, &r.error), BG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(r.error.message, "output `letter` is uint8, which cannot be summed; cast it first"));
    bg_outfeed_destroy(refused);
    outfeed_options.structure = "(n, m)";
    sums = open_outfeed(&r, &outfeed_options);
    expect_ok(&r, bg_session_execute(r.session, &(bg_run){.inputs = (const void *[]){x, counts, wide_counts, letters}},
                                     NULL, &r.error));
    expect_ok(&r, bg_outfeed_next(sums, (void *[]){row, wide_row}, &has, &r.error));
    assert_true(has);
    assert_int_equal(row[0], INT32_MIN + 17);
    assert_int_equal(wide_row[0], 4 * large + 6);
    bg_outfeed_destroy(sums);
    close_rig(&r);
}

static void masked_leaves_are_left_out(void **state)
{
    static const bool mask[] = {false, true, false};
    bg_outfeed_options options = bg_outfeed_options_defaults();
    bg_outfeed_leaf leaf;
    bg_outfeed *outfeed;
    bg_infeed *infeed;
    float rows[2];
    bool has;
    source s;
    rig r;

    (void)state;
    open_rig(&r, &ways[0]);
    init_source(&s, r.session, count_elements(&ways[0]));
    options.structure = "(loss, {a: loss, b: loss})";
    options.mask = mask;
    options.mask_count = 3;
    outfeed = open_outfeed(&r, &options);
    infeed = open_infeed(&s, &r, 1);
    assert_int_equal(bg_outfeed_leaf_count(outfeed), 2);
    assert_int_equal(bg_outfeed_leaf_at(outfeed, 1, &leaf, NULL), BG_OK);
    assert_string_equal(leaf.path, "1/b");
    expect_ok(&r, bg_session_run_infeed(r.session, infeed, NULL, &r.error));
    expect_ok(&r, bg_outfeed_next(outfeed, (void *[]){&rows[0], &rows[1]}, &has, &r.error));
    assert_true(has && rows[0] == rows[1] && rows[0] > 0);
    bg_outfeed_destroy(outfeed);
    close_rig(&r);
    bg_infeed_destroy(infeed);
    clear_source(&s);
}

/* ---- back-pressure ---- */

typedef struct consumer {
    bg_outfeed *outfeed;
    uint64_t wanted, seen;
    bool is_slow;
    atomic_bool has_seen_early;
    atomic_bool run_is_over;
    bg_status status;
    bg_error error;
} consumer;

static void *consume(void *argument)
{
    consumer *c = argument;
    float row[8];
    bool has;

    while (c->seen < c->wanted && c->status == BG_OK) {
        c->status = bg_outfeed_wait(c->outfeed, 0.2, &has, &c->error);
        if (c->status != BG_OK || !has)
            continue;
        if (!atomic_load(&c->run_is_over))
            atomic_store(&c->has_seen_early, true);
        if (c->is_slow)
            sleep_ms(2);
        c->status = bg_outfeed_next(c->outfeed, (void *[]){row}, &has, &c->error);
        c->seen += has;
    }
    return NULL;
}

/* A bounded queue: rows appear before the run ends, and the devices wait for a slow consumer. */
static void consumer_reads_while_devices_run(void **state)
{
    (void)state;
    for (uint32_t w = 0; w < WAY_COUNT; w++) {
        bg_outfeed_options options = bg_outfeed_options_defaults();
        consumer c = {.is_slow = true};
        pthread_t thread;
        bg_infeed *infeed;
        source s;
        rig r;
        open_rig(&r, &ways[w]);
        init_source(&s, r.session, count_elements(&ways[w]));
        options.structure = "loss";
        options.bounded = true;
        c.outfeed = open_outfeed(&r, &options);
        c.wanted = count_elements(&ways[w]) / ways[w].replicas;
        infeed = open_infeed(&s, &r, 1);
        assert_int_equal(pthread_create(&thread, NULL, consume, &c), 0);
        expect_ok(&r, bg_session_run_infeed(r.session, infeed, NULL, &r.error));
        atomic_store(&c.run_is_over, true);
        pthread_join(thread, NULL);
        assert_int_equal(c.status, BG_OK);
        assert_int_equal(c.seen, c.wanted);
        assert_true(atomic_load(&c.has_seen_early));
        bg_outfeed_destroy(c.outfeed);
        close_rig(&r);
        bg_infeed_destroy(infeed);
        clear_source(&s);
    }
}

typedef struct early_reader {
    bg_outfeed *outfeed;
    atomic_bool go; /* allows the run to end */
    uint64_t early, late, step_rows;
    bg_status status;
    bg_error error;
} early_reader;

/* Takes the rows that are ready while the run cannot end, allows it to end, and takes the rest. */
static void *read_early(void *argument)
{
    early_reader *e = argument;
    bg_array array = {0};
    bool has = false;

    e->status = bg_outfeed_wait(e->outfeed, 5.0, &has, &e->error);
    if (e->status == BG_OK)
        e->status = bg_outfeed_dequeue(e->outfeed, false, &array, &e->early, &e->error);
    bg_array_clear(&array);
    atomic_store(&e->go, true);
    if (e->status == BG_OK)
        e->status = bg_outfeed_dequeue(e->outfeed, true, &array, &e->late, &e->error);
    bg_array_clear(&array);
    return NULL;
}

/* An unbounded queue gives rows while the run is in progress: the last element arrives only after the reader has taken
 * its first rows. A reader that then waits for completion gets all other rows. */
static void unbounded_rows_come_before_the_end(void **state)
{
    (void)state;
    for (uint32_t w = 0; w < WAY_COUNT; w++) {
        const uint64_t rows = count_elements(&ways[w]) / ways[w].replicas;
        bg_outfeed_options options = bg_outfeed_options_defaults();
        early_reader e = {.early = 0};
        pthread_t thread;
        bg_infeed *infeed;
        source s;
        rig r;
        open_rig(&r, &ways[w]);
        init_source(&s, r.session, count_elements(&ways[w]));
        s.go = &e.go;
        options.structure = "loss";
        e.outfeed = open_outfeed(&r, &options);
        infeed = open_infeed(&s, &r, 1);
        assert_int_equal(pthread_create(&thread, NULL, read_early, &e), 0);
        expect_ok(&r, bg_session_run_infeed(r.session, infeed, NULL, &r.error));
        pthread_join(thread, NULL);
        if (e.status != BG_OK)
            fail_msg("way %u: %s", w, e.error.message);
        assert_in_range(e.early, 1, rows - ways[w].accumulation);
        assert_int_equal(e.early + e.late, rows);
        bg_outfeed_destroy(e.outfeed);
        close_rig(&r);
        bg_infeed_destroy(infeed);
        clear_source(&s);
    }
}

/* Checks that the source was called for exactly this number of elements. */
static void expect_calls(source *s, unsigned count)
{
    for (int look = 0; look < 20000 && atomic_load(&s->calls) < count; look++)
        sleep_ms(1);
    sleep_ms(20);
    assert_int_equal(atomic_load(&s->calls), count);
}

/* The infeed requests at most as many elements as its ring holds. */
static void producer_waits_for_devices(void **state)
{
    rig_options way = ways[1];
    bg_infeed *infeed;
    source s;
    rig r;

    (void)state;
    open_rig(&r, &way);
    init_source(&s, r.session, 1000);
    infeed = open_infeed(&s, &r, 3);
    expect_calls(&s, way.accumulation + 3);
    expect_ok(&r, bg_session_run_infeed(r.session, infeed, NULL, &r.error));
    expect_calls(&s, count_elements(&way) + way.accumulation + 3);
    bg_infeed_destroy(infeed);
    close_rig(&r);
    clear_source(&s);
}

/* ---- how feeds end ---- */

typedef struct leaver {
    bg_outfeed *outfeed;
    atomic_bool is_leaving;
} leaver;

static void *leave(void *argument)
{
    leaver *l = argument;

    sleep_ms(30);
    atomic_store(&l->is_leaving, true); /* set first, because the run may end before bg_outfeed_destroy returns */
    bg_outfeed_destroy(l->outfeed);
    return NULL;
}

static void a_consumer_that_leaves_is_waited_for_no_more(void **state)
{
    bg_outfeed_options options = bg_outfeed_options_defaults();
    leaver l = {0};
    pthread_t thread;
    bg_infeed *infeed;
    source s;
    rig r;

    (void)state;
    open_rig(&r, &ways[2]);
    init_source(&s, r.session, 2 * count_elements(&ways[2]));
    options.structure = "(loss, {l: loss})";
    options.bounded = true;
    l.outfeed = open_outfeed(&r, &options);
    infeed = open_infeed(&s, &r, 1);
    assert_int_equal(pthread_create(&thread, NULL, leave, &l), 0);
    expect_ok(&r, bg_session_run_infeed(r.session, infeed, NULL, &r.error));
    assert_true(atomic_load(&l.is_leaving));
    expect_ok(&r, bg_session_run_infeed(r.session, infeed, NULL, &r.error));
    pthread_join(thread, NULL);
    bg_infeed_destroy(infeed);
    close_rig(&r);
    clear_source(&s);
}

/* Checks that, without a consumer, a bounded queue holds `depth` rows more than all rows of an iteration except one. */
static void fill_until_the_limit(uint32_t depth)
{
    bg_outfeed_options options = bg_outfeed_options_defaults();
    rig_options way = ways[0];
    bg_infeed *infeed;
    bg_outfeed *outfeed;
    float row;
    bool has;
    source s;
    rig r;

    open_rig(&r, &way);
    r.plan->options.execution.wait_limit_s = 0.2;
    init_source(&s, r.session, 1000);
    options.structure = "loss";
    options.bounded = true;
    options.buffer_depth = depth;
    outfeed = open_outfeed(&r, &options);
    infeed = open_infeed(&s, &r, 1);
    assert_int_equal(bg_session_run_infeed(r.session, infeed, NULL, &r.error), BG_ERROR_TIMEOUT);
    assert_non_null(strstr(r.error.message, "consumer of an outfeed"));
    /* Earlier rows can be taken; then the consumer gets the error. */
    for (uint32_t taken = 0; taken < way.accumulation - 1 + depth; taken++) {
        assert_int_equal(bg_outfeed_next(outfeed, (void *[]){&row}, &has, NULL), BG_OK);
        assert_true(has);
    }
    bg_error_clear(&r.error);
    assert_int_equal(bg_outfeed_next(outfeed, (void *[]){&row}, &has, &r.error), BG_ERROR_TIMEOUT);
    assert_non_null(strstr(r.error.message, "the run failed"));
    bg_outfeed_destroy(outfeed);
    close_rig(&r);
    bg_infeed_destroy(infeed);
    clear_source(&s);
}

static void nobody_takes_rows_until_the_limit(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth < 6; depth += 2)
        fill_until_the_limit(depth);
}

/* The iterations with complete data run, and the session can still be used. */
static void data_that_end(void **state)
{
    (void)state;
    for (uint32_t w = 0; w < WAY_COUNT; w++) {
        const rig_options *way = &ways[w];
        const uint64_t of_one = (uint64_t)way->accumulation * way->replicas;
        bg_run run = {0};
        uint64_t iterations;
        source s;
        rig r;
        open_rig(&r, way);
        init_source(&s, r.session, of_one * (way->device_iterations + 1) + (of_one > 1));
        run.infeed = open_infeed(&s, &r, 2);
        expect_ok(&r, bg_session_execute(r.session, &run, &iterations, &r.error));
        assert_int_equal(iterations, way->device_iterations);
        assert_int_equal(bg_session_execute(r.session, &run, &iterations, &r.error), BG_ERROR_RANGE);
        assert_non_null(strstr(r.error.message, "1 iterations of this run were done"));
        assert_int_equal(iterations, 1);
        assert_int_equal(bg_session_step(r.session), way->device_iterations + 1);
        assert_int_equal(bg_session_execute(r.session, &run, &iterations, NULL), BG_ERROR_RANGE);
        assert_int_equal(iterations, 0);
        bg_infeed_destroy(run.infeed);
        s.next = 0;
        run.infeed = open_infeed(&s, &r, 2);
        bg_error_clear(&r.error);
        expect_ok(&r, bg_session_execute(r.session, &run, &iterations, &r.error));
        bg_infeed_destroy(run.infeed);
        close_rig(&r);
        clear_source(&s);
    }
}

/* A batch with samples that do not fill a micro-batch is an error. */
static void uneven_batches_are_refused(void **state)
{
    enum { SAMPLES = 7 };
    const bg_type all = bg_matrix(BG_FLOAT32, SAMPLES, WIDTH), micro = bg_matrix(BG_FLOAT32, 2, WIDTH);
    bg_infeed_options infeed_options = bg_infeed_options_defaults();
    bg_loader_options loading = bg_loader_options_defaults();
    bg_options options = bg_options_defaults();
    bg_infeed *infeed = NULL;
    bg_loader *loader = NULL;
    bg_dataset *data = NULL;
    bg_array array = {0};
    float found[2 * WIDTH];
    rig r = {0};

    (void)state;
    assert_int_equal(bg_array_init(&array, &all, &r.error), BG_OK);
    assert_int_equal(bg_graph_create(&r.graph, &r.error), BG_OK);
    bg_graph_output(r.graph, "y", bg_scale(r.graph, NULL, bg_graph_input(r.graph, "x", &micro), 1, 0));
    options.execution.strategy = BG_STRATEGY_SINGLE;
    expect_ok(&r, bg_plan_create_inference(r.graph, &options, &r.plan, &r.error));
    expect_ok(&r, bg_session_create(r.plan, NULL, &r.session, &r.error));
    expect_ok(&r, bg_dataset_create_arrays(&array, 1, &data, &r.error));
    loading.batch_size = 4;
    loading.drop_last = false;
    expect_ok(&r, bg_loader_create(data, &loading, &loader, &r.error));
    expect_ok(&r, bg_infeed_create_loader(loader, &infeed_options, &infeed, &r.error));
    expect_ok(&r, bg_infeed_start(infeed, r.session, &r.error));
    for (int i = 0; i < 2; i++)
        expect_ok(&r, bg_session_run_infeed(r.session, infeed, (void *[]){found}, &r.error));
    assert_int_equal(bg_session_run_infeed(r.session, infeed, (void *[]){found}, &r.error), BG_ERROR_SHAPE);
    assert_non_null(strstr(r.error.message, "a batch has 3 samples, which is not a multiple of the micro-batch, 2"));
    bg_infeed_destroy(infeed);
    close_rig(&r);
    bg_loader_destroy(loader);
    bg_dataset_destroy(data);
    bg_array_clear(&array);
}

static void a_source_that_fails_reaches_run_and_consumer(void **state)
{
    bg_outfeed_options options = bg_outfeed_options_defaults();
    consumer c = {.wanted = UINT64_MAX};
    pthread_t thread;
    bg_infeed *infeed;
    source s;
    rig r;

    (void)state;
    open_rig(&r, &ways[1]);
    init_source(&s, r.session, 1000);
    s.fail_at = ways[1].accumulation + 2;
    options.structure = "loss";
    c.outfeed = open_outfeed(&r, &options);
    infeed = open_infeed(&s, &r, 1);
    assert_int_equal(pthread_create(&thread, NULL, consume, &c), 0);
    assert_int_equal(bg_session_run_infeed(r.session, infeed, NULL, &r.error), BG_ERROR_IO);
    assert_non_null(strstr(r.error.message, "infeed, element 6: the disk is on fire"));
    pthread_join(thread, NULL);
    assert_int_equal(c.status, BG_ERROR_IO);
    assert_int_equal(c.seen, ways[1].accumulation);
    assert_int_equal(bg_session_step(r.session), 1);
    bg_outfeed_destroy(c.outfeed);
    close_rig(&r);
    bg_infeed_destroy(infeed);
    clear_source(&s);
}

static void a_source_that_fails_without_a_word_is_named(void **state)
{
    bg_infeed *infeed;
    source s;
    rig r;

    (void)state;
    open_rig(&r, &ways[0]);
    init_source(&s, r.session, 1000);
    s.fail_at = 0;
    s.fails_silently = true;
    infeed = open_infeed(&s, &r, 1);
    assert_int_equal(bg_session_run_infeed(r.session, infeed, NULL, &r.error), BG_ERROR_IO);
    assert_non_null(strstr(r.error.message, "infeed, element 0: the source reported '"));
    close_rig(&r);
    bg_infeed_destroy(infeed);
    clear_source(&s);
}

typedef struct stopper {
    bg_session *session;
    source *source;
    unsigned calls;
} stopper;

/* Waits until enough elements were taken that a run is in progress, because an earlier stop would have no effect. */
static void *stop_later(void *argument)
{
    stopper *s = argument;

    while (atomic_load(&s->source->calls) < s->calls)
        sleep_ms(1);
    bg_session_stop(s->session);
    return NULL;
}

/* Endless training is stopped by another thread, and by a value. */
static void endless_runs_are_stopped(void **state)
{
    bg_outfeed_options options = bg_outfeed_options_defaults();
    bg_run run = {.iterations = BG_ENDLESS};
    uint64_t iterations;
    bg_outfeed *last;
    pthread_t thread;
    stopper late;
    source s;
    rig r;

    (void)state;
    open_rig(&r, &ways[1]);
    init_source(&s, r.session, 200000);
    s.end = 200000;
    run.infeed = open_infeed(&s, &r, 4);
    options.structure = "loss";
    options.newest_only = true;
    last = open_outfeed(&r, &options);
    late = (stopper){r.session, &s, 4 + 10 * ways[1].accumulation};
    assert_int_equal(pthread_create(&thread, NULL, stop_later, &late), 0);
    expect_ok(&r, bg_session_execute(r.session, &run, &iterations, &r.error));
    pthread_join(thread, NULL);
    assert_true(iterations > 0 && iterations < 50000);
    assert_int_equal(bg_session_step(r.session), iterations);
    run.stop = "loss"; /* the value is above 0 in the first iteration */
    expect_ok(&r, bg_session_execute(r.session, &run, &iterations, &r.error));
    assert_int_equal(iterations, 1);
    run.stop = "nothing";
    assert_int_equal(bg_session_execute(r.session, &run, &iterations, NULL), BG_ERROR_NOT_FOUND);
    bg_outfeed_destroy(last);
    close_rig(&r);
    bg_infeed_destroy(run.infeed);
    clear_source(&s);
}

/* Infeeds, outfeeds and sessions are destroyed early, late, and in any order, and no thread remains. */
static void no_thread_is_left(void **state)
{
    const uint32_t before = count_threads();

    (void)state;
    for (int way = 0; way < 5; way++) {
        bg_outfeed_options options = bg_outfeed_options_defaults();
        bg_outfeed *outfeed;
        bg_infeed *infeed;
        source s;
        rig r;
        open_rig(&r, &ways[1]);
        init_source(&s, r.session, way == 2 ? 5 : 100);
        if (way == 3)
            s.fail_at = 5;
        options.structure = "loss";
        outfeed = open_outfeed(&r, &options);
        infeed = open_infeed(&s, &r, 2);
        if (way != 0)
            assert_int_equal(bg_session_run_infeed(r.session, infeed, NULL, NULL), way == 2   ? BG_ERROR_RANGE
                                                                                   : way == 3 ? BG_ERROR_IO
                                                                                              : BG_OK);
        if (way % 2 == 0)
            bg_infeed_destroy(infeed), bg_outfeed_destroy(outfeed), close_rig(&r);
        else
            close_rig(&r), bg_outfeed_destroy(outfeed), bg_infeed_destroy(infeed);
        clear_source(&s);
        expect_threads(before);
    }
}

static void *stop_at_signal(void *argument)
{
    sigset_t signals;
    int number = 0;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigwait(&signals, &number);
    bg_session_stop(argument);
    return NULL;
}

/* Takes a few rows, sends the signal, and returns without reading the rest. */
static void *interrupt_in_mid_queue(void *argument)
{
    consumer *c = argument;

    consume(c);
    kill(getpid(), SIGINT);
    bg_outfeed_destroy(c->outfeed);
    return NULL;
}

/* After Ctrl-C in a program that trains without end, while rows are queued, the step is finished and everything is
 * freed. */
static void a_signal_leaves_no_thread(void **state)
{
    const uint32_t before = count_threads();
    sigset_t signals, old;

    (void)state;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &signals, &old), 0);
    for (size_t way = 0; way < WAY_COUNT; way++) {
        bg_outfeed_options options = bg_outfeed_options_defaults();
        bg_run run = {.iterations = BG_ENDLESS};
        pthread_t waiting, reading;
        uint64_t iterations = 0;
        consumer c = {.wanted = (uint64_t)3 * ways[way].accumulation * ways[way].replicas};
        source s;
        rig r;

        open_rig(&r, &ways[way]);
        init_source(&s, r.session, 200000);
        run.infeed = open_infeed(&s, &r, 4);
        options.structure = "loss";
        options.bounded = true;
        c.outfeed = open_outfeed(&r, &options);
        assert_int_equal(pthread_create(&waiting, NULL, stop_at_signal, r.session), 0);
        assert_int_equal(pthread_create(&reading, NULL, interrupt_in_mid_queue, &c), 0);
        expect_ok(&r, bg_session_execute(r.session, &run, &iterations, &r.error));
        pthread_join(waiting, NULL);
        pthread_join(reading, NULL);
        assert_true(iterations >= 3 && iterations < 50000);
        assert_int_equal(bg_session_step(r.session), iterations);
        close_rig(&r);
        bg_infeed_destroy(run.infeed);
        clear_source(&s);
        expect_threads(before);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- structures, shapes, modes ---- */

static void structures_are_preserved(void **state)
{
    static const struct {
        const char *text, *written, *paths[4];
    } good[] = {
        {"a", "a", {""}},
        {" ( a , b ) ", "(a, b)", {"0", "1"}},
        {"{x: a, b}", "{x: a, b: b}", {"x", "b"}},
        {"({a: x, b: (y, z)}, loss)", "({a: x, b: (y, z)}, loss)", {"0/a", "0/b/0", "0/b/1", "1"}},
        {"(a)", "(a)", {"0"}},
    };
    static const char *const bad[] = {"",
                                      "(",
                                      "()",
                                      "{}",
                                      "(a,)",
                                      "{a:}",
                                      "{a: x, a: y}",
                                      "(a, b}",
                                      "{a: x, a: (y)}",
                                      "{a: (x), a: y}",
                                      "({a: (x, {b: y}), a: z})",
                                      "a b",
                                      "{a/b: x}",
                                      "((((((((((((((((((a))))))))))))))))))"};
    bg_outfeed_options options = bg_outfeed_options_defaults();
    bg_outfeed *outfeed = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        options.structure = good[i].text;
        assert_int_equal(bg_outfeed_create(&options, &outfeed, NULL), BG_OK);
        assert_string_equal(bg_outfeed_structure(outfeed), good[i].written);
        for (uint32_t leaf = 0; leaf < 4; leaf++) {
            bg_outfeed_leaf found;
            if (good[i].paths[leaf] == NULL)
                continue;
            assert_int_equal(bg_outfeed_leaf_at(outfeed, leaf, &found, NULL), BG_OK);
            assert_string_equal(found.path, good[i].paths[leaf]);
            assert_int_equal(bg_outfeed_find(outfeed, found.path), leaf);
        }
        assert_int_equal(bg_outfeed_find(outfeed, "nowhere"), UINT32_MAX);
        bg_outfeed_destroy(outfeed);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bg_error error = {0};
        options.structure = bad[i];
        assert_int_equal(bg_outfeed_create(&options, &outfeed, &error), BG_ERROR_PARSE);
        assert_non_null(strstr(error.message, "character"));
    }
}

/* 20 iterations of [4, 4] on two replicas: ALL [20, 2, 4, 4], LAST [2, 4, 4]. */
static void modes_have_their_shapes(void **state)
{
    const bg_type type = bg_matrix(BG_FLOAT32, 4, 4);
    bg_outfeed_options outfeed_options = bg_outfeed_options_defaults();
    bg_options options = bg_options_defaults();
    bg_run run = {0}, synthetic = {.synthetic = true};
    char text[BG_TYPE_TEXT_BYTES];
    static float input[20][2][16];
    bg_outfeed *all, *last;
    bg_outfeed_leaf leaf;
    bg_array array;
    bool has;
    uint64_t rows;
    rig r = {0};

    (void)state;
    assert_int_equal(bg_graph_create(&r.graph, &r.error), BG_OK);
    bg_graph_output(r.graph, "y", bg_scale(r.graph, NULL, bg_graph_input(r.graph, "x", &type), 2, 0));
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.replicas.count = 2;
    const bg_loop loop = bg_repeat(20, NULL, NULL, 0);
    expect_ok(&r, bg_plan_create_loop(r.graph, &loop, &options, &r.plan, &r.error));
    expect_ok(&r, bg_session_create(r.plan, NULL, &r.session, &r.error));
    outfeed_options.structure = "y";
    all = open_outfeed(&r, &outfeed_options);
    outfeed_options.newest_only = true;
    last = open_outfeed(&r, &outfeed_options);
    assert_int_equal(bg_outfeed_attach(last, r.session, NULL), BG_ERROR_INVALID);
    expect_ok(&r, bg_session_execute(r.session, &synthetic, NULL, &r.error));
    expect_ok(&r, bg_outfeed_dequeue(all, true, &array, &rows, &r.error));
    assert_int_equal(rows, 0);
    assert_int_equal(array.type.dims[0], 0);
    assert_int_equal(array.type.dims[3], 4);
    assert_null(array.data);
    assert_int_equal(bg_outfeed_dequeue(last, true, &array, &rows, NULL), BG_ERROR_INVALID);
    for (int i = 0; i < 20 * 32; i++)
        input[i / 32][i / 16 % 2][i % 16] = (float)i;
    run.inputs = (const void *[]){input};
    expect_ok(&r, bg_session_execute(r.session, &run, NULL, &r.error));
    expect_ok(&r, bg_outfeed_dequeue(all, true, &array, &rows, &r.error));
    assert_string_equal(bg_type_text(&array.type, text), "float32[20,2,4,4]");
    for (int i = 0; i < 20 * 32; i++)
        assert_true(((float *)array.data)[i] == 2.0f * (float)i);
    bg_array_clear(&array);
    assert_int_equal(bg_outfeed_leaf_at(all, 0, &leaf, NULL), BG_OK);
    assert_string_equal(bg_type_text(&leaf.type, text), "float32[2,4,4]");
    /* Taken one by one, the newest row is returned once. */
    expect_ok(&r, bg_outfeed_next(last, NULL, &has, &r.error));
    assert_true(has);
    expect_ok(&r, bg_outfeed_next(last, NULL, &has, &r.error));
    assert_false(has);
    expect_ok(&r, bg_outfeed_dequeue(last, true, &array, &rows, &r.error));
    assert_string_equal(bg_type_text(&array.type, text), "float32[2,4,4]");
    for (int i = 0; i < 32; i++)
        assert_true(((float *)array.data)[i] == 2.0f * (float)(19 * 32 + i));
    bg_array_clear(&array);
    bg_outfeed_destroy(all);
    bg_outfeed_destroy(last);
    close_rig(&r);
}

/* ---- errors ---- */

static void expect_refused(bg_outfeed_options options, const char *wanted)
{
    bg_outfeed *outfeed = NULL;
    bg_error error = {0};

    assert_int_equal(bg_outfeed_create(&options, &outfeed, &error), BG_ERROR_INVALID);
    if (strstr(error.message, wanted) == NULL)
        fail_msg("%s", error.message);
}

static void exclusive_options_are_refused(void **state)
{
    static const bool mask[] = {true, false};
    const bg_outfeed_options good = {.struct_bytes = sizeof good, .structure = "(a, b)", .buffer_depth = 1};
    bg_outfeed_options o;

    (void)state;
    o = good, o.buffer_depth = 0, expect_refused(o, "buffer_depth is 0");
    o = good, o.structure = NULL, o.loss = true, o.mask = mask, o.mask_count = 2,
    expect_refused(o, "cannot be combined");
    o = good, o.loss = true, expect_refused(o, "structure and loss");
    o = good, o.structure = NULL, expect_refused(o, "structure is NULL");
    o = good, o.accumulate = true, o.newest_only = true, expect_refused(o, "accumulate is set with newest_only");
    o = good, o.mask = mask, o.mask_count = 3, expect_refused(o, "mask has 3 elements for 2");
    o = good, o.accumulate_dtype = BG_INT32, expect_refused(o, "accumulate_dtype is int32");
    o = good, o.bounded = true, o.newest_only = true, expect_refused(o, "bounded is set with newest_only");
}

static void infeeds_are_checked(void **state)
{
    static const char *const wrong_names[] = {"nothing", "y", "z", "u"};
    bg_infeed_options options = bg_infeed_options_defaults();
    bg_outfeed_options outfeed_options = bg_outfeed_options_defaults();
    bg_outfeed *outfeed = NULL;
    bg_infeed *infeed = NULL;
    bool has;
    source s;
    rig r;

    (void)state;
    open_rig(&r, &ways[0]);
    init_source(&s, r.session, 8);
    for (uint32_t depth = 0; depth <= 256; depth += 256) {
        options.prefetch_depth = depth;
        assert_int_equal(bg_infeed_create(s.types, s.tensor_count, next_element, &s, &options, &infeed, NULL),
                         BG_ERROR_INVALID);
    }
    options.prefetch_depth = 255;
    assert_int_equal(bg_infeed_create(s.types, s.tensor_count, next_element, &s, &options, &infeed, NULL), BG_OK);
    assert_int_equal(bg_session_run_infeed(r.session, infeed, NULL, &r.error), BG_ERROR_INVALID);
    assert_non_null(strstr(r.error.message, "bg_infeed_start"));
    bg_error_clear(&r.error);
    expect_ok(&r, bg_infeed_start(infeed, r.session, &r.error));
    assert_int_equal(bg_infeed_start(infeed, r.session, NULL), BG_ERROR_INVALID);
    bg_infeed_destroy(infeed);
    options.names = wrong_names;
    assert_int_equal(bg_infeed_create(s.types, s.tensor_count, next_element, &s, &options, &infeed, NULL), BG_OK);
    assert_int_equal(bg_infeed_start(infeed, r.session, NULL), BG_ERROR_NOT_FOUND);
    bg_infeed_destroy(infeed);
    options.names = NULL;
    s.types[0].dims[0]++;
    assert_int_equal(bg_infeed_create(s.types, s.tensor_count, next_element, &s, &options, &infeed, NULL), BG_OK);
    assert_int_equal(bg_infeed_start(infeed, r.session, &r.error), BG_ERROR_SHAPE);
    assert_non_null(strstr(r.error.message, "they must be equal"));
    bg_infeed_destroy(infeed);
    outfeed_options.structure = "unknown";
    assert_int_equal(bg_outfeed_create(&outfeed_options, &outfeed, NULL), BG_OK);
    assert_int_equal(bg_outfeed_next(outfeed, NULL, &has, NULL), BG_ERROR_INVALID);
    assert_int_equal(bg_outfeed_attach(outfeed, r.session, NULL), BG_ERROR_NOT_FOUND);
    bg_outfeed_destroy(outfeed);
    close_rig(&r);
    clear_source(&s);
}

/* Data sets give samples in order, leave the remainder out, and continue epoch after epoch; loaders give batches;
 * `next` works without an explicit queue. */
static void data_sets_loaders_and_iterators_agree(void **state)
{
    enum { SAMPLES = 11 };
    const bg_type all = bg_matrix(BG_FLOAT32, SAMPLES, WIDTH), micro = bg_matrix(BG_FLOAT32, 2, WIDTH);
    bg_infeed_options infeed_options = bg_infeed_options_defaults();
    bg_loader_options loading = bg_loader_options_defaults();
    bg_options options = bg_options_defaults();
    float found[3][5][2 * WIDTH];
    bg_infeed *infeeds[2] = {NULL};
    bg_loader *loaders[2] = {NULL};
    bg_dataset *data = NULL;
    bg_array array = {0};
    rig r = {0};

    (void)state;
    infeed_options.repeat = true;
    assert_int_equal(bg_array_init(&array, &all, &r.error), BG_OK);
    for (int i = 0; i < SAMPLES * WIDTH; i++)
        ((float *)array.data)[i] = (float)i;
    assert_int_equal(bg_graph_create(&r.graph, &r.error), BG_OK);
    bg_graph_output(r.graph, "y", bg_scale(r.graph, NULL, bg_graph_input(r.graph, "x", &micro), 1, 0));
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.device_iterations = 5;
    expect_ok(&r, bg_plan_create_inference(r.graph, &options, &r.plan, &r.error));
    expect_ok(&r, bg_session_create(r.plan, NULL, &r.session, &r.error));
    expect_ok(&r, bg_dataset_create_arrays(&array, 1, &data, &r.error));
    loading.batch_size = 4;
    for (int i = 0; i < 2; i++)
        expect_ok(&r, bg_loader_create(data, &loading, &loaders[i], &r.error));
    expect_ok(&r, bg_infeed_create_dataset(data, &infeed_options, &infeeds[0], &r.error));
    expect_ok(&r, bg_infeed_create_loader(loaders[0], &infeed_options, &infeeds[1], &r.error));
    for (int i = 0; i < 2; i++) {
        expect_ok(&r, bg_infeed_start(infeeds[i], r.session, &r.error));
        expect_ok(&r, bg_session_run_infeed(r.session, infeeds[i], (void *[]){found[i]}, &r.error));
    }
    for (int m = 0; m < 5; m++)
        for (int i = 0; i < 2 * WIDTH; i++) {
            assert_true(found[0][m][i] == (float)(m * 2 * WIDTH + i));
            assert_true(found[1][m][i] == (float)(m % 4 * 2 * WIDTH + i)); /* two batches of 4, then again */
        }
    /* One epoch of the loader has four micro-batches, one run has five. */
    assert_int_equal(bg_session_run_loader(r.session, loaders[1], 0, (void *[]){found[2]}, NULL), BG_ERROR_RANGE);
    bg_session_destroy(r.session);
    bg_plan_destroy(r.plan);
    options.execution.device_iterations = 2;
    expect_ok(&r, bg_plan_create_inference(r.graph, &options, &r.plan, &r.error));
    expect_ok(&r, bg_session_create(r.plan, NULL, &r.session, &r.error));
    for (int run = 0; run < 2; run++)
        expect_ok(&r, bg_session_run_loader(r.session, loaders[1], 0, (void *[]){found[2][2 * run]}, &r.error));
    assert_memory_equal(found[2], found[0], 4 * sizeof found[0][0]);
    for (int i = 0; i < 2; i++)
        bg_infeed_destroy(infeeds[i]);
    close_rig(&r);
    for (int i = 0; i < 2; i++)
        bg_loader_destroy(loaders[i]);
    bg_dataset_destroy(data);
    bg_array_clear(&array);
}

/* An infeed that begins at any element of any epoch has the elements of one that began at the start. The loader is
 * shuffled, with batches of three elements, five of them in an epoch. */
static void infeeds_go_on_where_others_left_off(void **state)
{
    enum { SAMPLES = 31, EPOCHS = 3, EACH = 15 };
    const bg_type all = bg_vector(BG_FLOAT32, SAMPLES), micro = bg_vector(BG_FLOAT32, 2);
    bg_infeed_options infeed_options = bg_infeed_options_defaults();
    bg_loader_options loading = bg_loader_options_defaults();
    bg_options options = bg_options_defaults();
    float wanted[EPOCHS * EACH][2], found[2];
    bg_loader *loader = NULL;
    bg_infeed *infeed = NULL;
    bg_dataset *data = NULL;
    bg_array array = {0};
    rig r = {0};

    (void)state;
    assert_int_equal(bg_array_init(&array, &all, &r.error), BG_OK);
    for (int i = 0; i < SAMPLES; i++)
        ((float *)array.data)[i] = (float)i;
    assert_int_equal(bg_graph_create(&r.graph, &r.error), BG_OK);
    bg_graph_output(r.graph, "y", bg_scale(r.graph, NULL, bg_graph_input(r.graph, "x", &micro), 1, 0));
    options.execution.strategy = BG_STRATEGY_SINGLE;
    expect_ok(&r, bg_plan_create_inference(r.graph, &options, &r.plan, &r.error));
    expect_ok(&r, bg_session_create(r.plan, NULL, &r.session, &r.error));
    expect_ok(&r, bg_dataset_create_arrays(&array, 1, &data, &r.error));
    loading.batch_size = 6;
    loading.shuffle = true;
    expect_ok(&r, bg_loader_create(data, &loading, &loader, &r.error));
    infeed_options.repeat = true;
    for (uint32_t first = 0; first < EPOCHS * EACH; first++) {
        /* The end of an epoch and the beginning of the next one are the same position. */
        infeed_options.first_epoch = first / EACH - (first % EACH == 0 && first % 2 == 1);
        infeed_options.first_element = first - infeed_options.first_epoch * EACH;
        expect_ok(&r, bg_infeed_create_loader(loader, &infeed_options, &infeed, &r.error));
        expect_ok(&r, bg_infeed_start(infeed, r.session, &r.error));
        for (uint32_t at = first; at < EPOCHS * EACH; at++) {
            expect_ok(&r,
                      bg_session_run_infeed(r.session, infeed, (void *[]){first == 0 ? wanted[at] : found}, &r.error));
            if (first > 0)
                assert_memory_equal(found, wanted[at], sizeof found);
        }
        bg_infeed_destroy(infeed);
    }
    assert_memory_not_equal(wanted[0], wanted[EACH], EACH * sizeof found);
    infeed_options.first_element = EACH + 1;
    expect_ok(&r, bg_infeed_create_loader(loader, &infeed_options, &infeed, &r.error));
    expect_ok(&r, bg_infeed_start(infeed, r.session, &r.error));
    assert_int_equal(bg_session_run_infeed(r.session, infeed, (void *[]){found}, &r.error), BG_ERROR_INVALID);
    assert_non_null(strstr(r.error.message, "first_element is 16"));
    bg_infeed_destroy(infeed);
    infeed_options.first_element = 2 * EACH;
    expect_ok(&r, bg_infeed_create_loader(loader, &infeed_options, &infeed, NULL));
    assert_int_equal(bg_infeed_start(infeed, r.session, NULL), BG_ERROR_INVALID);
    bg_infeed_destroy(infeed);
    assert_int_equal(bg_infeed_create(&micro, 1, next_element, NULL, &infeed_options, &infeed, NULL), BG_ERROR_INVALID);
    /* Without an explicit queue, epochs are read in the given order, each to its end. */
    for (uint64_t epoch = EPOCHS; epoch-- > 0;) {
        for (uint64_t at = 0; at < EACH; at++) {
            expect_ok(&r, bg_session_run_loader(r.session, loader, epoch, (void *[]){found}, &r.error));
            assert_memory_equal(found, wanted[epoch * EACH + at], sizeof found);
        }
        assert_int_equal(bg_session_run_loader(r.session, loader, epoch, (void *[]){found}, NULL), BG_ERROR_RANGE);
    }
    close_rig(&r);
    bg_loader_destroy(loader);
    bg_dataset_destroy(data);
    bg_array_clear(&array);
}

/* ---- inputs that stay the same ---- */

static void constant_inputs_are_given_once(void **state)
{
    const bg_type x_type = bg_vector(BG_FLOAT32, 1), rate_type = bg_scalar(BG_FLOAT32);
    const float rate = 0.25f, x[] = {1, 2, 3, 4};
    bg_options options = bg_options_defaults();
    float y[4];
    bg_value values[2];
    rig r = {0};

    (void)state;
    assert_int_equal(bg_graph_create(&r.graph, &r.error), BG_OK);
    values[0] = bg_graph_input(r.graph, "x", &x_type);
    values[1] = bg_graph_input(r.graph, "rate", &rate_type);
    bg_block_start(r.graph, "B1", BG_DEVICE_NONE);
    values[0] = bg_scale(r.graph, NULL, values[0], 2, 0);
    bg_block_start(r.graph, "B2", BG_DEVICE_NONE);
    bg_graph_output(r.graph, "y", bg_multiply(r.graph, values[0], values[1]));
    options.execution.stages = "B1|B2";
    options.execution.device_iterations = 4;
    expect_ok(&r, bg_plan_create_inference(r.graph, &options, &r.plan, &r.error));
    expect_ok(&r, bg_session_create(r.plan, NULL, &r.session, &r.error));
    const bg_run run = {
        .inputs = (const void *[]){x, &rate}, .constants = (const bool[]){false, true}, .outputs = (void *[]){y}};
    expect_ok(&r, bg_session_execute(r.session, &run, NULL, &r.error));
    for (int i = 0; i < 4; i++)
        assert_true(y[i] == x[i] * 2 * rate);
    close_rig(&r);
}

/* Builds four stages of one linear layer each. Every stage scales its result by the input `rate`, so all stages read
 * it. */
static bg_value build_rated(bg_graph *graph)
{
    static const char *const blocks[] = {"B1", "B2", "B3", "B4"};
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH), scalar = bg_scalar(BG_FLOAT32);
    const bg_value rate = bg_graph_input(graph, "rate", &scalar), input = bg_graph_input(graph, "x", &type);
    bg_value x = input;

    for (int b = 0; b < 4; b++) {
        bg_block_start(graph, blocks[b], BG_DEVICE_NONE);
        x = bg_multiply(graph, bg_linear_layer(graph, blocks[b], x, WIDTH, true), rate);
    }
    x = bg_multiply(graph, bg_mse_loss(graph, NULL, x, input, BG_LOSS_MEAN), rate);
    bg_graph_output(graph, "loss", x);
    return x;
}

enum { RATED_ELEMENTS = 2 * 3 * 4 }; /* replicas, iterations, accumulation */

/* Stores the losses of three calls, each with a different rate. A rate is one value, or one value for each element. */
static void train_rated(const char *stages, const char *schedule, bool is_constant, float *losses)
{
    static const float rates[] = {0.5f, 1.25f, 0.75f};
    const bg_type type = bg_matrix(BG_FLOAT32, MICRO_BATCH, WIDTH);
    const bg_optimizer optimizer = bg_sgd(0.1);
    bg_options options = bg_options_defaults();
    void *x = test_model_input(&type, "x", RATED_ELEMENTS);
    rig r = {0};
    bg_value loss;

    assert_int_equal(bg_graph_create(&r.graph, &r.error), BG_OK);
    loss = build_rated(r.graph);
    if (stages == NULL)
        options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.stages = stages;
    options.execution.schedule = schedule;
    options.execution.device_iterations = 3;
    options.execution.gradient_accumulation = 4;
    options.replicas.count = 2;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    expect_ok(&r, bg_plan_create_training(r.graph, loss, &optimizer, &options, &r.plan, &r.error));
    expect_ok(&r, bg_session_create(r.plan, NULL, &r.session, &r.error));
    for (int call = 0; call < 3; call++) {
        const size_t count = is_constant ? 1 : RATED_ELEMENTS;
        float *rate = malloc(count * sizeof *rate); /* so that a sanitizer detects reads beyond it */
        const void *inputs[2] = {0};
        bool constants[2] = {false};
        const bg_run run = {.inputs = inputs, .constants = constants, .outputs = (void *[]){losses}};
        assert_non_null(rate);
        for (size_t i = 0; i < count; i++)
            rate[i] = rates[call];
        inputs[bg_session_find_input(r.session, "x")] = x;
        inputs[bg_session_find_input(r.session, "rate")] = rate;
        constants[bg_session_find_input(r.session, "rate")] = is_constant;
        expect_ok(&r, bg_session_execute(r.session, &run, NULL, &r.error));
        free(rate);
        losses += RATED_ELEMENTS;
    }
    close_rig(&r);
    free(x);
}

/* A constant input trains to the same bits as an array that repeats its value for each micro-batch, under every
 * schedule. */
static void constant_inputs_pass_through_stages(void **state)
{
    static const struct {
        const char *stages, *schedule;
    } cases[] = {{NULL, NULL},
                 {"B1|B2|B3|B4", "interleaved"},
                 {"B1|B2|B3|B4", "grouped"},
                 {"B1,B2|B3,B4", "sequential"},
                 {"B1|B2,B3|B4", "zb-h1"}};
    float wanted[3 * RATED_ELEMENTS], found[3 * RATED_ELEMENTS];

    (void)state;
    train_rated(NULL, NULL, false, wanted);
    assert_true(wanted[0] != wanted[RATED_ELEMENTS] && wanted[RATED_ELEMENTS] != wanted[2 * RATED_ELEMENTS]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int is_constant = 0; is_constant < 2; is_constant++) {
            memset(found, 0xee, sizeof found);
            train_rated(cases[i].stages, cases[i].schedule, is_constant, found);
            assert_memory_equal(found, wanted, sizeof found);
        }
}

/* ---- idle workers ---- */

typedef struct spare {
    atomic_uint calls, inside;
    unsigned answers; /* the number of times that work is available */
    long sleep_ns;
} spare;

static bool do_spare(void *user)
{
    spare *s = user;
    const unsigned call = atomic_fetch_add(&s->calls, 1);

    atomic_fetch_add(&s->inside, 1);
    if (s->sleep_ns > 0)
        nanosleep(&(struct timespec){.tv_nsec = s->sleep_ns}, NULL);
    atomic_fetch_sub(&s->inside, 1);
    return call < s->answers;
}

/* Work of idle workers does not change results, and does not continue after the run. */
static void the_idle_have_something_to_do(void **state)
{
    static const rig_options way = {"B1|B2|B3|B4", "interleaved", 3, 4, 1, 3};
    static const struct {
        unsigned answers;
        long sleep_ns;
    } cases[] = {{0, 0}, {100, 0}, {UINT_MAX, 0}, {UINT_MAX, 300000}};
    enum { CASES = sizeof cases / sizeof cases[0] };
    float wanted[RUNS][12] = {{0}}, found[12] = {0};

    (void)state;
#ifdef TEST_COPIED
    skip(); /* one worker */
#endif
    for (int i = -1; i < CASES; i++) {
        spare s = {.answers = i < 0 ? 0 : cases[i].answers, .sleep_ns = i < 0 ? 0 : cases[i].sleep_ns};
        void *outputs[4] = {NULL};
        source data;
        rig r;

        open_rig(&r, &way);
        init_source(&data, r.session, 12);
        for (int run = 0; run < RUNS; run++) {
            const bg_run given = {.inputs = (const void *const *)data.data,
                                  .outputs = outputs,
                                  .spare = i < 0 ? NULL : do_spare,
                                  .spare_user = &s};
            unsigned calls;
            outputs[bg_session_find_output(r.session, "loss")] = i < 0 ? wanted[run] : found;
            expect_ok(&r, bg_session_execute(r.session, &given, NULL, &r.error));
            calls = atomic_load(&s.calls);
            assert_int_equal(atomic_load(&s.inside), 0);
            if (i >= 0)
                assert_memory_equal(found, wanted[run], sizeof found);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            assert_int_equal(atomic_load(&s.calls), calls);
        }
        /* On a busy machine one worker may do everything before another wakes up, but not every time. */
        for (int more = 0; i >= 0 && more < 2000 && atomic_load(&s.calls) == 0; more++) {
            const bg_run given = {
                .inputs = (const void *const *)data.data, .outputs = outputs, .spare = do_spare, .spare_user = &s};
            expect_ok(&r, bg_session_execute(r.session, &given, NULL, &r.error));
        }
        assert_true(i < 0 || atomic_load(&s.calls) > 0);
        close_rig(&r);
        clear_source(&data);
    }
}

static void a_run_allocates_nothing(void **state)
{
    bg_outfeed_options options = bg_outfeed_options_defaults();
    bg_infeed *infeed;
    bg_outfeed *outfeed;
    bool has;
    float row;
    source s;
    rig r;

    (void)state;
#ifdef TEST_COPIED
    skip(); /* the copying transport allocates its copies */
#endif
    if (!test_allocations_available())
        skip();
    open_rig(&r, &ways[1]);
    init_source(&s, r.session, 100);
    options.structure = "loss";
    outfeed = open_outfeed(&r, &options);
    infeed = open_infeed(&s, &r, 2);
    expect_ok(&r, bg_session_run_infeed(r.session, infeed, NULL, &r.error));
    for (int run = 0; run < 3; run++) {
        const uint64_t before = test_allocations_count();
        do
            expect_ok(&r, bg_outfeed_next(outfeed, (void *[]){&row}, &has, &r.error));
        while (has);
        expect_ok(&r, bg_session_run_infeed(r.session, infeed, NULL, &r.error));
        assert_int_equal(test_allocations_count(), before);
    }
    bg_outfeed_destroy(outfeed);
    close_rig(&r);
    bg_infeed_destroy(infeed);
    clear_source(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_give_the_bits_of_arrays),
        cmocka_unit_test(accumulated_rows_are_sums),
        cmocka_unit_test(accumulated_integers_are_whole),
        cmocka_unit_test(sums_of_16_bits_are_wide),
        cmocka_unit_test(masked_leaves_are_left_out),
        cmocka_unit_test(consumer_reads_while_devices_run),
        cmocka_unit_test(unbounded_rows_come_before_the_end),
        cmocka_unit_test(producer_waits_for_devices),
        cmocka_unit_test(a_consumer_that_leaves_is_waited_for_no_more),
        cmocka_unit_test(nobody_takes_rows_until_the_limit),
        cmocka_unit_test(data_that_end),
        cmocka_unit_test(uneven_batches_are_refused),
        cmocka_unit_test(a_source_that_fails_reaches_run_and_consumer),
        cmocka_unit_test(a_source_that_fails_without_a_word_is_named),
        cmocka_unit_test(endless_runs_are_stopped),
        cmocka_unit_test(no_thread_is_left),
        cmocka_unit_test(a_signal_leaves_no_thread),
        cmocka_unit_test(structures_are_preserved),
        cmocka_unit_test(modes_have_their_shapes),
        cmocka_unit_test(exclusive_options_are_refused),
        cmocka_unit_test(infeeds_are_checked),
        cmocka_unit_test(data_sets_loaders_and_iterators_agree),
        cmocka_unit_test(infeeds_go_on_where_others_left_off),
        cmocka_unit_test(constant_inputs_are_given_once),
        cmocka_unit_test(constant_inputs_pass_through_stages),
        cmocka_unit_test(the_idle_have_something_to_do),
        cmocka_unit_test(a_run_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
