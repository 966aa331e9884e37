/* test_losses.c: runs parity/test_losses.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_losses.c"
