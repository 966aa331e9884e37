/*
 * test_recorded.c: compares the bits of training with recorded ones. Each case trains a small network and hashes every
 * loss and, at the end, every weight and state; recorded.txt has the hash for each instruction set. A change of the
 * engine, the planner or the kernels that is not meant to change results must not change these hashes.
 *
 * Cases of one decomposition (model, accumulation, replicas, mesh) have the same hash, as test_parity.c and other tests
 * prove. This file compares them with earlier versions.
 *
 *     BRIGADE_TEST_RECORD=FILE build/tests/parity/test_recorded     appends "case instruction-set hash" lines to FILE
 *
 * Cases in bfloat16 run with every instruction set that the processor has. The others run with its widest one;
 * instruction sets beyond AVX-512 give the same float32 bits as AVX-512. To record another instruction set, run the
 * test under an emulator that hides the wider ones (valgrind has no AVX-512, `qemu-x86_64 -cpu Nehalem` no AVX). `make
 * check-aarch64` covers NEON. Portable kernels give the same bits on every architecture.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/config.h>
#include <brigade/gpt.h>
#include <brigade/nn.h>
#include <brigade/session.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc64.h"
#include "support/isa.h"
#include "support/models.h"

enum { UPDATES = 4, ACCUMULATION = 4, MICRO_BATCH = 4, LENGTH = 6, VOCABULARY = 37, MOST_STREAMS = 4 };

static const char record_path[] = "tests/parity/recorded.txt";

static void require(bg_status status, const bg_error *error, const char *what)
{
    if (status != BG_OK)
        fail_msg("%s: %s", what, error->message);
}

/* ---- cases ---- */

/* Blocks of the digit network are B1 to B4, of the language model Embedding, Layer-0, Layer-1, Head. */
static const char digit_stages[] = "stages=B1|B2|B3|B4";
static const char gpt_stages[] = "stages=Embedding|Layer-0|Layer-1|Head";

typedef struct run_case {
    const char *name;
    bool needs_stages;
    const char *options; /* option=value, separated by spaces */
} run_case;

/* Cases that run with both models. */
static const run_case cases[] = {
    {"single", false, "strategy=single"},
    {"single, two cores", false, "strategy=single cores=2"},
    {"single, reference kernels", false, "strategy=single kernels=reference"},
    {"single, one iteration a run", false, "strategy=single device_iterations=1"},
    {"sharded", true, "strategy=sharded"},
    {"interleaved", true, "strategy=pipelined schedule=interleaved"},
    {"interleaved, two cores", true, "strategy=pipelined schedule=interleaved cores=2"},
    {"grouped", true, "strategy=pipelined schedule=grouped"},
    {"sequential", true, "strategy=pipelined schedule=sequential"},
    {"gpipe", true, "strategy=pipelined schedule=gpipe"},
    {"zb-h1", true, "strategy=pipelined schedule=zb-h1"},
    {"zb-h2, two cores", true, "strategy=pipelined schedule=zb-h2 cores=2"},
    {"auto", true, "strategy=pipelined schedule=auto"},
    {"looped", false, "strategy=pipelined schedule=looped stages=auto-ops:4 device_count=2"},
    {"zb-v", false, "strategy=pipelined schedule=zb-v stages=auto-ops:4 device_count=2"},
    {"dualpipev", false, "strategy=pipelined schedule=dualpipev stages=auto-ops:4 device_count=2"},
    {"phased", true, "strategy=phased"},
    {"phased, parallel", true, "strategy=phased phases_parallel=true"},
    {"recompute stage", true, "strategy=pipelined recompute=stage"},
    {"recompute then", true, "strategy=pipelined recompute=stage recompute_order=then"},
    {"recompute half", true, "strategy=pipelined recompute=fraction recompute_fraction=0.5"},
    {"state remote", true, "strategy=pipelined offload_optimizer=true"},
    {"activations remote", true, "strategy=pipelined place_activations=remote"},
    {"all remote", true,
     "strategy=pipelined place_activations=remote place_weights=remote place_accumulators=remote "
     "place_optimizer=remote io_threads=1"},
    {"no fusion", true, "strategy=pipelined no_fusion=true"},
    {"running mean", true, "strategy=pipelined accumulation=mean_running"},
    {"clipped", true, "strategy=pipelined max_gradient_norm=0.1"},
    {"loss scale", true, "strategy=pipelined loss_scaling=1024"},
    {"two replicas", true, "strategy=pipelined replicas=2 gradient_accumulation=2"},
    {"two replicas, single", false, "strategy=single replicas=2 gradient_accumulation=2 cores=2"},
    {"two replicas, state in pieces", true,
     "strategy=pipelined replicas=2 gradient_accumulation=2 shard_optimizer=true minimum_sharded_optimizer=1"},
    {"two replicas, all in pieces, phased", true,
     "strategy=phased replicas=2 gradient_accumulation=2 shard_optimizer=true shard_weights=true "
     "minimum_sharded_optimizer=1 minimum_sharded_weights=1"},
};

