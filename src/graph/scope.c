/*
 * scope.c: implements name scopes while a graph is built: names that are added inside get the scopes' names as prefix.
 */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"

enum { MOST_SCOPES = sizeof((bg_graph *)0)->prefix_lengths / sizeof(uint32_t) };

void bg_scope_begin(bg_graph *graph, const char *format, ...)
{
    const size_t room = sizeof graph->prefix, length = strlen(graph->prefix);
    char text[sizeof graph->prefix];
    va_list arguments;
    int added;

    if (graph->error.status != BG_OK)
        return;
    va_start(arguments, format);
    added = format != NULL ? vsnprintf(text, sizeof text, format, arguments) : 0;
    va_end(arguments);
    if (added <= 0)
        bg_graph_fail(graph, BG_ERROR_INVALID, "the name scope has no name");
    else if (length + (size_t)added + 1 >= room)
        bg_graph_fail(graph, BG_ERROR_INVALID, "name scope `%s%.60s`: names of scopes have at most %zu bytes together",
                      graph->prefix, text, room - 2);
    else if (graph->prefix_count == MOST_SCOPES)
        bg_graph_fail(graph, BG_ERROR_INVALID, "name scope `%s%s`: scopes nest at most %d deep", graph->prefix, text,
                      (int)MOST_SCOPES);
    if (graph->error.status != BG_OK)
        return;
    graph->prefix_lengths[graph->prefix_count++] = (uint32_t)length;
    memcpy(graph->prefix + length, text, (size_t)added);
    memcpy(graph->prefix + length + added, ".", 2);
}

void bg_scope_end(bg_graph *graph)
{
    if (graph->error.status != BG_OK)
        return;
    if (graph->prefix_count == 0) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "bg_scope_end was called without bg_scope_begin");
        return;
    }
    graph->prefix[graph->prefix_lengths[--graph->prefix_count]] = '\0';
}
