/* test_fused_products.c: runs parity/test_fused_products.c over protected devices and copied messages and expects the
 * same bits. */
#include "../parity/test_fused_products.c"
