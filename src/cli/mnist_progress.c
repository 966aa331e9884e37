/*
 * mnist_progress.c: the progress line: drawn over and over on a terminal, once at the end elsewhere.
 */
#include "cli/mnist.h"

#include <inttypes.h>
#include <unistd.h>

#include "core/clock.h"

enum { BAR_WIDTH = 20 };

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

static void draw(mnist_progress *progress, const mnist_score *score, double now_s)
{
    double elapsed_s = now_s - progress->start_s;
    uint64_t filled = progress->total > 0 ? progress->done * BAR_WIDTH / progress->total : 0;

    if (elapsed_s <= 0.0)
        elapsed_s = 1e-9;
    printf("%s%" PRIu64 "/%" PRIu64 " [", progress->is_terminal ? "\r" : "", progress->done, progress->total);
    for (uint64_t i = 0; i < BAR_WIDTH; i++)
        putchar(i < filled ? '=' : ' ');
    fputs("] ", stdout);
    if (score != NULL)
        printf("Loss:%0.4f | Accuracy:%0.2f%% ", score->loss, score->accuracy);
    printf("%.2fit/s %.0f images/s", (double)progress->done / elapsed_s, (double)progress->images / elapsed_s);
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
