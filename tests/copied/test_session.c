/* test_session.c: runs runtime/test_session.c over protected devices and copied messages. */
#define TEST_COPIED
#include "../runtime/test_session.c"
