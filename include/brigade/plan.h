/*
 * plan.h: a graph, compiled for a strategy: which device does what in which order, and where every byte lives. Known
 * before anything runs. What does not fit a device is refused here, with the table.
 */
#ifndef BRIGADE_PLAN_H
#define BRIGADE_PLAN_H

#include <brigade/options.h>
#include <brigade/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_plan bg_plan;

/* The graph must carry `loss` (a scalar it computes); the graph is copied and may be destroyed. */
BG_API bg_status bg_plan_create_training(const bg_graph *graph, bg_value loss, const bg_optimiser *optimiser,
                                         const bg_options *options, bg_plan **out, bg_error *error);
/* Computes the graph's outputs (all that are marked); what they do not need is left out. */
BG_API bg_status bg_plan_create_inference(const bg_graph *graph, const bg_options *options, bg_plan **out,
                                          bg_error *error);
BG_API void bg_plan_destroy(bg_plan *plan);

/* Bytes on a device, by class. */
typedef enum bg_memory_class {
    BG_MEMORY_WEIGHTS = 0, /* parameters and buffers, constants */
    BG_MEMORY_GRADIENTS,   /* accumulators */
    BG_MEMORY_STATE,       /* the optimiser's, on the device */
    BG_MEMORY_STASH,       /* activations kept for the backward pass */
    BG_MEMORY_TRANSIENT,   /* inside a segment, scratch included */
    BG_MEMORY_STREAM,      /* messages between devices, host inputs and outputs */
    BG_MEMORY_WINDOW,      /* where remote weights, accumulators and stashes are while they are used */
    BG_MEMORY_REMOTE,      /* outside the device: remote buffers */
    BG_MEMORY_CLASS_COUNT
} bg_memory_class;
BG_API const char *bg_memory_class_name(bg_memory_class memory_class);

typedef struct bg_plan_summary {
    uint32_t stage_count, device_count, replicas; /* devices of one replica */
    uint32_t micro_batch;                         /* samples: first dimension of the first input */
    uint32_t micro_batches_per_step;
    uint32_t steps_per_run;
    uint32_t input_groups;    /* of replicas that get the same data */
    uint64_t samples_per_run; /* that the host brings: micro_batch x micro-batches x steps x input groups */
    double compile_ms;        /* to make the plan, or to load it */
    bool is_cached;           /* it comes from options.cache_dir */
    double idle_share;        /* of device time, with the static costs */
    double flops_per_micro_batch;
    uint32_t recomputed_op_count; /* forward ops that run again for the backward */
    double recompute_share;       /* of the time of a micro-batch, by static costs */
} bg_plan_summary;
BG_API bg_plan_summary bg_plan_summarise(const bg_plan *plan);
/* Bytes of a class on a device of a replica (each replica is the same). */
BG_API size_t bg_plan_memory_bytes(const bg_plan *plan, uint32_t device, bg_memory_class memory_class);
/* All classes but REMOTE. */
BG_API size_t bg_plan_device_bytes(const bg_plan *plan, uint32_t device);

/* Text, malloc'ed: the table of bytes a device and class; blocks with their stage and device; the timetable. */
BG_API bg_status bg_plan_print_memory(const bg_plan *plan, char **out_text, bg_error *error);
/* The same for each phase: a pass over a stage, F, R, B, W or U. What is remote counts as what it is, in the phases
 * that have a window of it; what lies on the device, in those that touch it. An update's `transient` has the moments
 * that it loads. Stages that follow each other and hold the same share a row. */
BG_API bg_status bg_plan_print_phases(const bg_plan *plan, char **out_text, bg_error *error);
BG_API bg_status bg_plan_print_placement(const bg_plan *plan, char **out_text, bg_error *error);
BG_API const bg_schedule *bg_plan_schedule(const bg_plan *plan);
BG_API bg_status bg_plan_print_timetable(const bg_plan *plan, char **out_text, bg_error *error);
/* Every instruction of every device. */
BG_API bg_status bg_plan_print_program(const bg_plan *plan, char **out_text, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
