/*
 * fast.c: the shapes of fast recurrences. fast_body.h has the computation.
 */
#include "kernels/recurrent/fast.h"

static bool take(const bgi_kernel_request *request, const bg_type *y, const bg_type *weight, bool is_backward,
                 int64_t lanes, bg_kernel *kernel)
{
    const bgi_recurrent r = bgi_recurrent_plan(y, weight, request->attributes, is_backward, lanes);

    kernel->part_count = r.parts;
    kernel->scratch_bytes = (size_t)(r.weight_floats + r.parts * r.part_floats) * sizeof(float);
    return bgi_dtype_is_single(r.dtype);
}

bool bgi_cpu_shape_lstm(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    return take(request, &request->types[request->input_count], &request->types[1], false, lanes, kernel);
}

bool bgi_cpu_shape_gru(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    return take(request, &request->types[request->input_count], &request->types[1], false, lanes, kernel);
}

bool bgi_cpu_shape_lstm_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    return take(request, &request->types[3], &request->types[0], true, lanes, kernel);
}

bool bgi_cpu_shape_gru_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    return take(request, &request->types[2], &request->types[0], true, lanes, kernel);
}

bool bgi_cpu_shape_rnn(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    return take(request, &request->types[request->input_count], &request->types[1], false, lanes, kernel);
}

bool bgi_cpu_shape_rnn_backward(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    return take(request, &request->types[2], &request->types[0], true, lanes, kernel);
}
