/*
 * gpt.c: builds the GPT-2 model. The tokens of all sequences are the rows of one matrix x [N S, hidden], so that every
 * product is a product of matrices. Only attention distinguishes sequences. In generation, a cache contains keys and
 * values of the tokens before those of x. A layer:
 *
 *     x = x + dropout(c_proj(attention(c_attn(ln_1(x)))))
 *     x = x + dropout(c_proj(gelu(c_fc(ln_2(x)))))
 *
 * On a mesh, x is sharded along tensor axis 2. The values between two products (heads, the wide layer, logits) are
 * sharded along tensor axis 1. All collectives are in the layers (parallel.c): in each layer four in the forward, four
 * in the backward, and those of two norms.
 */
#include <brigade/gpt.h>

#include <stdio.h>
#include <stdlib.h>

#include "core/error.h"
#include "graph/graph.h"
#include "nn/layers.h"

enum { NAME_BYTES = 96 };
static const double deviation = 0.02, epsilon = 1e-5;

void bg_gpt_options_init(bg_gpt_options *options, size_t struct_bytes)
{
    const bg_gpt_options made = {.struct_bytes = struct_bytes,
                                 .layers = 12,
                                 .hidden = 768,
                                 .heads = 12,
                                 .sequence_length = 1024,
                                 .positions = 1024,
                                 .vocabulary = 50257,
                                 .micro_batch = 1,
                                 .dropout = 0.1,
                                 .dtype = BG_FLOAT32,
                                 .ignore_label = -100,
                                 .attention_serialization = 1,
                                 .outputs = BG_GPT_LOSS};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* Checks that every tensor can be cut into equal shards; the embedding tables are padded for this. */
static bool check_mesh(bg_graph *graph, const bg_gpt_options *options)
{
    const bg_mesh mesh = bg_graph_mesh(graph);

    if (options->heads % mesh.tensor_1 != 0)
        bg_graph_fail(
            graph, BG_ERROR_INVALID,
            "GPT: heads is %lld, which tensor axis 1 of %u replicas does not divide; make it a multiple of %u",
            (long long)options->heads, mesh.tensor_1, mesh.tensor_1);
    else if (options->hidden % mesh.tensor_2 != 0)
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "GPT: hidden is %lld, which tensor axis 2 of %u replicas does not divide; make it a multiple of "
                      "%u",
                      (long long)options->hidden, mesh.tensor_2, mesh.tensor_2);
    return bg_graph_check(graph, NULL) == BG_OK;
}

static bool check_options(bg_graph *graph, const bg_gpt_options *options)
{
    const struct {
        const char *what;
        int64_t value;
    } counts[] = {{"layers", options->layers},
                  {"hidden", options->hidden},
                  {"heads", options->heads},
                  {"sequence_length", options->sequence_length},
                  {"positions", options->positions},
                  {"vocabulary", options->vocabulary},
                  {"micro_batch", options->micro_batch}};

    if (!bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_gpt_options", "bg_gpt_defaults()"))
        return false;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].value < 1 || counts[i].value > INT32_MAX)
            bg_graph_fail(graph, BG_ERROR_INVALID, "GPT: %s is %lld; it must be from 1 to %d", counts[i].what,
                          (long long)counts[i].value, INT32_MAX);
    if (bg_graph_check(graph, NULL) != BG_OK)
        return false;
    if (options->hidden % options->heads != 0)
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "GPT: hidden is %lld, which %lld heads do not divide; make it a multiple of the heads",
                      (long long)options->hidden, (long long)options->heads);
    else if (options->sequence_length > options->positions)
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "GPT: sequence_length is %lld, but positions is %lld; a sequence must not be longer",
                      (long long)options->sequence_length, (long long)options->positions);
    else if (!(options->dropout >= 0.0 && options->dropout < 1.0))
        bg_graph_fail(graph, BG_ERROR_INVALID, "GPT: dropout is %g; it must be at least 0 and below 1",
                      options->dropout);
    else if (!bg_dtype_is_float(options->dtype))
        bg_graph_fail(graph, BG_ERROR_INVALID, "GPT: activations are %s; they must be float32, bfloat16 or float16",
                      bg_dtype_name(options->dtype));
    else if (options->outputs == 0 || (options->outputs & ~(uint32_t)BG_GPT_ALL) != 0)
        bg_graph_fail(graph, BG_ERROR_INVALID, "GPT: outputs is 0x%x; it must be a sum of BG_GPT_ values",
                      options->outputs);
    return bg_graph_check(graph, NULL) == BG_OK && check_mesh(graph, options);
}

