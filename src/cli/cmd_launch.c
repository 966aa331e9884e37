/*
 * cmd_launch.c: `brigade launch`: starts ranks with mpirun or srun, watches them, and restarts them from the last
 * checkpoint when they fail (on fewer hosts if some do not answer). After a signal it asks the ranks to write a
 * checkpoint and end.
 *
 *     hosts that answer --> ranks --> launcher ... ends with 0 --> done
 *           ^                              | fails, and there are restarts left
 *           +------------------------------+ with --resume behind the command
 */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "checkpoint/checkpoint.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/options.h"
#include "cli/program.h"
#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"

enum { MOST_HOSTS = 256, HOST_BYTES = 128, LAUNCHER_WORDS = 16 };
#define LOOK_S 0.2 /* time between checks of the ranks */

typedef struct launch_settings {
    uint64_t ranks, min_ranks, restarts, grace_s, delay_s, launcher_limit_s;
    const char *launcher, *hosts, *probe, *log, *resume;
    cli_texts launcher_options;
    bool oversubscribe;
} launch_settings;

#define AT(field) .offset = offsetof(launch_settings, field)

static const cli_option launch_table[] = {
    {CLI_COUNT, "ranks", AT(ranks), .value = "N", .minimum = 1, .maximum = 65536,
     .default_text = "the hosts' slots, or 1", .help = "number of processes"},
    {CLI_TEXT, "hosts", AT(hosts), .value = "HOST:N,...", .default_text = "the launcher's own",
     .help = "hosts with their numbers of ranks"},
    {CLI_TEXT, "launcher", AT(launcher), .value = "PROGRAM",
     .help = "mpirun (Open MPI), mpirun.mpich, srun, or a program that is called as one of these"},
    {CLI_TEXT_LIST, "launcher-options", AT(launcher_options), .value = "WORD...", .default_text = "none",
     .help = "additional arguments for the launcher; write --launcher-options=WORD for one that begins with a dash"},
    {CLI_FLAG, "oversubscribe", AT(oversubscribe),
     .help = "allow more ranks than processors, which Open MPI refuses otherwise"},
    {.help = "When ranks fail"},
    {CLI_COUNT, "restart-on-failure", AT(restarts), .value = "N", .maximum = 1000000,
     .help = "largest number of restarts from the last checkpoint"},
    {CLI_COUNT, "min-ranks", AT(min_ranks), .value = "N", .minimum = 1, .maximum = 65536, .default_text = "--ranks",
     .help = "when hosts fail, continue if at least N ranks remain"},
    {CLI_TEXT, "probe", AT(probe), .value = "COMMAND",
     .help = "a shell command that returns 0 when host {} answers; run before each restart"},
    {CLI_TEXT, "resume", AT(resume), .value = "WORDS", .default_text = "--resume; for gpt, --load DIR",
     .help = "option to add to the command when a checkpoint exists"},
    {CLI_COUNT, "delay", AT(delay_s), .value = "SECONDS", .maximum = 86400, .help = "time to wait before a restart"},
    {CLI_COUNT, "launcher-limit", AT(launcher_limit_s), .value = "SECONDS", .minimum = 1, .maximum = 86400,
     .help = "end a launcher that still runs this long after its last rank on this host has ended"},
    {.help = "Ending on a signal"},
    {CLI_COUNT, "grace", AT(grace_s), .value = "SECONDS", .minimum = 1, .maximum = 86400,
     .help = "time for ranks to write their checkpoint after SIGTERM or SIGINT, before they are killed"},
    {CLI_TEXT, "log", AT(log), .value = "FILE", .default_text = "none",
     .help = "file to which a line with the time is appended for each event"},
    CLI_OPTIONS_END,
};

typedef struct launch_host {
    char name[HOST_BYTES];
    uint32_t slots;
    bool is_there;
} launch_host;

