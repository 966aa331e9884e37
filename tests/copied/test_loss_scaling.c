/* test_loss_scaling.c: parity/test_loss_scaling.c over protected devices and copied messages: the same bits. */
#include "../parity/test_loss_scaling.c"
