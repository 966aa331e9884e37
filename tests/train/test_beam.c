/*
 * test_beam.c: with one beam for each possible prefix, beam search finds the results of a search over all sequences.
 * With few beams, it finds those that its rule predicts. Text and callbacks are those of the best sequence.
 */
#include <math.h>
#include <string.h>

#include "train/generation_model.h"

enum { POSITIONS = 24, VOCABULARY = 5, STOP = 4, LENGTH = 3, MOST = 32 };

static uint32_t prompt_tokens[] = {1, 3, 0, 2};
static const uint32_t end_tokens[] = {STOP, 1, 3};
static uint32_t stop_count = 1; /* the first stop_count of end_tokens end a sequence */
static const bg_generation_prompt prompt = {.tokens = prompt_tokens, .count = 4};

/* Finds the log probabilities of the next token after the prompt and `count` more tokens. */
static void find_log_shares(bg_generator *generator, const uint32_t *tokens, size_t count, double *log_shares)
{
    const float *logits;
    double sum = 0.0;
    bg_error error;

    bg_generator_reset(generator);
    require(bg_generator_feed(generator, prompt_tokens, 4, &error), &error);
    require(bg_generator_feed(generator, tokens, count, &error), &error);
    logits = bg_generator_logits(generator);
    for (int t = 0; t < VOCABULARY; t++)
        sum += exp((double)logits[t]);
    for (int t = 0; t < VOCABULARY; t++)
        log_shares[t] = (double)logits[t] - log(sum);
}

typedef struct sequence {
    uint32_t tokens[LENGTH + 3];
    size_t count;
    double sum, score;
} sequence;

/* ---- every sequence ---- */

static void look(bg_generator *generator, sequence *at, double penalty, sequence *best)
{
    double log_shares[VOCABULARY];

    find_log_shares(generator, at->tokens, at->count, log_shares);
    for (uint32_t t = 0; t < VOCABULARY; t++) {
        sequence next = *at;

        next.tokens[next.count++] = t;
        next.sum += log_shares[t];
        next.score = next.sum / pow((double)next.count, penalty);
        if (t == STOP || next.count == LENGTH) {
            if (best->count == 0 || next.score > best->score)
                *best = next;
        } else {
            look(generator, &next, penalty, best);
        }
    }
}

static bg_generation_options make_options(uint32_t beams, double penalty)
{
    bg_generation_options options = bg_generation_defaults();

    options.max_tokens = LENGTH;
    options.beams = beams;
    options.length_penalty = penalty;
    options.stop_tokens = end_tokens;
    options.stop_token_count = stop_count;
    return options;
}

