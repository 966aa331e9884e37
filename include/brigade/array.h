/*
 * array.h: a dense array that owns its memory.
 *
 * Threads: one thread at a time uses an array.
 */
#ifndef BRIGADE_ARRAY_H
#define BRIGADE_ARRAY_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A dense row-major array that owns its memory. All-zero is valid and empty. */
typedef struct bg_array {
    bg_type type;
    void *data; /* malloc'ed */
} bg_array;

/* Sets *array to a new array of `type`, filled with zeros; the old memory of *array is not freed. Errors:
 * BG_ERROR_SHAPE, BG_ERROR_MEMORY. */
BG_API bg_status bg_array_init(bg_array *array, const bg_type *type, bg_error *error);

/* Frees the memory and zeroes the struct. */
BG_API void bg_array_clear(bg_array *array);

#ifdef __cplusplus
}
#endif

#endif
