/*
 * shared.c: handles parameters that several stages use.
 *
 *     stage 0: embed(w)   stage 3: head(w)         =>   stage 0: embed(w), update(w)
 *                                                       stage 3: head(w@3);  refresh(w@3, w) after the update
 *
 * Needs: a training graph with stages. Does: the stage whose update op writes the parameter keeps it. Each other stage
 * that reads it gets a copy variable, its reads are redirected, and a refresh is appended to the update phase. The
 * gradients already have an accumulator in each block. Keeps: every number, because a copy is bit-identical.
 *
 * A copy on the device whose remote store keeps the parameter needs neither a home nor a refresh, because it is loaded
 * from there. The next step begins with that load, so the update must come after all reads of the copy. The update
 * comes after these reads if the copy's stage contributes to the gradient, because the update waits for the gradient.
 */
#include "transform/transform.h"

#include "core/error.h"

#define NOWHERE UINT32_MAX

typedef struct bgi_sharing {
    bg_graph *graph;
    const bgi_stages *stages;
    const bg_options *options; /* or NULL */
    bool is_training;
    bgi_arena scratch;
    uint32_t *writer;   /* by variable: the only stage whose ops write it, or NOWHERE */
    bool *is_updated;   /* by variable: an update op writes it */
    uint32_t *newest;   /* by variable: value id of its newest copy; 0: none */
    uint32_t *previous; /* by copy, counted from first_copy: the previous copy of the same variable; 0 ends the list */
    uint32_t *stage_of; /* by copy: the stage that has the copy */
    uint32_t first_copy;
} bgi_sharing;

static bg_status find_writers(bgi_sharing *s, bg_error *error)
{
    const bg_graph *graph = s->graph;

    for (size_t v = 0; v < graph->value_count; v++)
        s->writer[v] = NOWHERE;
    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *op = &graph->ops[o];
        const uint32_t stage = bgi_op_stage(s->stages, op);
        for (uint32_t i = 0; i < op->input_count; i++) {
            const uint32_t id = op->inputs[i].id;
            if (!bgi_op_type_changes(op->type, i, s->is_training))
                continue;
            if (s->writer[id] != NOWHERE && s->writer[id] != stage)
                return bg_error_set(
                    error, BG_ERROR_INVALID,
                    "`%s` is changed in stage %u and in stage %u; the layers that share it must be in one "
                    "stage",
                    graph->values[id].name, s->writer[id], stage);
            s->writer[id] = stage;
            s->is_updated[id] |= op->phase == BGI_PHASE_UPDATE;
        }
    }
    return BG_OK;
}

/* Returns whether an op of the stage accumulates a gradient of the variable. */
static bool contributes(const bgi_sharing *s, uint32_t stage, bg_value variable)
{
    for (size_t o = 0; o < s->graph->op_count; o++) {
        const bgi_op *op = &s->graph->ops[o];
        if (op->phase == BGI_PHASE_UPDATE || bgi_op_stage(s->stages, op) != stage)
            continue;
        for (uint32_t i = 0; i < op->input_count; i++) {
            const bgi_value *value = bgi_graph_value(s->graph, op->inputs[i]);
            if (bgi_op_type_writes(op->type, i) && value->role == BG_ROLE_ACCUMULATOR && value->owner.id == variable.id)
                return true;
        }
    }
    return false;
}

static bool may_share_home(const bgi_sharing *s, uint32_t stage, bg_value variable)
{
    const bgi_value *value = bgi_graph_value(s->graph, variable);
    const uint32_t device = s->stages->stage_devices[stage];

    return s->options != NULL && value->role == BG_ROLE_PARAMETER && device != BG_DEVICE_NONE &&
           device == s->stages->stage_devices[s->writer[variable.id]] &&
           bgi_find_location(s->options, BG_LOCATION_WEIGHTS, value->name, bg_type_element_count(&value->type)).place ==
               BG_PLACE_REMOTE &&
           contributes(s, stage, variable);
}

/* Adds a copy of the variable for the stage in `block`, the block of the stage's first reader. A refresh is added too,
 * unless the copy is loaded from the original's store. */
