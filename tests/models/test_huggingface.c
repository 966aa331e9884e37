/*
 * GPT-2 folders: round trips, both styles of names, other element types, several files, PyTorch's loss from a folder's
 * weights, and all mismatches, reported at once.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <brigade/safetensors.h>

#include "core/file.h"
#include "models/huggingface.h"
#include "support/allocations.h"
#include "support/folder.h"
#include "support/oracle.h"
#include "support/oracle_gpt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The model of tests/oracle/gpt.py. */
enum {
    SAMPLES = 4,
    LENGTH = TEST_ORACLE_GPT_LENGTH,
    VOCABULARY = TEST_ORACLE_GPT_VOCABULARY,
    TENSORS = 2 + 2 * 12 + 2,
    LARGEST = 512
};

static char folder[TEST_FOLDER_BYTES];

static void require(bg_status status, const bg_error *error)
{
    if (status != BG_OK)
        fail_msg("%s", error->message);
}

static bgi_hf_config small_config(void)
{
    return (bgi_hf_config){.vocabulary = VOCABULARY, .positions = 7, .hidden = 8, .layers = 2, .heads = 2};
}

/* ---- files of a model: element e of tensor k is 0.3 sin(1.37 e + k), plus 1 for the weights of norms ---- */

typedef struct tensors {
    char names[TENSORS + 4][96];
    float values[TENSORS][LARGEST];
    uint16_t halves[TENSORS][LARGEST];
    bg_safetensors_entry entries[TENSORS + 4];
    size_t count;
} tensors;

static tensors *make_tensors(const char *prefix)
{
    const bgi_hf_config config = small_config();
    tensors *t = calloc(1, sizeof *t);
    char name[BGI_HF_NAME_BYTES];
    bg_type type;

    assert_non_null(t);
    for (int64_t k = 0; bgi_hf_tensor(&config, k, name, &type); k++, t->count++) {
        const double base = strstr(name, "ln_") != NULL && strstr(name, ".weight") != NULL ? 1.0 : 0.0;

        assert_true(bg_type_element_count(&type) <= LARGEST);
        for (int64_t e = 0; e < bg_type_element_count(&type); e++)
            t->values[k][e] = (float)(base + 0.3 * sin(1.37 * (double)e + (double)k));
        snprintf(t->names[k], sizeof t->names[k], "%s%s", prefix, name);
        t->entries[k] = (bg_safetensors_entry){t->names[k], type, t->values[k]};
    }
    assert_int_equal(t->count, TENSORS);
    return t;
}

static char *join(const char *name)
{
    static char path[TEST_FOLDER_BYTES + 64];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    bg_error error = {0};

    require(bgi_file_save(join(name), text, strlen(text), &error), &error);
}

static void write_tensors(const char *name, const tensors *t, size_t first, size_t end)
{
    bg_error error = {0};

    require(bg_safetensors_write(join(name), t->entries + first, end - first, NULL, 0, &error), &error);
}

static const char config_text[] =
    "{\"n_embd\": 8, \"n_head\": 2, \"n_layer\": 2, \"n_positions\": 7, \"vocab_size\": 17, "
    "\"model_type\": \"gpt2\", \"n_inner\": null, \"resid_pdrop\": 0.25}";

static bg_weights *load(const bg_gpt_options *options)
{
    bg_weights *weights;
    bg_error error = {0};

    require(bg_weights_create(&weights, &error), &error);
    require(bg_gpt_directory_load(folder, options, weights, &error), &error);
    return weights;
}

static void assert_fails(const bg_gpt_options *options, bg_status expected, const char *const *parts)
{
    bg_weights *weights;
    bg_error error = {0};

    assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
    if (bg_gpt_directory_load(folder, options, weights, &error) != expected)
        fail_msg("%s: `%s`", bg_status_name(error.status), error.message);
    for (; *parts != NULL; parts++)
        if (strstr(error.message, *parts) == NULL)
            fail_msg("`%s` does not say `%s`", error.message, *parts);
    assert_int_equal(bg_weights_count(weights), 0);
    bg_weights_destroy(weights);
}
#define ASSERT_FAILS(options, expected, ...) assert_fails(options, expected, (const char *const[]){__VA_ARGS__, NULL})

