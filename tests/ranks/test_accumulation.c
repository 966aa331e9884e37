/* test_accumulation.c: runs parity/test_accumulation.c over two processes and expects the same bits. */
#include "../parity/test_accumulation.c"
