/*
 * reference.c: losses element by element, in plain C and in double. Sums are computed in double, in order.
 */
#include "kernels/kernels.h"
#include "kernels/pointwise_loss/attributes.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

#include <math.h>

/* PyTorch's lower bound for logarithms of probabilities. */
static const double lowest_logarithm = -100.0;
static const double least_variance = 1e-12;

static double bounded_log(double logarithm)
{
    return logarithm < lowest_logarithm ? lowest_logarithm : logarithm; /* NaN stays */
}

/* Returns log(1 + e^-x). */
static double softplus_of_minus(double x)
{
    return (x < 0.0 ? -x : 0.0) + log1p(exp(-fabs(x)));
}

static double sign(double x)
{
    return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; /* zero and NaN are unchanged */
}

double bgi_pointwise_loss_value(const bgi_pointwise_loss_attributes *attributes, double p, double t)
{
    const double a = attributes->parameter, d = p - t, size = fabs(d);

    switch (attributes->function) {
    case BG_LOSS_SQUARED:
        return d * d;
    case BG_LOSS_ABSOLUTE:
        return size;
    case BG_LOSS_SMOOTH_L1:
        return size < a ? 0.5 * d * d / a : size - 0.5 * a;
    case BG_LOSS_HUBER:
        return size <= a ? 0.5 * d * d : a * (size - 0.5 * a);
    case BG_LOSS_BINARY_LOGITS:
        return (1.0 - t) * p + (1.0 + (a - 1.0) * t) * softplus_of_minus(p);
    case BG_LOSS_BINARY:
        return -(t * bounded_log(log(p)) + (1.0 - t) * bounded_log(log1p(-p)));
    case BG_LOSS_KL:
        return t > 0.0 ? t * (log(t) - p) : t == 0.0 ? 0.0 : NAN;
    case BG_LOSS_KL_LOG:
        return exp(t) * (t - p);
    default:
        return NAN;
    }
}

static double slope_of_target(const bgi_pointwise_loss_attributes *attributes, double p, double t)
{
    switch (attributes->function) {
    case BG_LOSS_BINARY_LOGITS:
        return -p + (attributes->parameter - 1.0) * softplus_of_minus(p);
    case BG_LOSS_BINARY:
        return bounded_log(log1p(-p)) - bounded_log(log(p));
    case BG_LOSS_KL:
        return t > 0.0 ? log(t) + 1.0 - p : t == 0.0 ? 0.0 : NAN;
    case BG_LOSS_KL_LOG:
        return exp(t) * (t - p + 1.0);
    default:
        return NAN;
    }
}

double bgi_pointwise_loss_slope(const bgi_pointwise_loss_attributes *attributes, double p, double t)
{
    const double a = attributes->parameter, d = attributes->of_target ? t - p : p - t, size = fabs(d);

    switch (attributes->function) { /* first those that depend only on the difference */
    case BG_LOSS_SQUARED:
        return 2.0 * d;
    case BG_LOSS_ABSOLUTE:
        return sign(d);
    case BG_LOSS_SMOOTH_L1:
        return size < a ? d / a : sign(d);
    case BG_LOSS_HUBER:
        return size <= a ? d : a * sign(d);
    default:
        break;
    }
    if (attributes->of_target)
        return slope_of_target(attributes, p, t);
    switch (attributes->function) {
    case BG_LOSS_BINARY_LOGITS:
        return (1.0 - t) - (1.0 + (a - 1.0) * t) / (1.0 + exp(p));
    case BG_LOSS_BINARY: {
        const double variance = (1.0 - p) * p;

        return (p - t) / (variance < least_variance ? least_variance : variance);
    }
    case BG_LOSS_KL:
        return t > 0.0 ? -t : t == 0.0 ? 0.0 : NAN;
    case BG_LOSS_KL_LOG:
        return -exp(t);
    default:
        return NAN;
    }
}

void bgi_reference_pointwise_loss(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pointwise_loss_attributes *attributes = call->attributes;
    const bg_type *type = bgi_input_type(call, 0);
    const bg_dtype loss_dtype = bgi_output_type(call, 0)->dtype;
    const int64_t count = bg_type_element_count(type);
    double total = 0.0;

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        const double value = bgi_pointwise_loss_value(attributes, bgi_load(type->dtype, call->operands[0], i),
                                                      bgi_load(type->dtype, call->operands[1], i));

        if (attributes->reduction == BG_LOSS_NONE)
            bgi_store(loss_dtype, bgi_output(call, 0), i, value);
        total += value;
    }
    if (attributes->reduction != BG_LOSS_NONE)
        bgi_store(loss_dtype, bgi_output(call, 0), 0,
                  attributes->reduction == BG_LOSS_MEAN ? total / (double)count : total);
}

void bgi_reference_pointwise_loss_backward(const bg_kernel_call *call, uint32_t part)
{
    const bgi_pointwise_loss_attributes *attributes = call->attributes;
    const bg_type *type = bgi_input_type(call, 1);
    const int64_t count = bg_type_element_count(type);
    const double divisor = attributes->reduction == BG_LOSS_MEAN ? (double)count : 1.0;

    (void)part;
    for (int64_t i = 0; i < count; i++) {
        const double dloss =
            bgi_load(bgi_input_type(call, 0)->dtype, call->operands[0], attributes->reduction == BG_LOSS_NONE ? i : 0);
        const double slope = bgi_pointwise_loss_slope(attributes, bgi_load(type->dtype, call->operands[1], i),
                                                      bgi_load(type->dtype, call->operands[2], i));

        bgi_store(type->dtype, bgi_output(call, 0), i, dloss * slope / divisor);
    }
}
