/*
 * orthogonal.h: orthonormal sets of vectors, for first values.
 */
#ifndef BGI_RUNTIME_ORTHOGONAL_H
#define BGI_RUNTIME_ORTHOGONAL_H

#include <stdint.h>

/* Orthonormalizes vectors of `length` elements, one after another, at most `length` of them: vector i becomes its
 * remainder without its parts along the vectors before it. That is Q of a QR decomposition whose R has a positive
 * diagonal. The number of threads does not change results. */
void bgi_orthonormalize(double *vectors, int64_t count, int64_t length, uint32_t threads);

#endif
