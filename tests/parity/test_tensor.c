/*
 * test_tensor.c: a model that is sharded over a mesh trains as on one device. For a small GPT-2, the losses of every
 * mesh agree with those of one replica, even with dropout, because the masks are those of the whole model. Every
 * strategy on one mesh gives the same bits. Checkpoints can be loaded on other meshes. The number of collectives is
 * that of the tensor-parallel method.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/checkpoint.h>
#include <brigade/gpt.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"

enum { LENGTH = 6, VOCABULARY = 37, BATCH = 4, TOKENS = BATCH * LENGTH, MOST_UPDATES = 50, MOST_REPLICAS = 64 };

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bool is_quick(void)
{
    return getenv("BRIGADE_TEST_QUICK") != NULL;
}

static bg_gpt_options small(double dropout)
{
    bg_gpt_options options = bg_gpt_defaults();

    options.layers = 2;
    options.hidden = 16;
    options.heads = 4;
    options.sequence_length = LENGTH;
    options.positions = 9;
    options.vocabulary = VOCABULARY;
    options.dropout = dropout;
    return options;
}

/* ---- a training run ---- */

typedef struct run {
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    uint32_t tensor, updates;    /* replicas that share one copy of the model; number of updates made */
    double losses[MOST_UPDATES]; /* means over the batch */
    float norms[MOST_UPDATES];
} run;

static bool uses_lamb, rounds_by_chance;
static bg_dtype narrow_dtype; /* type of the parameters and the first moments with rounds_by_chance */

static void open_run(run *r, const bg_mesh *mesh, const bg_gpt_options *model, const bg_options *given)
{
    bg_optimizer optimizer = uses_lamb ? bg_lamb(0.01) : bg_adamw(0.01);
    bg_options options = *given;
    bg_error error = {0};
    bg_gpt net;

    memset(r, 0, sizeof *r);
    optimizer.epsilon =
        1e-6; /* the example's value: with a smaller one, gradients that are only rounding errors make full steps */
    optimizer.weight_decay = 0.1;
    optimizer.decay_matrices_only = true;
    options.numerics.max_gradient_norm = 0.5;
    options.reporting.output_gradient_norm = true;
    options.execution.gradient_accumulation = BATCH / mesh->data;
    options.replicas.count = bg_mesh_replica_count(mesh);
    if (rounds_by_chance)
        options.numerics.first_moment_dtype = narrow_dtype;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.numerics.seed = 3;
    require(bg_graph_create(&r->graph, &error), &error);
    bg_graph_set_mesh(r->graph, mesh);
    if (rounds_by_chance)
        bg_graph_set_parameter_dtype(r->graph, narrow_dtype);
    options.numerics.stochastic_rounding = rounds_by_chance;
    net = bg_gpt_build(r->graph, model);
    require(bg_plan_create_training(r->graph, net.loss, &optimizer, &options, &r->plan, &error), &error);
    require(bg_session_create(r->plan, NULL, &r->session, &error), &error);
    r->tensor = mesh->tensor_1 * mesh->tensor_2;
}

static void close_run(run *r)
{
    bg_session_destroy(r->session);
    bg_plan_destroy(r->plan);
    bg_graph_destroy(r->graph);
}

static bool counts(uint32_t update, int t)
{
    return (update * 5 + (uint32_t)t) % 11 != 0;
}

static void fill_batch(uint32_t update, int32_t *tokens, int32_t *labels)
{
    for (int t = 0; t < TOKENS; t++) {
        const int64_t i = (int64_t)update * (TOKENS + 1) + t;

        tokens[t] = (int32_t)((7 * i * i + 3 * i + i / 5) % VOCABULARY);
        labels[t] = counts(update, t) ? (int32_t)((tokens[t] * 5 + 3) % VOCABULARY) : -100;
    }
}

