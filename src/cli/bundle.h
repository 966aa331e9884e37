/*
 * bundle.h: a folder that repeats one weight update, whose loss was not finite and which was refused
 * (options.numerics.guard_loss), in one process.
 */
#ifndef BGI_CLI_BUNDLE_H
#define BGI_CLI_BUNDLE_H

#include "cli/model.h"

/* Samples of the update that a BG_ON_REFUSED_UPDATE is about. */
uint64_t cli_bundle_samples(const bg_trainer_event *event);
/* Of all ranks, at that event: writes the folder `refused-N` into `folder`, N being the update's number from 1; NULL:
 * into the current one, as `brigade-refused-N`. `blob` says that data begin, as the model's checkpoints do. What fails
 * is said and ends nothing. */
void cli_bundle_write(const cli_training *training, const bg_trainer_event *event, const char *folder,
                      const char *blob);

/* With --replay: the update's samples take the place of the training's data. Close it in any case. */
bg_status cli_bundle_open(cli_training *training, bg_error *error);
void cli_bundle_close(cli_training *training);
/* The events of such a run: what each micro-batch's loss was. */
void cli_bundle_report(const bg_trainer_event *event);

#endif
