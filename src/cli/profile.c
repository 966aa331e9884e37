/*
 * profile.c: implements --profile and --profile-dir of commands: recording, and the folder of a report.
 */
#include "cli/profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/ranks.h"
#include "core/error.h"
#include "core/file.h"

static const char *find_dir(const cli_profile *profile)
{
    return profile->dir != NULL ? profile->dir : CLI_PROFILE_DIR;
}

void cli_profile_set(const cli_profile *profile, bg_options *options)
{
    if (!profile->is_on)
        return;
    options->reporting.trace = true;
    options->reporting.trace_events = CLI_PROFILE_EVENTS;
}

bg_status cli_profile_check_dir(const cli_profile *profile, bg_error *error)
{
    char *path;
    bg_status status;

    if (!profile->is_on || !cli_ranks_is_first())
        return BG_OK;
    if (bgi_folder_create(find_dir(profile), error) != BG_OK)
        return bg_error_context(error, error->status, "--profile-dir");
    path = bgi_path_join(find_dir(profile), "report.html");
    if (path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = cli_save_check(path, "profile-dir", error);
    free(path);
    return status;
}

bg_status cli_profile_put(const char *folder, const char *part, bg_session *session, const bg_profile_notes *notes,
                          bool quiet, bg_error *error)
{
    char *path = part != NULL ? bgi_path_join(folder, part) : NULL;
    bg_status status;

    if (part != NULL && path == NULL)
        return bgi_error_memory(error, "path", 0);
    status = bg_profile_write(session, notes, part != NULL ? path : folder, error);
    if (status == BG_OK && !quiet && cli_ranks_is_first())
        printf("Report: %s/report.html (open it in a browser, or `brigade report %s --text`)\n",
               part != NULL ? path : folder, part != NULL ? path : folder);
    free(path);
    return status == BG_OK ? BG_OK : bg_error_context(error, status, "--profile");
}

bg_status cli_profile_finish(const cli_profile *profile, const char *part, bg_session *session,
                             const bg_profile_notes *notes, bool quiet, bg_error *error)
{
    return profile->is_on && session != NULL ? cli_profile_put(find_dir(profile), part, session, notes, quiet, error)
                                             : BG_OK;
}
