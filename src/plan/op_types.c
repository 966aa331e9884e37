/*
 * op_types.c: lists the library's op types in a table. The op of loops inside graphs is not in the table, because its
 * attributes refer to graphs.
 */
#include "plan/op_types.h"

#include <string.h>

#include "ops/ops.h"
#include "transform/transform.h"

#define ADDRESS(name) &bgi_op_##name,
static const bg_op_type *const types[] = {BGI_OP_TYPES(ADDRESS) & bgi_op_load, &bgi_op_store, &bgi_op_refresh,
                                          &bgi_op_carry};
#undef ADDRESS

const bg_op_type *bgi_op_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

bool bgi_op_type_is_kept(const bg_op_type *type)
{
    return type->revision != 0 || bgi_op_type_find(type->name) == type;
}
