/*
 * llama.c: trains a language model like LLaMA (Touvron et al., 2023): RMS norms before each part, rotary positions,
 * fewer key heads than query heads, SwiGLU, no biases. The model learns to continue sequences. lesson.h has the
 * arguments and the loop.
 *     cc llama.c $(pkg-config --cflags --libs brigade) -o llama && ./llama recomputed
 */
#include "lesson.h"

enum { VOCABULARY = 64, LENGTH = 16, WIDTH = 32, HEADS = 4, KEY_HEADS = 2, HIDDEN = 64, LAYERS = 2 };

/* Adds attention: each token sees itself and the tokens before it, and two query heads share a key head. */
static bg_value add_attention(bg_graph *graph, bg_value x)
{
    const int64_t key_width = WIDTH / HEADS * KEY_HEADS;
    const bg_rotary_options turn = bg_rotary_defaults(HEADS), turn_keys = bg_rotary_defaults(KEY_HEADS);
    bg_dot_product_attention_options attention = bg_dot_product_attention_defaults(HEADS);
    bg_value query = bg_linear_layer(graph, "wq", x, WIDTH, false);
    bg_value key = bg_linear_layer(graph, "wk", x, key_width, false);
    const bg_value value = bg_linear_layer(graph, "wv", x, key_width, false);

    attention.key_heads = KEY_HEADS;
    attention.causal = true;
    query = bg_rotary(graph, NULL, query, (bg_value){0}, &turn);
    key = bg_rotary(graph, NULL, key, (bg_value){0}, &turn_keys);
    x = bg_dot_product_attention(graph, "attention", query, key, value, (bg_value){0}, &attention);
    return bg_linear_layer(graph, "wo", x, WIDTH, false);
}

static bg_value add_feed_forward(bg_graph *graph, bg_value x)
{
    const bg_value gate = bg_silu(graph, bg_linear_layer(graph, "w1", x, HIDDEN, false));

    x = bg_multiply(graph, gate, bg_linear_layer(graph, "w3", x, HIDDEN, false));
    return bg_linear_layer(graph, "w2", x, WIDTH, false);
}

static bg_value build(bg_graph *graph, int64_t micro_batch)
{
    const bg_type token = bg_matrix(BG_INT32, micro_batch, LENGTH);
    const bg_value tokens = bg_graph_input(graph, "tokens", &token);
    const bg_value next = bg_graph_input(graph, "next", &token);

    bg_block_start(graph, "embedding", BG_DEVICE_NONE);
    bg_value x = bg_embedding_layer(graph, "tok_embeddings", tokens, VOCABULARY, WIDTH, -1, BG_FLOAT32);
    for (int i = 0; i < LAYERS; i++) {
        char block[16];
        snprintf(block, sizeof block, "layer%d", i);
        bg_block_start(graph, block, BG_DEVICE_NONE);
        bg_scope_begin(graph, "layers.%d", i);
        x = bg_add(graph, x, add_attention(graph, bg_rms_norm_layer(graph, "attention_norm", x, 1e-5)));
        x = bg_add(graph, x, add_feed_forward(graph, bg_rms_norm_layer(graph, "ffn_norm", x, 1e-5)));
        bg_scope_end(graph);
    }
    bg_block_start(graph, "head", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "output", bg_rms_norm_layer(graph, "norm", x, 1e-5), VOCABULARY, false);
    return bg_cross_entropy(graph, "loss", x, next, BG_LOSS_MEAN, -100);
}

/* Draws a sequence, in which the difference of consecutive tokens is constant, so the first tokens determine the
 * others. */
static void draw(uint32_t number, void *const *data)
{
    int32_t *tokens = data[0], *next = data[1];
    const uint32_t start = lesson_hash(number, 101) % VOCABULARY, step = 1 + lesson_hash(number, 102) % 3;

    for (uint32_t i = 0; i < LENGTH; i++) {
        tokens[i] = (int32_t)((start + step * i) % VOCABULARY);
        next[i] = (int32_t)((start + step * (i + 1)) % VOCABULARY);
    }
}

int main(int argc, char **argv)
{
    const lesson llama = {.name = "llama",
                          .samples = 256,
                          .micro_batch = 4,
                          .micro_batches = 4,
                          .optimizer = bg_adamw(0.002),
                          .build = build,
                          .draw = draw};

    return lesson_run(&llama, argc, argv);
}
