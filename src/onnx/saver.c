/*
 * saver.c: implements the functions that rows call. Protobuf messages are in the saver's arena; data that they point to
 * must outlive the saver.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/save.h"
#include "ops/ops.h"

/* Numbers of the format's attribute types. */
enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_STRING = 3, ATTRIBUTE_TENSOR = 4, ATTRIBUTE_INTS = 7 };

static void *allocate(bgi_saver *s, size_t count, size_t bytes)
{
    void *made = bgi_arena_allocate(&s->arena, count, bytes);

    s->is_out_of_memory = s->is_out_of_memory || made == NULL;
    return made;
}

static char *writable(const char *text)
{
    return (char *)(uintptr_t)text; /* messages have no const fields, but nothing writes there */
}

void bgi_save_refuse(bgi_saver *s, const char *format, ...)
{
    va_list arguments;

    if (s->is_refused)
        return;
    s->is_refused = true;
    va_start(arguments, format);
    vsnprintf(s->reason, sizeof s->reason, format, arguments);
    va_end(arguments);
}

/* ---- names ---- */

/* Makes an unused name: `wanted`, with a number appended if it is in use. */
static const char *make_name(bgi_saver *s, const char *wanted)
{
    const char *name = wanted;

    for (uint32_t times = 2; name != NULL && bgi_names_find(&s->taken, name) != BGI_NAMES_NONE; times++)
        name = bgi_arena_format(&s->arena, "%s_%u", wanted, times);
    if (name == NULL || bgi_names_add(&s->taken, name) == BGI_NAMES_NONE) {
        s->is_out_of_memory = true;
        return NULL;
    }
    return name;
}

static const char *join(bgi_saver *s, const char *a, const char *between, const char *b)
{
    const char *made = bgi_arena_format(&s->arena, "%s%s%s", a, between, b);

    s->is_out_of_memory = s->is_out_of_memory || made == NULL;
    return made;
}

/* ---- operands ---- */

bool bgi_save_given(const bgi_saver *s, uint32_t input)
{
    return input < s->op->input_count && s->op->inputs[input].id != 0;
}

bg_type bgi_save_type(const bgi_saver *s, uint32_t input)
{
    return bgi_save_given(s, input) ? bg_graph_type(s->graph, s->op->inputs[input]) : (bg_type){0};
}

bg_type bgi_save_result(const bgi_saver *s, uint32_t output)
{
    return bg_graph_type(s->graph, s->op->outputs[output]);
}

bool bgi_save_wants(const bgi_saver *s, uint32_t output)
{
    return s->op->outputs[output].id != 0 && s->values[s->op->outputs[output].id].uses > 0;
}

static bool is_16_bits(bg_dtype dtype)
{
    return dtype == BG_FLOAT16 || dtype == BG_BFLOAT16;
}

void bgi_save_widen(bgi_saver *s)
{
    s->is_wide = true;
}

bg_dtype bgi_save_dtype(const bgi_saver *s, uint32_t input)
{
    const bg_dtype dtype = bgi_save_type(s, input).dtype;

    return s->is_wide && is_16_bits(dtype) ? BG_FLOAT32 : dtype;
}

bool bgi_save_is_cells(const bgi_saver *s, bg_value value)
{
    const bgi_value *v = bgi_graph_value(s->graph, value);

    return v->kind == BGI_VALUE_RESULT && v->output == 2 && s->graph->ops[v->op].type == &bgi_op_lstm;
}

static bool add_variable(bgi_saver *s, bg_value value)
{
    if (!bgi_array_reserve((void **)&s->variables, &s->variable_capacity, s->variable_count + 1, sizeof value))
        return false;
    s->variables[s->variable_count++] = value;
    return true;
}

