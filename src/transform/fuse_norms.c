/*
 * fuse_norms.c: fuses batch norms with the ops that follow them, in training, so that results are written once.
 *
 *     x, ... -> batch_norm -> t;  t + other -> relu -> y     =>     x, ..., other -> fused_batch_norm -> y
 *
 * Needs: a forward graph that will be differentiated. Does: fuses each batch norm with any of two ops that follow it in
 * its block: the sum with a value of the same type, and an elementwise function. The values between them have no other
 * reader and are no outputs. The backward of the fused op needs no gradient between the ops either. A function that
 * follows a sum is fused only if its derivative depends only on its result. When the sum adds the results of two norms,
 * the later one includes it. Keeps: blocks, names of the remaining values, the order in which gradients are added, and
 * every bit, because the kernels do the float operations of the separate ops.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "kernels/norm/attributes.h"
#include "ops/ops.h"
#include "transform/readers.h"
#include "transform/rebuild.h"

typedef struct norm_chain {
    const bgi_op *norm, *add, *unary; /* the last two may be NULL */
    const bgi_op *last;
    bg_value other; /* the other operand of the sum */
} norm_chain;

/* Returns the op at whose position the fused op is added: the sum, or the norm if there is no sum. Gradients are then
 * added in the same order as before. */
static const bgi_op *place_of(const norm_chain *chain)
{
    return chain->add != NULL ? chain->add : chain->norm;
}

typedef struct norm_fuser {
    const bg_graph *graph;
    uint32_t *readers;  /* by value: the only reader (bgi_readers_find); checkpoints and the loss count as BGI_SHARED */
    norm_chain *chains; /* by op: the chain whose fused op has this position; norm is NULL if there is none */
    bool *is_taken;     /* by op: part of a chain */
} norm_fuser;

static void share_kept(norm_fuser *f, bg_value loss)
{
    for (size_t v = 0; v < f->graph->value_count; v++)
        if (f->graph->values[v].is_checkpoint)
            f->readers[v] = BGI_SHARED;
    f->readers[loss.id] = BGI_SHARED;
}

/* Returns the only reader of the first output of `op`, if it has type `type` and the same block, and is not in a chain;
 * otherwise NULL. */
static const bgi_op *find_next(const norm_fuser *f, const bgi_op *op, const bg_op_type *type)
{
    const bgi_op *next = bgi_readers_only(f->graph, f->readers, op->outputs[0]);

    return next != NULL && next->type == type && next->block == op->block && !f->is_taken[next - f->graph->ops] ? next
                                                                                                                : NULL;
}

/* Returns whether the norm may move to the position of the sum. It may not if its operands have other readers, which
 * could then read them or add their gradients in another order than before. */
static bool may_move(const norm_fuser *f, const bgi_op *norm)
{
    for (uint32_t i = 0; i < norm->input_count; i++)
        if (f->readers[norm->inputs[i].id] == BGI_SHARED)
            return false;
    return true;
}

static const bgi_op *find_add(const norm_fuser *f, const bgi_op *norm, bg_value *other)
{
    const bgi_op *add = find_next(f, norm, &bgi_op_binary);
    bg_type y, with;

    if (add == NULL || !may_move(f, norm) || ((const bgi_binary_attributes *)add->attributes)->function != BG_ADD)
        return NULL;
    *other = add->inputs[add->inputs[0].id == norm->outputs[0].id ? 1 : 0];
    y = bg_graph_type(f->graph, norm->outputs[0]);
    with = bg_graph_type(f->graph, *other);
    return bg_type_equal(&y, &with) ? add : NULL;
}

static const bgi_op *find_unary(const norm_fuser *f, const norm_chain *chain)
{
    const bgi_op *unary = find_next(f, chain->last, &bgi_op_unary);
    const bgi_unary_attributes *attributes = unary != NULL ? unary->attributes : NULL;

    return unary != NULL && (bgi_unary_fuses(attributes->function) || bgi_unary_has_parameters(attributes->function)) &&
                   (chain->add == NULL || bgi_unary_derives_from_output(attributes->function))
               ? unary
               : NULL;
}

