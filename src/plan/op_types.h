/*
 * op_types.h: the library's op types by name, for plans that are read back.
 */
#ifndef BGI_PLAN_OP_TYPES_H
#define BGI_PLAN_OP_TYPES_H

#include <brigade/graph.h>

/* The library's op type of that name; NULL: there is none. */
const bg_op_type *bgi_op_type_find(const char *name);
/* Whether a plan with such ops can be kept: the library's own types, and users' that have a revision. */
bool bgi_op_type_is_kept(const bg_op_type *type);

#endif
