/*
 * mapper.c: implements the functions that mappings call.
 */
#include "onnx/onnx.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <brigade/ops.h>

#include "graph/graph.h"

int bgi_map_parameter(const bgi_mapper *m)
{
    return m->mapping->parameter;
}

bool bgi_map_refuse(bgi_mapper *m, const char *format, ...)
{
    va_list arguments;

    if (m->reason[0] != '\0')
        return false; /* the first reason is the cause */
    va_start(arguments, format);
    vsnprintf(m->reason, sizeof m->reason, format, arguments);
    va_end(arguments);
    return false;
}

bool bgi_map_is_well(bgi_mapper *m)
{
    return m->reason[0] == '\0' && !m->is_out_of_memory && bg_graph_check(m->graph, NULL) == BG_OK;
}

/* ---- operands ---- */

bool bgi_map_given(const bgi_mapper *m, uint32_t input)
{
    return input < m->input_count && m->inputs[input] != NULL;
}

static bg_value make_input(bgi_mapper *m, bgi_item *item)
{
    bg_onnx_port *port = &m->build->onnx->inputs[item->index];

    if (port->dtype == BG_DTYPE_NONE) {
        if (port->element[0] != '\0')
            bgi_map_refuse(m, "input `%s` has elements of type %s, which graphs do not have", port->name,
                           port->element);
        else
            bgi_map_refuse(m, "input `%s` is not a tensor, or has no element type", port->name);
        return (bg_value){0};
    }
    if (port->rank > BG_MAX_RANK) {
        bgi_map_refuse(m, "input `%s` has %u dimensions but at most %d are possible", port->name, port->rank,
                       BG_MAX_RANK);
        return (bg_value){0};
    }
    if (bg_type_validate(&port->type, NULL) != BG_OK) {
        bgi_map_refuse(m, "input `%s` has a dimension of size 0, or too many elements", port->name);
        return (bg_value){0};
    }
    item->value = port->value = bg_graph_input(m->graph, port->name, &port->type);
    item->kind = BGI_ITEM_VALUE;
    return item->value;
}

static bg_value make_variable(bgi_mapper *m, bgi_item *item)
{
    const bg_initializer zeros = {.kind = BG_INITIALIZE_CONSTANT};
    bg_onnx *onnx = m->build->onnx;
    const bg_onnx_weight *weight = &onnx->weights[item->index];

    if (weight->type.dtype == BG_DTYPE_NONE) {
        bgi_map_refuse(m, "initializer `%s` has an unsupported element type (%s), no elements, or too many dimensions",
                       weight->name, weight->element);
        return (bg_value){0};
    }
    item->value = bg_graph_variable(m->graph, weight->name, &weight->type,
                                    weight->use == BG_ONNX_PARAMETER ? BG_ROLE_PARAMETER : BG_ROLE_BUFFER, &zeros);
    item->kind = BGI_ITEM_VALUE;
    onnx->is_variable[item->index] = true;
    return item->value;
}

static bg_value make_constant(bgi_mapper *m, bgi_item *item)
{
    bg_value value;
    bg_type type;

    if (!m->is_folding && !bg_value_is_null(item->value))
        return item->value;
    if (!bgi_tensor_type(item->known, &type)) {
        bgi_map_refuse(m, "`%s` has no elements, or more than %d dimensions", item->name, BG_MAX_RANK);
        return (bg_value){0};
    }
    value = bg_graph_constant(m->graph, item->name, &type, item->known->data);
    if (!m->is_folding)
        item->value = value;
    return value;
}

static bg_value make_transpose(bgi_mapper *m, bgi_item *item)
{
    const uint32_t permutation[] = {1, 0};

    item->value = bg_transpose(m->graph, NULL, item->transpose_of, permutation);
    item->kind = BGI_ITEM_VALUE;
    return item->value;
}

bg_value bgi_map_transposed(const bgi_mapper *m, uint32_t input)
{
    return bgi_map_given(m, input) ? m->inputs[input]->transpose_of : (bg_value){0};
}

bg_value bgi_map_in(bgi_mapper *m, uint32_t input)
{
    bgi_item *item = bgi_map_given(m, input) ? m->inputs[input] : NULL;

    if (item == NULL)
        return (bg_value){0};
    switch (item->kind) {
    case BGI_ITEM_INPUT:
        return make_input(m, item);
    case BGI_ITEM_WEIGHT:
        return make_variable(m, item);
    case BGI_ITEM_KNOWN:
        return make_constant(m, item);
    case BGI_ITEM_VALUE:
        return item->value;
    case BGI_ITEM_TRANSPOSE:
        return make_transpose(m, item);
    default:
        bgi_map_refuse(m, "`%s` does not exist", item->name);
        return (bg_value){0};
    }
}

