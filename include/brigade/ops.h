/*
 * ops.h: the library's ops. Each function adds one op (or a few) to a graph, checks the shapes, and returns the op's
 * output. Layouts: images are [N, C, H, W]; convolution weights [O, C/groups, KH, KW]; linear weights [out, in]. Float
 * ops accept float32, bfloat16, float16 and float64. All float operands of an op have one type unless a comment says
 * otherwise, and sums are kept in float32 or better. Elementwise functions, matrix products, bg_linear and bg_conv2d
 * also accept a mixture of float32 and 16-bit types, and then compute in float32. `name` may be NULL.
 *
 * Threads: one thread at a time uses a graph; different graphs are independent.
 *
 * Errors: a function that fails returns the null value, and so does every later function. The graph keeps the first
 * error, and bg_graph_check returns it. BG_ERROR_SHAPE means that the type, rank or dimensions of an operand do not
 * fit, BG_ERROR_INVALID that an option or a count is out of range or an array is NULL, BG_ERROR_MEMORY that the graph
 * could not grow. Each section lists its conditions.
 *
 * Shapes: the result has the shape and the element type of x unless a function says otherwise.
 */
#ifndef BRIGADE_OPS_H
#define BRIGADE_OPS_H

#include <brigade/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- convolution and pooling ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if operands are not floats of one type, have another rank, if channels and
 * groups do not match, or if a filter or a window is larger than the padded x; BG_ERROR_INVALID if a kernel size,
 * stride, padding, dilation or number of groups is out of range, or if the options of a pool are NULL;
 * BG_ERROR_MEMORY. */

typedef struct bg_conv2d_options {
    size_t struct_bytes; /* set by bg_conv2d_defaults; see base.h */
    int64_t stride[2];   /* height, width; at least 1 */
    int64_t padding[2];  /* zeros added on both sides */
    int64_t dilation[2]; /* at least 1 */
    int64_t groups;      /* divides C and O */
} bg_conv2d_options;

BG_API void bg_conv2d_options_init(bg_conv2d_options *options, size_t struct_bytes);
/* Defaults: stride 1, padding 0, dilation 1, groups 1. */
static inline bg_conv2d_options bg_conv2d_defaults(void)
{
    bg_conv2d_options options;

    bg_conv2d_options_init(&options, sizeof options);
    return options;
}

/* Convolves x [N,C,H,W] with weight [O,C/groups,KH,KW] and adds bias [O] or null -> [N,O,OH,OW], OH = floor((H + 2
 * padding - dilation (KH-1) - 1) / stride) + 1. options NULL: defaults. */
BG_API bg_value bg_conv2d(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                          const bg_conv2d_options *options);

typedef struct bg_conv_options {
    size_t struct_bytes; /* set by bg_conv_defaults; see base.h */
    /* One number for each dimension of x after its channels; the remaining elements are not read. */
    int64_t stride[3];  /* at least 1 */
    int64_t padding[3]; /* zeros added on both sides; a transposed convolution removes this number of elements from both
                           sides of its result */
    int64_t dilation[3];       /* at least 1 */
    int64_t output_padding[3]; /* transposed convolutions: added to the end of the result; less than the stride */
    int64_t groups;            /* divides C and O */
} bg_conv_options;

BG_API void bg_conv_options_init(bg_conv_options *options, size_t struct_bytes);
/* Defaults: stride 1, padding 0, dilation 1, groups 1. */
static inline bg_conv_options bg_conv_defaults(void)
{
    bg_conv_options options;

    bg_conv_options_init(&options, sizeof options);
    return options;
}

/* Convolves over one, two or three dimensions: x [N,C,L], [N,C,H,W] or [N,C,D,H,W], weight [O,C/groups,..] with one
 * size for each of these dimensions, bias [O] or null -> [N,O,..], with sizes as in bg_conv2d. The op is built from
 * bg_conv2d; in three dimensions it convolves one copy of x's planes for each plane of the filter. options NULL:
 * defaults. Errors, in bg_graph_check: BG_ERROR_SHAPE if x, weight and bias do not fit each other, or the result would
 * be empty; BG_ERROR_INVALID for a stride, padding, dilation or number of groups out of range; BG_ERROR_MEMORY. */
BG_API bg_value bg_conv(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                        const bg_conv_options *options);
/* Computes a transposed convolution, as torch's conv_transpose1d, 2d and 3d: x as for bg_conv, weight [C,O/groups,..],
 * bias [O] or null -> [N,O,..], OH = (H - 1) stride - 2 padding + dilation (KH-1) + output_padding + 1. The op uses the
 * kernels of bg_conv2d's gradients. Errors, in bg_graph_check: as bg_conv, and BG_ERROR_INVALID for an output_padding
 * that is not below the stride. */
BG_API bg_value bg_conv_transpose(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                                  const bg_conv_options *options);

typedef struct bg_pool2d_options {
    size_t struct_bytes; /* set by bg_pool2d_defaults; see base.h */
    int64_t kernel[2];
    int64_t stride[2];   /* 0: the kernel's size */
    int64_t padding[2];  /* at most half the kernel */
    int64_t dilation[2]; /* max pool; must be 1 for an average pool */
    bool ceil_mode;
    bool count_include_pad; /* average pool; PyTorch's default is true */
} bg_pool2d_options;

BG_API void bg_pool2d_options_init(bg_pool2d_options *options, size_t struct_bytes, int64_t kernel_size);
static inline bg_pool2d_options bg_pool2d_defaults(int64_t kernel_size)
{
    bg_pool2d_options options;

    bg_pool2d_options_init(&options, sizeof options, kernel_size);
    return options;
}

/* Takes the first largest element of each window; NaN counts as the largest. Shapes: x [N,C,H,W] -> [N,C,OH,OW]. */
BG_API bg_value bg_max_pool2d(bg_graph *graph, const char *name, bg_value x, const bg_pool2d_options *options);
BG_API bg_value bg_avg_pool2d(bg_graph *graph, const char *name, bg_value x, const bg_pool2d_options *options);

/* ---- pools over one, two or three dimensions ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if x is not a float of one of these ranks, or is smaller than a window;
 * BG_ERROR_INVALID if options are NULL, or a kernel size, stride, padding, dilation or element of `sizes` is out of
 * range; BG_ERROR_MEMORY. */

typedef struct bg_pool_options {
    size_t struct_bytes; /* set by bg_pool_defaults; see base.h */
    /* One number for each dimension of x after its channels; the remaining elements are not read. */
    int64_t kernel[3];
    int64_t stride[3];   /* 0: the kernel's size */
    int64_t padding[3];  /* at most half the kernel */
    int64_t dilation[3]; /* max pool; must be 1 for an average pool */
    bool ceil_mode;
    bool count_include_pad; /* average pool; PyTorch's default is true */
} bg_pool_options;

BG_API void bg_pool_options_init(bg_pool_options *options, size_t struct_bytes, int64_t kernel_size);
static inline bg_pool_options bg_pool_defaults(int64_t kernel_size)
{
    bg_pool_options options;

    bg_pool_options_init(&options, sizeof options, kernel_size);
    return options;
}

/* Pools x [N,C,L], [N,C,H,W] or [N,C,D,H,W] by means of bg_max_pool2d or bg_avg_pool2d; in three dimensions first over
 * planes, then over depth. Errors, in bg_graph_check: BG_ERROR_SHAPE if x is not a float of one of these ranks, or is
 * smaller than a window; BG_ERROR_INVALID if options are NULL or one of them is out of range; BG_ERROR_MEMORY. Shapes:
 * x [N,C,..] -> [N,C,..] with the sizes of the windows. */
BG_API bg_value bg_max_pool(bg_graph *graph, const char *name, bg_value x, const bg_pool_options *options);
BG_API bg_value bg_avg_pool(bg_graph *graph, const char *name, bg_value x, const bg_pool_options *options);
/* Pools x to `sizes`, one number for each dimension after its channels (NULL: 1 each, a global pool), like PyTorch's
 * adaptive pools: window i of `size` has the elements from floor(i H / size) to ceil((i + 1) H / size) - 1. If the
 * sizes do not divide x's, neighboring windows share elements. Shapes: x [N,C,..] -> [N,C,sizes..]. */
