/*
 * load.c: reading checkpoints. Everything is read and checked (checksum, metadata, names, types) before the
 * first weight is set; then values are read once more, one after the other, so that they are in memory once: as
 * weights.
 */
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/section.h"
#include "core/text.h"
#include "runtime/state.h"

typedef bgi_checkpoint_loader loader;

/* ---- metadata ---- */

static int digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bg_status read_blob(const bg_safetensors *file, bg_checkpoint *out, bg_error *error)
{
    const char *text = bg_safetensors_metadata_find(file, BGI_CHECKPOINT_BLOB);
    const size_t digits = text != NULL ? strlen(text) : 0;
    unsigned char *bytes;

    if (digits == 0)
        return BG_OK;
    if (digits % 2 != 0 || digits / 2 > BG_CHECKPOINT_BLOB_LIMIT)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "metadata `" BGI_CHECKPOINT_BLOB "`: %zu digits, expected an even number up to %zu", digits,
                            2 * BG_CHECKPOINT_BLOB_LIMIT);
    bytes = malloc(digits / 2);
    if (bytes == NULL)
        return bgi_error_memory(error, "a checkpoint's blob", digits / 2);
    out->blob = bytes;
    out->blob_bytes = digits / 2;
    for (size_t i = 0; i < digits; i += 2) {
        const int high = digit_value(text[i]), low = digit_value(text[i + 1]);
        if (high < 0 || low < 0)
            return bg_error_set(error, BG_ERROR_PARSE,
                                "metadata `" BGI_CHECKPOINT_BLOB "`: digits %zu and %zu are not hexadecimal", i, i + 1);
        bytes[i / 2] = (unsigned char)(high << 4 | low);
    }
    return BG_OK;
}

static bg_status read_metadata(const bg_safetensors *file, bg_checkpoint *out, bg_error *error)
{
    const char *info = bg_safetensors_metadata_find(file, BGI_CHECKPOINT_INFO);
    bgi_checkpoint_record ignored;

    BGI_TRY(bgi_checkpoint_read_number(file, BGI_CHECKPOINT_STEP, &out->step, error));
    BGI_TRY(bgi_checkpoint_read_number(file, BGI_CHECKPOINT_SEED, &out->seed, error));
    BGI_TRY(read_blob(file, out, error));
    for (size_t i = 0; i < bg_safetensors_count(file); i++)
        BGI_TRY(bgi_checkpoint_find_record(file, bg_safetensors_at(file, i)->name, &ignored, error));
    out->info = strdup(info != NULL ? info : "");
    return out->info != NULL ? BG_OK : bgi_error_memory(error, "a checkpoint's text", 0);
}

/* ---- the file ---- */

bg_status bgi_checkpoint_read_head(const bg_safetensors *file, bg_checkpoint *out, bg_error *error)
{
    uint64_t version = 0;

    BGI_TRY(bgi_checkpoint_read_number(file, BGI_CHECKPOINT_VERSION, &version, error));
    if (version != BGI_CHECKPOINT_NEWEST_VERSION)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "version %" PRIu64 " of the format, expected %d: another release of Brigade wrote it",
                            version, BGI_CHECKPOINT_NEWEST_VERSION);
    return read_metadata(file, out, error);
}

static bg_status read_file(const bg_safetensors *file, bg_checkpoint *out, bg_error *error)
{
    BGI_TRY(bgi_checkpoint_check_sum(file, "checkpoint", error));
    return bgi_checkpoint_read_head(file, out, error);
}

/* Says what is wrong with a checkpoint and what can be done: an older one is taken only when the user says so. */
static bg_status fail_damaged(const loader *l, const char *name, bg_status status, const char *reason)
{
    char other[BGI_CHECKPOINT_NAME_BYTES];

    for (size_t i = 0; i < l->list.count; i++)
        if (strcmp(bgi_checkpoint_name(l->list.steps[i], other), name) != 0)
            return bg_error_set(l->error, status,
                                "%.3000s; it is not used: name `%s`, the latest of the others, as the file to load, or "
                                "remove the bad one",
                                reason, other);
    return bg_error_set(l->error, status, "%.3000s; it is not used, and %s has no other: begin anew", reason,
                        l->directory);
}

/* Opens and checks the file that the options name, or the latest; `expected` is its step when the name says it. */
static bg_status open_file(loader *l, const char *name, const uint64_t *expected)
{
    bg_error inner = {0};
    bg_status status;

    l->found.path = bgi_path_join(l->directory, name);
    if (l->found.path == NULL)
        return bgi_error_memory(l->error, "a path", strlen(l->directory));
    status = bg_safetensors_open_header(l->found.path, &l->file, &inner);
    if (status == BG_OK) {
        status = read_file(l->file, &l->found, &inner);
        if (status == BG_OK && expected != NULL && l->found.step != *expected)
            status = bg_error_set(&inner, BG_ERROR_PARSE, "holds step %" PRIu64 ": it was renamed", l->found.step);
        if (status != BG_OK)
            bg_error_context(&inner, status, "%s", l->found.path);
    }
    if (status == BG_ERROR_PARSE || status == BG_ERROR_UNSUPPORTED)
        return fail_damaged(l, name, status, inner.message);
    /* What was listed is there, if only as a link to nothing: "not found" would say that a run may begin anew. */
    if (status == BG_ERROR_NOT_FOUND && expected != NULL)
        status = BG_ERROR_IO;
    return status == BG_OK ? BG_OK : bg_error_set(l->error, status, "%s", inner.message);
}

