/*
 * cmd_schedule.c: `brigade schedule`: draws and compares schedules, and verifies, times and converts schedules from
 * files. It needs no network and no data, because stages are only numbers with costs.
 */
#include "cli/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/program.h"
#include "cli/schedule.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "core/threads.h"
#include "schedule/verify.h"

enum { FILE_LIMIT_BYTES = 64 << 20, GENERATOR_LIMIT = 256 };

/* ---- from options or from a file to a schedule ---- */

typedef struct subject {
    schedule_problem made;
    bg_schedule *schedule;
    bgi_schedule_facts facts;
    bool has_facts;
    bg_schedule_timing timing;
    schedule_measures measures;
    char name[160];
} subject;

static void clear_subject(subject *it)
{
    schedule_measures_clear(&it->measures);
    bg_schedule_timing_clear(&it->timing);
    if (it->has_facts)
        bgi_schedule_facts_clear(&it->facts);
    bg_schedule_destroy(it->schedule);
    schedule_problem_clear(&it->made);
}

/* Simulates and measures the schedule. Events are recorded only for diagrams drawn to scale. */
static bg_status measure(const schedule_config *config, bool is_timed, subject *it, bg_error *error)
{
    BGI_TRY(bgi_schedule_simulate(it->schedule, &it->facts, is_timed || config->svg_path != NULL, &it->timing, error));
    return schedule_measure(it->schedule, &it->made.problem, &it->timing, &it->measures, error);
}

static bg_status generate(const schedule_config *config, const bg_schedule_generator *generator, subject *out,
                          bg_error *error)
{
    BGI_TRY(schedule_problem_create(config, generator, &out->made, error));
    BGI_TRY(bgi_schedule_create_proven(&out->made.problem, generator, &out->schedule, &out->facts, error));
    out->has_facts = true;
    snprintf(out->name, sizeof out->name, "%s: %s", generator->name, generator->summary);
    return measure(config, config->timed, out, error);
}

/* Whether the text is PyTorch's CSV. The first character other than white space is then a digit, a comma, a
 * parenthesis, a quotation mark or a byte-order mark, and Brigade's text begins with none of these. */
static bool is_csv(const char *text)
{
    while (*text == '\n' || *text == ' ' || *text == '\t' || *text == '\r')
        text++;
    return *text != '\0' && strchr("0123456789,(\"\xef", *text) != NULL;
}

static bg_status read_file(const char *path, bg_schedule **out, bg_error *error)
{
    uint64_t skipped = 0;
    char *text = NULL, note[320];
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_load(path, FILE_LIMIT_BYTES, &text, &size_bytes, error));
    if (strlen(text) != size_bytes)
        status =
            bg_error_set(error, BG_ERROR_PARSE, "%s: byte %zu is zero, so the file is not text", path, strlen(text));
    else
        status = is_csv(text) ? bg_schedule_parse_csv(text, path, out, &skipped, error)
                              : bg_schedule_parse(text, path, out, error);
    free(text);
    if (status == BG_OK && skipped > 0) {
        snprintf(note, sizeof note,
                 "note: %.200s: %" PRIu64
                 " messages, gathers of weights and sums of gradients were skipped; Brigade derives its own",
                 path, skipped);
        cli_warn("schedule", note);
    }
    return status;
}

/* Reads and verifies a schedule. */
static bg_status load(const schedule_config *config, const char *path, subject *out, bg_error *error)
{
    bg_status status;

    BGI_TRY(read_file(path, &out->schedule, error));
    BGI_TRY(schedule_problem_infer(config, out->schedule, path, &out->made, error));
    snprintf(out->name, sizeof out->name, "%.150s", path);
    status = bgi_schedule_prove(out->schedule, &out->made.problem, &out->facts, error);
    out->has_facts = status == BG_OK;
    return status != BG_OK ? bg_error_context(error, status, "%s", path) : BG_OK;
}

/* ---- output for one schedule ---- */

