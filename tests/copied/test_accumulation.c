/* test_accumulation.c: parity/test_accumulation.c over protected devices and copied messages: the same bits. */
#include "../parity/test_accumulation.c"
