/*
 * test_generation.c: prompts of several lengths that are generated together, under any strategy, give the same bits as
 * each prompt alone. They end at the right tokens, and their text is returned in pieces that never contain a stop
 * string.
 */
#include <string.h>

#include "train/generation_model.h"

enum { POSITIONS = 60, VOCABULARY = 29, PROMPTS = 7 };

static const size_t lengths[PROMPTS] = {1, 40, 2, 33, 7, 58, 32};

static void make_prompts(bg_generation_prompt *prompts, uint32_t tokens[PROMPTS][POSITIONS])
{
    for (uint32_t p = 0; p < PROMPTS; p++) {
        for (size_t i = 0; i < lengths[p]; i++)
            tokens[p][i] = (uint32_t)((i * i + 3 * p + i * p) % VOCABULARY);
        prompts[p] = (bg_generation_prompt){.tokens = tokens[p], .count = lengths[p], .seed = 100 + p};
    }
}

static bg_generation_options make_options(void)
{
    bg_generation_options options = bg_generation_defaults();

    options.max_tokens = 12;
    options.sampling.top_k = 9;
    options.sampling.typical_p = 0.9;
    options.sampling.repetition_penalty = 1.1;
    options.sampling.presence_penalty = 0.2;
    return options;
}

/* Generates token by token with separate calls. */
static void continue_by_hand(bg_generator *generator, const bg_generation_prompt *prompt,
                             const bg_generation_options *options, bg_generation *out)
{
    bg_sampling sampling = options->sampling;
    bg_error error;

    *out = (bg_generation){.tokens = calloc(options->max_tokens, sizeof(uint32_t))};
    assert_non_null(out->tokens);
    sampling.seed = prompt->seed;
    bg_generator_reset(generator);
    require(bg_generator_feed(generator, prompt->tokens, prompt->count, &error), &error);
    while (out->count < options->max_tokens) {
        uint32_t *token = &out->tokens[out->count++];

        require(bg_generator_sample(generator, &sampling, token, &error), &error);
        if (bg_generator_length(generator) + 1 == POSITIONS)
            break;
        require(bg_generator_feed(generator, token, 1, &error), &error);
    }
}

static void assert_same(const bg_generation *found, const bg_generation *wanted, const char *what, uint32_t prompt)
{
    if (found->count != wanted->count ||
        memcmp(found->tokens, wanted->tokens, wanted->count * sizeof *wanted->tokens) != 0)
        fail_msg("%s: prompt %u has other tokens: %zu, expected %zu; the first is %u, expected %u", what, prompt,
                 found->count, wanted->count, found->tokens[0], wanted->tokens[0]);
}

