/*
 * safetensors_check.c: reads the values of a file back while it is being written. A thread reads back a large file, so
 * that writing, flushing and reading overlap. A small file is read when it is complete.
 */
#include "formats/safetensors_check.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/input.h"

enum { PIECE_BYTES = 1 << 18, THREAD_BYTES_LEAST = 8 << 20 };

/* Waits until the file has this number of bytes. Returns false if the writing ends earlier. */
static bool wait_for(bgi_read_back *back, uint64_t bytes)
{
    bool is_there;

    if (!back->is_running)
        return true;
    pthread_mutex_lock(&back->mutex);
    while (back->written_bytes < bytes && !back->is_over)
        pthread_cond_wait(&back->changed, &back->mutex);
    is_there = back->written_bytes >= bytes;
    pthread_mutex_unlock(&back->mutex);
    return is_there;
}

static bg_status read_values(bgi_read_back *back, const bgi_input *input, bg_error *error)
{
    uint64_t from = back->data_begin;

    for (size_t i = 0; i < back->count; i++) {
        const size_t size_bytes = bg_type_size_bytes(&back->sorted[i]->type);

        for (size_t at = 0, some; at < size_bytes; at += some) {
            some = size_bytes - at < PIECE_BYTES ? size_bytes - at : PIECE_BYTES;
            if (!wait_for(back, from + some))
                return BG_OK; /* the writer reports the reason */
            BGI_TRY(bgi_input_read(input, from, back->piece, some, error));
            back->read(back->user, (size_t)(back->sorted[i] - back->entries), back->piece, some);
            from += some;
        }
    }
    return BG_OK;
}

static void read_all(void *user)
{
    bgi_read_back *back = user;
    bgi_input input = {.name = NULL};

    back->status = bgi_input_open(&input, back->path, &back->error);
    if (back->status == BG_OK)
        back->status = read_values(back, &input, &back->error);
    bgi_input_close(&input);
}

static bool start_thread(bgi_read_back *back)
{
    if (pthread_mutex_init(&back->mutex, NULL) != 0)
        return false;
    if (pthread_cond_init(&back->changed, NULL) == 0) {
        back->is_running = true; /* set before the start, because the thread reads it */
        if (bgi_thread_start(&back->thread, back->threads, read_all, back) == 0)
            return true;
        back->is_running = false;
        pthread_cond_destroy(&back->changed);
    }
    pthread_mutex_destroy(&back->mutex);
    return false;
}

bg_status bgi_read_back_begin(bgi_read_back *back, bg_error *error)
{
    uint64_t all = 0;

    if (back->read == NULL)
        return BG_OK;
    back->piece = malloc(PIECE_BYTES);
    if (back->piece == NULL)
        return bgi_error_memory(error, "a part of a file", PIECE_BYTES);
    for (size_t i = 0; i < back->count; i++)
        all += bg_type_size_bytes(&back->sorted[i]->type);
    if (all >= THREAD_BYTES_LEAST)
        start_thread(back); /* without a thread the file is read at the end */
    return BG_OK;
}

void bgi_read_back_advance(bgi_read_back *back, uint64_t written_bytes)
{
    if (!back->is_running)
        return;
    pthread_mutex_lock(&back->mutex);
    back->written_bytes = written_bytes;
    pthread_cond_signal(&back->changed);
    pthread_mutex_unlock(&back->mutex);
}

bg_status bgi_read_back_end(bgi_read_back *back, bool is_whole, bg_error *error)
{
    if (back->piece == NULL)
        return BG_OK;
    if (back->is_running) {
        pthread_mutex_lock(&back->mutex);
        back->written_bytes = is_whole ? UINT64_MAX : back->written_bytes;
        back->is_over = true;
        pthread_cond_signal(&back->changed);
        pthread_mutex_unlock(&back->mutex);
        bgi_thread_join(&back->thread);
        pthread_cond_destroy(&back->changed);
        pthread_mutex_destroy(&back->mutex);
    } else if (is_whole) {
        read_all(back);
    }
    free(back->piece);
    return back->status == BG_OK ? BG_OK : bg_error_set(error, back->status, "%s", back->error.message);
}
