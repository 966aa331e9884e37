/*
 * isa.h: iterates over the instruction sets of this processor.
 */
#ifndef TESTS_SUPPORT_ISA_H
#define TESTS_SUPPORT_ISA_H

#include "core/isa.h"

/* Returns the next instruction set after `isa` that this processor has, or BGI_ISA_COUNT. */
static inline int next_isa(int isa)
{
    do
        isa++;
    while (isa < (int)BGI_ISA_COUNT && !bgi_isa_includes(bgi_cpu_isa(), (bgi_isa)isa));
    return isa;
}

static inline int count_isas(void)
{
    int count = 0;

    for (int isa = BGI_ISA_PORTABLE; isa < (int)BGI_ISA_COUNT; isa = next_isa(isa))
        count++;
    return count;
}

#endif
