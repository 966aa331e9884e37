/*
 * fusion.c: fuses ops that are faster as one op.
 *
 *     x, w, b -> conv2d -> max_pool2d -> relu -> y       =>      x, w, b -> conv2d_pool -> y
 *
 * Needs: a forward graph. Does: rewrites the chain (with or without relu) where the fused kernel supports it. Stride,
 * dilation and groups of the convolution must be 1. Windows of the pool must not overlap or be padded, ceil_mode must
 * be off, and a window has at most 254 elements. The intermediate values must have no other reader. Keeps: blocks (a
 * chain is never in two blocks, so that the partition does not affect it), names and the meaning of every output. The
 * convolution's output never reaches memory, and its gradient is sparse: one element in a window. A requested
 * intermediate value is computed a second time, in addition to the fused op, so that a request for it does not change
 * other results.
 */
#include "transform/transform.h"

#include <stdlib.h>

#include "core/error.h"
#include "ops/ops.h"

#include <string.h>

#include "kernels/conv/attributes.h"
#include "kernels/conv_pool/attributes.h"
#include "kernels/elementwise/attributes.h"
#include "kernels/pool/attributes.h"
#include "transform/rebuild.h"

enum { LARGEST_WINDOW = 254 };

typedef struct bgi_chain {
    const bgi_op *conv;
    const bgi_op *pool;
    const bgi_op *relu; /* or NULL */
} bgi_chain;

/* Returns the number of readers of each value, including the loss and outputs of the graph, except outputs that are
 * computed separately. */
static uint32_t *count_readers(const bg_graph *graph, const bool *is_apart, bg_value loss)
{
    uint32_t *readers = calloc(graph->value_count, sizeof *readers);

    if (readers == NULL)
        return NULL;
    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++)
            readers[graph->ops[o].inputs[i].id]++;
    for (size_t i = 0; i < graph->output_count; i++)
        readers[graph->outputs[i].value.id] += is_apart == NULL || !is_apart[graph->outputs[i].value.id];
    if (!bg_value_is_null(loss))
        readers[loss.id]++;
    return readers;
}

static bool conv_fits(const bgi_op *conv)
{
    const bgi_conv2d_attributes *attributes = conv->attributes;
    const bg_conv2d_options *options = &attributes->options;

    return conv->input_count == 3 && options->stride[0] == 1 && options->stride[1] == 1 && options->dilation[0] == 1 &&
           options->dilation[1] == 1 && options->groups == 1;
}

static bool pool_fits(const bgi_op *pool)
{
    const bgi_pool2d_attributes *attributes = pool->attributes;
    const bg_pool2d_options *options = &attributes->options;

    return attributes->sizes[0] == 0 && options->stride[0] == options->kernel[0] &&
           options->stride[1] == options->kernel[1] && options->padding[0] == 0 && options->padding[1] == 0 &&
           options->dilation[0] == 1 && options->dilation[1] == 1 && !options->ceil_mode &&
           options->kernel[0] * options->kernel[1] <= LARGEST_WINDOW;
}

/* Returns the op that makes input 0 of `op`, if it has type `type` and the same block, and only `op` reads its outputs;
 * otherwise NULL. */
static const bgi_op *sole_source(const bg_graph *graph, const uint32_t *readers, const bgi_op *op,
                                 const bg_op_type *type)
{
    const bgi_value *value = bgi_graph_value(graph, op->inputs[0]);
    const bgi_op *source;

    if (value->kind != BGI_VALUE_RESULT || value->output != 0 || readers[op->inputs[0].id] != 1)
        return NULL;
    source = &graph->ops[value->op];
    if (source->type != type || source->block != op->block)
        return NULL;
    for (uint32_t i = 1; i < source->output_count; i++)
        if (source->outputs[i].id != 0 && readers[source->outputs[i].id] != 0)
            return NULL;
    return source;
}

/* Finds the chain that ends in `pool`; returns false if there is none. */
static bool match_pool(const bg_graph *graph, const uint32_t *readers, const bgi_op *pool, bgi_chain *out)
{
    if (pool->type != &bgi_op_max_pool2d || !pool_fits(pool))
        return false;
    for (uint32_t i = 1; i < pool->output_count; i++)
        if (readers[pool->outputs[i].id] != 0)
            return false;
    out->pool = pool;
    out->relu = NULL;
    out->conv = sole_source(graph, readers, pool, &bgi_op_conv2d);
    return out->conv != NULL && conv_fits(out->conv);
}

static bool match_relu(const bg_graph *graph, const uint32_t *readers, const bgi_op *relu, bgi_chain *out)
{
    const bgi_op *pool;

    if (relu->type != &bgi_op_unary || ((const bgi_unary_attributes *)relu->attributes)->function != BG_RELU)
        return false;
    pool = sole_source(graph, readers, relu, &bgi_op_max_pool2d);
    if (pool == NULL || !match_pool(graph, readers, pool, out))
        return false;
    out->relu = relu;
    return true;
}

