/*
 * onnx.h: reads models in the ONNX format as graphs with their weights, and writes graphs as ONNX files.
 *
 *     bg_onnx_open("model.onnx", &onnx, &error);           // reads and checks the file: inputs, symbols, nodes
 *     options = bg_onnx_defaults();
 *     options.batch_size = 32;                             // symbolic dimensions get their sizes
 *     bg_onnx_build(onnx, &options, graph, &error);        // adds the model to a graph
 *     logits = bg_onnx_contents_of(onnx)->outputs[0].value; // add a loss, or bg_graph_output
 *     bg_onnx_set_weights(onnx, weights, &error);          // first values, for bg_session_create
 *
 * Opsets 6 to 21 are read. A model that the library cannot express is refused before anything runs, with every
 * unsupported node and its reason. The reader checks every value of a file before use.
 *
 * Names. Inputs, outputs and weights keep the file's names. The scope in a node's name is its block: the node
 * "/layer1/0/conv1/Conv" belongs to block "layer1/0/conv1", and a node without a scope belongs to block "main". If a
 * scope appears again after other scopes, its new block has the suffix ".2", ".3" and so on. So each block is
 * contiguous, and blocks can become stages as in any other graph.
 *
 * Weights. A float initializer is a parameter. Exceptions are the running statistics of batch norms, which are buffers,
 * and these initializers, which are constants:
 *   - scalars that are used only in elementwise arithmetic; in files of PyTorch only scalars whose names begin with
 *     "onnx::", because other scalars were parameters of a module;
 *   - values to which no gradient flows: the class weights of a loss, operands of comparisons and of casts to integers,
 *     and shapes, scales, bounds and other numbers that the graph is built from;
 *   - masks, which are used only in elementwise arithmetic (also after a cast or a change of shape). Their values are
 *     zeros and ones, or some of them represent infinity (1e4 and beyond);
 *   - tables of positions: added tensors whose rows are sines and cosines of the same angles;
 *   - in files of PyTorch, initializers with the names of buffers: `mask`, `*_mask`, `pos_weight`, `inv_freq`,
 *     `running_mean`, `running_var`, `loss.weight` and `criterion.weight`, as the whole name or at its end.
 *
 * Values of Constant nodes are constants. Other buffers of PyTorch's modules cannot be distinguished from parameters in
 * a file, so freeze them. An initializer that several nodes use is one parameter. Matrices keep the file's layout.
 *
 * Parameters that PyTorch's exporter joined are separated again: of several parameters that are equal by chance, an
 * export for evaluation has only one, and Identity nodes with the names of the others, which become separate
 * parameters. If a head has the transpose of an embedding's table (a tied weight), the head uses the table itself.
 * bg_onnx_contents and saved files have the parameters in this form.
 *
 * Element types: bool becomes uint8 (0 or 1), int8, int16 and uint16 become int32, uint32 and uint64 become int64
 * (uint64 above 2^63 - 1 is refused). Inputs and outputs of the graph have these types. bg_onnx_port.element is the
 * type in the file.
 *
 * Threads: one thread at a time uses a bg_onnx.
 *
 * Errors: BG_ERROR_INVALID, BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE, BG_ERROR_UNSUPPORTED, BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_ONNX_H
#define BRIGADE_ONNX_H

#include <brigade/graph.h>
#include <brigade/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file that was read, and what was last built from it. */
typedef struct bg_onnx bg_onnx;

/* ---- the content of a file ---- */

typedef struct bg_onnx_dim {
    int64_t size;       /* at least 0; -1: not fixed by the file */
    const char *symbol; /* "batch" if the size is -1 and has a name; otherwise NULL */
} bg_onnx_dim;

/* An input or an output of the model. */
typedef struct bg_onnx_port {
    const char *name;
    const char *element; /* the file's name of the element type: "float", "int64", "bool", ...; "" if the file does
                            not name it */
    bg_dtype dtype;      /* element type in the graph; BG_DTYPE_NONE: not supported (strings) */
    bool has_shape;      /* false: the file does not give the dimensions (rank is 0, dims is NULL) */
    uint32_t rank;
    const bg_onnx_dim *dims;
    /* Set by bg_onnx_build; before that the value is null and the type is zeroed. An input that options.values fixed,
     * or that no node uses, has a type and no value. */
    bg_value value;
    bg_type type;
} bg_onnx_port;

