/*
 * plan.h: declares the plan: the executable that the runtime runs and the simulator simulates. A plan is plain data:
 * devices have straight-line programs of instructions, instructions have kernel calls, and calls have operands that are
 * offsets. Nothing remains to decide at run time.
 *
 *     plan -> device -> instruction (one action) -> call (one kernel) -> operand (memory, offset, slot)
 *
 * Ownership. A device names only its own memory: its arena, its remote store, and the windows of the messages that it
 * sends, which the transport places. Values move from one owner to another only by messages (edges between devices), by
 * REDUCE, GATHER and collective calls, and by transfers of values whose pieces are on several replicas. bgi_plan_check
 * rejects anything else.
 *
 * Sequence numbers. Each edge has slots. In step i (counted since the session began), micro-batch m of a plan with M
 * micro-batches per step uses slot (i * M + m) % depth of a per-micro-batch edge, and i % depth of a per-step edge.
 *
 * Transfers move remote values to the device and back. Each device has a list of the transfers of a step, in the order
 * of its program. LOAD and STORE, and the load and store calls of an update, only issue the next transfers, which then
 * run concurrently with the program, one after another. An instruction or a call that touches the memory of a transfer
 * waits until the transfer has completed: `io_wait` counts transfers from the beginning of the previous step. With T
 * transfers per step, an instruction in step i (from 0) waits until i*T + io_wait - T of them have completed.
 *
 * Sums can run concurrently with the program. A REDUCE may begin a sum without waiting for it; the sum then overlaps
 * with the following instructions, up to the one that needs it (beside.c). At most one sum is in progress at a time,
 * and it completes before the step ends. The last B or W of a stage may be cut into parts: instructions of one action,
 * each followed by a REDUCE of the gradients that are final by then (final.c).
 *
 * An edge whose messages are kept remote has three rings of slots. The producer writes to the first ring, STORE copies
 * to the remote ring, and LOAD copies from there to the readers' ring.
 */
#ifndef BGI_PLAN_PLAN_H
#define BGI_PLAN_PLAN_H

#include <brigade/plan.h>

#include <stdatomic.h>

#include "core/arena.h"
#include "core/quantized.h"
#include "kernels/collective/attributes.h"

#define BGI_NO_EDGE        UINT32_MAX
#define BGI_NO_INSTRUCTION UINT32_MAX

/* Memory of the device that has the instruction. */
typedef enum bgi_memory {
    BGI_MEMORY_ARENA = 0,
    BGI_MEMORY_REMOTE, /* the remote store */
    BGI_MEMORY_WINDOW, /* the outgoing message on `edge`, which the device may write and read until it is sent */
    BGI_MEMORY_COUNT
} bgi_memory;

typedef struct bgi_operand {
    bgi_memory memory;
    uint32_t edge; /* slots of this edge, or BGI_NO_EDGE for a fixed place */
    size_t offset; /* in bytes: of slot 0 in the arena or the store; in a window, from the beginning of the message */
    size_t stride; /* in bytes: the replica with data coordinate r reads its piece r strides after the offset; 0: each
                      reads the whole */
} bgi_operand;

/* A fixed place, which the host writes or reads. */
typedef struct bgi_place {
    uint32_t device; /* number of the device within its replica */
    bgi_operand operand;
} bgi_place;

/* Memory that lives across actions, and the channel that guards it when it crosses devices. */
typedef struct bgi_plan_edge {
    uint32_t from_device, to_device; /* the slots are in to_device's arena, or in its remote store */
    bool per_step;                   /* one message for each step instead of each micro-batch */
    uint32_t depth;
    size_t slot_bytes;    /* stride between slots; a multiple of 64 */
    size_t offset;        /* offset of slot 0 in to_device's arena or remote store */
    bool is_stash;        /* kept for a later pass of the stage: B, or W if that is a separate action */
    bool is_ring;         /* belongs to a remote edge: micro-batch m uses slot m % depth in every step */
    bool is_remote;       /* the slots are in the remote store */
    size_t payload_bytes; /* bytes of one message, without padding */
} bgi_plan_edge;

