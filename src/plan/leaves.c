/*
 * leaves.c: lists the variables of the finished plan with all their places, its constants and blocks, and the values
 * that a loop carries.
 */
#include "plan/compile.h"

#include <string.h>

#include "core/error.h"
#include "ops/shape.h"

/* ---- variables and constants of the plan ---- */

static void list_places(const bgi_compiler *c, size_t v, bgi_place *places, uint32_t *count)
{
    const bgi_placement *p = c->placement;

    for (uint32_t i = p->first_places[v]; i < p->first_places[v + 1] && !c->graph->values[v].shares_home; i++)
        places[(*count)++] = p->places[i];
}

/* Returns the number of places of a variable; a copy that shares its original's home has none. */
static uint32_t count_places(const bgi_compiler *c, size_t v)
{
    return c->graph->values[v].shares_home ? 0 : c->placement->first_places[v + 1] - c->placement->first_places[v];
}

/* Describes how the mesh cuts a variable. State is cut like its parameter, and so are accumulators, except accumulators
 * that hold rows. *out is NULL, without an error, when the mesh does not cut the variable. */
static bg_status copy_shard(bgi_compiler *c, const bgi_value *value, const bg_shard **out, bg_error *error)
{
    const bgi_value *cut = bg_value_is_null(value->owner) ? value : bgi_graph_value(c->graph, value->owner);
    bg_shard *copy;

    *out = NULL;
    if (cut->shard == NULL || (value->role == BG_ROLE_ACCUMULATOR && !bgi_type_same_dims(&value->type, &cut->type)))
        return BG_OK;
    copy = bgi_arena_copy(&c->plan->arena, cut->shard, sizeof *copy);
    if (copy == NULL)
        return bgi_error_memory(error, "a shard", sizeof *copy);
    copy->whole.dtype = value->type.dtype;
    *out = copy;
    return BG_OK;
}

/* Sets *out to the range of a whole weight that this variable holds. State holds the range of its parameter, in the
 * state of the whole weight. *out is NULL, without an error, when the variable is whole. */
static bg_status copy_section(bgi_compiler *c, const bgi_value *value, const bg_section **out, bg_error *error)
{
    const bool is_served = !bg_value_is_null(value->owner) && value->role == BG_ROLE_STATE;
    const bgi_value *of = is_served ? bgi_graph_value(c->graph, value->owner) : value;
    bg_section section;
    const char *suffix;

    *out = NULL;
    if (of->section == NULL)
        return BG_OK;
    section = *of->section;
    section.whole.dtype = value->type.dtype;
    suffix = is_served ? value->name + strlen(of->name) : "";
    section.name = bgi_arena_format(&c->plan->arena, "%s%s", of->section->name, suffix);
    *out = section.name != NULL ? bgi_arena_copy(&c->plan->arena, &section, sizeof section) : NULL;
    return *out != NULL ? BG_OK : bgi_error_memory(error, "a section", sizeof section);
}

/* Adds a variable to the plan, with the places of its copies. `next_copy`: by value, the next copy of the same
 * variable. */
static bg_status list_variable(bgi_compiler *c, const uint32_t *next_copy, const bool *is_written, uint32_t v,
                               bg_error *error)
{
    bg_plan *plan = c->plan;
    const bgi_value *value = &c->graph->values[v];
    bgi_plan_variable *variable = &plan->variables[plan->variable_count];
    bgi_place *places;
    uint32_t count = 0;

    if (value->kind != BGI_VALUE_VARIABLE || !bg_value_is_null(value->copy_of) || count_places(c, v) == 0)
        return BG_OK; /* no op reads the variable, or it is listed with its original */
    for (uint32_t copy = v; copy != 0; copy = next_copy[copy])
        count += count_places(c, copy);
    places = bgi_arena_allocate(&plan->arena, count, sizeof *places);
    variable->name = bgi_arena_string(&plan->arena, value->name);
    if (places == NULL || variable->name == NULL)
        return bgi_error_memory(error, "variables", 0);
    count = 0;
    for (uint32_t copy = v; copy != 0; copy = next_copy[copy])
        list_places(c, copy, places, &count);
    variable->type = value->type;
    BGI_TRY(copy_shard(c, value, &variable->shard, error));
    BGI_TRY(copy_section(c, value, &variable->section, error));
    variable->role = value->role;
    variable->initializer = value->initializer;
    variable->quantized = value->quantized;
    variable->number = value->variable;
    variable->piece_count = value->is_piece ? value->piece : c->residency->home_pieces[v];
    variable->places = places;
    variable->place_count = count;
    variable->is_written = is_written[v];
    if (value->role == BG_ROLE_HYPER)
        plan->hyper_variable = plan->variable_count;
    plan->variable_count++;
    return BG_OK;
}

