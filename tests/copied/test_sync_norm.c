/* test_sync_norm.c: parity/test_sync_norm.c over protected devices and copied messages: the same bits. */
#include "../parity/test_sync_norm.c"
