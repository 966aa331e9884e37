/* test_leaf_outputs.c: parity/test_leaf_outputs.c over protected devices and copied messages: the same bits. */
#include "../parity/test_leaf_outputs.c"
