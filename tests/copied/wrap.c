/*
 * wrap.c: engines in these tests get protected devices that communicate by copies, on one worker and without I/O
 * threads; or open devices on several workers. The linker replaces bgi_engine_create by the function here. Suites leave
 * out cells as under sanitizers, unless BRIGADE_TEST_ALL is set.
 */
#include "copied/wrap.h"

#include <stdlib.h>

#include "copied/copying_transport.h"
#include "copied/protected_device.h"
#include "runtime/engine.h"

static uint32_t worker_count = 1;
static int32_t io_thread_count = 0;

/* It runs before main, which belongs to the suite. */
__attribute__((constructor)) static void leave_cells_out(void)
{
    if (getenv("BRIGADE_TEST_ALL") == NULL)
        setenv("BRIGADE_TEST_QUICK", "1", 1);
}

void test_copied_workers(uint32_t workers, int32_t io_threads)
{
    worker_count = workers;
    io_thread_count = io_threads;
}

bg_status __real_bgi_engine_create(const bg_plan *plan, const bgi_engine_options *options, bgi_engine **out,
                                   bg_error *error);
bg_status __wrap_bgi_engine_create(const bg_plan *plan, const bgi_engine_options *options, bgi_engine **out,
                                   bg_error *error);

bg_status __wrap_bgi_engine_create(const bg_plan *plan, const bgi_engine_options *options, bgi_engine **out,
                                   bg_error *error)
{
    bgi_engine_options other = *options;
    bg_plan *own = (bg_plan *)(uintptr_t)plan; /* made by the test itself */

    other.device_type = worker_count == 1 ? &test_device_protected : &bgi_device_cpu;
    other.transport_type = &test_transport_copying;
    own->options.execution.cores = worker_count;
    own->options.execution.io_threads = io_thread_count;
    return __real_bgi_engine_create(plan, &other, out, error);
}
