/* test_auto_loss_scaling.c: runs parity/test_auto_loss_scaling.c over protected devices and copied messages and expects
 * the same bits.
 */
#include "../parity/test_auto_loss_scaling.c"
