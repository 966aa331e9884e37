/*
 * tensor.c: reads tensors of a file in the element types of graphs. A tensor's values are raw bytes, a list for its
 * type, or bytes of another file in the model's folder. Files are little-endian, and the machine must be too.
 */
#define _XOPEN_SOURCE 700 /* realpath */

#include "onnx/onnx.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/input.h"
#include "core/narrow.h"

static const struct {
    const char *name;
    bg_dtype dtype;
    size_t bytes; /* in files */
} elements[BGI_ONNX_ELEMENT_COUNT] = {
    [BGI_ONNX_UNDEFINED] = {"undefined", BG_DTYPE_NONE, 0},
    [BGI_ONNX_FLOAT] = {"float", BG_FLOAT32, 4},
    [BGI_ONNX_UINT8] = {"uint8", BG_UINT8, 1},
    [BGI_ONNX_INT8] = {"int8", BG_INT32, 1},
    [BGI_ONNX_UINT16] = {"uint16", BG_INT32, 2},
    [BGI_ONNX_INT16] = {"int16", BG_INT32, 2},
    [BGI_ONNX_INT32] = {"int32", BG_INT32, 4},
    [BGI_ONNX_INT64] = {"int64", BG_INT64, 8},
    [BGI_ONNX_STRING] = {"string", BG_DTYPE_NONE, 0},
    [BGI_ONNX_BOOL] = {"bool", BG_UINT8, 1},
    [BGI_ONNX_FLOAT16] = {"float16", BG_FLOAT16, 2},
    [BGI_ONNX_DOUBLE] = {"double", BG_FLOAT64, 8},
    [BGI_ONNX_UINT32] = {"uint32", BG_INT64, 4},
    [BGI_ONNX_UINT64] = {"uint64", BG_INT64, 8},
    [BGI_ONNX_COMPLEX64] = {"complex64", BG_DTYPE_NONE, 0},
    [BGI_ONNX_COMPLEX128] = {"complex128", BG_DTYPE_NONE, 0},
    [BGI_ONNX_BFLOAT16] = {"bfloat16", BG_BFLOAT16, 2},
};

static bool is_element(int32_t element)
{
    return element > BGI_ONNX_UNDEFINED && element < BGI_ONNX_ELEMENT_COUNT;
}

const char *bgi_onnx_element_name(int32_t element)
{
    return is_element(element) ? elements[element].name : "unknown";
}

bg_dtype bgi_onnx_element_dtype(int32_t element)
{
    return is_element(element) ? elements[element].dtype : BG_DTYPE_NONE;
}

bgi_onnx_element bgi_onnx_dtype_element(bg_dtype dtype)
{
    switch (dtype) {
    case BG_FLOAT32:
        return BGI_ONNX_FLOAT;
    case BG_BFLOAT16:
        return BGI_ONNX_BFLOAT16;
    case BG_FLOAT64:
        return BGI_ONNX_DOUBLE;
    case BG_INT32:
        return BGI_ONNX_INT32;
    case BG_UINT8:
        return BGI_ONNX_UINT8;
    case BG_FLOAT16:
        return BGI_ONNX_FLOAT16;
    case BG_INT64:
        return BGI_ONNX_INT64;
    default:
        return BGI_ONNX_UNDEFINED;
    }
}

bool bgi_onnx_element_is_float(int32_t element)
{
    return bg_dtype_is_float(bgi_onnx_element_dtype(element));
}

/* ---- known tensors ---- */

bool bgi_tensor_type(const bgi_tensor *tensor, bg_type *out)
{
    if (tensor->rank > BG_MAX_RANK || tensor->count < 1)
        return false;
    *out = bg_type_make(tensor->dtype, tensor->rank, tensor->dims);
    return true;
}

int64_t bgi_tensor_int(const bgi_tensor *tensor, int64_t index)
{
    switch (tensor->dtype) {
    case BG_INT32:
        return ((const int32_t *)tensor->data)[index];
    case BG_UINT8:
        return ((const uint8_t *)tensor->data)[index];
    case BG_INT64:
        return ((const int64_t *)tensor->data)[index];
    default:
        return (int64_t)bgi_tensor_real(tensor, index);
    }
}

