/*
 * initialise.h: first values of variables.
 */
#ifndef BGI_RUNTIME_INITIALISE_H
#define BGI_RUNTIME_INITIALISE_H

#include <brigade/graph.h>

/* Fills `data`: element e is a function of (seed, number, e). */
void bgi_initialise(const bg_type *type, const bg_initialiser *initialiser, uint64_t seed, uint32_t number, void *data);

#endif
