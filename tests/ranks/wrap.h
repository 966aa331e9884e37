/*
 * wrap.h: a test program whose sessions run over several processes. All of them run all of it, as ranks of a program
 * of a user's would; plans that have too few devices for them run in each process alone, and are what the others are
 * compared with.
 */
#ifndef TESTS_RANKS_WRAP_H
#define TESTS_RANKS_WRAP_H

#include <brigade/transport.h>

/* NULL before the test began. */
bg_transport *test_ranks_transport(void);

#endif
