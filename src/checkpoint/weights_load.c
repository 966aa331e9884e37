/*
 * weights_load.c: loads weights from a file. Every tensor is matched before the first value is set:
 *
 *     names of the file -> prefix, renames -> names of the model --+-- wanted: those of the plan, or of the weights
 *                                                                  +-- results, sorted by name: the report
 */
#include <brigade/plan_view.h>
#include <brigade/weights.h>

#include <stdlib.h>
#include <string.h>

#include "checkpoint/weights_names.h"
#include "checkpoint/weights_source.h"
#include "core/error.h"
#include "core/progress.h"
#include "core/text.h"
#include "runtime/state.h"

enum { NAMES_SHOWN = 5 };

/* One load. The results of the wanted names come first; items[i] is the file's tensor of results[i], or NULL. */
typedef struct loading {
    bg_weights *weights;
    const bg_weights_load_options *options;
    bgi_weights_source *source;
    bgi_arena arena; /* memory of the report */
    bg_weights_result *results;
    const bgi_weights_item **items;
    size_t count, wanted_count;
    bool takes_all; /* there are no weights and no plan, so everything is loaded */
} loading;

void bg_weights_load_options_init(bg_weights_load_options *options, size_t struct_bytes)
{
    const bg_weights_load_options made = {
        .struct_bytes = struct_bytes, .strict = true, .ignore = "*.num_batches_tracked"};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

const char *bg_weights_outcome_name(bg_weights_outcome outcome)
{
    static const char *const names[] = {"loaded", "missing", "unexpected", "misfit", "ignored"};

    return (unsigned)outcome < BG_WEIGHTS_OUTCOME_COUNT ? names[outcome] : "?";
}

/* ---- requested weights ---- */

static bool is_kept(bg_variable_role role)
{
    return role == BG_ROLE_PARAMETER || role == BG_ROLE_BUFFER;
}

static void want(loading *l, const char *name, const bg_type *type)
{
    l->results[l->count++] =
        (bg_weights_result){.name = bgi_arena_string(&l->arena, name), .outcome = BG_WEIGHTS_MISSING, .wanted = *type};
}

static int compare_results(const void *a, const void *b)
{
    const bg_weights_result *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Removes repeated names, which come from sections of one weight: they are variables of the same name. */
static void drop_repeated(loading *l)
{
    size_t kept = 0;

    for (size_t i = 0; i < l->count; i++)
        if (kept == 0 || strcmp(l->results[kept - 1].name, l->results[i].name) != 0)
            l->results[kept++] = l->results[i];
    l->count = kept;
}

static bg_status list_wanted(loading *l, bg_error *error)
{
    const bg_plan *plan = l->options->plan;
    const uint32_t has = plan != NULL ? bg_plan_summarize(plan).variable_count : bgi_weights_end(l->weights);
    const size_t most = has + bgi_weights_source_count(l->source);

    l->results = bgi_arena_allocate(&l->arena, most > 0 ? most : 1, sizeof *l->results);
    l->items = bgi_arena_allocate(&l->arena, most > 0 ? most : 1, sizeof *l->items);
    if (l->results == NULL || l->items == NULL)
        return bgi_error_memory(error, "names of weights", most * sizeof *l->results);
    for (uint32_t i = 0; i < has; i++) {
        const bg_plan_variable variable = plan != NULL ? bg_plan_variable_at(plan, i) : (bg_plan_variable){0};
        const bgi_tensor tensor = plan == NULL ? bgi_weights_tensor(l->weights, i) : (bgi_tensor){0};
        if (plan != NULL && is_kept(variable.role))
            want(l, variable.name, &variable.type);
        else if (plan == NULL && tensor.name != NULL && is_kept(tensor.role))
            want(l, tensor.name, &tensor.type);
    }
    for (size_t i = 0; i < l->count; i++)
        if (l->results[i].name == NULL)
            return bgi_error_memory(error, "names of weights", 0);
    qsort(l->results, l->count, sizeof *l->results, compare_results);
    drop_repeated(l);
    l->wanted_count = l->count;
    l->takes_all = l->count == 0 && plan == NULL;
    return BG_OK;
}

/* ---- the file's tensors ---- */

static bg_weights_result *find_wanted(const loading *l, const char *name)
{
    const bg_weights_result key = {.name = name};

    return bsearch(&key, l->results, l->wanted_count, sizeof *l->results, compare_results);
}

static bool fits(const loading *l, const bg_type *wanted, const bgi_weights_item *item)
{
    bg_type found = item->type;

    if (found.dtype == wanted->dtype)
        return bg_type_equal(&found, wanted);
    if (l->options->exact_types || !bgi_weights_is_convertible(found.dtype, wanted->dtype))
        return false;
    found.dtype = wanted->dtype;
    return bg_type_equal(&found, wanted);
}

static void add_result(loading *l, const bgi_weights_item *item, const char *in_file, const char *name,
                       bg_weights_outcome outcome)
{
    l->items[l->count] = item;
    l->results[l->count++] =
        (bg_weights_result){.name = name, .in_file = in_file, .outcome = outcome, .found = item->type};
}

static bg_status match_item(loading *l, const bgi_weights_item *item, bg_error *error)
{
    const bg_weights_load_options *options = l->options;
    const size_t prefix_length = options->prefix != NULL ? strlen(options->prefix) : 0;
    const char *in_file = bgi_arena_string(&l->arena, item->name), *name;
    bg_weights_result *result;

    if (in_file == NULL)
        return bgi_error_memory(error, "names of weights", 0);
    if (prefix_length > 0 && strncmp(in_file, options->prefix, prefix_length) != 0) {
        add_result(l, item, in_file, in_file, BG_WEIGHTS_IGNORED);
        return BG_OK;
    }
    name = bgi_weights_rename_name(options->renames, options->rename_count, true, in_file + prefix_length, &l->arena);
    if (name == NULL)
        return bgi_error_memory(error, "names of weights", 0);
    if (bgi_weights_names_match(options->ignore, name)) {
        add_result(l, item, in_file, name, BG_WEIGHTS_IGNORED);
        return BG_OK;
    }
    result = find_wanted(l, name);
    if (result == NULL) {
        const bool is_taken = l->takes_all && item->type.dtype != BG_DTYPE_NONE;
        add_result(l, item, in_file, name, is_taken ? BG_WEIGHTS_LOADED : BG_WEIGHTS_UNEXPECTED);
        if (is_taken)
            l->results[l->count - 1].wanted = item->type;
        return BG_OK;
    }
    if (result->in_file != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "tensors `%.200s` and `%.200s` of the file would both be weight `%.200s`", result->in_file,
                            in_file, name);
    result->in_file = in_file;
    result->found = item->type;
    result->outcome = fits(l, &result->wanted, item) ? BG_WEIGHTS_LOADED : BG_WEIGHTS_MISFIT;
    l->items[result - l->results] = item;
    return BG_OK;
}

/* ---- mismatches ---- */

static void print_result(bgi_string *text, const bg_weights_result *result)
{
    char wanted[BG_TYPE_TEXT_BYTES], found[BG_TYPE_TEXT_BYTES];
    const bool is_other = result->in_file != NULL && strcmp(result->in_file, result->name) != 0;

    bgi_string_add(text, "%s `%s`", bg_weights_outcome_name(result->outcome), result->name);
    if (result->outcome == BG_WEIGHTS_MISSING)
        bgi_string_add(text, " %s", bg_type_text(&result->wanted, wanted));
    else if (result->outcome == BG_WEIGHTS_MISFIT)
        bgi_string_add(text, ": the file has %s, but the model has %s", bg_type_text(&result->found, found),
                       bg_type_text(&result->wanted, wanted));
    else
        bgi_string_add(text, " %s", bg_type_text(&result->found, found));
    if (is_other)
        bgi_string_add(text, " (`%s` in the file)", result->in_file);
}

bg_status bg_weights_report_print(const bg_weights_report *report, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(report, "report", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};

    for (uint32_t i = 0; i < report->result_count; i++) {
        if (report->results[i].outcome == BG_WEIGHTS_LOADED)
            continue;
        print_result(&text, &report->results[i]);
        bgi_string_add(&text, "\n");
    }
    return bgi_string_finish(&text, out_text, error);
}

/* Reports that the file does not fit, with the first names. Mismatched and missing names come first, because they need
 * the user's attention. */
static bg_status refuse(const loading *l, const char *path, const uint32_t *counts, bg_error *error)
{
    static const bg_weights_outcome order[] = {BG_WEIGHTS_MISFIT, BG_WEIGHTS_MISSING, BG_WEIGHTS_UNEXPECTED};
    const bg_status status = counts[BG_WEIGHTS_MISFIT] > 0    ? BG_ERROR_SHAPE
                             : counts[BG_WEIGHTS_MISSING] > 0 ? BG_ERROR_NOT_FOUND
                                                              : BG_ERROR_INVALID;
    bgi_string text = {0};
    uint32_t shown = 0;

    for (size_t o = 0; o < sizeof order / sizeof order[0]; o++)
        for (size_t i = 0; i < l->count; i++)
            if (l->results[i].outcome == order[o] && shown++ < NAMES_SHOWN) {
                bgi_string_add(&text, "%s", shown > 1 ? "; " : "");
                print_result(&text, &l->results[i]);
            }
    if (shown > NAMES_SHOWN)
        bgi_string_add(&text, "; and %u more", shown - NAMES_SHOWN);
    bg_error_set(error, status,
                 "%s does not have this model's weights (%u missing, %u unexpected, %u of another shape or type): %s. "
                 "options.renames, prefix and ignore adapt names; without options.strict matching tensors are loaded",
                 path, counts[BG_WEIGHTS_MISSING], counts[BG_WEIGHTS_UNEXPECTED], counts[BG_WEIGHTS_MISFIT],
                 text.data != NULL && !text.failed ? text.data : "");
    bgi_string_clear(&text);
    return status;
}

/* ---- values ---- */

static uint64_t count_loaded_bytes(const loading *l)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < l->count; i++)
        bytes += l->results[i].outcome == BG_WEIGHTS_LOADED ? bg_type_size_bytes(&l->results[i].wanted) : 0;
    return bytes;
}

