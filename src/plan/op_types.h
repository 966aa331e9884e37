/*
 * op_types.h: finds the library's op types by name, for plans that are read from files.
 */
#ifndef BGI_PLAN_OP_TYPES_H
#define BGI_PLAN_OP_TYPES_H

#include <brigade/graph.h>

/* Finds the library's op type of that name; returns NULL if there is none. */
const bg_op_type *bgi_op_type_find(const char *name);
/* Whether a plan with ops of this type can be stored: the type is the library's, or a user's with a revision. */
bool bgi_op_type_is_kept(const bg_op_type *type);

#endif
