/* test_offload.c: runs parity/test_offload.c over two processes and expects the same bits. */
#include "../parity/test_offload.c"
