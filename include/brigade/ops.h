/*
 * ops.h: the library's ops. Each adds one op (or a few) to a graph and returns its output; shapes are checked when
 * added. Layouts: images are [N, C, H, W]; convolution weights [O, C/groups, KH, KW]; linear weights [out, in].
 * Float ops take float32, bfloat16, float16 and float64; operands of one op have one float type unless said otherwise,
 * and sums are kept in float32 or better. Elementwise functions, matrix products, bg_linear and bg_conv2d take mixtures
 * of float32 and types of 16 bits, as float32. `name` may be NULL.
 *
 * Threads: one thread at a time uses a graph; different graphs are independent.
 *
 * Errors: the graph keeps the first one and bg_graph_check returns it: BG_ERROR_SHAPE for operands that do not fit,
 * BG_ERROR_INVALID for options, BG_ERROR_MEMORY.
 *
 * Shapes: the result has the shape and the element type of x where a function says no other.
 */
#ifndef BRIGADE_OPS_H
#define BRIGADE_OPS_H

#include <brigade/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- convolution and pooling ---- */

typedef struct bg_conv2d_options {
    size_t struct_bytes; /* set by bg_conv2d_defaults; see base.h */
    int64_t stride[2];   /* height, width; at least 1 */
    int64_t padding[2];  /* zeros on both sides */
    int64_t dilation[2]; /* at least 1 */
    int64_t groups;      /* divides C and O */
} bg_conv2d_options;

BG_API void bg_conv2d_options_init(bg_conv2d_options *options, size_t struct_bytes);
/* stride 1, padding 0, dilation 1, groups 1 */
static inline bg_conv2d_options bg_conv2d_defaults(void)
{
    bg_conv2d_options options;

    bg_conv2d_options_init(&options, sizeof options);
    return options;
}

/* x [N,C,H,W], weight [O,C/groups,KH,KW], bias [O] or null -> [N,O,OH,OW],
 * OH = floor((H + 2 padding - dilation (KH-1) - 1) / stride) + 1. options NULL: defaults. */
BG_API bg_value bg_conv2d(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                          const bg_conv2d_options *options);

typedef struct bg_conv_options {
    size_t struct_bytes; /* set by bg_conv_defaults; see base.h */
    /* A number for each dimension of x behind its channels; what is left of three is not read. */
    int64_t stride[3];         /* at least 1 */
    int64_t padding[3];        /* zeros on both sides; a transposed convolution removes them from its result */
    int64_t dilation[3];       /* at least 1 */
    int64_t output_padding[3]; /* of transposed convolutions: more at the end of the result, less than the stride */
    int64_t groups;            /* divides C and O */
} bg_conv_options;

BG_API void bg_conv_options_init(bg_conv_options *options, size_t struct_bytes);
/* stride 1, padding 0, dilation 1, groups 1 */
static inline bg_conv_options bg_conv_defaults(void)
{
    bg_conv_options options;

    bg_conv_options_init(&options, sizeof options);
    return options;
}

/* Over one, two or three dimensions: x [N,C,L], [N,C,H,W] or [N,C,D,H,W], weight [O,C/groups,..] with a size for each
 * of them, bias [O] or null -> [N,O,..], sizes as bg_conv2d's, which it is made of; in three dimensions over copies of
 * x's planes, as many as the filter is deep. options NULL: defaults. Errors, in bg_graph_check: BG_ERROR_SHAPE,
 * BG_ERROR_INVALID for options. */
BG_API bg_value bg_conv(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                        const bg_conv_options *options);
/* Transposed, as torch's conv_transpose1d, 2d and 3d: x as above, weight [C,O/groups,..], bias [O] or null -> [N,O,..],
 * OH = (H - 1) stride - 2 padding + dilation (KH-1) + output_padding + 1. Its kernels are those of bg_conv2d's
 * gradients. Errors: as bg_conv's. */
BG_API bg_value bg_conv_transpose(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                                  const bg_conv_options *options);

