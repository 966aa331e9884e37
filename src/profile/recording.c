/*
 * recording.c: begins and ends a session's recording in a folder, and writes its files.
 */
#include <stdlib.h>
#include <string.h>

#include <brigade/transport.h>

#include "core/error.h"
#include "core/file.h"
#include "profile/analysis.h"
#include "profile/report.h"

/* About 12 MB of trace.json. */
enum { MOST_TRACE_EVENTS = 60000 };

static bg_status switch_recording(bg_session *session, bool on, const char *function, bg_error *error)
{
    BGI_TRY(bgi_require(session, "session", function, error));
    if (bgi_session_runs(session) == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: the plan's options do not ask for a trace", function);
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

static bg_status write_report(const char *folder, const char *summary, size_t size_bytes, bg_error *error)
{
    const bgi_report_part part = {.name = "", .summary = summary, .size_bytes = size_bytes};
    char *html = NULL;
    size_t html_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_report_make(&part, 1, &html, &html_bytes, error));
    status = write_text(folder, "report.html", html, html_bytes, error);
    free(html);
    return status;
}

static bg_status write_trace(const bg_session *session, const char *folder, bg_error *error)
{
    char *path = bgi_path_join(folder, "trace.json");
    bg_status status;

    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = bgi_trace_write(session, bg_session_plan(session), MOST_TRACE_EVENTS, path, error);
    free(path);
    return status;
}

static bg_status write_files(const bg_session *session, const bg_profile_notes *notes, const char *folder,
                             bg_error *error)
{
    bgi_analysis analysis;
    char *summary = NULL;
    size_t size_bytes = 0;
    bg_status status = bgi_analyze(session, notes, &analysis, error);

    if (status == BG_OK)
        status = bgi_summary_write(&analysis, notes, &summary, &size_bytes, error);
    bgi_analysis_clear(&analysis);
    if (status == BG_OK)
        status = bgi_folder_create(folder, error);
    /* The largest file is written first: when it does not fit on the disk, none of the three is left. */
    if (status == BG_OK)
        status = write_trace(session, folder, error);
    if (status == BG_OK)
        status = write_text(folder, "summary.json", summary, size_bytes, error);
    if (status == BG_OK)
        status = write_report(folder, summary, size_bytes, error);
    free(summary);
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
        return bg_error_set(error, BG_ERROR_INVALID, "%s: the plan's options do not ask for a trace", __func__);
    BGI_TRY(bg_session_share_trace(session, 0, error));
    return transport == NULL || transport->rank == 0 ? write_files(session, notes, folder, error) : BG_OK;
}
