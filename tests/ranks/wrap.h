/*
 * wrap.h: a test program whose sessions run over several processes. All ranks run the whole suite, like ranks of a
 * user's program. Plans with too few devices for the ranks run separately in each process, and results of plans over
 * several ranks are compared with theirs.
 */
#ifndef TESTS_RANKS_WRAP_H
#define TESTS_RANKS_WRAP_H

#include <brigade/transport.h>

/* Returns the transport of the test's ranks, or NULL before the test begins. */
bg_transport *test_ranks_transport(void);

#endif
