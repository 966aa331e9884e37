/*
 * compile.h: declares what the files of src/plan share while a plan is made.
 *
 *     compile.c     makes a plan from a request: options, cache, attempts
 *     plan.c        creates a plan that has only the request, and destroys plans
 *     attempts.c    compiles a request until automatic stages fit the budgets
 *     passes.c      runs the passes that passes.def lists; verifies and prints their results (results.h)
 *     forward.c, graph_passes.c   run passes over the graph
 *     automatic.c   chooses automatic stages; items.c finds the ops that stay together, balance.c cuts, costs.c
 * estimates costs, devices.c places stages problem.c     makes the schedule problem, and chooses the generator of the
 * schedule trial.c       compiles copies of a plan to try a choice search.c      tries the choices of the schedule
 * `auto`: a separate W, the memory for slots recompute.c   chooses the ops that run again offload.c     decides what is
 * remote, and makes buffers of the schedule edges.c       groups crossings with the same ends into edges with slots
 *     kernels.c     chooses the kernel of each op
 *     layout.c      places every value: variables, slots of edges, transients (pack.c); windows.c places remote values
 *     program.c     writes instructions and calls
 *     transfers.c   lists loads and stores, and what waits for them
 *     final.c       cuts backward passes where gradients are final; beside.c chooses sums that overlap with the program
 *     outputs.c, leaves.c   list inputs and outputs; variables, constants and blocks
 *     phases.c      counts the memory of each phase
 *     budget.c      summarizes a plan, and checks whether updates and devices are within their budgets
 *     describe.c    prints a finished plan
 */
#ifndef BGI_PLAN_COMPILE_H
#define BGI_PLAN_COMPILE_H

#include "plan/options.h"
#include "plan/results.h"

struct bgi_cuts;

typedef struct bgi_compiler {
    bg_plan *plan;
    /* the request */
    const bg_graph *source; /* the user's graph; NULL in trials */
    bg_value loss;          /* a value of `source`, and of `graph` once a pass has made it */
    const bg_loop *loop;    /* refers to `source`, and to `graph` once a pass has made it */
    struct bgi_cuts *cuts;  /* why earlier cuts into automatic stages did not fit */
    bool is_trial;          /* this compiler lowers a copy of a plan to try a choice */
    /* Runs the passes of a trial as far as its memory layout; passes that try choices call it. */
    bg_status (*lower)(struct bgi_compiler *trial, bg_error *error);
    bgi_arena scratch;

    /* Results of passes (results.h) are NULL until a pass makes them. In builds that verify passes they are also NULL
     * to a pass whose row does not name them. */
    uint32_t made;         /* bits of bgi_result */
    const bool *is_anchor; /* by request: its value is an output of the graph only because of the request */
    bg_graph *graph;       /* NULL until a pass makes GRAPH */
    bgi_scheduling *scheduling;
    bgi_stages *stages;
    bgi_partition *partition;
    bg_value *output_values; /* by output of the plan */
    bgi_residency *residency;
    bgi_edges *edges;
    bg_kernel *kernels; /* by op */
    bgi_placement *placement;
} bgi_compiler;

/* ---- passes: see passes.def ---- */

/* forward.c */
bg_status bgi_mark_requests(bgi_compiler *compiler, bg_error *error);
bg_status bgi_copy_outputs(bgi_compiler *compiler, bg_error *error);
bg_status bgi_enter_loop(bgi_compiler *compiler, bg_error *error);
bg_status bgi_narrow_model(bgi_compiler *compiler, bg_error *error);
bg_status bgi_prune_graph(bgi_compiler *compiler, bg_error *error);
bg_status bgi_quantize_model(bgi_compiler *compiler, bg_error *error);
bg_status bgi_fuse_graph(bgi_compiler *compiler, bg_error *error);
bg_status bgi_ensure_own_graph(bgi_compiler *compiler, bg_error *error);

