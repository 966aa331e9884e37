/*
 * wrap.c: replaces the devices and transport of engines in these tests. An engine gets protected devices with one
 * worker and no I/O threads, or open devices with several workers; messages are copied. The linker replaces
 * bgi_engine_create by the function here. Suites run the reduced set of cases that they have for sanitizers, unless
 * BRIGADE_TEST_ALL is set.
 */
#include "copied/wrap.h"

#include <stdlib.h>

#include "copied/copying_transport.h"
#include "copied/protected_device.h"
#include "runtime/engine.h"

static uint32_t worker_count = 1;
static int32_t io_thread_count = 0;

/* Runs before main, which belongs to the suite. */
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
    bg_plan *own = (bg_plan *)(uintptr_t)plan; /* the test created the plan, so it may be changed */

    other.device_type = worker_count == 1 ? &test_device_protected : &bgi_device_cpu;
    other.transport_type = &test_transport_copying;
    own->options.execution.cores = worker_count;
    own->options.execution.io_threads = io_thread_count;
    return __real_bgi_engine_create(plan, &other, out, error);
}
