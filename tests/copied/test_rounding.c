/* test_rounding.c: runs parity/test_rounding.c over protected devices and copied messages and expects the same bits. */
#include "../parity/test_rounding.c"
