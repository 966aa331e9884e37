/*
 * prune.c: removes what the wanted outputs do not need.
 *
 *     x -> a -> logits*                x -> a -> logits*
 *          a, labels -> loss     =>
 *
 * Needs: a forward graph. Does: keeps the ops and leaves that the wanted outputs depend on. Keeps: order, names,
 * blocks.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "transform/rebuild.h"

static bool is_wanted(const char *name, const char *const *wanted, uint32_t wanted_count)
{
    if (wanted == NULL)
        return true;
    for (uint32_t i = 0; i < wanted_count; i++)
        if (strcmp(name, wanted[i]) == 0)
            return true;
    return false;
}

bg_status bgi_prune(const bg_graph *graph, const char *const *wanted, uint32_t wanted_count, bg_graph **out,
                    bg_error *error)
{
    bgi_rebuild rebuild;
    bool *needed;
    bg_status status;

    BGI_TRY(bg_graph_check(graph, error));
    needed = calloc(graph->value_count, sizeof *needed);
    if (needed == NULL)
        return bgi_error_memory(error, "marks", graph->value_count);
    for (size_t i = 0; i < graph->output_count; i++)
        if (is_wanted(graph->outputs[i].name, wanted, wanted_count))
            needed[graph->outputs[i].value.id] = true;
    for (size_t o = graph->op_count; o-- > 0;) {
        const bgi_op *op = &graph->ops[o];
        bool is_needed = false;
        for (uint32_t i = 0; i < op->output_count; i++)
            is_needed |= needed[op->outputs[i].id];
        needed[0] = false;
        for (uint32_t i = 0; is_needed && i < op->input_count; i++)
            needed[op->inputs[i].id] = true;
    }
    status = bgi_rebuild_begin(&rebuild, graph, needed, error);
    if (status != BG_OK) {
        free(needed);
        return status;
    }
    for (size_t o = 0; o < graph->op_count; o++) {
        bool is_needed = false;
        for (uint32_t i = 0; i < graph->ops[o].output_count; i++)
            is_needed |= graph->ops[o].outputs[i].id != 0 && needed[graph->ops[o].outputs[i].id];
        if (is_needed)
            bgi_rebuild_op(&rebuild, &graph->ops[o]);
    }
    free(needed);
    return bgi_rebuild_finish(&rebuild, out, error);
}