double bgi_tensor_real(const bgi_tensor *tensor, int64_t index)
{
    switch (tensor->dtype) {
    case BG_FLOAT32:
        return ((const float *)tensor->data)[index];
    case BG_FLOAT64:
        return ((const double *)tensor->data)[index];
    case BG_BFLOAT16:
    case BG_FLOAT16:
        return bgi_narrow_to_float(tensor->dtype, ((const uint16_t *)tensor->data)[index]);
    case BG_INT32:
    case BG_UINT8:
    case BG_INT64:
        return (double)bgi_tensor_int(tensor, index);
    default:
        return 0.0;
    }
}

void bgi_tensor_set(bgi_tensor *tensor, int64_t index, double value)
{
    switch (tensor->dtype) {
    case BG_FLOAT32:
        ((float *)tensor->data)[index] = (float)value;
        break;
    case BG_FLOAT64:
        ((double *)tensor->data)[index] = value;
        break;
    case BG_BFLOAT16:
    case BG_FLOAT16:
        ((uint16_t *)tensor->data)[index] = bgi_narrow_from_float(tensor->dtype, (float)value);
        break;
    case BG_INT32:
        ((int32_t *)tensor->data)[index] = (int32_t)value;
        break;
    case BG_UINT8:
        ((uint8_t *)tensor->data)[index] = (uint8_t)value;
        break;
    case BG_INT64:
        ((int64_t *)tensor->data)[index] = (int64_t)value;
        break;
    default:
        break;
    }
}

bgi_tensor *bgi_tensor_make(bgi_arena *arena, int32_t element, uint32_t rank, const int64_t *dims)
{
    bgi_tensor *tensor = bgi_arena_allocate(arena, 1, sizeof *tensor);

    if (tensor == NULL)
        return NULL;
    tensor->element = element;
    tensor->dtype = bgi_onnx_element_dtype(element);
    tensor->rank = rank;
    tensor->count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        tensor->dims[i] = dims[i];
        tensor->count *= dims[i];
    }
    tensor->data = bgi_arena_allocate(arena, (size_t)tensor->count, bg_dtype_size_bytes(tensor->dtype));
    return tensor->data != NULL ? tensor : NULL;
}

/* ---- of files ---- */

static const char *name_of(const BgiOnnx__Tensor *tensor)
{
    return tensor->name != NULL ? tensor->name : "";
}

static bool is_external(const BgiOnnx__Tensor *tensor)
{
    return tensor->has_data_location && tensor->data_location == 1;
}

/* Returns the number of values in the list for the tensor's type. */
static size_t listed(const BgiOnnx__Tensor *tensor)
{
    switch (tensor->data_type) {
    case BGI_ONNX_FLOAT:
        return tensor->n_float_data;
    case BGI_ONNX_DOUBLE:
        return tensor->n_double_data;
    case BGI_ONNX_INT64:
        return tensor->n_int64_data;
    case BGI_ONNX_UINT32:
    case BGI_ONNX_UINT64:
        return tensor->n_uint64_data;
    default:
        return tensor->n_int32_data;
    }
}

/* The location of external data. */
typedef struct place {
    char *path;
    uint64_t offset;
    bool has_length;
    uint64_t length;
} place;

static bg_status read_count(const char *tensor, const char *key, const char *text, uint64_t *out, bg_error *error)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *out <= INT64_MAX)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_PARSE,
                        "tensor `%s`: external data: %s is \"%.40s\" but must be a number of bytes", tensor, key, text);
}

