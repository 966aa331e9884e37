/*
 * convnet.h: the digit network of `brigade mnist`, in four blocks.
 *
 * Threads: one thread at a time uses a graph; different graphs are independent.
 *
 * Errors: the graph keeps the first one and bg_graph_check returns it: BG_ERROR_SHAPE for operands that do not fit,
 * BG_ERROR_INVALID for options, BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_CONVNET_H
#define BRIGADE_CONVNET_H

#include <brigade/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The network of Graphcore's PopTorch tutorial on pipelining, for images of 28 x 28: 90,026 parameters.
 *
 *     B1  standardize, layer1.conv 5x5 1 -> 10,  max-pool 2, ReLU   [N, 10, 12, 12]
 *     B2              layer2.conv 5x5 10 -> 20, max-pool 2, ReLU   [N, 20, 4, 4]
 *     B3  flatten,    layer3      320 -> 256,   ReLU               [N, 256]
 *     B4              layer4      256 -> 10,    cross-entropy      [N, 10]
 */
enum {                         /* bits of bg_convnet_options.outputs */
       BG_CONVNET_LOGITS = 1,  /* "logits" [N, 10] */
       BG_CONVNET_LOSS = 2,    /* "loss": mean cross-entropy, float32 scalar */
       BG_CONVNET_CORRECT = 4, /* "correct": number of images whose label has the largest logit, int32 scalar */
       BG_CONVNET_ALL = 7
};

typedef struct bg_convnet_options {
    size_t struct_bytes;    /* set by bg_convnet_defaults; see base.h */
    int64_t micro_batch;    /* images in a micro-batch */
    bg_dtype dtype;         /* type of the activations: BG_FLOAT32, BG_BFLOAT16, BG_FLOAT16 (BG_FLOAT64 for checks) */
    bg_dtype label_dtype;   /* BG_UINT8 or BG_INT32 */
    int64_t ignore_label;   /* images with this label are ignored; PyTorch's default is -100 */
    uint32_t outputs;       /* the values to mark as the graph's outputs: a sum of BG_CONVNET_... bits */
    bool checkpoint_blocks; /* recomputation keeps the result of each block (bg_graph_checkpoint) */
} bg_convnet_options;

/* Defaults: 40 images, float32, uint8 labels, labels of -100 ignored, all outputs. */
BG_API void bg_convnet_options_init(bg_convnet_options *options, size_t struct_bytes);
static inline bg_convnet_options bg_convnet_defaults(void)
{
    bg_convnet_options options;

    bg_convnet_options_init(&options, sizeof options);
    return options;
}

typedef struct bg_convnet {
    bg_value images; /* input "images" uint8 [N, 1, 28, 28] */
    bg_value labels; /* input "labels" [N]; null without BG_CONVNET_LOSS and BG_CONVNET_CORRECT */
    bg_value logits;
    bg_value loss;    /* null without labels */
    bg_value correct; /* null without labels */
} bg_convnet;

/* Adds the network to a graph, in blocks "B1" to "B4". options NULL: the defaults. The graph records errors. */
BG_API bg_convnet bg_convnet_build(bg_graph *graph, const bg_convnet_options *options);

#ifdef __cplusplus
}
#endif

#endif
