/*
 * compare.c: checks that a checkpoint fits the model and the optimizer of the session that loads it. The checkpoint's
 * optimizer state must come from the session's optimizer, because AdamW's and LAMB's states have the same names. The
 * checkpoint's parameters must be the model's, because a model of another depth has most names in common. Differences
 * are refused, unless the caller asks to drop them.
 */
#include "checkpoint/stored.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/section.h"
#include "core/text.h"
#include "options/optimizer.h"
#include "runtime/state.h"

typedef bgi_checkpoint_loader loader;

enum { MOST_NAMES = 4 };

static const char *drop_option(const loader *l)
{
    return l->options.drop_option != NULL ? l->options.drop_option : "options.drop";
}

bg_status bgi_checkpoint_read_drop(loader *l)
{
    const char *text = l->options.drop != NULL ? l->options.drop : "";

    while (*text != '\0') {
        const size_t length = strcspn(text, ",");
        if (length == 9 && strncmp(text, "optimizer", length) == 0)
            l->drops_state = true;
        else if (length == 10 && strncmp(text, "parameters", length) == 0)
            l->drops_parameters = true;
        else
            return bg_error_set(l->error, BG_ERROR_INVALID,
                                "checkpoint: %s is `%.60s`; it must be `optimizer`, `parameters`, or both with a comma "
                                "between",
                                drop_option(l), l->options.drop);
        text += length + (text[length] == ',');
    }
    if (l->drops_state && l->session == NULL && bgi_weights_end(l->weights) > 0)
        return bg_error_set(l->error, BG_ERROR_INVALID,
                            "checkpoint: %s optimizer was given for weights that have values and no session: only a "
                            "session can reset its optimizer's state; load through the session, or into new weights",
                            drop_option(l));
    return BG_OK;
}

static bg_status warn(const loader *l, bgi_string *line)
{
    char *text = NULL;

    BGI_TRY(bgi_string_finish(line, &text, l->error));
    if (l->options.log != NULL && l->options.differences != BG_CHECKPOINT_IGNORE)
        l->options.log(l->options.log_user, BG_LOG_WARNING, text);
    free(text);
    return BG_OK;
}

/* ---- names ---- */

uint32_t bgi_checkpoint_find_weight(const loader *l, const char *name)
{
    uint32_t index = bgi_weights_index(l->weights, name), number;

    for (uint32_t i = 0; index == UINT32_MAX && i < l->weight_count; i++)
        if (l->joined[i] != NULL && bgi_section_is_piece(name, bgi_weights_tensor(l->weights, i).name, &number))
            index = i;
    return index;
}

/* Names that only the checkpoint or only the model has. */
typedef struct name_list {
    uint32_t count;
    const char *first; /* of all */
    bgi_string text;   /* the first few */
} name_list;

static void add_name(name_list *names, const char *name)
{
    if (names->count++ == 0)
        names->first = name;
    if (names->count <= MOST_NAMES)
        bgi_string_add(&names->text, "%s`%s`", names->count > 1 ? ", " : "", name);
}

static void end_names(name_list *names)
{
    if (names->count > MOST_NAMES)
        bgi_string_add(&names->text, " and %" PRIu32 " more", names->count - MOST_NAMES);
}

static void clear_names(name_list *names)
{
    bgi_string_clear(&names->text);
}

/* ---- seeds and other differences ---- */

/* Refuses the differences in the list, warns about them or ignores them, as options.differences says. */
static bg_status report(const loader *l, name_list *names, const char *before, const char *after)
{
    bgi_string line = {0};
    bg_status status = BG_OK;

    if (names->count == 0 || l->options.differences == BG_CHECKPOINT_IGNORE)
        return BG_OK;
    end_names(names);
    if (names->text.failed)
        return bgi_error_memory(l->error, "names", names->count);
    if (l->options.differences == BG_CHECKPOINT_REFUSE) {
        status = bg_error_set(l->error, BG_ERROR_INVALID, "%s: %s %.3000s", l->found.path, before, names->text.data);
    } else {
        bgi_string_add(&line, "checkpoint %s: %s %s; %s", l->found.path, before, names->text.data, after);
        status = warn(l, &line);
    }
    return status;
}

