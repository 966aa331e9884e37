/*
 * transform.h: declares the passes from a user's graph to segments.
 *
 *     graph --fuse--> graph --differentiate--> + backward ops --train--> + accumulators, update ops
 *           --assign stages--> op -> stage --share--> + copies of tied parameters --shard--> + marks of pieces
 *           --recompute--> + forward ops again --fuse products--> products with what follows them
 *           --cut--> segments and crossings
 *
 * Some passes build a new graph (rebuild.h), others change the graph or append to it. After each pass bgi_graph_verify
 * succeeds.
 */
#ifndef BGI_TRANSFORM_TRANSFORM_H
#define BGI_TRANSFORM_TRANSFORM_H

#include <brigade/loop.h>

#include "core/buckets.h"
#include "core/text.h"
#include "graph/graph.h"

/* quantize.c: Needs a forward graph that is not trained. Does: replaces the matrices of products by buffers of 16, 8 or
 * 4 bits; with BG_WEIGHTS_CAST, only where products read a matrix through a cast to bfloat16. Errors:
 * BG_ERROR_UNSUPPORTED for a mesh with tensor axes, or a graph without such a matrix. With BG_WEIGHTS_CAST, *out does
 * not change in these cases. */
bg_status bgi_quantize_graph(const bg_graph *graph, bg_weights_type type, bg_graph **out, bg_error *error);

/* fusion.c: Needs a forward graph. Does: convolution + max pool (+ relu) of one block become one op where the fused
 * kernel supports them. Keeps values, names and blocks. Outputs that `is_apart` marks (by value; NULL: none) do not
 * prevent fusion: if fusion removes them, they are computed a second time. `*loss` (may be null) becomes the loss of
 * the new graph. */
bg_status bgi_fuse(const bg_graph *graph, const bool *is_apart, bg_value *loss, bg_graph **out, bg_error *error);

/* prune.c: Needs a forward graph. Does: keeps only what `wanted` (names of outputs; NULL: all outputs) needs. */
bg_status bgi_prune(const bg_graph *graph, const char *const *wanted, uint32_t wanted_count, bg_graph **out,
                    bg_error *error);

/* leaf_outputs.c: Needs a forward graph. Does: outputs that are inputs, constants or variables become copies of them.
 */
bool bgi_has_leaf_outputs(const bg_graph *graph);
bg_status bgi_copy_leaf_outputs(bg_graph *graph, bg_error *error);

/* loop.c: Needs a forward graph. Does: makes it one iteration of a loop. The condition of a while loop becomes an
 * output of this name. */
#define BGI_CONDITION "loop.condition"
bg_status bgi_make_loop(bg_graph *graph, const bg_loop *loop, bg_error *error);

/* slice_gradients.c: Needs gradients of ranges of a value of type `whole`; adds ops that turn them into gradients of
 * the whole value. On return, `slices` begins with `*out_count` gradients of the whole value; the sum has not
 * changed. */
typedef struct bgi_slice_gradient {
    bg_value gradient;
    uint32_t axis;
    int64_t start, stop;
    bool is_taken; /* for the use of the function; must be false */
} bgi_slice_gradient;
bg_status bgi_join_slice_gradients(bg_graph *graph, const bg_type *whole, bgi_slice_gradient *slices, size_t count,
                                   size_t *out_count, bg_error *error);

/* autodiff.c: Needs a forward graph; appends backward ops in their forward op's block. A parameter has one gradient for
 * each block that uses it. */
typedef struct bgi_parameter_gradient {
    bg_value parameter;
    uint32_t term;     /* the term of the loss; 0 from bgi_differentiate */
    uint32_t block;    /* the block that uses the parameter */
    bg_value gradient; /* gradient of one micro-batch, from this block's uses */
} bgi_parameter_gradient;
/* `*out_gradients` is malloc'ed, and ordered by parameter, then by block. The gradient of the loss with respect to
 * itself is `weight` (a scalar; null: 1) times `scaling`, or times `scale` if `scale` is not null. */
bg_status bgi_differentiate(bg_graph *graph, bg_value loss, bg_value weight, double scaling, bg_value scale,
                            bgi_parameter_gradient **out_gradients, uint32_t *out_count, bg_error *error);

/* loss_terms.c: a part of the loss that is averaged over an update in one way. */
typedef struct bgi_loss_term {
    bg_value loss;   /* a scalar */
    bg_value weight; /* the number of elements that the loss of a micro-batch is a mean over (an op's weight_output);
                        null: every micro-batch has the same weight */
} bgi_loss_term;
enum { BGI_MOST_LOSS_TERMS = 16 };
/* Splits the loss into at most BGI_MOST_LOSS_TERMS terms, whose sum is the loss without summands that train nothing; a
 * loss that is averaged in one way is its only term. `is_whole`: an update has one micro-batch, so a loss that would be
 * split, or that cannot be split, is one term without a weight. */