typedef struct bgi_call {
    const bg_op_type *type; /* NULL: a copy between slots; not used in a run */
    bg_kernel kernel;
    const char *name; /* the op's */
    const char *block;
    uint32_t input_count, output_count;
    const bgi_operand *operands; /* inputs, outputs */
    const bg_type *types;
    const void *attributes;
    size_t scratch_offset; /* offset in the arena of the device that runs the call */
    bg_cost cost;
    bool is_transfer;   /* only issues the next transfer */
    bool is_collective; /* replicas communicate as bgi_collective_attributes says, without a kernel */
    bg_action_kind
        traced_as; /* LOAD and STORE for copies from and to remote stores; otherwise the instruction's kind */
} bgi_call;

/* A copy between a device's arena and its remote store. When replicas keep pieces of the value, a LOAD fetches all
 * pieces one after another, and a STORE writes the replica's own piece. Both wait for earlier transfers of the other
 * replicas, which `peer_wait` counts as `io_wait` does. If a replica uses only its own piece (is_own), a LOAD fetches
 * just that piece, to its place among the others. */
typedef struct bgi_transfer {
    bg_action action;                               /* LOAD or STORE, as it is traced */
    size_t arena_offset, remote_offset, size_bytes; /* bytes in the arena */
    bg_location_class location_class;               /* the class of the tensor that the transfer moves */
    size_t piece_bytes;                             /* 0: the replica has the whole */
    bool is_own;                                    /* a LOAD of only the replica's own piece */
    uint32_t piece_axes; /* axes of the mesh along which the other replicas with pieces are */
    uint32_t peer_wait;
} bgi_transfer;

typedef struct bgi_copy {
    bgi_operand operand; /* SEND: source. HOST_IN: destination. HOST_OUT, U: source */
    bgi_operand to;      /* SEND: destination, in the window of its edge */
    uint32_t stream;     /* HOST_IN: input. HOST_OUT, U: output (of plan->outputs) */
    size_t size_bytes;
} bgi_copy;

/* REDUCE: a variable that is summed over the replicas that differ only in their data coordinate, in the order of that
 * coordinate. GATHER: a variable whose pieces each of these replicas receives. */
typedef struct bgi_reduced {
    bgi_operand operand; /* the whole variable */
    bg_dtype dtype;      /* of a REDUCE: a float type */
    int64_t element_count;
    int64_t piece_count; /* REDUCE: replica r gets the sum of the r-th piece, of `piece_count` elements; 0: the whole
                            sum. GATHER: replica r has the r-th piece */
} bgi_reduced;

static inline bool bgi_same_action(const bg_action *a, const bg_action *b)
{
    return a->kind == b->kind && a->stage == b->stage && a->micro_batch == b->micro_batch && a->index == b->index;
}

typedef struct bgi_instruction {
    bg_action action;
    uint32_t call_count; /* F, B, W, R, U */
    const bgi_call *calls;
    /* Edges to other devices that this action writes: each needs a free slot before the calls begin. */
    uint32_t acquire_count;
    const uint32_t *acquires;
    /* Edges from other devices whose last reader this action is: their slots are free after the calls. */
    uint32_t release_count;
    const uint32_t *releases;
    uint32_t
        copy_count; /* SEND (values that were not written in place), HOST_IN, HOST_OUT, U (outputs of the update) */
    const bgi_copy *copies;
    uint32_t reduced_count; /* REDUCE, GATHER */
    const bgi_reduced *reduced;
    bool is_beside; /* REDUCE: begins the sum without waiting for it */
    bool needs_sum; /* the sum in progress must be complete before the instruction begins */
    bool is_part;   /* B, W: has only some of the calls of its action. REDUCE: sums the gradients that such calls made
                     * final; more sums of the stage follow (final.c) */
    /* Of a SEND: the number of calls of the maker (the last instruction with calls before the SEND) after which the
     * message is complete and leaves. 0: the message leaves in the SEND.
     */
    uint32_t after_calls;
    uint32_t turn;              /* in a strict plan: its place among the instructions of a step on all devices */
    size_t transient_bytes;     /* the most bytes that are live inside the action */
    uint32_t issues;            /* LOAD, STORE: the number of transfers */
    uint32_t io_wait;           /* transfers to wait for before the instruction begins */
    const uint32_t *call_waits; /* by call: transfers to wait for before the call begins; NULL: none */
} bgi_instruction;