static bg_status compare_seeds(const loader *l)
{
    const uint64_t own =
        l->session != NULL ? bg_plan_options(bg_session_plan(l->session))->numerics.seed : l->found.seed;
    bgi_string line = {0};

    if (own == l->found.seed || l->options.differences == BG_CHECKPOINT_IGNORE)
        return BG_OK;
    if (l->options.differences == BG_CHECKPOINT_REFUSE)
        return bg_error_set(l->error, BG_ERROR_INVALID, "%s: was made with seed %" PRIu64 ", this session has %" PRIu64,
                            l->found.path, l->found.seed, own);
    bgi_string_add(&line,
                   "checkpoint %s: was made with seed %" PRIu64 ", this session has %" PRIu64
                   "; random numbers (dropout) continue from the session's",
                   l->found.path, l->found.seed, own);
    return warn(l, &line);
}

/* Warns if the training would continue with other settings, which change the bits of its results but are allowed. Files
 * of release 0.1 do not record the settings. */
static bg_status compare_runs(const loader *l)
{
    const bg_plan *plan = l->session != NULL ? bg_session_plan(l->session) : NULL;
    const char *before = bg_safetensors_metadata_find(l->file, BGI_CHECKPOINT_RUN);
    bgi_string now = {0}, line = {0};
    bg_status status = BG_OK;

    if (before == NULL || plan == NULL || bg_plan_optimizer(plan) == NULL)
        return BG_OK;
    bgi_checkpoint_describe_run(plan, &now);
    if (now.failed) {
        status = bgi_error_memory(l->error, "settings", 0);
    } else if (strcmp(before, now.data) != 0) {
        bgi_string_add(&line,
                       "checkpoint %s: was made with %.200s, this session has %s; results differ from those of a run "
                       "without a stop",
                       l->found.path, before, now.data);
        status = warn(l, &line);
    }
    bgi_string_clear(&now);
    return status;
}

/* ---- optimizers ---- */

/* Finds the optimizers with these kinds of state. Lists their descriptions in `names`, and copies the last one to
 * `out`. */
static bg_status find_optimizers(const loader *l, const char *kinds, bgi_string *names, uint32_t *out_count, char *out)
{
    char text[BG_OPTIMIZER_STATE_TEXT_BYTES];
    bg_optimizer optimizer;

    *out_count = 0;
    for (uint32_t i = 0; bgi_optimizer_variant(i, &optimizer); i++) {
        if (strcmp(bg_optimizer_state_kinds(&optimizer), kinds) != 0)
            continue;
        bg_optimizer_describe_state(&optimizer, text);
        bgi_string_add(names, "%s`%s`", (*out_count)++ > 0 ? " or " : "", text);
        memcpy(out, text, sizeof text);
    }
    return names->failed ? bgi_error_memory(l->error, "optimizers", names->length) : BG_OK;
}

/* Collects the kinds of state in the file. */
static bg_status collect_kinds(const loader *l, bgi_string *out)
{
    const size_t count = l->stored->count;
    const char **kinds = malloc((count + 1) * sizeof *kinds);
    bgi_checkpoint_record about;
    size_t found = 0;
    bg_status status = BG_OK;

    if (kinds == NULL)
        return bgi_error_memory(l->error, "kinds of state", count * sizeof *kinds);
    for (size_t i = 0; status == BG_OK && i < count; i++) {
        const char *name = l->stored->tensors[i].name;
        status = bgi_checkpoint_find_record(l->file, name, &about, l->error);
        if (status == BG_OK && about.role == BG_ROLE_STATE)
            kinds[found++] = bgi_checkpoint_kind(name);
    }
    if (status == BG_OK)
        status = bgi_checkpoint_join_kinds(kinds, found, out, l->error);
    free(kinds);
    return status;
}