static void train(run *r, uint32_t updates)
{
    static float losses[BATCH * MOST_REPLICAS], norms[MOST_REPLICAS];
    int32_t tokens[TOKENS], labels[TOKENS];
    bg_error error = {0};
    const void *inputs[2];
    void *outputs[2];

    inputs[bg_session_find_input(r->session, "tokens")] = tokens;
    inputs[bg_session_find_input(r->session, "labels")] = labels;
    outputs[bg_session_find_output(r->session, "loss")] = losses;
    outputs[bg_session_find_output(r->session, "gradient_norm")] = norms;
    for (uint32_t end = r->updates + updates; r->updates < end; r->updates++) {
        double sum = 0.0, counted = 0.0;

        fill_batch(r->updates, tokens, labels);
        require(bg_session_run(r->session, inputs, outputs, &error), &error);
        for (uint32_t m = 0; m < BATCH; m++) { /* each micro-batch has one sequence */
            double count = 0.0;
            for (int t = 0; t < LENGTH; t++)
                count += counts(r->updates, (int)m * LENGTH + t);
            for (uint32_t t = 1; t < r->tensor; t++)
                assert_memory_equal(&losses[m * r->tensor + t], &losses[m * r->tensor], sizeof *losses);
            sum += count * (double)losses[m * r->tensor];
            counted += count;
        }
        r->losses[r->updates] = sum / counted;
        r->norms[r->updates] = norms[0];
    }
}

/* Compares losses within a relative 1e-5, and norms within `norms`. */
static void expect_close(const run *found, const run *wanted, uint32_t first, uint32_t end, double norms,
                         const char *what)
{
    for (uint32_t u = first; u < end; u++)
        if (!(fabs(found->losses[u] - wanted->losses[u]) <= 1e-5 * wanted->losses[u]) ||
            !(fabs((double)(found->norms[u] - wanted->norms[u])) <= norms * (double)wanted->norms[u]))
            fail_msg("%s, update %u: loss %.9g, norm %.7g; on one replica %.9g, %.7g", what, u, found->losses[u],
                     (double)found->norms[u], wanted->losses[u], (double)wanted->norms[u]);
}

/* Checks that losses, norms and all weights and states have the same bytes. */
static void expect_equal(const run *found, const run *wanted, const char *what)
{
    bg_weights *a = bg_session_weights(found->session), *b = bg_session_weights(wanted->session);

    if (memcmp(found->losses, wanted->losses, sizeof found->losses) != 0)
        fail_msg("%s: other losses", what);
    if (memcmp(found->norms, wanted->norms, sizeof found->norms) != 0)
        fail_msg("%s: other norms", what);
    assert_int_equal(bg_weights_count(a), bg_weights_count(b));
    for (uint32_t i = 0; i < bg_weights_count(b); i++) {
        bg_weight is, should;
        bg_error error = {0};
        require(bg_weights_at(b, i, &should, &error), &error);
        require(bg_weights_find(a, should.name, &is, &error), &error);
        assert_true(bg_type_equal(&is.type, &should.type));
        if (memcmp(is.data, should.data, bg_type_size_bytes(&is.type)) != 0)
            fail_msg("%s: other `%s`", what, should.name);
    }
}

/* ---- meshes ---- */

static void check_meshes(const bg_mesh *meshes, size_t count, double dropout, uint32_t updates)
{
    const bg_gpt_options model = small(dropout);
    const bg_options options = bg_options_defaults();
    const bg_mesh none = {1, 1, 1};
    run single;

    open_run(&single, &none, &model, &options);
    train(&single, updates);
    assert_true(single.losses[updates - 1] < single.losses[0]);
    for (size_t i = 0; i < count; i++) {
        char what[64];
        run cut;
        snprintf(what, sizeof what, "mesh %u x %u x %u", meshes[i].data, meshes[i].tensor_1, meshes[i].tensor_2);
        open_run(&cut, &meshes[i], &model, &options);
        train(&cut, updates);
        expect_close(&cut, &single, 0, updates, dropout > 0.0 ? 1e-4 : 1e-5, what);
        close_run(&cut);
    }
    close_run(&single);
}

static void every_mesh(void **state)
{
    bg_mesh meshes[27];
    size_t count = 0;

    (void)state;
    for (uint32_t data = 1; data <= 4; data *= 2)
        for (uint32_t one = 1; one <= 4; one *= 2)
            for (uint32_t two = 1; two <= 4; two *= 2)
                if (!is_quick() || (data < 4 && one * two > 1 && one * two < 8))
                    meshes[count++] = (bg_mesh){data, one, two};
    check_meshes(meshes, count, 0.0, is_quick() ? 3 : MOST_UPDATES);
}