typedef struct bg_onnx_node {
    const char *name; /* the node's name in the file, or else a name made from the op and the first output: "Conv:12" */
    const char *op;   /* "Conv" */
    const char *domain; /* "" for ONNX's own */
    const char *block;  /* block of the node's ops */
    uint32_t ops;       /* after bg_onnx_build: the number of ops in the graph; 0: the node was folded or left out */
    double flops;       /* after bg_onnx_build: flops of the node's forward ops, for the given sizes */
} bg_onnx_node;

typedef enum bg_onnx_use {
    BG_ONNX_PARAMETER = 0, /* trained */
    BG_ONNX_FROZEN,        /* a parameter that the options freeze, which is a buffer of the graph */
    BG_ONNX_BUFFER,        /* running statistics */
    BG_ONNX_CONSTANT       /* not a variable of the graph */
} bg_onnx_use;

/* An initializer. `use` is that of the last bg_onnx_build or, before the first, that of the default options. */
typedef struct bg_onnx_weight {
    const char *name; /* the variable's name in the graph, in bg_weights and in saved files */
    const char *element;
    bg_type type; /* zeroed if a graph cannot have the type (more than BG_MAX_RANK dimensions, no elements, strings) */
    bg_onnx_use use;
} bg_onnx_weight;

/* A reason why bg_onnx_build refused a node, or the model as a whole. */
typedef struct bg_onnx_problem {
    uint32_t node;      /* the node's number; UINT32_MAX: the model as a whole */
    const char *op;     /* "" where there is no node */
    const char *reason; /* "attribute `axis` is 7: x has 4 dimensions" */
} bg_onnx_problem;

/* The content of a file. It belongs to the bg_onnx, and bg_onnx_build changes it. */
typedef struct bg_onnx_contents {
    const char *path;
    const char *producer; /* "pytorch 1.13.0"; "" if the file does not name it */
    const char *graph_name;
    int64_t ir_version;
    int64_t opset; /* opset of ONNX's own ops */
    const bg_onnx_port *inputs;
    const bg_onnx_port *outputs;
    const bg_onnx_node *nodes;
    const bg_onnx_weight *weights;
    const char *const *symbols;      /* names of symbolic dimensions of inputs, in their order in the file */
    const bg_onnx_problem *problems; /* found by the last bg_onnx_build */
    uint32_t input_count, output_count, node_count, weight_count, symbol_count, problem_count;
} bg_onnx_contents;

/* Reads a file, and the files that hold its external data. External files must be in the model file's folder or below
 * it. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE (not an ONNX file, or one that contradicts itself; the
 * message has file, node, attribute and what was expected), BG_ERROR_UNSUPPORTED (an opset before 6, or after the
 * newest that is known), BG_ERROR_MEMORY. */
BG_API bg_status bg_onnx_open(const char *path, bg_onnx **out, bg_error *error);
BG_API void bg_onnx_destroy(bg_onnx *onnx);
BG_API const bg_onnx_contents *bg_onnx_contents_of(const bg_onnx *onnx);

/* ---- metadata ---- */

/* Returns the value of a key in the file's metadata (metadata_props), the first one if the key is repeated. Returns
 * NULL if there is no such key. The text is valid until the next bg_onnx_metadata_set. */
BG_API const char *bg_onnx_metadata_find(const bg_onnx *onnx, const char *key);

/* Replaces all values of a key by `value`, or removes them if `value` is NULL. The opened file does not change, but
 * bg_onnx_save_weights writes the new metadata. `key` and `value` must be UTF-8, and are copied. Errors:
 * BG_ERROR_INVALID, BG_ERROR_MEMORY (the metadata are unchanged). */
