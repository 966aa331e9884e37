/*
 * devices.h: maps stages to devices.
 */
#ifndef BGI_PLAN_DEVICES_H
#define BGI_PLAN_DEVICES_H

#include <brigade/schedule.h>

#include "transform/transform.h"

/* Whether neighboring stages on one device become one stage. They stay separate if a schedule folds the line of stages
 * back on itself, and at the borders of phases. */
bool bgi_merges_neighbors(const bg_options *options, const bg_schedule_generator *generator);

/* Gives each stage its device: from device_mapping, otherwise the device that the option `stages` or the blocks give
 * (or the stage's own number), otherwise the device that the strategy gives it. Checks numbers, phases and concurrent
 * stages. */
bg_status bgi_place_stages(const bg_options *options, const bg_schedule_generator *generator, bgi_stages *stages,
                           bg_error *error);

/* Checks for configurations that Brigade can run but IPU software rejects. With ipu_limits they are errors, except that
 * auto_round_devices turns one into a warning; without ipu_limits nothing is checked. `graph`: forward ops with their
 * stages. */
bg_status bgi_check_ipu_limits(const bg_graph *graph, const bg_options *options, const bgi_stages *stages,
                               bg_error *error);

#endif
