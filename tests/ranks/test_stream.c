/* test_stream.c: runtime/test_stream.c over two processes: the same bits. */
#define TEST_RANKS
#include "../runtime/test_stream.c"
