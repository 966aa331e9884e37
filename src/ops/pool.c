/*
 * pool.c: defines max and average pooling of images and their gradients.
 *
 * Output sizes follow PyTorch: floor((H + 2 padding - dilation (KH-1) - 1) / stride) + 1, or the ceiling; a last window
 * that ceil_mode adds is dropped when it would begin in the padding after the image.
 */
#include <brigade/ops.h>

#include "ops/ops.h"

#include <string.h>

#include "graph/graph.h"
#include "kernels/pool/attributes.h"
#include "ops/shape.h"

static const int64_t largest_size = INT32_MAX;

static bg_status check_options(const bg_pool2d_options *options, bg_error *error)
{
    for (int dim = 0; dim < 2; dim++) {
        const struct {
            const char *name;
            int64_t value, least, most;
        } rules[] = {{"kernel", options->kernel[dim], 1, largest_size},
                     {"stride", options->stride[dim], 1, largest_size},
                     {"dilation", options->dilation[dim], 1, largest_size},
                     {"padding", options->padding[dim], 0, options->kernel[dim] / 2}};

        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
            if (rules[i].value < rules[i].least || rules[i].value > rules[i].most)
                return bg_error_set(error, BG_ERROR_INVALID, "%s[%d] is %lld; it must be between %lld and %lld%s",
                                    rules[i].name, dim, (long long)rules[i].value, (long long)rules[i].least,
                                    (long long)rules[i].most, i == 3 ? " (half the kernel)" : "");
    }
    return BG_OK;
}

/* Returns the number of windows along one dim of `size` elements; 0 when no window fits. */
static int64_t count_windows(const bg_pool2d_options *options, int dim, int64_t size)
{
    const int64_t stride = options->stride[dim], padding = options->padding[dim];
    const int64_t room = size + 2 * padding - options->dilation[dim] * (options->kernel[dim] - 1) - 1 +
                         (options->ceil_mode ? stride - 1 : 0);
    int64_t count;

    if (room < 0)
        return 0;
    count = room / stride + 1;
    if (options->ceil_mode && (count - 1) * stride >= size + padding)
        count--;
    return count;
}

/* Returns whether every window has a tap inside the image; a dilated window with all taps in the padding has no largest
 * element. */
static bool every_window_sees_the_image(const bg_pool2d_options *options, int dim, int64_t size, int64_t count)
{
    for (int64_t out = 0; options->dilation[dim] > 1 && out < count; out++) {
        int64_t at = out * options->stride[dim] - options->padding[dim];

        while (at < 0)
            at += options->dilation[dim];
        if (at >= size)
            return false;
    }
    return true;
}

/* Checks the sizes of an adaptive pool; both sizes are given, or neither. */
static bg_status check_sizes(const bgi_pool2d_attributes *attributes, bg_error *error)
{
    const bg_pool2d_options *o = &attributes->options;

    for (int dim = 0; dim < 2; dim++) {
        if (attributes->sizes[dim] < 1 || attributes->sizes[dim] > largest_size)
            return bg_error_set(error, BG_ERROR_INVALID, "sizes[%d] is %lld; it must be between 1 and %lld", dim,
                                (long long)attributes->sizes[dim], (long long)largest_size);
        if (o->kernel[dim] != 1 || o->stride[dim] != 1 || o->dilation[dim] != 1 || o->padding[dim] != 0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "sizes are given, so kernel[%d], stride[%d] and dilation[%d] must be 1, and padding 0",
                                dim, dim, dim);
    }
    return BG_OK;
}

static bg_status infer_pooled(const bg_type *x, const bgi_pool2d_attributes *attributes, bool is_max, bg_type *out_y,
                              bg_error *error)
{
    const bg_pool2d_options *options = &attributes->options;
    char text[BG_TYPE_TEXT_BYTES];
    bg_type y = *x;

    BGI_TRY(check_options(options, error));
    BGI_TRY(bgi_shape_float(x, "x", error));
    BGI_TRY(bgi_shape_rank(x, "x", 4, "[N,C,H,W]", error));
    if (x->dims[2] > largest_size / x->dims[3])
        return bg_error_set(error, BG_ERROR_SHAPE, "x is %s; height x width must be at most %lld",
                            bg_type_text(x, text), (long long)largest_size);
    if (attributes->sizes[0] != 0 || attributes->sizes[1] != 0) {
        if (!is_max)
            return bg_error_set(error, BG_ERROR_INVALID, "sizes are given, but only max pools support sizes");
        BGI_TRY(check_sizes(attributes, error));
        memcpy(y.dims + 2, attributes->sizes, sizeof attributes->sizes);
        *out_y = y;
        return BG_OK;
    }
    for (int dim = 0; dim < 2; dim++) {
        y.dims[2 + dim] = count_windows(options, dim, x->dims[2 + dim]);
        if (y.dims[2 + dim] < 1)
            return bg_error_set(
                error, BG_ERROR_SHAPE,
                "x is %s; its dimension %d with padding %lld must be at least %lld (kernel %lld, dilation %lld)",
                bg_type_text(x, text), 2 + dim, (long long)options->padding[dim],
                (long long)(options->dilation[dim] * (options->kernel[dim] - 1) + 1), (long long)options->kernel[dim],
                (long long)options->dilation[dim]);
        if (!every_window_sees_the_image(options, dim, x->dims[2 + dim], y.dims[2 + dim]))
            return bg_error_set(
                error, BG_ERROR_SHAPE,
                "x is %s: a window lies entirely in the padding along dimension %d; dilation %lld must be "
                "at most %lld",
                bg_type_text(x, text), 2 + dim, (long long)options->dilation[dim], (long long)x->dims[2 + dim]);
    }
    *out_y = y;
    return BG_OK;
}