/* A model that is being built. */
typedef struct builder {
    bg_graph *graph;
    const bg_gpt_options *options;
    char prefix[NAME_BYTES]; /* prefix of parameter names: "transformer.h.0." */
    bg_value positions;      /* the tokens' positions, an input of a generation step; otherwise null */
    int64_t cache_length;    /* 0 if the model is not for a generation step */
} builder;

static const char *make_name(const builder *b, const char *suffix, char text[2 * NAME_BYTES])
{
    snprintf(text, 2 * NAME_BYTES, "%s%s", b->prefix, suffix);
    return text;
}

static bg_value add_table(const builder *b, const char *suffix, int64_t rows)
{
    const bg_initializer initializer = {.kind = BG_INITIALIZE_TRUNCATED_NORMAL, .b = deviation};
    char name[2 * NAME_BYTES];

    return bg_parallel_table(b->graph, make_name(b, suffix, name), rows, b->options->hidden, &initializer);
}

/* Adds x w + b with w [in, out], as in Hugging Face's Conv1D; the output consists of `blocks` results, one after
 * another in the last dimension. */
static bg_value add_product(const builder *b, const char *suffix, bg_value x, int64_t out, bg_mesh_axis in_axis,
                            uint32_t blocks)
{
    const bg_initializer initializer = {.kind = BG_INITIALIZE_TRUNCATED_NORMAL, .b = deviation};
    const bg_parallel_linear_options options = {.struct_bytes = sizeof options,
                                                .in_axis = in_axis,
                                                .out_blocks = blocks,
                                                .bias = true,
                                                .in_out = true,
                                                .initializer = &initializer};
    char name[2 * NAME_BYTES];

    return bg_parallel_linear_layer(b->graph, make_name(b, suffix, name), x, out, &options);
}

static bg_value add_norm(const builder *b, const char *suffix, bg_value x)
{
    char name[2 * NAME_BYTES];

    return bg_parallel_layer_norm_layer(b->graph, make_name(b, suffix, name), x, epsilon, BG_MESH_TENSOR_2);
}

static bg_value drop(const builder *b, bg_value x)
{
    return b->options->dropout > 0.0 ? bg_sharded_dropout(b->graph, NULL, x, b->options->dropout, BG_MESH_TENSOR_2) : x;
}

/* Adds attention for several sequences, each over its own cache. */
static bg_value add_attentions(const builder *b, bg_value qkv, const bg_shard *cache,
                               const bg_attention_options *attention)
{
    const int64_t count = b->options->micro_batch, length = b->options->sequence_length;
    const bg_initializer zero = {.kind = BG_INITIALIZE_CONSTANT};
    bg_value results[BG_GPT_MOST_SEQUENCES];

    for (int64_t i = 0; i < count; i++) {
        char suffix[NAME_BYTES], name[2 * NAME_BYTES];

        snprintf(suffix, sizeof suffix, i == 0 ? "attn.cache" : "attn.cache.%d", (int)i);
        results[i] = bg_attention_cached(
            b->graph, NULL, bg_slice(b->graph, NULL, qkv, 0, i * length, (i + 1) * length, 1),
            bg_graph_sharded_variable(b->graph, make_name(b, suffix, name), cache, BG_ROLE_BUFFER, &zero),
            bg_slice(b->graph, NULL, b->positions, 0, i, i + 1, 1), attention);
    }
    return bg_concat(b->graph, NULL, results, (uint32_t)count, 0);
}

static bg_value add_attention(const builder *b, bg_value qkv)
{
    const bg_gpt_options *options = b->options;
    const bg_shard cache = {.whole = bg_matrix(options->dtype, b->cache_length, 2 * options->hidden),
                            .dims = {{BG_MESH_NONE, 0, 0}, {.axis = BG_MESH_TENSOR_1, .blocks = 2}}};
    const bg_initializer zero = {.kind = BG_INITIALIZE_CONSTANT};
    bg_attention_options attention = bg_attention_defaults(options->heads / bg_graph_mesh(b->graph).tensor_1);
    char name[2 * NAME_BYTES];

    attention.sequence_length = options->sequence_length;
    attention.dropout = options->dropout;
    attention.serialization = options->attention_serialization;
    attention.axis = BG_MESH_TENSOR_1;
    if (b->cache_length == 0)
        return bg_attention(b->graph, NULL, qkv, &attention);
    if (options->micro_batch == 1)
        return bg_attention_cached(
            b->graph, NULL, qkv,
            bg_graph_sharded_variable(b->graph, make_name(b, "attn.cache", name), &cache, BG_ROLE_BUFFER, &zero),
            b->positions, &attention);
    return add_attentions(b, qkv, &cache, &attention);
}

