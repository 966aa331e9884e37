/* test_losses.c: parity/test_losses.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_losses.c"
