/*
 * checkpoint_load.c: reading checkpoints. Everything is read and checked (checksum, metadata, names, types) before the
 * first weight is set. The file is mapped, so that its values are in memory once: as weights.
 */
#include "runtime/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "runtime/session.h"
#include "runtime/weights.h"

/* One load, from its arguments to what it found. */
typedef struct loader {
    bg_weights *weights;
    const bg_session *session; /* may be NULL */
    const char *directory;
    bg_checkpoint_load_options options;
    bgi_checkpoint_list list;
    bg_safetensors *file;
    bg_checkpoint found;
    bg_error *error;
} loader;

/* ---- metadata ---- */

static const char *const role_names[] = {
    [BG_ROLE_PARAMETER] = "parameter",
    [BG_ROLE_BUFFER] = "buffer",
    [BG_ROLE_STATE] = "state",
    [BG_ROLE_TRAINING] = "training",
};
enum { ROLE_COUNT = sizeof role_names / sizeof role_names[0] };

const char *bgi_checkpoint_role(bg_variable_role role)
{
    return (size_t)role < ROLE_COUNT && role_names[role] != NULL ? role_names[role] : role_names[BG_ROLE_PARAMETER];
}

static bool parse_record(const char *text, bgi_checkpoint_record *out)
{
    for (size_t role = 0; text != NULL && role < ROLE_COUNT; role++) {
        const size_t length = role_names[role] != NULL ? strlen(role_names[role]) : 0;
        const char *rest = text + length + 1;
        if (length == 0 || strncmp(text, role_names[role], length) != 0 || text[length] != ' ')
            continue;
        *out = (bgi_checkpoint_record){.role = (bg_variable_role)role,
                                       .is_given = strcmp(rest, BGI_CHECKPOINT_GIVEN) == 0};
        return out->is_given || bgi_checkpoint_number(rest, &out->updates);
    }
    return false;
}

bg_status bgi_checkpoint_find_record(const bg_safetensors *file, const char *name, bgi_checkpoint_record *out,
                                     bg_error *error)
{
    bgi_text key = {0};
    const char *text;

    bgi_text_add(&key, BGI_CHECKPOINT_WEIGHT "%s", name);
    if (key.failed)
        return bgi_error_memory(error, "a key", strlen(name));
    text = bg_safetensors_metadata_find(file, key.data);
    bgi_text_clear(&key);
    if (!parse_record(text, out))
        return bg_error_set(error, BG_ERROR_PARSE,
                            "metadata `" BGI_CHECKPOINT_WEIGHT
                            "%.200s`: %s%.40s%s, expected a role (parameter, buffer, "
                            "state) and a count or `" BGI_CHECKPOINT_GIVEN "`",
                            name, text != NULL ? "`" : "", text != NULL ? text : "is missing", text != NULL ? "`" : "");
    return BG_OK;
}

bg_status bgi_checkpoint_read_number(const bg_safetensors *file, const char *key, uint64_t *out, bg_error *error)
{
    const char *text = bg_safetensors_metadata_find(file, key);

    if (text == NULL || !bgi_checkpoint_number(text, out))
        return bg_error_set(error, BG_ERROR_PARSE, "metadata `%s`: %.40s, expected a number from 0 to 2^64 - 1", key,
                            text != NULL ? text : "is missing");
    return BG_OK;
}

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

bg_status bgi_checkpoint_check_sum(const bg_safetensors *file, const char *what, bg_error *error)
{
    const char *expected = bg_safetensors_metadata_find(file, BGI_CHECKPOINT_SUM);
    const size_t count = bg_safetensors_count(file), metadata_count = bg_safetensors_metadata_count(file);
    bg_safetensors_entry *entries;
    char sum[BGI_CHECKPOINT_SUM_BYTES];
    bg_status status;

    if (expected == NULL)
        return bg_error_set(error, BG_ERROR_PARSE, "has no `" BGI_CHECKPOINT_SUM "`: it is no %s", what);
    entries = malloc((count + 1) * sizeof *entries);
    if (entries == NULL)
        return bgi_error_memory(error, "checkpoint", count * sizeof *entries);
    for (size_t i = 0; i < count; i++)
        entries[i] = *bg_safetensors_at(file, i);
    status =
        bgi_checkpoint_sum(entries, count, bg_safetensors_metadata_at(file, 0), metadata_count, NULL, NULL, sum, error);
    free(entries);
    BGI_TRY(status);
    if (strcmp(sum, expected) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "the checksum is %s, the file says %.40s", sum, expected);
    return BG_OK;
}

static bg_status read_file(const bg_safetensors *file, bg_checkpoint *out, bg_error *error)
{
    uint64_t version = 0;

    BGI_TRY(bgi_checkpoint_check_sum(file, "checkpoint", error));
    BGI_TRY(bgi_checkpoint_read_number(file, BGI_CHECKPOINT_VERSION, &version, error));
    if (version != BGI_CHECKPOINT_NEWEST_VERSION)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "version %" PRIu64 " of the format, expected %d: another release of Brigade wrote it",
                            version, BGI_CHECKPOINT_NEWEST_VERSION);
    return read_metadata(file, out, error);
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
    status = bg_safetensors_open(l->found.path, &l->file, &inner);
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

/* ---- differences ---- */

static void add_name(bgi_text *names, const char *name)
{
    bgi_text_add(names, "%s`%s`", names->length > 0 ? ", " : "", name);
}

