/*
 * initializer.c: checks the limits on tensors and numbers of each kind of first values.
 */
#include "core/initializer.h"

#include <math.h>

#include "core/error.h"

/* A kind's name in messages, and the ranks of its tensors. */
static const struct {
    const char *name;
    uint32_t minimum, maximum;
} kinds[] = {
    [BG_INITIALIZE_CONSTANT] = {"constant", 0, BG_MAX_RANK},
    [BG_INITIALIZE_UNIFORM] = {"uniform", 0, BG_MAX_RANK},
    [BG_INITIALIZE_NORMAL] = {"normal", 0, BG_MAX_RANK},
    [BG_INITIALIZE_TRUNCATED_NORMAL] = {"truncated_normal", 0, BG_MAX_RANK},
    [BG_INITIALIZE_ORTHOGONAL] = {"orthogonal", 2, BG_MAX_RANK},
    [BG_INITIALIZE_EYE] = {"eye", 2, 2},
    [BG_INITIALIZE_DIRAC] = {"dirac", 3, 5},
    [BG_INITIALIZE_SPARSE] = {"sparse", 2, 2},
};

bg_status bgi_initializer_check_rank(const bg_initializer *initializer, uint32_t rank, const char *name,
                                     bg_error *error)
{
    if ((unsigned)initializer->kind >= sizeof kinds / sizeof *kinds)
        return bg_error_set(error, BG_ERROR_INVALID, "variable `%s`: initializer %d is not one of bg_initializer_kind",
                            name, (int)initializer->kind);
    if (rank >= kinds[initializer->kind].minimum && rank <= kinds[initializer->kind].maximum)
        return BG_OK;
    return bg_error_set(
        error, BG_ERROR_SHAPE, "first values of `%s`: the tensor has rank %u, and %s needs a rank from %u to %u", name,
        rank, kinds[initializer->kind].name, kinds[initializer->kind].minimum, kinds[initializer->kind].maximum);
}

bg_status bgi_initializer_check(const bg_initializer *initializer, const bg_type *whole, const char *name,
                                bg_error *error)
{
    const double a = initializer->a, b = initializer->b;

    BGI_TRY(bgi_initializer_check_rank(initializer, whole->rank, name, error));
    if (!isfinite(a) || !isfinite(b))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "first values of `%s`: the numbers are %g and %g; they must be finite", name, a, b);
    if (initializer->kind == BG_INITIALIZE_SPARSE && !(a >= 0.0 && a <= 1.0 && b >= 0.0))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "first values of `%s`: the share of zeros of sparse is %g and the deviation is %g; give a "
                            "share from 0 to 1 and a deviation of at least 0",
                            name, a, b);
    if (initializer->kind == BG_INITIALIZE_DIRAC && a != 0.0 &&
        !(a >= 1.0 && a <= (double)whole->dims[0] && a == floor(a) && whole->dims[0] % (int64_t)a == 0))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "first values of `%s`: the number of groups of dirac is %g; it must divide the %lld outputs", name, a,
            (long long)whole->dims[0]);
    return BG_OK;
}
