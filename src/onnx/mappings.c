/*
 * mappings.c: lists all tables of mappings, and the reasons why some ops have no mapping.
 */
#include "onnx/onnx.h"

#include <string.h>

static const bgi_mapping *const tables[] = {
    bgi_onnx_elementwise, bgi_onnx_matrix,   bgi_onnx_convolution, bgi_onnx_shapes, bgi_onnx_index,
    bgi_onnx_reduction,   bgi_onnx_norm,     bgi_onnx_resize,      bgi_onnx_loss,   bgi_onnx_constants,
    bgi_onnx_recurrent,   bgi_onnx_quantize, bgi_onnx_signal};

static const bgi_mapping *find_row(const bgi_mapping *table, const char *op)
{
    for (const bgi_mapping *row = table; row->op != NULL; row++)
        if (strcmp(row->op, op) == 0)
            return row;
    return NULL;
}

const bgi_mapping *bgi_onnx_find_mapping(const char *domain, const char *op)
{
    const bgi_mapping *row = NULL;

    if (strcmp(domain, "ai.onnx.ml") == 0)
        return find_row(bgi_onnx_ml, op);
    for (size_t t = 0; domain[0] == '\0' && t < sizeof tables / sizeof tables[0] && row == NULL; t++)
        row = find_row(tables[t], op);
    return row;
}

/* Ops that cannot have a mapping, by the beginnings of their names, with the reasons. */
static const struct {
    const char *begin, *reason;
} refusals[] = {
    {"Loop",
     "the steps of a graph are known when it is built: export the model by tracing, with sizes that are numbers, "
     "which writes each step out (torch.jit.script keeps the loop)"},
    {"Scan", "the steps of a graph are known when it is built: export the model so that each step is written out"},
    {"Sequence", "a sequence is not a tensor: export the model with tensors, stacked or concatenated"},
    {"SplitToSequence",
     "a sequence is not a tensor: export the model with tensors (torch.split with sizes that are numbers)"},
    {"ConcatFromSequence", "a sequence is not a tensor: export the model with tensors, stacked or concatenated"},
    {"Optional", "an optional value is not a tensor: export the model without it"},
    {"Random", "a graph draws random values only for dropout: make the values an input of the model"},
    {"Bernoulli", "a graph draws random values only for dropout: make the values an input of the model"},
    {"Multinomial", "a graph draws random values only for dropout: make the values an input of the model"},
    {"NonMaxSuppression", "its output's size depends on values: leave it to the program that reads the outputs"},
    {"Unique", "its output's size depends on values: leave it to the program that reads the outputs"},
};

const char *bgi_onnx_why_unknown(const char *op)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (strncmp(op, refusals[i].begin, strlen(refusals[i].begin)) == 0)
            return refusals[i].reason;
    return "the op is not known";
}
