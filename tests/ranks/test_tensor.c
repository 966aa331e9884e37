/* test_tensor.c: parity/test_tensor.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_tensor.c"
