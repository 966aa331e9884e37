/*
 * add_avx512.c: sums members' elements with AVX-512.
 */
#include "transport/add_body.h"

bgi_add bgi_add_avx512(void)
{
#if defined(__AVX512F__)
    return add;
#else
    (void)add;
    return NULL;
#endif
}
