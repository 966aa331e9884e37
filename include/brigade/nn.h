/*
 * nn.h: layers, written with ops only. A layer is an op together with its parameters, whose names and first values are
 * those of PyTorch's module of the same name, so that weight files can be exchanged.
 *
 * Parameters are float32. When a layer's input has another float type (float16), the parameters are cast where they are
 * used; gradients and updates stay in float32. bg_graph_set_parameter_dtype keeps the parameters in 16 bits too.
 *
 * After an error in the graph, layers add nothing and return the null value; bg_graph_check returns the error.
 *
 * Threads: one thread at a time uses a graph; different graphs are independent.
 *
 * Errors: a function that fails returns the null value, as does every later call. The graph keeps the first error, and
 * bg_graph_check returns it. BG_ERROR_INVALID means that a name is missing or too long, the input is the null value, or
 * a size or an option is out of range; BG_ERROR_SHAPE means that the input is not a float of one of the stated shapes;
 * BG_ERROR_MEMORY means that the graph could not grow.
 *
 * Shapes: the result has the shape of x unless a function says otherwise.
 */
#ifndef BRIGADE_NN_H
#define BRIGADE_NN_H

#include <brigade/graph.h>
#include <brigade/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layers ---- */

/* Adds bg_linear: x [..., in] -> [..., out_features]. Parameters are `name.weight` [out, in] and, with `bias`,
 * `name.bias` [out]; both are uniform in +-1/sqrt(in). */
BG_API bg_value bg_linear_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_features, bool bias);

/* Adds bg_conv2d: x [N, C, H, W] -> [N, out_channels, OH, OW]. `name.weight` [out_channels, C / groups, KH, KW] and
 * `name.bias` are uniform in +-1/sqrt(C / groups * KH * KW). options NULL: stride 1, no padding. */
BG_API bg_value bg_conv2d_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_channels,
                                int64_t kernel_height, int64_t kernel_width, bool bias,
                                const bg_conv2d_options *options);

/* Adds bg_conv: x [N, C, L], [N, C, H, W] or [N, C, D, H, W] -> [N, out_channels, ..]. `kernel` has one size for each
 * dimension after the channels. `name.weight` [out_channels, C / groups, ..] and `name.bias` are uniform in +-1/sqrt(C
 * / groups * the kernel's element count). options NULL: bg_conv_defaults(). */
BG_API bg_value bg_conv_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_channels,
                              const int64_t *kernel, bool bias, const bg_conv_options *options);
/* Adds bg_conv_transpose: `name.weight` [C, out_channels / groups, ..] and `name.bias` are uniform in
 * +-1/sqrt(out_channels / groups * the kernel's element count), as in PyTorch. Shapes: x [N, C, ..] -> [N,
 * out_channels, ..]. */
BG_API bg_value bg_conv_transpose_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_channels,
                                        const int64_t *kernel, bool bias, const bg_conv_options *options);

/* Normalizes over the last dimension. `name.weight` begins as ones, `name.bias` as zeros. PyTorch's default epsilon is
 * 1e-5. */
BG_API bg_value bg_layer_norm_layer(bg_graph *graph, const char *name, bg_value x, double epsilon);

/* Divides by the root mean square over the last dimension. `name.weight` begins as ones. PyTorch's default epsilon is
 * the machine epsilon of the type; models use 1e-5 or 1e-6. */
BG_API bg_value bg_rms_norm_layer(bg_graph *graph, const char *name, bg_value x, double epsilon);
/* Normalizes each group of channels of x [N, C, ...]. `name.weight` [C] begins as ones, `name.bias` [C] as zeros.
 * PyTorch's default epsilon is 1e-5. */
BG_API bg_value bg_group_norm_layer(bg_graph *graph, const char *name, bg_value x, int64_t groups, double epsilon);
/* Normalizes each channel of x [N, C] or [N, C, ...]. `name.weight` begins as ones, `name.bias` as zeros. The buffer
 * `name.running_mean` begins as zeros and the buffer `name.running_var` as ones; there is no num_batches_tracked. The
 * layer computes in float32 for every type of x. PyTorch's default momentum is 0.1, its default epsilon 1e-5. Each
 * data-parallel replica has separate statistics; saved buffers are those of replica 0. */
