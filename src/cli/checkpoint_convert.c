/*
 * checkpoint_convert.c: turns the command line of `brigade checkpoint convert` into options of the conversion.
 */
#include "cli/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/weights.h>

#include "cli/command.h"
#include "core/arena.h"
#include "core/error.h"
#include "core/text.h"

/* Splits each text "THERE=HERE" into the two names of a bg_weights_rename. */
static bg_status read_renames(const cli_texts *texts, bgi_arena *arena, bg_weights_rename *out, bg_error *error)
{
    for (uint32_t i = 0; i < texts->count; i++) {
        const char *equals = strchr(texts->values[i], '=');

        if (equals == NULL || equals == texts->values[i] || equals[1] == '\0')
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "--rename is `%s`; it must be THERE=HERE, a name of the weights and the name in the checkpoint",
                texts->values[i]);
        out[i].in_file = bgi_arena_format(arena, "%.*s", (int)(equals - texts->values[i]), texts->values[i]);
        out[i].in_model = equals + 1;
        if (out[i].in_file == NULL)
            return bgi_error_memory(error, "names", strlen(texts->values[i]));
    }
    return BG_OK;
}

static bg_status run(bgi_stored *source, const char *to, const checkpoint_settings *settings, bgi_arena *arena,
                     bg_error *error)
{
    bg_weights_rename renames[CLI_LIST_LIMIT];
    bgi_convert_options options = {.to_checkpoint = settings->to != NULL ? strcmp(settings->to, "checkpoint") == 0
                                                                         : !source->is_checkpoint,
                                   .like = settings->like,
                                   .step = settings->step,
                                   .seed = settings->seed,
                                   .prefix = settings->prefix,
                                   .renames = renames,
                                   .rename_count = settings->renames.count,
                                   .folder_bytes = settings->file_bytes};
    const char *ignore = NULL;
    size_t count = 0;

    for (uint32_t i = 0; i < settings->ignore.count; i++) {
        ignore = bgi_arena_format(arena, "%s%s%s", ignore != NULL ? ignore : "", ignore != NULL ? "," : "",
                                  settings->ignore.values[i]);
        if (ignore == NULL)
            return bgi_error_memory(error, "names", strlen(settings->ignore.values[i]));
    }
    options.ignore = ignore;
    BGI_TRY(read_renames(&settings->renames, arena, renames, error));
    if (settings->floats != NULL && options.to_checkpoint)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--floats applies only to weights, because a checkpoint keeps its types");
    if (settings->file_bytes > 0 && options.to_checkpoint)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--file-size applies only to weights, because a checkpoint is one file");
    if ((settings->like != NULL || settings->step > 0 || settings->seed > 0) && !options.to_checkpoint)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--like, --step and --seed apply only when a checkpoint is written, but %s is a checkpoint "
                            "and is converted to weights; add --to checkpoint",
                            source->path);
    if (settings->like != NULL && (settings->step > 0 || settings->seed > 0))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--like also gives the step and the seed; leave --step and --seed out");
    if (settings->floats != NULL)
        options.floats = strcmp(settings->floats, "float32") == 0    ? BG_FLOAT32
                         : strcmp(settings->floats, "bfloat16") == 0 ? BG_BFLOAT16
                                                                     : BG_FLOAT16;
    BGI_TRY(bgi_stored_convert(source, to, &options, &count, error));
    printf("%zu tensor%s of %s to %s\n", count, cli_s(count), source->path, to);
    return BG_OK;
}

bg_status checkpoint_convert(const char *from, const char *to, const checkpoint_settings *settings, bg_error *error)
{
    bgi_stored *source = NULL;
    bgi_arena arena = {0};
    bg_status status;

    BGI_TRY(bgi_stored_open(from, &source, error));
    status = run(source, to, settings, &arena, error);
    bgi_arena_clear(&arena);
    bgi_stored_close(source);
    return status;
}
