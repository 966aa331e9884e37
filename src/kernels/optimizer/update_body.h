/*
 * update_body.h: the optimizers' updates in PyTorch's order of operations. Every product and sum is rounded separately,
 * so that the bits are those of the reference. Only scalars are computed in double. (lamb_body.h has LAMB.)
 */
#ifndef BGI_KERNELS_OPTIMIZER_UPDATE_BODY_H
#define BGI_KERNELS_OPTIMIZER_UPDATE_BODY_H

#include "kernels/cpu/philox_body.h"
#include "kernels/elementwise/fast_body.h"
#include "kernels/optimizer/attributes.h"

enum { UPDATE_PARAMETER = 0, UPDATE_GRADIENT, UPDATE_HYPER, UPDATE_SCALE, UPDATE_STATE, UPDATE_STATES = 3 };

/* One chunk's operands as float32: copies in buffers, or the operands themselves if they are float32. */
typedef struct update_chunk {
    float *parameter, *states[UPDATE_STATES]; /* read and written */
    const float *gradient;
    int64_t count;
} update_chunk;

typedef struct update_buffers {
    float parameter[BGI_ELEMENTWISE_CHUNK], gradient[BGI_ELEMENTWISE_CHUNK],
        states[UPDATE_STATES][BGI_ELEMENTWISE_CHUNK];
} update_buffers;

static float *begin_update(const bg_kernel_call *call, uint32_t input, int64_t index, int64_t count, float *buffer)
{
    if (input >= call->input_count)
        return NULL;
    if (call->types[input].dtype == BG_FLOAT32)
        return (float *)call->operands[input] + index;
    widen(call->types[input].dtype, (const uint16_t *)call->operands[input] + index, count, buffer);
    return buffer;
}

static update_chunk begin_updates(const bg_kernel_call *call, int64_t index, int64_t count, update_buffers *buffers)
{
    update_chunk chunk = {.parameter = begin_update(call, UPDATE_PARAMETER, index, count, buffers->parameter),
                          .gradient = begin_update(call, UPDATE_GRADIENT, index, count, buffers->gradient),
                          .count = count};

    for (uint32_t s = 0; s < UPDATE_STATES; s++)
        chunk.states[s] = begin_update(call, UPDATE_STATE + s, index, count, buffers->states[s]);
    return chunk;
}

/* Rounds all elements together, and again one by one if an element needs more random bits (one in many thousands
 * does). */
static void narrow_float16_by_chance(const bgi_chances *chances, int64_t first, int64_t count, const float *from,
                                     const uint32_t *chance, uint16_t *to)
{
    uint32_t is_open = 0;

    for (int64_t i = 0; i < count; i++)
        to[i] = bgi_float16_by_chance(from[i], chance[i], &is_open);
    for (int64_t i = 0; is_open && i < count; i++)
        to[i] = bgi_narrow_by_chance(BG_FLOAT16, from[i], chance[i], chances, first + i);
}

/* Rounds a chunk by random bits. Random blocks are computed for the whole chunk, which may begin and end inside a
 * block. */
static void narrow_by_chance(bg_dtype dtype, const bgi_chances *chances, int64_t index, int64_t count,
                             const float *from, uint16_t *to)
{
    const int64_t first = chances->first + index;
    uint32_t words[4][PHILOX_GROUP], block[4], chance[PHILOX_GROUP * BGI_ROUNDING_BLOCK];

    for (int64_t e = 0; e < count;) {
        const int64_t begin = first + e, skipped = begin % BGI_ROUNDING_BLOCK;
        const int64_t group = clip(count - e, PHILOX_GROUP * BGI_ROUNDING_BLOCK - skipped);

        make_words(chances->rest, chances->key, (uint32_t)(begin / BGI_ROUNDING_BLOCK),
                   (skipped + group + BGI_ROUNDING_BLOCK - 1) / BGI_ROUNDING_BLOCK, words);
        for (int64_t i = 0; i < group; i++) {
            for (int w = 0; w < 4; w++)
                block[w] = words[w][(skipped + i) / BGI_ROUNDING_BLOCK];
            chance[i] = bgi_rounding_bits(block, begin + i);
        }
        if (dtype == BG_BFLOAT16)
            for (int64_t i = 0; i < group; i++)
                to[index + e + i] = bgi_bfloat16_by_chance(from[e + i], chance[i]);
        else
            narrow_float16_by_chance(chances, begin, group, from + e, chance, to + index + e);
        e += group;
    }
}