bg_status bgi_split_loss(bg_graph *graph, bg_value loss, bool is_whole, bgi_loss_term *out_terms, uint32_t *out_count,
                         bg_error *error);

/* precision.c: Needs a forward graph. Does: converts float32 to the 16-bit type of `precision` (not 32) where
 * `precision` requires it. `*loss` (may be null) becomes the loss of the new graph. */
bg_status bgi_narrow_graph(const bg_graph *graph, bg_precision precision, bg_value *loss, bg_graph **out,
                           bg_error *error);

/* synchronize.c: Needs a forward graph for training. Does: batch norms that are synchronized, or `all`, compute their
 * statistics over `replicas` data-parallel replicas. On success *graph is the new graph, and the old graph is
 * destroyed. */
bg_status bgi_synchronize_norms(bg_graph **graph, bg_value *loss, bool all, uint32_t replicas, bg_error *error);

/* fuse_norms.c: Needs a forward graph for training. Does: a batch norm and the sum and the function that follow it
 * become one op. Keeps results bit for bit, blocks and names. On success *graph is the new graph, and the old graph is
 * destroyed. */
bg_status bgi_fuse_norms(bg_graph **graph, bg_value *loss, bg_error *error);

/* training.c: differentiates a graph, then appends accumulation (once a micro-batch) and the optimizer's update (once a
 * step).
 */
#define BGI_GRADIENT_NORM     "gradient_norm" /* the output of options.reporting.output_gradient_norm */
#define BGI_LOSS_SCALE        "loss.scale"    /* the variable of options.numerics.auto_loss_scaling */
#define BGI_LOSS_SCALE_OUTPUT "loss_scale"    /* the output with the value of this variable */
bg_status bgi_make_training(bg_graph *graph, bg_value loss, const bg_optimizer *optimizer, const bg_options *options,
                            bg_error *error);

/* fuse_accumulation.c: Needs a training graph. Does: gradients are added to their accumulators by the ops that make
 * them (bg_op_type.accumulating). On success *graph is the new graph, and the old graph is destroyed. */
bg_status bgi_fuse_accumulation(bg_graph **graph, bg_error *error);

/* offload.c: finds where a tensor of a class is stored: at the location of the class, or of the last rule that matches
 * the name. `place` is BG_PLACE_DEVICE, or `sharded` false, when the tensor has too few elements. */
bg_tensor_location bgi_find_location(const bg_options *options, bg_location_class location_class, const char *name,
                                     int64_t element_count);

bool bgi_rule_matches(const bg_location_rule *rule, bg_location_class location_class, const char *name);

/* Loads and stores of remote variables (offload). */
extern const bg_op_type bgi_op_load, bgi_op_store;
/* Copies the new value to a tied parameter's copy in another stage. */
extern const bg_op_type bgi_op_refresh;
/* loop.c: copies the iteration's result to a carried value. */
extern const bg_op_type bgi_op_carry;

/* stages.c: the stages, and the stage of each block. */
typedef struct bgi_stages {
    uint32_t stage_count;
    uint32_t device_count;     /* 0 until all stages have a device */
    uint32_t *stage_devices;   /* by stage; malloc'ed; BG_DEVICE_NONE: not given */
    uint32_t *stage_positions; /* malloc'ed; ascending without gaps; stages at one position are concurrent */
    uint32_t *stage_phases;    /* malloc'ed; ascending without gaps; without phases, the position */
    uint32_t *block_stages;    /* malloc'ed; by block index; UINT32_MAX: a block without ops */
    bool has_text_devices;     /* the text has a device after an @ */
    bool has_phases;           /* the text has separators of phases */
} bgi_stages;
/* Assigns stages by options.execution.stages (except "auto:...") or auto_stage. `merges_neighbors`: consecutive stages
 * on one device that the text or the blocks gave become one stage. */
bg_status bgi_assign_stages(const bg_graph *graph, const bg_options *options, bool merges_neighbors, bgi_stages *out,
                            bg_error *error);
void bgi_stages_clear(bgi_stages *stages);
/* Appends a stage; returns false if memory is exhausted. */
bool bgi_stages_add(bgi_stages *stages, uint32_t device, uint32_t position, uint32_t phase);
/* stage_text.c: reads stages from a text. It sets the same fields as bgi_assign_stages, and does not check whether they
 * fit the model. */
bg_status bgi_read_stages(const bg_graph *graph, const char *text, bool merges_neighbors, bgi_stages *stages,
                          bg_error *error);
/* stage_check.c: checks that every op is in a stage, that data never flow to a lower position, and that concurrent
 * stages are independent. */
