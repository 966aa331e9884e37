/*
 * wrap.c: the linker replaces main and the functions that create plans with those in this file. BRIGADE_TEST_RANKS is
 * the number of processes, 2 by default. Suites run the reduced set of cases that they have for sanitizers, unless
 * BRIGADE_TEST_ALL is set.
 */
#include "ranks/wrap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <brigade/loop.h>

#include "plan/plan.h"
#include "ranks/socket_transport.h"

static bg_transport *transport;

bg_transport *test_ranks_transport(void)
{
    return transport;
}

int __real_main(void);
int __wrap_main(void);

int __wrap_main(void)
{
    const char *text = getenv("BRIGADE_TEST_RANKS");
    int null;

    fflush(stdout);
    if (getenv("BRIGADE_TEST_ALL") == NULL)
        setenv("BRIGADE_TEST_QUICK", "1", 1);
    transport = test_sockets_fork(text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 2);
    if (transport->rank > 0) {
        null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        close(null);
    }
    return test_sockets_join(transport, __real_main());
}

static bg_status use_ranks(bg_status status, bg_plan **out)
{
    const bool is_in_files = status == BG_OK && (*out)->options.files.memmap_dir != NULL;

    if (status == BG_OK && !is_in_files && (*out)->device_count * (*out)->replicas >= transport->rank_count)
        (*out)->options.execution.transport = transport;
    return status;
}

bg_status __real_bg_plan_create_training(const bg_graph *graph, bg_value loss, const bg_optimizer *optimizer,
                                         const bg_options *options, bg_plan **out, bg_error *error);
bg_status __wrap_bg_plan_create_training(const bg_graph *graph, bg_value loss, const bg_optimizer *optimizer,
                                         const bg_options *options, bg_plan **out, bg_error *error);
bg_status __real_bg_plan_create_inference(const bg_graph *graph, const bg_options *options, bg_plan **out,
                                          bg_error *error);
bg_status __wrap_bg_plan_create_inference(const bg_graph *graph, const bg_options *options, bg_plan **out,
                                          bg_error *error);

bg_status __wrap_bg_plan_create_training(const bg_graph *graph, bg_value loss, const bg_optimizer *optimizer,
                                         const bg_options *options, bg_plan **out, bg_error *error)
{
    return use_ranks(__real_bg_plan_create_training(graph, loss, optimizer, options, out, error), out);
}

bg_status __wrap_bg_plan_create_inference(const bg_graph *graph, const bg_options *options, bg_plan **out,
                                          bg_error *error)
{
    return use_ranks(__real_bg_plan_create_inference(graph, options, out, error), out);
}
