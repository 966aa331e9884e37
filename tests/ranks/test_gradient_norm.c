/* test_gradient_norm.c: runs parity/test_gradient_norm.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_gradient_norm.c"
