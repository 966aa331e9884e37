/*
 * models.c: measures how fast models of six kinds train: a U-Net, an LSTM over 256 steps, a masked language model over
 * padded sentences, a decoder like LLaMA of 110 million parameters, a vision transformer, and a GPT of 0.8 million
 * parameters. Most are the models of examples/unet.c, recurrent.c, bert.c, llama.c and vit.c in larger sizes. Training
 * uses float32 and AdamW; the data are in memory.
 *
 *     usage: models [--network unet|lstm|bert|llama|vit|gpt] [--batch N] [--cores N] [--steps N] [--profile] [--times]
 *
 *     unet         images of 64 x 64; 32, 64 and 128 channels
 *     lstm         two layers of 256 units over 256 steps of 64 features
 *     bert         4 layers of width 256 with 4 heads over sentences of 32 to 128 of 30522 words (BERT mini)
 *     llama        12 layers of width 768 with 12 heads over 256 of 32000 words
 *     vit          12 layers of width 384 with 6 heads over images of 224 x 224 in patches of 16 x 16 (ViT-S/16)
 *     gpt          4 layers of width 128 with 4 heads over 64 of 256 words (nanoGPT's setting for processors)
 *     --times      prints a line `flops N` and a line `items N` for a step (items are images or words), and a line
 *                  `step SECONDS` for each step
 *     --profile    prints the processor time of each kernel
 */
#include <brigade.h>

#include "median.h"
#include "profile.h"

typedef enum network { UNET, LSTM, BERT, LLAMA, VIT, GPT, NETWORKS } network;
static const struct {
    const char *name, *items;
    long batch;
} networks[NETWORKS] = {{"unet", "images", 16}, {"lstm", "words", 32}, {"bert", "words", 16},
                        {"llama", "words", 1},  {"vit", "images", 4},  {"gpt", "words", 12}};

typedef struct setting {
    network network;
    long batch, cores, steps, profiles, lists;
} setting;

enum { INPUTS = 3, IGNORED = -100 };

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    fprintf(stderr, "models: %s\n", error->message);
    exit(1);
}

static double read_clock_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- unet ---- */

enum { UNET_SIZE = 64, UNET_CHANNELS = 32 };

static bg_value add_pair(bg_graph *graph, const char *scope, bg_value x, int64_t channels)
{
    bg_conv2d_options options = bg_conv2d_defaults();

    options.padding[0] = options.padding[1] = 1;
    bg_scope_begin(graph, "%s", scope);
    for (int i = 1; i <= 2; i++) {
        x = bg_conv2d_layer(graph, i == 1 ? "conv1" : "conv2", x, channels, 3, 3, true, &options);
        x = bg_silu(graph, bg_group_norm_layer(graph, i == 1 ? "norm1" : "norm2", x, channels / 4, 1e-5));
    }
    bg_scope_end(graph);
    return x;
}

static bg_value add_way_up(bg_graph *graph, const char *name, bg_value x, bg_value left)
{
    const int64_t channels = bg_graph_type(graph, left).dims[1];
    bg_conv_options options = bg_conv_defaults();

    options.stride[0] = options.stride[1] = 2;
    x = bg_conv_transpose_layer(graph, name, x, channels, (const int64_t[]){2, 2}, true, &options);
    return bg_concat(graph, NULL, (const bg_value[]){left, x}, 2, 1);
}

static bg_value build_unet(bg_graph *graph, int64_t batch)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, batch, 1, UNET_SIZE, UNET_SIZE);
    const bg_pool2d_options half = bg_pool2d_defaults(2);
    const bg_value images = bg_graph_input(graph, "x", &image), wanted = bg_graph_input(graph, "labels", &image);
    const bg_value first = add_pair(graph, "down1", images, UNET_CHANNELS);
    const bg_value second = add_pair(graph, "down2", bg_max_pool2d(graph, NULL, first, &half), 2 * UNET_CHANNELS);
    bg_value x = add_pair(graph, "bottom", bg_max_pool2d(graph, NULL, second, &half), 4 * UNET_CHANNELS);

    x = add_pair(graph, "up2", add_way_up(graph, "wider2", x, second), 2 * UNET_CHANNELS);
    x = add_pair(graph, "up1", add_way_up(graph, "wider1", x, first), UNET_CHANNELS);
    x = bg_conv2d_layer(graph, "out", x, 1, 1, 1, true, NULL);
    return bg_pointwise_loss(graph, "loss", BG_LOSS_BINARY_LOGITS, 1.0, x, wanted, BG_LOSS_MEAN);
}

