/*
 * model.h: a small ONNX model as protocol buffer messages. Tests change one of the messages and pack the model:
 *
 *     x [batch, 4]  --/layer/0/Gemm, w [3, 4] transposed-->  b  --Relu-->  c
 */
#ifndef TESTS_ONNX_MODEL_H
#define TESTS_ONNX_MODEL_H

#include <stdlib.h>
#include <string.h>

#include "onnx/onnx.h"

typedef struct test_model_file {
    BgiOnnx__Model model;
    BgiOnnx__OperatorSet opset, *opset_list[1];
    BgiOnnx__Graph graph;
    BgiOnnx__Node nodes[2], *node_list[2];
    char *node_inputs[2][2], *node_outputs[2][1];
    BgiOnnx__Attribute attribute, *attribute_list[1];
    BgiOnnx__Tensor weight, *weight_list[1];
    int64_t weight_dims[2];
    float weight_values[12];
    BgiOnnx__ValueInfo input, *input_list[1], output, *output_list[1];
    BgiOnnx__Type type;
    BgiOnnx__TensorType tensor_type;
    BgiOnnx__Shape shape;
    BgiOnnx__Dimension dims[2], *dim_list[2];
    BgiOnnx__Entry entries[3], *entry_list[3];
} test_model_file;

static inline void test_model_file_init(test_model_file *f)
{
    static char op_gemm[] = "Gemm", op_relu[] = "Relu", gemm_name[] = "/layer/0/Gemm", x[] = "x", w[] = "w", b[] = "b",
                c[] = "c", trans[] = "transB", batch[] = "batch", producer[] = "test", version[] = "1";

    memset(f, 0, sizeof *f);
    bgi_onnx__model__init(&f->model);
    bgi_onnx__operator_set__init(&f->opset);
    bgi_onnx__graph__init(&f->graph);
    f->model.has_ir_version = 1;
    f->model.ir_version = 7;
    f->model.producer_name = producer;
    f->model.producer_version = version;
    f->model.graph = &f->graph;
    f->opset.has_version = 1;
    f->opset.version = 13;
    f->opset_list[0] = &f->opset;
    f->model.n_opset_import = 1;
    f->model.opset_import = f->opset_list;
    for (int i = 0; i < 2; i++) {
        bgi_onnx__node__init(&f->nodes[i]);
        f->node_list[i] = &f->nodes[i];
        f->nodes[i].n_input = i == 0 ? 2 : 1;
        f->nodes[i].input = f->node_inputs[i];
        f->nodes[i].n_output = 1;
        f->nodes[i].output = f->node_outputs[i];
    }
    f->nodes[0].op_type = op_gemm;
    f->nodes[0].name = gemm_name;
    f->nodes[1].op_type = op_relu;
    f->node_inputs[0][0] = x;
    f->node_inputs[0][1] = w;
    f->node_outputs[0][0] = f->node_inputs[1][0] = b;
    f->node_outputs[1][0] = c;
    f->graph.n_node = 2;
    f->graph.node = f->node_list;
    bgi_onnx__attribute__init(&f->attribute);
    f->attribute.name = trans;
    f->attribute.has_i = 1;
    f->attribute.i = 1;
    f->attribute.has_type = 1;
    f->attribute.type = 2;
    f->attribute_list[0] = &f->attribute;
    f->nodes[0].n_attribute = 1;
    f->nodes[0].attribute = f->attribute_list;
    bgi_onnx__tensor__init(&f->weight);
    f->weight_dims[0] = 3;
    f->weight_dims[1] = 4;
    for (int i = 0; i < 12; i++)
        f->weight_values[i] = 0.25f * (float)(i - 6);
    f->weight.name = w;
    f->weight.n_dims = 2;
    f->weight.dims = f->weight_dims;
    f->weight.has_data_type = 1;
    f->weight.data_type = BGI_ONNX_FLOAT;
    f->weight.n_float_data = 12;
    f->weight.float_data = f->weight_values;
    f->weight_list[0] = &f->weight;
    f->graph.n_initializer = 1;
    f->graph.initializer = f->weight_list;
    bgi_onnx__value_info__init(&f->input);
    bgi_onnx__value_info__init(&f->output);
    bgi_onnx__type__init(&f->type);
    bgi_onnx__tensor_type__init(&f->tensor_type);
    bgi_onnx__shape__init(&f->shape);
    for (int i = 0; i < 2; i++) {
        bgi_onnx__dimension__init(&f->dims[i]);
        f->dim_list[i] = &f->dims[i];
    }
    f->dims[0].dim_param = batch;
    f->dims[1].has_dim_value = 1;
    f->dims[1].dim_value = 4;
    f->shape.n_dim = 2;
    f->shape.dim = f->dim_list;
    f->tensor_type.has_elem_type = 1;
    f->tensor_type.elem_type = BGI_ONNX_FLOAT;
    f->tensor_type.shape = &f->shape;
    f->type.tensor_type = &f->tensor_type;
    f->input.name = x;
    f->input.type = &f->type;
    f->output.name = c;
    f->input_list[0] = &f->input;
    f->output_list[0] = &f->output;
    f->graph.n_input = 1;
    f->graph.input = f->input_list;
    f->graph.n_output = 1;
    f->graph.output = f->output_list;
}

/* Moves the weight's values to another file. `offset` and `length` may be NULL. */
static inline void test_model_file_outside(test_model_file *f, const char *location, const char *offset,
                                           const char *length)
{
    static char keys[3][16] = {"location", "offset", "length"};
    const char *values[3] = {location, offset, length};

    f->weight.n_float_data = 0;
    f->weight.has_data_location = 1;
    f->weight.data_location = 1;
    f->weight.external_data = f->entry_list;
    for (int i = 0; i < 3; i++) {
        if (values[i] == NULL)
            continue;
        bgi_onnx__entry__init(&f->entries[i]);
        f->entries[i].key = keys[i];
        f->entries[i].value = (char *)(uintptr_t)values[i];
        f->entry_list[f->weight.n_external_data++] = &f->entries[i];
    }
}

/* Returns the packed model, malloc'ed. */
static inline uint8_t *test_model_file_pack(const test_model_file *f, size_t *size)
{
    uint8_t *bytes;

    *size = bgi_onnx__model__get_packed_size(&f->model);
    bytes = malloc(*size + 1);
    bgi_onnx__model__pack(&f->model, bytes);
    return bytes;
}

#endif
