/* test_gradient_norm.c: parity/test_gradient_norm.c over protected devices and copied messages: the same bits. */
#include "../parity/test_gradient_norm.c"
