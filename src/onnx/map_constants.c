/*
 * map_constants.c: maps nodes that make tensors only from attributes and known operands.
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool out_list(bgi_mapper *m, int32_t element, bool is_list, int64_t count, const void *values)
{
    bgi_tensor *made = bgi_map_make(m, element, is_list ? 1 : 0, &count);

    if (made == NULL)
        return false;
    if (made->count == 0)
        return bgi_map_out_known(m, 0, made);
    if (element == BGI_ONNX_FLOAT)
        memcpy(made->data, values, (size_t)made->count * sizeof(float));
    else
        memcpy(made->data, values, (size_t)made->count * sizeof(int64_t));
    return bgi_map_out_known(m, 0, made);
}

static bool out_tensor(bgi_mapper *m, const BgiOnnx__Tensor *tensor)
{
    const bgi_tensor *loaded;
    bg_error error = {0};
    const bg_status status = bgi_onnx_tensor_load(m->build->onnx, tensor, &m->build->arena, &loaded, &error);

    if (status == BG_ERROR_MEMORY) {
        m->is_out_of_memory = true;
        return false;
    }
    return status == BG_OK ? bgi_map_out_known(m, 0, loaded) : bgi_map_refuse(m, "%s", error.message);
}

static bool map_constant(bgi_mapper *m)
{
    const BgiOnnx__Attribute *value = bgi_map_attribute(m, "value");

    if (value != NULL && value->t != NULL)
        return out_tensor(m, value->t);
    value = bgi_map_attribute(m, "value_float");
    if (value != NULL && value->has_f)
        return out_list(m, BGI_ONNX_FLOAT, false, 1, &value->f);
    value = bgi_map_attribute(m, "value_int");
    if (value != NULL && value->has_i)
        return out_list(m, BGI_ONNX_INT64, false, 1, &value->i);
    value = bgi_map_attribute(m, "value_floats");
    if (value != NULL)
        return out_list(m, BGI_ONNX_FLOAT, true, (int64_t)value->n_floats, value->floats);
    value = bgi_map_attribute(m, "value_ints");
    if (value != NULL)
        return out_list(m, BGI_ONNX_INT64, true, (int64_t)value->n_ints, value->ints);
    return bgi_map_refuse(m, "it has none of the attributes `value`, `value_float`, `value_int`, `value_floats`, "
                             "`value_ints`");
}

static bool map_constant_of_shape(bgi_mapper *m)
{
    const BgiOnnx__Attribute *value = bgi_map_attribute(m, "value");
    const bgi_tensor *fill = NULL;
    int64_t dims[BGI_ONNX_MAX_RANK];
    uint32_t rank;
    bgi_tensor *made;
    size_t size;

    if (!bgi_map_known_ints(m, 0, dims, &rank, BGI_ONNX_MAX_RANK))
        return false;
    if (value != NULL && value->t != NULL) {
        bg_error error = {0};

        if (bgi_onnx_tensor_load(m->build->onnx, value->t, &m->build->arena, &fill, &error) != BG_OK)
            return bgi_map_refuse(m, "attribute `value`: %s", error.message);
        if (fill->count != 1)
            return bgi_map_refuse(m, "attribute `value` has %" PRId64 " elements but must have one", fill->count);
    }
    made = bgi_map_make(m, fill != NULL ? fill->element : BGI_ONNX_FLOAT, rank, dims);
    if (made == NULL)
        return false;
    size = bg_dtype_size_bytes(made->dtype);
    for (int64_t i = 0; fill != NULL && i < made->count; i++)
        memcpy((char *)made->data + (size_t)i * size, fill->data, size);
    return bgi_map_out_known(m, 0, made);
}

static bool map_range(bgi_mapper *m)
{
    const int32_t element = bgi_map_element(m, 0);
    double numbers[3], count;
    bgi_tensor *made;
    int64_t dim;

    for (uint32_t i = 0; i < 3; i++)
        if (!bgi_map_known_real(m, i, &numbers[i]))
            return false;
    if (numbers[2] == 0.0)
        return bgi_map_refuse(m, "input 2, the step, is 0 but must be another number");
    count = ceil((numbers[1] - numbers[0]) / numbers[2]);
    if (!(count < 2147483648.0))
        return bgi_map_refuse(m, "it makes %g numbers but at most 2^31 are possible", count);
    dim = count > 0.0 ? (int64_t)count : 0;
    made = bgi_map_make(m, element, 1, &dim);
    for (int64_t i = 0; made != NULL && i < dim; i++)
        bgi_tensor_set(made, i, numbers[0] + (double)i * numbers[2]);
    return bgi_map_out_known(m, 0, made);
}

static bool map_eye_like(bgi_mapper *m)
{
    const int64_t diagonal = bgi_map_int(m, "k", 0);
    const int32_t element = (int32_t)bgi_map_int(m, "dtype", bgi_map_element(m, 0));
    int64_t dims[BGI_ONNX_MAX_RANK];
    uint32_t rank;
    bgi_tensor *made;

    if (!bgi_map_shape(m, 0, &rank, dims))
        return false;
    if (rank != 2)
        return bgi_map_refuse(m, "x has %u dimensions but must have 2", rank);
    made = bgi_map_make(m, element, 2, dims);
    for (int64_t r = 0; made != NULL && r < dims[0]; r++)
        if (diagonal > -dims[0] && diagonal < dims[1] && r + diagonal >= 0 && r + diagonal < dims[1])
            bgi_tensor_set(made, r * dims[1] + r + diagonal, 1.0);
    return bgi_map_out_known(m, 0, made);
}

static bool map_non_zero(bgi_mapper *m)
{
    const bgi_tensor *x = bgi_map_known(m, 0);
    int64_t dims[2], found = 0, at = 0;
    bgi_tensor *made;

    if (x == NULL)
        return false;
    for (int64_t i = 0; i < x->count; i++)
        found += bgi_tensor_real(x, i) != 0.0;
    dims[0] = x->rank;
    dims[1] = found;
    made = bgi_map_make(m, BGI_ONNX_INT64, 2, dims);
    for (int64_t i = 0; made != NULL && i < x->count; i++) {
        int64_t rest = i;

        if (bgi_tensor_real(x, i) == 0.0)
            continue;
        for (uint32_t d = x->rank; d-- > 0; rest /= x->dims[d])
            ((int64_t *)made->data)[(int64_t)d * found + at] = rest % x->dims[d];
        at++;
    }
    return bgi_map_out_known(m, 0, made);
}

/* A window of a signal has the weights a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N). */
enum { WINDOW_HANN, WINDOW_HAMMING, WINDOW_BLACKMAN };

