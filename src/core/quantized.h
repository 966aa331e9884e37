/*
 * quantized.h: defines the layout of a matrix of weights in 16, 8 or 4 bits. Its units are:
 *
 *     panel    64 outputs; panels follow one another, and the last one is filled up with zeros
 *     block    32 inputs of a panel, filled up with zeros: the scales of its outputs, 64 bfloat16, then a row for each
 *              input
 *     row      64 levels: of 8 bits each; or of 4 bits, where byte j has output j's level + 8 in its low half and
 *              output j + 32's in its high half
 *
 * Weights of 16 bits are bfloat16, rounded to nearest, without scales. A row has two inputs: output j's weights of both
 * are its elements 2j and 2j + 1, as instructions for pairs read them (kernels/linear/pairs.h).
 *
 * A weight of 8 or 4 bits is level x scale, with levels from -128 to 127 or from -8 to 7, rounded to nearest. A scale
 * is the smallest bfloat16 with which every weight of its block is at most half a scale from a level. Of the weights
 * with one scale, the weight of the largest magnitude has a negative level, so a scale may be negative. The product of
 * a level and a scale is exact in float32, so every kernel that multiplies them first computes with the same float32
 * matrix.
 */
#ifndef BGI_CORE_QUANTIZED_H
#define BGI_CORE_QUANTIZED_H

#include <brigade/base.h>

#include "core/narrow.h"

enum { BGI_QUANTIZED_PANEL = 64, BGI_QUANTIZED_BLOCK = 32 };

typedef struct bgi_quantized {
    int64_t in, out;
    uint8_t bits;   /* 16, 8 or 4; 0: the matrix is not quantized */
    uint8_t in_out; /* the float32 matrix is [in, out], otherwise [out, in] */
} bgi_quantized;

/* The largest |weight - rounded weight|, and its bound: half of the largest scale or, for 16 bits, half of the unit in
 * the last place of the largest weight. */
typedef struct bgi_quantized_error {
    double largest, bound;
} bgi_quantized_error;

static inline int64_t bgi_quantized_panels(int64_t out)
{
    return (out + BGI_QUANTIZED_PANEL - 1) / BGI_QUANTIZED_PANEL;
}

/* Return the bytes of a row, a block and a panel in the layout above. */
static inline int64_t bgi_quantized_row_bytes(uint32_t bits)
{
    return BGI_QUANTIZED_PANEL * (int64_t)bits / 8;
}

static inline int64_t bgi_quantized_block_bytes(uint32_t bits)
{
    const int64_t scales = bits == 16 ? 0 : BGI_QUANTIZED_PANEL * (int64_t)sizeof(uint16_t);

    return scales + BGI_QUANTIZED_BLOCK * BGI_QUANTIZED_PANEL * (int64_t)bits / 8;
}

static inline int64_t bgi_quantized_panel_bytes(int64_t in, uint32_t bits)
{
    return (in + BGI_QUANTIZED_BLOCK - 1) / BGI_QUANTIZED_BLOCK * bgi_quantized_block_bytes(bits);
}

/* Whether the numbers describe a matrix. */
static inline bool bgi_quantized_is_valid(int64_t in, int64_t out, uint32_t bits)
{
    return (bits == 16 || bits == 8 || bits == 4) && in >= 1 && in <= INT32_MAX && out >= 1 && out <= INT32_MAX;
}

/* Returns the type of the rounded matrix: uint8 [panels, bytes of a panel]. */
static inline bg_type bgi_quantized_type(int64_t in, int64_t out, uint32_t bits)
{
    return bg_matrix(BG_UINT8, bgi_quantized_panels(out), bgi_quantized_panel_bytes(in, bits));
}

/* Returns "bfloat16", "int8" or "int4". */
static inline const char *bgi_quantized_name(uint32_t bits)
{
    return bits == 16 ? "bfloat16" : bits == 8 ? "int8" : "int4";
}

/* Returns the length of the float32 matrix's name, which is followed by a point and the name of the type. Returns 0 if
 * the name has no such ending. */
static inline size_t bgi_quantized_source_length(const char *name)
{
    const char *point = strrchr(name, '.');

    for (uint32_t bits = 4; point != NULL && bits <= 16; bits *= 2)
        if (strcmp(point + 1, bgi_quantized_name(bits)) == 0)
            return (size_t)(point - name);
    return 0;
}

/* Returns the type of the float32 matrix. */
static inline bg_type bgi_quantized_source(const bgi_quantized *q)
{
    return q->in_out ? bg_matrix(BG_FLOAT32, q->in, q->out) : bg_matrix(BG_FLOAT32, q->out, q->in);
}

/* Returns the rounded weight between an input and an output as float32. */
static inline float bgi_quantized_value(const void *data, int64_t in, uint32_t bits, int64_t output, int64_t input)
{
    const int64_t lane = output % BGI_QUANTIZED_PANEL, half = BGI_QUANTIZED_PANEL / 2;
    const uint8_t *block = (const uint8_t *)data + output / BGI_QUANTIZED_PANEL * bgi_quantized_panel_bytes(in, bits) +
                           input / BGI_QUANTIZED_BLOCK * bgi_quantized_block_bytes(bits);
    const uint8_t *row =
        block + BGI_QUANTIZED_PANEL * sizeof(uint16_t) + input % BGI_QUANTIZED_BLOCK * bgi_quantized_row_bytes(bits);
    uint16_t scale;

    if (bits == 16) {
        memcpy(&scale, block + ((input % BGI_QUANTIZED_BLOCK / 2 * BGI_QUANTIZED_PANEL + lane) * 2 + input % 2) * 2,
               sizeof scale);
        return bgi_bfloat16_to_float(scale);
    }
    memcpy(&scale, block + (size_t)lane * sizeof scale, sizeof scale);
    if (bits == 8)
        return (float)(int8_t)row[lane] * bgi_bfloat16_to_float(scale);
    return (float)((lane < half ? row[lane] & 15 : row[lane - half] >> 4) - 8) * bgi_bfloat16_to_float(scale);
}

/* Rounds panels `first` .. `end` - 1 of a float32 matrix and writes them to `to`, the memory of the whole result.
 * Raises the numbers of `error` if needed. Returns false when a weight is NaN, infinite or beyond 1e38. */
bool bgi_quantize_panels(const bgi_quantized *q, const float *weights, int64_t first, int64_t end, void *to,
                         bgi_quantized_error *error);

#endif