/* Cases for the language model only: data x tensor 1 x tensor 2. */
static const struct {
    const char *name;
    bg_mesh mesh;
    const char *options;
} meshes[] = {
    {"mesh 1 x 2 x 1", {1, 2, 1}, "strategy=single"},
    {"mesh 1 x 2 x 1, pipelined", {1, 2, 1}, "strategy=pipelined"},
    {"mesh 1 x 1 x 2", {1, 1, 2}, "strategy=single cores=2"},
    {"mesh 1 x 2 x 2, phased", {1, 2, 2}, "strategy=phased"},
    {"mesh 2 x 2 x 1, state in pieces",
     {2, 2, 1},
     "strategy=pipelined gradient_accumulation=2 shard_optimizer=true minimum_sharded_optimizer=1"},
};

/* Cases of the language model in bfloat16, with any instruction set. */
static const char *const narrow_ways[] = {"strategy=single", "strategy=pipelined",
                                          "strategy=single replicas=2 gradient_accumulation=2"};

/* ---- a run ---- */

static void set_options(bg_options *options, const char *text, const char *what)
{
    static char copies[64][256];
    static size_t next; /* the options borrow the stages until the end of the case */
    char *copy = copies[next++ % 64], *rest = copy;
    bg_error error = {0};

    snprintf(copy, sizeof copies[0], "%s", text);
    for (char *name = strtok_r(rest, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(name, '=');
        *value = '\0';
        require(bg_options_set(options, name, value + 1, &error), &error, what);
    }
}

static void fill_tokens(int32_t *tokens, int32_t *labels, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tokens[i] = (int32_t)((7 * i * i + 3 * i + i / 5) % VOCABULARY);
        labels[i] = i % 11 != 0 ? (int32_t)((tokens[i] * 5 + 3) % VOCABULARY) : -100;
    }
}

static bg_value build_gpt(bg_graph *graph, const bg_mesh *mesh, bg_dtype dtype)
{
    bg_gpt_options model = bg_gpt_defaults();

    model.layers = 2, model.hidden = dtype == BG_FLOAT32 ? 16 : 160,
    model.heads = 4; /* sums are long enough for their order to matter */
    model.sequence_length = LENGTH, model.positions = 9, model.vocabulary = VOCABULARY;
    model.dropout = 0.1;
    model.dtype = dtype;
    bg_graph_set_mesh(graph, mesh);
    return bg_gpt_build(graph, &model).loss;
}

static void hash_weights(bgi_crc64 *hash, bg_weights *weights, const char *what)
{
    bg_error error = {0};

    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;
        require(bg_weights_at(weights, i, &weight, &error), &error, what);
        bgi_crc64_add(hash, weight.data, bg_type_size_bytes(&weight.type));
    }
}

/* Makes `calls` calls; returns the hash of the losses and of the trained weights. The data do not depend on how they
 * are divided into calls and replicas. */