typedef struct bg_pool2d_options {
    size_t struct_bytes; /* set by bg_pool2d_defaults; see base.h */
    int64_t kernel[2];
    int64_t stride[2];   /* 0: the kernel's size */
    int64_t padding[2];  /* at most half the kernel */
    int64_t dilation[2]; /* max pool only */
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

/* The first largest element of each window; NaN wins. Shapes: x [N,C,H,W] -> [N,C,OH,OW]. */
BG_API bg_value bg_max_pool2d(bg_graph *graph, const char *name, bg_value x, const bg_pool2d_options *options);
BG_API bg_value bg_avg_pool2d(bg_graph *graph, const char *name, bg_value x, const bg_pool2d_options *options);

/* ---- pools over one, two or three dimensions ---- */

typedef struct bg_pool_options {
    size_t struct_bytes; /* set by bg_pool_defaults; see base.h */
    /* A number for each dimension of x behind its channels; what is left of three is not read. */
    int64_t kernel[3];
    int64_t stride[3];   /* 0: the kernel's size */
    int64_t padding[3];  /* at most half the kernel */
    int64_t dilation[3]; /* max pool only */
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

/* Of x [N,C,L], [N,C,H,W] or [N,C,D,H,W], as bg_max_pool2d and bg_avg_pool2d, which they are made of; in three
 * dimensions over planes, then over depth. Errors, in bg_graph_check: BG_ERROR_SHAPE, BG_ERROR_INVALID for options.
 * Shapes: x [N,C,..] -> [N,C,..] with the sizes of the windows. */
BG_API bg_value bg_max_pool(bg_graph *graph, const char *name, bg_value x, const bg_pool_options *options);
BG_API bg_value bg_avg_pool(bg_graph *graph, const char *name, bg_value x, const bg_pool_options *options);
/* To `sizes`, a number for each dimension of x behind its channels (NULL: 1 each, a global pool), as PyTorch's adaptive
 * pools: window i of `size` goes from floor(i H / size) to before ceil((i + 1) H / size). Sizes that do not divide x's:
 * the maximum is made window by window, along an axis at most 60. Shapes: x [N,C,..] -> [N,C,sizes..]. */
BG_API bg_value bg_adaptive_max_pool(bg_graph *graph, const char *name, bg_value x, const int64_t *sizes);
BG_API bg_value bg_adaptive_avg_pool(bg_graph *graph, const char *name, bg_value x, const int64_t *sizes);

/* ---- interpolation ---- */

typedef enum bg_interpolation {
    BG_INTERPOLATE_NEAREST = 0,
    BG_INTERPOLATE_LINEAR, /* of two neighbors along each axis: bilinear, trilinear */
    BG_INTERPOLATE_CUBIC,  /* of four */
    BG_INTERPOLATE_AREA,   /* the mean of a window, as an adaptive average pool's; coordinates are not read */
    BG_INTERPOLATION_COUNT
} bg_interpolation;

/* Where element o of the result lies in x, by the ONNX Resize operator's names; s is the result's size by x's. */
typedef enum bg_coordinates {
    BG_COORDINATES_HALF_PIXEL = 0,     /* (o + 1/2) / s - 1/2: PyTorch's align_corners=False */
    BG_COORDINATES_ALIGN_CORNERS,      /* o (size of x - 1) / (size of the result - 1) */
    BG_COORDINATES_ASYMMETRIC,         /* o / s */
    BG_COORDINATES_PYTORCH_HALF_PIXEL, /* half_pixel, or 0 where the result has one element */
    BG_COORDINATES_COUNT
} bg_coordinates;

/* Which neighbor is the nearest. */
typedef enum bg_nearest {
    BG_NEAREST_FLOOR = 0,
    BG_NEAREST_CEIL,
    BG_NEAREST_PREFER_FLOOR, /* the nearer one; in the middle the first */
    BG_NEAREST_PREFER_CEIL,  /* in the middle the second */
    BG_NEAREST_COUNT
} bg_nearest;

typedef struct bg_interpolate_options {
    size_t struct_bytes; /* set by bg_interpolate_defaults; see base.h */
    bg_interpolation mode;
    bg_coordinates coordinates;
    bg_nearest nearest;
    double cubic; /* the coefficient of BG_INTERPOLATE_CUBIC */
    /* A number for each dimension of x behind its channels; what is left of three is not read. */
    int64_t size[3]; /* 0: floor(x's size x scale) */
    double scale[3]; /* s above; 0: the sizes' ratio, exactly. Both 0: x's size */
} bg_interpolate_options;

BG_API void bg_interpolate_options_init(bg_interpolate_options *options, size_t struct_bytes, bg_interpolation mode);
/* PyTorch's: nearest by asymmetric coordinates and floor, else half_pixel; a cubic coefficient of -0.75. */
static inline bg_interpolate_options bg_interpolate_defaults(bg_interpolation mode)
{
    bg_interpolate_options options;

    bg_interpolate_options_init(&options, sizeof options, mode);
    return options;
}

/* x [N,C,L], [N,C,H,W] or [N,C,D,H,W] -> the same with other sizes behind the channels, axis by axis. Positions are
 * computed in double; neighbors outside x are its edge. An element whose weight is 0 may be read: one that is not
 * finite can make its neighbors so. Errors, in bg_graph_check: BG_ERROR_SHAPE, BG_ERROR_INVALID for options. */
BG_API bg_value bg_interpolate(bg_graph *graph, const char *name, bg_value x, const bg_interpolate_options *options);

/* ---- matrix products ---- */

/* x [..., in], weight [out, in], bias [out] or null -> [..., out]: x weight^T + bias. */
BG_API bg_value bg_linear(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias);
/* a [..., M, K], b [..., K, N] (after transposing the last two dims where asked) -> [..., M, N]. Leading dims
 * broadcast. */
BG_API bg_value bg_matmul(bg_graph *graph, const char *name, bg_value a, bg_value b, bool transpose_a,
                          bool transpose_b);

/* Sums of products by letters, as torch.einsum: "bij,bjk->bik". Each operand has a letter for each of its dimensions;
 * of those that the result has not, the sum is taken; without "->" it has those that occur once, in the alphabet's
 * order. 1 to 16 operands, multiplied from the left; made of transposes and batched products. No letter twice in one
 * operand, and no "...". Errors, in bg_graph_check: BG_ERROR_INVALID for an equation that cannot be read,
 * BG_ERROR_SHAPE, BG_ERROR_UNSUPPORTED for a product of two operands that would have more than BG_MAX_RANK dimensions.
 * Shapes: the letters behind "->". */
BG_API bg_value bg_einsum(bg_graph *graph, const char *name, const char *equation, const bg_value *operands,
                          uint32_t count);

/* ---- elementwise ---- */

/* Functions of one float element, with PyTorch's gradients where a derivative jumps. a and b are parameters
 * (bg_elementwise_function); where none are said the function has none. */
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
    BG_SIGN,        /* -1, 0 or 1; of NaN 0. Of it and of the four that round no gradient but zero flows */
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
    BG_ELU,          /* x above 0, else a (e^x - 1). a = 1 */
    BG_LEAKY_RELU,   /* x above 0, else a x. a = 0.01 */
    BG_HARD_SIGMOID, /* clamp(a x + b, 0, 1). a = 1/6, b = 1/2 */
    BG_CLAMP,        /* a where x is less, b where it is more; either may be infinite. a = 0, b = 6: relu6 */
    BG_POWER,        /* x^a. a = 2 */
    BG_UNARY_COUNT
} bg_unary;
/* With the parameters that stand beside the function's name above. Errors, in bg_graph_check: BG_ERROR_SHAPE (x is no
 * float), BG_ERROR_INVALID (a function that does not exist). */
BG_API bg_value bg_elementwise_unary(bg_graph *graph, const char *name, bg_unary function, bg_value x);
/* With parameters of your own, which a function that has none does not read. Errors, in bg_graph_check: as above, and
 * BG_ERROR_INVALID for parameters that are NaN, for a clamp whose a is above b, for a softplus whose a is not above 0,
 * for others that are not finite. */
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
 * mixed and give float32). Integers are computed exactly and wrap around where they overflow; their quotient truncates
 * towards zero, x / 0 is 0. No gradient flows through integers. Errors, in bg_graph_check: BG_ERROR_SHAPE,
 * BG_ERROR_INVALID for a function that does not exist. Shapes: a and b broadcast to the result. */
BG_API bg_value bg_elementwise_binary(bg_graph *graph, const char *name, bg_binary function, bg_value a, bg_value b);

/* As bg_elementwise_unary and bg_elementwise_function. */
BG_API bg_value bg_relu(bg_graph *graph, bg_value x);
BG_API bg_value bg_gelu(bg_graph *graph, bg_value x);
BG_API bg_value bg_gelu_tanh(bg_graph *graph, bg_value x);
BG_API bg_value bg_tanh(bg_graph *graph, bg_value x);
BG_API bg_value bg_sigmoid(bg_graph *graph, bg_value x);
BG_API bg_value bg_silu(bg_graph *graph, bg_value x);
BG_API bg_value bg_clamp(bg_graph *graph, bg_value x, double lowest, double highest);
BG_API bg_value bg_power(bg_graph *graph, bg_value x, double exponent);
/* As bg_elementwise_binary. Shapes: a and b broadcast to the result. */
BG_API bg_value bg_add(bg_graph *graph, bg_value a, bg_value b);
BG_API bg_value bg_subtract(bg_graph *graph, bg_value a, bg_value b);
BG_API bg_value bg_multiply(bg_graph *graph, bg_value a, bg_value b);
BG_API bg_value bg_divide(bg_graph *graph, bg_value a, bg_value b);

