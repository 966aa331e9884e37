/*
 * readers.c: finds the readers of values.
 */
#include "transform/readers.h"

#include <stdlib.h>

uint32_t *bgi_readers_find(const bg_graph *graph)
{
    uint32_t *readers = malloc(graph->value_count * sizeof *readers);

    if (readers == NULL)
        return NULL;
    for (size_t v = 0; v < graph->value_count; v++)
        readers[v] = BGI_UNREAD;
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++) {
            uint32_t *reader = &readers[graph->ops[o].inputs[i].id];
            *reader = *reader == BGI_UNREAD ? (uint32_t)o : BGI_SHARED;
        }
    for (size_t i = 0; i < graph->output_count; i++)
        readers[graph->outputs[i].value.id] = BGI_SHARED;
    return readers;
}

const bgi_op *bgi_readers_only(const bg_graph *graph, const uint32_t *readers, bg_value value)
{
    return readers[value.id] < BGI_SHARED ? &graph->ops[readers[value.id]] : NULL;
}

bool bgi_readers_of_rest(const uint32_t *readers, const bgi_op *op)
{
    for (uint32_t i = 1; i < op->output_count; i++)
        if (op->outputs[i].id != 0 && readers[op->outputs[i].id] != BGI_UNREAD)
            return true;
    return false;
}
