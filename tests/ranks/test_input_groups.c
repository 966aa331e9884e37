/* test_input_groups.c: runs runtime/test_input_groups.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../runtime/test_input_groups.c"