static bool map_window(bgi_mapper *m)
{
    static const double factors[3][3] = {{0.5, 0.5, 0.0}, {25.0 / 46.0, 21.0 / 46.0, 0.0}, {0.42, 0.5, 0.08}};
    const double *a = factors[bgi_map_parameter(m)], turn = 2.0 * 3.14159265358979323846;
    const bool is_periodic = bgi_map_int(m, "periodic", 1) != 0;
    const int32_t element = (int32_t)bgi_map_int(m, "output_datatype", BGI_ONNX_FLOAT);
    double size;
    bgi_tensor *made;
    int64_t dim;

    if (!bgi_map_known_real(m, 0, &size))
        return false;
    if (!(size >= 1.0 && size < 2147483648.0))
        return bgi_map_refuse(m, "the size is %g but must be 1 to 2^31", size);
    dim = (int64_t)size;
    made = bgi_map_make(m, element, 1, &dim);
    for (int64_t i = 0; made != NULL && i < dim; i++) {
        const double angle = turn * (double)i / (is_periodic ? size : size > 1.0 ? size - 1.0 : 1.0);

        bgi_tensor_set(made, i, a[0] - a[1] * cos(angle) + a[2] * cos(2.0 * angle));
    }
    return bgi_map_out_known(m, 0, made);
}

const bgi_mapping bgi_onnx_constants[] = {
    {"BlackmanWindow", map_window, WINDOW_BLACKMAN},
    {"Constant", map_constant, 0},
    {"ConstantOfShape", map_constant_of_shape, 0},
    {"EyeLike", map_eye_like, 0},
    {"HammingWindow", map_window, WINDOW_HAMMING},
    {"HannWindow", map_window, WINDOW_HANN},
    {"NonZero", map_non_zero, 0},
    {"Range", map_range, 0},
    {0},
};
