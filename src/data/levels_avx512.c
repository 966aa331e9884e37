/*
 * levels_avx512.c: compiles the fast form for AVX-512.
 */
#include "data/levels_body.h"

bgi_levels_convert bgi_levels_avx512(void)
{
#if defined(__AVX512F__) && defined(BGI_LEVELS_HAS_BODY)
    return convert_fused;
#else
    return NULL;
#endif
}
