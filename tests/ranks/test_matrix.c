/* test_matrix.c: parity/test_matrix.c over two processes: the same bits. */
#include "../parity/test_matrix.c"
