/* test_recompute.c: runs parity/test_recompute.c over two processes and expects the same bits. */
#include "../parity/test_recompute.c"
