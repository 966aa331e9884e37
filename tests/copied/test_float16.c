/* test_float16.c: runs parity/test_float16.c over protected devices and copied messages and expects the same bits. */
#include "../parity/test_float16.c"