/* graph_passes.c */
bg_status bgi_cut_stages(bgi_compiler *compiler, bg_error *error);
bg_status bgi_assign_graph_stages(bgi_compiler *compiler, bg_error *error);
bg_status bgi_fuse_graph_convolutions(bgi_compiler *compiler, bg_error *error);
bg_status bgi_check_limits(bgi_compiler *compiler, bg_error *error);
bg_status bgi_synchronize_graph(bgi_compiler *compiler, bg_error *error);
bg_status bgi_fuse_graph_norms(bgi_compiler *compiler, bg_error *error);
bg_status bgi_train_graph(bgi_compiler *compiler, bg_error *error);
bg_status bgi_accumulate_in_place(bgi_compiler *compiler, bg_error *error);
bg_status bgi_share_variables(bgi_compiler *compiler, bg_error *error);
bg_status bgi_shard_graph(bgi_compiler *compiler, bg_error *error);
bg_status bgi_fuse_graph_products(bgi_compiler *compiler, bg_error *error);
bg_status bgi_partition_graph(bgi_compiler *compiler, bg_error *error);

/* outputs.c, leaves.c, budget.c */
bg_status bgi_list_streams(bgi_compiler *compiler, bg_error *error);
bg_status bgi_name_loss(bgi_compiler *compiler, bg_error *error);
bg_status bgi_list_variables(bgi_compiler *compiler, bg_error *error);
/* Refuses a graph in which the update of one parameter alone needs more than the budget of its device. */
bg_status bgi_check_updates(bgi_compiler *compiler, bg_error *error);
bg_status bgi_check_budget(bgi_compiler *compiler, bg_error *error);

/* problem.c. bgi_adapt_generator runs when the devices of stages are known. It chooses the sequential schedule if there
 * is only one device and, when the options name no schedule, one that accepts stages that share devices. */
bg_status bgi_choose_generator(bgi_compiler *compiler, bg_error *error);
bg_status bgi_adapt_generator(bgi_compiler *compiler, bg_error *error);
bg_status bgi_create_schedule(bgi_compiler *compiler, bg_error *error);

/* anchors.c: copies the graph and marks the values that requests name as outputs; *out is NULL when the graph marks all
 * of them. */
bg_status bgi_mark_anchors(bgi_compiler *compiler, const bg_graph *graph, bg_graph **out, bg_error *error);
bool bgi_is_anchor(const bgi_compiler *compiler, const char *output);
/* bgi_find_output finds an output, or returns the null value; bgi_unknown_output returns the error for an unknown
 * output. */
bg_value bgi_find_output(const bg_graph *graph, const char *name);
bg_status bgi_unknown_output(const bg_graph *graph, const char *name, bg_error *error);

/* replicas.c: determines the number of replicas and which of them get the same data; needs the stages' devices. */
bg_status bgi_count_replicas(bgi_compiler *compiler, bg_error *error);

/* trial.c */
/* Begins a compiler with the same stages and its own plan and graph, for compiler->lower. The caller must end the
 * compiler even after a failure, and may take `plan` out of it first. */
bg_status bgi_trial_begin(const bgi_compiler *compiler, bgi_compiler *out, bg_error *error);
void bgi_trial_end(bgi_compiler *trial);

/* search.c: for the schedule `auto`, chooses the memory for slots, and whether W is a separate action. */
bg_status bgi_search_schedule(bgi_compiler *compiler, bg_error *error);

/* recompute.c: adds the forward ops that run again as the options require. */
bg_status bgi_recompute_plan(bgi_compiler *compiler, bg_error *error);

/* offload.c, in this order */
/* Warns of location rules that match no tensor; needs a graph with all ops. */
void bgi_warn_of_idle_rules(const bgi_compiler *compiler);
/* Decides which variables are remote; needs segments. */
bg_status bgi_find_remote(bgi_compiler *compiler, bg_error *error);
/* Moves loads inside an update one update earlier, unless the tensor is loaded on demand. */
bg_status bgi_hoist_loads(bgi_compiler *compiler, bg_error *error);
/* Adds the buffers of edges; needs grouped edges. */
void bgi_add_edge_buffers(bgi_compiler *compiler);
/* Marks crossings for which a remote store pays off; needs a schedule. Returns true when it has marked any, so that
 * edges must be grouped again. */
