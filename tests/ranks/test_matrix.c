/* test_matrix.c: runs parity/test_matrix.c over two processes and expects the same bits. */
#include "../parity/test_matrix.c"