/* Whether a relative path, as it is written, stays in its folder. */
static bool stays_inside(const char *location)
{
    if (location[0] == '/' || location[0] == '\0')
        return false;
    for (const char *part = location; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

/* Whether the path also stays in its folder when links are followed. */
static bool is_below(const char *path, const char *folder)
{
    char *real_path = realpath(path, NULL), *real_folder = realpath(folder[0] != '\0' ? folder : ".", NULL);
    bool result = false;

    if (real_path != NULL && real_folder != NULL) {
        const size_t length = strcmp(real_folder, "/") == 0 ? 0 : strlen(real_folder);
        result = strncmp(real_path, real_folder, length) == 0 && real_path[length] == '/';
    }
    free(real_path);
    free(real_folder);
    return result;
}

static bg_status find_place(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, place *out, bg_error *error)
{
    const char *name = name_of(tensor), *location = NULL;

    *out = (place){0};
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const BgiOnnx__Entry *entry = tensor->external_data[i];
        const char *key = entry->key != NULL ? entry->key : "", *value = entry->value != NULL ? entry->value : "";

        if (strcmp(key, "location") == 0)
            location = value;
        else if (strcmp(key, "offset") == 0)
            BGI_TRY(read_count(name, key, value, &out->offset, error));
        else if (strcmp(key, "length") == 0) {
            BGI_TRY(read_count(name, key, value, &out->length, error));
            out->has_length = true;
        }
    }
    if (location == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "tensor `%s`: external data have no location; they must name a file",
                            name);
    if (!stays_inside(location))
        return bg_error_set(
            error, BG_ERROR_PARSE,
            "tensor `%s`: external data: location is \"%.200s\" but must be a file in the model's folder", name,
            location);
    if (onnx->folder == NULL)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "tensor `%s`: external data are in \"%.200s\" but the model has no folder", name, location);
    out->path = bgi_path_join(onnx->folder, location);
    if (out->path == NULL)
        return bgi_error_memory(error, "a path", strlen(location));
    if (bgi_file_exists(out->path) && !is_below(out->path, onnx->folder)) {
        free(out->path);
        out->path = NULL;
        return bg_error_set(error, BG_ERROR_PARSE,
                            "tensor `%s`: external data: \"%.200s\" leads out of the model's folder", name, location);
    }
    return BG_OK;
}

/* Opens the file that holds a tensor's `size_bytes`. */
static bg_status open_place(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, uint64_t size_bytes, bgi_input *input,
                            uint64_t *offset, bg_error *error)
{
    place where;
    bg_status status = find_place(onnx, tensor, &where, error);

    if (status != BG_OK)
        return status;
    if (where.has_length && where.length != size_bytes)
        status = bg_error_set(error, BG_ERROR_PARSE,
                              "tensor `%s`: external data: length is %" PRIu64
                              " but its type and dimensions need %" PRIu64 " bytes",
                              name_of(tensor), where.length, size_bytes);
    if (status == BG_OK) {
        status = bgi_input_open(input, where.path, error);
        if (status != BG_OK)
            bg_error_context(error, status, "tensor `%s`", name_of(tensor));
    }
    if (status == BG_OK && (where.offset > input->size_bytes || size_bytes > input->size_bytes - where.offset)) {
        status = bg_error_set(error, BG_ERROR_PARSE,
                              "tensor `%s`: external data: %" PRIu64 " bytes at offset %" PRIu64
                              " do not fit %.200s, which has %" PRIu64,
                              name_of(tensor), size_bytes, where.offset, where.path, input->size_bytes);
        bgi_input_close(input);
    }
    *offset = where.offset;
    free(where.path);
    return status;
}

bg_status bgi_onnx_tensor_check(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, bgi_tensor *out, bg_error *error)
{
    const char *name = name_of(tensor);
    const int64_t limit = INT64_C(1) << 46;

    *out = (bgi_tensor){.element = tensor->data_type, .count = 1};
    if (!is_element(tensor->data_type))
        return bg_error_set(error, BG_ERROR_PARSE, "tensor `%s`: element type %d is not one of 1 to %d", name,
                            tensor->data_type, BGI_ONNX_ELEMENT_COUNT - 1);
    out->dtype = elements[tensor->data_type].dtype;
    if (tensor->n_dims > BGI_ONNX_MAX_RANK)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "tensor `%s` has %zu dimensions but at most %d are possible",
                            name, tensor->n_dims, BGI_ONNX_MAX_RANK);
    out->rank = (uint32_t)tensor->n_dims;
    for (uint32_t i = 0; i < out->rank; i++) {
        const int64_t dim = tensor->dims[i];

        if (dim < 0 || (dim > 0 && out->count > limit / dim))
            return bg_error_set(error, BG_ERROR_PARSE, "tensor `%s`: dimension %u is %" PRId64 " but must be 0 to 2^46",
                                name, i, dim);
        out->dims[i] = dim;
        out->count *= dim;
    }
    if (out->dtype == BG_DTYPE_NONE)
        return BG_OK; /* refused when a node uses the tensor */
    if (is_external(tensor)) {
        bgi_input input = {0};
        uint64_t offset;

        BGI_TRY(
            open_place(onnx, tensor, (uint64_t)out->count * elements[tensor->data_type].bytes, &input, &offset, error));
        bgi_input_close(&input);
        return BG_OK;
    }
    if (tensor->has_raw_data) {
        if (tensor->raw_data.len != (uint64_t)out->count * elements[tensor->data_type].bytes)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "tensor `%s` has %zu raw bytes but %" PRId64 " elements of type %s have %" PRIu64, name,
                                tensor->raw_data.len, out->count, elements[tensor->data_type].name,
                                (uint64_t)out->count * elements[tensor->data_type].bytes);
        return BG_OK;
    }
    if (listed(tensor) != (uint64_t)out->count)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "tensor `%s` has %zu values of type %s but its dimensions need %" PRId64, name,
                            listed(tensor), elements[tensor->data_type].name, out->count);
    return BG_OK;
}

