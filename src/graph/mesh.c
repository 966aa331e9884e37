/*
 * mesh.c: what a graph knows of tensor parallelism: the sizes of the mesh's tensor axes, and of which tensors its
 * variables are pieces. Knows no replicas: all of them run the same graph.
 */
#include "graph/graph.h"

#include "core/error.h"

void bg_graph_set_mesh(bg_graph *graph, const bg_mesh *mesh)
{
    const bg_mesh tensor = {1, mesh->tensor_1, mesh->tensor_2};

    if (graph->error.status != BG_OK || bg_mesh_validate(&tensor, &graph->error) != BG_OK)
        return;
    if (graph->value_count > 1 && (mesh->tensor_1 != graph->mesh.tensor_1 || mesh->tensor_2 != graph->mesh.tensor_2))
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "a mesh of %u x %u tensor-parallel replicas for a graph that is begun for %u x %u; say it before "
                      "anything is added",
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
                                   const bg_initialiser *initialiser)
{
    bg_shard kept = *shard;
    bg_value variable;
    bg_type piece;

    kept.whole.dtype = bgi_graph_kept_dtype(graph, role, shard->whole.dtype);
    if (graph->error.status != BG_OK)
        return (bg_value){0};
    if (bg_shard_piece(&graph->mesh, &kept, &piece, &graph->error) != BG_OK) {
        bg_error_context(&graph->error, graph->error.status, "variable `%s`", name != NULL ? name : "");
        return (bg_value){0};
    }
    variable = bg_graph_variable(graph, name, &piece, role, initialiser);
    if (!bg_type_equal(&piece, &kept.whole))
        bgi_graph_set_shard(graph, variable, &kept);
    return variable;
}

bg_value bg_graph_sharded_parameter(bg_graph *graph, const char *name, const bg_shard *shard,
                                    const bg_initialiser *initialiser)
{
    return bg_graph_sharded_variable(graph, name, shard, BG_ROLE_PARAMETER, initialiser);
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
