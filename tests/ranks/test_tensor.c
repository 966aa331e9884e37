/* test_tensor.c: runs parity/test_tensor.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_tensor.c"