static void test_exhaustive(void **state)
{
    static const double penalties[] = {0.0, 1.0, 2.5, -1.0};
    const bg_gpt_options model = make_model(VOCABULARY, POSITIONS);
    bg_weights *weights = make_weights(&model);
    bg_generator *generator = open_generator(&model, NULL, weights, MOST);
    size_t shortest = LENGTH, longest = 0;
    bg_error error;
    (void)state;

    for (size_t p = 0; p < sizeof penalties / sizeof penalties[0]; p++) {
        const bg_generation_options options = make_options(MOST, penalties[p]);
        sequence best = {.count = 0}, none = {.count = 0};
        bg_generation found;

        look(generator, &none, penalties[p], &best);
        require(bg_generator_run(generator, &prompt, 1, &options, &found, &error), &error);
        assert_int_equal(found.count, best.count);
        assert_memory_equal(found.tokens, best.tokens, best.count * sizeof *best.tokens);
        assert_true(fabs(found.score - best.score) < 1e-9 && fabs(found.log_share - best.sum) < 1e-9);
        assert_int_equal(found.end,
                         best.tokens[best.count - 1] == STOP ? BG_GENERATION_STOP_TOKEN : BG_GENERATION_LENGTH);
        shortest = found.count < shortest ? found.count : shortest;
        longest = found.count > longest ? found.count : longest;
        bg_generation_clear(&found, 1);
    }
    assert_true(shortest < longest); /* the penalty changes the result */
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* ---- few beams, by the rule, without a shared cache ---- */

static void insert(sequence *list, size_t *count, size_t most, sequence found, bool by_score)
{
    size_t at = *count;

    if (at < most)
        ++*count;
    else if (by_score ? found.score <= list[at - 1].score : found.sum <= list[at - 1].sum)
        return;
    else
        at--;
    for (; at > 0 && (by_score ? found.score > list[at - 1].score : found.sum > list[at - 1].sum); at--)
        list[at] = list[at - 1];
    list[at] = found;
}

/* Returns whether any continuation of a live sequence, of any possible length, could be better than the worst result if
 * all further tokens were certain. */
static bool can_improve(const sequence *live, size_t live_count, const sequence *worst, size_t length, double penalty)
{
    for (size_t b = 0; b < live_count; b++)
        for (size_t count = live[b].count + 1; count <= length; count++)
            if (live[b].sum / pow((double)count, penalty) > worst->score)
                return true;
    return false;
}

static bool is_stop(uint32_t token)
{
    bool is_found = false;

    for (uint32_t i = 0; i < stop_count; i++)
        is_found = is_found || end_tokens[i] == token;
    return is_found;
}

/* Searches by the rule, and always makes all steps. Sets *out_steps (may be NULL) to the number of steps until no live
 * sequence can improve the results. */
static void search(bg_generator *generator, uint32_t beams, size_t length, double penalty, sequence *results,
                   size_t *result_count, size_t *out_steps)
{
    sequence live[MOST] = {{.count = 0}};
    size_t live_count = 1;
    bool is_decided = false;

    *result_count = 0;
    for (size_t step = 0; step < length && live_count > 0; step++) {
        is_decided = is_decided ||
                     (*result_count == beams && !can_improve(live, live_count, &results[beams - 1], length, penalty));
        if (out_steps != NULL && !is_decided)
            *out_steps = step + 1;
        sequence ranked[MOST * VOCABULARY], next[MOST];
        size_t ranked_count = 0, next_count = 0;

        for (size_t b = 0; b < live_count; b++) {
            double log_shares[VOCABULARY];

            find_log_shares(generator, live[b].tokens, live[b].count, log_shares);
            for (uint32_t t = 0; t < VOCABULARY; t++) {
                sequence grown = live[b];

                grown.tokens[grown.count++] = t;
                grown.sum += log_shares[t];
                grown.score = grown.sum / pow((double)grown.count, penalty);
                insert(ranked, &ranked_count, MOST * VOCABULARY, grown, false);
            }
        }
        for (size_t r = 0; r < ranked_count && next_count < beams; r++) {
            const bool ends = is_stop(ranked[r].tokens[step]) || step + 1 == length;

            if (!ends)
                next[next_count++] = ranked[r];
            else if (r < beams)
                insert(results, result_count, beams, ranked[r], true);
        }
        memcpy(live, next, next_count * sizeof *live);
        live_count = next_count;
    }
}

static void compare_few(bg_generator *by_hand, bg_generator *generator, uint32_t beams, double penalty)
{
    enum { LONGER = LENGTH + 3 };
    bg_generation_options options = make_options(beams, penalty);
    sequence wanted[MOST];
    bg_generation found[4];
    size_t count;
    bg_error error;

    options.max_tokens = LONGER;
    options.returned_beams = beams;
    search(by_hand, beams, LONGER, penalty, wanted, &count, NULL);
    require(bg_generator_run(generator, &prompt, 1, &options, found, &error), &error);
    assert_int_equal(count, beams);
    for (uint32_t i = 0; i < beams; i++) {
        assert_int_equal(found[i].count, wanted[i].count);
        assert_memory_equal(found[i].tokens, wanted[i].tokens, wanted[i].count * sizeof *wanted[i].tokens);
        assert_true(fabs(found[i].score - wanted[i].score) < 1e-9);
    }
    bg_generation_clear(found, beams);
}

static void test_few_beams(void **state)
{
    static const double penalties[] = {1.0, 0.0, 4.0, -2.0};
    const bg_gpt_options model = make_model(VOCABULARY, POSITIONS);
    bg_weights *weights = make_weights(&model), *own = make_weights(&model);
    bg_generator *by_hand = open_generator(&model, NULL, weights, 1), *generator = open_generator(&model, NULL, own, 5);
    (void)state;

    for (uint32_t beams = 2; beams <= 4; beams++)
        for (size_t p = 0; p < sizeof penalties / sizeof penalties[0]; p++)
            compare_few(by_hand, generator, beams, penalties[p]);
    bg_generator_destroy(generator);
    bg_generator_destroy(by_hand);
    bg_weights_destroy(own);
    bg_weights_destroy(weights);
}

/* For some prompts the best sequence begins with unlikely tokens, and for some good ends come too late. */
static void test_other_prompts(void **state)
{
    static const double penalties[] = {1.0, 0.5, 2.0};
    const bg_gpt_options model = make_model(VOCABULARY, POSITIONS);
    bg_weights *weights = make_weights(&model), *own = make_weights(&model);
    bg_generator *by_hand = open_generator(&model, NULL, weights, 1), *generator = open_generator(&model, NULL, own, 2);
    const int step = getenv("BRIGADE_TEST_QUICK") != NULL ? 6 : 1;
    (void)state;

    for (int i = 0; i < VOCABULARY * VOCABULARY; i += step) {
        prompt_tokens[2] = (uint32_t)(i / VOCABULARY), prompt_tokens[3] = (uint32_t)(i % VOCABULARY);
        compare_few(by_hand, generator, 2, penalties[i % 3]);
    }
    prompt_tokens[2] = 0, prompt_tokens[3] = 2;
    bg_generator_destroy(generator);
    bg_generator_destroy(by_hand);
    bg_weights_destroy(own);
    bg_weights_destroy(weights);
}

/* ---- the end of the search ---- */

static void count_run(void *user, bg_log_level level, const char *message)
{
    (void)level;
    *(size_t *)user += strstr(message, "cycles") != NULL;
}

/* The search ends exactly when no beam can become better. This holds for penalties that prefer shorter or longer
 * sequences, and for limits on tokens or on positions. A step is a run. */
static void test_end(void **state)
{
    enum { MOST_TOKENS = 4, COUNT = 6 };
    static const double penalties[COUNT] = {-2.0, -0.5, 0.0, 0.25, 1.0, 3.0};
    const bool is_quick = getenv("BRIGADE_TEST_QUICK") != NULL;
    size_t early[2][COUNT] = {{0}}, late[COUNT] = {0}, runs = 0;
    bg_options counting = bg_options_defaults();
    (void)state;

    counting.reporting.log_cycles = true;
    counting.reporting.log = count_run;
    counting.reporting.log_user = &runs;
    stop_count = 3;
    for (int by_positions = 0; by_positions <= 1; by_positions++) {
        const bg_gpt_options model = make_model(VOCABULARY, by_positions ? 4 + MOST_TOKENS : POSITIONS);
        bg_weights *weights = make_weights(&model), *own = make_weights(&model);
        bg_generator *by_hand = open_generator(&model, NULL, weights, 1);
        bg_generator *generator = open_generator(&model, &counting, own, 3);

        for (int i = 0; i < VOCABULARY * VOCABULARY; i += is_quick ? 9 : 2) {
            const size_t p = (size_t)i / 2 % COUNT;

            prompt_tokens[2] = (uint32_t)(i / VOCABULARY), prompt_tokens[3] = (uint32_t)(i % VOCABULARY);
            for (uint32_t beams = 2; beams <= 3; beams++) {
                bg_generation_options options = make_options(beams, penalties[p]);
                sequence wanted[MOST];
                bg_generation found;
                size_t count, steps = 0;
                bg_error error;

                options.max_tokens = by_positions ? 5 * MOST_TOKENS : MOST_TOKENS;
                search(by_hand, beams, MOST_TOKENS, penalties[p], wanted, &count, &steps);
                runs = 0;
                require(bg_generator_run(generator, &prompt, 1, &options, &found, &error), &error);
                assert_int_equal(runs, steps);
                assert_int_equal(found.count, wanted[0].count);
                assert_memory_equal(found.tokens, wanted[0].tokens, found.count * sizeof *found.tokens);
                early[by_positions][p] += steps < MOST_TOKENS;
                late[p] += steps == MOST_TOKENS;
                bg_generation_clear(&found, 1);
            }
        }
        bg_generator_destroy(generator);
        bg_generator_destroy(by_hand);
        bg_weights_destroy(own);
        bg_weights_destroy(weights);
    }
    stop_count = 1;
    prompt_tokens[2] = 0, prompt_tokens[3] = 2;
    for (size_t p = 0; p < COUNT && !is_quick; p++) { /* so that the bound matters */
        assert_true((early[0][p] > 0 && early[1][p] > 0) || penalties[p] > 1.0);
        assert_true(late[p] > 0 || penalties[p] < 1.0);
    }
}

/* ---- equal sums, and fewer sequences than beams ---- */

static void clear_weight(bg_weights *weights, const char *name)
{
    bg_weight weight;
    void *zeros;
    bg_error error;

    require(bg_weights_find(weights, name, &weight, &error), &error);
    zeros = calloc(1, bg_type_size_bytes(&weight.type));
    assert_non_null(zeros);
    require(bg_weights_set(weights, name, &weight.type, zeros, &error), &error);
    free(zeros);
}

/* If all tokens are equally likely, the first beam has precedence, then the smallest token, and an earlier result
 * remains.
 */
static void test_ties(void **state)
{
    const bg_gpt_options model = make_model(VOCABULARY, POSITIONS);
    bg_weights *weights = make_weights(&model);
    bg_generation_options options = make_options(3, 1.0);
    bg_options counting = bg_options_defaults();
    bg_generation found[8];
    bg_generator *generator;
    size_t runs = 0;
    bg_error error;
    (void)state;

    counting.reporting.log_cycles = true;
    counting.reporting.log = count_run;
    counting.reporting.log_user = &runs;
    clear_weight(weights, "transformer.wte.weight");
    generator = open_generator(&model, &counting, weights, 8);
    options.returned_beams = 3;
    options.max_tokens = 2;
    options.stop_token_count = 0;
    require(bg_generator_run(generator, &prompt, 1, &options, found, &error), &error);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(found[i].count, 2);
        assert_int_equal(found[i].tokens[0], 0);
        assert_int_equal(found[i].tokens[1], i);
        assert_true(fabs(found[i].score + log(VOCABULARY)) < 1e-6);
    }
    bg_generation_clear(found, 3);

    /* The results are the stop token alone, then four of the five sequences of two tokens; the fifth has the same
     * sum. */
    options.beams = options.returned_beams = 5;
    options.stop_token_count = 1;
    require(bg_generator_run(generator, &prompt, 1, &options, found, &error), &error);
    assert_int_equal(found[0].count, 1);
    assert_int_equal(found[0].tokens[0], STOP);
    for (uint32_t i = 1; i < 5; i++) {
        assert_int_equal(found[i].count, 2);
        assert_int_equal(found[i].tokens[0], 0);
        assert_int_equal(found[i].tokens[1], i - 1);
    }
    bg_generation_clear(found, 5);

    options.max_tokens = 9;
    options.length_penalty = 0.0;
    runs = 0;
    require(bg_generator_run(generator, &prompt, 1, &options, found, &error), &error);
    assert_int_equal(runs, 5); /* all end in a stop token; the live sequences are as good as the worst of them */
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(found[i].count, i + 1);
    bg_generation_clear(found, 5);

    options.beams = options.returned_beams = 8;
    options.max_tokens = 1;
    options.stop_token_count = 0;
    memset(found, 0x5a, sizeof found);
    require(bg_generator_run(generator, &prompt, 1, &options, found, &error), &error);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(found[i].count, i < VOCABULARY);
        if (i < VOCABULARY)
            assert_int_equal(found[i].tokens[0], i);
        else
            assert_null(found[i].tokens);
    }
    assert_int_equal(bg_generator_length(generator), 0);
    bg_generation_clear(found, 8);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* ---- text ---- */

