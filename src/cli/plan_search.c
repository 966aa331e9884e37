/*
 * plan_search.c: `brigade plan --search N`: searches for the best way to train a model on N devices. A candidate is a
 * list of options, which are appended to the command line; the time of the resulting plan is predicted. So a user can
 * run the best plan by adding these options. Options of the command line do not change.
 *
 * A mesh divides the N devices into replicas times the devices of one replica. For a model on a mesh, replicas have a
 * data axis and two tensor axes. Every candidate has the same number of samples in an update. If a plan does not fit
 * the memory, remedies are added one after another until it does, because each costs time. The first is recomputation,
 * and the second is the optimizer's state in streaming memory.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/model.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "core/text.h"
#include "predict/simulate.h"

enum { MOST_CANDIDATES = 512, MOST_WORDS = 24, WORD_BYTES = 40, SHOWN = 8, WHY_BYTES = 320 };

typedef struct candidate {
    char words[MOST_WORDS][WORD_BYTES];
    int word_count;
    char why[WHY_BYTES]; /* why the plan could not be made */
    bool is_made;
    cli_trial trial;
} candidate;

typedef struct search {
    cli_prediction *prediction;
    cli_pricing *pricing;
    cli_read_function read;
    int argc;
    char **argv;
    bool has_replicas;      /* whether the model has --replicas; otherwise it has a mesh */
    uint64_t micro_batches; /* micro-batches of an update, over all replicas */
    const char *samples;
    candidate *candidates;
    uint32_t count, tried;
} search;

/* ---- candidates ---- */

static bool is_given(const search *s, const char *flag)
{
    const size_t length = strlen(flag);

    for (int i = 1; i < s->argc; i++)
        if (strncmp(s->argv[i], flag, length) == 0 && (s->argv[i][length] == '\0' || s->argv[i][length] == '='))
            return true;
    return false;
}

static bool has_word(const search *s, const char *word)
{
    for (int i = 1; i < s->argc; i++)
        if (strcmp(s->argv[i], word) == 0)
            return true;
    return false;
}

/* Adds an option and its value, unless the command line has the option. */
static void add(const search *s, candidate *c, const char *flag, const char *format, ...) BG_PRINTF(4, 5);
static void add(const search *s, candidate *c, const char *flag, const char *format, ...)
{
    va_list arguments;

    if (is_given(s, flag) || c->word_count + 2 > MOST_WORDS)
        return;
    snprintf(c->words[c->word_count++], WORD_BYTES, "%s", flag);
    va_start(arguments, format);
    vsnprintf(c->words[c->word_count++], WORD_BYTES, format, arguments);
    va_end(arguments);
}

/* The number of attempts to fit a plan into the memory: without a remedy, with the first, and with both. */
enum { REMEDIES = 3 };

static void add_remedy(const search *s, candidate *c, bool is_phased, int remedy)
{
    if (remedy >= 1)
        add(s, c, "--recompute", "stage");
    if (remedy >= 2 && !is_phased && !is_given(s, "--offload-optimizer"))
        add(s, c, "--offload", "optimizer");
}

static void add_way(const search *s, candidate *c, uint32_t devices, const char *strategy, const char *schedule)
{
    add(s, c, "--strategy", "%s", strategy);
    if (schedule != NULL)
        add(s, c, "--schedule", "%s", schedule);
    if (devices > 1)
        add(s, c, "--stages", "auto:%u", devices);
}

/* ---- trying ---- */

static bg_status make_plan(const search *s, const cli_settings *settings, bg_plan **out, bg_error *error)
{
    cli_build build;

    BGI_TRY(cli_build_make(&build, settings, NULL, error));
    cli_prediction_set_budget(s->prediction, &build.training);
    build.training.reporting.log = NULL;
    BGI_TRY(cli_options_check(&build.training, error));
    return cli_build_plan(&build, NULL, out, error);
}

static uint64_t count_devices(const bg_plan *plan)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);

    return (uint64_t)summary.device_count * summary.replicas;
}

