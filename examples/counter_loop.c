/* counter_loop.c: runs a loop on the device with an infeed and an outfeed. It computes x1 + x2 and x1 - x2 ten times,
 * and carries a counter from one iteration to the next.
 *     cc counter_loop.c $(pkg-config --cflags --libs brigade) -o counter_loop && ./counter_loop */
#include <brigade.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 800, REPEATS = 10 };

static bg_error error;
static void check(bg_status status)
{
    if (status != BG_OK) {
        fprintf(stderr, "counter_loop: %s\n", error.message);
        exit(1);
    }
}

/* Writes the next element of the data: element i consists of 800 pairs x1 = i, x2 = 1. Ends the data after REPEATS
 * elements. */
static bg_status next(void *user, void *const tensors[], bool *out_has_ended, bg_error *e)
{
    int *element = user;
    (void)e;
    for (int i = 0; i < WIDTH; i++)
        ((float *)tensors[0])[i] = (float)*element, ((float *)tensors[1])[i] = 1.0f;
    *out_has_ended = (*element)++ == REPEATS;
    return BG_OK;
}

int main(void)
{
    const bg_type integer = bg_scalar(BG_INT32), vector = bg_vector(BG_FLOAT32, WIDTH);
    const bg_type elements[] = {vector, vector};
    const bg_infeed_options infeed_options = bg_infeed_options_defaults();
    bg_outfeed_options outfeed_options = bg_outfeed_options_defaults();
    bg_options options = bg_options_defaults();
    bg_graph *body;
    bg_plan *plan;
    bg_session *session;
    bg_infeed *infeed;
    bg_outfeed *outfeed;
    bg_array rows[2];
    uint64_t iterations, row_count;
    const int32_t one = 1;
    int32_t counter = 0;
    int element = 0;

    /* The body computes counter -> counter + 1, and writes the sum and the difference to the outfeed, which names them
     * d1 and d2. */
    check(bg_graph_create(&body, &error));
    const bg_value count = bg_graph_input(body, "counter", &integer);
    const bg_value x1 = bg_graph_input(body, "x1", &vector), x2 = bg_graph_input(body, "x2", &vector);
    const bg_value next_count = bg_add(body, count, bg_graph_constant(body, "one", &integer, &one));
    bg_graph_output(body, "sum", bg_add(body, x1, x2));
    bg_graph_output(body, "difference", bg_subtract(body, x1, x2));
    const bg_loop loop = bg_repeat(REPEATS, &count, &next_count, 1);

    options.execution.strategy = BG_STRATEGY_SINGLE;
    check(bg_plan_create_loop(body, &loop, &options, &plan, &error));
    check(bg_session_create(plan, NULL, &session, &error));
    check(bg_infeed_create(elements, 2, next, &element, &infeed_options, &infeed, &error));
    check(bg_infeed_start(infeed, session, &error));
    outfeed_options.structure = "{d1: sum, d2: difference}";
    check(bg_outfeed_create(&outfeed_options, &outfeed, &error));
    check(bg_outfeed_attach(outfeed, session, &error));

    const bg_run run = {.infeed = infeed, .carried_out = (void *[]){&counter}};
    check(bg_session_execute(session, &run, &iterations, &error));
    check(bg_outfeed_dequeue(outfeed, true, rows, &row_count, &error));
    printf("counter %d after %llu iterations\n", (int)counter, (unsigned long long)iterations);
    for (uint32_t leaf = 0; leaf < 2; leaf++) {
        char text[BG_TYPE_TEXT_BYTES];
        bg_outfeed_leaf named;
        check(bg_outfeed_leaf_at(outfeed, leaf, &named, &error));
        printf("%s %s:", named.path, bg_type_text(&rows[leaf].type, text));
        for (uint64_t row = 0; row < row_count; row++)
            printf(" %g", ((float *)rows[leaf].data)[row * WIDTH]);
        printf("\n");
        bg_array_clear(&rows[leaf]);
    }
    bg_outfeed_destroy(outfeed), bg_session_destroy(session), bg_infeed_destroy(infeed);
    bg_plan_destroy(plan), bg_graph_destroy(body);
    return 0;
}
