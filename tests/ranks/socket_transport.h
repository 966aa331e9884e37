/*
 * socket_transport.h: a transport for tests, over sockets between forked processes. It uses only brigade/transport.h,
 * like a user's transport.
 */
#ifndef TESTS_RANKS_SOCKET_TRANSPORT_H
#define TESTS_RANKS_SOCKET_TRANSPORT_H

#include <brigade/transport.h>

/* Forks so that `count` processes return from this function, each with the transport of its rank. The caller is rank 0.
 */
bg_transport *test_sockets_fork(uint32_t rank_count);
/* On rank 0, waits for the other ranks and returns 0 if all have exited with 0. On other ranks, does not return. */
int test_sockets_join(bg_transport *transport, int code);

#endif
