/*
 * forward.c: implements the first passes, which make the compiler's own forward graph from the user's graph.
 *
 *     source --anchors--> + requested values as outputs --copies--> outputs are results of ops
 *            --loop--> one iteration | --precision--> 16 bits --prune--> what outputs need
 *            --quantize--> fewer bits --fuse--> conv2d_pool --own--> never the user's graph itself, and not empty
 *
 * A pass that has nothing to do makes no copy; until a pass makes a copy, the passes read the user's graph.
 */
#include "plan/compile.h"

#include <string.h>

#include "core/error.h"

/* Returns the graph so far: the compiler's own or, before that exists, the user's. */
static const bg_graph *forward(const bgi_compiler *c)
{
    return c->graph != NULL ? c->graph : c->source;
}

static void replace_graph(bgi_compiler *c, bg_graph *graph)
{
    bg_graph_destroy(c->graph);
    c->graph = graph;
}

bg_status bgi_mark_requests(bgi_compiler *c, bg_error *error)
{
    bg_graph *marked = NULL;

    BGI_TRY(bg_graph_check(c->source, error));
    BGI_TRY(bgi_mark_anchors(c, c->source, &marked, error));
    if (marked != NULL)
        replace_graph(c, marked);
    return BG_OK;
}

bg_status bgi_copy_outputs(bgi_compiler *c, bg_error *error)
{
    if (!bgi_has_leaf_outputs(forward(c)))
        return BG_OK;
    if (c->graph == NULL)
        BGI_TRY(bgi_graph_clone(c->source, &c->graph, error));
    return bgi_copy_leaf_outputs(c->graph, error);
}

bg_status bgi_enter_loop(bgi_compiler *c, bg_error *error)
{
    if (c->graph == NULL)
        BGI_TRY(bgi_graph_clone(c->source, &c->graph, error));
    return bgi_make_loop(c->graph, c->loop, error);
}

bg_status bgi_narrow_model(bgi_compiler *c, bg_error *error)
{
    bg_graph *narrowed = NULL;

    BGI_TRY(bgi_narrow_graph(forward(c), c->plan->options.numerics.precision, &c->loss, &narrowed, error));
    replace_graph(c, narrowed);
    return BG_OK;
}

/* Lists the names of the requested outputs, if only these are wanted; otherwise *out is NULL. */
static bg_status list_wanted(bgi_compiler *c, const char *const **out, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    const char **wanted;

    *out = NULL;
    if (!options->reporting.requests_only)
        return BG_OK;
    wanted = bgi_arena_allocate(&c->scratch, options->reporting.output_request_count, sizeof *wanted);
    if (wanted == NULL)
        return bgi_error_memory(error, "outputs", 0);
    for (uint32_t i = 0; i < options->reporting.output_request_count; i++) {
        wanted[i] = options->reporting.output_requests[i].output;
        if (bg_value_is_null(bgi_find_output(forward(c), wanted[i])))
            return bgi_unknown_output(forward(c), wanted[i], error);
    }
    *out = wanted;
    return BG_OK;
}

bg_status bgi_prune_graph(bgi_compiler *c, bg_error *error)
{
    const char *const *wanted;
    bg_graph *pruned = NULL;

    BGI_TRY(list_wanted(c, &wanted, error));
    BGI_TRY(bgi_prune(forward(c), wanted, c->plan->options.reporting.output_request_count, &pruned, error));
    replace_graph(c, pruned);
    return BG_OK;
}

bg_status bgi_quantize_model(bgi_compiler *c, bg_error *error)
{
    bg_graph *quantized = NULL;

    BGI_TRY(bgi_quantize_graph(forward(c), c->plan->options.numerics.weights_type, &quantized, error));
    if (quantized != NULL)
        replace_graph(c, quantized);
    return BG_OK;
}

bg_status bgi_fuse_graph(bgi_compiler *c, bg_error *error)
{
    const bg_graph *graph = forward(c);
    bool *is_apart = bgi_arena_allocate(&c->scratch, graph->value_count, sizeof *is_apart);
    bg_graph *fused = NULL;

    if (is_apart == NULL)
        return bgi_error_memory(error, "anchors", graph->value_count);
    for (size_t i = 0; i < graph->output_count; i++)
        is_apart[graph->outputs[i].value.id] = true;
    for (size_t i = 0; i < graph->output_count; i++)
        if (!bgi_is_anchor(c, graph->outputs[i].name))
            is_apart[graph->outputs[i].value.id] = false; /* fusion never removes a marked output */
    BGI_TRY(bgi_fuse(graph, is_apart, &c->loss, &fused, error));
    replace_graph(c, fused);
    return BG_OK;
}

bg_status bgi_ensure_own_graph(bgi_compiler *c, bg_error *error)
{
    if (c->graph == NULL)
        BGI_TRY(bgi_graph_clone(c->source, &c->graph, error));
    if (c->graph->op_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            c->plan->training
                                ? "the graph computes nothing: it has no ops"
                                : "the graph computes nothing: it has no output; mark one (bg_graph_output)");
    if (c->plan->options.execution.strategy == BG_STRATEGY_SINGLE)
        for (size_t o = 0; o < c->graph->op_count; o++)
            if (c->graph->ops[o].block == BGI_BLOCK_NONE)
                c->graph->ops[o].block = 0;
    return bgi_name_loss(c, error);
}