/* alpha * x + beta. Integers (int32, int64) are computed in double, truncated and saturated: exact up to 2^53 in size.
 * bg_add and bg_multiply with a constant are exact for all of them. */
BG_API bg_value bg_scale(bg_graph *graph, const char *name, bg_value x, double alpha, double beta);
/* To another element type: float to float rounds to nearest even, as does integer to float where it does not fit;
 * float to integer truncates and saturates, integer to integer saturates (no gradient). */
BG_API bg_value bg_cast(bg_graph *graph, const char *name, bg_value x, bg_dtype dtype);
/* (x / divisor - mean) / deviation, computed in float32 in just that order, as torchvision's transforms do; x may be
 * uint8. Result in `dtype`. */
BG_API bg_value bg_standardize(bg_graph *graph, const char *name, bg_value x, bg_dtype dtype, float divisor, float mean,
                               float deviation);

/* ---- comparisons ---- */

typedef enum bg_comparison {
    BG_LESS = 0,
    BG_LESS_EQUAL,
    BG_EQUAL,
    BG_NOT_EQUAL,
    BG_GREATER,
    BG_GREATER_EQUAL,
    BG_COMPARISON_COUNT
} bg_comparison;
/* uint8: 1 where `a comparison b` holds, 0 elsewhere. Operands broadcast as in NumPy and may have any element type,
 * both the same (floats of 16 and 32 bits may be mixed). As in C, NaN is not equal to anything, and neither less nor
 * greater. No gradient. A scalar result is what a loop's condition or bg_run.stop can read. Errors, in bg_graph_check:
 * BG_ERROR_SHAPE, BG_ERROR_INVALID for a comparison that does not exist. Shapes: a and b broadcast to the
 * result. */
BG_API bg_value bg_compare(bg_graph *graph, const char *name, bg_comparison comparison, bg_value a, bg_value b);
/* a where the condition (uint8, as bg_compare returns it) is not 0, b elsewhere. All three broadcast as in NumPy; a and
 * b may have any element type, both the same (floats of 16 and 32 bits may be mixed). Gradients of float a and b are
 * those of the elements that were chosen, and 0 elsewhere, even where the gradient of the result is infinite or NaN.
 * Errors, in bg_graph_check: BG_ERROR_SHAPE. Shapes: all three broadcast to the result. */
BG_API bg_value bg_where(bg_graph *graph, const char *name, bg_value condition, bg_value a, bg_value b);

typedef enum bg_logic {
    BG_LOGIC_AND = 0,
    BG_LOGIC_OR,
    BG_LOGIC_XOR, /* one of both, not both */
    BG_LOGIC_COUNT
} bg_logic;
/* uint8, 1 or 0: what does not equal 0 counts as true. Operands of any element types broadcast as in NumPy. No
 * gradient. Errors, in bg_graph_check: BG_ERROR_SHAPE, BG_ERROR_INVALID for a function that does not exist. Shapes: a
 * and b broadcast to the result. */
BG_API bg_value bg_logical(bg_graph *graph, const char *name, bg_logic function, bg_value a, bg_value b);
/* 1 where x equals 0, 0 elsewhere. */
BG_API bg_value bg_logical_not(bg_graph *graph, const char *name, bg_value x);
/* x [..., R, C] with zeros below the diagonal (upper) or above it (not upper), as torch.triu and tril; diagonal says
 * how many places to the right of the main one it lies, negative: to the left. Any element type. */
BG_API bg_value bg_triangle(bg_graph *graph, const char *name, bg_value x, bool upper, int64_t diagonal);
/* x where it is above 0, slope x elsewhere, as torch.prelu: slope has one number, or one for each channel (dimension 1
 * of x). Gradients flow to both. Errors, in bg_graph_check: BG_ERROR_SHAPE. */
BG_API bg_value bg_prelu(bg_graph *graph, const char *name, bg_value x, bg_value slope);

/* ---- reductions and shapes ---- */

typedef enum bg_reduction { BG_REDUCE_SUM = 0, BG_REDUCE_MEAN, BG_REDUCE_MAX, BG_REDUCTION_COUNT } bg_reduction;
/* Over `axes` (negative count from the end; axis_count 0: all). keep_dims leaves them with size 1. Sums and maxima also
 * of int32 and int64; sums wrap around. The gradient of MAX
 * goes to the first largest element, as torch.max over a dimension does it (torch.amax shares it among equals). Shapes:
 * x without the axes, or with size 1 for each of them. */
BG_API bg_value bg_reduce(bg_graph *graph, const char *name, bg_reduction function, bg_value x, const int32_t *axes,
                          uint32_t axis_count, bool keep_dims);
/* Index of the first largest element along the last dim: [..., C] -> int32 [...]. */
BG_API bg_value bg_argmax(bg_graph *graph, const char *name, bg_value x);
/* To `type`'s shape by NumPy's rules (dtype unchanged). Shapes: the dims that are given. */
BG_API bg_value bg_broadcast(bg_graph *graph, const char *name, bg_value x, uint32_t rank, const int64_t *dims);
/* One dim may be -1. No data moves. Shapes: the dims that are given. */
BG_API bg_value bg_reshape(bg_graph *graph, const char *name, bg_value x, uint32_t rank, const int64_t *dims);
/* [N, ...] -> [N, product of the rest] */
BG_API bg_value bg_flatten(bg_graph *graph, const char *name, bg_value x);
/* Output dim i is input dim permutation[i]. Shapes: the dims of x in the order of the permutation. */
BG_API bg_value bg_transpose(bg_graph *graph, const char *name, bg_value x, const uint32_t *permutation);
/* Elements start, start+step, ... below stop along `axis`; start and stop may be negative (from the end), and then
 * 0 <= start < stop <= size must hold. step >= 1. Shapes: x with ceil((stop - start) / step) elements along the axis.
 */
BG_API bg_value bg_slice(bg_graph *graph, const char *name, bg_value x, int32_t axis, int64_t start, int64_t stop,
                         int64_t step);
/* More than 60 values are concatenated in steps. Shapes: values that agree in all dims but the axis -> the sum of their
 * sizes along the axis. */
BG_API bg_value bg_concat(bg_graph *graph, const char *name, const bg_value *values, uint32_t count, int32_t axis);