typedef struct launch {
    const launch_settings *settings;
    char **command; /* words of the command, and NULL at the end */
    int command_count;
    const char *folder; /* the folder of the command's checkpoints; NULL without checkpoints */
    bool is_gpt;
    launch_host hosts[MOST_HOSTS];
    uint32_t host_count;
    bgi_arena arena;
} launch;

/* ---- messages ---- */

static void say(const launch *l, const char *format, ...) BG_PRINTF(2, 3);
static void say(const launch *l, const char *format, ...)
{
    char text[2048], stamp[32];
    const time_t now = time(NULL);
    struct tm parts;
    va_list arguments;
    FILE *stream;

    va_start(arguments, format);
    vsnprintf(text, sizeof text / 2, format, arguments);
    va_end(arguments);
    bgi_string_escape(text, sizeof text, false);
    cli_say("launch", "%s", text);
    if (l->settings->log == NULL)
        return;
    stream = fopen(l->settings->log, "a");
    if (stream == NULL)
        return;
    gmtime_r(&now, &parts);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &parts);
    fprintf(stream, "%s %s\n", stamp, text);
    fclose(stream);
}

/* ---- hosts ---- */

static bg_status read_hosts(launch *l, bg_error *error)
{
    for (const char *at = l->settings->hosts; at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, ",");
        const char *colon = memchr(at, ':', length);
        const size_t name = colon != NULL ? (size_t)(colon - at) : length;
        launch_host *host = &l->hosts[l->host_count];
        char *end = NULL;
        const unsigned long slots = colon != NULL ? strtoul(colon + 1, &end, 10) : 1;

        if (name == 0 || name >= HOST_BYTES || l->host_count == MOST_HOSTS || slots < 1 || slots > 65536 ||
            (end != NULL && end != at + length))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "--hosts is `%s`; it must be names with numbers of ranks, as in node1:4,node2:4",
                                l->settings->hosts);
        memcpy(host->name, at, name);
        host->name[name] = '\0';
        host->slots = (uint32_t)slots;
        host->is_there = true;
        l->host_count++;
        at += length + (at[length] == ',');
    }
    return BG_OK;
}

/* Finds out which hosts answer, and logs changes. */
static void probe_hosts(launch *l)
{
    for (uint32_t i = 0; i < l->host_count; i++) {
        const bool is_there = launch_probe(l->settings->probe, l->hosts[i].name);
        if (is_there != l->hosts[i].is_there)
            say(l, "host %s is %s", l->hosts[i].name, is_there ? "back" : "gone");
        l->hosts[i].is_there = is_there;
    }
}

/* Returns the largest number of ranks that the hosts allow. */
static uint64_t count_ranks(const launch *l)
{
    uint64_t slots = 0;

    for (uint32_t i = 0; i < l->host_count; i++)
        slots += l->hosts[i].is_there ? l->hosts[i].slots : 0;
    if (l->host_count == 0)
        return l->settings->ranks > 0 ? l->settings->ranks : 1;
    return l->settings->ranks > 0 && l->settings->ranks < slots ? l->settings->ranks : slots;
}

/* ---- the command ---- */

/* Returns how many words of the command are the option with its value, beginning with word `i`: 2 for "--init FILE", 1
 * for "--init=FILE", and 0 if another word is there. An underscore in the word matches a dash, because `brigade gpt`
 * accepts both. */
static int measure_option(const launch *l, int i, const char *option)
{
    const char *word = l->command[i];
    size_t length = 0;

    while (option[length] != '\0' && (word[length] == option[length] || (word[length] == '_' && option[length] == '-')))
        length++;
    if (option[length] != '\0' || (word[length] != '\0' && word[length] != '='))
        return 0;
    return word[length] == '=' || i + 1 == l->command_count ? 1 : 2;
}

/* Returns the value of an option of the command, the last one if it is given several times; NULL if it is not given. */
static const char *find_value(const launch *l, const char *option)
{
    const char *value = NULL;

    for (int i = 0; i < l->command_count; i++) {
        const char *equals = strchr(l->command[i], '=');
        const int count = measure_option(l, i, option);

        if (count == 2)
            value = l->command[i + 1];
        else if (count == 1 && equals != NULL)
            value = equals + 1;
    }
    return value;
}

