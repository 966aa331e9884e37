/*
 * add_avx2.c: sums members' elements with AVX2.
 */
#include "transport/add_body.h"

bgi_add bgi_add_avx2(void)
{
#if defined(__AVX2__)
    return add;
#else
    (void)add;
    return NULL;
#endif
}
