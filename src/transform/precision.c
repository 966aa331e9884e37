/*
 * precision.c: converts a float32 model to 16 bits, as automatic mixed precision does.
 *
 *     x -> linear(w) -> gelu -> mse(y)     =>     x -> cast -> linear(cast(w)) -> gelu -> cast -> mse(y)
 *          float32                                             bfloat16                   float32
 *
 * Needs: a forward graph. Does: products get 16-bit operands and give 16-bit results. Losses, logarithms and sums get
 * float32, and any other op gets the widest type of its operands. Parameters and constants, and values computed only
 * from them, get the type of the op's other operands. Parameters become 16-bit where the options say so. Keeps: float32
 * for inputs and outputs of the graph and for the loss; blocks, names, the order of all ops, float64 and integers.
 *
 * A value is cast once in each block that reads it in its other type, so that it crosses to a stage in the type of the
 * op that made it.
 */
#include "transform/transform.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/narrow.h"
#include "kernels/elementwise/attributes.h"
#include "kernels/reduce/attributes.h"
#include "ops/ops.h"
#include "transform/rebuild.h"

typedef enum op_class { FOLLOWS = 0, NARROW, WIDE, EXPLICIT } op_class;

typedef struct cast_value {
    bg_value value;
    uint32_t block;
} cast_value;

typedef struct narrowing {
    bgi_rebuild rebuild;
    bg_dtype narrow;
    bool *is_neutral;   /* by old value: gets the type of the op's other operands */
    bool *is_returned;  /* by old value: an output, or the loss */
    bg_value *returned; /* by old value: the value as float32 */
    cast_value *casts;  /* by old value: the value in its other type, and the block of the cast */
} narrowing;

static bg_dtype find_narrow_dtype(bg_precision precision)
{
    return precision == BG_PRECISION_BF16_MIXED || precision == BG_PRECISION_BF16_TRUE ? BG_BFLOAT16 : BG_FLOAT16;
}

/* ---- which type an op takes ---- */

static bool is_library_type(const bg_op_type *type)
{
    static const bg_op_type *const types[] = {
#define OP(name) &bgi_op_##name,
        BGI_OP_TYPES(OP)
#undef OP
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i] == type)
            return true;
    return false;
}

/* Returns whether the function can lose many digits of its operand, and so needs float32. */
static bool is_wide_function(bg_unary function)
{
    switch (function) {
    case BG_EXP:
    case BG_EXPM1:
    case BG_LOG:
    case BG_LOG1P:
    case BG_POWER:
    case BG_RECIPROCAL:
    case BG_RSQRT:
    case BG_TAN:
    case BG_ASIN:
    case BG_ACOS:
    case BG_SINH:
    case BG_COSH:
        return true;
    default:
        return false;
    }
}

static bool is_batch_norm(const bg_op_type *type)
{
    return type == &bgi_op_batch_norm || type == &bgi_op_sync_batch_norm;
}

static op_class classify(const bgi_op *op)
{
    static const bg_op_type *const narrow[] = {
        &bgi_op_linear,    &bgi_op_matmul,
        &bgi_op_conv2d,    &bgi_op_conv_transpose2d,
        &bgi_op_attention, &bgi_op_dot_product_attention,
        &bgi_op_lstm,      &bgi_op_gru,
        &bgi_op_rnn,
    };
    static const bg_op_type *const wide[] = {&bgi_op_log_softmax, &bgi_op_pointwise_loss, &bgi_op_ctc_loss,
                                             &bgi_op_cumulative_sum};

    for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++)
        if (op->type == narrow[i])
            return NARROW;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (op->type == wide[i])
            return WIDE;
    if (op->type == &bgi_op_cast)
        return EXPLICIT;
    if (op->type == &bgi_op_unary)
        return is_wide_function(((const bgi_unary_attributes *)op->attributes)->function) ? WIDE : FOLLOWS;
    if (op->type == &bgi_op_reduce)
        return ((const bgi_reduce_attributes *)op->attributes)->function == BG_REDUCE_SUM ? WIDE : FOLLOWS;
    /* An operand that an op writes keeps its type, and so do the op's other operands; a user's op keeps the types that
     * it was built for. */
    if (!is_library_type(op->type) || (op->type->written_inputs != 0 && !is_batch_norm(op->type)))
        return WIDE;
    return FOLLOWS;
}

