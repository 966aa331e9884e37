/*
 * buffers.h: finds which actions use the remote buffers of a schedule, places LOAD and STORE, and proves their order.
 */
#ifndef BGI_SCHEDULE_BUFFERS_H
#define BGI_SCHEDULE_BUFFERS_H

#include "core/buckets.h"
#include "schedule/layout.h"

typedef enum bgi_buffer_use {
    BGI_USE_NONE = 0,
    BGI_USE_READ,
    BGI_USE_WRITE /* the action makes the values of an edge, or writes variables, which it may also read */
} bgi_buffer_use;

/* Returns how an action other than LOAD and STORE uses a buffer. */
bgi_buffer_use bgi_buffer_used_by(const bg_schedule_problem *problem, const bg_schedule_buffer *buffer,
                                  const bg_action *action);

/* Lists the places of actions by the stage that they name, in the order of the list. Returns false when memory is out.
 */
bool bgi_find_stage_places(const bg_action *actions, size_t count, uint32_t stage_count, bgi_arena *arena,
                           bgi_buckets *out);

/* ---- transfers.c ---- */

/* A LOAD or STORE that belongs before action `at` of a device's list of compute actions. */
typedef struct bgi_transfer_place {
    size_t at;
    size_t number; /* its number in the order in which the device's places were made */
    bg_action action;
} bgi_transfer_place;

/* Lists all transfers of a device in the order in which they are emitted; malloc'ed. */
bg_status bgi_schedule_place_transfers(const bgi_schedule_layout *layout, uint32_t device,
                                       const bgi_schedule_list *compute, bgi_transfer_place **out, size_t *out_count,
                                       bg_error *error);

/* ---- buffers.c ---- */

/* Checks the LOADs and STOREs of a schedule whose other actions have passed bgi_schedule_check; fills `depths` (by
 * buffer). */
bg_status bgi_schedule_check_buffers(const bgi_schedule_layout *layout, const bg_schedule *schedule,
                                     const uint32_t *positions, uint32_t *depths, bg_error *error);

#endif
