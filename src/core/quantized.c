/*
 * quantized.c: rounds weights to 16, 8 or 4 bits, a block at a time. Loops run over the 64 outputs of a panel, so that
 * compilers can vectorize them.
 */
#include "core/quantized.h"

#include <float.h>
#include <math.h>

enum { PANEL = BGI_QUANTIZED_PANEL, BLOCK = BGI_QUANTIZED_BLOCK };

static const float largest_weight = 1e38F;

typedef struct block {
    float weights[BLOCK][PANEL]; /* by input and output; zeros beyond the matrix */
    float scales[PANEL];
    int64_t inputs;
} block;

static void read_block(const bgi_quantized *q, const float *weights, int64_t panel, int64_t k0, block *b)
{
    const int64_t o0 = panel * PANEL, outputs = q->out - o0 < PANEL ? q->out - o0 : PANEL;

    b->inputs = q->in - k0 < BLOCK ? q->in - k0 : BLOCK;
    memset(b->weights, 0, sizeof b->weights);
    if (q->in_out)
        for (int64_t k = 0; k < b->inputs; k++)
            memcpy(b->weights[k], weights + (k0 + k) * q->out + o0, (size_t)outputs * sizeof(float));
    else
        for (int64_t o = 0; o < outputs; o++)
            for (int64_t k = 0; k < b->inputs; k++)
                b->weights[k][o] = weights[(o0 + o) * q->in + k0 + k];
}

/* Returns the smallest bfloat16 that is at least `scale`, and at least the smallest normal number, so that products
 * with levels are exact. */
static float round_up(float scale)
{
    const float least = scale < FLT_MIN ? FLT_MIN : scale;

    return bgi_float_from_bits((bgi_float_bits(least) + 0xffffU) & 0xffff0000U);
}

/* Returns the scale for one output of a block. `low` and `high` are the smallest and the largest of 0 and the block's
 * weights. The extreme with the larger magnitude gets the most negative level; the other one must be within half a
 * scale of the most positive level. */
static float choose_scale(float low, float high, float levels)
{
    const float larger = -low > high ? -low : high, other = -low > high ? high : -low;
    const float first = larger / levels, second = other / (levels - 0.5F);

    if (larger == 0.0F)
        return 0.0F;
    return -low > high ? round_up(first > second ? first : second) : -round_up(first > second ? first : second);
}

static bool choose_scales(block *b, float levels)
{
    float low[PANEL] = {0}, high[PANEL] = {0};
    int outside = 0;

    for (int64_t k = 0; k < b->inputs; k++)
        for (int o = 0; o < PANEL; o++) {
            const float w = b->weights[k][o];

            low[o] = w < low[o] ? w : low[o];
            high[o] = w > high[o] ? w : high[o];
            outside |= !(fabsf(w) <= largest_weight);
        }
    for (int o = 0; o < PANEL; o++)
        b->scales[o] = choose_scale(low[o], high[o], levels);
    return !outside;
}

/* Computes the levels of one input's weights. Rounding may move the quotient across the middle between two levels; the
 * remainder, which is exact, shows this. */
static void round_row(const block *b, const float *inverse, int64_t k, float levels, int32_t *out)
{
    const float integers = 0x1.8p23F; /* a float32 of this size has no fraction */

    for (int o = 0; o < PANEL; o++) {
        const float w = b->weights[k][o], scale = b->scales[o], half = scale * 0.5F;
        const float level = (w * inverse[o] + integers) - integers, rest = w - level * scale;
        const float up = rest * half > half * half ? 1.0F : 0.0F, down = rest * half < -(half * half) ? 1.0F : 0.0F;
        const float moved = level + up - down;
        const float bounded = moved > levels - 1.0F ? levels - 1.0F : moved < -levels ? -levels : moved;

        out[o] = (int32_t)bounded;
    }
}

