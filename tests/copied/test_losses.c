/* test_losses.c: parity/test_losses.c over protected devices and copied messages: the same bits. */
#include "../parity/test_losses.c"
