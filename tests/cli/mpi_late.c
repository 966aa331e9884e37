/*
 * mpi_late.c: rank 1 of two ranks never creates its session, and rank 0 must not hang in MPI. The program prints the
 * error of rank 0 and the time until that error.
 */
#include <brigade.h>
#include <brigade/mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LATE_S = 60 };

static void require(bg_status status, const bg_error *error)
{
    if (status == BG_OK)
        return;
    printf("%s\n", error->message);
    exit(1);
}

static bg_plan *make_plan(const bg_transport *transport)
{
    const bg_type type = bg_vector(BG_FLOAT32, 4);
    bg_options options = bg_options_defaults();
    bg_error error = {0};
    bg_graph *graph = NULL;
    bg_plan *plan = NULL;
    bg_value x;

    require(bg_graph_create(&graph, &error), &error);
    x = bg_graph_input(graph, "x", &type);
    bg_block_start(graph, "B1", 0);
    x = bg_scale(graph, "one", x, 2.0, 0.0);
    bg_block_start(graph, "B2", 1);
    bg_graph_output(graph, "y", bg_scale(graph, "two", x, 2.0, 0.0));
    options.execution.transport = (bg_transport *)(uintptr_t)transport;
    options.execution.wait_limit_s = 1.0;
    require(bg_plan_create_inference(graph, &options, &plan, &error), &error);
    bg_graph_destroy(graph);
    return plan;
}

int main(void)
{
    bg_transport *transport = NULL;
    bg_session *session = NULL;
    bg_error error = {0};
    bg_plan *plan;
    struct timespec start, end;

    require(bg_transport_mpi_begin(&transport, &error), &error);
    plan = make_plan(transport);
    if (transport->rank == 1) {
        sleep(LATE_S);
        _exit(1);
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (bg_session_create(plan, NULL, &session, &error) == BG_OK)
        printf("a session without the other rank\n");
    else
        printf("%s\n", error.message);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("after %d s\n", (int)(end.tv_sec - start.tv_sec));
    fflush(stdout);
    _exit(1); /* MPI_Finalize would wait */
}
