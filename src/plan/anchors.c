/*
 * anchors.c: lets an output request name any value of the forward graph, even one that the graph does not mark as an
 * output.
 *
 *     x -> conv -> relu -> loss*      request "conv"  =>      x -> conv* -> relu -> loss*
 *
 * The value is marked in a copy of the graph before any other pass runs, so that the passes keep it. A request for a
 * value must not change other results: if fusion would hide the value, the graph keeps the unfused op in addition to
 * the fused one.
 */
#include "plan/compile.h"

#include <string.h>

#include "core/error.h"
#include "core/text.h"

bg_value bgi_find_output(const bg_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, name) == 0)
            return graph->outputs[i].value;
    return (bg_value){0};
}

bg_status bgi_unknown_output(const bg_graph *graph, const char *name, bg_error *error)
{
    bgi_string names = {0};

    for (size_t i = 0; i < graph->output_count; i++)
        bgi_string_add(&names, "%s`%s`", i == 0 ? "" : ", ", graph->outputs[i].name);
    bg_error_set(error, BG_ERROR_NOT_FOUND, "output request: the graph has no output or op `%s`; its outputs are %s",
                 name, names.data != NULL ? names.data : "none");
    bgi_string_clear(&names);
    return BG_ERROR_NOT_FOUND;
}

/* Finds the value called `name`: the first result of an op has the op's name, the second one is NAME.1, and so on. Does
 * not set *out when the forward graph has no such value; the training graph may still have one. */
static bg_status find_value(const bg_graph *graph, const char *name, bg_value *out, bg_error *error)
{
    uint32_t found = 0;

    for (uint32_t v = 1; v < graph->value_count; v++)
        if (graph->values[v].kind != BGI_VALUE_CONSTANT && strcmp(graph->values[v].name, name) == 0) {
            *out = (bg_value){v};
            found++;
        }
    if (found > 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "output request: %u values of the graph are named `%s`; mark the intended one as an output "
                            "(bg_graph_output), or give the ops different names",
                            found, name);
    return BG_OK;
}

bg_status bgi_mark_anchors(bgi_compiler *c, const bg_graph *graph, bg_graph **out, bg_error *error)
{
    const bg_options *options = &c->plan->options;
    bool *is_anchor = bgi_arena_allocate(&c->scratch, options->reporting.output_request_count, sizeof *is_anchor);
    bg_graph *marked = NULL;
    bg_status status = BG_OK;

    if (is_anchor == NULL)
        return bgi_error_memory(error, "anchors", options->reporting.output_request_count);
    for (uint32_t i = 0; status == BG_OK && i < options->reporting.output_request_count; i++) {
        const char *name = options->reporting.output_requests[i].output;
        bg_value value = {0};

        if (!bg_value_is_null(bgi_find_output(graph, name)))
            continue;
        if (marked != NULL && !bg_value_is_null(bgi_find_output(marked, name))) {
            is_anchor[i] = true; /* requested twice */
            continue;
        }
        status = find_value(graph, name, &value, error);
        if (status == BG_OK && !bg_value_is_null(value) && marked == NULL)
            status = bgi_graph_clone(graph, &marked, error);
        if (status != BG_OK)
            break;
        if (bg_value_is_null(value))
            continue;
        is_anchor[i] = true;
        bg_graph_output(marked, name, value);
        status = bg_graph_check(marked, error);
    }
    if (status != BG_OK)
        bg_graph_destroy(marked);
    else
        *out = marked;
    c->is_anchor = is_anchor;
    return status;
}

bool bgi_is_anchor(const bgi_compiler *c, const char *output)
{
    for (uint32_t i = 0; i < c->plan->options.reporting.output_request_count; i++)
        if (c->is_anchor[i] && strcmp(c->plan->options.reporting.output_requests[i].output, output) == 0)
            return true;
    return false;
}
