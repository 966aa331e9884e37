/*
 * plan.h: a graph, compiled for a strategy. A plan fixes the order of work on each device and the address of every
 * value before anything runs. If a plan does not fit a device's memory, making it fails, and the error has a table of
 * the memory.
 *
 * Threads: a plan does not change once it is made, so any number of threads may use it at the same time. No thread may
 * use a plan while another one destroys it.
 *
 * Errors: BG_ERROR_INVALID for invalid options, BG_ERROR_SHAPE for an invalid graph, BG_ERROR_BUDGET for a plan that
 * does not fit a device's memory, BG_ERROR_UNSUPPORTED, BG_ERROR_CANCELED (options.execution.stop), BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_PLAN_H
#define BRIGADE_PLAN_H

#include <brigade/options.h>
#include <brigade/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_plan bg_plan;

/* Makes a plan for training. The graph must compute `loss`, a scalar. The graph is copied and may be destroyed. */
BG_API bg_status bg_plan_create_training(const bg_graph *graph, bg_value loss, const bg_optimizer *optimizer,
                                         const bg_options *options, bg_plan **out, bg_error *error);
/* Makes a plan for inference, which computes all marked outputs of the graph (bg_graph_output). Ops that the outputs do
 * not need are left out. */
BG_API bg_status bg_plan_create_inference(const bg_graph *graph, const bg_options *options, bg_plan **out,
                                          bg_error *error);
BG_API void bg_plan_destroy(bg_plan *plan);

/* Returns the name of the compiler's pass `index`, in the order in which passes run; NULL past the last. Some passes
 * apply only to training, inference or loops. *out_what (may be NULL) receives a sentence, without its period, that is
 * true after the pass. */
BG_API const char *bg_plan_pass_at(uint32_t index, const char **out_what);

/* Bytes on a device, by class. */
typedef enum bg_memory_class {
    BG_MEMORY_WEIGHTS = 0, /* parameters and buffers, constants */
    BG_MEMORY_GRADIENTS,   /* accumulators */
    BG_MEMORY_STATE,       /* optimizer state on the device */
    BG_MEMORY_STASH,       /* activations kept for the backward pass */
    BG_MEMORY_TRANSIENT,   /* values inside one call of a stage (a segment), and scratch */
    BG_MEMORY_STREAM,      /* messages between devices, host inputs and outputs */
    BG_MEMORY_WINDOW,      /* remote weights, accumulators and stashes while they are on the device */
    BG_MEMORY_REMOTE,      /* remote buffers, which are outside the device */
    BG_MEMORY_CLASS_COUNT
} bg_memory_class;
BG_API const char *bg_memory_class_name(bg_memory_class memory_class);

typedef struct bg_plan_summary {
    uint32_t stage_count, device_count, replicas; /* devices of one replica */
    uint32_t micro_batch;                         /* samples in a micro-batch: first dimension of the first input */
    uint32_t micro_batches_per_step;
    uint32_t steps_per_run;
    uint32_t input_groups;    /* groups of replicas that get the same data */
    uint64_t samples_per_run; /* number of samples from the host: micro_batch x micro-batches per step x steps x input
                                 groups */
    uint32_t variable_count, block_count, edge_count; /* see brigade/plan_view.h */
    uint32_t update_levels; /* number of partial updates of a stage in a step, each of which waits for more gradients
                               than the one before */
    double compile_ms;      /* time to make the plan, or to load it */
    bool is_cached;         /* the plan was read from options.files.cache_dir */
    double idle_share;      /* idle share of the devices' time, predicted from static costs */
    double flops_per_micro_batch;
    uint32_t recomputed_op_count; /* number of forward ops that run again for the backward pass */
    double recompute_share;       /* the share of these ops in the time of a micro-batch, predicted from static costs */
    uint32_t ranks;               /* number of processes that share the devices; 1: this process has all devices */
    uint32_t data_replicas;       /* number of replicas whose gradients are summed; 1: no sum */
    uint32_t sums;                /* number of sums of gradients over replicas in a step: one for each stage */
    uint32_t sums_beside;         /* number of sums for which devices do not wait */
    /* Bytes of gradients that the remote stores of a replica do not keep, because gradients are summed in the backward
     * pass and the replica keeps only the pieces that it updates. */
    uint64_t bytes_not_stored;
} bg_plan_summary;
BG_API bg_plan_summary bg_plan_summarize(const bg_plan *plan);
/* Returns the options of the plan. Borrowed. */
BG_API const bg_options *bg_plan_options(const bg_plan *plan);
/* Returns the optimizer of a plan for training; NULL for inference. Borrowed. */
BG_API const bg_optimizer *bg_plan_optimizer(const bg_plan *plan);
/* Returns the bytes of a class on a device of a replica. The number is the same for all replicas. */
BG_API size_t bg_plan_memory_bytes(const bg_plan *plan, uint32_t device, bg_memory_class memory_class);
/* Returns the total bytes of all classes except REMOTE. */
BG_API size_t bg_plan_device_bytes(const bg_plan *plan, uint32_t device);

