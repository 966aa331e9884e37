/*
 * socket_transport.h: a transport of a test's own, over sockets between processes that are forked: the program that a
 * user would write against brigade/transport.h, and nothing more.
 */
#ifndef TESTS_RANKS_SOCKET_TRANSPORT_H
#define TESTS_RANKS_SOCKET_TRANSPORT_H

#include <brigade/transport.h>

/* Forks so that this many processes return from this function, each with its rank's end; the first is the caller. */
bg_transport *test_sockets_fork(uint32_t rank_count);
/* Rank 0: waits for the others; 0 when all have ended with 0. Others do not return. */
int test_sockets_join(bg_transport *transport, int code);

#endif
