/*
 * attributes.h: the attributes and operand orders of the library's kernels: the contract between ops and kernels.
 * Attributes are kept in files: flags are uint8_t, 0 for no, since not every byte is a bool.
 * In the operand lists "->" parts inputs from outputs, "?" marks operands that may be absent (trailing only), and "!"
 * marks inputs that are changed in place. Letters: N batch, C channels in, O channels out, G groups.
 */
#ifndef BGI_KERNELS_ATTRIBUTES_H
#define BGI_KERNELS_ATTRIBUTES_H

#include <math.h>

#include <brigade/ops.h>

#include "kernels/rounding.h"

/* "(+)": has an accumulating form (kernels.h).
 *
 * CONV2D                   x [N,C,H,W], w [O,C/G,KH,KW], b? [O] -> y
 * CONV2D_BACKWARD_INPUT    dy, w -> dx            (dx's shape is the output type)
 * CONV2D_BACKWARD_WEIGHTS  dy, x -> dw, db?   (+)
 *
 * The fused class (stride, dilation, groups 1; windows do not overlap): convolution, bias, max pool, optional relu:
 * CONV2D_POOL                   x, w, b -> y, where
 * CONV2D_POOL_BACKWARD_INPUT    dy, where, w -> dx
 * CONV2D_POOL_BACKWARD_WEIGHTS  dy, where, x -> dw, db   (+)
 * where is uint8: the offset of the largest element in its window, row-major; 255: relu is on and nothing is above 0.
 */
typedef struct bgi_conv2d_attributes {
    bg_conv2d_options options;
} bgi_conv2d_attributes;

typedef struct bgi_conv2d_pool_attributes {
    int64_t padding[2]; /* of the convolution */
    int64_t pool[2];    /* window and stride */
    uint8_t relu;
} bgi_conv2d_pool_attributes;

/* Attributes of backward ops say what their shape rules cannot see in the operands. The forward op's come first, so
 * that kernels may read these as if they were those. */
typedef struct bgi_conv2d_backward_attributes {
    bgi_conv2d_attributes forward;
    bg_type result;    /* of dx or dw */
    uint8_t with_bias; /* BACKWARD_WEIGHTS: make db too */
} bgi_conv2d_backward_attributes;

typedef struct bgi_conv2d_pool_backward_attributes {
    bgi_conv2d_pool_attributes forward;
    bg_type result; /* of dx or dw */
} bgi_conv2d_pool_backward_attributes;

/* MAX_POOL2D           x -> y, where (int32: index of the largest in its H x W plane)
 * MAX_POOL2D_BACKWARD  dy, where -> dx
 * AVG_POOL2D           x -> y
 * AVG_POOL2D_BACKWARD  dy -> dx */
typedef struct bgi_pool2d_attributes {
    bg_pool2d_options options; /* stride resolved */
} bgi_pool2d_attributes;

typedef struct bgi_pool2d_backward_attributes {
    bgi_pool2d_attributes forward;
    bg_type result; /* of dx */
} bgi_pool2d_backward_attributes;

/* LINEAR                   x [..., in], w [out, in], b? [out] -> y [..., out]
 * LINEAR_BACKWARD_INPUT    dy, w -> dx
 * LINEAR_BACKWARD_WEIGHTS  dy, x -> dw, db?       (bgi_linear_backward_attributes) (+)
 * MATMUL                   a, b -> y              (bgi_matmul_attributes; leading dims broadcast) (+) */
typedef struct bgi_matmul_attributes {
    uint8_t transpose_a, transpose_b;
} bgi_matmul_attributes;

typedef struct bgi_linear_backward_attributes {
    uint8_t bias; /* db is wanted */
} bgi_linear_backward_attributes;

