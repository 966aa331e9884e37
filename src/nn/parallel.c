/*
 * parallel.c: builds layers that a mesh splits. Each layer computes the plain layer's op on its replica's pieces.
 * bg_identical_inputs precedes the op if an axis splits the op's result, and bg_identical_gradients follows it if an
 * axis splits the terms of its sums.
 */
#include "core/error.h"
#include "graph/graph.h"
#include "nn/layers.h"

#include <math.h>

enum { TABLE_MULTIPLE = 16 };

static uint32_t size_along(const bg_graph *graph, bg_mesh_axis axis)
{
    const bg_mesh mesh = bg_graph_mesh(graph);

    return bg_mesh_group_size(&mesh, (uint32_t)axis);
}

static bg_mesh_axis find_other(bg_mesh_axis axis)
{
    return axis == BG_MESH_TENSOR_1 ? BG_MESH_TENSOR_2 : BG_MESH_TENSOR_1;
}

/* ---- linear ---- */

void bg_parallel_linear_options_init(bg_parallel_linear_options *options, size_t struct_bytes, bg_mesh_axis in_axis)
{
    const bg_parallel_linear_options made = {
        .struct_bytes = struct_bytes, .in_axis = in_axis, .out_blocks = 1, .bias = true};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

static bool check_linear(bg_graph *graph, const char *name, bg_value x, int64_t out_features,
                         const bg_parallel_linear_options *options)
{
    const bg_type type = bg_graph_type(graph, x);
    char text[BG_TYPE_TEXT_BYTES];

    if (!bgi_layer_check(graph, "parallel linear", name, x))
        return false;
    if (options != NULL &&
        !bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_parallel_linear_options",
                                "bg_parallel_linear_defaults(in_axis)"))
        return false;
    if (options == NULL)
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "parallel linear layer `%s`: it has no options; bg_parallel_linear_defaults(in_axis) makes them",
                      name);
    else if (type.rank < 1 || !bg_dtype_is_float(type.dtype))
        bg_graph_fail(graph, BG_ERROR_SHAPE, "parallel linear layer `%s`: the input is %s; it must be float [..., in]",
                      name, bg_type_text(&type, text));
    else if (options->in_axis != BG_MESH_TENSOR_1 && options->in_axis != BG_MESH_TENSOR_2)
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "parallel linear layer `%s`: in_axis is %d; it must be BG_MESH_TENSOR_1 or BG_MESH_TENSOR_2",
                      name, (int)options->in_axis);
    else if (out_features < 1)
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "parallel linear layer `%s`: the number of output features is %lld; it must be at least 1", name,
                      (long long)out_features);
    return bg_graph_check(graph, NULL) == BG_OK;
}

bg_value bg_parallel_linear_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_features,
                                  const bg_parallel_linear_options *options)
{
    const bg_mesh_axis in_axis = options != NULL ? options->in_axis : BG_MESH_NONE, out_axis = find_other(in_axis);
    const bg_shard_dim in = {.axis = in_axis},
                       out = {.axis = out_axis, .blocks = options != NULL ? options->out_blocks : 0};
    const bg_type type = bg_graph_type(graph, x);
    bg_initializer uniform = {.kind = BG_INITIALIZE_UNIFORM};
    const bg_initializer zero = {.kind = BG_INITIALIZE_CONSTANT};
    bg_shard shard;
    bg_value weight, bias = {0};
    int64_t in_features;

    if (!check_linear(graph, name, x, out_features, options))
        return (bg_value){0};
    in_features = type.dims[type.rank - 1] * size_along(graph, in_axis);
    uniform.b = 1.0 / sqrt((double)in_features);
    uniform.a = -uniform.b;
    shard = options->in_out ? (bg_shard){bg_matrix(BG_FLOAT32, in_features, out_features), {in, out}}
                            : (bg_shard){bg_matrix(BG_FLOAT32, out_features, in_features), {out, in}};
    weight = bgi_layer_variable(graph, name, "weight", &shard, BG_ROLE_PARAMETER,
                                options->initializer != NULL ? options->initializer : &uniform);
    shard = (bg_shard){bg_vector(BG_FLOAT32, out_features), {out}};
    if (options->bias)
        bias = bgi_layer_variable(graph, name, "bias", &shard, BG_ROLE_PARAMETER,
                                  options->initializer != NULL ? &zero : &uniform);
    if (options->bias)
        bias = bgi_layer_cast(graph, bias, type.dtype); /* first, so that the fused product can add the bias */
    x = bg_identical_inputs(graph, NULL, x, (uint32_t)out_axis);
    x = bg_matmul(graph, NULL, x, bgi_layer_cast(graph, weight, type.dtype), false, !options->in_out);
    x = bg_identical_gradients(graph, NULL, x, (uint32_t)in_axis);
    return options->bias ? bg_add(graph, x, bias) : x;
}

/* ---- layer norm ---- */

bg_value bg_parallel_layer_norm_layer(bg_graph *graph, const char *name, bg_value x, double epsilon, bg_mesh_axis axis)
{
    const bg_type type = bg_graph_type(graph, x);
    const bg_initializer one = {.a = 1.0}, zero = {.a = 0.0};
    bg_value gamma, beta;
    bg_shard shard;

    if (!bgi_layer_check(graph, "parallel layer norm", name, x))
        return (bg_value){0};
    if (size_along(graph, axis) == 1 || type.rank < 1)
        return bg_layer_norm_layer(graph, name, x, epsilon);
    shard = (bg_shard){bg_vector(BG_FLOAT32, type.dims[type.rank - 1] * size_along(graph, axis)), {{.axis = axis}}};
    gamma = bgi_layer_variable(graph, name, "weight", &shard, BG_ROLE_PARAMETER, &one);
    beta = bgi_layer_variable(graph, name, "bias", &shard, BG_ROLE_PARAMETER, &zero);
    return bg_sharded_layer_norm(graph, name, x, bgi_layer_cast(graph, gamma, type.dtype),
                                 bgi_layer_cast(graph, beta, type.dtype), epsilon, axis);
}

/* ---- embedding and head ---- */

bg_value bg_parallel_table(bg_graph *graph, const char *name, int64_t rows, int64_t width,
                           const bg_initializer *initializer)
{
    const bg_shard shard = {
        .whole = bg_matrix(BG_FLOAT32, rows, width),
        .dims = {{.axis = BG_MESH_TENSOR_1, .multiple = size_along(graph, BG_MESH_TENSOR_1) > 1 ? TABLE_MULTIPLE : 0},
                 {.axis = BG_MESH_TENSOR_2}}};

    return bg_graph_sharded_parameter(graph, name, &shard, initializer);
}

bg_value bg_parallel_embedding(bg_graph *graph, const char *name, bg_value table, bg_value ids)
{
    return bg_identical_gradients(graph, NULL, bg_sharded_embedding(graph, name, table, ids, BG_MESH_TENSOR_1),
                                  BG_MESH_TENSOR_1);
}

bg_value bg_parallel_logits(bg_graph *graph, const char *name, bg_value x, bg_value table)
{
    x = bg_identical_inputs(graph, NULL, x, BG_MESH_TENSOR_1);
    x = bg_linear(graph, name, x, bgi_layer_cast(graph, table, bg_graph_type(graph, x).dtype), (bg_value){0});
    return bg_identical_gradients(graph, NULL, x, BG_MESH_TENSOR_2);
}
