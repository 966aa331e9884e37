/* test_parity.c: runs parity/test_parity.c over two processes and expects the same bits. */
#include "../parity/test_parity.c"
