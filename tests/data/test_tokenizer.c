/*
 * Compares tokenizers with GPT-2's algorithm (tests/oracle/tokenizer.py) for ordinary and unusual merges. Also tests
 * decoding, special tokens, and all errors in files.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/file.h"
#include "core/random.h"
#include "data/tokenizer.h"
#include "support/allocations.h"
#include "support/folder.h"
#include "support/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[TEST_FOLDER_BYTES];

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static char *join(const char *name)
{
    static char path[TEST_FOLDER_BYTES + 64];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *data, size_t size_bytes)
{
    bg_error error = {0};

    require(bgi_file_save(join(name), data, size_bytes, &error), &error);
}

/* Returns a tensor's numbers as bytes, followed by a zero byte. */
static char *make_bytes(const bgi_test_tensor *tensor)
{
    char *bytes = calloc((size_t)tensor->count + 1, 1);

    assert_non_null(bytes);
    for (int64_t i = 0; i < tensor->count; i++)
        bytes[i] = (char)(int)tensor->values[i];
    return bytes;
}

/* ---- against GPT-2's program ---- */

static bg_tokenizer *open_case(const bgi_test_oracle *oracle, const char *name)
{
    const char *const parts[] = {"vocab", "merges"}, *const files[] = {"vocab.json", "merges.txt"};
    bg_tokenizer *tokenizer;
    bg_error error = {0};

    test_folder_create(folder);
    for (int i = 0; i < 2; i++) {
        const bgi_test_tensor *tensor = bgi_test_oracle_find(oracle, name, parts[i]);
        char *bytes = make_bytes(tensor);
        write_file(files[i], bytes, (size_t)tensor->count);
        free(bytes);
    }
    require(bg_tokenizer_open(folder, &tokenizer, &error), &error);
    test_folder_remove(folder);
    return tokenizer;
}

static void check_text(const bg_tokenizer *tokenizer, const bgi_test_tensor *text, const bgi_test_tensor *wanted)
{
    char *bytes = make_bytes(text), *decoded;
    bg_token_list tokens = {.items = NULL};
    size_t size_bytes;
    bg_error error = {0};

    require(bg_tokenizer_encode(tokenizer, bytes, (size_t)text->count, false, &tokens, &error), &error);
    if (tokens.count != (size_t)wanted->count)
        fail_msg("%s %s: %zu tokens of `%s`, expected %lld", text->case_name, text->name, tokens.count, bytes,
                 (long long)wanted->count);
    for (size_t i = 0; i < tokens.count; i++)
        if (tokens.items[i] != (uint32_t)wanted->values[i])
            fail_msg("%s %s: token %zu of `%s` is %u, expected %g", text->case_name, text->name, i, bytes,
                     tokens.items[i], wanted->values[i]);
    require(bg_tokenizer_decode(tokenizer, tokens.items, tokens.count, &decoded, &size_bytes, &error), &error);
    assert_int_equal(size_bytes, text->count);
    assert_memory_equal(decoded, bytes, size_bytes + 1);
    free(decoded);
    free(bytes);
    bg_token_list_clear(&tokens);
}

static void test_gpt2(void **state)
{
    static const char *const cases[] = {"trained", "odd"};
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/tokenizer.txt");
    (void)state;

    for (int c = 0; c < 2; c++) {
        bg_tokenizer *tokenizer = open_case(oracle, cases[c]);
        int i = 0;

        /* GPT-2's token numbers for these bytes. */
        assert_int_equal(tokenizer->byte_tokens['!'], 0);
        assert_int_equal(tokenizer->byte_tokens['~'], 93);
        assert_int_equal(tokenizer->byte_tokens[0xff], 187);
        assert_int_equal(tokenizer->byte_tokens[0], 188);
        assert_int_equal(tokenizer->byte_tokens['\n'], 198);
        assert_int_equal(tokenizer->byte_tokens[' '], 220);
        assert_int_equal(bg_tokenizer_end_of_text(tokenizer), bg_tokenizer_vocabulary(tokenizer) - 1);
        for (;; i++) {
            char text[24], tokens[24];
            const bgi_test_tensor *input;

            snprintf(text, sizeof text, "text%d", i);
            snprintf(tokens, sizeof tokens, "tokens%d", i);
            input = bgi_test_oracle_try(oracle, cases[c], text);
            if (input == NULL)
                break;
            check_text(tokenizer, input, bgi_test_oracle_find(oracle, cases[c], tokens));
        }
        assert_true(i > 70);
        bg_tokenizer_destroy(tokenizer);
    }
    bgi_test_oracle_close(oracle);
}

