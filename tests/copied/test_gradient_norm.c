/* test_gradient_norm.c: runs parity/test_gradient_norm.c over protected devices and copied messages and expects the
 * same bits. */
#include "../parity/test_gradient_norm.c"