static void assert_values(bg_weights *weights, const tensors *t, double relative)
{
    assert_int_equal(bg_weights_count(weights), TENSORS);
    for (uint32_t k = 0; k < TENSORS; k++) {
        bg_weight weight;
        const float *values;

        require(bg_weights_at(weights, k, &weight, NULL), NULL);
        assert_int_equal(strncmp(weight.name, "transformer.", 12), 0);
        assert_string_equal(weight.name + strlen(weight.name) - strlen(t->names[k]), t->names[k]);
        values = weight.data;
        for (int64_t e = 0; e < bg_type_element_count(&weight.type); e++)
            if (!(fabs((double)values[e] - (double)t->values[k][e]) <= relative * fabs((double)t->values[k][e])))
                fail_msg("%s[%lld] is %.9g, expected %.9g", weight.name, (long long)e, (double)values[e],
                         (double)t->values[k][e]);
    }
}

/* ---- models that load ---- */

static void test_both_names(void **state)
{
    (void)state;
    for (int with_prefix = 0; with_prefix < 2; with_prefix++) {
        tensors *t = make_tensors(with_prefix ? "transformer." : "");
        const bg_gpt_options options = test_oracle_gpt(SAMPLES);
        static const float mask[4] = {1, 0, 1, 1};
        bg_weights *weights;

        test_folder_create(folder);
        t->entries[TENSORS] = (bg_safetensors_entry){"lm_head.weight", bg_vector(BG_FLOAT32, 4), mask};
        t->entries[TENSORS + 1] = (bg_safetensors_entry){with_prefix ? "transformer.h.0.attn.bias" : "h.0.attn.bias",
                                                         bg_tensor4(BG_FLOAT32, 1, 1, 2, 2), mask};
        t->entries[TENSORS + 2] = (bg_safetensors_entry){"h.1.attn.masked_bias", bg_scalar(BG_FLOAT32), mask};
        write_text("config.json", config_text);
        write_tensors("model.safetensors", t, 0, TENSORS + 3);
        weights = load(&options);
        assert_values(weights, t, 0.0);
        bg_weights_destroy(weights);
        test_folder_remove(folder);
        free(t);
    }
}

static void test_several_files(void **state)
{
    tensors *t = make_tensors("");
    char index[8192] = "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {";
    bg_weights *weights;
    (void)state;

    test_folder_create(folder);
    for (int k = 0; k < TENSORS; k++)
        snprintf(index + strlen(index), sizeof index - strlen(index), "%s\"%s\": \"model-0000%d-of-00002.safetensors\"",
                 k > 0 ? ", " : "", t->names[k], k < 9 ? 1 : 2);
    strcat(index, "}}");
    write_text("config.json", config_text);
    write_text("model.safetensors.index.json", index);
    write_tensors("model-00001-of-00002.safetensors", t, 0, 9);
    ASSERT_FAILS(NULL, BG_ERROR_NOT_FOUND, "model-00002-of-00002.safetensors");
    write_tensors("model-00002-of-00002.safetensors", t, 9, TENSORS);
    weights = load(NULL);
    assert_values(weights, t, 0.0);
    bg_weights_destroy(weights);
    write_text("model.safetensors.index.json", "{\"weight_map\": {\"wte.weight\": \"../model.safetensors\"}}");
    ASSERT_FAILS(NULL, BG_ERROR_PARSE, "`wte.weight`", "`../model.safetensors` but must be a file name in the same");
    write_text("model.safetensors.index.json", "{\"weight_map\": 7}");
    ASSERT_FAILS(NULL, BG_ERROR_PARSE, "the object `weight_map` (tensors and their files) is missing");
    write_text("model.safetensors.index.json", "{");
    ASSERT_FAILS(NULL, BG_ERROR_PARSE, "index.json:1:2: not JSON");
    test_folder_remove(folder);
    free(t);
}

static uint16_t to_half(float value)
{
    /* All values are normal float16 numbers, so only the bias of the exponent changes, and the fraction is
     * truncated. */
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023));
}