/* ---- laws ---- */

static void assert_returns(const bg_tokenizer *tokenizer, const char *text, size_t size_bytes, bool reads_special)
{
    bg_token_list tokens = {.items = NULL}, again = {.items = NULL};
    bgi_encoding encoding;
    size_t decoded_bytes;
    char *decoded;
    bg_error error = {0};

    require(bg_tokenizer_encode(tokenizer, text, size_bytes, reads_special, &tokens, &error), &error);
    require(bg_tokenizer_decode(tokenizer, tokens.items, tokens.count, &decoded, &decoded_bytes, &error), &error);
    assert_int_equal(decoded_bytes, size_bytes);
    assert_memory_equal(decoded, text, size_bytes);
    /* Encoding in steps gives the same tokens. */
    require(bgi_encoding_begin(&encoding, tokenizer, text, size_bytes, reads_special, &error), &error);
    while (encoding.at < size_bytes)
        require(bgi_encoding_advance(&encoding, 7, &again, &error), &error);
    bgi_encoding_end(&encoding);
    assert_int_equal(again.count, tokens.count);
    if (tokens.count > 0)
        assert_memory_equal(again.items, tokens.items, tokens.count * sizeof *tokens.items);
    free(decoded);
    bg_token_list_clear(&tokens);
    bg_token_list_clear(&again);
}

static void test_round_trip(void **state)
{
    static const char *const parts[] = {"the", " ",  "a", "<|endoftext|>", "<|endof", "\n", "é",
                                        "東",  "'s", "1", "\xf0",          "\xff"};
    const int rounds = getenv("BRIGADE_TEST_QUICK") != NULL ? 100 : 1000;
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/tokenizer.txt");
    bg_tokenizer *tokenizers[3];
    bgi_random random = bgi_random_make(11, 0);
    (void)state;

    tokenizers[0] = open_case(oracle, "trained");
    tokenizers[1] = open_case(oracle, "odd");
    require(bg_tokenizer_create_bytes(&tokenizers[2], NULL), NULL);
    for (int round = 0; round < rounds; round++) {
        char text[256] = "";
        size_t size_bytes = bgi_random_below(&random, 100);

        if (round % 2 == 0)
            for (size_t i = 0; i < size_bytes; i++)
                text[i] = (char)bgi_random_below(&random, 256);
        else
            for (size_bytes = 0; size_bytes < 100 && bgi_random_below(&random, 12) > 0;) {
                const char *part = parts[bgi_random_below(&random, sizeof parts / sizeof parts[0])];
                memcpy(text + size_bytes, part, strlen(part));
                size_bytes += strlen(part);
            }
        for (int i = 0; i < 3; i++)
            assert_returns(tokenizers[i], text, size_bytes, round % 4 >= 2);
    }
    for (int i = 0; i < 3; i++)
        bg_tokenizer_destroy(tokenizers[i]);
    bgi_test_oracle_close(oracle);
}

/* Words are those of GPT-2's pattern, with contractions only in lower case, and white space before a word; the
 * tokenizer finds them without regular expressions. */
static void test_words(void **state)
{
    static const char *const texts[] = {"'s|x", "'t|x",    "'re|x", "'ve|x", "'m|x", "'ll|x", "'d|x", "'|S",
                                        "'|LL", "'|r",     "'|v",   "'|l",   " '|s", "''|s",  "a|'s", " ab|'",
                                        " | a", " \n|\nx", "12|a",  " 12|.", ".,|1", "\t|a"};
    (void)state;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const size_t wanted = strcspn(texts[i], "|");
        char text[16];

        snprintf(text, sizeof text, "%.*s%s", (int)wanted, texts[i], texts[i] + wanted + 1);
        if (bgi_word_end((const unsigned char *)text, strlen(text), 0) != wanted)
            fail_msg("`%s`: %zu", texts[i], bgi_word_end((const unsigned char *)text, strlen(text), 0));
    }
}

/* The tokenizer merges a word of half a million letters in a short time; trying every pair after each merge would take
 * hours. */
static void test_long_word(void **state)
{
    const size_t size_bytes = getenv("BRIGADE_TEST_QUICK") != NULL ? 50000 : 500000;
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/tokenizer.txt");
    bg_tokenizer *tokenizer = open_case(oracle, "odd");
    char *text = malloc(size_bytes);
    (void)state;

    assert_non_null(text);
    for (size_t i = 0; i < size_bytes; i++)
        text[i] = "abcd"[(i * i / 7 + i / 3) % 4];
    assert_returns(tokenizer, text, size_bytes, true);
    free(text);
    bg_tokenizer_destroy(tokenizer);
    bgi_test_oracle_close(oracle);
}

