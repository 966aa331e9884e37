/* test_auto_loss_scaling.c: parity/test_auto_loss_scaling.c over protected devices and copied messages: the same bits.
 */
#include "../parity/test_auto_loss_scaling.c"