/* Returns the file's name of a value, and adds the value to the file if necessary. */
static const char *name_of(bgi_saver *s, bg_value value)
{
    const bgi_value *from = bgi_graph_value(s->graph, value);
    bgi_saved_value *saved = &s->values[value.id];

    if (saved->name != NULL)
        return saved->name;
    if (saved->as_bool != NULL) {
        saved->name = bgi_save_cast(s, saved->as_bool, BGI_ONNX_UINT8);
    } else if (from->kind == BGI_VALUE_CONSTANT) {
        saved->name = bgi_save_constant(s, &from->type, from->data);
    } else if (from->kind == BGI_VALUE_VARIABLE) {
        if (!add_variable(s, value))
            s->is_out_of_memory = true;
        saved->name = from->name;
    }
    return saved->name;
}

const char *bgi_save_value(bgi_saver *s, bg_value value)
{
    const char *name;

    if (bgi_save_is_cells(s, value)) {
        bgi_save_refuse(s, "it takes the cell states of an LSTM's steps but ONNX returns only the last");
        return NULL;
    }
    name = name_of(s, value);
    return s->is_wide && is_16_bits(bg_graph_type(s->graph, value).dtype) ? bgi_save_cast(s, name, BGI_ONNX_FLOAT)
                                                                          : name;
}

const char *bgi_save_in(bgi_saver *s, uint32_t input)
{
    return bgi_save_given(s, input) ? bgi_save_value(s, s->op->inputs[input]) : NULL;
}

const char *bgi_save_ids(bgi_saver *s, uint32_t input)
{
    const bg_dtype dtype = bgi_save_type(s, input).dtype;
    const char *name = bgi_save_in(s, input);

    return dtype == BG_INT32 || dtype == BG_INT64 ? name : bgi_save_cast(s, name, BGI_ONNX_INT64);
}

const char *bgi_save_truth(bgi_saver *s, uint32_t input)
{
    bgi_saved_value *saved;

    if (!bgi_save_given(s, input))
        return NULL;
    saved = &s->values[s->op->inputs[input].id];
    if (saved->as_bool == NULL)
        saved->as_bool = bgi_save_cast(s, name_of(s, s->op->inputs[input]), BGI_ONNX_BOOL);
    return saved->as_bool;
}

/* ---- nodes ---- */

static BgiOnnx__Node *newest(bgi_saver *s)
{
    return s->is_out_of_memory || s->node_count == 0 ? NULL : s->nodes[s->node_count - 1];
}

/* Names a node "/block/label.Op"; its value has the name without the block. The part of a label before its last slash
 * is left out, because it would be read as a scope. */
static bool name_node(bgi_saver *s, BgiOnnx__Node *node, const char *op)
{
    const char *name = join(s, s->label, ".", op), *full, *slash;
    const char *value = name != NULL ? make_name(s, name) : NULL;

    if (value == NULL)
        return false;
    slash = strrchr(value, '/');
    full = slash != NULL ? slash + 1 : value;
    if (s->block[0] != '\0')
        full = bgi_arena_format(&s->arena, "/%s/%s", s->block, full);
    node->output = allocate(s, 4, sizeof *node->output);
    if (node->output == NULL || full == NULL)
        return false;
    node->name = writable(full);
    node->output[0] = writable(value);
    node->n_output = 1;
    return true;
}

