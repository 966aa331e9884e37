/* iterator.c: runs an inference loop over a data set without a queue: the session's inputs come directly from the
 * loader.
 *     cc iterator.c $(pkg-config --cflags --libs brigade) -o iterator && ./iterator */
#include <brigade.h>
#include <stdio.h>
#include <stdlib.h>

static bg_error error;
static void check(bg_status status)
{
    if (status != BG_OK) {
        fprintf(stderr, "iterator: %s\n", error.message);
        exit(1);
    }
}

int main(void)
{
    const bg_type all = bg_matrix(BG_FLOAT32, 10, 2);
    bg_loader_options loading = bg_loader_options_defaults();
    bg_options options = bg_options_defaults();
    bg_type micro_batch = bg_matrix(BG_FLOAT32, 1, 2);
    bg_array array;
    bg_dataset *data;
    bg_loader *loader;
    bg_graph *graph;
    bg_plan *plan;
    bg_session *session;
    bg_status status;
    float doubled[2][2];

    check(bg_array_init(&array, &all, &error));
    for (int i = 0; i < 20; i++)
        ((float *)array.data)[i] = (float)i;
    check(bg_dataset_create_arrays(&array, 1, &data, &error));
    loading.batch_size = 2;
    check(bg_loader_create(data, &loading, &loader, &error));
    check(bg_graph_create(&graph, &error));
    bg_graph_output(graph, "doubled", bg_scale(graph, NULL, bg_graph_input(graph, "x", &micro_batch), 2, 0));
    options.execution.strategy = BG_STRATEGY_SINGLE, options.execution.device_iterations = 2;
    check(bg_plan_create_inference(graph, &options, &plan, &error));
    check(bg_session_create(plan, NULL, &session, &error));
    while ((status = bg_session_run_loader(session, loader, 0, (void *[]){doubled}, &error)) == BG_OK)
        printf("%g %g, %g %g\n", doubled[0][0], doubled[0][1], doubled[1][0], doubled[1][1]);
    printf("%s\n", status == BG_ERROR_RANGE ? "end of the data" : error.message);
    bg_session_destroy(session), bg_plan_destroy(plan), bg_graph_destroy(graph);
    bg_loader_destroy(loader), bg_dataset_destroy(data), bg_array_clear(&array);
    return 0;
}