bg_status bgi_check_stages(const bg_graph *graph, const bgi_stages *stages, bg_error *error);
bg_status bgi_check_op_block(const bg_graph *graph, const bgi_op *op, bg_error *error);
bool bgi_block_has_ops(const bg_graph *graph, uint32_t block);

/* split_blocks.c: Needs a forward graph. Does: a block whose ops are in several parts (by op, ascending) becomes a
 * block for each part, "B1.0", "B1.1". Keeps the order of blocks and of ops. Ops before the first block are in a block
 * named "ops". */
bg_status bgi_split_blocks(bg_graph *graph, const uint32_t *op_parts, uint32_t part_count, bg_error *error);

static inline uint32_t bgi_op_stage(const bgi_stages *stages, const bgi_op *op)
{
    return op->block == BGI_BLOCK_NONE ? 0 : stages->block_stages[op->block];
}

/* fuse_convolutions.c: Needs a forward graph for inference, and its stages. Does: a convolution and batch norm, sum and
 * function that follow it become one op. Keeps results bit for bit, blocks and names. */
bg_status bgi_fuse_convolutions(const bg_graph *graph, const bgi_stages *stages, bg_graph **out, bg_error *error);

/* shared.c: handles variables that several stages use. A parameter stays in the stage that updates it. Other stages get
 * a copy variable, which is refreshed after the update, or loaded from the original's remote store (shares_home) if the
 * options give the original a store (NULL: nothing is remote), both stages are on one device, and the copy's stage
 * contributes to the gradient. A variable that changes in each micro-batch must be used by one stage only; in inference
 * the running statistics do not change. */
bg_status bgi_copy_shared_variables(bg_graph *graph, const bgi_stages *stages, const bg_options *options,
                                    bool is_training, bg_error *error);

/* sharding.c: Needs a training graph that is complete. Does: marks the updates that each replica does for its piece
 * (bgi_op's is_sharded, bgi_value's piece). */
bg_status bgi_shard_updates(bg_graph *graph, const bg_options *options, bg_error *error);
/* Returns whether the options shard a location, or have a sharding rule, of one of the classes (bits 1 <<
 * bg_location_class). */
bool bgi_asks_for_pieces(const bg_options *options, uint32_t classes);

/* equality.c: lists by value the tensor axes (bits of bg_mesh_axis) along which the value is bit-identical on all
 * replicas. */
bg_status bgi_find_equal_axes(const bg_graph *graph, bgi_arena *arena, uint8_t **out, bg_error *error);
/* Warns when the options request pieces although there is one replica, so that they have no effect. */
void bgi_warn_of_one_replica(const bg_graph *graph, const bg_options *options, bool training);
/*
 * recompute.c: chooses which forward ops run again for the backward pass, and adds them. The order of calls is:
 * bgi_recompute_begin; a choice of the ops to keep (bgi_recompute_choose, or the caller's); bgi_recompute_measure;
 * bgi_recompute_apply.
 */
typedef struct bgi_recompute {
    bgi_arena arena;
    const bg_graph *graph; /* the graph of the ops */
    const bgi_stages *stages;
    const double *op_ns;  /* by op */
    bg_value *roots;      /* by value id, as in a partition */
    bool *may_repeat;     /* by op: a forward op that gives the same results when it runs again */
    bool *is_checkpoint;  /* by op: one of its results is marked */
    uint32_t loss_stage;  /* the stage whose F and B run back to back, unless options.execution.separate_loss */
    bgi_buckets of_stage; /* ops by stage, so that work on a stage does not visit ops of other stages */
    uint32_t *needed_in;  /* scratch; by root: the number of the last measurement in which the root was needed */
    uint32_t measured;    /* the number of measurements */
} bgi_recompute;

/* `op_ns` has the time of each op of the graph; `op_ns` and the graph must outlive `out`. */
bg_status bgi_recompute_begin(const bg_graph *graph, const bgi_stages *stages, const double *op_ns, bgi_recompute *out,
                              bg_error *error);
void bgi_recompute_clear(bgi_recompute *recompute);
/* Sets is_kept[op] as the options request (not AUTO); if all are true, no op runs again. */
bg_status bgi_recompute_choose(bgi_recompute *recompute, const bg_options *options, bool *is_kept, bg_error *error);

typedef struct bgi_recompute_effect {
    size_t stash_bytes; /* for one micro-batch: bytes of the forward results, of this and other stages, that the stage's
                           backward pass reads */
    size_t own_bytes;   /* bytes of the results among these that the stage itself makes */
    double ns;          /* time of running ops again */
} bgi_recompute_effect;
/* Returns the effect of a choice on a stage, and sets is_repeated[op] for the ops of the stage. */
bgi_recompute_effect bgi_recompute_measure(bgi_recompute *recompute, uint32_t stage, const bool *is_kept,
                                           bool *is_repeated);

