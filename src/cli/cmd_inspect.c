/*
 * cmd_inspect.c: `brigade inspect MODEL.onnx`: prints the content of a model file, its unsupported nodes, the cost of a
 * micro-batch, and the memory that training needs under each strategy. It runs nothing and needs no data.
 */
#include "cli/onnx_model.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/plan.h>

#include "cli/command.h"
#include "core/error.h"
#include "core/text.h"

typedef struct inspect_settings {
    onnx_settings model;
    uint64_t stages;
    bool nodes;
} inspect_settings;

#define AT(field) .offset = offsetof(inspect_settings, field)

static const cli_option inspect_flags[] = {
    {CLI_COUNT, "batch-size", AT(model.recipe.batch_size), .value = "N", .minimum = 1, .maximum = INT32_MAX,
     .default_text = "the file's, or 32", .help = "samples in a micro-batch"},
    {CLI_TEXT_LIST, "size", AT(model.sizes), .value = "NAME=N...", .default_text = "none",
     .help = "symbolic dimensions of the model: sequence=128, or x:2=128"},
    {CLI_COUNT, "stages", AT(stages), .value = "N", .minimum = 2, .maximum = 65536,
     .help = "number of stages, cut as by `auto:N`, for strategies that have several"},
    {CLI_TEXT, "optimizer", AT(model.recipe.optimizer), .value = "NAME",
     .help = "optimizer, whose state is included in the memory"},
    {CLI_TEXT, "loss", AT(model.loss_name), .value = "NAME",
     .default_text = "the model's own loss, or one that fits its output", .help = "as in `brigade train`"},
    {CLI_TEXT_LIST, "freeze", AT(model.freeze), .value = "PATTERN...", .default_text = "nothing",
     .help = "parameters that are not trained"},
    {CLI_COUNT, "block-depth", AT(model.block_depth), .value = "N", .maximum = UINT32_MAX,
     .help = "number of leading parts of a scope that name its block; with 1, layer1/0/conv1 is in block layer1; 0 "
             "means all parts"},
    {CLI_FLAG, "nodes", AT(nodes), .help = "list every node with its block, ops and flop"},
    {CLI_FLAG, "weights", AT(model.recipe.debug), .help = "list every weight"},
    CLI_OPTIONS_END,
};

static const bg_onnx_contents *contents_of(const inspect_settings *settings)
{
    return bg_onnx_contents_of(settings->model.onnx);
}

/* ---- contents of the file ---- */

static void print_ports(const char *title, const bg_onnx_port *ports, uint32_t count)
{
    printf("\n%s\n", title);
    for (uint32_t i = 0; i < count; i++) {
        const bg_onnx_port *port = &ports[i];

        printf("  %-20s %s", port->name, port->element[0] != '\0' ? port->element : "unknown type");
        if (port->has_shape) {
            putchar('[');
            for (uint32_t k = 0; k < port->rank; k++) {
                if (port->dims[k].size >= 0)
                    printf("%s%" PRId64, k > 0 ? "," : "", port->dims[k].size);
                else
                    printf("%s%s", k > 0 ? "," : "", port->dims[k].symbol != NULL ? port->dims[k].symbol : "?");
            }
            putchar(']');
        }
        putchar('\n');
    }
}

static void print_normalizations(const onnx_settings *model)
{
    if (!onnx_is_normalized(model))
        return;
    putchar('\n');
    onnx_print_normalizations(model);
}

typedef struct op_count {
    const char *op;
    uint32_t count;
} op_count;

static int compare_ops(const void *a, const void *b)
{
    const op_count *x = a, *y = b;

    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->op, y->op);
}

static bg_status print_ops(const bg_onnx_contents *contents, bg_error *error)
{
    op_count *ops = calloc(contents->node_count + 1, sizeof *ops);
    uint32_t count = 0;

    if (ops == NULL)
        return bgi_error_memory(error, "a list of ops", (contents->node_count + 1) * sizeof *ops);
    for (uint32_t i = 0; i < contents->node_count; i++) {
        uint32_t k = 0;

        while (k < count && strcmp(ops[k].op, contents->nodes[i].op) != 0)
            k++;
        if (k == count)
            ops[count++].op = contents->nodes[i].op;
        ops[k].count++;
    }
    qsort(ops, count, sizeof *ops, compare_ops);
    printf("\nNodes: %u\n ", contents->node_count);
    for (uint32_t k = 0; k < count; k++)
        printf(" %s %u%s", ops[k].op, ops[k].count, k + 1 < count ? "," : "");
    putchar('\n');
    free(ops);
    return BG_OK;
}

