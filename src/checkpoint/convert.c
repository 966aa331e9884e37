/*
 * convert.c: converts checkpoints to weights that other frameworks read, and back. Tensors are in memory one at a time.
 *
 *     checkpoint --> parameters and buffers, renamed, converted --> file, or folder with an index
 *     weights    --> renamed, what is missing from `like`       --> checkpoint_train_step_<n>.safetensors
 */
#include "checkpoint/stored.h"

#include <brigade/weights.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/weights_names.h"
#include "checkpoint/weights_source.h"
#include "checkpoint/weights_write.h"
#include "core/error.h"
#include "core/file.h"
#include "formats/safetensors.h"

/* A tensor of the result, with its new name and type. */
typedef struct converted {
    bg_safetensors_entry entry;
    bgi_stored *source;
    const bgi_stored_tensor *tensor;
    bg_dtype from; /* the type in which the tensor's elements are read */
} converted;

typedef struct conversion {
    bgi_stored *source;
    bgi_stored *like; /* NULL: none */
    const bgi_convert_options *options;
    bgi_arena arena;
    converted *items; /* sorted by their new names */
    bg_safetensors_entry *entries;
    size_t count, like_count; /* `like_count`: the number of tensors from `like` */
    bg_safetensors_metadata *metadata;
    size_t metadata_count;
    char step[24], seed[24], version[24], sum[BGI_CHECKPOINT_SUM_BYTES];
    void *room[2]; /* buffers for a value before and after its conversion */
    size_t room_bytes[2];
    bg_error *error;
} conversion;

static int compare_items(const void *a, const void *b)
{
    return strcmp(((const converted *)a)->entry.name, ((const converted *)b)->entry.name);
}

/* ---- which tensors ---- */

/* Renames a tensor as the options say; *out is NULL if the name lacks the prefix, and the tensor is then skipped. */
static bg_status rename_tensor(conversion *c, const char *name, const char **out)
{
    const bgi_convert_options *o = c->options;
    const char *prefix = o->prefix != NULL ? o->prefix : "", *renamed;
    const size_t length = strlen(prefix);

    *out = NULL;
    if (o->to_checkpoint && strncmp(name, prefix, length) != 0)
        return BG_OK;
    renamed = bgi_weights_rename_name(o->renames, o->rename_count, o->to_checkpoint,
                                      o->to_checkpoint ? name + length : name, &c->arena);
    if (renamed != NULL)
        *out = o->to_checkpoint ? renamed : bgi_arena_format(&c->arena, "%s%s", prefix, renamed);
    return *out != NULL ? BG_OK : bgi_error_memory(c->error, "names of tensors", strlen(name));
}

/* Whether a tensor is part of the model. Checkpoints also contain the optimizer's state. */
static bg_status is_of_model(const bgi_stored *source, const char *name, bool *out, bg_error *error)
{
    bgi_checkpoint_record about = {0};

    *out = true;
    if (!source->is_checkpoint)
        return BG_OK;
    BGI_TRY(bgi_checkpoint_find_record(source->file, name, &about, error));
    *out = about.role == BG_ROLE_PARAMETER || about.role == BG_ROLE_BUFFER;
    return BG_OK;
}

static bg_status add_item(conversion *c, bgi_stored *source, const bgi_stored_tensor *tensor, const char *name)
{
    bg_type type = tensor->type;

    if (strcmp(tensor->storage, "BOOL") == 0)
        type.dtype = BG_UINT8; /* booleans are bytes of 0 and 1 */
    if (type.dtype == BG_DTYPE_NONE)
        return bg_error_set(c->error, BG_ERROR_UNSUPPORTED,
                            "%s: tensor `%.200s` is %s, which Brigade does not support; leave it out with --ignore",
                            source->path, tensor->name, tensor->storage);
    c->items[c->count] = (converted){.source = source, .tensor = tensor, .from = type.dtype};
    if (!c->options->to_checkpoint && c->options->floats != BG_DTYPE_NONE && bg_dtype_is_float(type.dtype))
        type.dtype = c->options->floats;
    c->items[c->count++].entry = (bg_safetensors_entry){.name = name, .type = type};
    return BG_OK;
}

