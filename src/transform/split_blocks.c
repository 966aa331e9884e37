/*
 * split_blocks.c: splits blocks, so that stages may begin inside them.
 *
 *     B1: a b c d      =>      B1.0: a b    B1.1: c d          (parts 0 0 1 1)
 *
 * Gradients of a parameter are accumulated block by block and summed in the order of blocks. So the parts of a block
 * have the block's position in that order. The caller must keep the uses of a parameter in one block together; then the
 * split does not change a sum or its result.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

typedef struct bgi_splitter {
    bg_graph *graph;
    const uint32_t *op_parts;
    uint32_t part_count;
    uint32_t *numbers; /* by old block and part: the new number, 0: no such part */
    bgi_block *blocks; /* the new blocks; malloc'ed */
    uint32_t count;
} bgi_splitter;

static uint32_t *number_of(const bgi_splitter *s, uint32_t block, uint32_t part)
{
    return &s->numbers[(size_t)block * s->part_count + part];
}

static bool is_taken(const bgi_splitter *s, const char *name)
{
    for (size_t b = 0; b < s->graph->block_count; b++)
        if (strcmp(s->graph->blocks[b].name, name) == 0)
            return true;
    return false;
}

/* Returns the block's name with a number, such as "B1.0"; skips numbers whose names the model's blocks have. */
static const char *name_part(const bgi_splitter *s, const char *block, uint32_t *number)
{
    const char *name;

    do
        name = bgi_arena_format(&s->graph->arena, "%s.%u", block, (*number)++);
    while (name != NULL && is_taken(s, name));
    return name;
}

static bg_status add_parts(bgi_splitter *s, uint32_t block, bg_error *error)
{
    const bgi_block old = s->graph->blocks[block];
    const char *origin = block == 0 ? "ops" : old.name;
    uint32_t parts = 0, number = 0;

    for (uint32_t part = 0; part < s->part_count; part++)
        parts += *number_of(s, block, part);
    if (parts <= 1 && block != 0) { /* the block does not change, even if it has no ops */
        for (uint32_t part = 0; part < s->part_count; part++)
            *number_of(s, block, part) = s->count;
        s->blocks[s->count++] = old;
        return BG_OK;
    }
    for (uint32_t part = 0; part < s->part_count; part++) {
        bgi_block added = old;
        if (*number_of(s, block, part) == 0)
            continue;
        added.name = name_part(s, origin, &number);
        added.origin = origin;
        if (added.name == NULL)
            return bgi_error_memory(error, "a name", 0);
        *number_of(s, block, part) = s->count;
        s->blocks[s->count++] = added;
    }
    return BG_OK;
}

bg_status bgi_split_blocks(bg_graph *graph, const uint32_t *op_parts, uint32_t part_count, bg_error *error)
{
    bgi_splitter s = {.graph = graph, .op_parts = op_parts, .part_count = part_count};
    const size_t most = graph->block_count * part_count + 1;
    bg_status status = BG_OK;

    s.numbers = calloc(graph->block_count * part_count, sizeof *s.numbers);
    s.blocks = calloc(most < graph->op_count + graph->block_count + 1 ? most : graph->op_count + graph->block_count + 1,
                      sizeof *s.blocks);
    if (s.numbers == NULL || s.blocks == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "blocks", most * sizeof *s.blocks));
    for (size_t o = 0; o < graph->op_count; o++)
        *number_of(&s, graph->ops[o].block, op_parts[o]) = 1;
    s.blocks[s.count++] = graph->blocks[0];
    for (uint32_t block = 0; block < graph->block_count; block++)
        BGI_TRY_CLEANUP(add_parts(&s, block, error));
    for (size_t o = 0; o < graph->op_count; o++)
        graph->ops[o].block = *number_of(&s, graph->ops[o].block, op_parts[o]);
    free(graph->blocks);
    graph->blocks = s.blocks;
    graph->block_count = graph->block_capacity = s.count;
    s.blocks = NULL;
cleanup:
    free(s.numbers);
    free(s.blocks);
    return status;
}