/* FUSED_PRODUCT  the operands of a product, other? -> y, sum?
 * One of the products above, and what is done next with each element of its result. The bits are those of the separate
 * kernels, element by element and rounding by rounding. `sum`, if kept, is the result before the function.
 *
 *     follows NOTHING     y = product + bias             MATMUL alone; other = bias [columns]
 *     follows FUNCTION    y = function(sum)              sum = the product, after MATMUL + bias when there is one
 *     follows DERIVATIVE  y = UNARY_BACKWARD(product, other, other)
 *
 * LINEAR's own bias is an operand of the product. */
typedef enum bgi_product_kind {
    BGI_PRODUCT_LINEAR = 0,
    BGI_PRODUCT_LINEAR_BACKWARD_INPUT,
    BGI_PRODUCT_MATMUL,
    BGI_PRODUCT_COUNT
} bgi_product_kind;

typedef enum bgi_product_follower {
    BGI_FOLLOWS_NOTHING = 0,
    BGI_FOLLOWS_FUNCTION,
    BGI_FOLLOWS_DERIVATIVE,
    BGI_FOLLOWS_COUNT
} bgi_product_follower;

typedef struct bgi_fused_product_attributes {
    bgi_matmul_attributes layout; /* of MATMUL; first, so that it may read these as its own */
    uint8_t product;              /* bgi_product_kind */
    uint8_t follows;              /* bgi_product_follower */
    uint8_t keeps_sum;            /* of FUNCTION */
    uint8_t function;             /* bg_unary; 0 for NOTHING */
} bgi_fused_product_attributes;

/* How many of the inputs are the product's. */
static inline uint32_t bgi_fused_product_inputs(const bgi_fused_product_attributes *attributes, uint32_t input_count)
{
    return attributes->product == BGI_PRODUCT_LINEAR && attributes->follows != BGI_FOLLOWS_DERIVATIVE ? input_count : 2;
}

/* Whether a bias is added to the complete product. */
static inline bool bgi_fused_product_adds(const bgi_fused_product_attributes *attributes, uint32_t input_count)
{
    return attributes->follows != BGI_FOLLOWS_DERIVATIVE &&
           input_count > bgi_fused_product_inputs(attributes, input_count);
}

/* UNARY           x -> y
 * UNARY_BACKWARD  dy, x, y -> dx
 * So that only one of x and y must be kept for the backward pass, the other operand may be the same one again: kernels
 * use y for RELU, TANH, SIGMOID, EXP, SQRT and RECIPROCAL (x may be y), and x for the rest (y may be x). */
typedef struct bgi_unary_attributes {
    bg_unary function;
} bgi_unary_attributes;

/* BINARY           a, b -> y                      (broadcasting)
 * SELECT_GRADIENT  dy, a, b -> da                 (for MAXIMUM, MINIMUM: dy where a wins, half where equal; dy's shape)
 */
typedef struct bgi_binary_attributes {
    bg_binary function;
} bgi_binary_attributes;

/* SCALE        x -> y = alpha x + beta */
typedef struct bgi_scale_attributes {
    double alpha, beta;
} bgi_scale_attributes;

/* CAST         x -> y                             (kernels look at the types only)
 * STANDARDISE  x -> y */
typedef struct bgi_standardise_attributes {
    float divisor, mean, deviation;
    bg_dtype dtype; /* of y */
} bgi_standardise_attributes;

typedef struct bgi_cast_attributes {
    bg_dtype dtype;
} bgi_cast_attributes;

/* REDUCE           x -> y      (y keeps reduced dims with size 1 when keep_dims)
 * REDUCE_MAX_BACKWARD  dy, x, y -> dx  (to the first largest)
 * BROADCAST        x -> y      (bgi_dims_attributes; kernels look at the types only)
 * ARGMAX           x -> y int32 */
typedef struct bgi_reduce_attributes {
    bg_reduction function;
    uint32_t axes; /* bit i: dim i is reduced */
    uint8_t keep_dims;
} bgi_reduce_attributes;

/* The shape of a result that the operands do not give away: of BROADCAST and reshape. */
typedef struct bgi_dims_attributes {
    uint32_t rank;
    int64_t dims[BG_MAX_RANK];
} bgi_dims_attributes;

