/*
 * fuse_accumulation.c: adds gradients to their accumulators in the ops that make them.
 *
 *     dy, x -> backward_weights -> dw, db            =>      backward_weights_accumulate(dy, x, w.acc!, b.acc!)
 *     accumulate(w.acc!, dw); accumulate(b.acc!, db)
 *
 * Needs: a training graph. Does: gives an op its accumulating form, if its type has one. Each result of the op must be
 * a float32 gradient that only one accumulate op reads, of the same block and with a float32 accumulator. Keeps: the
 * order of all other ops, names, blocks, phases and, because an accumulating form adds the complete gradient, results
 * bit for bit.
 */
#include "transform/transform.h"

#include <stdlib.h>

#include "core/error.h"
#include "ops/ops.h"
#include "transform/readers.h"
#include "transform/rebuild.h"

typedef struct bgi_adder {
    const bg_graph *graph;
    uint32_t *readers; /* by value: the only reader (bgi_readers_find) */
    bool *is_absorbed; /* by op: an accumulate op that has become part of another op */
} bgi_adder;

/* Returns the accumulate op that is the only reader of `value`, a result of `op`, if it may become part of `op`;
 * otherwise NULL. */
static const bgi_op *find_accumulate(const bgi_adder *a, const bgi_op *op, bg_value value)
{
    const bgi_op *accumulate = bgi_readers_only(a->graph, a->readers, value);

    if (accumulate == NULL || accumulate->type != &bgi_op_accumulate || accumulate->input_count != 2 ||
        accumulate->inputs[1].id != value.id || accumulate->block != op->block || accumulate->phase != op->phase)
        return NULL;
    return bg_graph_type(a->graph, value).dtype == BG_FLOAT32 &&
                   bg_graph_type(a->graph, accumulate->inputs[0]).dtype == BG_FLOAT32
               ? accumulate
               : NULL;
}

/* Writes the accumulators of all results of `op` to `inputs`, from index op->input_count on. Returns false if the op's
 * type has no accumulating form, if the op has no results, or if find_accumulate finds no accumulate op for one of
 * them. */
static bool match(const bgi_adder *a, const bgi_op *op, bg_value *inputs, uint32_t *count)
{
    *count = op->input_count;
    if (op->type->accumulating == NULL)
        return false;
    for (uint32_t i = 0; i < op->output_count; i++) {
        const bgi_op *accumulate;
        if (bg_value_is_null(op->outputs[i]))
            continue;
        accumulate = find_accumulate(a, op, op->outputs[i]);
        if (accumulate == NULL)
            return false;
        inputs[(*count)++] = accumulate->inputs[0];
    }
    return *count > op->input_count;
}

static void emit(bgi_adder *a, bgi_rebuild *rebuild, const bgi_op *op)
{
    bg_value inputs[64];
    uint32_t count;

    if (!match(a, op, inputs, &count)) {
        bgi_rebuild_op(rebuild, op);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        inputs[i] = bgi_rebuild_value(rebuild, i < op->input_count ? op->inputs[i] : inputs[i]);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (!bg_value_is_null(op->outputs[i]))
            a->is_absorbed[a->readers[op->outputs[i].id]] = true;
    bgi_rebuild_place(rebuild, op);
    bg_graph_add(rebuild->to, op->type->accumulating, op->name, inputs, count, op->attributes, NULL);
}

bg_status bgi_fuse_accumulation(bg_graph **graph, bg_error *error)
{
    bgi_adder a = {.graph = *graph};
    bgi_rebuild rebuild = {0};
    bg_graph *fused = NULL;
    bg_status status;

    a.readers = bgi_readers_find(a.graph);
    a.is_absorbed = calloc(a.graph->op_count + 1, sizeof *a.is_absorbed);
    if (a.readers == NULL || a.is_absorbed == NULL) {
        status = bgi_error_memory(error, "readers", a.graph->value_count * sizeof *a.readers);
        goto cleanup;
    }
    BGI_TRY_CLEANUP(bgi_rebuild_begin(&rebuild, a.graph, NULL, error));
    for (uint32_t o = 0; o < a.graph->op_count; o++)
        if (!a.is_absorbed[o])
            emit(&a, &rebuild, &a.graph->ops[o]);
    BGI_TRY_CLEANUP(bgi_rebuild_finish(&rebuild, &fused, error));
    bg_graph_destroy(*graph);
    *graph = fused;
cleanup:
    free(a.readers);
    free(a.is_absorbed);
    bgi_rebuild_clear(&rebuild);
    return status;
}
