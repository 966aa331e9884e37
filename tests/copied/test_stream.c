/* test_stream.c: runs runtime/test_stream.c over protected devices and copied messages. */
#include "../runtime/test_stream.c"
