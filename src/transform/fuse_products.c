/*
 * fuse_products.c: fuses each matrix product with the op that follows it, so that the product's result stays in the
 * cache.
 *
 *     a, b -> matmul -> t;  t + bias -> z;  gelu(z) -> y       =>      a, b, bias -> fused_product -> y, z
 *     dy, w -> matmul -> t;  unary_backward(t, z, z) -> dz     =>      dy, w, z -> fused_product -> dz
 *
 * Needs: a complete graph, including gradients and repeated ops, and its stages. Does: an op becomes part of the
 * product whose result it reads if both are in one block and phase, the op's other operands exist before the product,
 * and no other op reads the result. That result is then never written. A pre-activation with other readers (usually the
 * backward pass) stays an output of the fused op, for forward ops whose activation is kept for another segment. Keeps:
 * the order of all other ops; results bit for bit, because the kernel does the float operations of the separate ops;
 * and the names of the fused ops, joined by +. No segment needs more memory: the values that disappear leave memory for
 * results that are now made earlier. If a pre-activation stays, the fused op's other result is in a slot, not in the
 * segment's transient memory.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "kernels/elementwise/attributes.h"
#include "kernels/linear/attributes.h"
#include "ops/ops.h"

typedef struct bgi_joiner {
    bg_graph *graph;
    const bgi_stages *stages;
    bg_value *roots;   /* by value */
    uint32_t *readers; /* by value: the number of reads by ops, and as outputs of the graph */
    bool *is_kept;     /* by root: an op of another phase or stage than the producer's reads the root */
    bool *is_absorbed; /* by op: the op has become part of a product */
} bgi_joiner;

/* The fused op that replaces a product and the op after it. */
typedef struct bgi_joint {
    bgi_fused_product_attributes attributes;
    bg_value other; /* one more input, or null */
} bgi_joint;

static void count_readers(bgi_joiner *j)
{
    const bg_graph *graph = j->graph;

    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        for (uint32_t i = 0; i < op->input_count; i++) {
            const bg_value root = j->roots[op->inputs[i].id];
            const bgi_value *value = bgi_graph_value(graph, root);
            const bgi_op *maker = value->kind == BGI_VALUE_RESULT ? &graph->ops[value->op] : op;
            j->readers[op->inputs[i].id]++;
            j->is_kept[root.id] |=
                maker->phase != op->phase || bgi_op_stage(j->stages, maker) != bgi_op_stage(j->stages, op);
        }
    }
    for (size_t i = 0; i < graph->output_count; i++)
        j->readers[graph->outputs[i].value.id]++;
}

/* Returns the product, of the same block and phase, that makes the first input of `next`; NULL if there is none, or if
 * the product is already fused with a function or a derivative. */
static bgi_op *find_product(const bgi_joiner *j, const bgi_op *next, bgi_fused_product_attributes *out)
{
    const bgi_value *value = bgi_graph_value(j->graph, next->inputs[0]);
    bgi_op *op = &j->graph->ops[value->op];

    if (value->kind != BGI_VALUE_RESULT || value->output != 0 || op->block != next->block || op->phase != next->phase)
        return NULL;
    memset(out, 0, sizeof *out);
    if (op->type == &bgi_op_linear) {
        out->product = BGI_PRODUCT_LINEAR;
    } else if (op->type == &bgi_op_linear_backward_input) {
        out->product = BGI_PRODUCT_LINEAR_BACKWARD_INPUT;
    } else if (op->type == &bgi_op_matmul) {
        out->product = BGI_PRODUCT_MATMUL;
        out->layout = *(const bgi_matmul_attributes *)op->attributes;
    } else if (op->type == &bgi_op_fused_product) {
        *out = *(const bgi_fused_product_attributes *)op->attributes;
        return out->follows == BGI_FOLLOWS_NOTHING ? op : NULL;
    } else {
        return NULL;
    }
    return op;
}

/* Describes sum = t + bias. Returns false if the sum cannot become part of the product. */
static bool match_bias(const bgi_joiner *j, const bgi_op *product, const bgi_op *add, bgi_joint *out)
{
    const bg_type sum = bg_graph_type(j->graph, add->outputs[0]), t = bg_graph_type(j->graph, add->inputs[0]);
    const bg_type bias = bg_graph_type(j->graph, add->inputs[1]), vector = bg_vector(t.dtype, t.dims[t.rank - 1]);

    out->other = add->inputs[1];
    return product->type == &bgi_op_matmul && ((const bgi_binary_attributes *)add->attributes)->function == BG_ADD &&
           bg_type_equal(&sum, &t) && bg_type_equal(&bias, &vector) && j->readers[add->inputs[0].id] == 1;
}

/* Describes the fusion of a function, y = function(sum), into the product that makes the sum. Returns false if the
 * function cannot become part of the product. */
static bool match_function(const bgi_joiner *j, const bgi_op *unary, bgi_joint *out)
{
    const bg_unary function = ((const bgi_unary_attributes *)unary->attributes)->function;

    out->attributes.follows = BGI_FOLLOWS_FUNCTION;
    out->attributes.function = (uint8_t)function;
    out->attributes.keeps_sum = j->readers[unary->inputs[0].id] > 1;
    if (out->attributes.keeps_sum && (unary->phase == BGI_PHASE_BACKWARD || unary->phase == BGI_PHASE_WEIGHTS ||
                                      !j->is_kept[j->roots[unary->outputs[0].id].id]))
        return false;
    return bgi_unary_fuses(function);
}

/* Describes the fusion of a derivative, dx = derivative(kept) t, into the product that makes t. Returns false if the
 * derivative cannot become part of the product. */
