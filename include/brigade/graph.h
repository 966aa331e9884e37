/*
 * graph.h: a model as data: typed values and the ops that make them, inside named blocks.
 *
 * A graph is built once and then compiled into plans. Errors are sticky: after the first error, functions that add to
 * the graph do nothing and return the null value, and bg_graph_check (or making a plan) reports that error with the
 * op's name. The set of ops is open: a bg_op_type describes an op, either of the library (ops.h) or of a user.
 *
 * Threads: one thread at a time uses a graph; different graphs are independent.
 *
 * Errors: the graph keeps the first one and bg_graph_check returns it: BG_ERROR_SHAPE for operands that do not fit,
 * BG_ERROR_INVALID for options, BG_ERROR_MEMORY.
 *
 * Shapes: the given type, or the type that the op's shape rule finds.
 */
#ifndef BRIGADE_GRAPH_H
#define BRIGADE_GRAPH_H

#include <brigade/base.h>
#include <brigade/kernel.h>
#include <brigade/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_graph bg_graph;

/* A value of one graph; id 0 is the null value ("none"). */
typedef struct bg_value {
    uint32_t id;
} bg_value;

static inline bool bg_value_is_null(bg_value value)
{
    return value.id == 0;
}

/* ---- op types ---- */

/* The properties of an op that shape rules, costs and kernel selection can read. */
typedef struct bg_op_signature {
    const char *name;     /* name of the op in the graph, for messages */
    const bg_type *types; /* inputs, then outputs (outputs are absent in `infer`) */
    uint32_t input_count;
    uint32_t output_count;
    const void *attributes;
    bg_dtype partials;    /* for `kernel`: options.numerics.partials; BG_DTYPE_NONE without options */
    size_t scratch_limit; /* for `kernel`: bytes that options.memory.matmul_proportions allows; 0: no limit */
} bg_op_signature;

/* The values that a gradient rule reads and sets. The rule adds ops to `graph` that compute the gradients of the
 * inputs. */
typedef struct bg_op_gradient {
    bg_graph *graph;
    bg_op_signature op;
    const bg_value *inputs;
    const bg_value *outputs;
    const bg_value *output_gradients; /* null where no gradient flows into that output */
    const bool *needs;                /* which inputs need a gradient */
    bg_value *input_gradients;        /* set by the rule; null values at first, which mean no gradient */
} bg_op_gradient;

typedef enum bg_kernel_policy {
    BG_KERNELS_FAST = 0,  /* the best kernel for this processor */
    BG_KERNELS_REFERENCE, /* plain C, as simple as possible */
    /* This and the next values: the best kernels that use at most the named instructions, even if the processor has
     * newer ones. The results are bit-identical to those of a processor without the newer instructions. If the named
     * instructions are not of the processor's architecture, the portable kernels run. */
    BG_KERNELS_PORTABLE,
    BG_KERNELS_AVX2,
    BG_KERNELS_AVX512,
    BG_KERNELS_AVX512_BF16, /* AVX-512 with products of bfloat16; BG_KERNELS_FAST may use AMX */
    BG_KERNELS_NEON         /* the NEON instructions of aarch64 */
} bg_kernel_policy;

#define BG_NO_OPERAND UINT32_MAX

