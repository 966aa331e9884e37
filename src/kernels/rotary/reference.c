/*
 * reference.c: rotary positions (Su et al., RoFormer, 2021), in plain C. A pair (a, b) that is rotated by an angle t
 * becomes (a cos t - b sin t, b cos t + a sin t).
 */
#include "kernels/kernels.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"
#include "kernels/rotary/attributes.h"

/* Returns the pair of feature `d`, and sets *is_second if `d` is its second element. */
static int64_t find_pair(const bgi_rotary_attributes *attributes, int64_t d, bool *is_second)
{
    const int64_t half = attributes->features / 2;

    *is_second = attributes->interleaved ? d % 2 == 1 : d >= half;
    return attributes->interleaved ? d / 2 : d % half;
}

void bgi_reference_rotary(const bg_kernel_call *call, uint32_t part)
{
    const bgi_rotary_attributes *attributes = call->attributes;
    const bg_type *x = bgi_input_type(call, 0);
    const bool has_positions = bgi_has_operand(call, 1) && call->input_count > 1;
    const int64_t width = x->dims[x->rank - 1], depth = width / attributes->heads;
    const int64_t places = bgi_rotary_places(x, has_positions ? bgi_input_type(call, 1) : NULL);

    (void)part;
    for (int64_t at = 0; at < bg_type_element_count(x); at++) {
        const int64_t place = at / width % places, d = at % width % depth;
        const double position = has_positions ? ((const int32_t *)call->operands[1])[place] : (double)place;
        bool is_second;
        const int64_t pair = find_pair(attributes, d, &is_second);
        const double angle = position * bgi_rotary_frequency(attributes, pair) * (attributes->inverse ? -1.0 : 1.0);
        const double cosine = bgi_rotary_magnitude(attributes) * cos(angle);
        const double sine = bgi_rotary_magnitude(attributes) * sin(angle);
        const int64_t apart = attributes->interleaved ? 1 : attributes->features / 2;
        const double value = bgi_load(x->dtype, call->operands[0], at);

        if (d >= attributes->features)
            bgi_store(x->dtype, bgi_output(call, 0), at, value);
        else
            bgi_store(x->dtype, bgi_output(call, 0), at,
                      is_second ? value * cosine + bgi_load(x->dtype, call->operands[0], at - apart) * sine
                                : value * cosine - bgi_load(x->dtype, call->operands[0], at + apart) * sine);
    }
}
