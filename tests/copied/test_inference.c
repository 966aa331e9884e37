/* test_inference.c: parity/test_inference.c over protected devices and copied messages: the same bits. */
#include "../parity/test_inference.c"