typedef struct bg_op_type bg_op_type;
struct bg_op_type {
    size_t struct_bytes; /* 0, or sizeof(bg_op_type): see base.h */
    const char *name;    /* "conv2d" */
    uint32_t minimum_inputs;
    uint32_t maximum_inputs;
    uint32_t output_count; /* the largest number of outputs; `infer` may leave the last ones untyped (dtype NONE), which
                              are then absent, but it must set the type of output 0 */
    size_t attributes_bytes; /* size of the attributes, which are copied into the graph with each op. Equal attributes
                                should have equal bytes, including padding, because the key of a cached plan contains
                                them */
    uint32_t written_inputs; /* bit i: input i is a variable that the op changes in place */
    uint32_t alias_input;    /* output 0 has the bytes of this input, in another shape; otherwise BG_NO_OPERAND */
    uint32_t reuse_input;    /* output 0 may overwrite this input (same size); otherwise BG_NO_OPERAND */
    /* For a loss that is a mean over a number of elements known only at run time: the index of the output that holds
     * this number (float32 scalar). The loss is then averaged over the elements of all micro-batches of an update
     * (bg_accumulation in options.h). BG_NO_OPERAND: all micro-batches have equal weight. */
    uint32_t weight_output;
    /* The shape rule: checks inputs and attributes, and sets the types of the outputs. On failure the rule's error says
     * what is wrong and what would be right; the graph adds the op's name. */
    bg_status (*infer)(const bg_op_signature *op, bg_type *outputs, bg_error *error);
    /* NULL: training fails when a gradient must flow from a float output to an input. */
    bg_status (*gradient)(bg_op_gradient *gradient, bg_error *error);
    /* NULL: the op costs no flops, reads its inputs and writes its outputs. */
    bg_cost (*cost)(const bg_op_signature *op);
    bg_status (*kernel)(const bg_op_signature *op, bg_kernel_policy policy, bg_kernel *out, bg_error *error);
    /* For ops that make gradients and have a fixed number of inputs: the type of an op with the same attributes that
     * adds its outputs to accumulators. The operands of such an op are those of this type, then an accumulator for each
     * output, with the output's type; the op writes all accumulators. If env->accumulated is 0, the op stores the
     * gradients; later it adds the complete gradient to each element, so results are bit-identical to those of separate
     * ops. The library uses this type only for float32. NULL: no such type. */
    const bg_op_type *accumulating;
    /* For a user's type: a number that must change whenever a rule or kernel of the type changes, because the cache of
     * plans (options.files.cache_dir) cannot detect such a change. Attributes must then hold no addresses. 0: plans
     * with such ops are never cached. */
    uint32_t revision;
    /* True for the library's collectives, which exchange data between replicas and have no kernel. */
    bool is_collective;
    /* The subset of written_inputs that changes only in training (env->training), such as running statistics. */
    uint32_t training_writes;
    /* True for a custom optimizer's update (bg_update_rule in options.h) in which no element depends on another. When
     * the update is sharded over replicas, each replica runs it on its piece of all operands, as vectors. */
    bool is_elementwise_update;
};

/* Sets all operand fields to BG_NO_OPERAND and all other fields to zero. Begin user-defined types with it: in C
 * `{BG_OP_TYPE_DEFAULTS, .name = "twice", ...}`. In C++ `{BG_OP_TYPE_DEFAULTS}` makes a whole bg_op_type, whose fields
 * are then assigned; since C++20 it may also be used with designated initializers, in the order of the fields: after
 * `.written_inputs` and before `.infer`. */
#if !defined(__cplusplus) || __cplusplus >= 202002L
#define BG_OP_TYPE_DEFAULTS .alias_input = BG_NO_OPERAND, .reuse_input = BG_NO_OPERAND, .weight_output = BG_NO_OPERAND
#else
#define BG_OP_TYPE_DEFAULTS                                                                                            \
    0, nullptr, 0, 0, 0, 0, 0, BG_NO_OPERAND, BG_NO_OPERAND, BG_NO_OPERAND, nullptr, nullptr, nullptr, nullptr,        \
        nullptr, 0, false, 0, false
#endif

/* ---- graphs ---- */

/* How a variable's first value is made. The value is a function of (seed, the variable's number, element, shape), so it
 * is the same under every strategy. */
typedef enum bg_initializer_kind {
    BG_INITIALIZE_CONSTANT = 0,     /* a */
    BG_INITIALIZE_UNIFORM,          /* in [a, b) */
    BG_INITIALIZE_NORMAL,           /* mean a, standard deviation b */
    BG_INITIALIZE_TRUNCATED_NORMAL, /* normal, but a number is drawn again until it is within a +- 2 b */
    /* The following kinds are defined as in torch.nn.init; ranks and numbers are checked. */
    BG_INITIALIZE_ORTHOGONAL, /* the rows, or the columns if there are fewer of them, are orthogonal and have length a;
                                 rank 2 and above, where all dims except the first count as columns. Needs 8 bytes for
                                 each element while the value is made */
    BG_INITIALIZE_EYE,        /* 1 on the diagonal, 0 elsewhere; rank 2 */
    BG_INITIALIZE_DIRAC, /* weights of a convolution with `a` groups that copies its inputs (a = 0: 1 group); rank 3 to
                            5 */
    BG_INITIALIZE_SPARSE /* normal with mean 0 and deviation b, except that in each column a share a of the rows is 0;
                            rank 2 */
} bg_initializer_kind;

