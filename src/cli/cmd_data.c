/*
 * cmd_data.c: `brigade data`, and `brigade data digits`, which writes generated digits as IDX files for `brigade mnist
 * --data-dir`, and as an image (PGM).
 */
#include "cli/command.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/data.h>

#include "cli/options.h"
#include "cli/program.h"
#include "core/error.h"
#include "core/file.h"

enum { SHEET_COLUMNS = 20, SHEET_LIMIT = 400 };

typedef struct digits_config {
    uint64_t count, test_count, seed;
    const char *folder, *sheet_path;
} digits_config;

#define AT(field) .offset = offsetof(digits_config, field)

static const cli_option digits_options[] = {
    {CLI_COUNT, "count", AT(count), .value = "N", .minimum = 1, .maximum = 10000000, .help = "training images"},
    {CLI_COUNT, "test-count", AT(test_count), .value = "N", .minimum = 1, .maximum = 10000000, .help = "test images"},
    {CLI_COUNT, "seed", AT(seed), .value = "N", .maximum = UINT64_MAX, .help = "seed of the digits"},
    {CLI_TEXT, "dir", AT(folder), .value = "DIR", .help = "folder for the four IDX files"},
    {CLI_TEXT, "out", AT(sheet_path), .value = "FILE.pgm", .help = "a picture of the first training images"},
    CLI_OPTIONS_END,
};

/* Writes the first images as a binary PGM, in rows of SHEET_COLUMNS. */
static bg_status write_sheet(const bg_image_set *set, const char *path, bg_error *error)
{
    uint64_t count =
        (uint64_t)set->images.type.dims[0] < SHEET_LIMIT ? (uint64_t)set->images.type.dims[0] : SHEET_LIMIT;
    uint64_t rows = (count + SHEET_COLUMNS - 1) / SHEET_COLUMNS;
    size_t width = SHEET_COLUMNS * BG_DIGITS_COLUMNS, height = (size_t)rows * BG_DIGITS_ROWS;
    const uint8_t *images = set->images.data;
    uint8_t *pixels = calloc(height, width);
    bgi_file_writer writer = {0};
    bg_status status;

    if (pixels == NULL)
        return bgi_error_memory(error, "picture", height * width);
    for (uint64_t i = 0; i < count; i++)
        for (size_t y = 0; y < BG_DIGITS_ROWS; y++)
            memcpy(pixels + ((size_t)(i / SHEET_COLUMNS) * BG_DIGITS_ROWS + y) * width +
                       (size_t)(i % SHEET_COLUMNS) * BG_DIGITS_COLUMNS,
                   images + (i * BG_DIGITS_ROWS + y) * BG_DIGITS_COLUMNS, BG_DIGITS_COLUMNS);
    BGI_TRY_CLEANUP(bgi_file_writer_begin(&writer, path, error));
    bgi_file_print(&writer, "P5\n%zu %zu\n255\n", width, height);
    bgi_file_write(&writer, pixels, height * width);
    status = bgi_file_writer_commit(&writer, error);
cleanup:
    bgi_file_writer_abandon(&writer, error);
    free(pixels);
    return status;
}

static bg_status write_set(const digits_config *config, bool is_training, bg_error *error)
{
    bg_digits_options options = {.seed = config->seed,
                                 .first_index = is_training ? 0 : config->count,
                                 .count = is_training ? config->count : config->test_count};
    bg_image_set set = {.class_count = 0};
    bg_status status = bg_digits_create(&options, &set, error);

    cli_catch_signals(); /* each file is written completely, or not at all */
    if (status == BG_OK && config->folder != NULL)
        status = bg_image_set_write_mnist(&set, config->folder, is_training, true, error);
    if (status == BG_OK && is_training && config->sheet_path != NULL)
        status = write_sheet(&set, config->sheet_path, error);
    cli_end_at_signals("data");
    bg_image_set_clear(&set);
    return status;
}

static bg_status make_digits(const digits_config *config, bg_error *error)
{
    if (config->folder != NULL)
        BGI_TRY(bgi_folder_create(config->folder, error));
    BGI_TRY(write_set(config, true, error));
    if (config->folder != NULL)
        BGI_TRY(write_set(config, false, error));
    if (config->folder != NULL)
        printf("%" PRIu64 " training and %" PRIu64 " test images are in %s\n", config->count, config->test_count,
               config->folder);
    if (config->sheet_path != NULL)
        printf("A picture of the first images is in %s\n", config->sheet_path);
    return BG_OK;
}

static const cli_help_page digits_page = {
    .usage = "Usage: brigade data digits [--dir DIR] [--out FILE.pgm] [OPTION]...\n"
             "Makes handwriting-like digits for `brigade mnist --data-dir DIR`.\n",
    .examples = "brigade data digits --dir digits --count 4000 --test-count 400\n"
                "brigade data digits --out digits.pgm --count 400\n",
};

static int run_digits(int argc, char **argv)
{
    digits_config config = {.count = 60000, .test_count = 10000};
    const digits_config defaults = config;
    uint32_t word_count;
    cli_help help;
    bg_error error = {0};
    bg_status status = cli_options_read(digits_options, argc, argv, &config, NULL, 0, &word_count, &help, NULL, &error);

    if (status == BG_OK && help != CLI_HELP_NONE) {
        cli_print_help(help, &digits_page, digits_options, &defaults);
        return CLI_DONE;
    }
    if (status == BG_OK && config.folder == NULL && config.sheet_path == NULL)
        status = bg_error_set(&error, BG_ERROR_INVALID,
                              "no output is named; --dir DIR makes IDX files, and --out FILE.pgm makes a picture");
    if (status != BG_OK)
        return cli_fail("data", CLI_USAGE, &error);
    if (make_digits(&config, &error) != BG_OK)
        return cli_fail("data", CLI_FAILED, &error);
    return CLI_DONE;
}

int cli_data(int argc, char **argv)
{
    bg_error error = {0};

    if (argc > 1 && strcmp(argv[1], "digits") == 0)
        return run_digits(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "bench") == 0)
        return cli_data_bench(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "tokenize") == 0)
        return cli_data_tokenize(argc - 1, argv + 1);
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        cli_print_lines("Usage: brigade data COMMAND [OPTION]...\n\nCommands:\n"
                        "  digits    make handwriting-like digits\n"
                        "  bench     measure how fast a data set is read, without a device\n"
                        "  tokenize  make a file of tokens from texts\n\n"
                        "`brigade data COMMAND --help` shows a command's options.\n");
        return CLI_DONE;
    }
    if (argc > 1)
        bg_error_set(&error, BG_ERROR_INVALID, "unknown kind of data `%s`; the commands are digits, bench and tokenize",
                     argv[1]);
    else
        bg_error_set(&error, BG_ERROR_INVALID, "no command is given; the commands are digits, bench and tokenize");
    return cli_fail("data", CLI_USAGE, &error);
}
