/* test_recorded.c: parity/test_recorded.c over protected devices and copied messages: the same bits. */
#include "../parity/test_recorded.c"