static void print_counts(const bg_schedule_problem *problem)
{
    printf("%" PRIu32 " stage%s on %" PRIu32 " device%s, %" PRIu32 " micro-batch%s, %s\n", problem->stage_count,
           cli_s(problem->stage_count), problem->device_count, cli_s(problem->device_count), problem->micro_batch_count,
           problem->micro_batch_count == 1 ? "" : "es",
           !problem->training        ? "inference"
           : problem->splits_weights ? "training with separate weight gradients"
                                     : "training");
}

static void print_measures(const schedule_config *config, const subject *it)
{
    const schedule_measures *measures = &it->measures;
    const bg_schedule_problem *problem = &it->made.problem;

    print_counts(problem);
    printf("makespan %.6g, idle %.1f %%; %" PRIu64 " messages a step", measures->makespan, 100.0 * measures->bubble,
           measures->messages);
    if (config->message_bytes > 0)
        printf(", %" PRIu64 " bytes", measures->message_bytes);
    putchar('\n');
    if (!problem->training)
        return;
    printf("micro-batches kept, by device:");
    for (uint32_t device = 0; device < problem->device_count; device++)
        printf(" %" PRIu64, measures->kept[device]);
    if (config->stash_bytes > 0)
        printf("; at most %" PRIu64 " bytes", measures->most_kept_bytes);
    putchar('\n');
}

static bg_status print_schedule(const bg_schedule *schedule, const bg_schedule_problem *problem, const char *format,
                                bg_error *error)
{
    char *text = NULL;

    cli_end_at_signals("schedule"); /* making a long text does not check for signals */
    if (strcmp(format, "csv") == 0)
        BGI_TRY(bg_schedule_print_csv(schedule, problem, &text, error));
    else
        BGI_TRY(bg_schedule_print(schedule, &text, error));
    fputs(text, stdout);
    free(text);
    return BG_OK;
}

static bg_status write_svg(const schedule_config *config, const subject *it, bg_error *error)
{
    const bg_schedule_svg_options options = {.title = it->name, .shows_messages = config->messages};
    char *text = NULL;
    bg_status status = BG_OK;

    BGI_TRY(bg_schedule_draw_svg(&it->made.problem, &it->timing, &options, &text, error));
    if (strcmp(config->svg_path, "-") == 0) {
        fputs(text, stdout);
    } else {
        cli_catch_signals(); /* the file is written completely, or not at all */
        status = bgi_file_save(config->svg_path, text, strlen(text), error);
        cli_end_at_signals("schedule");
    }
    free(text);
    return status != BG_OK ? bg_error_context(error, status, "--svg") : BG_OK;
}

static bg_status print_picture(const schedule_config *config, const subject *it, bool is_timed, bg_error *error)
{
    const bool in_color = schedule_wants_color(config);
    char *text = NULL;

    cli_end_at_signals("schedule"); /* drawing a long diagram does not check for signals */
    if (config->svg_path != NULL)
        BGI_TRY(write_svg(config, it, error));
    if (config->svg_path != NULL && strcmp(config->svg_path, "-") == 0)
        return BG_OK;
    printf("%s\n", it->name);
    if (is_timed) {
        BGI_TRY(schedule_print_timed(config, &it->made.problem, &it->timing, in_color, error));
    } else {
        BGI_TRY(bgi_schedule_timetable(it->schedule, &it->facts, &text, error));
        schedule_print_timetable(text, in_color);
        free(text);
    }
    print_measures(config, it);
    return BG_OK;
}

/* ---- the commands ---- */

static bg_status show(const schedule_config *config, const char *name, bg_error *error)
{
    const bg_schedule_generator *generator = bg_schedule_generator_find(name);
    subject it = {.schedule = NULL};
    bg_status status = generate(config, generator, &it, error);

    if (status == BG_OK && config->to != NULL)
        status = print_schedule(it.schedule, &it.made.problem, config->to, error);
    else if (status == BG_OK)
        status = print_picture(config, &it, config->timed, error);
    clear_subject(&it);
    return status;
}

static bg_status verify(const schedule_config *config, const char *path, bg_error *error)
{
    subject it = {.schedule = NULL};
    bg_status status = load(config, path, &it, error);

    if (status == BG_OK) {
        printf("%s is valid: ", path);
        print_counts(&it.made.problem);
    }
    clear_subject(&it);
    return status;
}