/* ---- lstm ---- */

enum { LSTM_STEPS = 256, LSTM_FEATURES = 64, LSTM_WIDTH = 256, LSTM_CLASSES = 10 };

static bg_value build_lstm(bg_graph *graph, int64_t batch)
{
    const bg_type sequence = bg_tensor3(BG_FLOAT32, batch, LSTM_STEPS, LSTM_FEATURES);
    const bg_type label = bg_vector(BG_INT32, batch);
    const int64_t dims[] = {batch, LSTM_WIDTH};
    const bg_value none = {0};
    bg_recurrent_options options = bg_recurrent_defaults();
    bg_value x = bg_graph_input(graph, "x", &sequence);
    const bg_value labels = bg_graph_input(graph, "labels", &label);

    options.batch_first = true;
    options.layers = 2;
    x = bg_lstm_layer(graph, "lstm", x, LSTM_WIDTH, &options, none, none, NULL, NULL);
    x = bg_reshape(graph, NULL, bg_slice(graph, NULL, x, 1, LSTM_STEPS - 1, LSTM_STEPS, 1), 2, dims);
    return bg_cross_entropy(graph, "loss", bg_linear_layer(graph, "out", x, LSTM_CLASSES, true), labels, BG_LOSS_MEAN,
                            IGNORED);
}

/* ---- bert ---- */

enum { BERT_WORDS = 30522, BERT_LENGTH = 128, BERT_SHORTEST = 32, BERT_WIDTH = 256, BERT_HEADS = 4, BERT_LAYERS = 4 };

static bg_value add_bert_layer(bg_graph *graph, bg_value x, bg_value mask)
{
    const bg_dot_product_attention_options attention = bg_dot_product_attention_defaults(BERT_HEADS);
    const bg_value query = bg_linear_layer(graph, "query", x, BERT_WIDTH, true);
    const bg_value key = bg_linear_layer(graph, "key", x, BERT_WIDTH, true);
    const bg_value value = bg_linear_layer(graph, "value", x, BERT_WIDTH, true);
    bg_value y = bg_dot_product_attention(graph, "attention", query, key, value, mask, &attention);

    y = bg_add(graph, x, bg_linear_layer(graph, "out", y, BERT_WIDTH, true));
    x = bg_layer_norm_layer(graph, "norm1", y, 1e-5);
    y = bg_gelu(graph, bg_linear_layer(graph, "fc1", x, 4 * BERT_WIDTH, true));
    y = bg_add(graph, x, bg_linear_layer(graph, "fc2", y, BERT_WIDTH, true));
    return bg_layer_norm_layer(graph, "norm2", y, 1e-5);
}

static bg_value build_bert(bg_graph *graph, int64_t batch)
{
    const bg_type token = bg_matrix(BG_INT32, batch, BERT_LENGTH), seen = bg_matrix(BG_UINT8, batch, BERT_LENGTH);
    const bg_type words = bg_matrix(BG_FLOAT32, BERT_WORDS, BERT_WIDTH);
    const bg_type places = bg_matrix(BG_FLOAT32, BERT_LENGTH, BERT_WIDTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.02};
    const bg_value tokens = bg_graph_input(graph, "x", &token), mask = bg_graph_input(graph, "mask", &seen);
    const bg_value labels = bg_graph_input(graph, "labels", &token);
    const bg_value table = bg_graph_parameter(graph, "words.weight", &words, &normal);
    const bg_value keys = bg_reshape(graph, "keys", mask, 4, (const int64_t[]){batch, 1, 1, BERT_LENGTH});
    bg_value x = bg_add(graph, bg_embedding(graph, "words", table, tokens, -1),
                        bg_graph_parameter(graph, "places.weight", &places, &normal));

    x = bg_layer_norm_layer(graph, "norm", x, 1e-5);
    for (int i = 0; i < BERT_LAYERS; i++) {
        bg_scope_begin(graph, "layers.%d", i);
        x = add_bert_layer(graph, x, keys);
        bg_scope_end(graph);
    }
    x = bg_linear(graph, "logits", bg_gelu(graph, bg_linear_layer(graph, "head", x, BERT_WIDTH, true)), table,
                  (bg_value){0});
    return bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, IGNORED);
}

/* ---- llama ---- */

enum {
    LLAMA_WORDS = 32000,
    LLAMA_LENGTH = 256,
    LLAMA_WIDTH = 768,
    LLAMA_HEADS = 12,
    LLAMA_HIDDEN = 2048,
    LLAMA_LAYERS = 12
};

