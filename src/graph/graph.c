/*
 * graph.c: builds graphs. Errors are sticky: the first error stays in the graph, and later calls return the null value.
 * The builder uses op types only as data.
 */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/initializer.h"
#include "core/narrow.h"

enum { MAXIMUM_OPERANDS = 64, NAME_BYTES = 256 };

bg_status bg_graph_create(bg_graph **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    return bg_graph_create_in(NULL, out, error);
}

bg_status bg_graph_create_in(const bg_allocator *allocator, bg_graph **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_allocator_check(allocator, error));

    bg_graph *graph = calloc(1, sizeof *graph);
    void *values = NULL, *blocks = NULL;

    if (graph == NULL || !bgi_array_reserve(&values, &graph->value_capacity, 64, sizeof *graph->values) ||
        !bgi_array_reserve(&blocks, &graph->block_capacity, 8, sizeof *graph->blocks)) {
        free(values);
        free(graph);
        return bgi_error_memory(error, "a graph", sizeof *graph);
    }
    if (allocator != NULL)
        graph->arena.allocator = *allocator;
    graph->values = values;
    graph->blocks = blocks;
    graph->values[0] = (bgi_value){.kind = BGI_VALUE_NONE, .name = ""};
    graph->value_count = 1;
    graph->blocks[0] = (bgi_block){.name = "", .device = BG_DEVICE_NONE};
    graph->block_count = 1;
    graph->mesh = (bg_mesh){1, 1, 1};
    *out = graph;
    return BG_OK;
}

void bg_graph_destroy(bg_graph *graph)
{
    if (graph == NULL)
        return;
    free(graph->values);
    free(graph->ops);
    free(graph->blocks);
    free(graph->outputs);
    free(graph->variable_table);
    bgi_arena_clear(&graph->arena);
    free(graph);
}

static bool has_failed(const bg_graph *graph)
{
    return graph->error.status != BG_OK;
}