/* Changes the choice: the results of `op` are no longer kept. The function updates `is_repeated` and the effect as a
 * new measurement would (`ns` may differ by rounding), and must follow a measurement of the same stage. `stack` must
 * hold the ops of the stage. */
void bgi_recompute_give_up(bgi_recompute *recompute, uint32_t stage, uint32_t op, bool *is_kept, bool *is_repeated,
                           uint32_t *stack, bgi_recompute_effect *effect);

typedef struct bgi_recomputed {
    uint32_t op_count; /* the number of ops that run again */
    double ns;
    bool *stages; /* by stage, owned by the caller: whether it has ops of the phase RECOMPUTE */
} bgi_recomputed;
/* Adds to `graph` (that of `recompute`, or a clone of it) the ops that a choice runs again, and lets backward ops read
 * their results. If `graph` is the graph of `recompute` itself, `recompute` can only be cleared afterward. */
bg_status bgi_recompute_apply(bgi_recompute *recompute, bg_graph *graph, const bool *is_kept, bg_recompute_order order,
                              bgi_recomputed *out, bg_error *error);

/* fuse_products.c: Needs a graph with all ops, repeated ones too. Does: matrix products include the bias, function or
 * derivative that follows them. Keeps results bit for bit and values with other readers, and needs no more memory.
 * Changes the graph in place. */
bg_status bgi_fuse_products(bg_graph *graph, const bgi_stages *stages, bg_error *error);

/* partition.c */
typedef enum bgi_segment_kind {
    BGI_SEGMENT_FORWARD = 0,
    BGI_SEGMENT_RECOMPUTE,
    BGI_SEGMENT_BACKWARD,
    BGI_SEGMENT_WEIGHTS,
    BGI_SEGMENT_UPDATE
} bgi_segment_kind;

typedef struct bgi_segment {
    bgi_segment_kind kind;
    uint32_t stage;
    uint32_t level; /* the level of an update; otherwise 0 */
    uint32_t op_count;
    const uint32_t *ops;
} bgi_segment;

/* A stored value that outlives the segment that makes it. */
typedef struct bgi_crossing {
    bg_value value; /* a root, not an alias */
    uint32_t from_segment;
    uint32_t to_stage;
    bgi_segment_kind to_kind, last_kind; /* first and last reader on to_stage */
    bgi_segment_kind back_kind;          /* the first reader that is not a forward segment; FORWARD if there is none */
    uint32_t to_level;                   /* the level of the readers in an update; otherwise 0 */
    uint32_t next;                       /* index + 1 of the value's next crossing; 0 ends the list */
} bgi_crossing;

typedef struct bgi_partition {
    bgi_arena arena;
    uint32_t stage_count, level_count;
    uint32_t *op_segments; /* by op */
    uint32_t *op_stages;
    bg_value *roots; /* by value id: the value that owns its bytes, which is itself unless it is an alias */
    uint32_t segment_count;
    bgi_segment *segments; /* all F, all R (if any), all B, all W by stage; then U by stage and level */
    uint32_t first_segments[BGI_SEGMENT_UPDATE + 1]; /* by kind: its first segment; UINT32_MAX: none */
    uint32_t crossing_count;
    bgi_crossing *crossings;
    uint32_t *first_crossings;  /* by value id: index + 1 of its first crossing; 0: none */
    bgi_buckets crossings_from; /* crossings by from_segment */
    bgi_buckets crossings_to;   /* crossings by to_stage */
} bgi_partition;

bg_status bgi_cut_segments(const bg_graph *graph, const bgi_stages *stages, bool training, bool split_weights,
                           bgi_partition *out, bg_error *error);
void bgi_partition_clear(bgi_partition *partition);
/* Checks that each op is in one segment of its own stage, and that each crossing is a stored value from a segment to a
 * stage. Any other partition is a defect: BG_ERROR_INTERNAL. */
bg_status bgi_partition_verify(const bgi_partition *partition, const bg_graph *graph, bg_error *error);
/* Prints "segment F stage 0: `a` `b`" with the names of each segment's ops, then "crossing `c`: F stage 0 to F stage 1"
 * for each crossing. */
void bgi_partition_print(const bgi_partition *partition, const bg_graph *graph, bgi_string *text);
/* Returns whether the op only renames bytes. */
bool bgi_partition_is_alias(const bgi_partition *partition, const bgi_op *op);
/* Writes the owner of each value's bytes to roots[value id] (bgi_partition.roots); returns false if memory is
 * exhausted. */
bool bgi_find_roots(const bg_graph *graph, const bgi_stages *stages, bg_value *roots);
/* Returns the segment of the kind; UINT32_MAX when the partition has none. */
uint32_t bgi_partition_find(const bgi_partition *partition, bgi_segment_kind kind, uint32_t stage, uint32_t level);

#endif
