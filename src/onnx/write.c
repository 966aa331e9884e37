/*
 * write.c: writes messages to files while they are packed, and the values of tensors to a file beside them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "onnx/save.h"

/* A message that is written to a file while it is packed. */
typedef struct sink {
    ProtobufCBuffer base;
    bgi_file_writer *writer;
} sink;

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *data)
{
    bgi_file_write(((sink *)buffer)->writer, data, length);
}

bg_status bgi_onnx_write(const BgiOnnx__Model *model, const char *path, bg_error *error)
{
    bgi_file_writer writer = {0};
    sink to = {.base.append = append, .writer = &writer};

    BGI_TRY(bgi_file_writer_begin(&writer, path, error));
    bgi_onnx__model__pack_to_buffer(model, &to.base);
    return bgi_file_writer_commit(&writer, error);
}

/* ---- outside ---- */

bg_status bgi_onnx_outside_begin(bgi_onnx_outside *outside, const char *path, bgi_arena *arena, bg_error *error)
{
    const char *slash = strrchr(path, '/');

    outside->path = bgi_arena_format(arena, "%s.data", path);
    outside->writer = bgi_arena_allocate(arena, 1, sizeof *outside->writer);
    if (outside->path == NULL || outside->writer == NULL)
        return bgi_error_memory(error, "a path", strlen(path));
    outside->location = outside->path + (slash != NULL ? slash + 1 - path : 0);
    return bgi_file_writer_begin(outside->writer, outside->path, error);
}

bg_status bgi_onnx_outside_commit(bgi_onnx_outside *outside, bg_error *error)
{
    return bgi_file_writer_commit(outside->writer, error);
}

void bgi_onnx_outside_abandon(bgi_onnx_outside *outside, bg_error *error)
{
    if (outside->writer != NULL)
        bgi_file_writer_abandon(outside->writer, error);
}

bool bgi_onnx_outside_put(bgi_onnx_outside *outside, BgiOnnx__Tensor *tensor, bgi_arena *arena)
{
    static const char *const keys[3] = {"location", "offset", "length"};
    BgiOnnx__Entry *entries = bgi_arena_allocate(arena, 3, sizeof *entries);
    BgiOnnx__Entry **list = bgi_arena_allocate(arena, 3, sizeof *list);
    char *offset = bgi_arena_format(arena, "%llu", (unsigned long long)outside->offset);
    char *length = bgi_arena_format(arena, "%zu", tensor->raw_data.len);
    const char *values[3] = {outside->location, offset, length};

    if (entries == NULL || list == NULL || offset == NULL || length == NULL)
        return false;
    bgi_file_write(outside->writer, tensor->raw_data.data, tensor->raw_data.len);
    outside->offset += tensor->raw_data.len;
    for (int i = 0; i < 3; i++) {
        bgi_onnx__entry__init(&entries[i]);
        entries[i].key = (char *)(uintptr_t)keys[i];
        entries[i].value = (char *)(uintptr_t)values[i];
        list[i] = &entries[i];
    }
    tensor->n_external_data = 3;
    tensor->external_data = list;
    tensor->has_data_location = 1;
    tensor->data_location = 1;
    tensor->has_raw_data = 0;
    tensor->raw_data = (ProtobufCBinaryData){0};
    return true;
}
