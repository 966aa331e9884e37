/*
 * save.c: writes a graph as an ONNX file. The ops that the outputs need are saved in order, each by the row of its
 * type. After an unsupported op the saver continues, so that the final error lists all such ops. The first pass leaves
 * the size of the batch open; when that is impossible, a second pass uses the graph's sizes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/section.h"
#include "core/text.h"
#include "onnx/save.h"

void bg_onnx_save_options_init(bg_onnx_save_options *options, size_t struct_bytes)
{
    const bg_onnx_save_options made = {.struct_bytes = struct_bytes, .opset = BGI_SAVE_NEWEST, .batch = "batch"};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* ---- the ops and values that are needed ---- */

static const bgi_output *find_output(const bg_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, name) == 0)
            return &graph->outputs[i];
    return NULL;
}

static uint32_t output_count(const bgi_saver *s)
{
    return s->options->outputs != NULL ? s->options->output_count : (uint32_t)s->graph->output_count;
}

static const bgi_output *output_at(const bgi_saver *s, uint32_t index)
{
    return s->options->outputs != NULL ? find_output(s->graph, s->options->outputs[index]) : &s->graph->outputs[index];
}

static bg_status check_options(const bg_graph *graph, const bg_onnx_save_options *options, bg_error *error)
{
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_onnx_save_options", "bg_onnx_save_defaults()",
                             error));
    if (options->opset < BGI_SAVE_OLDEST || options->opset > BGI_SAVE_NEWEST)
        return bg_error_set(error, BG_ERROR_INVALID, "options.opset is %" PRId64 " but must be %d to %d",
                            options->opset, BGI_SAVE_OLDEST, BGI_SAVE_NEWEST);
    if (options->batch != NULL && options->batch[0] == '\0')
        return bg_error_set(error, BG_ERROR_INVALID,
                            "options.batch is \"\" but must be a name, or NULL for fixed sizes");
    for (uint32_t i = 0; options->outputs != NULL && i < options->output_count; i++) {
        BGI_TRY(bgi_require(options->outputs[i], "options.outputs", "bg_onnx_save", error));
        if (find_output(graph, options->outputs[i]) == NULL)
            return bg_error_set(error, BG_ERROR_INVALID, "options.outputs: the graph has no output `%.200s`",
                                options->outputs[i]);
    }
    if (options->outputs != NULL ? options->output_count == 0 : graph->output_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the graph has no outputs: name them with bg_graph_output before it is written");
    return BG_OK;
}

static void find_needed(bgi_saver *s)
{
    const bg_graph *graph = s->graph;

    for (uint32_t i = 0; i < output_count(s); i++)
        s->values[output_at(s, i)->value.id].uses++;
    for (size_t o = graph->op_count; o-- > 0;) {
        const bgi_op *op = &graph->ops[o];

        for (uint32_t i = 0; i < op->output_count; i++)
            s->is_needed[o] = s->is_needed[o] || (op->outputs[i].id != 0 && s->values[op->outputs[i].id].uses > 0);
        for (uint32_t i = 0; s->is_needed[o] && i < op->input_count; i++)
            s->values[op->inputs[i].id].uses++;
    }
    for (size_t o = 0; o < graph->op_count; o++) {
        const bgi_op *absorbed = s->is_needed[o] ? bgi_save_absorbs(s, &graph->ops[o]) : NULL;

        if (absorbed != NULL)
            s->is_needed[absorbed - graph->ops] = false;
    }
}

/* ---- a pass over the ops ---- */

static bool take_name(bgi_saver *s, const char *name)
{
    return bgi_names_add(&s->taken, name) != BGI_NAMES_NONE;
}

/* Reserves an output's name before other values get names. */
static bg_status take_output(bgi_saver *s, const bgi_output *output, bg_error *error)
{
    const bgi_value *value = bgi_graph_value(s->graph, output->value);

    if (bgi_names_find(&s->taken, output->name) != BGI_NAMES_NONE) {
        if (value->kind != BGI_VALUE_RESULT && strcmp(value->name, output->name) == 0)
            return BG_OK;
        return bg_error_set(error, BG_ERROR_INVALID,
                            "output `%s` has the name of an input, a variable or another output", output->name);
    }
    if (!take_name(s, output->name))
        return bgi_error_memory(error, "the names of a model", 0);
    if (value->kind == BGI_VALUE_RESULT && s->output_name[output->value.id] == NULL)
        s->output_name[output->value.id] = output->name;
    return BG_OK;
}

