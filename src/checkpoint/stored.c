/*
 * stored.c: reads a file or a folder as one list of tensors. For a folder with checkpoints it reads the latest one, and
 * for another folder the model in its files.
 */
#include "checkpoint/stored.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/file.h"
#include "formats/safetensors.h"

enum { PART_BYTES = 1 << 18, MOST_PARTS = 65536 };

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

/* Finds the path of the latest checkpoint of a folder; *out stays NULL if there is none. */
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

/* ---- a manifest ---- */

static bg_status fail_manifest(const bgi_stored *s, const char *key, const char *value, const char *expected,
                               bg_error *error)
{
    return bg_error_set(error, BG_ERROR_PARSE, "%s: metadata `%.200s`: %s%.60s%s, but it must be %s", s->path, key,
                        value != NULL ? "`" : "", value != NULL ? value : "is missing", value != NULL ? "`" : "",
                        expected);
}

/* Reads the checksum and host of a part, as in "0123456789abcdef host". */
static bg_status list_part(bgi_stored *s, uint64_t step, const char *tag, uint32_t number, bg_error *error)
{
    bgi_stored_part *part = &s->parts[number];
    char key[32], name[BGI_CHECKPOINT_PART_BYTES];
    const char *text;

    snprintf(key, sizeof key, BGI_CHECKPOINT_PART "%" PRIu32, number);
    text = bg_safetensors_metadata_find(s->file, key);
    if (text == NULL || strspn(text, "0123456789abcdef") != BGI_CHECKPOINT_SUM_BYTES - 1 ||
        text[BGI_CHECKPOINT_SUM_BYTES - 1] != ' ')
        return fail_manifest(s, key, text, "a checksum and a host", error);
    memcpy(part->sum, text, BGI_CHECKPOINT_SUM_BYTES - 1);
    part->host = text + BGI_CHECKPOINT_SUM_BYTES;
    part->name = strdup(bgi_checkpoint_part_name(step, tag, number, s->part_count, name));
    return part->name != NULL ? BG_OK : bgi_error_memory(error, "a name", sizeof name);
}

static bg_status list_parts(bgi_stored *s, bg_error *error)
{
    const char *tag = bg_safetensors_metadata_find(s->file, BGI_CHECKPOINT_TAG);
    const char *text = bg_safetensors_metadata_find(s->file, BGI_CHECKPOINT_PARTS);
    uint64_t step = 0, count = 0;

    if (text == NULL || !bgi_checkpoint_number(text, &count) || count < 1 || count > MOST_PARTS)
        return fail_manifest(s, BGI_CHECKPOINT_PARTS, text, "a number from 1 to 65536", error);
    if (tag == NULL || !bgi_checkpoint_is_tag(tag))
        return fail_manifest(s, BGI_CHECKPOINT_TAG, tag, "8 hexadecimal digits", error);
    BGI_TRY(bgi_checkpoint_read_number(s->file, BGI_CHECKPOINT_STEP, &step, error));
    s->parts = calloc(count, sizeof *s->parts);
    if (s->parts == NULL)
        return bgi_error_memory(error, "parts of a checkpoint", count * sizeof *s->parts);
    s->part_count = (uint32_t)count;
    for (uint32_t i = 0; i < s->part_count; i++)
        BGI_TRY(list_part(s, step, tag, i, error));
    return BG_OK;
}

