/*
 * ops.h: the library's ops. Each adds one op (or a few) to a graph and returns its output; shapes are checked when
 * added. Layouts: images are [N, C, H, W]; convolution weights [O, C/groups, KH, KW]; linear weights [out, in].
 * Float ops take float32, bfloat16, float16 and float64; operands of one op have one float type unless said otherwise,
 * and sums are kept in float32 or better. Elementwise functions, matrix products, bg_linear and bg_conv2d take mixtures
 * of float32 and types of 16 bits, as float32. `name` may be NULL.
 */
#ifndef BRIGADE_OPS_H
#define BRIGADE_OPS_H

#include <brigade/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- convolution and pooling ---- */

typedef struct bg_conv2d_options {
    int64_t stride[2];   /* height, width; at least 1 */
    int64_t padding[2];  /* zeros on both sides */
    int64_t dilation[2]; /* at least 1 */
    int64_t groups;      /* divides C and O */
} bg_conv2d_options;

BG_API bg_conv2d_options bg_conv2d_defaults(void); /* stride 1, padding 0, dilation 1, groups 1 */

/* x [N,C,H,W], weight [O,C/groups,KH,KW], bias [O] or null -> [N,O,OH,OW],
 * OH = floor((H + 2 padding - dilation (KH-1) - 1) / stride) + 1. options NULL: defaults. */
BG_API bg_value bg_conv2d(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                          const bg_conv2d_options *options);

typedef struct bg_pool2d_options {
    int64_t kernel[2];
    int64_t stride[2];   /* 0: the kernel's size */
    int64_t padding[2];  /* at most half the kernel */
    int64_t dilation[2]; /* max pool only */
    bool ceil_mode;
    bool count_include_pad; /* average pool; PyTorch's default is true */
} bg_pool2d_options;

BG_API bg_pool2d_options bg_pool2d_defaults(int64_t kernel_size);

/* The first largest element of each window; NaN wins. */
BG_API bg_value bg_max_pool2d(bg_graph *graph, const char *name, bg_value x, const bg_pool2d_options *options);
BG_API bg_value bg_avg_pool2d(bg_graph *graph, const char *name, bg_value x, const bg_pool2d_options *options);

/* ---- matrix products ---- */

/* x [..., in], weight [out, in], bias [out] or null -> [..., out]: x weight^T + bias. */
BG_API bg_value bg_linear(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias);
/* a [..., M, K], b [..., K, N] (after transposing the last two dims where asked) -> [..., M, N]. Leading dims
 * broadcast. */
BG_API bg_value bg_matmul(bg_graph *graph, const char *name, bg_value a, bg_value b, bool transpose_a,
                          bool transpose_b);

/* ---- elementwise ---- */

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
    BG_UNARY_COUNT
} bg_unary;
BG_API bg_value bg_elementwise_unary(bg_graph *graph, const char *name, bg_unary function, bg_value x);

typedef enum bg_binary {
    BG_ADD = 0,
    BG_SUBTRACT,
    BG_MULTIPLY,
    BG_DIVIDE,
    BG_MAXIMUM,
    BG_MINIMUM,
    BG_BINARY_COUNT
} bg_binary;
/* Operands broadcast as in NumPy. */
BG_API bg_value bg_elementwise_binary(bg_graph *graph, const char *name, bg_binary function, bg_value a, bg_value b);

BG_API bg_value bg_relu(bg_graph *graph, bg_value x);
BG_API bg_value bg_gelu(bg_graph *graph, bg_value x);
BG_API bg_value bg_gelu_tanh(bg_graph *graph, bg_value x);
BG_API bg_value bg_tanh(bg_graph *graph, bg_value x);
BG_API bg_value bg_sigmoid(bg_graph *graph, bg_value x);
BG_API bg_value bg_add(bg_graph *graph, bg_value a, bg_value b);
BG_API bg_value bg_subtract(bg_graph *graph, bg_value a, bg_value b);
BG_API bg_value bg_multiply(bg_graph *graph, bg_value a, bg_value b);
BG_API bg_value bg_divide(bg_graph *graph, bg_value a, bg_value b);

