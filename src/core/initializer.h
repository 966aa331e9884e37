/*
 * initializer.h: checks the first values that a tensor can have (bg_initializer); other files compute them.
 */
#ifndef BGI_CORE_INITIALIZER_H
#define BGI_CORE_INITIALIZER_H

#include <brigade/graph.h>

/* Checks that the initializer's kind exists and supports tensors of this rank. Shards have the rank of their whole
 * tensor. */
bg_status bgi_initializer_check_rank(const bg_initializer *initializer, uint32_t rank, const char *name,
                                     bg_error *error);
/* Does the same, and checks that the initializer's numbers are valid for the whole tensor. Errors: BG_ERROR_INVALID,
 * BG_ERROR_SHAPE. */
bg_status bgi_initializer_check(const bg_initializer *initializer, const bg_type *whole, const char *name,
                                bg_error *error);

#endif
