/*
 * stored.c: a file or a folder as one list of tensors. A folder with checkpoints stands for its latest one, any other
 * for the model that its files make up.
 */
#include "checkpoint/stored.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/file.h"
#include "formats/safetensors.h"

enum { PART_BYTES = 1 << 18 };

static int compare_tensors(const void *a, const void *b)
{
    return strcmp(((const bgi_stored_tensor *)a)->name, ((const bgi_stored_tensor *)b)->name);
}

static void list_file(bgi_stored *s, const bg_safetensors *file)
{
    for (size_t i = 0; i < bg_safetensors_count(file); i++) {
        const bg_safetensors_entry *entry = bg_safetensors_at(file, i);
        const bgi_safetensors_storage *storage = bgi_safetensors_storage_of(entry);
        size_t size_bytes = storage->element_bytes;

        for (uint32_t k = 0; k < entry->type.rank; k++)
            size_bytes *= (size_t)entry->type.dims[k];
        s->tensors[s->count++] = (bgi_stored_tensor){.name = entry->name,
                                                     .type = entry->type,
                                                     .storage = storage->name,
                                                     .size_bytes = size_bytes,
                                                     .file = file,
                                                     .entry = entry};
    }
}

static bg_status list_tensors(bgi_stored *s, bg_error *error)
{
    const bg_safetensors *const *files =
        s->folder != NULL ? (const bg_safetensors *const *)s->folder->files : (const bg_safetensors *const *)&s->file;
    const uint32_t file_count = s->folder != NULL ? s->folder->file_count : 1;
    size_t count = 0;

    for (uint32_t i = 0; i < file_count; i++)
        count += bg_safetensors_count(files[i]);
    s->tensors = calloc(count + 1, sizeof *s->tensors);
    if (s->tensors == NULL)
        return bgi_error_memory(error, "names of tensors", count * sizeof *s->tensors);
    for (uint32_t i = 0; i < file_count; i++)
        list_file(s, files[i]);
    qsort(s->tensors, s->count, sizeof *s->tensors, compare_tensors);
    for (size_t i = 1; i < s->count; i++)
        if (compare_tensors(&s->tensors[i - 1], &s->tensors[i]) == 0)
            return bg_error_set(error, BG_ERROR_PARSE, "%s: tensor `%.200s` is in two of its files", s->path,
                                s->tensors[i].name);
    return BG_OK;
}

/* The path of the latest checkpoint of a folder; *out stays NULL when it has none. */
static bg_status find_latest(const char *folder, char **out, bg_error *error)
{
    bgi_checkpoint_list list = {0};
    char name[BGI_CHECKPOINT_NAME_BYTES];
    bg_status status = bgi_checkpoint_find(folder, &list, error);

    if (status == BG_OK && list.count > 0) {
        *out = bgi_path_join(folder, bgi_checkpoint_name(list.steps[0], name));
        if (*out == NULL)
            status = bgi_error_memory(error, "a path", strlen(folder));
    }
    free(list.steps);
    return status;
}

static bg_status open_folder(bgi_stored *s, bg_error *error)
{
    bg_error inner = {0};
    const bg_status status = bgi_safetensors_folder_open(s->path, &s->folder, &inner);

    if (status == BG_ERROR_NOT_FOUND && strstr(inner.message, BGI_SAFETENSORS_INDEX) != NULL)
        return bg_error_set(error, status,
                            "%s: has no checkpoint (checkpoint_train_step_<n>.safetensors), no " BGI_SAFETENSORS_MODEL
                            " and no " BGI_SAFETENSORS_INDEX,
                            s->path);
    return status == BG_OK ? BG_OK : bg_error_set(error, status, "%s", inner.message);
}

