/*
 * levels.h: converts bytes to float32 by a table of 256 values, at the speed of memory.
 *
 * The table is the definition: level[x] = ((x / 255) - mean) / deviation, each operation rounded. A look-up for each
 * pixel is slower than memory, and two divisions are slower still. So the fast form computes the quotients by
 * multiplications, a whole vector at a time, and corrects each by its remainder. This is Markstein's division: q = a y,
 * then q + (a - q b) y, with y the rounded 1 / b and fused multiply-adds. It gives the rounded quotient for almost
 * every divisor. When a table is made, the fast form therefore computes all 256 levels, and it is used only if every
 * bit agrees.
 */
#ifndef BGI_DATA_LEVELS_H
#define BGI_DATA_LEVELS_H

#include "core/isa.h"

#include <stdbool.h>
#include <stddef.h>

enum { BGI_LEVELS = 256 };

typedef struct bgi_levels {
    float mean, deviation, reciprocal; /* the rounded 1 / deviation */
    float scale;                       /* 1 / 255 */
    float table[BGI_LEVELS];
    void (*convert)(const struct bgi_levels *levels, const unsigned char *bytes, size_t count, float *out);
} bgi_levels;

/* Makes the table, and chooses a fast form for an instruction set up to `isa`. */
void bgi_levels_init(bgi_levels *levels, float mean, float deviation, bgi_isa isa);

/* Converts bytes. The functions below return the fast form for an instruction set, or NULL if it was not compiled. */
typedef void (*bgi_levels_convert)(const bgi_levels *levels, const unsigned char *bytes, size_t count, float *out);
bgi_levels_convert bgi_levels_avx512(void);
bgi_levels_convert bgi_levels_avx2(void);

#endif
