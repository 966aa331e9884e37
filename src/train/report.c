/*
 * report.c: writes the profile of a task into a separate folder: training/report.html, training/profile.json, and so
 * on. The first rank writes the profile of all ranks.
 */
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

#include <brigade/profile.h>
#include <brigade/transport.h>

#include "core/error.h"
#include "core/file.h"

/* Sends the records of all ranks' devices to the first rank; *out_writes is true on the rank that writes the files. */
static bg_status share(const bgi_compiled *compiled, bool *out_writes, bg_error *error)
{
    const bg_transport *transport = bg_plan_options(compiled->plan)->execution.transport;

    *out_writes = transport == NULL || transport->rank == 0;
    return bg_session_share_trace(compiled->session, 0, error);
}

static bg_status write_files(const bgi_compiled *compiled, const char *folder, bg_error *error)
{
    char *trace_path = bgi_path_join(folder, "profile.json"), *text_path = bgi_path_join(folder, "profile.txt");
    char *text = NULL;
    bg_status status;

    if (trace_path == NULL || text_path == NULL) {
        status = bgi_error_memory(error, "path", 0);
        goto cleanup;
    }
    BGI_TRY_CLEANUP(bgi_folder_create(folder, error));
    BGI_TRY_CLEANUP(bg_profile_write_trace(compiled->session, compiled->plan, trace_path, error));
    BGI_TRY_CLEANUP(bg_profile_print_summary(compiled->session, compiled->plan, &text, error));
    BGI_TRY_CLEANUP(bgi_file_save(text_path, text, strlen(text), error));
cleanup:
    free(text);
    free(text_path);
    free(trace_path);
    return status;
}

bg_status bgi_report_write(const bg_trainer *trainer, bg_trainer_task task, const bg_loader *loader, bg_error *error)
{
    const bg_loader_statistics waits = loader != NULL ? bg_loader_statistics_of(loader) : (bg_loader_statistics){0};
    const bg_profile_notes notes = {.program = "trainer",
                                    .model = bg_trainer_task_name(task),
                                    .samples = "samples",
                                    .loader_wait_ns = waits.wait_ns,
                                    .loader_batches = waits.batch_count,
                                    .loader_misses = waits.miss_count};
    static const char *const folders[BG_TRAINER_TASK_COUNT] = {"training", "validation", "test", "predict"};
    const bgi_task *of = &trainer->tasks[task];
    const bgi_compiled *compiled = of->has_run ? &of->whole : &of->rest;
    char *folder;
    bool writes = false;
    bg_status status;

    if (trainer->options.strategy.report_folder == NULL || (!of->has_run && of->rest.session == NULL))
        return BG_OK;
    folder = bgi_path_join(trainer->options.strategy.report_folder, folders[task]);
    if (folder == NULL)
        return bgi_error_memory(error, "path", 0);
    status = bg_profile_write(compiled->session, &notes, folder, error);
    if (status == BG_OK)
        status = share(compiled, &writes, error);
    if (status == BG_OK && writes)
        status = write_files(compiled, folder, error);
    free(folder);
    return status != BG_OK ? bg_error_context(error, status, "report") : BG_OK;
}
