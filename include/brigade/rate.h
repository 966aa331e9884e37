/*
 * rate.h: learning rates that change from update to update by a rule. bg_rate_at has the form of
 * bg_trainer_options.learning_rate, with the schedule as its argument `user`. Without a trainer, pass its result to
 * bg_session_set_learning_rate or bg_run.learning_rates.
 *
 * Threads: these are pure functions, which any thread may call at any time.
 */
#ifndef BRIGADE_RATE_H
#define BRIGADE_RATE_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of schedules. Each comment is the factor by which `rate` is multiplied at update t after the warm-up, where t
 * counts from 0 to n = steps - warmup. */
typedef enum bg_rate_kind {
    BG_RATE_CONSTANT = 0,
    BG_RATE_LINEAR,       /* 1 + (final - 1) t / n */
    BG_RATE_COSINE,       /* final + (1 - final) (1 + cos(pi t / n)) / 2 */
    BG_RATE_POLYNOMIAL,   /* final + (1 - final) (1 - t / n)^power */
    BG_RATE_ONE_CYCLE,    /* half a cosine from 1 down to final at the last update, steps - 1; in the warm-up, half a
                             cosine from `start` up to 1 (Smith and Topin, 2019) */
    BG_RATE_STEP,         /* factor^floor(t / period) */
    BG_RATE_INVERSE_ROOT, /* sqrt(w / (w + t)), where w is warmup, but at least 1 */
    BG_RATE_PLATEAU, /* 1 at first; multiplied by `factor` each time that more than `patience` reports in a row show no
                        progress (bg_rate_report); at least final */
    BG_RATE_KIND_COUNT
} bg_rate_kind;

typedef struct bg_rate_schedule {
    size_t struct_bytes; /* set by bg_rate_make; see base.h */
    bg_rate_kind kind;
    double rate;     /* the largest rate, at the end of the warm-up */
    uint64_t warmup; /* number of updates in which the rate rises, linearly except for ONE_CYCLE; default 0 */
    double start;    /* the share of the rate at the start; default 0, ONE_CYCLE 1/25 */
    uint64_t steps;  /* total number of updates, after which LINEAR, COSINE, POLYNOMIAL and ONE_CYCLE stay at `final` */
    double final;    /* share of the rate at the end; default 0, ONE_CYCLE 1/250000 */
    double power;    /* POLYNOMIAL; default 1 */
    double factor;   /* STEP, PLATEAU; default 0.1 */
    uint64_t period; /* STEP; default 1 */
    /* PLATEAU: a report is progress if its value is below the best value so far by more than threshold x |best|. After
     * more than `patience` reports in a row without progress the rate changes, and the next `cooldown` reports do not
     * count as reports without progress. */
    uint64_t patience; /* default 10 */
    uint64_t cooldown; /* default 0 */
    double threshold;  /* default 1e-4 */
    /* State of PLATEAU, set by bg_rate_report. To resume training, save these fields with a checkpoint. */
    double scale, best; /* 1 and infinity at first */
    uint64_t bad_reports, resting;
} bg_rate_schedule;

BG_API void bg_rate_init(bg_rate_schedule *schedule, size_t struct_bytes, bg_rate_kind kind, double rate,
                         uint64_t steps);
static inline bg_rate_schedule bg_rate_make(bg_rate_kind kind, double rate, uint64_t steps)
{
    bg_rate_schedule schedule;

    bg_rate_init(&schedule, sizeof schedule, kind, rate, steps);
    return schedule;
}

/* Returns the learning rate of update `step`, counted from 0. `schedule` is a bg_rate_schedule that bg_rate_validate
 * accepts. */
BG_API double bg_rate_at(void *schedule, uint64_t step);
/* PLATEAU: reports a new value of a quantity that should fall, such as a validation loss. For a quantity that should
 * rise, report its negative. NaN counts as no progress. Other kinds ignore the report. */
BG_API void bg_rate_report(bg_rate_schedule *schedule, double value);
/* Checks that every number is in its range; the error says what would be right. Errors: BG_ERROR_INVALID. */
BG_API bg_status bg_rate_validate(const bg_rate_schedule *schedule, bg_error *error);
/* Reads a schedule from a string, which has a kind (constant, linear, cosine, polynomial, one_cycle, step,
 * inverse_root, plateau) and the settings that differ from its defaults: "cosine:warmup=100,final=0.1". Settings have
 * the names of the fields; `steps` may be one of them. `out` is unchanged when the string is invalid. Errors:
 * BG_ERROR_INVALID. */
BG_API bg_status bg_rate_parse(const char *text, double rate, uint64_t steps, bg_rate_schedule *out, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
