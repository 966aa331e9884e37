/*
 * fuzz_onnx_external.c: ONNX models whose tensors are in other files. The input is the model. Its folder has the files
 * `data` (4096 bytes), `empty` and `inside/data`, a FIFO `pipe`, and a link `out` to a file outside the folder. A model
 * that opens can be read and has weights; an error has one line.
 */
#include "onnx/onnx.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <brigade/weights.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DATA_BYTES = 4096 };
static char folder[64];

static void path_of(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", folder, name);
}

static void write_file(const char *name, size_t size)
{
    char path[128];
    FILE *file;

    path_of(path, sizeof path, name);
    file = fopen(path, "wb");
    if (file == NULL)
        abort();
    for (size_t i = 0; i < size; i++)
        fputc((int)(i % 251), file);
    if (fclose(file) != 0)
        abort();
}

static void remove_folder(void)
{
    static const char *const names[] = {"data", "empty", "out", "pipe", "inside/data"};
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        path_of(path, sizeof path, names[i]);
        unlink(path);
    }
    path_of(path, sizeof path, "inside");
    rmdir(path);
    rmdir(folder);
}

static void make_folder(void)
{
    char path[128];

    snprintf(folder, sizeof folder, "%s/fuzz_onnx_XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL)
        abort();
    write_file("data", DATA_BYTES);
    write_file("empty", 0);
    path_of(path, sizeof path, "inside");
    if (mkdir(path, 0700) != 0)
        abort();
    write_file("inside/data", DATA_BYTES);
    path_of(path, sizeof path, "pipe");
    if (mkfifo(path, 0600) != 0)
        abort();
    path_of(path, sizeof path, "out");
    if (symlink("/etc/passwd", path) != 0)
        abort();
    atexit(remove_folder);
}

static void check_message(const bg_error *error)
{
    if (error->message[0] == '\0' || strchr(error->message, '\n') != NULL)
        abort();
}

static void set_weights(bg_onnx *onnx)
{
    bg_weights *weights = NULL;
    bg_error error = {0};

    if (bg_weights_create(&weights, NULL) == BG_OK && bg_onnx_set_weights(onnx, weights, &error) != BG_OK)
        check_message(&error);
    bg_weights_destroy(weights);
}

static void build(bg_onnx *onnx)
{
    bg_onnx_options options = bg_onnx_defaults();
    bg_graph *graph = NULL;
    bg_error error = {0};

    options.batch_size = 2;
    if (bg_graph_create(&graph, NULL) != BG_OK)
        return;
    if (bg_onnx_build(onnx, &options, graph, &error) == BG_OK)
        set_weights(onnx);
    else
        check_message(&error);
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

    if (folder[0] == '\0')
        make_folder();
    if (bgi_onnx_parse("input", folder, data, size, &onnx, &error) != BG_OK) {
        check_message(&error);
        return 0;
    }
    if (is_small(onnx))
        build(onnx);
    bg_onnx_destroy(onnx);
    return 0;
}