static void test_by_hand(void **state)
{
    const bg_gpt_options model = make_model(VOCABULARY, POSITIONS);
    const bg_generation_options options = make_options();
    bg_weights *weights = make_weights(&model);
    bg_generator *generator = open_generator(&model, NULL, weights, 3);
    uint32_t tokens[PROMPTS][POSITIONS];
    bg_generation_prompt prompts[PROMPTS];
    bg_generation found[PROMPTS];
    bg_error error;
    (void)state;

    make_prompts(prompts, tokens);
    require(bg_generator_run(generator, prompts, PROMPTS, &options, found, &error), &error);
    bg_generator_destroy(generator);
    generator = open_generator(&model, NULL, weights, 1);
    for (uint32_t p = 0; p < PROMPTS; p++) {
        bg_generation wanted;

        continue_by_hand(generator, &prompts[p], &options, &wanted);
        assert_same(&found[p], &wanted, "by hand", p);
        assert_int_equal(found[p].end, BG_GENERATION_LENGTH);
        assert_true(found[p].log_share < 0.0 && found[p].score == found[p].log_share);
        bg_generation_clear(&wanted, 1);
    }
    assert_int_equal(found[5].count, POSITIONS - lengths[5]); /* no position is left */
    assert_int_equal(found[0].count, 12);
    bg_generation_clear(found, PROMPTS);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* A slot of the cache may already hold the beginning of its next prompt, or the whole prompt and more tokens. */
static void test_same_beginnings(void **state)
{
    static const size_t counts[] = {9, 4, 9, 1, 36, 5, 4};
    enum { COUNT = sizeof counts / sizeof counts[0] };
    const bg_gpt_options model = make_model(VOCABULARY, POSITIONS);
    const bg_generation_options options = make_options();
    bg_weights *weights = make_weights(&model);
    bg_generator *generator = open_generator(&model, NULL, weights, 1);
    bg_generation_prompt prompts[COUNT];
    bg_generation found[COUNT];
    uint32_t tokens[POSITIONS];
    bg_error error;
    (void)state;

    for (uint32_t i = 0; i < POSITIONS; i++)
        tokens[i] = (i * i + 5) % VOCABULARY;
    for (uint32_t p = 0; p < COUNT; p++)
        prompts[p] = (bg_generation_prompt){.tokens = tokens, .count = counts[p], .seed = 40 + p};
    require(bg_generator_run(generator, prompts, COUNT, &options, found, &error), &error);
    for (uint32_t p = 0; p < COUNT; p++) {
        bg_generation wanted;

        require(bg_generator_run(generator, &prompts[p], 1, &options, &wanted, &error), &error);
        assert_same(&found[p], &wanted, "after a prompt that begins alike", p);
        assert_true(found[p].log_share == wanted.log_share);
        bg_generation_clear(&wanted, 1);
    }
    bg_generation_clear(found, COUNT);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* Generates for any number of sequences, under every strategy of inference. */
static void test_strategies(void **state)
{
    static const bg_strategy strategies[] = {BG_STRATEGY_SINGLE, BG_STRATEGY_SHARDED, BG_STRATEGY_PIPELINED,
                                             BG_STRATEGY_PHASED};
    const bg_gpt_options model = make_model(VOCABULARY, POSITIONS);
    const bg_generation_options options = make_options();
    uint32_t tokens[PROMPTS][POSITIONS];
    bg_generation_prompt prompts[PROMPTS];
    bg_generation wanted[PROMPTS], found[PROMPTS];
    bg_error error;
    (void)state;

    make_prompts(prompts, tokens);
    for (uint32_t i = 0; i < 4 + 3; i++) {
        bg_options strategy = bg_options_defaults();
        bg_weights *weights = make_weights(&model);
        bg_generator *generator;

        strategy.execution.strategy = strategies[i < 4 ? i : 0];
        generator = open_generator(&model, &strategy, weights, i == 0 ? 1 : i < 4 ? 4 : i == 4 ? 2 : i == 5 ? 7 : 9);
        require(bg_generator_run(generator, prompts, PROMPTS, &options, found, &error), &error);
        for (uint32_t p = 0; p < PROMPTS && i > 0; p++) {
            assert_same(&found[p], &wanted[p], "another strategy, or more at once", p);
            if (memcmp(&found[p].log_share, &wanted[p].log_share, sizeof(double)) != 0)
                fail_msg("run %u, prompt %u: the log share is %.17g, expected %.17g", i, p, found[p].log_share,
                         wanted[p].log_share);
        }
        if (i == 0)
            memcpy(wanted, found, sizeof wanted);
        else
            bg_generation_clear(found, PROMPTS);
        bg_generator_destroy(generator);
        bg_weights_destroy(weights);
    }
    bg_generation_clear(wanted, PROMPTS);
}

/* ---- ends and text ---- */

typedef struct listener {
    char text[4096];
    size_t text_bytes;
    uint32_t tokens[64];
    uint64_t count;
    double log_share;
    bool was_last;
    uint64_t leaves_at;
} listener;

static bool hear(void *user, const bg_generation_token *token)
{
    listener *l = user;

    assert_int_equal(token->place, l->count);
    assert_false(l->was_last);
    memcpy(l->text + l->text_bytes, token->text, token->text_bytes);
    l->text_bytes += token->text_bytes;
    l->tokens[l->count++] = token->token;
    l->log_share += token->log_share;
    l->was_last = token->is_last;
    return l->count != l->leaves_at;
}

static void test_ends(void **state)
{
    const bg_gpt_options model = make_model(257, POSITIONS);
    const uint32_t letters[] = {'a', 'b'};
    const bg_generation_prompt prompt = {.tokens = letters, .count = 2, .seed = 3};
    bg_generation_options options = bg_generation_defaults();
    bg_weights *weights = make_weights(&model);
    bg_generator *generator = open_generator(&model, NULL, weights, 1);
    bg_tokenizer *tokenizer;
    bg_generation all, found;
    listener heard = {.count = 0};
    char stops[2][8] = {"", ""};
    const char *const stop_strings[] = {stops[0], stops[1]};
    bg_error error;
    (void)state;

    require(bg_tokenizer_create_bytes(&tokenizer, &error), &error);
    options.tokenizer = tokenizer;
    options.max_tokens = 40;
    options.on_token = hear;
    options.user = &heard;
    options.sampling.temperature = 3.0;
    require(bg_generator_run(generator, &prompt, 1, &options, &all, &error), &error);
    assert_int_equal(all.count, 40);
    assert_int_equal(heard.count, 40);
    assert_true(heard.was_last);
    assert_int_equal(heard.text_bytes, all.text_bytes);
    assert_memory_equal(heard.text, all.text, all.text_bytes);
    assert_memory_equal(heard.tokens, all.tokens, 40 * sizeof *all.tokens);
    assert_true(heard.log_share == all.log_share);
    assert_int_equal(strlen(all.text) <= all.text_bytes, 1);

    /* One stop string is three bytes from the middle; another only begins like the text. */
    for (uint32_t i = 10; i < 13; i++)
        assert_in_range(all.tokens[i], 1, 255);
    memcpy(stops[0], all.text + 10, 3);
    memcpy(stops[1], all.text + 4, 3);
    stops[1][2] = (char)(stops[1][2] + 1) != '\0' ? (char)(stops[1][2] + 1) : 'x';
    options.stop_strings = stop_strings;
    options.stop_string_count = 2;
    heard = (listener){.count = 0};
    require(bg_generator_run(generator, &prompt, 1, &options, &found, &error), &error);
    assert_int_equal(found.end, BG_GENERATION_STOP_STRING);
    assert_int_equal(found.count, 13);
    assert_int_equal(found.text_bytes, 10);
    assert_memory_equal(found.text, all.text, 10);
    assert_int_equal(heard.text_bytes, 10);
    assert_memory_equal(heard.text, all.text, 10);
    bg_generation_clear(&found, 1);

    options.stop_string_count = 0;
    options.stop_tokens = &all.tokens[20];
    options.stop_token_count = 1;
    heard = (listener){.count = 0};
    require(bg_generator_run(generator, &prompt, 1, &options, &found, &error), &error);
    assert_int_equal(found.end, BG_GENERATION_STOP_TOKEN);
    assert_int_equal(found.tokens[found.count - 1], all.tokens[20]);
    assert_int_equal(found.text_bytes, found.count - 1);
    bg_generation_clear(&found, 1);

    options.stop_token_count = 0;
    heard = (listener){.leaves_at = 5};
    require(bg_generator_run(generator, &prompt, 1, &options, &found, &error), &error);
    assert_int_equal(found.end, BG_GENERATION_CALLBACK);
    assert_int_equal(found.count, 5);
    bg_generation_clear(&found, 1);
    bg_generation_clear(&all, 1);
    bg_tokenizer_destroy(tokenizer);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* ---- errors ---- */

static void refuse(bg_generator *generator, const bg_generation_prompt *prompt, const bg_generation_options *options,
                   bg_status status, const char *part)
{
    bg_generation untouched = {.count = 77};
    bg_error error;

    assert_int_equal(bg_generator_run(generator, prompt, 1, options, &untouched, &error), status);
    if (strstr(error.message, part) == NULL)
        fail_msg("`%s` does not say `%s`", error.message, part);
    assert_int_equal(untouched.count, 77);
}

static void test_messages(void **state)
{
    const bg_gpt_options model = make_model(VOCABULARY, POSITIONS);
    const char *const strings[] = {""};
    uint32_t tokens[POSITIONS] = {0};
    bg_generation_prompt prompt = {.tokens = tokens, .count = 1};
    bg_generation_options options = bg_generation_defaults();
    bg_weights *weights = make_weights(&model);
    bg_generator *generator = open_generator(&model, NULL, weights, 2), *none;
    bg_error error;
    (void)state;

    options.beams = 3;
    refuse(generator, &prompt, &options, BG_ERROR_INVALID,
           "beams is 3; it must be at least 1 and at most the generator's number of sequences, 2");
    options.beams = 2, options.returned_beams = 3;
    refuse(generator, &prompt, &options, BG_ERROR_INVALID, "returned_beams is 3; of 2 beams it must be from 1 to 2");
    options = bg_generation_defaults(), options.max_tokens = 0;
    refuse(generator, &prompt, &options, BG_ERROR_INVALID, "max_tokens is 0");
    options = bg_generation_defaults(), options.stop_strings = strings, options.stop_string_count = 1;
    refuse(generator, &prompt, &options, BG_ERROR_INVALID, "stop_strings is set, but tokenizer is NULL");
    options = bg_generation_defaults(), options.sampling.min_p = -1;
    refuse(generator, &prompt, &options, BG_ERROR_INVALID, "min_p is -1");
    options = bg_generation_defaults();
    prompt.count = 0;
    refuse(generator, &prompt, &options, BG_ERROR_INVALID, "prompt 0 has no tokens");
    prompt.count = POSITIONS;
    refuse(generator, &prompt, &options, BG_ERROR_RANGE,
           "prompt 0 has 60 tokens, which must be fewer than the model's 60");
    prompt.count = 2, tokens[1] = VOCABULARY;
    refuse(generator, &prompt, &options, BG_ERROR_INVALID, "prompt 0: token 1 is 29 but must be below");
    assert_int_equal(bg_generator_create_batch(&model, NULL, weights, 33, &none, &error), BG_ERROR_INVALID);
    assert_non_null(strstr(error.message, "the generator would have 33 sequences; it must have 1 to 32"));
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand), cmocka_unit_test(test_same_beginnings), cmocka_unit_test(test_strategies),
        cmocka_unit_test(test_ends),    cmocka_unit_test(test_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
