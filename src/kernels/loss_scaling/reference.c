/*
 * reference.c: an automatic loss scale: counts elements of gradients near the end of a range, and adapts the scale. The
 * rule, applied after each period of updates, is PopART's (automatic loss scaling): if more than a fraction t of the
 * elements was beyond the edge (upper > t / (1 - t) x lower), the scale decreases, otherwise it increases. The new
 * scale is used from the next update on. In addition, the scale stays in its bounds, and an element that is not finite
 * skips the update and lowers the scale immediately.
 */
#include "kernels/kernels.h"
#include "kernels/loss_scaling/attributes.h"
#include "kernels/optimizer/attributes.h"
#include "kernels/reference/element.h"

void bgi_reference_range_count(const bg_kernel_call *call, uint32_t part)
{
    const bgi_range_count_attributes *attributes = call->attributes;
    const double edge = attributes->edge;
    const bg_type *x = &call->types[0];
    const int64_t live = bgi_range_count_live(attributes, call);
    double counts[BGI_RANGE_COUNTS] = {0.0};

    (void)part;
    for (int64_t i = 0; i < live; i++) {
        const double element = bgi_load(x->dtype, call->operands[0], i);

        counts[fabs(element) <= edge ? BGI_RANGE_LOWER : BGI_RANGE_UPPER] += 1.0;
        counts[BGI_RANGE_NOT_FINITE] += isfinite(element) ? 0.0 : 1.0;
    }
    if (attributes->only_not_finite)
        counts[BGI_RANGE_LOWER] = counts[BGI_RANGE_UPPER] = 0.0;
    for (int64_t k = 0; k < BGI_RANGE_COUNTS; k++)
        bgi_store(BG_FLOAT64, call->operands[1], k, counts[k]);
}

static double clamp(const bgi_loss_scale_attributes *a, double scale)
{
    return scale < a->minimum ? a->minimum : scale > a->maximum ? a->maximum : scale;
}

static void adapt(const bgi_loss_scale_attributes *a, bool overflows, float *scale, double *statistics)
{
    const double most = a->threshold / (1.0 - a->threshold) * statistics[BGI_STATISTICS_LOWER];
    const bool falls = overflows || statistics[BGI_STATISTICS_UPPER] > most;

    if (!overflows && statistics[BGI_STATISTICS_UPDATES] < a->period)
        return;
    *scale = (float)clamp(a, *scale * (falls ? a->decrease : a->increase));
    statistics[BGI_STATISTICS_LOWER] = statistics[BGI_STATISTICS_UPPER] = statistics[BGI_STATISTICS_UPDATES] = 0.0;
}

void bgi_reference_loss_scale(const bg_kernel_call *call, uint32_t part)
{
    enum { LOSS_SCALE = 0, STATISTICS, COUNTS, SCALE, HYPER, SCALE_OUT, HYPER_OUT, USED_OUT };
    float *loss_scale = call->operands[LOSS_SCALE];
    double *statistics = call->operands[STATISTICS], *hyper = call->operands[HYPER_OUT];
    const double *counts = call->operands[COUNTS], *given = call->operands[HYPER];
    const bool is_refused = given[BGI_HYPER_SKIP] != 0.0; /* the loss was not finite: the scale is unchanged */
    const bool overflows = is_refused || counts[BGI_RANGE_NOT_FINITE] > 0.0;
    const double steps = (double)call->env->optimizer_step;

    (void)part;
    /* A new optimizer state has no skipped updates, and a state cannot have skipped more updates than were made. */
    if (statistics[BGI_STATISTICS_SKIPPED] > steps)
        statistics[BGI_STATISTICS_SKIPPED] = steps;
    for (int k = 0; k < BGI_HYPER_COUNT; k++)
        hyper[k] = given[k];
    hyper[BGI_HYPER_SKIP] = overflows ? 1.0 : 0.0;
    hyper[BGI_HYPER_SKIPPED] = statistics[BGI_STATISTICS_SKIPPED];
    bgi_store(BG_FLOAT32, call->operands[SCALE_OUT], 0, *(const float *)call->operands[SCALE] / (double)*loss_scale);
    *(float *)call->operands[USED_OUT] = *loss_scale;
    if (is_refused)
        return;
    statistics[BGI_STATISTICS_SKIPPED] += overflows ? 1.0 : 0.0;
    statistics[BGI_STATISTICS_LOWER] += counts[BGI_RANGE_LOWER];
    statistics[BGI_STATISTICS_UPPER] += counts[BGI_RANGE_UPPER];
    statistics[BGI_STATISTICS_UPDATES] += 1.0;
    adapt(call->attributes, overflows, loss_scale, statistics);
}

void bgi_reference_loss_guard(const bg_kernel_call *call, uint32_t part)
{
    enum { HYPER = 0, COUNTS, HYPER_OUT };
    double *hyper = call->operands[HYPER], *out = call->operands[HYPER_OUT];
    const double *counts = call->operands[COUNTS];

    (void)part;
    if (hyper[BGI_HYPER_SKIP] == 0.0 && counts[BGI_RANGE_NOT_FINITE] > 0.0)
        hyper[BGI_HYPER_SKIP] = (double)call->env->optimizer_step + 1.0;
    for (int k = 0; k < BGI_HYPER_COUNT; k++)
        out[k] = hyper[k];
}
