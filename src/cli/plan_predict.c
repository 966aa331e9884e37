/*
 * plan_predict.c: makes the predictions of `brigade plan`: handles the command's own options and the described device,
 * and writes text and diagrams. The library computes the times (predict/).
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/presets.h"
#include "cli/ranks.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "predict/call_costs.h"
#include "predict/memory.h"
#include "predict/prediction.h"

#define AT(field) .offset = offsetof(cli_prediction, field)

static const cli_option prediction_options[] = {
    {CLI_HEADING, .help = "Prediction"},
    {CLI_TEXT, "device", AT(device), .value = "NAME|FILE", .default_text = "this machine",
     .help = "the device to plan for: ipu-mk2, h100, or a file that describes one (docs/formats.md); its memory is the "
             "budget unless --device-memory sets another"},
    {CLI_CHOICE, "calibrate", AT(calibrate), .value = "WHEN", .choices = "missing|always|never",
     .help = "measure times of kernel calls on this machine: those missing in the cache, all, or none; "
             "$BRIGADE_CALIBRATE is the default"},
    {CLI_TEXT, "rank-link", AT(rank_link), .value = "US,GB/S", .default_text = "those that doctor measured",
     .help = "predict --ranks (a process with one core for each device) from the latency and speed of messages between "
             "them, which `mpirun brigade doctor` measures and stores"},
    {CLI_COUNT, "search", AT(search), .value = "N", .minimum = 1, .maximum = 65536, .default_text = "show one plan",
     .help = "find the best plan for N devices: mesh, strategy, schedule, recomputation and offload, as far as the "
             "other options do not fix them"},
    {CLI_TEXT, "svg", AT(svg_path), .value = "FILE", .default_text = "none",
     .help = "draw the schedule of an update to the scale of its times"},
    {CLI_TEXT, "html", AT(html_path), .value = "FILE", .default_text = "none",
     .help = "write the whole prediction as an HTML page: schedule, time, memory, traffic"},
    CLI_OPTIONS_END,
};

/* Returns the row of an option such as "--svg" or "--svg=x"; NULL if the option belongs to the model. */
static const cli_option *find_own(const char *word, bool *has_value)
{
    const char *equals = strchr(word, '=');
    const size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);

    *has_value = equals != NULL;
    if (strncmp(word, "--", 2) != 0)
        return NULL;
    for (const cli_option *o = prediction_options; o->name != NULL || o->help != NULL; o++)
        if (o->name != NULL && strlen(o->name) == length - 2 && strncmp(o->name, word + 2, length - 2) == 0)
            return o;
    return NULL;
}

/* Copies argv[0] and the command's own options to `own`, and argv[0] and the other arguments to `rest`. */
static void part_words(int argc, char **argv, char **own, int *own_count, char **rest, int *rest_count)
{
    bool has_value;

    own[(*own_count)++] = argv[0];
    rest[(*rest_count)++] = argv[0];
    for (int i = 1; i < argc; i++) {
        const cli_option *option = find_own(argv[i], &has_value);
        if (option == NULL) {
            rest[(*rest_count)++] = argv[i];
            continue;
        }
        own[(*own_count)++] = argv[i];
        if (option->kind != CLI_FLAG && !has_value && i + 1 < argc)
            own[(*own_count)++] = argv[++i];
    }
}

/* Makes a title from the command line, such as "brigade plan mnist --replicas 2". */
static bg_status make_title(cli_prediction *prediction, int argc, char **argv, bg_error *error)
{
    bgi_string title = {0};
    char *text = NULL;

    bgi_string_add(&title, "brigade");
    for (int i = 0; i < argc; i++)
        bgi_string_add(&title, " %s", argv[i]);
    BGI_TRY(bgi_string_finish(&title, &text, error));
    prediction->title = text;
    return BG_OK;
}

