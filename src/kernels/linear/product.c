/*
 * product.c: what products know beside their shapes: constants that every kernel may point to, since a plan keeps them.
 */
#include "kernels/linear/product.h"

#include "core/narrow.h"

/* Whether sums are rounded, and the limit of scratch: the exponents of the powers of two that there are. */
#define PRODUCTS(rounds)                                                                                               \
    {                                                                                                                  \
        {rounds, UINT64_MAX}, OF(rounds, 10), OF(rounds, 11), OF(rounds, 12), OF(rounds, 13), OF(rounds, 14),          \
            OF(rounds, 15), OF(rounds, 16), OF(rounds, 17), OF(rounds, 18), OF(rounds, 19), OF(rounds, 20),            \
            OF(rounds, 21), OF(rounds, 22), OF(rounds, 23), OF(rounds, 24), OF(rounds, 25), OF(rounds, 26),            \
            OF(rounds, 27), OF(rounds, 28), OF(rounds, 29), OF(rounds, 30), OF(rounds, 31), OF(rounds, 32)             \
    }
#define OF(rounds, exponent)                                                                                           \
    {                                                                                                                  \
        rounds, (uint64_t)1 << (exponent)                                                                              \
    }
enum { LIMITS = 24 };
static const bgi_product products[2][LIMITS] = {PRODUCTS(false), PRODUCTS(true)};

/* The largest power of two that is no larger than the limit; 0: there is none. */
static uint32_t find_limit(size_t limit_bytes)
{
    uint32_t found = limit_bytes == 0 || limit_bytes / 2 >= products[0][LIMITS - 1].limit_bytes ? 0 : 1;

    while (found > 0 && found + 1 < LIMITS && products[0][found + 1].limit_bytes <= limit_bytes)
        found++;
    return found;
}

void *bgi_product_state(const bgi_kernel_request *request)
{
    const bool is_matrix = request->id == BGI_KERNEL_LINEAR || request->id == BGI_KERNEL_LINEAR_BACKWARD_INPUT ||
                           request->id == BGI_KERNEL_LINEAR_BACKWARD_WEIGHTS || request->id == BGI_KERNEL_MATMUL ||
                           request->id == BGI_KERNEL_FUSED_PRODUCT;
    const bool is_convolution = request->id == BGI_KERNEL_CONV2D || request->id == BGI_KERNEL_CONV2D_BACKWARD_INPUT ||
                                request->id == BGI_KERNEL_CONV2D_BACKWARD_WEIGHTS ||
                                request->id == BGI_KERNEL_CONV2D_POOL ||
                                request->id == BGI_KERNEL_CONV2D_POOL_BACKWARD_INPUT;
    const bool rounds =
        is_matrix && bgi_dtype_is_narrow(request->partials) && bgi_dtype_is_narrow(request->types[0].dtype);
    const uint32_t limit = is_matrix || is_convolution ? find_limit(request->scratch_limit) : 0;

    return rounds || limit != 0 ? (void *)(uintptr_t)&products[rounds][limit] : NULL;
}
