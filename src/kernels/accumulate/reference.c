/*
 * reference.c: sums gradients over micro-batches, and computes the scalars that belong to the sums.
 */
#include "kernels/accumulate/attributes.h"
#include "kernels/kernels.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

/* Computes accumulator = accumulator x factors[0] + gradient x factors[1]; each operation is rounded to float32, except
 * for float64. */
static void accumulate_shares(const bg_kernel_call *call)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]);
    const double keep = call->env->accumulated == 0 ? 0.0 : bgi_load(BG_FLOAT32, call->operands[2], 0);
    const double admit = bgi_load(BG_FLOAT32, call->operands[2], 1);

    for (int64_t i = 0; i < count; i++) {
        double kept = keep == 0.0 ? 0.0 : keep * bgi_load(dtype, call->operands[0], i);
        double admitted = admit == 0.0 ? 0.0 : admit * bgi_load(call->types[1].dtype, call->operands[1], i);

        if (dtype != BG_FLOAT64) {
            kept = (float)kept;
            admitted = (float)admitted;
        }
        bgi_store(dtype, call->operands[0], i, kept + admitted);
    }
}

void bgi_reference_accumulate(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]);
    const bool is_first = call->env->accumulated == 0;

    (void)part;
    if (call->input_count > 2) {
        accumulate_shares(call);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const double gradient = bgi_load(call->types[1].dtype, call->operands[1], i);

        bgi_store(dtype, call->operands[0], i, is_first ? gradient : bgi_load(dtype, call->operands[0], i) + gradient);
    }
}

/* Rounds to the nearest value of the type. */
static double keep(bg_dtype dtype, double value)
{
    double kept;

    bgi_store(dtype, &kept, 0, value);
    return bgi_load(dtype, &kept, 0);
}

void bgi_reference_accumulate_tree(const bg_kernel_call *call, uint32_t part)
{
    const bgi_accumulate_tree_attributes *attributes = call->attributes;
    const uint32_t micro_batches = attributes->micro_batches, micro_batch = call->env->accumulated;
    const uint32_t top = bgi_tree_places(micro_batches) - 1, target = bgi_tree_target(micro_batches, micro_batch);
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]);

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        double sum = keep(dtype, bgi_load(call->types[1].dtype, call->operands[1], i));

        for (uint32_t place = 0; place < top; place++)
            if (bgi_tree_joins(micro_batches, micro_batch, place))
                sum = keep(dtype, bgi_load(dtype, call->operands[2], place * count + i) + sum);
        if (bgi_tree_joins(micro_batches, micro_batch, top))
            sum = keep(dtype, bgi_load(dtype, call->operands[0], i) + sum);
        if (target == top)
            bgi_store(dtype, call->operands[0], i, sum);
        else
            bgi_store(dtype, call->operands[2], target * count + i, sum);
    }
}

void bgi_reference_add_n(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = call->types[0].dtype;
    const int64_t count = bg_type_element_count(&call->types[0]);

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        double sum = bgi_load(dtype, call->operands[0], i);

        for (uint32_t input = 1; input < call->input_count; input++)
            sum += bgi_load(dtype, call->operands[input], i);
        bgi_store(dtype, call->operands[call->input_count], i, sum);
    }
}

void bgi_reference_scaled_sum(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = bgi_output_type(call, 0)->dtype;
    const int64_t count = bg_type_element_count(&call->types[0]);

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0.0;

        for (uint32_t input = 0; input < call->input_count; input += 2) {
            const double scale = bgi_load(BG_FLOAT32, call->operands[input + 1], 0);
            double product = scale == 0.0 ? 0.0 : bgi_load(call->types[input].dtype, call->operands[input], i) * scale;

            if (dtype != BG_FLOAT64)
                product = (float)product;
            sum += product;
            if (dtype != BG_FLOAT64)
                sum = (float)sum;
        }
        bgi_store(dtype, bgi_output(call, 0), i, sum);
    }
}

void bgi_reference_total_scale(const bg_kernel_call *call, uint32_t part)
{
    const bgi_total_scale_attributes *attributes = call->attributes;
    const double total = bgi_load(call->types[0].dtype, call->operands[0], 0);

    (void)part;
    bgi_store(BG_FLOAT32, call->operands[1], 0, total == 0.0 ? 0.0 : attributes->factor / total);
}

void bgi_reference_running_factors(const bg_kernel_call *call, uint32_t part)
{
    const bgi_running_factors_attributes *attributes = call->attributes;
    const double before = call->env->accumulated == 0 ? 0.0 : bgi_load(BG_FLOAT32, call->operands[0], 0);
    const double weight = call->input_count > 1 ? bgi_load(BG_FLOAT32, call->operands[1], 0) : 1.0;
    const bool is_last = call->env->accumulated + 1 == attributes->micro_batches;
    const double divisor = is_last && attributes->ends_in_sum ? 1.0 : before + weight;
    void *factors = call->operands[call->input_count];

    (void)part;
    bgi_store(BG_FLOAT32, factors, 0, divisor == 0.0 ? 0.0 : before / divisor);
    bgi_store(BG_FLOAT32, factors, 1, divisor == 0.0 ? 0.0 : weight / divisor);
    bgi_store(BG_FLOAT32, call->operands[0], 0, before + weight);
}

void bgi_reference_square_sum(const bg_kernel_call *call, uint32_t part)
{
    const bgi_square_sum_attributes *attributes = call->attributes;
    const bg_type *x = &call->types[0];
    const bool is_whole = bgi_has_all_pieces(x, attributes->elements);

    (void)part;
    for (uint32_t piece = 0; piece < attributes->pieces; piece++) {
        const int64_t first = is_whole ? piece * bgi_piece_size(attributes->elements, attributes->pieces) : 0;
        const int64_t live = bgi_piece_live(attributes->elements, attributes->pieces, piece);
        double sum = 0.0;

        for (int64_t i = 0; (is_whole || piece == call->env->place.data) && i < live; i++) {
            const double element = bgi_load(x->dtype, call->operands[0], first + i);

            sum += element * element;
        }
        bgi_store(BG_FLOAT64, call->operands[1], piece, sum);
    }
}

/* Returns |scale| sqrt(sum of squares); the squares and the scale are the first two operands. */
static double find_norm(const bg_kernel_call *call)
{
    double sum = bgi_load(BG_FLOAT64, call->operands[0], 0);

    for (int64_t piece = 1; piece < bg_type_element_count(&call->types[0]); piece++)
        sum += bgi_load(BG_FLOAT64, call->operands[0], piece);
    return fabs(bgi_load(BG_FLOAT32, call->operands[1], 0)) * sqrt(sum);
}

void bgi_reference_gradient_norm(const bg_kernel_call *call, uint32_t part)
{
    (void)part;
    bgi_store(BG_FLOAT32, call->operands[2], 0, find_norm(call));
}

void bgi_reference_clip_scale(const bg_kernel_call *call, uint32_t part)
{
    const double maximum = ((const bgi_clip_scale_attributes *)call->attributes)->maximum;
    const double scale = bgi_load(BG_FLOAT32, call->operands[1], 0);
    const double norm = find_norm(call);

    (void)part;
    bgi_store(BG_FLOAT32, call->operands[2], 0, norm > maximum ? scale * (maximum / norm) : scale);
}
