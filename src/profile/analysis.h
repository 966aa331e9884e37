/*
 * analysis.h: declares the analysis of a recorded session: tables of the time of devices and cores, the times of calls,
 * and possible gains. The file analyze.c fills it, insights.c adds advice, and summary_file.c writes it as JSON. Times
 * are nanoseconds since the session's creation.
 *
 * Totals (by kind, of calls, of runs) cover the whole recording. Analyses that need the order of events (causes of
 * waiting, cores, the timeline) cover a window: the newest steps whose events are all kept, at most
 * BGI_MOST_WINDOW_EVENTS events unless one step has more.
 */
#ifndef BGI_PROFILE_ANALYSIS_H
#define BGI_PROFILE_ANALYSIS_H

#include <brigade/profile.h>

#include "core/arena.h"
#include "plan/plan.h"
#include "profile/events.h"
#include "profile/memory.h"
#include "runtime/record.h"

/* Why a device was idle. */
typedef enum bgi_cause {
    BGI_CAUSE_PIPELINE = 0, /* a needed value was not ready, or no slot was free: bubbles, uneven stages */
    BGI_CAUSE_LINK,         /* a sent message had not arrived */
    BGI_CAUSE_CORES,        /* the device could have worked, but no worker was free */
    BGI_CAUSE_TRANSFERS,    /* loads and stores of remote memory */
    BGI_CAUSE_REPLICAS,     /* other replicas had not reached a sum */
    BGI_CAUSE_DATA,         /* the loader had no batch ready */
    BGI_CAUSE_HOST,         /* the program did other work between runs */
    BGI_CAUSE_COUNT
} bgi_cause;
const char *bgi_cause_name(bgi_cause cause);

typedef struct bgi_device_times {
    uint32_t rank;
    double kind_ns[BG_ACTION_KIND_COUNT], kind_count[BG_ACTION_KIND_COUNT]; /* over the whole recording */
    double beside_ns[BG_ACTION_KIND_COUNT], beside_count[BG_ACTION_KIND_COUNT];
    double busy_ns, cause_ns[BGI_CAUSE_COUNT]; /* times in the window, which sum to its length */
} bgi_device_times;

/* The time of a worker; work + help + beside + idle is the window's length. */
typedef struct bgi_core_times {
    uint32_t rank, worker;
    double work_ns; /* time on devices that it owned */
    double help_ns; /* time on parts of other workers' calls */
    double beside_ns;
    double idle_ns;
} bgi_core_times;

/* All calls of one op in a pass over a stage. */
typedef struct bgi_op_row {
    const char *name, *block, *kernel;
    bg_action_kind kind;
    uint32_t stage;
    double calls_per_step;
    uint64_t count; /* number of timed calls */
    double mean_ns, least_ns, most_ns;
    double flops, bytes; /* of one call */
} bgi_op_row;

typedef struct bgi_stage_row {
    uint32_t stage, device;
    uint64_t parameters, weight_bytes, stash_bytes;
    double flops; /* per micro-batch, over all passes */
    bg_stage_cost cost;
    double step_ns; /* time of a step's micro-batches and the update */
} bgi_stage_row;

typedef struct bgi_block_row {
    const char *name;
    uint32_t stage;
    double step_ns;
} bgi_block_row;

/* A piece of advice: an observation, and a change that would help. */
typedef struct bgi_insight {
    const char *id;     /* "imbalance" */
    const char *text;   /* a sentence with the finding, and one with the remedy */
    const char *option; /* the option to change; "" if there is not exactly one */
    double gain;        /* gain in throughput by the change, as a fraction; 0 if no time is saved */
    double bytes;       /* bytes that the change saves on a device */
    double cost;        /* loss of throughput by the change, as a fraction */
    double weight;      /* insights with a larger weight come first */
} bgi_insight;

enum { BGI_MOST_INSIGHTS = 16, BGI_MOST_WINDOW_EVENTS = 12000 };

typedef struct bgi_machine {
    double flops_per_s, bytes_per_s; /* peak speeds, measured on all workers at once */
    uint32_t processors, workers;    /* numbers of this machine's processors and this rank's workers */
} bgi_machine;

typedef struct bgi_analysis {
    const bg_session *session;
    const bg_plan *plan;
    bg_plan_summary summary;
    bgi_arena arena;
    bgi_events events;
    bgi_run_spans runs;         /* copies of the last spans, oldest first */
    uint32_t rank_count, slots; /* slots are the devices of all replicas */
    uint64_t begin_ns, end_ns;  /* the window */
    uint32_t window_steps;      /* passes in the window */
    uint64_t event_count, dropped_count;
    bgi_device_times *devices;
    bgi_core_times *cores;
    uint32_t core_count;
    bg_trace_event **helps; /* by rank: the events of help with other workers' calls */
    uint64_t *help_counts;
    bgi_op_row *ops;
    uint32_t op_count;
    bgi_stage_row *stages;
    bgi_block_row *blocks;
    double message_bytes_per_ns; /* 0 if it was too fast to measure */
    double *edge_wait_ns;        /* by edge: time in the window of waits for messages that had been sent */
    double flops_per_step;
    bgi_machine machine;
    uint64_t loader_wait_ns; /* the loader's wait time, from the caller's notes */
    double simulated_ns;     /* time per step, with separate devices; 0: unknown */
    bg_schedule_timing simulated;
    bgi_insight insights[BGI_MOST_INSIGHTS];
    uint32_t insight_count;
} bgi_analysis;

/* Reads and analyzes the events, in BGI_ANALYSIS_PARTS parts of `progress` (may be NULL). The result must be cleared
 * also after an error. */
enum { BGI_ANALYSIS_PARTS = 3 };
bg_status bgi_analyze(const bg_session *session, const bg_profile_notes *notes, bgi_progress *progress,
                      bgi_analysis *out, bg_error *error);
void bgi_analysis_clear(bgi_analysis *analysis);

/* insights.c: adds the insights to an analysis that bgi_analyze has made. */
void bgi_find_insights(bgi_analysis *analysis);

/* machine.c: measures the machine's peak speeds, which takes about 30 ms. */
bg_status bgi_machine_measure(uint32_t workers, bgi_machine *out, bg_error *error);

/* summary_file.c: writes an analysis as JSON (docs/formats.md) to *out, malloc'ed. */
bg_status bgi_summary_write(const bgi_analysis *analysis, const bg_profile_notes *notes, char **out, size_t *out_bytes,
                            bg_error *error);

/* Returns whether an event is in the window. */
static inline bool bgi_in_window(const bgi_analysis *analysis, const bg_trace_event *event)
{
    return event->end_ns > analysis->begin_ns && event->start_ns < analysis->end_ns;
}

#endif
