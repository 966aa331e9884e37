/*
 * schedule.h: declares the parts of `brigade schedule`: options, the problems that they describe, and diagrams in text.
 * cmd_schedule.c combines them.
 */
#ifndef BGI_CLI_SCHEDULE_H
#define BGI_CLI_SCHEDULE_H

#include <brigade/schedule.h>

#include "cli/options.h"

/* ---- options and problems (schedule_config.c) ---- */

typedef struct schedule_config {
    /* 0 means that a number was not given. The number of the file is then used or, without a file, SCHEDULE_STAGES,
     * SCHEDULE_MICRO_BATCHES or the number of devices that the schedule requires. */
    uint64_t stages, micro_batches, devices;
    const char *forward, *backward, *weights, *update; /* "1" or "1,2,..." */
    double transfer;
    uint64_t message_bytes, stash_bytes, send_ahead;
    bool inference, strict, separate_loss;
    bool timed, messages;
    uint64_t columns; /* 0: the terminal's */
    const char *color, *svg_path, *to;
} schedule_config;

/* The defaults for problems that no file describes. */
enum { SCHEDULE_STAGES = 4, SCHEDULE_MICRO_BATCHES = 8 };

extern const cli_option schedule_options[];

schedule_config schedule_config_defaults(void);

/* A problem and its arrays; must be cleared with schedule_problem_clear. */
typedef struct schedule_problem {
    bg_schedule_problem problem;
    uint32_t *stage_devices;
    bg_schedule_edge *edges;
    bg_stage_cost *costs;
    bool is_inferred; /* whether bg_schedule_problem_free frees the arrays, except `costs` */
} schedule_problem;

/* Checks that costs are numbers and, unless a file determines the number of stages, that there is one cost, or one for
 * each stage. An error means that the command line is wrong. */
bg_status schedule_config_check(const schedule_config *config, bool knows_stages, bg_error *error);

/* Makes the problem that the options describe, with stages placed as the generator requires. */
bg_status schedule_problem_create(const schedule_config *config, const bg_schedule_generator *generator,
                                  schedule_problem *out, bg_error *error);

/* Makes the problem of a schedule from a file; given options must agree with it. */
bg_status schedule_problem_infer(const schedule_config *config, const bg_schedule *schedule, const char *path,
                                 schedule_problem *out, bg_error *error);

void schedule_problem_clear(schedule_problem *made);

/* ---- costs of a schedule (schedule_measure.c) ---- */

typedef struct schedule_measures {
    double makespan, bubble;
    uint64_t messages, message_bytes;    /* numbers of one step */
    uint64_t most_kept, most_kept_bytes; /* values of the device where they are highest */
    uint64_t
        *kept; /* by device: the number of micro-batches whose activations it has memory for, summed over its stages */
} schedule_measures;

/* Measures a schedule, which must have been verified. */
bg_status schedule_measure(const bg_schedule *schedule, const bg_schedule_problem *problem,
                           const bg_schedule_timing *timing, schedule_measures *out, bg_error *error);
void schedule_measures_clear(schedule_measures *measures);

/* ---- diagrams (schedule_picture.c) ---- */

/* Whether to use colors, from --color, NO_COLOR and whether standard output is a terminal. */
bool schedule_wants_color(const schedule_config *config);

/* Prints a lockstep timetable, optionally with colored cells. */
void schedule_print_timetable(const char *timetable, bool in_color);

/* Prints a diagram to scale: a row is a device, and a column is an interval of time. */
bg_status schedule_print_timed(const schedule_config *config, const bg_schedule_problem *problem,
                               const bg_schedule_timing *timing, bool in_color, bg_error *error);

#endif
