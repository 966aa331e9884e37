/*
 * error.h: defines the two macros that propagate failures inside the library, and declares functions that make errors.
 * No other macro hides a return or a jump.
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

/* For parameters of public functions: returns an error that names the function and the parameter if `pointer` is
 * NULL. */
bg_status bgi_require(const void *pointer, const char *name, const char *function, bg_error *error);

/* ---- structs that callers fill: struct_bytes (base.h) ---- */

/* Copies the struct of an _init function up to the size of the caller's struct, and fills further bytes of the caller's
 * struct with zeros. */
void bgi_struct_fill(void *options, size_t struct_bytes, const void *made, size_t made_bytes);
/* Checks that the caller's struct is that of this release. `maker` is the function that makes the struct, for the
 * error. If it is NULL, the struct may be zeroed, and struct_bytes 0 means this release's size. */
bg_status bgi_struct_check(size_t struct_bytes, size_t own_bytes, const char *type, const char *maker, bg_error *error);

/* Fills an error for a callback that failed without a message: "the source reported 'io' without a message". An
 * existing message stays. Returns the status. */
bg_status bgi_error_unexplained(bg_error *error, bg_status status, const char *who);

/* Fills the error of a failed allocation. */
bg_status bgi_error_memory(bg_error *error, const char *what, size_t size_bytes);

#endif