const char *bgi_save_node(bgi_saver *s, const char *op, uint32_t count, const char *const *inputs)
{
    BgiOnnx__Node *node = allocate(s, 1, sizeof *node);

    if (s->is_out_of_memory || s->is_refused)
        return NULL;
    bgi_onnx__node__init(node);
    node->op_type = writable(op);
    node->input = allocate(s, count + 1, sizeof *node->input);
    if (node->input == NULL || !name_node(s, node, op) ||
        !bgi_array_reserve((void **)&s->nodes, &s->node_capacity, s->node_count + 1, sizeof node)) {
        s->is_out_of_memory = true;
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        node->input[i] = writable(inputs[i] != NULL ? inputs[i] : "");
    while (count > 0 && inputs[count - 1] == NULL)
        count--;
    node->n_input = count;
    s->nodes[s->node_count++] = node;
    return node->output[0];
}

const char *bgi_save_1(bgi_saver *s, const char *op, const char *x)
{
    return bgi_save_node(s, op, 1, &x);
}

const char *bgi_save_2(bgi_saver *s, const char *op, const char *a, const char *b)
{
    return bgi_save_node(s, op, 2, (const char *const[]){a, b});
}

const char *bgi_save_3(bgi_saver *s, const char *op, const char *a, const char *b, const char *c)
{
    return bgi_save_node(s, op, 3, (const char *const[]){a, b, c});
}

static const char *add_output(bgi_saver *s, const char *name)
{
    BgiOnnx__Node *node = newest(s);

    if (node == NULL || name == NULL || s->is_refused)
        return NULL;
    node->output[node->n_output++] = writable(name);
    return name;
}

const char *bgi_save_more(bgi_saver *s)
{
    BgiOnnx__Node *node = newest(s);
    const char *wanted = node != NULL ? join(s, node->output[0], ".", "more") : NULL;

    return wanted != NULL ? add_output(s, make_name(s, wanted)) : NULL;
}

void bgi_save_skip(bgi_saver *s)
{
    add_output(s, "");
}

static BgiOnnx__Attribute *add_attribute(bgi_saver *s, const char *name, int32_t type)
{
    enum { MOST = 12 };
    BgiOnnx__Node *node = newest(s);
    BgiOnnx__Attribute *made = allocate(s, 1, sizeof *made);

    if (node == NULL || made == NULL || s->is_refused)
        return NULL;
    if (node->attribute == NULL)
        node->attribute = allocate(s, MOST, sizeof *node->attribute);
    if (node->attribute == NULL || node->n_attribute == MOST)
        return NULL;
    bgi_onnx__attribute__init(made);
    made->name = writable(name);
    made->has_type = 1;
    made->type = type;
    node->attribute[node->n_attribute++] = made;
    return made;
}

void bgi_save_int(bgi_saver *s, const char *name, int64_t value)
{
    BgiOnnx__Attribute *made = add_attribute(s, name, ATTRIBUTE_INT);

    if (made == NULL)
        return;
    made->has_i = 1;
    made->i = value;
}

void bgi_save_ints(bgi_saver *s, const char *name, const int64_t *values, uint32_t count)
{
    BgiOnnx__Attribute *made = add_attribute(s, name, ATTRIBUTE_INTS);

    if (made == NULL)
        return;
    made->ints = bgi_arena_copy(&s->arena, values, count * sizeof *values);
    made->n_ints = count;
    s->is_out_of_memory = s->is_out_of_memory || made->ints == NULL;
}

void bgi_save_real(bgi_saver *s, const char *name, double value)
{
    BgiOnnx__Attribute *made = add_attribute(s, name, ATTRIBUTE_FLOAT);

    if (made == NULL)
        return;
    made->has_f = 1;
    made->f = (float)value;
}

void bgi_save_text(bgi_saver *s, const char *name, const char *value)
{
    BgiOnnx__Attribute *made = add_attribute(s, name, ATTRIBUTE_STRING);

    if (made == NULL)
        return;
    made->has_s = 1;
    made->s = (ProtobufCBinaryData){.len = strlen(value), .data = (uint8_t *)(uintptr_t)value};
}

const char *bgi_save_cast(bgi_saver *s, const char *x, int32_t element)
{
    const char *y = bgi_save_1(s, "Cast", x);

    bgi_save_int(s, "to", element);
    return y;
}

const char *bgi_save_reshape(bgi_saver *s, const char *x, uint32_t rank, const int64_t *dims, int32_t batch)
{
    int64_t shape[BGI_ONNX_MAX_RANK];

    for (uint32_t i = 0; i < rank; i++)
        shape[i] = s->batch > 0 && (int32_t)i == batch ? -1 : dims[i];
    return bgi_save_2(s, "Reshape", x, bgi_save_list(s, shape, rank));
}

const char *bgi_save_transpose(bgi_saver *s, const char *x, uint32_t rank, const int64_t *permutation)
{
    const char *y = bgi_save_1(s, "Transpose", x);

    bgi_save_ints(s, "perm", permutation, rank);
    return y;
}

/* ---- constants ---- */

const char *bgi_save_constant(bgi_saver *s, const bg_type *type, const void *data)
{
    const char *name = bgi_save_node(s, "Constant", 0, NULL);
    BgiOnnx__Attribute *attribute = add_attribute(s, "value", ATTRIBUTE_TENSOR);
    BgiOnnx__Tensor *tensor = allocate(s, 1, sizeof *tensor);

    if (name == NULL || attribute == NULL || tensor == NULL)
        return NULL;
    bgi_onnx__tensor__init(tensor);
    tensor->n_dims = type->rank;
    tensor->dims = bgi_arena_copy(&s->arena, type->dims, sizeof type->dims);
    s->is_out_of_memory = s->is_out_of_memory || tensor->dims == NULL;
    tensor->has_data_type = 1;
    tensor->data_type = bgi_onnx_dtype_element(type->dtype);
    tensor->has_raw_data = 1;
    tensor->raw_data = (ProtobufCBinaryData){.len = bg_type_size_bytes(type), .data = (uint8_t *)(uintptr_t)data};
    attribute->t = tensor;
    return name;
}

const char *bgi_save_reals(bgi_saver *s, bg_dtype dtype, uint32_t rank, const int64_t *dims, const double *values)
{
    const bg_type type = bg_type_make(dtype, rank, dims);
    bgi_tensor made = {.dtype = dtype, .count = bg_type_element_count(&type)};

    made.data = allocate(s, (size_t)made.count, bg_dtype_size_bytes(dtype));
    if (made.data == NULL)
        return NULL;
    for (int64_t i = 0; i < made.count; i++)
        bgi_tensor_set(&made, i, values[i]);
    return bgi_save_constant(s, &type, made.data);
}

const char *bgi_save_number(bgi_saver *s, bg_dtype dtype, double value)
{
    return bgi_save_reals(s, dtype, 0, NULL, &value);
}

const char *bgi_save_list(bgi_saver *s, const int64_t *values, uint32_t count)
{
    const bg_type type = bg_vector(BG_INT64, count);
    const void *kept = bgi_arena_copy(&s->arena, values, count * sizeof *values);

    s->is_out_of_memory = s->is_out_of_memory || kept == NULL;
    return kept != NULL ? bgi_save_constant(s, &type, kept) : NULL;
}

/* ---- results ---- */

/* Gives the newest node's first result the value's own name; nothing has read it under its first name. */
static const char *rename_newest(bgi_saver *s, const char *name, bg_value value)
{
    BgiOnnx__Node *node = newest(s);
    const char *wanted = s->output_name[value.id];

    if (node == NULL || node->output[0] != name || wanted == NULL)
        return name;
    s->output_name[value.id] = NULL; /* the name is in use from now on */
    node->output[0] = writable(wanted);
    return wanted;
}

void bgi_save_out_as_is(bgi_saver *s, uint32_t output, const char *name, int32_t batch)
{
    const bg_value value = s->op->outputs[output];

    if (name == NULL || value.id == 0)
        return;
    s->values[value.id].name = rename_newest(s, name, value);
    s->values[value.id].batch = batch;
}

void bgi_save_out(bgi_saver *s, uint32_t output, const char *name, int32_t batch)
{
    const bg_dtype dtype = bgi_save_result(s, output).dtype;

    if (name != NULL && s->is_wide && is_16_bits(dtype))
        name = bgi_save_cast(s, name, bgi_onnx_dtype_element(dtype));
    bgi_save_out_as_is(s, output, name, batch);
}

void bgi_save_out_bool(bgi_saver *s, uint32_t output, const char *name, int32_t batch)
{
    bgi_saved_value *saved = &s->values[s->op->outputs[output].id];

    saved->as_bool = name;
    saved->batch = batch;
}
