/* test_inference.c: runs parity/test_inference.c over two processes and expects the same bits. */
#include "../parity/test_inference.c"
