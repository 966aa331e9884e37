/* test_feed.c: runs runtime/test_feed.c over protected devices and copied messages. */
#define TEST_COPIED
#include "../runtime/test_feed.c"
