/* test_loss_guard.c: runs parity/test_loss_guard.c over two processes: when one of them finds a bad loss, both reject
 * the update. */
#include "../parity/test_loss_guard.c"