/* COPY       x -> y  (reshape when it cannot alias; loads and stores of remote buffers)
 * TRANSPOSE  x -> y */
typedef struct bgi_transpose_attributes {
    uint32_t permutation[BG_MAX_RANK];
} bgi_transpose_attributes;

/* SLICE           x -> y
 * SLICE_BACKWARD  dy -> dx  (zero elsewhere; bgi_slice_backward_attributes) */
typedef struct bgi_slice_attributes {
    uint32_t axis;
    int64_t start, stop, step; /* resolved: 0 <= start < stop <= dim */
} bgi_slice_attributes;

typedef struct bgi_slice_backward_attributes {
    bgi_slice_attributes slice;
    int64_t size; /* of dx along the axis */
} bgi_slice_backward_attributes;

/* CONCAT  x0, x1, ... -> y */
typedef struct bgi_axis_attributes {
    uint32_t axis;
} bgi_axis_attributes;

/* SOFTMAX, LOG_SOFTMAX                    x -> y       (bgi_axis_attributes)
 * SOFTMAX_BACKWARD, LOG_SOFTMAX_BACKWARD  dy, y -> dx  (bgi_axis_attributes)
 * LAYER_NORM           x, gamma?, beta? -> y, mean, rstd   (mean, rstd: x's shape less the last dim)
 * LAYER_NORM_BACKWARD  dy, x, mean, rstd, gamma? -> dx, dgamma?, dbeta?
 * BATCH_NORM           x, gamma, beta, running_mean!, running_variance! -> y, mean [C], rstd [C]
 * BATCH_NORM_BACKWARD  dy, x, mean, rstd, gamma -> dx, dgamma, dbeta
 * mean and rstd = 1 / sqrt(variance + epsilon) are float32, float64 for float64 x. */
typedef struct bgi_norm_attributes {
    double epsilon, momentum;
} bgi_norm_attributes;

/* Pieces of a layer norm whose last dim is cut over an axis of the mesh: sums of x and x^2, or of g = dy gamma and g
 * xhat, are added up over the axis between them. They are float64 [x's dims less the last, 2].
 * NORM_SUMS                   x -> sums
 * SHARDED_NORM                x, gamma, beta, sums -> y, mean, rstd
 * NORM_GRADIENT_SUMS          dy, x, mean, rstd, gamma -> sums
 * SHARDED_NORM_BACKWARD       dy, x, mean, rstd, gamma, sums -> dx, dgamma, dbeta */
typedef struct bgi_sharded_norm_attributes {
    double epsilon;
    bg_mesh_axis axis;
    int64_t width; /* of the whole */
} bgi_sharded_norm_attributes;

/* Where the running replica is along an axis on which something is cut; 0 for NONE. */
static inline uint32_t bgi_mesh_place(const bg_kernel_env *env, bg_mesh_axis axis)
{
    return axis == BG_MESH_TENSOR_1 ? env->place.tensor_1 : axis == BG_MESH_TENSOR_2 ? env->place.tensor_2 : 0;
}

/* EMBEDDING           table, ids -> y
 * EMBEDDING_BACKWARD  dy, ids -> dtable
 * Of a table that is cut by rows over an axis, ids count from the first row of the whole. */
typedef struct bgi_embedding_attributes {
    int64_t padding_index;
    bg_mesh_axis axis;
} bgi_embedding_attributes;

/* The id as a row of the replica's table, which has so many; -1: it has no such row. */
static inline int64_t bgi_embedding_row(const bg_kernel_call *call, const bgi_embedding_attributes *attributes,
                                        int32_t id, int64_t rows)
{
    const int64_t row = id - bgi_mesh_place(call->env, attributes->axis) * rows;

    return row >= 0 && row < rows ? row : -1;
}

typedef struct bgi_embedding_backward_attributes {
    bgi_embedding_attributes forward;
    bg_type result; /* of dtable */
} bgi_embedding_backward_attributes;

