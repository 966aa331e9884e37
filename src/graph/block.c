/*
 * block.c: implements blocks and their scopes while a graph is built. Scopes nest: the end of a scope returns to the
 * outer block, and the end of the outermost scope leaves no block. A started block lasts until the next start or the
 * end of the scope around it.
 */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

/* Returns the index of the block of this name, which is added if it is new; BGI_BLOCK_NONE if it cannot be. */
static uint32_t find_or_add(bg_graph *graph, const char *name, uint32_t device)
{
    bgi_block block = {.device = device};
    char automatic[16];

    if (name == NULL) {
        snprintf(automatic, sizeof automatic, "%u", graph->automatic_block_count++);
        name = automatic;
    }
    if (strpbrk(name, ",|@&;") != NULL) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "block `%s`: a name cannot contain , | & ; or @, which separate parts of `stages`", name);
        return BGI_BLOCK_NONE;
    }
    for (size_t i = 1; i < graph->block_count; i++) {
        if (strcmp(graph->blocks[i].name, name) != 0)
            continue;
        if (graph->blocks[i].device == BG_DEVICE_NONE)
            graph->blocks[i].device = device;
        else if (device != BG_DEVICE_NONE && device != graph->blocks[i].device)
            bg_graph_fail(graph, BG_ERROR_INVALID, "block `%s` is already on device %u, but now it is given device %u",
                          name, graph->blocks[i].device, device);
        return (uint32_t)i;
    }
    block.name = bgi_arena_string(&graph->arena, name);
    if (block.name == NULL || !bgi_array_reserve((void **)&graph->blocks, &graph->block_capacity,
                                                 graph->block_count + 1, sizeof *graph->blocks)) {
        bg_graph_fail(graph, BG_ERROR_MEMORY, "out of memory for block `%s`", name);
        return BGI_BLOCK_NONE;
    }
    graph->blocks[graph->block_count] = block;
    return (uint32_t)graph->block_count++;
}

void bg_block_begin(bg_graph *graph, const char *name, uint32_t device)
{
    if (graph->error.status != BG_OK)
        return;
    if (graph->scope_count == sizeof graph->scopes / sizeof graph->scopes[0]) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "block `%s`: blocks nest at most %u deep; end a block before you begin this one",
                      name != NULL ? name : "", graph->scope_count);
        return;
    }
    graph->scopes[graph->scope_count++] = graph->current_block;
    graph->current_block = find_or_add(graph, name, device);
}

void bg_block_end(bg_graph *graph)
{
    if (graph->error.status != BG_OK)
        return;
    if (graph->scope_count == 0) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "bg_block_end was called without bg_block_begin");
        return;
    }
    /* Leaving an inner scope returns to the outer one; leaving the outermost one leaves no block. */
    graph->scope_count--;
    graph->current_block = graph->scope_count > 0 ? graph->scopes[graph->scope_count] : BGI_BLOCK_NONE;
}

void bg_block_start(bg_graph *graph, const char *name, uint32_t device)
{
    if (graph->error.status != BG_OK)
        return;
    graph->current_block = find_or_add(graph, name, device);
}
