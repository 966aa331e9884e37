/*
 * test_quantized.c: generation and evaluation with weights of 16, 8 and 4 bits give the same bits as a float32 model
 * with rounded matrices, under every strategy. Quantized values follow changes of the parameters. The test also covers
 * perplexity and errors.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/quantized.h"
#include "plan/plan.h"
#include "support/folder.h"
#include "train/generation_model.h"

enum { POSITIONS = 40, VOCABULARY = 71, PROMPT = 9, ADDED = 6 };

static const bg_weights_type types[] = {BG_WEIGHTS_INT8, BG_WEIGHTS_INT4, BG_WEIGHTS_BFLOAT16};
enum { TYPES = sizeof types / sizeof types[0] };

static bg_gpt_options wide_model(void)
{
    bg_gpt_options model = make_model(VOCABULARY, POSITIONS);

    model.hidden = 64;
    return model;
}

static bg_options quantizing(bg_weights_type type)
{
    bg_options options = bg_options_defaults();

    options.numerics.weights_type = type;
    return options;
}

/* Stores the logits after a prompt and after each of the tokens that follow it. */
static void read_logits(bg_generator *generator, float logits[ADDED][VOCABULARY])
{
    uint32_t tokens[PROMPT + ADDED];
    bg_error error;

    for (uint32_t i = 0; i < PROMPT + ADDED; i++)
        tokens[i] = (i * i + 5) % VOCABULARY;
    bg_generator_reset(generator);
    require(bg_generator_feed(generator, tokens, PROMPT, &error), &error);
    for (uint32_t i = 0; i < ADDED; i++) {
        require(bg_generator_feed(generator, &tokens[PROMPT + i], 1, &error), &error);
        memcpy(logits[i], bg_generator_logits(generator), sizeof logits[i]);
    }
}

static void generate(const bg_gpt_options *model, const bg_options *options, bg_weights *weights, uint32_t sequences,
                     float logits[ADDED][VOCABULARY])
{
    bg_generator *generator = open_generator(model, options, weights, sequences);

    read_logits(generator, logits);
    bg_generator_destroy(generator);
}

/* Makes float32 weights whose matrices have the rounded values of the matrices that `weights` has quantized. *out_count
 * is the number of these matrices. */
static bg_weights *dequantize(bg_weights *weights, bg_weights_type type, uint32_t *out_count)
{
    const uint32_t bits = type == BG_WEIGHTS_BFLOAT16 ? 16 : type == BG_WEIGHTS_INT8 ? 8 : 4;
    bg_weights *made;
    bg_error error;

    *out_count = 0;
    require(bg_weights_create(&made, &error), &error);
    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight, rounded;
        char name[128];
        float *values;

        require(bg_weights_at(weights, i, &weight, &error), &error);
        if (weight.type.dtype != BG_FLOAT32 || strstr(weight.name, "cache") != NULL)
            continue;
        values = malloc(bg_type_size_bytes(&weight.type));
        assert_non_null(values);
        memcpy(values, weight.data, bg_type_size_bytes(&weight.type));
        snprintf(name, sizeof name, "%s.%s", weight.name, bgi_quantized_name(bits));
        if (bg_weights_find(weights, name, &rounded, &error) == BG_OK) {
            const bool in_out = strstr(name, "wte") == NULL;
            const int64_t in = weight.type.dims[in_out ? 0 : 1], out = weight.type.dims[in_out ? 1 : 0];

            for (int64_t o = 0; o < out; o++)
                for (int64_t k = 0; k < in; k++)
                    values[in_out ? k * out + o : o * in + k] = bgi_quantized_value(rounded.data, in, bits, o, k);
            ++*out_count;
        }
        require(bg_weights_set(made, weight.name, &weight.type, values, &error), &error);
        free(values);
    }
    return made;
}