static void print_weights(const bg_onnx_contents *contents, bool lists)
{
    static const char *const uses[] = {"trained", "frozen", "buffer", "constant"};
    uint64_t elements[4] = {0}, bytes = 0;
    uint32_t tensors[4] = {0};
    char text[BG_TYPE_TEXT_BYTES];

    for (uint32_t i = 0; i < contents->weight_count; i++) {
        const bg_onnx_weight *weight = &contents->weights[i];

        tensors[weight->use]++;
        if (weight->type.dtype == BG_DTYPE_NONE)
            continue;
        elements[weight->use] += (uint64_t)bg_type_element_count(&weight->type);
        bytes += bg_type_size_bytes(&weight->type);
    }
    printf("\nWeights: %.3g MB\n", 1e-6 * (double)bytes);
    for (int use = 0; use < 4; use++)
        if (tensors[use] > 0)
            printf("  %-20s %" PRIu64 " in %u tensor%s\n", uses[use], elements[use], tensors[use], cli_s(tensors[use]));
    for (uint32_t i = 0; lists && i < contents->weight_count; i++) {
        const bg_onnx_weight *weight = &contents->weights[i];

        printf("  %-40s %-9s %s\n", weight->name, uses[weight->use],
               weight->type.dtype != BG_DTYPE_NONE ? bg_type_text(&weight->type, text) : weight->element);
    }
}

/* ---- results of building the graph ---- */

static void print_problems(const bg_onnx_contents *contents)
{
    printf("\nNot supported: %u\n", contents->problem_count);
    for (uint32_t i = 0; i < contents->problem_count; i++) {
        const bg_onnx_problem *problem = &contents->problems[i];

        if (problem->node != UINT32_MAX)
            printf("  %s (%s): %s\n", contents->nodes[problem->node].name, problem->op, problem->reason);
        else
            printf("  %s\n", problem->reason);
    }
}

static void print_work(const inspect_settings *settings)
{
    const bg_onnx_contents *contents = contents_of(settings);
    const double batch = (double)settings->model.recipe.batch_size;
    double flops = 0.0;
    uint32_t blocks = 0;

    for (uint32_t i = 0; i < contents->node_count; i++) {
        bool is_new = contents->nodes[i].ops > 0;

        flops += contents->nodes[i].flops;
        for (uint32_t k = 0; is_new && k < i; k++)
            is_new = contents->nodes[k].ops == 0 || strcmp(contents->nodes[k].block, contents->nodes[i].block) != 0;
        blocks += is_new;
    }
    printf("\nForward: %.4g Mflop a sample, %.4g Mflop a micro-batch of %.0f; %u blocks to cut stages from\n",
           1e-6 * flops / batch, 1e-6 * flops, batch, blocks);
    for (uint32_t i = 0; settings->nodes && i < contents->node_count; i++)
        printf("  %-40s %-20s block %-24s %2u op%s %10.4g Mflop\n", contents->nodes[i].name, contents->nodes[i].op,
               contents->nodes[i].block, contents->nodes[i].ops, contents->nodes[i].ops == 1 ? " " : "s",
               1e-6 * contents->nodes[i].flops);
}

/* ---- memory under each strategy ---- */

typedef struct way {
    const char *title;
    bg_strategy strategy;
    bool has_stages, recomputes;
} way;

static const way ways[] = {
    {"single", BG_STRATEGY_SINGLE, false, false},
    {"single, --recompute stage", BG_STRATEGY_SINGLE, false, true},
    {"sharded", BG_STRATEGY_SHARDED, true, false},
    {"pipelined", BG_STRATEGY_PIPELINED, true, false},
    {"pipelined, --recompute stage", BG_STRATEGY_PIPELINED, true, true},
    {"phased", BG_STRATEGY_PHASED, true, false},
};

/* Returns the options of a plan for strategy `w`, with enough micro-batches to fill a pipeline, as in a real training
 * run. */
static bg_options describe(const inspect_settings *settings, const way *w, char stages[32])
{
    bg_options options = bg_options_defaults();

    options.execution.strategy = w->strategy;
    options.execution.gradient_accumulation = w->strategy == BG_STRATEGY_PIPELINED ? 2 * (uint32_t)settings->stages : 1;
    if (w->has_stages) {
        snprintf(stages, 32, "auto:%" PRIu64, settings->stages);
        options.execution.stages = stages;
    }
    if (w->recomputes)
        options.memory.recompute = BG_RECOMPUTE_STAGE;
    return options;
}

static bg_status create_plan(inspect_settings *settings, const bg_options *options, bg_plan **out, bg_error *error)
{
    onnx_settings *model = &settings->model;
    bg_optimizer optimizer;
    bg_graph *graph = NULL;
    bg_value loss;
    bg_status status;

    BGI_TRY(bg_optimizer_parse(model->recipe.optimizer, model->recipe.learning_rate, &optimizer, error));
    BGI_TRY(bg_graph_create(&graph, error));
    loss = onnx_model_add(model, graph, BG_TRAINER_FIT, (int64_t)model->recipe.batch_size);
    status = bg_plan_create_training(graph, loss, &optimizer, options, out, error);
    bg_graph_destroy(graph);
    return status;
}

static void print_plan(const way *w, const bg_plan *plan)
{
    const bg_plan_summary summary = bg_plan_summarize(plan);
    size_t largest = 0, sum = 0, remote = 0;

    for (uint32_t d = 0; d < summary.device_count; d++) {
        const size_t bytes = bg_plan_device_bytes(plan, d);

        largest = bytes > largest ? bytes : largest;
        sum += bytes;
        remote += bg_plan_memory_bytes(plan, d, BG_MEMORY_REMOTE);
    }
    printf("  %-30s %7u %13u %14.3f %14.3f %14.3f\n", w->title, summary.device_count, summary.micro_batches_per_step,
           1e-6 * (double)largest, 1e-6 * (double)sum, 1e-6 * (double)remote);
}