static bg_status try_words(const search *s, int argc, char **argv, cli_trial *out, bg_error *error)
{
    cli_settings settings = {.model = NULL};
    bool is_answered = false;
    bg_plan *plan = NULL;
    bg_status status = s->read(&settings, argc, argv, &is_answered, error);

    if (status == BG_OK && settings.model->resolve(settings.values, error) != CLI_DONE)
        status = error->status != BG_OK ? error->status : BG_ERROR_INVALID;
    if (status == BG_OK)
        status = make_plan(s, &settings, &plan, error);
    if (status == BG_OK && count_devices(plan) != s->prediction->search)
        status = bg_error_set(error, BG_ERROR_INVALID, "the plan takes %" PRIu64 " devices", count_devices(plan));
    if (status == BG_OK)
        status = cli_pricing_try(s->pricing, plan, out, error);
    if (status == BG_OK && !out->fits)
        status = bg_error_set(error, BG_ERROR_BUDGET, "streaming memory of a device would be %.3g GB",
                              1e-9 * (double)out->remote_bytes);
    bg_plan_destroy(plan);
    cli_settings_clear(&settings);
    return status;
}

/* Stores the first clause of an error as the reason, on one line. */
static void keep_reason(candidate *c, const bg_error *error)
{
    snprintf(c->why, sizeof c->why, "%.*s", (int)strcspn(error->message, ";\n"), error->message);
}

static bg_status try_candidate(const search *s, candidate *c, bg_error *error)
{
    char **argv = calloc((size_t)s->argc + MOST_WORDS + 1, sizeof *argv);
    bg_error own = {0};
    bg_status status;

    if (argv == NULL)
        return bgi_error_memory(error, "a command line", ((size_t)s->argc + MOST_WORDS) * sizeof *argv);
    memcpy(argv, s->argv, (size_t)s->argc * sizeof *argv);
    for (int i = 0; i < c->word_count; i++)
        argv[s->argc + i] = c->words[i];
    status = try_words(s, s->argc + c->word_count, argv, &c->trial, &own);
    free(argv);
    c->is_made = status == BG_OK;
    if (status == BG_ERROR_MEMORY)
        return bg_error_set(error, status, "%s", own.message);
    if (status != BG_OK)
        keep_reason(c, &own);
    return BG_OK;
}

/* Tries one strategy on one mesh, with remedies until the plan fits. */
static bg_status try_way(search *s, const candidate *mesh, uint32_t devices, const char *strategy, const char *schedule,
                         bg_error *error)
{
    const bool is_phased = strcmp(strategy, "phased") == 0;
    int words = -1;

    for (int remedy = 0; remedy < REMEDIES; remedy++) {
        candidate c = *mesh;
        add_way(s, &c, devices, strategy, schedule);
        add_remedy(s, &c, is_phased, remedy);
        if (c.word_count == words || s->count == MOST_CANDIDATES) /* the remedy added nothing, or the list is full */
            break;
        words = c.word_count;
        if (!s->prediction->is_quiet) {
            printf("\rSearching... %u plans", ++s->tried);
            fflush(stdout);
        }
        BGI_TRY(try_candidate(s, &c, error));
        s->candidates[s->count++] = c;
        if (c.is_made || strstr(c.why, "its budget is") == NULL)
            break;
    }
    return BG_OK;
}

static bg_status try_mesh(search *s, const candidate *mesh, uint32_t devices, bg_error *error)
{
    static const char *const schedules[] = {"interleaved", "gpipe", "zb-h1", "zb-h2"};

    if (is_given(s, "--strategy") && !has_word(s, "pipelined") && !has_word(s, "--strategy=pipelined"))
        return try_way(s, mesh, devices, has_word(s, "phased") ? "phased" : "", NULL, error);
    if (devices == 1) {
        BGI_TRY(try_way(s, mesh, devices, "single", NULL, error));
        return is_given(s, "--strategy") ? BG_OK : try_way(s, mesh, devices, "phased", NULL, error);
    }
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        BGI_TRY(try_way(s, mesh, devices, "pipelined", schedules[i], error));
        if (is_given(s, "--schedule"))
            break;
    }
    return BG_OK;
}

/* ---- meshes ---- */