/* Sets the item's type to that of the tensor of the same name in `like`. */
static bg_status fit_to_like(conversion *c, converted *item)
{
    const bgi_stored_tensor *other = bgi_stored_find(c->like, item->entry.name);
    char have[BG_TYPE_TEXT_BYTES], wanted[BG_TYPE_TEXT_BYTES];
    bg_type type = item->entry.type;

    if (other == NULL)
        return bg_error_set(c->error, BG_ERROR_INVALID,
                            "%s: tensor `%.200s` would be `%.200s`, which %s does not have; rename it, or leave it out "
                            "with --ignore",
                            c->source->path, item->tensor->name, item->entry.name, c->like->path);
    type.dtype = other->type.dtype;
    if (!bg_type_equal(&type, &other->type) || !bgi_weights_is_convertible(item->from, type.dtype))
        return bg_error_set(c->error, BG_ERROR_SHAPE, "%s: tensor `%.200s` is %s, but it is %s in %s", c->source->path,
                            item->tensor->name, bg_type_text(&item->entry.type, have),
                            bg_type_text(&other->type, wanted), c->like->path);
    item->entry.type = type;
    return BG_OK;
}

static bool has_item(const conversion *c, size_t count, const char *name)
{
    const converted key = {.entry = {.name = name}};

    return count > 0 && bsearch(&key, c->items, count, sizeof *c->items, compare_items) != NULL;
}

/* Adds the tensors of `like` that the source lacks, which must not be parameters. */
static bg_status add_from_like(conversion *c)
{
    const size_t count = c->count;

    for (size_t i = 0; i < c->like->count; i++) {
        const bgi_stored_tensor *tensor = &c->like->tensors[i];
        bgi_checkpoint_record about = {0};

        if (has_item(c, count, tensor->name))
            continue;
        BGI_TRY(bgi_checkpoint_find_record(c->like->file, tensor->name, &about, c->error));
        if (about.role == BG_ROLE_PARAMETER)
            return bg_error_set(c->error, BG_ERROR_NOT_FOUND, "%s: has no tensor for parameter `%.200s` of %s",
                                c->source->path, tensor->name, c->like->path);
        BGI_TRY(add_item(c, c->like, tensor, tensor->name));
        c->like_count++;
    }
    return BG_OK;
}

static bg_status sort_items(conversion *c)
{
    if (c->count > 0)
        qsort(c->items, c->count, sizeof *c->items, compare_items);
    for (size_t i = 1; i < c->count; i++)
        if (compare_items(&c->items[i - 1], &c->items[i]) == 0)
            return bg_error_set(c->error, BG_ERROR_INVALID, "tensors `%.200s` and `%.200s` would both be `%.200s`",
                                c->items[i - 1].tensor->name, c->items[i].tensor->name, c->items[i].entry.name);
    return BG_OK;
}

static bg_status list_items(conversion *c)
{
    const bgi_convert_options *o = c->options;
    const size_t most = c->source->count + (c->like != NULL ? c->like->count : 0) + 1;

    c->items = bgi_arena_allocate(&c->arena, most, sizeof *c->items);
    c->entries = bgi_arena_allocate(&c->arena, most, sizeof *c->entries);
    if (c->items == NULL || c->entries == NULL)
        return bgi_error_memory(c->error, "names of tensors", most * sizeof *c->items);
    for (size_t i = 0; i < c->source->count; i++) {
        const bgi_stored_tensor *tensor = &c->source->tensors[i];
        const char *name = NULL;
        bool is_wanted = false;

        BGI_TRY(is_of_model(c->source, tensor->name, &is_wanted, c->error));
        is_wanted = is_wanted || (o->to_checkpoint && c->like == NULL);
        if (is_wanted)
            BGI_TRY(rename_tensor(c, tensor->name, &name));
        if (name == NULL || (o->ignore != NULL && bgi_weights_names_match(o->ignore, name)))
            continue;
        BGI_TRY(add_item(c, c->source, tensor, name));
        if (c->like != NULL)
            BGI_TRY(fit_to_like(c, &c->items[c->count - 1]));
    }
    if (c->count == 0)
        return bg_error_set(c->error, BG_ERROR_INVALID, "%s: there is no tensor to convert", c->source->path);
    BGI_TRY(sort_items(c));
    if (c->like != NULL) {
        BGI_TRY(add_from_like(c));
        BGI_TRY(sort_items(c));
    }
    for (size_t i = 0; i < c->count; i++)
        c->entries[i] = c->items[i].entry;
    return BG_OK;
}

