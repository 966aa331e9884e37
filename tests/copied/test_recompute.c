/* test_recompute.c: runs parity/test_recompute.c over protected devices and copied messages and expects the same bits.
 */
#include "../parity/test_recompute.c"
