/*
 * group_reference.c: group normalization in plain C, by the formulas of reference.c over a group's channels and
 * positions.
 */
#include "kernels/kernels.h"

#include "kernels/norm/attributes.h"
#include "kernels/norm/channels.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"

void bgi_reference_group_norm(const bg_kernel_call *call, uint32_t part)
{
    const bgi_group_norm_attributes *attributes = call->attributes;
    const bg_type *type = bgi_input_type(call, 0), *statistics = bgi_output_type(call, 1);
    const bgi_groups all = bgi_groups_read(type, attributes);
    const void *x = call->operands[0];

    (void)part;
    for (int64_t group = 0; group < all.n * all.groups; group++) {
        const int64_t first = group * all.length;
        double mean = 0.0, variance = 0.0, rstd;

        for (int64_t i = 0; i < all.length; i++)
            mean += bgi_load(type->dtype, x, first + i);
        mean /= (double)all.length;
        for (int64_t i = 0; i < all.length; i++) {
            const double difference = bgi_load(type->dtype, x, first + i) - mean;

            variance += difference * difference;
        }
        rstd = 1.0 / sqrt(variance / (double)all.length + attributes->epsilon);
        for (int64_t i = 0; i < all.length; i++) {
            const int64_t channel = group % all.groups * all.channels + i / all.inner;
            const double xhat = (bgi_load(type->dtype, x, first + i) - mean) * rstd;

            bgi_store(type->dtype, bgi_output(call, 0), first + i,
                      xhat * bgi_load(type->dtype, call->operands[1], channel) +
                          bgi_load(type->dtype, call->operands[2], channel));
        }
        bgi_store(statistics->dtype, bgi_output(call, 1), group, mean);
        bgi_store(statistics->dtype, bgi_output(call, 2), group, rstd);
    }
}

/* One group of the operands of the backward pass: dy, x, mean, rstd, gamma. */
typedef struct group_view {
    const bg_kernel_call *call;
    const bgi_groups *all;
    bg_dtype dtype;
    int64_t group, first;
    double mean, rstd;
} group_view;

static group_view view_group(const bg_kernel_call *call, const bgi_groups *all, int64_t group)
{
    const bg_dtype statistics = bgi_input_type(call, 2)->dtype;

    return (group_view){.call = call,
                        .all = all,
                        .dtype = bgi_input_type(call, 1)->dtype,
                        .group = group,
                        .first = group * all->length,
                        .mean = bgi_load(statistics, call->operands[2], group),
                        .rstd = bgi_load(statistics, call->operands[3], group)};
}

static double dy_of(const group_view *v, int64_t i)
{
    return bgi_load(v->dtype, v->call->operands[0], v->first + i);
}

static double xhat_of(const group_view *v, int64_t i)
{
    return (bgi_load(v->dtype, v->call->operands[1], v->first + i) - v->mean) * v->rstd;
}

static double g_of(const group_view *v, int64_t i)
{
    const int64_t channel = v->group % v->all->groups * v->all->channels + i / v->all->inner;

    return dy_of(v, i) * bgi_load(v->dtype, v->call->operands[4], channel);
}

void bgi_reference_group_norm_backward(const bg_kernel_call *call, uint32_t part)
{
    const bg_dtype dtype = bgi_input_type(call, 1)->dtype;
    const bgi_groups all = bgi_groups_read(bgi_input_type(call, 1), call->attributes);

    (void)part;
    for (int64_t channel = 0; channel < all.groups * all.channels; channel++) {
        double dgamma = 0.0, dbeta = 0.0;

        for (int64_t n = 0; n < all.n; n++) {
            const group_view v = view_group(call, &all, n * all.groups + channel / all.channels);
            const int64_t place = channel % all.channels * all.inner;

            for (int64_t i = place; i < place + all.inner; i++) {
                dgamma += dy_of(&v, i) * xhat_of(&v, i);
                dbeta += dy_of(&v, i);
            }
        }
        bgi_store(dtype, bgi_output(call, 1), channel, dgamma);
        bgi_store(dtype, bgi_output(call, 2), channel, dbeta);
    }
    for (int64_t group = 0; group < all.n * all.groups; group++) {
        const group_view v = view_group(call, &all, group);
        double mean = 0.0, product = 0.0;

        for (int64_t i = 0; i < all.length; i++) {
            mean += g_of(&v, i) / (double)all.length;
            product += g_of(&v, i) * xhat_of(&v, i) / (double)all.length;
        }
        for (int64_t i = 0; i < all.length; i++)
            bgi_store(dtype, bgi_output(call, 0), v.first + i,
                      v.rstd * (g_of(&v, i) - mean - xhat_of(&v, i) * product));
    }
}
