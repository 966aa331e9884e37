/*
 * profile.h: declares functions for commands with --profile, which write the report of a session to a folder.
 */
#ifndef BGI_CLI_PROFILE_H
#define BGI_CLI_PROFILE_H

#include <brigade/profile.h>

#include "cli/program.h"

/* The default number of events that --profile keeps for each device, which take about 2 MB. */
enum { CLI_PROFILE_EVENTS = 1 << 15 };

#define CLI_PROFILE_DIR "./profile"

typedef struct cli_profile {
    bool is_on;
    const char *dir; /* NULL: CLI_PROFILE_DIR */
} cli_profile;

/* --profile and --profile-dir, for a command's table. `member` is the cli_profile in the command's struct `type`. */
#define CLI_PROFILE_OPTIONS(type, member)                                                                              \
    {CLI_FLAG, "profile", .offset = offsetof(type, member.is_on),                                                      \
     .help = "write a report of where time and memory go"},                                                            \
    {                                                                                                                  \
        CLI_TEXT, "profile-dir", .offset = offsetof(type, member.dir), .value = "DIR",                                 \
                                 .default_text = CLI_PROFILE_DIR,                                                      \
                                 .help = "folder for the report: report.html, summary.json, trace.json"                \
    }

/* Enables recording in a plan's options, if a profile is requested. */
void cli_profile_set(const cli_profile *profile, bg_options *options);
/* Checks that the folder can be written; does nothing without --profile. */
bg_status cli_profile_check_dir(const cli_profile *profile, bg_error *error);
/* Writes the report of a session to the folder, or to its subfolder `part` if that is not NULL. All ranks must call the
 * function; the first rank writes the report and prints its path. */
bg_status cli_profile_put(const char *folder, const char *part, bg_session *session, const bg_profile_notes *notes,
                          bool quiet, bg_error *error);
/* Writes the report that a command's two options request; does nothing without --profile. */
bg_status cli_profile_finish(const cli_profile *profile, const char *part, bg_session *session,
                             const bg_profile_notes *notes, bool quiet, bg_error *error);

#endif
