/*
 * levels_body.h: defines the fast form of levels.h, written once; levels_*.c compile it, each with its own flags. It is
 * plain C that compilers vectorize. The file is empty if the compiler's target has no fused multiply-adds.
 */
#include "data/levels.h"

#include <math.h>

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define BGI_LEVELS_HAS_BODY

static void convert_fused(const bgi_levels *levels, const unsigned char *restrict bytes, size_t count,
                          float *restrict out)
{
    const float mean = levels->mean, deviation = levels->deviation, reciprocal = levels->reciprocal;
    const float scale = levels->scale;

    for (size_t i = 0; i < count; i++) {
        const float x = (float)bytes[i], scaled = x * scale;
        const float centered = fmaf(fmaf(-scaled, 255.0F, x), scale, scaled) - mean;
        const float quotient = centered * reciprocal;

        out[i] = fmaf(fmaf(-quotient, deviation, centered), reciprocal, quotient);
    }
}
#endif