/* Every replica that has a shard of the model uses the masks of the whole model. */
static void dropout_of_the_whole(void **state)
{
    static const bg_mesh meshes[] = {{1, 2, 2}, {2, 1, 4}, {1, 4, 1}, {4, 2, 1}};

    (void)state;
    check_meshes(meshes, is_quick() ? 2 : 4, 0.2, is_quick() ? 3 : 20);
}

/* ---- strategies ---- */

static void check_strategy(const run *wanted, const bg_gpt_options *model, const bg_options *options, uint32_t updates,
                           const char *what)
{
    const bg_mesh mesh = {2, 2, 2};
    run found;

    open_run(&found, &mesh, model, options);
    train(&found, updates);
    expect_equal(&found, wanted, what);
    close_run(&found);
}

static void same_bits(void **state)
{
    static const char *const schedules[] = {"zb-h1", "gpipe", "grouped", "sequential", "looped", "zb-v", "auto"};
    const bg_mesh mesh = {2, 2, 2};
    const uint32_t updates = is_quick() ? 2 : 4;
    bg_gpt_options model = small(0.1);
    bg_options options = bg_options_defaults();
    run wanted;

    (void)state;
    options.execution.cores = 1; /* one worker runs all replicas */
    open_run(&wanted, &mesh, &model, &options);
    train(&wanted, updates);
    options.execution.cores = 3;
    check_strategy(&wanted, &model, &options, updates, "three workers");
    options.execution.strategy = BG_STRATEGY_SHARDED;
    check_strategy(&wanted, &model, &options, updates, "sharded");
    options.execution.strategy = BG_STRATEGY_PHASED;
    check_strategy(&wanted, &model, &options, updates, "phased");
    model.checkpoint_layers = true;
    options.memory.recompute = BG_RECOMPUTE_STAGE;
    check_strategy(&wanted, &model, &options, updates, "phased and recomputed");
    options.execution.strategy = BG_STRATEGY_PIPELINED;
    check_strategy(&wanted, &model, &options, updates, "pipelined and recomputed");
    options.memory.recompute_order = BG_RECOMPUTE_THEN;
    check_strategy(&wanted, &model, &options, updates, "pipelined and recomputed before");
    options.memory.recompute = BG_RECOMPUTE_NONE;
    for (size_t i = 0; i < (is_quick() ? 2 : sizeof schedules / sizeof schedules[0]); i++) {
        options.execution.schedule = schedules[i];
        options.execution.cores = 1 + (uint32_t)i % 3;
        check_strategy(&wanted, &model, &options, updates, schedules[i]);
    }
    close_run(&wanted);
}

/* Replicas with the same shard of a weight divide its storage among themselves. */
static void sharded_state(void **state)
{
    const bg_mesh mesh = {2, 2, 2};
    const uint32_t updates = is_quick() ? 2 : 4;
    const bg_gpt_options model = small(0.1);
    bg_options options = bg_options_defaults();
    run wanted;

    (void)state;
    open_run(&wanted, &mesh, &model, &options);
    train(&wanted, updates);
    for (int i = 0; i < BG_LOCATION_COUNT; i++)
        options.memory.locations[i].minimum_elements_sharded = 1;
    options.memory.locations[BG_LOCATION_STATE].sharded = true;
    check_strategy(&wanted, &model, &options, updates, "state in pieces");
    options.memory.locations[BG_LOCATION_ACCUMULATORS].sharded = true;
    check_strategy(&wanted, &model, &options, updates, "state and gradients in pieces");
    options.execution.strategy = BG_STRATEGY_PHASED;
    options.memory.locations[BG_LOCATION_WEIGHTS].sharded = true;
    options.memory.locations[BG_LOCATION_WEIGHTS].place = BG_PLACE_REMOTE;
    check_strategy(&wanted, &model, &options, updates, "all in pieces, remote");
    close_run(&wanted);
}

/* LAMB's norms are those of whole parameters, on every mesh. */
static void lamb(void **state)
{
    static const bg_mesh meshes[] = {{1, 2, 2}, {2, 1, 4}, {1, 4, 1}, {4, 2, 1}};

    uses_lamb = true;
    check_meshes(meshes, is_quick() ? 2 : 4, 0.0, is_quick() ? 3 : 20);
    same_bits(state);
    sharded_state(state);
    uses_lamb = false;
}