static void test_bits(void **state)
{
    static float wanted[ADDED][VOCABULARY], found[ADDED][VOCABULARY], plain[ADDED][VOCABULARY];
    static const bg_strategy strategies[] = {BG_STRATEGY_SINGLE, BG_STRATEGY_SHARDED, BG_STRATEGY_PIPELINED,
                                             BG_STRATEGY_PHASED};
    const bg_gpt_options model = wide_model();
    bg_weights *weights = make_weights(&model);
    (void)state;

    generate(&model, NULL, weights, 1, plain);
    for (size_t t = 0; t < TYPES; t++) {
        bg_options options = quantizing(types[t]);
        bg_weights *rounded;
        uint32_t count;

        generate(&model, &options, weights, 1, found);
        rounded = dequantize(weights, types[t], &count);
        assert_int_equal(count, 9); /* four matrices of each layer, and the table */
        generate(&model, NULL, rounded, 1, wanted);
        assert_memory_equal(found, wanted, sizeof wanted);
        assert_memory_not_equal(found, plain, sizeof plain);
        for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++) {
            options.execution.strategy = strategies[s];
            options.execution.stages = strategies[s] == BG_STRATEGY_SINGLE ? NULL : "auto:2";
            options.execution.cores = 1 + (uint32_t)s % 2;
            generate(&model, &options, weights, 1 + 2 * (uint32_t)(s % 2), found);
            assert_memory_equal(found, wanted, sizeof wanted);
        }
        bg_weights_destroy(rounded);
    }
    bg_weights_destroy(weights);
}

/* With activations of bfloat16, the matrices are those that a model with float32 parameters casts in each step. */
static void test_bfloat16(void **state)
{
    static float wanted[ADDED][VOCABULARY], found[ADDED][VOCABULARY];
    static const uint32_t cores[] = {1, 2, 1}, sequences[] = {1, 3, 2};
    bg_gpt_options model = wide_model();
    bg_options options = quantizing(BG_WEIGHTS_BFLOAT16);
    bg_weights *weights, *rounded;
    uint32_t count;
    (void)state;

    model.dtype = BG_BFLOAT16;
    weights = make_weights(&model);
    options.execution.strategy = BG_STRATEGY_SINGLE;
    generate(&model, &options, weights, 1, found);
    rounded = dequantize(weights, BG_WEIGHTS_BFLOAT16, &count);
    assert_int_equal(count, 9);
    generate(&model, NULL, rounded, 1, wanted);
    assert_memory_equal(found, wanted, sizeof wanted);
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++) {
        options.execution.cores = cores[i];
        options.execution.strategy = i < 2 ? BG_STRATEGY_SINGLE : BG_STRATEGY_PIPELINED;
        options.execution.stages = i < 2 ? NULL : "auto:2";
        generate(&model, &options, weights, sequences[i], found);
        assert_memory_equal(found, wanted, sizeof wanted);
    }
    bg_weights_destroy(rounded);
    bg_weights_destroy(weights);
}

/* Counts the casts of matrices in each run of a session. */
static uint32_t count_matrix_casts(const bg_session *session)
{
    const bg_plan *plan = bg_session_plan(session);
    uint32_t count = 0;

    for (uint32_t i = 0; i < plan->devices[0].instruction_count; i++) {
        const bgi_instruction *instruction = &plan->devices[0].instructions[i];

        for (uint32_t c = 0; c < instruction->call_count; c++) {
            const bgi_call *call = &instruction->calls[c];

            count += call->input_count == 1 && call->output_count == 1 && call->types[0].dtype == BG_FLOAT32 &&
                     call->types[1].dtype == BG_BFLOAT16 && bg_type_element_count(&call->types[0]) >= 64 * 64;
        }
    }
    return count;
}

