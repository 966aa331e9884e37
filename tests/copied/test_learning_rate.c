/* test_learning_rate.c: runs parity/test_learning_rate.c over protected devices and copied messages and expects the
 * same bits. */
#include "../parity/test_learning_rate.c"
