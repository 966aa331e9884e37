/*
 * devices.h: stages to devices.
 */
#ifndef BGI_PLAN_DEVICES_H
#define BGI_PLAN_DEVICES_H

#include <brigade/schedule.h>

#include "transform/transform.h"

/* Whether neighbors on one device are one stage: not where a schedule folds the line of stages back on itself, nor
 * between phases. */
bool bgi_merges_neighbors(const bg_options *options, const bg_schedule_generator *generator);

/* Gives each stage its device: by device_mapping, else what text and blocks gave (the others: their own number), else
 * where the strategy places it. Checks numbers, phases and concurrent stages. */
bg_status bgi_place_stages(const bg_options *options, const bg_schedule_generator *generator, bgi_stages *stages,
                           bg_error *error);

/* What IPU software refuses of stages and devices and Brigade can do: an error with ipu_limits, else a warning where it
 * costs something. `graph`: forward ops with their stages. */
bg_status bgi_check_ipu_limits(const bg_graph *graph, const bg_options *options, const bgi_stages *stages,
                               bg_error *error);

#endif
