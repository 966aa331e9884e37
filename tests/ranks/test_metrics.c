/* test_metrics.c: runs train/test_metrics.c over two processes. */
#define TEST_RANKS
#include "../train/test_metrics.c"
