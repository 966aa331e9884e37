/* test_float16.c: parity/test_float16.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_float16.c"