/* Reserves the names that must not change before other names are made, and finds the samples of inputs. */
static bg_status begin_walk(bgi_saver *s, bg_error *error)
{
    const bg_graph *graph = s->graph;
    bool is_well = true;

    bgi_names_clear(&s->taken);
    s->node_count = s->variable_count = 0;
    for (size_t i = 0; i < graph->value_count; i++) {
        s->values[i].name = s->values[i].as_bool = s->values[i].cell = s->output_name[i] = NULL;
        s->values[i].batch = BGI_SAVE_NO_BATCH;
    }
    for (size_t i = 1; i < graph->value_count; i++) {
        const bgi_value *value = &graph->values[i];

        if (s->values[i].uses == 0 || (value->kind != BGI_VALUE_INPUT && value->kind != BGI_VALUE_VARIABLE))
            continue;
        is_well = is_well && take_name(s, value->name);
        if (value->kind == BGI_VALUE_VARIABLE)
            continue;
        s->values[i].name = value->name;
        if (s->batch > 0 && value->type.rank > 0 && value->type.dims[0] == s->batch)
            s->values[i].batch = 0;
    }
    for (uint32_t i = 0; i < output_count(s) && is_well; i++)
        BGI_TRY(take_output(s, output_at(s, i), error));
    return is_well ? BG_OK : bgi_error_memory(error, "the names of a model", 0);
}

static void save_op(bgi_saver *s, const bgi_op *op)
{
    s->op = op;
    s->row = bgi_save_find(op->type);
    s->block = op->block != BGI_BLOCK_NONE ? s->graph->blocks[op->block].name : "";
    s->label = op->name;
    s->is_refused = false;
    s->is_wide = s->row != NULL && s->row->bfloat_from > s->options->opset && op->input_count > 0 &&
                 bgi_save_type(s, 0).dtype == BG_BFLOAT16;
    if (s->row == NULL)
        bgi_save_refuse(s, "ONNX has no such op, and no other ops replace it");
    else if (s->row->save == NULL)
        bgi_save_refuse(s, "%s", s->row->reason);
    else
        s->row->save(s);
    for (uint32_t i = 0; !s->is_refused && !s->is_out_of_memory && i < op->output_count; i++)
        if (bgi_save_wants(s, i) && s->values[op->outputs[i].id].name == NULL &&
            s->values[op->outputs[i].id].as_bool == NULL && s->values[op->outputs[i].id].cell == NULL)
            bgi_save_refuse(s, "its output %u is for a backward pass, and ONNX does not have it", i);
}

/* Adds a node for each output that no node makes under the output's name: a second name of a value, or an input. */
static void save_outputs(bgi_saver *s)
{
    s->block = s->label = "";
    s->is_wide = s->is_refused = false;
    for (uint32_t i = 0; i < output_count(s); i++) {
        const bgi_output *output = output_at(s, i);
        const bgi_op again = {.name = "output", .inputs = (bg_value[]){output->value}, .input_count = 1};
        const char *name;

        s->op = &again;
        s->label = output->name;
        name = bgi_save_in(s, 0);
        if (name == NULL || strcmp(name, output->name) == 0)
            continue;
        if (bgi_save_1(s, "Identity", name) != NULL)
            s->nodes[s->node_count - 1]->output[0] = (char *)(uintptr_t)output->name;
    }
}

static bg_status add_problem(const bgi_saver *s, uint32_t *count, bgi_string *text, bg_error *error)
{
    bgi_string_add(text, "%s%s `%s`: %s", *count > 0 ? "; " : "", s->op->type->name, s->op->name, s->reason);
    (*count)++;
    return text->failed ? bgi_error_memory(error, "a message", text->length) : BG_OK;
}

static bg_status walk(bgi_saver *s, bg_error *error)
{
    bgi_string problems = {0};
    uint32_t count = 0;
    bg_status status = BG_OK;

    BGI_TRY(begin_walk(s, error));
    for (size_t o = 0; o < s->graph->op_count && status == BG_OK; o++) {
        if (!s->is_needed[o])
            continue;
        save_op(s, &s->graph->ops[o]);
        if (s->is_refused)
            status = add_problem(s, &count, &problems, error);
        if (s->is_out_of_memory)
            status = bgi_error_memory(error, "the nodes of a model", s->node_count * sizeof(BgiOnnx__Node));
    }
    if (status == BG_OK && count > 0)
        status = bg_error_set(error, BG_ERROR_UNSUPPORTED, "%" PRIu32 " op%s cannot be written as ONNX: %s", count,
                              count > 1 ? "s" : "", problems.data);
    bgi_string_clear(&problems);
    if (status == BG_OK) {
        save_outputs(s);
        if (s->is_out_of_memory)
            status = bgi_error_memory(error, "the nodes of a model", s->node_count * sizeof(BgiOnnx__Node));
    }
    return status;
}