/* DROPOUT           x -> y   (in training; copies otherwise)
 * The mask of element e of sample n is word e % 4 of Philox4x32-10(counter {e / 4, global sample, random_id, step low},
 * key {seed low, seed high ^ step high}), kept when word * 2^-32 >= probability; global sample = micro_batch * N + n.
 * Its gradient is the same kernel applied to dy. Of an x whose last dim is cut over an axis, elements are counted in
 * the whole: replicas that have the same piece drop the same, and together they drop what one replica would. */
typedef struct bgi_dropout_attributes {
    double probability;
    uint32_t random_id;
    bg_mesh_axis axis;
    uint32_t pieces; /* of the last dim; 0 is 1 */
} bgi_dropout_attributes;

/* Runs of a sample's elements that follow each other in the whole. */
typedef struct bgi_dropout_runs {
    int64_t length, count; /* of a run; of runs */
    int64_t first, stride; /* in the whole: of the first run; from run to run */
} bgi_dropout_runs;

static inline bgi_dropout_runs bgi_dropout_find_runs(const bg_kernel_call *call, int64_t elements)
{
    const bgi_dropout_attributes *attributes = (const bgi_dropout_attributes *)call->attributes;
    const int64_t last = call->types[0].dims[call->types[0].rank - 1];

    if (attributes->pieces <= 1)
        return (bgi_dropout_runs){elements, 1, 0, elements};
    return (bgi_dropout_runs){last, elements / last, last * bgi_mesh_place(call->env, attributes->axis),
                              last * attributes->pieces};
}

/* REMOTE_LOAD   buffer [E, ...], index int32 (one) -> entry [...]       zeros beyond the entries
 * REMOTE_STORE  buffer [E, ...], index, entry -> index                  writes the entry; nothing beyond the entries */

/* ATTENTION           qkv [N,S,3HD] or [NS,3HD] -> y [.., HD], log_sum_exp [N,H,S]   (H heads of width D)
 * ATTENTION_BACKWARD  dy, qkv, y, log_sum_exp -> dqkv
 * ATTENTION_CACHED    qkv [S,3HD], cache [L,2HD], positions int32 [..] -> y [S,HD]
 * A row of qkv has the queries of all heads, then their keys, then their values. log_sum_exp is float32, float64 for
 * float64. In training the share that query i of head h gives to key j is kept when word j % 4 of
 * Philox4x32-10(counter {(h S + i) ceil(S / 4) + j / 4, global sample, random_id, step low}, key as DROPOUT's) is at
 * least probability 2^32, and then divided by 1 - probability; h counts from the first head of the whole where heads
 * are cut over an axis. CACHED is one sequence whose next S tokens stand at p, p + 1, ...; p is the first of the
 * positions, cut to 0..L - S: their keys and values become rows p, p + 1, ... of the cache, and the token at p + i sees
 * rows 0..p + i; causal, without dropout. A kernel may use `serialisation` to cut its work; it never changes a number.
 */
typedef struct bgi_attention_attributes {
    int64_t heads, sequence_length;
    uint8_t causal;
    double scale;
    double probability;
    uint32_t random_id;
    int64_t serialisation; /* pieces of queries */
    bg_mesh_axis axis;     /* over which heads are cut; `heads` is what a replica has */
} bgi_attention_attributes;

/* CACHED: where the first of the new tokens stands. */
static inline int64_t bgi_attention_position(const bg_kernel_call *call)
{
    const int64_t most = call->types[1].dims[0] - call->types[0].dims[0], given = *(const int32_t *)call->operands[2];

    return given < 0 ? 0 : given < most ? given : most;
}

/* Head `index` of the replica, counted in the whole. */
static inline int64_t bgi_attention_head(const bg_kernel_env *env, const bgi_attention_attributes *attributes,
                                         int64_t index)
{
    return bgi_mesh_place(env, attributes->axis) * attributes->heads + index;
}