bool bgi_decide_remote_edges(bgi_compiler *compiler);
/* Decides for which accumulators each replica stores only the piece that it updates; needs a schedule. */
bg_status bgi_decide_gradient_pieces(bgi_compiler *compiler, bg_error *error);
bool bgi_crossing_is_preloaded(const bgi_compiler *compiler, uint32_t crossing);
/* Returns the mesh's tensor axes over which replicas each store a piece of a remote crossing. */
uint8_t bgi_crossing_shard_axes(const bgi_compiler *compiler, uint32_t crossing);
/* Whether the options may make activations remote, so that a device holds them for fewer micro-batches than the
 * schedule keeps. */
bool bgi_activations_may_be_remote(const bg_options *options);

/* edges.c */
/* Groups crossings into edges; each call groups all of them again from the start. */
bg_status bgi_group_edges(bgi_compiler *compiler, bg_error *error);
/* Return the slot of a crossing for its readers, and the slot for the op that writes the value. */
bgi_operand bgi_crossing_slot(const bgi_compiler *compiler, uint32_t crossing);
bgi_operand bgi_crossing_write_slot(const bgi_compiler *compiler, uint32_t crossing);
/* Return the same slots of the value that is stashed for the backward pass, if that has a separate edge. */
bgi_operand bgi_stash_slot(const bgi_compiler *compiler, uint32_t crossing);
bgi_operand bgi_stash_write_slot(const bgi_compiler *compiler, uint32_t crossing);

/* kernels.c */
bg_status bgi_select_kernels(bgi_compiler *compiler, bg_error *error);
/* Returns the op's signature for its kernel, whose operands are pieces where the op works on pieces. `types` must have
 * an entry for each operand. */
bg_op_signature bgi_lowered_signature(const bg_graph *graph, const bgi_op *op, bg_type *types);

/* windows.c: adds rings to the plan's edges; gives windows and rings their offsets. */
bg_status bgi_lay_out_remote(bgi_compiler *compiler, size_t *offsets, size_t *remote_offsets, bg_error *error);

/* Whether the edge holds results of R for their B. Slots of such edges share a device's memory when they are not in use
 * at the same time (repeats.c). */
bool bgi_is_of_repeats(const bgi_compiler *c, uint32_t edge);
bg_status bgi_lay_out_repeats(bgi_compiler *c, size_t *offsets, bg_error *error);

/* outputs.c: whether the host gets the value. */
bool bgi_is_plan_output(const bgi_compiler *c, uint32_t root);

/* layout.c */
bg_status bgi_lay_out(bgi_compiler *compiler, bg_error *error);
/* Returns the place of a variable or constant on a device; all zero when it has none there. */
bgi_operand bgi_leaf_place(const bgi_compiler *compiler, uint32_t value, uint32_t device);
/* Returns the index of an input in a stage, in placement->input_places. */
size_t bgi_input_index(const bgi_compiler *compiler, uint32_t value, uint32_t stage);
/* Returns the memory class of a variable or constant on a device that holds it, or a window of it. */
bg_memory_class bgi_leaf_class(const bgi_value *value);
/* Returns the location class of a variable or constant, for tensors that may be remote. */
bg_location_class bgi_leaf_location(const bgi_value *value);

/* transfers.c */
bg_status bgi_write_transfers(bgi_compiler *compiler, bg_error *error);

/* final.c: begins sums as soon as their gradients are final, in the middle of a backward pass. */
bg_status bgi_reduce_when_final(bgi_compiler *compiler, bg_error *error);

/* beside.c: decides which sums over replicas the device does not wait for. */
bg_status bgi_set_sums_beside(bgi_compiler *compiler, bg_error *error);

/* Whether replicas exchange data in a call; sums and such calls must run one after another. */
bool bgi_call_meets_replicas(const bgi_call *call);
/* Returns the number of transfers that an instruction issues. */
uint32_t bgi_count_transfers(const bgi_instruction *instruction);

/* phases.c: counts the memory of each phase; needs all places. */
bg_status bgi_list_phases(bgi_compiler *compiler, bg_error *error);

