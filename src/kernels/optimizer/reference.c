/*
 * reference.c: the weight updates. They follow PyTorch's torch.optim (its loops over single tensors, in float32)
 * operation by operation, because differences would grow over thousands of updates.
 *
 * Each operation is computed in double and rounded to float32, which for + - * / and the square root gives exactly
 * float32 arithmetic (a double has 53 bits, at least twice the 24 bits of a float plus two). So the same code serves
 * float32, bfloat16 (which is computed in float32) and, without the rounding, float64.
 */
#include "kernels/kernels.h"
#include "kernels/optimizer/attributes.h"
#include "kernels/reference/element.h"

enum { PARAMETER = 0, GRADIENT, HYPER, SCALE, STATE };

/* Returns a + b * c, each operation rounded. */
static double add_product(bool in_double, double a, double b, double c)
{
    return bgi_rounded(in_double, a + bgi_rounded(in_double, b * c));
}

static double load_gradient(const bg_kernel_call *call, int64_t i, bool in_double)
{
    const double gradient = bgi_load(call->types[GRADIENT].dtype, call->operands[GRADIENT], i);
    const double scale = bgi_load(BG_FLOAT32, call->operands[SCALE], 0);

    return bgi_rounded(in_double, bgi_rounded(in_double, gradient) * scale);
}

void bgi_reference_sgd_update(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sgd_attributes *attributes = call->attributes;
    const bool nesterov = attributes->nesterov, combined = attributes->combined;
    const double *hyper = call->operands[HYPER];
    const bg_dtype dtype = call->types[PARAMETER].dtype;
    const bool in_double = dtype == BG_FLOAT64;
    const int64_t count = bg_type_element_count(&call->types[PARAMETER]);
    const double scaling = combined ? hyper[BGI_HYPER_VELOCITY_SCALING] : 1.0;
    const double step_size = bgi_rounded(in_double, -hyper[BGI_HYPER_LEARNING_RATE] / scaling);
    const double decay = attributes->without_decay ? 0.0 : bgi_rounded(in_double, hyper[BGI_HYPER_WEIGHT_DECAY]);
    const double momentum = bgi_rounded(in_double, hyper[BGI_HYPER_MOMENTUM]);
    const double admitted = bgi_rounded(in_double, (1.0 - hyper[BGI_HYPER_DAMPENING]) * scaling);
    const bool has_velocity = call->input_count > STATE && momentum != 0.0;
    /* the first velocity is the undampened gradient; in the combined form velocities start from zero */
    const bool is_first = (double)call->env->optimizer_step == hyper[BGI_HYPER_SKIPPED];

    (void)part;
    if (hyper[BGI_HYPER_SKIP] != 0.0)
        return;
    for (int64_t i = 0; i < count; i++) {
        const double parameter = bgi_load(dtype, call->operands[PARAMETER], i);
        double direction = load_gradient(call, i, in_double);

        if (decay != 0.0)
            direction = add_product(in_double, direction, decay, parameter);
        if (has_velocity) {
            const bg_dtype state_dtype = call->types[STATE].dtype;
            double velocity = direction;

            if (combined || !is_first)
                velocity = add_product(
                    in_double, bgi_rounded(in_double, bgi_load(state_dtype, call->operands[STATE], i) * momentum),
                    admitted, direction);
            bgi_store_updated(call, &attributes->rounding, STATE, i, velocity);
            if (combined)
                direction = bgi_rounded(in_double, bgi_rounded(in_double, scaling) * direction);
            direction = nesterov ? add_product(in_double, direction, momentum, velocity) : velocity;
        }
        bgi_store_updated(call, &attributes->rounding, PARAMETER, i,
                          add_product(in_double, parameter, step_size, direction));
    }
}

/* ---- Adam and similar optimizers ---- */

/* The factors of Adam's formulas, computed in double, then in the precision of the update. */
typedef struct adam_factors {
    bool in_double, is_decoupled, is_maximum;
    double decay; /* added to the gradient (L2), or the factor of the parameter (decoupled) */
    double beta1, admitted1;
    double beta2, admitted2;
    double root_correction2;
    double epsilon;
    double step_size; /* negative */
} adam_factors;

