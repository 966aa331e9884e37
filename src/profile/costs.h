/*
 * costs.h: reads costs from memory, for tests, and computes mean costs, for benches.
 */
#ifndef BGI_PROFILE_COSTS_H
#define BGI_PROFILE_COSTS_H

#include <brigade/profile.h>

/* Reads costs from a text in memory. Error messages begin with `name`. */
bg_status bgi_costs_parse(const char *name, const char *data, size_t size_bytes, bg_costs *out, bg_error *error);

/* Like bg_profile_costs, but with means in place of medians, because means can be compared with the time of a whole
 * run, which is a sum of times. */
bg_status bgi_profile_mean_costs(const bg_session *session, const bg_plan *plan, bg_stage_cost *out_costs,
                                 bg_error *error);

#endif
