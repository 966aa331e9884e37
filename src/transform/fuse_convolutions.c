/*
 * fuse_convolutions.c: fuses convolutions in inference with the ops that follow them, so that intermediate results stay
 * in the cache.
 *
 *     x, w -> conv2d -> batch_norm -> t;  t + other -> relu -> y     =>     x, w, ..., other -> fused_conv2d -> y
 *
 * Needs: a forward graph that is not trained, so that batch norms read their running statistics, and its stages. Does:
 * fuses each convolution with any of three ops that follow it: batch norm, the sum with a value of the same type, and
 * an elementwise function. All are float32 and of one stage, and the values between them have no other reader and are
 * not outputs of the graph. When the sum adds the results of two convolutions, the later one includes it. Keeps: blocks
 * (that of the last op for a chain), names of the remaining values, and results bit for bit, because the kernel does
 * the float operations of the separate ops.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "kernels/fused_conv/attributes.h"
#include "kernels/norm/attributes.h"
#include "ops/ops.h"
#include "transform/readers.h"
#include "transform/rebuild.h"

typedef struct conv_chain {
    const bgi_op *conv, *norm, *add, *unary; /* all except `conv` may be NULL */
    const bgi_op *last;
    bg_value other; /* the other operand of the sum */
} conv_chain;

typedef struct conv_fuser {
    const bg_graph *graph;
    const bgi_stages *stages;
    uint32_t *readers;  /* by value: the only reader (bgi_readers_find) */
    conv_chain *chains; /* by op: the chain that ends with this op; conv is NULL if there is none */
    bool *is_taken;     /* by op: part of a chain */
} conv_fuser;

/* Returns the only reader of the outputs of `op`, if it reads the first output, has type `type` and the same stage, and
 * is not in a chain; otherwise NULL. */
static const bgi_op *find_next(const conv_fuser *f, const bgi_op *op, const bg_op_type *type)
{
    const bgi_op *next = bgi_readers_only(f->graph, f->readers, op->outputs[0]);

    return next != NULL && !bgi_readers_of_rest(f->readers, op) && next->type == type &&
                   bgi_op_stage(f->stages, next) == bgi_op_stage(f->stages, op) && !f->is_taken[next - f->graph->ops]
               ? next
               : NULL;
}

static bool is_single(const bg_graph *graph, bg_value value)
{
    return bg_graph_type(graph, value).dtype == BG_FLOAT32;
}

static const bgi_op *find_norm(const conv_fuser *f, const bgi_op *op)
{
    const bgi_op *norm = find_next(f, op, &bgi_op_batch_norm);

    if (norm == NULL || norm->inputs[0].id != op->outputs[0].id || bgi_readers_of_rest(f->readers, norm))
        return NULL;
    return is_single(f->graph, norm->inputs[3]) && is_single(f->graph, norm->inputs[4]) ? norm : NULL;
}

static const bgi_op *find_add(const conv_fuser *f, const bgi_op *op, bg_value *other)
{
    const bgi_op *add = find_next(f, op, &bgi_op_binary);
    bg_type y, with;

    if (add == NULL || ((const bgi_binary_attributes *)add->attributes)->function != BG_ADD)
        return NULL;
    *other = add->inputs[add->inputs[0].id == op->outputs[0].id ? 1 : 0];
    y = bg_graph_type(f->graph, op->outputs[0]);
    with = bg_graph_type(f->graph, *other);
    return bg_type_equal(&y, &with) ? add : NULL;
}

static const bgi_op *find_unary(const conv_fuser *f, const bgi_op *op)
{
    const bgi_op *unary = find_next(f, op, &bgi_op_unary);
    const bgi_unary_attributes *attributes = unary != NULL ? unary->attributes : NULL;

    return unary != NULL && (bgi_unary_fuses(attributes->function) || bgi_unary_has_parameters(attributes->function))
               ? unary
               : NULL;
}

/* Finds chains from the last convolution to the first, so that the sum of two convolutions is fused with the later
 * one. */