static bg_status simulate(const schedule_config *config, const char *path, bg_error *error)
{
    subject it = {.schedule = NULL};
    bg_status status = load(config, path, &it, error);

    if (status == BG_OK)
        status = measure(config, true, &it, error);
    if (status == BG_OK)
        status = print_picture(config, &it, true, error);
    clear_subject(&it);
    return status;
}

static bg_status convert(const schedule_config *config, const char *path, bg_error *error)
{
    subject it = {.schedule = NULL};
    bg_status status = load(config, path, &it, error);

    if (status == BG_OK)
        status = print_schedule(it.schedule, &it.made.problem, config->to, error);
    clear_subject(&it);
    return status;
}

/* ---- the list of schedules ---- */

/* A line of the list; if a schedule does not apply, the line gives the reason. */
typedef struct list_row {
    const bg_schedule_generator *generator;
    schedule_measures measures;
    uint32_t device_count, minimum;
    bg_status status;
    bg_error reason;
    bool is_done;
} list_row;

/* Each thread makes the next row that no thread has begun; rows are printed in order. */
typedef struct list_work {
    const schedule_config *config;
    list_row *rows;
    uint32_t row_count, begun_count;
    pthread_mutex_t mutex;
    pthread_cond_t done;
} list_work;

/* The largest number of schedules that are verified at once, because each verification needs memory. */
enum { LIST_THREADS_MOST = 4 };

static void make_row(const schedule_config *config, list_row *row)
{
    subject it = {.schedule = NULL};

    row->status = generate(config, row->generator, &it, &row->reason);
    if (row->status == BG_OK) {
        row->measures = it.measures;
        it.measures = (schedule_measures){0};
        row->device_count = it.made.problem.device_count;
        row->minimum = row->generator->minimum_micro_batches(it.made.problem.stage_count, !config->inference);
    }
    clear_subject(&it);
}

static void *make_rows(void *argument)
{
    list_work *work = argument;

    pthread_mutex_lock(&work->mutex);
    while (work->begun_count < work->row_count) {
        list_row *row = &work->rows[work->begun_count++];

        pthread_mutex_unlock(&work->mutex);
        make_row(work->config, row);
        pthread_mutex_lock(&work->mutex);
        row->is_done = true;
        pthread_cond_signal(&work->done);
    }
    pthread_mutex_unlock(&work->mutex);
    return NULL;
}

static void print_heading(const schedule_config *config)
{
    printf("%-12s %7s %9s %6s %10s", "schedule", "devices", "makespan", "idle %", "kept");
    printf("%s %9s", config->stash_bytes > 0 ? "   kept bytes" : "", "messages");
    printf("%s %8s\n", config->message_bytes > 0 ? "   sent bytes" : "", "minimum");
    fflush(stdout);
}

static void print_row(const schedule_config *config, const list_row *row)
{
    const schedule_measures *measures = &row->measures;

    printf("%-12s %7" PRIu32 " %9.6g %6.1f %10" PRIu64, row->generator->name, row->device_count, measures->makespan,
           100.0 * measures->bubble, measures->most_kept);
    if (config->stash_bytes > 0)
        printf(" %12" PRIu64, measures->most_kept_bytes);
    printf(" %9" PRIu64, measures->messages);
    if (config->message_bytes > 0)
        printf(" %12" PRIu64, measures->message_bytes);
    printf(" %8" PRIu32 "\n", row->minimum);
    fflush(stdout);
}

static bool does_not_apply(const list_row *row)
{
    return row->status == BG_ERROR_INVALID || row->status == BG_ERROR_UNSUPPORTED;
}

/* Waits for each row, and prints it. A schedule that does not apply is printed at the end and is not an error. After
 * any other failure no further row begins. */
