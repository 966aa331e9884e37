/*
 * array.c: implements a typed array with a shape.
 */
#include "core/error.h"

#include <brigade/array.h>

#include <stdlib.h>
#include <string.h>

bg_status bg_array_init(bg_array *array, const bg_type *type, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(array, "array", __func__, error));
    BGI_TRY(bgi_require(type, "type", __func__, error));

    size_t size_bytes;
    void *data;

    BGI_TRY(bg_type_validate(type, error));
    size_bytes = bg_type_size_bytes(type);
    data = calloc(1, size_bytes);
    if (data == NULL)
        return bgi_error_memory(error, "an array", size_bytes);
    array->type = *type;
    array->data = data;
    return BG_OK;
}

void bg_array_clear(bg_array *array)
{
    free(array->data);
    memset(array, 0, sizeof *array);
}
