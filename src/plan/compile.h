/*
 * compile.h: what the files of this room share while a plan is made.
 *
 *     compile.c   drives the passes
 *     automatic.c stages that nobody lists; balance.c cuts, costs.c prices, devices.c places
 *     problem.c   the schedule problem, the choice of a schedule
 *     trial.c     copies that are compiled to see what comes of a choice; what `auto` searches with
 *     recompute.c what is computed again
 *     offload.c   what is remote: buffers of the schedule, windows and rings
 *     layout.c    where every value lives: variables, slots of edges, transients (pack.c)
 *     program.c   instructions and calls
 *     transfers.c loads and stores beside them, and who waits for which
 *     phases.c    what each pass over a stage holds of that
 *     describe.c  tables and listings of a finished plan
 */
#ifndef BGI_PLAN_COMPILE_H
#define BGI_PLAN_COMPILE_H

#include "plan/options.h"
#include "plan/plan.h"
#include "schedule/layout.h"
#include "transform/transform.h"

/* How a crossing is remote. */
enum {
    BGI_MOVES_STASH = 1,   /* what its receiver keeps for the backward is an edge of its own, and remote */
    BGI_MOVES_MESSAGE = 2, /* the (rest of the) edge is remote */
    BGI_KEEPS_STASH = 4 /* what its receiver keeps is an edge of its own, on the device: few micro-batches at a time */
};

/* What the compiler knows of an edge beside the schedule's and the plan's view. */
typedef struct bgi_edge_facts {
    bool is_remote, is_preloaded;
    uint8_t shard_axes; /* of remote ones: tensor axes over whose replicas each keeps a piece; 0: all of it */
    uint32_t buffer;    /* of remote ones: in the schedule problem */
    uint32_t out_ring, remote_ring; /* plan edges; the edge itself is the readers' ring */
} bgi_edge_facts;

typedef struct bgi_compiler {
    bg_plan *plan;
    bg_graph *graph;     /* after all passes */
    const bg_loop *loop; /* or NULL */
    const bg_schedule_generator *generator;
    bool splits_weights;             /* W apart from B */
    bg_schedule *found;              /* what the generator gives, when a trial has it already; or NULL */
    const size_t *device_slot_bytes; /* what budgets leave for slots, in the plan's memory; NULL: no limit */
    bgi_stages stages;
    bgi_partition partition;
    const bool *stage_recomputes; /* by stage; NULL: none */
    bgi_arena scratch;
    /* by crossing */
    uint32_t *crossing_edges;   /* BGI_NO_EDGE: none is needed (a variable on the same device) */
    size_t *crossing_offsets;   /* inside a slot */
    uint8_t *crossing_moves;    /* BGI_MOVES_... */
    uint32_t *stash_edges;      /* the edge for what is kept for the backward, when it is cut off; else BGI_NO_EDGE */
    size_t *stash_offsets;      /* inside its slot */
    bg_schedule_edge *edges;    /* of the schedule problem; same numbers as plan->edges, which has rings behind them */
    bgi_edge_facts *edge_facts; /* the same numbers */
    uint32_t edge_count;
    /* remote buffers of the schedule: of variables, then of edges */
    bg_schedule_buffer *buffers;
    uint32_t buffer_count, variable_buffer_count;
    uint32_t *buffer_of;  /* by value: buffer of a variable, BGI_NO_BUFFER */
    bgi_operand *windows; /* by value: where a variable with a buffer is when that is loaded */
    /* by value: elements of the piece that a replica keeps of a remote parameter; 0: all. Its window has all pieces. */
    int64_t *home_pieces;
    uint8_t *equal_axes; /* by value: tensor axes along which replicas have the same bits; NULL: nobody asks */
    /* by value: storage of roots. Variables and constants by device: see bgi_variable_place. */
    bgi_operand *storage; /* of results: where their producer writes */
    bool *is_transient;
    uint32_t *writer_stage;    /* of variables; UINT32_MAX */
    bgi_operand *places;       /* [value * device_count + device] of variables and constants; valid when placed */
    bool *is_placed;           /* the same index */
    bgi_operand *input_places; /* [value * stage_count + stage] of inputs */
    bool *input_is_used;       /* the same index */
    size_t *segment_peaks;     /* transient bytes, by segment */
    size_t *scratch_offsets;   /* by op */
    bg_kernel *kernels;        /* by op */
    const bool *is_anchor;     /* by request: its value is an output of the graph for its sake only; NULL: none is */
    /* what outputs of the plan are */
    bg_value *output_values;
} bgi_compiler;

