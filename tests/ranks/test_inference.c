/* test_inference.c: parity/test_inference.c over two processes: the same bits. */
#include "../parity/test_inference.c"
