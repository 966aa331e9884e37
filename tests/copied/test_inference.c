/* test_inference.c: runs parity/test_inference.c over protected devices and copied messages and expects the same bits.
 */
#include "../parity/test_inference.c"
