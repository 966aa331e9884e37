/*
 * options.h: checks all options before they are used.
 */
#ifndef BGI_PLAN_OPTIONS_H
#define BGI_PLAN_OPTIONS_H

#include <brigade/options.h>

#include "options/table.h"

/* Fails with BG_ERROR_INVALID and one message that lists the problems that fit, each with its reason and remedy, and
 * the number of the others. Options that depend on the graph (names of stages, of outputs) are not checked. */
bg_status bgi_options_validate(const bg_options *options, bool training, bg_error *error);

/* Writes the names of all schedules, "single, sharded, ...", into `text`, and returns it. */
const char *bgi_options_schedules(char *text, size_t size);

/* bgi_options_budget returns the bytes that a device may hold (0: unlimited), and bgi_options_speed its speed, from the
 * option `devices` if it is given. */
size_t bgi_options_budget(const bg_options *options, uint32_t device);
/* Returns the bytes of scratch memory that a matrix product may use on a device; 0: no limit. */
size_t bgi_options_scratch(const bg_options *options, uint32_t device);
double bgi_options_speed(const bg_options *options, uint32_t device);

#endif
