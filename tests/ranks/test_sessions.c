/*
 * test_sessions.c: tests operations that sessions of several ranks do together, and their errors. All ranks (wrap.h)
 * run each test.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade.h>

#include "plan/plan.h"
#include "ranks/wrap.h"
#include "core/error.h"
#include "core/threads.h"
#include "runtime/layout.h"
#include "runtime/record.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "support/models.h"

enum { MICRO_BATCH = 4, ITERATIONS = 3, ACCUMULATION = 2 };

typedef struct rig {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_error error;
    bg_status status; /* the error of the last request */
} rig;

static bg_options make_options(void)
{
    bg_options options = bg_options_defaults();

    options.execution.stages = "B1|B2|B3|B4";
    options.execution.gradient_accumulation = ACCUMULATION;
    options.execution.device_iterations = ITERATIONS;
    options.execution.cores = 1;
    options.execution.wait_limit_s = 10.0;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    return options;
}

static void plan_rig(rig *r, const bg_options *options)
{
    const bg_optimizer optimizer = bg_sgd(0.05);
    bg_value loss;

    memset(r, 0, sizeof *r);
    assert_int_equal(bg_graph_create(&r->graph, &r->error), BG_OK);
    loss = test_model_at(0)->build(r->graph, MICRO_BATCH);
    if (bg_plan_create_training(r->graph, loss, &optimizer, options, &r->plan, &r->error) != BG_OK)
        fail_msg("%s", r->error.message);
}

static void open_rig(rig *r, const bg_options *options)
{
    plan_rig(r, options);
    r->status = bg_session_create(r->plan, NULL, &r->session, &r->error);
}

static void close_rig(rig *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->graph);
}

static bg_status run(rig *r, float *losses)
{
    const void *inputs[4] = {NULL};
    void *outputs[4] = {NULL};
    unsigned char *data[4] = {NULL};

    for (uint32_t i = 0; i < bg_session_input_count(r->session); i++) {
        bg_stream stream;
        assert_int_equal(bg_session_input(r->session, i, &stream, NULL), BG_OK);
        inputs[i] = data[i] = test_model_input(&stream.micro_batch_type, stream.name, stream.count);
    }
    outputs[bg_session_find_output(r->session, "loss")] = losses;
    r->status = bg_session_run(r->session, inputs, outputs, &r->error);
    for (uint32_t i = 0; i < 4; i++)
        free(data[i]);
    return r->status;
}

static uint32_t own_rank(void)
{
    return test_ranks_transport()->rank;
}

/* ---- results of a run ---- */

static void outputs_come_to_every_rank_that_wants_them(void **state)
{
    const bg_options options = make_options();
    float alone[ITERATIONS * ACCUMULATION], together[ITERATIONS * ACCUMULATION] = {0};
    rig r;

    (void)state;
    plan_rig(&r, &options);
    r.plan->options.execution.transport = NULL; /* this process has all devices */
    assert_int_equal(bg_session_create(r.plan, NULL, &r.session, &r.error), BG_OK);
    assert_int_equal(run(&r, alone), BG_OK);
    close_rig(&r);
    open_rig(&r, &options);
    assert_int_equal(r.status, BG_OK);
    assert_int_equal(run(&r, together), BG_OK);
    assert_memory_equal(together, alone, sizeof alone);
    /* The last rank computes the loss; the first rank may omit it. */
    assert_int_equal(run(&r, own_rank() == 0 ? NULL : together), BG_OK);
    /* It is an error if the last rank omits it. */
    assert_int_equal(run(&r, own_rank() == 0 ? together : NULL), BG_ERROR_INVALID);
    assert_string_equal(
        r.error.message,
        "output `loss`: rank 0 has an array for it, but rank 1, which computes it, has none; pass an array there too");
    close_rig(&r);
}

static void a_rank_has_memory_for_its_own_devices(void **state)
{
    const bg_options options = make_options();
    rig r;

    (void)state;
    open_rig(&r, &options);
    assert_int_equal(r.status, BG_OK);
    for (uint32_t device = 0; device < 4; device++) {
        const bool is_own = device / 2 == own_rank();
        assert_int_equal(bg_session_has_device(r.session, 0, device), is_own);
        assert_int_equal(bg_session_device_bytes(r.session, 0, device) > 0, is_own);
    }
    assert_int_equal(bg_plan_summarize(r.plan).ranks, 2);
    close_rig(&r);
}