BG_API bg_value bg_adaptive_max_pool(bg_graph *graph, const char *name, bg_value x, const int64_t *sizes);
BG_API bg_value bg_adaptive_avg_pool(bg_graph *graph, const char *name, bg_value x, const int64_t *sizes);

/* ---- interpolation ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if x is not a float of one of these ranks; BG_ERROR_INVALID if options are
 * NULL, a mode does not exist, a size or scale is negative or gives no elements, or `cubic` is not finite;
 * BG_ERROR_MEMORY. */

typedef enum bg_interpolation {
    BG_INTERPOLATE_NEAREST = 0,
    BG_INTERPOLATE_LINEAR, /* between two neighbors along each axis: bilinear, trilinear */
    BG_INTERPOLATE_CUBIC,  /* between four neighbors */
    BG_INTERPOLATE_AREA,   /* the mean of a window, as in an adaptive average pool; coordinates are not read */
    BG_INTERPOLATION_COUNT
} bg_interpolation;

/* The position in x of element o of the result, named as in ONNX's Resize; s is the result's size divided by x's. */
typedef enum bg_coordinates {
    BG_COORDINATES_HALF_PIXEL = 0,     /* (o + 1/2) / s - 1/2: PyTorch's align_corners=False */
    BG_COORDINATES_ALIGN_CORNERS,      /* o (size of x - 1) / (size of the result - 1) */
    BG_COORDINATES_ASYMMETRIC,         /* o / s */
    BG_COORDINATES_PYTORCH_HALF_PIXEL, /* half_pixel, or 0 where the result has one element */
    BG_COORDINATES_COUNT
} bg_coordinates;

/* The rule for the nearest neighbor of a position between two elements. */
typedef enum bg_nearest {
    BG_NEAREST_FLOOR = 0,
    BG_NEAREST_CEIL,
    BG_NEAREST_PREFER_FLOOR, /* the nearer one; the lower one if both are equally near */
    BG_NEAREST_PREFER_CEIL,  /* the nearer one; the upper one if both are equally near */
    BG_NEAREST_COUNT
} bg_nearest;

typedef struct bg_interpolate_options {
    size_t struct_bytes; /* set by bg_interpolate_defaults; see base.h */
    bg_interpolation mode;
    bg_coordinates coordinates;
    bg_nearest nearest;
    double cubic; /* the coefficient of BG_INTERPOLATE_CUBIC */
    /* One number for each dimension of x after its channels; the remaining elements are not read. If size and scale are
     * both 0, the dimension keeps its size. */
    int64_t size[3]; /* 0: floor(x's size x scale) */
    double scale[3]; /* the factor s above; 0: the exact ratio of the sizes */
} bg_interpolate_options;

BG_API void bg_interpolate_options_init(bg_interpolate_options *options, size_t struct_bytes, bg_interpolation mode);
/* Sets PyTorch's defaults: asymmetric coordinates and floor for nearest, half_pixel otherwise; a cubic coefficient of
 * -0.75. */
static inline bg_interpolate_options bg_interpolate_defaults(bg_interpolation mode)
{
    bg_interpolate_options options;

    bg_interpolate_options_init(&options, sizeof options, mode);
    return options;
}

/* Resizes x [N,C,L], [N,C,H,W] or [N,C,D,H,W] to other sizes after the channels, axis by axis. Positions are computed
 * in double; neighbors outside x are replaced by its edge. Elements with weight 0 may be read, so an element that is
 * not finite can make its neighbors not finite. Errors, in bg_graph_check: BG_ERROR_SHAPE if x is not a float of one of
 * these ranks; BG_ERROR_INVALID if options are NULL, a mode does not exist, a size or scale is negative or gives no
 * elements, or `cubic` is not finite; BG_ERROR_MEMORY. */
BG_API bg_value bg_interpolate(bg_graph *graph, const char *name, bg_value x, const bg_interpolate_options *options);

/* ---- matrix products ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if operands are not floats, if the summed dimensions differ, or if leading
 * dimensions do not broadcast; BG_ERROR_MEMORY. */

/* Computes x weight^T + bias: x [..., in], weight [out, in], bias [out] or null -> [..., out]. */
BG_API bg_value bg_linear(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias);
/* Multiplies a [..., M, K] by b [..., K, N], with the last two dims transposed on request -> [..., M, N]. Leading dims
 * broadcast. */
BG_API bg_value bg_matmul(bg_graph *graph, const char *name, bg_value a, bg_value b, bool transpose_a,
                          bool transpose_b);

/* Computes sums of products with named dimensions, as torch.einsum: "bij,bjk->bik". Each operand has one letter for
 * each of its dimensions. The op sums over letters that the result does not have. Without "->" the result has the
 * letters that occur once, in alphabetical order, capitals first. The op takes 1 to 16 operands and multiplies them
 * from the left, with transposes and batched products. A letter must not occur twice in one operand, and "..." is not
 * supported. Errors, in bg_graph_check: BG_ERROR_INVALID for an equation that cannot be read or does not fit the number
 * of operands; BG_ERROR_SHAPE for operands that are not floats of one type, an operand with another number of
 * dimensions than letters, or a letter with two sizes; BG_ERROR_UNSUPPORTED for a product of two operands that would
 * have more than BG_MAX_RANK dimensions; BG_ERROR_MEMORY. Shapes: the letters after "->". */
BG_API bg_value bg_einsum(bg_graph *graph, const char *name, const char *equation, const bg_value *operands,
                          uint32_t count);

/* ---- elementwise ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if x is not a float (for functions of two operands: a float, int32 or
 * int64), or if a and b have different types or do not broadcast; BG_ERROR_INVALID if a function or element type does
 * not exist, or a parameter is out of range; BG_ERROR_MEMORY. */

/* Functions of one float element, with PyTorch's gradients where a derivative jumps. Some have parameters a and b
 * (bg_elementwise_function); the values below are defaults. */
typedef enum bg_unary {
    BG_RELU = 0,
    BG_GELU,      /* exact, by the error function */
    BG_GELU_TANH, /* the tanh approximation */
    BG_TANH,
    BG_SIGMOID,
    BG_EXP,
    BG_LOG,
    BG_SQRT,
    BG_SQUARE,
    BG_NEGATE,
    BG_ABS,
    BG_RECIPROCAL,
    BG_SILU,        /* x sigmoid(x), also known as swish */
    BG_MISH,        /* x tanh(softplus(x)) */
    BG_SOFTSIGN,    /* x / (1 + |x|) */
    BG_LOG_SIGMOID, /* log(sigmoid(x)) */
    BG_HARD_SWISH,  /* x clamp(x / 6 + 1/2, 0, 1) */
    BG_RSQRT,       /* 1 / sqrt(x) */
    BG_LOG1P,       /* log(1 + x) */
    BG_EXPM1,       /* e^x - 1 */
    BG_ERF,         /* the error function */
    BG_SIGN,        /* -1, 0 or 1; NaN gives 0. The gradient of SIGN and of the four rounding functions is zero */
    BG_ROUND,       /* to the nearest whole number, ties to even */
    BG_FLOOR,       /* down */
    BG_CEIL,        /* up */
    BG_TRUNC,       /* towards zero */
    BG_SIN,         /* of radians */
    BG_COS,
    BG_TAN,
    BG_ASIN,
    BG_ACOS,
    BG_ATAN,
    BG_SINH,
    BG_COSH,
    BG_ASINH,
    BG_ACOSH,
    BG_ATANH,
    BG_SOFTPLUS,     /* log(1 + e^(a x)) / a; x where a x > b. a = 1, b = 20 */
    BG_ELU,          /* x where x is above 0, a (e^x - 1) elsewhere. a = 1 */
    BG_LEAKY_RELU,   /* x where x is above 0, a x elsewhere. a = 0.01 */
    BG_HARD_SIGMOID, /* clamp(a x + b, 0, 1). a = 1/6, b = 1/2 */
    BG_CLAMP,        /* a where x is below a, b where x is above b; either may be infinite. a = 0, b = 6: relu6 */
    BG_POWER,        /* x^a. a = 2 */
    BG_UNARY_COUNT
} bg_unary;
/* Applies a function with the parameters that are listed beside its name above. Errors, in bg_graph_check:
 * BG_ERROR_SHAPE if x is not a float; BG_ERROR_INVALID for a function that does not exist; BG_ERROR_MEMORY. */
