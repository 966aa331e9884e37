/*
 * peaks.h: the peak arithmetic rate of a core, with which other measurements are compared.
 */
#ifndef BENCH_PEAKS_H
#define BENCH_PEAKS_H

#include "core/isa.h"
#include "profile/machine.h"

enum { PEAK_ROUNDS = 120 };

/* Executes peak_flops() operations. */
static inline void peak_run(volatile float *sink)
{
    for (int i = 0; i < PEAK_ROUNDS; i++)
        bgi_machine_multiply(sink);
}

/* Returns 0 if the peak of this processor is unknown. */
static inline double peak_flops(void)
{
    volatile float sink;

    return bgi_cpu_isa() != BGI_ISA_PORTABLE ? PEAK_ROUNDS * bgi_machine_multiply(&sink) : 0.0;
}

#endif
