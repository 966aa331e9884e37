/* test_losses.c: runs parity/test_losses.c over protected devices and copied messages and expects the same bits. */
#include "../parity/test_losses.c"