void bg_graph_fail(bg_graph *graph, bg_status status, const char *format, ...)
{
    char message[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    bg_error_set(&graph->error, status, "%s", message);
}

static const char *automatic_name(const bg_graph *graph, const char *type_name, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s_%zu", type_name, graph->op_count);
    return text;
}

void bgi_graph_fail_op(bg_graph *graph, const char *type_name, const char *name, bg_status status, const char *format,
                       ...)
{
    char message[1024], automatic[NAME_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (name == NULL)
        name = automatic_name(graph, type_name, automatic, sizeof automatic);
    bg_error_set(&graph->error, status, "%s `%s%s`: %s", type_name, graph->prefix, name, message);
}

bg_status bg_graph_check(const bg_graph *graph, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(graph, "graph", __func__, error));
    if (!has_failed(graph))
        return BG_OK;
    return bg_error_set(error, graph->error.status, "%s", graph->error.message);
}

static bool fail_memory(bg_graph *graph, const char *what)
{
    bgi_error_memory(&graph->error, what, 0);
    return false;
}

const char *bgi_graph_scoped(bg_graph *graph, const char *name)
{
    const char *whole;

    if (name == NULL || name[0] == '\0' || graph->prefix_count == 0)
        return name;
    whole = bgi_arena_format(&graph->arena, "%s%s", graph->prefix, name);
    if (whole == NULL)
        bgi_error_memory(&graph->error, "a name", 0);
    return whole;
}

/* ---- variables by name ---- */

static uint32_t hash_name(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

/* Returns the table's slot of the variable with this name, or the free slot for it. The table always has free slots. */
static uint32_t *find_slot(const bg_graph *graph, const char *name)
{
    size_t slot = hash_name(name) & (graph->variable_table_size - 1);

    while (graph->variable_table[slot] != 0 && strcmp(graph->values[graph->variable_table[slot]].name, name) != 0)
        slot = (slot + 1) & (graph->variable_table_size - 1);
    return &graph->variable_table[slot];
}

/* Ensures that the table has a slot for one more variable. */
static bool reserve_variable(bg_graph *graph)
{
    uint32_t *old = graph->variable_table;
    const size_t old_size = graph->variable_table_size;
    uint32_t *table;

    if (2 * ((size_t)graph->variable_count + 1) <= old_size)
        return true;
    table = calloc(old_size == 0 ? 64 : 2 * old_size, sizeof *table);
    if (table == NULL)
        return fail_memory(graph, "the names of variables");
    graph->variable_table = table;
    graph->variable_table_size = old_size == 0 ? 64 : 2 * old_size;
    for (size_t i = 0; i < old_size; i++)
        if (old[i] != 0)
            *find_slot(graph, graph->values[old[i]].name) = old[i];
    free(old);
    return true;
}

/* ---- values ---- */

static bool is_value_of(const bg_graph *graph, bg_value value)
{
    return value.id < graph->value_count;
}

/* Appends a value; returns the null value after an error. */
static bg_value add_value(bg_graph *graph, const bgi_value *value)
{
    const bg_value id = {(uint32_t)graph->value_count};

    if (!bgi_array_reserve((void **)&graph->values, &graph->value_capacity, graph->value_count + 1,
                           sizeof *graph->values)) {
        fail_memory(graph, "a graph value");
        return (bg_value){0};
    }
    graph->values[graph->value_count++] = *value;
    return id;
}

/* Adds a value that no op makes: checks the type and copies the name. */
static bg_value add_leaf(bg_graph *graph, const char *what, const char *name, const bg_type *type, bgi_value *value)
{
    if (has_failed(graph))
        return (bg_value){0};
    if (name == NULL || name[0] == '\0' || type == NULL) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "%s without a %s; give it a name and a type", what,
                      type == NULL ? "type" : "name");
        return (bg_value){0};
    }
    if (bg_type_validate(type, &graph->error) != BG_OK) {
        bg_error_context(&graph->error, graph->error.status, "%s `%s`", what, name);
        return (bg_value){0};
    }
    value->type = *type;
    value->name = bgi_arena_string(&graph->arena, name);
    if (value->name == NULL) {
        fail_memory(graph, "a name");
        return (bg_value){0};
    }
    return add_value(graph, value);
}

bg_value bg_graph_input(bg_graph *graph, const char *name, const bg_type *type)
{
    bgi_value value = {.kind = BGI_VALUE_INPUT};

    for (size_t i = 1; i < graph->value_count && name != NULL && !has_failed(graph); i++)
        if (graph->values[i].kind == BGI_VALUE_INPUT && strcmp(graph->values[i].name, name) == 0)
            bg_graph_fail(graph, BG_ERROR_INVALID, "input `%s` already exists; names of inputs must be unique", name);
    return add_leaf(graph, "input", name, type, &value);
}

bg_value bg_graph_constant(bg_graph *graph, const char *name, const bg_type *type, const void *data)
{
    bgi_value value = {.kind = BGI_VALUE_CONSTANT};
    bg_error ignored = {0};

    name = bgi_graph_scoped(graph, name);
    if (!has_failed(graph) && data == NULL && name != NULL && type != NULL)
        bg_graph_fail(graph, BG_ERROR_INVALID, "constant `%s` has no data", name);
    if (!has_failed(graph) && data != NULL && type != NULL && bg_type_validate(type, &ignored) == BG_OK) {
        value.data = bgi_arena_copy(&graph->arena, data, bg_type_size_bytes(type));
        if (value.data == NULL)
            fail_memory(graph, "a constant");
    }
    return add_leaf(graph, "constant", name, type, &value);
}

bg_value bgi_graph_find_section(const bg_graph *graph, const char *whole, uint32_t after)
{
    for (uint32_t v = after + 1; graph->has_sections && v < graph->value_count; v++)
        if (graph->values[v].section != NULL && strcmp(graph->values[v].section->name, whole) == 0)
            return (bg_value){v};
    return (bg_value){0};
}