static bg_status refuse_optimizer(const loader *l, const char *theirs, const char *kinds, const char *own,
                                  const char *own_kinds)
{
    return bg_error_set(
        l->error, BG_ERROR_INVALID,
        "%s: has the state of optimizer %s (%s), but this session trains with `%s` (%s); train with the checkpoint's "
        "optimizer, or give %s optimizer to load only the weights and start the state from zero",
        l->found.path, theirs, kinds[0] != '\0' ? kinds : "no state", own,
        own_kinds[0] != '\0' ? own_kinds : "no state", drop_option(l));
}

/* Files of older releases do not record the optimizer. Finds the optimizer by the kinds of its state, if only one has
 * these kinds. */
static bg_status guess_optimizer(loader *l, const char *kinds, const char *own, const char *own_kinds)
{
    bgi_string names = {0};
    uint32_t count = 0;
    bg_status status = find_optimizers(l, kinds, &names, &count, l->optimizer);

    if (status != BG_OK) {
        bgi_string_clear(&names);
        return status;
    }
    if (strcmp(kinds, own_kinds) != 0)
        status = refuse_optimizer(l,
                                  kinds[0] == '\0' ? "`none`"
                                  : count > 0      ? names.data
                                                   : "that is not known",
                                  kinds, own, own_kinds);
    else if (count > 1)
        status = bg_error_set(l->error, BG_ERROR_INVALID,
                              "%s: does not say which optimizer made its state (%s), which may be %s; this session "
                              "trains with `%s`: give %s with the optimizer that made it, or %s optimizer to load only "
                              "the weights and start the state from zero",
                              l->found.path, kinds, names.data, own,
                              l->options.optimizer_option != NULL ? l->options.optimizer_option : "options.optimizer",
                              drop_option(l));
    bgi_string_clear(&names);
    return status;
}

/* Sets l->optimizer to the optimizer that made the file's state. */
static bg_status find_optimizer(loader *l, const char *kinds, const char *own, const char *own_kinds)
{
    const char *recorded = bg_safetensors_metadata_find(l->file, BGI_CHECKPOINT_OPTIMIZER);
    bg_optimizer given;

    if (recorded != NULL && strlen(recorded) >= sizeof l->optimizer)
        return bg_error_set(l->error, BG_ERROR_PARSE,
                            "%s: metadata `" BGI_CHECKPOINT_OPTIMIZER "`: %.40s... is too long", l->found.path,
                            recorded);
    if (recorded != NULL) {
        memcpy(l->optimizer, recorded, strlen(recorded) + 1);
        return BG_OK;
    }
    if (l->options.optimizer != NULL) {
        BGI_TRY(bg_optimizer_parse(l->options.optimizer, 1.0, &given, l->error));
        bg_optimizer_describe_state(&given, l->optimizer);
        return BG_OK;
    }
    return own != NULL ? guess_optimizer(l, kinds, own, own_kinds) : BG_OK;
}

static bg_status note_dropped_state(const loader *l, const char *kinds)
{
    bgi_string line = {0};

    bgi_string_add(&line, "checkpoint %s: the optimizer's state (%s%s%s) is dropped; it starts from zero",
                   l->found.path, l->optimizer, l->optimizer[0] != '\0' ? ": " : "", kinds);
    return warn(l, &line);
}