static void find_chains(conv_fuser *f)
{
    for (size_t o = f->graph->op_count; o-- > 0;) {
        const bgi_op *conv = &f->graph->ops[o];
        conv_chain chain = {.conv = conv, .last = conv};

        if (conv->type != &bgi_op_conv2d || !is_single(f->graph, conv->outputs[0]))
            continue;
        if ((chain.norm = find_norm(f, chain.last)) != NULL)
            chain.last = chain.norm;
        if ((chain.add = find_add(f, chain.last, &chain.other)) != NULL)
            chain.last = chain.add;
        if ((chain.unary = find_unary(f, chain.last)) != NULL)
            chain.last = chain.unary;
        if (chain.last == conv)
            continue;
        f->is_taken[conv - f->graph->ops] = true;
        if (chain.norm != NULL)
            f->is_taken[chain.norm - f->graph->ops] = true;
        if (chain.add != NULL)
            f->is_taken[chain.add - f->graph->ops] = true;
        if (chain.unary != NULL)
            f->is_taken[chain.unary - f->graph->ops] = true;
        f->chains[chain.last - f->graph->ops] = chain;
    }
}

static void emit_chain(bgi_rebuild *rebuild, const conv_chain *chain)
{
    bgi_fused_conv2d_attributes attributes;
    bg_value inputs[8];
    uint32_t count = 0;

    memset(&attributes, 0, sizeof attributes); /* also the padding bytes: see bg_op_type */
    attributes.conv = *(const bgi_conv2d_attributes *)chain->conv->attributes;
    attributes.has_bias = chain->conv->input_count > 2;
    attributes.norms = chain->norm != NULL;
    attributes.adds = chain->add != NULL;
    attributes.maps = chain->unary != NULL;
    for (uint32_t i = 0; i < chain->conv->input_count; i++)
        inputs[count++] = bgi_rebuild_value(rebuild, chain->conv->inputs[i]);
    for (uint32_t i = 1; chain->norm != NULL && i < 5; i++)
        inputs[count++] = bgi_rebuild_value(rebuild, chain->norm->inputs[i]);
    if (chain->norm != NULL)
        attributes.epsilon = ((const bgi_norm_attributes *)chain->norm->attributes)->epsilon;
    if (chain->add != NULL)
        inputs[count++] = bgi_rebuild_value(rebuild, chain->other);
    if (chain->unary != NULL)
        attributes.unary = *(const bgi_unary_attributes *)chain->unary->attributes;
    bgi_rebuild_place(rebuild, chain->last);
    bgi_rebuild_map(
        rebuild, chain->last->outputs[0],
        bg_graph_add(rebuild->to, &bgi_op_fused_conv2d, chain->conv->name, inputs, count, &attributes, NULL));
}

bg_status bgi_fuse_convolutions(const bg_graph *graph, const bgi_stages *stages, bg_graph **out, bg_error *error)
{
    conv_fuser f = {.graph = graph,
                    .stages = stages,
                    .readers = bgi_readers_find(graph),
                    .chains = calloc(graph->op_count + 1, sizeof *f.chains),
                    .is_taken = calloc(graph->op_count + 1, sizeof *f.is_taken)};
    bgi_rebuild rebuild = {0};
    bg_status status = BG_OK;

    if (f.readers == NULL || f.chains == NULL || f.is_taken == NULL) {
        status = bgi_error_memory(error, "chains", graph->op_count);
        goto cleanup;
    }
    BGI_TRY_CLEANUP(bgi_rebuild_begin(&rebuild, graph, NULL, error));
    find_chains(&f);
    for (size_t o = 0; o < graph->op_count; o++) {
        if (f.chains[o].conv != NULL)
            emit_chain(&rebuild, &f.chains[o]);
        else if (!f.is_taken[o])
            bgi_rebuild_op(&rebuild, &graph->ops[o]);
    }
    status = bgi_rebuild_finish(&rebuild, out, error);
cleanup:
    free(f.readers);
    free(f.chains);
    free(f.is_taken);
    bgi_rebuild_clear(&rebuild);
    return status;
}
