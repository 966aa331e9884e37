/* test_loss_guard.c: parity/test_loss_guard.c over two processes: what one of them finds, both refuse. */
#include "../parity/test_loss_guard.c"
