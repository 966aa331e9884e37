/*
 * error.h: the two macros that carry failures inside the library. Nothing else is hidden in macros.
 */
#ifndef BGI_CORE_ERROR_H
#define BGI_CORE_ERROR_H

#include <brigade/base.h>

/* Returns from the calling function when `expression` is not BG_OK. */
#define BGI_TRY(expression)                                                                                            \
    do {                                                                                                               \
        const bg_status bgi_status_ = (expression);                                                                    \
        if (bgi_status_ != BG_OK)                                                                                      \
            return bgi_status_;                                                                                        \
    } while (0)

/* Stores the status in the local `status` and jumps to `cleanup` when `expression` is not BG_OK. */
#define BGI_TRY_CLEANUP(expression)                                                                                    \
    do {                                                                                                               \
        status = (expression);                                                                                         \
        if (status != BG_OK)                                                                                           \
            goto cleanup;                                                                                              \
    } while (0)

/* The one message for an allocation that failed. */
bg_status bgi_error_memory(bg_error *error, const char *what, size_t size_bytes);

#endif