static bg_value add_llama_layer(bg_graph *graph, bg_value x)
{
    const bg_rotary_options turn = bg_rotary_defaults(LLAMA_HEADS);
    bg_dot_product_attention_options attention = bg_dot_product_attention_defaults(LLAMA_HEADS);
    bg_value y = bg_rms_norm_layer(graph, "attention_norm", x, 1e-5), query, key, gate;

    attention.causal = true;
    query = bg_rotary(graph, NULL, bg_linear_layer(graph, "wq", y, LLAMA_WIDTH, false), (bg_value){0}, &turn);
    key = bg_rotary(graph, NULL, bg_linear_layer(graph, "wk", y, LLAMA_WIDTH, false), (bg_value){0}, &turn);
    y = bg_dot_product_attention(graph, "attention", query, key, bg_linear_layer(graph, "wv", y, LLAMA_WIDTH, false),
                                 (bg_value){0}, &attention);
    x = bg_add(graph, x, bg_linear_layer(graph, "wo", y, LLAMA_WIDTH, false));
    y = bg_rms_norm_layer(graph, "ffn_norm", x, 1e-5);
    gate = bg_silu(graph, bg_linear_layer(graph, "w1", y, LLAMA_HIDDEN, false));
    y = bg_multiply(graph, gate, bg_linear_layer(graph, "w3", y, LLAMA_HIDDEN, false));
    return bg_add(graph, x, bg_linear_layer(graph, "w2", y, LLAMA_WIDTH, false));
}

static bg_value build_llama(bg_graph *graph, int64_t batch)
{
    const bg_type token = bg_matrix(BG_INT32, batch, LLAMA_LENGTH);
    const bg_type words = bg_matrix(BG_FLOAT32, LLAMA_WORDS, LLAMA_WIDTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.02};
    const bg_value tokens = bg_graph_input(graph, "x", &token), next = bg_graph_input(graph, "labels", &token);
    const bg_value table = bg_graph_parameter(graph, "tok_embeddings.weight", &words, &normal);
    bg_value x = bg_embedding(graph, "tok_embeddings", table, tokens, -1);

    for (int i = 0; i < LLAMA_LAYERS; i++) {
        bg_scope_begin(graph, "layers.%d", i);
        x = add_llama_layer(graph, x);
        bg_scope_end(graph);
    }
    x = bg_linear(graph, "output", bg_rms_norm_layer(graph, "norm", x, 1e-5), table, (bg_value){0});
    return bg_cross_entropy(graph, "loss", x, next, BG_LOSS_MEAN, IGNORED);
}

/* ---- layers of vit and gpt ---- */

/* Adds a pre-norm layer of attention and two linear layers. */
static bg_value add_layer(bg_graph *graph, bg_value x, uint32_t heads, bool is_causal)
{
    const int64_t width = bg_graph_type(graph, x).dims[2];
    bg_attention_options attention = bg_attention_defaults(heads);
    bg_value y = bg_linear_layer(graph, "qkv", bg_layer_norm_layer(graph, "norm1", x, 1e-5), 3 * width, true);

    attention.causal = is_causal;
    y = bg_attention(graph, "attention", y, &attention);
    x = bg_add(graph, x, bg_linear_layer(graph, "out", y, width, true));
    y = bg_linear_layer(graph, "fc1", bg_layer_norm_layer(graph, "norm2", x, 1e-5), 4 * width, true);
    return bg_add(graph, x, bg_linear_layer(graph, "fc2", bg_gelu(graph, y), width, true));
}

static bg_value add_layers(bg_graph *graph, bg_value x, int count, uint32_t heads, bool is_causal)
{
    for (int i = 0; i < count; i++) {
        bg_scope_begin(graph, "layers.%d", i);
        x = add_layer(graph, x, heads, is_causal);
        bg_scope_end(graph);
    }
    return bg_layer_norm_layer(graph, "norm", x, 1e-5);
}

/* ---- vit ---- */

enum { VIT_SIZE = 224, VIT_PATCH = 16, VIT_WIDTH = 384, VIT_HEADS = 6, VIT_LAYERS = 12, VIT_CLASSES = 1000 };
enum { VIT_PATCHES = VIT_SIZE / VIT_PATCH * (VIT_SIZE / VIT_PATCH) };