/* problem.c, in this order. bgi_give_up_pipeline: with one device there is nothing to overlap. */
bg_status bgi_choose_generator(bgi_compiler *compiler, bg_error *error);
void bgi_give_up_pipeline(bgi_compiler *compiler);
bg_status bgi_make_schedule(bgi_compiler *compiler, bg_error *error);

/* anchors.c: a copy of the graph whose outputs are also the values that requests name; NULL when it marks all. */
bg_status bgi_mark_anchors(bgi_compiler *compiler, const bg_graph *graph, bg_graph **out, bg_error *error);
bool bgi_is_anchor(const bgi_compiler *compiler, const char *output);
/* The null value when there is none; and the error for it. */
bg_value bgi_find_output(const bg_graph *graph, const char *name);
bg_status bgi_unknown_output(const bg_graph *graph, const char *name, bg_error *error);

/* replicas.c: how many there are, and which get the same data; needs the stages' devices. */
bg_status bgi_find_replicas(bgi_compiler *compiler, bg_error *error);

/* compile.c: from a training graph with all ops to the memory layout. */
bg_status bgi_lower(bgi_compiler *compiler, bg_error *error);

/* trial.c */
/* A compiler with a plan and a graph of its own and the same stages, for bgi_lower. On failure too it is to be ended;
 * `plan` may be taken out of it before that. */
bg_status bgi_trial_begin(const bgi_compiler *compiler, bgi_compiler *out, bg_error *error);
void bgi_trial_end(bgi_compiler *trial);
/* For the schedule `auto`: room for slots, and whether W is apart. */
bg_status bgi_prepare_search(bgi_compiler *compiler, bg_error *error);

/* recompute.c: adds the ops that the options have run again. */
bg_status bgi_recompute_plan(bgi_compiler *compiler, bg_error *error);

/* offload.c, in this order */
/* Of a graph with all ops: names the rules of locations that match none of its tensors. */
void bgi_warn_of_idle_rules(const bgi_compiler *compiler);
/* Needs segments: which variables are remote. */
bg_status bgi_find_remote(bgi_compiler *compiler, bg_error *error);
/* In updates a load goes before the update that precedes its own, unless it is on demand. */
bg_status bgi_hoist_loads(bgi_compiler *compiler, bg_error *error);
/* With grouped edges. */
void bgi_add_edge_buffers(bgi_compiler *compiler);
/* With a schedule: marks crossings that are worth it; true when there are new ones, edges are then grouped again. */
bool bgi_decide_remote_edges(bgi_compiler *compiler);
bool bgi_crossing_is_preloaded(const bgi_compiler *compiler, uint32_t crossing);
/* Over which tensor axes the remote store of a crossing is in pieces. */
uint8_t bgi_crossing_shard_axes(const bgi_compiler *compiler, uint32_t crossing);
/* Then the device holds fewer micro-batches of them than the order keeps. */
bool bgi_activations_may_be_remote(const bg_options *options);
bg_status bgi_lay_out_remote(bgi_compiler *compiler, size_t *offsets, size_t *remote_offsets, bg_error *error);

/* transfers.c */
bg_status bgi_write_transfers(bgi_compiler *compiler, bg_error *error);

/* layout.c, in this order */
bg_action_kind bgi_action_of_segment(bgi_segment_kind kind);
void bgi_find_writers(bgi_compiler *compiler);
/* Anew each time. */
bg_status bgi_group_edges(bgi_compiler *compiler, bg_error *error);
bg_status bgi_select_kernels(bgi_compiler *compiler, bg_error *error);
bg_status bgi_lay_out(bgi_compiler *compiler, bg_error *error);

