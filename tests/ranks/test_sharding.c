/* test_sharding.c: runs parity/test_sharding.c over two processes and expects the same bits. */
#include "../parity/test_sharding.c"