typedef enum bg_pad_mode {
    BG_PAD_CONSTANT = 0,
    BG_PAD_REFLECT,   /* c b | a b c | b a: the edge does not come twice */
    BG_PAD_REPLICATE, /* a a | a b c | c c */
    BG_PAD_CIRCULAR,  /* b c | a b c | a b */
    BG_PAD_MODE_COUNT
} bg_pad_mode;
/* x with before[i] and after[i] more elements around dimension i (both have as many numbers as x has dimensions; they
 * are copied): `value` for BG_PAD_CONSTANT, which also takes numbers below 0 (so many elements are left out), else
 * elements of x. Any element type. Errors, in bg_graph_check: BG_ERROR_SHAPE for numbers that the mode cannot give
 * (reflect: less than the dimension; circular: not more), or a dimension of which nothing is left. Shapes: dim i is
 * before[i] + the size of x + after[i]. */
BG_API bg_value bg_pad(bg_graph *graph, const char *name, bg_value x, bg_pad_mode mode, const int64_t *before,
                       const int64_t *after, double value);
/* y[i] = x[0] + .. + x[i] along the axis; exclusive: without x[i]; reverse: from the end. Floats are added in double;
 * int32 and int64 exactly, wrapping around. */
BG_API bg_value bg_cumulative_sum(bg_graph *graph, const char *name, bg_value x, int32_t axis, bool exclusive,
                                  bool reverse);
/* Values of one type, side by side along a new axis (negative: from the end of the result's). At most 60. Shapes: one
 * dim more than the values, of size `count`. */
BG_API bg_value bg_stack(bg_graph *graph, const char *name, const bg_value *values, uint32_t count, int32_t axis);
/* x repeated times[i] times along dimension i; one number for each dimension. Shapes: dim i is times[i] times that of
 * x. */
BG_API bg_value bg_tile(bg_graph *graph, const char *name, bg_value x, const int64_t *times);
/* y[(i + shift) mod size] = x[i] along the axis. */
BG_API bg_value bg_roll(bg_graph *graph, const char *name, bg_value x, int32_t axis, int64_t shift);
/* The other way round along the axis. */
BG_API bg_value bg_flip(bg_graph *graph, const char *name, bg_value x, int32_t axis);

/* ---- elements by number ----
 *
 * ids are int32, int64 or uint8: numbers along an axis of x (negative: from the end), those below 0 counted from its
 * end. One that is outside reads as zero and gets no gradient. Gradients of one element are added in the order of ids,
 * in every strategy and on any number of cores. */

/* x [A.., S, B..], ids [I..] -> [A.., I.., B..]: element ids[i] along the axis, as torch.index_select and ONNX's Gather
 * take them. Any element type; gradients flow to a float x. */
BG_API bg_value bg_gather(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids);
/* x, and each of `updates` [A.., I.., B..] added to the element that its id names, as torch.index_add does. */
BG_API bg_value bg_scatter_add(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids,
                               bg_value updates);
/* A number for each element: y[a, i, b] = x[a, ids[a, i, b], b], as torch.gather; ids have x's shape, except along the
 * axis. Shapes: the shape of ids. */
BG_API bg_value bg_gather_elements(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids);
/* x, and each of `updates` (in ids' shape) added to the element that its id names, as torch.scatter_add does. */
BG_API bg_value bg_scatter_elements_add(bg_graph *graph, const char *name, bg_value x, int32_t axis, bg_value ids,
                                        bg_value updates);
/* ids [I..] -> [I.., classes] of `dtype`: 1 at the id, 0 elsewhere; an id outside 0 .. classes - 1 has zeros alone. */
BG_API bg_value bg_one_hot(bg_graph *graph, const char *name, bg_value ids, int64_t classes, bg_dtype dtype);
/* The k largest (or smallest) elements of each row of x [..., C], first ones first -> values [..., k]; `*out_numbers`
 * (may be NULL) their places in the row, int32. Equal elements keep their order; NaN counts as the largest.
 * Gradients flow to the elements that were chosen. */
BG_API bg_value bg_top_k(bg_graph *graph, const char *name, bg_value x, int64_t k, bool smallest,
                         bg_value *out_numbers);

/* ---- normalization, embedding, dropout ---- */

/* Over the axis (negative: from the end). */
BG_API bg_value bg_softmax(bg_graph *graph, const char *name, bg_value x, int32_t axis);
BG_API bg_value bg_log_softmax(bg_graph *graph, const char *name, bg_value x, int32_t axis);
/* Over the last dim. gamma, beta [last]; both or neither. */
BG_API bg_value bg_layer_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                              double epsilon);
/* Over the last dimension, by the root of the mean square: x / sqrt(mean(x^2) + epsilon) gamma. gamma may be null. */
BG_API bg_value bg_rms_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, double epsilon);
/* x [N,C,...]: over the channels of each group and their places, each sample by itself; gamma and beta [C], or both
 * null. One group: layer norm over all but N. As many groups as channels: instance norm. */
BG_API bg_value bg_group_norm(bg_graph *graph, const char *name, bg_value x, int64_t groups, bg_value gamma,
                              bg_value beta, double epsilon);
/* x [N,C] or [N,C,...]; gamma, beta, running_mean, running_variance [C]; the running ones may be float32 beside
 * operands of 16 bits. Training: the micro-batch's statistics, and running = (1 - momentum) running + momentum batch
 * (unbiased variance). Inference: the running ones. Each data-parallel replica normalizes with the statistics of its
 * own micro-batches and keeps its own running ones; weights that are read or saved have those of replica 0. */
BG_API bg_value bg_batch_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                              bg_value running_mean, bg_value running_variance, double momentum, double epsilon);
/* The same with the statistics of all data-parallel replicas' values of a micro-batch together, forward and backward,
 * as torch.nn.SyncBatchNorm: the replicas' running statistics are equal, and `unbiased` is by the number of values of
 * all. Training meets twice, to gather the statistics and to add up two sums of gradients. With one replica and in
 * inference it is bg_batch_norm. options.replicas.synchronize_batch_norm does it for every bg_batch_norm of a graph. */
BG_API bg_value bg_sync_batch_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                                   bg_value running_mean, bg_value running_variance, double momentum, double epsilon);
/* table [V,H], ids int32 [...] -> [...,H]. Gradients of row padding_index (or -1: none) stay zero. An id
 * out of range yields zeros and gets no gradient. */
BG_API bg_value bg_embedding(bg_graph *graph, const char *name, bg_value table, bg_value ids, int64_t padding_index);
/* Training: zero with `probability`, else x / (1 - probability); the mask is a function of (seed, step, sample, op,
 * element), so recomputation, schedules and processes do not change it. Inference: x. */