static void write_halves(tensors *t, bool is_bfloat16)
{
    for (int k = 0; k < TENSORS; k++) {
        for (int e = 0; e < LARGEST; e++) {
            uint32_t bits;
            if (fabsf(t->values[k][e]) < 1e-4F)
                t->values[k][e] = 0.125F;
            memcpy(&bits, &t->values[k][e], sizeof bits);
            t->halves[k][e] = is_bfloat16 ? (uint16_t)(bits >> 16) : to_half(t->values[k][e]);
        }
        t->entries[k].type.dtype = is_bfloat16 ? BG_BFLOAT16 : BG_FLOAT16;
        t->entries[k].data = t->halves[k];
    }
    write_tensors("model.safetensors", t, 0, TENSORS);
}

static void test_halves(void **state)
{
    (void)state;
    for (int is_bfloat16 = 0; is_bfloat16 < 2; is_bfloat16++) {
        tensors *t = make_tensors("");
        bg_weights *weights;

        test_folder_create(folder);
        write_text("config.json", config_text);
        write_halves(t, is_bfloat16);
        weights = load(NULL);
        assert_values(weights, t, is_bfloat16 ? 0x1p-7 : 0x1p-10);
        bg_weights_destroy(weights);
        test_folder_remove(folder);
        free(t);
    }
}

static void test_options(void **state)
{
    bg_gpt_options options = bg_gpt_defaults();
    bg_error error = {0};
    (void)state;

    test_folder_create(folder);
    write_text("config.json", config_text);
    options.micro_batch = 3;
    require(bg_gpt_directory_read_options(folder, &options, &error), &error);
    assert_true(options.layers == 2 && options.hidden == 8 && options.heads == 2 && options.vocabulary == 17);
    assert_true(options.positions == 7 && options.sequence_length == 7 && options.dropout == 0.25);
    assert_true(options.micro_batch == 3);
    /* transformers' own defaults are those of GPT-2 small. */
    write_text("config.json", "{}");
    require(bg_gpt_directory_read_options(folder, &options, &error), &error);
    assert_true(options.layers == 12 && options.hidden == 768 && options.heads == 12 && options.vocabulary == 50257);
    assert_true(options.positions == 1024 && options.dropout == 0.1);
    test_folder_remove(folder);
}

/* ---- round trips ---- */

static void fill_tokens(int32_t *tokens, int32_t *labels)
{
    for (int64_t sample = 0; sample < SAMPLES; sample++)
        for (int64_t t = 0; t <= LENGTH; t++) {
            const int64_t i = sample * (LENGTH + 1) + t;
            const int32_t token = (int32_t)((7 * i * i + 3 * i + i / 5) % VOCABULARY);

            if (t < LENGTH)
                tokens[sample * LENGTH + t] = token;
            if (t > 0)
                labels[sample * LENGTH + t - 1] = token == 3 ? -100 : token;
        }
}

/* With a folder's weights, the loss of the first update is that of the oracle's run. */
static void test_torch(void **state)
{
    bgi_test_oracle *oracle = bgi_test_oracle_open("tests/oracle/gpt.txt");
    const bgi_test_tensor *wanted = bgi_test_oracle_find(oracle, "gpt", "loss");
    tensors *t = make_tensors("");
    const bg_gpt_options options = test_oracle_gpt(SAMPLES);
    const bg_options run = bg_options_defaults();
    int32_t tokens[SAMPLES * LENGTH], labels[SAMPLES * LENGTH];
    const void *inputs[2];
    float loss = 0.0F;
    void *outputs[1] = {&loss};
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_weights *weights;
    bg_error error = {0};
    (void)state;

    test_folder_create(folder);
    write_text("config.json", config_text);
    write_tensors("model.safetensors", t, 0, TENSORS);
    weights = load(&options);
    require(bg_graph_create(&graph, &error), &error);
    bg_gpt_build(graph, &options);
    require(bg_plan_create_inference(graph, &run, &plan, &error), &error);
    require(bg_session_create(plan, weights, &session, &error), &error);
    fill_tokens(tokens, labels);
    inputs[bg_session_find_input(session, "tokens")] = tokens;
    inputs[bg_session_find_input(session, "labels")] = labels;
    require(bg_session_run(session, inputs, outputs, &error), &error);
    if (!(fabs((double)loss - wanted->values[0]) <= 1e-5 * wanted->values[0]))
        fail_msg("loss %.9g, PyTorch's is %.9g", (double)loss, wanted->values[0]);
    bg_session_destroy(session);
    bg_weights_destroy(weights);
    bg_plan_destroy(plan);
    bg_graph_destroy(graph);
    test_folder_remove(folder);
    bgi_test_oracle_close(oracle);
    free(t);
}