/* A tensor that becomes a weight. */
typedef struct taken {
    const loading *loading;
    size_t index;
} taken;

/* Implements the callback of bg_weights_fill. */
static bg_status write_tensor(void *user, void *data, bg_error *error)
{
    const taken *t = user;
    const loading *l = t->loading;

    return bgi_weights_source_read(l->source, l->items[t->index], l->results[t->index].wanted.dtype, data, error);
}

static bg_status set_values(const loading *l, bg_error *error)
{
    bgi_progress progress = {l->options->progress, l->options->progress_user, "the load", 0, count_loaded_bytes(l)};

    for (size_t i = 0; i < l->count; i++) {
        const bg_weights_result *result = &l->results[i];
        taken t = {.loading = l, .index = i};

        if (result->outcome != BG_WEIGHTS_LOADED)
            continue;
        BGI_TRY(bgi_progress_begin(&progress, result->name, bg_type_size_bytes(&result->wanted), error));
        BGI_TRY(bg_weights_fill(l->weights, result->name, &result->wanted, write_tensor, &t, error));
    }
    return BG_OK;
}

static bg_status load(loading *l, const char *path, bg_weights_report *report, bg_error *error)
{
    bg_status status;

    BGI_TRY(list_wanted(l, error));
    for (size_t i = 0; i < bgi_weights_source_count(l->source); i++)
        BGI_TRY(match_item(l, bgi_weights_source_at(l->source, i), error));
    for (size_t i = 0; i < l->count; i++)
        report->counts[l->results[i].outcome]++;
    if (l->options->strict &&
        report->counts[BG_WEIGHTS_MISSING] + report->counts[BG_WEIGHTS_UNEXPECTED] + report->counts[BG_WEIGHTS_MISFIT] >
            0)
        status = refuse(l, path, report->counts, error);
    else
        status = set_values(l, error);
    report->results = l->results;
    report->result_count = (uint32_t)l->count;
    qsort(l->results, l->count, sizeof *l->results, compare_results);
    return status;
}