/* Collectives have no kernels: the engine lets the replicas of a group meet (runtime/collective.c).
 * ALL_REDUCE      x -> y
 * ALL_GATHER      x -> y        dim `axis` of y is `members` times that of x
 * REDUCE_SCATTER  x -> y        the other way round */
typedef enum bgi_collective_kind {
    BGI_COLLECTIVE_REDUCE = 0,
    BGI_COLLECTIVE_GATHER,
    BGI_COLLECTIVE_SCATTER
} bgi_collective_kind;

typedef struct bgi_collective_attributes {
    bgi_collective_kind kind;
    bg_reduction function;    /* SUM or MAX */
    uint32_t axes;            /* of the mesh */
    uint32_t members;         /* of a group along them */
    uint32_t axis;            /* of the tensor */
    uint32_t passes_gradient; /* 0 or 1, REDUCE: the gradient goes straight through */
} bgi_collective_attributes;

/* CROSS_ENTROPY           logits, labels -> loss, log_sum_exp, weight?
 *                         log_sum_exp is float64 in labels' shape: large logits would lose the gradient's digits in
 *                         float32. weight (MEAN only): the number of labels that count, a float32 scalar
 * CROSS_ENTROPY_BACKWARD  dloss, logits, labels, log_sum_exp, weight? -> dlogits
 * MSE                     prediction, target -> loss      (bgi_loss_attributes)
 * MSE_BACKWARD            dloss, prediction, target -> dprediction
 * CORRECT_COUNT           logits, labels -> count int32
 *
 * Pieces of a cross-entropy whose classes are cut over an axis of the mesh, float64 in labels' shape; between them the
 * maximum, then the sums, are taken over the axis. Columns behind the last class count for nothing:
 * LOGIT_MAXIMUM           logits -> maximum
 * LOGIT_SUMS              logits, labels, maximum -> sum of exp(logit - maximum), the label's logit (0: not here)
 * SHARDED_CROSS_ENTROPY   logits, labels, maximum, sum, logit -> loss, log_sum_exp, weight?
 * The gradient is CROSS_ENTROPY_BACKWARD's. */
typedef struct bgi_loss_attributes {
    bg_loss_reduction reduction;
    int64_t ignore_index;
    bg_mesh_axis axis;
    int64_t classes; /* of the whole; 0: as many as logits have columns */
} bgi_loss_attributes;

/* Which classes a replica's columns are. */
typedef struct bgi_loss_classes {
    int64_t total;       /* of the whole */
    int64_t first, live; /* here: the first, and how many columns are classes */
} bgi_loss_classes;

static inline bgi_loss_classes bgi_loss_find_classes(const bg_kernel_call *call, int64_t columns)
{
    const bgi_loss_attributes *attributes = (const bgi_loss_attributes *)call->attributes;
    const int64_t total = attributes->classes > 0 ? attributes->classes : columns;
    const int64_t first = columns * bgi_mesh_place(call->env, attributes->axis), left = total - first;

    return (bgi_loss_classes){total, first, left < 0 ? 0 : left < columns ? left : columns};
}

