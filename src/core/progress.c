/*
 * progress.c: calls a progress callback, and reports when it cancels.
 */
#include "core/progress.h"

#include <inttypes.h>

bg_status bgi_progress_begin(bgi_progress *progress, const char *part, uint64_t units, bg_error *error)
{
    const uint64_t done = progress != NULL ? progress->done : 0;

    if (progress == NULL || progress->call == NULL)
        return BG_OK;
    progress->done += units;
    if (!progress->call(progress->user, part, done, progress->total))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_CANCELED,
                        "progress canceled %s before `%.200s`, with %" PRIu64 " of %" PRIu64 " done", progress->work,
                        part, done, progress->total);
}