BG_API bg_value bg_batch_norm_layer(bg_graph *graph, const char *name, bg_value x, double momentum, double epsilon);
/* Adds a batch norm with the statistics of all data-parallel replicas (bg_sync_batch_norm).
 * options.replicas.synchronize_batch_norm has the same effect on every batch norm of a graph. */
BG_API bg_value bg_sync_batch_norm_layer(bg_graph *graph, const char *name, bg_value x, double momentum,
                                         double epsilon);

/* Adds bg_embedding: ids int32 [...] -> `dtype` [..., width]. `name.weight` [row_count, width] is normal with mean 0
 * and deviation 1. The row padding_index (-1: no row) gets no gradient; unlike in PyTorch it does not begin as
 * zeros. */
BG_API bg_value bg_embedding_layer(bg_graph *graph, const char *name, bg_value ids, int64_t row_count, int64_t width,
                                   int64_t padding_index, bg_dtype dtype);

typedef struct bg_recurrent_options {
    size_t struct_bytes; /* set by bg_recurrent_defaults; see base.h */
    int64_t layers;      /* number of layers; layers x directions is at most 60 */
    bool bidirectional;  /* each layer runs in both directions; the two results are concatenated, [.., 2 width] */
    bool batch_first;    /* x is [N, T, in] instead of [T, N, in], the result [N, T, width] */
    bool bias;
    double dropout;   /* dropout between layers, in training */
    bool relu;        /* bg_rnn_layer only: the activation is max(0, x) instead of tanh */
    bool reset_first; /* bg_gru_layer only: uses bg_gru_reset_first instead of bg_gru */
    /* `truncate` and `checkpoint` each cut time into pieces of this number of steps; each piece is one op. 0: one
     * piece. At the end of each `truncate` steps no gradient flows back (truncated back-propagation through time). At
     * the end of each `checkpoint` steps the states are marked (bg_graph_checkpoint), so that BG_RECOMPUTE_CHECKPOINTS
     * keeps the gates of one piece at a time. If both are above 0, the smaller one must divide the larger. */
    int64_t truncate, checkpoint;
    /* int32 or int64 [N]: the number of steps of each sample, in any order, as in PyTorch's pack_padded_sequence and
     * pad_packed_sequence. Later steps are padding: values of x at these steps are ignored, and the result is zero
     * there. The last state of a sample is that after its last step, where the reverse direction also begins. Null
     * value: all samples have T steps. Lengths above T count as T; a sample of length 0 keeps its first state. */
    bg_value lengths;
} bg_recurrent_options;

BG_API void bg_recurrent_options_init(bg_recurrent_options *options, size_t struct_bytes);
/* Defaults: one forward layer, time first, with biases, without dropout. */
static inline bg_recurrent_options bg_recurrent_defaults(void)
{
    bg_recurrent_options options;

    bg_recurrent_options_init(&options, sizeof options);
    return options;
}

/* Add torch.nn.LSTM and GRU: x [T, N, in] -> [T, N, width]. Parameters are `name.weight_ih_l0`, `name.weight_hh_l0`,
 * `name.bias_ih_l0`, `name.bias_hh_l0`, then those of l1 and so on; those of the reverse direction have the suffix
 * `_reverse`. All are uniform in +-1/sqrt(width). h0 and c0 [layers x directions, N, width] are the first states (null:
 * zeros); `*out_h` and `*out_c` (may be NULL) receive the last ones. options NULL: the defaults. */
BG_API bg_value bg_lstm_layer(bg_graph *graph, const char *name, bg_value x, int64_t width,
                              const bg_recurrent_options *options, bg_value h0, bg_value c0, bg_value *out_h,
                              bg_value *out_c);
BG_API bg_value bg_gru_layer(bg_graph *graph, const char *name, bg_value x, int64_t width,
                             const bg_recurrent_options *options, bg_value h0, bg_value *out_h);
/* Adds torch.nn.RNN. Parameters and states are those of bg_gru_layer, but with one gate. Shapes: x [T, N, in] -> [T, N,
 * width]. */