static bg_status list_manifest(bgi_stored *s, bg_error *error)
{
    const size_t length = sizeof BGI_CHECKPOINT_TENSOR - 1, count = bg_safetensors_metadata_count(s->file);

    BGI_TRY(list_parts(s, error));
    if (bg_safetensors_count(s->file) > 0)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: the file has both tensors and parts but must have only one of them", s->path);
    s->tensors = calloc(count + 1, sizeof *s->tensors);
    if (s->tensors == NULL)
        return bgi_error_memory(error, "names of tensors", count * sizeof *s->tensors);
    for (size_t i = 0; i < count; i++) {
        const bg_safetensors_metadata *pair = bg_safetensors_metadata_at(s->file, i);
        bgi_stored_tensor *tensor = &s->tensors[s->count];
        bg_status status;
        if (strncmp(pair->key, BGI_CHECKPOINT_TENSOR, length) != 0)
            continue;
        tensor->name = pair->key + length;
        s->count++;
        status = bgi_runs_parse(pair->value, s->part_count, &tensor->type, &tensor->runs, error);
        if (status != BG_OK)
            return bg_error_context(error, status, "%s: metadata `%.200s`", s->path, pair->key);
        tensor->size_bytes = bg_type_size_bytes(&tensor->type);
        tensor->storage = bgi_safetensors_dtype_name(tensor->type.dtype);
    }
    qsort(s->tensors, s->count, sizeof *s->tensors, compare_tensors);
    return BG_OK;
}

/* Checks that a part's file is the one that the manifest names and has the declared content. */
static bg_status match_part(const bgi_stored *s, uint32_t number, const char *path, bg_error *error)
{
    const bgi_stored_part *part = &s->parts[number];
    const char *sum = bg_safetensors_metadata_find(part->file, BGI_CHECKPOINT_SUM);
    size_t count = 0;

    if (sum == NULL || strcmp(sum, part->sum) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: the checksum is %.40s, but %s needs the part with %s", path,
                            sum != NULL ? sum : "nothing", s->path, part->sum);
    for (size_t i = 0; i < s->count; i++) {
        const bgi_stored_tensor *tensor = &s->tensors[i];
        const int64_t elements = bgi_runs_elements(&tensor->runs, number);
        const bg_safetensors_entry *entry = elements > 0 ? bg_safetensors_find(part->file, tensor->name) : NULL;
        if (elements == 0)
            continue;
        count++;
        if (entry == NULL || entry->type.dtype != tensor->type.dtype || bg_type_element_count(&entry->type) != elements)
            return bg_error_set(error, BG_ERROR_PARSE, "%s: tensor `%.200s` must have %" PRId64 " elements of %s", path,
                                tensor->name, elements, bg_dtype_name(tensor->type.dtype));
    }
    if (count != bg_safetensors_count(part->file))
        return bg_error_set(error, BG_ERROR_PARSE, "%s: the file has %zu tensors, but %s needs %zu", path,
                            bg_safetensors_count(part->file), s->path, count);
    return BG_OK;
}

static char *path_beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash != NULL ? strndup(path, (size_t)(slash - path) + (slash == path)) : strdup("");
    char *beside = folder != NULL ? bgi_path_join(folder, name) : NULL;

    free(folder);
    return beside;
}

static bg_status open_parts(bgi_stored *s, bg_error *error)
{
    for (uint32_t i = 0; i < s->part_count; i++) {
        char *path = path_beside(s->path, s->parts[i].name);
        bg_error inner = {0};
        bg_status status = path != NULL ? bg_safetensors_open_header(path, &s->parts[i].file, &inner)
                                        : bgi_error_memory(&inner, "a path", strlen(s->path));

        if (status == BG_OK)
            status = match_part(s, i, path, &inner);
        free(path);
        if (status != BG_OK && status != BG_ERROR_NOT_FOUND)
            return bg_error_set(error, status, "%s", inner.message);
    }
    return BG_OK;
}

bg_status bgi_stored_require_parts(const bgi_stored *s, bg_error *error)
{
    for (uint32_t i = 0; i < s->part_count; i++)
        if (s->parts[i].file == NULL)
            return bg_error_set(error, BG_ERROR_NOT_FOUND,
                                "%s: part %" PRIu32 " of %" PRIu32
                                ", `%s`, is missing; host %.200s wrote it: copy it into this folder",
                                s->path, i, s->part_count, s->parts[i].name, s->parts[i].host);
    return BG_OK;
}

