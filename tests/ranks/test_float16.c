/* test_float16.c: runs parity/test_float16.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_float16.c"
