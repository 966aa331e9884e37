/*
 * layout.h: which rank has which device. Knows plans and how many ranks there are; nothing of messages.
 */
#ifndef BGI_RUNTIME_LAYOUT_H
#define BGI_RUNTIME_LAYOUT_H

#include <brigade/transport.h>

#include "plan/plan.h"

/* owners[replica * devices + device]: the rank, as options.execution.layout says. Ranks have almost equal numbers of
 * devices; rank 0 has at least one, and each other where there are as many. Errors: INVALID for a layout that cannot
 * be. */
bg_status bgi_layout_make(const bg_plan *plan, const bg_transport *transport, uint32_t *owners, bg_error *error);

/* The layout when none is given. */
const char *bgi_layout_default(void);

#endif
