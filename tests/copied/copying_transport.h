/*
 * copying_transport.h: a transport that differs from threads as much as possible. Every message, contribution, result,
 * piece and note is copied when it leaves, and arrives after a random number of calls of `progress`. Between two ends
 * the order is kept, otherwise it is random. A sender's window is erased after it was posted. The transport enters
 * devices to read and write their memory, so it works with protected devices, which have one worker.
 */
#ifndef TEST_COPIED_COPYING_TRANSPORT_H
#define TEST_COPIED_COPYING_TRANSPORT_H

#include "transport/transport.h"

extern const bgi_transport_type test_transport_copying;

/* Seeds the random delays of the transports that are created from now on. */
void test_transport_seed(uint64_t seed);
/* Returns the bytes that have arrived in all transports; tests use the count to check that data were copied. */
uint64_t test_transport_bytes(void);

#endif