/* Loads the device of --device: from a file if it exists, otherwise from the program's or the user's presets. */
static bg_status load_device(cli_prediction *prediction, bg_error *error)
{
    char *path = NULL, *looked = NULL;
    bg_status status;

    prediction->model = calloc(1, sizeof *prediction->model);
    if (prediction->model == NULL)
        return bgi_error_memory(error, "a device", sizeof *prediction->model);
    if (bgi_file_exists(prediction->device))
        return bgi_device_model_load(prediction->device, prediction->model, error);
    BGI_TRY(cli_preset_find(prediction->device, "devices", ".json", &path, &looked, error));
    status = path != NULL ? bgi_device_model_load(path, prediction->model, error)
                          : bg_error_set(error, BG_ERROR_NOT_FOUND,
                                         "--device %s: the file does not exist, and neither does %s.json in %s; the "
                                         "devices that come with Brigade are ipu-mk2 and h100",
                                         prediction->device, prediction->device, looked);
    free(path);
    free(looked);
    return status;
}

/* Finds the default of --calibrate, which $BRIGADE_CALIBRATE sets. */
static bg_status find_default(cli_prediction *prediction, bg_error *error)
{
    static const char *const choices[] = {"missing", "always", "never"};
    const char *value = getenv("BRIGADE_CALIBRATE");

    prediction->calibrate = choices[0];
    if (value == NULL || value[0] == '\0')
        return BG_OK;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        if (strcmp(value, choices[i]) == 0) {
            prediction->calibrate = choices[i];
            return BG_OK;
        }
    return bg_error_set(error, BG_ERROR_INVALID, "$BRIGADE_CALIBRATE is `%.40s`; it must be missing, always or never",
                        value);
}

bg_status cli_prediction_read(cli_prediction *prediction, int argc, char **argv, int *out_argc, char ***out_argv,
                              bg_error *error)
{
    char **words = calloc(2 * (size_t)argc + 2, sizeof *words);
    int own_count = 0, rest_count = 0;
    uint32_t word_count = 0;
    cli_help help;
    bg_status status;

    if (words == NULL)
        return bgi_error_memory(error, "a command line", 2 * (size_t)argc * sizeof *words);
    *out_argv = words;
    BGI_TRY(find_default(prediction, error));
    part_words(argc, argv, words + argc + 1, &own_count, words, &rest_count);
    *out_argc = rest_count;
    status = cli_options_read(prediction_options, own_count, words + argc + 1, prediction, NULL, 0, &word_count, &help,
                              NULL, error);
    if (status == BG_OK)
        status = make_title(prediction, argc, argv, error);
    if (status == BG_OK && prediction->device != NULL)
        status = load_device(prediction, error);
    return status;
}

void cli_prediction_add_help(cli_help_page *page)
{
    static const cli_prediction defaults = {.calibrate = "missing"};

    page->more = prediction_options;
    page->more_values = &defaults;
}

void cli_prediction_clear(cli_prediction *prediction)
{
    free((char *)prediction->title);
    free(prediction->model);
    prediction->title = NULL;
    prediction->model = NULL;
}

void cli_prediction_set_budget(const cli_prediction *prediction, bg_options *options)
{
    bool has_own = options->memory.device_memory_bytes != 0;

    for (uint32_t i = 0; options->execution.devices != NULL && i < options->execution.device_model_count; i++)
        has_own = has_own || options->execution.devices[i].memory_bytes != 0;
    if (prediction->model != NULL && !has_own)
        options->memory.device_memory_bytes = (size_t)prediction->model->memory_bytes;
}

/* ---- pictures ---- */

static bg_status save(const char *path, char *text, bg_error *error)
{
    const bg_status status = bgi_file_save(path, text, strlen(text), error);

    free(text);
    return status;
}

static bg_status write_pictures(const cli_prediction *prediction, const bgi_prediction *made, const char *samples,
                                bg_error *error)
{
    char *text = NULL;

    if (prediction->svg_path != NULL) {
        BGI_TRY(bgi_prediction_draw(made, prediction->title, &text, error));
        BGI_TRY(save(prediction->svg_path, text, error));
    }
    if (prediction->html_path != NULL) {
        BGI_TRY(bgi_prediction_page(made, prediction->title, samples, &text, error));
        BGI_TRY(save(prediction->html_path, text, error));
    }
    return BG_OK;
}

static uint32_t count_cores(const bg_plan *plan)
{
    const uint32_t wanted = bg_plan_options(plan)->execution.cores, there = bg_processor_count();

    return wanted > 0 && wanted < there ? wanted : there;
}

