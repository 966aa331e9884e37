/*
 * graph_passes.c: runs the passes of transform/ over the compiler's graph, with the options, stages and replicas that
 * are known by then.
 */
#include "plan/compile.h"

#include "core/error.h"
#include "plan/automatic.h"
#include "plan/devices.h"

/* ---- stages ---- */

bg_status bgi_cut_stages(bgi_compiler *c, bg_error *error)
{
    return bgi_choose_stages(c, c->loss, c->cuts, error);
}

/* Gives each block a stage and each stage a device. Stages that a caller lists refer to the whole model, so blocks that
 * pruning emptied still count and keep their numbers. */
bg_status bgi_assign_graph_stages(bgi_compiler *c, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    const bool are_listed = options->execution.strategy != BG_STRATEGY_SINGLE && options->execution.stages != NULL &&
                            c->cuts->first == NULL;

    c->stages = bgi_arena_allocate(&c->scratch, 1, sizeof *c->stages);
    if (c->stages == NULL)
        return bgi_error_memory(error, "stages", sizeof *c->stages);
    BGI_TRY(bgi_assign_stages(are_listed ? c->source : c->graph, options,
                              bgi_merges_neighbors(options, c->scheduling->generator), c->stages, error));
    return bgi_place_stages(options, c->scheduling->generator, c->stages, error);
}

bg_status bgi_fuse_graph_convolutions(bgi_compiler *c, bg_error *error)
{
    bg_graph *fused = NULL;

    BGI_TRY(bgi_fuse_convolutions(c->graph, c->stages, &fused, error));
    bg_graph_destroy(c->graph);
    c->graph = fused;
    return BG_OK;
}

bg_status bgi_check_limits(bgi_compiler *c, bg_error *error)
{
    return bgi_check_ipu_limits(c->graph, &c->plan->options, c->stages, error);
}

/* ---- training ---- */

bg_status bgi_synchronize_graph(bgi_compiler *c, bg_error *error)
{
    return bgi_synchronize_norms(&c->graph, &c->loss, c->plan->options.replicas.synchronize_batch_norm,
                                 bgi_graph_data_replicas(c->graph, c->plan->replicas), error);
}

bg_status bgi_fuse_graph_norms(bgi_compiler *c, bg_error *error)
{
    return bgi_fuse_norms(&c->graph, &c->loss, error);
}

bg_status bgi_train_graph(bgi_compiler *c, bg_error *error)
{
    return bgi_make_training(c->graph, c->loss, &c->plan->optimizer, &c->plan->options, error);
}

bg_status bgi_accumulate_in_place(bgi_compiler *c, bg_error *error)
{
    return bgi_fuse_accumulation(&c->graph, error);
}

/* ---- stages and replicas ---- */

bg_status bgi_share_variables(bgi_compiler *c, bg_error *error)
{
    return bgi_copy_shared_variables(c->graph, c->stages, &c->plan->options, c->plan->training, error);
}

bg_status bgi_shard_graph(bgi_compiler *c, bg_error *error)
{
    bgi_warn_of_one_replica(c->graph, &c->plan->options, c->plan->training);
    if (c->plan->training)
        BGI_TRY(bgi_shard_updates(c->graph, &c->plan->options, error));
    bgi_warn_of_idle_rules(c);
    return BG_OK;
}

/* ---- lowering ---- */

bg_status bgi_fuse_graph_products(bgi_compiler *c, bg_error *error)
{
    return bgi_fuse_products(c->graph, c->stages, error);
}

bg_status bgi_partition_graph(bgi_compiler *c, bg_error *error)
{
    c->plan->stage_count = c->stages->stage_count;
    c->plan->device_count = c->stages->device_count;
    c->partition = bgi_arena_allocate(&c->scratch, 1, sizeof *c->partition);
    if (c->partition == NULL)
        return bgi_error_memory(error, "a partition", sizeof *c->partition);
    return bgi_cut_segments(c->graph, c->stages, c->plan->training, c->scheduling->splits_weights, c->partition, error);
}
