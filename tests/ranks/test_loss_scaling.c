/* test_loss_scaling.c: parity/test_loss_scaling.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_loss_scaling.c"