static bg_status list_constants(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    const bgi_placement *p = c->placement;
    uint32_t count = 0;

    for (size_t v = 1; v < c->graph->value_count; v++)
        if (c->graph->values[v].kind == BGI_VALUE_CONSTANT)
            count += count_places(c, v);
    plan->constants = bgi_arena_allocate(&plan->arena, count, sizeof *plan->constants);
    if (plan->constants == NULL)
        return bgi_error_memory(error, "constants", 0);
    for (size_t v = 1; v < c->graph->value_count; v++)
        for (uint32_t i = p->first_places[v];
             c->graph->values[v].kind == BGI_VALUE_CONSTANT && i < p->first_places[v + 1]; i++) {
            bgi_plan_constant *constant = &plan->constants[plan->constant_count++];
            constant->place = p->places[i];
            constant->size_bytes = bg_type_size_bytes(&c->graph->values[v].type);
            constant->data = bgi_arena_copy(&plan->arena, c->graph->values[v].data, constant->size_bytes);
            if (constant->data == NULL)
                return bgi_error_memory(error, "constants", constant->size_bytes);
        }
    return BG_OK;
}

/* Marks, by value, the variables that an op writes. Returns NULL when memory is out. */
static bool *find_written(bgi_compiler *c)
{
    const bg_graph *graph = c->graph;
    bool *is_written = bgi_arena_allocate(&c->scratch, graph->value_count, sizeof *is_written);

    for (size_t o = 0; is_written != NULL && o < graph->op_count; o++)
        for (uint32_t i = 0; i < graph->ops[o].input_count; i++) {
            const uint32_t v = graph->ops[o].inputs[i].id, original = graph->values[v].copy_of.id;
            is_written[original != 0 ? original : v] |= bgi_op_type_changes(graph->ops[o].type, i, c->plan->training);
        }
    return is_written;
}

static bg_status list_variables(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    uint32_t *next_copy;
    bool *is_written;

    plan->hyper_variable = UINT32_MAX;
    plan->variables = bgi_arena_allocate(&plan->arena, c->graph->variable_count + 1, sizeof *plan->variables);
    if (plan->variables == NULL)
        return bgi_error_memory(error, "variables", 0);
    next_copy = bgi_arena_allocate(&c->scratch, c->graph->value_count, sizeof *next_copy);
    is_written = find_written(c);
    if (next_copy == NULL || is_written == NULL)
        return bgi_error_memory(error, "variables", 0);
    for (uint32_t v = (uint32_t)c->graph->value_count; v-- > 1;) {
        const uint32_t original = c->graph->values[v].copy_of.id;
        if (original != 0) {
            next_copy[v] = next_copy[original];
            next_copy[original] = v;
        }
    }
    for (uint32_t v = 1; v < c->graph->value_count; v++)
        BGI_TRY(list_variable(c, next_copy, is_written, v, error));
    return list_constants(c, error);
}

static bg_status list_blocks(bgi_compiler *c, bg_error *error)
{
    struct bgi_plan_block *blocks = bgi_arena_allocate(&c->plan->arena, c->graph->block_count, sizeof *blocks);
    uint32_t count = 0;

    if (blocks == NULL)
        return bgi_error_memory(error, "blocks", 0);
    for (size_t b = 0; b < c->graph->block_count; b++) {
        if (c->stages->block_stages[b] == UINT32_MAX || (b == 0 && c->graph->block_count > 1))
            continue;
        blocks[count].name = bgi_arena_string(&c->plan->arena, c->graph->blocks[b].name);
        blocks[count].stage = c->stages->block_stages[b];
        if (blocks[count++].name == NULL)
            return bgi_error_memory(error, "blocks", 0);
    }
    c->plan->blocks = blocks;
    c->plan->block_count = count;
    return BG_OK;
}

/* ---- loops ---- */

/* Lists the carried values of a loop. They are the variables with the highest numbers, in the same order. Also finds
 * the output that is the condition. */
static bg_status list_carried(bgi_compiler *c, bg_error *error)
{
    bg_plan *plan = c->plan;
    const uint32_t count = c->loop != NULL ? c->loop->carried_count : 0;
    const uint32_t first = c->graph->number_count - count;

    plan->carried = bgi_arena_allocate(&plan->arena, count, sizeof *plan->carried);
    if (plan->carried == NULL)
        return bgi_error_memory(error, "carried values", count * sizeof *plan->carried);
    for (uint32_t v = 0; v < plan->variable_count; v++)
        if (plan->variables[v].role == BG_ROLE_CARRIED)
            plan->carried[plan->variables[v].number - first] = v;
    plan->carried_count = count;
    for (uint32_t i = 0; plan->condition != NULL && i < plan->output_count; i++)
        if (strcmp(plan->outputs[i].name, BGI_CONDITION) == 0)
            plan->condition_output = i;
    return BG_OK;
}

bg_status bgi_list_variables(bgi_compiler *c, bg_error *error)
{
    BGI_TRY(list_variables(c, error));
    BGI_TRY(list_carried(c, error));
    return list_blocks(c, error);
}