bool bgi_graph_has_whole(const bg_graph *graph, const char *name)
{
    return !bg_value_is_null(bgi_graph_find_section(graph, name, 0));
}

bg_value bg_graph_variable(bg_graph *graph, const char *name, const bg_type *type, bg_variable_role role,
                           const bg_initializer *initializer)
{
    bgi_value value = {.kind = BGI_VALUE_VARIABLE, .role = role, .variable = graph->number_count};
    bg_type kept = {0};
    bg_value added;

    name = bgi_graph_scoped(graph, name);
    if (name == NULL || type == NULL)
        return add_leaf(graph, "variable", name, type, &value);
    kept = *type;
    if (!has_failed(graph) && (unsigned)role > BG_ROLE_TRAINING)
        bg_graph_fail(graph, BG_ERROR_INVALID, "variable `%s`: role %d is not one of bg_variable_role", name,
                      (int)role);
    kept.dtype = bgi_graph_kept_dtype(graph, role, type->dtype);
    if (initializer != NULL)
        value.initializer = *initializer;
    if (!has_failed(graph))
        bgi_initializer_check_rank(&value.initializer, type->rank, name, &graph->error);
    if (!has_failed(graph) && !bg_value_is_null(bg_graph_find_variable(graph, name)))
        bg_graph_fail(graph, BG_ERROR_INVALID, "variable `%s` already exists; names of variables must be unique", name);
    if (!has_failed(graph) && bgi_graph_has_whole(graph, name))
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "variable `%s`: sections of a tensor with this name already exist; use another name", name);
    if (has_failed(graph) || !reserve_variable(graph))
        return (bg_value){0};
    added = add_leaf(graph, "variable", name, &kept, &value);
    if (!bg_value_is_null(added)) {
        graph->variable_count++;
        graph->number_count++;
        *find_slot(graph, graph->values[added.id].name) = added.id;
    }
    return added;
}

/* Enlarges an existing buffer if necessary. Types of ops do not depend on the number of entries. */
static bg_value grow_buffer(bg_graph *graph, bg_value buffer, const bg_type *type)
{
    bgi_value *value = &graph->values[buffer.id];
    char have[BG_TYPE_TEXT_BYTES], wanted[BG_TYPE_TEXT_BYTES];
    bg_type same = value->type;

    if (same.rank > 0)
        same.dims[0] = type->dims[0];
    if (!value->is_remote || !bg_type_equal(&same, type)) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "variable `%s` is %s, not a remote buffer that could grow to %s",
                      value->name, bg_type_text(&value->type, have), bg_type_text(type, wanted));
        return (bg_value){0};
    }
    if (type->dims[0] > value->type.dims[0])
        value->type.dims[0] = type->dims[0];
    return buffer;
}

bg_value bg_graph_remote_buffer(bg_graph *graph, const char *name, const bg_type *entry, int64_t entries)
{
    const bg_initializer zero = {.kind = BG_INITIALIZE_CONSTANT};
    bgi_value none = {.kind = BGI_VALUE_VARIABLE};
    bg_type type = {.dims = {entries}};
    bg_value buffer;

    if (has_failed(graph))
        return (bg_value){0};
    if (name == NULL || entry == NULL)
        return add_leaf(graph, "remote buffer", name, entry, &none);
    type.dtype = entry->dtype;
    type.rank = entry->rank + 1;
    if (entry->rank >= BG_MAX_RANK || entries < 1) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "remote buffer `%s` has %lld entries of rank %u; it must have at least one entry, with a rank of "
                      "at most %d",
                      name, (long long)entries, entry->rank, BG_MAX_RANK - 1);
        return (bg_value){0};
    }
    for (uint32_t i = 0; i < entry->rank; i++)
        type.dims[i + 1] = entry->dims[i];
    buffer = bg_graph_find_variable(graph, bgi_graph_scoped(graph, name));
    if (!bg_value_is_null(buffer))
        return grow_buffer(graph, buffer, &type);
    buffer = bg_graph_variable(graph, name, &type, BG_ROLE_BUFFER, &zero);
    if (!bg_value_is_null(buffer))
        graph->values[buffer.id].is_remote = true;
    return buffer;
}