BG_API bg_value bg_dropout(bg_graph *graph, const char *name, bg_value x, double probability);

/* ---- attention ---- */

typedef struct bg_attention_options {
    size_t struct_bytes; /* set by bg_attention_defaults; see base.h */
    int64_t heads;
    int64_t sequence_length; /* S; 0: the second dimension of a qkv of rank 3 */
    bool causal;             /* a token sees itself and those before it */
    double scale;            /* of scores; 0: 1 / sqrt(D) */
    double dropout;          /* of the shares (after softmax), in training: 0 to below 1 */
    int64_t serialization;   /* number of pieces, a divisor of S, in which kernels process a sequence's queries: less
                                memory at a time, never another number */
    bg_mesh_axis axis; /* heads are a replica's piece of those of the whole model, cut along it: random numbers are
                          those of the whole; default NONE */
} bg_attention_options;

BG_API void bg_attention_options_init(bg_attention_options *options, size_t struct_bytes, int64_t heads);
/* causal, no dropout, one piece */
static inline bg_attention_options bg_attention_defaults(int64_t heads)
{
    bg_attention_options options;

    bg_attention_options_init(&options, sizeof options, heads);
    return options;
}

/* Multi-head self-attention: softmax(scale Q K^T) V for each sequence and head. qkv [N, S, 3 heads D] or
 * [N S, 3 heads D]: queries of all heads, then keys, then values, as GPT-2 has them -> [.., heads D]. The S x S scores
 * are never kept: the backward pass computes them again from the logarithm of each row's sum (Dao et al.,
 * FlashAttention, 2022). The dropout's mask is a function of (seed, step, sample, op, head, query, key). */
BG_API bg_value bg_attention(bg_graph *graph, const char *name, bg_value qkv, const bg_attention_options *options);

/*
 * The same for the next S tokens of one sequence, of which those before are known: qkv [S, 3 heads D]; cache, a
 * variable [L, 2 heads D], has a row for each token so far, its keys, then its values; positions int32 says with its
 * first number where the new tokens stand, from 0 to L - S (others count as the nearest). Writes the new rows of the
 * cache and gives y [S, heads D], with the bits that bg_attention gives. Causal, without dropout, without a gradient.
 * Shapes: qkv [S, 3 heads D] -> [S, heads D]. */
BG_API bg_value bg_attention_cached(bg_graph *graph, const char *name, bg_value qkv, bg_value cache, bg_value positions,
                                    const bg_attention_options *options);

typedef struct bg_dot_product_attention_options {
    size_t struct_bytes; /* set by bg_dot_product_attention_defaults; see base.h */
    int64_t heads;
    int64_t key_heads; /* of keys and values, which divide heads: query head h goes to key head h / (heads / key_heads);
                          0: as many as heads */
    bool causal;       /* a query sees the keys up to its own place */
    int64_t window;    /* it sees those less than so far from its place; 0: any */
    int64_t offset;    /* where the first query stands among the keys: T - S where queries are the last ones */
    double scale;      /* of scores; 0: 1 / sqrt(D) */
    double dropout;    /* of the shares (after softmax), in training: 0 to below 1 */
    double alibi;      /* scores fall with the distance, by 2^-(alibi / heads x (h + 1)) a place in head h (for other
                          numbers than powers of two as the paper has it); 8 in the paper; 0: none */
    bg_mesh_axis axis; /* as in bg_attention_options; not with alibi */
} bg_dot_product_attention_options;

BG_API void bg_dot_product_attention_options_init(bg_dot_product_attention_options *options, size_t struct_bytes,
                                                  int64_t heads);
/* every query sees every key; no dropout */
static inline bg_dot_product_attention_options bg_dot_product_attention_defaults(int64_t heads)
{
    bg_dot_product_attention_options options;

    bg_dot_product_attention_options_init(&options, sizeof options, heads);
    return options;
}

/*
 * softmax(scale Q K^T + bias) V for each sample and head, as torch's scaled_dot_product_attention: query [N, S, heads
 * D], key and value [N, T, key_heads D] -> [N, S, heads D]. The bias may be null; it is [N, heads, S, T] or has 1 in
 * any of the first three dimensions or fewer dimensions (a padding mask is [N, 1, 1, T]): uint8, a mask that is not 0
 * where a key is seen, or floats (of the query's type or float32) that are added. A query that sees no key gives zeros.
 * Memory is linear in S and T but for the bias itself; gradients flow to all four, and the bias's is of the bias's
 * size.
 */
BG_API bg_value bg_dot_product_attention(bg_graph *graph, const char *name, bg_value query, bg_value key,
                                         bg_value value, bg_value bias,
                                         const bg_dot_product_attention_options *options);

/*
 * The same for the next S tokens of each sample, of which those before are known: query [N, S, heads D], key and value
 * [N, S, key_heads D] of these tokens alone; key_cache and value_cache, variables [N, L, key_heads D], have a row for
 * each place; positions int32 [N] says where the first of a sample's new tokens stands, from 0 to L - S (others count
 * as the nearest), so that samples may differ in length. Writes the new rows of the caches and gives y [N, S, heads D].
 * A token sees the rows up to its own, within the window; `offset` and `dropout` are not read, and `causal` is meant.
 * Memory is linear in L. Without a gradient. Shapes: query [N, S, heads D] -> [N, S, heads D]. */
BG_API bg_value bg_dot_product_attention_cached(bg_graph *graph, const char *name, bg_value query, bg_value key,
                                                bg_value value, bg_value key_cache, bg_value value_cache,
                                                bg_value positions, const bg_dot_product_attention_options *options);

/* A mask of padding, uint8 [N, 1, 1, length]: 1 at places below each sample's own length. lengths: int32 or int64 [N].
 * As the bias of bg_dot_product_attention it hides the keys behind them. Shapes: lengths [N] -> uint8 [N, 1, 1,
 * length]. */
BG_API bg_value bg_length_mask(bg_graph *graph, const char *name, bg_value lengths, int64_t length);

