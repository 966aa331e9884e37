/*
 * graph.h: declares the graph as the passes use it: dense arrays of values, ops and blocks, indexed by id.
 */
#ifndef BGI_GRAPH_GRAPH_H
#define BGI_GRAPH_GRAPH_H

#include <brigade/graph.h>

#include "core/arena.h"
#include "core/quantized.h"

typedef enum bgi_value_kind {
    BGI_VALUE_NONE = 0, /* id 0, and results that a pass removed */
    BGI_VALUE_INPUT,
    BGI_VALUE_CONSTANT,
    BGI_VALUE_VARIABLE,
    BGI_VALUE_RESULT
} bgi_value_kind;

typedef struct bgi_value {
    bgi_value_kind kind;
    bg_type type;
    const char *name;
    uint32_t op;      /* of a result: its op */
    uint32_t output;  /* of a result: the number of the output */
    const void *data; /* of a constant */
    bg_variable_role role;
    bg_initializer initializer;
    bgi_quantized quantized; /* of a buffer `name.bfloat16`, `name.int8` or `name.int4`, which has the initializer of
                                parameter `name`: its layout; bits 0: the value is no such buffer */
    uint32_t variable;  /* number of a variable, counted over the graph; all sections of a whole share one number */
    bg_value owner;     /* of accumulators and optimizer state: their parameter */
    bool is_remote;     /* of a variable: stored in a remote buffer */
    bool is_partial;    /* of an accumulator: partial sums, to be added to another accumulator */
    bool is_checkpoint; /* recomputation stores the value instead of computing it again */
    bool is_frozen;     /* of a parameter: no gradient, no update */
    bool has_factors;   /* of a parameter: factors of its learning rate and weight decay */
    double rate_factor, decay_factor;
    bg_value copy_of;          /* of a variable: the original, if this variable is another stage's copy */
    bool shares_home;          /* of a copy: loaded from the remote store of its original */
    const bg_shard *shard;     /* for a variable: the whole of which it is a piece; NULL: the variable is whole */
    const bg_section *section; /* for a variable: its range of a whole; NULL: not a section */
    int64_t piece; /* replicas update a piece of this many elements each; 0: the whole. Types stay those of the whole */
    bool is_piece; /* each replica has only its piece */
    bool is_read_whole; /* some op of the update reads the whole although other ops read pieces */
} bgi_value;

/* When an op runs. Update ops run once for each step, other ops once for each micro-batch. */
typedef enum bgi_op_phase {
    BGI_PHASE_FORWARD = 0,
    BGI_PHASE_RECOMPUTE, /* forward ops that run again, separate from the backward ops */
    BGI_PHASE_BACKWARD,
    BGI_PHASE_WEIGHTS,
    BGI_PHASE_UPDATE
} bgi_op_phase;

typedef struct bgi_op {
    const bg_op_type *type;
    const char *name;
    bgi_op_phase phase;
    uint32_t block; /* index; BGI_BLOCK_NONE after the outermost block has ended */
    uint32_t input_count, output_count;
    bg_value *inputs;
    bg_value *outputs; /* null ids for absent outputs */
    const void *attributes;
    bool is_sharded; /* runs on each replica's piece of those operands that have pieces */
} bgi_op;

#define BGI_BLOCK_NONE UINT32_MAX

/* Block 0 holds the ops before the first block that the user begins; its name is "". */
typedef struct bgi_block {
    const char *name;
    uint32_t device;    /* BG_DEVICE_NONE: not given */
    const char *origin; /* for a part that automatic stages split off: its original block; otherwise NULL */
} bgi_block;

typedef struct bgi_output {
    const char *name;
    bg_value value;
} bgi_output;

struct bg_graph {
    bgi_arena arena;
    bgi_value *values; /* [0] is the null value */
    size_t value_count, value_capacity;
    bgi_op *ops;
    size_t op_count, op_capacity;
    bgi_block *blocks;
    size_t block_count, block_capacity;
    bgi_output *outputs;
    size_t output_count, output_capacity;
    uint32_t *variable_table;   /* value ids by hash of the name, open addressing; 0: free */
    size_t variable_table_size; /* a power of two above twice the variables; 0: no table yet */
    uint32_t variable_count;
    uint32_t number_count; /* number of distinct values of `variable` */
    bool has_sections;
    uint32_t random_count;
    bg_dtype parameter_dtype; /* type of parameters that are added as float32; BG_DTYPE_NONE: float32 */
    uint32_t automatic_block_count;
    bg_mesh mesh;       /* sizes of the tensor axes; data is 1 */
    bgi_op_phase phase; /* the phase of ops added now */
    /* the block of ops added now, and the blocks of enclosing scopes */
    uint32_t current_block;
    uint32_t scopes[32];
    uint32_t scope_count;
    char prefix[256];            /* prefix of names in the open name scopes: "" or ends in a dot */
    uint32_t prefix_lengths[32]; /* length of the prefix before each open name scope */
    uint32_t prefix_count;
    bg_error error; /* the first error, at which building stops */
};