void bg_graph_set_parameter_dtype(bg_graph *graph, bg_dtype dtype)
{
    if (bgi_dtype_is_single(dtype))
        graph->parameter_dtype = dtype;
    else
        bg_graph_fail(graph, BG_ERROR_INVALID, "the parameter type is %s; it must be float32, bfloat16 or float16",
                      bg_dtype_name(dtype));
}

bg_value bg_graph_parameter(bg_graph *graph, const char *name, const bg_type *type, const bg_initializer *initializer)
{
    return bg_graph_variable(graph, name, type, BG_ROLE_PARAMETER, initializer);
}

/* ---- ops ---- */

bool bgi_op_type_writes(const bg_op_type *type, uint32_t input)
{
    return input < 32 && (type->written_inputs >> input & 1u) != 0;
}

bool bgi_op_type_changes(const bg_op_type *type, uint32_t input, bool is_training)
{
    return bgi_op_type_writes(type, input) && (is_training || (type->training_writes >> input & 1u) == 0);
}

bool bgi_value_is_writable(const bg_graph *graph, bg_value value, bgi_op_phase phase)
{
    const bgi_value_kind kind = graph->values[value.id].kind;

    return kind == BGI_VALUE_VARIABLE || (kind == BGI_VALUE_RESULT && phase == BGI_PHASE_UPDATE);
}

/* Returns a description of the first missing or invalid field of an op type; NULL if the type is valid. */
static const char *find_fault(const bg_op_type *op_type)
{
    if (op_type->struct_bytes != 0 && op_type->struct_bytes != sizeof *op_type)
        return "has another size (`struct_bytes`) than in this release; compile the program for the library that it "
               "runs with";
    if (op_type->infer == NULL)
        return "has no shape rule; set `infer`";
    if (op_type->kernel == NULL && !op_type->is_collective)
        return "has no kernel; set `kernel`";
    if (op_type->minimum_inputs > op_type->maximum_inputs)
        return "accepts no number of operands; `minimum_inputs` must be at most `maximum_inputs`";
    if (op_type->alias_input != BG_NO_OPERAND && op_type->output_count == 0)
        return "has an alias of an operand but no output; start from BG_OP_TYPE_DEFAULTS, or set `output_count`";
    /* A type that did not start from the defaults has zeros in its operand fields, so all of them name operand 0. */
    if (op_type->alias_input != BG_NO_OPERAND && op_type->reuse_input != BG_NO_OPERAND)
        return "makes output 0 an alias of an operand (`alias_input`) and writes it over one (`reuse_input`); start "
               "from BG_OP_TYPE_DEFAULTS, which sets both to BG_NO_OPERAND";
    if (op_type->alias_input != BG_NO_OPERAND && op_type->alias_input >= op_type->maximum_inputs)
        return "makes output 0 an alias of an operand that it does not have (`alias_input`)";
    if (op_type->reuse_input != BG_NO_OPERAND && op_type->reuse_input >= op_type->maximum_inputs)
        return "writes output 0 over an operand that it does not have (`reuse_input`)";
    if (op_type->weight_output != BG_NO_OPERAND &&
        (op_type->weight_output == 0 || op_type->weight_output >= op_type->output_count))
        return "has its number of elements (`weight_output`) in output 0, which is the loss, or in an output that it "
               "does not have; start from BG_OP_TYPE_DEFAULTS, which sets it to BG_NO_OPERAND";
    return NULL;
}

