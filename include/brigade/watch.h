/*
 * watch.h: ready-made callbacks for a trainer: actions when a metric improves or stops improving, and averages of
 * weights.
 *
 *     bg_watch watch = bg_watch_defaults("loss");
 *     const bg_trainer_callback callbacks[] = {{bg_watch_event, &watch}};
 *
 * Threads: the trainer calls these functions in its own thread.
 *
 * Errors: BG_ERROR_INVALID for an invalid argument; BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_WATCH_H
#define BRIGADE_WATCH_H

#include <brigade/rate.h>
#include <brigade/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Data of the callback bg_watch_event, which reads a metric's mean at the end of each validation. */
typedef struct bg_watch {
    size_t struct_bytes; /* set by bg_watch_defaults; see base.h */
    const char *metric;  /* name of a metric of the validation (bg_trainer_metric); borrowed */
    bool rises;          /* larger values are better */
    double least_change; /* the smallest difference that counts as an improvement; default 0 */
    uint64_t patience; /* the fit ends after more than this number of validations in a row without improvement, or when
                          the metric is NaN; default UINT64_MAX: never */
    bg_weights *best_weights; /* gets a copy of all parameters and buffers when the metric improves; NULL: no copy */
    /* Folder that receives a checkpoint when the metric improves; the folder keeps only this checkpoint. NULL: no
     * checkpoint. */
    const char *best_directory;
    bg_rate_schedule *plateau; /* schedule that gets every value of the metric (bg_rate_report); NULL: no schedule */
    /* state */
    double best; /* NaN: no value yet */
    uint64_t best_step, worse_count;
    bool has_stopped;
} bg_watch;

BG_API void bg_watch_init(bg_watch *watch, size_t struct_bytes, const char *metric);
static inline bg_watch bg_watch_defaults(const char *metric)
{
    bg_watch watch;

    bg_watch_init(&watch, sizeof watch, metric);
    return watch;
}
/* Compares the metric after each validation, and acts as `watch` says. Use the function in a bg_trainer_callback, with
 * the bg_watch as `user`. Errors: BG_ERROR_NOT_FOUND when the validation has no such metric, and those of
 * bg_checkpoint_save and bg_weights_set. */
BG_API bg_status bg_watch_event(void *watch, bg_trainer_event *event, bg_error *error);

/* Data of the callback bg_average_event, which computes exponential moving averages of a fit's parameters. After each
 * call of the session, average = d average + (1 - d) parameter, where d is `decay` to the power of the number of
 * updates in the call. The averages begin as the parameters after the first call. Values that are not trained are
 * copied. Each call takes the time of a copy of all weights. */
typedef struct bg_average {
    size_t struct_bytes; /* set by bg_average_make; see base.h */
    double decay;        /* 0 to 1 */
    bg_weights *weights; /* receives the averages; use a second trainer to validate and test with them */
} bg_average;

BG_API void bg_average_init(bg_average *average, size_t struct_bytes, double decay, bg_weights *weights);
static inline bg_average bg_average_make(double decay, bg_weights *weights)
{
    bg_average average;

    bg_average_init(&average, sizeof average, decay, weights);
    return average;
}
/* Updates the averages. Use the function in a bg_trainer_callback, with the bg_average as `user`. */
BG_API bg_status bg_average_event(void *average, bg_trainer_event *event, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
