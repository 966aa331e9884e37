/* test_auto_loss_scaling.c: parity/test_auto_loss_scaling.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_auto_loss_scaling.c"