bool bgi_graph_check_struct(bg_graph *graph, size_t struct_bytes, size_t own_bytes, const char *type, const char *maker)
{
    bg_error error = {0};

    if (bgi_struct_check(struct_bytes, own_bytes, type, maker, &error) == BG_OK)
        return true;
    bg_graph_fail(graph, error.status, "%s", error.message);
    return false;
}

/* Checks an op type, which may be the user's, so that a missing function is an error now instead of a crash in a
 * run. */
static bool check_type(bg_graph *graph, const bg_op_type *op_type, const char *name)
{
    const char *fault;

    if (op_type == NULL || op_type->name == NULL || op_type->name[0] == '\0') {
        bg_graph_fail(graph, BG_ERROR_INVALID, "op `%s`: %s", name != NULL ? name : "without a name",
                      op_type == NULL ? "the op type is NULL" : "the op type has no name; set `name`");
        return false;
    }
    fault = find_fault(op_type);
    if (fault != NULL)
        bgi_graph_fail_op(graph, op_type->name, name, BG_ERROR_INVALID, "the op type %s", fault);
    else if (op_type->accumulating != NULL &&
             (op_type->accumulating->name == NULL || find_fault(op_type->accumulating)))
        bgi_graph_fail_op(graph, op_type->name, name, BG_ERROR_INVALID,
                          "the op type's accumulating type must have a name, a shape rule and a kernel");
    else
        return true;
    return false;
}

/* Checks the number of operands, and that they exist and can be written where necessary; on success *out_count is the
 * count without trailing null operands. */
static bool check_inputs(bg_graph *graph, const bg_op_type *op_type, const bg_value *inputs, uint32_t input_count,
                         uint32_t *out_count)
{
    if (inputs == NULL && input_count > 0) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "`inputs` is NULL; it must hold the %u operands", input_count);
        return false;
    }
    while (input_count > 0 && bg_value_is_null(inputs[input_count - 1]))
        input_count--;
    if (input_count < op_type->minimum_inputs || input_count > op_type->maximum_inputs) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "%u operands are given; the op takes %u to %u", input_count,
                      op_type->minimum_inputs, op_type->maximum_inputs);
        return false;
    }
    if ((uint64_t)input_count + op_type->output_count > MAXIMUM_OPERANDS) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "%u operands are given, and the op has %u outputs; both together can be at most %d", input_count,
                      op_type->output_count, MAXIMUM_OPERANDS);
        return false;
    }
    for (uint32_t i = 0; i < input_count; i++) {
        if (bg_value_is_null(inputs[i]) || !is_value_of(graph, inputs[i])) {
            bg_graph_fail(graph, BG_ERROR_INVALID, "operand %u is not a value of this graph", i);
            return false;
        }
        if (bgi_op_type_writes(op_type, i) && !bgi_value_is_writable(graph, inputs[i], graph->phase)) {
            bg_graph_fail(graph, BG_ERROR_INVALID, "operand %u (`%s`) is changed in place, so it must be a variable", i,
                          graph->values[inputs[i].id].name);
            return false;
        }
    }
    if (op_type->alias_input != BG_NO_OPERAND && op_type->alias_input >= input_count) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "output 0 is an alias of operand %u, which is absent",
                      op_type->alias_input);
        return false;
    }
    *out_count = input_count;
    return true;
}

