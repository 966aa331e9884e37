/* test_learning_rate.c: runs parity/test_learning_rate.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_learning_rate.c"
