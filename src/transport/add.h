/*
 * add.h: sums several members' elements in one pass: nothing is copied first, and the result is written once.
 */
#ifndef BGI_TRANSPORT_ADD_H
#define BGI_TRANSPORT_ADD_H

#include <stddef.h>
#include <stdint.h>

#include "core/isa.h"

/* Computes to[i] = ((terms[0][i] + terms[1][i]) + terms[2][i]) + ..., each sum rounded to float. There is at least one
 * term. `to` may be one of the terms, or overlap a term that begins after `to`. */
typedef void (*bgi_add)(float *to, const float *const *terms, uint32_t term_count, size_t count);

/* Returns the form with the widest registers that `isa` has. All forms give bit-identical results. */
bgi_add bgi_add_choose(bgi_isa isa);

/* Return the form for an instruction set; NULL if the compiler does not support the set. */
bgi_add bgi_add_avx2(void);
bgi_add bgi_add_avx512(void);

#endif