/* Returns a mark for each op: 0 copy, 1 part of a chain that a later op ends, 2 the end of a chain. */
static uint8_t *mark_chains(const bg_graph *graph, const uint32_t *readers)
{
    uint8_t *marks = calloc(graph->op_count + 1, 1);
    bgi_chain chain;

    if (marks == NULL)
        return NULL;
    for (size_t o = 0; o < graph->op_count; o++) {
        const bool by_relu = match_relu(graph, readers, &graph->ops[o], &chain);
        if (!by_relu && !match_pool(graph, readers, &graph->ops[o], &chain))
            continue;
        marks[chain.conv - graph->ops] = 1;
        marks[chain.pool - graph->ops] = 2;
        if (chain.relu != NULL) {
            marks[chain.pool - graph->ops] = 1;
            marks[chain.relu - graph->ops] = 2;
        }
    }
    return marks;
}

/* Adds the fused op of a chain, with or without the relu, at the position of `place`. */
static bg_value add_fused(bgi_rebuild *rebuild, const bgi_chain *chain, const bgi_op *place, bool relu)
{
    const bgi_conv2d_attributes *conv = chain->conv->attributes;
    const bgi_pool2d_attributes *pool = chain->pool->attributes;
    bgi_conv2d_pool_attributes attributes;
    bg_value inputs[3];

    memset(&attributes, 0, sizeof attributes); /* also the padding bytes: see bg_op_type */
    for (int dim = 0; dim < 2; dim++) {
        attributes.padding[dim] = conv->options.padding[dim];
        attributes.pool[dim] = pool->options.kernel[dim];
    }
    attributes.relu = relu;
    for (uint32_t i = 0; i < 3; i++)
        inputs[i] = bgi_rebuild_value(rebuild, chain->conv->inputs[i]);
    bgi_rebuild_place(rebuild, place);
    return bg_graph_add(rebuild->to, &bgi_op_conv2d_pool, chain->conv->name, inputs, 3, &attributes, NULL);
}

/* Computes the requested values of a chain separately. The pool's first result is made by a fused op without the relu,
 * so that it has the bits that the relu would read. The plain ops make the other values. */
static void emit_apart(bgi_rebuild *rebuild, const bgi_chain *chain, const bool *is_apart)
{
    const bool wants_pool = chain->relu != NULL && is_apart[chain->pool->outputs[0].id];
    bool wants_where = false;

    for (uint32_t i = 1; i < chain->pool->output_count; i++)
        wants_where |= is_apart[chain->pool->outputs[i].id];
    if (wants_where || is_apart[chain->conv->outputs[0].id])
        bgi_rebuild_op(rebuild, chain->conv);
    if (wants_where)
        bgi_rebuild_op(rebuild, chain->pool);
    if (wants_pool)
        bgi_rebuild_map(rebuild, chain->pool->outputs[0], add_fused(rebuild, chain, chain->pool, false));
}

static void emit_chain(bgi_rebuild *rebuild, const bgi_chain *chain, const bool *is_apart)
{
    const bgi_op *last = chain->relu != NULL ? chain->relu : chain->pool;
    const bg_value conv_out = chain->conv->outputs[0], pool_out = chain->pool->outputs[0];
    bg_value fused, apart_conv, apart_pool;

    if (is_apart != NULL)
        emit_apart(rebuild, chain, is_apart);
    apart_conv = bgi_rebuild_value(rebuild, conv_out);
    apart_pool = bgi_rebuild_value(rebuild, pool_out);
    fused = add_fused(rebuild, chain, last, chain->relu != NULL);
    bgi_rebuild_map(rebuild, conv_out, fused);
    bgi_rebuild_map(rebuild, pool_out, fused);
    bgi_rebuild_map(rebuild, last->outputs[0], fused);
    if (!bg_value_is_null(apart_conv))
        bgi_rebuild_map(rebuild, conv_out, apart_conv);
    if (!bg_value_is_null(apart_pool) && chain->relu != NULL)
        bgi_rebuild_map(rebuild, pool_out, apart_pool);
}

bg_status bgi_fuse(const bg_graph *graph, const bool *is_apart, bg_value *loss, bg_graph **out, bg_error *error)
{
    uint32_t *readers = NULL;
    uint8_t *marks = NULL;
    bgi_rebuild rebuild = {0};
    bg_value new_loss;
    bg_status status;

    BGI_TRY_CLEANUP(bgi_rebuild_begin(&rebuild, graph, NULL, error));
    readers = count_readers(graph, is_apart, *loss);
    marks = readers != NULL ? mark_chains(graph, readers) : NULL;
    if (marks == NULL) {
        status = bgi_error_memory(error, "marks", graph->op_count);
        goto cleanup;
    }
    for (size_t o = 0; o < graph->op_count; o++) {
        bgi_chain chain;
        if (marks[o] == 0)
            bgi_rebuild_op(&rebuild, &graph->ops[o]);
        else if (marks[o] == 2 && (match_relu(graph, readers, &graph->ops[o], &chain) ||
                                   match_pool(graph, readers, &graph->ops[o], &chain)))
            emit_chain(&rebuild, &chain, is_apart);
    }
    new_loss = bg_value_is_null(*loss) ? *loss : bgi_rebuild_value(&rebuild, *loss);
    status = bgi_rebuild_finish(&rebuild, out, error);
    if (status == BG_OK)
        *loss = new_loss;
cleanup:
    free(readers);
    free(marks);
    bgi_rebuild_clear(&rebuild);
    return status;
}
