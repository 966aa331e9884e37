/* test_loss_scaling.c: runs parity/test_loss_scaling.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_loss_scaling.c"
