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

/* For parameters of public functions: an error that names the function and the parameter when `pointer` is NULL. */
bg_status bgi_require(const void *pointer, const char *name, const char *function, bg_error *error);

/* ---- structs that callers fill: struct_bytes (base.h) ---- */

/* What an _init function made, as far as the caller's struct has room for it; zeros behind it. */
void bgi_struct_fill(void *options, size_t struct_bytes, const void *made, size_t made_bytes);
/* Whether the caller's struct is of this release. `maker` makes it, for the error; NULL: it may begin as all-zero, and
 * struct_bytes 0 is this release's size. */
bg_status bgi_struct_check(size_t struct_bytes, size_t own_bytes, const char *type, const char *maker, bg_error *error);

/* What a callback's failure is without a message of its own: "the source reported 'i/o error' without a message". One
 * that it left stays. Returns the status. */
bg_status bgi_error_unexplained(bg_error *error, bg_status status, const char *who);

/* The one message for an allocation that failed. */
bg_status bgi_error_memory(bg_error *error, const char *what, size_t size_bytes);

#endif