bg_type bgi_map_type(bgi_mapper *m, bg_value value)
{
    return bg_graph_type(m->graph, value);
}

bool bgi_map_shape(bgi_mapper *m, uint32_t input, uint32_t *rank, int64_t dims[BGI_ONNX_MAX_RANK])
{
    const bgi_tensor *known = bgi_map_if_known(m, input);
    bg_type type;

    *rank = 0;
    if (!bgi_map_given(m, input))
        return bgi_map_refuse(m, "input %u is missing", input);
    if (known != NULL) {
        *rank = known->rank;
        memcpy(dims, known->dims, sizeof known->dims);
        return true;
    }
    type = bgi_map_type(m, bgi_map_in(m, input));
    if (type.dtype == BG_DTYPE_NONE)
        return false;
    *rank = type.rank;
    memcpy(dims, type.dims, sizeof type.dims);
    return true;
}

int32_t bgi_map_element(const bgi_mapper *m, uint32_t input)
{
    return bgi_map_given(m, input) ? m->inputs[input]->element : BGI_ONNX_UNDEFINED;
}

const bgi_tensor *bgi_map_if_known(const bgi_mapper *m, uint32_t input)
{
    return bgi_map_given(m, input) && m->inputs[input]->kind == BGI_ITEM_KNOWN ? m->inputs[input]->known : NULL;
}

static bool is_model_input(const bgi_mapper *m, const char *name)
{
    const bg_onnx_contents *contents = &m->build->onnx->contents;

    for (uint32_t i = 0; i < contents->input_count; i++)
        if (strcmp(contents->inputs[i].name, name) == 0)
            return true;
    return false;
}

const bgi_tensor *bgi_map_known(bgi_mapper *m, uint32_t input)
{
    const bgi_tensor *known = bgi_map_if_known(m, input);

    if (known == NULL && bgi_map_given(m, input))
        bgi_map_refuse(m, "input %u (`%s`) must be known when the graph is built, but %s", input,
                       m->inputs[input]->name,
                       is_model_input(m, m->inputs[input]->name) ? "it is an input of the model; fix its value"
                                                                 : "it is computed from data");
    else if (known == NULL)
        bgi_map_refuse(m, "input %u is missing", input);
    return known;
}

bool bgi_map_known_ints(bgi_mapper *m, uint32_t input, int64_t *out, uint32_t *count, uint32_t capacity)
{
    const bgi_tensor *known = bgi_map_known(m, input);

    *count = 0;
    if (known == NULL)
        return false;
    if (bg_dtype_is_float(known->dtype))
        return bgi_map_refuse(m, "input %u has elements of type %s but must have integers", input,
                              bgi_onnx_element_name(known->element));
    if (known->count > capacity)
        return bgi_map_refuse(m, "input %u has %" PRId64 " elements but at most %u are possible", input, known->count,
                              capacity);
    *count = (uint32_t)known->count;
    for (uint32_t i = 0; i < *count; i++)
        out[i] = bgi_tensor_int(known, i);
    return true;
}

bool bgi_map_known_real(bgi_mapper *m, uint32_t input, double *out)
{
    const bgi_tensor *known = bgi_map_known(m, input);

    if (known == NULL)
        return false;
    if (known->count != 1)
        return bgi_map_refuse(m, "input %u has %" PRId64 " elements but must have one", input, known->count);
    *out = bgi_tensor_real(known, 0);
    return true;
}

bool bgi_map_has_empty(const bgi_mapper *m)
{
    for (uint32_t i = 0; i < m->input_count; i++)
        if (m->inputs[i] != NULL && m->inputs[i]->kind == BGI_ITEM_KNOWN && m->inputs[i]->known->count == 0)
            return true;
    return false;
}

/* ---- attributes ---- */

const BgiOnnx__Attribute *bgi_map_attribute(const bgi_mapper *m, const char *attribute)
{
    for (size_t i = 0; i < m->node->n_attribute; i++)
        if (strcmp(m->node->attribute[i]->name, attribute) == 0)
            return m->node->attribute[i];
    return NULL;
}

