/*
 * onnx.h: declares a file in memory, and the functions with which its nodes become ops.
 *
 *     file.c      bytes -> messages (format.proto) -> contents, checked once, so that later steps may rely on them
 *     restore.c   separates initializers that PyTorch's exporter has joined
 *     tensor.c    reads tensors of a file in the element types of graphs, from the file or its external data
 *     weights.c   determines which initializers are parameters, and reads and writes their values
 *     metadata.c  finds and changes the file's metadata
 *     options.c   checks the caller's options of a build
 *     build.c     folds nodes whose operands are known, and calls the mapping of each other node
 *     mapper.c    functions for mappings: operands, attributes, results, a refusal
 *     map_*.c     mappings, one table in each file; mappings.c lists the tables
 *
 * A value of the model is known (its elements exist while the graph is built) or is a value of the graph. A node whose
 * operands are all known is mapped into a separate graph, which is evaluated at once with reference kernels. Every op
 * can thus be folded, and gives the numbers that it would compute in a run. Graphs cannot hold tensors without
 * elements, so the mappings of shapes handle them.
 */
#ifndef BGI_ONNX_ONNX_H
#define BGI_ONNX_ONNX_H

#include <brigade/onnx.h>

#include "core/arena.h"
#include "core/error.h"
#include "onnx/format.pb-c.h"

/* Element types by the format's numbers. */
typedef enum bgi_onnx_element {
    BGI_ONNX_UNDEFINED = 0,
    BGI_ONNX_FLOAT,
    BGI_ONNX_UINT8,
    BGI_ONNX_INT8,
    BGI_ONNX_UINT16,
    BGI_ONNX_INT16,
    BGI_ONNX_INT32,
    BGI_ONNX_INT64,
    BGI_ONNX_STRING,
    BGI_ONNX_BOOL,
    BGI_ONNX_FLOAT16,
    BGI_ONNX_DOUBLE,
    BGI_ONNX_UINT32,
    BGI_ONNX_UINT64,
    BGI_ONNX_COMPLEX64,
    BGI_ONNX_COMPLEX128,
    BGI_ONNX_BFLOAT16,
    BGI_ONNX_ELEMENT_COUNT
} bgi_onnx_element;

/* Returns a name such as "float"; "unknown" for undefined numbers. */
const char *bgi_onnx_element_name(int32_t element);
/* Returns the type that graphs use for elements of this ONNX type; BG_DTYPE_NONE if graphs have no such type. */
bg_dtype bgi_onnx_element_dtype(int32_t element);
/* Returns the element type that a graph's type represents by default. */
bgi_onnx_element bgi_onnx_dtype_element(bg_dtype dtype);
bool bgi_onnx_element_is_float(int32_t element);

enum { BGI_ONNX_MAX_RANK = 8, BGI_ONNX_OLDEST = 6, BGI_ONNX_NEWEST = 21 };

/* Known elements, in the type of graphs. Dimensions may be 0. */
typedef struct bgi_tensor {
    int32_t element;
    bg_dtype dtype;
    uint32_t rank;
    int64_t dims[BGI_ONNX_MAX_RANK];
    int64_t count;
    void *data;
} bgi_tensor;

/* Finds the tensor's type in a graph; returns false for too many dimensions, or no elements. */
bool bgi_tensor_type(const bgi_tensor *tensor, bg_type *out);
/* These functions return element `index`: bgi_tensor_int of a tensor of an integer type, bgi_tensor_real of a tensor of
 * any type. */
int64_t bgi_tensor_int(const bgi_tensor *tensor, int64_t index);
double bgi_tensor_real(const bgi_tensor *tensor, int64_t index);
void bgi_tensor_set(bgi_tensor *tensor, int64_t index, double value);
/* Makes a zeroed tensor; returns NULL if memory runs out. The caller must have checked the sizes. */
bgi_tensor *bgi_tensor_make(bgi_arena *arena, int32_t element, uint32_t rank, const int64_t *dims);

/* ---- names ---- */

/* A table from names to numbers; the caller owns the names. A zeroed table is empty. */
typedef struct bgi_names {
    const char **names;
    uint32_t *table; /* number + 1; 0: free */
    size_t table_size, count, capacity;
} bgi_names;