static bg_status open_path(bgi_stored *s, const char *path, bg_error *error)
{
    struct stat state;
    const bool is_folder = stat(path, &state) == 0 && S_ISDIR(state.st_mode);

    if (is_folder)
        BGI_TRY(find_latest(path, &s->path, error));
    if (is_folder && s->path == NULL) {
        s->path = strdup(path);
        if (s->path == NULL)
            return bgi_error_memory(error, "a path", strlen(path));
        BGI_TRY(open_folder(s, error));
    } else {
        if (s->path == NULL)
            s->path = strdup(path);
        if (s->path == NULL)
            return bgi_error_memory(error, "a path", strlen(path));
        BGI_TRY(bgi_safetensors_open_header(s->path, true, &s->file, error));
    }
    s->is_checkpoint = bgi_stored_text(s, BGI_CHECKPOINT_VERSION) != NULL;
    return list_tensors(s, error);
}

bg_status bgi_stored_open(const char *path, bgi_stored **out, bg_error *error)
{
    bgi_stored *s = calloc(1, sizeof *s);
    bg_status status;

    if (s == NULL)
        return bgi_error_memory(error, "a list of tensors", sizeof *s);
    status = open_path(s, path, error);
    if (status == BG_OK)
        *out = s;
    else
        bgi_stored_close(s);
    return status;
}

void bgi_stored_close(bgi_stored *s)
{
    if (s == NULL)
        return;
    bg_safetensors_destroy(s->file);
    bgi_safetensors_folder_close(s->folder);
    free(s->tensors);
    free(s->path);
    free(s);
}

const bgi_stored_tensor *bgi_stored_find(const bgi_stored *s, const char *name)
{
    const bgi_stored_tensor key = {.name = name};

    return s->count > 0 ? bsearch(&key, s->tensors, s->count, sizeof *s->tensors, compare_tensors) : NULL;
}

const char *bgi_stored_text(const bgi_stored *s, const char *key)
{
    return s->file != NULL ? bg_safetensors_metadata_find(s->file, key) : NULL;
}

/* ---- what it says ---- */

bg_status bgi_stored_head(const bgi_stored *s, bg_checkpoint *out, bg_error *error)
{
    bg_checkpoint found = {0};
    bg_status status = bgi_checkpoint_read_head(s->file, &found, error);

    if (status == BG_OK) {
        *out = found;
        return BG_OK;
    }
    bg_checkpoint_clear(&found);
    return bg_error_context(error, status, "%s", s->path);
}

bg_status bgi_stored_read(const bgi_stored *s, const bgi_stored_tensor *tensor, size_t offset_bytes, size_t size_bytes,
                          void *out, bg_error *error)
{
    (void)s;
    return bg_safetensors_read(tensor->file, tensor->entry, offset_bytes, size_bytes, out, error);
}

/* Every byte, so that a disk that cannot read one says so. */
static bg_status read_all(const bgi_stored *s, bg_error *error)
{
    unsigned char *part = malloc(PART_BYTES);
    bg_status status = part != NULL ? BG_OK : bgi_error_memory(error, "a part of a tensor", PART_BYTES);

    for (size_t i = 0; status == BG_OK && i < s->count; i++) {
        const bgi_stored_tensor *tensor = &s->tensors[i];
        for (size_t at = 0, some; status == BG_OK && at < tensor->size_bytes; at += some) {
            some = tensor->size_bytes - at < PART_BYTES ? tensor->size_bytes - at : PART_BYTES;
            status = bgi_stored_read(s, tensor, at, some, part, error);
        }
    }
    free(part);
    return status;
}

bg_status bgi_stored_check(const bgi_stored *s, bg_error *error)
{
    bg_checkpoint head = {0};
    bg_status status;

    if (!s->is_checkpoint)
        return read_all(s, error);
    status = bgi_checkpoint_check_sum(s->file, "checkpoint", error);
    if (status != BG_OK)
        return bg_error_context(error, status, "%s", s->path);
    BGI_TRY(bgi_stored_head(s, &head, error));
    bg_checkpoint_clear(&head);
    return BG_OK;
}
