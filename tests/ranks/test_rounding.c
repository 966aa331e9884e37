/* test_rounding.c: parity/test_rounding.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_rounding.c"
