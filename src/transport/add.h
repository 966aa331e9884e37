/*
 * add.h: sums several members' elements in one pass: nothing is copied first, and the result is written once.
 */
#ifndef BGI_TRANSPORT_ADD_H
#define BGI_TRANSPORT_ADD_H

#include <stddef.h>
#include <stdint.h>

#include "core/isa.h"

/* to[i] = ((terms[0][i] + terms[1][i]) + terms[2][i]) + ..., each sum rounded to float. There is at least one term.
 * `to` may be one of the terms, or begin before one that it overlaps. */
typedef void (*bgi_add)(float *to, const float *const *terms, uint32_t term_count, size_t count);

/* Uses the widest registers that `isa` has. All forms give bit-identical results. */
bgi_add bgi_add_choose(bgi_isa isa);

/* The form as compiled for an instruction set; NULL where the compiler has none. */
bgi_add bgi_add_avx2(void);
bgi_add bgi_add_avx512(void);

#endif
