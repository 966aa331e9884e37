/* test_rounding.c: runs parity/test_rounding.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_rounding.c"
