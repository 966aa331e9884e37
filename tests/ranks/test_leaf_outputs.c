/* test_leaf_outputs.c: parity/test_leaf_outputs.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_leaf_outputs.c"
