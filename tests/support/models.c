/*
 * models.c: the networks, written with layers as a user would.
 */
#include "support/models.h"

#include <brigade/data.h>
#include <brigade/convnet.h>
#include <brigade/ops.h>

#include <stdlib.h>
#include <string.h>

static bg_value build_digits(bg_graph *graph, int64_t micro_batch)
{
    bg_convnet_options options = bg_convnet_defaults();

    options.micro_batch = micro_batch;
    return bg_convnet_build(graph, &options).loss;
}

static bg_value build_residual(bg_graph *graph, int64_t micro_batch)
{
    const bg_type image_type = bg_tensor4(BG_UINT8, micro_batch, 1, 28, 28),
                  label_type = bg_vector(BG_UINT8, micro_batch);
    const bg_value images = bg_graph_input(graph, "images", &image_type);
    const bg_value labels = bg_graph_input(graph, "labels", &label_type);
    bg_conv2d_options same = bg_conv2d_defaults(), down = bg_conv2d_defaults();
    const bg_pool2d_options pool = bg_pool2d_defaults(7);
    bg_value x, skip, y, loss;

    same.padding[0] = same.padding[1] = 1;
    down.stride[0] = down.stride[1] = 2;
    down.padding[0] = down.padding[1] = 1;
    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_standardize(graph, NULL, images, BG_FLOAT32, 255.0f, 0.13f, 0.31f);
    x = bg_conv2d_layer(graph, "stem", x, 6, 3, 3, false, &down);
    x = bg_relu(graph, bg_batch_norm_layer(graph, "stem.norm", x, 0.1, 1e-5));
    skip = x = bg_conv2d_layer(graph, "down", x, 8, 3, 3, true, &down);
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    y = bg_relu(graph, bg_batch_norm_layer(graph, "a.norm", x, 0.1, 1e-5));
    x = bg_add(graph, x, bg_conv2d_layer(graph, "a.conv", y, 8, 3, 3, true, &same));
    bg_block_end(graph);
    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    y = bg_relu(graph, bg_batch_norm_layer(graph, "b.norm", x, 0.1, 1e-5));
    x = bg_add(graph, x, bg_conv2d_layer(graph, "b.conv", y, 8, 3, 3, true, &same));
    bg_block_end(graph);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    x = bg_add(graph, x, skip); /* the skip connection from B1 across B2 and B3 */
    x = bg_flatten(graph, NULL, bg_avg_pool2d(graph, NULL, x, &pool));
    x = bg_linear_layer(graph, "head", x, 10, true);
    loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, 3); /* digit 3 is not counted */
    bg_graph_output(graph, "loss", loss);
    bg_block_end(graph);
    return loss;
}

static bg_value build_embedding(bg_graph *graph, int64_t micro_batch, int64_t vocabulary)
{
    enum { LENGTH = 6, WIDTH = 16 };
    const bg_type id_type = bg_matrix(BG_INT32, micro_batch, LENGTH);
    const bg_initializer normal = {BG_INITIALIZE_NORMAL, 0.0, 0.1};
    const bg_type table_type = bg_matrix(BG_FLOAT32, vocabulary, WIDTH);
    const bg_value ids = bg_graph_input(graph, "ids", &id_type);
    const bg_value table = bg_graph_parameter(graph, "embedding.weight", &table_type, &normal);
    bg_value x, targets, y, loss;
    const int64_t rows[] = {-1, WIDTH}, flat[] = {-1};

    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_embedding(graph, "embed", table, bg_slice(graph, "inputs", ids, 1, 0, LENGTH - 1, 1), -1);
    targets = bg_slice(graph, "targets", ids, 1, 1, LENGTH, 1); /* integers that B4 reads */
    x = bg_dropout(graph, NULL, x, 0.1);
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    y = bg_gelu_tanh(graph, bg_linear_layer(graph, "up", bg_layer_norm_layer(graph, "norm1", x, 1e-5), 32, true));
    x = bg_add(graph, x, bg_dropout(graph, NULL, bg_linear_layer(graph, "down", y, WIDTH, true), 0.1));
    bg_block_end(graph);
    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    y = bg_softmax(graph, NULL, bg_matmul(graph, NULL, x, table, false, true), -1);
    x = bg_add(graph, x, bg_matmul(graph, NULL, y, table, false, false)); /* B4 reads the table of B1 twice */
    bg_block_end(graph);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    x = bg_layer_norm_layer(graph, "norm2", x, 1e-5);
    x = bg_linear(graph, "logits", bg_reshape(graph, NULL, x, 2, rows), table, (bg_value){0});
    loss = bg_cross_entropy(graph, "loss", x, bg_reshape(graph, NULL, targets, 1, flat), BG_LOSS_MEAN, -100);
    bg_graph_output(graph, "loss", loss);
    bg_block_end(graph);
    return loss;
}

