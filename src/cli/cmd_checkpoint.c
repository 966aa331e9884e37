/*
 * cmd_checkpoint.c: `brigade checkpoint`: inspects, verifies and compares checkpoints, and converts them to files of
 * other frameworks and back. It needs no model and no data.
 */
#include "cli/checkpoint.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "cli/program.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

#define AT(field) .offset = offsetof(checkpoint_settings, field)

static const cli_option checkpoint_table[] = {
    {CLI_FLAG, "json", AT(json), .help = "inspect and diff print one JSON object"},
    {CLI_FLAG, "tensors", AT(tensors), .help = "inspect lists every tensor"},
    {CLI_FLAG, "weights", AT(weights), .help = "diff compares only parameters and buffers"},
    {.help = "For convert"},
    {CLI_CHOICE, "to", AT(to), .choices = "weights|checkpoint",
     .default_text = "weights from a checkpoint, a checkpoint from weights",
     .help = "weights: parameters and buffers as a safetensors file, or as a folder with an index that Hugging Face's "
             "tools read"},
    {CLI_SIZE, "file-size", AT(file_bytes), .value = "BYTES", .default_text = "no limit",
     .help = "largest size of a file in a folder, such as 5G"},
    {CLI_CHOICE, "floats", AT(floats), .choices = "float32|bfloat16|float16", .default_text = "as they are",
     .help = "type to which weights are converted"},
    {CLI_TEXT, "prefix", AT(prefix), .value = "TEXT", .default_text = "none",
     .help = "prefix that names of the weights have and names of the checkpoint do not have"},
    {CLI_TEXT_LIST, "rename", AT(renames), .value = "THERE=HERE...", .default_text = "none",
     .help = "a name in the weights and the corresponding name in the checkpoint; each may have one *"},
    {CLI_TEXT_LIST, "ignore", AT(ignore), .value = "NAME...", .default_text = "none",
     .help = "names in the result to leave out; each may have any number of *"},
    {CLI_TEXT, "like", AT(like), .value = "CHECKPOINT", .default_text = "none",
     .help = "a checkpoint that provides optimizer state, step, seed and position in the data, which weights lack"},
    {CLI_COUNT, "step", AT(step), .value = "N", .maximum = UINT64_MAX,
     .help = "number of weight updates done, if there is no --like"},
    {CLI_COUNT, "seed", AT(seed), .value = "N", .maximum = UINT64_MAX, .help = "the seed, if there is no --like"},
    CLI_OPTIONS_END,
};

/* ---- verify ---- */

static bg_status verify_path(const char *path, bg_error *error)
{
    bgi_stored *source = NULL;
    bg_status status;

    BGI_TRY(bgi_stored_open(path, &source, error));
    status = bgi_stored_check(source, error);
    if (status == BG_OK && source->is_checkpoint)
        printf("%s: complete, checksum %s\n", source->path, bgi_stored_text(source, BGI_CHECKPOINT_SUM));
    else if (status == BG_OK)
        printf("%s: names, types and offsets are right and all data can be read; there is no checksum\n", source->path);
    bgi_stored_close(source);
    return status;
}

/* Verifies each checkpoint of a folder. The first damaged one is the returned error; messages about the others are
 * printed. */
static bg_status verify_list(const char *folder, const bgi_checkpoint_list *list, bg_error *error)
{
    char name[BGI_CHECKPOINT_NAME_BYTES];
    bg_error one = {0};

    for (size_t i = list->count; i-- > 0;) {
        char *path = bgi_path_join(folder, bgi_checkpoint_name(list->steps[i], name));
        if (path == NULL)
            return bgi_error_memory(error, "a path", strlen(folder));
        bg_error_clear(&one);
        if (verify_path(path, &one) != BG_OK && error->status != BG_OK)
            cli_say("checkpoint", "%s", one.message);
        else if (one.status != BG_OK)
            bg_error_set(error, one.status, "%s", one.message);
        free(path);
    }
    return error->status;
}

static bg_status verify(const char *path, bg_error *error)
{
    bgi_checkpoint_list list = {0};
    struct stat state;
    bg_status status = BG_OK;

    if (stat(path, &state) == 0 && S_ISDIR(state.st_mode))
        status = bgi_checkpoint_find(path, &list, error);
    if (status == BG_OK)
        status = list.count > 0 ? verify_list(path, &list, error) : verify_path(path, error);
    free(list.steps);
    return status;
}

/* ---- best ---- */

/* Prints the path of the checkpoint with the best metric. */
static bg_status print_best(const char *folder, bg_error *error)
{
    bgi_checkpoint_list list = {0};
    char name[BGI_CHECKPOINT_NAME_BYTES];
    bool *best = NULL;
    char *path = NULL;
    size_t at = 0;
    bg_status status;

    BGI_TRY_CLEANUP(bgi_checkpoint_find(folder, &list, error));
    best = bgi_checkpoint_best_of(folder, list.steps, list.count, 1);
    if (best == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "checkpoints", list.count * sizeof *best));
    while (at < list.count && !best[at])
        at++;
    if (at == list.count)
        BGI_TRY_CLEANUP(bg_error_set(
            error, BG_ERROR_NOT_FOUND,
            "%s: has no checkpoint with a metric; train with --checkpoint-keep-best to record one", folder));
    path = bgi_path_join(folder, bgi_checkpoint_name(list.steps[at], name));
    if (path == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a path", strlen(folder)));
    printf("%s\n", path);
cleanup:
    free(path);
    free(best);
    free(list.steps);
    return status;
}