/* Returns the number of workers of this rank. Sets *out_polls if a waiting worker polls for a while, because no other
 * rank needs its processor. */
static uint32_t count_workers(const uint32_t *hosts, bool *out_polls)
{
    bg_transport transport = *test_ranks_transport();
    bg_options options = make_options();
    uint32_t count;
    rig r;

    transport.hosts = hosts;
    options.execution.cores = 0;
    options.execution.device_iterations = 100000; /* a run large enough for several workers */
    plan_rig(&r, &options);
    r.plan->options.execution.transport = &transport;
    if (bg_session_create(r.plan, NULL, &r.session, &r.error) != BG_OK)
        fail_msg("%s", r.error.message);
    count = bgi_session_worker_count(r.session);
    *out_polls = r.session->engine->yield_ns > 0;
    close_rig(&r);
    return count;
}

/* Ranks that may all use the same processors share them; a rank that is bound, or is the only one on its host, has its
 * own processors. */
static void ranks_of_a_host_share_its_processors(void **state)
{
    static const uint32_t apart[] = {0, 1};
    const uint32_t own = bg_processor_count(), online = bgi_processors_online();
    bool polls;
    const uint32_t alone = count_workers(apart, &polls), together = count_workers(NULL, &polls);
    cpu_set_t before, one;
    int cpu = 0;

    (void)state;
    printf("%u workers of a rank alone on a host, %u of one of two\n", alone, together);
    if (own == online) /* not bound */
        assert_int_equal(together, alone < own / 2 ? alone : own > 1 ? own / 2 : 1);
    assert_true(alone <= own && (own == 1 || alone > 1));
    if (own == online)
        assert_int_equal(polls, own > 1);
    CPU_ZERO(&before);
    if (sched_getaffinity(0, sizeof before, &before) != 0)
        return;
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(count_workers(NULL, &polls), 1);
    assert_int_equal(polls, online > 1); /* ranks that a launcher binds have separate processors */
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* ---- weights ---- */

enum { INNER = 12, PIECES = 3 };

/* Compiles a projection that is split over rows or columns of its weight, for two replicas, with sharded optimizer
 * state. */
static void plan_pieces(rig *r, bg_serialize_mode mode)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, MICRO_BATCH, INNER);
    const bg_optimizer optimizer = bg_adamw(0.05);
    bg_options options = bg_options_defaults();
    bg_value x;

    memset(r, 0, sizeof *r);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    options.execution.cores = 1;
    options.replicas.count = 2;
    options.memory.locations[BG_LOCATION_STATE].sharded = true;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
    assert_int_equal(bg_graph_create(&r->graph, &r->error), BG_OK);
    bg_block_start(r->graph, "all", BG_DEVICE_NONE);
    x = bg_graph_input(r->graph, "x", &x_type);
    x = bg_linear_layer(r->graph, "inner", x, INNER, true);
    x = bg_split_projection_layer(r->graph, "head", x, 2 * INNER, true, mode, PIECES, NULL);
    x = bg_mse_loss(r->graph, "loss", x, bg_scale(r->graph, NULL, x, 0.5, 1.0), BG_LOSS_MEAN);
    bg_graph_output(r->graph, "loss", x);
    if (bg_plan_create_training(r->graph, x, &optimizer, &options, &r->plan, &r->error) != BG_OK)
        fail_msg("%s", r->error.message);
}

typedef struct comparison {
    bg_weights *weights, *expected;
    uint32_t count;
} comparison;

static bg_status compare_all(void *user, bg_error *error)
{
    comparison *c = user;

    for (uint32_t i = 0; i < bg_weights_count(c->expected); i++) {
        bg_weight expected, found;
        BGI_TRY(bg_weights_at(c->expected, i, &expected, error));
        BGI_TRY(bg_weights_find(c->weights, expected.name, &found, error));
        assert_memory_equal(found.data, expected.data, bg_type_size_bytes(&expected.type));
        c->count++;
    }
    return BG_OK;
}

