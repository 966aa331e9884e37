/* test_recompute.c: parity/test_recompute.c over protected devices and copied messages: the same bits. */
#include "../parity/test_recompute.c"