static inline const bgi_value *bgi_graph_value(const bg_graph *graph, bg_value value)
{
    return &graph->values[value.id];
}

/* Returns the type in which a variable that is added as `dtype` is stored (bg_graph_set_parameter_dtype). */
static inline bg_dtype bgi_graph_kept_dtype(const bg_graph *graph, bg_variable_role role, bg_dtype dtype)
{
    const bool is_narrow = role == BG_ROLE_PARAMETER && dtype == BG_FLOAT32 && graph->parameter_dtype != BG_DTYPE_NONE;

    return is_narrow ? graph->parameter_dtype : dtype;
}

/* Sets the whole tensor of which the variable is a piece (copied; NULL: the variable is whole). */
void bgi_graph_set_shard(bg_graph *graph, bg_value variable, const bg_shard *shard);
/* Marks the variable as a section of a whole tensor (copied; NULL: not a section). */
void bgi_graph_set_section(bg_graph *graph, bg_value variable, const bg_section *section);
/* Returns whether the graph has variables that are sections of a whole called `name`. */
bool bgi_graph_has_whole(const bg_graph *graph, const char *name);
/* Returns the next section of the whole called `name` after value `after` (0: the first section); null after the last
 * section. */
bg_value bgi_graph_find_section(const bg_graph *graph, const char *whole, uint32_t after);
/* Copies a section with its name into an arena; returns NULL if memory runs out. */
const bg_section *bgi_section_copy(bgi_arena *arena, const bg_section *section);
/* Returns the axes along which a variable is cut into different pieces; replicas along the other axes have the same
 * piece. Accumulators and state have the axes of their parameter, and another stage's copy has the axes of its
 * original. */
uint32_t bgi_graph_cut_axes(const bg_graph *graph, bg_value variable);
/* Returns the number of replicas with different data. */
static inline uint32_t bgi_graph_data_replicas(const bg_graph *graph, uint32_t replicas)
{
    const uint32_t tensor = graph->mesh.tensor_1 * graph->mesh.tensor_2;

    return replicas > tensor ? replicas / tensor : 1;
}

/* Prepends the open name scopes to a name, in the graph's arena; returns NULL, and the graph fails, if memory runs out.
 * NULL and "" are returned unchanged. */
const char *bgi_graph_scoped(bg_graph *graph, const char *name);

/* Returns whether a struct that the caller filled is of this release (bgi_struct_check); if not, the graph fails. */
bool bgi_graph_check_struct(bg_graph *graph, size_t struct_bytes, size_t own_bytes, const char *type,
                            const char *maker);
/* Sets the graph's error for an op that was not added, with the op's type and name: "reduce `sums`: axis 1 is named
 * twice". `name` NULL: the name that bg_graph_add would make now. */
void bgi_graph_fail_op(bg_graph *graph, const char *type_name, const char *name, bg_status status, const char *format,
                       ...) BG_PRINTF(5, 6);

/* Makes a deep copy with the same ids, for passes that change the graph. The op types are shared. */
bg_status bgi_graph_clone(const bg_graph *graph, bg_graph **out, bg_error *error);

/* Returns the signature of an op of the graph; `types` must have an element for each input and output. */
bg_op_signature bgi_op_signature(const bg_graph *graph, const bgi_op *op, bg_type *types);
uint32_t bgi_op_operand_count(const bgi_op *op);

/* Returns whether input `input` of ops of this type is changed in place. */
bool bgi_op_type_writes(const bg_op_type *type, uint32_t input);
/* Returns whether the op changes the input in this mode: a batch norm changes its running statistics only in
 * training. */
bool bgi_op_type_changes(const bg_op_type *type, uint32_t input, bool is_training);
/* Returns whether an op of this phase may change the value in place. */
bool bgi_value_is_writable(const bg_graph *graph, bg_value value, bgi_op_phase phase);

/* Verifies what every pass may rely on: operands are defined before use, types agree with the shape rules, written
 * inputs are variables (in the update also values loaded from a remote buffer), phases ascend along the data flow,
 * aliases have equal sizes. */
bg_status bgi_graph_verify(const bg_graph *graph, bg_error *error);

#endif
