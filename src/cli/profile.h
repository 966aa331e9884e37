/*
 * profile.h: shared code of commands with --profile: the folder of a session's report.
 */
#ifndef BGI_CLI_PROFILE_H
#define BGI_CLI_PROFILE_H

#include <brigade/profile.h>

#include "cli/program.h"

/* The default number of events that --profile keeps for each device: some 2 MB of memory. */
enum { CLI_PROFILE_EVENTS = 1 << 15 };

#define CLI_PROFILE_DIR "./profile"

typedef struct cli_profile {
    bool is_on;
    const char *dir; /* NULL: CLI_PROFILE_DIR */
} cli_profile;

/* The two options of a command, in its table; `profile` is the struct's member. */
#define CLI_PROFILE_OPTIONS(type, member)                                                                              \
    {CLI_FLAG, "profile", .offset = offsetof(type, member.is_on),                                                      \
     .help = "write a report of where time and memory go"},                                                            \
    {                                                                                                                  \
        CLI_TEXT, "profile-dir", .offset = offsetof(type, member.dir), .value = "DIR",                                 \
                                 .default_text = CLI_PROFILE_DIR,                                                      \
                                 .help = "where the report goes: report.html, summary.json, trace.json"                \
    }

/* Enables recording in a plan's options, if the profile is on. */
void cli_profile_set(const cli_profile *profile, bg_options *options);
/* Whether the folder can be written; does nothing without the profile. */
bg_status cli_profile_check_dir(const cli_profile *profile, bg_error *error);
/* Writes the report of a session to FOLDER, or to FOLDER/PART. All ranks call it; the first one writes, and prints
 * where. */
bg_status cli_profile_put(const char *folder, const char *part, bg_session *session, const bg_profile_notes *notes,
                          bool quiet, bg_error *error);
/* The same for a command's two options; does nothing without the profile. */
bg_status cli_profile_finish(const cli_profile *profile, const char *part, bg_session *session,
                             const bg_profile_notes *notes, bool quiet, bg_error *error);

#endif
