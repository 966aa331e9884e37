/*
 * progress.h: asks a caller's progress callback, before each part of long work, whether to continue.
 */
#ifndef BGI_CORE_PROGRESS_H
#define BGI_CORE_PROGRESS_H

#include <brigade/base.h>

/* The progress of one operation, in its own units: passes, bytes or files. */
typedef struct bgi_progress {
    bg_progress_function call; /* NULL: no callback */
    void *user;
    const char *work; /* for messages: "the plan" */
    uint64_t done, total;
} bgi_progress;

/* Begins a part of `units` units: calls the callback with the number of units of earlier parts. Returns
 * BG_ERROR_CANCELED if the callback cancels; the caller must then not do the part. `progress` may be NULL. */
bg_status bgi_progress_begin(bgi_progress *progress, const char *part, uint64_t units, bg_error *error);

#endif