typedef struct bg_initializer {
    bg_initializer_kind kind;
    double a, b;
} bg_initializer;

typedef enum bg_variable_role {
    BG_ROLE_PARAMETER = 0, /* trained */
    BG_ROLE_BUFFER,        /* not trained, but kept and saved (running statistics) */
    BG_ROLE_ACCUMULATOR,   /* gradients, accumulated over the micro-batches of a step */
    BG_ROLE_STATE,         /* state of the optimizer */
    BG_ROLE_HYPER,         /* written by the host between runs, such as the learning rate */
    BG_ROLE_CARRIED,       /* passed from one iteration of a loop to the next */
    BG_ROLE_TRAINING       /* state of the training run as a whole, saved in checkpoints, such as the loss scale */
} bg_variable_role;

BG_API bg_status bg_graph_create(bg_graph **out, bg_error *error);
/* Creates a graph that keeps names, attributes and the data of constants in memory of the caller's allocator, and its
 * tables in memory of the C library. `allocator` (copied) may be NULL. Errors: BG_ERROR_INVALID (one of its two
 * functions is missing), BG_ERROR_MEMORY. */
BG_API bg_status bg_graph_create_in(const bg_allocator *allocator, bg_graph **out, bg_error *error);
BG_API void bg_graph_destroy(bg_graph *graph);

/* Adds an input: a tensor that the host supplies for each micro-batch. The shape is that of a micro-batch, whose first
 * dimension counts samples (a scalar is one number per micro-batch). */
BG_API bg_value bg_graph_input(bg_graph *graph, const char *name, const bg_type *type);
/* Adds a constant. `data` (of the type's size) is copied. A constant has a name, like inputs and variables. */
BG_API bg_value bg_graph_constant(bg_graph *graph, const char *name, const bg_type *type, const void *data);
/* Adds a variable. The name must be unique in the graph; weight files have the variable under this name. */
BG_API bg_value bg_graph_variable(bg_graph *graph, const char *name, const bg_type *type, bg_variable_role role,
                                  const bg_initializer *initializer);
/* Adds a variable with BG_ROLE_PARAMETER. */
BG_API bg_value bg_graph_parameter(bg_graph *graph, const char *name, const bg_type *type,
                                   const bg_initializer *initializer);

/*
 * Adds a buffer of `entries` values of one type, which is in a remote store under every strategy. The buffer is a
 * variable [entries, ...] with role BG_ROLE_BUFFER, initially zero. Ops load and store one entry at a time
 * (bg_remote_load, bg_remote_store in ops.h). Each replica has its own buffer. A second call with the same name and
 * type returns the same buffer, with the larger number of entries. If an op stores into the buffer, all ops that use
 * the buffer must be in one stage. If entries form rows of `steps` entries, step i of row r is entry r x steps + i.
 */
BG_API bg_value bg_graph_remote_buffer(bg_graph *graph, const char *name, const bg_type *entry, int64_t entries);

/*
 * Sets a mesh for tensor parallelism: each replica of the mesh runs the graph on its own pieces of the tensors. Types
 * in the graph are those of the pieces; replicas that differ in their tensor coordinates run the same ops and
 * communicate in collectives (ops.h). Call this function before anything is added. It reads only the tensor axes of the
 * mesh: options.replicas.count sets the number of all replicas, a multiple of tensor_1 x tensor_2. A graph without a
 * mesh has a mesh of 1 x 1.
 */
BG_API void bg_graph_set_mesh(bg_graph *graph, const bg_mesh *mesh);
/* Returns the mesh of the graph, in which `data` is 1. */
BG_API bg_mesh bg_graph_mesh(const bg_graph *graph);
/* Adds a variable of which each replica has the piece that bg_shard_cut copies. The first value of a piece is this
 * piece of the whole tensor's first value. Weights and checkpoints hold the whole tensor under any mesh. */