/* With weights and moments in 16 bits, all replicas that round a weight round it in the same way. Replicas that keep a
 * whole tensor therefore have the same values. */
static void stochastic_rounding(void **state)
{
    rounds_by_chance = true;
    narrow_dtype = BG_BFLOAT16;
    same_bits(state);
    narrow_dtype = BG_FLOAT16;
    same_bits(state);
    sharded_state(state);
    rounds_by_chance = false;
}

/* Returns the bytes of the remote stores of all devices. */
static size_t count_remote_bytes(const bg_plan *plan)
{
    size_t sum = 0;

    for (uint32_t d = 0; d < bg_plan_summarize(plan).device_count; d++)
        sum += bg_plan_memory_bytes(plan, d, BG_MEMORY_REMOTE);
    return sum;
}

/* With recomputation, only x and dx (shared along axis 1) and the tokens (too few bytes to shard) are stored. Without
 * recomputation, the values inside a layer (shared along axis 2) are stored as well. */
static void check_stores(const bg_plan *pieces, const bg_plan *whole, uint32_t share, bg_recompute recompute)
{
    const size_t is = count_remote_bytes(pieces), of = count_remote_bytes(whole), tokens = BATCH * 64;

    assert_true(of > tokens);
    if (recompute == BG_RECOMPUTE_STAGE)
        assert_int_equal(is - tokens, (of - tokens) / share);
    else
        assert_true(is < of);
}

/* Each replica stores a shard of the activations that replicas share, and a load gathers all shards. */
static void sharded_activations(void **state)
{
    static const struct {
        bg_mesh mesh;
        uint32_t share; /* each store has 1 / share of x */
    } cases[] = {{{1, 2, 2}, 2}, {{1, 4, 1}, 4}, {{1, 2, 1}, 2}, {{1, 2, 4}, 2}, {{1, 1, 4}, 1}};
    static const bg_recompute ways[] = {BG_RECOMPUTE_STAGE, BG_RECOMPUTE_NONE};
    const uint32_t updates = is_quick() ? 2 : 4, count = is_quick() ? 2 : sizeof cases / sizeof cases[0];
    bg_gpt_options model = small(0.1);
    bg_options options = bg_options_defaults();

    (void)state;
    model.hidden = 64; /* shards of a row that need no padding */
    model.checkpoint_layers = true;
    options.execution.strategy = BG_STRATEGY_PHASED;
    options.memory.phase_liveness = BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE;
    for (int k = 0; k < BG_LOCATION_COUNT; k++)
        options.memory.locations[k].place = k == BG_LOCATION_ACTIVATIONS ? BG_PLACE_REMOTE : BG_PLACE_DEVICE;
    for (uint32_t i = 0; i < 2 * count; i++) {
        const bg_mesh *mesh = &cases[i / 2].mesh;
        run whole, pieces;

        options.memory.recompute = ways[i % 2];
        options.execution.cores = 1 + i % 3;
        options.memory.locations[BG_LOCATION_ACTIVATIONS].sharded = false;
        open_run(&whole, mesh, &model, &options);
        options.memory.locations[BG_LOCATION_ACTIVATIONS].sharded = true;
        options.memory.locations[BG_LOCATION_ACTIVATIONS].minimum_elements_sharded = 1;
        open_run(&pieces, mesh, &model, &options);
        train(&whole, updates);
        train(&pieces, updates);
        expect_equal(&pieces, &whole, "activations in pieces");
        check_stores(pieces.plan, whole.plan, cases[i / 2].share, options.memory.recompute);
        close_run(&pieces);
        close_run(&whole);
    }
}

/* ---- checkpoints ---- */

/* A way to divide the model: a mesh, and the number of blocks (embedding, two layers, head) in each stage. */
typedef struct cut {
    bg_mesh mesh;
    const char *stages; /* stages of the pipeline; NULL: single device */
    bool is_phased;     /* if true, each block is a phase, and all supported tensors are remote and sharded */
} cut;

static const cut cuts[] = {
    {{2, 2, 2}, NULL, false},
    {{1, 1, 1}, NULL, false},
    {{1, 4, 1}, NULL, true},
    {{4, 1, 2}, "Embedding,Layer-0|Layer-1,Head", false},
    {{2, 2, 2}, "Embedding|Layer-0|Layer-1|Head", false},
    {{1, 2, 4}, "Embedding,Layer-0,Layer-1|Head", false},
    {{2, 1, 4}, NULL, true},
    {{1, 1, 1}, "Embedding|Layer-0,Layer-1|Head", false},
};
enum { CUTS = sizeof cuts / sizeof cuts[0], HALF = 3, WHOLE = 6 };

