/* test_offload.c: runs parity/test_offload.c over protected devices and copied messages and expects the same bits. */
#define TEST_COPIED
#include "../parity/test_offload.c"
