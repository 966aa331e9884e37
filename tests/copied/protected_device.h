/*
 * protected_device.h: a device that is as little like the CPU as a test can make it. Its memory is closed to everyone
 * but who works for it: outside of enter and leave a touch is a fault, and the process ends with a line that names the
 * device and the address. The host sees nothing of it but by copies, and a launch does nothing until it is waited for.
 */
#ifndef TEST_COPIED_PROTECTED_DEVICE_H
#define TEST_COPIED_PROTECTED_DEVICE_H

#include "device/device.h"

extern const bgi_device_type test_device_protected;

/* From now on memory stays open: closing and opening it is most of the time of suites with many devices, which then
 * look at the bits alone. */
void test_device_stay_open(void);

enum { TEST_FAULT_EXIT = 99 }; /* the exit status after a fault */

#endif