/* Stores results from `buffer` in their operand; float32 results are already there. */
static void end_update(const bg_kernel_call *call, uint32_t operand, int64_t index, int64_t count, const float *buffer)
{
    const bgi_rounding *rounding = call->attributes; /* every update's attributes begin with it */
    const bg_dtype dtype = call->types[operand].dtype;

    if (dtype == BG_FLOAT32 || rounding->elements == 0) {
        end_output(dtype, call->operands[operand], index, count, buffer);
    } else {
        const bgi_chances chances = bgi_rounding_chances(rounding, call, operand);

        narrow_by_chance(dtype, &chances, index, count, buffer, call->operands[operand]);
    }
}

static void end_updates(const bg_kernel_call *call, int64_t index, int64_t count, const update_buffers *buffers)
{
    end_update(call, UPDATE_PARAMETER, index, count, buffers->parameter);
    for (uint32_t i = UPDATE_STATE; i < call->input_count; i++)
        end_update(call, i, index, count, buffers->states[i - UPDATE_STATE]);
}

static float read_scale(const bg_kernel_call *call)
{
    float scale;

    read_floats(call->types[UPDATE_SCALE].dtype, call->operands[UPDATE_SCALE], 0, 1, &scale);
    return scale;
}

static bool is_skipped(const bg_kernel_call *call)
{
    return ((const double *)call->operands[UPDATE_HYPER])[BGI_HYPER_SKIP] != 0.0;
}

/* Updates the part, chunk by chunk. */
static void run_updates(const bg_kernel_call *call, uint32_t part,
                        void (*update)(const void *factors, const update_chunk *chunk), const void *factors)
{
    const int64_t count = bg_type_element_count(&call->types[0]), end = bgi_elementwise_start(count, part + 1);
    update_buffers buffers;

    if (is_skipped(call))
        return;
    for (int64_t i = bgi_elementwise_start(count, part); i < end; i += BGI_ELEMENTWISE_CHUNK) {
        const update_chunk chunk = begin_updates(call, i, clip(end - i, BGI_ELEMENTWISE_CHUNK), &buffers);

        update(factors, &chunk);
        end_updates(call, i, chunk.count, &buffers);
    }
}

typedef struct sgd_factors {
    float scale, step_size, decay, momentum, admitted, scaling;
    bool has_velocity, is_first, nesterov, combined;
} sgd_factors;

static void update_sgd(const void *factors, const update_chunk *c)
{
    const sgd_factors *const f = factors;
    for (int64_t i = 0; i < c->count; i += LANES) {
        const int64_t live = clip(c->count - i, LANES);
        const vf parameter = vload_n(c->parameter + i, live);
        vf direction = vload_n(c->gradient + i, live) * vset(f->scale);

        if (f->decay != 0.0f)
            direction = direction + vset(f->decay) * parameter;
        if (f->has_velocity) {
            vf velocity = direction;

            if (f->combined || !f->is_first)
                velocity = vload_n(c->states[0] + i, live) * vset(f->momentum) + vset(f->admitted) * direction;
            vstore_n(c->states[0] + i, velocity, live);
            if (f->combined)
                direction = vset(f->scaling) * direction;
            direction = f->nesterov ? direction + vset(f->momentum) * velocity : velocity;
        }
        vstore_n(c->parameter + i, parameter + vset(f->step_size) * direction, live);
    }
}

