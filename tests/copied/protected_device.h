/*
 * protected_device.h: a device that differs from the CPU as much as possible. A thread can access its memory only
 * between enter and leave; any other access ends the process with a line that names the device and the address. The
 * host accesses the memory only through copies. A launch does nothing until a thread waits for it.
 */
#ifndef TEST_COPIED_PROTECTED_DEVICE_H
#define TEST_COPIED_PROTECTED_DEVICE_H

#include "device/device.h"

extern const bgi_device_type test_device_protected;

/* Lets memory stay open from now on. Suites with many devices use this, because protecting takes most of their time;
 * they then check only the bits. */
void test_device_stay_open(void);

enum { TEST_FAULT_EXIT = 99 }; /* the exit status after a fault */

#endif
