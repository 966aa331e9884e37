/* test_rounding.c: parity/test_rounding.c over protected devices and copied messages: the same bits. */
#include "../parity/test_rounding.c"
