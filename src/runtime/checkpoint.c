/*
 * checkpoint.c: writing checkpoints. A checkpoint is a file of named tensors (data/safetensors_write.c) whose metadata
 * say the rest; keys are in checkpoint.h. checkpoint_content.c puts it together.
 */
#include "runtime/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "runtime/session.h"
#include "runtime/weights.h"

/* ---- content ---- */

static bg_status fill_content(bgi_checkpoint_content *c, const bg_session *session,
                              const bg_checkpoint_save_options *options, bg_error *error)
{
    const bg_weights *weights = session->weights;

    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_VERSION, BGI_CHECKPOINT_NEWEST_VERSION, error));
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_STEP, weights->step, error));
    BGI_TRY(bgi_checkpoint_add_number(c, BGI_CHECKPOINT_SEED, session->plan->options.seed, error));
    bgi_checkpoint_add(c, BGI_CHECKPOINT_INFO, options->info != NULL ? options->info : "");
    if (options->blob_bytes > 0)
        BGI_TRY(bgi_checkpoint_add_blob(c, options->blob, options->blob_bytes, error));
    for (uint32_t i = 0; i < weights->count; i++)
        BGI_TRY(bgi_checkpoint_add_weight(c, i, true, error));
    return BG_OK;
}

/* ---- saving ---- */

bg_checkpoint_save_options bg_checkpoint_save_defaults(void)
{
    return (bg_checkpoint_save_options){.max_checkpoints = 1};
}

static bg_status check_options(const char *directory, const bg_checkpoint_save_options *options, bg_error *error)
{
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

bg_status bg_checkpoint_save(bg_session *session, const char *directory, const bg_checkpoint_save_options *options,
                             bg_error *error)
{
    const bg_checkpoint_save_options defaults = bg_checkpoint_save_defaults();
    const bg_options *run = &session->plan->options;
    const uint64_t step = session->weights->step;
    bgi_checkpoint_list list = {0};
    bgi_checkpoint_content c = {0};
    bg_status status;

    if (options == NULL)
        options = &defaults;
    BGI_TRY(check_options(directory, options, error));
    BGI_TRY_CLEANUP(bgi_checkpoint_find(directory, &list, error));
    BGI_TRY_CLEANUP(check_order(directory, &list, step, error));
    BGI_TRY_CLEANUP(bgi_checkpoint_begin(&c, session->weights, error));
    BGI_TRY_CLEANUP(fill_content(&c, session, options, error));
    BGI_TRY_CLEANUP(bgi_folder_create(directory, error));
    BGI_TRY_CLEANUP(write_content(&c, directory, step, error));
    /* The list is older than this checkpoint, unless it took the place of one. */
    bgi_checkpoint_remove_old(directory, &list,
                              (size_t)options->max_checkpoints - 1 + (list.count > 0 && list.steps[0] == step),
                              run->log, run->log_user);
cleanup:
    bgi_checkpoint_end(&c);
    free(list.steps);
    return status;
}