static bg_value build_vit(bg_graph *graph, int64_t batch)
{
    const bg_type image = bg_tensor4(BG_FLOAT32, batch, 3, VIT_SIZE, VIT_SIZE), label = bg_vector(BG_INT32, batch);
    const bg_type first = bg_tensor3(BG_FLOAT32, 1, 1, VIT_WIDTH);
    const bg_type places = bg_tensor3(BG_FLOAT32, 1, VIT_PATCHES + 1, VIT_WIDTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.02};
    const bg_value images = bg_graph_input(graph, "x", &image), labels = bg_graph_input(graph, "labels", &label);
    bg_value token = bg_graph_parameter(graph, "class_token", &first, &normal), x;
    bg_conv2d_options patches = bg_conv2d_defaults();

    patches.stride[0] = patches.stride[1] = VIT_PATCH;
    x = bg_conv2d_layer(graph, "patches", images, VIT_WIDTH, VIT_PATCH, VIT_PATCH, true, &patches);
    x = bg_reshape(graph, NULL, x, 3, (const int64_t[]){batch, VIT_WIDTH, VIT_PATCHES});
    x = bg_transpose(graph, NULL, x, (const uint32_t[]){0, 2, 1});
    token = bg_broadcast(graph, NULL, token, 3, (const int64_t[]){batch, 1, VIT_WIDTH});
    x = bg_concat(graph, NULL, (const bg_value[]){token, x}, 2, 1);
    x = bg_add(graph, x, bg_graph_parameter(graph, "places", &places, &normal));
    x = add_layers(graph, x, VIT_LAYERS, VIT_HEADS, false);
    x = bg_flatten(graph, NULL, bg_slice(graph, NULL, x, 1, 0, 1, 1));
    return bg_cross_entropy(graph, "loss", bg_linear_layer(graph, "head", x, VIT_CLASSES, true), labels, BG_LOSS_MEAN,
                            IGNORED);
}

/* ---- gpt ---- */

enum { GPT_WORDS = 256, GPT_LENGTH = 64, GPT_WIDTH = 128, GPT_HEADS = 4, GPT_LAYERS = 4 };

static bg_value build_gpt(bg_graph *graph, int64_t batch)
{
    const bg_type token = bg_matrix(BG_INT32, batch, GPT_LENGTH);
    const bg_type words = bg_matrix(BG_FLOAT32, GPT_WORDS, GPT_WIDTH);
    const bg_type places = bg_matrix(BG_FLOAT32, GPT_LENGTH, GPT_WIDTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.02};
    const bg_value tokens = bg_graph_input(graph, "x", &token), next = bg_graph_input(graph, "labels", &token);
    const bg_value table = bg_graph_parameter(graph, "words.weight", &words, &normal);
    bg_value x = bg_add(graph, bg_embedding(graph, "words", table, tokens, -1),
                        bg_graph_parameter(graph, "places.weight", &places, &normal));

    x = bg_linear(graph, "logits", add_layers(graph, x, GPT_LAYERS, GPT_HEADS, true), table, (bg_value){0});
    return bg_cross_entropy(graph, "loss", x, next, BG_LOSS_MEAN, IGNORED);
}

/* ---- the run ---- */

/* Fills the inputs by name and type: `x` and `labels` with floats or with numbers of tokens or classes, and `mask` from
 * lengths. */
static void *make_data(const setting *s, const char *name, const bg_type *type)
{
    const int64_t count = bg_type_element_count(type), length = type->dims[type->rank - 1];
    static const uint32_t ends[NETWORKS] = {1, LSTM_CLASSES, BERT_WORDS, LLAMA_WORDS, VIT_CLASSES, GPT_WORDS};
    void *data = calloc(1, bg_type_size_bytes(type));

    if (data == NULL)
        exit(1);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t hash = (uint32_t)i * 2654435761u >> 8;
        const int64_t end = BERT_SHORTEST + i / length * 29 % (BERT_LENGTH - BERT_SHORTEST + 1);
        const bool is_hidden = i % 7 == 0 && i % length < end, is_label = strcmp(name, "labels") == 0;

        if (type->dtype == BG_FLOAT32)
            ((float *)data)[i] = is_label ? (float)(hash % 2) : (float)(hash % 2003) / 1001.0f - 1.0f;
        else if (type->dtype == BG_UINT8)
            ((uint8_t *)data)[i] = i % length < end;
        else
            ((int32_t *)data)[i] =
                is_label && s->network == BERT && !is_hidden ? IGNORED : (int32_t)(hash % ends[s->network]);
    }
    return data;
}

/* Returns the number of floating-point operations of a step, summed over its ops. */
static double count_flops(const bg_plan *plan)
{
    double flops = 0.0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            for (uint32_t c = 0; c < plan->devices[d].instructions[i].call_count; c++)
                flops += plan->devices[d].instructions[i].calls[c].cost.flops;
    return flops;
}

