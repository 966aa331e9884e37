/*
 * recipe_profile.c: implements --profile: writes reports of training and of the test after it, and the trace of the
 * shorter last call.
 */
#include "cli/profile.h"
#include "cli/ranks.h"
#include "cli/recipe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/profile.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

enum { PROFILE_TRACE, PROFILE_TRACE_LAST, PROFILE_SUMMARY };
static const char *const profile_files[CLI_PROFILE_FILES] = {"trace.json", "trace-last.json", "summary.txt",
                                                             "summary.json", "report.html"};

void cli_print_text(const char *title, char *text, uint32_t line_limit)
{
    const char *line = text;

    printf("%s:\n", title);
    for (uint32_t i = 0; *line != '\0' && (line_limit == 0 || i < line_limit); i++) {
        size_t length = strcspn(line, "\n");
        printf("  %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    if (*line != '\0')
        printf("  ...\n");
    free(text);
}

static const char *find_folder(const cli_recipe *recipe)
{
    return recipe->profile_dir != NULL ? recipe->profile_dir : CLI_PROFILE_DIR;
}

void cli_profile_paths(const cli_recipe *recipe, char *paths[CLI_PROFILE_FILES])
{
    for (int i = 0; i < CLI_PROFILE_FILES; i++)
        paths[i] = recipe->profile ? bgi_path_join(find_folder(recipe), profile_files[i]) : NULL;
}

bg_status cli_profile_check(const cli_recipe *recipe, bg_error *error)
{
    const char *folder = find_folder(recipe);
    char *path;
    bg_status status;

    if (bgi_folder_create(folder, error) != BG_OK)
        return bg_error_context(error, error->status, "--profile-dir");
    path = bgi_path_join(folder, profile_files[PROFILE_TRACE]);
    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = cli_save_check(path, "profile-dir", error);
    free(path);
    return status;
}

/* Writes the report of a session with its trace (`file` is PROFILE_TRACE), or only the trace of the last call, with the
 * events of all ranks, and adds a summary to `text`. All ranks must call the function; the first rank writes. */
static bg_status write_trace(const cli_recipe *recipe, bg_session *session, const bg_plan *plan, int file,
                             const bg_profile_notes *notes, bgi_string *text, bg_error *error)
{
    char *path, *summary = NULL;
    bg_status status;

    if (file == PROFILE_TRACE)
        BGI_TRY(cli_profile_put(find_folder(recipe), NULL, session, notes, recipe->quiet, error));
    else
        BGI_TRY(bg_session_share_trace(session, 0, error));
    if (!cli_ranks_is_first())
        return BG_OK;
    path = bgi_path_join(find_folder(recipe), profile_files[file]);
    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    if (file == PROFILE_TRACE_LAST)
        BGI_TRY_CLEANUP(bg_profile_write_trace(session, plan, path, error));
    BGI_TRY_CLEANUP(bg_profile_print_summary(session, plan, &summary, error));
    if (file == PROFILE_TRACE_LAST)
        bgi_string_add(text, "the last call, of %u weight updates only:\n", bg_plan_summarize(plan).steps_per_run);
    bgi_string_add(text, "%s", summary);
    if (!recipe->quiet)
        printf("Trace%s: %s (open it with https://ui.perfetto.dev)\n",
               file == PROFILE_TRACE_LAST ? " of the shorter last call" : "", path);
    status = BG_OK;
cleanup:
    free(summary);
    free(path);
    return status;
}

static bg_profile_notes make_notes(const cli_recipe *recipe, const cli_training *training, const char *model)
{
    const bg_loader_statistics *loader = &training->loader_statistics;

    return (bg_profile_notes){.program = training->model->program,
                              .model = model,
                              .samples = recipe->sample_words,
                              .loader_wait_ns = loader->wait_ns,
                              .loader_batches = loader->batch_count,
                              .loader_misses = loader->miss_count};
}

bg_status cli_profile_write_test(const cli_recipe *recipe, const cli_training *training, const char *model,
                                 bg_error *error)
{
    const bg_profile_notes notes = {
        .program = training->model->program, .model = model, .samples = recipe->sample_words};
    bg_session *session = bg_trainer_session(training->trainer, BG_TRAINER_TEST);

    return recipe->profile && session != NULL
               ? cli_profile_put(find_folder(recipe), "test", session, &notes, recipe->quiet, error)
               : BG_OK;
}

/* Removes the trace of an earlier run. */
static bg_status remove_trace(const char *path, bg_error *error)
{
    char reason[BGI_ERRNO_TEXT_BYTES];

    if (remove(path) == 0 || errno == ENOENT)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_IO, "%s: cannot remove an earlier run's trace: %s", path,
                        bgi_errno_text(errno, reason));
}

/* Writes the profile of the training. The shorter last call is compiled separately, so it has a separate trace; it may
 * be the only call. */
bg_status cli_profile_write(const cli_recipe *recipe, const cli_training *training, const cli_run *run,
                            const char *model, bg_error *error)
{
    const bg_trainer *trainer = training->trainer;
    const bg_profile_notes notes = make_notes(recipe, training, model);
    const bg_plan *plan = bg_session_plan(bg_trainer_session(trainer, BG_TRAINER_FIT));
    bg_session *session = bg_trainer_session(trainer, BG_TRAINER_FIT);
    bg_session *rest_session = bg_trainer_rest_session(trainer, BG_TRAINER_FIT);
    const bg_plan *rest = rest_session != NULL ? bg_session_plan(rest_session) : NULL;
    const bool is_only = rest != NULL && !run->has_whole;
    char *summary_path = bgi_path_join(find_folder(recipe), profile_files[PROFILE_SUMMARY]);
    char *last_path = bgi_path_join(find_folder(recipe), profile_files[PROFILE_TRACE_LAST]);
    char *summary = NULL;
    bgi_string text = {0};
    bg_status status = BG_OK;

    if (summary_path == NULL || last_path == NULL) {
        status = bgi_error_memory(error, "path", 0);
        goto cleanup;
    }
    BGI_TRY_CLEANUP(write_trace(recipe, is_only ? rest_session : session, is_only ? rest : plan, PROFILE_TRACE, &notes,
                                &text, error));
    if (rest != NULL && !is_only)
        BGI_TRY_CLEANUP(write_trace(recipe, rest_session, rest, PROFILE_TRACE_LAST, &notes, &text, error));
    else if (cli_ranks_is_first())
        BGI_TRY_CLEANUP(remove_trace(last_path, error));
    if (!cli_ranks_is_first())
        goto cleanup;
    BGI_TRY_CLEANUP(bgi_string_finish(&text, &summary, error));
    BGI_TRY_CLEANUP(bgi_file_save(summary_path, summary, strlen(summary), error));
    if (!recipe->quiet) {
        cli_print_text("Profile", summary, 0);
        summary = NULL;
    }
cleanup:
    bgi_string_clear(&text);
    free(summary);
    free(summary_path);
    free(last_path);
    return status;
}