static void note_errors(const block *b, int64_t k, const int32_t *levels, bgi_quantized_error *error)
{
    float largest = 0.0F;

    for (int o = 0; o < PANEL; o++) {
        const float difference = fabsf(b->weights[k][o] - (float)levels[o] * b->scales[o]);

        largest = difference > largest ? difference : largest;
    }
    if (largest > error->largest)
        error->largest = largest;
}

static void write_row(const int32_t *levels, uint32_t bits, uint8_t *to)
{
    for (int o = 0; bits == 8 && o < PANEL; o++)
        to[o] = (uint8_t)levels[o];
    for (int o = 0; bits == 4 && o < PANEL / 2; o++)
        to[o] = (uint8_t)((levels[o] + 8) | (levels[o + PANEL / 2] + 8) << 4);
}

static void write_block(const block *b, const bgi_quantized *q, float levels, uint8_t *to, bgi_quantized_error *error)
{
    const int64_t row_bytes = bgi_quantized_row_bytes(q->bits);
    float inverse[PANEL];

    for (int o = 0; o < PANEL; o++) {
        const uint16_t scale = (uint16_t)(bgi_float_bits(b->scales[o]) >> 16);

        memcpy(to + (size_t)o * sizeof scale, &scale, sizeof scale);
        inverse[o] = b->scales[o] == 0.0F ? 0.0F : 1.0F / b->scales[o];
        if (fabsf(b->scales[o]) * 0.5 > error->bound)
            error->bound = fabsf(b->scales[o]) * 0.5;
    }
    to += PANEL * sizeof(uint16_t);
    for (int64_t k = 0; k < BLOCK; k++, to += row_bytes) {
        int32_t rounded[PANEL] = {0};

        if (k < b->inputs) {
            round_row(b, inverse, k, levels, rounded);
            note_errors(b, k, rounded, error);
        }
        write_row(rounded, q->bits, to);
    }
}

/* ---- bfloat16 ---- */

/* Returns half of the unit in the last place of a weight in bfloat16. */
static double find_half_place(float largest)
{
    return (double)(largest < FLT_MIN ? FLT_MIN : bgi_float_from_bits(bgi_float_bits(largest) & 0x7f800000U)) / 256.0;
}

static bool write_bfloat16(const block *b, uint8_t *to, bgi_quantized_error *error)
{
    float largest = 0.0F, off = 0.0F;

    for (int64_t k = 0; k < BLOCK; k++)
        for (int o = 0; o < PANEL; o++) {
            const float w = b->weights[k][o];
            const uint16_t rounded = bgi_bfloat16_from_float(w);
            const float difference = fabsf(w - bgi_bfloat16_to_float(rounded));

            if (!(fabsf(w) <= largest_weight))
                return false;
            largest = fabsf(w) > largest ? fabsf(w) : largest;
            off = difference > off ? difference : off;
            memcpy(to + ((k / 2 * PANEL + o) * 2 + k % 2) * 2, &rounded, sizeof rounded);
        }
    error->largest = off > error->largest ? off : error->largest;
    if (largest > 0.0F && find_half_place(largest) > error->bound)
        error->bound = find_half_place(largest);
    return true;
}

bool bgi_quantize_panels(const bgi_quantized *q, const float *weights, int64_t first, int64_t end, void *to,
                         bgi_quantized_error *error)
{
    const float levels = q->bits == 8 ? 128.0F : 8.0F;
    uint8_t *at = (uint8_t *)to + first * bgi_quantized_panel_bytes(q->in, q->bits);
    block b;

    for (int64_t panel = first; panel < end; panel++)
        for (int64_t k0 = 0; k0 < q->in; k0 += BLOCK, at += bgi_quantized_block_bytes(q->bits)) {
            read_block(q, weights, panel, k0, &b);
            if (q->bits == 16) {
                if (!write_bfloat16(&b, at, error))
                    return false;
                continue;
            }
            if (!choose_scales(&b, levels))
                return false;
            write_block(&b, q, levels, at, error);
        }
    return true;
}