/* ---- special tokens ---- */

static void assert_tokens(const bg_tokenizer *tokenizer, const char *text, bool reads_special, const uint32_t *wanted,
                          size_t count)
{
    bg_token_list tokens = {.items = NULL};

    assert_int_equal(bg_tokenizer_encode(tokenizer, text, strlen(text), reads_special, &tokens, NULL), BG_OK);
    assert_int_equal(tokens.count, count);
    assert_memory_equal(tokens.items, wanted, count * sizeof *wanted);
    bg_token_list_clear(&tokens);
}

static void test_bytes(void **state)
{
    bg_tokenizer *tokenizer;
    const uint32_t special[] = {'a', ' ', ' ', 256, 256, 'b'};
    size_t size_bytes;
    char *text;
    bg_error error = {0};
    (void)state;

    require(bg_tokenizer_create_bytes(&tokenizer, &error), &error);
    assert_int_equal(bg_tokenizer_vocabulary(tokenizer), 257);
    assert_int_equal(bg_tokenizer_end_of_text(tokenizer), 256);
    assert_tokens(tokenizer, "a  <|endoftext|><|endoftext|>b", true, special, 6);
    assert_tokens(tokenizer, "<|", false, (const uint32_t[]){'<', '|'}, 2);
    assert_non_null(bg_tokenizer_token(tokenizer, 0, &size_bytes));
    assert_int_equal(size_bytes, 1);
    assert_null(bg_tokenizer_token(tokenizer, 257, &size_bytes));
    assert_int_equal(bg_tokenizer_decode(tokenizer, (const uint32_t[]){1, 257}, 2, &text, &size_bytes, &error),
                     BG_ERROR_INVALID);
    assert_string_equal(error.message, "token 1 is 257 but must be below 257");
    bg_tokenizer_destroy(tokenizer);
    bg_tokenizer_destroy(NULL);
}

/* ---- tokenizer.json ---- */

/* Makes a vocabulary of all bytes and then the tokens of `more`, in the characters of the format. */
static char *make_vocabulary(const char *more)
{
    char *text = calloc(1, 1 << 14), *at = text;
    uint32_t beyond = 256;

    assert_non_null(text);
    at += sprintf(at, "{");
    for (uint32_t byte = 0; byte < 256; byte++) {
        const bool prints = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
        at += sprintf(at, "%s\"\\u%04x\": %u", byte > 0 ? ", " : "", prints ? byte : beyond, byte);
        beyond += !prints;
    }
    sprintf(at, "%s}", more);
    return text;
}

/* As in GPT-2's program, all pairs of one merge are joined first, even if a joined pair makes an earlier merge
 * possible. */
static void test_merge_order(void **state)
{
    static const char merges[] = "ab a\na b\nab ab\n";
    char *vocabulary = make_vocabulary(", \"ab\": 256, \"aba\": 257, \"abab\": 258");
    bg_tokenizer *tokenizer;
    bg_error error = {0};
    (void)state;

    require(bgi_tokenizer_parse_files("v", vocabulary, strlen(vocabulary), "m", merges, sizeof merges - 1, &tokenizer,
                                      &error),
            &error);
    assert_tokens(tokenizer, "abab", false, (const uint32_t[]){258}, 1);
    assert_tokens(tokenizer, "aba", false, (const uint32_t[]){257}, 1);
    bg_tokenizer_destroy(tokenizer);
    free(vocabulary);
}

static char *make_json(const char *more_vocabulary, const char *merges, const char *rest)
{
    char *vocabulary = make_vocabulary(more_vocabulary), *text = calloc(1, 1 << 15);

    assert_non_null(text);
    sprintf(text, "{\"model\": {\"type\": \"BPE\", \"vocab\": %s, \"merges\": %s}%s}", vocabulary, merges, rest);
    free(vocabulary);
    return text;
}

static const char cutter[] = ", \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}";