/* Refuses, warns or is silent when there are `names`; takes them. */
static bg_status report(const loader *l, bgi_text *names, const char *before, const char *after)
{
    bgi_text line = {0};
    char *list = NULL, *text = NULL;
    bg_status status = BG_OK;

    if ((names->data == NULL && !names->failed) || l->options.differences == BG_CHECKPOINT_IGNORE) {
        bgi_text_clear(names);
        return BG_OK;
    }
    BGI_TRY(bgi_text_finish(names, &list, l->error));
    if (l->options.differences == BG_CHECKPOINT_REFUSE) {
        status = bg_error_set(l->error, BG_ERROR_INVALID, "%s: %s %.3000s", l->found.path, before, list);
    } else if (l->options.log != NULL) {
        bgi_text_add(&line, "checkpoint %s: %s %s; %s", l->found.path, before, list, after);
        status = bgi_text_finish(&line, &text, l->error);
        if (status == BG_OK)
            l->options.log(l->options.log_user, BG_LOG_WARNING, text);
    }
    free(list);
    free(text);
    return status;
}

static bg_status compare_seeds(const loader *l)
{
    bgi_text seed = {0};

    if (l->session != NULL && l->session->plan->options.seed != l->found.seed)
        bgi_text_add(&seed, "%" PRIu64 ", this session has %" PRIu64, l->found.seed, l->session->plan->options.seed);
    return report(l, &seed, "was made with seed", "random numbers (dropout) go on from the session's");
}

static bg_status compare_names(const loader *l)
{
    const bg_weights *weights = l->weights;
    char have[BG_TYPE_TEXT_BYTES], given[BG_TYPE_TEXT_BYTES];
    bgi_text missing = {0}, extra = {0};
    bg_status status;

    for (uint32_t i = 0; i < weights->count; i++) {
        const bgi_weight *weight = &weights->items[i];
        const bg_safetensors_entry *entry = bg_safetensors_find(l->file, weight->name);
        if (entry == NULL) {
            add_name(&missing, weight->name);
        } else if (!bg_type_equal(&entry->type, &weight->type)) {
            bgi_text_clear(&missing);
            return bg_error_set(l->error, BG_ERROR_SHAPE, "%s: `%s` is %s, the weight is %s", l->found.path,
                                weight->name, bg_type_text(&entry->type, given), bg_type_text(&weight->type, have));
        }
    }
    status = report(l, &missing, "has no", "they keep their values");
    for (size_t i = 0; status == BG_OK && weights->count > 0 && i < bg_safetensors_count(l->file); i++)
        if (bgi_weights_index(weights, bg_safetensors_at(l->file, i)->name) == UINT32_MAX)
            add_name(&extra, bg_safetensors_at(l->file, i)->name);
    return status == BG_OK ? report(l, &extra, "has what the weights have not:", "it is left out") : status;
}

/* ---- loading ---- */

/* Without weights all names are taken. Only adding can fail. */
static bg_status set_weights(const loader *l)
{
    const bool is_empty = l->weights->count == 0;

    for (size_t i = 0; i < bg_safetensors_count(l->file); i++) {
        const bg_safetensors_entry *entry = bg_safetensors_at(l->file, i);
        bgi_checkpoint_record about = {0};
        bgi_weight *weight;
        bg_status status;
        if (!is_empty && bgi_weights_index(l->weights, entry->name) == UINT32_MAX)
            continue;
        status = bgi_checkpoint_find_record(l->file, entry->name, &about, l->error);
        if (status == BG_OK)
            status = bg_weights_set(l->weights, entry->name, &entry->type, entry->data, l->error);
        if (status != BG_OK) {
            if (is_empty)
                bgi_weights_truncate(l->weights, 0);
            return status;
        }
        weight = &l->weights->items[bgi_weights_index(l->weights, entry->name)];
        weight->is_given = about.is_given;
        weight->updates = about.updates;
        if (is_empty)
            weight->role = about.role;
    }
    l->weights->step = l->found.step;
    return BG_OK;
}

static bg_status run_load(loader *l)
{
    if (l->directory == NULL || l->directory[0] == '\0')
        return bg_error_set(l->error, BG_ERROR_INVALID, "checkpoint: no directory");
    if ((unsigned)l->options.differences > BG_CHECKPOINT_REFUSE)
        return bg_error_set(l->error, BG_ERROR_INVALID,
                            "checkpoint: differences %d, expected BG_CHECKPOINT_WARN, _IGNORE or _REFUSE",
                            (int)l->options.differences);
    BGI_TRY(choose_file(l));
    BGI_TRY(compare_seeds(l));
    BGI_TRY(compare_names(l));
    return set_weights(l);
}

static bg_status load(bg_weights *weights, const bg_session *session, const char *directory,
                      const bg_checkpoint_load_options *options, bg_checkpoint *out, bg_error *error)
{
    loader l = {.weights = weights, .session = session, .directory = directory, .error = error};
    bg_status status;

    l.options = options != NULL ? *options : bg_checkpoint_load_defaults();
    if (l.options.log == NULL && session != NULL) {
        l.options.log = session->plan->options.log;
        l.options.log_user = session->plan->options.log_user;
    }
    status = run_load(&l);
    bg_safetensors_destroy(l.file);
    free(l.list.steps);
    if (status == BG_OK && out != NULL)
        *out = l.found;
    else
        bg_checkpoint_clear(&l.found);
    return status;
}

bg_checkpoint_load_options bg_checkpoint_load_defaults(void)
{
    return (bg_checkpoint_load_options){.differences = BG_CHECKPOINT_WARN};
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
    return load(session->weights, session, directory, options, out, error);
}

bg_status bg_checkpoint_load_weights(bg_weights *weights, const char *directory,
                                     const bg_checkpoint_load_options *options, bg_checkpoint *out, bg_error *error)
{
    return load(weights, NULL, directory, options, out, error);
}