static bg_status add_copy(bgi_sharing *s, uint32_t stage, bg_value variable, uint32_t block, bg_value *out,
                          bg_error *error)
{
    bg_graph *graph = s->graph;
    const bgi_value original = *bgi_graph_value(graph, variable);
    const char *name = bgi_arena_format(&graph->arena, "%s@%u", original.name, stage);
    bg_value operands[2] = {{0}, variable};

    if (name == NULL)
        return bgi_error_memory(error, "a name", 0);
    graph->current_block = block;
    graph->phase = BGI_PHASE_UPDATE;
    operands[0] = bg_graph_variable(graph, name, &original.type, original.role, &original.initializer);
    BGI_TRY(bg_graph_check(graph, error));
    graph->values[operands[0].id].copy_of = variable;
    graph->values[operands[0].id].shares_home = may_share_home(s, stage, variable);
    if (graph->values[operands[0].id].shares_home)
        return (*out = operands[0], BG_OK);
    bg_graph_add(graph, &bgi_op_refresh, NULL, operands, 2, NULL, NULL);
    BGI_TRY(bg_graph_check(graph, error));
    *out = operands[0];
    return BG_OK;
}

/* Finds the stage's copy of the variable, or adds it. */
static bg_status find_copy(bgi_sharing *s, uint32_t stage, bg_value variable, uint32_t block, bg_value *out,
                           bg_error *error)
{
    for (uint32_t copy = s->newest[variable.id]; copy != 0; copy = s->previous[copy - s->first_copy])
        if (s->stage_of[copy - s->first_copy] == stage) {
            *out = (bg_value){copy};
            return BG_OK;
        }
    BGI_TRY(add_copy(s, stage, variable, block, out, error));
    s->previous[out->id - s->first_copy] = s->newest[variable.id];
    s->stage_of[out->id - s->first_copy] = stage;
    s->newest[variable.id] = out->id;
    return BG_OK;
}

/* Replaces an operand of an op outside the update by the stage's copy, if it is a variable that another stage
 * writes. */
static bg_status redirect(bgi_sharing *s, size_t op_index, uint32_t input, bg_error *error)
{
    const bgi_op op = s->graph->ops[op_index]; /* the array moves when ops are added */
    const bg_value variable = op.inputs[input];
    const uint32_t stage = bgi_op_stage(s->stages, &op);
    bg_value copy = {0};

    if (variable.id >= s->first_copy || bgi_graph_value(s->graph, variable)->kind != BGI_VALUE_VARIABLE ||
        s->writer[variable.id] == NOWHERE || s->writer[variable.id] == stage)
        return BG_OK; /* each device may hold a variable that no op writes */
    if (!s->is_updated[variable.id])
        return bg_error_set(error, BG_ERROR_INVALID,
                            "`%s` is changed by stage %u in each micro-batch and read by stage %u; the layers that "
                            "share it must be in one stage",
                            bg_graph_name(s->graph, variable), s->writer[variable.id], stage);
    BGI_TRY(find_copy(s, stage, variable, op.block, &copy, error));
    op.inputs[input] = copy;
    return BG_OK;
}

/* Returns the number of operands that may need a copy, which is the largest possible number of copies. */
static size_t count_reads(const bg_graph *graph)
{
    size_t count = 0;

    for (size_t o = 0; o < graph->op_count; o++)
        for (uint32_t i = 0; graph->ops[o].phase != BGI_PHASE_UPDATE && i < graph->ops[o].input_count; i++)
            count += bgi_graph_value(graph, graph->ops[o].inputs[i])->kind == BGI_VALUE_VARIABLE;
    return count;
}

bg_status bgi_copy_shared_variables(bg_graph *graph, const bgi_stages *stages, const bg_options *options,
                                    bool is_training, bg_error *error)
{
    bgi_sharing s = {.graph = graph,
                     .stages = stages,
                     .options = options,
                     .is_training = is_training,
                     .first_copy = (uint32_t)graph->value_count};
    const size_t op_count = graph->op_count, most = count_reads(graph);
    bg_status status = BG_OK;

    s.writer = bgi_arena_allocate(&s.scratch, graph->value_count, sizeof *s.writer);
    s.is_updated = bgi_arena_allocate(&s.scratch, graph->value_count, sizeof *s.is_updated);
    s.newest = bgi_arena_allocate(&s.scratch, graph->value_count, sizeof *s.newest);
    s.previous = bgi_arena_allocate(&s.scratch, most, sizeof *s.previous);
    s.stage_of = bgi_arena_allocate(&s.scratch, most, sizeof *s.stage_of);
    if (s.writer == NULL || s.is_updated == NULL || s.newest == NULL || s.previous == NULL || s.stage_of == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "shared variables", graph->value_count * sizeof *s.writer));
    BGI_TRY_CLEANUP(find_writers(&s, error));
    for (size_t o = 0; o < op_count; o++)
        for (uint32_t i = 0; graph->ops[o].phase != BGI_PHASE_UPDATE && i < graph->ops[o].input_count; i++)
            BGI_TRY_CLEANUP(redirect(&s, o, i, error));
    status = bgi_graph_verify(graph, error);
cleanup:
    bgi_arena_clear(&s.scratch);
    return status;
}