/*
 * How rotary positions reach more places than a model was trained with, by a factor `scaling` s; pair i turns f_i =
 * base^(-2 i / features) radians a position without it, and L is `trained_length`.
 *
 *     LINEAR       f_i / s
 *     NTK          with the base times s^(features / (features - 2)) (bloc97, "NTK-aware scaled RoPE", 2023)
 *     DYNAMIC_NTK  the same with s n / L - (s - 1) for s, n the larger of L and `length`: what n positions need
 *     YARN         from f_i where a pair turns at least beta_fast times in L positions to f_i / s where it turns at
 * most beta_slow times, linearly in i between; what turns is multiplied by `magnitude` (Peng et al., 2023) LLAMA3 f_i
 * where it turns more than high_frequency times in L positions, f_i / s where it turns less than low_frequency times,
 * linearly in the number of turns between (Llama 3.1's files)
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
    int64_t features; /* of a head, that are turned: its first ones, an even number; 0: all */
    bool interleaved; /* pairs are features 2 i and 2 i + 1; else i and features / 2 + i, as in LLaMA's files */
    double base;      /* pair i turns base^(-2 i / features) radians a position */
    bg_rotary_scaling kind;
    double scaling;                       /* s; default 1: none */
    int64_t trained_length;               /* L: of DYNAMIC_NTK, YARN and LLAMA3 */
    int64_t length;                       /* of DYNAMIC_NTK; 0: S */
    double beta_fast, beta_slow;          /* of YARN; default 32 and 1 */
    double low_frequency, high_frequency; /* of LLAMA3; default 1 and 4 */
    double magnitude;                     /* of YARN; 0: 0.1 ln(s) + 1 */
} bg_rotary_options;

BG_API void bg_rotary_options_init(bg_rotary_options *options, size_t struct_bytes, int64_t heads);
/* all features in two halves, base 10000, no scaling */
static inline bg_rotary_options bg_rotary_defaults(int64_t heads)
{
    bg_rotary_options options;

    bg_rotary_options_init(&options, sizeof options, heads);
    return options;
}

/* Rotary positions (Su et al., RoFormer, 2021) of queries or keys x [..., S, heads D] -> its shape. positions: int32
 * [S] or [..., S]; null: 0 .. S - 1. Gradients flow to x. */
BG_API bg_value bg_rotary(bg_graph *graph, const char *name, bg_value x, bg_value positions,
                          const bg_rotary_options *options);

/* ---- recurrences over time: the layers of nn.h have their parameters ---- */

/*
 * LSTM and GRU with PyTorch's formulas and order of gates (i, f, g, o; r, z, n), all steps in one op. x [T, N, gates
 * H], or [N, T, gates H] with batch_first, is what the inputs give to the gates: bg_linear with a weight [gates H, in]
 * and its bias. weight [gates H, H] and bias [gates H] (may be null) are the state's, h0 and c0 [N, H] the first
 * states. `reverse`: from the last step to the first. -> h of all steps [T, N, H]; `*out_c` (may be NULL) c of all
 * steps. Both may be used in a loss; gradients flow to all operands.
 */
BG_API bg_value bg_lstm(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias, bg_value h0,
                        bg_value c0, bool batch_first, bool reverse, bg_value *out_c);
BG_API bg_value bg_gru(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias, bg_value h0,
                       bool batch_first, bool reverse);

/* A GRU whose reset gate goes to the state before the product instead of behind it, as the paper (Cho et al., 2014) and
 * ONNX's linear_before_reset = 0 have it: n = tanh(x + weight (r h) + bias). Shapes: as bg_gru. */
BG_API bg_value bg_gru_reset_first(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                                   bg_value h0, bool batch_first, bool reverse);
/* h' = tanh(x + weight h + bias), or max(0, ...) with `relu`: torch.nn.RNN. weight [H, H], x [T, N, H]. Shapes: x [T,
 * N, H] -> [T, N, H]. */
BG_API bg_value bg_rnn(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias, bg_value h0,
                       bool relu, bool batch_first, bool reverse);

#define BG_SCAN_MOST 16
/* What a step of a scan sees and makes. `inputs` are this step's of each sequence, without the axis of time. The body
 * replaces each of `states` by its next value, of the same type, and sets each of `outputs`. */
typedef struct bg_scan_step {
    uint64_t step; /* counted in the direction of time, from 0 */
    const bg_value *inputs;
    bg_value *states;
    bg_value *outputs;
} bg_scan_step;

typedef struct bg_scan_options {
    size_t struct_bytes;  /* set by bg_scan_defaults; see base.h */
    uint32_t input_count; /* sequences; at least 1 */
    uint32_t state_count;
    uint32_t output_count; /* at least 1; each of these at most BG_SCAN_MOST */
    int32_t axis;          /* of time, in inputs and outputs; negative: from the end */
    bool reverse;          /* from the last step to the first */
    int64_t truncate;      /* most steps that gradients reach back: states are cut off at every multiple; 0: all */
    int64_t checkpoint;    /* states are marked (bg_graph_checkpoint) at every multiple of so many steps: with recompute
                              `checkpoints` what is between is computed again instead of kept; 0: no marks */
} bg_scan_options;

BG_API void bg_scan_options_init(bg_scan_options *options, size_t struct_bytes);
/* one input, one state, one output, forwards over axis 0; gradients through all steps */
static inline bg_scan_options bg_scan_defaults(void)
{
    bg_scan_options options;

    bg_scan_options_init(&options, sizeof options);
    return options;
}

/*
 * A loop over time inside the graph, with gradients: `body` is called once for each step, while the graph is built, and
 * adds the step's ops. It may use parameters, and any other value of the graph, whose gradients are summed over the
 * steps; the step's number is known, so steps may differ. `states` are the first states; they come back as the last
 * ones. `outputs` receives those of all steps along `axis`. Gradients flow to inputs, first states and what the body
 * uses; those of an input's steps cost its own bytes. Returns output 0. Errors, in bg_graph_check: BG_ERROR_SHAPE
 * (inputs of different lengths, a state whose type changes), BG_ERROR_INVALID (counts). Shapes: output 0 of all steps
 * along the axis. */
BG_API bg_value bg_scan(bg_graph *graph, const bg_scan_options *options, const bg_value *inputs, bg_value *states,
                        void (*body)(void *user, bg_graph *graph, bg_scan_step *step), void *user, bg_value *outputs);

/* x, through which no gradient flows: torch's detach. Any type; the same memory. */
BG_API bg_value bg_stop_gradient(bg_graph *graph, const char *name, bg_value x);

/* ---- remote buffers: bg_graph_remote_buffer ---- */

/* Entry `index` (int32, one number, known at run time) of a buffer [E, ...] -> [...]; the first dimension of any
 * variable may be taken for entries. Beyond the entries: zeros. No gradient flows through it. */
BG_API bg_value bg_remote_load(bg_graph *graph, const char *name, bg_value buffer, bg_value index);
/* Writes `value` over entry `index`; beyond the entries nothing is written. Loads and stores happen in the order in
 * which they are added. The result is the index again: an output made of it keeps the store in an inference, which
 * leaves out what no output needs. Shapes: the shape of index. */
