/*
 * save.c: writes checkpoints. Each file of a checkpoint has named tensors (formats/safetensors_write.c) and metadata,
 * whose keys are in checkpoint.h. content.c combines them.
 */
#include "checkpoint/parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "runtime/state.h"

/* ---- content ---- */

/* Adds a copy of a string to the content, which owns the copy. */
static bg_status add_copy(bgi_checkpoint_content *c, const char *key, const char *value, bg_error *error)
{
    bgi_string *text = bgi_checkpoint_text(c);

    bgi_string_add(text, "%s", value);
    return bgi_checkpoint_add_text(c, key, text, error);
}

/* Adds the metric in the form that best.c reads. */
static bg_status add_metric(bgi_checkpoint_content *c, const bg_checkpoint_save_options *options, bg_error *error)
{
    bgi_string *text;

    if (options->metric_name == NULL || !isfinite(options->metric))
        return BG_OK;
    text = bgi_checkpoint_text(c);
    bgi_string_add(text, "%s ", options->metric_rises ? "max" : "min");
    bgi_string_add_shortest(text, options->metric);
    bgi_string_add(text, " %s", options->metric_name);
    return bgi_checkpoint_add_text(c, BGI_CHECKPOINT_METRIC, text, error);
}

static bg_status add_run(bgi_checkpoint_content *c, const bg_plan *plan, bg_error *error)
{
    bgi_string *text = bgi_checkpoint_text(c);

    bgi_checkpoint_describe_run(plan, text);
    return bgi_checkpoint_add_text(c, BGI_CHECKPOINT_RUN, text, error);
}

/* Adds the metadata of a checkpoint in one file or of a manifest, except those of weights. */
static bg_status fill_content(bgi_checkpoint_content *c, const bg_session *session,
                              const bg_checkpoint_save_options *options, bg_error *error)
{
    const bg_plan *plan = bg_session_plan(session);
    const bg_optimizer *trained = bg_plan_optimizer(plan);
    char optimizer[BG_OPTIMIZER_STATE_TEXT_BYTES];

    if (trained != NULL)
        bg_optimizer_describe_state(trained, optimizer);
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_STEP, bgi_weights_step(c->weights), error));
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_SEED, bg_plan_options(plan)->numerics.seed, error));
    if (trained != NULL)
        BGI_TRY(add_run(c, plan, error));
    BGI_TRY(add_copy(c, BGI_CHECKPOINT_INFO, options->info != NULL ? options->info : "", error));
    BGI_TRY(add_metric(c, options, error));
    if (options->blob_bytes > 0)
        BGI_TRY(bgi_checkpoint_add_blob(c, options->blob, options->blob_bytes, error));
    return bgi_checkpoint_add_optimizer(c, trained != NULL ? optimizer : NULL, error);
}

static bg_status add_weights(bgi_checkpoint_content *c, bg_error *error)
{
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_VERSION, BGI_CHECKPOINT_FILE_VERSION, error));
    for (uint32_t i = 0; i < bgi_weights_end(c->weights); i++)
        if (bgi_weights_tensor(c->weights, i).name != NULL)
            BGI_TRY(bgi_checkpoint_add_weight(c, i, true, error));
    return BG_OK;
}

/* ---- saving ---- */

void bg_checkpoint_save_options_init(bg_checkpoint_save_options *options, size_t struct_bytes)
{
    const bg_checkpoint_save_options made = {.struct_bytes = struct_bytes, .max_checkpoints = 1};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

static bg_status check_options(const char *directory, const bg_checkpoint_save_options *options, bg_error *error)
{
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_checkpoint_save_options",
                             "bg_checkpoint_save_defaults()", error));
    if (directory == NULL || directory[0] == '\0')
        return bg_error_set(error, BG_ERROR_INVALID,
                            "checkpoint: the name of the directory is empty; give the folder of checkpoints");
    if (options->max_checkpoints == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "checkpoint: max_checkpoints is 0; it must be at least 1");
    if (options->blob_bytes > BG_CHECKPOINT_BLOB_LIMIT)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "checkpoint: blob_bytes is %zu but must be at most %zu; keep larger data in a separate file",
            options->blob_bytes, BG_CHECKPOINT_BLOB_LIMIT);
    if (options->blob_bytes > 0 && options->blob == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "checkpoint: blob_bytes is %zu, but blob is NULL",
                            options->blob_bytes);
    if (options->metric_name != NULL && options->metric_name[0] == '\0')
        return bg_error_set(error, BG_ERROR_INVALID, "checkpoint: metric_name is empty; give a name, or NULL");
    return BG_OK;
}