static bool has_word(const launch *l, const char *word)
{
    for (int i = 0; i < l->command_count; i++)
        if (strcmp(l->command[i], word) == 0)
            return true;
    return false;
}

/* Finds the step of the latest checkpoint; returns false if there is none. */
static bool find_checkpoint(const launch *l, uint64_t *out_step)
{
    bgi_checkpoint_list list = {0};
    const bool found = l->folder != NULL && bgi_checkpoint_find(l->folder, &list, NULL) == BG_OK && list.count > 0;

    *out_step = found ? list.steps[0] : 0;
    free(list.steps);
    return found;
}

/* Finds the newest folder of a refused update in the checkpoints' folder, and sets *out_update to the update's number.
 * Returns the modification time of the folder in nanoseconds, or 0 if there is no such folder. */
static int64_t find_refused(const launch *l, uint64_t *out_update)
{
    DIR *folder = l->folder != NULL ? opendir(l->folder) : NULL;
    const struct dirent *entry;
    int64_t newest = 0;

    *out_update = 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        static const char start[] = "refused-";
        struct stat about;
        uint64_t update;
        int64_t time;

        if (strncmp(entry->d_name, start, sizeof start - 1) != 0 ||
            !bgi_checkpoint_number(entry->d_name + sizeof start - 1, &update) ||
            fstatat(dirfd(folder), entry->d_name, &about, 0) != 0)
            continue;
        time = (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
        if (time > newest) {
            newest = time;
            *out_update = update;
        }
    }
    if (folder != NULL)
        closedir(folder);
    return newest;
}

static void add_word(char **words, uint32_t *count, const char *word)
{
    words[(*count)++] = (char *)(uintptr_t)word;
}

/* Returns the available hosts in the launcher's format. */
static const char *print_hosts(launch *l, bool for_srun)
{
    bgi_string text = {0};
    const char *printed;

    for (uint32_t i = 0; i < l->host_count; i++)
        if (l->hosts[i].is_there)
            bgi_string_add(&text, for_srun ? "%s%s" : "%s%s:%u", text.length > 0 ? "," : "", l->hosts[i].name,
                           l->hosts[i].slots);
    printed = bgi_arena_format(&l->arena, "%s", text.data != NULL ? text.data : "");
    bgi_string_clear(&text);
    return printed;
}

/* Appends to the command the options that resume from a checkpoint. */
static void add_resume(launch *l, char **words, uint32_t *count)
{
    const launch_settings *s = l->settings;

    if (s->resume != NULL) {
        char *copy = bgi_arena_format(&l->arena, "%s", s->resume), *rest = NULL;
        for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
            add_word(words, count, word);
    } else if (l->is_gpt) { /* overrides an earlier --load */
        add_word(words, count, "--load");
        add_word(words, count, l->folder);
    } else if (!has_word(l, "--resume")) {
        add_word(words, count, "--resume");
    }
}

/* Returns the launcher's name without its folder. */
static const char *launcher_name(const launch_settings *settings)
{
    const char *slash = strrchr(settings->launcher, '/');

    return slash != NULL ? slash + 1 : settings->launcher;
}

static bool is_srun(const launch_settings *settings)
{
    return strncmp(launcher_name(settings), "srun", 4) == 0;
}