/* Compares the optimizer of the file's state with that of the session; only a training session has one. */
static bg_status compare_optimizers(loader *l)
{
    const bg_optimizer *optimizer = l->session != NULL ? bg_plan_optimizer(bg_session_plan(l->session)) : NULL;
    const char *own_kinds = optimizer != NULL ? bg_optimizer_state_kinds(optimizer) : "";
    char own[BG_OPTIMIZER_STATE_TEXT_BYTES], theirs[BG_OPTIMIZER_STATE_TEXT_BYTES + 2];
    bgi_string kinds = {0};
    bg_status status = collect_kinds(l, &kinds);
    const char *text = kinds.data != NULL ? kinds.data : "";

    if (optimizer != NULL)
        bg_optimizer_describe_state(optimizer, own);
    if (status == BG_OK)
        status = find_optimizer(l, text, optimizer != NULL && !l->drops_state ? own : NULL, own_kinds);
    if (status == BG_OK && l->drops_state && text[0] != '\0')
        status = note_dropped_state(l, text);
    if (status == BG_OK && optimizer != NULL && !l->drops_state && strcmp(l->optimizer, own) != 0) {
        snprintf(theirs, sizeof theirs, "`%s`", l->optimizer);
        status = refuse_optimizer(l, theirs, text, own, own_kinds);
    }
    bgi_string_clear(&kinds);
    return status;
}

/* ---- parameters ---- */

/* Whether a tensor with this role must be in both the checkpoint and the model: a parameter, a buffer or, unless the
 * session does not train, optimizer state. */
static bool is_structural(const loader *l, bg_variable_role role)
{
    const bool is_training = l->session != NULL && bg_plan_optimizer(bg_session_plan(l->session)) != NULL;

    return role == BG_ROLE_PARAMETER || role == BG_ROLE_BUFFER ||
           (role == BG_ROLE_STATE && (is_training || l->session == NULL));
}

/* Finds the layer's number in a name, which is its first part of digits only. Sets *out_length to the length of the
 * text before it. */
static bool find_number(const char *name, size_t *out_length)
{
    for (const char *part = name; part != NULL; part = strchr(part, '.') != NULL ? strchr(part, '.') + 1 : NULL) {
        const size_t digits = strspn(part, "0123456789");
        if (digits > 0 && (part[digits] == '.' || part[digits] == '\0')) {
            *out_length = (size_t)(part - name);
            return true;
        }
    }
    return false;
}

static uint64_t read_number(const char *name, const char *like, size_t length)
{
    return strncmp(name, like, length) == 0 && isdigit((unsigned char)name[length])
               ? strtoull(name + length, NULL, 10) + 1
               : 0;
}

/* Adds the counts of layers in the file and in the model, if names have numbers and the counts differ, and the counts
 * of parameters. */
static void add_numbers(const loader *l, const char *like, bgi_string *out)
{
    uint64_t layers[2] = {0}, parameters[2] = {0};
    bgi_checkpoint_record about;
    size_t length = 0;
    const bool is_numbered = find_number(like, &length);

    for (uint32_t i = 0; i < l->weight_count; i++) {
        const bgi_tensor weight = bgi_weights_tensor(l->weights, i);
        const uint64_t number = is_numbered && weight.name != NULL ? read_number(weight.name, like, length) : 0;
        layers[1] = number > layers[1] ? number : layers[1];
        parameters[1] += weight.name != NULL && weight.role == BG_ROLE_PARAMETER;
    }
    for (size_t i = 0; i < l->stored->count; i++) {
        const char *name = l->stored->tensors[i].name;
        const uint64_t number = is_numbered ? read_number(name, like, length) : 0;
        layers[0] = number > layers[0] ? number : layers[0];
        parameters[0] +=
            bgi_checkpoint_find_record(l->file, name, &about, NULL) == BG_OK && about.role == BG_ROLE_PARAMETER;
    }
    if (layers[0] != layers[1])
        bgi_string_add(out, "%" PRIu64 " of `%.*s*` where the model has %" PRIu64 ", ", layers[0], (int)length, like,
                       layers[1]);
    bgi_string_add(out, "%" PRIu64 " parameters where the model has %" PRIu64, parameters[0], parameters[1]);
}

