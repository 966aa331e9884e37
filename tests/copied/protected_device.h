/*
 * protected_device.h: a device that differs from the CPU as much as possible. Only threads that work for it can access
 * its memory: an access outside enter and leave is a fault that ends the process with a line that names the device and
 * the address. The host sees its memory only through copies, and a launch does nothing until it is waited for.
 */
#ifndef TEST_COPIED_PROTECTED_DEVICE_H
#define TEST_COPIED_PROTECTED_DEVICE_H

#include "device/device.h"

extern const bgi_device_type test_device_protected;

/* From now on memory stays open, because protecting it takes most of the time in suites with many devices, which then
 * check only the bits. */
void test_device_stay_open(void);

enum { TEST_FAULT_EXIT = 99 }; /* the exit status after a fault */

#endif
