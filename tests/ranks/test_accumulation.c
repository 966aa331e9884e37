/* test_accumulation.c: parity/test_accumulation.c over two processes: the same bits. */
#include "../parity/test_accumulation.c"
