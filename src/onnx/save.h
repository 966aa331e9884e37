/*
 * save.h: declares functions that write a graph as a file, one row for each op type.
 *
 *     save.c      the public function: the needed ops, one row after the other, weights, the file
 *     saver.c     functions for rows: names of operands, nodes with attributes, constants, results, a refusal
 *     batch.c     finds the dimension of a value that has the samples, so that files leave the batch size open
 *     write.c     writes messages to files, and tensors to separate files
 *     save_*.c    rows, one table in each file; savers.c lists the tables
 *
 * A row is a function that adds the nodes of one op. It reads operands as names of the file (bgi_save_in), makes nodes
 * (bgi_save_1 and so on, each the newest one, to which attributes are added), and sets the name of the op's result
 * (bgi_save_out). Failures are sticky: names are NULL afterward, and functions that get NULL do nothing.
 *
 * Element types. Some ops do not exist in ONNX for float16 or bfloat16, and some need several nodes where the library
 * rounds once. For these bgi_save_widen casts operands to float and the result back, so results equal those of the
 * library, which also sums in float. uint8 values that are bool in ONNX keep both names.
 */
#ifndef BGI_ONNX_SAVE_H
#define BGI_ONNX_SAVE_H

#include "graph/graph.h"
#include "onnx/onnx.h"

enum { BGI_SAVE_NO_BATCH = -1, BGI_SAVE_OLDEST = 13, BGI_SAVE_NEWEST = 17 };

/* The file's names for a value of the graph. */
typedef struct bgi_saved_value {
    const char *name;    /* NULL: not in the file yet */
    const char *as_bool; /* for uint8: the name of the value as bool; NULL: not in the file */
    const char *cell;    /* of an LSTM's cell states of all steps: the name of the last step's state */
    int32_t batch;       /* the dimension that holds the samples, or BGI_SAVE_NO_BATCH */
    uint32_t uses;       /* the number of uses by ops and outputs in the file */
} bgi_saved_value;

typedef struct bgi_saver {
    const bg_graph *graph;
    const bg_onnx_save_options *options;
    bgi_arena arena;
    bgi_saved_value *values;  /* by id */
    const char **output_name; /* by id: the name under which the file returns it; NULL: it is not an output */
    bool *is_needed;          /* by op */
    bgi_names taken;          /* names of values and nodes */
    BgiOnnx__Node **nodes;
    size_t node_count, node_capacity;
    bg_value *variables; /* the variables that become initializers */
    size_t variable_count, variable_capacity;
    int64_t batch; /* samples of a micro-batch; 0: sizes are fixed */
    /* The current op. */
    const bgi_op *op;
    const struct bgi_save_row *row;
    const char *block, *label; /* parts of the names of its nodes */
    bool is_wide;              /* 16-bit operands are read as float */
    char reason[BGI_REASON_BYTES];
    bool is_refused, is_out_of_memory;
    char fixed[BGI_REASON_BYTES]; /* the reason why the size of the batch cannot stay open, or "" */
} bgi_saver;

typedef void (*bgi_save_function)(bgi_saver *s);
typedef struct bgi_save_row {
    const bg_op_type *type; /* NULL ends a table */
    bgi_save_function save; /* NULL: refused */
    int64_t bfloat_from; /* the first opset that supports bfloat16 for the op; 0: all that are written, 99: no opset */
    const char *reason;  /* of a refusal */
} bgi_save_row;

extern const bgi_save_row bgi_save_elementwise[], bgi_save_matrix[], bgi_save_convolution[], bgi_save_shapes[],
    bgi_save_index[], bgi_save_norm[], bgi_save_attention[], bgi_save_recurrent[], bgi_save_loss[];
/* Returns the row of an op type, or NULL. */
const bgi_save_row *bgi_save_find(const bg_op_type *type);

/* Records the reason why the op cannot be saved. */
void bgi_save_refuse(bgi_saver *s, const char *format, ...) BG_PRINTF(2, 3);

/* ---- operands ---- */

bool bgi_save_given(const bgi_saver *s, uint32_t input);
bg_type bgi_save_type(const bgi_saver *s, uint32_t input);
bg_type bgi_save_result(const bgi_saver *s, uint32_t output);
/* Whether something in the file reads the output. */
bool bgi_save_wants(const bgi_saver *s, uint32_t output);
/* Makes later calls for this op read 16-bit operands as float, and convert results back. */
void bgi_save_widen(bgi_saver *s);
/* Returns the element type in which an operand is read (after bgi_save_widen). */
bg_dtype bgi_save_dtype(const bgi_saver *s, uint32_t input);
/* Returns the file's name for an operand, or NULL for an absent operand. */
const char *bgi_save_in(bgi_saver *s, uint32_t input);
/* Returns the file's name for any value of the graph; values of 16 bits are float after bgi_save_widen. */
const char *bgi_save_value(bgi_saver *s, bg_value value);
/* Whether a value is the cell states of all steps of an LSTM; a file has only the last state. */
bool bgi_save_is_cells(const bgi_saver *s, bg_value value);
/* Returns the operand as int64, or unchanged if it is int32. */
const char *bgi_save_ids(bgi_saver *s, uint32_t input);
/* Returns a uint8 operand as bool. */
const char *bgi_save_truth(bgi_saver *s, uint32_t input);

