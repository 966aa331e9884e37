/* test_stream.c: runs runtime/test_stream.c over two processes and expects the same bits. */
#define TEST_RANKS
#include "../runtime/test_stream.c"