static adam_factors make_factors(const bg_kernel_call *call)
{
    const double *hyper = call->operands[HYPER];
    const double t = (double)(call->env->optimizer_step + 1) - hyper[BGI_HYPER_SKIPPED];
    const bgi_adam_attributes *attributes = call->attributes;
    const double rate = hyper[BGI_HYPER_LEARNING_RATE];
    const double decay = attributes->without_decay ? 0.0 : hyper[BGI_HYPER_WEIGHT_DECAY];
    const double beta1 = hyper[BGI_HYPER_BETA1], beta2 = hyper[BGI_HYPER_BETA2];
    const bool in_double = call->types[PARAMETER].dtype == BG_FLOAT64;
    const bool is_decoupled = attributes->decoupled_decay;

    return (adam_factors){
        .in_double = in_double,
        .is_decoupled = is_decoupled,
        .is_maximum = attributes->maximum,
        .decay = bgi_rounded(in_double, is_decoupled ? 1.0 - rate * decay : decay),
        .beta1 = bgi_rounded(in_double, beta1),
        .admitted1 = bgi_rounded(in_double, 1.0 - beta1),
        .beta2 = bgi_rounded(in_double, beta2),
        .admitted2 = bgi_rounded(in_double, 1.0 - beta2),
        .root_correction2 = bgi_rounded(in_double, attributes->uncorrected ? 1.0 : sqrt(1.0 - pow(beta2, t))),
        .epsilon = bgi_rounded(in_double, hyper[BGI_HYPER_EPSILON]),
        .step_size = bgi_rounded(in_double, attributes->uncorrected ? -rate : -(rate / (1.0 - pow(beta1, t)))),
    };
}

static void update_adam(const adam_factors *f, double gradient, double *parameter, double *m, double *v)
{
    const bool d = f->in_double;
    double denominator;

    if (f->is_decoupled)
        *parameter = bgi_rounded(d, *parameter * f->decay);
    else if (f->decay != 0.0)
        gradient = add_product(d, gradient, f->decay, *parameter);
    *m = add_product(d, bgi_rounded(d, *m * f->beta1), f->admitted1, gradient);
    if (f->is_maximum) {
        const double kept = bgi_rounded(d, *v * f->beta2), size = fabs(gradient);

        *v = kept > size ? kept : size;
        denominator = bgi_rounded(d, *v + f->epsilon);
    } else {
        *v = add_product(d, bgi_rounded(d, *v * f->beta2), bgi_rounded(d, f->admitted2 * gradient), gradient);
        denominator = bgi_rounded(d, bgi_rounded(d, bgi_rounded(d, sqrt(*v)) / f->root_correction2) + f->epsilon);
    }
    *parameter = bgi_rounded(d, *parameter + bgi_rounded(d, bgi_rounded(d, f->step_size * *m) / denominator));
}

void bgi_reference_adam_update(const bg_kernel_call *call, uint32_t part)
{
    const bgi_adam_attributes *attributes = call->attributes;
    const adam_factors factors = make_factors(call);
    const bg_dtype dtype = call->types[PARAMETER].dtype;
    const bg_dtype m_dtype = call->types[STATE].dtype, v_dtype = call->types[STATE + 1].dtype; /* may differ */
    const int64_t count = bg_type_element_count(&call->types[PARAMETER]);

    (void)part;
    if (((const double *)call->operands[HYPER])[BGI_HYPER_SKIP] != 0.0)
        return;
    for (int64_t i = 0; i < count; i++) {
        double parameter = bgi_load(dtype, call->operands[PARAMETER], i);
        double m = bgi_load(m_dtype, call->operands[STATE], i);
        double v = bgi_load(v_dtype, call->operands[STATE + 1], i);

        update_adam(&factors, load_gradient(call, i, factors.in_double), &parameter, &m, &v);
        bgi_store_updated(call, &attributes->rounding, PARAMETER, i, parameter);
        bgi_store_updated(call, &attributes->rounding, STATE, i, m);
        bgi_store_updated(call, &attributes->rounding, STATE + 1, i, v);
    }
}

/* ---- RMSProp ---- */

typedef struct rmsprop_factors {
    bool in_double, is_centered, is_tf, is_adadelta, has_velocity;
    double rate, decay, momentum, alpha, admitted, epsilon;
} rmsprop_factors;

