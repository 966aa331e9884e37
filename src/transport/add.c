/*
 * add.c: sums members' elements in code for every processor, and chooses the form for an instruction set.
 */
#include "transport/add_body.h"

bgi_add bgi_add_choose(bgi_isa isa)
{
    const bgi_add form = isa >= BGI_ISA_AVX512 ? bgi_add_avx512() : isa >= BGI_ISA_AVX2 ? bgi_add_avx2() : NULL;

    return form != NULL ? form : add;
}
