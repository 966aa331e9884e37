/*
 * watch.c: implements ready-made callbacks for trainers: watching a metric, and averaging weights.
 */
#include <brigade/checkpoint.h>
#include <brigade/watch.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "kernels/reference/element.h"

void bg_watch_init(bg_watch *watch, size_t struct_bytes, const char *metric)
{
    const bg_watch made = {.struct_bytes = struct_bytes, .metric = metric, .patience = UINT64_MAX, .best = (double)NAN};

    bgi_struct_fill(watch, struct_bytes, &made, sizeof made);
}

static bg_status copy_weights(bg_weights *from, bg_weights *to, bg_error *error)
{
    for (uint32_t i = 0; i < bg_weights_count(from); i++) {
        bg_weight weight;

        BGI_TRY(bg_weights_at(from, i, &weight, error));
        if (weight.role == BG_ROLE_PARAMETER || weight.role == BG_ROLE_BUFFER)
            BGI_TRY(bg_weights_set(to, weight.name, &weight.type, weight.data, error));
    }
    return BG_OK;
}

static bg_status keep_best(bg_watch *watch, const bg_trainer_event *event, bg_error *error)
{
    bg_session *session = bg_trainer_session(event->trainer, BG_TRAINER_FIT);
    const bg_checkpoint_save_options options = bg_checkpoint_save_defaults();

    if (watch->best_weights != NULL)
        BGI_TRY(copy_weights(bg_trainer_weights(event->trainer), watch->best_weights, error));
    if (watch->best_directory != NULL && session != NULL)
        BGI_TRY(bg_checkpoint_save(session, watch->best_directory, &options, error));
    return BG_OK;
}

static bool is_better(const bg_watch *watch, double value)
{
    if (isnan(watch->best))
        return !isnan(value);
    return watch->rises ? value > watch->best + watch->least_change : value < watch->best - watch->least_change;
}

bg_status bg_watch_event(void *user, bg_trainer_event *event, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(user, "watch", __func__, error));
    BGI_TRY(bgi_require(event, "event", __func__, error));

    bg_watch *watch = user;
    bg_trainer_metric metric;

    if (event->kind != BG_ON_VALIDATION_END)
        return BG_OK;
    BGI_TRY(bgi_struct_check(watch->struct_bytes, sizeof *watch, "bg_watch", "bg_watch_defaults(metric)", error));
    BGI_TRY(bgi_require(watch->metric, "metric", __func__, error));
    BGI_TRY(bg_trainer_metric_find(event->trainer, BG_TRAINER_VALIDATE, watch->metric, &metric, error));
    if (watch->plateau != NULL)
        bg_rate_report(watch->plateau, watch->rises ? -metric.mean : metric.mean);
    if (is_better(watch, metric.mean)) {
        watch->best = metric.mean;
        watch->best_step = bg_trainer_step(event->trainer);
        watch->worse_count = 0;
        return keep_best(watch, event, error);
    }
    watch->worse_count++;
    if (watch->patience != UINT64_MAX && (watch->worse_count > watch->patience || isnan(metric.mean)))
        watch->has_stopped = event->stop = true;
    return BG_OK;
}

/* ---- averages ---- */

void bg_average_init(bg_average *average, size_t struct_bytes, double decay, bg_weights *weights)
{
    const bg_average made = {.struct_bytes = struct_bytes, .decay = decay, .weights = weights};

    bgi_struct_fill(average, struct_bytes, &made, sizeof made);
}

/* Replaces the weight's average by decay x average + (1 - decay) x weight, or by the weight if that is not a parameter
 * of floats or has no average. `mixed` is memory for the result. */
static bg_status mix(bg_weights *averages, const bg_weight *weight, double decay, void *mixed, bg_error *error)
{
    bg_weight before;

    if (weight->role != BG_ROLE_PARAMETER || !bg_dtype_is_float(weight->type.dtype) ||
        bg_weights_find(averages, weight->name, &before, NULL) != BG_OK || !bg_type_equal(&before.type, &weight->type))
        return bg_weights_set(averages, weight->name, &weight->type, weight->data, error);
    for (int64_t i = 0; i < bg_type_element_count(&weight->type); i++)
        bgi_store(weight->type.dtype, mixed, i,
                  decay * bgi_load(weight->type.dtype, before.data, i) +
                      (1.0 - decay) * bgi_load(weight->type.dtype, weight->data, i));
    return bg_weights_set(averages, weight->name, &weight->type, mixed, error);
}

static bg_status average_weights(const bg_average *average, bg_weights *from, double decay, bg_error *error)
{
    bg_status status = BG_OK;

    for (uint32_t i = 0; i < bg_weights_count(from) && status == BG_OK; i++) {
        bg_weight weight;
        void *mixed;

        BGI_TRY(bg_weights_at(from, i, &weight, error));
        if (weight.role != BG_ROLE_PARAMETER && weight.role != BG_ROLE_BUFFER)
            continue;
        mixed = malloc(bg_type_size_bytes(&weight.type));
        status = mixed != NULL ? mix(average->weights, &weight, decay, mixed, error)
                               : bgi_error_memory(error, "an average", bg_type_size_bytes(&weight.type));
        free(mixed);
    }
    return status;
}

bg_status bg_average_event(void *user, bg_trainer_event *event, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(user, "average", __func__, error));
    BGI_TRY(bgi_require(event, "event", __func__, error));

    const bg_average *average = user;

    if (event->kind != BG_ON_CALL_END || event->task != BG_TRAINER_FIT || event->call->update_count == 0)
        return BG_OK;
    BGI_TRY(bgi_struct_check(average->struct_bytes, sizeof *average, "bg_average", "bg_average_make", error));
    BGI_TRY(bgi_require(average->weights, "weights", __func__, error));
    if (!(average->decay >= 0.0 && average->decay <= 1.0))
        return bg_error_set(error, BG_ERROR_INVALID, "average: decay is %g; it must be from 0 to 1", average->decay);
    return average_weights(average, bg_trainer_weights(event->trainer),
                           pow(average->decay, (double)event->call->update_count), error);
}