static uint64_t train(bg_plan *plan, bool is_gpt, uint32_t calls, const char *what)
{
    void *inputs[MOST_STREAMS] = {NULL}, *outputs[MOST_STREAMS] = {NULL};
    bg_session *session = NULL;
    bg_stream streams[MOST_STREAMS], loss;
    bg_error error = {0};
    bgi_crc64 hash;
    uint32_t output;

    require(bg_session_create(plan, NULL, &session, &error), &error, what);
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        require(bg_session_input(session, i, &streams[i], &error), &error, what);
        inputs[i] = is_gpt ? malloc(calls * streams[i].size_bytes)
                           : test_model_input(&streams[i].micro_batch_type, streams[i].name, calls * streams[i].count);
        assert_non_null(inputs[i]);
    }
    if (is_gpt)
        fill_tokens(inputs[bg_session_find_input(session, "tokens")], inputs[bg_session_find_input(session, "labels")],
                    calls * streams[0].size_bytes / sizeof(int32_t));
    output = bg_session_find_output(session, "loss");
    require(bg_session_output(session, output, &loss, &error), &error, what);
    outputs[output] = malloc(loss.size_bytes);
    bgi_crc64_init(&hash);
    for (uint32_t call = 0; call < calls; call++) {
        const void *parts[MOST_STREAMS] = {NULL};
        for (uint32_t i = 0; i < bg_session_input_count(session); i++)
            parts[i] = (const char *)inputs[i] + call * streams[i].size_bytes;
        require(bg_session_run(session, parts, outputs, &error), &error, what);
        bgi_crc64_add(&hash, outputs[output], loss.size_bytes);
    }
    hash_weights(&hash, bg_session_weights(session), what);
    for (uint32_t i = 0; i < MOST_STREAMS; i++)
        free(inputs[i]);
    free(outputs[output]);
    bg_session_destroy(session);
    return bgi_crc64_value(&hash);
}

static uint64_t run(bool is_gpt, bg_dtype dtype, const bg_mesh *mesh, const char *stages, const char *text,
                    const char *what)
{
    bg_optimizer optimizer = bg_adamw(0.003);
    bg_options options = bg_options_defaults();
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_error error = {0};
    bg_value loss;
    uint64_t hash;

    options.execution.cores = 1;
    options.numerics.seed = 42;
    options.execution.device_iterations = 2;
    options.execution.gradient_accumulation = ACCUMULATION;
    options.reporting.output_mode = BG_OUTPUT_ALL;
    options.replicas.count = bg_mesh_replica_count(mesh);
    options.execution.wait_limit_s = 60;
    set_options(&options, stages, what);
    set_options(&options, text, what);
    require(bg_graph_create(&graph, &error), &error, what);
    loss = is_gpt ? build_gpt(graph, mesh, dtype) : test_model_at(0)->build(graph, MICRO_BATCH);
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error, what);
    hash = train(plan, is_gpt, UPDATES / options.execution.device_iterations, what);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    return hash;
}

/* ---- the record ---- */

/* Returns the name of the instruction set with which a float32 case is recorded. */
static const char *name_isa(const char *options)
{
    const bgi_isa isa = bgi_cpu_isa();

    return strstr(options, "kernels=reference") != NULL ? "reference"
                                                        : bgi_isa_name(isa < BGI_ISA_AVX512 ? isa : BGI_ISA_AVX512);
}

/* Finds the recorded hash of a case; returns false if no hash is recorded. */
static bool find_recorded(const char *name, const char *isa, uint64_t *out)
{
    char line[256], wanted[256];
    FILE *file = fopen(record_path, "r");
    bool found = false;

    if (file == NULL)
        fail_msg("%s cannot be opened; the test runs in the project's root", record_path);
    snprintf(wanted, sizeof wanted, "%s | %s | ", name, isa);
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, wanted, strlen(wanted)) == 0 && sscanf(line + strlen(wanted), "%" SCNx64, out) == 1;
    fclose(file);
    return found;
}

static void append_record(const char *path, const char *name, const char *isa, uint64_t hash)
{
    FILE *file = fopen(path, "a");

    if (file == NULL || fprintf(file, "%s | %s | %016" PRIx64 "\n", name, isa, hash) < 0 || fclose(file) != 0)
        fail_msg("%s cannot be written", path);
}