static void run_sgd_update(const bg_kernel_call *call, uint32_t part)
{
    const bgi_sgd_attributes *attributes = call->attributes;
    const double *hyper = call->operands[UPDATE_HYPER];
    const double scaling = attributes->combined ? hyper[BGI_HYPER_VELOCITY_SCALING] : 1.0;
    const sgd_factors factors = {.scale = read_scale(call),
                                 .step_size = (float)(-hyper[BGI_HYPER_LEARNING_RATE] / scaling),
                                 .decay = attributes->without_decay ? 0.0f : (float)hyper[BGI_HYPER_WEIGHT_DECAY],
                                 .momentum = (float)hyper[BGI_HYPER_MOMENTUM],
                                 .admitted = (float)((1.0 - hyper[BGI_HYPER_DAMPENING]) * scaling),
                                 .scaling = (float)scaling,
                                 .has_velocity =
                                     call->input_count > UPDATE_STATE && (float)hyper[BGI_HYPER_MOMENTUM] != 0.0f,
                                 .is_first = (double)call->env->optimizer_step == hyper[BGI_HYPER_SKIPPED],
                                 .nesterov = attributes->nesterov,
                                 .combined = attributes->combined};

    run_updates(call, part, update_sgd, &factors);
}

typedef struct adam_factors {
    float scale, decay, beta1, admitted1, beta2, admitted2, root_correction2, epsilon, step_size;
    bool is_decoupled, is_maximum;
} adam_factors;

static adam_factors make_adam_factors(const bg_kernel_call *call)
{
    const double *hyper = call->operands[UPDATE_HYPER];
    const double t = (double)(call->env->optimizer_step + 1) - hyper[BGI_HYPER_SKIPPED];
    const bgi_adam_attributes *attributes = call->attributes;
    const double rate = hyper[BGI_HYPER_LEARNING_RATE];
    const double decay = attributes->without_decay ? 0.0 : hyper[BGI_HYPER_WEIGHT_DECAY];
    const double beta1 = hyper[BGI_HYPER_BETA1], beta2 = hyper[BGI_HYPER_BETA2];
    const bool is_decoupled = attributes->decoupled_decay;

    return (adam_factors){.scale = read_scale(call),
                          .decay = (float)(is_decoupled ? 1.0 - rate * decay : decay),
                          .beta1 = (float)beta1,
                          .admitted1 = (float)(1.0 - beta1),
                          .beta2 = (float)beta2,
                          .admitted2 = (float)(1.0 - beta2),
                          .root_correction2 = attributes->uncorrected ? 1.0f : (float)sqrt(1.0 - pow(beta2, t)),
                          .epsilon = (float)hyper[BGI_HYPER_EPSILON],
                          .step_size = (float)(attributes->uncorrected ? -rate : -(rate / (1.0 - pow(beta1, t)))),
                          .is_decoupled = is_decoupled,
                          .is_maximum = attributes->maximum};
}

static void update_adam(const void *factors, const update_chunk *c)
{
    const adam_factors *const f = factors;
    for (int64_t i = 0; i < c->count; i += LANES) {
        const int64_t live = clip(c->count - i, LANES);
        vf parameter = vload_n(c->parameter + i, live), gradient = vload_n(c->gradient + i, live) * vset(f->scale);
        vf m = vload_n(c->states[0] + i, live), v = vload_n(c->states[1] + i, live), denominator;

        if (f->is_decoupled)
            parameter = parameter * vset(f->decay);
        else if (f->decay != 0.0f)
            gradient = gradient + vset(f->decay) * parameter;
        m = m * vset(f->beta1) + vset(f->admitted1) * gradient;
        if (f->is_maximum) {
            v = v * vset(f->beta2);
            v = vselect(vgreater(v, vabs(gradient)), v, vabs(gradient));
            denominator = v + vset(f->epsilon);
        } else {
            v = v * vset(f->beta2) + vset(f->admitted2) * gradient * gradient;
            denominator = vsqrt(v) / vset(f->root_correction2) + vset(f->epsilon);
        }
        parameter = parameter + vset(f->step_size) * m / denominator;
        vstore_n(c->parameter + i, parameter, live);
        vstore_n(c->states[0] + i, m, live);
        vstore_n(c->states[1] + i, v, live);
    }
}

static void run_adam_update(const bg_kernel_call *call, uint32_t part)
{
    const adam_factors factors = make_adam_factors(call);

    run_updates(call, part, update_adam, &factors);
}

typedef struct rmsprop_factors {
    float scale, rate, decay, momentum, alpha, admitted, epsilon;
    bool is_centered, is_tf, is_adadelta, has_velocity;
} rmsprop_factors;