static rmsprop_factors make_rmsprop_factors(const bg_kernel_call *call)
{
    const bgi_rmsprop_attributes *attributes = call->attributes;
    const double *hyper = call->operands[HYPER];
    const bool in_double = call->types[PARAMETER].dtype == BG_FLOAT64, sums = attributes->rule == BGI_RULE_ADAGRAD;
    const bool is_adadelta = attributes->rule == BGI_RULE_ADADELTA;

    return (rmsprop_factors){
        .in_double = in_double,
        .is_centered = attributes->centered,
        .is_tf = attributes->tf_variant,
        .is_adadelta = is_adadelta,
        .has_velocity = call->input_count > STATE + 1u + attributes->centered + is_adadelta,
        .rate = bgi_rounded(in_double, hyper[BGI_HYPER_LEARNING_RATE]),
        .decay = attributes->without_decay ? 0.0 : bgi_rounded(in_double, hyper[BGI_HYPER_WEIGHT_DECAY]),
        .momentum = bgi_rounded(in_double, hyper[BGI_HYPER_MOMENTUM]),
        .alpha = sums ? 1.0 : bgi_rounded(in_double, hyper[BGI_HYPER_ALPHA]),
        .admitted = sums ? 1.0 : bgi_rounded(in_double, 1.0 - hyper[BGI_HYPER_ALPHA]),
        .epsilon = bgi_rounded(in_double, hyper[BGI_HYPER_EPSILON]),
    };
}

static double find_denominator(const rmsprop_factors *f, double square, double mean)
{
    const bool d = f->in_double;
    double variance = square;

    if (f->is_centered) {
        variance = bgi_rounded(d, square - bgi_rounded(d, mean * mean));
        variance = variance < 0.0 ? 0.0 : variance;
    }
    return f->is_tf ? bgi_rounded(d, sqrt(bgi_rounded(d, variance + f->epsilon)))
                    : bgi_rounded(d, bgi_rounded(d, sqrt(variance)) + f->epsilon);
}

/* Updates a parameter; its change is scaled to the size of earlier changes, of which `changes` is the mean square. */
static void finish_adadelta(const rmsprop_factors *f, double gradient, double square, double *changes,
                            double *parameter)
{
    const bool d = f->in_double;
    const double root = bgi_rounded(d, sqrt(bgi_rounded(d, square + f->epsilon)));
    const double length = bgi_rounded(d, sqrt(bgi_rounded(d, *changes + f->epsilon)));
    const double change = bgi_rounded(d, bgi_rounded(d, length / root) * gradient);

    *changes = add_product(d, bgi_rounded(d, *changes * f->alpha), bgi_rounded(d, f->admitted * change), change);
    *parameter = add_product(d, *parameter, -f->rate, change);
}

static void update_rmsprop(const rmsprop_factors *f, double gradient, double *parameter, double *square, double *mean,
                           double *velocity)
{
    const bool d = f->in_double;
    double denominator;

    if (f->decay != 0.0)
        gradient = add_product(d, gradient, f->decay, *parameter);
    *square = add_product(d, bgi_rounded(d, *square * f->alpha), bgi_rounded(d, f->admitted * gradient), gradient);
    if (f->is_adadelta) {
        finish_adadelta(f, gradient, *square, mean, parameter);
        return;
    }
    if (f->is_centered)
        *mean = add_product(d, bgi_rounded(d, *mean * f->alpha), f->admitted, gradient);
    denominator = find_denominator(f, *square, *mean);
    if (!f->has_velocity) {
        *parameter = bgi_rounded(d, *parameter - bgi_rounded(d, bgi_rounded(d, f->rate * gradient) / denominator));
        return;
    }
    gradient = f->is_tf ? bgi_rounded(d, f->rate * gradient) : gradient;
    *velocity = bgi_rounded(d, bgi_rounded(d, *velocity * f->momentum) + bgi_rounded(d, gradient / denominator));
    *parameter = bgi_rounded(d, *parameter - (f->is_tf ? *velocity : bgi_rounded(d, f->rate * *velocity)));
}

void bgi_reference_rmsprop_update(const bg_kernel_call *call, uint32_t part)
{
    const bgi_rmsprop_attributes *attributes = call->attributes;
    const rmsprop_factors factors = make_rmsprop_factors(call);
    const int64_t count = bg_type_element_count(&call->types[PARAMETER]);
    const uint32_t velocity = STATE + 1 + factors.is_centered;

    (void)part;
    if (((const double *)call->operands[HYPER])[BGI_HYPER_SKIP] != 0.0)
        return;
    for (int64_t i = 0; i < count; i++) {
        /* the parameter, then the states */
        double values[STATE + 3] = {0.0};

        for (uint32_t o = 0; o < call->input_count; o++)
            if (o == PARAMETER || o >= STATE)
                values[o] = bgi_load(call->types[o].dtype, call->operands[o], i);
        update_rmsprop(&factors, load_gradient(call, i, factors.in_double), &values[PARAMETER], &values[STATE],
                       &values[STATE + 1], &values[velocity]);
        for (uint32_t o = 0; o < call->input_count; o++)
            if (o == PARAMETER || o >= STATE)
                bgi_store_updated(call, &attributes->rounding, o, i, values[o]);
    }
}
