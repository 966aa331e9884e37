/*
 * devices.h: maps stages to devices.
 */
#ifndef BGI_PLAN_DEVICES_H
#define BGI_PLAN_DEVICES_H

#include <brigade/schedule.h>

#include "transform/transform.h"

/* Whether neighbors on one device become one stage. They stay separate if a schedule folds the line of stages back on
 * itself, and at the borders of phases. */
bool bgi_merges_neighbors(const bg_options *options, const bg_schedule_generator *generator);

/* Gives each stage its device: by device_mapping, otherwise the device that the text and blocks gave (or the stage's
 * own number), otherwise the device where the strategy places it. Checks numbers, phases and concurrent stages. */
bg_status bgi_place_stages(const bg_options *options, const bg_schedule_generator *generator, bgi_stages *stages,
                           bg_error *error);

/* Checks for configurations that Brigade can run but IPU software rejects. They are errors with ipu_limits; otherwise
 * those that cost time or memory are warnings. `graph`: forward ops with their stages. */
bg_status bgi_check_ipu_limits(const bg_graph *graph, const bg_options *options, const bgi_stages *stages,
                               bg_error *error);

#endif