/* Checks whether attributes must be given, and copies the data that the op refers to into the arena. */
static bool fill_op(bg_graph *graph, bgi_op *op, const bg_op_type *op_type, const char *name, const bg_value *inputs,
                    const void *attributes)
{
    if (op_type->attributes_bytes > 0 && attributes == NULL) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "attributes is NULL but must have %zu bytes", op_type->attributes_bytes);
        return false;
    }
    if (op_type->attributes_bytes == 0 && attributes != NULL) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "attributes are given, but `attributes_bytes` of the op type is 0; set it to the size of their "
                      "struct");
        return false;
    }
    op->name = bgi_arena_string(&graph->arena, name);
    op->inputs = bgi_arena_allocate(&graph->arena, op->input_count, sizeof *op->inputs);
    op->outputs = bgi_arena_allocate(&graph->arena, op_type->output_count, sizeof *op->outputs);
    if (op_type->attributes_bytes > 0)
        op->attributes = bgi_arena_copy(&graph->arena, attributes, op_type->attributes_bytes);
    if (op->name == NULL || op->inputs == NULL || op->outputs == NULL ||
        (op_type->attributes_bytes > 0 && op->attributes == NULL))
        return fail_memory(graph, "an op");
    if (op->input_count > 0)
        memcpy(op->inputs, inputs, op->input_count * sizeof *inputs);
    return true;
}

static bool infer_outputs(bg_graph *graph, const bgi_op *op, bg_type *output_types)
{
    bg_type types[MAXIMUM_OPERANDS];
    const bg_op_signature signature = {
        .name = op->name, .types = types, .input_count = op->input_count, .attributes = op->attributes};

    for (uint32_t i = 0; i < op->input_count; i++)
        types[i] = graph->values[op->inputs[i].id].type;
    if (op->type->infer(&signature, output_types, &graph->error) != BG_OK) {
        bgi_error_unexplained(&graph->error, BG_ERROR_INTERNAL, "the shape rule");
        return false;
    }
    if (op->type->output_count > 0 && output_types[0].dtype == BG_DTYPE_NONE) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "the shape rule returned BG_OK but set no type for output 0");
        return false;
    }
    for (uint32_t i = 0; i < op->type->output_count; i++)
        if (output_types[i].dtype != BG_DTYPE_NONE && bg_type_validate(&output_types[i], &graph->error) != BG_OK) {
            bg_error_context(&graph->error, graph->error.status, "output %u", i);
            return false;
        }
    if (op->type->alias_input != BG_NO_OPERAND &&
        bg_type_size_bytes(&output_types[0]) != bg_type_size_bytes(&types[op->type->alias_input])) {
        bg_graph_fail(graph, BG_ERROR_SHAPE, "output 0 is an alias of operand %u but has %zu bytes instead of %zu",
                      op->type->alias_input, bg_type_size_bytes(&output_types[0]),
                      bg_type_size_bytes(&types[op->type->alias_input]));
        return false;
    }
    return true;
}

static bool add_outputs(bg_graph *graph, bgi_op *op, const bg_type *output_types)
{
    op->output_count = 0;
    for (uint32_t i = 0; i < op->type->output_count; i++) {
        bgi_value value = {
            .kind = BGI_VALUE_RESULT, .type = output_types[i], .op = (uint32_t)graph->op_count, .output = i};

        if (output_types[i].dtype == BG_DTYPE_NONE)
            continue;
        value.name = i == 0 ? op->name : bgi_arena_format(&graph->arena, "%s.%u", op->name, i);
        if (value.name == NULL)
            return fail_memory(graph, "a name");
        op->outputs[i] = add_value(graph, &value);
        if (bg_value_is_null(op->outputs[i]))
            return false;
        op->output_count = i + 1;
    }
    return true;
}

