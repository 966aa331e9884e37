/* test_auto_loss_scaling.c: runs parity/test_auto_loss_scaling.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_auto_loss_scaling.c"