typedef struct bgi_plan_device {
    size_t arena_bytes;
    size_t remote_bytes;
    size_t class_bytes[BG_MEMORY_CLASS_COUNT];    /* their sum, without REMOTE, is arena_bytes */
    size_t remote_class_bytes[BG_LOCATION_COUNT]; /* their sum is remote_bytes */
    uint32_t instruction_count;                   /* one step */
    const bgi_instruction *instructions;
    uint32_t transfer_count; /* one step */
    const bgi_transfer *transfers;
    uint32_t piece_axes; /* axes along which other replicas have pieces of the moved values */
} bgi_plan_device;

/* The memory that a pass over a stage uses on the stage's device (phases.c). */
typedef struct bgi_plan_phase {
    uint32_t stage, device;
    bg_action_kind kind;                       /* F, R, B, W, U */
    size_t class_bytes[BG_MEMORY_CLASS_COUNT]; /* except WINDOW, whose content counts in its own class, and REMOTE */
} bgi_plan_phase;

typedef struct bgi_plan_variable {
    const char *name;
    bg_type type;              /* type on a replica: that of its piece when a mesh cuts the variable */
    const bg_shard *shard;     /* how the mesh cuts the whole; NULL: it is not cut */
    const bg_section *section; /* the range of a host weight that the variable holds; NULL: it is a whole weight */
    bg_variable_role role;
    bg_initializer initializer;
    bgi_quantized quantized; /* if set, the session computes the values from those of a parameter, as in bgi_value */
    uint32_t number;         /* the number from which, with the seed, its first values are drawn */
    int64_t piece_count; /* the replica with data coordinate r keeps only its r-th piece of `piece_count` elements; 0:
                            the whole */
    bool is_written;     /* written by an op, so that inference changes it too */
    uint32_t place_count;
    const bgi_place
        *places; /* the first one is the home, from which the value is read; a new value is written to all */
} bgi_plan_variable;

/* Returns the type of the whole variable on the host. */
static inline const bg_type *bgi_plan_variable_whole(const bgi_plan_variable *variable)
{
    return variable->section != NULL ? &variable->section->whole
           : variable->shard != NULL ? &variable->shard->whole
                                     : &variable->type;
}

/* Returns the name of the weight on the host. */
static inline const char *bgi_plan_variable_weight(const bgi_plan_variable *variable)
{
    return variable->section != NULL ? variable->section->name : variable->name;
}

/* Returns the bytes of one place of a variable. */
static inline size_t bgi_plan_variable_bytes(const bgi_plan_variable *variable)
{
    return variable->piece_count > 0 ? (size_t)variable->piece_count * bg_dtype_size_bytes(variable->type.dtype)
                                     : bg_type_size_bytes(&variable->type);
}

typedef struct bgi_plan_constant {
    bgi_place place;
    size_t size_bytes;
    const void *data;
} bgi_plan_constant;

typedef struct bgi_plan_input {
    const char *name;
    bg_type type;
} bgi_plan_input;

typedef struct bgi_plan_output {
    const char *name;
    bg_type type;
    bg_output_mode mode; /* resolved: never DEFAULT */
    uint32_t period;
    bool is_per_update; /* computed by an update: one value for each step, not for each micro-batch */
} bgi_plan_output;