static void test_round_trip(void **state)
{
    tensors *t = make_tensors("");
    const bg_gpt_options options = test_oracle_gpt(SAMPLES);
    bg_gpt_options read = bg_gpt_defaults();
    bg_safetensors *file;
    bg_weights *weights, *again;
    bg_error error = {0};
    char *text = NULL;
    size_t size_bytes;
    (void)state;

    test_folder_create(folder);
    write_text("config.json", config_text);
    write_tensors("model.safetensors", t, 0, TENSORS);
    weights = load(&options);
    require(bg_gpt_directory_save(join("deeper/new"), &options, weights, &error), &error);
    require(bg_weights_create(&again, &error), &error);
    require(bg_gpt_directory_load(join("deeper/new"), &options, again, &error), &error);
    assert_values(again, t, 0.0);
    assert_int_equal(test_folder_count(join("deeper/new")), 2);

    /* The files meet the requirements of transformers. */
    require(bg_gpt_directory_read_options(join("deeper/new"), &read, &error), &error);
    assert_true(read.dropout == 0.0 && read.hidden == 8 && read.positions == 7);
    require(bgi_file_load(join("deeper/new/config.json"), 1 << 16, &text, &size_bytes, &error), &error);
    assert_non_null(strstr(text, "\"GPT2LMHeadModel\""));
    assert_non_null(strstr(text, "\"activation_function\": \"gelu_new\""));
    assert_non_null(strstr(text, "\"layer_norm_epsilon\": 1e-5"));
    assert_non_null(strstr(text, "\"eos_token_id\": 16"));
    free(text);
    require(bg_safetensors_open(join("deeper/new/model.safetensors"), &file, &error), &error);
    assert_string_equal(bg_safetensors_metadata_find(file, "format"), "pt");
    assert_int_equal(bg_safetensors_count(file), TENSORS);
    assert_non_null(bg_safetensors_find(file, "transformer.h.1.mlp.c_proj.bias"));
    bg_safetensors_destroy(file);

    /* The files lack weights for a model with one more layer. */
    read.layers = 3;
    assert_int_equal(bg_gpt_directory_save(join("deeper/other"), &read, weights, &error), BG_ERROR_NOT_FOUND);
    assert_int_equal(test_folder_count(join("deeper/other")), 0);
    read.layers = 2;
    read.positions = 8;
    bg_error_clear(&error);
    assert_int_equal(bg_gpt_directory_save(join("deeper/other"), &read, weights, &error), BG_ERROR_SHAPE);
    assert_non_null(strstr(error.message, "`transformer.wpe.weight` is float32[7,8] but must be float32[8,8]"));
    bg_weights_destroy(again);
    bg_weights_destroy(weights);
    test_folder_remove(folder);
    free(t);
}

/* Saves the model with weights of these types in turn; `torch_dtype` must be `expected`. */
static void expect_torch_dtype(const bg_gpt_options *options, bg_dtype even, bg_dtype odd, const char *expected)
{
    static const float zeros[1 << 12];
    bg_weights *of_float32 = load(options), *weights;
    bg_error error = {0};
    char line[64], *text = NULL;
    size_t size_bytes;

    require(bg_weights_create(&weights, &error), &error);
    for (uint32_t i = 0; i < bg_weights_count(of_float32); i++) {
        bg_weight weight;

        require(bg_weights_at(of_float32, i, &weight, &error), &error);
        weight.type.dtype = i % 2 == 0 ? even : odd;
        assert_true(bg_type_size_bytes(&weight.type) <= sizeof zeros);
        require(bg_weights_set(weights, weight.name, &weight.type, zeros, &error), &error);
    }
    require(bg_gpt_directory_save(join("typed"), options, weights, &error), &error);
    require(bgi_file_load(join("typed/config.json"), 1 << 16, &text, &size_bytes, &error), &error);
    snprintf(line, sizeof line, "\"torch_dtype\": \"%s\"", expected);
    if (strstr(text, line) == NULL)
        fail_msg("%s is not in %s", line, text);
    free(text);
    bg_weights_destroy(weights);
    bg_weights_destroy(of_float32);
}

