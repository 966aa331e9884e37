/* test_transport.c: runs transport/test_threads.c over the copying transport: it obeys the same rules, on which the
 * runtime relies. */
#include "copied/copying_transport.h"
#include "copied/protected_device.h"

#define TEST_COPIED
#define TEST_TRANSPORT test_transport_copying
#define TEST_DEVICE    test_device_protected
#include "../transport/test_threads.c"
