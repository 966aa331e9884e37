/*
 * safetensors_check.h: reads the values of a file back while it is being written.
 *
 *     begin --> advance, advance, ... --> end
 */
#ifndef BGI_FORMATS_SAFETENSORS_CHECK_H
#define BGI_FORMATS_SAFETENSORS_CHECK_H

#include <brigade/safetensors.h>

#include "core/threads.h"

/* The caller sets the fields up to `threads`, and zeroes the others. */
typedef struct bgi_read_back {
    const char *path;
    uint64_t data_begin;                 /* offset of the values in the file */
    const bg_safetensors_entry *entries; /* in the order of the indices for `read` */
    const bg_safetensors_entry **sorted; /* sorted as in the file */
    size_t count;
    void (*read)(void *user, size_t entry, const void *data, size_t size_bytes); /* NULL: nothing is read */
    void *user;
    const bgi_thread_source *threads; /* NULL: the system */

    unsigned char *piece; /* NULL: nothing is read */
    bool is_running;      /* a thread reads the file; otherwise `end` does */
    bgi_thread thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t written_bytes; /* number of written bytes; guarded by the mutex, like is_over */
    bool is_over;           /* no more bytes are written */
    bg_status status;
    bg_error error;
} bgi_read_back;

/* Begins to read back. After an error bgi_read_back_end must not be called. */
bg_status bgi_read_back_begin(bgi_read_back *back, bg_error *error);
/* Reports that the file has this number of bytes, which other descriptors can read too. */
void bgi_read_back_advance(bgi_read_back *back, uint64_t written_bytes);
/* Ends the reading. If `is_whole` is true, everything was written, and the remaining bytes are read first. */
bg_status bgi_read_back_end(bgi_read_back *back, bool is_whole, bg_error *error);

#endif