static void test_torch_dtype(void **state)
{
    tensors *t = make_tensors("");
    const bg_gpt_options options = test_oracle_gpt(SAMPLES);
    (void)state;

    test_folder_create(folder);
    write_text("config.json", config_text);
    write_tensors("model.safetensors", t, 0, TENSORS);
    expect_torch_dtype(&options, BG_FLOAT32, BG_FLOAT32, "float32");
    expect_torch_dtype(&options, BG_FLOAT16, BG_FLOAT16, "float16");
    expect_torch_dtype(&options, BG_BFLOAT16, BG_BFLOAT16, "bfloat16");
    expect_torch_dtype(&options, BG_FLOAT16, BG_FLOAT32, "float32");
    expect_torch_dtype(&options, BG_FLOAT16, BG_BFLOAT16, "float32");
    test_folder_remove(folder);
    free(t);
}

/* ---- unsupported models ---- */

static void test_mismatches(void **state)
{
    tensors *t = make_tensors("");
    bg_gpt_options options = bg_gpt_defaults();
    (void)state;

    test_folder_create(folder);
    ASSERT_FAILS(NULL, BG_ERROR_NOT_FOUND, "config.json");
    write_text("config.json", config_text);
    ASSERT_FAILS(NULL, BG_ERROR_NOT_FOUND, "has no model.safetensors and no model.safetensors.index.json");
    write_tensors("model.safetensors", t, 0, TENSORS);
    ASSERT_FAILS(&options, BG_ERROR_SHAPE, "5 problems: ", "n_embd is 8, but the program's hidden is 768",
                 "n_head is 2, but the program's heads is 12", "n_layer is 2, but the program's layers is 12",
                 "vocab_size is 17, but the program's vocabulary is 50257",
                 "n_positions is 7, but the program's positions is 1024");
    write_text("config.json", "{\"n_embd\": 8, \"n_head\": 3, \"n_layer\": 2, \"n_positions\": 7, \"vocab_size\": 17, "
                              "\"model_type\": \"opt\", \"n_inner\": 30, \"activation_function\": \"relu\", "
                              "\"layer_norm_epsilon\": 1e-6, \"scale_attn_weights\": false, "
                              "\"scale_attn_by_inverse_layer_idx\": true, \"tie_word_embeddings\": false}");
    ASSERT_FAILS(NULL, BG_ERROR_SHAPE, "8 problems: ", "model_type is `opt` but must be `gpt2`",
                 "activation_function is `relu`", "layer_norm_epsilon is 1e-06, but this GPT has 1e-05",
                 "n_inner is 30, but this GPT has 4 x n_embd = 32", "scale_attn_weights is false",
                 "scale_attn_by_inverse_layer_idx is true", "tie_word_embeddings is false",
                 "n_head is 3, which does not divide n_embd 8");
    assert_int_equal(bg_gpt_directory_read_options(folder, &options, NULL), BG_ERROR_UNSUPPORTED);

    write_text("config.json", config_text);
    t->entries[3].type = bg_vector(BG_FLOAT32, 7);
    t->entries[4].type.dtype = BG_INT32;
    t->entries[TENSORS] = (bg_safetensors_entry){"h.2.ln_1.bias", bg_vector(BG_FLOAT32, 8), t->values[0]};
    write_tensors("model.safetensors", t, 1, TENSORS + 1);
    ASSERT_FAILS(NULL, BG_ERROR_SHAPE, "4 problems: ", "tensor `wte.weight` is missing",
                 "tensor `h.0.ln_1.bias` is [7], but the configuration makes it [8]",
                 "tensor `h.0.attn.c_attn.weight` has type I32 but must have F32, F16, BF16 or F64",
                 "tensor `h.2.ln_1.bias` does not belong to a GPT with this configuration");

    /* There are more problems than fit into a message; the message counts all of them and says that some are
     * omitted. */
    write_text("config.json", "{\"n_embd\": 12, \"n_head\": 2, \"n_layer\": 60, \"n_positions\": 7, "
                              "\"vocab_size\": 17, \"model_type\": \"gpt2\"}");
    ASSERT_FAILS(NULL, BG_ERROR_SHAPE, " problems: tensor `wte.weight` is missing; ", "; and more");
    test_folder_remove(folder);
    free(t);
}

