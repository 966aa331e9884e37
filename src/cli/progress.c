/*
 * progress.c: prints progress lines of calls and downloads, which are redrawn on a terminal, and otherwise printed once
 * at the end.
 */
#include "cli/recipe.h"
#include "cli/ranks.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/clock.h"

enum { BAR_WIDTH = 20, LINE_BYTES = 256, PART_BYTES = CLI_SCORE_BYTES };

/* The shortest time between two updates of a line; more frequent ones would not help a reader. */
static const double redraw_s = 0.05;

void cli_progress_begin(cli_progress *progress, const char *sample_words, bool quiet, uint64_t total)
{
    *progress = (cli_progress){
        .sample_words = sample_words, .is_terminal = cli_writes_to_terminal(), .quiet = quiet, .total = total};
    progress->start_s = bgi_clock_s();
}

/* Returns the largest number of characters in a line: a terminal's width minus one for the cursor. */
static size_t find_width(bool is_terminal)
{
    struct winsize size = {0};

    if (!is_terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return LINE_BYTES;
    return size.ws_col > 1 ? size.ws_col - 1u : 1;
}

/* Prints the parts of a line. A line that wraps could not be redrawn, so parts are omitted in the order of `leaves`
 * until the line fits. */
static void print_parts(bool is_terminal, char (*parts)[PART_BYTES], int part_count, const int *leaves, int leave_count)
{
    const size_t width = find_width(is_terminal);
    size_t length = 0;

    for (int i = 0; i < part_count; i++)
        length += strlen(parts[i]);
    for (int i = 0; i < leave_count && length > width; i++) {
        length -= strlen(parts[leaves[i]]);
        parts[leaves[i]][0] = '\0';
    }
    if (is_terminal)
        putchar('\r');
    for (int i = 0; i < part_count; i++)
        fputs(parts[i], stdout);
    if (is_terminal)
        fputs("\033[K", stdout); /* clears the rest of a longer line */
}

static void write_bar(char *part, uint64_t done, uint64_t total)
{
    const uint64_t filled = total == 0 ? 0 : done >= total ? BAR_WIDTH : done * BAR_WIDTH / total;

    snprintf(part, PART_BYTES, "[%*s] ", BAR_WIDTH, "");
    memset(part + 1, '=', (size_t)filled);
}

/* Draws the progress line. With `is_last` the line stays, and includes the duration, which output in a file would not
 * show otherwise. */
static void draw(cli_progress *progress, const char *score, double now_s, bool is_last)
{
    enum { COUNT, BAR, SCORE, SPEED, SAMPLES, TIME, PART_COUNT };
    static const int leaves[] = {TIME, SAMPLES, SPEED, BAR, SCORE};
    char parts[PART_COUNT][PART_BYTES] = {{0}};
    double elapsed_s = now_s - progress->start_s;

    if (elapsed_s <= 0.0)
        elapsed_s = 1e-9;
    snprintf(parts[COUNT], PART_BYTES, "%" PRIu64 "/%" PRIu64 " ", progress->done, progress->total);
    write_bar(parts[BAR], progress->done, progress->total);
    if (score != NULL)
        snprintf(parts[SCORE], PART_BYTES, "%s ", score);
    snprintf(parts[SPEED], PART_BYTES, "%.2fit/s ", (double)progress->done / elapsed_s);
    snprintf(parts[SAMPLES], PART_BYTES, "%.0f %s/s", (double)progress->samples / elapsed_s, progress->sample_words);
    if (is_last)
        snprintf(parts[TIME], PART_BYTES, " %.1f s", elapsed_s);
    print_parts(progress->is_terminal, parts, PART_COUNT, leaves, sizeof leaves / sizeof leaves[0]);
    progress->shown_s = now_s;
}

void cli_progress_add(cli_progress *progress, uint64_t samples, const char *score)
{
    double now_s;

    progress->done++;
    progress->samples += samples;
    if (progress->quiet || !progress->is_terminal)
        return;
    now_s = bgi_clock_s();
    if (now_s - progress->shown_s < redraw_s)
        return;
    draw(progress, score, now_s, false);
    fflush(stdout);
}

void cli_progress_end(cli_progress *progress, const char *score)
{
    if (progress->quiet)
        return;
    draw(progress, score, bgi_clock_s(), true);
    putchar('\n');
    fflush(stdout);
}

/* ---- downloads ---- */

cli_download_progress cli_download_progress_begin(bool quiet)
{
    return (cli_download_progress){.is_terminal = cli_writes_to_terminal(), .quiet = quiet};
}

/* Prints the final line of a complete file. */
static void end_file(cli_download_progress *progress)
{
    double elapsed_s = bgi_clock_s() - progress->start_s;

    if (progress->quiet || progress->file_name[0] == '\0')
        return;
    printf("%s%s: %.1f kB in %.1f s%s\n", progress->is_terminal ? "\r" : "", progress->file_name,
           1e-3 * (double)progress->done, elapsed_s, progress->is_terminal ? "\033[K" : "");
    fflush(stdout);
}

static void draw_file(cli_download_progress *progress, uint64_t total, double now_s)
{
    enum { NAME, BAR, SIZE, SPEED, PART_COUNT };
    static const int leaves[] = {SPEED, BAR, SIZE};
    char parts[PART_COUNT][PART_BYTES] = {{0}};
    const double elapsed_s = now_s - progress->start_s;

    snprintf(parts[NAME], PART_BYTES, "%.*s ", PART_BYTES - 2, progress->file_name);
    if (total > 0) { /* if not, only the received size is known */
        write_bar(parts[BAR], progress->done, total);
        snprintf(parts[SIZE], PART_BYTES, "%.1f/%.1f kB ", 1e-3 * (double)progress->done, 1e-3 * (double)total);
    } else {
        snprintf(parts[SIZE], PART_BYTES, "%.1f kB ", 1e-3 * (double)progress->done);
    }
    if (elapsed_s > 0)
        snprintf(parts[SPEED], PART_BYTES, "%.0f kB/s", 1e-3 * (double)progress->done / elapsed_s);
    print_parts(true, parts, PART_COUNT, leaves, sizeof leaves / sizeof leaves[0]);
    fflush(stdout);
    progress->shown_s = now_s;
}

bool cli_report_download(void *user, const char *file_name, uint64_t done_bytes, uint64_t total_bytes)
{
    cli_download_progress *progress = user;
    const double now_s = bgi_clock_s();
    const bool is_new = strncmp(progress->file_name, file_name, sizeof progress->file_name - 1) != 0;
    const bool is_whole = total_bytes > 0 && done_bytes == total_bytes && done_bytes != progress->done;

    if (is_new) {
        end_file(progress);
        snprintf(progress->file_name, sizeof progress->file_name, "%s", file_name);
    }
    if (is_new || done_bytes < progress->done) /* the next mirror starts from the beginning */
        progress->start_s = now_s;
    progress->done = done_bytes;
    if (!progress->quiet && progress->is_terminal && (is_new || is_whole || now_s - progress->shown_s >= redraw_s))
        draw_file(progress, total_bytes, now_s);
    return cli_received_signal == 0;
}

void cli_download_progress_end(cli_download_progress *progress, bool is_complete)
{
    if (is_complete)
        end_file(progress);
    else
        cli_clear_line(progress->quiet);
    progress->file_name[0] = '\0';
}
