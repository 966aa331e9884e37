/*
 * roofline.h: draws the time of a plan's steps as a roofline. Each circle is a kernel. Kernels further to the right do
 * more operations for each byte of their operands; higher kernels do more operations per second of a core. The area of
 * a circle grows with its share of the time. The roof is the limit of the core: first the rate of memory, then the rate
 * of arithmetic. A circle may be above the slope, because operands in the caches are read faster than from memory.
 *
 *     GFLOP/s |      ______     roof
 *             |     /  o
 *             |  o /        O   kernels
 *             +-----------------
 *               flops per byte
 */
#ifndef BENCH_ROOFLINE_H
#define BENCH_ROOFLINE_H

#include <math.h>

#include "peaks.h"
#include "profile.h"

enum {
    ROOF_LEFT = 70,
    ROOF_TOP = 60,
    ROOF_WIDTH = 640,
    ROOF_HEIGHT = 400,
    ROOF_LIST = 420,  /* the width of the list beside the picture */
    ROOF_SHOWN = 18,  /* kernels in the list */
    ROOF_ROUNDS = 12, /* measurements of a peak, of which the best counts */
    ROOF_COPY_FLOATS = 16 << 20
};

typedef struct roof {
    double gflops, gbytes;  /* peaks of a core, per second */
    double least_x, most_x; /* flops per byte */
    double least_y, most_y; /* GFLOP/s */
} roof;

static inline roof measure_roof(void)
{
    float *from = calloc(ROOF_COPY_FLOATS, sizeof *from), *to = calloc(ROOF_COPY_FLOATS, sizeof *to);
    roof r = {.least_x = 1.0 / 16.0, .most_x = 1024.0, .least_y = 0.25, .most_y = 512.0};
    const double flops = peak_flops();
    static volatile float sink;

    if (from == NULL || to == NULL)
        exit(1);
    for (int i = 0; i < ROOF_ROUNDS; i++) {
        uint64_t begin = read_clock_ns();
        double rate;

        peak_run(&sink);
        rate = flops / (double)(read_clock_ns() - begin);
        r.gflops = rate > r.gflops ? rate : r.gflops;
        from[0] = (float)i;
        begin = read_clock_ns();
        memcpy(to, from, ROOF_COPY_FLOATS * sizeof *to);
        rate = 2.0 * ROOF_COPY_FLOATS * sizeof *to / (double)(read_clock_ns() - begin);
        sink = to[ROOF_COPY_FLOATS / 2];
        r.gbytes = rate > r.gbytes ? rate : r.gbytes;
    }
    free(from), free(to);
    return r;
}

/* roof_x and roof_y return positions in the picture; the axes are logarithmic. */
static inline double roof_x(const roof *r, double intensity)
{
    const double at = log(intensity / r->least_x) / log(r->most_x / r->least_x);

    return ROOF_LEFT + ROOF_WIDTH * (at < 0.0 ? 0.0 : at > 1.0 ? 1.0 : at);
}

static inline double roof_y(const roof *r, double rate)
{
    const double at = log(rate / r->least_y) / log(r->most_y / r->least_y);

    return ROOF_TOP + ROOF_HEIGHT * (1.0 - (at < 0.0 ? 0.0 : at > 1.0 ? 1.0 : at));
}

static inline double roof_at(const roof *r, double intensity)
{
    return intensity * r->gbytes < r->gflops ? intensity * r->gbytes : r->gflops;
}