struct bg_plan {
    bgi_arena arena;
    _Atomic uint32_t
        keepers;        /* references besides the caller's (bgi_plan_keep); the last bg_plan_destroy frees the plan */
    bg_options options; /* with copies of the strings */
    bool training;
    /* To measure the costs of calls (predict/measure.c): */
    bool has_one_owner;  /* one worker runs all devices, and the others only help */
    bool has_no_helpers; /* each call runs on one core */
    /* 0: any worker runs any device. Otherwise worker (i + fixed_owners) % workers runs the i-th device, over replicas
     * and their devices. The number may change between runs. */
    _Atomic uint32_t fixed_owners;
    bool times_all_steps; /* a record has the calls of all steps, not only of sampled ones */
    bg_optimizer optimizer;
    uint32_t stage_count;
    const uint32_t *stage_devices;
    uint32_t device_count; /* number of devices of one replica */
    uint32_t replicas;
    uint32_t tensor_1, tensor_2; /* sizes of the mesh's tensor axes; 0 and 1 mean no tensor parallelism */
    uint32_t input_group_size;   /* the number of replicas that get the same data */
    bg_grouping input_grouping;  /* CONSECUTIVE or ORTHOGONAL */
    uint32_t micro_batches;      /* per step: gradient accumulation in training, device iterations in inference */
    uint32_t iterations;         /* steps of a run: device iterations in training, 1 in inference */
    bgi_plan_device *devices;
    uint32_t edge_count;
    bgi_plan_edge *edges;
    uint32_t variable_count;
    bgi_plan_variable *variables;
    uint32_t hyper_variable; /* the variable with the optimizer's numbers that the host writes; UINT32_MAX: none */
    uint32_t constant_count;
    bgi_plan_constant *constants;
    uint32_t input_count;
    bgi_plan_input *inputs;
    uint32_t output_count; /* includes a while loop's condition, which is the last one */
    bgi_plan_output *outputs;
    const char *loss_output; /* name of the output that is the loss; NULL: none */
    /* Loops. */
    bool has_library_ops_only; /* all kernels are the library's, so none hangs; false when unknown */
    bool is_loop;              /* iterations are runs of the body, one micro-batch each */
    bool is_endless;           /* the loop has no largest number of iterations */
    uint64_t loop_iterations;  /* the largest number of iterations, which may be 0 */
    uint32_t carried_count;
    uint32_t *carried; /* variables */
    bg_plan *
        condition; /* a while loop's condition before the first iteration, run by bgi_interpret_condition; NULL: none */
    uint32_t condition_output;
    uint32_t block_count;
    const struct bgi_plan_block {
        const char *name;
        uint32_t stage;
    } * blocks;
    uint32_t phase_count; /* ordered by kind, then by stage */
    const bgi_plan_phase *phases;
    uint32_t kernel_count; /* the kernels that the calls refer to; destroyed with the plan */
    bg_kernel *kernels;
    bg_schedule *schedule;
    bg_schedule_problem problem; /* its arrays are in the arena */
    bg_plan_summary summary;
};

/* Returns a checksum of the sources from which the library was built, because another version may plan and round
 * differently. */
const char *bgi_build_id(void);
/* Adds a reference: one more bg_plan_destroy is needed before the plan is freed. Any thread. */
void bgi_plan_keep(bg_plan *plan);

/* Returns the mesh of the replicas. */
static inline bg_mesh bgi_plan_mesh(const bg_plan *plan)
{
    const uint32_t tensor_1 = plan->tensor_1 > 0 ? plan->tensor_1 : 1,
                   tensor_2 = plan->tensor_2 > 0 ? plan->tensor_2 : 1;

    return (bg_mesh){plan->replicas / (tensor_1 * tensor_2), tensor_1, tensor_2};
}

/* Returns the number of replicas with the same weights and different data; they sum gradients, and each may keep a
 * piece of a tensor for all. */
static inline uint32_t bgi_plan_data_replicas(const bg_plan *plan)
{
    return bgi_plan_mesh(plan).data;
}

/* Returns the number of outputs that a caller sees. */
static inline uint32_t bgi_plan_output_count(const bg_plan *plan)
{
    return plan->output_count - (plan->condition != NULL);
}

/* Whether instructions take turns, so that only one device of a replica works at a time. */
static inline bool bgi_plan_is_strict(const bg_plan *plan)
{
    return plan->problem.is_strict;
}

/* Return the number of rows of input in one micro-batch of all replicas (one row for each group of replicas with the
 * same data), and the row that a replica reads. */
static inline uint32_t bgi_plan_input_rows(const bg_plan *plan)
{
    return plan->replicas / plan->input_group_size;
}

static inline uint32_t bgi_plan_input_row(const bg_plan *plan, uint32_t replica)
{
    return plan->input_grouping == BG_GROUPING_ORTHOGONAL ? replica % bgi_plan_input_rows(plan)
                                                          : replica / plan->input_group_size;
}

/* Whether gradients are summed in one tree over an update's micro-batches; each replica has a contiguous part of the
 * tree. */
static inline bool bgi_plan_is_canonical(const bg_plan *plan)
{
    return plan->training && plan->options.numerics.canonical_reductions;
}

/* Returns the position, within a step's input elements, of the element that is micro-batch `micro_batch` of a row. */
static inline uint64_t bgi_plan_input_place(const bg_plan *plan, uint32_t micro_batch, uint32_t row)
{
    return bgi_plan_is_canonical(plan) ? (uint64_t)row * plan->micro_batches + micro_batch
                                       : (uint64_t)micro_batch * bgi_plan_input_rows(plan) + row;
}

/* Returns the number of consecutive input elements of one row. */
static inline uint32_t bgi_plan_row_elements(const bg_plan *plan)
{
    return bgi_plan_is_canonical(plan) ? plan->micro_batches : 1;
}

