/*
 * rank_index.c: sends values of the index of files of remote buffers, which rank 0 has open, to the ranks that need
 * them.
 */
#include <stdlib.h>

#include "core/error.h"
#include "runtime/agree.h"
#include "runtime/memmap.h"
#include "runtime/weights.h"

enum { SPREAD_BYTES = 1 << 20 }; /* the largest number of bytes that are sent at a time */

/* A value that rank 0 sends, and its readers by rank. */
typedef struct spreading {
    bool *readers;
    char *data, *room; /* `data`: memory for the whole value, on readers; `room`: for a part of the value, on rank 0 if
                          it is not a reader */
} spreading;

/* Finds the ranks that have a variable of the weight (all ranks if the weight has no home), and allocates memory for
 * the value. */
static bg_status find_all_readers(bg_session *session, uint32_t number, spreading *s, bg_error *error)
{
    const bg_transport *transport = session->plan->options.execution.transport;
    const uint32_t index = session->variables[number].weight;
    const bgi_weight *weight = &session->weights->items[index];
    void *view = NULL;

    s->readers = calloc(transport->rank_count, sizeof *s->readers);
    if (s->readers == NULL)
        return bgi_error_memory(error, "readers of weights", transport->rank_count);
    for (uint32_t i = number; i < session->plan->variable_count; i++) {
        if (session->variables[i].weight != index)
            continue;
        bgi_session_find_readers(session, &session->plan->variables[i], session->readers);
        for (uint32_t rank = 0; rank < transport->rank_count; rank++)
            s->readers[rank] |= session->readers[rank] || weight->home == NULL;
    }
    if (s->readers[transport->rank] && weight->home != NULL)
        BGI_TRY(bgi_weights_take_view(session->weights, index, &view, error));
    s->data = weight->home != NULL ? view : weight->data;
    if (transport->rank == 0 && s->data == NULL) {
        s->room = malloc(SPREAD_BYTES);
        if (s->room == NULL)
            return bgi_error_memory(error, "a part of a value", SPREAD_BYTES);
    }
    return BG_OK;
}

/* Sends the value in parts. After a read error rank 0 still sends all parts, and reports the error at the end. */
static bg_status spread_parts(bg_session *session, uint32_t index, const spreading *s, bg_error *error)
{
    const bgi_memmap_index *found = bgi_memmap_found(session->memmap);
    const bg_transport *transport = session->plan->options.execution.transport;
    const size_t size_bytes = bg_type_size_bytes(&session->weights->items[index].type);
    bg_error own = {0};
    bg_status status = BG_OK;

    for (size_t at = 0; at < size_bytes; at += SPREAD_BYTES) {
        const size_t bytes = size_bytes - at < SPREAD_BYTES ? size_bytes - at : SPREAD_BYTES;
        char *part = s->data != NULL ? s->data + at : s->room;
        if (transport->rank == 0 && status == BG_OK)
            status = bgi_memmap_index_value(found, session->weights, index, at, part, bytes, &own);
        for (uint32_t to = 1; to < transport->rank_count; to++)
            if (s->readers[to])
                BGI_TRY(bgi_ranks_hand(session->engine->transport, 0, to, part, bytes, error));
    }
    status = bgi_ranks_settle(session->engine->transport, status, NULL, &own);
    return status == BG_OK ? BG_OK : bg_error_set(error, status, "%s", own.message);
}

bg_status bgi_session_spread(bg_session *session, uint32_t number, void **out_data, bg_error *error)
{
    spreading s = {0};
    bg_error own = {0};
    bg_status status = find_all_readers(session, number, &s, &own);

    status = bgi_ranks_settle(session->engine->transport, status, NULL, &own);
    if (status != BG_OK)
        bg_error_set(error, status, "%s", own.message);
    else
        status = spread_parts(session, session->variables[number].weight, &s, error);
    free(s.readers);
    free(s.room);
    *out_data = s.data;
    return status;
}