/* ---- nodes: each returns the name of the node's first result ---- */

const char *bgi_save_node(bgi_saver *s, const char *op, uint32_t count, const char *const *inputs);
const char *bgi_save_1(bgi_saver *s, const char *op, const char *x);
const char *bgi_save_2(bgi_saver *s, const char *op, const char *a, const char *b);
const char *bgi_save_3(bgi_saver *s, const char *op, const char *a, const char *b, const char *c);
/* Adds a result to the newest node. */
const char *bgi_save_more(bgi_saver *s);
/* Adds a result that is not used. */
void bgi_save_skip(bgi_saver *s);
/* Adds attributes to the newest node. */
void bgi_save_int(bgi_saver *s, const char *name, int64_t value);
void bgi_save_ints(bgi_saver *s, const char *name, const int64_t *values, uint32_t count);
void bgi_save_real(bgi_saver *s, const char *name, double value);
void bgi_save_text(bgi_saver *s, const char *name, const char *value);
const char *bgi_save_cast(bgi_saver *s, const char *x, int32_t element);
/* Reshapes to dims; dimension `batch`, if it has the samples, is left open. */
const char *bgi_save_reshape(bgi_saver *s, const char *x, uint32_t rank, const int64_t *dims, int32_t batch);
const char *bgi_save_transpose(bgi_saver *s, const char *x, uint32_t rank, const int64_t *permutation);

/* ---- constants ---- */

/* Adds a constant. `data` must outlive the saver. */
const char *bgi_save_constant(bgi_saver *s, const bg_type *type, const void *data);
const char *bgi_save_number(bgi_saver *s, bg_dtype dtype, double value);
const char *bgi_save_reals(bgi_saver *s, bg_dtype dtype, uint32_t rank, const int64_t *dims, const double *values);
const char *bgi_save_list(bgi_saver *s, const int64_t *values, uint32_t count);

/* ---- results ---- */

/* Sets output `output` of the op to `name`, in the element type of operands after bgi_save_widen; its samples are in
 * dimension `batch`. */
void bgi_save_out(bgi_saver *s, uint32_t output, const char *name, int32_t batch);
/* Sets an output that already has the graph's element type. */
void bgi_save_out_as_is(bgi_saver *s, uint32_t output, const char *name, int32_t batch);
/* Sets an output that is bool in the file. */
void bgi_save_out_bool(bgi_saver *s, uint32_t output, const char *name, int32_t batch);

/* ---- save_recurrent.c ---- */

/* Returns the linear op that a recurrence includes in its node, or NULL. */
const bgi_op *bgi_save_absorbs(const bgi_saver *s, const bgi_op *op);
/* Saves the current op, a slice that takes the last of an LSTM's cell states. */
void bgi_save_last_cell(bgi_saver *s, uint32_t axis, int64_t start, int64_t stop);

/* ---- batch.c ---- */

/* Returns the dimension of an operand that holds the samples. */
int32_t bgi_save_batch(const bgi_saver *s, uint32_t input);
/* Records why the size of the batch cannot stay open; returns BGI_SAVE_NO_BATCH. */
int32_t bgi_save_fix(bgi_saver *s, const char *format, ...) BG_PRINTF(2, 3);
/* Returns the dimension of the samples for all operands, broadcast to `result`. */
int32_t bgi_save_batch_broadcast(bgi_saver *s, const bg_type *result);
/* Returns the dimension of an operand's samples. The operand must have them in its first dimension, and other operands
 * must have no samples. */
int32_t bgi_save_batch_first(bgi_saver *s, uint32_t input);
/* Like bgi_save_batch_first, for an operand that must have the samples before dimension `before`. */
int32_t bgi_save_batch_before(bgi_saver *s, uint32_t input, uint32_t before);
/* Returns the dimension of the samples after a reshape. */
int32_t bgi_save_batch_reshaped(bgi_saver *s, const bg_type *from, int32_t batch, const bg_type *to);

/* ---- write.c ---- */

/* A file beside the model's that contains the values of tensors. */
typedef struct bgi_onnx_outside {
    char *path;
    const char *location; /* the name part of the path */
    struct bgi_file_writer *writer;
    uint64_t offset;
} bgi_onnx_outside;

/* Opens "<path>.data"; `arena` keeps the tensors' references to it. Must be followed by exactly one of the two
 * functions below. */
bg_status bgi_onnx_outside_begin(bgi_onnx_outside *outside, const char *path, bgi_arena *arena, bg_error *error);
bg_status bgi_onnx_outside_commit(bgi_onnx_outside *outside, bg_error *error);
void bgi_onnx_outside_abandon(bgi_onnx_outside *outside, bg_error *error);
/* Writes a tensor's raw bytes to the file; the tensor then refers to the file instead. Returns false if memory runs
 * out. */
bool bgi_onnx_outside_put(bgi_onnx_outside *outside, BgiOnnx__Tensor *tensor, bgi_arena *arena);
/* If the tensors have more bytes than this, they are written to an external file, because a protobuf message has at
 * most 2 GiB. */
#define BGI_ONNX_INSIDE_LIMIT (UINT64_C(1) << 30)
bg_status bgi_onnx_write(const BgiOnnx__Model *model, const char *path, bg_error *error);

#endif
