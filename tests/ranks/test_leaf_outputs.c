/* test_leaf_outputs.c: runs parity/test_leaf_outputs.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_leaf_outputs.c"
