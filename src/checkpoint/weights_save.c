/*
 * weights_save.c: weights to a file, or to a folder of files with an index. Values are fetched one at a time, where
 * they are at home, and converted on the way.
 */
#include <brigade/weights.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/weights_names.h"
#include "checkpoint/weights_source.h"
#include "core/error.h"
#include "core/file.h"
#include "formats/json_write.h"
#include "formats/npz.h"
#include "formats/safetensors_folder.h"
#include "runtime/state.h"

/* A weight with the name and the type that it gets. */
typedef struct named {
    bg_safetensors_entry entry;
    const char *name; /* the model's */
} named;

typedef struct saving {
    bg_weights *weights;
    const bg_weights_save_options *options;
    bgi_arena arena;
    named *items;                  /* by their names in the file */
    bg_safetensors_entry *entries; /* the same */
    size_t count;
    void *room; /* a converted value */
    size_t room_bytes;
} saving;

/* transformers refuses a file that does not say from which framework its tensors are. */
static const bg_safetensors_metadata metadata[] = {{.key = "format", .value = "pt"}};

void bg_weights_save_options_init(bg_weights_save_options *options, size_t struct_bytes)
{
    const bg_weights_save_options made = {.struct_bytes = struct_bytes};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* ---- what is saved ---- */

static int compare_named(const void *a, const void *b)
{
    const named *x = a, *y = b;

    return strcmp(x->entry.name, y->entry.name);
}

static const char *name_in_file(saving *s, const char *name)
{
    const bg_weights_save_options *options = s->options;
    const char *renamed = bgi_weights_rename_name(options->renames, options->rename_count, false, name, &s->arena);

    if (renamed == NULL)
        return NULL;
    return bgi_arena_format(&s->arena, "%s%s", options->prefix != NULL ? options->prefix : "", renamed);
}

static bg_status list_weights(saving *s, bg_error *error)
{
    const uint32_t most = bgi_weights_end(s->weights);

    s->items = bgi_arena_allocate(&s->arena, (size_t)most + 1, sizeof *s->items);
    s->entries = bgi_arena_allocate(&s->arena, (size_t)most + 1, sizeof *s->entries);
    if (s->items == NULL || s->entries == NULL)
        return bgi_error_memory(error, "names of weights", most * sizeof *s->items);
    for (uint32_t i = 0; i < most; i++) {
        const bgi_tensor tensor = bgi_weights_tensor(s->weights, i);
        named *next = &s->items[s->count];
        if (tensor.name == NULL || (tensor.role != BG_ROLE_PARAMETER && tensor.role != BG_ROLE_BUFFER))
            continue;
        *next = (named){.entry = {.name = name_in_file(s, tensor.name), .type = tensor.type},
                        .name = bgi_arena_string(&s->arena, tensor.name)};
        if (next->entry.name == NULL || next->name == NULL)
            return bgi_error_memory(error, "names of weights", 0);
        if (s->options->floats != BG_DTYPE_NONE && bg_dtype_is_float(tensor.type.dtype))
            next->entry.type.dtype = s->options->floats;
        s->count++;
    }
    if (s->count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "there is no weight to save; a session that trains makes them, or bg_weights_set");
    qsort(s->items, s->count, sizeof *s->items, compare_named);
    for (size_t i = 0; i < s->count; i++) {
        s->entries[i] = s->items[i].entry;
        if (i > 0 && compare_named(&s->items[i - 1], &s->items[i]) == 0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "weights `%.200s` and `%.200s` would both be `%.200s` in the file",
                                s->items[i - 1].name, s->items[i].name, s->entries[i].name);
    }
    return BG_OK;
}

static bg_status fetch(void *user, const bg_safetensors_entry *entry, const void **out_data, bg_error *error)
{
    saving *s = user;
    const named key = {.entry = *entry};
    const named *found = bsearch(&key, s->items, s->count, sizeof *s->items, compare_named);
    const size_t size_bytes = bg_type_size_bytes(&entry->type);
    bg_weight weight;

    if (found == NULL)
        return bg_error_set(error, BG_ERROR_INTERNAL, "weight `%.200s` was not listed", entry->name);
    BGI_TRY(bg_weights_find(s->weights, found->name, &weight, error));
    *out_data = weight.data;
    if (weight.type.dtype == entry->type.dtype)
        return BG_OK;
    if (size_bytes > s->room_bytes) {
        free(s->room);
        s->room = malloc(size_bytes);
        s->room_bytes = s->room != NULL ? size_bytes : 0;
    }
    if (s->room == NULL)
        return bgi_error_memory(error, found->name, size_bytes);
    *out_data = s->room;
    return bgi_weights_convert(found->name, weight.type.dtype, weight.data, bg_type_element_count(&weight.type),
                               entry->type.dtype, s->room, error);
}

/* ---- folders ---- */

enum { FILE_NAME_BYTES = 64 };

/* How many of the entries from `first` on go into one file. */
static size_t take_file(const saving *s, size_t first)
{
    uint64_t bytes = 0;
    size_t count = 0;

    while (first + count < s->count) {
        const uint64_t next = bg_type_size_bytes(&s->entries[first + count].type);
        if (count > 0 && s->options->folder_bytes > 0 && bytes + next > s->options->folder_bytes)
            break;
        bytes += next;
        count++;
    }
    return count;
}

static uint32_t count_files(const saving *s)
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

static bg_status write_in_folder(saving *s, const char *folder, const char *name, size_t first, size_t count,
                                 bg_error *error)
{
    char *path = bgi_path_join(folder, name);
    bg_status status = path != NULL
                           ? bg_safetensors_write_fetched(path, s->entries + first, count, metadata, 1, fetch, s, error)
                           : bgi_error_memory(error, "a path", strlen(folder));

    free(path);
    return status;
}

static bg_status write_index(const saving *s, const char *folder, uint32_t files, bg_error *error)
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

/* A reader takes model.safetensors when it is there, so an old one must not stay beside an index, nor an index beside
 * it: the one that is not written is removed last. */
static bg_status remove_other(const char *folder, const char *name, bg_error *error)
{
    char *path = bgi_path_join(folder, name);
    bg_status status = BG_OK;

    if (path == NULL)
        return bgi_error_memory(error, "a path", strlen(folder));
    if (bgi_file_exists(path) && remove(path) != 0)
        status = bg_error_set(error, BG_ERROR_IO, "%s: cannot be removed, and readers would take it", path);
    free(path);
    return status;
}

static bg_status save_folder(saving *s, const char *folder, bg_error *error)
{
    const uint32_t files = count_files(s);
    char name[FILE_NAME_BYTES];
    uint32_t number = 0;

    if (files > BGI_SAFETENSORS_FILE_LIMIT)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: options.folder_bytes %llu makes %u files; a folder has at most %d", folder,
                            (unsigned long long)s->options->folder_bytes, files, BGI_SAFETENSORS_FILE_LIMIT);
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

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* A path without an ending, or one that ends in '/', is a folder. */
static bool names_folder(const char *path)
{
    const char *name = strrchr(path, '/');

    return ends_with(path, "/") || strchr(name != NULL ? name + 1 : path, '.') == NULL;
}

static bg_status save(saving *s, const char *path, bg_error *error)
{
    if (ends_with(path, ".safetensors"))
        return bg_safetensors_write_fetched(path, s->entries, s->count, metadata, 1, fetch, s, error);
    if (ends_with(path, ".npz"))
        return bgi_npz_write(path, s->entries, s->count, fetch, s, error);
    if (names_folder(path))
        return save_folder(s, path, error);
    return bg_error_set(
        error, BG_ERROR_INVALID,
        "%s: expected a name that ends in .safetensors or .npz, or a folder (a name without an ending, or "
        "with `/` at its end)",
        path);
}

bg_status bg_weights_save(bg_weights *weights, const char *path, const bg_weights_save_options *options,
                          bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(path, "path", __func__, error));
    if (options != NULL)
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_weights_save_options",
                                 "bg_weights_save_defaults()", error));

    const bg_weights_save_options defaults = bg_weights_save_defaults();
    saving s = {.weights = weights, .options = options != NULL ? options : &defaults};
    bg_status status;

    BGI_TRY(bgi_weights_renames_check(s.options->renames, s.options->rename_count, error));
    if (s.options->floats != BG_DTYPE_NONE && !bg_dtype_is_float(s.options->floats))
        return bg_error_set(error, BG_ERROR_INVALID, "options.floats: expected a type of floats, or BG_DTYPE_NONE");
    status = list_weights(&s, error);
    if (status == BG_OK)
        status = save(&s, path, error);
    bgi_arena_clear(&s.arena);
    free(s.room);
    return status;
}