BG_API bg_value bg_graph_sharded_variable(bg_graph *graph, const char *name, const bg_shard *shard,
                                          bg_variable_role role, const bg_initializer *initializer);
/* Adds a sharded variable with BG_ROLE_PARAMETER. */
BG_API bg_value bg_graph_sharded_parameter(bg_graph *graph, const char *name, const bg_shard *shard,
                                           const bg_initializer *initializer);

/*
 * A section of a tensor: the indices first .. first + count - 1 along one dimension. Weights, files and checkpoints
 * hold the whole tensor under its own name. So a model may use the tensor whole or in any sections, and may continue
 * with weights that were trained in another form. `name` is copied.
 */
typedef struct bg_section {
    const char *name; /* name of the whole tensor */
    bg_type whole;
    uint32_t axis;
    int64_t first, count;
} bg_section;
/* Adds a parameter that is a section. The first value of the section is this range of the whole tensor's first value.
 * In the numbering of variables (bg_initializer_kind) all sections of one whole tensor count as one variable, so later
 * variables begin with the same values whether the tensor is whole or in sections. Sections of one whole must not
 * overlap, and must give the same `whole` and the same initializer; no variable may have the whole's name. The
 * optimizer's state of a section is a section of the whole's state. */
BG_API bg_value bg_graph_section_parameter(bg_graph *graph, const char *name, const bg_section *section,
                                           const bg_initializer *initializer);

/* Adds an op of at most 64 operands, outputs included. `name` NULL: the graph makes a name. Null inputs mark absent
 * optional operands at the end of the list only. `outputs` receives op_type->output_count values (null for absent
 * outputs); it may be NULL when only output 0 is needed. Returns output 0, or the null value after an error. The op
 * type must outlive the graph. */
BG_API bg_value bg_graph_add(bg_graph *graph, const bg_op_type *op_type, const char *name, const bg_value *inputs,
                             uint32_t input_count, const void *attributes, bg_value *outputs);

/* Marks a value as an output, which sessions return to the host under this name. An input, a constant or a variable is
 * returned as a copy, a variable with its value after the micro-batch's forward pass. A remote buffer cannot be an
 * output: mark its entries instead (bg_remote_load). */
BG_API void bg_graph_output(bg_graph *graph, const char *name, bg_value value);

/* Marks a value that training with recomputation (options.memory.recompute) stores in the forward pass for the backward
 * pass instead of computing it again. The mark changes memory and time, but not results. All values between two marks
 * of a stage are recomputed together. Inputs, variables and values that enter a stage are always stored. A mark inside
 * ops that are fused moves to the result of the fused op. */
BG_API void bg_graph_checkpoint(bg_graph *graph, bg_value value);

/* Returns the first error of building, if any. */
BG_API bg_status bg_graph_check(const bg_graph *graph, bg_error *error);
/* Records an error in the graph, for layers and models that find a mistake before they add an op. */
BG_API void bg_graph_fail(bg_graph *graph, bg_status status, const char *format, ...) BG_PRINTF(3, 4);

BG_API bg_type bg_graph_type(const bg_graph *graph, bg_value value);     /* zeroed type for null values */
BG_API const char *bg_graph_name(const bg_graph *graph, bg_value value); /* "" for null values */
/* Returns the variable of that name, or the null value. */
BG_API bg_value bg_graph_find_variable(const bg_graph *graph, const char *name);
BG_API uint32_t bg_graph_op_count(const bg_graph *graph);
/* Returns a number that differs for each call on this graph. The number identifies a random op under every strategy. */
BG_API uint32_t bg_graph_next_random_id(bg_graph *graph);

/* Keeps parameters that are added as float32 after this call, such as those of layers, as `dtype`: BG_BFLOAT16 or
 * BG_FLOAT16. Such parameters need half the memory and half the traffic. Layers cast the parameters where they compute
 * in another type. BG_FLOAT32 keeps parameters as they are added. Use options.numerics.stochastic_rounding to train
 * such weights. */