/* ---- this machine ---- */

/* Limits of the estimated time of a rehearsal (make_rehearsal): above the first it gets fewer micro-batches, and above
 * the second nothing is measured. */
static const double long_rehearsal_ns = 4e8, longest_rehearsal_ns = 6e9;

/* Estimates the time of a step of all replicas on one core with static costs. */
static bg_status estimate_step(const bg_plan *plan, double *out_ns, bg_error *error)
{
    bgi_device_model model;
    bgi_prices prices;
    bgi_prediction made;

    bgi_device_model_static(&model);
    bgi_prices_of_model(&model, &prices);
    BGI_TRY(bgi_prediction_make(plan, &prices, 0, false, &made, error));
    *out_ns = 0.0;
    for (uint32_t d = 0; d < made.own.device_count; d++)
        for (int k = 0; k <= BGI_TIME_COPIES; k++)
            *out_ns += made.own.times[d][k];
    *out_ns *= bg_plan_summarize(plan).replicas * made.own.step_ns / made.own.total_ns;
    bgi_prediction_clear(&made);
    return BG_OK;
}

/* Makes a rehearsal: the same plan for a short run on one core, with fewer updates and, if micro-batches take long,
 * with fewer micro-batches. The rehearsal has the same kernel calls. */
static bg_status make_rehearsal(const cli_build *build, const bg_plan *plan, bg_plan **out, bg_error *error)
{
    bg_options options = build->training;
    double step_ns = 0.0;

    BGI_TRY(estimate_step(plan, &step_ns, error));
    while (options.execution.gradient_accumulation > 1 && step_ns > long_rehearsal_ns) {
        options.execution.gradient_accumulation = (options.execution.gradient_accumulation + 1) / 2;
        step_ns /= 2.0;
    }
    if (step_ns > longest_rehearsal_ns)
        return bg_error_set(
            error, BG_ERROR_UNSUPPORTED,
            "measuring the costs of calls would take a minute or more; use --calibrate missing or never");
    options.execution.device_iterations = options.execution.device_iterations < 4 && step_ns < long_rehearsal_ns / 4
                                              ? options.execution.device_iterations
                                          : step_ns < long_rehearsal_ns / 4 ? 4
                                                                            : 1;
    options.execution.cores = 1;
    options.execution.compile_only = false;
    options.execution.transport = NULL;
    options.execution.planned_ranks = 0;
    options.memory.device_memory_bytes = 0;
    options.execution.devices = NULL;
    options.execution.device_model_count = 0;
    options.files.cache_dir = options.files.log_dir = options.files.memmap_dir = NULL;
    options.reporting.dump_after = NULL;
    options.reporting.log = NULL;
    options.reporting.trace = true;
    options.reporting.trace_events = 1024;
    return cli_build_plan(build, &options, out, error);
}

static bg_status measure(const cli_build *build, const bg_plan *plan, uint32_t cores, bool anew, bgi_call_costs *costs,
                         bg_error *error)
{
    bg_plan *rehearsal = NULL;
    bg_status status = make_rehearsal(build, plan, &rehearsal, error);

    if (!build->quiet && cli_writes_to_terminal() && status == BG_OK) {
        fputs("Measuring...", stdout);
        fflush(stdout);
    }
    if (status == BG_OK)
        status = bgi_call_costs_measure(costs, rehearsal, cores, anew, error);
    cli_clear_line(build->quiet);
    bg_plan_destroy(rehearsal);
    return status;
}

/* Warns about costs that cannot be stored or read, because they must be measured again the next time. */
static void warn(const bg_error *error)
{
    if (error->status != BG_OK)
        cli_warn("plan", error->message);
}

static void load_costs(const char *path, bgi_call_costs *costs)
{
    bg_error error = {0};

    if (path != NULL && bgi_call_costs_load(path, costs, &error) != BG_OK && error.status != BG_ERROR_NOT_FOUND &&
        error.status != BG_ERROR_UNSUPPORTED)
        warn(&error);
}