/* Returns the first dimension of the inputs; if they differ, returns 0 and writes the reason to s->fixed. */
static int64_t find_batch(bgi_saver *s)
{
    int64_t batch = 0;

    for (size_t i = 1; i < s->graph->value_count; i++) {
        const bgi_value *value = &s->graph->values[i];

        if (value->kind != BGI_VALUE_INPUT || s->values[i].uses == 0 || value->type.rank == 0)
            continue;
        if (batch != 0 && value->type.dims[0] != batch) {
            snprintf(s->fixed, sizeof s->fixed,
                     "the first dimensions of inputs differ: `%.80s` has %" PRId64 ", others have %" PRId64,
                     value->name, value->type.dims[0], batch);
            return 0;
        }
        batch = value->type.dims[0];
    }
    return batch;
}

static bg_status walk_twice(bgi_saver *s, bg_error *error)
{
    s->batch = s->options->batch != NULL ? find_batch(s) : 0;
    BGI_TRY(walk(s, error));
    if (s->batch == 0 || s->fixed[0] == '\0')
        return BG_OK;
    s->batch = 0;
    return walk(s, error);
}

/* ---- weights ---- */

static const char *weight_name(const bgi_value *variable)
{
    return variable->section != NULL ? variable->section->name : variable->name;
}

/* Writes the variable's values as an initializer; *out_bytes is the memory that holds them. */
static bg_status make_initializer(bgi_saver *s, bg_weights *weights, bg_value variable, BgiOnnx__Tensor *out,
                                  void **out_bytes, bg_error *error)
{
    const bgi_value *value = bgi_graph_value(s->graph, variable);
    const bg_type *whole = value->section != NULL ? &value->section->whole : &value->type;
    const int32_t element = bgi_onnx_dtype_element(value->type.dtype);
    char has[BG_TYPE_TEXT_BYTES], wants[BG_TYPE_TEXT_BYTES];
    bg_type section;
    bg_weight weight;
    void *room = NULL;
    size_t size;
    bg_status status;

    if (value->shard != NULL && s->graph->mesh.tensor_1 * s->graph->mesh.tensor_2 > 1)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "`%s` is cut over a mesh: build the graph without a mesh to write it", value->name);
    BGI_TRY(bg_weights_find(weights, weight_name(value), &weight, error));
    if (weight.type.rank != whole->rank || memcmp(weight.type.dims, whole->dims, sizeof whole->dims) != 0 ||
        bg_dtype_is_float(weight.type.dtype) != bg_dtype_is_float(whole->dtype))
        return bg_error_set(error, BG_ERROR_SHAPE, "`%s` is %s but the graph has %s", weight.name,
                            bg_type_text(&weight.type, has), bg_type_text(whole, wants));
    section = value->type;
    section.dtype = weight.type.dtype;
    if (value->section != NULL) {
        bg_section cut = *value->section;

        cut.whole.dtype = weight.type.dtype;
        room = malloc(bg_type_size_bytes(&section) + 1);
        if (room == NULL)
            return bgi_error_memory(error, value->name, bg_type_size_bytes(&section));
        weight.data = bgi_section_cut(&cut, weight.data, room);
    }
    status = bgi_onnx_tensor_bytes(element, weight.type.dtype, weight.data, bg_type_element_count(&section), out_bytes,
                                   &size, error);
    free(room);
    if (status != BG_OK)
        return status;
    bgi_onnx__tensor__init(out);
    out->name = (char *)(uintptr_t)value->name;
    out->n_dims = value->type.rank;
    out->dims = (int64_t *)(uintptr_t)value->type.dims;
    out->has_data_type = 1;
    out->data_type = element;
    out->has_raw_data = 1;
    out->raw_data = (ProtobufCBinaryData){.len = size, .data = *out_bytes};
    return BG_OK;
}