static void test_bad_configurations(void **state)
{
    static const struct {
        const char *text, *part;
    } cases[] = {{"", "config.json:"},
                 {"[]", "the file is an array but must be an object"},
                 {"{\"n_embd\": \"8\"}", "`n_embd` is \"8\"; it must be a whole number from 1 to 2147483647"},
                 {"{\"n_layer\": 0}", "`n_layer` is 0; it must be"},
                 {"{\"vocab_size\": 2147483648}", "`vocab_size` is 2147483648; it must be"},
                 {"{\"n_head\": 1.5}", "`n_head` is 1.5; it must be"},
                 {"{\"resid_pdrop\": 1.0}", "`resid_pdrop` is 1.0; it must be at least 0 and below 1"},
                 {"{\"resid_pdrop\": []}", "`resid_pdrop` is an array; it must be a number"},
                 {"{\"model_type\": 7}", "`model_type` is 7; it must be a string"},
                 {"{\"tie_word_embeddings\": 1}", "`tie_word_embeddings` is 1; it must be true or false"},
                 {"{\"n_head\": 1, \"n_head\": 1}", "config.json:1:"}};
    (void)state;

    test_folder_create(folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_text("config.json", cases[i].text);
        ASSERT_FAILS(NULL, BG_ERROR_PARSE, cases[i].part);
    }
    /* Layers missing in the files are reported together, without a name for each weight. */
    write_text("config.json", "{\"n_layer\": 2147483647, \"n_embd\": 12}");
    tensors *t = make_tensors("");
    write_tensors("model.safetensors", t, 0, TENSORS);
    ASSERT_FAILS(NULL, BG_ERROR_SHAPE, "tensor `wte.weight` is [17,8], but the configuration makes it [50257,12]");
    free(t);
    test_folder_remove(folder);
}

static void test_out_of_memory(void **state)
{
    const bg_gpt_options options = test_oracle_gpt(SAMPLES);
    tensors *t;
    (void)state;

    if (!test_allocations_available())
        skip();
    t = make_tensors("");
    test_folder_create(folder);
    write_text("config.json", config_text);
    write_halves(t, false);
    for (int saving = 0; saving < 2; saving++) {
        bg_status status = BG_ERROR_MEMORY;

        for (uint64_t n = 1; status != BG_OK; n++) {
            bg_weights *weights = saving ? load(NULL) : NULL;
            const int64_t live = test_allocations_live();
            char path[TEST_FOLDER_BYTES + 64];

            snprintf(path, sizeof path, "%s", join("saved"));
            if (!saving)
                assert_int_equal(bg_weights_create(&weights, NULL), BG_OK);
            test_allocations_fail(n);
            status = saving ? bg_gpt_directory_save(path, &options, weights, NULL)
                            : bg_gpt_directory_load(folder, &options, weights, NULL);
            test_allocations_fail(0);
            if (!saving)
                bg_weights_destroy(weights);
            assert_int_equal(test_allocations_live(), live);
            if (saving)
                bg_weights_destroy(weights);
            assert_true(n < 2000);
        }
    }
    test_folder_remove(folder);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_names),
        cmocka_unit_test(test_several_files),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_torch),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_torch_dtype),
        cmocka_unit_test(test_mismatches),
        cmocka_unit_test(test_bad_configurations),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
