/* test_fused_products.c: parity/test_fused_products.c over two processes: the same bits. */
#define TEST_RANKS
#include "../parity/test_fused_products.c"
