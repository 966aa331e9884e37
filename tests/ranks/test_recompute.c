/* test_recompute.c: parity/test_recompute.c over two processes: the same bits. */
#include "../parity/test_recompute.c"