/* ---- the file ---- */

static BgiOnnx__ValueInfo *make_port(bgi_saver *s, const char *name, const bg_type *type, int32_t batch)
{
    BgiOnnx__ValueInfo *info = bgi_arena_allocate(&s->arena, 1, sizeof *info);
    BgiOnnx__Type *made = bgi_arena_allocate(&s->arena, 1, sizeof *made);
    BgiOnnx__TensorType *tensor = bgi_arena_allocate(&s->arena, 1, sizeof *tensor);
    BgiOnnx__Shape *shape = bgi_arena_allocate(&s->arena, 1, sizeof *shape);
    BgiOnnx__Dimension *dims = bgi_arena_allocate(&s->arena, BG_MAX_RANK, sizeof *dims);
    BgiOnnx__Dimension **list = bgi_arena_allocate(&s->arena, BG_MAX_RANK, sizeof *list);

    if (info == NULL || made == NULL || tensor == NULL || shape == NULL || dims == NULL || list == NULL)
        return NULL;
    bgi_onnx__value_info__init(info);
    bgi_onnx__type__init(made);
    bgi_onnx__tensor_type__init(tensor);
    bgi_onnx__shape__init(shape);
    for (uint32_t i = 0; i < type->rank; i++) {
        bgi_onnx__dimension__init(&dims[i]);
        list[i] = &dims[i];
        if ((int32_t)i != batch) {
            dims[i].has_dim_value = 1;
            dims[i].dim_value = type->dims[i];
        } else if (type->dims[i] == s->batch) { /* a multiple of the batch has no name */
            dims[i].dim_param = (char *)(uintptr_t)s->options->batch;
        }
    }
    shape->n_dim = type->rank;
    shape->dim = list;
    tensor->has_elem_type = 1;
    tensor->elem_type = bgi_onnx_dtype_element(type->dtype);
    tensor->shape = shape;
    made->tensor_type = tensor;
    info->name = (char *)(uintptr_t)name;
    info->type = made;
    return info;
}

static bool make_ports(bgi_saver *s, BgiOnnx__Graph *graph)
{
    graph->input = bgi_arena_allocate(&s->arena, s->graph->value_count, sizeof *graph->input);
    graph->output = bgi_arena_allocate(&s->arena, output_count(s), sizeof *graph->output);
    if (graph->input == NULL || graph->output == NULL)
        return false;
    for (size_t i = 1; i < s->graph->value_count; i++) {
        const bgi_value *value = &s->graph->values[i];

        if (value->kind != BGI_VALUE_INPUT || s->values[i].uses == 0)
            continue;
        graph->input[graph->n_input] = make_port(s, value->name, &value->type, s->values[i].batch);
        if (graph->input[graph->n_input++] == NULL)
            return false;
    }
    for (uint32_t i = 0; i < output_count(s); i++) {
        const bg_value value = output_at(s, i)->value;
        const bg_type type = bg_graph_type(s->graph, value);

        graph->output[i] = make_port(s, output_at(s, i)->name, &type, s->values[value.id].batch);
        if (graph->output[i] == NULL)
            return false;
    }
    graph->n_output = output_count(s);
    return true;
}

static uint64_t bytes_of_weights(const bgi_saver *s)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->variable_count; i++)
        sum += bg_type_size_bytes(&bgi_graph_value(s->graph, s->variables[i])->type);
    return sum;
}

/* Fills the initializers, and writes the file. `bytes`: the memory that holds them, to be freed. */
static bg_status write_model(bgi_saver *s, bg_weights *weights, const char *path, BgiOnnx__Model *model, void **bytes,
                             bg_error *error)
{
    const bool is_outside = s->options->external_data || bytes_of_weights(s) > BGI_ONNX_INSIDE_LIMIT;
    BgiOnnx__Tensor *tensors = bgi_arena_allocate(&s->arena, s->variable_count, sizeof *tensors);
    bgi_onnx_outside outside = {0};
    bg_status status = BG_OK;

    model->graph->initializer = bgi_arena_allocate(&s->arena, s->variable_count, sizeof *model->graph->initializer);
    if (tensors == NULL || model->graph->initializer == NULL || !make_ports(s, model->graph))
        return bgi_error_memory(error, "a model", s->variable_count * sizeof *tensors);
    if (is_outside)
        status = bgi_onnx_outside_begin(&outside, path, &s->arena, error);
    for (size_t i = 0; i < s->variable_count && status == BG_OK; i++) {
        model->graph->initializer[i] = &tensors[i];
        status = make_initializer(s, weights, s->variables[i], &tensors[i], &bytes[i], error);
        if (status != BG_OK || !is_outside)
            continue;
        if (!bgi_onnx_outside_put(&outside, &tensors[i], &s->arena))
            status = bgi_error_memory(error, "a model", 0);
        free(bytes[i]);
        bytes[i] = NULL;
    }
    model->graph->n_initializer = s->variable_count;
    if (status == BG_OK && is_outside)
        status = bgi_onnx_outside_commit(&outside, error);
    else if (is_outside)
        bgi_onnx_outside_abandon(&outside, error);
    return status == BG_OK ? bgi_onnx_write(model, path, error) : status;
}