static bg_value add_layer(const builder *b, bg_value x)
{
    const bg_gpt_options *options = b->options;
    const int64_t hidden = options->hidden;
    bg_value y;

    y = add_product(b, "attn.c_attn", add_norm(b, "ln_1", x), 3 * hidden, BG_MESH_TENSOR_2, 3);
    y = add_attention(b, y);
    x = bg_add(b->graph, x, drop(b, add_product(b, "attn.c_proj", y, hidden, BG_MESH_TENSOR_1, 1)));
    y = bg_gelu_tanh(b->graph, add_product(b, "mlp.c_fc", add_norm(b, "ln_2", x), 4 * hidden, BG_MESH_TENSOR_2, 1));
    return bg_add(b->graph, x, drop(b, add_product(b, "mlp.c_proj", y, hidden, BG_MESH_TENSOR_1, 1)));
}

/* Adds the positions 0, 1, ..., S - 1. */
static bg_value add_positions(const builder *b)
{
    const int64_t count = b->options->sequence_length;
    const bg_type type = bg_vector(BG_INT32, count);
    int32_t *numbers = malloc((size_t)count * sizeof *numbers);
    bg_value positions;

    if (numbers == NULL) {
        bg_graph_fail(b->graph, BG_ERROR_MEMORY, "GPT: out of memory for %lld positions", (long long)count);
        return (bg_value){0};
    }
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (int32_t)i;
    positions = bg_graph_constant(b->graph, "positions", &type, numbers);
    free(numbers);
    return positions;
}

static bg_value add_embedding(const builder *b, bg_value tokens, bg_value *out_table)
{
    const bg_gpt_options *options = b->options;
    const int64_t flat[] = {options->micro_batch * options->sequence_length,
                            options->hidden / bg_graph_mesh(b->graph).tensor_2};
    bg_value places, x;

    *out_table = add_table(b, "wte.weight", options->vocabulary);
    places = add_table(b, "wpe.weight", options->positions);
    x = bg_sharded_embedding(b->graph, NULL, *out_table, tokens, BG_MESH_TENSOR_1);
    places = bg_sharded_embedding(b->graph, NULL, places, b->cache_length > 0 ? b->positions : add_positions(b),
                                  BG_MESH_TENSOR_1);
    x = bg_identical_gradients(b->graph, NULL, bg_add(b->graph, x, places), BG_MESH_TENSOR_1);
    x = bg_reshape(b->graph, NULL, x, 2, flat);
    return drop(b, bgi_layer_cast(b->graph, x, options->dtype));
}

/* Adds the head and the loss. It is called while block "Head" is open. The loss is computed from logits in float32 or
 * float64, also if activations have 16 bits. */
static void add_head(const builder *b, bg_value x, bg_value table, bg_gpt *net)
{
    const bg_gpt_options *options = b->options;
    const bg_type labels = bg_matrix(BG_INT32, options->micro_batch, options->sequence_length);
    const int64_t flat[] = {options->micro_batch * options->sequence_length};

    net->logits = bg_parallel_logits(b->graph, "lm_head", add_norm(b, "ln_f", x), table);
    if ((options->outputs & BG_GPT_LOSS) == 0)
        return;
    net->labels = bg_graph_input(b->graph, "labels", &labels);
    net->loss =
        bg_sharded_cross_entropy(b->graph, "loss", net->logits, bg_reshape(b->graph, NULL, net->labels, 1, flat),
                                 options->vocabulary, BG_LOSS_MEAN, options->ignore_label, BG_MESH_TENSOR_1);
}

/* Joins all columns of the logits on every replica, without padding. */
static bg_value join_logits(const builder *b, bg_value logits)
{
    const int64_t vocabulary = b->options->vocabulary;
    bg_type type;

    logits = bg_all_gather(b->graph, NULL, logits, -1, BG_MESH_TENSOR_1);
    type = bg_graph_type(b->graph, logits);
    return type.rank == 2 && type.dims[1] > vocabulary ? bg_slice(b->graph, NULL, logits, -1, 0, vocabulary, 1)
                                                       : logits;
}