/* Returns whether the operand keeps its type, whatever type the op's other operands get. */
static bool is_fixed(const bgi_op *op, uint32_t input)
{
    if (bgi_op_type_writes(op->type, input) || (op->type == &bgi_op_cross_entropy && input > 0))
        return true;
    if (is_batch_norm(op->type))
        return input > 2;
    return op->type == &bgi_op_dot_product_attention && input == 3; /* a bias may have numbers beyond float16's range */
}

/* ---- building ---- */

static bg_dtype find_dtype(const narrowing *n, bg_value old)
{
    return bg_graph_type(n->rebuild.to, bgi_rebuild_value(&n->rebuild, old)).dtype;
}

static bool is_of_pair(const narrowing *n, bg_dtype dtype)
{
    return dtype == BG_FLOAT32 || dtype == n->narrow;
}

/* Returns the type to which the operands of `op` are converted. `*out_neutral`: all operands are neutral, and so are
 * the results. */
static bg_dtype choose_dtype(const narrowing *n, const bgi_op *op, op_class class, bool *out_neutral)
{
    bool any_wide = false, any_narrow = false, all_neutral = true;

    for (uint32_t i = 0; i < op->input_count; i++) {
        const bg_dtype dtype = find_dtype(n, op->inputs[i]);

        if (!is_of_pair(n, dtype) || is_fixed(op, i))
            continue;
        any_narrow = any_narrow || dtype == n->narrow;
        any_wide = any_wide || (dtype == BG_FLOAT32 && !n->is_neutral[op->inputs[i].id]);
        all_neutral = all_neutral && n->is_neutral[op->inputs[i].id];
    }
    *out_neutral = all_neutral && class == FOLLOWS;
    if (class == NARROW)
        return n->narrow;
    return class == WIDE || any_wide || !any_narrow ? BG_FLOAT32 : n->narrow;
}

/* Returns an operand in the type that the op being built needs. */
static bg_value take_operand(narrowing *n, const bgi_op *op, bg_value old, bg_dtype dtype)
{
    const bg_value value = bgi_rebuild_value(&n->rebuild, old);
    cast_value *cast = &n->casts[old.id];

    if (!is_of_pair(n, find_dtype(n, old)) || find_dtype(n, old) == dtype)
        return value;
    if (bg_value_is_null(cast->value) || cast->block != op->block)
        *cast = (cast_value){.value = bg_cast(n->rebuild.to, NULL, value, dtype), .block = op->block};
    return cast->value;
}

static void emit(narrowing *n, const bgi_op *op)
{
    const op_class class = classify(op);
    bg_value inputs[64], outputs[64] = {{0}};
    bool is_neutral;
    const bg_dtype dtype = choose_dtype(n, op, class, &is_neutral);

    bgi_rebuild_place(&n->rebuild, op);
    for (uint32_t i = 0; i < op->input_count; i++)
        inputs[i] = class == EXPLICIT || is_fixed(op, i) ? bgi_rebuild_value(&n->rebuild, op->inputs[i])
                                                         : take_operand(n, op, op->inputs[i], dtype);
    if (class == EXPLICIT && find_dtype(n, op->inputs[0]) == ((const bgi_cast_attributes *)op->attributes)->dtype)
        outputs[0] = inputs[0];
    else
        bg_graph_add(n->rebuild.to, op->type, op->name, inputs, op->input_count, op->attributes, outputs);
    for (uint32_t i = 0; i < op->output_count; i++) {
        const bg_value old = op->outputs[i];

        bgi_rebuild_map(&n->rebuild, old, outputs[i]);
        n->is_neutral[old.id] = is_neutral;
        if (n->is_returned[old.id] && bgi_graph_value(n->rebuild.from, old)->type.dtype == BG_FLOAT32)
            n->returned[old.id] = take_operand(n, op, old, BG_FLOAT32);
    }
}

