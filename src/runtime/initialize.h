/*
 * initialize.h: computes the first values of variables.
 */
#ifndef BGI_RUNTIME_INITIALIZE_H
#define BGI_RUNTIME_INITIALIZE_H

#include <brigade/graph.h>

/* The first values of one tensor: element e is a function of (seed, number, e, the whole tensor's shape), for any
 * number of threads. */
typedef struct bgi_first_values {
    bg_type whole;
    bg_initializer initializer;
    uint64_t seed;
    uint32_t number, threads;
    /* The common part of kinds whose elements depend on each other: the vectors of "orthogonal", or the zero elements
     * of "sparse". */
    double *vectors;
    uint8_t *zeros;
} bgi_first_values;

/* Prepares the values of one tensor; `name` is for error messages. Errors: those of bgi_initializer_check,
 * BG_ERROR_UNSUPPORTED (too many rows for "sparse"), BG_ERROR_MEMORY. */
bg_status bgi_first_values_init(bgi_first_values *values, const bg_type *whole, const bg_initializer *initializer,
                                const char *name, uint64_t seed, uint32_t number, uint32_t threads, bg_error *error);
/* Writes elements first .. first + count - 1, beginning at data[0]. */
void bgi_first_values_fill(const bgi_first_values *values, int64_t first, int64_t count, void *data);
void bgi_first_values_clear(bgi_first_values *values);

/* Writes the first values of a whole tensor. */
bg_status bgi_initialize(const bg_type *type, const bg_initializer *initializer, const char *name, uint64_t seed,
                         uint32_t number, uint32_t threads, void *data, bg_error *error);

#endif
