/* test_float16.c: parity/test_float16.c over protected devices and copied messages: the same bits. */
#include "../parity/test_float16.c"