static bg_status choose_file(loader *l)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];

    BGI_TRY(bgi_checkpoint_find(l->directory, &l->list, l->error));
    if (l->options.file != NULL)
        return open_file(l, l->options.file, NULL);
    if (l->list.count == 0)
        return bg_error_set(l->error, BG_ERROR_NOT_FOUND, "checkpoint: %s has none", l->directory);
    return open_file(l, bgi_checkpoint_name(l->list.steps[0], name), &l->list.steps[0]);
}

/* ---- pieces ---- */

/* A value of the file, which stays until the next one. */
static bg_status read_value(loader *l, const bg_safetensors_entry *entry, const void **out_data, bg_error *error)
{
    const size_t size_bytes = bg_type_size_bytes(&entry->type);

    if (size_bytes > l->room_bytes) {
        free(l->room);
        l->room = malloc(size_bytes);
        l->room_bytes = l->room != NULL ? size_bytes : 0;
    }
    if (l->room == NULL)
        return bgi_error_memory(error, entry->name, size_bytes);
    *out_data = l->room;
    return bg_safetensors_read(l->file, entry, 0, size_bytes, l->room, error);
}

static bgi_piece entry_at(const void *user, size_t index)
{
    const bg_safetensors_entry *entry = bg_safetensors_at(((const loader *)user)->file, index);

    return (bgi_piece){.name = entry->name, .type = &entry->type};
}

static bg_status read_entry(const void *user, size_t index, const void **out_data, bg_error *error)
{
    loader *l = (loader *)(uintptr_t)user;

    return read_value(l, bg_safetensors_at(l->file, index), out_data, error);
}

/* The value of a weight of which the file has pieces. */
static bg_status join_pieces(loader *l, uint32_t index)
{
    const bgi_piece_list list = {.user = l, .count = bg_safetensors_count(l->file), .at = entry_at, .read = read_entry};
    const bgi_tensor weight = bgi_weights_tensor(l->weights, index);
    const size_t size_bytes = bg_type_size_bytes(&weight.type);
    size_t first = SIZE_MAX;
    bg_status status = bgi_section_gather(&list, weight.name, &weight.type, NULL, &first, l->error);

    if (status != BG_OK)
        return bg_error_context(l->error, status, "%s", l->found.path);
    if (first == SIZE_MAX)
        return BG_OK;
    l->joined[index] = malloc(size_bytes);
    if (l->joined[index] == NULL)
        return bgi_error_memory(l->error, weight.name, size_bytes);
    l->piece[index] = bg_safetensors_at(l->file, first)->name;
    return bgi_section_gather(&list, weight.name, &weight.type, l->joined[index], &first, l->error);
}

static bg_status join_all(loader *l)
{
    l->weight_count = bgi_weights_end(l->weights);
    l->joined = calloc((size_t)l->weight_count + 1, sizeof *l->joined);
    l->piece = calloc((size_t)l->weight_count + 1, sizeof *l->piece);
    if (l->joined == NULL || l->piece == NULL)
        return bgi_error_memory(l->error, "checkpoint", l->weight_count * sizeof *l->joined);
    for (uint32_t i = 0; i < l->weight_count; i++) {
        const char *name = bgi_weights_tensor(l->weights, i).name;
        if (name != NULL && bg_safetensors_find(l->file, name) == NULL)
            BGI_TRY(join_pieces(l, i));
    }
    return BG_OK;
}

/* ---- loading ---- */

/* Gives a weight the value `data`, and what the file says of `name`: the weight, or its first piece. */
static bg_status set_weight(const loader *l, const char *weight_name, const bg_type *type, const void *data,
                            const char *name)
{
    bgi_checkpoint_record about = {0};
    bgi_tensor tensor = {.name = weight_name, .type = *type, .optimizer = l->optimizer};

    BGI_TRY(bgi_checkpoint_find_record(l->file, name, &about, l->error));
    tensor.role = about.role;
    tensor.is_given = about.is_given;
    tensor.updates = about.updates;
    return bgi_weights_restore(l->weights, &tensor, l->weight_count == 0, data, l->error);
}

/* Whether the file's value of a name is left out because the optimizer's state is dropped. */
static bool is_dropped(const loader *l, const char *name)
{
    bgi_checkpoint_record about = {0};

    return l->drops_state && bgi_checkpoint_find_record(l->file, name, &about, NULL) == BG_OK &&
           about.role == BG_ROLE_STATE;
}