/* ---- the command ---- */

static const cli_help_page page = {
    .usage =
        "Usage: brigade checkpoint COMMAND PATH [PATH] [OPTION]...\n"
        "PATH is a checkpoint, a folder of checkpoints (the latest is used), a safetensors file, or a folder with "
        "model.safetensors or an index: docs/formats.md.\n\nCommands:\n"
        "  inspect PATH       prints its content\n"
        "  verify PATH        reads the whole file and compares its checksum; in a folder, those of all checkpoints\n"
        "  convert FROM TO    converts weights of a checkpoint to a file or a folder with an index, or such "
        "weights to a checkpoint in the folder TO\n"
        "  diff PATH PATH     prints the differences; the exit code is 1 if there are any\n"
        "  best FOLDER        prints the path of the checkpoint with the best metric\n",
    .examples = "brigade checkpoint inspect runs --tensors\n"
                "brigade checkpoint verify runs\n"
                "brigade checkpoint convert runs weights.safetensors --to weights\n"
                "brigade checkpoint diff runs runs\n",
};

typedef struct checkpoint_command {
    const char *name;
    uint32_t paths;
} checkpoint_command;

static const checkpoint_command commands[] = {{"inspect", 1}, {"verify", 1}, {"convert", 2}, {"diff", 2}, {"best", 1}};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const checkpoint_command *find_command(const char *name, bg_error *error)
{
    const char *names[COMMAND_COUNT], *nearest;

    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
        if (name != NULL && strcmp(names[i], name) == 0)
            return &commands[i];
    }
    nearest = name != NULL ? bgi_text_nearest(name, names, COMMAND_COUNT) : NULL;
    if (name == NULL)
        bg_error_set(error, BG_ERROR_INVALID,
                     "no command is given; the commands are inspect, verify, convert, diff and best");
    else if (nearest != NULL)
        bg_error_set(error, BG_ERROR_INVALID, "unknown command `%s`; did you mean `%s`?", name, nearest);
    else
        bg_error_set(error, BG_ERROR_INVALID,
                     "unknown command `%s`; the commands are inspect, verify, convert, diff and best", name);
    return NULL;
}

/* Checks that the given options apply to the command. */
static bg_status check_given(const checkpoint_command *command, const bool *given, bg_error *error)
{
    for (uint32_t i = 0; checkpoint_table[i].name != NULL || checkpoint_table[i].help != NULL; i++) {
        const char *name = checkpoint_table[i].name;
        bool fits = strcmp(command->name, "convert") == 0;

        if (!given[i] || name == NULL)
            continue;
        if (strcmp(name, "json") == 0)
            fits = strcmp(command->name, "inspect") == 0 || strcmp(command->name, "diff") == 0;
        else if (strcmp(name, "tensors") == 0)
            fits = strcmp(command->name, "inspect") == 0;
        else if (strcmp(name, "weights") == 0)
            fits = strcmp(command->name, "diff") == 0;
        if (!fits)
            return bg_error_set(error, BG_ERROR_INVALID, "%s takes no --%s", command->name, name);
    }
    return BG_OK;
}

static int run_command(const checkpoint_command *command, const char *const *paths, const checkpoint_settings *settings)
{
    bg_error error = {0};
    bg_status status;
    bool is_same = true;

    cli_end_at_signals("checkpoint");
    if (strcmp(command->name, "inspect") == 0)
        status = checkpoint_inspect(paths[0], settings, &error);
    else if (strcmp(command->name, "verify") == 0)
        status = verify(paths[0], &error);
    else if (strcmp(command->name, "convert") == 0)
        status = checkpoint_convert(paths[0], paths[1], settings, &error);
    else if (strcmp(command->name, "best") == 0)
        status = print_best(paths[0], &error);
    else
        status = checkpoint_diff(paths[0], paths[1], settings, &is_same, &error);
    if (status != BG_OK)
        return cli_fail("checkpoint", CLI_FAILED, &error);
    return is_same ? CLI_DONE : CLI_FAILED;
}

int cli_checkpoint(int argc, char **argv)
{
    checkpoint_settings settings = {0};
    const checkpoint_settings defaults = settings;
    const char *words[4] = {NULL};
    bool given[CLI_OPTION_LIMIT] = {false};
    cli_help help = CLI_HELP_NONE;
    const checkpoint_command *command;
    uint32_t word_count = 0;
    bg_error error = {0};

    if (cli_options_read(checkpoint_table, argc, argv, &settings, words, 4, &word_count, &help, given, &error) != BG_OK)
        return cli_fail("checkpoint", CLI_USAGE, &error);
    if (help != CLI_HELP_NONE) {
        cli_print_help(help, &page, checkpoint_table, &defaults);
        return CLI_DONE;
    }
    command = find_command(word_count > 0 ? words[0] : NULL, &error);
    if (command != NULL && word_count != command->paths + 1)
        bg_error_set(&error, BG_ERROR_INVALID, "%s takes %u path%s, but %u were given", command->name, command->paths,
                     cli_s(command->paths), word_count - 1);
    if (error.status == BG_OK)
        check_given(command, given, &error);
    if (error.status != BG_OK)
        return cli_fail("checkpoint", CLI_USAGE, &error);
    return run_command(command, words + 1, &settings);
}