static bg_status make_words(launch *l, uint64_t ranks, bool is_restart, char ***out, bg_error *error)
{
    const launch_settings *s = l->settings;
    const bool for_srun = is_srun(s), is_mpich = strstr(launcher_name(s), "mpich") != NULL;
    const size_t most = (size_t)l->command_count + s->launcher_options.count + LAUNCHER_WORDS +
                        (s->resume != NULL ? strlen(s->resume) : 0);
    char **words = bgi_arena_allocate(&l->arena, most, sizeof *words);
    const char *number = bgi_arena_format(&l->arena, "%" PRIu64, ranks), *hosts = print_hosts(l, for_srun);
    uint64_t step = 0;
    /* If the command's folder of checkpoints is unknown (NULL), a restart always adds the words of --resume. */
    const bool has_checkpoint = is_restart && (find_checkpoint(l, &step) || (l->folder == NULL && s->resume != NULL));
    uint32_t count = 0;

    if (words == NULL || number == NULL || hosts == NULL)
        return bgi_error_memory(error, "a command", most * sizeof *words);
    add_word(words, &count, s->launcher);
    add_word(words, &count, "-n");
    add_word(words, &count, number);
    if (hosts[0] != '\0') {
        add_word(words, &count, for_srun ? "-w" : is_mpich ? "-hosts" : "--host");
        add_word(words, &count, hosts);
    }
    if (for_srun)
        add_word(words, &count, "--kill-on-bad-exit=1");
    if (s->oversubscribe && !for_srun && !is_mpich)
        add_word(words, &count, "--oversubscribe");
    for (uint32_t i = 0; i < s->launcher_options.count; i++)
        add_word(words, &count, s->launcher_options.values[i]);
    for (int i = 0; i < l->command_count;) {
        /* An option that names other weights is left out, because Brigade refuses a second source besides the
         * checkpoint. */
        const int weights = has_checkpoint ? measure_option(l, i, l->is_gpt ? "--hf-model" : "--init") : 0;

        if (weights == 0)
            add_word(words, &count, l->command[i]);
        i += weights > 0 ? weights : 1;
    }
    if (has_checkpoint)
        add_resume(l, words, &count);
    words[count] = NULL;
    *out = words;
    return BG_OK;
}

/* ---- running ---- */

/* Waits until the launcher ends, `seconds` have passed or, with `is_until_signal`, a signal arrives. Returns false if
 * the launcher still runs. Ends a launcher that still runs --launcher-limit seconds after its last rank on this host,
 * as mpirun of Open MPI 4 sometimes does when ranks were killed. With the default limits, ranks on other hosts have
 * ended by then, because they wait for lost ranks for at most twice --wait-limit. */
static bool watch_launcher(const launch *l, pid_t launcher, double seconds, bool is_until_signal, int *out_code)
{
    launch_watch watch = {.rank = 0};
    double alone_s = 0.0;

    for (double waited = 0.0; waited < seconds; waited += LOOK_S) {
        if (launch_wait(launcher, LOOK_S, out_code))
            return true;
        if (is_until_signal && cli_received_signal != 0)
            return launch_wait(launcher, 0.0, out_code);
        alone_s = launch_watch_ranks(&watch, launcher, l->command[0]) ? alone_s + LOOK_S : 0.0;
        if (alone_s < (double)l->settings->launcher_limit_s)
            continue;
        say(l, "%s still runs %" PRIu64 " s after its last rank on this host, so it is ended now",
            l->settings->launcher, l->settings->launcher_limit_s);
        launch_end(launcher);
        *out_code = 128 + SIGKILL;
        return true;
    }
    return false;
}

/* Asks the ranks to end, waits while they write a checkpoint, and kills them if they do not end within --grace seconds.
 * Returns the exit code. */
static int end_in_time(launch *l, pid_t launcher)
{
    const int number = (int)cli_received_signal;
    int code = 0;

    /* One rank is enough, because it informs all others. A launcher would kill the ranks within a second or two, so the
     * signal goes to the launcher only when none of its ranks is on this host. */
    if (launch_signal_ranks(launcher, l->command[0], SIGTERM, true) > 0)
        say(l, "signal %d: one rank was asked to write a checkpoint and end within %" PRIu64 " s", number,
            l->settings->grace_s);
    else {
        kill(launcher, SIGTERM);
        say(l, "signal %d: the launcher was asked to end its ranks within %" PRIu64 " s", number, l->settings->grace_s);
    }
    if (watch_launcher(l, launcher, (double)l->settings->grace_s, false, &code)) {
        say(l, "the ranks ended in time with exit code %d", code);
        return 128 + number;
    }
    launch_kill(launcher);
    say(l, "the ranks did not end within %" PRIu64 " s and were killed; the last checkpoint is valid",
        l->settings->grace_s);
    return 128 + SIGKILL;
}

