/*
 * convnet.c: builds the digit network of PopTorch's pipelining tutorial. Layers pool before the ReLU, as in the
 * tutorial; the other order computes the same values at a different cost.
 */
#include <brigade/convnet.h>

#include "core/error.h"
#include "graph/graph.h"

/* Mean and standard deviation of the pixels of the MNIST training images, scaled to 0..1. */
static const float image_mean = 0.1307f;
static const float image_deviation = 0.3081f;

void bg_convnet_options_init(bg_convnet_options *options, size_t struct_bytes)
{
    const bg_convnet_options made = {.struct_bytes = struct_bytes,
                                     .micro_batch = 40,
                                     .dtype = BG_FLOAT32,
                                     .label_dtype = BG_UINT8,
                                     .ignore_label = -100,
                                     .outputs = BG_CONVNET_ALL};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

static bool check_options(bg_graph *graph, const bg_convnet_options *options)
{
    if (!bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_convnet_options",
                                "bg_convnet_defaults()"))
        return false;
    if (options->micro_batch < 1)
        bg_graph_fail(graph, BG_ERROR_INVALID, "digit network: the micro-batch is %lld; it must be at least 1",
                      (long long)options->micro_batch);
    else if (!bg_dtype_is_float(options->dtype))
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "digit network: activations are %s; they must be float32, bfloat16 or float16",
                      bg_dtype_name(options->dtype));
    else if (options->label_dtype != BG_UINT8 && options->label_dtype != BG_INT32)
        bg_graph_fail(graph, BG_ERROR_INVALID, "digit network: labels are %s; they must be uint8 or int32",
                      bg_dtype_name(options->label_dtype));
    else if (options->outputs == 0 || (options->outputs & ~(uint32_t)BG_CONVNET_ALL) != 0)
        bg_graph_fail(graph, BG_ERROR_INVALID, "digit network: outputs is 0x%x; it must be a sum of BG_CONVNET_ values",
                      options->outputs);
    return bg_graph_check(graph, NULL) == BG_OK;
}

static bg_value add_conv_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_channels)
{
    bg_pool2d_options pool = bg_pool2d_defaults(2);

    x = bg_conv2d_layer(graph, name, x, out_channels, 5, 5, true, NULL);
    x = bg_max_pool2d(graph, NULL, x, &pool);
    return bg_relu(graph, x);
}

/* Adds the loss. It is called while block B4 is open, because the loss belongs to the last block. */
static void add_loss(bg_graph *graph, const bg_convnet_options *options, bg_convnet *net)
{
    bg_type labels = bg_vector(options->label_dtype, options->micro_batch);

    if ((options->outputs & (BG_CONVNET_LOSS | BG_CONVNET_CORRECT)) == 0)
        return;
    net->labels = bg_graph_input(graph, "labels", &labels);
    net->loss = bg_cross_entropy(graph, "loss", net->logits, net->labels, BG_LOSS_MEAN, options->ignore_label);
    net->correct = bg_correct_count(graph, "correct", net->logits, net->labels);
}

/* Ends the open block, whose result is `x`, and returns `x`. */
static bg_value end_block(bg_graph *graph, const bg_convnet_options *options, bg_value x)
{
    if (options->checkpoint_blocks)
        bg_graph_checkpoint(graph, x);
    bg_block_end(graph);
    return x;
}

static void mark_outputs(bg_graph *graph, uint32_t outputs, const bg_convnet *net)
{
    if (outputs & BG_CONVNET_LOGITS)
        bg_graph_output(graph, "logits", net->logits);
    if (outputs & BG_CONVNET_LOSS)
        bg_graph_output(graph, "loss", net->loss);
    if (outputs & BG_CONVNET_CORRECT)
        bg_graph_output(graph, "correct", net->correct);
}

bg_convnet bg_convnet_build(bg_graph *graph, const bg_convnet_options *options)
{
    bg_convnet_options used = options != NULL ? *options : bg_convnet_defaults();
    bg_convnet net = {.images = {0}};
    bg_type images;
    bg_value x;

    if (!check_options(graph, &used))
        return net;
    images = bg_tensor4(BG_UINT8, used.micro_batch, 1, 28, 28);
    net.images = bg_graph_input(graph, "images", &images);

    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_standardize(graph, "standardize", net.images, used.dtype, 255.0f, image_mean, image_deviation);
    x = end_block(graph, &used, add_conv_layer(graph, "layer1.conv", x, 10));

    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    x = end_block(graph, &used, add_conv_layer(graph, "layer2.conv", x, 20));

    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    x = bg_flatten(graph, NULL, x);
    x = end_block(graph, &used, bg_relu(graph, bg_linear_layer(graph, "layer3", x, 256, true)));

    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    net.logits = bg_linear_layer(graph, "layer4", x, 10, true);
    add_loss(graph, &used, &net);
    bg_block_end(graph);

    mark_outputs(graph, used.outputs, &net);
    return net;
}