/* Marks the parameters of `graph`, which is a copy of the caller's, as stored in 16 bits. */
static bg_status narrow_parameters(bg_graph *graph, bg_dtype dtype, bg_error *error)
{
    for (uint32_t v = 1; v < graph->value_count; v++) {
        bgi_value *value = &graph->values[v];

        if (value->kind != BGI_VALUE_VARIABLE || value->role != BG_ROLE_PARAMETER || value->type.dtype != BG_FLOAT32)
            continue;
        value->type.dtype = dtype;
        if (value->shard != NULL) {
            bg_shard shard = *value->shard;

            shard.whole.dtype = dtype;
            bgi_graph_set_shard(graph, (bg_value){v}, &shard);
        }
        if (value->section != NULL) {
            bg_section section = *value->section;

            section.whole.dtype = dtype;
            bgi_graph_set_section(graph, (bg_value){v}, &section);
        }
    }
    return bg_graph_check(graph, error);
}

static bg_status begin(narrowing *n, const bg_graph *from, bg_value loss, bg_error *error)
{
    const size_t count = from->value_count;

    BGI_TRY(bgi_rebuild_begin(&n->rebuild, from, NULL, error));
    n->is_neutral = calloc(count, sizeof *n->is_neutral);
    n->is_returned = calloc(count, sizeof *n->is_returned);
    n->returned = calloc(count, sizeof *n->returned);
    n->casts = calloc(count, sizeof *n->casts);
    if (n->is_neutral == NULL || n->is_returned == NULL || n->returned == NULL || n->casts == NULL)
        return bgi_error_memory(error, "the types of values", count * sizeof *n->casts);
    for (size_t v = 1; v < count; v++)
        n->is_neutral[v] = from->values[v].kind == BGI_VALUE_CONSTANT ||
                           (from->values[v].kind == BGI_VALUE_VARIABLE && from->values[v].role != BG_ROLE_CARRIED);
    for (size_t i = 0; i < from->output_count; i++)
        n->is_returned[from->outputs[i].value.id] = true;
    n->is_returned[loss.id] = true;
    return BG_OK;
}

static bg_status rebuild(narrowing *n, const bg_graph *from, bg_value *loss, bg_graph **out, bg_error *error)
{
    bg_value new_loss;

    BGI_TRY(begin(n, from, *loss, error));
    for (size_t o = 0; o < from->op_count; o++)
        emit(n, &from->ops[o]);
    for (size_t v = 1; v < from->value_count; v++)
        if (!bg_value_is_null(n->returned[v]))
            n->rebuild.map[v] = n->returned[v];
    new_loss = bgi_rebuild_value(&n->rebuild, *loss);
    BGI_TRY(bgi_rebuild_finish(&n->rebuild, out, error));
    *loss = new_loss;
    return BG_OK;
}

bg_status bgi_narrow_graph(const bg_graph *graph, bg_precision precision, bg_value *loss, bg_graph **out,
                           bg_error *error)
{
    const bool keeps_narrow = precision == BG_PRECISION_BF16_TRUE || precision == BG_PRECISION_16_TRUE;
    narrowing n = {.narrow = find_narrow_dtype(precision)};
    bg_graph *own = NULL;
    bg_status status = BG_OK;

    BGI_TRY(bg_graph_check(graph, error));
    if (keeps_narrow) {
        BGI_TRY(bgi_graph_clone(graph, &own, error));
        status = narrow_parameters(own, n.narrow, error);
    }
    if (status == BG_OK)
        status = rebuild(&n, own != NULL ? own : graph, loss, out, error);
    bgi_rebuild_clear(&n.rebuild);
    free(n.is_neutral);
    free(n.is_returned);
    free(n.returned);
    free(n.casts);
    bg_graph_destroy(own);
    return status;
}