static bg_plan *make_plan(const setting *s)
{
    static bg_value (*const builders[NETWORKS])(bg_graph *, int64_t) = {build_unet,  build_lstm, build_bert,
                                                                        build_llama, build_vit,  build_gpt};
    const bg_optimizer optimizer = bg_adamw(1e-4);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_value loss;

    require(bg_graph_create(&graph, &error), &error);
    loss = builders[s->network](graph, s->batch);
    bg_graph_output(graph, "loss", loss);
    require(bg_graph_check(graph, &error), &error);
    options.execution.cores = (uint32_t)s->cores;
    require(bg_plan_create_training(graph, loss, &optimizer, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

static long count_items(const setting *s)
{
    static const long items[NETWORKS] = {1, LSTM_STEPS, BERT_LENGTH, LLAMA_LENGTH, 1, GPT_LENGTH};

    return s->batch * items[s->network];
}

static void print_times(const setting *s, const bg_plan *plan, double *times)
{
    const double items = (double)count_items(s);
    double median;

    if (s->lists)
        printf("flops %.0f\nitems %.0f\n", count_flops(plan), items);
    for (long step = 0; s->lists && step < s->steps; step++)
        printf("step %.6f\n", times[step]);
    median = bench_median(times, (size_t)s->steps);
    printf("%s training, batch %ld, cores %ld: best %.0f %s/s, median %.0f\n", networks[s->network].name, s->batch,
           s->cores, items / times[0], networks[s->network].items, items / median);
}

static void run(const setting *s)
{
    double *times = calloc((size_t)s->steps, sizeof *times);
    bg_plan *plan = make_plan(s);
    profile all = {NULL, 0};
    bg_session *session = NULL;
    bg_error error = {0};
    void *inputs[INPUTS] = {NULL};
    float loss;

    if (times == NULL)
        exit(1);
    if (s->profiles)
        all = time_plan(plan);
    require(bg_session_create(plan, NULL, &session, &error), &error);
    for (uint32_t i = 0; i < bg_session_input_count(session); i++) {
        bg_stream stream;

        require(bg_session_input(session, i, &stream, &error), &error);
        inputs[i] = make_data(s, stream.name, &stream.micro_batch_type);
    }
    for (long step = -2; step < s->steps; step++) { /* the first two are not counted */
        const double begin_s = read_clock_s();

        require(bg_session_run(session, (const void *const *)inputs, (void *[]){&loss}, &error), &error);
        if (step >= 0)
            times[step] = read_clock_s() - begin_s;
        for (size_t i = 0; step < 0 && i < all.count; i++)
            all.rows[i].ns = 0;
    }
    print_times(s, plan, times);
    if (s->profiles)
        print_profile(&all, s->steps);
    bg_session_destroy(session);
    bg_plan_destroy(plan);
    for (int i = 0; i < INPUTS; i++)
        free(inputs[i]);
    free(all.rows), free(times);
}

static void refuse(const char *option, const char *why)
{
    fprintf(stderr, "models: %s %s; the file's head lists the options\n", option, why);
    exit(2);
}

static network find_network(const char *name)
{
    network found = UNET;

    while (found < NETWORKS && strcmp(networks[found].name, name) != 0)
        found++;
    return found;
}

int main(int argc, char **argv)
{
    setting s = {.network = UNET, .cores = 2, .steps = 10};
    const struct {
        const char *name;
        long *value;
        bool is_switch;
    } known[] = {{"--network", NULL, false},   {"--batch", &s.batch, false},     {"--cores", &s.cores, false},
                 {"--steps", &s.steps, false}, {"--profile", &s.profiles, true}, {"--times", &s.lists, true}};

    for (int i = 1; i < argc; i++) {
        size_t k = 0;

        while (k < sizeof known / sizeof known[0] && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == sizeof known / sizeof known[0])
            refuse(argv[i], "is not known");
        if (!known[k].is_switch && i + 1 == argc)
            refuse(argv[i], "lacks its value");
        if (known[k].value == NULL)
            s.network = find_network(argv[++i]);
        else
            *known[k].value = known[k].is_switch ? 1 : atol(argv[++i]);
    }
    if (s.network == NETWORKS)
        refuse("--network", "must be unet, lstm, bert, llama, vit or gpt");
    if (s.batch == 0)
        s.batch = networks[s.network].batch;
    if (s.batch < 1 || s.steps < 1)
        refuse("--batch, --steps", "must be at least 1");
    run(&s);
    return 0;
}
