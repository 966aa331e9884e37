/* test_gradient_norm.c: parity/test_gradient_norm.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_gradient_norm.c"
