/* test_collective.c: runs runtime/test_collective.c over protected devices and copied messages. */
#include "../runtime/test_collective.c"
