/* test_matrix.c: runs parity/test_matrix.c over copied messages and devices that the host does not see and expects the
 * same bits. */
#define main whole_suite
int whole_suite(void);
#include "../parity/test_matrix.c"
#undef main

#include "copied/long_suite.h"
