/*
 * wrap.h: a test program whose sessions run over several processes. All ranks run the whole suite, as ranks of a user's
 * program would. Plans that have too few devices for them run in each process alone, and the others are compared with
 * these.
 */
#ifndef TESTS_RANKS_WRAP_H
#define TESTS_RANKS_WRAP_H

#include <brigade/transport.h>

/* NULL before the test began. */
bg_transport *test_ranks_transport(void);

#endif
