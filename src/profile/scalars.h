/*
 * scalars.h: writes event files with named numbers for each step, which TensorBoard draws.
 */
#ifndef BGI_PROFILE_SCALARS_H
#define BGI_PROFILE_SCALARS_H

#include <brigade/base.h>

#include <stdio.h>

/* A zeroed struct is a closed file. */
typedef struct bgi_event_file {
    FILE *stream;
    char *path;
} bgi_event_file;

typedef struct bgi_scalar {
    const char *tag; /* such as "loss"; truncated to BGI_SCALAR_TAG_BYTES */
    double value;    /* stored as float32 */
} bgi_scalar;

enum { BGI_SCALAR_TAG_BYTES = 64, BGI_SCALARS_MOST = 16 };

/* Creates the folder, and FOLDER/events.out.tfevents.<seconds>.brigade.<unique>. Times are seconds since 1970. Errors:
 * BG_ERROR_IO, BG_ERROR_MEMORY. */
bg_status bgi_event_file_open(bgi_event_file *file, const char *folder, double wall_time_s, uint64_t unique,
                              bg_error *error);
/* Adds at most BGI_SCALARS_MOST numbers of one step, which are in the file when the function returns. */
bg_status bgi_event_file_add(bgi_event_file *file, uint64_t step, double wall_time_s, const bgi_scalar *scalars,
                             uint32_t count, bg_error *error);
bg_status bgi_event_file_close(bgi_event_file *file, bg_error *error);

#endif
