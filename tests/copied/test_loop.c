/* test_loop.c: runtime/test_loop.c over protected devices and copied messages. */
#include "../runtime/test_loop.c"
