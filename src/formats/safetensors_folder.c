/*
 * safetensors_folder.c: opens model.safetensors, or the files that an index names. Names in an index must be names of
 * files in the same folder, without paths.
 */
#include "formats/safetensors_folder.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "formats/json_tree.h"
#include "formats/safetensors.h"

enum { INDEX_LIMIT_BYTES = 64 << 20 };

void bgi_safetensors_folder_close(bgi_safetensors_folder *s)
{
    for (uint32_t i = 0; s != NULL && i < s->file_count; i++) {
        bg_safetensors_destroy(s->files[i]);
        free(s->names[i]);
    }
    free(s);
}

static bg_status open_file(bgi_safetensors_folder *s, const char *name, bg_error *error)
{
    char *path;
    bg_status status;

    for (uint32_t i = 0; i < s->file_count; i++)
        if (strcmp(s->names[i], name) == 0)
            return BG_OK;
    if (s->file_count == BGI_SAFETENSORS_FILE_LIMIT)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: the index names more than %d files", BGI_SAFETENSORS_INDEX,
                            BGI_SAFETENSORS_FILE_LIMIT);
    path = bgi_path_join(s->directory, name);
    s->names[s->file_count] = strdup(name);
    status = path == NULL || s->names[s->file_count] == NULL
                 ? bgi_error_memory(error, "a path", strlen(name))
                 : bgi_safetensors_open_header(path, true, &s->files[s->file_count], error);
    if (status == BG_OK)
        s->file_count++;
    else
        free(s->names[s->file_count]);
    free(path);
    return status;
}

/* Opens each file that {"weight_map": {tensor: file}} names. The names must be those of files in the folder, without
 * paths. */
static bg_status open_mapped(bgi_safetensors_folder *s, const char *path, const json_t *index, bg_error *error)
{
    json_t *map = json_object_get(index, "weight_map"), *file;
    const char *tensor;

    if (!json_is_object(map))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: the object `weight_map` (tensors and their files) is missing",
                            path);
    json_object_foreach(map, tensor, file)
    {
        const char *name = json_string_value(file);

        if (name == NULL || name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "%s: tensor `%.200s`: its file is `%.200s` but must be a file name in the same folder",
                                path, tensor, name != NULL ? name : "(no string)");
        BGI_TRY(open_file(s, name, error));
    }
    return BG_OK;
}

static bg_status open_index(bgi_safetensors_folder *s, const char *path, bg_error *error)
{
    char *text = NULL;
    size_t size_bytes = 0;
    json_t *index = NULL;
    bg_status status;

    BGI_TRY(bgi_file_load(path, INDEX_LIMIT_BYTES, &text, &size_bytes, error));
    status = bgi_json_parse(path, text, size_bytes, &index, error);
    free(text);
    if (status == BG_OK)
        status = open_mapped(s, path, index, error);
    json_decref(index);
    return status;
}

static bg_status open_files(bgi_safetensors_folder *s, bg_error *error)
{
    char *model = bgi_path_join(s->directory, BGI_SAFETENSORS_MODEL),
         *index = bgi_path_join(s->directory, BGI_SAFETENSORS_INDEX);
    bg_status status;

    if (model == NULL || index == NULL)
        status = bgi_error_memory(error, "a path", strlen(s->directory));
    else if (bgi_file_exists(model))
        status = open_file(s, BGI_SAFETENSORS_MODEL, error);
    else if (bgi_file_exists(index))
        status = open_index(s, index, error);
    else
        status = bg_error_set(error, BG_ERROR_NOT_FOUND,
                              "%s: has no %s and no %s; save a model in another format as safetensors first",
                              s->directory, BGI_SAFETENSORS_MODEL, BGI_SAFETENSORS_INDEX);
    free(model);
    free(index);
    return status;
}

bg_status bgi_safetensors_folder_open(const char *directory, bgi_safetensors_folder **out, bg_error *error)
{
    bgi_safetensors_folder *s = calloc(1, sizeof *s);
    bg_status status;

    if (s == NULL)
        return bgi_error_memory(error, "a list of files", sizeof *s);
    s->directory = directory;
    status = open_files(s, error);
    if (status == BG_OK)
        *out = s;
    else
        bgi_safetensors_folder_close(s);
    return status;
}