/* Finds the costs of the plan's kernel calls: from the cache, measured, or only the known ones. */
static bg_status find_costs(const cli_prediction *prediction, const cli_build *build, const bg_plan *plan,
                            uint32_t cores, bgi_call_costs *costs, uint32_t *counted, uint32_t *known, bg_error *error)
{
    const bool always = strcmp(prediction->calibrate, "always") == 0,
               never = strcmp(prediction->calibrate, "never") == 0;
    char *path = bgi_call_costs_path();
    bg_error late = {0};
    bg_status status;

    load_costs(path, costs);
    status = bgi_call_costs_count(costs, plan, counted, known, error);
    if (status == BG_OK && !never && (always || *known < *counted || costs->cores != cores)) {
        status = measure(build, plan, cores, always, costs, error);
        if (status == BG_ERROR_UNSUPPORTED && !always) { /* the plan is too large to measure on this machine */
            bg_error_clear(error);
            status = BG_OK;
        } else if (status == BG_OK && path != NULL) {
            bgi_call_costs_save(costs, path, &late);
        }
        if (status == BG_OK)
            status = bgi_call_costs_count(costs, plan, counted, known, error);
    }
    warn(&late);
    free(path);
    return status;
}

/* ---- ranks ---- */

/* Reads "0.6,8", which are microseconds and gigabytes per second. */
static bg_status read_link(const char *text, bgi_link_model *out, bg_error *error)
{
    char *end = NULL;
    const double us = strtod(text, &end), rate = *end == ',' ? strtod(end + 1, &end) : 0.0;

    if (*end != '\0' || end == text || text[0] == ',' || !(us >= 0.0 && us <= 1e9) || !(rate > 0.0 && rate <= 1e6))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--rank-link is `%.40s`; it must be two numbers, microseconds and gigabytes per second, "
                            "such as 0.6,8",
                            text);
    *out = (bgi_link_model){.bytes_per_ns = rate, .latency_ns = 1e3 * us};
    return BG_OK;
}

/* Adds the times of ranks to the prediction, if --rank-link is given or `known` applies to the planned ranks. `known`
 * is the link that brigade doctor has measured, or NULL. */
static bg_status add_ranks(const cli_prediction *prediction, const bg_plan *plan, const bgi_link_model *known,
                           bgi_prediction *made, bg_error *error)
{
    const uint32_t ranks = bg_plan_options(plan)->execution.planned_ranks;
    const bg_plan_summary summary = bg_plan_summarize(plan);
    bgi_link_model link;

    if (prediction->rank_link == NULL && (known == NULL || ranks <= 1 || !(known->bytes_per_ns > 0.0) ||
                                          ranks != summary.device_count * summary.replicas))
        return BG_OK;
    if (prediction->rank_link == NULL)
        return bgi_prediction_add_ranks(made, known, 0, error);
    BGI_TRY(read_link(prediction->rank_link, &link, error));
    if (ranks != summary.device_count * summary.replicas)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "--rank-link predicts a rank for each of the %u devices of all replicas, but --ranks is "
                            "%u; set --ranks %u, or cut the model into other stages or replicas",
                            summary.device_count * summary.replicas, ranks, summary.device_count * summary.replicas);
    return bgi_prediction_add_ranks(made, &link, 0, error);
}

/* ---- output ---- */

static bg_status show(const cli_prediction *prediction, const bg_plan *plan, const bgi_prices *prices, uint32_t cores,
                      const bgi_link_model *rank_link, const char *samples, bg_error *error)
{
    bgi_prediction made;
    char *text = NULL;
    bg_status status;

    BGI_TRY(bgi_prediction_make(plan, prices, cores, prediction->svg_path != NULL || prediction->html_path != NULL,
                                &made, error));
    status = add_ranks(prediction, plan, rank_link, &made, error);
    if (status == BG_OK)
        status = bgi_prediction_print(&made, samples, &text, error);
    if (status == BG_OK) {
        printf("\nPrediction\n%s", text);
        status = write_pictures(prediction, &made, samples, error);
    }
    free(text);
    bgi_prediction_clear(&made);
    return status;
}

/* Estimates the memory of a process that trains this plan; must be called before this process measures anything. The
 * result is malloc'ed, or NULL if the system does not report the memory of a process. */
