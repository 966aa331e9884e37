/*
 * loss_scaling.c: a loss scale that adapts itself.
 *
 *     backward:  seed x loss.scale --> gradients of one micro-batch --> accumulators                (loss.scale: a
 * buffer) update:    each parameter's stage       the loss's stage                               every stage
 *                range_count(gradient)  -->   add_n, loss_scale(loss.scale!, statistics!)  --> update, or skip it
 *
 * needs: the final gradients, and a scale for them that knows nothing of the loss's. does: counts how many of their
 * elements are near the end of float16's range, divides the scale by the loss's, and lets the optimiser's numbers say
 * whether the update is skipped (a gradient is not finite). keeps: the bits, as long as the scale is a power of two and
 * nothing leaves the range. What is counted is what the accumulators hold in the end, over micro-batches and replicas:
 * the same under every strategy. The update waits for all stages, as it does for a norm.
 */
#include <stdlib.h>

#include "core/error.h"
#include "ops/ops.h"
#include "transform/training.h"

/* The largest number of float16, whose range the statistics are about whatever type the gradients have. */
#define RANGE_END 65504.0

void bgi_add_loss_scale(bgi_trainer *trainer)
{
    const bg_initialiser first = {.kind = BG_INITIALISE_CONSTANT, .a = trainer->options->loss_scaling};
    const bg_type scalar = bg_scalar(BG_FLOAT32), statistics = bg_vector(BG_FLOAT64, BGI_STATISTICS_COUNT);

    if (!trainer->options->auto_loss_scaling.enabled)
        return;
    trainer->loss_scale = bg_graph_variable(trainer->graph, BGI_LOSS_SCALE, &scalar, BG_ROLE_TRAINING, &first);
    trainer->loss_statistics =
        bg_graph_variable(trainer->graph, BGI_LOSS_SCALE ".statistics", &statistics, BG_ROLE_TRAINING, NULL);
}

static bgi_loss_scale_attributes make_attributes(const bg_auto_loss_scaling *options)
{
    return (bgi_loss_scale_attributes){.threshold = options->threshold,
                                       .increase = options->increase,
                                       .decrease = options->decrease,
                                       .minimum = options->minimum,
                                       .maximum = options->maximum,
                                       .period = options->period};
}

bg_status bgi_adapt_loss_scale(bgi_trainer *trainer, const bgi_final_gradient *gradients, uint32_t count,
                               bg_error *error)
{
    const bg_auto_loss_scaling *options = &trainer->options->auto_loss_scaling;
    const bgi_loss_scale_attributes attributes = make_attributes(options);
    bg_graph *graph = trainer->graph;
    bg_value *counts, sum, used;

    if (!options->enabled)
        return BG_OK;
    counts = calloc(2 * (size_t)count + 1, sizeof *counts); /* and room for some of them */
    if (counts == NULL)
        return bgi_error_memory(error, "counts of gradients", count * sizeof *counts);
    for (uint32_t i = 0; i < count; i++) {
        graph->current_block = gradients[i].block;
        counts[i] = bgi_range_count(graph, NULL, gradients[i].gradient, RANGE_END * options->bin_edge);
    }
    bgi_enter_loss_block(trainer);
    sum = bgi_sum_gradients(graph, "gradient.counts", gradients, counts, count, counts + count);
    free(counts);
    trainer->scale = bgi_loss_scale(graph, "loss.adapted_scale", trainer->loss_scale, trainer->loss_statistics, sum,
                                    trainer->scale, trainer->hyper, &attributes, &trainer->hyper, &used);
    if (options->output)
        bg_graph_output(graph, BGI_LOSS_SCALE_OUTPUT, used);
    return bg_graph_check(graph, error);
}