void bg_weights_report_clear(bg_weights_report *report)
{
    bgi_arena *arena = report != NULL ? report->memory : NULL;

    if (arena != NULL)
        bgi_arena_clear(arena);
    free(arena);
    if (report != NULL)
        memset(report, 0, sizeof *report);
}

bg_status bgi_weights_load_source(bg_weights *weights, bgi_weights_source *source, const char *path,
                                  const bg_weights_load_options *options, bg_weights_report *out_report,
                                  bg_error *error)
{
    const bg_weights_load_options defaults = bg_weights_load_defaults();
    bg_weights_report report = {0};
    loading l = {.weights = weights, .options = options != NULL ? options : &defaults, .source = source};
    bg_status status = load(&l, path, &report, error);

    if (out_report != NULL && report.results != NULL)
        report.memory = malloc(sizeof(bgi_arena));
    if (report.memory != NULL) {
        memcpy(report.memory, &l.arena, sizeof l.arena);
        *out_report = report;
    } else {
        bgi_arena_clear(&l.arena);
        if (status == BG_OK && out_report != NULL)
            status = bgi_error_memory(error, "a report", sizeof(bgi_arena));
    }
    return status;
}

bg_status bg_weights_load(bg_weights *weights, const char *path, const bg_weights_load_options *options,
                          bg_weights_report *out_report, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(path, "path", __func__, error));
    if (options != NULL)
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_weights_load_options",
                                 "bg_weights_load_defaults()", error));

    bgi_weights_source *source = NULL;
    bg_status status;

    if (out_report != NULL)
        memset(out_report, 0, sizeof *out_report);
    if (options != NULL)
        BGI_TRY(bgi_weights_renames_check(options->renames, options->rename_count, error));
    BGI_TRY(bgi_weights_source_open(path, &source, error));
    status = bgi_weights_load_source(weights, source, path, options, out_report, error);
    bgi_weights_source_close(source);
    return status;
}
