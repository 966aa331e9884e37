/* test_tasks.c: runs train/test_tasks.c over two processes. */
#define TEST_RANKS
#include "../train/test_tasks.c"
