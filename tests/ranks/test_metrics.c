/* test_metrics.c: train/test_metrics.c over two processes. */
#define TEST_RANKS
#include "../train/test_metrics.c"
