/*
 * clipping.c: bounds the norm of all gradients together, and makes it an output.
 *
 *     each parameter's stage           the loss's stage                              every stage
 *     square_sum(gradient)      -->    add_n in the parameters' order, clip_scale -->  update with the smaller scale
 *
 * needs: the final gradients, and a scale for them. does: replaces the scale by scale x maximum / max(norm, maximum),
 * with norm = scale x sqrt(sum of squares). What crosses stages makes the update's levels: a barrier between the last
 * backward and the first update. The output is of the norm before, and holds up no update. Each sum of squares has an
 * order by shape, and the parameters' order does not depend on stages: neither do the bits. A norm below the maximum
 * leaves the scale's bits alone.
 */
#include "core/error.h"
#include "ops/ops.h"
#include "transform/training.h"

#include <math.h>
#include <stdlib.h>

bg_status bgi_clip_gradients(bgi_trainer *trainer, const bgi_final_gradient *gradients, uint32_t count, bg_error *error)
{
    bg_graph *graph = trainer->graph;
    const double maximum = trainer->options->max_gradient_norm;
    const bool bounds = maximum > 0.0 && !isinf(maximum);
    bg_value *squares, sum;

    if (!bounds && !trainer->options->output_gradient_norm)
        return BG_OK;
    squares = calloc(count + 1, sizeof *squares);
    if (squares == NULL)
        return bgi_error_memory(error, "sums of squares", count * sizeof *squares);
    for (uint32_t i = 0; i < count; i++) {
        graph->current_block = gradients[i].block;
        squares[i] = bgi_square_sum(graph, NULL, gradients[i].gradient);
    }
    bgi_enter_loss_block(trainer);
    sum = bgi_add_n(graph, "gradient.squares", squares, count);
    free(squares);
    if (trainer->options->output_gradient_norm)
        bg_graph_output(graph, BGI_GRADIENT_NORM, bgi_gradient_norm(graph, "gradient.norm", sum, trainer->scale));
    if (bounds)
        trainer->scale = bgi_clip_scale(graph, "gradient.clip", sum, trainer->scale, maximum);
    return bg_graph_check(graph, error);
}
