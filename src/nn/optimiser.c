/*
 * optimiser.c: the optimisers' numbers, their ranges, and how they are said in a text. The equations are elsewhere:
 * passes turn them into ops. Defaults are those of torch.optim's SGD, Adam, AdamW, Adamax, RMSprop, Adagrad and
 * Adadelta; of LAMB, which it has not, PopTorch's.
 */
#include <brigade/options.h>

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"

bg_optimiser bg_sgd(double learning_rate)
{
    return (bg_optimiser){.kind = BG_SGD, .learning_rate = learning_rate, .velocity_scaling = 1.0};
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

bg_optimiser bg_adamax(double learning_rate)
{
    bg_optimiser optimiser = bg_adam(learning_rate);

    optimiser.kind = BG_ADAMAX;
    return optimiser;
}

bg_optimiser bg_rmsprop(double learning_rate)
{
    return (bg_optimiser){.kind = BG_RMSPROP, .learning_rate = learning_rate, .alpha = 0.99, .epsilon = 1e-8};
}

bg_optimiser bg_lamb(double learning_rate)
{
    bg_optimiser optimiser = bg_adamw(learning_rate);

    optimiser.kind = BG_LAMB;
    optimiser.max_weight_norm = 65500.0;
    return optimiser;
}

bg_optimiser bg_adagrad(double learning_rate)
{
    return (bg_optimiser){.kind = BG_ADAGRAD, .learning_rate = learning_rate, .epsilon = 1e-10};
}

bg_optimiser bg_adadelta(double learning_rate)
{
    return (bg_optimiser){.kind = BG_ADADELTA, .learning_rate = learning_rate, .alpha = 0.9, .epsilon = 1e-6};
}

static bg_status check_not_negative(const char *name, double value, bg_error *error)
{
    if (isfinite(value) && value >= 0.0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID, "optimiser: %s is %g; it must be a finite number of at least 0", name,
                        value);
}

static bg_status validate_combined(const bg_optimiser *optimiser, bg_error *error)
{
    if (!(optimiser->momentum > 0.0))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "optimiser: combined with momentum %g; what is combined is the velocity, which there is "
                            "with a momentum above 0 alone: set momentum (0.9 is usual), or leave combined off",
                            optimiser->momentum);
    if (isfinite(optimiser->velocity_scaling) && optimiser->velocity_scaling > 0.0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "optimiser: velocity_scaling is %g; it must be a finite number above 0: 1 is usual",
                        optimiser->velocity_scaling);
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
    if (status == BG_OK && optimiser->combined)
        status = validate_combined(optimiser, error);
    return status;
}

static bg_status validate_share(const char *name, double value, bg_error *error)
{
    if (value >= 0.0 && value < 1.0)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "optimiser: %s is %g; as the share that a running mean keeps it must be in 0 <= %s < 1", name,
                        value, name);
}

static bg_status validate_adadelta(const bg_optimiser *optimiser, bg_error *error)
{
    BGI_TRY(validate_share("alpha", optimiser->alpha, error));
    return check_not_negative("epsilon", optimiser->epsilon, error);
}

static bg_status validate_rmsprop(const bg_optimiser *optimiser, bg_error *error)
{
    BGI_TRY(check_not_negative("momentum", optimiser->momentum, error));
    return validate_adadelta(optimiser, error);
}

static bg_status validate_adam(const bg_optimiser *optimiser, bg_error *error)
{
    bg_status status = validate_share("beta1", optimiser->beta1, error);

    if (status == BG_OK)
        status = validate_share("beta2", optimiser->beta2, error);
    if (status == BG_OK)
        status = check_not_negative("epsilon", optimiser->epsilon, error);
    return status;
}

static bg_status validate_lamb(const bg_optimiser *optimiser, bg_error *error)
{
    if (!(optimiser->max_weight_norm > 0.0))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "optimiser: max_weight_norm is %g; it must be above 0: 65500 is usual, infinity is no bound",
            optimiser->max_weight_norm);
    return validate_adam(optimiser, error);
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
    case BG_ADAMAX:
        return validate_adam(optimiser, error);
    case BG_RMSPROP:
        return validate_rmsprop(optimiser, error);
    case BG_LAMB:
        return validate_lamb(optimiser, error);
    case BG_ADAGRAD:
        return check_not_negative("epsilon", optimiser->epsilon, error);
    case BG_ADADELTA:
        return validate_adadelta(optimiser, error);
    }
    return bg_error_set(error, BG_ERROR_INVALID,
                        "optimiser: kind %d is none of bg_optimiser_kind; begin with bg_sgd, bg_adamw and the like",
                        (int)optimiser->kind);
}

/* ---- as text ---- */

typedef struct named_kind {
    const char *name;
    bg_optimiser (*make)(double learning_rate);
} named_kind;

static const named_kind kinds[] = {
    [BG_SGD] = {"sgd", bg_sgd},
    [BG_ADAM] = {"adam", bg_adam},
    [BG_ADAMW] = {"adamw", bg_adamw},
    [BG_ADAMAX] = {"adamax", bg_adamax},
    [BG_RMSPROP] = {"rmsprop", bg_rmsprop},
    [BG_LAMB] = {"lamb", bg_lamb},
    [BG_ADAGRAD] = {"adagrad", bg_adagrad},
    [BG_ADADELTA] = {"adadelta", bg_adadelta},
};