/* Computes the same logits in one pass over the whole sequence, which casts `casts` matrices. */
static void evaluate(const bg_gpt_options *model, bg_weights *weights, bg_weights_type type, uint32_t casts,
                     float logits[ADDED][VOCABULARY])
{
    bg_gpt_options used = *model;
    bg_options options = quantizing(type);
    bg_stream output;
    int32_t tokens[PROMPT + ADDED];
    static float all[PROMPT + ADDED][VOCABULARY];
    uint16_t halves[PROMPT + ADDED][VOCABULARY];
    const void *inputs[] = {tokens};
    void *outputs[] = {halves};
    bg_session *session;
    bg_graph *graph;
    bg_error error;

    options.execution.strategy = BG_STRATEGY_SINGLE;
    used.sequence_length = PROMPT + ADDED;
    used.outputs = BG_GPT_LOGITS;
    for (int32_t i = 0; i < PROMPT + ADDED; i++)
        tokens[i] = (i * i + 5) % VOCABULARY;
    require(bg_graph_create(&graph, &error), &error);
    bg_gpt_build(graph, &used);
    require(bg_session_create_inference(graph, &options, weights, &session, &error), &error);
    require(bg_session_output(session, 0, &output, &error), &error);
    assert_int_equal(output.micro_batch_type.dtype, BG_BFLOAT16);
    assert_int_equal(count_matrix_casts(session), casts);
    require(bg_session_run(session, inputs, outputs, &error), &error);
    for (size_t i = 0; i < sizeof all / sizeof all[0][0]; i++)
        (&all[0][0])[i] = bgi_bfloat16_to_float((&halves[0][0])[i]);
    memcpy(logits, all[PROMPT], sizeof all[0] * ADDED);
    bg_session_destroy(session);
    bg_graph_destroy(graph);
}

/* A generator of a bfloat16 model casts its matrices once. Logits are those of a whole pass, which casts the matrices
 * itself. */