/* phases.c, with all places */
bg_status bgi_list_phases(bgi_compiler *compiler, bg_error *error);

/* program.c */
bg_status bgi_write_programs(bgi_compiler *compiler, bg_error *error);
/* Copies a value from one slot to another of the same device. */
bg_kernel bgi_slot_copy_kernel(void);
/* Whether calls of the type (NULL: of none) have nothing to run but issue a transfer. */
bool bgi_op_type_is_transfer(const bg_op_type *type);
/* Slot of a crossing for its readers, and for who writes it. */
bgi_operand bgi_crossing_slot(const bgi_compiler *compiler, uint32_t crossing);
bgi_operand bgi_crossing_write_slot(const bgi_compiler *compiler, uint32_t crossing);
/* The same for what is kept for the backward, when that has an edge of its own. */
bgi_operand bgi_stash_slot(const bgi_compiler *compiler, uint32_t crossing);
bgi_operand bgi_stash_write_slot(const bgi_compiler *compiler, uint32_t crossing);
/* Where an op (in its segment) finds an operand. */
bgi_operand bgi_find_operand(const bgi_compiler *compiler, uint32_t op, bg_value value);
bool bgi_op_is_alias(const bgi_compiler *compiler, const bgi_op *op);
/* layout.c: what a variable or constant is to a device that holds it, or a window of it. */
bg_memory_class bgi_leaf_class(const bgi_value *value);

/* layout.c: the op as its kernel sees it: with pieces where the op works on them. `types` has room for all operands. */
bg_op_signature bgi_lowered_signature(const bg_graph *graph, const bgi_op *op, bg_type *types);

static inline uint32_t bgi_stage_device(const bgi_compiler *compiler, uint32_t stage)
{
    return compiler->stages.stage_devices[stage];
}

/* ---- pieces (transform/sharding.c) ---- */

static inline size_t bgi_piece_bytes(const bgi_value *value)
{
    return (size_t)value->piece * bg_dtype_size_bytes(value->type.dtype);
}

/* What a value takes where it lives: whole, whole with room for the last replicas' padding, or one piece. */
static inline size_t bgi_stored_bytes(const bgi_compiler *compiler, const bgi_value *value)
{
    const size_t whole = bg_type_size_bytes(&value->type);
    const size_t pieces = bgi_piece_bytes(value) * (value->is_piece ? 1 : bgi_plan_data_replicas(compiler->plan));

    return value->is_piece || pieces > whole ? pieces : whole;
}

/* Between devices only a piece travels, unless somebody reads the whole. */
static inline bool bgi_travels_as_piece(const bgi_value *value)
{
    return value->piece > 0 && (value->is_piece || !value->is_read_whole);
}

static inline size_t bgi_home_piece_bytes(const bgi_compiler *compiler, uint32_t id)
{
    return (size_t)compiler->home_pieces[id] * bg_dtype_size_bytes(compiler->graph->values[id].type.dtype);
}

/* What a variable takes in its remote store. */
static inline size_t bgi_home_bytes(const bgi_compiler *compiler, uint32_t id)
{
    return compiler->home_pieces[id] > 0 ? bgi_home_piece_bytes(compiler, id)
                                         : bgi_stored_bytes(compiler, &compiler->graph->values[id]);
}

/* What it takes on the device: with room for the last replicas' padding when it comes in pieces. */
static inline size_t bgi_window_bytes(const bgi_compiler *compiler, uint32_t id)
{
    return compiler->home_pieces[id] > 0 ? bgi_home_piece_bytes(compiler, id) * bgi_plan_data_replicas(compiler->plan)
                                         : bgi_stored_bytes(compiler, &compiler->graph->values[id]);
}

/* A parameter of which each replica updates a piece: gathered after that, unless the next load does. */
static inline bool bgi_is_gathered(const bgi_compiler *compiler, uint32_t id)
{
    const bgi_value *value = &compiler->graph->values[id];

    return value->kind == BGI_VALUE_VARIABLE && value->role != BG_ROLE_ACCUMULATOR && value->piece > 0 &&
           !value->is_piece && compiler->home_pieces[id] == 0;
}

#endif