/* program.c */
bg_status bgi_write_programs(bgi_compiler *compiler, bg_error *error);
/* Copies a value from one slot to another of the same device. */
bg_kernel bgi_slot_copy_kernel(void);
/* Whether calls of the op type, which may be NULL, only issue a transfer. */
bool bgi_op_type_is_transfer(const bg_op_type *type);
/* Returns the place at which an op (in its segment) finds an operand. */
bgi_operand bgi_find_operand(const bgi_compiler *compiler, uint32_t op, bg_value value);
/* ---- small things ---- */

static inline bg_action_kind bgi_action_of_segment(bgi_segment_kind kind)
{
    static const bg_action_kind action_of[] = {BG_ACTION_FORWARD, BG_ACTION_RECOMPUTE, BG_ACTION_BACKWARD,
                                               BG_ACTION_WEIGHTS, BG_ACTION_UPDATE};

    return action_of[kind];
}

static inline uint32_t bgi_stage_device(const bgi_compiler *compiler, uint32_t stage)
{
    return compiler->stages->stage_devices[stage];
}

static inline bool bgi_reduces_in_backward(const bg_plan *plan)
{
    return plan->options.replicas.reduce_time != BG_REDUCE_IN_UPDATE;
}

/* ---- pieces (transform/sharding.c) ---- */

static inline size_t bgi_piece_bytes(const bgi_value *value)
{
    return (size_t)value->piece * bg_dtype_size_bytes(value->type.dtype);
}

/* Returns the bytes of a value in memory: those of the whole, of the whole with the padding of the last replicas, or of
 * one piece. */
static inline size_t bgi_stored_bytes(const bg_plan *plan, const bgi_value *value)
{
    const size_t whole = bg_type_size_bytes(&value->type);
    const size_t pieces = bgi_piece_bytes(value) * (value->is_piece ? 1 : bgi_plan_data_replicas(plan));

    return value->is_piece || pieces > whole ? pieces : whole;
}

/* Whether only a piece of the value is sent between devices, because no op reads the whole. */
static inline bool bgi_travels_as_piece(const bgi_value *value)
{
    return value->piece > 0 && (value->is_piece || !value->is_read_whole);
}

/* Returns the bytes of a value in a slot, with the padding behind it. */
static inline size_t bgi_slot_part_bytes(const bgi_compiler *compiler, const bgi_value *value)
{
    return bgi_align(bgi_travels_as_piece(value) ? bgi_piece_bytes(value) : bgi_stored_bytes(compiler->plan, value));
}

static inline size_t bgi_home_piece_bytes(const bgi_compiler *compiler, uint32_t id)
{
    return (size_t)compiler->residency->home_pieces[id] * bg_dtype_size_bytes(compiler->graph->values[id].type.dtype);
}

/* Returns the bytes of a variable in its remote store. */
static inline size_t bgi_home_bytes(const bgi_compiler *compiler, uint32_t id)
{
    return compiler->residency->home_pieces[id] > 0 ? bgi_home_piece_bytes(compiler, id)
                                                    : bgi_stored_bytes(compiler->plan, &compiler->graph->values[id]);
}

/* Returns the bytes of a variable's window on the device, including the padding of the last replicas when it is loaded
 * in pieces. */
static inline size_t bgi_window_bytes(const bgi_compiler *compiler, uint32_t id)
{
    return compiler->residency->home_pieces[id] > 0
               ? bgi_home_piece_bytes(compiler, id) * bgi_plan_data_replicas(compiler->plan)
               : bgi_stored_bytes(compiler->plan, &compiler->graph->values[id]);
}

/* Whether each replica updates a piece of the parameter and the pieces are gathered after the update, instead of by the
 * next load. */
static inline bool bgi_is_gathered(const bgi_compiler *compiler, uint32_t id)
{
    const bgi_value *value = &compiler->graph->values[id];

    return value->kind == BGI_VALUE_VARIABLE && value->role != BG_ROLE_ACCUMULATOR && value->piece > 0 &&
           !value->is_piece && compiler->residency->home_pieces[id] == 0;
}

#endif
