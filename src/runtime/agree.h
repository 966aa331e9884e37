/*
 * agree.h: what all ranks of a session say to each other between runs. Knows plans and runs; how bytes travel is the
 * transport's affair.
 */
#ifndef BGI_RUNTIME_AGREE_H
#define BGI_RUNTIME_AGREE_H

#include "runtime/engine.h"

/* settle.c: a transport without devices, on which ranks talk before they have engines. Whose `ranks` these are lives
 * longer. */
bg_status bgi_ranks_talk(const bgi_ranks *ranks, bgi_transport **out, bg_error *error);
/* Each rank says how something went of its own, on the disk say: OK on all when it went well everywhere, else on all
 * the error of the lowest rank that has one (*error on that rank). *any becomes true on all when it is on one; NULL:
 * nothing is asked. In one process (`transport` NULL) nothing happens, and `status` is returned. */
bg_status bgi_ranks_settle(bgi_transport *transport, bg_status status, bool *any, bg_error *error);

/* settle.c: the names of the hosts of all ranks, on all of them. */
bg_status bgi_ranks_share_hosts(bgi_transport *transport, char (*hosts)[BGI_HOST_BYTES], bg_error *error);

/* agree.c: OK on all ranks when all have the same plan and the same options; else the same error on all, which names
 * the rank and the first option that differ. */
bg_status bgi_ranks_agree(const bg_plan *plan, bgi_transport *transport, bg_error *error);

/* rank_outputs.c: each output that a rank has an array for goes there from the ranks whose devices have made it. For
 * all ranks, after a run of so many iterations. */
bg_status bgi_ranks_share_outputs(bgi_engine *engine, uint64_t iterations, bg_error *error);
/* What this rank says at the end of a run: which outputs it has arrays for (bit i is output i, bit 61 all further
 * ones), whether its devices have refused an update (bit 62), and whether it would like to stop (bit 63). */
uint64_t bgi_ranks_wanted(const bgi_engine *engine);
/* After `finish`: whether any rank would like to; `own`: what this one has said. */
bool bgi_ranks_ask_to_stop(const bgi_engine *engine, uint64_t own);
/* The same of devices that have refused an update. */
bool bgi_ranks_have_refused(const bgi_engine *engine, uint64_t own);

#endif