static bg_status write_content(bgi_checkpoint_content *c, const char *directory, uint64_t step, bg_error *error)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];
    char *path = bgi_path_join(directory, bgi_checkpoint_name(step, name));
    bg_status status;

    if (path == NULL)
        return bgi_error_memory(error, "a path", strlen(directory));
    status = bgi_checkpoint_write(c, path, error);
    free(path);
    return status;
}

typedef struct saving {
    bg_session *session;
    const char *directory;
    const bg_checkpoint_save_options *options;
} saving;

static bg_status write_all(void *user, bg_error *error)
{
    saving *s = user;
    bg_session *session = s->session;
    const bg_checkpoint_save_options *options = s->options;
    const char *directory = s->directory;
    const bg_options *run = bg_plan_options(bg_session_plan(session));
    const uint64_t step = bg_session_step(session);
    bgi_checkpoint_list list = {0};
    bgi_checkpoint_content c = {0};
    bg_status status;

    BGI_TRY_CLEANUP(bgi_checkpoint_find(directory, &list, error));
    BGI_TRY_CLEANUP(bgi_checkpoint_check_order(directory, &list, step, error));
    BGI_TRY_CLEANUP(bgi_checkpoint_begin(&c, session, 0, error));
    BGI_TRY_CLEANUP(fill_content(&c, session, options, error));
    BGI_TRY_CLEANUP(add_weights(&c, error));
    BGI_TRY_CLEANUP(bgi_folder_create(directory, error));
    BGI_TRY_CLEANUP(write_content(&c, directory, step, error));
    bgi_checkpoint_remove_old(directory, &list, step, options, run->reporting.log, run->reporting.log_user);
cleanup:
    bgi_checkpoint_end(&c);
    free(list.steps);
    return status;
}

static bg_status fill_manifest(void *user, bgi_checkpoint_content *c, bg_error *error)
{
    saving *s = user;

    return fill_content(c, s->session, s->options, error);
}

static bg_status save_parts(saving *s, bg_error *error)
{
    bgi_part_save parts = {.session = s->session, .directory = s->directory, .options = *s->options, .error = error};
    bg_status status = bgi_parts_prepare(&parts, false, fill_manifest, s);

    if (status == BG_OK) {
        bgi_parts_start(&parts);
        status = bgi_parts_wait(&parts);
    }
    if (status == BG_OK)
        status = bgi_parts_complete(&parts);
    bgi_parts_clear(&parts);
    return status;
}

/* Saves a checkpoint. With several ranks, each rank writes a part or, with one_file, rank 0 gathers all values and
 * writes one file. */
static bg_status save(bg_session *session, const char *directory, const bg_checkpoint_save_options *options,
                      bg_error *error)
{
    const bg_checkpoint_save_options defaults = bg_checkpoint_save_defaults();
    saving s = {session, directory, options != NULL ? options : &defaults};

    BGI_TRY(check_options(directory, s.options, error));
    if (bgi_session_rank_count(session) > 1 && !s.options->one_file)
        return save_parts(&s, error);
    return bgi_session_read_weights(session, 0, write_all, &s, error);
}

bg_status bg_checkpoint_save(bg_session *session, const char *directory, const bg_checkpoint_save_options *options,
                             bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(directory, "directory", __func__, error));

    bg_status status;

    BGI_TRY(bgi_weights_enter(bg_session_weights(session), session, "bg_checkpoint_save", error));
    status = save(session, directory, options, error);
    bgi_weights_leave(bg_session_weights(session));
    return status;
}

/* ---- in the background ---- */

struct bg_checkpoint_writer {
    saving s;
    bg_checkpoint_save_options options;
    char *directory;
    bgi_part_save parts; /* in one process, `part` is the whole checkpoint, and `manifest` is not used */
};

static bg_status prepare_alone(bg_checkpoint_writer *w)
{
    bgi_part_save *p = &w->parts;
    char name[BGI_CHECKPOINT_NAME_BYTES];

    p->step = bg_session_step(p->session);
    p->words = calloc(1, sizeof *p->words);
    p->path = bgi_path_join(w->directory, bgi_checkpoint_name(p->step, name));
    if (p->path == NULL || p->words == NULL)
        return bgi_error_memory(p->error, "a path", strlen(w->directory));
    BGI_TRY(bgi_checkpoint_find(w->directory, &p->list, p->error));
    BGI_TRY(bgi_checkpoint_check_order(w->directory, &p->list, p->step, p->error));
    BGI_TRY(bgi_folder_create(w->directory, p->error));
    BGI_TRY(bgi_checkpoint_begin(&p->part, p->session, 0, p->error));
    BGI_TRY(fill_content(&p->part, p->session, &w->options, p->error));
    BGI_TRY(add_weights(&p->part, p->error));
    return bgi_parts_copy(p);
}

