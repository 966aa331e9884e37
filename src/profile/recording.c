/*
 * recording.c: begins and ends the recording of a session in a folder, and writes its files.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <brigade/transport.h>

#include "core/error.h"
#include "core/file.h"
#include "profile/analysis.h"
#include "profile/report.h"

/* MOST_TRACE_EVENTS limits trace.json to about 12 MB. TEXTS is the number of files that are made in memory. */
enum { MOST_TRACE_EVENTS = 60000, TEXTS = 2 };

static bg_status switch_recording(bg_session *session, bool on, const char *function, bg_error *error)
{
    BGI_TRY(bgi_require(session, "session", function, error));
    if (bgi_session_runs(session) == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: the plan must be created with options.reporting.trace",
                            function);
    bgi_session_record(session, on);
    return BG_OK;
}

bg_status bg_profile_start(bg_session *session, bg_error *error)
{
    bg_error_clear(error);
    return switch_recording(session, true, __func__, error);
}

bg_status bg_profile_stop(bg_session *session, bg_error *error)
{
    bg_error_clear(error);
    return switch_recording(session, false, __func__, error);
}

static bg_status write_text(const char *folder, const char *name, const char *text, size_t size_bytes, bg_error *error)
{
    char *path = bgi_path_join(folder, name);
    bg_status status;

    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = bgi_file_save(path, text, size_bytes, error);
    free(path);
    return status;
}

/* The files whose content is made in memory before it is written. */
typedef struct texts {
    char *summary, *html;
    size_t summary_bytes, html_bytes;
} texts;

static bg_status make_texts(const bg_session *session, const bg_profile_notes *notes, bgi_progress *progress,
                            texts *out, bg_error *error)
{
    bgi_analysis analysis;
    bgi_report_part part = {.name = ""};
    bg_status status = bgi_analyze(session, notes, progress, &analysis, error);

    if (status == BG_OK)
        status = bgi_progress_begin(progress, "summary.json", 1, error);
    if (status == BG_OK)
        status = bgi_summary_write(&analysis, notes, &out->summary, &out->summary_bytes, error);
    bgi_analysis_clear(&analysis);
    BGI_TRY(status);
    part.summary = out->summary;
    part.size_bytes = out->summary_bytes;
    BGI_TRY(bgi_progress_begin(progress, "report.html", 1, error));
    return bgi_report_make(&part, 1, &out->html, &out->html_bytes, error);
}

static bg_status write_trace(const bg_session *session, const char *folder, bgi_progress *progress, bg_error *error)
{
    char *path = bgi_path_join(folder, "trace.json");
    bg_status status;

    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = bgi_trace_write(session, bg_session_plan(session), MOST_TRACE_EVENTS, path, progress, error);
    free(path);
    return status;
}

/* Writes the three files. The largest, trace.json, is first, so that no file exists if trace.json does not fit on the
 * disk. trace.json is also the last part of the progress, so a canceled report leaves no file. */
static bg_status write_files(const bg_session *session, const texts *made, const char *folder, bgi_progress *progress,
                             bg_error *error)
{
    const bool is_new = access(folder, F_OK) != 0;
    bg_status status = bgi_folder_create(folder, error);

    if (status == BG_OK)
        status = write_trace(session, folder, progress, error);
    if (status != BG_OK && is_new)
        (void)rmdir(folder);
    if (status == BG_OK)
        status = write_text(folder, "summary.json", made->summary, made->summary_bytes, error);
    if (status == BG_OK)
        status = write_text(folder, "report.html", made->html, made->html_bytes, error);
    return status;
}

static bg_status write_folder(const bg_session *session, const bg_profile_notes *notes, const char *folder,
                              bg_error *error)
{
    const bg_plan *plan = bg_session_plan(session);
    const bg_reporting_options *reporting = &bg_plan_options(plan)->reporting;
    const bg_plan_summary summary = bg_plan_summarize(plan);
    bgi_progress progress = {reporting->progress, reporting->progress_user, "the report", 0,
                             BGI_ANALYSIS_PARTS + TEXTS + (uint64_t)summary.replicas * summary.device_count};
    texts made = {.summary = NULL};
    bg_status status = make_texts(session, notes, &progress, &made, error);

    if (status == BG_OK)
        status = write_files(session, &made, folder, &progress, error);
    free(made.summary);
    free(made.html);
    return status;
}

bg_status bg_profile_write(bg_session *session, const bg_profile_notes *notes, const char *folder, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(folder, "folder", __func__, error));

    const bg_transport *transport = bg_plan_options(bg_session_plan(session))->execution.transport;

    if (notes != NULL)
        BGI_TRY(bgi_struct_check(notes->struct_bytes, sizeof *notes, "bg_profile_notes", NULL, error));
    if (bgi_session_runs(session) == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: the plan must be created with options.reporting.trace",
                            __func__);
    BGI_TRY(bg_session_share_trace(session, 0, error));
    return transport == NULL || transport->rank == 0 ? write_folder(session, notes, folder, error) : BG_OK;
}