/* The room for the largest value is taken before anything is changed. */
static bg_status reserve_room(loader *l)
{
    for (size_t i = 0; i < bg_safetensors_count(l->file); i++) {
        const size_t size_bytes = bg_type_size_bytes(&bg_safetensors_at(l->file, i)->type);
        l->room_bytes = size_bytes > l->room_bytes ? size_bytes : l->room_bytes;
    }
    free(l->room);
    l->room = malloc(l->room_bytes > 0 ? l->room_bytes : 1);
    return l->room != NULL ? BG_OK : bgi_error_memory(l->error, "a checkpoint's largest value", l->room_bytes);
}

/* Without weights all names are taken. Adding can fail, and reading, when the file has changed since it was checked. */
static bg_status set_weights(loader *l)
{
    const bool is_empty = l->weight_count == 0;

    for (uint32_t i = 0; i < l->weight_count; i++)
        if (l->joined[i] != NULL && !is_dropped(l, l->piece[i])) {
            const bgi_tensor weight = bgi_weights_tensor(l->weights, i);
            BGI_TRY(set_weight(l, weight.name, &weight.type, l->joined[i], l->piece[i]));
        }
    for (size_t i = 0; i < bg_safetensors_count(l->file); i++) {
        const bg_safetensors_entry *entry = bg_safetensors_at(l->file, i);
        const void *data = NULL;
        bg_status status;
        if ((!is_empty && bgi_weights_index(l->weights, entry->name) == UINT32_MAX) || is_dropped(l, entry->name))
            continue;
        status = read_value(l, entry, &data, l->error);
        if (status == BG_OK)
            status = set_weight(l, entry->name, &entry->type, data, entry->name);
        if (status != BG_OK) {
            if (is_empty)
                bgi_weights_truncate(l->weights, 0);
            return status;
        }
    }
    bgi_weights_set_step(l->weights, l->found.step);
    return BG_OK;
}

static bg_status run_load(loader *l, bg_session *session)
{
    if (l->directory == NULL || l->directory[0] == '\0')
        return bg_error_set(l->error, BG_ERROR_INVALID, "checkpoint: no directory");
    if ((unsigned)l->options.differences > BG_CHECKPOINT_REFUSE)
        return bg_error_set(l->error, BG_ERROR_INVALID,
                            "checkpoint: differences %d, expected BG_CHECKPOINT_WARN, _IGNORE or _REFUSE",
                            (int)l->options.differences);
    BGI_TRY(bgi_checkpoint_read_drop(l));
    BGI_TRY(choose_file(l));
    BGI_TRY(join_all(l));
    BGI_TRY(bgi_checkpoint_compare(l));
    if (l->drops_state && l->session != NULL && bg_plan_optimizer(bg_session_plan(l->session)) != NULL)
        BGI_TRY(bgi_session_restart_state(session, l->error));
    BGI_TRY(reserve_room(l));
    return set_weights(l);
}

static bg_status load(bg_weights *weights, bg_session *session, const char *directory,
                      const bg_checkpoint_load_options *options, bg_checkpoint *out, bg_error *error)
{
    loader l = {.weights = weights, .session = session, .directory = directory, .error = error};
    bg_status status;

    if (options != NULL)
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_checkpoint_load_options",
                                 "bg_checkpoint_load_defaults()", error));
    l.options = options != NULL ? *options : bg_checkpoint_load_defaults();
    if (l.options.log == NULL && session != NULL) {
        l.options.log = bg_plan_options(bg_session_plan(session))->reporting.log;
        l.options.log_user = bg_plan_options(bg_session_plan(session))->reporting.log_user;
    }
    BGI_TRY(bgi_weights_enter(weights, session, "bg_checkpoint_load", error));
    status = run_load(&l, session);
    bgi_weights_leave(weights);
    bg_safetensors_destroy(l.file);
    for (uint32_t i = 0; l.joined != NULL && i < l.weight_count; i++)
        free(l.joined[i]);
    free(l.joined);
    free(l.piece);
    free(l.room);
    free(l.list.steps);
    if (status == BG_OK && out != NULL)
        *out = l.found;
    else
        bg_checkpoint_clear(&l.found);
    return status;
}

void bg_checkpoint_load_options_init(bg_checkpoint_load_options *options, size_t struct_bytes)
{
    const bg_checkpoint_load_options made = {.struct_bytes = struct_bytes, .differences = BG_CHECKPOINT_WARN};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

void bg_checkpoint_clear(bg_checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return;
    free(checkpoint->path);
    free(checkpoint->info);
    free(checkpoint->blob);
    memset(checkpoint, 0, sizeof *checkpoint);
}

bg_status bg_checkpoint_load(bg_session *session, const char *directory, const bg_checkpoint_load_options *options,
                             bg_checkpoint *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(directory, "directory", __func__, error));
    return load(bg_session_weights(session), session, directory, options, out, error);
}

bg_status bg_checkpoint_load_weights(bg_weights *weights, const char *directory,
                                     const bg_checkpoint_load_options *options, bg_checkpoint *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(directory, "directory", __func__, error));
    return load(weights, NULL, directory, options, out, error);
}