static inline void draw_axes(FILE *file, const roof *r, const char *title)
{
    const double ridge = r->gflops / r->gbytes;

    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"24\" font-size=\"15\" font-weight=\"bold\">%s</text>\n"
            "<text x=\"%d\" y=\"42\" fill=\"#555\">a core: %.0f GFLOP/s, %.1f GB/s of memory copied</text>\n",
            ROOF_LEFT + ROOF_WIDTH + ROOF_LIST, ROOF_TOP + ROOF_HEIGHT + 50, ROOF_LEFT, title, ROOF_LEFT, r->gflops,
            r->gbytes);
    for (double x = r->least_x; x <= r->most_x; x *= 2.0)
        fprintf(file,
                "<path d=\"M%.1f %dV%d\" stroke=\"#e4e4e4\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g"
                "</text>\n",
                roof_x(r, x), ROOF_TOP, ROOF_TOP + ROOF_HEIGHT, roof_x(r, x), ROOF_TOP + ROOF_HEIGHT + 16, x);
    for (double y = r->least_y; y <= r->most_y; y *= 2.0)
        fprintf(file,
                "<path d=\"M%d %.1fH%d\" stroke=\"#e4e4e4\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                ROOF_LEFT, roof_y(r, y), ROOF_LEFT + ROOF_WIDTH, ROOF_LEFT - 6, roof_y(r, y) + 4.0, y);
    fprintf(file,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">floating-point operations per byte of operands</text>\n"
            "<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">GFLOP/s of a core</text>\n"
            "<path d=\"M%.1f %.1fL%.1f %.1fH%d\" fill=\"none\" stroke=\"#222\" stroke-width=\"2\"/>\n",
            ROOF_LEFT + ROOF_WIDTH / 2, ROOF_TOP + ROOF_HEIGHT + 38, ROOF_TOP + ROOF_HEIGHT / 2, roof_x(r, r->least_x),
            roof_y(r, r->least_x * r->gbytes), roof_x(r, ridge), roof_y(r, r->gflops), ROOF_LEFT + ROOF_WIDTH);
}

/* Draws the sorted rows of a profile. */
static inline void draw_rows(FILE *file, const roof *r, const profile *all, long steps)
{
    static const char *const colors[] = {"#4363a8", "#c0562f", "#3f8f5f", "#8a5aa8", "#a8893c", "#3d8f9c"};
    double total = 0.0;
    int shown = 0;

    for (size_t i = 0; i < all->count; i++)
        total += (double)all->rows[i].ns;
    for (size_t i = 0; i < all->count && shown < ROOF_SHOWN; i++) {
        const timed *row = &all->rows[i];
        const double ns = (double)row->ns / (double)steps, share = (double)row->ns / total;
        const double intensity = row->flops / row->bytes, rate = row->flops / ns;
        const char *color = colors[shown % (int)(sizeof colors / sizeof colors[0])];
        int y;

        if (row->flops <= 0.0 || row->bytes <= 0.0 || row->ns == 0)
            continue;
        y = ROOF_TOP + 22 * shown++;
        fprintf(file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\" fill-opacity=\"0.45\" stroke=\"%s\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"10\">%d</text>\n",
                roof_x(r, intensity), roof_y(r, rate), 4.0 + 50.0 * sqrt(share), color, color, roof_x(r, intensity),
                roof_y(r, rate) + 3.5, shown);
        fprintf(file,
                "<text x=\"%d\" y=\"%d\" fill=\"%s\">%d: %.1f %% of the time, %.0f %% of the roof</text>"
                "<text x=\"%d\" y=\"%d\" font-size=\"9\" fill=\"#555\">%s</text>\n",
                ROOF_LEFT + ROOF_WIDTH + 24, y, color, shown, 100.0 * share, 100.0 * rate / roof_at(r, intensity),
                ROOF_LEFT + ROOF_WIDTH + 24, y + 10, row->name);
    }
}

/* Writes the picture of a profile that print_profile has sorted. */
static inline void draw_roofline(const char *path, const char *title, const profile *all, long steps)
{
    const roof r = measure_roof();
    FILE *file = fopen(path, "w");

    if (file == NULL || r.gflops <= 0.0) {
        fprintf(stderr, "%s: %s\n", path, file == NULL ? "cannot be written" : "the processor's peak is unknown");
        exit(1);
    }
    draw_axes(file, &r, title);
    draw_rows(file, &r, all, steps);
    fprintf(file, "</svg>\n");
    if (fclose(file) != 0) {
        fprintf(stderr, "%s: was not written\n", path);
        exit(1);
    }
}

#endif
