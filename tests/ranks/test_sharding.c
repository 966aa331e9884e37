/* test_sharding.c: parity/test_sharding.c over two processes: the same bits. */
#include "../parity/test_sharding.c"
