/* test_leaf_outputs.c: runs parity/test_leaf_outputs.c over protected devices and copied messages and expects the same
 * bits. */
#include "../parity/test_leaf_outputs.c"