static void test_json(void **state)
{
    static const char *const merges[] = {"[\"\\u0120 a\", \"\\u0120a b\"]",
                                         "[[\"\\u0120\", \"a\"], [\"\\u0120a\", \"b\"]]"};
    const uint32_t wanted[] = {257, ' ', 259, 258, 'b', 260};
    (void)state;

    for (int i = 0; i < 2; i++) {
        char rest[512];
        char *text;
        bg_tokenizer *tokenizer;
        bg_error error = {0};

        snprintf(rest, sizeof rest,
                 "%s, \"normalizer\": null, \"added_tokens\": [{\"id\": 259, \"content\": \"<|x|>\"}, "
                 "{\"id\": 258, \"content\": \"<|endoftext|>\"}, {\"id\": 259, \"content\": \"<|x|>\"}, "
                 "{\"id\": 260, \"content\": \"<|x|> é\"}]",
                 cutter);
        text = make_json(", \"\\u0120a\": 256, \"\\u0120ab\": 257, \"<|endoftext|>\": 258", merges[i], rest);
        if (i == 0) /* GPT-2's own file does not say the model's type. */
            memset(strstr(text, "\"type\": \"BPE\","), ' ', strlen("\"type\": \"BPE\","));
        require(bgi_tokenizer_parse_json("t", text, strlen(text), &tokenizer, &error), &error);
        assert_int_equal(bg_tokenizer_vocabulary(tokenizer), 261);
        assert_int_equal(bg_tokenizer_end_of_text(tokenizer), 258);
        assert_tokens(tokenizer, " ab <|x|><|endoftext|>b<|x|> é", true, wanted, 6);
        test_folder_create(folder);
        write_file("tokenizer.json", text, strlen(text));
        bg_tokenizer_destroy(tokenizer);
        require(bg_tokenizer_open(folder, &tokenizer, &error), &error);
        assert_tokens(tokenizer, " ab <|x|><|endoftext|>b<|x|> é", true, wanted, 6);
        bg_tokenizer_destroy(tokenizer);
        test_folder_remove(folder);
        free(text);
    }
}

static void assert_json_fails(char *text, bg_status expected, const char *part)
{
    bg_tokenizer *tokenizer = NULL;
    bg_error error = {0};

    assert_int_equal(bgi_tokenizer_parse_json("t", text, strlen(text), &tokenizer, &error), expected);
    if (strstr(error.message, part) == NULL)
        fail_msg("`%s` does not say `%s`", error.message, part);
    free(text);
}

static void test_bad_json(void **state)
{
    static const struct {
        const char *vocabulary, *merges, *rest, *part;
    } cases[] = {
        {"", "7", cutter, "has no array `model.merges`"},
        {"", "[7]", cutter, "t: merge 0 must be a string or a list of two strings"},
        {"", "[[\"a\", 7]]", cutter, "t: merge 0 must be a string or a list of two strings"},
        {"", "[\"a\"]", cutter, "t: merge 0: `a` must be two tokens with one space"},
        {"", "[\"a b\"]", cutter, "t: merge 0: `ab` is not in the vocabulary"},
        {"", "[\"ab b\"]", cutter, "t: merge 0: `ab` is not in the vocabulary"},
        {", \"ab\": 5", "[]", cutter, "has number 5, and another token has the same number"},
        {", \"ab\": 257", "[]", cutter, "the number of token `ab` must be a whole number from 0 to 256"},
        {", \"ab\": \"x\"", "[]", cutter, "the number of token `ab` must be a whole number"},
        {", \"\": 256", "[]", cutter, "token `` is empty, or has characters that do not represent bytes"},
        {", \"東\": 256", "[]", cutter, "token `東` is empty, or has characters that do not represent bytes"},
        {"", "[]",
         ", \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"added_tokens\": [{\"id\": 3, \"content\": \"<x>\"}]",
         "token `<x>` has number 3, and another token has the same number"},
        {"", "[]",
         ", \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"added_tokens\": [{\"id\": 3, \"content\": \"a\"}]",
         "added token `a` has another number in the vocabulary"},
        {"", "[]",
         ", \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"added_tokens\": [{\"id\": 256, \"content\": \"<x>\"}, "
         "{\"id\": 257, \"content\": \"<x>\"}]",
         "added token `<x>` has another number in another item of `added_tokens`"},
        {"", "[]", ", \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"added_tokens\": [{\"id\": 3}]",
         "an item of `added_tokens` must have a text `content` and a whole number `id`"}};
    static const struct {
        const char *rest, *part;
    } others[] = {
        {"", "`pre_tokenizer` does not cut text into words"},
        {", \"pre_tokenizer\": {\"type\": \"Whitespace\"}", "`pre_tokenizer` does not cut text"},
        {", \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true}", "add_prefix_space` is true"},
        {", \"normalizer\": {\"type\": \"NFC\"}", "`normalizer` changes the text"},
        {", \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"added_tokens\": [{\"id\": 256, \"content\": \"<x>\", "
         "\"lstrip\": true}]",
         "an item of `added_tokens` has lstrip, rstrip or single_word"}};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_json_fails(make_json(cases[i].vocabulary, cases[i].merges, cases[i].rest), BG_ERROR_PARSE,
                          cases[i].part);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_json_fails(make_json("", "[]", others[i].rest), BG_ERROR_UNSUPPORTED, others[i].part);
    assert_json_fails(strdup("{"), BG_ERROR_PARSE, "t:1:2: not JSON");
    assert_json_fails(strdup("[]"), BG_ERROR_UNSUPPORTED, "`model.type` is not `BPE`");
    assert_json_fails(strdup("{\"model\": {\"type\": \"Unigram\"}}"), BG_ERROR_UNSUPPORTED, "is not `BPE`");
    assert_json_fails(strdup("{\"model\": {\"type\": \"BPE\", \"ignore_merges\": true}}"), BG_ERROR_UNSUPPORTED,
                      "ignore_merges");
    assert_json_fails(strdup("{\"model\": {\"type\": \"BPE\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}"),
                      BG_ERROR_PARSE, "the file must be an object of tokens");
}