BG_API bg_value bg_elementwise_unary(bg_graph *graph, const char *name, bg_unary function, bg_value x);
/* Applies a function with the given parameters; functions without parameters ignore them. Errors, in bg_graph_check: as
 * bg_elementwise_unary, and BG_ERROR_INVALID for a parameter that is NaN, a clamp with a above b, a softplus with a not
 * above 0, and other parameters that are not finite. */
BG_API bg_value bg_elementwise_function(bg_graph *graph, const char *name, bg_unary function, double a, double b,
                                        bg_value x);

typedef enum bg_binary {
    BG_ADD = 0,
    BG_SUBTRACT,
    BG_MULTIPLY,
    BG_DIVIDE,
    BG_MAXIMUM,
    BG_MINIMUM,
    BG_BINARY_COUNT
} bg_binary;
/* Operands broadcast as in NumPy. Both are floats, int32 or int64, of one element type (floats of 16 and 32 bits may be
 * mixed and give float32). Integers are computed exactly and wrap around on overflow. Their quotient truncates toward
 * zero, and x / 0 is 0. No gradient flows through integers. Errors, in bg_graph_check: BG_ERROR_SHAPE for operands that
 * do not have these types, or do not broadcast; BG_ERROR_INVALID for a function that does not exist; BG_ERROR_MEMORY.
 * Shapes: a and b broadcast to the result. */
BG_API bg_value bg_elementwise_binary(bg_graph *graph, const char *name, bg_binary function, bg_value a, bg_value b);

/* Each function applies the unary function of its name, as bg_elementwise_unary or bg_elementwise_function does. */
BG_API bg_value bg_relu(bg_graph *graph, bg_value x);
BG_API bg_value bg_gelu(bg_graph *graph, bg_value x);
BG_API bg_value bg_gelu_tanh(bg_graph *graph, bg_value x);
BG_API bg_value bg_tanh(bg_graph *graph, bg_value x);
BG_API bg_value bg_sigmoid(bg_graph *graph, bg_value x);
BG_API bg_value bg_silu(bg_graph *graph, bg_value x);
BG_API bg_value bg_clamp(bg_graph *graph, bg_value x, double lowest, double highest);
BG_API bg_value bg_power(bg_graph *graph, bg_value x, double exponent);
/* Each function applies the binary function of its name, as bg_elementwise_binary does. Shapes: a and b broadcast to
 * the result. */
BG_API bg_value bg_add(bg_graph *graph, bg_value a, bg_value b);
BG_API bg_value bg_subtract(bg_graph *graph, bg_value a, bg_value b);
BG_API bg_value bg_multiply(bg_graph *graph, bg_value a, bg_value b);
BG_API bg_value bg_divide(bg_graph *graph, bg_value a, bg_value b);

/* Computes alpha * x + beta. Integers (int32, int64) are computed in double, truncated and saturated, which is exact
 * for magnitudes up to 2^53. bg_add and bg_multiply with a constant are exact for all integers. */
BG_API bg_value bg_scale(bg_graph *graph, const char *name, bg_value x, double alpha, double beta);
/* Converts to another element type. Values of a float result are rounded to nearest even. From float to integer, values
 * are truncated and saturate. From integer to integer, values saturate. Conversions from or to integers have no
 * gradient. */
BG_API bg_value bg_cast(bg_graph *graph, const char *name, bg_value x, bg_dtype dtype);
/* Computes (x / divisor - mean) / deviation in float32 in this order, as in torchvision's transforms; x may be uint8.
 * The result has type `dtype`. */
BG_API bg_value bg_standardize(bg_graph *graph, const char *name, bg_value x, bg_dtype dtype, float divisor, float mean,
                               float deviation);

/* ---- comparisons ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if operands have different types or do not broadcast, a condition is not
 * uint8, or x has too few dimensions; BG_ERROR_INVALID if a function does not exist or an operand is the null value;
 * BG_ERROR_MEMORY. */

typedef enum bg_comparison {
    BG_LESS = 0,
    BG_LESS_EQUAL,
    BG_EQUAL,
    BG_NOT_EQUAL,
    BG_GREATER,
    BG_GREATER_EQUAL,
    BG_COMPARISON_COUNT
} bg_comparison;
/* Returns uint8: 1 where `a comparison b` is true, 0 elsewhere. Operands broadcast as in NumPy and may have any element
 * type, which must be the same for both (floats of 16 and 32 bits may be mixed). As in C, NaN is not equal to anything,
 * and neither less nor greater. No gradient. A loop's condition and bg_run.stop can read a scalar result. Errors, in
 * bg_graph_check: BG_ERROR_SHAPE for operands of different types, or operands that do not broadcast; BG_ERROR_INVALID
 * for a comparison that does not exist; BG_ERROR_MEMORY. Shapes: a and b broadcast to the result. */
BG_API bg_value bg_compare(bg_graph *graph, const char *name, bg_comparison comparison, bg_value a, bg_value b);
/* Selects a where the condition (uint8, as from bg_compare) is not 0, and b elsewhere. All three broadcast as in NumPy;
 * a and b may have any element type, which must be the same for both (floats of 16 and 32 bits may be mixed). The
 * gradients of float a and b are the result's gradient for selected elements, and 0 elsewhere, even where the gradient
 * of the result is infinite or NaN. Errors, in bg_graph_check: BG_ERROR_SHAPE if the condition is not uint8, a and b
 * have different types, or the three do not broadcast; BG_ERROR_MEMORY. Shapes: all three broadcast to the result. */
BG_API bg_value bg_where(bg_graph *graph, const char *name, bg_value condition, bg_value a, bg_value b);

typedef enum bg_logic {
    BG_LOGIC_AND = 0,
    BG_LOGIC_OR,
    BG_LOGIC_XOR, /* exactly one of the two */
    BG_LOGIC_COUNT
} bg_logic;
/* Computes a logical function as uint8, 1 or 0; values other than 0 count as true. Operands of any element types
 * broadcast as in NumPy. No gradient. Errors, in bg_graph_check: BG_ERROR_SHAPE if a and b do not broadcast;
 * BG_ERROR_INVALID for a function that does not exist or a null operand; BG_ERROR_MEMORY. Shapes: a and b broadcast to
 * the result. */
BG_API bg_value bg_logical(bg_graph *graph, const char *name, bg_logic function, bg_value a, bg_value b);
/* Returns 1 where x equals 0, and 0 elsewhere. */
BG_API bg_value bg_logical_not(bg_graph *graph, const char *name, bg_value x);
/* Returns x [..., R, C] with zeros below the diagonal (upper) or above it (not upper), as torch.triu and tril;
 * `diagonal` moves the diagonal this many elements to the right, or to the left if it is negative. Any element type. */
BG_API bg_value bg_triangle(bg_graph *graph, const char *name, bg_value x, bool upper, int64_t diagonal);
/* Returns x where x is above 0 and slope x elsewhere, as torch.prelu: slope has one number, or one for each channel
 * (dimension 1 of x). Gradients flow to both. Errors, in bg_graph_check: BG_ERROR_SHAPE if x and slope are not floats
 * of one type, or slope has another number of elements; BG_ERROR_MEMORY. */
BG_API bg_value bg_prelu(bg_graph *graph, const char *name, bg_value x, bg_value slope);

/* ---- reductions and shapes ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if x does not have an axis, if the elements of x do not fill the dims, or
 * if values do not agree; BG_ERROR_INVALID if an array is NULL, a function does not exist, an axis is listed twice, a
 * step or a number of repetitions is below 1, or the number of values to stack is not from 1 to 60; BG_ERROR_MEMORY. */

