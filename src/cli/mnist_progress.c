/*
 * mnist_progress.c: the progress line: drawn over and over on a terminal, once at the end elsewhere.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/clock.h"

enum { BAR_WIDTH = 20, LINE_BYTES = 256 };

/* Terminals need no more than this. */
static const double redraw_s = 0.05;

double mnist_now_s(void)
{
    return 1e-9 * (double)bgi_clock_ns();
}

void mnist_progress_begin(mnist_progress *progress, bool quiet, uint64_t total)
{
    *progress = (mnist_progress){.is_terminal = isatty(STDOUT_FILENO) == 1, .quiet = quiet, .total = total};
    progress->start_s = mnist_now_s();
}

/* The characters that a line may have: a terminal's width less one, where the cursor stands. */
static size_t find_width(const mnist_progress *progress)
{
    struct winsize size = {0};

    if (!progress->is_terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return LINE_BYTES;
    return size.ws_col > 1 ? size.ws_col - 1u : 1;
}

/* A line that wraps would be drawn again on the next one: what matters least is left out until it fits. */
static void draw(mnist_progress *progress, const mnist_score *score, double now_s)
{
    enum { COUNT, BAR, SCORE, SPEED, IMAGES, PART_COUNT };
    static const int leaves[] = {IMAGES, SPEED, BAR, SCORE};
    char parts[PART_COUNT][64] = {{0}};
    double elapsed_s = now_s - progress->start_s;
    uint64_t filled = progress->total > 0 ? progress->done * BAR_WIDTH / progress->total : 0;
    size_t width = find_width(progress), length = 0;

    if (elapsed_s <= 0.0)
        elapsed_s = 1e-9;
    snprintf(parts[COUNT], sizeof parts[COUNT], "%" PRIu64 "/%" PRIu64 " ", progress->done, progress->total);
    snprintf(parts[BAR], sizeof parts[BAR], "[%*s] ", BAR_WIDTH, "");
    memset(parts[BAR] + 1, '=', filled < BAR_WIDTH ? (size_t)filled : BAR_WIDTH);
    if (score != NULL)
        snprintf(parts[SCORE], sizeof parts[SCORE], "Loss:%0.4f | Accuracy:%0.2f%% ", score->loss, score->accuracy);
    snprintf(parts[SPEED], sizeof parts[SPEED], "%.2fit/s ", (double)progress->done / elapsed_s);
    snprintf(parts[IMAGES], sizeof parts[IMAGES], "%.0f images/s", (double)progress->images / elapsed_s);
    for (int i = 0; i < PART_COUNT; i++)
        length += strlen(parts[i]);
    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0] && length > width; i++) {
        length -= strlen(parts[leaves[i]]);
        parts[leaves[i]][0] = '\0';
    }
    if (progress->is_terminal)
        putchar('\r');
    for (int i = 0; i < PART_COUNT; i++)
        fputs(parts[i], stdout);
    if (progress->is_terminal)
        fputs("\033[K", stdout); /* clears what a longer line left */
    progress->shown_s = now_s;
}

void mnist_progress_add(mnist_progress *progress, uint64_t images, const mnist_score *score)
{
    double now_s;

    progress->done++;
    progress->images += images;
    if (progress->quiet || !progress->is_terminal)
        return;
    now_s = mnist_now_s();
    if (now_s - progress->shown_s < redraw_s)
        return;
    draw(progress, score, now_s);
    fflush(stdout);
}

void mnist_progress_end(mnist_progress *progress, const mnist_score *score)
{
    if (progress->quiet)
        return;
    draw(progress, score, mnist_now_s());
    putchar('\n');
    fflush(stdout);
}
