/*
 * bundle.h: writes and replays folders from which one process can repeat a weight update that was refused because its
 * loss was not finite (options.numerics.guard_loss).
 */
#ifndef BGI_CLI_BUNDLE_H
#define BGI_CLI_BUNDLE_H

#include "cli/model.h"

/* Returns the number of samples in the update of a BG_ON_REFUSED_UPDATE event. */
uint64_t cli_bundle_samples(const bg_trainer_event *event);
/* Writes the folder `refused-N` into `folder`, where N is the number of the update, counted from 1. If `folder` is
 * NULL, the new folder is `brigade-refused-N` in the current folder. All ranks must call the function at a
 * BG_ON_REFUSED_UPDATE event. `blob` records the position in the data, as in the model's checkpoints. A failure is
 * reported but does not end the run. */
void cli_bundle_write(const cli_training *training, const bg_trainer_event *event, const char *folder,
                      const char *blob);

/* With --replay, replaces the training data with the samples of the update. Call cli_bundle_close even after an
 * error. */
bg_status cli_bundle_open(cli_training *training, bg_error *error);
void cli_bundle_close(cli_training *training);
/* Prints the loss of each micro-batch of a replay. */
void cli_bundle_report(const bg_trainer_event *event);

#endif