enum {
    KIND_COUNT = sizeof kinds / sizeof kinds[0],
    OF_SGD = 1u << BG_SGD,
    OF_RMSPROP = 1u << BG_RMSPROP,
    OF_LAMB = 1u << BG_LAMB,
    OF_ADADELTA = 1u << BG_ADADELTA,
    OF_ADAMS = 1u << BG_ADAM | 1u << BG_ADAMW | 1u << BG_ADAMAX | OF_LAMB,
    OF_ALL = (1u << KIND_COUNT) - 1u,
    OF_ALL_BUT_SGD = OF_ALL & ~OF_SGD
};

typedef struct named_field {
    const char *name;
    size_t offset;
    uint32_t kinds; /* that have it */
    bool is_flag;
} named_field;

#define NUMBER(field, kinds)                                                                                           \
    {                                                                                                                  \
#field, offsetof(bg_optimiser, field), kinds, false                                                            \
    }
#define FLAG(field, kinds)                                                                                             \
    {                                                                                                                  \
#field, offsetof(bg_optimiser, field), kinds, true                                                             \
    }

static const named_field fields[] = {
    NUMBER(weight_decay, OF_ALL),
    NUMBER(momentum, OF_SGD | OF_RMSPROP),
    NUMBER(dampening, OF_SGD),
    FLAG(nesterov, OF_SGD),
    FLAG(combined, OF_SGD),
    NUMBER(velocity_scaling, OF_SGD),
    NUMBER(beta1, OF_ADAMS),
    NUMBER(beta2, OF_ADAMS),
    NUMBER(alpha, OF_RMSPROP | OF_ADADELTA),
    NUMBER(epsilon, OF_ALL_BUT_SGD),
    NUMBER(max_weight_norm, OF_LAMB),
    FLAG(uncorrected, OF_ADAMS),
    FLAG(centred, OF_RMSPROP),
    FLAG(tf_variant, OF_RMSPROP),
    FLAG(decay_matrices_only, OF_ALL),
};

enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

const char *bg_optimiser_name(bg_optimiser_kind kind)
{
    return (unsigned)kind < KIND_COUNT ? kinds[kind].name : NULL;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(text, word, length) == 0;
}

static bg_status refuse_kind(const char *text, size_t length, bg_error *error)
{
    char names[128] = "";

    for (size_t i = 0; i < KIND_COUNT; i++) {
        strcat(names, i > 0 ? ", " : "");
        strcat(names, kinds[i].name);
    }
    return bg_error_set(error, BG_ERROR_INVALID, "optimiser: there is no `%.*s`; there are %s",
                        (int)(length < 64 ? length : 64), text, names);
}

static bg_status refuse_field(const char *text, size_t length, bg_optimiser_kind kind, bg_error *error)
{
    char names[256] = "";

    for (size_t i = 0; i < FIELD_COUNT; i++)
        if ((fields[i].kinds >> kind & 1u) != 0) {
            strcat(names, names[0] != '\0' ? ", " : "");
            strcat(names, fields[i].name);
        }
    return bg_error_set(error, BG_ERROR_INVALID, "optimiser: %s has no `%.*s`; it has %s", kinds[kind].name,
                        (int)(length < 64 ? length : 64), text, names);
}

/* "momentum=0.9" or "nesterov". */
static bg_status read_field(const char *text, size_t length, bg_optimiser *optimiser, bg_error *error)
{
    const char *equals = memchr(text, '=', length);
    const size_t name = equals != NULL ? (size_t)(equals - text) : length;
    const named_field *field = fields;
    char *end = NULL;
    double value;

    while (field < fields + FIELD_COUNT &&
           (!is_word(text, name, field->name) || (field->kinds >> optimiser->kind & 1u) == 0))
        field++;
    if (field == fields + FIELD_COUNT)
        return refuse_field(text, name, optimiser->kind, error);
    if (field->is_flag && equals == NULL) {
        *(bool *)((char *)optimiser + field->offset) = true;
        return BG_OK;
    }
    value = equals != NULL ? bgi_text_real(equals + 1, &end) : 0.0;
    if (field->is_flag || equals == NULL || equals + 1 == text + length || end != text + length)
        return bg_error_set(error, BG_ERROR_INVALID, "optimiser: `%.*s`; %s", (int)(length < 64 ? length : 64), text,
                            field->is_flag ? "it is a word by itself, without a value"
                                           : "it needs a number: name=number");
    *(double *)((char *)optimiser + field->offset) = value;
    return BG_OK;
}

bg_status bg_optimiser_parse(const char *text, double learning_rate, bg_optimiser *out, bg_error *error)
{
    size_t length = strcspn(text, ":"), kind = 0;
    bg_optimiser optimiser;

    while (kind < KIND_COUNT && !is_word(text, length, kinds[kind].name))
        kind++;
    if (kind == KIND_COUNT)
        return refuse_kind(text, length, error);
    optimiser = kinds[kind].make(learning_rate);
    for (text += length; *text != '\0'; text += length) {
        text++;
        length = strcspn(text, ",");
        BGI_TRY(read_field(text, length, &optimiser, error));
    }
    BGI_TRY(bg_optimiser_validate(&optimiser, error));
    *out = optimiser;
    return BG_OK;
}
