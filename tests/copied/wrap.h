/*
 * wrap.h: the devices and workers of the engines in these tests.
 */
#ifndef TEST_COPIED_WRAP_H
#define TEST_COPIED_WRAP_H

#include <stdint.h>

/* Sets the numbers of workers and I/O threads from now on. More than one worker serves CPU devices,
 * whose memory is open. */
void test_copied_workers(uint32_t workers, int32_t io_threads);

#endif