bool bgi_map_has(const bgi_mapper *m, const char *attribute)
{
    return bgi_map_attribute(m, attribute) != NULL;
}

int64_t bgi_map_int(const bgi_mapper *m, const char *attribute, int64_t otherwise)
{
    const BgiOnnx__Attribute *found = bgi_map_attribute(m, attribute);

    return found == NULL ? otherwise : found->has_i ? found->i : 0;
}

double bgi_map_real(const bgi_mapper *m, const char *attribute, double otherwise)
{
    const BgiOnnx__Attribute *found = bgi_map_attribute(m, attribute);

    return found == NULL ? otherwise : found->has_f ? (double)found->f : 0.0;
}

uint32_t bgi_map_ints(bgi_mapper *m, const char *attribute, int64_t *out, uint32_t capacity)
{
    const BgiOnnx__Attribute *found = bgi_map_attribute(m, attribute);

    if (found == NULL)
        return 0;
    if (found->n_ints > capacity) {
        bgi_map_refuse(m, "attribute `%s` has %zu numbers but at most %u are possible", attribute, found->n_ints,
                       capacity);
        return 0;
    }
    if (found->n_ints > 0)
        memcpy(out, found->ints, found->n_ints * sizeof *out);
    return (uint32_t)found->n_ints;
}

bool bgi_map_text_is(const bgi_mapper *m, const char *attribute, const char *text, bool otherwise)
{
    const BgiOnnx__Attribute *found = bgi_map_attribute(m, attribute);

    if (found == NULL || !found->has_s)
        return otherwise;
    return found->s.len == strlen(text) && memcmp(found->s.data, text, found->s.len) == 0;
}

bool bgi_map_axis(bgi_mapper *m, int64_t given, uint32_t rank, bool and_end, int32_t *out)
{
    const int64_t limit = (int64_t)rank + and_end;

    *out = 0;
    if (given < -(int64_t)rank || given >= limit)
        return bgi_map_refuse(m, "axis %" PRId64 " is outside the %u dimensions", given, rank);
    *out = (int32_t)(given < 0 ? given + rank : given);
    return true;
}

bool bgi_map_ints_of(bgi_mapper *m, const char *attribute, int64_t last, uint32_t input, int64_t *out, uint32_t *count,
                     uint32_t capacity)
{
    *count = 0;
    if (m->opset > last)
        return !bgi_map_given(m, input) || bgi_map_known_ints(m, input, out, count, capacity);
    *count = bgi_map_ints(m, attribute, out, capacity);
    return m->reason[0] == '\0';
}

/* ---- results ---- */

bool bgi_map_wants(const bgi_mapper *m, uint32_t output)
{
    return output < m->result_count && bgi_names_find(&m->build->used, m->node->output[output]) != BGI_NAMES_NONE;
}

bool bgi_map_out_as(bgi_mapper *m, uint32_t output, bg_value value, int32_t element)
{
    bgi_item *result;

    if (!bgi_map_is_well(m) || bg_value_is_null(value))
        return false;
    if (output >= m->result_count)
        return true;
    result = &m->results[output];
    result->kind = BGI_ITEM_VALUE;
    result->element = element;
    result->value = value;
    return true;
}

bool bgi_map_out(bgi_mapper *m, uint32_t output, bg_value value)
{
    const bg_dtype dtype = bgi_map_type(m, value).dtype;
    const int32_t first = bgi_map_element(m, 0);

    return bgi_map_out_as(m, output, value,
                          bgi_onnx_element_dtype(first) == dtype ? first : (int32_t)bgi_onnx_dtype_element(dtype));
}

bool bgi_map_out_known(bgi_mapper *m, uint32_t output, const bgi_tensor *tensor)
{
    bgi_item *result;

    if (!bgi_map_is_well(m) || tensor == NULL)
        return false;
    if (output >= m->result_count)
        return true;
    result = &m->results[output];
    result->kind = BGI_ITEM_KNOWN;
    result->element = tensor->element;
    result->known = tensor;
    return true;
}

