/*
 * embedding_rows.c: keeps the gradient of a tied embedding in one tensor of the table's size.
 *
 *     embedding_backward(dy, ids) -> d      =>      embedding_slots(ids, slots!) -> uses
 *     accumulate(e!, d)                             embedding_rows(dy, uses, rows!)
 *
 *     add_n(e, h) -> gradient               =>      embedding_rows_add(h!, rows, slots)          once a step
 *
 * Needs: a parameter with several gradients, the first of which a single embedding makes. Does: keeps only the rows of
 * that gradient that ids select, when an update has fewer ids than the table has rows. The update adds them to the
 * second gradient in that gradient's block, where the parameter is updated, so that only rows cross between stages.
 * Keeps: results, bit for bit. A row is summed over a micro-batch, then over micro-batches, and added to the gradient
 * of the second block, as dense tensors are. Whether rows are kept depends on shapes, never on stages.
 *
 * Ids of data-parallel replicas select different rows, so their gradients are all dense and summed over replicas.
 * Gradients are also dense with canonical reductions, whose results must not depend on the number of replicas.
 */
#include "core/error.h"
#include "kernels/embedding/attributes.h"
#include "ops/ops.h"
#include "transform/training.h"

static bgi_op *find_embedding_backward(const bg_graph *graph, const bgi_parameter_gradient *g)
{
    const bgi_value *value = bgi_graph_value(graph, g->gradient);
    bgi_op *op = value->kind == BGI_VALUE_RESULT ? &graph->ops[value->op] : NULL;

    return op != NULL && op->type == &bgi_op_embedding_backward && op->block == g->block ? op : NULL;
}

/* Returns the number of ids in a step. */
static int64_t count_ids(const bgi_trainer *trainer, const bgi_op *op)
{
    const bg_type ids = bg_graph_type(trainer->graph, op->inputs[1]);

    return bg_type_element_count(&ids) * trainer->options->execution.gradient_accumulation;
}

static bool are_few(const bgi_trainer *trainer, const bgi_op *op, const bg_type *table)
{
    const bg_type slots = bgi_embedding_slots_type(table);
    const int64_t row_bytes = table->dims[1] * (int64_t)sizeof(float);

    return count_ids(trainer, op) * row_bytes + (int64_t)bg_type_size_bytes(&slots) < table->dims[0] * row_bytes;
}

bool bgi_gradient_is_kept_in_rows(const bgi_trainer *trainer, const bgi_parameter_gradient *gradients,
                                  const bg_type *kept)
{
    const bgi_op *op = find_embedding_backward(trainer->graph, &gradients[0]);

    return op != NULL && find_embedding_backward(trainer->graph, &gradients[1]) == NULL && trainer->term_count == 1 &&
           bg_value_is_null(trainer->averages[0].factors) && bg_value_is_null(trainer->loss_scale) &&
           kept->dtype == BG_FLOAT32 && are_few(trainer, op, kept);
}

/* Turns the op that makes the gradient into an op that numbers the gradient's rows, with the same inputs, block and
 * phase. This is possible because only the accumulation reads the gradient. */
static bg_status number_rows(bg_graph *graph, bgi_op *op, bg_value slots, bg_error *error)
{
    const bg_type ids = bg_graph_type(graph, op->inputs[1]);
    bgi_value *uses = &graph->values[op->outputs[0].id];
    const char *name = bgi_arena_format(&graph->arena, "%s.slots", op->name);

    if (name == NULL)
        return bgi_error_memory(error, "a name", 0);
    op->type = &bgi_op_embedding_slots;
    op->name = uses->name = name;
    op->inputs[0] = op->inputs[1];
    op->inputs[1] = slots;
    op->attributes = &((const bgi_embedding_backward_attributes *)op->attributes)->forward;
    uses->type = bgi_embedding_uses_type(&ids);
    return BG_OK;
}

bg_status bgi_accumulate_rows(bgi_trainer *trainer, const bgi_parameter_gradient *g, const bg_type *kept,
                              const char *suffix, bgi_accumulator *out, bg_error *error)
{
    bg_graph *graph = trainer->graph;
    const bgi_op *op = find_embedding_backward(graph, g);
    const bg_value dy = op->inputs[0];
    const bg_type rows = bg_matrix(BG_FLOAT32, count_ids(trainer, op), kept->dims[1]),
                  slots = bgi_embedding_slots_type(kept);
    const char *name = bg_graph_name(graph, g->parameter),
               *of_rows = bgi_arena_format(&graph->arena, "%s.rows", suffix),
               *of_slots = bgi_arena_format(&graph->arena, "%s.slots", suffix);

    if (of_rows == NULL || of_slots == NULL)
        return bgi_error_memory(error, "a name", 0);
    out->rows = bgi_add_training_variable(graph, name, of_rows, &rows, BG_ROLE_ACCUMULATOR, g->parameter);
    out->slots = bgi_add_training_variable(graph, name, of_slots, &slots, BG_ROLE_ACCUMULATOR, g->parameter);
    BGI_TRY(bg_graph_check(graph, error));
    BGI_TRY(number_rows(graph, find_embedding_backward(graph, g), out->slots, error));
    graph->current_block = g->block;
    bgi_embedding_rows(graph, NULL, dy, g->gradient, out->rows);
    return bg_graph_check(graph, error);
}