/* Counts one operation for each element of each window, or for each element of x if windows have different sizes. */
static bg_cost cost_windows(const bg_op_signature *op, const bgi_pool2d_attributes *attributes, const bg_type *x,
                            const bg_type *y)
{
    const double window = (double)attributes->options.kernel[0] * (double)attributes->options.kernel[1];

    return bgi_cost_once(op, attributes->sizes[0] > 0 ? bgi_type_elements(x) : bgi_type_elements(y) * window);
}

static bg_cost cost_pool(const bg_op_signature *op)
{
    return cost_windows(op, op->attributes, &op->types[0], &op->types[op->input_count]);
}

static bg_cost cost_pool_backward(const bg_op_signature *op)
{
    const bgi_pool2d_backward_attributes *attributes = op->attributes;

    return cost_windows(op, &attributes->forward, &attributes->result, &op->types[0]);
}

static bgi_pool2d_backward_attributes backward_attributes(const bg_op_gradient *gradient)
{
    return (bgi_pool2d_backward_attributes){.forward = *(const bgi_pool2d_attributes *)gradient->op.attributes,
                                            .result = gradient->op.types[0]};
}

/* Checks both backward ops: dy must have the type that pooling gives for dx's type. */
static bg_status infer_backward(const bg_op_signature *op, bool is_max, bg_type *outputs, bg_error *error)
{
    const bgi_pool2d_backward_attributes *attributes = op->attributes;
    bg_type y;

    BGI_TRY(bg_type_validate(&attributes->result, error));
    BGI_TRY(infer_pooled(&attributes->result, &attributes->forward, is_max, &y, error));
    BGI_TRY(bgi_shape_equal(&op->types[0], "dy", &y, "the pooled output", error));
    outputs[0] = attributes->result;
    return BG_OK;
}

/* ---- max ---- */

static bg_type where_type(bg_type pooled)
{
    pooled.dtype = BG_INT32;
    return pooled;
}

static bg_status infer_max_pool2d(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    BGI_TRY(infer_pooled(&op->types[0], op->attributes, true, &outputs[0], error));
    outputs[1] = where_type(outputs[0]);
    return BG_OK;
}

static bg_status differentiate_max_pool2d(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_pool2d_backward_attributes attributes = backward_attributes(gradient);
    bg_value inputs[2] = {{0}, gradient->outputs[1]};

    BGI_TRY(bgi_gradient_of_result(gradient, &inputs[0], error));
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_max_pool2d_backward, NULL, inputs, 2, &attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

BGI_OP_KERNEL(select_max_pool2d, MAX_POOL2D)

const bg_op_type bgi_op_max_pool2d = {
    BG_OP_TYPE_DEFAULTS,       .name = "max_pool2d",
    .minimum_inputs = 1,       .maximum_inputs = 1,
    .output_count = 2,         .attributes_bytes = sizeof(bgi_pool2d_attributes),
    .infer = infer_max_pool2d, .gradient = differentiate_max_pool2d,
    .cost = cost_pool,         .kernel = select_max_pool2d,
};

static bg_status infer_max_pool2d_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bg_type where = where_type(op->types[0]);

    BGI_TRY(infer_backward(op, true, outputs, error));
    return bgi_shape_equal(&op->types[1], "where", &where, "the indices of the forward op", error);
}

BGI_OP_KERNEL(select_max_pool2d_backward, MAX_POOL2D_BACKWARD)

const bg_op_type bgi_op_max_pool2d_backward = {
    BG_OP_TYPE_DEFAULTS,
    .name = "max_pool2d_backward",
    .minimum_inputs = 2,
    .maximum_inputs = 2,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_pool2d_backward_attributes),
    .infer = infer_max_pool2d_backward,
    .cost = cost_pool_backward,
    .kernel = select_max_pool2d_backward,
};

/* ---- average ---- */

