/* test_fused_products.c: runs parity/test_fused_products.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../parity/test_fused_products.c"
