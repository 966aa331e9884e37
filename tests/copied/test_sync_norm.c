/* test_sync_norm.c: runs parity/test_sync_norm.c over protected devices and copied messages and expects the same bits.
 */
#include "../parity/test_sync_norm.c"