static bg_status report_structure(const loader *l, name_list *missing, name_list *extra)
{
    bgi_string line = {0};
    char *text = NULL;
    bg_status status;

    end_names(missing);
    end_names(extra);
    bgi_string_add(&line, "has ");
    add_numbers(l, missing->count > 0 ? missing->first : extra->first, &line);
    if (missing->count > 0)
        bgi_string_add(&line, "; it has no %s", missing->text.data != NULL ? missing->text.data : "");
    if (extra->count > 0)
        bgi_string_add(&line, "; the model has no %s", extra->text.data != NULL ? extra->text.data : "");
    if (missing->text.failed || extra->text.failed)
        line.failed = true;
    BGI_TRY(bgi_string_finish(&line, &text, l->error));
    if (l->drops_parameters) {
        bgi_string_add(&line, "checkpoint %s: %s; ", l->found.path, text);
        if (missing->count > 0)
            bgi_string_add(&line, "weights that the checkpoint lacks keep their values%s",
                           extra->count > 0 ? ", " : "");
        if (extra->count > 0)
            bgi_string_add(&line, "weights that the model lacks are dropped");
        status = warn(l, &line);
    } else {
        status = bg_error_set(l->error, BG_ERROR_INVALID,
                              "%s: %.2800s; make the model as it was, or give %s parameters to keep the values of "
                              "weights that the checkpoint lacks and drop those that the model lacks",
                              l->found.path, text, drop_option(l));
    }
    free(text);
    return status;
}

/* Lists the weights that the file lacks. Refuses a tensor whose type differs from that of its weight. */
static bg_status find_missing(const loader *l, name_list *structural, name_list *others)
{
    char have[BG_TYPE_TEXT_BYTES], given[BG_TYPE_TEXT_BYTES];

    for (uint32_t i = 0; i < l->weight_count; i++) {
        const bgi_tensor weight = bgi_weights_tensor(l->weights, i);
        const bgi_stored_tensor *entry = weight.name != NULL ? bgi_stored_find(l->stored, weight.name) : NULL;

        if (weight.name == NULL || l->joined[i] != NULL || (l->drops_state && weight.role == BG_ROLE_STATE))
            continue;
        if (entry == NULL)
            add_name(is_structural(l, weight.role) ? structural : others, weight.name);
        else if (!bg_type_equal(&entry->type, &weight.type))
            return bg_error_set(l->error, BG_ERROR_SHAPE, "%s: `%s` is %s, but the weight is %s", l->found.path,
                                weight.name, bg_type_text(&entry->type, given), bg_type_text(&weight.type, have));
    }
    return BG_OK;
}

static bg_status find_extra(const loader *l, name_list *structural, name_list *others)
{
    for (size_t i = 0; l->weight_count > 0 && i < l->stored->count; i++) {
        const char *name = l->stored->tensors[i].name;
        bgi_checkpoint_record about = {0};

        BGI_TRY(bgi_checkpoint_find_record(l->file, name, &about, l->error));
        if (bgi_checkpoint_find_weight(l, name) == UINT32_MAX && !(l->drops_state && about.role == BG_ROLE_STATE))
            add_name(is_structural(l, about.role) ? structural : others, name);
    }
    return BG_OK;
}

static bg_status compare_names(const loader *l)
{
    name_list missing[2] = {{0}}, extra[2] = {{0}}; /* structural, others */
    bg_status status = find_missing(l, &missing[0], &missing[1]);

    if (status == BG_OK)
        status = find_extra(l, &extra[0], &extra[1]);
    if (status == BG_OK && missing[0].count + extra[0].count > 0)
        status = report_structure(l, &missing[0], &extra[0]);
    if (status == BG_OK)
        status = report(l, &missing[1], "has no", "weights that the checkpoint lacks keep their values");
    if (status == BG_OK)
        status = report(l, &extra[1], "has tensors that the weights lack:", "these are left out");
    for (int i = 0; i < 2; i++) {
        clear_names(&missing[i]);
        clear_names(&extra[i]);
    }
    return status;
}

bg_status bgi_checkpoint_compare(loader *l)
{
    BGI_TRY(compare_seeds(l));
    BGI_TRY(compare_runs(l));
    BGI_TRY(compare_optimizers(l));
    return compare_names(l);
}