static bg_status list_content(bgi_stored *s, bg_error *error)
{
    s->is_checkpoint = bgi_stored_text(s, BGI_CHECKPOINT_VERSION) != NULL;
    if (!s->is_checkpoint || bgi_stored_text(s, BGI_CHECKPOINT_PARTS) == NULL)
        return list_tensors(s, error);
    BGI_TRY(list_manifest(s, error));
    return open_parts(s, error);
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
    return list_content(s, error);
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

/* Lists the tensors of an opened file. Takes ownership of the file, even after an error. */
static bg_status keep_file(const char *path, bg_safetensors *file, bgi_stored **out, bg_error *error)
{
    bgi_stored *s = calloc(1, sizeof *s);
    bg_status status;

    if (s == NULL) {
        bg_safetensors_destroy(file);
        return bgi_error_memory(error, "a list of tensors", sizeof *s);
    }
    s->file = file;
    s->path = strdup(path);
    status = s->path != NULL ? list_content(s, error) : bgi_error_memory(error, "a list of tensors", sizeof *s);
    if (status == BG_OK)
        *out = s;
    else
        bgi_stored_close(s);
    return status;
}

bg_status bgi_stored_open_checkpoint(const char *path, bgi_stored **out, bg_error *error)
{
    bg_safetensors *file = NULL;

    BGI_TRY(bg_safetensors_open_header(path, &file, error));
    return keep_file(path, file, out, error);
}

bg_status bgi_stored_open_manifest(const char *path, const void *content, size_t size_bytes, bgi_stored **out,
                                   bg_error *error)
{
    bg_safetensors *file = NULL;

    BGI_TRY(bgi_safetensors_parse(path, content, size_bytes, false, &file, error));
    return keep_file(path, file, out, error);
}

void bgi_stored_close(bgi_stored *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->part_count; i++) {
        bg_safetensors_destroy(s->parts[i].file);
        free(s->parts[i].name);
    }
    for (size_t i = 0; i < s->count; i++)
        bgi_runs_clear(&s->tensors[i].runs);
    free(s->parts);
    free(s->room);
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

/* ---- description ---- */

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

/* ---- values ---- */

/* Copies the elements of a run that are among first .. end - 1 to `out`. `values` has the run's elements. If `values`
 * is NULL, the elements are read from the entry, where the run begins at element `at`. */
static bg_status copy_run(const bgi_stored *s, const bgi_run *run, const bg_safetensors_entry *entry, int64_t at,
                          size_t element, int64_t first, int64_t end, const char *values, char *out, bg_error *error)
{
    const bg_safetensors *file = s->parts[run->part].file;
    const int64_t most = PART_BYTES / (int64_t)element;

    for (int64_t k = run->count > 1 && first > run->first ? (first - run->first) / run->stride : 0; k < run->count;) {
        const int64_t whole = run->first + k * run->stride;
        const int64_t skip = first > whole ? first - whole : 0;
        const int64_t stop = end - whole < run->length ? end - whole : run->length;
        const int64_t rows = run->length < most ? most / run->length : 1;
        const int64_t some = rows < run->count - k ? rows : run->count - k;

        if (whole >= end)
            return BG_OK;
        if (skip >= stop) {
            k++;
            continue;
        }
        if (values == NULL && (some == 1 || run->count == 1)) { /* long ranges are read into `out` without the buffer */
            BGI_TRY(bg_safetensors_read(file, entry, (size_t)(at + k * run->length + skip) * element,
                                        (size_t)(stop - skip) * element, out + (size_t)(whole + skip - first) * element,
                                        error));
            k++;
            continue;
        }
        if (values == NULL)
            BGI_TRY(bg_safetensors_read(file, entry, (size_t)(at + k * run->length) * element,
                                        (size_t)(some * run->length) * element, s->room, error));
        for (int64_t j = k; j < k + some; j++) {
            const int64_t begin = run->first + j * run->stride, from = first > begin ? first : begin;
            const int64_t to = end < begin + run->length ? end : begin + run->length;
            const char *row = values != NULL ? values + (size_t)(j * run->length) * element
                                             : (const char *)s->room + (size_t)((j - k) * run->length) * element;
            if (from < to)
                memcpy(out + (size_t)(from - first) * element, row + (size_t)(from - begin) * element,
                       (size_t)(to - from) * element);
        }
        k += some;
    }
    return BG_OK;
}

bg_status bgi_stored_read_part(bgi_stored *s, const bgi_stored_tensor *tensor, uint32_t part, int64_t first,
                               int64_t end, const void *values, void *out, bg_error *error)
{
    const size_t element = bg_dtype_size_bytes(tensor->type.dtype);
    const bg_safetensors_entry *entry = NULL;
    int64_t at = 0;

    if (values == NULL && s->parts[part].file == NULL)
        return bgi_stored_require_parts(s, error);
    if (values == NULL)
        entry = bg_safetensors_find(s->parts[part].file, tensor->name);
    if (s->room == NULL)
        s->room = malloc(PART_BYTES);
    if (s->room == NULL)
        return bgi_error_memory(error, "a part of a tensor", PART_BYTES);
    for (size_t i = 0; i < tensor->runs.count; i++) {
        const bgi_run *run = &tensor->runs.items[i];
        if (run->part != part)
            continue;
        BGI_TRY(copy_run(s, run, entry, at, element, first, end,
                         values != NULL ? (const char *)values + (size_t)at * element : NULL, out, error));
        at += run->length * run->count;
    }
    return BG_OK;
}

/* Whether a part has elements among first .. end - 1. */
static bool has_some(const bgi_stored_tensor *tensor, uint32_t part, int64_t first, int64_t end)
{
    for (size_t i = 0; i < tensor->runs.count; i++) {
        const bgi_run *run = &tensor->runs.items[i];
        if (run->part == part && run->first < end && run->first + (run->count - 1) * run->stride + run->length > first)
            return true;
    }
    return false;
}

bg_status bgi_stored_read(bgi_stored *s, const bgi_stored_tensor *tensor, size_t offset_bytes, size_t size_bytes,
                          void *out, bg_error *error)
{
    const size_t element = bg_dtype_size_bytes(tensor->type.dtype);

    if (tensor->entry != NULL)
        return bg_safetensors_read(tensor->file, tensor->entry, offset_bytes, size_bytes, out, error);
    if (offset_bytes % element != 0 || size_bytes % element != 0 || offset_bytes > tensor->size_bytes ||
        size_bytes > tensor->size_bytes - offset_bytes)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: tensor `%.200s`: %zu bytes from byte %zu on were requested, but it has %zu", s->path,
                            tensor->name, size_bytes, offset_bytes, tensor->size_bytes);
    for (uint32_t part = 0; part < s->part_count; part++) {
        const int64_t first = (int64_t)(offset_bytes / element), end = first + (int64_t)(size_bytes / element);
        if (has_some(tensor, part, first, end))
            BGI_TRY(bgi_stored_read_part(s, tensor, part, first, end, NULL, out, error));
    }
    return BG_OK;
}

/* Reads every byte, so that disk errors are found. */
static bg_status read_all(bgi_stored *s, bg_error *error)
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

bg_status bgi_stored_check_part(const bgi_stored *s, uint32_t part, bg_error *error)
{
    const bg_status status = bgi_checkpoint_check_sum(s->parts[part].file, "part of a checkpoint", error);

    return status == BG_OK ? BG_OK : bg_error_context(error, status, "%s: part `%s`", s->path, s->parts[part].name);
}

bg_status bgi_stored_check(bgi_stored *s, bg_error *error)
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
    BGI_TRY(bgi_stored_require_parts(s, error));
    for (uint32_t i = 0; i < s->part_count; i++)
        BGI_TRY(bgi_stored_check_part(s, i, error));
    return BG_OK;
}
