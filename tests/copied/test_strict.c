/* test_strict.c: parity/test_strict.c over protected devices and copied messages: the same bits. */
#include "../parity/test_strict.c"