static bg_status infer_avg_pool2d(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    const bgi_pool2d_attributes *attributes = op->attributes;

    if (attributes->options.dilation[0] != 1 || attributes->options.dilation[1] != 1)
        return bg_error_set(error, BG_ERROR_INVALID, "dilation is %lld x %lld: average pooling supports only 1",
                            (long long)attributes->options.dilation[0], (long long)attributes->options.dilation[1]);
    return infer_pooled(&op->types[0], attributes, false, &outputs[0], error);
}

static bg_status differentiate_avg_pool2d(bg_op_gradient *gradient, bg_error *error)
{
    const bgi_pool2d_backward_attributes attributes = backward_attributes(gradient);
    bg_value dy;

    BGI_TRY(bgi_gradient_of_result(gradient, &dy, error));
    if (gradient->needs[0])
        gradient->input_gradients[0] =
            bg_graph_add(gradient->graph, &bgi_op_avg_pool2d_backward, NULL, &dy, 1, &attributes, NULL);
    return bg_graph_check(gradient->graph, error);
}

BGI_OP_KERNEL(select_avg_pool2d, AVG_POOL2D)

const bg_op_type bgi_op_avg_pool2d = {
    BG_OP_TYPE_DEFAULTS,       .name = "avg_pool2d",
    .minimum_inputs = 1,       .maximum_inputs = 1,
    .output_count = 1,         .attributes_bytes = sizeof(bgi_pool2d_attributes),
    .infer = infer_avg_pool2d, .gradient = differentiate_avg_pool2d,
    .cost = cost_pool,         .kernel = select_avg_pool2d,
};

static bg_status infer_avg_pool2d_backward(const bg_op_signature *op, bg_type *outputs, bg_error *error)
{
    return infer_backward(op, false, outputs, error);
}

BGI_OP_KERNEL(select_avg_pool2d_backward, AVG_POOL2D_BACKWARD)

const bg_op_type bgi_op_avg_pool2d_backward = {
    BG_OP_TYPE_DEFAULTS,
    .name = "avg_pool2d_backward",
    .minimum_inputs = 1,
    .maximum_inputs = 1,
    .output_count = 1,
    .attributes_bytes = sizeof(bgi_pool2d_backward_attributes),
    .infer = infer_avg_pool2d_backward,
    .cost = cost_pool_backward,
    .kernel = select_avg_pool2d_backward,
};

/* ---- builders ---- */

void bg_pool2d_options_init(bg_pool2d_options *options, size_t struct_bytes, int64_t kernel_size)
{
    const bg_pool2d_options made = {.struct_bytes = struct_bytes,
                                    .kernel = {kernel_size, kernel_size},
                                    .dilation = {1, 1},
                                    .ceil_mode = false,
                                    .count_include_pad = true};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

static bg_value add_pool(bg_graph *graph, const bg_op_type *op_type, const char *name, bg_value x,
                         const bg_pool2d_options *options)
{
    bgi_pool2d_attributes attributes;
    bg_pool2d_options *own = &attributes.options;

    if (options == NULL) {
        bgi_graph_fail_op(graph, op_type->name, name, BG_ERROR_INVALID,
                          "options is NULL; start from bg_pool2d_defaults(kernel)");
        return (bg_value){0};
    }
    if (!bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_pool2d_options",
                                "bg_pool2d_defaults(kernel)"))
        return (bg_value){0};
    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    for (int dim = 0; dim < 2; dim++) {
        own->kernel[dim] = options->kernel[dim];
        own->stride[dim] = options->stride[dim] == 0 ? options->kernel[dim] : options->stride[dim];
        own->padding[dim] = options->padding[dim];
        own->dilation[dim] = options->dilation[dim];
    }
    own->ceil_mode = options->ceil_mode;
    own->count_include_pad = options->count_include_pad;
    return bg_graph_add(graph, op_type, name, &x, 1, &attributes, NULL);
}

bg_value bg_max_pool2d(bg_graph *graph, const char *name, bg_value x, const bg_pool2d_options *options)
{
    return add_pool(graph, &bgi_op_max_pool2d, name, x, options);
}

bg_value bg_avg_pool2d(bg_graph *graph, const char *name, bg_value x, const bg_pool2d_options *options)
{
    return add_pool(graph, &bgi_op_avg_pool2d, name, x, options);
}

bg_value bgi_adaptive_max_pool2d(bg_graph *graph, const char *name, bg_value x, const int64_t sizes[2])
{
    bgi_pool2d_attributes attributes;

    memset(&attributes, 0, sizeof attributes); /* zeroes padding bytes too: see bg_op_type */
    for (int dim = 0; dim < 2; dim++) {
        attributes.options.kernel[dim] = attributes.options.stride[dim] = attributes.options.dilation[dim] = 1;
        attributes.sizes[dim] = sizes[dim];
    }
    return bg_graph_add(graph, &bgi_op_max_pool2d, name, &x, 1, &attributes, NULL);
}
