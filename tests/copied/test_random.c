/* test_random.c: runs parity/test_random.c over protected devices and copied messages and expects the same bits. */
#include "../parity/test_random.c"
