/*
 * bundle.h: a folder that repeats, in one process, one weight update that was refused because its loss was not finite
 * (options.numerics.guard_loss).
 */
#ifndef BGI_CLI_BUNDLE_H
#define BGI_CLI_BUNDLE_H

#include "cli/model.h"

/* The number of samples in the update of a BG_ON_REFUSED_UPDATE event. */
uint64_t cli_bundle_samples(const bg_trainer_event *event);
/* All ranks call it at that event. It writes the folder `refused-N` into `folder`, where N is the update's number from
 * 1. If `folder` is NULL, the name is `brigade-refused-N` in the current folder. `blob` records the position in the
 * data, as in the model's checkpoints. A failure is reported but does not end the run. */
void cli_bundle_write(const cli_training *training, const bg_trainer_event *event, const char *folder,
                      const char *blob);

/* With --replay: the update's samples replace the training's data. Must be closed also after an error. */
bg_status cli_bundle_open(cli_training *training, bg_error *error);
void cli_bundle_close(cli_training *training);
/* Reports the loss of each micro-batch of a replay. */
void cli_bundle_report(const bg_trainer_event *event);

#endif