static bg_value build_tied(bg_graph *graph, int64_t micro_batch)
{
    return build_embedding(graph, micro_batch, 20);
}

/* Builds a model whose table has more rows than an update has ids. */
static bg_value build_rows(bg_graph *graph, int64_t micro_batch)
{
    return build_embedding(graph, micro_batch, 601);
}

static bg_value build_fan(bg_graph *graph, int64_t micro_batch)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, 24);
    const bg_value input = bg_graph_input(graph, "x", &x_type);
    bg_value first, x, parts[3], target, loss;

    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    first = bg_tanh(graph, bg_linear_layer(graph, "one", input, 24, true));
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    x = bg_sigmoid(graph, bg_linear_layer(graph, "two", first, 24, true));
    bg_block_end(graph);
    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    x = bg_multiply(graph, x, first);
    x = bg_gelu(graph, bg_linear_layer(graph, "three", x, 12, false));
    bg_block_end(graph);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    parts[0] = x, parts[1] = first, parts[2] = input;
    x = bg_linear_layer(graph, "four", bg_concat(graph, NULL, parts, 3, 1), 8, true);
    target = bg_slice(graph, NULL, input, 1, 8, 16, 1);
    loss = bg_mse_loss(graph, "loss", x, target, BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", loss);
    bg_block_end(graph);
    return loss;
}

/* Builds a model in which B2 and B3 are independent branches, so they can be concurrent stages. */
static bg_value build_branches(bg_graph *graph, int64_t micro_batch)
{
    const bg_type x_type = bg_matrix(BG_FLOAT32, micro_batch, 20);
    const bg_value input = bg_graph_input(graph, "x", &x_type);
    bg_value trunk, x, parts[2], target, loss;

    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    trunk = bg_tanh(graph, bg_linear_layer(graph, "trunk", input, 16, true));
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    x = bg_relu(graph, bg_linear_layer(graph, "left.up", trunk, 32, true));
    parts[0] = bg_add(graph, trunk, bg_linear_layer(graph, "left.down", x, 16, true)); /* residual */
    bg_block_end(graph);
    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    x = bg_gelu(graph,
                bg_linear_layer(graph, "right.up", bg_layer_norm_layer(graph, "right.norm", trunk, 1e-5), 24, true));
    parts[1] =
        bg_multiply(graph, bg_linear_layer(graph, "right.down", x, 20, false), input); /* also fills the host's data */
    bg_block_end(graph);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    x = bg_linear_layer(graph, "head", bg_concat(graph, NULL, parts, 2, 1), 8, true);
    target = bg_slice(graph, NULL, input, 1, 4, 12, 1);
    loss = bg_mse_loss(graph, "loss", x, target, BG_LOSS_MEAN);
    bg_graph_output(graph, "loss", loss);
    bg_block_end(graph);
    return loss;
}

/* Builds convolutions and transposed convolutions with a skip connection, followed by convolutions over three
 * dimensions and over one. */