static void test_bad_files(void **state)
{
    static const struct {
        const char *vocabulary, *merges, *part;
    } cases[] = {{"{", "", "v:1:2: not JSON"},
                 {"{}", "", "v: the file must be an object of tokens and their numbers"},
                 {"{\"a\": 0}", "", "v: there is no token for byte 0x00"},
                 {NULL, "#version: 0.2\n\na b\n", "m:3:1: `ab` is not in the vocabulary"},
                 {NULL, "a b\n#version: 0.2\n", "m:1:1: `ab` is not in the vocabulary"},
                 {NULL, "ab\n", "m:1:1: `ab` must be two tokens with one space between them"},
                 {NULL, "a b c\r\n", "m:1:1: `a b c` must be two tokens"},
                 {NULL, "a \n", "m:1:1: `a ` must be two tokens"}};
    bg_tokenizer *tokenizer = NULL;
    bg_error error = {0};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *vocabulary = cases[i].vocabulary != NULL ? strdup(cases[i].vocabulary) : make_vocabulary("");

        bg_error_clear(&error);
        assert_int_equal(bgi_tokenizer_parse_files("v", vocabulary, strlen(vocabulary), "m", cases[i].merges,
                                                   strlen(cases[i].merges), &tokenizer, &error),
                         BG_ERROR_PARSE);
        if (strstr(error.message, cases[i].part) == NULL)
            fail_msg("`%s` does not say `%s`", error.message, cases[i].part);
        free(vocabulary);
    }
    test_folder_create(folder);
    bg_error_clear(&error);
    assert_int_equal(bg_tokenizer_open(folder, &tokenizer, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "has no tokenizer: neither tokenizer.json nor vocab.json and merges.txt"));
    char *vocabulary = make_vocabulary(", \"ab\": 256");
    write_file("vocab.json", vocabulary, strlen(vocabulary));
    bg_error_clear(&error);
    assert_int_equal(bg_tokenizer_open(folder, &tokenizer, &error), BG_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "merges.txt"));
    write_file("merges.txt", "a b", 3);
    require(bg_tokenizer_open(folder, &tokenizer, &error), &error);
    assert_int_equal(bg_tokenizer_end_of_text(tokenizer), UINT32_MAX);
    assert_tokens(tokenizer, "abba", true, (const uint32_t[]){256, 'b', 'a'}, 3);
    bg_tokenizer_destroy(tokenizer);
    free(vocabulary);
    test_folder_remove(folder);
}

static void test_out_of_memory(void **state)
{
    char *text;
    bg_status status = BG_ERROR_MEMORY;
    (void)state;

    if (!test_allocations_available())
        skip();
    text = make_json(
        ", \"\\u0120a\": 256", "[\"\\u0120 a\"]",
        ", \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"added_tokens\": [{\"id\": 257, \"content\": \"<x>\"}]");
    for (uint64_t n = 1; status != BG_OK; n++) {
        const int64_t live = test_allocations_live();
        bg_token_list tokens = {.items = NULL};
        bg_tokenizer *tokenizer = NULL;

        test_allocations_fail(n);
        status = bgi_tokenizer_parse_json("t", text, strlen(text), &tokenizer, NULL);
        if (status == BG_OK)
            status = bg_tokenizer_encode(tokenizer, "a word <x>", 10, true, &tokens, NULL);
        test_allocations_fail(0);
        bg_token_list_clear(&tokens);
        bg_tokenizer_destroy(tokenizer);
        assert_int_equal(test_allocations_live(), live);
        assert_true(n < 1000);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_bytes),       cmocka_unit_test(test_json),          cmocka_unit_test(test_bad_json),
        cmocka_unit_test(test_bad_files),   cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_words),
        cmocka_unit_test(test_merge_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
