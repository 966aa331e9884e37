/* test_accumulation.c: runs parity/test_accumulation.c over protected devices and copied messages and expects the same
 * bits. */
#include "../parity/test_accumulation.c"