bg_value bg_graph_add(bg_graph *graph, const bg_op_type *op_type, const char *name, const bg_value *inputs,
                      uint32_t input_count, const void *attributes, bg_value *outputs)
{
    bg_type output_types[MAXIMUM_OPERANDS] = {{0}};
    bgi_op op = {.type = op_type, .phase = graph->phase, .block = graph->current_block};

    char automatic[NAME_BYTES];

    if (outputs != NULL && op_type != NULL)
        for (uint32_t i = 0; i < op_type->output_count; i++)
            outputs[i] = (bg_value){0};
    if (has_failed(graph) || !check_type(graph, op_type, name))
        return (bg_value){0};
    if (name == NULL) /* first, so that errors contain the name */
        name = automatic_name(graph, op_type->name, automatic, sizeof automatic);
    if ((name = bgi_graph_scoped(graph, name)) == NULL)
        return (bg_value){0};
    if (!check_inputs(graph, op_type, inputs, input_count, &op.input_count) ||
        !fill_op(graph, &op, op_type, name, inputs, attributes) || !infer_outputs(graph, &op, output_types)) {
        bg_error_context(&graph->error, graph->error.status, "%s `%s`", op_type->name, name);
        return (bg_value){0};
    }
    if (!bgi_array_reserve((void **)&graph->ops, &graph->op_capacity, graph->op_count + 1, sizeof *graph->ops)) {
        fail_memory(graph, "an op");
        return (bg_value){0};
    }
    if (!add_outputs(graph, &op, output_types))
        return (bg_value){0};
    graph->ops[graph->op_count++] = op;
    if (outputs != NULL)
        for (uint32_t i = 0; i < op_type->output_count; i++)
            outputs[i] = op.outputs[i];
    return op_type->output_count > 0 ? op.outputs[0] : (bg_value){0};
}

void bg_graph_output(bg_graph *graph, const char *name, bg_value value)
{
    bgi_output output = {.value = value};

    if (has_failed(graph))
        return;
    if (name == NULL || name[0] == '\0') {
        bg_graph_fail(graph, BG_ERROR_INVALID, "output without a name; give it one");
        return;
    }
    if (bg_value_is_null(value) || !is_value_of(graph, value)) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "output `%s` is not a value of this graph", name);
        return;
    }
    for (size_t i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, name) == 0) {
            bg_graph_fail(graph, BG_ERROR_INVALID, "output `%s` already exists; names of outputs must be unique", name);
            return;
        }
    output.name = bgi_arena_string(&graph->arena, name);
    if (output.name == NULL || !bgi_array_reserve((void **)&graph->outputs, &graph->output_capacity,
                                                  graph->output_count + 1, sizeof *graph->outputs)) {
        fail_memory(graph, "an output");
        return;
    }
    graph->outputs[graph->output_count++] = output;
}

void bg_graph_checkpoint(bg_graph *graph, bg_value value)
{
    if (has_failed(graph))
        return;
    if (bg_value_is_null(value) || !is_value_of(graph, value))
        bg_graph_fail(graph, BG_ERROR_INVALID, "the value to mark as a checkpoint is not in this graph");
    else
        graph->values[value.id].is_checkpoint = true;
}

/* ---- questions ---- */

bg_type bg_graph_type(const bg_graph *graph, bg_value value)
{
    return is_value_of(graph, value) ? graph->values[value.id].type : (bg_type){0};
}

const char *bg_graph_name(const bg_graph *graph, bg_value value)
{
    return is_value_of(graph, value) ? graph->values[value.id].name : "";
}

bg_value bg_graph_find_variable(const bg_graph *graph, const char *name)
{
    if (name == NULL || graph->variable_table_size == 0)
        return (bg_value){0};
    return (bg_value){*find_slot(graph, name)};
}

uint32_t bg_graph_op_count(const bg_graph *graph)
{
    return (uint32_t)graph->op_count;
}

uint32_t bg_graph_next_random_id(bg_graph *graph)
{
    return graph->random_count++;
}

uint32_t bgi_op_operand_count(const bgi_op *op)
{
    return op->input_count + op->output_count;
}

bg_op_signature bgi_op_signature(const bg_graph *graph, const bgi_op *op, bg_type *types)
{
    for (uint32_t i = 0; i < op->input_count; i++)
        types[i] = graph->values[op->inputs[i].id].type;
    for (uint32_t i = 0; i < op->output_count; i++)
        types[op->input_count + i] = graph->values[op->outputs[i].id].type;
    return (bg_op_signature){.name = op->name,
                             .types = types,
                             .input_count = op->input_count,
                             .output_count = op->output_count,
                             .attributes = op->attributes};
}