#define BGI_NAMES_NONE UINT32_MAX
uint32_t bgi_names_find(const bgi_names *names, const char *name);
/* Returns the name's number, a new one if the name was not in the table; BGI_NAMES_NONE if memory runs out. */
uint32_t bgi_names_add(bgi_names *names, const char *name);
void bgi_names_clear(bgi_names *names);

/* ---- a file ---- */

struct bg_onnx {
    bgi_arena arena;
    char *path, *folder;
    BgiOnnx__Model *model;
    BgiOnnx__Graph unpacked; /* the model's unpacked graph, after it was restored */
    bool is_restored;
    bg_onnx_contents contents;
    /* The inputs and outputs of contents, writable. */
    bg_onnx_port *inputs, *outputs;
    bg_onnx_node *nodes;
    bg_onnx_weight *weights;
    bgi_names weight_names;
    /* Data of the newest build. */
    bgi_arena built;
    bool is_built;
    bool *is_variable; /* by weight: whether it is a variable of the graph */
    uint8_t *values;   /* by weight: bgi_onnx_values */
};

/* The known facts about a weight's values. */
typedef enum bgi_onnx_values { BGI_VALUES_UNKNOWN = 0, BGI_VALUES_ORDINARY, BGI_VALUES_BUFFER } bgi_onnx_values;

/* Reads a file's content in memory. `folder`: the folder of external data (NULL: external data are an error). */
bg_status bgi_onnx_parse(const char *name, const char *folder, const void *content, size_t size_bytes, bg_onnx **out,
                         bg_error *error);
/* Separates initializers that PyTorch's exporter has joined, before the file is checked further. */
bg_status bgi_onnx_restore(bg_onnx *onnx, bg_error *error);
/* Puts the unpacked graph back into the model, so that it can be freed. */
void bgi_onnx_forget_restored(bg_onnx *onnx);
/* Whether a node is the op `op` of ONNX's own domain. */
bool bgi_onnx_is_standard(const BgiOnnx__Node *node, const char *op);
/* Whether the node is an If, whose branch may replace it (build.c). */
bool bgi_onnx_is_if(const BgiOnnx__Node *node);
/* Returns a node's name, or one such as "Conv:12" for a node without a name. */
const char *bgi_onnx_node_name(bgi_arena *arena, const BgiOnnx__Node *node);
/* Returns the scope of a node's name, at most `depth` parts of it (0: all), or "main"; NULL if memory runs out. */
const char *bgi_onnx_scope(bgi_arena *arena, const BgiOnnx__Node *node, uint32_t depth);

/* Whether a batch norm uses the statistics of the batch (map_norm.c). */
bool bgi_onnx_is_training_norm(const BgiOnnx__Node *node, int64_t opset);

/* ---- tensors of files ---- */

/* Checks a tensor against its own declaration (its type, its dimensions, and the number of values that they imply), and
 * describes it. `data` stays NULL. */
bg_status bgi_onnx_tensor_check(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, bgi_tensor *out, bg_error *error);
/* Reads the tensor's values to `out` as elements of the graph's type. */
bg_status bgi_onnx_tensor_read(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, const bgi_tensor *type, void *out,
                               bg_error *error);
/* Checks a tensor and reads its values, into memory of the arena. */
bg_status bgi_onnx_tensor_load(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, bgi_arena *arena,
                               const bgi_tensor **out, bg_error *error);
/* Converts values of a float type to the raw bytes of a file; malloc'ed. */
bg_status bgi_onnx_tensor_bytes(int32_t element, bg_dtype dtype, const void *values, int64_t count, void **out,
                                size_t *out_size, bg_error *error);
/* Reads the raw bytes of a tensor in another file; malloc'ed. */
bg_status bgi_onnx_tensor_raw(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, void **out, size_t *out_size,
                              bg_error *error);
bool bgi_onnx_tensor_is_external(const BgiOnnx__Tensor *tensor);
/* Returns the bytes of an element in files; 0 if they are not fixed. */
size_t bgi_onnx_element_bytes(int32_t element);

/* ---- weights ---- */

/* Determines the use of each weight. `options` must have been checked. */
bg_status bgi_onnx_classify(bg_onnx *onnx, const bg_onnx_options *options, bg_error *error);

/* ---- options ---- */

/* Checks that options are of this release, and that the names in them exist in the file. Patterns of weights are
 * checked by bgi_onnx_classify. */
bg_status bgi_onnx_check_options(const bg_onnx *onnx, const bg_onnx_options *options, bg_error *error);

/* ---- mapping ---- */

