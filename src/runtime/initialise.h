/*
 * initialise.h: first values of variables.
 */
#ifndef BGI_RUNTIME_INITIALISE_H
#define BGI_RUNTIME_INITIALISE_H

#include <brigade/graph.h>

/* Fills `data`: element e is a function of (seed, number, e), whatever the number of threads that share the work. */
void bgi_initialise(const bg_type *type, const bg_initialiser *initialiser, uint64_t seed, uint32_t number,
                    uint32_t threads, void *data);

#endif
