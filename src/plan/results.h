/*
 * results.h: declares the results of the compiler's passes. The pass that makes a result allocates it in the compiler's
 * scratch memory, or in the plan's memory if the plan keeps it. Before that the compiler's pointer is NULL. The table
 * passes.def says which passes make a result and which use it.
 */
#ifndef BGI_PLAN_RESULTS_H
#define BGI_PLAN_RESULTS_H

#include "core/buckets.h"
#include "plan/plan.h"
#include "schedule/layout.h"
#include "transform/transform.h"

/* A result exists from the pass that makes it until the compilation ends. */
typedef enum bgi_result {
    BGI_RESULT_REQUESTS = 1 << 0,   /* compiler->is_anchor */
    BGI_RESULT_GRAPH = 1 << 1,      /* compiler->graph is the compiler's own */
    BGI_RESULT_SCHEDULING = 1 << 2, /* bgi_scheduling */
    BGI_RESULT_STAGES = 1 << 3,     /* bgi_stages */
    BGI_RESULT_REPLICAS = 1 << 4,   /* in the plan: the number of replicas and their groups */
    BGI_RESULT_PARTITION = 1 << 5,  /* bgi_partition */
    BGI_RESULT_STREAMS = 1 << 6,    /* compiler->output_values; in the plan: inputs and outputs */
    BGI_RESULT_RESIDENCY = 1 << 7,  /* bgi_residency */
    BGI_RESULT_EDGES = 1 << 8,      /* bgi_edges; in the plan: the edges that the runtime sees */
    BGI_RESULT_SCHEDULE = 1 << 9,   /* in the plan: the problem and the order of actions */
    BGI_RESULT_KERNELS = 1 << 10,   /* compiler->kernels, which the plan owns */
    BGI_RESULT_PLACEMENT = 1 << 11, /* bgi_placement; in the plan: devices with the sizes of their memory */
    BGI_RESULT_PROGRAMS = 1 << 12,  /* in the plan: instructions and transfers of each device */
    BGI_RESULT_LEAVES = 1 << 13,    /* in the plan: variables, constants, blocks */
    BGI_RESULT_PLAN = 1 << 14       /* the plan, complete */
} bgi_result;

/* How the schedule is made. */
typedef struct bgi_scheduling {
    const bg_schedule_generator *generator;
    bool splits_weights;             /* W is a separate action, not part of B */
    const bool *stage_recomputes;    /* by stage; NULL: no stage recomputes */
    bg_schedule *found;              /* the generator's order, when a trial has made it already; otherwise NULL */
    const size_t *device_slot_bytes; /* memory that budgets leave for slots, in the plan's memory; NULL: no limit */
} bgi_scheduling;

/* How a crossing is remote. */
enum {
    BGI_MOVES_STASH = 1,   /* the value that the receiver stashes for its backward pass has a separate, remote edge */
    BGI_MOVES_MESSAGE = 2, /* the (remaining) edge is remote */
    BGI_KEEPS_STASH = 4    /* the value that the receiver stashes has a separate edge on the device, with slots for few
                            * micro-batches */
};

/* Which variables and crossings are remote, and the buffers of the schedule that load and store them. */
typedef struct bgi_residency {
    bg_schedule_buffer *buffers; /* in the plan's memory: buffers of variables, then those of remote edges */
    uint32_t buffer_count, variable_buffer_count;
    bgi_buckets variables; /* the variables of each buffer */
    /* by value */
    uint32_t *writer_stage; /* by variable; UINT32_MAX: no stage writes it */
    uint32_t *buffer_of;    /* by variable; or BGI_NO_BUFFER */
    int64_t *home_pieces;   /* the number of elements of a remote parameter or accumulator that a replica keeps; 0:
                             * all */
    uint8_t *equal_axes;    /* tensor axes along which replicas have equal values; NULL: not needed */
    /* by crossing */
    uint8_t *crossing_moves; /* BGI_MOVES_..., BGI_KEEPS_STASH */
} bgi_residency;

/* Facts about an edge that only the compiler needs, so that neither the schedule nor the plan has them. */
typedef struct bgi_edge_facts {
    bool is_remote, is_preloaded;
    uint8_t shard_axes; /* of remote edges: tensor axes along which each replica keeps a piece; 0: the whole */
    /* If a stage receives a value and stashes it, the remote store has the value once. The value has two remote edges;
     * the second edge uses the remote ring of the first and has no producer's ring. */
    uint32_t kept_as;               /* first edge: 1 + the kinds that read the stashed value; 0: no second edge */
    uint32_t stored_by;             /* second edge: 1 + the first edge; 0: this is no second edge */
    uint32_t buffer;                /* of remote edges: the number of the edge's buffer in the schedule problem */
    uint32_t out_ring, remote_ring; /* plan edges; the edge itself is the readers' ring */
} bgi_edge_facts;

/* The edges of a crossing, and the value's place inside their slots. */
typedef struct bgi_route {
    uint32_t edge; /* BGI_NO_EDGE: not needed (a variable on the same device) */
    size_t offset;
    uint32_t stash_edge; /* a separate edge for the value stashed for the backward pass; BGI_NO_EDGE: none */
    size_t stash_offset;
} bgi_route;

/* Edges: crossings with the same ends. An edge has the same number here, in the schedule problem and among plan->edges,
 * which have rings after the edges. */
typedef struct bgi_edges {
    uint32_t count;
    bg_schedule_edge *list; /* in the plan's memory */
    bgi_edge_facts *facts;
    bgi_route *routes; /* by crossing */
    uint32_t *table;   /* 1 + edge, by a hash of its ends; 0: free */
    size_t table_size; /* a power of two, at least twice the largest number of edges */
} bgi_edges;

/* The places of values in the arenas. */
typedef struct bgi_placement {
    /* by value: roots of results */
    bgi_operand *storage; /* where the producer of the value writes */
    bool *is_transient;
    /* by value: variables and constants */
    bgi_operand *windows;   /* the place of a loaded variable that has a buffer, with all its pieces */
    uint32_t *first_places; /* the places of value v are places[first_places[v]] .. places[first_places[v + 1] - 1] */
    bgi_place *places;      /* one for each device, ascending */
    /* inputs, by their number among the inputs */
    uint32_t *inputs;          /* values, ascending */
    uint32_t *input_numbers;   /* by value: its number among the inputs */
    bgi_operand *input_places; /* at input * stage_count + stage: where the stage reads the input */
    bool *input_is_used;       /* indexed as input_places: whether the stage reads the input */
    uint32_t input_count;
    uint32_t *tail_edges;    /* by device: the edge whose slot is right before the transients; BGI_NO_EDGE: none */
    size_t *segment_peaks;   /* transient bytes, by segment */
    size_t *scratch_offsets; /* by op */
} bgi_placement;

#endif
