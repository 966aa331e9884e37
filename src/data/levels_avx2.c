/*
 * levels_avx2.c: compiles the fast form for AVX2.
 */
#include "data/levels_body.h"

bgi_levels_convert bgi_levels_avx2(void)
{
#if defined(__AVX2__) && defined(BGI_LEVELS_HAS_BODY)
    return convert_fused;
#else
    return NULL;
#endif
}
