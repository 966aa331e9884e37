/*
 * clipping.c: bounds the norm of all gradients together, and makes the norm an output.
 *
 *     each parameter's stage           the loss's stage                              every stage
 *     square_sum(gradient)      -->    add_n in the parameters' order, clip_scale -->  update with the smaller scale
 *     [pieces]                         [pieces], which clip_scale adds up in order
 *
 * Needs: the final gradients, and a scale for them. Does: replaces the scale by scale x maximum / max(norm, maximum),
 * with norm = scale x sqrt(sum of squares). Values that cross stages give the update its levels: a barrier between the
 * last backward pass and the first update. The output is the norm before clipping, and does not delay an update. The
 * order of each sum of squares depends only on the shape, and the order of the parameters does not depend on stages. So
 * the result does not depend on stages. A norm below the maximum does not change the scale.
 *
 * With R data-parallel replicas the squares are summed for each of R pieces of a gradient (sharding.c). A replica that
 * gets only the sum of its piece fills that piece's row and writes zeros into the others; a replica that gets the whole
 * gradient fills all rows. A sum of squares cannot decrease when terms are added, even with rounding. So the maximum of
 * a row over the replicas is the value of the replica that had the piece; one collective call takes this maximum when
 * the parameters' sums are added. With canonical reductions, whose results do not depend on R, there is one piece and
 * every replica reads all of it.
 *
 * When a mesh cuts parameters, replicas along the axes of the cut have different squares. The squares are added over
 * the parameters first, then over the replicas, once for each set of axes. So every element of the whole model counts
 * once; padding adds nothing, because its gradients are zeros.
 */
#include "core/error.h"
#include "ops/ops.h"
#include "transform/training.h"

#include <math.h>
#include <stdlib.h>

uint32_t bgi_find_cut(const bg_graph *graph, bg_value parameter)
{
    const uint32_t axes = bgi_graph_cut_axes(graph, parameter);

    return (graph->mesh.tensor_1 > 1 ? axes & BG_MESH_TENSOR_1 : 0) |
           (graph->mesh.tensor_2 > 1 ? axes & BG_MESH_TENSOR_2 : 0);
}

/* Returns the sum of the values of all parameters that are cut along exactly these axes, over the replicas along these
 * axes too; null if there are no such parameters. `room` is memory for `count` values. */
static bg_value sum_along(bg_graph *graph, const char *name, const bgi_final_gradient *gradients,
                          const bg_value *values, uint32_t count, uint32_t axes, bg_value *room)
{
    uint32_t found = 0;
    bg_value sum;

    for (uint32_t i = 0; i < count; i++)
        if (bgi_find_cut(graph, gradients[i].parameter) == axes)
            room[found++] = values[i];
    if (found == 0)
        return (bg_value){0};
    sum = bgi_add_n(graph, axes == BG_MESH_NONE ? name : NULL, room, found);
    return bg_all_reduce(graph, NULL, sum, BG_REDUCE_SUM, axes);
}

bg_value bgi_sum_gradients(bg_graph *graph, const char *name, const bgi_final_gradient *gradients,
                           const bg_value *values, uint32_t count, bg_value *room)
{
    bg_value sums[BG_MESH_TENSOR + 1];
    uint32_t found = 0;

    for (uint32_t axes = 0; axes <= BG_MESH_TENSOR; axes++) {
        const bg_value sum = sum_along(graph, name, gradients, values, count, axes, room);
        if (!bg_value_is_null(sum))
            sums[found++] = sum;
    }
    return bgi_add_n(graph, NULL, sums, found);
}

bg_status bgi_clip_gradients(bgi_trainer *trainer, const bgi_final_gradient *gradients, uint32_t count, bg_error *error)
{
    bg_graph *graph = trainer->graph;
    const double maximum = trainer->options->numerics.max_gradient_norm;
    const bool bounds = maximum > 0.0 && !isinf(maximum);
    const bool is_canonical = trainer->options->numerics.canonical_reductions;
    const uint32_t pieces = is_canonical ? 1 : bgi_graph_data_replicas(graph, trainer->options->replicas.count);
    bg_value *squares, sum;

    if (!bounds && !trainer->options->reporting.output_gradient_norm)
        return BG_OK;
    squares = calloc(2 * (size_t)count + 1, sizeof *squares); /* the second half is scratch memory */
    if (squares == NULL)
        return bgi_error_memory(error, "sums of squares", count * sizeof *squares);
    for (uint32_t i = 0; i < count; i++) {
        graph->current_block = gradients[i].block;
        squares[i] = bgi_square_sum(graph, NULL, gradients[i].gradient, pieces);
    }
    bgi_enter_loss_block(trainer);
    sum = bgi_sum_gradients(graph, "gradient.squares", gradients, squares, count, squares + count);
    free(squares);
    if (bgi_asks_for_pieces(trainer->options, 1u << BG_LOCATION_STATE | 1u << BG_LOCATION_ACCUMULATORS))
        sum = bgi_all_reduce_data(graph, "gradient.squares.all", sum, BG_REDUCE_MAX, pieces);
    if (trainer->options->reporting.output_gradient_norm)
        bg_graph_output(graph, BGI_GRADIENT_NORM, bgi_gradient_norm(graph, "gradient.norm", sum, trainer->scale));
    if (bounds)
        trainer->scale = bgi_clip_scale(graph, "gradient.clip", sum, trainer->scale, maximum);
    return bg_graph_check(graph, error);
}