static rmsprop_factors make_rmsprop_factors(const bg_kernel_call *call)
{
    const bgi_rmsprop_attributes *attributes = call->attributes;
    const double *hyper = call->operands[UPDATE_HYPER];
    const bool sums = attributes->rule == BGI_RULE_ADAGRAD, is_adadelta = attributes->rule == BGI_RULE_ADADELTA;

    return (rmsprop_factors){.scale = read_scale(call),
                             .rate = (float)hyper[BGI_HYPER_LEARNING_RATE],
                             .decay = attributes->without_decay ? 0.0f : (float)hyper[BGI_HYPER_WEIGHT_DECAY],
                             .momentum = (float)hyper[BGI_HYPER_MOMENTUM],
                             .alpha = sums ? 1.0f : (float)hyper[BGI_HYPER_ALPHA],
                             .admitted = sums ? 1.0f : (float)(1.0 - hyper[BGI_HYPER_ALPHA]),
                             .epsilon = (float)hyper[BGI_HYPER_EPSILON],
                             .is_centered = attributes->centered,
                             .is_tf = attributes->tf_variant,
                             .is_adadelta = is_adadelta,
                             .has_velocity =
                                 call->input_count > UPDATE_STATE + 1u + attributes->centered + is_adadelta};
}

/* Returns the new parameter; its change is scaled to the size of earlier changes, of which `changes` is the mean
 * square. */
static inline vf finish_adadelta(const rmsprop_factors *f, vf gradient, vf square, vf *changes, vf parameter)
{
    const vf change = vsqrt(*changes + vset(f->epsilon)) / vsqrt(square + vset(f->epsilon)) * gradient;

    *changes = *changes * vset(f->alpha) + vset(f->admitted) * change * change;
    return parameter + vset(-f->rate) * change;
}

static void update_rmsprop(const void *factors, const update_chunk *c)
{
    const rmsprop_factors *const f = factors;
    float *const velocities = c->states[f->is_centered ? 2 : 1];

    for (int64_t i = 0; i < c->count; i += LANES) {
        const int64_t live = clip(c->count - i, LANES);
        const vf parameter = vload_n(c->parameter + i, live);
        vf gradient = vload_n(c->gradient + i, live) * vset(f->scale), denominator, velocity;
        vf square = vload_n(c->states[0] + i, live), variance;

        if (f->decay != 0.0f)
            gradient = gradient + vset(f->decay) * parameter;
        square = square * vset(f->alpha) + vset(f->admitted) * gradient * gradient;
        vstore_n(c->states[0] + i, square, live);
        if (f->is_adadelta) {
            vf changes = vload_n(c->states[1] + i, live);

            vstore_n(c->parameter + i, finish_adadelta(f, gradient, square, &changes, parameter), live);
            vstore_n(c->states[1] + i, changes, live);
            continue;
        }
        variance = square;
        if (f->is_centered) {
            const vf mean = vload_n(c->states[1] + i, live) * vset(f->alpha) + vset(f->admitted) * gradient;

            vstore_n(c->states[1] + i, mean, live);
            variance = square - mean * mean;
            variance = vselect(vgreater(vset(0.0f), variance), vset(0.0f), variance);
        }
        denominator = f->is_tf ? vsqrt(variance + vset(f->epsilon)) : vsqrt(variance) + vset(f->epsilon);
        if (!f->has_velocity) {
            vstore_n(c->parameter + i, parameter - vset(f->rate) * gradient / denominator, live);
            continue;
        }
        gradient = f->is_tf ? vset(f->rate) * gradient : gradient;
        velocity = vload_n(velocities + i, live) * vset(f->momentum) + gradient / denominator;
        vstore_n(velocities + i, velocity, live);
        vstore_n(c->parameter + i, parameter - (f->is_tf ? velocity : vset(f->rate) * velocity), live);
    }
}

static void run_rmsprop_update(const bg_kernel_call *call, uint32_t part)
{
    const rmsprop_factors factors = make_rmsprop_factors(call);

    run_updates(call, part, update_rmsprop, &factors);
}

#endif