/* alpha * x + beta */
BG_API bg_value bg_scale(bg_graph *graph, const char *name, bg_value x, double alpha, double beta);
/* To another element type: float to float rounds to nearest even; uint8 and int32 to float are exact where they fit;
 * float to integer truncates and saturates (no gradient). */
BG_API bg_value bg_cast(bg_graph *graph, const char *name, bg_value x, bg_dtype dtype);
/* (x / divisor - mean) / deviation, computed in float32 in just that order, as torchvision's transforms do; x may be
 * uint8. Result in `dtype`. */
BG_API bg_value bg_standardise(bg_graph *graph, const char *name, bg_value x, bg_dtype dtype, float divisor, float mean,
                               float deviation);

/* ---- reductions and shapes ---- */

typedef enum bg_reduction { BG_REDUCE_SUM = 0, BG_REDUCE_MEAN, BG_REDUCE_MAX, BG_REDUCTION_COUNT } bg_reduction;
/* Over `axes` (negative count from the end; axis_count 0: all). keep_dims leaves them with size 1. The gradient of MAX
 * goes to the first largest element, as torch.max over a dimension does it (torch.amax shares it among equals). */
BG_API bg_value bg_reduce(bg_graph *graph, const char *name, bg_reduction function, bg_value x, const int32_t *axes,
                          uint32_t axis_count, bool keep_dims);
/* Index of the first largest element along the last dim: [..., C] -> int32 [...]. */
BG_API bg_value bg_argmax(bg_graph *graph, const char *name, bg_value x);
/* To `type`'s shape by NumPy's rules (dtype unchanged). */
BG_API bg_value bg_broadcast(bg_graph *graph, const char *name, bg_value x, uint32_t rank, const int64_t *dims);
/* One dim may be -1. No data moves. */
BG_API bg_value bg_reshape(bg_graph *graph, const char *name, bg_value x, uint32_t rank, const int64_t *dims);
/* [N, ...] -> [N, product of the rest] */
BG_API bg_value bg_flatten(bg_graph *graph, const char *name, bg_value x);
/* Output dim i is input dim permutation[i]. */
BG_API bg_value bg_transpose(bg_graph *graph, const char *name, bg_value x, const uint32_t *permutation);
/* Elements start, start+step, ... below stop along `axis`; start and stop may be negative (from the end), and then
 * 0 <= start < stop <= size must hold. step >= 1. */
BG_API bg_value bg_slice(bg_graph *graph, const char *name, bg_value x, int32_t axis, int64_t start, int64_t stop,
                         int64_t step);
/* At most 60 values; concatenate in steps for more. */
BG_API bg_value bg_concat(bg_graph *graph, const char *name, const bg_value *values, uint32_t count, int32_t axis);

/* ---- normalisation, embedding, dropout ---- */

BG_API bg_value bg_softmax(bg_graph *graph, const char *name, bg_value x, int32_t axis);
BG_API bg_value bg_log_softmax(bg_graph *graph, const char *name, bg_value x, int32_t axis);
/* Over the last dim. gamma, beta [last]; both or neither. */
BG_API bg_value bg_layer_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                              double epsilon);
/* x [N,C] or [N,C,...]; gamma, beta, running_mean, running_variance [C]; the running ones may be float32 beside
 * operands of 16 bits. Training: the micro-batch's statistics, and running = (1 - momentum) running + momentum batch
 * (unbiased variance). Inference: the running ones. */
BG_API bg_value bg_batch_norm(bg_graph *graph, const char *name, bg_value x, bg_value gamma, bg_value beta,
                              bg_value running_mean, bg_value running_variance, double momentum, double epsilon);
/* table [V,H], ids int32 [...] -> [...,H]. Gradients of row padding_index (or -1: none) stay zero. Ids out of range
 * read as row zero of nothing: zeros, and get no gradient. */
BG_API bg_value bg_embedding(bg_graph *graph, const char *name, bg_value table, bg_value ids, int64_t padding_index);
/* Training: zero with `probability`, else x / (1 - probability); the mask is a function of (seed, step, sample, op,
 * element), so recomputation, schedules and processes do not change it. Inference: x. */
