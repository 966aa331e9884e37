/* test_loop.c: runtime/test_loop.c over two processes: the same bits. */
#define TEST_RANKS
#include "../runtime/test_loop.c"