/* Initial values of pieces are those of the whole tensor on every rank. If only one rank reads values, the others only
 * send them. */
static void one_rank_reads_the_weights_of_all(void **state)
{
    const bg_serialize_mode modes[] = {BG_SERIALIZE_OUTPUT_CHANNELS, BG_SERIALIZE_REDUCING_DIM};

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t reader = 0; reader < 2; reader++) {
            comparison c = {0};
            rig alone, r;
            plan_pieces(&alone, modes[i]);
            alone.plan->options.execution.transport = NULL;
            assert_int_equal(bg_session_create(alone.plan, NULL, &alone.session, &alone.error), BG_OK);
            plan_pieces(&r, modes[i]);
            assert_int_equal(bg_session_create(r.plan, NULL, &r.session, &r.error), BG_OK);
            c = (comparison){bg_session_weights(r.session), bg_session_weights(alone.session), 0};
            assert_int_equal(bg_session_read_weights(r.session, reader, compare_all, &c, &r.error), BG_OK);
            assert_int_equal(c.count, own_rank() == reader ? bg_weights_count(c.expected) : 0);
            assert_int_equal(bg_session_read_weights(r.session, 2, compare_all, &c, &r.error), BG_ERROR_INVALID);
            /* After the session all ranks have all values. */
            atomic_fetch_add(&c.weights->references, 1);
            bg_session_destroy(r.session);
            r.session = NULL;
            assert_int_equal(compare_all(&c, &r.error), BG_OK);
            bg_weights_destroy(c.weights);
            close_rig(&r);
            close_rig(&alone);
        }
}

/* ---- ranks in a plan's summary ---- */

enum { FIRST_LINK_TAG = 2 }; /* earlier lanes are for notes and hosts */

static _Atomic uint64_t sent_bytes;

static bg_status count_sent(void *user, void *lane, uint32_t to, uint32_t tag, const void *data, size_t size_bytes,
                            void *operation, bg_error *error)
{
    if (tag >= FIRST_LINK_TAG)
        atomic_fetch_add(&sent_bytes, size_bytes);
    return test_ranks_transport()->send(user, lane, to, tag, data, size_bytes, operation, error);
}

/* Returns the last figure of this rank's row in the table of sent bytes. */
static double find_planned(const bg_plan *plan)
{
    static const char *const units[] = {"B", "kB", "MB"};
    char *text = NULL, *line, unit[4];
    double value = 0.0;
    bg_error error;

    assert_int_equal(bg_plan_print_ranks(plan, 0, &text, &error), BG_OK);
    line = strstr(text, "sent in a step");
    assert_non_null(line);
    for (uint32_t row = 0; row <= own_rank() && strchr(line, '\n')[1] != '\0'; row++)
        line = strchr(line, '\n') + 1;
    *strchr(line, '\n') = '\0';
    assert_int_equal(sscanf(line + strlen(line) - 10, "%lf %3s", &value, unit), 2);
    for (uint32_t i = 0; strcmp(unit, units[i]) != 0; i++)
        value *= 1000.0;
    free(text);
    return value;
}

static void ranks_send_what_the_plan_says(void **state)
{
    const char *const layouts[] = {NULL, "data,stage,tensor", "0,1,1,0,0,0,0,1"};
    float losses[2 * ITERATIONS * ACCUMULATION];

    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        bg_transport counting = *test_ranks_transport();
        bg_options options = make_options();
        double planned;
        rig r;
        counting.send = count_sent;
        options.replicas.count = 2;
        options.execution.layout = layouts[i % 3];
        options.memory.locations[BG_LOCATION_STATE].sharded = i >= 3;
        options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
        plan_rig(&r, &options);
        r.plan->options.execution.transport = &counting;
        r.status = bg_session_create(r.plan, NULL, &r.session, &r.error);
        assert_int_equal(r.status, BG_OK);
        atomic_store(&sent_bytes, 0);
        assert_int_equal(run(&r, losses), BG_OK);
        planned = find_planned(r.plan);
        assert_true(planned > 1000.0);
        if ((double)sent_bytes < 0.99 * planned * ITERATIONS || (double)sent_bytes > 1.01 * planned * ITERATIONS)
            fail_msg("%zu bytes, planned are %.0f", (size_t)sent_bytes, planned * ITERATIONS);
        close_rig(&r);
    }
}

