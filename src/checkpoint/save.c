/*
 * save.c: writing checkpoints. A checkpoint is a file of named tensors (formats/safetensors_write.c) whose metadata
 * say the rest; keys are in checkpoint.h. content.c puts it together.
 */
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "runtime/state.h"

/* ---- content ---- */

/* `optimizer`: room for a text that must live as long as the content. */
static bg_status fill_content(bgi_checkpoint_content *c, const bg_session *session,
                              const bg_checkpoint_save_options *options, char *optimizer, bg_error *error)
{
    const bg_plan *plan = bg_session_plan(session);
    const bg_optimizer *trained = bg_plan_optimizer(plan);
    const uint32_t end = bgi_weights_end(c->weights);
    const char *fallback = NULL;

    if (trained != NULL) {
        bg_optimizer_describe_state(trained, optimizer);
        fallback = optimizer;
    }
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_VERSION, BGI_CHECKPOINT_NEWEST_VERSION, error));
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_STEP, bgi_weights_step(c->weights), error));
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_SEED, bg_plan_options(plan)->numerics.seed, error));
    bgi_checkpoint_add(c, BGI_CHECKPOINT_INFO, options->info != NULL ? options->info : "");
    if (options->blob_bytes > 0)
        BGI_TRY(bgi_checkpoint_add_blob(c, options->blob, options->blob_bytes, error));
    BGI_TRY(bgi_checkpoint_add_optimizer(c, fallback, error));
    for (uint32_t i = 0; i < end; i++)
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
        return bg_error_set(error, BG_ERROR_INVALID, "checkpoint: no directory");
    if (options->max_checkpoints == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "checkpoint: max_checkpoints 0, expected at least 1");
    if (options->blob_bytes > BG_CHECKPOINT_BLOB_LIMIT)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "checkpoint: a blob of %zu bytes, expected at most %zu; keep more in a file of your own",
                            options->blob_bytes, BG_CHECKPOINT_BLOB_LIMIT);
    if (options->blob_bytes > 0 && options->blob == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "checkpoint: blob_bytes %zu without a blob", options->blob_bytes);
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

/* A later checkpoint would be taken for the newest by the next load, and this one for an old one. */
static bg_status check_order(const char *directory, const bgi_checkpoint_list *list, uint64_t step, bg_error *error)
{
    char later[BGI_CHECKPOINT_NAME_BYTES];

    if (list->count > 0 && list->steps[0] > step)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "checkpoint: %s has `%s`, later than step %" PRIu64
                            " of this run; remove it, or save to another directory",
                            directory, bgi_checkpoint_name(list->steps[0], later), step);
    return BG_OK;
}

typedef struct saving {
    bg_session *session;
    const char *directory;
    const bg_checkpoint_save_options *options;
} saving;

static bg_status write_all(void *user, bg_error *error)
{
    const saving *s = user;
    bg_session *session = s->session;
    const bg_checkpoint_save_options *options = s->options;
    const char *directory = s->directory;
    const bg_options *run = bg_plan_options(bg_session_plan(session));
    const uint64_t step = bg_session_step(session);
    bgi_checkpoint_list list = {0};
    bgi_checkpoint_content c = {0};
    char optimizer[BG_OPTIMIZER_STATE_TEXT_BYTES];
    bg_status status;

    BGI_TRY_CLEANUP(bgi_checkpoint_find(directory, &list, error));
    BGI_TRY_CLEANUP(check_order(directory, &list, step, error));
    BGI_TRY_CLEANUP(bgi_checkpoint_begin(&c, bg_session_weights(session), error));
    BGI_TRY_CLEANUP(fill_content(&c, session, options, optimizer, error));
    BGI_TRY_CLEANUP(bgi_folder_create(directory, error));
    BGI_TRY_CLEANUP(write_content(&c, directory, step, error));
    /* The list is older than this checkpoint, unless it took the place of one. */
    bgi_checkpoint_remove_old(directory, &list,
                              (size_t)options->max_checkpoints - 1 + (list.count > 0 && list.steps[0] == step),
                              run->reporting.log, run->reporting.log_user);
cleanup:
    bgi_checkpoint_end(&c);
    free(list.steps);
    return status;
}

/* Inside the session's weights. Of several ranks the first writes, and the others send it their parts. */
static bg_status save(bg_session *session, const char *directory, const bg_checkpoint_save_options *options,
                      bg_error *error)
{
    const bg_checkpoint_save_options defaults = bg_checkpoint_save_defaults();
    saving s = {session, directory, options != NULL ? options : &defaults};

    BGI_TRY(check_options(directory, s.options, error));
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