static bg_value build_u_shape(bg_graph *graph, int64_t micro_batch)
{
    static const int64_t three[] = {3, 3, 3}, two[] = {2, 2}, uneven[] = {4, 4}, few[] = {3};
    static const float numbers[] = {1, 0.5f, 2, 1, 1, 0.25f, 1, 3, 1, 0.5f};
    const bg_type image_type = bg_tensor4(BG_UINT8, micro_batch, 1, 28, 28),
                  label_type = bg_vector(BG_UINT8, micro_batch), weights_type = bg_vector(BG_FLOAT32, 10);
    const bg_value images = bg_graph_input(graph, "images", &image_type);
    const bg_value labels = bg_graph_input(graph, "labels", &label_type);
    const bg_value weights = bg_graph_constant(graph, "class_weights", &weights_type, numbers);
    bg_interpolate_options smaller = bg_interpolate_defaults(BG_INTERPOLATE_CUBIC);
    bg_conv_options down = bg_conv_defaults(), up = bg_conv_defaults(), same = bg_conv_defaults();
    bg_value x, skip, loss;

    for (int i = 0; i < 3; i++) {
        down.stride[i] = up.stride[i] = 2;
        down.padding[i] = same.padding[i] = 1;
        smaller.size[i] = 9;
    }
    bg_block_begin(graph, "B1", BG_DEVICE_NONE);
    x = bg_standardize(graph, NULL, images, BG_FLOAT32, 255.0f, 0.13f, 0.31f);
    skip = x = bg_relu(graph, bg_conv_layer(graph, "down1", x, 4, three, true, &down));
    bg_block_end(graph);
    bg_block_begin(graph, "B2", BG_DEVICE_NONE);
    x = bg_relu(graph, bg_conv_layer(graph, "down2", x, 8, three, true, &down));
    bg_block_end(graph);
    bg_block_begin(graph, "B3", BG_DEVICE_NONE);
    x = bg_add(graph, bg_conv_transpose_layer(graph, "up", x, 4, two, true, &up), skip);
    x = bg_reshape(graph, NULL, x, 5, (const int64_t[]){micro_batch, 1, 4, 14, 14});
    x = bg_relu(graph, bg_conv_layer(graph, "deep", x, 2, three, true, &same));
    bg_block_end(graph);
    bg_block_begin(graph, "B4", BG_DEVICE_NONE);
    x = bg_interpolate(graph, NULL, bg_reshape(graph, NULL, x, 4, (const int64_t[]){micro_batch, 8, 14, 14}), &smaller);
    x = bg_adaptive_avg_pool(graph, NULL, x, uneven);
    x = bg_conv_layer(graph, "line", bg_reshape(graph, NULL, x, 3, (const int64_t[]){micro_batch, 8, 16}), 6, three,
                      true, NULL);
    x = bg_flatten(graph, NULL, bg_adaptive_max_pool(graph, NULL, x, few));
    x = bg_linear_layer(graph, "head", x, 10, true);
    loss = bg_weighted_cross_entropy(graph, "loss", x, labels, weights, 0.1, BG_LOSS_MEAN, 3);
    bg_graph_output(graph, "loss", loss);
    bg_block_end(graph);
    return loss;
}

const test_model *test_model_at(unsigned index)
{
    static const test_model models[] = {{"digits", build_digits},  {"residual", build_residual}, {"tied", build_tied},
                                        {"fan", build_fan},        {"branches", build_branches}, {"rows", build_rows},
                                        {"u_shape", build_u_shape}};

    return index < sizeof models / sizeof models[0] ? &models[index] : NULL;
}

void *test_model_input(const bg_type *type, const char *name, uint64_t micro_batches)
{
    const size_t size = bg_type_size_bytes(type) * micro_batches;
    const uint64_t samples = (uint64_t)type->dims[0] * micro_batches;
    uint8_t *data = calloc(1, size), *other = malloc(samples * 784);
    const bg_digits_options digits = {.seed = 7, .count = samples};

    if (data == NULL || other == NULL)
        abort();
    if (strcmp(name, "images") == 0)
        bg_digits_generate(&digits, data, other);
    else if (strcmp(name, "labels") == 0 && type->dtype == BG_UINT8)
        bg_digits_generate(&digits, other, data);
    else if (type->dtype == BG_INT32)
        for (size_t i = 0; i < size / 4; i++)
            ((int32_t *)data)[i] = (int32_t)((i * 7 + i / 5 * 3 + (i >> 3)) % 20);
    else
        for (size_t i = 0; i < size / 4; i++)
            ((float *)data)[i] = (float)((i * 2654435761u >> 8) % 2001) / 1000.0f - 1.0f;
    free(other);
    return data;
}
