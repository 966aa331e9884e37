/* test_sync_norm.c: runs parity/test_sync_norm.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_sync_norm.c"
