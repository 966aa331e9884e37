/*
 * profile.h: shows what a session with options.reporting.trace did and when: as a trace file, as text, and as a report.
 *
 * Threads: one thread at a time uses the session (session.h).
 *
 * Errors: BG_ERROR_INVALID (the session did not trace, or nothing ran yet), BG_ERROR_IO, BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_PROFILE_H
#define BRIGADE_PROFILE_H

#include <brigade/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Writes the session's trace as Chrome trace events (JSON; open with https://ui.perfetto.dev or chrome://tracing): a
 * process for each replica, a thread for each device, and a slice for each action ("F 3": forward of micro-batch 3).
 * Arrows lead from SEND to RECEIVE where both are recorded. A counter "memory" for each device has the live bytes at
 * each moment. The file appears complete or not at all. Errors: BG_ERROR_INVALID (the session did not trace, or nothing
 * ran yet), BG_ERROR_IO, BG_ERROR_CANCELED (options.reporting.progress), BG_ERROR_MEMORY.
 */
BG_API bg_status bg_profile_write_trace(const bg_session *session, const bg_plan *plan, const char *path,
                                        bg_error *error);

/* Prints, for each device, the shares of time of each kind of action and of idling, between the first and the last
 * recorded event; for each stage, the mean work per step; then the difference between the longest stage and the mean,
 * and whether events were dropped. malloc'ed. Errors: BG_ERROR_INVALID (the session did not trace, or nothing ran yet),
 * BG_ERROR_MEMORY. */
BG_API bg_status bg_profile_print_summary(const bg_session *session, const bg_plan *plan, char **out_text,
                                          bg_error *error);

/* Computes the costs of the stages from the session's records: medians of the times without waiting, over
 * micro-batches, steps and replicas. `out_costs` has one element for each stage. *out_bytes_per_ns gets the speed of
 * messages between devices; 0 when copies took no measurable time (messages are written in place). out_costs can be
 * used as options.execution.stage_costs. Errors: BG_ERROR_INVALID (the session did not trace, nothing ran yet, or a
 * stage has no recorded forward), BG_ERROR_MEMORY. */
BG_API bg_status bg_profile_costs(const bg_session *session, const bg_plan *plan, bg_stage_cost *out_costs,
                                  double *out_bytes_per_ns, bg_error *error);

/* Measures a plan that has not run yet, with the results of bg_profile_costs: runs the plan `run_count` times in a
 * separate session, on zeros and with newly initialized weights. The plan must have been made with
 * options.reporting.trace. Most kernels take the same time for any values, but the backward of a fused convolution, max
 * pool and ReLU skips windows without a gradient. For such a model, run a session on real data and call
 * bg_profile_costs. */
BG_API bg_status bg_profile_measure(const bg_plan *plan, uint32_t run_count, bg_stage_cost *out_costs,
                                    double *out_bytes_per_ns, bg_error *error);

/* Costs in a file (docs/formats.md), from which the same plan can be made again. */
typedef struct bg_costs {
    bg_stage_cost *stages; /* malloc'ed; one for each stage */
    uint32_t stage_count;
    double message_bytes_per_ns;
} bg_costs;
/* Writes costs to a file. Numbers have enough digits to be read back exactly. The file appears complete or not at
 * all. */
BG_API bg_status bg_costs_save(const bg_costs *costs, const char *path, bg_error *error);
/* Reads costs from a file. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE (with the place and the cause),
 * BG_ERROR_MEMORY. */
BG_API bg_status bg_costs_load(const char *path, bg_costs *out, bg_error *error);
BG_API void bg_costs_clear(bg_costs *costs);

/* ---- reports (docs/profiling.md) ---- */

/*
 * A report is a folder that shows how a session spends time and memory, and what to change: report.html (one file, no
 * server), summary.json (the report's numbers; docs/formats.md) and trace.json (Chrome trace events). Sessions whose
 * plans have options.reporting.trace record from their creation on; bg_profile_start and bg_profile_stop choose the
 * runs. The sizes of the files and of the records in memory are bounded, however long the run is. Totals cover the
 * whole run. Events, and results derived from their order, cover the newest steps. Times of calls cover the first 16
 * steps and every eighth later step. The files state which part of the run they cover.
 */

/* Discards earlier records, and starts recording with the next run. Errors: BG_ERROR_INVALID (no
 * options.reporting.trace). */
BG_API bg_status bg_profile_start(bg_session *session, bg_error *error);
/* Stops recording; earlier records are kept. */
BG_API bg_status bg_profile_stop(bg_session *session, bg_error *error);

/* Information for a report that the session does not have. Every field may be zero. Borrowed. */
typedef struct bg_profile_notes {
    size_t struct_bytes;         /* 0, or sizeof(bg_profile_notes): see base.h */
    const char *program, *model; /* name and model of the run: "brigade mnist", "digit network" */
    const char *samples;         /* the unit of samples: "images" */
    const char *const *settings; /* alternating names and values, then NULL */
    uint64_t loader_wait_ns;     /* time that the caller waited for data between runs (bg_loader_statistics) */
    uint64_t loader_batches, loader_misses;
} bg_profile_notes;

/* Writes the folder's files, each of which appears complete or not at all; `notes` may be NULL. All ranks call this
 * function (brigade/transport.h), and rank 0 writes. The function also measures the machine's peak speed, which
 * takes about 50 ms, or more where the system is slow to provide 64 MiB of memory. options.reporting.progress is called
 * on rank 0; if it cancels, the folder does not change. Errors: BG_ERROR_INVALID (no options.reporting.trace, or
 * nothing was recorded), BG_ERROR_IO, BG_ERROR_CANCELED, BG_ERROR_MEMORY. */
BG_API bg_status bg_profile_write(bg_session *session, const bg_profile_notes *notes, const char *folder,
                                  bg_error *error);

/* Makes an HTML report from a folder's summary.json, and writes it to `path`; with `other` (may be NULL) the report
 * compares the two folders. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_PARSE, BG_ERROR_IO, BG_ERROR_MEMORY. */
BG_API bg_status bg_profile_report(const char *folder, const char *other, const char *path, bg_error *error);
/* Prints the same report as text, malloc'ed; `colored` adds terminal escapes. Errors: those of bg_profile_report. */
BG_API bg_status bg_profile_print_report(const char *folder, const char *other, bool colored, char **out_text,
                                         bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