/* ACCUMULATE  accumulator!, gradient, factors?   (no outputs: the first micro-batch of a step sets, later ones add)
 *             with factors [2]: accumulator factors[0] + gradient factors[1], each operation rounded; a gradient whose
 *             factor is 0 is not read (the mean over nothing need not be a number)
 * ADD_N       x0, x1, ... -> y           (in order)
 * TOTAL_SCALE total -> y                 (scalars; y = factor / total, 0 when total is 0)
 * RUNNING_FACTORS total!, weight? -> factors [2]   (c = weight, or 1; n = total, 0 at the first micro-batch of a step:
 *             n / (n + c), c / (n + c); 0, 0 when n + c is 0; at the last micro-batch n, c with ends_in_sum; total = n
 *             + c)
 * SQUARE_SUM  x -> y                     (float64 scalar; in double, in an order by shape)
 * CLIP_SCALE  squares, scale -> y        (scalars; y = scale maximum / max(|scale| sqrt(squares), maximum))
 * RANGE_COUNT x -> counts [BGI_RANGE_COUNTS]    (float64, which counts exactly)
 * LOSS_SCALE  loss_scale!, statistics! [BGI_STATISTICS_COUNT], counts, scale, hyper -> scale, hyper, used
 *             (scale / loss_scale; hyper with SKIP and SKIPPED; the loss scale before it is adapted)
 *
 * Optimisers. hyper is float64 [BGI_HYPER_COUNT]; scale is a float32 scalar that multiplies the gradient first.
 * SGD_UPDATE   parameter!, gradient, hyper, scale, velocity?!      (bgi_sgd_attributes)
 * ADAM_UPDATE  parameter!, gradient, hyper, scale, m!, v!          (bgi_adam_attributes)
 * RMSPROP_UPDATE parameter!, gradient, hyper, scale, mean of squares!, mean! (centred), velocity?!
 *                                                                  (bgi_rmsprop_attributes)
 *              AdaGrad: ..., sum of squares!; AdaDelta: ..., mean of squares!, mean of the changes' squares!
 * LAMB_MOMENTS parameter, gradient, hyper, scale, m!, v! -> squares   (bgi_lamb_attributes)
 * LAMB_UPDATE  parameter!, squares, hyper, m, v                       (bgi_lamb_attributes)
 * t = env->optimiser_step - hyper[SKIPPED] + 1. Formulas: PyTorch's torch.optim.SGD, Adam, AdamW, RMSprop, Adagrad,
 * Adadelta, in its order of operations, float32. Combined SGD: v = momentum v + admitted scaling g, w -= rate / scaling
 * v, with Nesterov rate / scaling (scaling g + momentum v). With `maximum` v is the largest gradient, max(beta2 v,
 * |g|), and divides as it is (AdaMax). A centred RMSProp's variance is never less than 0, whatever rounding says.
 */
enum {
    BGI_HYPER_LEARNING_RATE = 0,
    BGI_HYPER_WEIGHT_DECAY,
    BGI_HYPER_MOMENTUM, /* SGD */
    BGI_HYPER_DAMPENING,
    BGI_HYPER_BETA1 = BGI_HYPER_MOMENTUM, /* Adam */
    BGI_HYPER_BETA2 = BGI_HYPER_DAMPENING,
    BGI_HYPER_ALPHA = BGI_HYPER_DAMPENING, /* RMSProp, with MOMENTUM */
    BGI_HYPER_EPSILON,
    /* Of an update whose loss scale is automatic (LOSS_SCALE): not 0: leave everything as it is. */
    BGI_HYPER_SKIP,
    BGI_HYPER_SKIPPED,         /* updates of those in env->optimiser_step that were skipped */
    BGI_HYPER_MAX_WEIGHT_NORM, /* LAMB, with BETA1, BETA2 and EPSILON */
    BGI_HYPER_VELOCITY_SCALING = BGI_HYPER_MAX_WEIGHT_NORM, /* combined SGD */
    BGI_HYPER_COUNT = 8
};
typedef struct bgi_total_scale_attributes {
    double factor;
} bgi_total_scale_attributes;
typedef struct bgi_running_factors_attributes {
    uint32_t micro_batches; /* of a step */
    uint8_t ends_in_sum;
} bgi_running_factors_attributes;
typedef struct bgi_clip_scale_attributes {
    double maximum;
} bgi_clip_scale_attributes;
/* What RANGE_COUNT counts. */
enum {
    BGI_RANGE_LOWER = 0,  /* |x| <= edge */
    BGI_RANGE_UPPER,      /* the others */
    BGI_RANGE_NOT_FINITE, /* those of the others that are infinite or no number */
    BGI_RANGE_COUNTS
};
typedef struct bgi_range_count_attributes {
    double edge;
    bool only_not_finite; /* the other counts are zero */
} bgi_range_count_attributes;
/* What an automatic loss scale remembers besides itself. */
enum {
    BGI_STATISTICS_LOWER = BGI_RANGE_LOWER, /* of the updates since it was adapted */
    BGI_STATISTICS_UPPER = BGI_RANGE_UPPER,
    BGI_STATISTICS_UPDATES, /* how many these are */
    BGI_STATISTICS_SKIPPED, /* of the updates with the present optimiser state */
    BGI_STATISTICS_COUNT
};
typedef struct bgi_loss_scale_attributes {
    double threshold; /* share of UPPER above which the scale is decreased */
    double increase, decrease;
    double minimum, maximum;
    double period; /* a whole number */
} bgi_loss_scale_attributes;
/* Updates begin with how results of 16 bits are rounded. */
typedef struct bgi_sgd_attributes {
    bgi_rounding rounding;
    uint8_t nesterov;
    uint8_t combined;
    uint8_t without_decay; /* whatever hyper says */
    uint8_t unused[5];     /* no padding: see bg_op_type */
} bgi_sgd_attributes;
typedef struct bgi_adam_attributes {
    bgi_rounding rounding;
    uint8_t decoupled_decay; /* AdamW */
    uint8_t maximum;         /* AdaMax */
    uint8_t uncorrected;     /* moments as they are, not divided by 1 - beta^t */
    uint8_t without_decay;   /* whatever hyper says */
    uint8_t unused[4];
} bgi_adam_attributes;
/* LAMB (You et al. 2019): the direction x = mh / (sqrt(vh) + epsilon) + decay w, with moments as they are stored; then
 * w -= rate min(|w|, maximum) / |x| x, or rate x when a norm is 0. Norms are sums over pieces, in their order, and a
 * piece's sum is one of its own: replicas that update a piece each have the bits of those that update all.
 *     squares  float64 [pieces, 2]: sums of w's and of x's squares; an op that has a piece of the operands leaves the
 *              rows of the others 0, so that the largest over the replicas is all of it */
