/* test_sync_norm.c: parity/test_sync_norm.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_sync_norm.c"