static void open_cut(run *r, const cut *how)
{
    const bg_gpt_options model = small(0.1);
    bg_options options = bg_options_defaults();

    options.execution.strategy = how->is_phased        ? BG_STRATEGY_PHASED
                                 : how->stages != NULL ? BG_STRATEGY_PIPELINED
                                                       : BG_STRATEGY_SINGLE;
    options.execution.stages = how->stages;
    for (int k = 0; how->is_phased && k < BG_LOCATION_COUNT; k++) {
        options.memory.locations[k].sharded =
            k != BG_LOCATION_ACTIVATIONS || how->mesh.tensor_1 * how->mesh.tensor_2 > 1;
        options.memory.locations[k].minimum_elements_sharded = 1;
    }
    open_run(r, &how->mesh, &model, &options);
}

static bool is_same_mesh(const cut *a, const cut *b)
{
    return memcmp(&a->mesh, &b->mesh, sizeof a->mesh) == 0;
}

/* Resumes `first` from the folder's checkpoint under the division `to`, and compares the further losses with those of
 * `whole`. */
static void go_on(const char *folder, const cut *from, const cut *to, const run *first, const run *whole)
{
    bg_error error = {0};
    char what[96];
    run second;

    snprintf(what, sizeof what, "from %u x %u x %u to %u x %u x %u, stages %s", from->mesh.data, from->mesh.tensor_1,
             from->mesh.tensor_2, to->mesh.data, to->mesh.tensor_1, to->mesh.tensor_2,
             to->stages != NULL ? to->stages : "-");
    open_cut(&second, to);
    /* With several ranks each rank has a separate folder, and a plan with fewer devices than ranks runs in each
     * process. */
    if (bg_plan_options(bg_session_plan(second.session))->execution.transport == NULL &&
        bg_plan_options(bg_session_plan(first->session))->execution.transport != NULL) {
        close_run(&second);
        return;
    }
    require(bg_checkpoint_load(second.session, folder, NULL, NULL, &error), &error);
    second.updates = HALF;
    memcpy(second.losses, first->losses, sizeof first->losses);
    memcpy(second.norms, first->norms, sizeof first->norms);
    expect_equal(&second, first, what); /* the loaded values */
    train(&second, WHOLE - HALF);
    expect_close(&second, whole, HALF, WHOLE, 1e-5, what);
    if (is_same_mesh(from, to))
        expect_equal(&second, whole, what);
    close_run(&second);
}

/* A checkpoint that was written under any division resumes under any other. On the same mesh it gives the same bits. */
static void from_cut_to_cut(void **state)
{
    (void)state;
    /* With several ranks, each rank has a separate folder, so the ranks exchange parts. */
    for (size_t i = 0; i < CUTS; i++) {
        char folder[TEST_FOLDER_BYTES];
        bg_error error = {0};
        run whole, first;

        if (i > 0 && getenv("BRIGADE_TEST_ALL") == NULL)
            break;
        test_folder_create(folder);
        open_cut(&whole, &cuts[i]);
        open_cut(&first, &cuts[i]);
        train(&whole, WHOLE);
        train(&first, HALF);
        require(bg_checkpoint_save(first.session, folder, NULL, &error), &error);
        for (size_t k = 0; k < (is_quick() ? CUTS / 2 : CUTS); k++)
            go_on(folder, &cuts[i], &cuts[k], &first, &whole);
        close_run(&first);
        close_run(&whole);
        test_folder_remove(folder);
    }
}

/* ---- cached plans ---- */

static void count_loads(void *user, bg_log_level level, const char *text)
{
    (void)level;
    *(int *)user += strstr(text, "plan: loaded from cache") != NULL;
}

