/*
 * record.c: reads records of a checkpoint's metadata: numbers, kinds of optimizer state, and the role and updates of
 * each weight.
 */
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "options/choices.h"

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
    bgi_string key = {0};
    const char *text;

    bgi_string_add(&key, BGI_CHECKPOINT_WEIGHT "%s", name);
    if (key.failed)
        return bgi_error_memory(error, "a key", strlen(name));
    text = bg_safetensors_metadata_find(file, key.data);
    bgi_string_clear(&key);
    if (!parse_record(text, out))
        return bg_error_set(error, BG_ERROR_PARSE,
                            "metadata `" BGI_CHECKPOINT_WEIGHT
                            "%.200s`: %s%.40s%s, but it must be a role (parameter, buffer, "
                            "state, training) and a count or `" BGI_CHECKPOINT_GIVEN "`",
                            name, text != NULL ? "`" : "", text != NULL ? text : "is missing", text != NULL ? "`" : "");
    return BG_OK;
}

bg_status bgi_checkpoint_read_number(const bg_safetensors *file, const char *key, uint64_t *out, bg_error *error)
{
    const char *text = bg_safetensors_metadata_find(file, key);

    if (text == NULL || !bgi_checkpoint_number(text, out))
        return bg_error_set(error, BG_ERROR_PARSE, "metadata `%s`: %.40s, but it must be a number from 0 to 2^64 - 1",
                            key, text != NULL ? text : "is missing");
    return BG_OK;
}

/* ---- settings of the training ---- */

void bgi_checkpoint_describe_run(const bg_plan *plan, bgi_string *out)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);
    const bg_numerics_options *numerics = &bg_plan_options(plan)->numerics;
    const uint64_t batch = (uint64_t)summary.micro_batch * summary.micro_batches_per_step * summary.input_groups;

    bgi_string_add(out, "precision=%s batch=%" PRIu64 " micro_batch=%" PRIu32,
                   bgi_choices_name(&bgi_precision_choices, numerics->precision, "unknown"), batch,
                   summary.micro_batch);
    if (numerics->canonical_reductions)
        bgi_string_add(out, " canonical_reductions");
    else
        bgi_string_add(out, " replicas=%" PRIu32, summary.data_replicas);
}

/* ---- kinds of state ---- */

const char *bgi_checkpoint_kind(const char *state_name)
{
    const char *dot = strrchr(state_name, '.');

    return dot != NULL ? dot + 1 : state_name;
}

static int compare_kinds(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bg_status bgi_checkpoint_join_kinds(const char **kinds, size_t count, bgi_string *out, bg_error *error)
{
    qsort(kinds, count, sizeof *kinds, compare_kinds);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(kinds[i], kinds[i - 1]) != 0)
            bgi_string_add(out, "%s%s", out->length > 0 ? " " : "", kinds[i]);
    return out->failed ? bgi_error_memory(error, "kinds of state", count) : BG_OK;
}
