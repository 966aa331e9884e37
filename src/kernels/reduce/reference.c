/*
 * reference.c: reductions over any set of dims, their gradients, broadcasting and argmax. An output element's inputs
 * are visited in index order; floats are summed in double, integers in 64 bits, which wrap around.
 */
#include "kernels/kernels.h"
#include "kernels/reduce/attributes.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/element.h"

/* The dims of x, divided into kept and reduced ones, each with its strides in x. */
typedef struct reduction {
    uint32_t kept_rank, reduced_rank;
    int64_t kept_dims[BG_MAX_RANK], kept_strides[BG_MAX_RANK];
    int64_t reduced_dims[BG_MAX_RANK], reduced_strides[BG_MAX_RANK];
    int64_t kept_count, reduced_count;
} reduction;

static reduction part_dims(const bg_type *x, uint32_t axes)
{
    reduction result = {.kept_count = 1, .reduced_count = 1};
    int64_t strides[BG_MAX_RANK], stride = 1;

    for (uint32_t i = x->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= x->dims[i];
    }
    for (uint32_t i = 0; i < x->rank; i++)
        if ((axes >> i & 1u) != 0) {
            result.reduced_dims[result.reduced_rank] = x->dims[i];
            result.reduced_strides[result.reduced_rank++] = strides[i];
            result.reduced_count *= x->dims[i];
        } else {
            result.kept_dims[result.kept_rank] = x->dims[i];
            result.kept_strides[result.kept_rank++] = strides[i];
            result.kept_count *= x->dims[i];
        }
    return result;
}

static int64_t find_offset(uint32_t rank, const int64_t *dims, const int64_t *strides, int64_t index)
{
    int64_t offset = 0;

    for (uint32_t i = rank; i-- > 0;) {
        offset += index % dims[i] * strides[i];
        index /= dims[i];
    }
    return offset;
}

static int64_t find_element(const reduction *r, int64_t kept, int64_t reduced)
{
    return find_offset(r->kept_rank, r->kept_dims, r->kept_strides, kept) +
           find_offset(r->reduced_rank, r->reduced_dims, r->reduced_strides, reduced);
}

/* Returns whether `candidate` is larger; NaN is larger than every number. */
static bool is_larger(double candidate, double best)
{
    return candidate > best || (candidate != candidate && best == best);
}

static void reduce_integers(const bg_kernel_call *call, bool finds_largest)
{
    const bgi_reduce_attributes *attributes = call->attributes;
    const reduction r = part_dims(&call->types[0], attributes->axes);
    const bg_dtype dtype = call->types[0].dtype;

    for (int64_t kept = 0; kept < r.kept_count; kept++) {
        int64_t largest = bgi_load_integer(dtype, call->operands[0], find_element(&r, kept, 0));
        uint64_t sum = (uint64_t)largest;

        for (int64_t reduced = 1; reduced < r.reduced_count; reduced++) {
            const int64_t x = bgi_load_integer(dtype, call->operands[0], find_element(&r, kept, reduced));

            largest = x > largest ? x : largest;
            sum += (uint64_t)x;
        }
        bgi_store_bits(dtype, call->operands[1], kept, finds_largest ? (uint64_t)largest : sum);
    }
}

void bgi_reference_reduce(const bg_kernel_call *call, uint32_t part)
{
    const bgi_reduce_attributes *attributes = call->attributes;
    const reduction r = part_dims(&call->types[0], attributes->axes);
    const bg_dtype dtype = call->types[0].dtype;

    (void)part;
    if (!bg_dtype_is_float(dtype)) { /* integers have no mean */
        reduce_integers(call, attributes->function == BG_REDUCE_MAX);
        return;
    }
    for (int64_t kept = 0; kept < r.kept_count; kept++) {
        double result = bgi_load(dtype, call->operands[0], find_element(&r, kept, 0));

        for (int64_t reduced = 1; reduced < r.reduced_count; reduced++) {
            const double x = bgi_load(dtype, call->operands[0], find_element(&r, kept, reduced));

            if (attributes->function == BG_REDUCE_MAX)
                result = is_larger(x, result) ? x : result;
            else
                result += x;
        }
        if (attributes->function == BG_REDUCE_MEAN)
            result /= (double)r.reduced_count;
        bgi_store(dtype, call->operands[1], kept, result);
    }
}

void bgi_reference_reduce_max_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_reduce_attributes *attributes = call->attributes;
    const reduction r = part_dims(&call->types[1], attributes->axes);
    const bg_dtype dtype = call->types[1].dtype;

    (void)part;
    for (int64_t kept = 0; kept < r.kept_count; kept++) {
        const double largest = bgi_load(dtype, call->operands[2], kept);
        bool is_given = false;

        for (int64_t reduced = 0; reduced < r.reduced_count; reduced++) {
            const int64_t element = find_element(&r, kept, reduced);
            const double x = bgi_load(dtype, call->operands[1], element);
            const bool gets = !is_given && (x == largest || (x != x && largest != largest));

            is_given = is_given || gets;
            bgi_store(dtype, call->operands[3], element, gets ? bgi_load(dtype, call->operands[0], kept) : 0.0);
        }
    }
}

void bgi_reference_broadcast(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *x = &call->types[0], *y = &call->types[1];
    const size_t size = bg_dtype_size_bytes(x->dtype);
    const int64_t count = bg_type_element_count(y);

    (void)part;
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)call->operands[1] + (size_t)i * size,
               (const char *)call->operands[0] + (size_t)bgi_broadcast_index(y, x, i) * size, size);
}

static bool is_larger_element(const bg_kernel_call *call, int64_t candidate, int64_t best)
{
    const bg_dtype dtype = call->types[0].dtype;

    if (bg_dtype_is_float(dtype))
        return is_larger(bgi_load(dtype, call->operands[0], candidate), bgi_load(dtype, call->operands[0], best));
    return bgi_load_integer(dtype, call->operands[0], candidate) > bgi_load_integer(dtype, call->operands[0], best);
}

void bgi_reference_argmax(const bg_kernel_call *call, uint32_t part)
{
    const bg_type *x = &call->types[0];
    const int64_t columns = x->dims[x->rank - 1];
    const int64_t rows = bg_type_element_count(x) / columns;

    (void)part;
    for (int64_t row = 0; row < rows; row++) {
        int64_t best = 0;

        for (int64_t column = 1; column < columns; column++)
            if (is_larger_element(call, row * columns + column, row * columns + best))
                best = column;
        ((int32_t *)call->operands[1])[row] = (int32_t)best;
    }
}
