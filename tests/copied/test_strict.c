/* test_strict.c: runs parity/test_strict.c over protected devices and copied messages and expects the same bits. */
#include "../parity/test_strict.c"
