/*
 * levels.c: makes the table, looks values up, and chooses the fast form.
 */
#include "data/levels_body.h"

#include <string.h>

static void look_up(const bgi_levels *levels, const unsigned char *bytes, size_t count, float *out)
{
    const float *table = levels->table;
    size_t i = 0;

    for (; i + 8 <= count; i += 8) { /* eight look-ups in flight */
        out[i] = table[bytes[i]];
        out[i + 1] = table[bytes[i + 1]];
        out[i + 2] = table[bytes[i + 2]];
        out[i + 3] = table[bytes[i + 3]];
        out[i + 4] = table[bytes[i + 4]];
        out[i + 5] = table[bytes[i + 5]];
        out[i + 6] = table[bytes[i + 6]];
        out[i + 7] = table[bytes[i + 7]];
    }
    for (; i < count; i++)
        out[i] = table[bytes[i]];
}

static bgi_levels_convert choose_form(bgi_isa isa)
{
#if defined(BGI_LEVELS_HAS_BODY)
    return convert_fused;
#else
    return isa >= BGI_ISA_AVX512 ? bgi_levels_avx512() : isa == BGI_ISA_AVX2 ? bgi_levels_avx2() : NULL;
#endif
}

static bool has_same_bits(const bgi_levels *levels, bgi_levels_convert convert)
{
    unsigned char bytes[BGI_LEVELS];
    float values[BGI_LEVELS];

    for (int level = 0; level < BGI_LEVELS; level++)
        bytes[level] = (unsigned char)level;
    convert(levels, bytes, BGI_LEVELS, values);
    return memcmp(values, levels->table, sizeof values) == 0;
}

void bgi_levels_init(bgi_levels *levels, float mean, float deviation, bgi_isa isa)
{
    const bgi_levels_convert fast = choose_form(isa);

    levels->mean = mean;
    levels->deviation = deviation;
    levels->reciprocal = 1.0F / deviation;
    levels->scale = 1.0F / 255.0F;
    for (int level = 0; level < BGI_LEVELS; level++) {
        const float scaled = (float)level / 255.0F;

        levels->table[level] = (scaled - mean) / deviation;
    }
    levels->convert = fast != NULL && has_same_bits(levels, fast) ? fast : look_up;
}
