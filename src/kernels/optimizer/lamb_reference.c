/*
 * lamb_reference.c: LAMB (You et al., "Large Batch Optimization for Deep Learning", 2019): Adam's direction, scaled to
 * the length of the weights. Operations are rounded one by one, as in reference.c; norms are summed in double, in index
 * order.
 */
#include "kernels/kernels.h"
#include "kernels/optimizer/attributes.h"
#include "kernels/reference/element.h"

typedef struct lamb_factors {
    bool in_double;
    double beta1, admitted1, beta2, admitted2, correction1, root_correction2, epsilon, decay;
} lamb_factors;

/* Computes the factors from hyper, which is operand 2 of both kernels. */
static lamb_factors make_factors(const bg_kernel_call *call)
{
    const bgi_lamb_attributes *attributes = call->attributes;
    const double *hyper = call->operands[2];
    const double t = (double)(call->env->optimizer_step + 1) - hyper[BGI_HYPER_SKIPPED];
    const double beta1 = hyper[BGI_HYPER_BETA1], beta2 = hyper[BGI_HYPER_BETA2];
    const bool d = call->types[0].dtype == BG_FLOAT64;

    return (lamb_factors){
        .in_double = d,
        .beta1 = bgi_rounded(d, beta1),
        .admitted1 = bgi_rounded(d, 1.0 - beta1),
        .beta2 = bgi_rounded(d, beta2),
        .admitted2 = bgi_rounded(d, 1.0 - beta2),
        .correction1 = bgi_rounded(d, attributes->uncorrected ? 1.0 : 1.0 - pow(beta1, t)),
        .root_correction2 = bgi_rounded(d, attributes->uncorrected ? 1.0 : sqrt(1.0 - pow(beta2, t))),
        .epsilon = bgi_rounded(d, hyper[BGI_HYPER_EPSILON]),
        .decay = attributes->without_decay ? 0.0 : bgi_rounded(d, hyper[BGI_HYPER_WEIGHT_DECAY]),
    };
}

static double find_direction(const lamb_factors *f, double parameter, double m, double v)
{
    const bool d = f->in_double;
    const double denominator =
        bgi_rounded(d, bgi_rounded(d, bgi_rounded(d, sqrt(v)) / f->root_correction2) + f->epsilon);
    const double x = bgi_rounded(d, bgi_rounded(d, m / f->correction1) / denominator);

    return f->decay != 0.0 ? bgi_rounded(d, x + bgi_rounded(d, f->decay * parameter)) : x;
}

/* Updates the moments of one element, and adds the squares of the weight and of its direction to `squares`. */
static void update_moments(const bg_kernel_call *call, const lamb_factors *f, int64_t i, double *squares)
{
    enum { PARAMETER = 0, GRADIENT, HYPER, SCALE, M, V };
    const bgi_lamb_attributes *attributes = call->attributes;
    const bool d = f->in_double;
    const bg_dtype m_dtype = call->types[M].dtype, v_dtype = call->types[V].dtype;
    const double parameter = bgi_load(call->types[PARAMETER].dtype, call->operands[PARAMETER], i);
    const double given = bgi_rounded(d, bgi_load(call->types[GRADIENT].dtype, call->operands[GRADIENT], i));
    const double gradient = bgi_rounded(d, given * bgi_load(BG_FLOAT32, call->operands[SCALE], 0));
    const double m = bgi_rounded(d, bgi_load(m_dtype, call->operands[M], i) * f->beta1);
    const double v = bgi_rounded(d, bgi_load(v_dtype, call->operands[V], i) * f->beta2);
    double x;

    bgi_store_updated(call, &attributes->rounding, M, i, bgi_rounded(d, m + bgi_rounded(d, f->admitted1 * gradient)));
    bgi_store_updated(call, &attributes->rounding, V, i,
                      bgi_rounded(d, v + bgi_rounded(d, bgi_rounded(d, f->admitted2 * gradient) * gradient)));
    x = find_direction(f, parameter, bgi_load(m_dtype, call->operands[M], i), bgi_load(v_dtype, call->operands[V], i));
    squares[0] += parameter * parameter;
    squares[1] += x * x;
}

void bgi_reference_lamb_moments(const bg_kernel_call *call, uint32_t part)
{
    const bgi_lamb_attributes *attributes = call->attributes;
    const lamb_factors factors = make_factors(call);
    const bool is_whole = bg_type_element_count(&call->types[0]) == attributes->elements;
    const bool is_skipped = ((const double *)call->operands[2])[BGI_HYPER_SKIP] != 0.0;
    double *squares = call->operands[call->input_count];

    (void)part;
    for (uint32_t i = 0; i < 2 * attributes->pieces; i++)
        squares[i] = 0.0;
    for (uint32_t piece = 0; piece < attributes->pieces && !is_skipped; piece++) {
        const int64_t first = is_whole ? piece * bgi_lamb_piece(attributes) : 0;

        for (int64_t i = 0; (is_whole || piece == call->env->place.data) && i < bgi_lamb_live(attributes, piece); i++)
            update_moments(call, &factors, first + i, squares + 2 * piece);
    }
}

void bgi_reference_lamb_update(const bg_kernel_call *call, uint32_t part)
{
    enum { PARAMETER = 0, SQUARES, HYPER, M, V };
    const bgi_lamb_attributes *attributes = call->attributes;
    const lamb_factors f = make_factors(call);
    const double *hyper = call->operands[HYPER];
    const double ratio = bgi_lamb_ratio(attributes, call->operands[SQUARES], hyper[BGI_HYPER_MAX_WEIGHT_NORM]);
    const double step_size = bgi_rounded(f.in_double, -(hyper[BGI_HYPER_LEARNING_RATE] * ratio));
    const bg_dtype dtype = call->types[PARAMETER].dtype;

    (void)part;
    if (hyper[BGI_HYPER_SKIP] != 0.0)
        return;
    for (int64_t i = 0; i < bg_type_element_count(&call->types[PARAMETER]); i++) {
        const double parameter = bgi_load(dtype, call->operands[PARAMETER], i);
        const double x = find_direction(&f, parameter, bgi_load(call->types[M].dtype, call->operands[M], i),
                                        bgi_load(call->types[V].dtype, call->operands[V], i));

        bgi_store_updated(call, &attributes->rounding, PARAMETER, i,
                          bgi_rounded(f.in_double, parameter + bgi_rounded(f.in_double, step_size * x)));
    }
}