static bg_status print_rows(list_work *work, bg_error *error)
{
    bg_status status = BG_OK;

    for (uint32_t i = 0; status == BG_OK && i < work->row_count; i++) {
        const list_row *row = &work->rows[i];

        pthread_mutex_lock(&work->mutex);
        while (!row->is_done)
            pthread_cond_wait(&work->done, &work->mutex);
        if (row->status != BG_OK && !does_not_apply(row))
            work->begun_count = work->row_count;
        pthread_mutex_unlock(&work->mutex);
        if (row->status == BG_OK) {
            print_row(work->config, row);
        } else if (!does_not_apply(row)) {
            *error = row->reason;
            status = row->status;
        }
    }
    for (uint32_t i = 0; status == BG_OK && i < work->row_count; i++)
        if (does_not_apply(&work->rows[i]))
            printf("%-12s does not apply: %s\n", work->rows[i].generator->name, work->rows[i].reason.message);
    return status;
}

static uint32_t count_list_threads(uint32_t row_count)
{
    const uint32_t allowed = bg_processor_count();
    const uint32_t count = allowed < LIST_THREADS_MOST ? allowed : LIST_THREADS_MOST;

    return count < row_count ? count : row_count;
}

static bg_status run_list(list_work *work, bg_error *error)
{
    pthread_t threads[LIST_THREADS_MOST];
    const uint32_t wanted = count_list_threads(work->row_count);
    uint32_t count = 0;
    bg_status status;

    while (count < wanted && bgi_thread_create(&threads[count], make_rows, work) == 0)
        count++;
    if (count == 0)
        make_rows(work);
    status = print_rows(work, error);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return status;
}

static bg_status list(const schedule_config *config, const char *ignored, bg_error *error)
{
    list_work work = {.config = config, .mutex = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};
    bg_status status;

    (void)ignored;
    while (bg_schedule_generator_at(work.row_count) != NULL)
        work.row_count++;
    work.rows = calloc(work.row_count, sizeof *work.rows);
    if (work.rows == NULL)
        return bgi_error_memory(error, "the list of schedules", work.row_count * sizeof *work.rows);
    for (uint32_t i = 0; i < work.row_count; i++)
        work.rows[i].generator = bg_schedule_generator_at(i);
    print_heading(config);
    status = run_list(&work, error);
    for (uint32_t i = 0; i < work.row_count; i++)
        schedule_measures_clear(&work.rows[i].measures);
    free(work.rows);
    return status;
}

/* ---- the command line ---- */

static const struct {
    const char *name, *operand, *summary;
    bg_status (*run)(const schedule_config *config, const char *operand, bg_error *error);
} actions[] = {
    {"show", "NAME", "the timetable of a schedule, its idle share, stash and messages", show},
    {"list", NULL, "a table of every schedule for one problem", list},
    {"verify", "FILE", "verify a schedule, or report what is wrong", verify},
    {"simulate", "FILE", "the times of a schedule", simulate},
    {"convert", "FILE", "from Brigade's text or PyTorch's CSV to --to text|csv", convert},
};

enum { ACTION_COUNT = sizeof actions / sizeof actions[0] };

static int print_help(cli_help help)
{
    const schedule_config defaults = schedule_config_defaults();
    const bg_schedule_generator *generator;
    bgi_string usage = {0};
    const char *name;

    bgi_string_add(&usage,
                   "Usage: brigade schedule show NAME [OPTION]...\n"
                   "       brigade schedule list [OPTION]...\n"
                   "       brigade schedule verify|simulate FILE [OPTION]...\n"
                   "       brigade schedule convert FILE --to text|csv\n"
                   "Shows, compares, verifies, times and converts schedules of a chain of stages. FILE is Brigade's "
                   "text or PyTorch's CSV, which gives the stages, devices and micro-batches.\n\nCommands:\n");
    for (int i = 0; i < ACTION_COUNT; i++)
        bgi_string_add(&usage, "  %-9s  %s\n", actions[i].name, actions[i].summary);
    bgi_string_add(&usage, "\nSchedules:\n");
    for (uint32_t i = 0; (generator = bg_schedule_generator_at(i)) != NULL; i++)
        bgi_string_add(&usage, "  %-12s  %s\n", generator->name, generator->summary);
    bgi_string_add(&usage, "\nNames are read in any case. Other systems' names:\n");
    for (uint32_t i = 0; (name = bg_schedule_alias_at(i, &generator)) != NULL; i++)
        bgi_string_add(&usage, "  %-21s  %s\n", name, generator->name);
    cli_print_help(
        help,
        &(cli_help_page){.usage = usage.data != NULL ? usage.data : "",
                         .common = "stages micro-batches devices forward backward weights transfer timed svg to",
                         .examples = "brigade schedule show zb-h1 --stages 4 --micro-batches 8\n"
                                     "brigade schedule list --stages 4 --backward 2\n"
                                     "brigade schedule show looped --stages 8 --devices 4 --svg looped.svg\n"
                                     "brigade schedule show interleaved --to csv >interleaved.csv\n"
                                     "brigade schedule verify interleaved.csv\n"},
        schedule_options, &defaults);
    bgi_string_clear(&usage);
    return CLI_DONE;
}

