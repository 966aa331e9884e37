/* test_tasks.c: train/test_tasks.c over two processes. */
#define TEST_RANKS
#include "../train/test_tasks.c"