typedef enum bg_reduction { BG_REDUCE_SUM = 0, BG_REDUCE_MEAN, BG_REDUCE_MAX, BG_REDUCTION_COUNT } bg_reduction;
/* Reduces x over `axes` (negative axes count from the end; axis_count 0: all). keep_dims leaves these axes with size 1.
 * Sums and maxima also accept int32 and int64; integer sums wrap around. The gradient of MAX goes to the first largest
 * element, as in torch.max over a dimension (torch.amax divides it among equal elements). Shapes: x without the axes,
 * or with size 1 for each of them. */
BG_API bg_value bg_reduce(bg_graph *graph, const char *name, bg_reduction function, bg_value x, const int32_t *axes,
                          uint32_t axis_count, bool keep_dims);
/* Finds the index of the first largest element along the last dim: [..., C] -> int32 [...]. */
BG_API bg_value bg_argmax(bg_graph *graph, const char *name, bg_value x);
/* Broadcasts x to the given dims by NumPy's rules; the dtype does not change. Shapes: the given dims. */
BG_API bg_value bg_broadcast(bg_graph *graph, const char *name, bg_value x, uint32_t rank, const int64_t *dims);
/* Reshapes x; one dim may be -1. No data are moved. Shapes: the given dims. */
BG_API bg_value bg_reshape(bg_graph *graph, const char *name, bg_value x, uint32_t rank, const int64_t *dims);
/* Reshapes [N, ...] to [N, product of the other dimensions]. */
BG_API bg_value bg_flatten(bg_graph *graph, const char *name, bg_value x);
/* Permutes dims: output dim i is input dim permutation[i]. Shapes: the dims of x in the order of the permutation. */
BG_API bg_value bg_transpose(bg_graph *graph, const char *name, bg_value x, const uint32_t *permutation);
/* Selects the elements start, start+step, ... below stop along `axis`. Negative start and stop count from the end;
 * after this conversion, 0 <= start < stop <= size must hold. step is at least 1. Shapes: x with ceil((stop - start) /
 * step) elements along the axis. */
BG_API bg_value bg_slice(bg_graph *graph, const char *name, bg_value x, int32_t axis, int64_t start, int64_t stop,
                         int64_t step);
/* Concatenates values along an axis; more than 60 values are concatenated in steps. Shapes: values that agree in all
 * dims but the axis -> the sum of their sizes along the axis. */
BG_API bg_value bg_concat(bg_graph *graph, const char *name, const bg_value *values, uint32_t count, int32_t axis);

typedef enum bg_pad_mode {
    BG_PAD_CONSTANT = 0,
    BG_PAD_REFLECT,   /* c b | a b c | b a: the edge is not repeated */
    BG_PAD_REPLICATE, /* a a | a b c | c c */
    BG_PAD_CIRCULAR,  /* b c | a b c | a b */
    BG_PAD_MODE_COUNT
} bg_pad_mode;
/* Adds before[i] and after[i] elements at the ends of dimension i; both arrays have one number for each dimension of x
 * and are copied. The new elements are `value` for BG_PAD_CONSTANT and elements of x for other modes. BG_PAD_CONSTANT
 * also accepts negative numbers, which remove elements. Any element type. Errors, in bg_graph_check: BG_ERROR_INVALID
 * for a mode that does not exist, or an array that is NULL; BG_ERROR_SHAPE for numbers out of the mode's range
 * (reflect: below the dimension; circular: at most the dimension), or an empty dimension in the result;
 * BG_ERROR_MEMORY. Shapes: dim i is before[i] + the size of x + after[i]. */
BG_API bg_value bg_pad(bg_graph *graph, const char *name, bg_value x, bg_pad_mode mode, const int64_t *before,
                       const int64_t *after, double value);
/* Adds up elements: y[i] = x[0] + .. + x[i] along the axis; exclusive: without x[i]; reverse: from the end. Floats are
 * added in double; int32 and int64 exactly, wrapping around. */
BG_API bg_value bg_cumulative_sum(bg_graph *graph, const char *name, bg_value x, int32_t axis, bool exclusive,
                                  bool reverse);
/* Stacks up to 60 values of one type along a new axis (negative: counted from the end of the result's axes). Shapes:
 * one dim more than the values, of size `count`. */
BG_API bg_value bg_stack(bg_graph *graph, const char *name, const bg_value *values, uint32_t count, int32_t axis);
/* Repeats x times[i] times along dimension i; `times` has one number for each dimension. Shapes: dim i is times[i]
 * times that of x. */
BG_API bg_value bg_tile(bg_graph *graph, const char *name, bg_value x, const int64_t *times);
/* Rotates elements: y[(i + shift) mod size] = x[i] along the axis. */
BG_API bg_value bg_roll(bg_graph *graph, const char *name, bg_value x, int32_t axis, int64_t shift);
/* Reverses x along the axis. */
BG_API bg_value bg_flip(bg_graph *graph, const char *name, bg_value x, int32_t axis);

/* ---- elements by number ----
 *
 * ids are int32, int64 or uint8, and number the elements along an axis of x (a negative axis counts from the last one).
 * Negative ids count from the end. An id out of range yields zeros and receives no gradient. Gradients of one element
 * are added in the order of ids, under every strategy and on any number of cores.
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if ids have another element type, x does not have the axis, updates do not
 * have the shape that the ids select, or the result would have more than BG_MAX_RANK dimensions; BG_ERROR_INVALID if
 * the number of classes or k is out of range; BG_ERROR_MEMORY. */

/* Gathers elements ids[i] along the axis: x [A.., S, B..], ids [I..] -> [A.., I.., B..], as in torch.index_select and
 * ONNX's Gather. Any element type; gradients flow to a float x. */
BG_API bg_value bg_gather(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids);
/* Adds each element of `updates` [A.., I.., B..] to the element of x that its id names, as in torch.index_add. x and
 * updates are floats of one type. */
BG_API bg_value bg_scatter_add(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids,
                               bg_value updates);
/* Gathers with one id for each element: y[a, i, b] = x[a, ids[a, i, b], b], as torch.gather; ids have x's shape, except
 * along the axis. Shapes: the shape of ids. */
BG_API bg_value bg_gather_elements(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids);
/* Adds each element of `updates` (of the ids' shape) to the element of x that its id names, as in torch.scatter_add. x
 * and updates are floats of one type. */
BG_API bg_value bg_scatter_elements_add(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids,
                                        bg_value updates);
/* Encodes ids [I..] as [I.., classes] of `dtype`: 1 at the id, 0 elsewhere; an id outside 0 .. classes - 1 gives only
 * zeros. */
BG_API bg_value bg_one_hot(bg_graph *graph, const char *name, bg_value ids, int64_t classes, bg_dtype dtype);
/* Finds the k largest (or smallest) elements of each row of x [..., C], in order -> values [..., k]; `*out_numbers`
 * (may be NULL) receives their positions in the row, int32. Equal elements keep their order; NaN counts as the largest.
 * Gradients flow only to the selected elements. */
BG_API bg_value bg_top_k(bg_graph *graph, const char *name, bg_value x, int64_t k, bool smallest,
                         bg_value *out_numbers);

/* ---- normalization, embedding, dropout ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if x is not a float, does not have the axis or has too few dimensions, if
 * a parameter has another shape, or if groups do not divide C; BG_ERROR_INVALID if only one of gamma and beta is
 * given, epsilon is negative, momentum or probability is outside 0..1, or padding_index is not a row of the table;
 * BG_ERROR_MEMORY. A batch norm that trains on one value per channel makes bg_plan_create_training fail with
 * BG_ERROR_SHAPE. */

/* Computes softmax or its logarithm over the axis (negative: counted from the last axis). */
BG_API bg_value bg_softmax(bg_graph *graph, const char *name, bg_value x, int32_t axis);
BG_API bg_value bg_log_softmax(bg_graph *graph, const char *name, bg_value x, int32_t axis);
/* Normalizes over the last dim. gamma and beta are [last], or both null. */
BG_API bg_value bg_layer_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                              double epsilon);
/* Divides by the root of the mean square over the last dimension: x / sqrt(mean(x^2) + epsilon) gamma. gamma may be
 * null. */
