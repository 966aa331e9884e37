/*
 * map_signal.c: maps discrete Fourier transforms to products with known matrices of cosines and sines, in float64, so
 * that sums of many canceling terms keep their precision.
 *
 *     re[k] = sum over n of  xr[n] cos(2 pi k n / N) + xi[n] sin(2 pi k n / N)
 *     im[k] = sum over n of  xi[n] cos(2 pi k n / N) - xr[n] sin(2 pi k n / N)
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 8192 };

/* Makes the matrix [n, k] of cos or sin (2 pi k n / N). */
static bg_value make_matrix(bgi_mapper *m, int64_t n_count, int64_t k_count, int64_t size, bool is_sine, double factor)
{
    const double turn = 2.0 * 3.14159265358979323846;
    double *values = malloc((size_t)(n_count * k_count) * sizeof *values);
    bg_value matrix;

    if (values == NULL) {
        m->is_out_of_memory = true;
        return (bg_value){0};
    }
    for (int64_t n = 0; n < n_count; n++)
        for (int64_t k = 0; k < k_count; k++) {
            const double angle = turn * (double)(n * k % size) / (double)size;

            values[n * k_count + k] = factor * (is_sine ? sin(angle) : cos(angle));
        }
    matrix = bgi_map_reals(m, BG_FLOAT64, 2, (const int64_t[]){n_count, k_count}, values);
    free(values);
    return matrix;
}

/* Transforms rows of x [R, C, n], with C = 1 or 2 parts, to [R, k, 2] in float64. */
static bg_value transform(bgi_mapper *m, bg_value x, int64_t size, int64_t k_count, bool is_inverse)
{
    const bg_type type = bgi_map_type(m, x);
    const int64_t n_count = type.dims[2], rows[2] = {type.dims[0], n_count};
    const double factor = is_inverse ? 1.0 / (double)size : 1.0, sign = is_inverse ? -1.0 : 1.0;
    const bg_value cosines = make_matrix(m, n_count, k_count, size, false, factor);
    const bg_value sines = make_matrix(m, n_count, k_count, size, true, factor * sign);
    bg_value parts[2], real, imaginary;
    bg_graph *g = m->graph;

    parts[0] = bgi_map_reshape(m, bg_slice(g, NULL, x, 1, 0, 1, 1), 2, rows);
    real = bg_matmul(g, m->name, parts[0], cosines, false, false);
    imaginary = bg_elementwise_unary(g, NULL, BG_NEGATE, bg_matmul(g, NULL, parts[0], sines, false, false));
    if (type.dims[1] == 2) {
        parts[1] = bgi_map_reshape(m, bg_slice(g, NULL, x, 1, 1, 2, 1), 2, rows);
        real = bg_add(g, real, bg_matmul(g, NULL, parts[1], sines, false, false));
        imaginary = bg_add(g, imaginary, bg_matmul(g, NULL, parts[1], cosines, false, false));
    }
    return bg_stack(g, NULL, (const bg_value[]){real, imaginary}, 2, -1);
}

static bool check_points(bgi_mapper *m, int64_t points)
{
    return (points >= 1 && points <= MOST_POINTS) ||
           bgi_map_refuse(m, "the transform has %" PRId64 " points but must have 1 to %d", points, MOST_POINTS);
}

