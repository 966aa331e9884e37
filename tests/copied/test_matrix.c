/* test_matrix.c: parity/test_matrix.c over copied messages and devices that the host does not see: the same bits. */
#define main whole_suite
int whole_suite(void);
#include "../parity/test_matrix.c"
#undef main

#include "copied/long_suite.h"
