/* test_input_groups.c: runs runtime/test_input_groups.c over protected devices and copied messages. */
#include "../runtime/test_input_groups.c"