typedef enum bgi_item_kind {
    BGI_ITEM_NONE = 0,
    BGI_ITEM_INPUT,  /* not yet in the graph */
    BGI_ITEM_WEIGHT, /* a variable, not yet in the graph */
    BGI_ITEM_KNOWN,
    BGI_ITEM_VALUE,
    BGI_ITEM_TRANSPOSE, /* the transpose of a matrix; added only if an op other than a product reads it */
    BGI_ITEM_REFUSED    /* its node could not be mapped */
} bgi_item_kind;

/* A value of the model. */
typedef struct bgi_item {
    const char *name;
    bgi_item_kind kind;
    int32_t element;
    uint32_t index; /* of an input or a weight */
    bg_value value;
    const bgi_tensor *known;
    bg_value transpose_of; /* of the transpose of a matrix: that matrix */
} bgi_item;

typedef struct bgi_onnx_build {
    bg_onnx *onnx;
    const bg_onnx_options *options;
    bg_graph *graph;
    bgi_arena arena; /* of known values */
    bgi_names names; /* of items */
    bgi_names used;  /* the names that nodes or outputs of the model read */
    bgi_item *items;
    int64_t opset;
    const char *scope; /* scope of the open block; NULL: no block is open */
    const char *block;
    bgi_names blocks;
    bool has_training_norms; /* the file has a batch norm in training form, so batch norms in evaluation form keep their
                                statistics */
    uint32_t constant_count;
    uint64_t known_bytes; /* of computed values so far */
} bgi_onnx_build;

enum { BGI_REASON_BYTES = 400 };

/* The limit on values computed while a graph is built, so that a small file cannot make the reader allocate arbitrary
 * memory. */
#define BGI_ONNX_KNOWN_LIMIT (UINT64_C(1) << 30)

/* A node that is being mapped. */
typedef struct bgi_mapper {
    bgi_onnx_build *build;
    const BgiOnnx__Node *node;
    const char *name;
    bg_graph *graph; /* graph to which ops are added: the model's, or a separate one that is evaluated at once */
    bool is_folding; /* all operands are known */
    int64_t opset;
    const struct bgi_mapping *mapping;
    bgi_item **inputs; /* NULL: not given */
    uint32_t input_count;
    bgi_item *results; /* filled by the mapping; the node defines their names */
    uint32_t result_count;
    char reason[BGI_REASON_BYTES]; /* of a refusal */
    bool is_out_of_memory;
} bgi_mapper;

typedef bool (*bgi_mapping_function)(bgi_mapper *m);
/* A row: the function for an op, which fills the results or refuses, and its parameter (bgi_map_parameter). */
typedef struct bgi_mapping {
    const char *op; /* NULL ends a table */
    bgi_mapping_function map;
    int parameter;
} bgi_mapping;

extern const bgi_mapping bgi_onnx_elementwise[], bgi_onnx_matrix[], bgi_onnx_convolution[], bgi_onnx_shapes[],
    bgi_onnx_index[], bgi_onnx_reduction[], bgi_onnx_norm[], bgi_onnx_resize[], bgi_onnx_loss[], bgi_onnx_constants[],
    bgi_onnx_recurrent[], bgi_onnx_quantize[], bgi_onnx_signal[], bgi_onnx_ml[];

/* Returns the row of an op, or NULL. `domain`: "" for ONNX itself. */
const bgi_mapping *bgi_onnx_find_mapping(const char *domain, const char *op);
/* Returns the reason why an op of ONNX has no mapping. */
const char *bgi_onnx_why_unknown(const char *op);
/* Returns the `parameter` of the node's row. */
int bgi_map_parameter(const bgi_mapper *m);

/* Records the reason and returns false. */
bool bgi_map_refuse(bgi_mapper *m, const char *format, ...) BG_PRINTF(2, 3);
/* Whether nothing was refused and the graph is valid; mappings return this at their end. */
bool bgi_map_is_well(bgi_mapper *m);

/* ---- operands. Null or NULL after a refusal, or where the node has no such operand. ---- */

bool bgi_map_given(const bgi_mapper *m, uint32_t input);
/* Returns the operand as a value of the current graph. */
bg_value bgi_map_in(bgi_mapper *m, uint32_t input);
/* Returns the matrix whose transpose the operand is, otherwise null. Adds nothing to the graph. */
bg_value bgi_map_transposed(const bgi_mapper *m, uint32_t input);
bg_type bgi_map_type(bgi_mapper *m, bg_value value);
/* Finds the type of an operand, which may have more dimensions than graphs support, or no elements; returns false after
 * a refusal. */
