/*
 * copying_transport.h: a transport that differs from threads as much as possible. Every message, contribution, result,
 * piece and note is copied when it leaves, and arrives after a random number of calls of `progress`: in order between
 * two ends, otherwise in any order. The content of a sender's window is erased once it is posted. It enters devices to
 * read and write them, so it works over protected ones, which have one worker.
 */
#ifndef TEST_COPIED_COPYING_TRANSPORT_H
#define TEST_COPIED_COPYING_TRANSPORT_H

#include "transport/transport.h"

extern const bgi_transport_type test_transport_copying;

/* Applies to the transports created from now on. */
void test_transport_seed(uint64_t seed);
/* Bytes that have arrived in all transports, which shows that data were copied at all. */
uint64_t test_transport_bytes(void);

#endif