/* Finds chains from the last norm to the first, so that the sum of two norms is fused with the later one. Returns
 * whether there is a chain. */
static bool find_chains(norm_fuser *f)
{
    bool any = false;

    for (size_t o = f->graph->op_count; o-- > 0;) {
        const bgi_op *norm = &f->graph->ops[o];
        norm_chain chain = {.norm = norm, .last = norm};

        if (norm->type != &bgi_op_batch_norm || bgi_readers_of_rest(f->readers, norm))
            continue;
        if ((chain.add = find_add(f, norm, &chain.other)) != NULL)
            chain.last = chain.add;
        if ((chain.unary = find_unary(f, &chain)) != NULL)
            chain.last = chain.unary;
        if (chain.last == norm)
            continue;
        f->is_taken[o] = any = true;
        if (chain.add != NULL)
            f->is_taken[chain.add - f->graph->ops] = true;
        if (chain.unary != NULL)
            f->is_taken[chain.unary - f->graph->ops] = true;
        f->chains[place_of(&chain) - f->graph->ops] = chain;
    }
    return any;
}

static void emit_chain(bgi_rebuild *rebuild, const norm_chain *chain)
{
    bgi_fused_norm_attributes attributes;
    bg_value inputs[6], outputs[2];

    memset(&attributes, 0, sizeof attributes); /* also the padding bytes: see bg_op_type */
    attributes.norm = *(const bgi_norm_attributes *)chain->norm->attributes;
    attributes.adds = chain->add != NULL;
    attributes.maps = chain->unary != NULL;
    if (chain->unary != NULL)
        attributes.unary = *(const bgi_unary_attributes *)chain->unary->attributes;
    for (uint32_t i = 0; i < 5; i++)
        inputs[i] = bgi_rebuild_value(rebuild, chain->norm->inputs[i]);
    if (chain->add != NULL)
        inputs[5] = bgi_rebuild_value(rebuild, chain->other);
    bgi_rebuild_place(rebuild, place_of(chain));
    bg_graph_add(rebuild->to, &bgi_op_fused_batch_norm, chain->norm->name, inputs, chain->add != NULL ? 6 : 5,
                 &attributes, outputs);
    bgi_rebuild_map(rebuild, chain->last->outputs[0], outputs[0]);
}

static bg_status rebuild_chains(const norm_fuser *f, bg_value *loss, bg_graph **out, bg_error *error)
{
    const bg_graph *graph = f->graph;
    bgi_rebuild rebuild = {0};
    bg_value new_loss;

    BGI_TRY(bgi_rebuild_begin(&rebuild, graph, NULL, error));
    for (size_t o = 0; o < graph->op_count; o++) {
        if (f->chains[o].norm != NULL)
            emit_chain(&rebuild, &f->chains[o]);
        else if (!f->is_taken[o])
            bgi_rebuild_op(&rebuild, &graph->ops[o]);
    }
    new_loss = bgi_rebuild_value(&rebuild, *loss);
    BGI_TRY(bgi_rebuild_finish(&rebuild, out, error));
    *loss = new_loss;
    return BG_OK;
}

bg_status bgi_fuse_norms(bg_graph **graph, bg_value *loss, bg_error *error)
{
    norm_fuser f = {.graph = *graph,
                    .readers = bgi_readers_find(*graph),
                    .chains = calloc((*graph)->op_count + 1, sizeof *f.chains),
                    .is_taken = calloc((*graph)->op_count + 1, sizeof *f.is_taken)};
    bg_graph *fused = NULL;
    bg_status status = BG_OK;

    if (f.readers == NULL || f.chains == NULL || f.is_taken == NULL) {
        status = bgi_error_memory(error, "chains", (*graph)->op_count);
    } else {
        share_kept(&f, *loss);
        if (find_chains(&f))
            status = rebuild_chains(&f, loss, &fused, error);
    }
    free(f.readers);
    free(f.chains);
    free(f.is_taken);
    if (fused != NULL) {
        bg_graph_destroy(*graph);
        *graph = fused;
    }
    return status;
}