static bg_status refuse_large(const BgiOnnx__Tensor *tensor, uint64_t value, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                        "tensor `%s` has the value %" PRIu64 " of type uint64 but at most 2^63 - 1 is possible",
                        name_of(tensor), value);
}

/* Converts bytes of a file, which need not be aligned, to the graph's type. `raw` may be the end of `out`. */
static bg_status widen(const BgiOnnx__Tensor *tensor, const unsigned char *raw, int64_t count, void *out,
                       bg_error *error)
{
    for (int64_t i = 0; i < count; i++) {
        switch (tensor->data_type) {
        case BGI_ONNX_INT8:
            ((int32_t *)out)[i] = (int8_t)raw[i];
            break;
        case BGI_ONNX_BOOL:
            ((uint8_t *)out)[i] = raw[i] != 0;
            break;
        case BGI_ONNX_UINT16: {
            uint16_t value;
            memcpy(&value, raw + 2 * i, 2);
            ((int32_t *)out)[i] = value;
            break;
        }
        case BGI_ONNX_INT16: {
            int16_t value;
            memcpy(&value, raw + 2 * i, 2);
            ((int32_t *)out)[i] = value;
            break;
        }
        case BGI_ONNX_UINT32: {
            uint32_t value;
            memcpy(&value, raw + 4 * i, 4);
            ((int64_t *)out)[i] = value;
            break;
        }
        default: {
            uint64_t value;
            memcpy(&value, raw + 8 * i, 8);
            if (value > INT64_MAX)
                return refuse_large(tensor, value, error);
            ((int64_t *)out)[i] = (int64_t)value;
        }
        }
    }
    return BG_OK;
}

/* Whether files and graphs store the element type in the same way. */
static bool is_plain(int32_t element)
{
    return element != BGI_ONNX_BOOL && element != BGI_ONNX_UINT64 &&
           elements[element].bytes == bg_dtype_size_bytes(elements[element].dtype);
}

static bg_status read_external(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, int64_t count, void *out,
                               bg_error *error)
{
    const size_t size = (size_t)count * elements[tensor->data_type].bytes;
    const bool plain = is_plain(tensor->data_type);
    unsigned char *raw = plain ? out : malloc(size + 1);
    bgi_input input = {0};
    uint64_t offset = 0;
    bg_status status = raw == NULL ? bgi_error_memory(error, name_of(tensor), size) : BG_OK;

    if (status == BG_OK)
        status = open_place(onnx, tensor, size, &input, &offset, error);
    if (status == BG_OK) {
        status = bgi_input_read(&input, offset, raw, size, error);
        bgi_input_close(&input);
    }
    if (status == BG_OK && !plain)
        status = widen(tensor, raw, count, out, error);
    if (!plain)
        free(raw);
    return status;
}

