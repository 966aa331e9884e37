/* test_offload.c: parity/test_offload.c over two processes: the same bits. */
#include "../parity/test_offload.c"