/* ---- how runs end ---- */

typedef struct source {
    uint32_t next, end, fail_at;
    bg_type types[4];
    uint32_t count;
} source;

static bg_status next_element(void *user, void *const tensors[], bool *out_has_ended, bg_error *error)
{
    source *s = user;

    if (s->next == s->fail_at)
        return bg_error_set(error, BG_ERROR_IO, "the disk is on fire");
    *out_has_ended = s->next == s->end;
    for (uint32_t i = 0; i < s->count && !*out_has_ended; i++)
        memset(tensors[i], 0, bg_type_size_bytes(&s->types[i]));
    s->next++;
    return BG_OK;
}

/* Runs with a source of `end` elements, which returns an error instead of element `fail_at`. */
static void run_fed(rig *r, uint32_t end, uint32_t fail_at, uint64_t *out_iterations)
{
    const bg_options options = make_options();
    const bg_infeed_options infeed_options = bg_infeed_options_defaults();
    source s = {.end = end, .fail_at = fail_at};
    bg_infeed *infeed = NULL;
    bg_run given;

    open_rig(r, &options);
    assert_int_equal(r->status, BG_OK);
    s.count = bg_session_input_count(r->session);
    for (uint32_t i = 0; i < s.count; i++) {
        bg_stream stream;
        assert_int_equal(bg_session_input(r->session, i, &stream, NULL), BG_OK);
        s.types[i] = stream.micro_batch_type;
    }
    assert_int_equal(bg_infeed_create(s.types, s.count, next_element, &s, &infeed_options, &infeed, &r->error), BG_OK);
    assert_int_equal(bg_infeed_start(infeed, r->session, &r->error), BG_OK);
    given = (bg_run){.infeed = infeed, .iterations = 50};
    r->status = bg_session_execute(r->session, &given, out_iterations, &r->error);
    bg_infeed_destroy(infeed);
}

static void data_end_on_all_ranks_at_once(void **state)
{
    uint64_t iterations = 0;
    rig r;

    (void)state;
    run_fed(&r, 7 * ACCUMULATION + 1, UINT32_MAX, &iterations);
    assert_int_equal(r.status, BG_ERROR_RANGE);
    assert_int_equal(iterations, 7);
    assert_int_equal(bg_session_step(r.session), 7);
    close_rig(&r);
}

static void a_source_that_fails_on_one_rank_is_known_on_all(void **state)
{
    uint64_t iterations = 0;
    rig r;

    (void)state;
    run_fed(&r, 100, own_rank() == 0 ? 5 * ACCUMULATION : UINT32_MAX, &iterations);
    assert_int_equal(r.status, BG_ERROR_IO);
    assert_non_null(strstr(r.error.message, "rank 0: infeed, element 10: the disk is on fire"));
    close_rig(&r);
}

static void a_stop_on_one_rank_stops_all_after_the_same_run(void **state)
{
    const bg_options options = make_options();
    float losses[ITERATIONS * ACCUMULATION];
    uint32_t runs = 0;
    rig r;

    (void)state;
    open_rig(&r, &options);
    assert_int_equal(r.status, BG_OK);
    while (runs < 10 && !bg_session_is_asked_to_stop(r.session)) {
        if (own_rank() == 1 && runs == 3)
            bg_session_ask_to_stop(r.session);
        assert_int_equal(run(&r, losses), BG_OK);
        runs++;
    }
    assert_int_equal(runs, 4);
    close_rig(&r);
}

/* ---- errors ---- */

static void plans_that_differ_are_refused_on_all_ranks(void **state)
{
    bg_options options = make_options();
    rig r;

    (void)state;
    options.execution.gradient_accumulation = own_rank() == 0 ? 2 : 4;
    open_rig(&r, &options);
    assert_int_equal(r.status, BG_ERROR_INVALID);
    assert_string_equal(r.error.message,
                        "the ranks do not agree: option gradient_accumulation is `2` on rank 0 and `4` on rank 1");
    close_rig(&r);
}