/* Adds the embedding and the layers, in their blocks. */
static bg_value add_body(builder *b, bg_value tokens, bg_value *out_table)
{
    bg_value x;

    bg_block_begin(b->graph, "Embedding", BG_DEVICE_NONE);
    snprintf(b->prefix, sizeof b->prefix, "transformer.");
    x = add_embedding(b, tokens, out_table);
    bg_block_end(b->graph);
    for (int64_t layer = 0; layer < b->options->layers; layer++) {
        char block[NAME_BYTES];

        snprintf(block, sizeof block, "Layer-%lld", (long long)layer);
        snprintf(b->prefix, sizeof b->prefix, "transformer.h.%lld.", (long long)layer);
        bg_block_begin(b->graph, block, BG_DEVICE_NONE);
        if (b->options->checkpoint_layers)
            bg_graph_checkpoint(b->graph, x);
        x = add_layer(b, x);
        bg_block_end(b->graph);
    }
    snprintf(b->prefix, sizeof b->prefix, "transformer.");
    return x;
}

bg_gpt bg_gpt_build(bg_graph *graph, const bg_gpt_options *options)
{
    const bg_gpt_options used = options != NULL ? *options : bg_gpt_defaults();
    builder b = {.graph = graph, .options = &used};
    bg_gpt net = {.tokens = {0}};
    bg_value x, table;
    bg_type tokens;

    if (!check_options(graph, &used))
        return net;
    tokens = bg_matrix(BG_INT32, used.micro_batch, used.sequence_length);
    net.tokens = bg_graph_input(graph, "tokens", &tokens);

    x = add_body(&b, net.tokens, &table);
    bg_block_begin(graph, "Head", BG_DEVICE_NONE);
    add_head(&b, x, table, &net);
    if (used.outputs & BG_GPT_LOGITS)
        net.logits = join_logits(&b, net.logits);
    bg_block_end(graph);
    if (used.outputs & BG_GPT_LOSS)
        bg_graph_output(graph, "loss", net.loss);
    if (used.outputs & BG_GPT_LOGITS)
        bg_graph_output(graph, "logits", net.logits);
    return net;
}

/* Returns the options for a generation step of `sequences` sequences: no dropout, no marks, logits as the output. */
static bg_gpt_options find_step_options(const bg_gpt_options *options, uint32_t sequences)
{
    bg_gpt_options used = options != NULL ? *options : bg_gpt_defaults();

    used.micro_batch = sequences;
    used.dropout = 0.0;
    used.outputs = BG_GPT_LOGITS;
    used.checkpoint_layers = false;
    used.attention_serialization = 1;
    return used;
}

bg_gpt bg_gpt_build_step(bg_graph *graph, const bg_gpt_options *options, int64_t cache_length)
{
    return bg_gpt_build_steps(graph, options, cache_length, 1);
}

bg_gpt bg_gpt_build_steps(bg_graph *graph, const bg_gpt_options *options, int64_t cache_length, uint32_t sequences)
{
    const bg_gpt_options used = find_step_options(options, sequences);
    builder b = {.graph = graph, .options = &used, .cache_length = cache_length};
    bg_gpt step = {.tokens = {0}};
    bg_value x, table;
    bg_type tokens;

    if (sequences == 0 || sequences > BG_GPT_MOST_SEQUENCES) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "GPT: a step has %u sequences; it must have 1 to %d", sequences,
                      BG_GPT_MOST_SEQUENCES);
        return step;
    }
    if (!check_options(graph, &used))
        return step;
    if (cache_length < used.sequence_length || cache_length > INT32_MAX) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "GPT: cache_length is %lld; it must be at least the %lld tokens of a step and below 2^31",
                      (long long)cache_length, (long long)used.sequence_length);
        return step;
    }
    tokens = bg_matrix(BG_INT32, sequences, used.sequence_length);
    step.tokens = bg_graph_input(graph, "tokens", &tokens);
    step.positions = b.positions = bg_graph_input(graph, "positions", &tokens);
    x = add_body(&b, step.tokens, &table);
    bg_block_begin(graph, "Head", BG_DEVICE_NONE);
    tokens = bg_vector(BG_INT32, sequences);
    step.row = bg_graph_input(graph, "row", &tokens);
    x = add_norm(&b, "ln_f", bg_embedding(graph, NULL, x, step.row, -1));
    step.logits = join_logits(&b, bg_parallel_logits(graph, "lm_head", x, table));
    if (used.dtype != BG_FLOAT32)
        step.logits = bg_cast(graph, NULL, step.logits, BG_FLOAT32);
    bg_block_end(graph);
    bg_graph_output(graph, "logits", step.logits);
    return step;
}