/* ---- values ---- */

static bg_status reserve(conversion *c, int which, size_t size_bytes, bg_error *error)
{
    if (size_bytes <= c->room_bytes[which])
        return BG_OK;
    free(c->room[which]);
    c->room[which] = malloc(size_bytes);
    c->room_bytes[which] = c->room[which] != NULL ? size_bytes : 0;
    return c->room[which] != NULL ? BG_OK : bgi_error_memory(error, "a tensor", size_bytes);
}

static bg_status fetch(void *user, const bg_safetensors_entry *entry, const void **out_data, bg_error *error)
{
    conversion *c = user;
    const converted key = {.entry = {.name = entry->name}};
    const converted *item = bsearch(&key, c->items, c->count, sizeof *c->items, compare_items);

    if (item == NULL)
        return bg_error_set(error, BG_ERROR_INTERNAL, "tensor `%.200s` was not listed", entry->name);
    BGI_TRY(reserve(c, 0, item->tensor->size_bytes + 1, error));
    BGI_TRY(bgi_stored_read(item->source, item->tensor, 0, item->tensor->size_bytes, c->room[0], error));
    *out_data = c->room[0];
    if (item->from == entry->type.dtype)
        return BG_OK;
    BGI_TRY(reserve(c, 1, bg_type_size_bytes(&entry->type) + 1, error));
    *out_data = c->room[1];
    return bgi_weights_convert(item->tensor->name, item->from, c->room[0], bg_type_element_count(&entry->type),
                               entry->type.dtype, c->room[1], error);
}

/* ---- to a checkpoint ---- */

static void add_text(conversion *c, const char *key, const char *value)
{
    c->metadata[c->metadata_count++] = (bg_safetensors_metadata){.key = key, .value = value};
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const bg_safetensors_metadata *)a)->key, ((const bg_safetensors_metadata *)b)->key);
}

/* Whether metadata describe a checkpoint's files, not the training state. */
static bool is_of_file(const char *key)
{
    return strcmp(key, BGI_CHECKPOINT_SUM) == 0 || strcmp(key, BGI_CHECKPOINT_PARTS) == 0 ||
           strcmp(key, BGI_CHECKPOINT_TAG) == 0 ||
           strncmp(key, BGI_CHECKPOINT_PART, sizeof BGI_CHECKPOINT_PART - 1) == 0 ||
           strncmp(key, BGI_CHECKPOINT_TENSOR, sizeof BGI_CHECKPOINT_TENSOR - 1) == 0;
}

/* Copies all metadata that describe the training state. */
static bg_status copy_texts(conversion *c, const bgi_stored *from)
{
    const size_t count = bg_safetensors_metadata_count(from->file);

    c->metadata = bgi_arena_allocate(&c->arena, count + 1, sizeof *c->metadata);
    if (c->metadata == NULL)
        return bgi_error_memory(c->error, "a checkpoint's metadata", count * sizeof *c->metadata);
    for (size_t i = 0; i < count; i++) {
        const bg_safetensors_metadata *pair = bg_safetensors_metadata_at(from->file, i);
        if (strcmp(pair->key, BGI_CHECKPOINT_VERSION) == 0)
            add_text(c, pair->key, c->version);
        else if (!is_of_file(pair->key))
            add_text(c, pair->key, pair->value);
    }
    return BG_OK;
}