typedef struct reader {
    char text[256];
    size_t text_bytes;
    uint64_t count, leaves_at, last_count;
} reader;

static bool read_token(void *user, const bg_generation_token *token)
{
    reader *r = user;

    assert_non_null(token->text);
    assert_int_equal(token->place, r->count++);
    memcpy(r->text + r->text_bytes, token->text, token->text_bytes);
    r->text_bytes += token->text_bytes;
    r->last_count += token->is_last;
    return r->count != r->leaves_at;
}

/* Checks that the text of a result is that of its tokens, without a stop string at the end, and that no text contains a
 * stop string. */
static void check_text(const bg_tokenizer *tokenizer, const bg_generation *found, const char *stop)
{
    const size_t stop_bytes = found->end == BG_GENERATION_STOP_STRING ? strlen(stop) : 0;
    size_t size_bytes = 0;
    char *all;
    bg_error error;

    require(bg_tokenizer_decode(tokenizer, found->tokens, found->count, &all, &size_bytes, &error), &error);
    assert_int_equal(found->text_bytes + stop_bytes, size_bytes);
    assert_memory_equal(found->text, all, found->text_bytes);
    assert_memory_equal(all + found->text_bytes, stop, stop_bytes);
    assert_int_equal(found->text[found->text_bytes], '\0');
    free(all);
}