BG_API bg_value bg_rnn_layer(bg_graph *graph, const char *name, bg_value x, int64_t width,
                             const bg_recurrent_options *options, bg_value h0, bg_value *out_h);

/* ---- layers in pieces ----
 *
 * Errors, in bg_graph_check: BG_ERROR_INVALID if a name is missing or too long, the input is the null value, the factor
 * does not divide the dimension that is cut, the mode is invalid or not possible for the layer, or a placement's splits
 * are not on consecutive devices or do not add up to the factor; BG_ERROR_SHAPE if the input does not have the stated
 * dimensions; BG_ERROR_MEMORY. */

/* The dimension along which a matrix product of x [m, n] and weight^T [n, p] is cut. */
typedef enum bg_serialize_mode {
    BG_SERIALIZE_NONE = 0,
    BG_SERIALIZE_INPUT_CHANNELS, /* m, the rows of x */
    BG_SERIALIZE_REDUCING_DIM,   /* n */
    BG_SERIALIZE_OUTPUT_CHANNELS /* p */
} bg_serialize_mode;

/* The number of consecutive pieces on each device: [3, 1, 0, 0]. The first piece of a device starts a block on the
 * device (bg_block_start): "Embedding-0-2", "Embedding-3"; blocks of a projection are "Linear-...". A NULL placement
 * means the current block. */
typedef struct bg_split_placement {
    const int64_t *splits;
    uint32_t device_count;
} bg_split_placement;

#define BG_SPLIT_BLOCK_BYTES 64
/* Writes the name of the block of the pieces on `device`, of kind "Embedding" or "Linear". Returns false, and an empty
 * name, when the device has no pieces. */
BG_API bool bg_split_block_name(const bg_split_placement *placement, const char *kind, uint32_t device,
                                char out_name[BG_SPLIT_BLOCK_BYTES]);

/* Adds bg_embedding_layer with the table in `factor` equal pieces of rows, `name.split_embeddings.I.weight` (a factor
 * of 1 is the plain layer). The ids are looked up in each piece, one after the other, and the sum of the results equals
 * the result of the plain layer. The factor must divide row_count; 0 means the placement's number of pieces. The pieces
 * are sections of `name.weight`: first values, weights and checkpoints are those of the plain layer. Shapes: ids [...]
 * -> [..., width]. */
BG_API bg_value bg_serialized_embedding_layer(bg_graph *graph, const char *name, bg_value ids, int64_t row_count,
                                              int64_t width, int64_t padding_index, bg_dtype dtype, uint32_t factor,
                                              const bg_split_placement *placement);

/* Computes bg_linear in `factor` products, one after the other. The factor must divide the dimension that is cut. With
 * REDUCING_DIM the sums are in another order than in the plain product. The bias is added once, at the end. Shapes: x
 * [..., in] -> [..., out]. */
BG_API bg_value bg_serialized_linear(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                                     bg_serialize_mode mode, uint32_t factor);
/* Computes bg_serialized_linear with the parameters of bg_linear_layer. Shapes: x [..., in] -> [..., out_features]. */
BG_API bg_value bg_serialized_linear_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_features,
                                           bool bias, bg_serialize_mode mode, uint32_t factor);

/* Adds bg_linear_layer with its weight in `factor` pieces, `name.split_linear_layers.I.weight`, which can be placed on
 * several devices. The pieces are rows (OUTPUT_CHANNELS; results are concatenated) or columns (REDUCING_DIM; results
 * are added). The pieces are sections of `name.weight`, as for embeddings. With OUTPUT_CHANNELS the gradient of x is a
 * sum over the pieces. LAMB treats each piece as a separate parameter. Shapes: x [..., in] -> [..., out]. */
BG_API bg_value bg_split_projection_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_features,
                                          bool bias, bg_serialize_mode mode, uint32_t factor,
                                          const bg_split_placement *placement);

/* Cut the weight of the plain layer, a matrix of type `type`, into the pieces, and join the pieces to the weight: along
 * axis 0 for embeddings and OUTPUT_CHANNELS, along axis 1 for REDUCING_DIM. Errors: BG_ERROR_SHAPE if the type is not a
 * matrix, or the factor does not divide the dimension of the axis; BG_ERROR_INVALID if a piece is NULL. */