static bg_status write_file(bgi_saver *s, bg_weights *weights, const char *path, bg_error *error)
{
    /* The version of the file format that appeared with each opset, from 13 on. */
    static const int64_t versions[] = {7, 7, 8, 8, 8};
    BgiOnnx__OperatorSet opset, *opsets[1] = {&opset};
    BgiOnnx__Graph graph;
    BgiOnnx__Model model;
    void **bytes = calloc(s->variable_count + 1, sizeof *bytes);
    bg_status status;

    if (bytes == NULL)
        return bgi_error_memory(error, "a model", s->variable_count * sizeof *bytes);
    bgi_onnx__operator_set__init(&opset);
    bgi_onnx__graph__init(&graph);
    bgi_onnx__model__init(&model);
    opset.domain = (char *)(uintptr_t) "";
    opset.has_version = 1;
    opset.version = s->options->opset;
    graph.name = (char *)(uintptr_t)(s->options->graph_name != NULL ? s->options->graph_name : "brigade");
    graph.node = s->nodes;
    graph.n_node = s->node_count;
    model.has_ir_version = 1;
    model.ir_version = versions[s->options->opset - BGI_SAVE_OLDEST];
    model.producer_name = (char *)(uintptr_t) "brigade";
    model.producer_version = (char *)(uintptr_t)bg_version();
    model.graph = &graph;
    model.n_opset_import = 1;
    model.opset_import = opsets;
    status = write_model(s, weights, path, &model, bytes, error);
    for (size_t i = 0; i < s->variable_count; i++)
        free(bytes[i]);
    free(bytes);
    return status;
}

static void report(const bgi_saver *s, bg_onnx_saved *out)
{
    *out = (bg_onnx_saved){.node_count = (uint32_t)s->node_count,
                           .weight_count = (uint32_t)s->variable_count,
                           .weight_bytes = bytes_of_weights(s),
                           .has_batch = s->batch > 0};
    if (s->options->batch != NULL && s->batch == 0)
        snprintf(out->fixed, sizeof out->fixed, "%s", s->fixed[0] != '\0' ? s->fixed : "no input has a dimension");
}

bg_status bg_onnx_save(const bg_graph *graph, bg_weights *weights, const char *path,
                       const bg_onnx_save_options *options, bg_onnx_saved *out, bg_error *error)
{
    bg_error_clear(error);

    const bg_onnx_save_options defaults = bg_onnx_save_defaults();
    bgi_saver s = {.graph = graph, .options = options != NULL ? options : &defaults};
    bg_status status;

    BGI_TRY(bgi_require(graph, "graph", __func__, error));
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bg_graph_check(graph, error));
    BGI_TRY(check_options(graph, s.options, error));
    s.values = calloc(graph->value_count, sizeof *s.values);
    s.output_name = calloc(graph->value_count, sizeof *s.output_name);
    s.is_needed = calloc(graph->op_count + 1, sizeof *s.is_needed);
    if (s.values == NULL || s.output_name == NULL || s.is_needed == NULL) {
        status = bgi_error_memory(error, "the values of a model", graph->value_count * sizeof *s.values);
    } else {
        find_needed(&s);
        status = walk_twice(&s, error);
    }
    if (status == BG_OK)
        status = write_file(&s, weights, path, error);
    if (status == BG_OK && out != NULL)
        report(&s, out);
    free(s.values);
    free(s.output_name);
    free(s.is_needed);
    free(s.nodes);
    free(s.variables);
    bgi_names_clear(&s.taken);
    bgi_arena_clear(&s.arena);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "%s", path);
}
