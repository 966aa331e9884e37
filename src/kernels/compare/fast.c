/*
 * fast.c: the shapes of fast comparisons and choices. fast_body.h has the computation.
 */
#include "kernels/compare/attributes.h"
#include "kernels/elementwise/fast.h"

bool bgi_cpu_shape_compare(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    bgi_broadcast_view view;

    (void)lanes;
    return request->types[0].dtype != BG_FLOAT64 && request->types[0].dtype == request->types[1].dtype &&
           bgi_broadcast_view_make(&request->types[2], &request->types[0], &view) &&
           bgi_broadcast_view_make(&request->types[2], &request->types[1], &view) &&
           bgi_elementwise_take(kernel, &request->types[2]);
}

bool bgi_cpu_shape_where(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    bgi_broadcast_view view;

    (void)lanes;
    return bgi_broadcast_view_make(&request->types[3], &request->types[0], &view) &&
           bgi_broadcast_view_make(&request->types[3], &request->types[1], &view) &&
           bgi_broadcast_view_make(&request->types[3], &request->types[2], &view) &&
           bgi_elementwise_take(kernel, &request->types[3]);
}

bool bgi_cpu_shape_where_gradient(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    bgi_broadcast_view view;

    (void)lanes;
    return bgi_broadcast_view_make(&request->types[0], &request->types[1], &view) &&
           bgi_elementwise_take(kernel, &request->types[0]);
}