typedef struct bgi_lamb_attributes {
    bgi_rounding rounding;
    int64_t elements; /* of the whole */
    uint32_t pieces;  /* replicas with data of their own, whether they share the update out or not */
    uint8_t uncorrected;
    uint8_t without_decay;
    uint8_t unused[2];
} bgi_lamb_attributes;

/* Elements of a piece; the last ones may have fewer, or none. */
static inline int64_t bgi_lamb_piece(const bgi_lamb_attributes *attributes)
{
    return (attributes->elements + attributes->pieces - 1) / attributes->pieces;
}

static inline int64_t bgi_lamb_live(const bgi_lamb_attributes *attributes, uint32_t piece)
{
    const int64_t size = bgi_lamb_piece(attributes), left = attributes->elements - piece * size;

    return left < 0 ? 0 : left < size ? left : size;
}

/* What the rate is multiplied by. */
static inline double bgi_lamb_ratio(const bgi_lamb_attributes *attributes, const double *squares, double maximum)
{
    double weights = 0.0, direction = 0.0;

    for (uint32_t piece = 0; piece < attributes->pieces; piece++) {
        weights += squares[2 * piece];
        direction += squares[2 * piece + 1];
    }
    weights = sqrt(weights) < maximum ? sqrt(weights) : maximum;
    return weights == 0.0 || direction == 0.0 ? 1.0 : weights / sqrt(direction);
}
typedef enum bgi_rmsprop_rule {
    BGI_RULE_RMSPROP = 0,
    BGI_RULE_ADAGRAD, /* the squares are added up: a mean of which all stays and all is admitted */
    BGI_RULE_ADADELTA /* the learning rate is multiplied by the root of the changes' mean square */
} bgi_rmsprop_rule;
/* What divides a gradient by the root of the squares of those before. */
typedef struct bgi_rmsprop_attributes {
    bgi_rounding rounding;
    uint8_t rule; /* bgi_rmsprop_rule */
    uint8_t centred;
    uint8_t tf_variant; /* epsilon inside the root, the learning rate inside the velocity */
    uint8_t without_decay;
    uint8_t unused[4];
} bgi_rmsprop_attributes;

#endif