static int find_action(const char *name)
{
    for (int i = 0; i < ACTION_COUNT; i++)
        if (strcmp(actions[i].name, name) == 0)
            return i;
    return -1;
}

static bg_status check_name(const char *name, bg_error *error)
{
    const char *names[GENERATOR_LIMIT];
    const char *nearest;
    uint32_t count = 0;

    if (bg_schedule_generator_find(name) != NULL)
        return BG_OK;
    for (; count < GENERATOR_LIMIT && bg_schedule_generator_at(count) != NULL; count++)
        names[count] = bg_schedule_generator_at(count)->name;
    for (uint32_t i = 0; count < GENERATOR_LIMIT && bg_schedule_alias_at(i, NULL) != NULL; i++)
        names[count++] = bg_schedule_alias_at(i, NULL);
    nearest = bgi_text_nearest(name, names, count);
    if (nearest != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "unknown schedule `%s`; did you mean `%s`?", name, nearest);
    return bg_error_set(error, BG_ERROR_INVALID, "unknown schedule `%s`; `brigade schedule list` names them", name);
}

static bg_status check_words(const schedule_config *config, const char *const words[2], uint32_t word_count,
                             bg_error *error)
{
    const int action = word_count > 0 ? find_action(words[0]) : -1;

    if (word_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "no command is given; the commands are show, list, verify, simulate and convert");
    if (action < 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "unknown command `%s`; the commands are show, list, verify, simulate and convert",
                            words[0]);
    if (actions[action].operand != NULL && word_count < 2)
        return bg_error_set(error, BG_ERROR_INVALID, "%s needs a %s: brigade schedule %s %s", words[0],
                            actions[action].operand, words[0], actions[action].operand);
    if (actions[action].operand == NULL && word_count > 1)
        return bg_error_set(error, BG_ERROR_INVALID, "unexpected argument `%s`; %s takes only options", words[1],
                            words[0]);
    if (actions[action].run == show)
        BGI_TRY(check_name(words[1], error));
    if (actions[action].run == convert && config->to == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "convert needs --to text or --to csv");
    if (config->to != NULL && actions[action].run != show && actions[action].run != convert)
        return bg_error_set(error, BG_ERROR_INVALID, "%s prints no schedule; --to applies only to show and convert",
                            words[0]);
    if (config->svg_path != NULL && actions[action].run != show && actions[action].run != simulate)
        return bg_error_set(error, BG_ERROR_INVALID, "%s draws no diagram; --svg applies only to show and simulate",
                            words[0]);
    if (config->svg_path != NULL && config->to != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "--svg and --to are different outputs; give one of them");
    return schedule_config_check(config, actions[action].run == show || actions[action].run == list, error);
}

int cli_schedule(int argc, char **argv)
{
    schedule_config config = schedule_config_defaults();
    const char *words[2] = {NULL, NULL};
    uint32_t word_count;
    cli_help help;
    bg_error error = {0};
    bg_status status =
        cli_options_read(schedule_options, argc, argv, &config, words, 2, &word_count, &help, NULL, &error);

    if (status == BG_OK && help != CLI_HELP_NONE)
        return print_help(help);
    if (status == BG_OK)
        status = check_words(&config, words, word_count, &error);
    if (status != BG_OK)
        return cli_fail("schedule", CLI_USAGE, &error);
    cli_catch_signals();
    if (actions[find_action(words[0])].run(&config, words[1], &error) != BG_OK)
        return cli_fail("schedule", CLI_FAILED, &error);
    return CLI_DONE;
}
