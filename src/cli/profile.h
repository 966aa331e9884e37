/*
 * profile.h: shared code of commands with --profile: the folder of a session's report.
 */
#ifndef BGI_CLI_PROFILE_H
#define BGI_CLI_PROFILE_H

#include <brigade/profile.h>

#include "cli/program.h"

/* Events that --profile keeps of each device when nobody says how many: some 2 MB of memory. */
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

/* Makes a plan's options record, if the profile is on. */
void cli_profile_set(const cli_profile *profile, bg_options *options);
/* Whether the folder can be written; nothing without the profile. */
bg_status cli_profile_check_dir(const cli_profile *profile, bg_error *error);
/* The report of a session in FOLDER, or in FOLDER/PART. Of all ranks; the first one writes, and says where. */
bg_status cli_profile_put(const char *folder, const char *part, bg_session *session, const bg_profile_notes *notes,
                          bool quiet, bg_error *error);
/* The same for a command's two options; nothing without the profile. */
bg_status cli_profile_finish(const cli_profile *profile, const char *part, bg_session *session,
                             const bg_profile_notes *notes, bool quiet, bg_error *error);

#endif
