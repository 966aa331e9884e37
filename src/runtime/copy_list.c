/*
 * copy_list.c: makes a list of copies, cut into pieces of 4 MiB. Several threads share the work; each takes one piece
 * after another.
 */
#include "runtime/session.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"
#include "core/threads.h"

enum { PIECE_BYTES = 4 << 20, MOST_THREADS = 16 };

struct bgi_copy_piece {
    const bgi_engine
        *engine; /* copies from `replica` and `place` of this engine; NULL: from the host memory at `from` */
    const void *from;
    uint32_t replica;
    bgi_place place;
    char *to;
    size_t size_bytes;
};

static bg_status add_piece(bgi_copy_list *list, const bgi_copy_piece *piece, bg_error *error)
{
    if (!bgi_array_reserve((void **)&list->pieces, &list->capacity, list->count + 1, sizeof *piece))
        return bgi_error_memory(error, "a list of values to copy", (list->count + 1) * sizeof *piece);
    list->pieces[list->count++] = *piece;
    return BG_OK;
}

bg_status bgi_copy_list_add(bgi_copy_list *list, const bgi_engine *engine, uint32_t replica, const bgi_place *place,
                            void *to, size_t size_bytes, bg_error *error)
{
    for (size_t at = 0; at < size_bytes; at += PIECE_BYTES) {
        bgi_copy_piece piece = {.engine = engine, .replica = replica, .place = *place, .to = (char *)to + at};
        piece.place.operand.offset += at;
        piece.size_bytes = size_bytes - at < PIECE_BYTES ? size_bytes - at : PIECE_BYTES;
        BGI_TRY(add_piece(list, &piece, error));
    }
    return BG_OK;
}

bg_status bgi_copy_list_add_host(bgi_copy_list *list, const void *from, void *to, size_t size_bytes, bg_error *error)
{
    for (size_t at = 0; at < size_bytes; at += PIECE_BYTES) {
        bgi_copy_piece piece = {.from = (const char *)from + at, .to = (char *)to + at};
        piece.size_bytes = size_bytes - at < PIECE_BYTES ? size_bytes - at : PIECE_BYTES;
        BGI_TRY(add_piece(list, &piece, error));
    }
    return BG_OK;
}

typedef struct copying {
    const bgi_copy_list *list;
    _Atomic size_t next;
} copying;

static void *copy_pieces(void *user)
{
    copying *c = user;

    for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->list->count;) {
        const bgi_copy_piece *piece = &c->list->pieces[i];
        if (piece->engine == NULL)
            memcpy(piece->to, piece->from, piece->size_bytes);
        else
            bgi_engine_read(piece->engine, piece->replica, &piece->place, piece->to, piece->size_bytes);
    }
    return NULL;
}

/* Returns the number of threads to use, with the caller: one for each PIECE_BYTES, but at most `most`. 0 also means the
 * caller alone. */
static uint32_t count_threads(const bgi_copy_list *list, uint32_t most)
{
    size_t bytes = 0;

    for (size_t i = 0; i < list->count; i++)
        bytes += list->pieces[i].size_bytes;
    return bytes / PIECE_BYTES < most ? (uint32_t)(bytes / PIECE_BYTES) : most;
}

void bgi_copy_list_run(const bgi_copy_list *list, uint32_t thread_count)
{
    const uint32_t count = count_threads(list, thread_count < MOST_THREADS ? thread_count : MOST_THREADS);
    copying c = {.list = list};
    pthread_t helpers[MOST_THREADS];
    uint32_t started = 0;

    while (started + 1 < count && bgi_thread_create(&helpers[started], copy_pieces, &c) == 0)
        started++;
    copy_pieces(&c);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
}