BG_API bg_status bg_onnx_metadata_set(bg_onnx *onnx, const char *key, const char *value, bg_error *error);

/* ---- to a graph ---- */

typedef enum bg_onnx_mode {
    /* Batch norms and dropouts work as in PyTorch's train mode in training plans, and as in its eval mode in inference
     * plans, whichever way the file was exported. But if a file has batch norms in both forms (it was exported with
     * TrainingMode.PRESERVE, and some norms were in evaluation mode), training does not change the running statistics
     * of those in evaluation form. */
    BG_ONNX_TRAIN = 0,
    /* Batch norms use running statistics and dropout is off, in training plans too. */
    BG_ONNX_EVAL,
    /* The nodes' attributes decide: a node whose attributes select batch statistics uses these in inference too. A
     * dropout that would be active in inference is refused. */
    BG_ONNX_AS_WRITTEN
} bg_onnx_mode;

/* The size of a symbolic dimension. */
typedef struct bg_onnx_size {
    const char *symbol; /* "batch"; or "INPUT:2", dimension 2 of an input, also where it has no symbol */
    int64_t size;       /* at least 1 */
} bg_onnx_size;

/* A fixed value for an input, which then is not an input of the graph: a shape or a number of steps, for example. */
typedef struct bg_onnx_fixed {
    const char *input;
    bg_type type; /* in the graph's element type; dimensions of size 0 are allowed here */
    const void *data;
} bg_onnx_fixed;

typedef struct bg_onnx_options {
    size_t struct_bytes; /* set by bg_onnx_defaults; see base.h */
    bg_onnx_mode mode;
    int64_t batch_size; /* size of the first dimension of each input if this dimension is symbolic and not in `sizes`;
                           0: not given. If the dimension is fixed in the file, batch_size must equal it */
    const bg_onnx_size *sizes;
    uint32_t size_count;
    const bg_onnx_fixed *values;
    uint32_t value_count;
    /* Patterns of parameters' names, in which * matches any characters and ? matches one. Parameters that match a
     * pattern of `freeze` and none of `train` are not trained. Constants (see above) that match a pattern of `train`
     * become parameters. A pattern without a matching float initializer is an error. */
    const char *const *freeze;
    uint32_t freeze_count;
    const char *const *train;
    uint32_t train_count;
    /* The names of the two options above in error messages; NULL: options.freeze, options.train. */
    const char *freeze_option, *train_option;
    /* The number of leading parts of a scope that form the name of a block: with 1, "layer1/0/conv1" is in block
     * "layer1". 0: all parts. */
    uint32_t block_depth;
} bg_onnx_options;

BG_API void bg_onnx_options_init(bg_onnx_options *options, size_t struct_bytes);
/* Defaults: BG_ONNX_TRAIN, no sizes, nothing frozen, whole scopes. */
static inline bg_onnx_options bg_onnx_defaults(void)
{
    bg_onnx_options options;

    bg_onnx_options_init(&options, sizeof options);
    return options;
}

/*
 * Adds the model to a graph: inputs, variables, ops in their blocks. The function marks no outputs (bg_graph_output):
 * their values are in bg_onnx_contents. After the call no block is open, so begin one (bg_block_begin) before you add
 * ops. Shapes, constants and values computed from them are folded. The same file may be built again with other sizes,
 * such as the micro-batches of training and validation; bg_onnx_contents describes the newest build.
 *
 * Errors: BG_ERROR_UNSUPPORTED (nodes that cannot be expressed; the message has the first ones with their reasons,
 * bg_onnx_contents has all); BG_ERROR_INVALID (missing sizes, all of which the message names; a name that is not in the
 * file); BG_ERROR_SHAPE (sizes that do not fit the model); BG_ERROR_PARSE; BG_ERROR_MEMORY. The graph cannot be used
 * after an error.
 */
BG_API bg_status bg_onnx_build(bg_onnx *onnx, const bg_onnx_options *options, bg_graph *graph, bg_error *error);

/* Sets all variables of the newest build to the file's values. Errors: those of bg_weights_set; BG_ERROR_INVALID if
 * nothing was built. */
