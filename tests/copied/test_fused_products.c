/* test_fused_products.c: parity/test_fused_products.c over protected devices and copied messages: the same bits. */
#include "../parity/test_fused_products.c"