static void test_casts(void **state)
{
    static float wanted[ADDED][VOCABULARY], found[ADDED][VOCABULARY];
    static const char name[] = "transformer.wte.weight";
    bg_gpt_options model = wide_model();
    bg_weights *weights;
    bg_generator *generator;
    bg_weight weight;
    bg_error error;
    float *values;
    (void)state;

    model.dtype = BG_BFLOAT16;
    weights = make_weights(&model);
    evaluate(&model, weights, BG_WEIGHTS_FLOAT, 9, wanted);
    evaluate(&model, weights, BG_WEIGHTS_CAST, 0, found);
    assert_memory_equal(found, wanted, sizeof wanted);
    generator = open_generator(&model, NULL, weights, 1);
    assert_int_equal(count_matrix_casts(bg_generator_session(generator, false)), 0);
    assert_int_equal(count_matrix_casts(bg_generator_session(generator, true)), 0);
    read_logits(generator, found);
    assert_memory_equal(found, wanted, sizeof wanted);

    /* The table is also an embedding, which reads the float32 values; both follow a change. */
    require(bg_weights_find(weights, name, &weight, &error), &error);
    values = malloc(bg_type_size_bytes(&weight.type));
    assert_non_null(values);
    for (int64_t i = 0; i < bg_type_element_count(&weight.type); i++)
        values[i] = -1.3F * ((const float *)weight.data)[i];
    require(bg_weights_set(weights, name, &weight.type, values, &error), &error);
    free(values);
    evaluate(&model, weights, BG_WEIGHTS_FLOAT, 9, wanted);
    assert_memory_not_equal(found, wanted, sizeof wanted);
    read_logits(generator, found);
    assert_memory_equal(found, wanted, sizeof wanted);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* A matrix that is set again is rounded again, for existing and for new sessions. */
static void test_changes(void **state)
{
    static float before[ADDED][VOCABULARY], after[ADDED][VOCABULARY], wanted[ADDED][VOCABULARY];
    static const char name[] = "transformer.h.1.mlp.c_fc.weight";
    const bg_gpt_options model = wide_model();
    const bg_options options = quantizing(BG_WEIGHTS_INT8);
    bg_weights *weights = make_weights(&model), *others;
    bg_generator *generator = open_generator(&model, &options, weights, 1);
    bg_quantized quantized;
    bg_weight weight;
    bg_error error;
    float *values;
    (void)state;

    read_logits(generator, before);
    require(bg_weights_find(weights, name, &weight, &error), &error);
    values = malloc(bg_type_size_bytes(&weight.type));
    assert_non_null(values);
    for (int64_t i = 0; i < bg_type_element_count(&weight.type); i++)
        values[i] = -2.0F * ((const float *)weight.data)[i];
    require(bg_weights_set(weights, name, &weight.type, values, &error), &error);
    read_logits(generator, after);
    assert_memory_not_equal(before, after, sizeof after);
    generate(&model, &options, weights, 1, wanted);
    assert_memory_equal(after, wanted, sizeof wanted);
    others = make_weights(&model);
    require(bg_weights_set(others, name, &weight.type, values, &error), &error);
    generate(&model, &options, others, 1, wanted);
    assert_memory_equal(after, wanted, sizeof wanted);

    require(bg_weights_quantized(weights, &quantized, &error), &error);
    assert_int_equal(quantized.count, 9);
    assert_true(quantized.largest_error > 0.0 && quantized.largest_error <= quantized.largest_bound);
    assert_true(quantized.bytes * 7 / 2 < quantized.float_bytes + 71 * 64 * 4);
    values[5] = NAN;
    require(bg_weights_set(weights, name, &weight.type, values, &error), &error);
    assert_int_equal(bg_generator_feed(generator, (const uint32_t[]){1}, 1, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "`transformer.h.1.mlp.c_fc.weight` has a value that is NaN"));
    free(values);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
    bg_weights_destroy(others);
}

static bg_weights *copy_without(bg_weights *weights, const char *name)
{
    bg_weights *copy;
    bg_error error;

    require(bg_weights_create(&copy, &error), &error);
    for (uint32_t i = 0; i < bg_weights_count(weights); i++) {
        bg_weight weight;

        require(bg_weights_at(weights, i, &weight, &error), &error);
        if (strcmp(weight.name, name) != 0)
            require(bg_weights_set(copy, weight.name, &weight.type, weight.data, &error), &error);
    }
    return copy;
}

/* Missing weights are an error, unless initialize_missing is set; matrices then have their initial values, rounded. */
static void test_missing(void **state)
{
    static float wanted[ADDED][VOCABULARY], found[ADDED][VOCABULARY];
    const bg_gpt_options model = wide_model();
    bg_options options = quantizing(BG_WEIGHTS_INT4), plain = bg_options_defaults();
    bg_weights *weights, *others, *rounded;
    bg_generator *generator;
    bg_error error;
    uint32_t count;
    (void)state;

    others = make_weights(&model);
    weights = copy_without(others, "transformer.h.1.mlp.c_fc.weight");
    assert_int_equal(bg_generator_create(&model, &options, weights, &generator, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "lack 1 of the plan's parameters: `transformer.h.1.mlp.c_fc.weight`;"));
    bg_weights_destroy(weights);
    bg_weights_destroy(others);
    require(bg_weights_create(&weights, &error), &error);
    options.numerics.initialize_missing = plain.numerics.initialize_missing = true;
    generate(&model, &options, weights, 1, found);
    require(bg_weights_create(&others, &error), &error);
    generate(&model, &plain, others, 1, wanted);
    options.numerics.initialize_missing = false;
    generate(&model, &options, others, 1, wanted);
    rounded = dequantize(others, BG_WEIGHTS_INT4, &count);
    assert_int_equal(count, 9);
    assert_memory_equal(found, wanted, sizeof wanted);
    bg_weights_destroy(rounded);
    bg_weights_destroy(weights);
    bg_weights_destroy(others);
}

/* The matrices are also cast correctly under other strategies, in training, and with values that the session makes
 * itself. */
static void test_cast_options(void **state)
{
    static float wanted[ADDED][VOCABULARY], found[ADDED][VOCABULARY];
    static const bg_strategy strategies[] = {BG_STRATEGY_SHARDED, BG_STRATEGY_PIPELINED, BG_STRATEGY_PHASED};
    bg_gpt_options model = wide_model();
    bg_options options = bg_options_defaults();
    const bg_optimizer sgd = bg_sgd(0.1);
    bg_weights *weights, *made, *others;
    bg_generator *generator;
    bg_graph *graph;
    bg_plan *plan;
    bg_gpt net;
    bg_error error;
    (void)state;

    model.dtype = BG_BFLOAT16;
    weights = make_weights(&model);
    generate(&model, NULL, weights, 1, wanted);
    for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++) {
        options.execution.strategy = strategies[s];
        options.execution.stages = "auto:2";
        options.execution.cores = 1 + (uint32_t)s % 2;
        generate(&model, &options, weights, 1 + (uint32_t)s, found);
        assert_memory_equal(found, wanted, sizeof wanted);
    }
    bg_weights_destroy(weights);

    options = bg_options_defaults();
    require(bg_weights_create(&made, &error), &error);
    assert_int_equal(bg_generator_create(&model, NULL, made, &generator, &error), BG_ERROR_NOT_FOUND);
    assert_null(strstr(strstr(error.message, "wte.weight`") + 1, "wte.weight`")); /* named once */
    options.numerics.initialize_missing = true;
    generate(&model, &options, made, 1, found);
    others = copy_without(made, "");
    generate(&model, NULL, others, 1, wanted);
    assert_memory_equal(found, wanted, sizeof wanted);
    bg_weights_destroy(others);
    bg_weights_destroy(made);

    options.numerics.weights_type = BG_WEIGHTS_CAST;
    require(bg_graph_create(&graph, &error), &error);
    net = bg_gpt_build(graph, &model);
    require(bg_plan_create_training(graph, net.loss, &sgd, &options, &plan, &error), &error);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
}