BG_API bg_value bg_rms_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, double epsilon);
/* Normalizes each sample of x [N,C,...] over the channels and positions of each group; gamma and beta [C], or both
 * null. With one group the op is a layer norm over all dimensions but N. With one group for each channel the op is an
 * instance norm. */
BG_API bg_value bg_group_norm(bg_graph *graph, const char *name, bg_value x, int64_t groups, bg_value gamma,
                              bg_value beta, double epsilon);
/* Normalizes each channel of x [N,C] or [N,C,...]; gamma, beta, running_mean, running_variance [C]; the running
 * statistics may be float32 if the other operands have 16 bits. Training uses the micro-batch's statistics, and updates
 * running = (1 - momentum) running + momentum batch (with the unbiased variance). Inference uses the running
 * statistics. Each data-parallel replica normalizes with the statistics of its own micro-batches and keeps its own
 * running statistics. Weights that are read or saved have the running statistics of replica 0. */
BG_API bg_value bg_batch_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                              bg_value running_mean, bg_value running_variance, double momentum, double epsilon);
/* Computes bg_batch_norm with statistics over a micro-batch on all data-parallel replicas, forward and backward, as
 * torch.nn.SyncBatchNorm. The replicas' running statistics are equal, and the unbiased variance uses the number of
 * values on all replicas. Training runs two collectives: one gathers the statistics, the other adds two sums of
 * gradients. With one replica, and in inference, the op is bg_batch_norm. options.replicas.synchronize_batch_norm makes
 * every bg_batch_norm of a graph this op. */
BG_API bg_value bg_sync_batch_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                                   bg_value running_mean, bg_value running_variance, double momentum, double epsilon);
/* Looks up rows: table [V,H], ids int32 [...] -> [...,H]. Gradients of row padding_index (-1: no row) stay zero. An id
 * out of range yields zeros and gets no gradient. */
BG_API bg_value bg_embedding(bg_graph *graph, const char *name, bg_value table, bg_value ids, int64_t padding_index);
/* In training an element becomes zero with `probability` and x / (1 - probability) otherwise. The mask is a function of
 * (seed, step, sample, op, element), so recomputation, schedules and processes do not change it. Inference: x. */
BG_API bg_value bg_dropout(bg_graph *graph, const char *name, bg_value x, double probability);

/* ---- attention ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if operands have other types or dimensions than stated, or heads do not
 * divide the last dimension; BG_ERROR_INVALID if options are NULL or one of them is out of range; BG_ERROR_UNSUPPORTED
 * for dropout over more than 2^34 scores of a sample, and for ALiBi over heads that a mesh divides; BG_ERROR_MEMORY. */

typedef struct bg_attention_options {
    size_t struct_bytes; /* set by bg_attention_defaults; see base.h */
    int64_t heads;
    int64_t sequence_length; /* S; 0: the second dimension of a qkv of rank 3 */
    bool causal;             /* a token attends to itself and earlier tokens */
    double scale;            /* scale of scores; 0: 1 / sqrt(D) */
    double dropout;          /* dropout of the attention weights (after softmax), in training: 0 to below 1 */
    int64_t serialization; /* number of pieces into which a kernel may divide a sequence's queries; a divisor of S. The
                              library's kernels do not need it, and it does not change results */
    bg_mesh_axis axis;     /* the mesh axis over which the model's heads are divided, if the operands have a replica's
                              piece of the heads. Random numbers are then those of the whole model; default NONE */
} bg_attention_options;

BG_API void bg_attention_options_init(bg_attention_options *options, size_t struct_bytes, int64_t heads);
/* Defaults: causal, no dropout, one piece. */
static inline bg_attention_options bg_attention_defaults(int64_t heads)
{
    bg_attention_options options;

    bg_attention_options_init(&options, sizeof options, heads);
    return options;
}

/* Computes multi-head self-attention: softmax(scale Q K^T) V for each sequence and head. qkv [N, S, 3 heads D] or [N S,
 * 3 heads D] holds the queries of all heads, then keys, then values, as in GPT-2 -> [.., heads D]. The S x S scores are
 * not stored: the backward pass recomputes them from the logarithm of each row's sum (Dao et al., FlashAttention,
 * 2022). The dropout mask is a function of (seed, step, sample, op, head, query, key). */
BG_API bg_value bg_attention(bg_graph *graph, const char *name, bg_value qkv, const bg_attention_options *options);

/*
 * Computes the same attention for the next S tokens of one sequence, qkv [S, 3 heads D], with a cache of the earlier
 * tokens. cache, a variable [L, 2 heads D], has a row of keys and values for each token so far. The first element of
 * positions (int32) is the position of the first new token, clamped to 0 .. L - S. The op writes the new rows of the
 * cache and returns y [S, heads D], bit-identical to bg_attention. The options must have `causal` and no dropout;
 * sequence_length is not read. The op has no gradient. Shapes: qkv [S, 3 heads D] -> [S, heads D].
 */
BG_API bg_value bg_attention_cached(bg_graph *graph, const char *name, bg_value qkv, bg_value cache, bg_value positions,
                                    const bg_attention_options *options);

typedef struct bg_dot_product_attention_options {
    size_t struct_bytes; /* set by bg_dot_product_attention_defaults; see base.h */
    int64_t heads;
    int64_t key_heads; /* heads of keys and values, a divisor of heads: query head h uses key head h / (heads /
                          key_heads); 0: the same as heads */
    bool causal;       /* a query attends to keys up to its own position */
    int64_t window;    /* a query attends to keys at a distance below this; 0: any distance */
    int64_t offset;    /* position of the first query among the keys: T - S if queries are the last tokens */
    double scale;      /* scale of scores; 0: 1 / sqrt(D) */
    double dropout;    /* dropout of the attention weights (after softmax), in training: 0 to below 1 */
    double alibi; /* ALiBi: in head h, scores decrease by 2^-(alibi / heads x (h + 1)) for each position of distance (if
                     heads is not a power of two, as in the paper); 8 in the paper; 0: no ALiBi */
    bg_mesh_axis axis; /* as in bg_attention_options; not with alibi */
} bg_dot_product_attention_options;

BG_API void bg_dot_product_attention_options_init(bg_dot_product_attention_options *options, size_t struct_bytes,
                                                  int64_t heads);
/* Defaults: every query attends to every key; no dropout. */
static inline bg_dot_product_attention_options bg_dot_product_attention_defaults(int64_t heads)
{
    bg_dot_product_attention_options options;

    bg_dot_product_attention_options_init(&options, sizeof options, heads);
    return options;
}

/*
 * Computes softmax(scale Q K^T + bias) V for each sample and head, as torch's scaled_dot_product_attention: query [N,
 * S, heads D], key and value [N, T, key_heads D] -> [N, S, heads D]. The bias may be null. Its shape is [N, heads, S,
 * T], or has 1 in any of the first three dimensions, or has fewer dimensions (a padding mask is [N, 1, 1, T]). A uint8
 * bias is a mask: a query attends to the keys for which it is not 0. A float bias (of the query's type or float32) is
 * added to the scores. A query that attends to no key gives zeros. Except for the bias, memory is linear in S and T.
 * Gradients flow to all four operands; the bias's gradient has the bias's size.
 */
BG_API bg_value bg_dot_product_attention(bg_graph *graph, const char *name, bg_value query, bg_value key,
                                         bg_value value, bg_value bias,
                                         const bg_dot_product_attention_options *options);

/*
 * Computes the same attention for the next S tokens of each sample, with caches of the earlier tokens. query [N, S,
 * heads D], key and value [N, S, key_heads D] belong to the new tokens. key_cache and value_cache, variables [N, L,
 * key_heads D], have one row for each position. positions, int32 [N], has the position of each sample's first new
 * token, clamped to 0 .. L - S, so samples may have different lengths. The op writes the new rows of the caches and
 * returns y [N, S, heads D]. A token attends to the rows up to its own, within the window. The op is always causal;
 * `causal`, `offset` and `dropout` are not read. Memory is linear in L. The op has no gradient. Shapes: query [N, S,
 * heads D] -> [N, S, heads D].
 */
