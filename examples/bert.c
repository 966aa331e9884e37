/*
 * bert.c: trains a masked language model like BERT (Devlin et al., 2019). Sentences have different lengths and are
 * padded; some of their tokens are hidden, and the model predicts these. Lengths become a mask of the attention, only
 * hidden tokens have labels, and the head shares the embedding's table. lesson.h has the arguments and the loop.
 *     cc bert.c $(pkg-config --cflags --libs brigade) -o bert && ./bert pipelined
 */
#include "lesson.h"

enum { VOCABULARY = 64, LENGTH = 16, WIDTH = 32, HEADS = 4, LAYERS = 2, PADDING = 0, HIDDEN = 1, FIRST_WORD = 2 };
enum { IGNORED = -100 }; /* the label of a position without a prediction */

/* Adds attention and two linear layers. Each of the two parts adds its input to its result and normalizes the sum
 * (post-norm). */
static bg_value add_layer(bg_graph *graph, bg_value x, bg_value mask)
{
    const bg_dot_product_attention_options attention = bg_dot_product_attention_defaults(HEADS);
    const bg_value query = bg_linear_layer(graph, "query", x, WIDTH, true);
    const bg_value key = bg_linear_layer(graph, "key", x, WIDTH, true);
    const bg_value value = bg_linear_layer(graph, "value", x, WIDTH, true);
    bg_value y = bg_dot_product_attention(graph, "attention", query, key, value, mask, &attention);

    y = bg_add(graph, x, bg_linear_layer(graph, "out", y, WIDTH, true));
    x = bg_layer_norm_layer(graph, "norm1", y, 1e-5);
    y = bg_gelu(graph, bg_linear_layer(graph, "fc1", x, 4 * WIDTH, true));
    y = bg_add(graph, x, bg_linear_layer(graph, "fc2", y, WIDTH, true));
    return bg_layer_norm_layer(graph, "norm2", y, 1e-5);
}

static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type token = bg_matrix(BG_INT32, micro_batch, LENGTH), seen = bg_matrix(BG_UINT8, micro_batch, LENGTH);
    const bg_type words = bg_matrix(BG_FLOAT32, VOCABULARY, WIDTH), places = bg_matrix(BG_FLOAT32, LENGTH, WIDTH);
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 0.1};
    const bg_value tokens = bg_graph_input(graph, "tokens", &token);
    const bg_value mask = bg_graph_input(graph, "mask", &seen);
    const bg_value labels = bg_graph_input(graph, "labels", &token);

    bg_block_start(graph, "embedding", BG_DEVICE_NONE);
    const bg_value table = bg_graph_parameter(graph, "words.weight", &words, &normal);
    bg_value x = bg_embedding(graph, "words", table, tokens, -1);
    x = bg_add(graph, x, bg_graph_parameter(graph, "places.weight", &places, &normal));
    x = bg_layer_norm_layer(graph, "norm", x, 1e-5);
    /* [N, S] to [N, 1, 1, S]: all heads and all queries of a sample see the same keys. */
    const bg_value keys = bg_reshape(graph, "keys", mask, 4, (const int64_t[]){micro_batch, 1, 1, LENGTH});
    for (int i = 0; i < LAYERS; i++) {
        char block[16];
        snprintf(block, sizeof block, "layer%d", i);
        bg_block_start(graph, block, BG_DEVICE_NONE);
        bg_scope_begin(graph, "layers.%d", i);
        x = add_layer(graph, x, keys);
        bg_scope_end(graph);
    }
    bg_block_start(graph, "head", BG_DEVICE_NONE);
    x = bg_gelu(graph, bg_linear_layer(graph, "head", x, WIDTH, true));
    x = bg_linear(graph, "logits", x, table, (bg_value){0});
    /* The mean is over all labels of an update, although micro-batches have different numbers of them. */
    return bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, IGNORED);
}

/* Draws a sentence of 6 to 16 tokens. The difference of consecutive tokens is constant, and random for each sentence.
 * One token in four is hidden. */
static void draw(uint32_t number, void *const *data)
{
    int32_t *tokens = data[0], *labels = data[2];
    uint8_t *mask = data[1];
    const uint32_t words = VOCABULARY - FIRST_WORD, length = 6 + lesson_hash(number, 100) % (LENGTH - 5);
    const uint32_t start = lesson_hash(number, 101) % words, step = 1 + lesson_hash(number, 102) % 3;

    for (uint32_t i = 0; i < LENGTH; i++) {
        const int32_t word = (int32_t)(FIRST_WORD + (start + step * i) % words);
        const bool is_hidden = i == 0 || lesson_hash(number, i) % 4 == 0;

        mask[i] = i < length;
        tokens[i] = i >= length ? PADDING : is_hidden ? HIDDEN : word;
        labels[i] = i < length && is_hidden ? word : IGNORED;
    }
}

int main(int argc, char **argv)
{
    const lesson bert = {.name = "bert",
                         .samples = 256,
                         .micro_batch = 4,
                         .micro_batches = 4,
                         .optimizer = bg_adamw(0.002),
                         .build = build,
                         .draw = draw};

    return lesson_run(&bert, argc, argv);
}
