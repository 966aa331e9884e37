/*
 * optimiser.c: the optimisers' numbers and their ranges. The equations are elsewhere: passes turn them into ops.
 * Defaults are those of torch.optim.SGD, Adam and AdamW.
 */
#include <brigade/options.h>

#include <math.h>

bg_optimiser bg_sgd(double learning_rate)
{
    return (bg_optimiser){.kind = BG_SGD, .learning_rate = learning_rate};
}

bg_optimiser bg_adam(double learning_rate)
{
    return (bg_optimiser){
        .kind = BG_ADAM, .learning_rate = learning_rate, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
}

bg_optimiser bg_adamw(double learning_rate)
{
    bg_optimiser optimiser = bg_adam(learning_rate);

    optimiser.kind = BG_ADAMW;
    optimiser.weight_decay = 0.01;
    return optimiser;
}

static bg_status check_not_negative(const char *name, double value, bg_error *error)
{
    if (isfinite(value) && value >= 0.0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID, "optimiser: %s is %g; it must be a finite number of at least 0", name,
                        value);
}

static bg_status validate_sgd(const bg_optimiser *optimiser, bg_error *error)
{
    bg_status status = check_not_negative("momentum", optimiser->momentum, error);

    if (status == BG_OK && !isfinite(optimiser->dampening))
        status = bg_error_set(error, BG_ERROR_INVALID, "optimiser: dampening is %g; it must be a finite number",
                              optimiser->dampening);
    if (status == BG_OK && optimiser->nesterov && (optimiser->momentum <= 0.0 || optimiser->dampening != 0.0))
        status =
            bg_error_set(error, BG_ERROR_INVALID,
                         "optimiser: nesterov with momentum %g and dampening %g; Nesterov's rule needs a momentum "
                         "above 0 and no dampening: set momentum (0.9 is usual) and dampening 0, or leave nesterov off",
                         optimiser->momentum, optimiser->dampening);
    return status;
}

static bg_status validate_beta(const char *name, double value, bg_error *error)
{
    if (value >= 0.0 && value < 1.0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "optimiser: %s is %g; as the share that a running mean keeps it must be in 0 <= %s < 1", name,
                        value, name);
}

static bg_status validate_adam(const bg_optimiser *optimiser, bg_error *error)
{
    bg_status status = validate_beta("beta1", optimiser->beta1, error);

    if (status == BG_OK)
        status = validate_beta("beta2", optimiser->beta2, error);
    if (status == BG_OK)
        status = check_not_negative("epsilon", optimiser->epsilon, error);
    return status;
}

bg_status bg_optimiser_validate(const bg_optimiser *optimiser, bg_error *error)
{
    bg_status status;

    if (optimiser == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "optimiser: none given; training needs one, bg_adamw(0.001) say");
    status = check_not_negative("learning_rate", optimiser->learning_rate, error);
    if (status == BG_OK)
        status = check_not_negative("weight_decay", optimiser->weight_decay, error);
    if (status != BG_OK)
        return status;
    switch (optimiser->kind) {
    case BG_SGD:
        return validate_sgd(optimiser, error);
    case BG_ADAM:
    case BG_ADAMW:
        return validate_adam(optimiser, error);
    }
    return bg_error_set(error, BG_ERROR_INVALID,
                        "optimiser: kind %d is not one of BG_SGD, BG_ADAM, BG_ADAMW; begin with bg_sgd and the like",
                        (int)optimiser->kind);
}