/* Returns the row that reads the input element at `place`, which counts the elements of all steps. */
static inline uint32_t bgi_plan_place_row(const bg_plan *plan, uint64_t place)
{
    return (uint32_t)(place / bgi_plan_row_elements(plan) % bgi_plan_input_rows(plan));
}

/* Returns the position of a replica's value `number` among the values of all replicas, if each replica has `per_step`
 * values a step. */
static inline uint64_t bgi_plan_output_place(const bg_plan *plan, uint32_t per_step, uint64_t number, uint32_t replica)
{
    const uint32_t group = plan->input_group_size;

    if (!bgi_plan_is_canonical(plan))
        return number * plan->replicas + replica;
    return number / per_step * per_step * plan->replicas +
           ((uint64_t)(replica / group) * per_step + number % per_step) * group + replica % group;
}

/* Whether the values of an output are in the order of the whole batch instead of by replica. */
static inline bool bgi_plan_has_stretches(const bg_plan *plan, const bgi_plan_output *output)
{
    return bgi_plan_is_canonical(plan) && (output->mode == BG_OUTPUT_ALL || output->mode == BG_OUTPUT_EVERY_N);
}

/* Whether device iterations are steps (training, loops) or the micro-batches of one step (inference). */
static inline bool bgi_plan_counts_steps(const bg_plan *plan)
{
    return plan->training || plan->is_loop;
}

/* check.c: verifies what a run relies on: indices are in range, operands are inside their memory, and kernels are
 * present. The order of actions is verified with the schedule. */
bg_status bgi_plan_check(const bg_plan *plan, bg_error *error);

/* A range of bytes in a device's memory. */
typedef struct bgi_extent {
    size_t begin, end;
} bgi_extent;

/* beside.c: finds the first instruction of the step after a REDUCE that touches the variables being summed;
 * BGI_NO_INSTRUCTION: none. `transfers_before`: transfers that the step has issued before the REDUCE. `places`: memory
 * for one extent of each variable of the REDUCE. *out_has_work: whether there are calls between the REDUCE and this
 * instruction. */
uint32_t bgi_find_first_touch(const bg_plan *plan, uint32_t device, uint32_t sum, uint32_t transfers_before,
                              bgi_extent *places, bool *out_has_work);

/* Returns the largest number of variables that one instruction of a device sums or gathers. */
uint32_t bgi_count_most_reduced(const bgi_plan_device *on);

/* Returns the bytes that a sum reads and writes: the whole variable, including the padding of the last replicas. */
bgi_extent bgi_summed_extent(const bg_plan *plan, const bgi_reduced *reduced);

/* Sets *out to the bytes of a call's scratch (`number` 0) or of an operand (from 1 on) with all its slots and all
 * replicas' pieces. Returns false when the operand is not in the arena, or the scratch is empty. */
bool bgi_call_extent(const bg_plan *plan, const bgi_call *call, uint32_t number, bgi_extent *out);

/* ---- interpret.c: plans of one device without slots (loops in graphs, conditions), run by the calling thread ----
 */

/* Allocates the memory of such a plan with its constants (malloc); NULL when memory is out. */
void *bgi_interpret_memory(const bg_plan *plan);
/* Writes the constants into the caller's memory, which has devices[0].arena_bytes bytes and is 64-byte aligned. */
void bgi_interpret_begin(const bg_plan *plan, void *memory);
/* Runs one iteration. `inputs`: by input of the plan. *out_value is set to output `output` as a number, and stays
 * unchanged if there is no such output. */
void bgi_interpret_step(const bg_plan *plan, void *memory, const void *const *inputs, const bg_kernel_env *env,
                        uint32_t output, double *out_value);
/* Evaluates the condition of a while loop for carried values. */
void bgi_interpret_condition(const bg_plan *condition, void *memory, const void *const *values, double *out_value);

/* ---- describe.c ---- */

#define BGI_BYTES_TEXT_BYTES 32
/* Writes a size such as "1.50 GB" into `text` (BGI_BYTES_TEXT_BYTES) and returns `text`. */
const char *bgi_bytes_text(uint64_t bytes, char *text);

/* Passes a message to options.reporting.log and to the file in options.files.log_dir (log.c). Allocates nothing. */
void bgi_log(const bg_options *options, bg_log_level level, const char *text);

#endif