BG_API bg_value bg_dropout(bg_graph *graph, const char *name, bg_value x, double probability);

/* ---- attention ---- */

typedef struct bg_attention_options {
    int64_t heads;
    int64_t sequence_length; /* S; 0: the second dimension of a qkv of rank 3 */
    bool causal;             /* a token sees itself and those before it */
    double scale;            /* of scores; 0: 1 / sqrt(D) */
    double dropout;          /* of the shares (after softmax), in training: 0 to below 1 */
    int64_t serialisation;   /* kernels take the queries of a sequence in so many pieces, which divide S: less memory
                                at a time, never another number */
    bg_mesh_axis axis; /* heads are a replica's piece of those of the whole model, cut along it: random numbers are
                          those of the whole; default NONE */
} bg_attention_options;

BG_API bg_attention_options bg_attention_defaults(int64_t heads); /* causal, no dropout, one piece */

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
 */
BG_API bg_value bg_attention_cached(bg_graph *graph, const char *name, bg_value qkv, bg_value cache, bg_value positions,
                                    const bg_attention_options *options);

/* ---- remote buffers: bg_graph_remote_buffer ---- */

/* Entry `index` (int32, one number, known at run time) of a buffer [E, ...] -> [...]; the first dimension of any
 * variable may be taken for entries. Beyond the entries: zeros. No gradient flows through it. */
BG_API bg_value bg_remote_load(bg_graph *graph, const char *name, bg_value buffer, bg_value index);
/* Writes `value` over entry `index`; beyond the entries nothing is written. Loads and stores happen in the order in
 * which they are added. The result is the index again: an output made of it keeps the store in an inference, which
 * leaves out what no output needs. */
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
/* The members' x one after the other along `axis` (negative: from the end). Its gradient is the scattered sum. */
BG_API bg_value bg_all_gather(bg_graph *graph, const char *name, bg_value x, int32_t axis, uint32_t axes);
/* The member's piece along `axis`, which the members divide, of the members' sum. Its gradient is gathered. */
BG_API bg_value bg_reduce_scatter(bg_graph *graph, const char *name, bg_value x, int32_t axis, uint32_t axes);

/* ---- losses and metrics ---- */

typedef enum bg_loss_reduction { BG_LOSS_MEAN = 0, BG_LOSS_SUM, BG_LOSS_NONE } bg_loss_reduction;

/* logits [N, C] (or [..., C]), labels int32 or uint8 [N] ([...]) -> scalar float32 (float64 for float64 logits), or [N]
 * for NONE. Labels equal to ignore_index count for nothing; the mean is over the others (0 if there are none). A label
 * outside 0..C-1 that is not ignore_index makes the loss NaN. ignore_index: PyTorch's default is -100. */
BG_API bg_value bg_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                 bg_loss_reduction reduction, int64_t ignore_index);
BG_API bg_value bg_mse_loss(bg_graph *graph, const char *name, bg_value prediction, bg_value target,
                            bg_loss_reduction reduction);
/* How many rows of logits [N, C] have their first largest element at the label: int32 scalar. */
BG_API bg_value bg_correct_count(bg_graph *graph, const char *name, bg_value logits, bg_value labels);

/* ---- ops over pieces ----
 *
 * The mesh cuts a dimension of the whole tensor over `axis`, BG_MESH_TENSOR_1 or BG_MESH_TENSOR_2; operands are a
 * replica's pieces. Over an axis of size 1, and BG_MESH_NONE, they are the plain ops. */

/* bg_embedding of a table that is cut by rows: ids count from the first row of the whole, and those of other replicas'
 * rows read as zeros. bg_identical_gradients over the axis makes the rows of it. */
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
 * replicas of a group. */
BG_API bg_value bg_sharded_cross_entropy(bg_graph *graph, const char *name, bg_value logits, bg_value labels,
                                         int64_t classes, bg_loss_reduction reduction, int64_t ignore_index,
                                         bg_mesh_axis axis);

/* ---- the gradient checker: any graph, also with users' ops ---- */

typedef struct bg_gradient_check_options {
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
BG_API bg_gradient_check_options bg_gradient_check_defaults(void);

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