static bg_status read_list(const BgiOnnx__Tensor *tensor, int64_t count, void *out, bg_error *error)
{
    for (int64_t i = 0; i < count; i++) {
        switch (tensor->data_type) {
        case BGI_ONNX_FLOAT:
            ((float *)out)[i] = tensor->float_data[i];
            break;
        case BGI_ONNX_DOUBLE:
            ((double *)out)[i] = tensor->double_data[i];
            break;
        case BGI_ONNX_INT64:
            ((int64_t *)out)[i] = tensor->int64_data[i];
            break;
        case BGI_ONNX_UINT32:
        case BGI_ONNX_UINT64:
            if (tensor->uint64_data[i] > INT64_MAX)
                return refuse_large(tensor, tensor->uint64_data[i], error);
            ((int64_t *)out)[i] = (int64_t)tensor->uint64_data[i];
            break;
        case BGI_ONNX_FLOAT16:
        case BGI_ONNX_BFLOAT16:
            ((uint16_t *)out)[i] = (uint16_t)tensor->int32_data[i];
            break;
        case BGI_ONNX_BOOL:
            ((uint8_t *)out)[i] = tensor->int32_data[i] != 0;
            break;
        case BGI_ONNX_UINT8:
            ((uint8_t *)out)[i] = (uint8_t)tensor->int32_data[i];
            break;
        default:
            ((int32_t *)out)[i] = tensor->int32_data[i];
        }
    }
    return BG_OK;
}

bg_status bgi_onnx_tensor_read(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, const bgi_tensor *type, void *out,
                               bg_error *error)
{
    if (type->dtype == BG_DTYPE_NONE)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "tensor `%s` has elements of type %s, which graphs do not have", name_of(tensor),
                            bgi_onnx_element_name(type->element));
    if (is_external(tensor))
        return read_external(onnx, tensor, type->count, out, error);
    if (!tensor->has_raw_data)
        return read_list(tensor, type->count, out, error);
    if (!is_plain(tensor->data_type))
        return widen(tensor, tensor->raw_data.data, type->count, out, error);
    if (tensor->raw_data.len > 0)
        memcpy(out, tensor->raw_data.data, tensor->raw_data.len);
    return BG_OK;
}

bg_status bgi_onnx_tensor_load(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, bgi_arena *arena,
                               const bgi_tensor **out, bg_error *error)
{
    bgi_tensor type, *made;

    BGI_TRY(bgi_onnx_tensor_check(onnx, tensor, &type, error));
    if (type.dtype == BG_DTYPE_NONE)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "tensor `%s` has elements of type %s, which graphs do not have", name_of(tensor),
                            bgi_onnx_element_name(type.element));
    made = bgi_tensor_make(arena, type.element, type.rank, type.dims);
    if (made == NULL)
        return bgi_error_memory(error, name_of(tensor), (size_t)type.count * bg_dtype_size_bytes(type.dtype));
    BGI_TRY(bgi_onnx_tensor_read(onnx, tensor, &type, made->data, error));
    *out = made;
    return BG_OK;
}

bg_status bgi_onnx_tensor_bytes(int32_t element, bg_dtype dtype, const void *values, int64_t count, void **out,
                                size_t *out_size, bg_error *error)
{
    const bgi_tensor from = {.element = element, .dtype = dtype, .count = count, .data = (void *)(uintptr_t)values};
    bgi_tensor to = {.element = element, .dtype = bgi_onnx_element_dtype(element), .count = count};

    *out_size = (size_t)count * elements[element].bytes;
    to.data = malloc(*out_size + 1);
    if (to.data == NULL)
        return bgi_error_memory(error, "a tensor", *out_size);
    if (dtype == to.dtype)
        memcpy(to.data, values, *out_size);
    else
        for (int64_t i = 0; i < count; i++)
            bgi_tensor_set(&to, i, bgi_tensor_real(&from, i));
    *out = to.data;
    return BG_OK;
}

size_t bgi_onnx_element_bytes(int32_t element)
{
    return is_element(element) ? elements[element].bytes : 0;
}

bool bgi_onnx_tensor_is_external(const BgiOnnx__Tensor *tensor)
{
    return is_external(tensor);
}

bg_status bgi_onnx_tensor_raw(const bg_onnx *onnx, const BgiOnnx__Tensor *tensor, void **out, size_t *out_size,
                              bg_error *error)
{
    bgi_tensor type;
    bgi_input input = {0};
    uint64_t offset;
    bg_status status;

    BGI_TRY(bgi_onnx_tensor_check(onnx, tensor, &type, error));
    *out_size = (size_t)type.count * elements[type.element].bytes;
    BGI_TRY(open_place(onnx, tensor, *out_size, &input, &offset, error));
    *out = malloc(*out_size + 1);
    status = *out != NULL ? bgi_input_read(&input, offset, *out, *out_size, error)
                          : bgi_error_memory(error, name_of(tensor), *out_size);
    bgi_input_close(&input);
    if (status != BG_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}
