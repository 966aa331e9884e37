/*
 * snapshot.c: copies many values at a time for a checkpoint that is written while training continues. Training waits
 * for the copy, so all processors of the session take part. Values that are contiguous on a device are copied from
 * there, without the weights' host copy in between:
 *
 *     value, value ... --> list (copy_list.c) --> threads
 *
 * The session keeps the memory for the copy, because new memory costs more than the copy: the system clears each page
 * before its first write.
 */
#include "runtime/session.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"
#include "core/threads.h"
#include "runtime/weights.h"

/* Copies a value that needs other ranks, all of which call this function, or reports that a value is lost. */
static bg_status fetch_value(bg_weights *weights, uint32_t number, void *out, bg_error *error)
{
    const void *value;

    BGI_TRY(bgi_weights_fetch(weights, number, &value, error));
    if (value != NULL)
        memcpy(out, value, bg_type_size_bytes(&weights->items[number].type));
    return BG_OK;
}

/* Lists copies of the whole newest value, from the devices that have it or from the host copy. If the devices have
 * sections or shards of a value, the function copies the value at once, and lists nothing. */
static bg_status list_value(bgi_copy_list *list, bg_weights *weights, uint32_t number, char *out, bg_error *error)
{
    const bgi_weight *weight = &weights->items[number];
    const bg_session *holder = weight->newest != NULL ? weight->newest : weight->home;
    const uint32_t index = weight->newest != NULL ? weight->newest_variable : weight->home_variable;
    const bgi_plan_variable *variable;
    bg_mesh mesh;

    if (weight->is_lost || (holder == NULL && weight->data == NULL) || bgi_weights_takes_ranks(weights, number))
        return fetch_value(weights, number, out, error);
    if (holder == NULL)
        return bgi_copy_list_add_host(list, weight->data, out, bg_type_size_bytes(&weight->type), error);
    variable = &holder->plan->variables[index];
    if (variable->section != NULL || variable->shard != NULL)
        return weights->holder->download(holder, index, NULL, out, error);
    mesh = bgi_plan_mesh(holder->plan);
    for (uint32_t place = 0; place < (variable->piece_count > 0 ? mesh.data : 1); place++) {
        const bgi_kept_part part = bgi_session_part(variable, place);
        BGI_TRY(bgi_copy_list_add(list, holder->engine, place * mesh.tensor_1 * mesh.tensor_2, &variable->places[0],
                                  out + part.offset, part.size_bytes, error));
    }
    return BG_OK;
}

bg_status bgi_session_copy_values(const bg_session *session, const bgi_value_copy *copies, size_t count,
                                  bg_error *error)
{
    bgi_copy_list list = {0};
    bg_status status = BG_OK;

    for (size_t i = 0; i < count && status == BG_OK; i++)
        status = session->owners != NULL ? bgi_session_list_part(session, copies[i].number, &list, copies[i].out, error)
                                         : list_value(&list, session->weights, copies[i].number, copies[i].out, error);
    if (status == BG_OK)
        bgi_copy_list_run(&list, bgi_session_helpers(session));
    free(list.pieces);
    return status;
}

/* ---- its memory ---- */

void *bgi_session_take_room(bg_session *session, size_t size_bytes, bool *out_is_kept)
{
    bgi_snapshot_room *room = &session->room;

    *out_is_kept = false;
    if (atomic_load(&room->is_used))
        return bgi_aligned_reserve(BGI_CACHE_LINE_BYTES, size_bytes);
    if (room->size_bytes < size_bytes) {
        bgi_session_drop_room(session);
        room->memory = bgi_aligned_reserve(BGI_CACHE_LINE_BYTES, size_bytes);
        if (room->memory == NULL)
            return NULL;
        room->size_bytes = size_bytes;
    }
    atomic_store(&room->is_used, true);
    *out_is_kept = true;
    return room->memory;
}

void bgi_session_return_room(bg_session *session, void *memory, bool is_kept)
{
    if (is_kept)
        atomic_store(&session->room.is_used, false);
    else
        free(memory);
}

void bgi_session_drop_room(bg_session *session)
{
    if (atomic_load(&session->room.is_used))
        return;
    free(session->room.memory);
    session->room.memory = NULL;
    session->room.size_bytes = 0;
}

/* ---- a free processor ---- */

bool bgi_session_leaves_processor(const bg_session *session)
{
    return bgi_engine_leaves_processor(session->engine);
}