bgi_tensor *bgi_map_make(bgi_mapper *m, int32_t element, uint32_t rank, const int64_t *dims)
{
    const int64_t limit = INT64_C(1) << 31;
    int64_t count = 1;
    uint64_t bytes;
    bgi_tensor *tensor;

    if (rank > BGI_ONNX_MAX_RANK) {
        bgi_map_refuse(m, "its result has %u dimensions but at most %d are possible", rank, BGI_ONNX_MAX_RANK);
        return NULL;
    }
    if (bgi_onnx_element_dtype(element) == BG_DTYPE_NONE) {
        bgi_map_refuse(m, "graphs have no elements of type %s", bgi_onnx_element_name(element));
        return NULL;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0 || (dims[i] > 0 && count > limit / dims[i])) {
            bgi_map_refuse(m, "dimension %u is %" PRId64 "; a result must have 0 to 2^31 elements in all", i, dims[i]);
            return NULL;
        }
        count *= dims[i];
    }
    bytes = (uint64_t)count * bg_dtype_size_bytes(bgi_onnx_element_dtype(element));
    if (bytes > BGI_ONNX_KNOWN_LIMIT - m->build->known_bytes) {
        bgi_map_refuse(m, "its %" PRIu64 " bytes would exceed the 1 GiB that is computed while the graph is built",
                       bytes);
        return NULL;
    }
    m->build->known_bytes += bytes;
    tensor = bgi_tensor_make(&m->build->arena, element, rank, dims);
    if (tensor == NULL)
        m->is_out_of_memory = true;
    return tensor;
}

bool bgi_map_pass(bgi_mapper *m)
{
    const bgi_tensor *known = bgi_map_if_known(m, 0);

    if (known != NULL)
        return bgi_map_out_known(m, 0, known);
    if (!bgi_map_out_as(m, 0, bgi_map_in(m, 0), bgi_map_element(m, 0)))
        return false;
    m->results[0].transpose_of = m->inputs[0]->transpose_of;
    return true;
}

/* ---- values that mappings add ---- */

bg_value bgi_map_constant(bgi_mapper *m, const bg_type *type, const void *data)
{
    char name[64];

    if (!bgi_map_is_well(m))
        return (bg_value){0};
    snprintf(name, sizeof name, "onnx.constant.%u", m->build->constant_count++);
    return bg_graph_constant(m->graph, name, type, data);
}

bg_value bgi_map_number(bgi_mapper *m, bg_dtype dtype, double value)
{
    bgi_tensor one = {.dtype = dtype, .count = 1};
    const bg_type type = bg_scalar(dtype);
    union {
        double d;
        int64_t i;
        float f;
        int32_t s;
        uint16_t h;
        uint8_t b;
    } room = {0};

    one.data = &room;
    bgi_tensor_set(&one, 0, value);
    return bgi_map_constant(m, &type, &room);
}

bg_value bgi_map_reals(bgi_mapper *m, bg_dtype dtype, uint32_t rank, const int64_t *dims, const double *values)
{
    bgi_tensor *tensor = bgi_map_make(m, bgi_onnx_dtype_element(dtype), rank, dims);
    bg_type type;

    if (tensor == NULL || !bgi_tensor_type(tensor, &type))
        return (bg_value){0};
    for (int64_t i = 0; i < tensor->count; i++)
        bgi_tensor_set(tensor, i, values[i]);
    return bgi_map_constant(m, &type, tensor->data);
}

bg_value bgi_map_ints_constant(bgi_mapper *m, const int64_t *values, int64_t count)
{
    const bg_type type = bg_vector(BG_INT64, count);

    return count > 0 ? bgi_map_constant(m, &type, values) : (bg_value){0};
}

bg_value bgi_map_cast(bgi_mapper *m, bg_value value, bg_dtype dtype)
{
    if (bg_value_is_null(value) || bgi_map_type(m, value).dtype == dtype)
        return value;
    return bg_cast(m->graph, NULL, value, dtype);
}

bg_value bgi_map_reshape(bgi_mapper *m, bg_value value, uint32_t rank, const int64_t *dims)
{
    const bg_type type = bgi_map_type(m, value);
    const bg_type wanted = bg_type_make(type.dtype, rank, dims);

    if (bg_value_is_null(value) || bg_type_equal(&type, &wanted))
        return value;
    if (rank > BG_MAX_RANK) {
        bgi_map_refuse(m, "a value has %u dimensions but at most %d are possible", rank, BG_MAX_RANK);
        return (bg_value){0};
    }
    return bg_reshape(m->graph, NULL, value, rank, dims);
}

bool bgi_map_is_variable(bgi_mapper *m, bg_value value)
{
    return !bg_value_is_null(value) && bgi_graph_value(m->graph, value)->kind == BGI_VALUE_VARIABLE;
}
