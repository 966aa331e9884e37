/*
 * fuzz_onnx.c: ONNX models with arbitrary content. The contents of a valid file are consistent, a graph that is built
 * from it is valid, and an error has one line.
 */
#include "onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(const bg_error *error)
{
    if (error->message[0] == '\0' || strchr(error->message, '\n') != NULL)
        abort();
}

/* Gives each symbol a size, so that most models can be built. */
static void build(bg_onnx *onnx)
{
    const bg_onnx_contents *contents = bg_onnx_contents_of(onnx);
    bg_onnx_options options = bg_onnx_defaults();
    bg_onnx_size sizes[16];
    bg_graph *graph;
    bg_error error = {0};

    options.batch_size = 2;
    options.sizes = sizes;
    for (; options.size_count < contents->symbol_count && options.size_count < 16; options.size_count++)
        sizes[options.size_count] = (bg_onnx_size){contents->symbols[options.size_count], 2};
    if (bg_graph_create(&graph, NULL) != BG_OK)
        return;
    if (bg_onnx_build(onnx, &options, graph, &error) != BG_OK)
        check_message(&error);
    else if (bg_graph_check(graph, NULL) != BG_OK)
        abort();
    bg_graph_destroy(graph);
}

/* Returns whether the dimensions of the inputs are small, so that a model in a small file does not need gigabytes. */
static bool is_small(const bg_onnx *onnx)
{
    const bg_onnx_contents *contents = bg_onnx_contents_of(onnx);

    for (uint32_t i = 0; i < contents->input_count; i++)
        for (uint32_t d = 0; d < contents->inputs[i].rank; d++)
            if (contents->inputs[i].dims[d].size > 64)
                return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bg_onnx *onnx = NULL;
    bg_error error = {0};

    if (bgi_onnx_parse("input", NULL, data, size, &onnx, &error) != BG_OK) {
        check_message(&error);
        return 0;
    }
    if (is_small(onnx))
        build(onnx);
    bg_onnx_destroy(onnx);
    return 0;
}
