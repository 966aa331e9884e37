/*
 * orthogonal.h: makes orthonormal sets of vectors, for first values.
 */
#ifndef BGI_RUNTIME_ORTHOGONAL_H
#define BGI_RUNTIME_ORTHOGONAL_H

#include <stdint.h>

/* Orthonormalizes at most `length` vectors of `length` elements, one after another: vector i loses its components along
 * the vectors before it and is normalized. The result is Q of a QR decomposition whose R has a positive diagonal. The
 * number of threads does not change results. */
void bgi_orthonormalize(double *vectors, int64_t count, int64_t length, uint32_t threads);

#endif