BG_API bg_status bg_serialized_weight_cut(const void *plain, const bg_type *type, uint32_t axis, uint32_t factor,
                                          void *const *out_pieces, bg_error *error);
BG_API bg_status bg_serialized_weight_join(const void *const *pieces, const bg_type *type, uint32_t axis,
                                           uint32_t factor, void *out_plain, bg_error *error);

/* ---- layers that a mesh cuts (bg_graph_set_mesh), as in the GPT-3 example for PopXL ----
 *
 * Features of activations are cut along one tensor axis, and are equal on replicas along the other one. A linear layer
 * exchanges the two axes:
 *
 *     features cut along axis 2  --linear, weight [axis 1, axis 2]-->  cut along axis 1  --linear-->  cut along axis 2
 *
 * With tensor_2 = 1 the drawing shows a column-parallel layer followed by a row-parallel one (Shoeybi et al.,
 * Megatron-LM, 2019). Parameters have the names and first values of the plain layers, under any mesh. Without a mesh
 * these layers are the plain layers.
 *
 * Errors, in bg_graph_check: BG_ERROR_INVALID if a name is missing or too long, options are NULL, an axis is not a
 * tensor axis, or a size is below 1; BG_ERROR_SHAPE if the input is not a float of the stated dimensions, or the size
 * of a mesh axis does not divide a dimension that is cut along it; BG_ERROR_MEMORY. */

typedef struct bg_parallel_linear_options {
    size_t struct_bytes;  /* set by bg_parallel_linear_defaults; see base.h */
    bg_mesh_axis in_axis; /* the tensor axis along which x's features are cut; the result's features are cut along the
                             other axis */
    /* The number of tensors that are concatenated in the result, each of which is cut separately (3 for queries, keys
     * and values). */
    uint32_t out_blocks;
    bool bias;
    bool in_out;                       /* the weight is [in, out], as in GPT-2, not [out, in] */
    const bg_initializer *initializer; /* initializer of the weight; the bias then begins as zeros. NULL: both begin as
                                          in bg_linear_layer */
} bg_parallel_linear_options;

/* Defaults: one block, a bias, a weight [out, in]. */
BG_API void bg_parallel_linear_options_init(bg_parallel_linear_options *options, size_t struct_bytes,
                                            bg_mesh_axis in_axis);
static inline bg_parallel_linear_options bg_parallel_linear_defaults(bg_mesh_axis in_axis)
{
    bg_parallel_linear_options options;

    bg_parallel_linear_options_init(&options, sizeof options, in_axis);
    return options;
}
/* Adds a linear layer: x [..., piece of in] -> [..., piece of out]; out_features is the number in the whole result. The
 * layer has one collective in the forward pass and one in the backward pass. */
BG_API bg_value bg_parallel_linear_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_features,
                                         const bg_parallel_linear_options *options);
/* Adds bg_layer_norm_layer over features that are cut along `axis`. */
BG_API bg_value bg_parallel_layer_norm_layer(bg_graph *graph, const char *name, bg_value x, double epsilon,
                                             bg_mesh_axis axis);
/* Adds the parameter `name` [rows, width]. The rows are cut along axis 1 into pieces of a multiple of 16 rows, with
 * zeros after the last row; the columns are cut along axis 2. Shapes: the replica's piece of [rows, width]. */
BG_API bg_value bg_parallel_table(bg_graph *graph, const char *name, int64_t rows, int64_t width,
                                  const bg_initializer *initializer);
/* bg_parallel_embedding looks up rows of a table (bg_parallel_table) by id: ids [...] -> [..., piece of width], equal
 * on all replicas along axis 1. bg_parallel_logits adds a head with tied weights: x [..., piece of width] -> logits
 * [..., piece of rows], for bg_sharded_cross_entropy along axis 1. */
BG_API bg_value bg_parallel_embedding(bg_graph *graph, const char *name, bg_value table, bg_value ids);
BG_API bg_value bg_parallel_logits(bg_graph *graph, const char *name, bg_value x, bg_value table);

#ifdef __cplusplus
}
#endif

#endif