/* Returns the bytes of a class in the remote store of a device. The sum over all classes is bg_plan_memory_bytes of
 * BG_MEMORY_REMOTE. */
BG_API size_t bg_plan_remote_bytes(const bg_plan *plan, uint32_t device, bg_location_class location_class);

/* The bytes that a step moves to a device and away from it. */
typedef enum bg_plan_traffic {
    /* From remote stores; for sharded tensors the pieces of all replicas, unless one piece is enough. */
    BG_TRAFFIC_LOADED = 0,
    BG_TRAFFIC_STORED, /* to the device's own remote store */
    /* The device's input to sums over replicas: gradients (accumulators) and, for a model that is cut over replicas,
     * activations and their gradients. */
    BG_TRAFFIC_REDUCED,
    /* Gathered from pieces on replicas: new weights after an update and, for a model that is cut over replicas,
     * activations. */
    BG_TRAFFIC_GATHERED,
    BG_TRAFFIC_COUNT
} bg_plan_traffic;
BG_API const char *bg_plan_traffic_name(bg_plan_traffic traffic);
/* Returns the bytes in a step, for all micro-batches. Entries that the model's own ops load and store are not
 * counted. */
BG_API uint64_t bg_plan_traffic_bytes(const bg_plan *plan, uint32_t device, bg_plan_traffic traffic,
                                      bg_location_class location_class);

/* Prints the table of bytes by device and class. malloc'ed, as are all texts below. */
BG_API bg_status bg_plan_print_memory(const bg_plan *plan, char **out_text, bg_error *error);
/* Prints the table of bytes for each pass over a stage: F, R, B, W or U. Remote values are counted in their own class,
 * in the passes that have a window of them. Values on the device are counted in the passes that use them. The
 * `transient` bytes of an update include the moments that it loads. Consecutive stages with equal numbers share a
 * row. */
BG_API bg_status bg_plan_print_phases(const bg_plan *plan, char **out_text, bg_error *error);
/* Prints the bytes that each remote store keeps, and the bytes that a step moves, by class. */
BG_API bg_status bg_plan_print_remote(const bg_plan *plan, char **out_text, bg_error *error);
/* Prints the blocks with their stage and device. */
BG_API bg_status bg_plan_print_placement(const bg_plan *plan, char **out_text, bg_error *error);
BG_API const bg_schedule *bg_plan_schedule(const bg_plan *plan);
/* Returns the name of the plan's schedule generator, also if options.execution.schedule is NULL. */
BG_API const char *bg_plan_schedule_name(const bg_plan *plan);
/* Prints the timetable of the plan's schedule (bg_schedule_timetable). */
BG_API bg_status bg_plan_print_timetable(const bg_plan *plan, char **out_text, bg_error *error);
/* Prints the devices of each rank, and tables of each rank's memory (including the transport's) and of the bytes that
 * it sends to other ranks in a step. Ranks with equal numbers share a row. `rank_count` may differ from the actual
 * number of ranks; 0 means the ranks of options.execution.transport. Errors: BG_ERROR_INVALID (an invalid layout),
 * BG_ERROR_MEMORY. */
BG_API bg_status bg_plan_print_ranks(const bg_plan *plan, uint32_t rank_count, char **out_text, bg_error *error);
/* Prints every instruction of every device. */
BG_API bg_status bg_plan_print_program(const bg_plan *plan, char **out_text, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