static bg_status make_texts(conversion *c)
{
    c->metadata = bgi_arena_allocate(&c->arena, c->count + 8, sizeof *c->metadata);
    if (c->metadata == NULL)
        return bgi_error_memory(c->error, "a checkpoint's metadata", c->count * sizeof *c->metadata);
    snprintf(c->step, sizeof c->step, "%" PRIu64, c->options->step);
    snprintf(c->seed, sizeof c->seed, "%" PRIu64, c->options->seed);
    add_text(c, BGI_CHECKPOINT_VERSION, c->version);
    add_text(c, BGI_CHECKPOINT_STEP, c->step);
    add_text(c, BGI_CHECKPOINT_SEED, c->seed);
    add_text(c, BGI_CHECKPOINT_INFO, "brigade checkpoint convert");
    for (size_t i = 0; i < c->count; i++) {
        const char *key = bgi_arena_format(&c->arena, BGI_CHECKPOINT_WEIGHT "%s", c->items[i].entry.name);
        if (key == NULL)
            return bgi_error_memory(c->error, "a checkpoint's metadata", 0);
        add_text(c, key, "parameter " BGI_CHECKPOINT_GIVEN);
    }
    return BG_OK;
}

static bg_status write_checkpoint(conversion *c, const char *folder)
{
    const bgi_stored *head = c->like != NULL ? c->like : c->source->is_checkpoint ? c->source : NULL;
    char name[BGI_CHECKPOINT_NAME_BYTES], *path;
    uint64_t step = c->options->step;
    bg_status status;

    snprintf(c->version, sizeof c->version, "%d", BGI_CHECKPOINT_FILE_VERSION);
    BGI_TRY(head != NULL ? copy_texts(c, head) : make_texts(c));
    if (head != NULL)
        BGI_TRY(bgi_checkpoint_read_number(head->file, BGI_CHECKPOINT_STEP, &step, c->error));
    add_text(c, BGI_CHECKPOINT_SUM, c->sum);
    qsort(c->metadata, c->metadata_count, sizeof *c->metadata, compare_keys);
    BGI_TRY(bgi_folder_create(folder, c->error));
    path = bgi_path_join(folder, bgi_checkpoint_name(step, name));
    if (path == NULL)
        return bgi_error_memory(c->error, "a path", strlen(folder));
    if (bgi_file_exists(path))
        status = bg_error_set(c->error, BG_ERROR_INVALID,
                              "%s: the file already exists; remove it, or name another folder", path);
    else
        status = bgi_checkpoint_write_summed(path, c->entries, c->count, c->metadata, c->metadata_count, fetch, c, NULL,
                                             NULL, c->sum, c->error);
    free(path);
    return status;
}

/* ---- the whole ---- */

static bg_status open_like(conversion *c)
{
    if (c->options->like == NULL)
        return BG_OK;
    BGI_TRY(bgi_stored_open(c->options->like, &c->like, c->error));
    if (!c->like->is_checkpoint)
        return bg_error_set(c->error, BG_ERROR_INVALID, "%s: is no checkpoint", c->like->path);
    return bgi_stored_check(c->like, c->error);
}

static bg_status convert(conversion *c, const char *to)
{
    const bgi_convert_options *o = c->options;

    BGI_TRY(bgi_weights_renames_check(o->renames, o->rename_count, c->error));
    if (c->source->is_checkpoint && o->to_checkpoint && o->like == NULL &&
        (o->rename_count > 0 || o->prefix != NULL || o->ignore != NULL))
        return bg_error_set(c->error, BG_ERROR_INVALID,
                            "%s: is a checkpoint, whose conversion to a checkpoint keeps all tensors and names; give "
                            "a checkpoint that has the other tensors (like), or omit the rules for names",
                            c->source->path);
    /* Checks the data first, because damaged data must not get a new checksum. */
    if (c->source->is_checkpoint)
        BGI_TRY(bgi_stored_check(c->source, c->error));
    BGI_TRY(open_like(c));
    BGI_TRY(list_items(c));
    if (o->to_checkpoint)
        return write_checkpoint(c, to);
    return bgi_weights_write(to, &(bgi_weights_content){c->entries, c->count, o->folder_bytes, fetch, c}, c->error);
}

bg_status bgi_stored_convert(bgi_stored *source, const char *to, const bgi_convert_options *options, size_t *out_count,
                             bg_error *error)
{
    conversion c = {.source = source, .options = options, .error = error};
    const bg_status status = convert(&c, to);

    *out_count = c.count;
    bgi_stored_close(c.like);
    bgi_arena_clear(&c.arena);
    free(c.room[0]);
    free(c.room[1]);
    return status;
}
