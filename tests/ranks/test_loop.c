/* test_loop.c: runs runtime/test_loop.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../runtime/test_loop.c"