/* A plan from the cache gives the same results with quantized weights. */
static void test_cached(void **state)
{
    static float wanted[ADDED][VOCABULARY], found[ADDED][VOCABULARY];
    const bg_gpt_options model = wide_model();
    bg_options options = quantizing(BG_WEIGHTS_INT8);
    bg_weights *weights = make_weights(&model), *others = make_weights(&model);
    bg_generator *generator;
    char folder[TEST_FOLDER_BYTES];
    (void)state;

    test_folder_create(folder);
    options.files.cache_dir = folder;
    generate(&model, &options, weights, 1, wanted);
    generator = open_generator(&model, &options, others, 1);
    assert_true(bg_plan_summarize(bg_session_plan(bg_generator_session(generator, false))).is_cached);
    read_logits(generator, found);
    assert_memory_equal(found, wanted, sizeof wanted);
    bg_generator_destroy(generator);
    options.numerics.weights_type = BG_WEIGHTS_INT4; /* another plan */
    generate(&model, &options, others, 1, found);
    assert_memory_not_equal(found, wanted, sizeof wanted);
    test_folder_remove(folder);
    bg_weights_destroy(weights);
    bg_weights_destroy(others);
}

static void test_refused(void **state)
{
    const bg_gpt_options model = wide_model();
    const bg_options options = quantizing(BG_WEIGHTS_INT8);
    const bg_optimizer sgd = bg_sgd(0.1);
    bg_weights *weights = make_weights(&model);
    bg_session *session = NULL;
    bg_graph *graph;
    bg_plan *plan;
    bg_gpt net;
    bg_error error;
    (void)state;

    require(bg_graph_create(&graph, &error), &error);
    net = bg_gpt_build(graph, &model);
    assert_int_equal(bg_plan_create_training(graph, net.loss, &sgd, &options, &plan, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "weights_type is int8 in training"));
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    assert_int_equal(bg_session_create_reader(plan, weights, &session, &error), BG_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "a reader computes with published values in place"));
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    bg_weights_destroy(weights);
}

/* ---- a trained model ---- */

enum { LENGTH = 32, BATCH = 8, STEPS = 150, WORDS = 40 };

/* Makes synthetic text from the words of a fixed lexicon; each word is followed by one of three words. */
static void make_text(uint32_t seed, int32_t *tokens, int64_t count)
{
    static const char alphabet[] = "etaoinshrdlu";
    uint32_t word = seed % WORDS, state = seed * 2654435761u + 1;

    for (int64_t i = 0; i < count;) {
        const uint32_t length = 2 + word * 7 % 5;

        for (uint32_t c = 0; c < length && i < count; c++)
            tokens[i++] = alphabet[(word * 5 + c * c * 3 + c * word) % 12] - 'a' + 1;
        if (i < count)
            tokens[i++] = 0;
        state = state * 1664525u + 1013904223u;
        word = (word * 3 + (state >> 20) % 3 * 7 + 1) % WORDS;
    }
}

