/*
 * machine.h: declares the function whose duration gives the peak speed of a core.
 */
#ifndef BGI_PROFILE_MACHINE_H
#define BGI_PROFILE_MACHINE_H

/* Multiplies and adds in registers for some microseconds, at the peak rate of a core. Returns the number of operations;
 * storing to *result prevents the compiler from removing them. */
double bgi_machine_multiply(volatile float *result);

#endif