BG_API void bg_graph_set_parameter_dtype(bg_graph *graph, bg_dtype dtype);

/* ---- what training does with parameters ----
 *
 * These functions apply to the parameters added before the call whose whole name matches `pattern`, in which `*`
 * matches any text and `?` one character. A pattern without a match is an error. Later calls override earlier ones. The
 * names and shapes of weights in files and checkpoints do not change. */

/* Freezes the parameters: they get no gradient and no update. */
BG_API void bg_graph_freeze(bg_graph *graph, const char *pattern);
/*
 * Sets the rule for the parameters' first values. "constant" (a), "uniform" in [a, b), "normal" and "truncated_normal"
 * (mean a, deviation b) are those of bg_initializer. "xavier_uniform", "xavier_normal" (Glorot and Bengio, 2010),
 * "kaiming_uniform" and "kaiming_normal" (He et al., 2015; use a gain of sqrt(2) for ReLU) take the gain a and ignore
 * b, as do "kaiming_uniform_out" and "kaiming_normal_out", which use the fan-out instead of the fan-in. The values are
 * those of torch.nn.init, for weights [out, in, ...] of at least two dimensions. "zeros" and "ones" ignore both
 * numbers. "orthogonal" (gain a), "eye", "dirac" (a groups) and "sparse" (a share a of zeros, deviation b) are those of
 * bg_initializer_kind.
 */
BG_API void bg_graph_initialize(bg_graph *graph, const char *pattern, const char *rule, double a, double b);
/* Sets factors, at least 0, that multiply the optimizer's learning rate and weight decay for the parameters. */
BG_API void bg_graph_set_factors(bg_graph *graph, const char *pattern, double rate_factor, double decay_factor);

/* ---- scopes of names ---- */

/* Begin and end a scope. Between the two calls, the names of added variables (including layers' parameters), remote
 * buffers, sections, constants and ops get the scope's name and a dot as prefix. Within bg_scope_begin(graph,
 * "encoder.layer.%d", 3) the layer "query" has the parameter "encoder.layer.3.query.weight". Scopes nest, at most 32
 * deep and 255 bytes long. Names of inputs, outputs and blocks get no prefix. Names to look up (bg_graph_find_variable)
 * and patterns must be complete. Errors, in bg_graph_check: BG_ERROR_INVALID for a name that is empty or too long, or
 * an end without a beginning. */
BG_API void bg_scope_begin(bg_graph *graph, const char *format, ...) BG_PRINTF(2, 3);
BG_API void bg_scope_end(bg_graph *graph);

/* ---- blocks ---- */

#define BG_DEVICE_NONE UINT32_MAX

/* Begins a block: ops added until bg_block_end belong to block `name`. Blocks nest: the end of an inner block returns
 * to the outer one. After the end of the outermost block there is no current block, and an op that is added then makes
 * partitioning fail. A name that is used again refers to the same block. `name` NULL: "0", "1", ... counted over
 * unnamed blocks. `device` is the device of the block; with BG_DEVICE_NONE the strategy chooses it. */
BG_API void bg_block_begin(bg_graph *graph, const char *name, uint32_t device);
BG_API void bg_block_end(bg_graph *graph);
/* Begins a block that ends at the next bg_block_start, or at the bg_block_end of an enclosing bg_block_begin. Ops
 * before the first block belong to stage 0, so they share a stage and a device with the first block unless
 * options.execution.auto_stage is BG_AUTO_STAGE_INCREMENT. To avoid this, start a block before the first op. */
BG_API void bg_block_start(bg_graph *graph, const char *name, uint32_t device);

/* ---- printing ---- */

/* Prints the graph as text, malloc'ed: a line for each input, constant and variable, then one for each op, "%7
 * float32[40,10] = linear(%5, %w, %b)  # forward B4 `layer4`" (followed by "checkpoint %7" if the value is marked),
 * then one for each output. bg_graph_print_dot prints the graph in the language DOT. */
BG_API bg_status bg_graph_print(const bg_graph *graph, char **out_text, bg_error *error);
BG_API bg_status bg_graph_print_dot(const bg_graph *graph, char **out_text, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
