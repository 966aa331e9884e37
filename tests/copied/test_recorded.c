/* test_recorded.c: runs parity/test_recorded.c over protected devices and copied messages and expects the same bits. */
#include "../parity/test_recorded.c"