static void check(const char *model, const char *name, const char *isa, uint64_t hash, uint32_t *missing)
{
    const char *path = getenv("BRIGADE_TEST_RECORD");
    char whole[128];
    uint64_t recorded = 0;

    snprintf(whole, sizeof whole, "%s, %s", model, name);
    if (path != NULL)
        append_record(path, whole, isa, hash);
    else if (!find_recorded(whole, isa, &recorded))
        (*missing)++;
    else if (recorded != hash)
        fail_msg("%s, %s: the bits have changed: %016" PRIx64 ", recorded is %016" PRIx64, whole, isa, hash, recorded);
}

static void finish(uint32_t missing, uint32_t count)
{
    if (missing == count)
        skip(); /* an instruction set that was never recorded */
    assert_int_equal(missing, 0);
}

static void digits_have_their_bits(void **state)
{
    const bg_mesh none = {1, 1, 1};
    const uint32_t count = sizeof cases / sizeof cases[0];
    uint32_t missing = 0;

    (void)state;
    for (uint32_t i = 0; i < count; i++)
        check("digits", cases[i].name, name_isa(cases[i].options),
              run(false, BG_FLOAT32, &none, cases[i].needs_stages ? digit_stages : "", cases[i].options, cases[i].name),
              &missing);
    finish(missing, count);
}

static void language_models_have_their_bits(void **state)
{
    const bg_mesh none = {1, 1, 1};
    const uint32_t count = sizeof cases / sizeof cases[0], mesh_count = sizeof meshes / sizeof meshes[0];
    uint32_t missing = 0;

    (void)state;
    for (uint32_t i = 0; i < count; i++)
        check("gpt", cases[i].name, name_isa(cases[i].options),
              run(true, BG_FLOAT32, &none, cases[i].needs_stages ? gpt_stages : "", cases[i].options, cases[i].name),
              &missing);
    for (uint32_t i = 0; i < mesh_count; i++)
        check("gpt", meshes[i].name, name_isa(meshes[i].options),
              run(true, BG_FLOAT32, &meshes[i].mesh, gpt_stages, meshes[i].options, meshes[i].name), &missing);
    finish(missing, count + mesh_count);
}

static void bfloat16_has_its_bits(void **state)
{
    const bg_mesh none = {1, 1, 1};
    const uint32_t ways = sizeof narrow_ways / sizeof narrow_ways[0];
    uint32_t unrecorded = 0, count = 0;

    (void)state;
    for (int isa = BGI_ISA_PORTABLE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa), count++) {
        uint32_t missing = 0;

        for (uint32_t w = 0; w < ways; w++) {
            char options[128], name[64];

            snprintf(options, sizeof options, "%s kernels=%s", narrow_ways[w],
                     isa == BGI_ISA_AMX ? "fast" : bgi_isa_name((bgi_isa)isa));
            snprintf(name, sizeof name, "bfloat16, %s", narrow_ways[w]);
            check("gpt", name, bgi_isa_name((bgi_isa)isa),
                  run(true, BG_BFLOAT16, &none, w == 1 ? gpt_stages : "", options, name), &missing);
        }
        if (missing < ways)
            assert_int_equal(missing, 0);
        else
            unrecorded++; /* no machine with these instructions has recorded hashes yet */
    }
    finish(unrecorded == count ? count : 0, count);
}

/* Runs the portable kernels, on every architecture. */
static void portable_kernels_have_their_bits(void **state)
{
    static const char options[] = "strategy=single kernels=portable";
    const bg_mesh none = {1, 1, 1};
    uint32_t missing = 0;

    (void)state;
    if (getenv("BRIGADE_TEST_RECORD") != NULL)
        skip(); /* the tests above use these kernels if the processor has no wider set */
    check("digits", "single", "portable", run(false, BG_FLOAT32, &none, "", options, "single"), &missing);
    check("gpt", "single", "portable", run(true, BG_FLOAT32, &none, "", options, "single"), &missing);
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_have_their_bits),
        cmocka_unit_test(language_models_have_their_bits),
        cmocka_unit_test(bfloat16_has_its_bits),
        cmocka_unit_test(portable_kernels_have_their_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
