/*
 * mesh.c: implements variables that are only a part of a tensor of the weights: pieces for tensor parallelism, and
 * sections of a whole tensor. The sizes of the mesh's tensor axes are set here too. All replicas run the same graph, so
 * nothing here depends on the replica.
 */
#include "graph/graph.h"

#include <string.h>

#include "core/error.h"
#include "core/section.h"

void bg_graph_set_mesh(bg_graph *graph, const bg_mesh *mesh)
{
    const bg_mesh tensor = mesh != NULL ? (bg_mesh){1, mesh->tensor_1, mesh->tensor_2} : (bg_mesh){0, 0, 0};

    if (mesh == NULL)
        bg_graph_fail(graph, BG_ERROR_INVALID, "the mesh is NULL");
    if (graph->error.status != BG_OK || bg_mesh_validate(&tensor, &graph->error) != BG_OK)
        return;
    if (graph->value_count > 1 && (mesh->tensor_1 != graph->mesh.tensor_1 || mesh->tensor_2 != graph->mesh.tensor_2))
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "the mesh has %u x %u tensor-parallel replicas, but the graph was begun for %u x %u; set the "
                      "mesh before anything is added",
                      mesh->tensor_1, mesh->tensor_2, graph->mesh.tensor_1, graph->mesh.tensor_2);
    else
        graph->mesh = tensor;
}

bg_mesh bg_graph_mesh(const bg_graph *graph)
{
    return graph->mesh;
}

void bgi_graph_set_shard(bg_graph *graph, bg_value variable, const bg_shard *shard)
{
    if (shard == NULL || bg_value_is_null(variable))
        return;
    graph->values[variable.id].shard = bgi_arena_copy(&graph->arena, shard, sizeof *shard);
    if (graph->values[variable.id].shard == NULL)
        bgi_error_memory(&graph->error, "a shard", sizeof *shard);
}

bg_value bg_graph_sharded_variable(bg_graph *graph, const char *name, const bg_shard *shard, bg_variable_role role,
                                   const bg_initializer *initializer)
{
    bg_shard kept;
    bg_value variable;
    bg_type piece;

    if (name == NULL || shard == NULL)
        bg_graph_fail(graph, BG_ERROR_INVALID, "sharded variable without a %s", name == NULL ? "name" : "shard");
    if (graph->error.status != BG_OK)
        return (bg_value){0};
    kept = *shard;
    kept.whole.dtype = bgi_graph_kept_dtype(graph, role, shard->whole.dtype);
    if (bg_shard_piece(&graph->mesh, &kept, &piece, &graph->error) != BG_OK) {
        bg_error_context(&graph->error, graph->error.status, "variable `%s%s`", graph->prefix, name);
        return (bg_value){0};
    }
    variable = bg_graph_variable(graph, name, &piece, role, initializer);
    if (!bg_type_equal(&piece, &kept.whole))
        bgi_graph_set_shard(graph, variable, &kept);
    return variable;
}

bg_value bg_graph_sharded_parameter(bg_graph *graph, const char *name, const bg_shard *shard,
                                    const bg_initializer *initializer)
{
    return bg_graph_sharded_variable(graph, name, shard, BG_ROLE_PARAMETER, initializer);
}

uint32_t bgi_graph_cut_axes(const bg_graph *graph, bg_value variable)
{
    const bgi_value *value = bgi_graph_value(graph, variable);
    uint32_t axes = 0;

    if (!bg_value_is_null(value->owner))
        value = bgi_graph_value(graph, value->owner);
    if (!bg_value_is_null(value->copy_of))
        value = bgi_graph_value(graph, value->copy_of);
    for (uint32_t i = 0; value->shard != NULL && i < value->shard->whole.rank; i++)
        axes |= (uint32_t)value->shard->dims[i].axis;
    return axes;
}

/* ---- sections ---- */

const bg_section *bgi_section_copy(bgi_arena *arena, const bg_section *section)
{
    bg_section kept = *section;

    kept.name = bgi_arena_string(arena, section->name);
    return kept.name != NULL ? bgi_arena_copy(arena, &kept, sizeof kept) : NULL;
}

void bgi_graph_set_section(bg_graph *graph, bg_value variable, const bg_section *section)
{
    if (section == NULL || bg_value_is_null(variable))
        return;
    graph->values[variable.id].section = bgi_section_copy(&graph->arena, section);
    if (graph->values[variable.id].section == NULL)
        bgi_error_memory(&graph->error, "a section", sizeof *section);
    graph->has_sections = true;
}

static bool is_same(const bg_initializer *a, const bg_initializer *b)
{
    return a->kind == b->kind && memcmp(&a->a, &b->a, sizeof a->a) == 0 && memcmp(&a->b, &b->b, sizeof a->b) == 0;
}

/* Checks a section against the graph's other sections of the whole. */
static bg_status check_section(const bg_graph *graph, const bg_section *section, const bg_initializer *initializer,
                               bg_error *error)
{
    if (!bg_value_is_null(bg_graph_find_variable(graph, section->name)))
        return bg_error_set(error, BG_ERROR_INVALID, "it is a section of `%s`, which is also a variable",
                            section->name);
    for (bg_value v = bgi_graph_find_section(graph, section->name, 0); !bg_value_is_null(v);
         v = bgi_graph_find_section(graph, section->name, v.id)) {
        const bgi_value *other = bgi_graph_value(graph, v);
        const bg_section *its = other->section;
        if (!bg_type_equal(&its->whole, &section->whole) || its->axis != section->axis ||
            !is_same(&other->initializer, initializer))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "it and `%s` are sections of `%s`, but not of the same type, dimension and initializer",
                                other->name, section->name);
        if (section->first < its->first + its->count && its->first < section->first + section->count)
            return bg_error_set(error, BG_ERROR_INVALID, "it and `%s` overlap as sections of `%s`", other->name,
                                section->name);
    }
    return BG_OK;
}

bg_value bg_graph_section_parameter(bg_graph *graph, const char *name, const bg_section *section,
                                    const bg_initializer *initializer)
{
    const bg_initializer zero = {.kind = BG_INITIALIZE_CONSTANT};
    bg_section kept;
    bg_value variable, other;
    bg_type type;

    if (name == NULL || section == NULL || section->name == NULL)
        bg_graph_fail(graph, BG_ERROR_INVALID, "section parameter without a %s",
                      name == NULL      ? "name"
                      : section == NULL ? "section"
                                        : "whole: section.name is NULL");
    if (graph->error.status != BG_OK)
        return (bg_value){0};
    if (initializer == NULL)
        initializer = &zero;
    kept = *section;
    if ((kept.name = bgi_graph_scoped(graph, section->name)) == NULL)
        return (bg_value){0};
    kept.whole.dtype = bgi_graph_kept_dtype(graph, BG_ROLE_PARAMETER, section->whole.dtype);
    if (bgi_section_validate(&kept, &graph->error) != BG_OK ||
        check_section(graph, &kept, initializer, &graph->error) != BG_OK) {
        bg_error_context(&graph->error, graph->error.status, "variable `%s%s`", graph->prefix, name);
        return (bg_value){0};
    }
    type = bgi_section_type(&kept);
    other = bgi_graph_find_section(graph, kept.name, 0);
    variable = bg_graph_parameter(graph, name, &type, initializer);
    if (bg_value_is_null(variable))
        return variable;
    if (!bg_value_is_null(other)) { /* the sections of a whole share one number */
        graph->values[variable.id].variable = bgi_graph_value(graph, other)->variable;
        graph->number_count--;
    }
    bgi_graph_set_section(graph, variable, &kept);
    return variable;
}
