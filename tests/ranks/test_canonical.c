/* test_canonical.c: runs parity/test_canonical.c over two processes and expects the same bits. */
#include "../parity/test_canonical.c"
