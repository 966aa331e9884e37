/* test_offload.c: parity/test_offload.c over protected devices and copied messages: the same bits. */
#define TEST_COPIED
#include "../parity/test_offload.c"
