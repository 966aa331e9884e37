/*
 * clipping.c: bounds the norm of all gradients together.
 *
 *     each parameter's stage           the loss's stage                              every stage
 *     square_sum(gradient)      -->    add_n in the parameters' order, clip_scale -->  update with the smaller scale
 *
 * needs: the final gradients, and a scale for them. does: replaces the scale by scale x maximum / max(norm, maximum),
 * with norm = scale x sqrt(sum of squares). What crosses stages makes the update's levels: a barrier between the last
 * backward and the first update. Each sum of squares has an order by shape, and the parameters' order does not depend
 * on stages: neither do the bits. A norm below the maximum leaves the scale's bits alone.
 */
#include "core/error.h"
#include "ops/ops.h"
#include "transform/training.h"

#include <stdlib.h>

bg_status bgi_clip_gradients(bgi_trainer *trainer, const bgi_final_gradient *gradients, uint32_t count, bg_error *error)
{
    bg_graph *graph = trainer->graph;
    bg_value *squares = calloc(count + 1, sizeof *squares);

    if (squares == NULL)
        return bgi_error_memory(error, "sums of squares", count * sizeof *squares);
    for (uint32_t i = 0; i < count; i++) {
        graph->current_block = gradients[i].block;
        squares[i] = bgi_square_sum(graph, NULL, gradients[i].gradient);
    }
    bgi_enter_loss_block(trainer);
    trainer->scale = bgi_clip_scale(graph, "gradient.clip", bgi_add_n(graph, "gradient.squares", squares, count),
                                    trainer->scale, trainer->options->max_gradient_norm);
    free(squares);
    return bg_graph_check(graph, error);
}
