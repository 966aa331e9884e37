/* test_canonical.c: parity/test_canonical.c over two processes: the same bits. */
#include "../parity/test_canonical.c"