/* Starts the ranks once, and waits for their end. Sets *out_ended if no restart should follow: the run succeeded, a
 * signal to this program ended it, or a restart would fail in the same way. */
static bg_status run_once(launch *l, uint64_t ranks, uint64_t attempt, int *out_code, bool *out_ended, bg_error *error)
{
    struct timespec begin, end;
    char **words = NULL;
    uint64_t step = 0;
    pid_t launcher = 0;
    uint64_t refused = 0;
    bool has_step;
    const int64_t refused_before = find_refused(l, &refused);

    has_step = find_checkpoint(l, &step);
    BGI_TRY(make_words(l, ranks, attempt > 1, &words, error));
    BGI_TRY(launch_start(words, &launcher, error));
    if (has_step && attempt > 1)
        say(l, "start %" PRIu64 ": %" PRIu64 " rank%s, from the checkpoint of update %" PRIu64, attempt, ranks,
            cli_s(ranks), step);
    else
        say(l, "start %" PRIu64 ": %" PRIu64 " rank%s", attempt, ranks, cli_s(ranks));
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (!watch_launcher(l, launcher, INFINITY, true, out_code)) {
        *out_code = end_in_time(l, launcher);
        *out_ended = true;
        return BG_OK;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    *out_ended = *out_code == CLI_DONE || *out_code == CLI_USAGE || cli_received_signal != 0;
    say(l, "start %" PRIu64 " ended after %.1f s with exit code %d%s", attempt,
        (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec), *out_code,
        *out_code == CLI_USAGE ? ", which means a mistake in the command line, so it is not started again" : "");
    if (!*out_ended && find_refused(l, &refused) > refused_before) {
        say(l,
            "update %" PRIu64
            " was refused, and a restart would refuse it again, so there is no restart; `sh %s/refused-%" PRIu64
            "/replay.sh` repeats the update",
            refused, l->folder, refused);
        *out_ended = true;
    }
    return BG_OK;
}

/* Waits until the time of --delay has passed or a signal arrives. */
static void wait_before_restart(const launch *l)
{
    for (uint64_t i = 0; i < 10 * l->settings->delay_s && cli_received_signal == 0; i++)
        bgi_clock_sleep(100000000);
}

static bg_status run_all(launch *l, int *out_code, bg_error *error)
{
    const launch_settings *s = l->settings;
    const uint64_t wanted = count_ranks(l), least = s->min_ranks > 0 ? s->min_ranks : wanted;
    bool is_ended = false;

    for (uint64_t attempt = 1; !is_ended; attempt++) {
        uint64_t ranks;

        if (attempt > 1) {
            if (attempt > s->restarts + 1) {
                if (s->restarts > 0)
                    say(l, "no restart is left: --restart-on-failure is %" PRIu64, s->restarts);
                return BG_OK;
            }
            wait_before_restart(l);
            probe_hosts(l);
        }
        if (cli_received_signal != 0) {
            *out_code = 128 + (int)cli_received_signal;
            return BG_OK;
        }
        ranks = count_ranks(l);
        if (ranks < least)
            return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                                "the hosts that answer have slots for %" PRIu64 " ranks, fewer than the %" PRIu64
                                " that --min-ranks requires",
                                ranks, least);
        BGI_TRY(run_once(l, ranks, attempt, out_code, &is_ended, error));
    }
    return BG_OK;
}

/* Checks that the command exists if mpirun starts it on this host. With other launchers, --hosts or --launcher-options
 * the ranks may find it elsewhere. */
