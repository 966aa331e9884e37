/* test_input_groups.c: runtime/test_input_groups.c over two processes: the same bits. */
#define TEST_RANKS
#include "../runtime/test_input_groups.c"