/* A plan from a file gives the same results as the compiled plan; a file for another mesh is rejected. */
static void kept_plans(void **state)
{
    static const bg_mesh meshes[] = {{2, 2, 2}, {2, 2, 2}, {2, 4, 1}, {2, 1, 4}};
    const bg_gpt_options model = small(0.1);
    bg_options options = bg_options_defaults();
    char folder[TEST_FOLDER_BYTES];
    int loads = 0;
    run runs[4];

    (void)state;
    test_folder_create(folder);
    options.files.cache_dir = folder;
    options.execution.strategy = BG_STRATEGY_PHASED;
    options.reporting.log = count_loads;
    options.reporting.log_user = &loads;
    for (int i = 0; i < 4; i++) {
        open_run(&runs[i], &meshes[i], &model, &options);
        train(&runs[i], 2);
    }
    assert_int_equal(loads, 1);
    assert_int_equal(test_folder_count(folder), 3);
    expect_equal(&runs[1], &runs[0], "a plan that was kept");
    for (int i = 0; i < 4; i++)
        close_run(&runs[i]);
    test_folder_remove(folder);
}

/* A cached plan also gives the same results with sharded updates, whose attributes contain the number of shards. */
static void kept_updates(void **state)
{
    const bg_mesh mesh = {2, 1, 2};
    const bg_gpt_options model = small(0.1);
    bg_options options = bg_options_defaults();
    char folder[TEST_FOLDER_BYTES];
    run runs[2];

    (void)state;
    test_folder_create(folder);
    options.files.cache_dir = folder;
    options.memory.locations[BG_LOCATION_STATE].sharded = true;
    options.memory.locations[BG_LOCATION_STATE].minimum_elements_sharded = 1;
    for (int way = 0; way < 3; way++) {
        int loads = 0;

        uses_lamb = way < 2;
        rounds_by_chance = way > 0;
        options.reporting.log = count_loads;
        options.reporting.log_user = &loads;
        for (int i = 0; i < 2; i++) {
            open_run(&runs[i], &mesh, &model, &options);
            train(&runs[i], 2);
        }
        assert_int_equal(loads, 1);
        expect_equal(&runs[1], &runs[0], "updates that were kept");
        for (int i = 0; i < 2; i++)
            close_run(&runs[i]);
    }
    uses_lamb = rounds_by_chance = false;
    test_folder_remove(folder);
}

/* ---- the number of collectives ---- */

/* Counts the REDUCE events of each stage in the trace of replica 0, which has all micro-batches of one update. */
static void count_collectives(run *r, uint32_t stage_count, uint32_t *out_counts)
{
    memset(out_counts, 0, stage_count * sizeof *out_counts);
    for (uint32_t device = 0; device < stage_count; device++)
        for (uint32_t i = 0; i < bg_session_trace_count(r->session, 0, device); i++) {
            bg_trace_event event;
            bg_error error = {0};
            bool is_collective;
            require(bg_session_trace_event(r->session, 0, device, i, &event, &error), &error);
            is_collective = event.action.kind == BG_ACTION_REDUCE;
            out_counts[event.action.stage] += is_collective;
        }
}

static void as_many_as_published(void **state)
{
    const bg_mesh mesh = {1, 2, 2};
    const bg_gpt_options model = small(0.0);
    bg_options options = bg_options_defaults();
    uint32_t counted[4];
    run r;

    (void)state;
#ifdef TEST_RANKS
    skip(); /* a rank has the events of its own devices */
#endif
    options.execution.strategy = BG_STRATEGY_SHARDED; /* the embedding, two layers and the head are a stage each */
    options.reporting.trace = true;
    open_run(&r, &mesh, &model, &options);
    train(&r, 1);
    count_collectives(&r, 4, counted);
    /* For each micro-batch the embedding has 1 collective, a layer 8 and the head 5, and each norm has two. The last
     * stage has three more in each update. */
    assert_int_equal(counted[0], BATCH * 1);
    assert_int_equal(counted[1], BATCH * (8 + 4));
    assert_int_equal(counted[2], BATCH * (8 + 4));
    assert_int_equal(counted[3], BATCH * (5 + 2) + 3);
    close_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mesh),
        cmocka_unit_test(dropout_of_the_whole),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(sharded_activations),
        cmocka_unit_test(sharded_state),
        cmocka_unit_test(lamb),
        cmocka_unit_test(stochastic_rounding),
        cmocka_unit_test(from_cut_to_cut),
        cmocka_unit_test(as_many_as_published),
        cmocka_unit_test(kept_plans),
        cmocka_unit_test(kept_updates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