BG_API bg_value bg_dot_product_attention_cached(bg_graph *graph, const char *name, bg_value query, bg_value key,
                                                bg_value value, bg_value key_cache, bg_value value_cache,
                                                bg_value positions, const bg_dot_product_attention_options *options);

/* Makes a mask of padding, uint8 [N, 1, 1, length]: 1 at positions below each sample's length. lengths is int32 or
 * int64 [N]. As the bias of bg_dot_product_attention the mask hides the keys after the sample's end. Shapes: lengths
 * [N] -> uint8 [N, 1, 1, length]. */
BG_API bg_value bg_length_mask(bg_graph *graph, const char *name, bg_value lengths, int64_t length);

/*
 * The ways to extend rotary positions to more positions than the model was trained with, by a factor `scaling` s.
 * Without scaling, pair i turns by f_i = base^(-2 i / features) radians for each position. L is `trained_length`.
 *
 *     LINEAR       f_i / s
 *     NTK          with the base times s^(features / (features - 2)) (bloc97, "NTK-aware scaled RoPE", 2023)
 *     DYNAMIC_NTK  NTK with s n / L - (s - 1) instead of s; n is the larger of L and `length`
 *     YARN         f_i if the pair turns at least beta_fast times in L positions, f_i / s if it turns at most
 *                  beta_slow times, and linear in i between; the rotated features are multiplied by `magnitude`
 *                  (Peng et al., 2023)
 *     LLAMA3       f_i if the pair turns more than high_frequency times in L positions, f_i / s if it turns less than
 *                  low_frequency times, and linear in the number of turns between (Llama 3.1's files)
 */
typedef enum bg_rotary_scaling {
    BG_ROTARY_LINEAR = 0,
    BG_ROTARY_NTK,
    BG_ROTARY_DYNAMIC_NTK,
    BG_ROTARY_YARN,
    BG_ROTARY_LLAMA3
} bg_rotary_scaling;

typedef struct bg_rotary_options {
    size_t struct_bytes; /* set by bg_rotary_defaults; see base.h */
    int64_t heads;
    int64_t features; /* number of a head's first features that are rotated, even; 0: all */
    bool interleaved; /* pairs are features 2 i and 2 i + 1; false: i and features / 2 + i, as in LLaMA's files */
    double base;      /* pair i turns by base^(-2 i / features) radians for each position */
    bg_rotary_scaling kind;
    double scaling;                       /* s; default 1: no scaling */
    int64_t trained_length;               /* L, for DYNAMIC_NTK, YARN and LLAMA3 */
    int64_t length;                       /* for DYNAMIC_NTK; 0: S */
    double beta_fast, beta_slow;          /* for YARN; default 32 and 1 */
    double low_frequency, high_frequency; /* for LLAMA3; default 1 and 4 */
    double magnitude;                     /* for YARN; 0: 0.1 ln(s) + 1 */
} bg_rotary_options;

BG_API void bg_rotary_options_init(bg_rotary_options *options, size_t struct_bytes, int64_t heads);
/* Defaults: all features in two halves, base 10000, no scaling. */
static inline bg_rotary_options bg_rotary_defaults(int64_t heads)
{
    bg_rotary_options options;

    bg_rotary_options_init(&options, sizeof options, heads);
    return options;
}

/* Applies rotary positions (Su et al., RoFormer, 2021) to queries or keys x [..., S, heads D], whose shape does not
 * change. positions: int32 [S] or [..., S]; null: 0 .. S - 1. Gradients flow to x. */
BG_API bg_value bg_rotary(bg_graph *graph, const char *name, bg_value x, bg_value positions,
                          const bg_rotary_options *options);

/* ---- recurrences over time: the layers of nn.h have their parameters ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if operands are not floats of one type or have other dimensions than
 * stated; BG_ERROR_MEMORY. */

/*
 * Compute LSTM and GRU with PyTorch's formulas and order of gates (i, f, g, o; r, z, n), all steps in one op. x [T, N,
 * gates H], or [N, T, gates H] with batch_first, is the inputs' contribution to the gates: bg_linear with a weight
 * [gates H, in] and its bias. weight [gates H, H] and bias [gates H] (may be null) apply to the state; h0 and c0 [N, H]
 * are the first states. `reverse` runs from the last step to the first. -> h of all steps [T, N, H]; `*out_c` (may be
 * NULL) receives c of all steps. Both results may be used in a loss; gradients flow to all operands.
 */
BG_API bg_value bg_lstm(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias, bg_value h0,
                        bg_value c0, bool batch_first, bool reverse, bg_value *out_c);
BG_API bg_value bg_gru(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias, bg_value h0,
                       bool batch_first, bool reverse);

/* Computes a GRU that applies the reset gate to the state before the product instead of after it, as in the paper (Cho
 * et al., 2014) and ONNX's linear_before_reset = 0: n = tanh(x + weight (r h) + bias). Shapes: as bg_gru. */
BG_API bg_value bg_gru_reset_first(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                                   bg_value h0, bool batch_first, bool reverse);
/* Computes h' = tanh(x + weight h + bias), or max(0, ...) with `relu`, as torch.nn.RNN. weight [H, H], x [T, N, H].
 * Shapes: x [T, N, H] -> [T, N, H]. */
BG_API bg_value bg_rnn(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias, bg_value h0,
                       bool relu, bool batch_first, bool reverse);

#define BG_SCAN_MOST 16
/* One step of a scan. `inputs` has this step's element of each sequence, without the time axis. The body
 * replaces each of `states` by its next value, of the same type, and sets each of `outputs`. */
typedef struct bg_scan_step {
    uint64_t step; /* number of the step in the direction of time, from 0 */
    const bg_value *inputs;
    bg_value *states;
    bg_value *outputs;
} bg_scan_step;

typedef struct bg_scan_options {
    size_t struct_bytes;  /* set by bg_scan_defaults; see base.h */
    uint32_t input_count; /* number of sequences; at least 1 */
    uint32_t state_count;
    uint32_t output_count; /* at least 1; input_count, state_count and output_count are at most BG_SCAN_MOST */
    int32_t axis;          /* time axis of inputs and outputs; negative: counted from the last axis */
    bool reverse;          /* from the last step to the first */
    /* Gradients stop at every multiple of this number of steps; 0: never. */
    int64_t truncate;
    int64_t checkpoint; /* states are marked (bg_graph_checkpoint) at every multiple of this number of steps, so that
                           recompute `checkpoints` recomputes the values between them; 0: no marks */
} bg_scan_options;

BG_API void bg_scan_options_init(bg_scan_options *options, size_t struct_bytes);
/* Defaults: one input, one state, one output, forward over axis 0; gradients through all steps. */
static inline bg_scan_options bg_scan_defaults(void)
{
    bg_scan_options options;

    bg_scan_options_init(&options, sizeof options);
    return options;
}

/*
 * Adds a loop over time inside the graph, with gradients: `body` is called once for each step, while the graph is
 * built, and adds the step's ops. The body may use parameters and any other values of the graph; their gradients are
 * summed over the steps. The body knows the step's number, so steps may differ. `states` holds the first states and
 * receives the last ones. `outputs` (may be NULL) receives the outputs of all steps along `axis`. Gradients flow to
 * inputs, first states and other values that the body uses. Over all steps together, the gradients of an input take as
 * much memory as the input. Returns the first output. Errors, in bg_graph_check: BG_ERROR_SHAPE for inputs of different
 * lengths, a state whose type changes, or an axis that does not exist; BG_ERROR_INVALID for counts out of range, an
 * output that the body does not set, or options that are NULL; BG_ERROR_MEMORY. Shapes: the first output, for all steps
 * along the axis.
 */
BG_API bg_value bg_scan(bg_graph *graph, const bg_scan_options *options, const bg_value *inputs, bg_value *states,
                        void (*body)(void *user, bg_graph *graph, bg_scan_step *step), void *user, bg_value *outputs);

/* Returns x without a gradient, as torch's detach. x may have any type, and the result shares its memory. */
BG_API bg_value bg_stop_gradient(bg_graph *graph, const char *name, bg_value x);

