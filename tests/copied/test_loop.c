/* test_loop.c: runs runtime/test_loop.c over protected devices and copied messages. */
#include "../runtime/test_loop.c"
