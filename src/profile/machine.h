/*
 * machine.h: declares the work with which the peak speed of a core is measured.
 */
#ifndef BGI_PROFILE_MACHINE_H
#define BGI_PROFILE_MACHINE_H

/* Multiplies and adds in registers for some microseconds, at the peak rate of a core. Returns the number of operations;
 * *result keeps the compiler from removing them. */
double bgi_machine_multiply(volatile float *result);

#endif