BG_API bg_status bg_onnx_set_weights(const bg_onnx *onnx, bg_weights *weights, bg_error *error);

/* Opens a file, builds a new graph from it, and creates weights with the file's values. `options` NULL: the defaults.
 * Owner: the caller destroys the three objects. */
BG_API bg_status bg_onnx_load(const char *path, const bg_onnx_options *options, bg_graph **out_graph,
                              bg_weights **out_weights, bg_onnx **out, bg_error *error);

/* ---- to a file ---- */

/* Writes a copy of the opened file. Initializers that became variables in the last build get the values of `weights`,
 * converted to the float types of the file; everything else is unchanged, except for metadata that bg_onnx_metadata_set
 * has set. The file appears complete or not at all. If the tensors have at most 1 GiB in total, they are inside the
 * file; otherwise they are in "<name>.data" beside it. Errors: BG_ERROR_NOT_FOUND (`weights` lacks a value),
 * BG_ERROR_SHAPE, BG_ERROR_IO, BG_ERROR_MEMORY. */
BG_API bg_status bg_onnx_save_weights(const bg_onnx *onnx, bg_weights *weights, const char *path, bg_error *error);

typedef struct bg_onnx_save_options {
    size_t struct_bytes; /* set by bg_onnx_save_defaults; see base.h */
    int64_t opset;       /* opset of ONNX's own ops: 13 to 17 */
    /* Names of the outputs (bg_graph_output) to write. Ops that these outputs do not need are left out. NULL: all
     * outputs. */
    const char *const *outputs;
    uint32_t output_count;
    /* The name of the symbolic first dimension of inputs, if the graph allows such a dimension; NULL: fixed sizes. */
    const char *batch;
    /* Writes the values of weights to "<name>.data" beside the file. More than 1 GiB of values is always written
     * there. */
    bool external_data;
    const char *graph_name; /* NULL: "brigade" */
} bg_onnx_save_options;

BG_API void bg_onnx_save_options_init(bg_onnx_save_options *options, size_t struct_bytes);
/* Defaults: opset 17, all outputs, "batch", one file. */
static inline bg_onnx_save_options bg_onnx_save_defaults(void)
{
    bg_onnx_save_options options;

    bg_onnx_save_options_init(&options, sizeof options);
    return options;
}

/* A description of the written file. */
typedef struct bg_onnx_saved {
    uint32_t node_count, weight_count;
    uint64_t weight_bytes;
    bool has_batch;  /* the batch size is symbolic */
    char fixed[400]; /* the reason why the batch size is fixed; "" if options.batch is NULL or the size is symbolic */
} bg_onnx_saved;

/*
 * Writes a graph that was built with this library as an ONNX model: its inference form (dropouts do nothing, batch
 * norms use running statistics), with the values of `weights`, which has all of its variables. Inputs, outputs and
 * variables keep their names, weights keep their layout, and blocks become the scopes of the nodes' names, so
 * bg_onnx_load restores the graph. Ops that ONNX lacks become several nodes. docs/onnx.md lists these ops, and
 * differences between a file and its graph (for ids out of range). The first dimension of all inputs is the number of
 * samples. If nothing in the graph depends on this number, the dimension gets the name options.batch; otherwise it
 * stays fixed and `out` gives the reason. `options` NULL: the defaults; `out` may be NULL. The file appears complete or
 * not at all.
 *
 * Errors: BG_ERROR_UNSUPPORTED (ops that cannot be written, which the message lists with the reasons; nothing is
 * written); BG_ERROR_INVALID (options; a graph without outputs; a name that is not an output); BG_ERROR_NOT_FOUND
 * (`weights` lacks a value, or no such folder); BG_ERROR_SHAPE (a weight has another shape); BG_ERROR_IO,
 * BG_ERROR_MEMORY; the graph's first error.
 */
BG_API bg_status bg_onnx_save(const bg_graph *graph, bg_weights *weights, const char *path,
                              const bg_onnx_save_options *options, bg_onnx_saved *out, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
