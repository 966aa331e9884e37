/*
 * synchronize.c: gives batch norms the statistics of all data-parallel replicas.
 *
 *     x -> batch_norm -> y     =>     x -> batch_norm_moments -> all_gather --+
 *                                     x ------------------------------> sync_batch_norm -> y
 *
 * Needs: a forward graph for training, and the number of replicas, which is not known when a graph is built. Does:
 * replaces the batch norms that request it, or all of them. The gradient rule of sync_batch_norm is for the whole
 * chain, and adds two sums over the replicas. Keeps: blocks, names, variables, the order of all ops. With one replica
 * the graph does not change.
 */
#include "core/error.h"
#include "kernels/norm/attributes.h"
#include "ops/ops.h"
#include "transform/rebuild.h"
#include "transform/transform.h"

static bool is_synchronized(const bgi_op *op, bool all)
{
    return op->type == &bgi_op_batch_norm &&
           (all || ((const bgi_norm_attributes *)op->attributes)->is_synchronized != 0);
}

static void emit(bgi_rebuild *rebuild, const bgi_op *op, uint32_t replicas)
{
    const bgi_norm_attributes *plain = op->attributes;
    const bgi_sync_norm_attributes attributes = {
        .epsilon = plain->epsilon, .momentum = plain->momentum, .members = replicas};
    bg_value inputs[6], outputs[3], moments;

    for (uint32_t i = 0; i < 5; i++)
        inputs[i] = bgi_rebuild_value(rebuild, op->inputs[i]);
    bgi_rebuild_place(rebuild, op);
    moments = bg_graph_add(rebuild->to, &bgi_op_batch_norm_moments, NULL, inputs, 1, NULL, NULL);
    inputs[5] = bgi_all_gather_data(rebuild->to, NULL, moments, replicas);
    bg_graph_add(rebuild->to, &bgi_op_sync_batch_norm, op->name, inputs, 6, &attributes, outputs);
    for (uint32_t i = 0; i < 3; i++)
        bgi_rebuild_map(rebuild, op->outputs[i], outputs[i]);
}

bg_status bgi_synchronize_norms(bg_graph **graph, bg_value *loss, bool all, uint32_t replicas, bg_error *error)
{
    const bg_graph *from = *graph;
    bgi_rebuild rebuild = {0};
    bg_graph *made = NULL;
    bool any = false;
    bg_value new_loss;
    bg_status status;

    for (size_t o = 0; o < from->op_count; o++)
        any = any || is_synchronized(&from->ops[o], all);
    if (!any || replicas == 1)
        return BG_OK;
    BGI_TRY(bgi_rebuild_begin(&rebuild, from, NULL, error));
    for (size_t o = 0; o < from->op_count; o++)
        if (is_synchronized(&from->ops[o], all))
            emit(&rebuild, &from->ops[o], replicas);
        else
            bgi_rebuild_op(&rebuild, &from->ops[o]);
    new_loss = bgi_rebuild_value(&rebuild, *loss);
    status = bgi_rebuild_finish(&rebuild, &made, error);
    bgi_rebuild_clear(&rebuild);
    BGI_TRY(status);
    bg_graph_destroy(*graph);
    *graph = made;
    *loss = new_loss;
    return BG_OK;
}