static bg_status print_memory(inspect_settings *settings, bg_error *error)
{
    printf("\nMemory to train it, in MB: loss %s, optimizer %s, micro-batches of %" PRIu64 "\n",
           settings->model.loss->name, settings->model.recipe.optimizer, settings->model.recipe.batch_size);
    printf("  %-30s %7s %13s %14s %14s %14s\n", "strategy", "devices", "micro-batches", "largest device", "all devices",
           "off devices");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char stages[32];
        const bg_options options = describe(settings, &ways[i], stages);
        bg_error reason = {0};
        bg_plan *plan = NULL;

        if (create_plan(settings, &options, &plan, &reason) == BG_OK) {
            print_plan(&ways[i], plan);
            bg_plan_destroy(plan);
        } else if (reason.status == BG_ERROR_MEMORY) {
            return bg_error_set(error, reason.status, "%s", reason.message);
        } else {
            printf("  %-30s %s\n", ways[i].title, reason.message);
        }
    }
    return BG_OK;
}

/* ---- the command ---- */

/* Prints the memory that training needs, or why the model cannot be trained. */
static bg_status inspect_training(inspect_settings *settings, bg_error *error)
{
    bg_error reason = {0};

    if (onnx_check_trainable(&settings->model, &reason) != BG_OK ||
        onnx_choose_loss(&settings->model, &reason) != BG_OK) {
        if (settings->model.loss_name != NULL && reason.status == BG_ERROR_INVALID)
            return bg_error_set(error, reason.status, "%s", reason.message);
        printf("\nTraining: %s\n", reason.message);
        return BG_OK;
    }
    return print_memory(settings, error);
}

static bg_status inspect(inspect_settings *settings, bg_error *error)
{
    const bg_onnx_contents *contents;
    bg_status status;

    BGI_TRY(cli_recipe_check_optimizer(&settings->model.recipe, error));
    BGI_TRY(onnx_open_model(&settings->model, error));
    contents = contents_of(settings);
    printf("%s: %s%sopset %" PRId64 ", IR version %" PRId64 "\n", settings->model.path, contents->producer,
           contents->producer[0] != '\0' ? ", " : "", contents->opset, contents->ir_version);
    print_ports("Inputs", contents->inputs, contents->input_count);
    print_ports("Outputs", contents->outputs, contents->output_count);
    print_normalizations(&settings->model);
    BGI_TRY(print_ops(contents, error));
    status = onnx_try(&settings->model, error);
    print_weights(contents, settings->model.recipe.debug);
    if (status == BG_ERROR_UNSUPPORTED && contents->problem_count > 0) {
        print_problems(contents);
        bg_error_clear(error); /* the message lists the nodes that were printed */
        bg_error_set(error, status, "%s: %" PRIu32 " node%s not supported; the list is above", settings->model.path,
                     contents->problem_count, contents->problem_count == 1 ? " is" : "s are");
    }
    if (status != BG_OK)
        return status;
    print_work(settings);
    return inspect_training(settings, error);
}

static const cli_help_page page = {
    .usage = "Usage: brigade inspect MODEL.onnx [OPTION]...\n"
             "Describes an ONNX model of another framework: its content, its unsupported nodes, and the memory to "
             "train it. The model does not run.\n",
    .examples = "brigade inspect digits.onnx\n"
                "brigade inspect digits.onnx --stages 2 --batch-size 64 --nodes\n",
};

int cli_inspect(int argc, char **argv)
{
    inspect_settings *settings = calloc(1, sizeof *settings), *defaults = calloc(1, sizeof *defaults);
    bg_error error = {0};
    const char *word = NULL;
    uint32_t word_count;
    cli_help help = CLI_HELP_NONE;
    int code = CLI_USAGE;

    if (settings == NULL || defaults == NULL) {
        bgi_error_memory(&error, "settings", 2 * sizeof *settings);
        code = CLI_FAILED;
    } else {
        onnx_set_defaults(&settings->model, "inspect");
        onnx_set_defaults(&defaults->model, "inspect");
        settings->stages = defaults->stages = 4;
        if (cli_options_read(inspect_flags, argc, argv, settings, &word, 1, &word_count, &help, NULL, &error) ==
            BG_OK) {
            settings->model.path = word;
            cli_end_at_signals("inspect");
            if (help != CLI_HELP_NONE || inspect(settings, &error) == BG_OK)
                code = CLI_DONE;
            else
                code = error.status == BG_ERROR_INVALID ? CLI_USAGE : CLI_FAILED;
        }
        if (help != CLI_HELP_NONE)
            cli_print_help(help, &page, inspect_flags, defaults);
        onnx_clear_settings(&settings->model);
        onnx_clear_settings(&defaults->model);
    }
    free(settings);
    free(defaults);
    return code == CLI_DONE ? CLI_DONE : cli_fail("inspect", code, &error);
}
