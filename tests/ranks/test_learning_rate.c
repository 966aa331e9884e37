/* test_learning_rate.c: parity/test_learning_rate.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_learning_rate.c"
