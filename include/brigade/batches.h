/*
 * batches.h: inference for batches of any size up to a maximum. The cost depends on the size: a batch of 3 does the
 * work of 3 samples, not that of a padded batch of the maximum size. There is a plan and a reader
 * (bg_session_create_reader) for each size, which are made when the size is first used, or by bg_batches_prepare. All
 * readers use the same published weights in place.
 *
 * Threads: one thread at a time uses a bg_batches. To serve in several threads, create one for each thread.
 *
 * Errors: those of bg_plan_create_inference and bg_session_create_reader.
 */
#ifndef BRIGADE_BATCHES_H
#define BRIGADE_BATCHES_H

#include <brigade/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_batches bg_batches;

/* Adds the model for batches of `samples` samples to a graph and marks its outputs, whose names and order must be the
 * same for every size. Failures become the graph's error. */
typedef void (*bg_batch_model)(void *user, bg_graph *graph, int64_t samples);

/* Creates a bg_batches, and the plan and the reader of the maximum size. `options` (NULL: the defaults) apply to all
 * plans, which are for inference with one device iteration. `model`, `user` and memory to which the options point must
 * outlive the bg_batches. Publishes the weights if they were never published. Errors: BG_ERROR_INVALID (most_samples
 * below 1); those of plans and readers. */
BG_API bg_status bg_batches_create(bg_batch_model model, void *user, int64_t most_samples, const bg_options *options,
                                   bg_weights *weights, bg_batches **out, bg_error *error);
BG_API void bg_batches_destroy(bg_batches *batches);

/* Makes the plan and the reader for a batch size before its first use. */
BG_API bg_status bg_batches_prepare(bg_batches *batches, int64_t samples, bg_error *error);
/* Runs one batch with the newest published weights. Inputs and outputs are as in bg_session_run, for `samples` samples.
 * Errors: BG_ERROR_RANGE (`samples` is below 1 or above the maximum), those of plans, readers, bg_session_run. */
BG_API bg_status bg_batches_run(bg_batches *batches, int64_t samples, const void *const *inputs, void *const *outputs,
                                bg_error *error);
/* Returns the reader for batches of `samples` samples, whose streams describe inputs and outputs; NULL before this
 * reader is made. Borrowed. */
BG_API bg_session *bg_batches_session(const bg_batches *batches, int64_t samples);

#ifdef __cplusplus
}
#endif

#endif