static bg_status try_replicas(search *s, uint32_t replicas, uint32_t devices, bg_error *error)
{
    candidate mesh = {.word_count = 0};

    if (s->micro_batches % replicas != 0) {
        if (s->count < MOST_CANDIDATES) {
            candidate *c = &s->candidates[s->count++];
            add(s, &mesh, "--replicas", "%u", replicas);
            *c = mesh;
            snprintf(c->why, sizeof c->why, "%" PRIu64 " micro-batches in an update are not a multiple of %u replicas",
                     s->micro_batches, replicas);
        }
        return BG_OK;
    }
    add(s, &mesh, "--replicas", "%u", replicas);
    add(s, &mesh, "--gradient-accumulation", "%" PRIu64, s->micro_batches / replicas);
    return try_mesh(s, &mesh, devices, error);
}

/* Tries the meshes with this number of replicas. Their tensor axes are powers of two up to 8. */
static bg_status try_tensors(search *s, uint32_t replicas, uint32_t devices, bg_error *error)
{
    for (uint32_t first = 1; first <= 8 && first <= replicas; first *= 2)
        for (uint32_t second = 1; second <= 8 && first * second <= replicas; second *= 2) {
            candidate mesh = {.word_count = 0};
            if (replicas % (first * second) != 0)
                continue;
            add(s, &mesh, "--data_parallel", "%u", replicas / (first * second));
            add(s, &mesh, "--tensor_parallel_1", "%u", first);
            add(s, &mesh, "--tensor_parallel_2", "%u", second);
            BGI_TRY(try_mesh(s, &mesh, devices, error));
        }
    return BG_OK;
}

static bg_status try_all(search *s, bg_error *error)
{
    const uint32_t all = (uint32_t)s->prediction->search;

    for (uint32_t devices = 1; devices <= all; devices++) {
        if (all % devices != 0)
            continue;
        BGI_TRY(s->has_replicas ? try_replicas(s, all / devices, devices, error)
                                : try_tensors(s, all / devices, devices, error));
    }
    return BG_OK;
}

/* ---- the answer ---- */

/* Returns the speed, rounded to four digits. */
static double speed_of(const candidate *c)
{
    const double scale = pow(10.0, 3.0 - floor(log10(fmax(c->trial.samples_per_s, 1e-30))));

    return round(c->trial.samples_per_s * scale) / scale;
}

static int compare_candidates(const void *left, const void *right)
{
    const candidate *a = left, *b = right;

    if (a->is_made != b->is_made)
        return a->is_made ? -1 : 1;
    if (!a->is_made)
        return 0;
    /* If plans are equally fast, the one that needs less memory is first. */
    if (speed_of(a) != speed_of(b))
        return speed_of(a) > speed_of(b) ? -1 : 1;
    return a->trial.device_bytes < b->trial.device_bytes ? -1 : a->trial.device_bytes > b->trial.device_bytes;
}

static void print_words(const candidate *c)
{
    for (int i = 0; i < c->word_count; i++)
        printf("%s%s", i > 0 ? " " : "", c->words[i]);
    putchar('\n');
}

/* Returns the lost time of a class. Gradients of weights count as backward, because they are the same work whether they
 * are part of B or separate. */
static double time_of(const candidate *c, int time_class)
{
    if (time_class == BGI_TIME_WEIGHTS)
        return 0.0;
    return c->trial.lost_ns[time_class] + (time_class == BGI_TIME_BACKWARD ? c->trial.lost_ns[BGI_TIME_WEIGHTS] : 0.0);
}

/* Prints why a plan is not the best: it needs more memory, or it is slower, mainly because of the class in which a
 * device loses the most additional time per update. */
static void print_loss(const candidate *best, const candidate *c)
{
    double most = 0.0;
    int found = 0;

    if (speed_of(best) == speed_of(c)) {
        printf("    as fast, and needs %.3g MB more\n",
               1e-6 * (double)(c->trial.device_bytes - best->trial.device_bytes));
        return;
    }
    for (int k = 0; k < BGI_TIME_CLASS_COUNT; k++)
        if (time_of(c, k) - time_of(best, k) > most) {
            most = time_of(c, k) - time_of(best, k);
            found = k;
        }
    printf("    %.1f %% slower", 100.0 * (1.0 - c->trial.samples_per_s / best->trial.samples_per_s));
    if (most > 0.0)
        printf(", mainly because of %s: %.3g ms an update more on a device", bgi_time_class_name((bgi_time_class)found),
               1e-6 * most);
    putchar('\n');
}

