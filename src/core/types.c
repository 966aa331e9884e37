/*
 * types.c: describes element types and shapes.
 */
#include "core/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size_bytes;
    bool is_float;
} dtypes[BG_DTYPE_COUNT] = {
    [BG_DTYPE_NONE] = {"none", 0, false}, [BG_FLOAT32] = {"float32", 4, true}, [BG_BFLOAT16] = {"bfloat16", 2, true},
    [BG_FLOAT64] = {"float64", 8, true},  [BG_INT32] = {"int32", 4, false},    [BG_UINT8] = {"uint8", 1, false},
    [BG_FLOAT16] = {"float16", 2, true},  [BG_INT64] = {"int64", 8, false},
};

static bool dtype_is_known(bg_dtype dtype)
{
    return (unsigned)dtype < BG_DTYPE_COUNT;
}

size_t bg_dtype_size_bytes(bg_dtype dtype)
{
    return dtype_is_known(dtype) ? dtypes[dtype].size_bytes : 0;
}

const char *bg_dtype_name(bg_dtype dtype)
{
    return dtypes[dtype_is_known(dtype) ? dtype : BG_DTYPE_NONE].name;
}

bg_dtype bg_dtype_find(const char *name)
{
    for (bg_dtype dtype = BG_FLOAT32; dtype < BG_DTYPE_COUNT; dtype++)
        if (strcmp(dtypes[dtype].name, name) == 0)
            return dtype;
    return BG_DTYPE_NONE;
}

bool bg_dtype_is_float(bg_dtype dtype)
{
    return dtype_is_known(dtype) && dtypes[dtype].is_float;
}

bg_type bg_type_make(bg_dtype dtype, uint32_t rank, const int64_t *dims)
{
    bg_type type = {.dtype = dtype, .rank = rank};

    for (uint32_t i = 0; i < rank && i < BG_MAX_RANK; i++)
        type.dims[i] = dims[i];
    return type;
}

bg_type bg_scalar(bg_dtype dtype)
{
    return bg_type_make(dtype, 0, NULL);
}

bg_type bg_vector(bg_dtype dtype, int64_t d0)
{
    return bg_type_make(dtype, 1, &d0);
}

bg_type bg_matrix(bg_dtype dtype, int64_t d0, int64_t d1)
{
    const int64_t dims[] = {d0, d1};
    return bg_type_make(dtype, 2, dims);
}

bg_type bg_tensor3(bg_dtype dtype, int64_t d0, int64_t d1, int64_t d2)
{
    const int64_t dims[] = {d0, d1, d2};
    return bg_type_make(dtype, 3, dims);
}

bg_type bg_tensor4(bg_dtype dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    const int64_t dims[] = {d0, d1, d2, d3};
    return bg_type_make(dtype, 4, dims);
}

int64_t bg_type_element_count(const bg_type *type)
{
    int64_t count = 1;

    for (uint32_t i = 0; i < type->rank; i++)
        count *= type->dims[i];
    return count;
}

size_t bg_type_size_bytes(const bg_type *type)
{
    return (size_t)bg_type_element_count(type) * bg_dtype_size_bytes(type->dtype);
}

bool bg_type_equal(const bg_type *a, const bg_type *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

bg_status bg_type_validate(const bg_type *type, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(type, "type", __func__, error));

    int64_t size = (int64_t)bg_dtype_size_bytes(type->dtype);

    if (size == 0)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "element type %d is not one of float32, bfloat16, float16, float64, int32, int64, uint8",
                            (int)type->dtype);
    if (type->rank > BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_SHAPE, "rank %" PRIu32 " is above the limit of %d", type->rank,
                            BG_MAX_RANK);
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->dims[i] < 1)
            return bg_error_set(error, BG_ERROR_SHAPE, "dimension %" PRIu32 " is %" PRId64 "; it must be at least 1", i,
                                type->dims[i]);
        if (size > INT64_MAX / type->dims[i])
            return bg_error_set(
                error, BG_ERROR_SHAPE,
                "the shape has more than 2^63 - 1 bytes at dimension %" PRIu32 "; use smaller dimensions", i);
        size *= type->dims[i];
    }
    return BG_OK;
}

const char *bg_type_text(const bg_type *type, char *text)
{
    size_t at = (size_t)snprintf(text, BG_TYPE_TEXT_BYTES, "%s[", bg_dtype_name(type->dtype));

    for (uint32_t i = 0; i < type->rank && i < BG_MAX_RANK && at < BG_TYPE_TEXT_BYTES; i++)
        at += (size_t)snprintf(text + at, BG_TYPE_TEXT_BYTES - at, "%s%" PRId64, i == 0 ? "" : ",", type->dims[i]);
    if (at < BG_TYPE_TEXT_BYTES)
        snprintf(text + at, BG_TYPE_TEXT_BYTES - at, "]");
    return text;
}