static bg_gpt_options trained_model(void)
{
    bg_gpt_options model = wide_model();

    model.vocabulary = 27;
    model.sequence_length = model.positions = LENGTH;
    model.micro_batch = BATCH;
    model.dropout = 0.0;
    return model;
}

static void fill_batch(uint32_t seed, int32_t *tokens, int32_t *labels)
{
    for (int64_t b = 0; b < BATCH; b++) {
        int32_t text[LENGTH + 1];

        make_text(seed + (uint32_t)b, text, LENGTH + 1);
        memcpy(tokens + b * LENGTH, text, LENGTH * sizeof *text);
        memcpy(labels + b * LENGTH, text + 1, LENGTH * sizeof *text);
    }
}

static double run_batch(bg_session *session, uint32_t seed)
{
    int32_t tokens[BATCH * LENGTH], labels[BATCH * LENGTH];
    const void *inputs[2];
    float loss = 0.0F;
    void *outputs[] = {&loss};
    bg_error error;

    fill_batch(seed, tokens, labels);
    inputs[bg_session_find_input(session, "tokens")] = tokens;
    inputs[bg_session_find_input(session, "labels")] = labels;
    require(bg_session_run(session, inputs, outputs, &error), &error);
    return (double)loss;
}

static double find_perplexity(const bg_graph *graph, bg_weights_type type, bg_weights *weights, size_t *out_bytes)
{
    bg_options options = quantizing(type);
    bg_session *session;
    bg_error error;
    double loss = 0.0;

    options.execution.strategy = BG_STRATEGY_SINGLE;
    require(bg_session_create_inference(graph, &options, weights, &session, &error), &error);
    for (uint32_t i = 0; i < 10; i++)
        loss += run_batch(session, 100000 + 100 * i) / 10.0;
    *out_bytes = bg_plan_memory_bytes(bg_session_plan(session), 0, BG_MEMORY_WEIGHTS);
    bg_session_destroy(session);
    return exp(loss);
}

static void test_perplexity(void **state)
{
    const bg_gpt_options model = trained_model();
    const bg_optimizer adam = bg_adamw(0.003);
    static const double shares[TYPES] = {0.36, 0.24, 0.6};
    double plain, rounded;
    size_t bytes, plain_bytes;
    bg_weights *weights;
    bg_session *session;
    bg_graph *graph;
    bg_gpt net;
    bg_error error;
    (void)state;

    require(bg_weights_create(&weights, &error), &error);
    require(bg_graph_create(&graph, &error), &error);
    net = bg_gpt_build(graph, &model);
    require(bg_session_create_training(graph, net.loss, &adam, NULL, weights, &session, &error), &error);
    for (uint32_t step = 0; step < STEPS; step++)
        run_batch(session, step * BATCH);
    bg_session_destroy(session);
    plain = find_perplexity(graph, BG_WEIGHTS_FLOAT, weights, &plain_bytes);
    assert_true(plain < 3.5); /* the model has learned: the vocabulary has 27 tokens */
    for (size_t t = 0; t < TYPES; t++) {
        rounded = find_perplexity(graph, types[t], weights, &bytes);
        if (!(fabs(rounded / plain - 1.0) < (types[t] == BG_WEIGHTS_INT4 ? 0.03 : 0.005)))
            fail_msg("perplexity with type %d is %.5f, with float weights %.5f", (int)types[t], rounded, plain);
        assert_true(rounded != plain);
        if (!((double)bytes < (double)plain_bytes * shares[t]))
            fail_msg("weights of type %d need %zu bytes, float weights %zu", (int)types[t], bytes, plain_bytes);
    }
    bg_graph_destroy(graph);
    bg_weights_destroy(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),         cmocka_unit_test(test_bfloat16), cmocka_unit_test(test_casts),
        cmocka_unit_test(test_cast_options), cmocka_unit_test(test_changes),  cmocka_unit_test(test_missing),
        cmocka_unit_test(test_cached),       cmocka_unit_test(test_refused),  cmocka_unit_test(test_perplexity)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