/* ---- remote buffers: bg_graph_remote_buffer ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if the buffer has no first dimension, the index is not one int32, or the
 * value is not an entry; BG_ERROR_MEMORY. */

/* Loads entry `index` (one int32 that may differ in each run) of a buffer [E, ...] -> [...]. Any variable may be the
 * buffer; its first dimension counts the entries. An index out of range gives zeros. No gradient flows through the
 * op. */
BG_API bg_value bg_remote_load(bg_graph *graph, const char *name, bg_value buffer, bg_value index);
/* Writes `value` over entry `index`; an index out of range writes nothing. Loads and stores run in the order in which
 * they are added to the graph. The result is a copy of the index. Inference drops ops that no output needs, so mark an
 * output that uses this result to keep the store. Shapes: the shape of index. */
BG_API bg_value bg_remote_store(bg_graph *graph, const char *name, bg_value buffer, bg_value index, bg_value value);

/* ---- collectives: over the replicas of a mesh (bg_graph_set_mesh) ----
 *
 * Errors, in bg_graph_check: BG_ERROR_INVALID if the axes are not tensor axes, or the function is BG_REDUCE_MEAN;
 * BG_ERROR_SHAPE if x is not a float, does not have the axis, or has a dimension that the members do not divide;
 * BG_ERROR_MEMORY. */

/* `axes`: bits of the tensor axes of bg_mesh_axis. All members of a group along these axes get bit-identical results:
 * the members' values are added in order, in float32 or better, and rounded once. Over an axis of size 1 the result is
 * x. The functions differ only in their gradients; the right one depends on the ops that follow:
 *
 *     bg_all_reduce            members continue differently: the gradient of each x is the sum of all gradients
 *     bg_identical_gradients   all members do the same with the sum: the gradient does not change
 *     bg_identical_inputs      x is the same everywhere and members do different things with it: the forward pass
 *                              does nothing, and the gradients are summed
 *
 * (the GPT-3 example for PopXL; Shoeybi et al., Megatron-LM, 2019, have the last two as g and f). */

/* Add the ops of the list above. `function` is BG_REDUCE_SUM or BG_REDUCE_MAX, which has no gradient. */
BG_API bg_value bg_all_reduce(bg_graph *graph, const char *name, bg_value x, bg_reduction function, uint32_t axes);
BG_API bg_value bg_identical_gradients(bg_graph *graph, const char *name, bg_value x, uint32_t axes);
BG_API bg_value bg_identical_inputs(bg_graph *graph, const char *name, bg_value x, uint32_t axes);
/* Concatenates the members' x along `axis` (negative: counted from the last axis). Its gradient is the reduce-scatter.
 * Shapes: x with the sum of the members' sizes along the axis. */
BG_API bg_value bg_all_gather(bg_graph *graph, const char *name, bg_value x, int32_t axis, uint32_t axes);
/* Returns the member's piece, along `axis`, of the sum of all members' x. The size of the axis must be divisible by the
 * number of members. The gradient is the all-gather. Shapes: x with the member's share of the size along the axis. */
BG_API bg_value bg_reduce_scatter(bg_graph *graph, const char *name, bg_value x, int32_t axis, uint32_t axes);

/* ---- losses and metrics ----
 *
 * Errors, in bg_graph_check: BG_ERROR_SHAPE if operands have other types or dimensions than stated; BG_ERROR_INVALID
 * if a reduction or function does not exist, or a number (label_smoothing, blank, k, epsilon, margin) is out of range;
 * BG_ERROR_MEMORY. */

typedef enum bg_loss_reduction { BG_LOSS_MEAN = 0, BG_LOSS_SUM, BG_LOSS_NONE } bg_loss_reduction;

/* Computes cross-entropy: logits [N, C] (or [..., C]), labels int32 or uint8 [N] ([...]) -> scalar float32 (float64 for
 * float64 logits), or [N] for NONE. Labels equal to ignore_index are ignored. The mean is over the other labels (0 if
 * all are ignored), in training over all such labels of the update (bg_accumulation). A label outside 0..C-1 that is
 * not ignore_index makes the loss NaN. ignore_index: PyTorch's default is -100. */
BG_API bg_value bg_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                 bg_loss_reduction reduction, int64_t ignore_index);

/* Computes bg_cross_entropy with a weight for each class, class_weights [C] (floats; null: 1), and label_smoothing,
 * from 0 to 1: this share of each label is spread evenly over all classes. Each label has the weight of its class, and
 * the mean divides by the sum of the weights (in training over the whole update), as in PyTorch's cross_entropy. No
 * gradient flows to the weights. Errors, in bg_graph_check: BG_ERROR_SHAPE for labels or class weights that do not fit
 * the logits; BG_ERROR_INVALID for a label_smoothing outside 0..1 or a reduction that does not exist; BG_ERROR_MEMORY.
 * Shapes: as bg_cross_entropy. */
BG_API bg_value bg_weighted_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                          bg_value class_weights, double label_smoothing, bg_loss_reduction reduction,
                                          int64_t ignore_index);
/* Computes the negative log-likelihood of labels under log probabilities [..., C], such as those from bg_log_softmax;
 * labels, weights (or null), mean and errors are as in bg_weighted_cross_entropy. Shapes: as bg_cross_entropy. */
BG_API bg_value bg_nll_loss(bg_graph *graph, const char *name, bg_value log_probabilities, bg_value labels,
                            bg_value class_weights, bg_loss_reduction reduction, int64_t ignore_index);

/*
 * Computes connectionist temporal classification (Graves et al., 2006): the negative log probability of a sample's
 * targets, over all alignments with its steps. log_probabilities, float [N, T, C], are log probabilities over the last
 * dimension (bg_log_softmax); torch's ctc_loss has the steps as the first dimension. targets, int32 [N, S], are classes
 * other than `blank`. lengths and target_lengths, int32 [N], give the numbers of steps and targets of each sample
 * (null: all). The result is [N] for NONE and the sum for SUM; for MEAN each loss is first divided by the length of its
 * targets (by 1 if that is 0), as in torch. The result is float32, or float64 for float64 operands. Targets that do not
 * fit into the steps give an infinite loss and NaN gradients; with zero_infinity both are 0. Lengths beyond T or S, and
 * targets that are out of range or the blank, give a loss of NaN. Gradients are derivatives with respect to each log
 * probability; combined with bg_log_softmax they equal torch's. Errors, in bg_graph_check: BG_ERROR_SHAPE for operands
 * of other types or dimensions than stated; BG_ERROR_MEMORY; BG_ERROR_INVALID for a reduction that does not exist, or a
 * blank outside 0 .. C - 1.
 */
BG_API bg_value bg_ctc_loss(bg_graph *graph, const char *name, bg_value log_probabilities, bg_value targets,
                            bg_value lengths, bg_value target_lengths, int32_t blank, bool zero_infinity,
                            bg_loss_reduction reduction);

/* Elementwise losses of a prediction p and a target t, where d is p - t and a is the parameter. The comments give
 * PyTorch's names: */
typedef enum bg_pointwise_loss_function {
    BG_LOSS_SQUARED = 0,   /* mse_loss: d^2 */
    BG_LOSS_ABSOLUTE,      /* l1_loss: |d| */
    BG_LOSS_SMOOTH_L1,     /* smooth_l1_loss, a = beta: d^2 / 2a if |d| < a, otherwise |d| - a/2 */
    BG_LOSS_HUBER,         /* huber_loss, a = delta: d^2 / 2 if |d| <= a, otherwise a (|d| - a/2) */
    BG_LOSS_BINARY_LOGITS, /* binary_cross_entropy_with_logits, a = pos_weight: p is a logit, t within 0..1 */
    BG_LOSS_BINARY,        /* binary_cross_entropy: p is a probability; logarithms are clamped to at least -100 */
    BG_LOSS_KL,            /* kl_div: p is the logarithm of a probability, t a probability; t (log t - p) */
    BG_LOSS_KL_LOG,        /* kl_div, log_target: both are logarithms; e^t (t - p) */
    BG_LOSS_FUNCTION_COUNT
} bg_pointwise_loss_function;
/* Computes a loss of prediction and target, floats of one type and shape -> scalar float32 (float64 for float64
 * operands), or their shape for NONE. The mean is over all elements. parameter: `a` above; functions without a
 * parameter ignore it (pass 0). Gradients flow to both. Errors, in bg_graph_check: BG_ERROR_SHAPE if prediction and
 * target are not floats of one type and shape; BG_ERROR_INVALID for a function or a reduction that does not exist, a
 * parameter that is negative or not finite, or a delta of 0; BG_ERROR_MEMORY. */
