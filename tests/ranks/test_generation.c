/*
 * test_generation.c: a generator with stages on two ranks. Both ranks draw the same tokens as one process, from logits
 * with the same bits, and the caches of keys and values stay on the rank of the stage.
 */
#include <string.h>

#include "plan/plan.h"
#include "ranks/wrap.h"
#include "train/generation_model.h"

enum { POSITIONS = 48, VOCABULARY = 29, PROMPTS = 3, MOST_TOKENS = 10 };

static const size_t lengths[PROMPTS] = {1, 35, 6};

typedef struct outcome {
    bg_generation results[PROMPTS];
    float logits[VOCABULARY]; /* after the first prompt */
} outcome;

/* Generates for several prompts at once, then for one prompt token by token. If `stages` is NULL, the model has one
 * device, so each process runs it separately (wrap.c). */
static void generate(const char *stages, outcome *out)
{
    const bg_gpt_options model = make_model(VOCABULARY, POSITIONS);
    bg_weights *weights = make_weights(&model);
    bg_options options = bg_options_defaults();
    bg_generation_options how = bg_generation_defaults();
    bg_generation_prompt prompts[PROMPTS];
    uint32_t tokens[PROMPTS][POSITIONS];
    bg_generator *generator;
    const bg_plan *plan;
    bg_error error;

    for (uint32_t p = 0; p < PROMPTS; p++) {
        for (size_t i = 0; i < lengths[p]; i++)
            tokens[p][i] = (uint32_t)((i * i + 3 * p + i * p) % VOCABULARY);
        prompts[p] = (bg_generation_prompt){.tokens = tokens[p], .count = lengths[p], .seed = 100 + p};
    }
    options.execution.strategy = stages != NULL ? BG_STRATEGY_PIPELINED : BG_STRATEGY_SINGLE;
    options.execution.stages = stages;
    options.execution.cores = 1;
    how.max_tokens = MOST_TOKENS;
    how.sampling.top_k = 9;
    generator = open_generator(&model, &options, weights, 2);
    plan = bg_session_plan(bg_generator_session(generator, false));
    assert_int_equal(plan->options.execution.transport != NULL, stages != NULL);
    require(bg_generator_run(generator, prompts, PROMPTS, &how, out->results, &error), &error);
    bg_generator_reset(generator);
    require(bg_generator_feed(generator, tokens[1], lengths[1], &error), &error);
    memcpy(out->logits, bg_generator_logits(generator), sizeof out->logits);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

static void ranks_generate_what_a_process_does(void **state)
{
    static const char *const ways[] = {"auto:2", "auto:3"};
    outcome wanted;

    (void)state;
    generate(NULL, &wanted);
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        outcome found;

        generate(ways[way], &found);
        for (uint32_t p = 0; p < PROMPTS; p++) {
            assert_int_equal(found.results[p].count, wanted.results[p].count);
            assert_memory_equal(found.results[p].tokens, wanted.results[p].tokens,
                                wanted.results[p].count * sizeof(uint32_t));
            assert_memory_equal(&found.results[p].log_share, &wanted.results[p].log_share, sizeof(double));
        }
        assert_memory_equal(found.logits, wanted.logits, sizeof wanted.logits);
        bg_generation_clear(found.results, PROMPTS);
    }
    bg_generation_clear(wanted.results, PROMPTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_generate_what_a_process_does)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