static bool map_dft(bgi_mapper *m)
{
    const bool is_inverse = bgi_map_int(m, "inverse", 0) != 0, is_onesided = bgi_map_int(m, "onesided", 0) != 0;
    bg_value x = bgi_map_in(m, 0);
    const bg_type type = bgi_map_type(m, x);
    int64_t given = bgi_map_int(m, "axis", 1), size, k_count, before = 1, after = 1, dims[BG_MAX_RANK], n_count;
    const uint32_t to_rows[] = {0, 2, 3, 1}, back[] = {0, 2, 1, 3};
    uint32_t count;
    int32_t axis;

    if (bg_value_is_null(x) || !bg_dtype_is_float(type.dtype) || type.rank < 2)
        return bgi_map_refuse(m, "x must be a float tensor of at least 2 dimensions");
    if (m->opset > 19 && bgi_map_given(m, 2) && (!bgi_map_known_ints(m, 2, &given, &count, 1) || count != 1))
        return bgi_map_refuse(m, "input 2, the axis, must be a single known integer");
    if (m->opset > 19 && !bgi_map_given(m, 2))
        given = -2;
    if (!bgi_map_axis(m, given, type.rank, false, &axis))
        return false;
    if ((uint32_t)axis + 1 == type.rank || type.dims[type.rank - 1] > 2)
        return bgi_map_refuse(m, "x's last dimension is %" PRId64 " but must be 1 or 2, the parts of a number",
                              type.dims[type.rank - 1]);
    size = type.dims[axis];
    if (bgi_map_given(m, 1) && (!bgi_map_known_ints(m, 1, &size, &count, 1) || count != 1))
        return bgi_map_refuse(m, "input 1, the length, must be a single known integer");
    if (!check_points(m, size))
        return false;
    for (int32_t i = 0; i < axis; i++)
        before *= type.dims[i];
    for (uint32_t i = (uint32_t)axis + 1; i + 1 < type.rank; i++)
        after *= type.dims[i];
    n_count = type.dims[axis] < size ? type.dims[axis] : size; /* cut off, or followed by zeros */
    k_count = is_onesided ? size / 2 + 1 : size;
    x = bgi_map_reshape(m, bgi_map_cast(m, x, BG_FLOAT64), 4,
                        (const int64_t[]){before, type.dims[axis], after, type.dims[type.rank - 1]});
    if (n_count < type.dims[axis])
        x = bg_slice(m->graph, NULL, x, 1, 0, n_count, 1);
    x = bg_transpose(m->graph, NULL, x, to_rows);
    x = bgi_map_reshape(m, x, 3, (const int64_t[]){before * after, type.dims[type.rank - 1], n_count});
    x = transform(m, x, size, k_count, is_inverse);
    x = bgi_map_reshape(m, x, 4, (const int64_t[]){before, after, k_count, 2});
    x = bg_transpose(m->graph, NULL, x, back);
    memcpy(dims, type.dims, sizeof dims);
    dims[axis] = k_count;
    dims[type.rank - 1] = 2;
    return bgi_map_out(m, 0, bgi_map_cast(m, bgi_map_reshape(m, x, type.rank, dims), type.dtype));
}

/* Cuts a signal [N, L, 1] into frames of `length` samples at every `step` samples, each times the window. */
static bool map_stft(bgi_mapper *m)
{
    const bool is_onesided = bgi_map_int(m, "onesided", 1) != 0;
    bg_value x = bgi_map_in(m, 0), window = bgi_map_in(m, 2);
    const bg_type type = bgi_map_type(m, x), window_type = bgi_map_type(m, window);
    int64_t step, length = 0, frames, *ids, k_count;
    uint32_t count;

    if (bg_value_is_null(x) || type.rank < 2 || type.rank > 3 || (type.rank == 3 && type.dims[2] != 1))
        return bgi_map_refuse(m, "x must be a real signal of shape [N, L, 1]");
    if (!bgi_map_known_ints(m, 1, &step, &count, 1) || count != 1)
        return bgi_map_refuse(m, "input 1, the step, must be a single known integer");
    if (bgi_map_given(m, 3) && (!bgi_map_known_ints(m, 3, &length, &count, 1) || count != 1))
        return bgi_map_refuse(m, "input 3, the length, must be a single known integer");
    if (!bgi_map_given(m, 3) && !bg_value_is_null(window))
        length = window_type.dims[0];
    if (!check_points(m, length))
        return false;
    if (step < 1 || length > type.dims[1] || (!bg_value_is_null(window) && window_type.dims[0] != length))
        return bgi_map_refuse(m,
                              "frames of %" PRId64 " samples, %" PRId64 " apart, do not fit a signal of %" PRId64
                              ", or the window has another length",
                              length, step, type.dims[1]);
    frames = (type.dims[1] - length) / step + 1;
    k_count = is_onesided ? length / 2 + 1 : length;
    ids = malloc((size_t)(frames * length) * sizeof *ids);
    if (ids == NULL) {
        m->is_out_of_memory = true;
        return false;
    }
    for (int64_t f = 0; f < frames; f++)
        for (int64_t i = 0; i < length; i++)
            ids[f * length + i] = f * step + i;
    x = bgi_map_reshape(m, bgi_map_cast(m, x, BG_FLOAT64), 2, (const int64_t[]){type.dims[0], type.dims[1]});
    x = bg_gather(m->graph, m->name, x, 1, bgi_map_ints_constant(m, ids, frames * length));
    free(ids);
    x = bgi_map_reshape(m, x, 3, (const int64_t[]){type.dims[0] * frames, 1, length});
    if (!bg_value_is_null(window))
        x = bg_multiply(m->graph, x, bgi_map_cast(m, window, BG_FLOAT64));
    x = transform(m, x, length, k_count, false);
    x = bgi_map_reshape(m, x, 4, (const int64_t[]){type.dims[0], frames, k_count, 2});
    return bgi_map_out(m, 0, bgi_map_cast(m, x, type.dtype));
}

const bgi_mapping bgi_onnx_signal[] = {
    {"DFT", map_dft, 0},
    {"STFT", map_stft, 0},
    {0},
};
