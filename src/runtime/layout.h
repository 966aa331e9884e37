/*
 * layout.h: assigns devices to ranks. It knows plans and the number of ranks, but no messages.
 */
#ifndef BGI_RUNTIME_LAYOUT_H
#define BGI_RUNTIME_LAYOUT_H

#include <brigade/transport.h>

#include "plan/plan.h"

/* Sets owners[replica * devices + device] to the rank that owns the device, according to options.execution.layout.
 * Unless the layout is a list, ranks have almost equal numbers of devices. Every rank has at least one device or, if
 * there are fewer devices than ranks, at least rank 0 has one. Errors: BG_ERROR_INVALID for an impossible layout,
 * BG_ERROR_MEMORY. A plan for inference with fewer replicas than the layout's list has the default layout. */
bg_status bgi_layout_make(const bg_plan *plan, const bg_transport *transport, uint32_t *owners, bg_error *error);

/* Checks the layout for one process, which owns all devices in any layout. Errors: BG_ERROR_INVALID for a layout that
 * no number of ranks could have. */
bg_status bgi_layout_check(const bg_plan *plan, bg_error *error);

/* Returns the default layout. */
const char *bgi_layout_default(void);

#endif