static void a_rank_that_does_not_come_is_reported(void **state)
{
    bg_options options = make_options();
    float losses[ITERATIONS * ACCUMULATION];
    rig r;

    (void)state;
    options.execution.wait_limit_s = 1.0;
    open_rig(&r, &options);
    assert_int_equal(r.status, BG_OK);
    if (own_rank() == 0) { /* rank 1 does not take part */
        assert_int_equal(run(&r, losses), BG_ERROR_TIMEOUT);
        assert_non_null(strstr(r.error.message, "no progress for "));
        assert_non_null(strstr(r.error.message, "rank 0 on host "));
        assert_non_null(strstr(r.error.message, ", replica 0, device 1, "));
        assert_non_null(strstr(r.error.message, " device 2 of rank 1"));
    } else {
        sleep(3);
    }
    close_rig(&r);
}

static void transports_are_checked(void **state)
{
    const bg_options options = make_options();
    bg_transport broken = *test_ranks_transport();
    rig r;

    (void)state;
    plan_rig(&r, &options);
    r.plan->options.execution.transport = &broken;
    broken.struct_bytes = 8;
    assert_int_equal(bg_session_create(r.plan, NULL, &r.session, &r.error), BG_ERROR_INVALID);
    assert_non_null(strstr(r.error.message, "struct_bytes is 8"));
    broken = *test_ranks_transport();
    broken.rank = broken.rank_count;
    assert_int_equal(bg_session_create(r.plan, NULL, &r.session, &r.error), BG_ERROR_INVALID);
    assert_non_null(strstr(r.error.message, "transport.rank is 2 but must be below"));
    broken = *test_ranks_transport();
    broken.tag_count = 100;
    assert_int_equal(bg_session_create(r.plan, NULL, &r.session, &r.error), BG_ERROR_INVALID);
    broken = *test_ranks_transport();
    broken.poll = NULL;
    assert_int_equal(bg_session_create(r.plan, NULL, &r.session, &r.error), BG_ERROR_INVALID);
    assert_non_null(strstr(r.error.message, "poll"));
    close_rig(&r);
}

/* ---- layouts ---- */

static void expect_owners(const bg_plan *plan, uint32_t ranks, const uint32_t *hosts, const char *layout,
                          const char *expected)
{
    bg_transport transport = {.rank_count = ranks, .hosts = hosts};
    bg_plan changed = *plan;
    uint32_t owners[64];
    bg_error error = {0};
    char text[256] = "";

    changed.options.execution.layout = layout;
    if (bgi_layout_make(&changed, &transport, owners, &error) != BG_OK) {
        assert_non_null(strstr(error.message, expected));
        return;
    }
    for (uint32_t i = 0; i < plan->device_count * plan->replicas; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%u", owners[i]);
    assert_string_equal(text, expected);
}

static void neighbors_are_together(void **state)
{
    const uint32_t hosts[] = {7, 3, 7, 3}, many[] = {7, 3, 7, 3, 7, 3, 7, 3, 7, 3};
    bg_options options = make_options();
    bg_plan test;
    rig r;

    (void)state;
    options.replicas.count = 2;
    plan_rig(&r, &options); /* 2 replicas of 4 stages */
    expect_owners(r.plan, 2, NULL, NULL, "00001111");
    expect_owners(r.plan, 4, NULL, "", "00112233");
    expect_owners(r.plan, 3, NULL, NULL, "00011122");
    expect_owners(r.plan, 4, hosts, NULL, "00221133");
    expect_owners(r.plan, 2, NULL, "data,stage,tensor", "00110011");
    expect_owners(r.plan, 10, NULL, NULL, "01234567");
    expect_owners(r.plan, 10, many, NULL, "02461357"); /* ranks 8 and 9 are idle */
    expect_owners(r.plan, 2, NULL, "1,0,1,0,1,0,1,0", "10101010");
    expect_owners(r.plan, 2, NULL, "stage,data", "it does not have three axes");
    expect_owners(r.plan, 2, NULL, "stage,data,rows", "there is no such axis");
    expect_owners(r.plan, 2, NULL, "stage,data,data", "an axis is named twice");
    expect_owners(r.plan, 2, NULL, "0,1,0", "it has fewer entries than the 8 devices");
    expect_owners(r.plan, 2, NULL, "0,1,0,1,0,1,0,1,0", "it has more entries than the 8 devices");
    expect_owners(r.plan, 2, NULL, "0,0,0,0,0,0,0,2", "entry 7 is not a rank from 0 to 1");
    expect_owners(r.plan, 2, NULL, "0,0,0,0,0,0,0,0", "rank 1 gets no device");
    expect_owners(r.plan, 2, NULL, "1,1,1,1,0,0,0,0,0,0,0,0", "it has more entries than the 8 devices");
    /* The rank list of training with two replicas is used for a test with one replica. */
    test = *r.plan;
    test.training = false;
    test.replicas = 1;
    expect_owners(&test, 2, NULL, "1,1,1,1,0,0,0,0", "0011");
    expect_owners(&test, 2, NULL, "1,0,0,0", "1000");
    expect_owners(&test, 2, NULL, "1,0,0,0,1", "it has more entries than the 4 devices");
    close_rig(&r);
}

/* One process has all devices, so only a layout that is invalid for every number of ranks is an error. */
static void layouts_of_one_process_are_checked(void **state)
{
    static const struct {
        const char *layout, *expected; /* NULL: right */
    } cases[] = {
        {NULL, NULL},
        {"", NULL},
        {"data,stage,tensor", NULL},
        {"0,0,1,3", NULL},
        {"data,stages,tensor", "layout `data,stages,tensor`: there is no such axis"},
        {"0,0,1", "it has fewer entries than the 4 devices"},
        {"0,0,1,4", "entry 3 is not a rank from 0 to 3"},
    };
    const bg_options options = make_options();
    rig r;

    (void)state;
    plan_rig(&r, &options);
    r.plan->options.execution.transport = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = NULL;
        r.plan->options.execution.layout = cases[i].layout;
        r.status = bg_session_create(r.plan, NULL, &r.session, &r.error);
        assert_int_equal(r.status, cases[i].expected != NULL ? BG_ERROR_INVALID : BG_OK);
        assert_int_equal(bg_plan_print_ranks(r.plan, 1, &text, NULL), r.status);
        if (cases[i].expected != NULL)
            assert_non_null(strstr(r.error.message, cases[i].expected));
        bg_session_destroy(r.session);
        r.session = NULL;
        free(text);
    }
    close_rig(&r);
}

