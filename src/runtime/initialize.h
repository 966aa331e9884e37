/*
 * initialize.h: first values of variables.
 */
#ifndef BGI_RUNTIME_INITIALIZE_H
#define BGI_RUNTIME_INITIALIZE_H

#include <brigade/graph.h>

/* Fills `data`: element e is a function of (seed, number, e), whatever the number of threads that share the work. */
void bgi_initialize(const bg_type *type, const bg_initializer *initializer, uint64_t seed, uint32_t number,
                    uint32_t threads, void *data);
/* Elements first .. first + count - 1 alone, to data[0] and on. */
void bgi_initialize_range(bg_dtype dtype, const bg_initializer *initializer, uint64_t seed, uint32_t number,
                          int64_t first, int64_t count, uint32_t threads, void *data);

#endif
