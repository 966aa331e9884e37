/*
 * options.h: the check of all options, before anything is made of them.
 */
#ifndef BGI_PLAN_OPTIONS_H
#define BGI_PLAN_OPTIONS_H

#include <brigade/options.h>

#include "options/table.h"

/* BG_ERROR_INVALID with every problem in one message, each with the reason and the remedy. What depends on the graph
 * (names of stages, of outputs) is not looked at. */
bg_status bgi_options_validate(const bg_options *options, bool training, bg_error *error);

/* The schedules that there are, "single, sharded, ...", into `text`, which is returned. */
const char *bgi_options_schedules(char *text, size_t size);

/* Bytes that a device may hold (0: unlimited) and how fast it is, by `devices` where they are given. */
size_t bgi_options_budget(const bg_options *options, uint32_t device);
/* Bytes that the scratch of a matrix product may take on a device; 0: no limit. */
size_t bgi_options_scratch(const bg_options *options, uint32_t device);
double bgi_options_speed(const bg_options *options, uint32_t device);

#endif
