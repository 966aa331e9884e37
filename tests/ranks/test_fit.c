/* test_fit.c: runs train/test_fit.c over two processes. */
#define TEST_RANKS
#include "../train/test_fit.c"
