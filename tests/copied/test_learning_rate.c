/* test_learning_rate.c: parity/test_learning_rate.c over protected devices and copied messages: the same bits. */
#include "../parity/test_learning_rate.c"