BG_API bg_value bg_remote_store(bg_graph *graph, const char *name, bg_value buffer, bg_value index, bg_value value);

/* ---- collectives: over the replicas of a mesh (bg_graph_set_mesh) ---- */

/* `axes`: bits of the tensor axes of bg_mesh_axis. All members of a group along them get the same bits: members are
 * added in their order, in float32 or better, and rounded once. Over an axis of size 1 x is returned as it is. A sum is
 * the sum of the members' x whatever their gradients mean; which gradient is right depends on what follows:
 *
 *     bg_all_reduce            members go on differently: the gradient of each x is the sum of the members' gradients
 *     bg_identical_gradients   all members do the same with the sum: the gradient goes straight through
 *     bg_identical_inputs      x is the same everywhere and members do different things with it: forward nothing is
 *                              done, and gradients are added up
 *
 * (the GPT-3 example for PopXL; Shoeybi et al., Megatron-LM, 2019, have the last two as g and f). */

/* BG_REDUCE_SUM or BG_REDUCE_MAX; no gradient flows through the maximum. */
BG_API bg_value bg_all_reduce(bg_graph *graph, const char *name, bg_value x, bg_reduction function, uint32_t axes);
BG_API bg_value bg_identical_gradients(bg_graph *graph, const char *name, bg_value x, uint32_t axes);
BG_API bg_value bg_identical_inputs(bg_graph *graph, const char *name, bg_value x, uint32_t axes);
/* The members' x one after the other along `axis` (negative: from the end). Its gradient is the scattered sum. Shapes:
 * x with the sum of the members' sizes along the axis. */
BG_API bg_value bg_all_gather(bg_graph *graph, const char *name, bg_value x, int32_t axis, uint32_t axes);
/* The member's piece along `axis`, which the members divide, of the members' sum. Its gradient is gathered. Shapes: x
 * with the member's share of the size along the axis. */
BG_API bg_value bg_reduce_scatter(bg_graph *graph, const char *name, bg_value x, int32_t axis, uint32_t axes);

/* ---- losses and metrics ---- */

typedef enum bg_loss_reduction { BG_LOSS_MEAN = 0, BG_LOSS_SUM, BG_LOSS_NONE } bg_loss_reduction;

/* logits [N, C] (or [..., C]), labels int32 or uint8 [N] ([...]) -> scalar float32 (float64 for float64 logits), or [N]
 * for NONE. Labels equal to ignore_index do not count; the mean is over the others (0 if there are none), in training
 * over those of the whole update (bg_accumulation). A label outside 0..C-1 that is not ignore_index makes the
 * loss NaN. ignore_index: PyTorch's default is -100. */
BG_API bg_value bg_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                 bg_loss_reduction reduction, int64_t ignore_index);

/* The same with a weight for each class, class_weights [C] (floats; null: 1), and label_smoothing, from 0 to 1: this
 * share of each label is spread evenly over all classes. A label counts with its class's weight, and the mean is
 * divided by the sum of these, in training over the whole update, as PyTorch's cross_entropy has it. No gradient flows
 * to the weights. Errors, in bg_graph_check: BG_ERROR_SHAPE, BG_ERROR_INVALID for a label_smoothing outside 0..1.
 * Shapes: as bg_cross_entropy. */
BG_API bg_value bg_weighted_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                          bg_value class_weights, double label_smoothing, bg_loss_reduction reduction,
                                          int64_t ignore_index);
/* The negative log-likelihood of labels: of logarithms of probabilities [..., C], as bg_log_softmax makes them; labels,
 * weights (or null), mean and errors as above. Shapes: as bg_cross_entropy. */
BG_API bg_value bg_nll_loss(bg_graph *graph, const char *name, bg_value log_probabilities, bg_value labels,
                            bg_value class_weights, bg_loss_reduction reduction, int64_t ignore_index);

/*
 * Connectionist temporal classification (Graves et al., 2006): minus the logarithm of the probability of a sample's
 * targets, over all ways to lay them along its steps with blanks between them. log_probabilities float [N, T, C] are
 * logarithms of probabilities over the last dimension (bg_log_softmax), samples first where torch's ctc_loss has steps
 * first; targets int32 [N, S], classes that are not `blank`; lengths and target_lengths int32 [N] say how many steps
 * and targets of a sample count (null: all) -> [N] for NONE, the sum for SUM; for MEAN each loss is divided by the
 * length of its targets (by 1 where that is 0) first, as torch has it. float32 (float64 for float64). Targets that do
 * not fit into the steps have an infinite loss, and gradients that are NaN; with zero_infinity both are 0. Lengths
 * beyond T or S, targets that are no classes or the blank make the loss NaN. Gradients are derivatives by each
 * logarithm, which through bg_log_softmax are torch's. Errors, in bg_graph_check: BG_ERROR_SHAPE, BG_ERROR_INVALID for
 * a blank that is no class.
 */
BG_API bg_value bg_ctc_loss(bg_graph *graph, const char *name, bg_value log_probabilities, bg_value targets,
                            bg_value lengths, bg_value target_lengths, int32_t blank, bool zero_infinity,
                            bg_loss_reduction reduction);

/* Losses of a prediction p and a target t, element by element; d is p - t, a the parameter. With PyTorch's names: */
typedef enum bg_pointwise_loss_function {
    BG_LOSS_SQUARED = 0,   /* mse_loss: d^2 */
    BG_LOSS_ABSOLUTE,      /* l1_loss: |d| */
    BG_LOSS_SMOOTH_L1,     /* smooth_l1_loss, a = beta: d^2 / 2a where |d| < a, else |d| - a/2 */
    BG_LOSS_HUBER,         /* huber_loss, a = delta: d^2 / 2 where |d| <= a, else a (|d| - a/2) */
    BG_LOSS_BINARY_LOGITS, /* binary_cross_entropy_with_logits, a = pos_weight: p is a logit, t within 0..1 */
    BG_LOSS_BINARY,        /* binary_cross_entropy: p is a probability; logarithms are taken as -100 at least */
    BG_LOSS_KL,            /* kl_div: p is the logarithm of a probability, t a probability; t (log t - p) */
    BG_LOSS_KL_LOG,        /* kl_div, log_target: both are logarithms; e^t (t - p) */
    BG_LOSS_FUNCTION_COUNT
} bg_pointwise_loss_function;
/* Prediction and target are floats of one type and shape -> scalar float32 (float64 for float64 operands), or their
 * shape for NONE. The mean is over all elements. parameter: `a` above; functions without one do not read it (give 0).
 * Gradients flow to both. Errors, in bg_graph_check: BG_ERROR_SHAPE; BG_ERROR_INVALID for a function or a reduction
 * that does not exist, a parameter that is negative or not finite, a delta of 0. */
