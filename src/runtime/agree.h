/*
 * agree.h: compares and combines data of all ranks of a session between runs. It knows plans and runs; the transport
 * sends the bytes.
 */
#ifndef BGI_RUNTIME_AGREE_H
#define BGI_RUNTIME_AGREE_H

#include "runtime/engine.h"

/* settle.c: creates a transport without devices, on which ranks communicate before they have engines. `ranks` must
 * outlive the transport. */
bg_status bgi_ranks_talk(const bgi_ranks *ranks, bgi_transport **out, bg_error *error);
/* Shares the status of work that each rank did separately, for example on its disk. All ranks return BG_OK when the
 * work succeeded everywhere, otherwise the error of the lowest rank that failed (*error on that rank). If *any is true
 * on one rank, it becomes true on all ranks; `any` may be NULL. In one process (`transport` NULL) it only returns
 * `status`. */
bg_status bgi_ranks_settle(bgi_transport *transport, bg_status status, bool *any, bg_error *error);

/* settle.c: gives every rank the host names of all ranks. */
bg_status bgi_ranks_share_hosts(bgi_transport *transport, char (*hosts)[BGI_HOST_BYTES], bg_error *error);

/* agree.c: returns BG_OK on all ranks if all have the same plan and options. Otherwise all ranks return the same error,
 * which names the rank and the first option that differs. */
bg_status bgi_ranks_agree(const bg_plan *plan, bgi_transport *transport, bg_error *error);

/* rank_outputs.c: sends each output from the ranks whose devices have computed it to the ranks that have an array for
 * it. All ranks call it after a run of `iterations` iterations. */
bg_status bgi_ranks_share_outputs(bgi_engine *engine, uint64_t iterations, bg_error *error);
/* Returns the flags that this rank sends at the end of a run. Bit i: the rank has an array for output i (bit 61: for
 * output 61 or a later one). Bit 62: its devices have skipped an update. Bit 63: it requests a stop. */
uint64_t bgi_ranks_wanted(const bgi_engine *engine);
/* Called after the transport's `finish`: returns whether any rank requests a stop. `own`: this rank's flags. */
bool bgi_ranks_ask_to_stop(const bgi_engine *engine, uint64_t own);
/* Called after the transport's `finish`: returns whether devices of any rank have skipped an update. */
bool bgi_ranks_have_refused(const bgi_engine *engine, uint64_t own);

#endif