static void free_writer(bg_checkpoint_writer *w)
{
    bgi_parts_clear(&w->parts);
    free(w->directory);
    free(w);
}

static bg_status begin_writing(bg_checkpoint_writer *w)
{
    bg_session *session = w->parts.session;
    const bool is_alone = bgi_session_rank_count(session) == 1;

    if (w->options.one_file && !is_alone)
        return bg_error_set(
            w->parts.error, BG_ERROR_INVALID,
            "checkpoint: one_file is set and there are several ranks: only bg_checkpoint_save can write this file");
    BGI_TRY(is_alone ? prepare_alone(w) : bgi_parts_prepare(&w->parts, true, fill_manifest, &w->s));
    bgi_parts_start(&w->parts);
    return BG_OK;
}

bg_status bg_checkpoint_begin(bg_session *session, const char *directory, const bg_checkpoint_save_options *options,
                              bg_checkpoint_writer **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(directory, "directory", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bg_checkpoint_save_options given = options != NULL ? *options : bg_checkpoint_save_defaults();
    bg_checkpoint_writer *w;
    bg_status status;

    BGI_TRY(check_options(directory, &given, error));
    w = calloc(1, sizeof *w);
    if (w == NULL)
        return bgi_error_memory(error, "a checkpoint", sizeof *w);
    w->options = given;
    w->directory = strdup(directory);
    w->s = (saving){session, w->directory, &w->options};
    w->parts = (bgi_part_save){
        .session = session, .directory = w->directory, .options = given, .error = error, .is_beside = true};
    status = w->directory != NULL ? bgi_weights_enter(bg_session_weights(session), session, __func__, error)
                                  : bgi_error_memory(error, "a path", strlen(directory));
    if (status == BG_OK) {
        status = begin_writing(w);
        bgi_weights_leave(bg_session_weights(session));
    }
    if (status == BG_OK) {
        *out = w;
        return BG_OK;
    }
    free_writer(w);
    return status;
}

static bg_status reserve_alone(bgi_part_save *p)
{
    BGI_TRY(bgi_checkpoint_begin(&p->part, p->session, 0, p->error));
    BGI_TRY(add_weights(&p->part, p->error));
    return bgi_parts_copy(p);
}

bg_status bg_checkpoint_reserve_memory(bg_session *session, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));

    bgi_part_save parts = {.session = session, .error = error};
    bg_status status;

    BGI_TRY(bgi_weights_enter(bg_session_weights(session), session, __func__, error));
    status = bgi_session_rank_count(session) == 1 ? reserve_alone(&parts) : bgi_parts_reserve(&parts);
    bgi_parts_clear(&parts);
    bgi_weights_leave(bg_session_weights(session));
    return status;
}

bg_status bg_checkpoint_release_memory(bg_session *session, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_weights_enter(bg_session_weights(session), session, __func__, error));
    bgi_session_drop_room(session);
    bgi_weights_leave(bg_session_weights(session));
    return BG_OK;
}

bg_status bg_checkpoint_is_written(bg_checkpoint_writer *w, bool *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(w, "writer", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_weights *weights = bg_session_weights(w->parts.session);
    bool is_waiting = !atomic_load(&w->parts.is_done);
    bg_status status;

    BGI_TRY(bgi_weights_enter(weights, w->parts.session, __func__, error));
    status = bgi_session_any(w->parts.session, &is_waiting, error);
    bgi_weights_leave(weights);
    *out = !is_waiting;
    return status;
}

static bg_status finish_alone(bg_checkpoint_writer *w, bg_error *error)
{
    const bg_options *run = bg_plan_options(bg_session_plan(w->parts.session));
    const bgi_part_save *p = &w->parts;

    if (p->written != BG_OK)
        return bg_error_set(error, p->written, "%s", p->why.message);
    bgi_checkpoint_remove_old(w->directory, &p->list, p->step, &w->options, run->reporting.log,
                              run->reporting.log_user);
    return BG_OK;
}

bg_status bg_checkpoint_finish(bg_checkpoint_writer *w, bg_error *error)
{
    bg_error_clear(error);
    if (w == NULL)
        return BG_OK;

    bg_weights *weights = bg_session_weights(w->parts.session);
    bg_status status;

    w->parts.error = error;
    status = bgi_weights_enter(weights, w->parts.session, __func__, error);
    if (status == BG_OK) {
        status = bgi_parts_wait(&w->parts);
        if (status == BG_OK)
            status =
                bgi_session_rank_count(w->parts.session) == 1 ? finish_alone(w, error) : bgi_parts_complete(&w->parts);
        bgi_weights_leave(weights);
    }
    free_writer(w);
    return status;
}