static const char *find_part(const char *text, size_t size_bytes, const char *part)
{
    const size_t length = strlen(part);

    for (size_t i = 0; i + length <= size_bytes; i++)
        if (memcmp(text + i, part, length) == 0)
            return text + i;
    return NULL;
}

static void test_text(void **state)
{
    enum { BEAMS = 4, TOKENS = 6 };
    const bg_gpt_options model = make_model(257, POSITIONS);
    bg_weights *weights = make_weights(&model);
    bg_generator *generator = open_generator(&model, NULL, weights, BEAMS);
    bg_generation_options options = bg_generation_defaults();
    bg_generation plain[BEAMS], found[BEAMS];
    bg_tokenizer *tokenizer;
    reader heard = {.count = 0};
    char stop[3] = "";
    const char *const stops[] = {stop};
    uint32_t stopped = 0;
    bool has_prefix = false;
    bg_error error;
    (void)state;

    require(bg_tokenizer_create_bytes(&tokenizer, &error), &error);
    options.tokenizer = tokenizer;
    options.beams = options.returned_beams = BEAMS;
    options.max_tokens = TOKENS;
    options.length_penalty = 0.0; /* short sequences are not penalized */
    options.on_token = read_token;
    options.user = &heard;
    require(bg_generator_run(generator, &prompt, 1, &options, plain, &error), &error);
    for (uint32_t i = 0; i < BEAMS; i++)
        check_text(tokenizer, &plain[i], "");
    assert_int_equal(heard.count, TOKENS);
    assert_int_equal(heard.last_count, 1);
    assert_int_equal(heard.text_bytes, plain[0].text_bytes);
    assert_memory_equal(heard.text, plain[0].text, plain[0].text_bytes);

    /* A string of two bytes, the second of which comes with a separate token. */
    assert_in_range(plain[0].tokens[2], 1, 255);
    assert_in_range(plain[0].tokens[3], 1, 255);
    memcpy(stop, plain[0].text + 2, 2);
    options.stop_strings = stops;
    options.stop_string_count = 1;
    heard = (reader){.count = 0};
    require(bg_generator_run(generator, &prompt, 1, &options, found, &error), &error);
    for (uint32_t i = 0; i < BEAMS; i++) {
        check_text(tokenizer, &found[i], stop);
        assert_null(find_part(found[i].text, found[i].text_bytes, stop));
        stopped += found[i].end == BG_GENERATION_STOP_STRING;
        has_prefix = has_prefix || (found[i].count == 4 &&
                                    memcmp(found[i].tokens, plain[0].tokens, 4 * sizeof *found[i].tokens) == 0);
        assert_true(i == 0 || found[i].score <= found[i - 1].score);
    }
    assert_true(stopped > 0 && has_prefix);
    assert_int_equal(heard.count, found[0].count);
    assert_int_equal(heard.last_count, 1);
    assert_int_equal(heard.text_bytes,
                     found[0].text_bytes); /* the text never contains the beginning of the stop string */
    assert_memory_equal(heard.text, found[0].text, found[0].text_bytes);
    bg_generation_clear(found, BEAMS);

    options.stop_string_count = 0;
    heard = (reader){.leaves_at = 3};
    require(bg_generator_run(generator, &prompt, 1, &options, found, &error), &error);
    assert_int_equal(heard.count, 3);
    assert_int_equal(heard.last_count, 0);
    assert_int_equal(found[0].count, TOKENS); /* the callback is called when the search has ended */
    bg_generation_clear(found, BEAMS);
    bg_generation_clear(plain, BEAMS);
    bg_tokenizer_destroy(tokenizer);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* If more successors end in a stop string than the search ranks at first, the search continues with other successors.
 */
static void test_many_stops(void **state)
{
    enum { BEAMS = 2, STOPS = 9, TOKENS = 3 };
    const bg_gpt_options model = make_model(257, POSITIONS);
    bg_weights *weights = make_weights(&model);
    bg_generator *generator = open_generator(&model, NULL, weights, BEAMS);
    bg_generation_options options = bg_generation_defaults();
    bg_generation found[BEAMS];
    bg_tokenizer *tokenizer;
    char strings[STOPS][2] = {""};
    const char *stops[STOPS];
    float logits[257];
    bg_error error;
    (void)state;

    require(bg_tokenizer_create_bytes(&tokenizer, &error), &error);
    require(bg_generator_feed(generator, prompt.tokens, prompt.count, &error), &error);
    memcpy(logits, bg_generator_logits(generator), sizeof logits);
    for (int i = 0; i < STOPS; i++) { /* the likeliest bytes */
        int best = 1;

        for (int t = 1; t < 256; t++)
            best = logits[t] > logits[best] ? t : best;
        logits[best] = -INFINITY;
        strings[i][0] = (char)best;
        stops[i] = strings[i];
    }
    options.tokenizer = tokenizer;
    options.stop_strings = stops;
    options.stop_string_count = STOPS;
    options.beams = options.returned_beams = BEAMS;
    options.max_tokens = TOKENS;
    options.length_penalty = 6.0; /* long sequences are better */
    require(bg_generator_run(generator, &prompt, 1, &options, found, &error), &error);
    for (int i = 0; i < BEAMS; i++)
        assert_int_equal(found[i].count, TOKENS);
    bg_generation_clear(found, BEAMS);
    bg_tokenizer_destroy(tokenizer);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

/* ---- the callback gets the best sequence of each prompt ---- */

typedef struct listener {
    uint32_t tokens[2][LENGTH];
    uint64_t counts[2], last_counts[2];
    double log_shares[2];
} listener;

static bool hear(void *user, const bg_generation_token *token)
{
    listener *l = user;
    const uint32_t p = token->prompt;

    assert_in_range(p, 0, 1);
    assert_null(token->text);
    assert_int_equal(token->place, l->counts[p]);
    l->tokens[p][l->counts[p]++] = token->token;
    l->log_shares[p] += token->log_share;
    l->last_counts[p] += token->is_last;
    assert_int_equal(l->last_counts[p], token->is_last);
    return true;
}

static void test_callback(void **state)
{
    const bg_gpt_options model = make_model(VOCABULARY, POSITIONS);
    const bg_generation_prompt prompts[] = {prompt, {.tokens = prompt_tokens, .count = 2}};
    bg_weights *weights = make_weights(&model);
    bg_generator *generator = open_generator(&model, NULL, weights, 4);
    bg_generation_options options = make_options(4, 1.0);
    listener heard = {.counts = {0}};
    bg_generation found[2], alone;
    bg_error error;
    (void)state;

    options.on_token = hear;
    options.user = &heard;
    require(bg_generator_run(generator, prompts, 2, &options, found, &error), &error);
    options.on_token = NULL;
    require(bg_generator_run(generator, &prompts[1], 1, &options, &alone, &error), &error);
    assert_int_equal(alone.count, found[1].count);
    assert_memory_equal(alone.tokens, found[1].tokens, alone.count * sizeof *alone.tokens);
    assert_true(alone.score == found[1].score);
    for (uint32_t p = 0; p < 2; p++) {
        assert_int_equal(heard.counts[p], found[p].count);
        assert_int_equal(heard.last_counts[p], 1);
        assert_memory_equal(heard.tokens[p], found[p].tokens, found[p].count * sizeof *found[p].tokens);
        assert_true(heard.log_shares[p] == found[p].log_share);
    }
    bg_generation_clear(found, 2);
    bg_generation_clear(&alone, 1);
    bg_generator_destroy(generator);
    bg_weights_destroy(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exhaustive), cmocka_unit_test(test_few_beams), cmocka_unit_test(test_other_prompts),
        cmocka_unit_test(test_end),        cmocka_unit_test(test_ties),      cmocka_unit_test(test_text),
        cmocka_unit_test(test_many_stops), cmocka_unit_test(test_callback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