static bg_status check_command(const launch *l, bg_error *error)
{
    const launch_settings *s = l->settings;
    const char *command = l->command[0];

    if (strncmp(launcher_name(s), "mpi", 3) != 0 || s->hosts != NULL || s->launcher_options.count > 0 ||
        launch_can_run(command))
        return BG_OK;
    if (command[0] == '-')
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the command begins with the option `%s`; after `--` comes a program with its arguments, "
                            "and options of the launcher are given by --launcher-options=WORD",
                            command);
    return bg_error_set(error, BG_ERROR_INVALID,
                        strchr(command, '/') != NULL
                            ? "the command `%s` is not an executable file; give the path of a program after `--`"
                            : "the command `%s` is not in a folder of PATH; give the path of a program after `--`",
                        command);
}

static bg_status prepare(launch *l, bg_error *error)
{
    const char *name = strrchr(l->command[0], '/') != NULL ? strrchr(l->command[0], '/') + 1 : l->command[0];

    l->is_gpt = strcmp(name, "brigade") == 0 && l->command_count > 1 && strcmp(l->command[1], "gpt") == 0;
    l->folder = find_value(l, l->is_gpt ? "--save" : "--checkpoint");
    BGI_TRY(read_hosts(l, error));
    BGI_TRY(check_command(l, error));
    if (l->settings->min_ranks > count_ranks(l))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--min-ranks %" PRIu64 " must be at most the number of ranks, %" PRIu64,
                            l->settings->min_ranks, count_ranks(l));
    if (l->settings->restarts > 0 && l->folder == NULL && l->settings->resume == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--restart-on-failure is given, but the command writes no checkpoints to resume from; add "
                            "%s DIR to it, or give --resume with the command's own option to resume",
                            l->is_gpt ? "--save" : "--checkpoint");
    return BG_OK;
}

static const cli_help_page page = {
    .usage = "Usage: brigade launch [OPTION]... -- COMMAND...\n"
             "Starts COMMAND as ranks, watches them, and starts them again from their last checkpoint: "
             "docs/operations.md.\n",
    .examples = "brigade launch --ranks 2 -- brigade mnist --epochs 1\n"
                "brigade launch --ranks 2 --restart-on-failure 3 -- brigade mnist --checkpoint ranks\n",
};

int cli_launch(int argc, char **argv)
{
    launch_settings settings = {.launcher = "mpirun",
                                .probe = "ssh -o BatchMode=yes -o ConnectTimeout=10 {} true",
                                .grace_s = 60,
                                .delay_s = 1,
                                .launcher_limit_s = 120};
    const launch_settings defaults = settings;
    const char *words[1];
    launch *l = calloc(1, sizeof *l);
    cli_help help = CLI_HELP_NONE;
    uint32_t word_count = 0;
    bg_error error = {0};
    int own = 1, code = CLI_DONE;
    bg_status status;

    if (l == NULL)
        return cli_fail("launch", CLI_FAILED, &(bg_error){.message = "out of memory"});
    while (own < argc && strcmp(argv[own], "--") != 0)
        own++;
    status = cli_options_read(launch_table, own, argv, &settings, words, 0, &word_count, &help, NULL, &error);
    if (status == BG_OK && help != CLI_HELP_NONE) {
        cli_print_help(help, &page, launch_table, &defaults);
        free(l);
        return CLI_DONE;
    }
    l->settings = &settings;
    l->command = argv + own + 1;
    l->command_count = argc - own - 1;
    if (status == BG_OK && l->command_count < 1)
        status = bg_error_set(&error, BG_ERROR_INVALID,
                              "no command is given; it comes after `--`: brigade launch --ranks 4 -- "
                              "brigade mnist ...");
    if (status == BG_OK)
        status = prepare(l, &error);
    if (status != BG_OK) {
        code = cli_fail("launch", CLI_USAGE, &error);
    } else {
        cli_catch_signals();
        if (run_all(l, &code, &error) != BG_OK)
            code = cli_fail("launch", CLI_FAILED, &error);
    }
    bgi_arena_clear(&l->arena);
    free(l);
    return code;
}