static bg_status describe_process(const bg_plan *plan, uint32_t cores, char **out_text, bg_error *error)
{
    bgi_process_memory memory;
    const bg_status status = bgi_process_memory_predict(plan, cores, 0, &memory, error);

    *out_text = NULL;
    if (status == BG_ERROR_UNSUPPORTED) {
        bg_error_clear(error);
        return BG_OK;
    }
    return status != BG_OK ? status : bgi_process_memory_print(&memory, out_text, error);
}

bg_status cli_prediction_show(const cli_prediction *prediction, const cli_build *build, const bg_plan *plan,
                              const char *samples, bg_error *error)
{
    const uint32_t cores = count_cores(plan);
    bgi_call_costs costs = {.costs = NULL};
    bgi_machine_prices machine;
    bgi_prices described;
    uint32_t counted = 0, known = 0;
    char *process = NULL;
    bg_status status;

    if (prediction->model != NULL) {
        bgi_prices_of_model(prediction->model, &described);
        return show(prediction, plan, &described, 0, NULL, samples, error);
    }
    BGI_TRY(describe_process(plan, cores, &process, error));
    status = find_costs(prediction, build, plan, cores, &costs, &counted, &known, error);
    if (status == BG_OK) {
        bgi_prices_of_machine(&costs, counted, known, &machine);
        status = show(prediction, plan, &machine.prices, cores, &costs.rank_link, samples, error);
    }
    if (status == BG_OK && process != NULL && bg_plan_options(plan)->execution.planned_ranks <= 1)
        fputs(process, stdout);
    free(process);
    bgi_call_costs_clear(&costs);
    return status;
}

/* ---- trials ---- */

struct cli_pricing {
    bgi_call_costs costs;
    bgi_machine_prices machine;
    bgi_prices described;
    bool is_described;
};

bg_status cli_pricing_open(const cli_prediction *prediction, cli_pricing **out, bg_error *error)
{
    cli_pricing *pricing = calloc(1, sizeof *pricing);
    char *path;

    if (pricing == NULL)
        return bgi_error_memory(error, "prices", sizeof *pricing);
    pricing->is_described = prediction->model != NULL;
    if (pricing->is_described) {
        bgi_prices_of_model(prediction->model, &pricing->described);
    } else {
        path = bgi_call_costs_path();
        load_costs(path, &pricing->costs);
        free(path);
        bgi_prices_of_machine(&pricing->costs, (uint32_t)pricing->costs.count, (uint32_t)pricing->costs.count,
                              &pricing->machine);
    }
    *out = pricing;
    return BG_OK;
}

void cli_pricing_close(cli_pricing *pricing)
{
    if (pricing == NULL)
        return;
    bgi_call_costs_clear(&pricing->costs);
    free(pricing);
}

bg_status cli_pricing_try(const cli_pricing *pricing, const bg_plan *plan, cli_trial *out, bg_error *error)
{
    const bgi_prices *prices = pricing->is_described ? &pricing->described : &pricing->machine.prices;
    const bg_plan_summary summary = bg_plan_summarize(plan);
    const double updates = summary.steps_per_run > 0 ? summary.steps_per_run : 1;
    bgi_prediction made;
    const bgi_simulation *simulation;
    uint32_t device;
    double run_ns;

    BGI_TRY(bgi_prediction_make(plan, prices, pricing->is_described ? 0 : count_cores(plan), false, &made, error));
    simulation = pricing->is_described ? &made.own : &made.shared;
    run_ns = pricing->is_described ? made.own_run_ns : made.shared_run_ns;
    *out = (cli_trial){.update_ns = run_ns / updates,
                       .samples_per_s = run_ns > 0.0 ? 1e9 * (double)summary.samples_per_run / run_ns : 0.0,
                       .idle_share = bgi_prediction_idle_share(&made.own)};
    for (uint32_t d = 0; d < simulation->device_count; d++)
        for (int k = 0; k < BGI_TIME_CLASS_COUNT && simulation->total_ns > 0.0; k++)
            out->lost_ns[k] +=
                simulation->times[d][k] / simulation->total_ns * out->update_ns / simulation->device_count;
    out->fits = bgi_prediction_fits(&made, &device, &out->device_bytes, &out->remote_bytes);
    bgi_prediction_clear(&made);
    return BG_OK;
}