static bool match_derivative(const bgi_joiner *j, const bgi_op *product, const bgi_op *backward, bgi_joint *out)
{
    const bg_unary function = ((const bgi_unary_attributes *)backward->attributes)->function;

    out->attributes.follows = BGI_FOLLOWS_DERIVATIVE;
    out->attributes.function = (uint8_t)function;
    out->other = backward->inputs[1];
    return bgi_unary_fuses(function) && product->input_count == 2 && backward->inputs[1].id == backward->inputs[2].id &&
           j->readers[backward->inputs[0].id] == 1;
}

/* Returns whether op `first` can read `value` instead of the later op `next`: the value exists before `first`, and no
 * op between the two changes it. */
static bool is_there(const bgi_joiner *j, bg_value value, size_t first, size_t next)
{
    const bg_value root = j->roots[value.id];
    const bgi_value *made[] = {bgi_graph_value(j->graph, value), bgi_graph_value(j->graph, root)};

    for (int i = 0; i < 2; i++)
        if (made[i]->kind == BGI_VALUE_RESULT && made[i]->op >= first)
            return false;
    for (size_t o = first; o < next; o++)
        for (uint32_t i = 0; i < j->graph->ops[o].input_count; i++)
            if (bgi_op_type_writes(j->graph->ops[o].type, i) && j->roots[j->graph->ops[o].inputs[i].id].id == root.id)
                return false;
    return true;
}

/* Turns `op` into the op that `joint` describes, with the results of `next`. */
static bool join(bgi_joiner *j, bgi_op *op, const bgi_op *next, const bgi_joint *joint)
{
    bg_graph *graph = j->graph;
    const bg_value sum = op->outputs[0], y = next->outputs[0];
    const uint32_t at = (uint32_t)(op - graph->ops);
    bg_value *inputs = bgi_arena_allocate(&graph->arena, op->input_count + 1, sizeof *inputs);
    bg_value *outputs = bgi_arena_allocate(&graph->arena, bgi_op_fused_product.output_count, sizeof *outputs);
    const void *attributes = bgi_arena_copy(&graph->arena, &joint->attributes, sizeof joint->attributes);
    const char *name = bgi_arena_format(&graph->arena, "%s+%s", op->name, next->name);

    if (inputs == NULL || outputs == NULL || attributes == NULL || name == NULL)
        return false;
    memcpy(inputs, op->inputs, op->input_count * sizeof *inputs);
    if (!bg_value_is_null(joint->other))
        inputs[op->input_count++] = joint->other;
    outputs[0] = y;
    graph->values[y.id].op = at;
    op->output_count = 1;
    if (joint->attributes.keeps_sum) {
        outputs[op->output_count++] = sum;
        graph->values[sum.id].output = 1;
    } else {
        graph->values[sum.id].kind = BGI_VALUE_NONE;
    }
    op->type = &bgi_op_fused_product;
    op->name = name;
    op->inputs = inputs;
    op->outputs = outputs;
    op->attributes = attributes;
    return true;
}

static bool try_next(bgi_joiner *j, size_t o)
{
    const bgi_op *next = &j->graph->ops[o];
    bgi_joint joint = {.other = {0}};
    bgi_op *product;
    bool fits = false;

    if (next->type != &bgi_op_binary && next->type != &bgi_op_unary && next->type != &bgi_op_unary_backward)
        return true;
    product = find_product(j, next, &joint.attributes);
    if (product == NULL)
        return true;
    if (next->type == &bgi_op_binary)
        fits = match_bias(j, product, next, &joint);
    else if (next->type == &bgi_op_unary)
        fits = match_function(j, next, &joint);
    else
        fits = match_derivative(j, product, next, &joint);
    if (!fits || (!bg_value_is_null(joint.other) && !is_there(j, joint.other, (size_t)(product - j->graph->ops), o)))
        return true;
    j->is_absorbed[o] = true;
    return join(j, product, next, &joint);
}

static void drop_absorbed(const bgi_joiner *j)
{
    bg_graph *graph = j->graph;
    size_t kept = 0;

    for (size_t o = 0; o < graph->op_count; o++) {
        if (j->is_absorbed[o])
            continue;
        graph->ops[kept] = graph->ops[o];
        for (uint32_t i = 0; i < graph->ops[kept].output_count; i++)
            if (!bg_value_is_null(graph->ops[kept].outputs[i]))
                graph->values[graph->ops[kept].outputs[i].id].op = (uint32_t)kept;
        kept++;
    }
    graph->op_count = kept;
}

bg_status bgi_fuse_products(bg_graph *graph, const bgi_stages *stages, bg_error *error)
{
    bgi_arena scratch = {0};
    bgi_joiner j = {.graph = graph, .stages = stages};
    bg_status status = BG_OK;

    j.roots = bgi_arena_allocate(&scratch, graph->value_count, sizeof *j.roots);
    j.readers = bgi_arena_allocate(&scratch, graph->value_count, sizeof *j.readers);
    j.is_kept = bgi_arena_allocate(&scratch, graph->value_count, sizeof *j.is_kept);
    j.is_absorbed = bgi_arena_allocate(&scratch, graph->op_count, sizeof *j.is_absorbed);
    if (j.roots == NULL || j.readers == NULL || j.is_kept == NULL || j.is_absorbed == NULL ||
        !bgi_find_roots(graph, stages, j.roots)) {
        bgi_arena_clear(&scratch);
        return bgi_error_memory(error, "readers", graph->value_count * sizeof *j.readers);
    }
    count_readers(&j);
    for (size_t o = 0; status == BG_OK && o < graph->op_count; o++)
        if (!try_next(&j, o))
            status = bgi_error_memory(error, "an op", sizeof(bgi_op));
    drop_absorbed(&j);
    bgi_arena_clear(&scratch);
    return status == BG_OK ? bgi_graph_verify(graph, error) : status;
}