static void print_made(const search *s, uint32_t made)
{
    printf("\nBest: ");
    print_words(&s->candidates[0]);
    for (uint32_t i = 0; i < made && i < SHOWN; i++) {
        const candidate *c = &s->candidates[i];
        printf("\n%2u. %.4g ms an update, %.4g %s/s; separate devices idle %.1f %%, need %.3g MB\n    ", i + 1,
               1e-6 * c->trial.update_ns, c->trial.samples_per_s, s->samples, 100.0 * c->trial.idle_share,
               1e-6 * (double)c->trial.device_bytes);
        print_words(c);
        if (i > 0)
            print_loss(&s->candidates[0], c);
    }
    if (made > SHOWN)
        printf("\n%u slower ones are not shown.\n", made - SHOWN);
}

static void print_refused(const search *s, uint32_t made)
{
    if (s->count > made)
        printf("\nNot possible:\n");
    for (uint32_t i = made; i < s->count && i < made + SHOWN; i++) {
        printf("  ");
        print_words(&s->candidates[i]);
        printf("    %s\n", s->candidates[i].why);
    }
    if (s->count > made + SHOWN)
        printf("  and %u more\n", s->count - made - SHOWN);
}

static bg_status print_answer(search *s, bg_error *error)
{
    uint32_t made = 0;

    qsort(s->candidates, s->count, sizeof *s->candidates, compare_candidates);
    while (made < s->count && s->candidates[made].is_made)
        made++;
    printf("%u plans for %" PRIu64 " device%s tried, %u possible%s\n", s->count, s->prediction->search,
           cli_s(s->prediction->search), made,
           s->prediction->model != NULL ? "" : "; times are those of this machine's cores, shared by the devices");
    if (made > 0)
        print_made(s, made);
    print_refused(s, made);
    return made > 0 ? BG_OK
                    : bg_error_set(error, BG_ERROR_BUDGET, "no plan for %" PRIu64 " device%s is possible",
                                   s->prediction->search, cli_s(s->prediction->search));
}

/* ---- the whole search ---- */

/* Makes the build of the command line, which determines the size of an update. Returns the exit code. */
static int find_base(search *s, bg_error *error)
{
    cli_settings settings = {.model = NULL};
    bool is_answered = false;
    cli_build build;
    int code = CLI_USAGE;

    if (s->read(&settings, s->argc, s->argv, &is_answered, error) == BG_OK)
        code = settings.model->resolve(settings.values, error);
    if (code == CLI_DONE && cli_build_make(&build, &settings, NULL, error) != BG_OK)
        code = CLI_USAGE;
    if (code == CLI_DONE) {
        s->samples = settings.model->samples;
        s->prediction->is_quiet = build.quiet || !cli_writes_to_terminal();
        s->has_replicas = false;
        for (uint32_t i = 0; settings.table.options[i].name != NULL || settings.table.options[i].help != NULL; i++)
            s->has_replicas = s->has_replicas || (settings.table.options[i].name != NULL &&
                                                  strcmp(settings.table.options[i].name, "replicas") == 0);
        s->micro_batches = (uint64_t)build.training.execution.gradient_accumulation *
                           (build.training.replicas.count > 0 ? build.training.replicas.count : 1);
    }
    cli_settings_clear(&settings);
    return code;
}

int cli_plan_search(cli_prediction *prediction, int argc, char **argv, cli_read_function read, bg_error *error)
{
    search s = {.prediction = prediction, .read = read, .argc = argc, .argv = argv};
    int code = find_base(&s, error);
    bg_status status;

    if (code != CLI_DONE)
        return code;
    cli_end_at_signals("plan");
    s.candidates = calloc(MOST_CANDIDATES, sizeof *s.candidates);
    status = s.candidates != NULL ? cli_pricing_open(prediction, &s.pricing, error)
                                  : bgi_error_memory(error, "a search", MOST_CANDIDATES * sizeof *s.candidates);
    if (status == BG_OK)
        status = try_all(&s, error);
    cli_clear_line(prediction->is_quiet);
    if (status == BG_OK)
        status = print_answer(&s, error);
    cli_pricing_close(s.pricing);
    free(s.candidates);
    return status == BG_OK ? CLI_DONE : CLI_FAILED;
}