BG_API bg_value bg_pointwise_loss(bg_graph *graph, const char *name, bg_pointwise_loss_function function,
                                  double parameter, bg_value prediction, bg_value target, bg_loss_reduction reduction);
/* bg_pointwise_loss of BG_LOSS_SQUARED. Shapes: as bg_pointwise_loss. */
BG_API bg_value bg_mse_loss(bg_graph *graph, const char *name, bg_value prediction, bg_value target,
                            bg_loss_reduction reduction);

/* a b / (max(|a|, epsilon) max(|b|, epsilon)) along the axis, which goes away, as torch.cosine_similarity; PyTorch's
 * epsilon is 1e-8. Computed in float32 or better. Errors, in bg_graph_check: BG_ERROR_SHAPE, BG_ERROR_INVALID for an
 * epsilon that is not above 0. Shapes: a without the axis. */
BG_API bg_value bg_cosine_similarity(bg_graph *graph, const char *name, bg_value a, bg_value b, int32_t axis,
                                     double epsilon);
/* a and b [..., D], targets [...] of any element type -> scalar float32 (float64 for float64), or [...] for NONE: 1 -
 * cos where the target is above 0, else max(0, cos - margin), as torch's cosine_embedding_loss. Errors: as above. */
BG_API bg_value bg_cosine_embedding_loss(bg_graph *graph, const char *name, bg_value a, bg_value b, bg_value targets,
                                         double margin, bg_loss_reduction reduction);

/* How many rows of logits [N, C] have their first largest element at the label: int32 scalar. Shapes: logits [N, C],
 * labels [N] -> int32 scalar. */
BG_API bg_value bg_correct_count(bg_graph *graph, const char *name, bg_value logits, bg_value labels);
/* How many labels are among the k largest logits of their rows [..., C], first ones first where equal: int32 scalar.
 * Shapes: logits [..., C], labels [...] -> int32 scalar. */
BG_API bg_value bg_top_k_correct_count(bg_graph *graph, const char *name, bg_value logits, bg_value labels, int64_t k);
/* The counts from which scores of a pass are computed (score.h). Errors, in bg_graph_check: BG_ERROR_SHAPE.
 *
 * Of logits [..., C] and labels [...]: int32 [3, C], how many rows of each class are right, predicted so (the first
 * largest element), labeled so. Rows with a label outside of 0..C-1 do not count. Shapes: logits [..., C], labels
 * [...] -> int32 [3, C]. */
BG_API bg_value bg_class_counts(bg_graph *graph, const char *name, bg_value logits, bg_value labels);
/* Of floats of one type and shape, of which those above the threshold (targets: above one half) are yes: int32 [3, 2],
 * the same of no and yes. A logit's threshold is 0, a probability's 0.5. Shapes: operands of one shape -> int32 [3, 2].
 */
BG_API bg_value bg_binary_counts(bg_graph *graph, const char *name, bg_value predictions, bg_value targets,
                                 double threshold);
/* Of logits [..., C] and labels [...]: float32 [2], the sum of the negative logarithms of the labels' likelihoods, and
 * how many labels are not ignore_index (bg_cross_entropy). Shapes: logits [..., C], labels [...] -> float32 [2]. */
BG_API bg_value bg_likelihood_sums(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                   int64_t ignore_index);

/* ---- ops over pieces ----
 *
 * The mesh cuts a dimension of the whole tensor over `axis`, BG_MESH_TENSOR_1 or BG_MESH_TENSOR_2; operands are a
 * replica's pieces. Over an axis of size 1, and BG_MESH_NONE, they are the plain ops. */

/* bg_embedding of a table that is cut by rows: ids count from the first row of the whole, and those of other replicas'
 * rows read as zeros. bg_identical_gradients over the axis makes the rows of it. Shapes: table [V, H], ids [...] ->
 * [..., H]. */
BG_API bg_value bg_sharded_embedding(bg_graph *graph, const char *name, bg_value table, bg_value ids,
                                     bg_mesh_axis axis);
/* bg_dropout of an x [N, ..., last] whose last dim is cut: the mask is that of the whole x. */
BG_API bg_value bg_sharded_dropout(bg_graph *graph, const char *name, bg_value x, double probability,
                                   bg_mesh_axis axis);
/* bg_layer_norm of an x whose last dim is cut, with its pieces of gamma and beta (both are given). One collective
 * forward, one backward. */
BG_API bg_value bg_sharded_layer_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                                      double epsilon, bg_mesh_axis axis);
/* bg_cross_entropy of logits whose classes are cut; labels are whole. `classes`: of the whole; columns behind the last
 * of them are padding and count for nothing. Three collectives forward, none backward; the loss is the same on all
 * replicas of a group. Shapes: as bg_cross_entropy. */
BG_API bg_value bg_sharded_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                         int64_t classes, bg_loss_reduction reduction, int64_t ignore_index,
                                         bg_mesh_axis axis);

/* ---- the gradient checker: any graph, also with users' ops ---- */

typedef struct bg_gradient_check_options {
    size_t struct_bytes; /* set by bg_gradient_check_defaults; see base.h */
    uint64_t seed;
    double step;                  /* of the central difference; default 1e-5 (inputs are float64) */
    double absolute_tolerance;    /* default 1e-7 */
    double relative_tolerance;    /* default 1e-5 */
    uint32_t elements_per_input;  /* how many elements of each input are moved; 0: all */
    double input_low, input_high; /* uniform random inputs where no values are given; default -1, 1 */
    /* Bit i: output i is part of the sum. Default 1: the first only, since later outputs are often notes for the
     * backward pass (means, indices) through which no gradient flows. */
    uint32_t outputs;
} bg_gradient_check_options;
BG_API void bg_gradient_check_options_init(bg_gradient_check_options *options, size_t struct_bytes);
static inline bg_gradient_check_options bg_gradient_check_defaults(void)
{
    bg_gradient_check_options options;

    bg_gradient_check_options_init(&options, sizeof options);
    return options;
}

/* Builds the op once over float64 operands (integer ones keep their type and must be given in `values`), and compares
 * its gradient rule with central differences of sum(output * random weights), with reference kernels. Types say the
 * operands; values[i] may be NULL for random ones, or hold type's data. Fails with the first element that disagrees:
 * operand, element, both numbers. */
BG_API bg_status bg_gradient_check(const bg_op_type *op_type, const void *attributes, const bg_type *types,
                                   const void *const *values, uint32_t input_count,
                                   const bg_gradient_check_options *options, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