/* The layout of 200,000 ranks takes a short time, because it has no loop over pairs of ranks. */
static void many_ranks_are_laid_out_at_once(void **state)
{
    enum { MANY = 200000, HOSTS = 25000 };
    uint32_t *hosts = calloc(MANY, sizeof *hosts), *owners = calloc(MANY, sizeof *owners);
    const bg_transport transport = {.rank_count = MANY, .hosts = hosts};
    const bg_plan plan = {.replicas = MANY / 4, .device_count = 4};
    bg_error error = {0};

    (void)state;
    assert_true(hosts != NULL && owners != NULL);
    for (uint32_t i = 0; i < MANY; i++)
        hosts[i] = HOSTS - 1 - i % HOSTS;
    assert_int_equal(bgi_layout_make(&plan, &transport, owners, &error), BG_OK);
    for (uint32_t i = 0; i < MANY; i++) /* 8 ranks a host */
        assert_int_equal(owners[i], i / 8 + i % 8 * HOSTS);
    free(owners);
    free(hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_come_to_every_rank_that_wants_them),
        cmocka_unit_test(a_rank_has_memory_for_its_own_devices),
        cmocka_unit_test(ranks_of_a_host_share_its_processors),
        cmocka_unit_test(one_rank_reads_the_weights_of_all),
        cmocka_unit_test(ranks_send_what_the_plan_says),
        cmocka_unit_test(data_end_on_all_ranks_at_once),
        cmocka_unit_test(a_source_that_fails_on_one_rank_is_known_on_all),
        cmocka_unit_test(a_stop_on_one_rank_stops_all_after_the_same_run),
        cmocka_unit_test(plans_that_differ_are_refused_on_all_ranks),
        cmocka_unit_test(transports_are_checked),
        cmocka_unit_test(neighbors_are_together),
        cmocka_unit_test(layouts_of_one_process_are_checked),
        cmocka_unit_test(many_ranks_are_laid_out_at_once),
        cmocka_unit_test(a_rank_that_does_not_come_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
