/*
 * costs.h: reads costs from memory, for tests.
 */
#ifndef BGI_PROFILE_COSTS_H
#define BGI_PROFILE_COSTS_H

#include <brigade/profile.h>

/* Messages begin with `name`. */
bg_status bgi_costs_parse(const char *name, const char *data, size_t size_bytes, bg_costs *out, bg_error *error);

#endif
