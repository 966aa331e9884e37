/*
 * weights_write.c: writes named tensors to a file, or to a folder of files with an index, as Hugging Face's tools do.
 */
#include "checkpoint/weights_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "formats/json_write.h"
#include "formats/npz.h"
#include "formats/safetensors_folder.h"

/* transformers refuses a file that does not name the framework of its tensors. */
static const bg_safetensors_metadata metadata[] = {{.key = "format", .value = "pt"}};

/* ---- folders ---- */

enum { FILE_NAME_BYTES = 64 };

/* Returns the number of entries, from `first` on, that fit into one file. */
static size_t take_file(const bgi_weights_content *s, size_t first)
{
    uint64_t bytes = 0;
    size_t count = 0;

    while (first + count < s->count) {
        const uint64_t next = bg_type_size_bytes(&s->entries[first + count].type);
        if (count > 0 && s->folder_bytes > 0 && bytes + next > s->folder_bytes)
            break;
        bytes += next;
        count++;
    }
    return count;
}

static uint32_t count_files(const bgi_weights_content *s)
{
    uint32_t files = 0;

    for (size_t first = 0; first < s->count; first += take_file(s, first))
        files++;
    return files;
}

static const char *file_name(char name[FILE_NAME_BYTES], uint32_t number, uint32_t files)
{
    snprintf(name, FILE_NAME_BYTES, "model-%05u-of-%05u.safetensors", number + 1, files);
    return name;
}

static bg_status write_in_folder(const bgi_weights_content *s, const char *folder, const char *name, size_t first,
                                 size_t count, bg_error *error)
{
    char *path = bgi_path_join(folder, name);
    bg_status status = path != NULL ? bg_safetensors_write_fetched(path, s->entries + first, count, metadata, 1,
                                                                   s->fetch, s->user, error)
                                    : bgi_error_memory(error, "a path", strlen(folder));

    free(path);
    return status;
}

static bg_status write_index(const bgi_weights_content *s, const char *folder, uint32_t files, bg_error *error)
{
    char *path = bgi_path_join(folder, BGI_SAFETENSORS_INDEX), *text = NULL, name[FILE_NAME_BYTES];
    bgi_json_writer writer = {0};
    uint64_t total_bytes = 0;
    size_t text_bytes = 0;
    uint32_t file = 0;
    bg_status status = BG_OK;

    for (size_t i = 0; i < s->count; i++)
        total_bytes += bg_type_size_bytes(&s->entries[i].type);
    bgi_json_open(&writer, NULL, '{');
    bgi_json_open(&writer, "metadata", '{');
    bgi_json_count(&writer, "total_size", total_bytes);
    bgi_json_close(&writer, '}');
    bgi_json_open(&writer, "weight_map", '{');
    for (size_t first = 0, count; first < s->count; first += count, file++) {
        count = take_file(s, first);
        for (size_t i = first; i < first + count; i++)
            bgi_json_text(&writer, s->entries[i].name, file_name(name, file, files));
    }
    bgi_json_close(&writer, '}');
    bgi_json_close(&writer, '}');
    if (path == NULL)
        status = bgi_error_memory(error, "a path", strlen(folder));
    if (status == BG_OK)
        status = bgi_json_finish(&writer, &text, &text_bytes, error);
    if (status == BG_OK)
        status = bgi_file_save(path, text, text_bytes, error);
    bgi_json_clear(&writer);
    free(path);
    free(text);
    return status;
}

/* Removes a file of an earlier save. Readers prefer model.safetensors, so a folder must not have an old one and a new
 * index. An old index must not stay with a new model.safetensors either. The function is called only when the new files
 * are complete. */
static bg_status remove_other(const char *folder, const char *name, bg_error *error)
{
    char *path = bgi_path_join(folder, name);
    bg_status status = BG_OK;

    if (path == NULL)
        return bgi_error_memory(error, "a path", strlen(folder));
    if (bgi_file_exists(path) && remove(path) != 0)
        status = bg_error_set(error, BG_ERROR_IO,
                              "%s: this older file cannot be removed, and readers would use it instead of the new ones",
                              path);
    free(path);
    return status;
}

static bg_status save_folder(const bgi_weights_content *s, const char *folder, bg_error *error)
{
    const uint32_t files = count_files(s);
    char name[FILE_NAME_BYTES];
    uint32_t number = 0;

    if (files > BGI_SAFETENSORS_FILE_LIMIT)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: options.folder_bytes %llu makes %u files; a folder can have at most %d", folder,
                            (unsigned long long)s->folder_bytes, files, BGI_SAFETENSORS_FILE_LIMIT);
    BGI_TRY(bgi_folder_create(folder, error));
    if (files == 1) {
        BGI_TRY(write_in_folder(s, folder, BGI_SAFETENSORS_MODEL, 0, s->count, error));
        return remove_other(folder, BGI_SAFETENSORS_INDEX, error);
    }
    for (size_t first = 0, count; first < s->count; first += count, number++) {
        count = take_file(s, first);
        BGI_TRY(write_in_folder(s, folder, file_name(name, number, files), first, count, error));
    }
    BGI_TRY(write_index(s, folder, files, error));
    return remove_other(folder, BGI_SAFETENSORS_MODEL, error);
}

/* ---- the whole ---- */

/* Whether the path names a folder: it has no ending, or ends in '/'. */
static bool names_folder(const char *path)
{
    const char *name = strrchr(path, '/');

    return bgi_text_ends_with(path, "/") || strchr(name != NULL ? name + 1 : path, '.') == NULL;
}

bg_status bgi_weights_write(const char *path, const bgi_weights_content *s, bg_error *error)
{
    if (bgi_text_ends_with(path, ".safetensors"))
        return bg_safetensors_write_fetched(path, s->entries, s->count, metadata, 1, s->fetch, s->user, error);
    if (bgi_text_ends_with(path, ".npz"))
        return bgi_npz_write(path, s->entries, s->count, s->fetch, s->user, error);
    if (names_folder(path))
        return save_folder(s, path, error);
    return bg_error_set(
        error, BG_ERROR_INVALID,
        "%s: the name must end in .safetensors or .npz, or be that of a folder (a name without an ending, or "
        "with `/` at its end)",
        path);
}
