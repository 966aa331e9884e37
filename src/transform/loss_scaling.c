/*
 * loss_scaling.c: adds an automatic loss scale.
 *
 *     backward:  seed x loss.scale --> gradients of one micro-batch --> accumulators
 *                                      range_count(gradient)        --> accumulators of counts
 *
 *     update:    each parameter's stage         the loss's stage                               every stage
 *                counts, not finite?      -->   add_n, loss_scale(loss.scale!, statistics!)  --> update, or skip it
 *                [pieces]                       [the largest over the replicas]
 *
 * Needs: the gradients, and a scale for them that does not include the loss scale. Does: counts how many elements of
 * each micro-batch's gradients are near the end of float16's range, as PopART does. The pass divides the scale of
 * gradients by the loss scale. If accumulated gradients are not finite, the update sets the skip flag among the
 * optimizer's numbers. Keeps: results bit for bit, as long as the scale is a power of two and no value leaves the
 * range. Counts are whole numbers, so that sums over micro-batches and replicas are the same under every strategy. The
 * update waits for all stages, as it does for clipping.
 *
 * If replicas share the update (sharding.c), each counts the values that are not finite in its piece of the sum. The
 * maximum of these counts is not 0 if any piece has such a value, and the counts of micro-batches are the same on all
 * replicas. So all replicas adapt the scale in the same way, as replicas with whole gradients do.
 */
#include <stdlib.h>

#include "core/error.h"
#include "kernels/loss_scaling/attributes.h"
#include "ops/ops.h"
#include "transform/training.h"

/* The largest number of float16; the statistics are about its range, whatever type the gradients have. */
#define RANGE_END 65504.0

void bgi_add_loss_scale(bgi_trainer *trainer)
{
    const bg_initializer first = {.kind = BG_INITIALIZE_CONSTANT, .a = trainer->options->numerics.loss_scaling};
    const bg_type scalar = bg_scalar(BG_FLOAT32), statistics = bg_vector(BG_FLOAT64, BGI_STATISTICS_COUNT);

    if (!trainer->options->numerics.auto_loss_scaling.enabled)
        return;
    trainer->loss_scale = bg_graph_variable(trainer->graph, BGI_LOSS_SCALE, &scalar, BG_ROLE_TRAINING, &first);
    trainer->loss_statistics =
        bg_graph_variable(trainer->graph, BGI_LOSS_SCALE ".statistics", &statistics, BG_ROLE_TRAINING, NULL);
}

bg_value bgi_count_gradient(bgi_trainer *trainer, const bgi_parameter_gradient *gradient)
{
    const bg_auto_loss_scaling *options = &trainer->options->numerics.auto_loss_scaling;
    const bg_type type = bg_vector(BG_FLOAT64, BGI_RANGE_COUNTS);
    bg_graph *graph = trainer->graph;
    const char *name;
    bg_value counts, variable;

    if (!options->enabled)
        return (bg_value){0};
    graph->current_block = gradient->block;
    name = bgi_arena_format(&graph->arena, gradient->term == 0 ? "%s.counts.%s" : "%s.counts.%s.%u",
                            bg_graph_name(graph, gradient->parameter), graph->blocks[gradient->block].name,
                            (unsigned)gradient->term);
    variable = bg_graph_variable(graph, name != NULL ? name : "counts", &type, BG_ROLE_ACCUMULATOR, NULL);
    counts = bgi_range_count(graph, NULL, gradient->gradient, RANGE_END * options->bin_edge);
    bgi_accumulate(graph, NULL, variable, counts, (bg_value){0});
    return variable;
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
    const bg_auto_loss_scaling *options = &trainer->options->numerics.auto_loss_scaling;
    const bgi_loss_scale_attributes attributes = make_attributes(options);
    const uint32_t replicas = bgi_graph_data_replicas(trainer->graph, trainer->options->replicas.count);
    bg_graph *graph = trainer->graph;
    bg_value *counts, sum, used;

    if (!options->enabled)
        return BG_OK;
    counts = calloc(2 * (size_t)count + 1, sizeof *counts); /* the second half is scratch memory */
    if (counts == NULL)
        return bgi_error_memory(error, "counts of gradients", count * sizeof *counts);
    for (uint32_t i = 0; i < count; i++) {
        bg_value parts[2] = {gradients[i].counts};
        graph->current_block = gradients[i].block;
        parts[1] = bgi_count_not_finite(graph, NULL, gradients[i].gradient, RANGE_END, replicas);
        counts[i] = bgi_add_n(graph, NULL, parts, 2);
    }
    bgi_enter_loss_block(trainer);
    sum = bgi_sum_gradients(graph, "gradient.counts", gradients, counts, count, counts + count);
    free(counts);
    if (bgi_asks_for_pieces(trainer->options, 1u << BG_LOCATION_STATE | 1u << BG_LOCATION_ACCUMULATORS))
        sum = bgi_all_reduce_data(graph, "gradient.counts.all", sum, BG_REDUCE_MAX, replicas);
    trainer->scale = bgi_loss_scale(graph, "loss.adapted_scale", trainer->loss_scale, trainer->loss_statistics, sum,
                                    trainer->scale, trainer->hyper, &attributes, &trainer->hyper, &used);
    if (options->output)
        bg_graph_output(graph, BGI_LOSS_SCALE_OUTPUT, used);
    return bg_graph_check(graph, error);
}
