/*
 * gpt.h: the GPT-2 language model: names, shapes and first values are those of Hugging Face's GPT2LMHeadModel, so that
 * weight files can be exchanged without a transpose.
 *
 * Threads: one thread at a time uses a graph; different graphs are independent.
 *
 * Errors, in bg_graph_check: BG_ERROR_INVALID for an option out of range: a size below 1, heads that do not divide
 * hidden, a sequence that is longer than positions, a dropout below 0 or not below 1, a type that is not float32,
 * bfloat16 or float16, tensor axes of the mesh that do not divide heads and hidden; for steps also a number of
 * sequences outside 1 to BG_GPT_MOST_SEQUENCES, or a cache that is shorter than a step; BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_GPT_H
#define BRIGADE_GPT_H

#include <brigade/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {                    /* bits of bg_gpt_options.outputs */
       BG_GPT_LOSS = 1,   /* "loss": mean cross-entropy over the labels that are not ignored, float32 scalar */
       BG_GPT_LOGITS = 2, /* "logits" [N S, vocabulary] */
       BG_GPT_ALL = 3
};

typedef struct bg_gpt_options {
    size_t struct_bytes;           /* set by bg_gpt_defaults; see base.h */
    int64_t layers, hidden, heads; /* heads divide hidden */
    int64_t sequence_length;       /* S, at most positions */
    int64_t positions, vocabulary;
    int64_t micro_batch;  /* N, sequences */
    double dropout;       /* dropout of the embedding, of attention, and of the output of each half of a layer */
    bg_dtype dtype;       /* type of the activations; parameters are float32 */
    int64_t ignore_label; /* the label that is ignored; default -100 */
    int64_t attention_serialization; /* number of pieces into which the queries are cut (bg_attention_options) */
    uint32_t outputs;                /* a sum of BG_GPT_... bits */
    bool checkpoint_layers;          /* recomputation keeps the output of each layer (bg_graph_checkpoint) */
} bg_gpt_options;

/* Defaults, those of GPT-2 small: 12 layers of 768 with 12 heads, 1024 positions, 50257 tokens; dropout 0.1, one
 * sequence, float32, the loss. */
BG_API void bg_gpt_options_init(bg_gpt_options *options, size_t struct_bytes);
static inline bg_gpt_options bg_gpt_defaults(void)
{
    bg_gpt_options options;

    bg_gpt_options_init(&options, sizeof options);
    return options;
}

typedef struct bg_gpt {
    bg_value tokens; /* input "tokens" int32 [N, S] */
    bg_value labels; /* input "labels" int32 [N, S]: the token that follows each token; null without BG_GPT_LOSS */
    bg_value logits; /* [N S, vocabulary]; on a mesh without BG_GPT_LOGITS, the columns of the replica's piece, with
                        padding */
    bg_value loss;   /* null without BG_GPT_LOSS */
    /* Set only by bg_gpt_build_step and bg_gpt_build_steps, otherwise null. */
    bg_value positions; /* input "positions" int32 [1, S]: p, p + 1, ... */
    bg_value row;       /* input "row" int32 [1]: the row, 0 to S - 1, of the token whose successor is predicted */
} bg_gpt;

/*
 * Adds the model to a graph, in blocks "Embedding", "Layer-0", "Layer-1", ..., "Head". Matrices [in, out] begin as
 * normal numbers of deviation 0.02, truncated at two deviations; biases begin as 0, weights of norms as 1. The head's
 * matrix is that of the embedding (`transformer.wte.weight`). options NULL: the defaults.
 *
 * In a graph with a mesh (bg_graph_set_mesh) each replica gets its piece of the model, cut as in the GPT-3 example for
 * PopXL: tensor axis 1 divides the heads, axis 2 the hidden size. The whole parameters have the same names and first
 * values as without a mesh.
 */
BG_API bg_gpt bg_gpt_build(bg_graph *graph, const bg_gpt_options *options);

/*
 * Adds the model for the next S tokens of one sequence, with bg_gpt_build's parameters. Each layer keeps the keys and
 * values of earlier tokens in a buffer "transformer.h.<layer>.attn.cache" [cache_length, 2 hidden]. Inputs are tokens
 * [1, S], positions and row; the output "logits" float32 [1, vocabulary] is for the token that follows `row`. S is
 * options->sequence_length, at most cache_length; p is at most cache_length - S. To feed fewer than S tokens, append
 * any tokens; the next step overwrites their keys and values. The options micro_batch, dropout, ignore_label and
 * outputs are ignored.
 */
BG_API bg_gpt bg_gpt_build_step(bg_graph *graph, const bg_gpt_options *options, int64_t cache_length);

/* Adds the same model for several sequences at once, each with its own cache. The buffers above belong to the first
 * sequence; those of sequence i > 0 are "transformer.h.<layer>.attn.cache.<i>". Inputs are tokens and positions
 * [sequences, S], and row [sequences]. The rows of all sequences are numbered together: element i of `row` is i S plus
 * the row in sequence i. The output is "logits" [sequences, vocabulary]. The logits of a sequence are bit-identical to
 * those of bg_gpt_build_step. `sequences` is at most BG_GPT_MOST_SEQUENCES. */
#define BG_GPT_MOST_SEQUENCES 32
BG_API bg_gpt bg_gpt_build_steps(bg_graph *graph, const bg_gpt_options *options, int64_t cache_length,
                                 uint32_t sequences);

#ifdef __cplusplus
}
#endif

#endif