BG_API bg_value bg_pointwise_loss(bg_graph *graph, const char *name, bg_pointwise_loss_function function,
                                  double parameter, bg_value prediction, bg_value target, bg_loss_reduction reduction);
/* Computes bg_pointwise_loss with BG_LOSS_SQUARED. Shapes: as bg_pointwise_loss. */
BG_API bg_value bg_mse_loss(bg_graph *graph, const char *name, bg_value prediction, bg_value target,
                            bg_loss_reduction reduction);

/* Computes a b / (max(|a|, epsilon) max(|b|, epsilon)) along the axis, which is removed, as in torch.cosine_similarity;
 * PyTorch's epsilon is 1e-8. Computed in float32 or better. Errors, in bg_graph_check: BG_ERROR_SHAPE if a and b are
 * not floats of one type and shape, or do not have the axis; BG_ERROR_INVALID for an epsilon that is not above 0;
 * BG_ERROR_MEMORY. Shapes: a without the axis. */
BG_API bg_value bg_cosine_similarity(bg_graph *graph, const char *name, bg_value a, bg_value b, int32_t axis,
                                     double epsilon);
/* Computes a loss of pairs: a and b [..., D], targets [...] of any element type -> scalar float32 (float64 for
 * float64), or [...] for NONE: 1 - cos where the target is above 0, max(0, cos - margin) elsewhere, as torch's
 * cosine_embedding_loss. Errors, in bg_graph_check: BG_ERROR_SHAPE if a and b are not floats of one type and shape, or
 * the targets do not fit them; BG_ERROR_INVALID for a margin that is not finite or a reduction that does not exist;
 * BG_ERROR_MEMORY. */
BG_API bg_value bg_cosine_embedding_loss(bg_graph *graph, const char *name, bg_value a, bg_value b, bg_value targets,
                                         double margin, bg_loss_reduction reduction);

/* Counts the rows whose label is the class of the largest logit (of equal ones, the first): logits [N, C] -> int32
 * scalar. */
BG_API bg_value bg_correct_count(bg_graph *graph, const char *name, bg_value logits, bg_value labels);
/* Counts the labels that are among the k largest logits of their rows [..., C]. Of equal logits the first counts as the
 * larger one. Shapes: logits [..., C], labels [...] -> int32 scalar. */
BG_API bg_value bg_top_k_correct_count(bg_graph *graph, const char *name, bg_value logits, bg_value labels, int64_t k);
/* Counts rows by class, for the scores of a pass (score.h). Errors, in bg_graph_check: BG_ERROR_SHAPE if the operands'
 * types or shapes do not fit each other; BG_ERROR_MEMORY.
 *
 * For logits [..., C] and labels [...]: int32 [3, C]. For each class these are the numbers of rows that are predicted
 * correctly, predicted as the class (by the first largest element), and labeled as the class. Rows with a label outside
 * 0..C-1 are ignored. Shapes: logits [..., C], labels [...] -> int32 [3, C]. */
BG_API bg_value bg_class_counts(bg_graph *graph, const char *name, bg_value logits, bg_value labels);
/* Computes the counts of bg_class_counts for two classes, no and yes, from predictions and targets of one float type
 * and shape. A prediction above the threshold is a yes, as is a target above one half. Use the threshold 0 for logits
 * and 0.5 for probabilities. Shapes: operands of one shape -> int32 [3, 2]. */
BG_API bg_value bg_binary_counts(bg_graph *graph, const char *name, bg_value predictions, bg_value targets,
                                 double threshold);
/* Computes two numbers: the sum of the labels' negative log-likelihoods, and the number of labels other than
 * ignore_index (bg_cross_entropy). Shapes: logits [..., C], labels [...] -> float32 [2]. */
BG_API bg_value bg_likelihood_sums(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                   int64_t ignore_index);

/* ---- ops over pieces ----
 *
 * The mesh divides a dimension of the whole tensor over `axis`, BG_MESH_TENSOR_1 or BG_MESH_TENSOR_2; operands are a
 * replica's pieces. With an axis of size 1 or BG_MESH_NONE these functions add the plain ops.
 *
 * Errors, in bg_graph_check: as the plain ops, and BG_ERROR_INVALID for an axis that is not a tensor axis or a number
 * of classes below 1. */

/* Computes bg_embedding of a table whose rows are divided. Ids count from the first row of the whole table, and ids of
 * other replicas' rows yield zeros. bg_identical_gradients over the axis then adds the replicas' results, which gives
 * the complete rows. Shapes: table [V, H], ids [...] -> [..., H]. */
BG_API bg_value bg_sharded_embedding(bg_graph *graph, const char *name, bg_value table, bg_value ids,
                                     bg_mesh_axis axis);
/* Computes bg_dropout of an x [N, ..., last] whose last dim is divided: the mask is that of the whole x. */
BG_API bg_value bg_sharded_dropout(bg_graph *graph, const char *name, bg_value x, double probability,
                                   bg_mesh_axis axis);
/* Computes bg_layer_norm of an x whose last dim is divided, with the replica's pieces of gamma and beta, both of which
 * are required. The op has one collective in the forward pass and one in the backward pass. */
BG_API bg_value bg_sharded_layer_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                                      double epsilon, bg_mesh_axis axis);
/* Computes bg_cross_entropy of logits whose classes are divided; labels are whole. `classes` is the total number of
 * classes; columns after the last class are padding and are ignored. The op has three collectives in the forward pass
 * and none in the backward pass; the loss is the same on all replicas of a group. Shapes: as bg_cross_entropy. */
BG_API bg_value bg_sharded_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                         int64_t classes, bg_loss_reduction reduction, int64_t ignore_index,
                                         bg_mesh_axis axis);

/* ---- the gradient checker: for any op, also for a user's ---- */

typedef struct bg_gradient_check_options {
    size_t struct_bytes; /* set by bg_gradient_check_defaults; see base.h */
    uint64_t seed;
    double step;                  /* step of the central difference; default 1e-5 (inputs are float64) */
    double absolute_tolerance;    /* default 1e-7 */
    double relative_tolerance;    /* default 1e-5 */
    uint32_t elements_per_input;  /* number of elements of each input to check; 0: all */
    double input_low, input_high; /* range of uniform random inputs without given values; default -1, 1 */
    /* Bit i: output i is part of the sum. Default 1: only output 0, since later outputs are often values for the
     * backward pass (means, indices) without a gradient. */
    uint32_t outputs;
} bg_gradient_check_options;
BG_API void bg_gradient_check_options_init(bg_gradient_check_options *options, size_t struct_bytes);
static inline bg_gradient_check_options bg_gradient_check_defaults(void)
{
    bg_gradient_check_options options;

    bg_gradient_check_options_init(&options, sizeof options);
    return options;
}

/* Builds the op once over float64 operands (integer operands keep their type and must be given in `values`). With
 * reference kernels it compares the op's gradient rule with central differences of sum(output * random weights).
 * `types` are the operands' types; values[i] holds an operand's data, or is NULL for random data. The error names the
 * first element that differs: operand, element, and both numbers. Errors: BG_ERROR_INVALID if the rule and the
 * differences disagree, the op type has no gradient rule, attributes or the values of an integer operand are missing,
 * or no checked output is a float; BG_ERROR_SHAPE if a gradient does not have its operand's type; BG_ERROR_UNSUPPORTED
 * for more than 32 operands or outputs; BG_ERROR_MEMORY; an error of the op itself. */
BG_API bg_status bg_gradient_check(const bg_op_type *op_type, const void *attributes, const bg_type *types,
                                   const void *const *values, uint32_t input_count,
                                   const bg_gradient_check_options *options, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
