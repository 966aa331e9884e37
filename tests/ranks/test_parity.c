/* test_parity.c: parity/test_parity.c over two processes: the same bits. */
#include "../parity/test_parity.c"
