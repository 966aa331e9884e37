/*
 * simulate.h: computes how long the steps of a plan take on described devices, or on fewer cores than devices. It runs
 * no kernels. It follows the programs that the runtime would run (plan/plan.h), with a time for each call.
 *
 * bg_schedule_simulate takes only a schedule and the costs of its stages. Here messages leave in the middle of an
 * action, transfers and sums overlap with the program, links have latencies and domains, and devices may share cores as
 * the runtime's workers do.
 *
 *     separate devices    each device runs without contention; one replica is simulated, because all run alike
 *     shared cores        all devices of all replicas compete for the cores; idle cores help with parts of calls
 */
#ifndef BGI_PREDICT_SIMULATE_H
#define BGI_PREDICT_SIMULATE_H

#include "plan/plan.h"
#include "predict/device_model.h"

typedef struct bgi_simulation_setup {
    const bgi_device_model *model; /* links and memories */
    /* The time of a call on a separate device, or on one core. The function is not called for collectives and
     * transfers. */
    double (*call_ns)(const void *user, const bgi_call *call);
    /* The part of a call's time that idle cores divide among them. NULL: all of the time, for calls of several
     * parts. */
    double (*divisible_ns)(const void *user, const bgi_call *call);
    const void *user;
    /* With are_ranks, the `user` of calls that read messages; NULL: the same as `user`. If one process has all devices,
     * such a call moves the message from the sender's cache to its own core's cache. In a rank, RECEIVE has done
     * that. */
    const void *message_user;
    double instruction_ns; /* time from one instruction to the next */
    uint32_t cores;        /* 0: each device has its own cores */
    /* With cores 0, each device is a process with one core, which also copies arriving messages and computes sums that
     * otherwise overlap with the program. */
    bool are_ranks;
    uint32_t rank_cores; /* the number of cores that all ranks share; 0: each rank has its own */
    /* The time of calls on each core, relative to the time that call_ns returns. Rank i has core i. */
    const double *core_ratios;
    uint32_t core_ratio_count; /* 0: all cores are alike */
    uint32_t steps;            /* at least 1 */
    bool wants_events;         /* records the compute actions of replica 0's first step */
} bgi_simulation_setup;

/* Classes of a device's time. */
typedef enum bgi_time_class {
    BGI_TIME_FORWARD = 0,
    BGI_TIME_RECOMPUTE,
    BGI_TIME_BACKWARD,
    BGI_TIME_WEIGHTS,
    BGI_TIME_UPDATE,
    BGI_TIME_COLLECTIVES, /* sums and gathers over replicas, in calls and between them */
    BGI_TIME_COPIES,      /* copies of messages, inputs and outputs */
    BGI_TIME_LINKS,       /* waits for messages that were sent */
    BGI_TIME_TRANSFERS,   /* waits for streaming memory */
    BGI_TIME_SUMS,        /* waits for sums that overlap with the program, and for other replicas */
    BGI_TIME_CORES,       /* the device could continue, but no core was free */
    BGI_TIME_PIPELINE,    /* waits for values that are not made yet, a free slot or a turn, and other idle time */
    BGI_TIME_CLASS_COUNT
} bgi_time_class;
const char *bgi_time_class_name(bgi_time_class time_class);

typedef struct bgi_simulation {
    double first_step_ns; /* time from an idle start to the end of the first step on all devices */
    double step_ns;       /* time from the end of one step to that of the next, in consecutive steps */
    uint32_t device_count;
    double (*times)[BGI_TIME_CLASS_COUNT]; /* by device of replica 0, over all steps; the classes sum to total_ns */
    double total_ns;                       /* time of all steps */
    double core_busy_ns;                   /* with shared cores: working time, summed over all cores */
    bg_schedule_timing timing;             /* with wants_events: compute actions of the first step */
} bgi_simulation;

/* Returns the time of `steps` consecutive steps. */
double bgi_simulation_run_ns(const bgi_simulation *simulation, uint64_t steps);

/* Simulates the steps of the plan that `setup` requests. Errors: BG_ERROR_MEMORY, BG_ERROR_INTERNAL (a program that
 * waits forever, which is a defect of the plan). */
bg_status bgi_simulate(const bg_plan *plan, const bgi_simulation_setup *setup, bgi_simulation *out, bg_error *error);
void bgi_simulation_clear(bgi_simulation *simulation);

/* ---- work.c: what instructions cost ---- */

/* An event in the middle of an instruction, after a part of its work. */
typedef struct bgi_mark {
    double at_ns;
    enum bgi_mark_kind { BGI_MARK_SEND, BGI_MARK_ISSUE, BGI_MARK_WAIT } kind;
    uint32_t value; /* an edge, or a number of transfers */
} bgi_mark;

typedef struct bgi_work {
    double total_ns;      /* time on one core */
    double divisible_ns;  /* the part of total_ns that idle cores divide among them */
    double collective_ns; /* the part of total_ns in collectives */
    double copy_ns;       /* the part of total_ns in copies */
    double sum_ns;        /* time of a REDUCE that overlaps with the program; not part of total_ns */
    uint32_t first_mark, mark_count;
} bgi_work;

typedef struct bgi_device_work {
    bgi_work *instructions; /* costs of the device's program */
    bgi_mark *marks;
    double *transfer_ns; /* costs of the device's transfers */
} bgi_device_work;

/* Computes the costs of a device's instructions and transfers. The result is allocated in the arena. */
bg_status bgi_work_of_device(const bg_plan *plan, const bgi_simulation_setup *setup, uint32_t device, bgi_arena *arena,
                             bgi_device_work *out, bg_error *error);
/* Returns the time of an edge's message on its link, and sets *out_latency_ns to the further delay until it arrives. */
double bgi_message_ns(const bg_plan *plan, const bgi_device_model *model, uint32_t replica, uint32_t edge,
                      double *out_latency_ns);

#endif
