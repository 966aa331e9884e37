/*
 * weights_save.c: saves weights to a file, or to a folder of files with an index (weights_write.c). Values are fetched
 * one at a time from the session that has them, and converted while they are written.
 */
#include <brigade/weights.h>

#include <stdlib.h>
#include <string.h>

#include "checkpoint/weights_names.h"
#include "checkpoint/weights_source.h"
#include "checkpoint/weights_write.h"
#include "core/error.h"
#include "core/progress.h"
#include "runtime/state.h"

/* A weight with its new name and type. */
typedef struct named {
    bg_safetensors_entry entry;
    const char *name; /* the model's */
} named;

typedef struct saving {
    bg_weights *weights;
    const bg_weights_save_options *options;
    bgi_arena arena;
    named *items;                  /* sorted by their names in the file */
    bg_safetensors_entry *entries; /* the entries of `items` */
    size_t count;
    bgi_progress progress;
    void *room; /* a converted value */
    size_t room_bytes;
} saving;

void bg_weights_save_options_init(bg_weights_save_options *options, size_t struct_bytes)
{
    const bg_weights_save_options made = {.struct_bytes = struct_bytes};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* ---- saved tensors ---- */

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
                            "there are no weights to save; train a session, or set weights with bg_weights_set");
    qsort(s->items, s->count, sizeof *s->items, compare_named);
    for (size_t i = 0; i < s->count; i++) {
        s->entries[i] = s->items[i].entry;
        s->progress.total += bg_type_size_bytes(&s->entries[i].type);
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
    BGI_TRY(bgi_progress_begin(&s->progress, entry->name, size_bytes, error));
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

/* ---- the whole ---- */

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

    s.progress = (bgi_progress){s.options->progress, s.options->progress_user, "the save", 0, 0};
    BGI_TRY(bgi_weights_renames_check(s.options->renames, s.options->rename_count, error));
    if (s.options->floats != BG_DTYPE_NONE && !bg_dtype_is_float(s.options->floats))
        return bg_error_set(error, BG_ERROR_INVALID, "options.floats must be a type of floats, or BG_DTYPE_NONE");
    status = list_weights(&s, error);
    if (status == BG_OK)
        status = bgi_weights_write(path, &(bgi_weights_content){s.entries, s.count, s.options->folder_bytes, fetch, &s},
                                   error);
    bgi_arena_clear(&s.arena);
    free(s.room);
    return status;
}
