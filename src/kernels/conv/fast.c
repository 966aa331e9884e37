/*
 * fast.c: the shapes of fast convolutions: their parts and their scratch. fast_body.h has the computation.
 */
#include "kernels/conv/attributes.h"
#include "kernels/conv/depthwise.h"
#include "kernels/conv/direct.h"
#include "kernels/conv/lines.h"
#include "kernels/conv/pairs.h"

static bool take_direct(const bgi_direct_plan *plan, bg_kernel *kernel)
{
    kernel->part_count = kernel->combine_count = plan->parts;
    kernel->scratch_bytes = (size_t)bgi_direct_scratch_floats(plan) * sizeof(float);
    return true;
}

static bool take_pairs(const bgi_conv_pairs *plan, bg_kernel *kernel)
{
    kernel->part_count = plan->lays;
    kernel->combine_count = plan->parts;
    kernel->scratch_bytes = bgi_conv_pairs_scratch_bytes(plan);
    return true;
}

static bool take_depthwise(const bgi_depthwise_plan *plan, bg_kernel *kernel)
{
    kernel->combine = NULL;
    kernel->part_count = plan->parts;
    kernel->scratch_bytes = bgi_depthwise_scratch_bytes(plan);
    return true;
}

bool bgi_cpu_shape_conv2d(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_conv2d_attributes *attributes = request->attributes;
    const bgi_conv s = bgi_conv_read(&request->types[0], &request->types[1], &request->types[request->input_count],
                                     &attributes->options);
    const bgi_gemm g = bgi_gemm_bound(bgi_conv_forward_plan(&s, lanes), lanes, bgi_product_limit(kernel->state));
    bgi_direct direct;
    bgi_direct_plan plan;
    bgi_depthwise_plan depthwise;
    bgi_conv_pairs pairs;

    if (bgi_product_pairs(kernel->state) != BGI_ISA_PORTABLE) {
        pairs = bgi_conv_pairs_forward(&s, bgi_product_limit(kernel->state));
        return take_pairs(&pairs, kernel);
    }
    if (bgi_conv_is_depthwise(&s)) {
        depthwise = bgi_depthwise_forward(&s, s.n * s.c, lanes, &direct);
        return take_depthwise(&depthwise, kernel);
    }
    if (bgi_direct_forward_plan(&s, lanes, bgi_product_limit(kernel->state), &direct, &plan))
        return take_direct(&plan, kernel);
    kernel->combine = NULL;
    kernel->part_count = g.parts;
    kernel->scratch_bytes = g.parts * (size_t)g.part_floats * sizeof(float);
    return bgi_dtype_is_single(s.dtype);
}

bool bgi_cpu_shape_conv2d_backward_input(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_conv2d_attributes *attributes = request->attributes;
    const bgi_conv s = bgi_conv_read(&request->types[2], &request->types[1], &request->types[0], &attributes->options);
    const bgi_conv_input_plan plan = bgi_conv_input_plan_make(&s, lanes, bgi_product_limit(kernel->state));
    bgi_direct_plan direct;
    bgi_depthwise_plan depthwise;
    bgi_conv_pairs pairs;

    if (bgi_product_pairs(kernel->state) != BGI_ISA_PORTABLE) {
        pairs = bgi_conv_pairs_input(&s, bgi_product_limit(kernel->state));
        return take_pairs(&pairs, kernel);
    }
    if (bgi_conv_is_depthwise(&s)) {
        depthwise = bgi_depthwise_backward(&s, lanes);
        return take_depthwise(&depthwise, kernel);
    }
    if (bgi_direct_input_plan(&s, lanes, bgi_product_limit(kernel->state), &direct))
        return take_direct(&direct, kernel);
    kernel->combine = NULL;
    kernel->part_count = plan.parts;
    kernel->scratch_bytes = plan.parts * (size_t)plan.part_floats * sizeof(float);
    return bgi_dtype_is_single(s.dtype);
}

bool bgi_cpu_shape_conv2d_backward_weights(const bgi_kernel_request *request, int64_t lanes, bg_kernel *kernel)
{
    const bgi_conv2d_attributes *attributes = request->attributes;
    const bgi_conv s = bgi_conv_read(&request->types[1], &request->types[2], &request->types[0], &attributes->options);
    const bool has_bias = request->input_count + request->output_count > 3 && request->types[3].dtype != BG_DTYPE_NONE;
    bgi_conv_weights_plan product;
    bgi_direct direct;
    bgi_direct_weights_plan plan;
    bgi_lines_plan sums;
    bgi_depthwise_plan depthwise;
    bgi_conv_pairs pairs;

    if (bgi_product_pairs(kernel->state) != BGI_ISA_PORTABLE) {
        pairs = bgi_conv_pairs_weights(&s, bgi_product_limit(kernel->state));
        kernel->finish = pairs.runs > 1 ? kernel->finish : NULL;
        return take_pairs(&pairs, kernel);
    }
    kernel->finish = NULL;
    if (bgi_conv_is_depthwise(&s)) {
        depthwise = bgi_depthwise_forward(&s, s.c, lanes, &direct);
        return take_depthwise(&depthwise, kernel);
    }
    if (bgi_lines_weights(&s, lanes, bgi_product_limit(kernel->state), &sums)) {
        kernel->combine = sums.runs == 1 && !has_bias ? NULL : kernel->combine;
        kernel->part_count = sums.parts;
        kernel->combine_count = sums.combines;
        kernel->scratch_bytes = (size_t)bgi_lines_scratch_floats(&sums) * sizeof(float);
        return true;
    }
    if (bgi_direct_weights(&s, lanes, request->output_count == 0, &direct, &plan)) {
        kernel->combine = plan.is_whole && !has_bias ? NULL : kernel->combine;
        kernel->part_count = plan.parts;
        kernel->combine_count = plan.combines;
        kernel->scratch_bytes = (size_t)bgi_direct_weights_scratch(&plan) * sizeof(float);
        return true;
    }
    product = bgi_conv_weights_plan_make(&s, lanes, request->output_count == 0, bgi_product_limit(kernel->state));
    kernel->combine = product.runs > 1 ? kernel->combine : NULL;
    kernel->part_count = product.parts;
    kernel->combine_count = product.combines;
    kernel->scratch_bytes = bgi_conv_weights_scratch_bytes(&product);
    return bgi_dtype_is_single(s.dtype);
}
