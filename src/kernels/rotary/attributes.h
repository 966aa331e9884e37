/*
 * attributes.h: the operands and attributes of rotary positions. Notation: kernels.h.
 */
#ifndef BGI_KERNELS_ROTARY_ATTRIBUTES_H
#define BGI_KERNELS_ROTARY_ATTRIBUTES_H

#include <brigade/ops.h>

#include <math.h>

/*
 *     ROTARY  x [..,S,HD], positions int32 [S] or [..,S]? -> y
 *
 * In each head the first `features` features form pairs, (i, features / 2 + i) or interleaved (2 i, 2 i + 1). Pair i is
 * rotated by the position times its frequency, in radians, or in the opposite direction with `inverse`. The frequency
 * is base^(-2 i / features), scaled by the rule of bg_rotary_scaling. Without positions, the position of a row is its
 * index, 0 .. S - 1.
 */
typedef struct bgi_rotary_attributes {
    int64_t heads, features;
    double base, scaling;
    /* Only for YARN and LLAMA3: L, the rotations in L positions from which on a frequency is unchanged, and those up to
     * which it is divided. */
    double trained_length, most_turns, least_turns;
    double magnitude; /* a factor of the rotated features; 0: no factor */
    uint8_t interleaved, inverse;
    uint8_t kind; /* bg_rotary_scaling: LINEAR, YARN or LLAMA3; both NTK rules become LINEAR with a larger `base` */
} bgi_rotary_attributes;

#define BGI_ROTARY_TURN 6.283185307179586

/* Returns the (fractional) pair that makes `turns` rotations in L positions. */
static inline double bgi_rotary_pair_of(const bgi_rotary_attributes *attributes, double turns)
{
    return (double)attributes->features * log(attributes->trained_length / (turns * BGI_ROTARY_TURN)) /
           (2.0 * log(attributes->base));
}

/* Returns the fraction of a frequency, 0 to 1, that is divided by the scaling. */
static inline double bgi_rotary_share(const bgi_rotary_attributes *attributes, int64_t pair, double frequency)
{
    double share = 1.0;

    if (attributes->kind == BG_ROTARY_YARN) {
        const double first = fmax(floor(bgi_rotary_pair_of(attributes, attributes->most_turns)), 0.0);
        const double last =
            fmin(ceil(bgi_rotary_pair_of(attributes, attributes->least_turns)), (double)attributes->features - 1.0);

        share = ((double)pair - first) / (first == last ? 0.001 : last - first);
    }
    if (attributes->kind == BG_ROTARY_LLAMA3)
        share = 1.0 - (attributes->trained_length * frequency / BGI_ROTARY_TURN - attributes->least_turns) /
                          (attributes->most_turns - attributes->least_turns);
    return fmin(fmax(share, 0.0), 1.0);
}

static inline double bgi_rotary_frequency(const bgi_rotary_attributes *attributes, int64_t pair)
{
    const double frequency = pow(attributes->base, -2.0 * (double)pair / (double)attributes->features);
    const double share = bgi_rotary_share(attributes, pair, frequency);

    return share * (frequency / attributes->scaling) + (1.0 - share) * frequency;
}

static inline double bgi_rotary_magnitude(const bgi_rotary_attributes *attributes)
{
    return attributes->magnitude == 0.0 ? 1.0 : attributes->magnitude;
}

/* Returns the number of rows whose positions may differ: S, or all rows. */
static inline int64_t bgi_rotary_places(const bg_type *x, const bg_type *positions)
{
    return positions != NULL ? bg_type_element_count(positions) : x->dims[x->rank - 2];
}

#endif
