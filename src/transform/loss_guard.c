/*
 * loss_guard.c: skips an update whose loss is not finite, in every stage and replica.
 *
 *     backward, the loss's stage:  range_count(loss) --> accumulator of counts, summed over replicas with the gradients
 *
 *     update:    the loss's stage                                    every stage
 *                loss_guard(optimizer.hyper!, counts)          -->   update, or skip it
 *
 * Needs: the loss, and the optimizer's numbers as the host wrote them. Does: counts the micro-batches of an update
 * whose loss is infinite or NaN, and sets the skip flag among the numbers that updates read. The flag stays set, so
 * later updates of the call are skipped too. The host then finds the weights and optimizer state from before the
 * refused update. Keeps: updates whose losses are finite, bit for bit. Counts are whole numbers, so their sums over
 * micro-batches and replicas do not depend on the order.
 *
 * A gradient that overflows under an automatic loss scale does not make the loss infinite: loss_scaling.c skips such an
 * update and lowers the scale, and training continues. After a refused update the scale does not change.
 */
#include "ops/ops.h"
#include "transform/training.h"
#include "kernels/loss_scaling/attributes.h"

/* Only the count of values that are not finite is used, so the threshold for the other counts is arbitrary. */
#define EDGE 1.0

void bgi_count_losses(bgi_trainer *trainer)
{
    const bg_type type = bg_vector(BG_FLOAT64, BGI_RANGE_COUNTS);
    bg_graph *graph = trainer->graph;

    if (!trainer->options->numerics.guard_loss)
        return;
    bgi_enter_loss_block(trainer);
    trainer->loss_counts = bg_graph_variable(graph, "loss.guard", &type, BG_ROLE_ACCUMULATOR, NULL);
    bgi_accumulate(graph, NULL, trainer->loss_counts,
                   bgi_count_not_finite(graph, "loss.not_finite", trainer->loss, EDGE, 0), (bg_value){0});
}

bg_status bgi_guard_loss(bgi_trainer *trainer, bg_error *error)
{
    bg_graph *graph = trainer->graph;
    const uint32_t axes =
        (graph->mesh.tensor_1 > 1 ? BG_MESH_TENSOR_1 : 0) | (graph->mesh.tensor_2 > 1 ? BG_MESH_TENSOR_2 : 0);
    bg_value counts = trainer->loss_counts;

    if (!trainer->options->numerics.guard_loss)
        return BG_OK;
    bgi_enter_loss_block(trainer);
    if (axes != 0)
        counts = bg_all_reduce(graph, "loss.guard.all", counts, BG_REDUCE_MAX, axes);
    trainer->hyper = bgi_loss_guard(graph, "loss.guarded", trainer->hyper, counts);
    return bg_graph_check(graph, error);
}
