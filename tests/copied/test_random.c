/* test_random.c: parity/test_random.c over protected devices and copied messages: the same bits. */
#include "../parity/test_random.c"