bool bgi_map_shape(bgi_mapper *m, uint32_t input, uint32_t *rank, int64_t dims[BGI_ONNX_MAX_RANK]);
int32_t bgi_map_element(const bgi_mapper *m, uint32_t input);
/* Returns an operand whose elements must be known; refuses otherwise. */
const bgi_tensor *bgi_map_known(bgi_mapper *m, uint32_t input);
/* Returns an operand if its elements are known, otherwise NULL. */
const bgi_tensor *bgi_map_if_known(const bgi_mapper *m, uint32_t input);
/* Reads known integers, at most `capacity` of them. */
bool bgi_map_known_ints(bgi_mapper *m, uint32_t input, int64_t *out, uint32_t *count, uint32_t capacity);
/* Reads a known number. */
bool bgi_map_known_real(bgi_mapper *m, uint32_t input, double *out);
/* Whether one of the operands has no elements (such an operand is known). */
bool bgi_map_has_empty(const bgi_mapper *m);

/* ---- attributes ---- */

bool bgi_map_has(const bgi_mapper *m, const char *attribute);
const BgiOnnx__Attribute *bgi_map_attribute(const bgi_mapper *m, const char *attribute);
int64_t bgi_map_int(const bgi_mapper *m, const char *attribute, int64_t otherwise);
double bgi_map_real(const bgi_mapper *m, const char *attribute, double otherwise);
/* Reads integers and returns their number, 0 without the attribute; refuses more than `capacity`. */
uint32_t bgi_map_ints(bgi_mapper *m, const char *attribute, int64_t *out, uint32_t capacity);
/* Whether the attribute is `text`; returns `otherwise` when the node does not have it. */
bool bgi_map_text_is(const bgi_mapper *m, const char *attribute, const char *text, bool otherwise);
/* Converts an axis to 0 .. rank - 1 (or rank with `and_end`); negative axes count from the last dimension. */
bool bgi_map_axis(bgi_mapper *m, int64_t given, uint32_t rank, bool and_end, int32_t *out);
/* Reads integers from an attribute up to opset `last`, and from an operand in later opsets. `count` is 0 when neither
 * is given. */
bool bgi_map_ints_of(bgi_mapper *m, const char *attribute, int64_t last, uint32_t input, int64_t *out, uint32_t *count,
                     uint32_t capacity);

/* ---- results ---- */

/* Whether anything reads the output. */
bool bgi_map_wants(const bgi_mapper *m, uint32_t output);
/* Sets a result. Its element type is that of the first operand if the graph stores both in one type, otherwise the
 * default of the graph's type. */
bool bgi_map_out(bgi_mapper *m, uint32_t output, bg_value value);
bool bgi_map_out_as(bgi_mapper *m, uint32_t output, bg_value value, int32_t element);
bool bgi_map_out_known(bgi_mapper *m, uint32_t output, const bgi_tensor *tensor);
/* Makes a zeroed tensor for the result; returns NULL after a refusal (too large, no memory). */
bgi_tensor *bgi_map_make(bgi_mapper *m, int32_t element, uint32_t rank, const int64_t *dims);
/* Makes the node's first operand its result. */
bool bgi_map_pass(bgi_mapper *m);

/* ---- values that mappings add ---- */

bg_value bgi_map_constant(bgi_mapper *m, const bg_type *type, const void *data);
/* Adds a scalar constant. */
bg_value bgi_map_number(bgi_mapper *m, bg_dtype dtype, double value);
/* Adds a constant of a float type, a vector or matrix, from doubles. */
bg_value bgi_map_reals(bgi_mapper *m, bg_dtype dtype, uint32_t rank, const int64_t *dims, const double *values);
bg_value bgi_map_ints_constant(bgi_mapper *m, const int64_t *values, int64_t count);
/* Casts a value; returns the value itself when it already has the type. */
bg_value bgi_map_cast(bgi_mapper *m, bg_value value, bg_dtype dtype);
bg_value bgi_map_reshape(bgi_mapper *m, bg_value value, uint32_t rank, const int64_t *dims);
/* Whether the value is a trained parameter or another variable. */
bool bgi_map_is_variable(bgi_mapper *m, bg_value value);

#endif
