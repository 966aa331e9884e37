/*
 * digits.c: draws handwriting-like digits. The strokes are in a table (digit_strokes.c).
 *
 *     pick a digit and one of its styles -> shake the points -> round the corners into a fine line
 *       -> bend the plane (a lattice of control points, Sederberg and Parry 1986) -> slant, turn, stretch, shift
 *       -> ink: the distance of each pixel to the nearest part of the line, against the pen's width -> flecks
 *
 * The random numbers of a sample are the stream (seed, index). The arithmetic uses only addition, multiplication,
 * division and square root, which IEEE 754 rounds in the same way on every machine (the build forbids contraction). It
 * avoids the library's sine and exponential, because their last bit differs between machines. So every machine draws
 * the same images.
 *
 * `hand` holds the variation of handwriting. Its values were chosen so that the MNIST convolutional network has the
 * same accuracy on these digits as on MNIST: 98.1 to 98.8 % after three epochs of 60000.
 */
#include "data/digit_strokes.h"

#include "core/error.h"
#include "core/random.h"

#include <brigade/data.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = BG_DIGITS_ROWS,
    COLUMNS = BG_DIGITS_COLUMNS,
    LATTICE = 4,        /* control points along each side of the bending lattice */
    STEPS_PER_SPAN = 5, /* straight segments between two points of a curve */
    MAX_LINE_POINTS = BGI_STYLE_STROKES * (BGI_STROKE_POINTS * STEPS_PER_SPAN + 1)
};

/* Standard deviations and ranges, in units of the glyph's height unless a comment has another unit. */
static const struct {
    float point;                    /* independent shift of each stroke point */
    float lattice;                  /* shift of each control point of the bending lattice */
    float height_low, height_high;  /* height of the glyph in pixels */
    float width;                    /* relative change of the width */
    float turn;                     /* radians */
    float slant_mean, slant;        /* sideways shift for each unit of height: most hands lean to the right */
    float shift;                    /* pixels */
    float radius_low, radius_high;  /* radius of the pen in pixels */
    float pressure;                 /* relative change of the radius from one end of a line to the other */
    float edge_low, edge_high;      /* width over which ink fades out, pixels */
    float ink_low;                  /* least value of the darkest ink, 0..1 */
    float fleck_chance, gap_chance; /* the probabilities that a digit has flecks, and that its ink has gaps */
} hand = {
    .point = 0.030f,
    .lattice = 0.065f,
    .height_low = 17.0f,
    .height_high = 21.5f,
    .width = 0.16f,
    .turn = 0.11f,
    .slant_mean = 0.12f,
    .slant = 0.20f,
    .shift = 1.0f,
    .radius_low = 0.65f,
    .radius_high = 1.75f,
    .pressure = 0.25f,
    .edge_low = 0.8f,
    .edge_high = 1.5f,
    .ink_low = 0.75f,
    .fleck_chance = 0.12f,
    .gap_chance = 0.06f,
};

typedef struct point {
    float x, y;
} point;

/* The pen's path: points of all strokes one after the other. */
typedef struct pen_line {
    point points[MAX_LINE_POINTS];
    bool is_joined[MAX_LINE_POINTS]; /* joined to the previous point */
    int count;
} pen_line;

/* ---- random values without library functions ---- */

static float draw_between(bgi_random *random, float low, float high)
{
    return low + (high - low) * bgi_random_uniform(random);
}

/* Returns a nearly normal value with mean 0, deviation 1 and a magnitude below 3.47, made from the sum of four uniform
 * values. */
static float draw_normal(bgi_random *random)
{
    float sum = 0;

    for (int i = 0; i < 4; i++)
        sum += bgi_random_uniform(random);
    return (sum - 2.0f) * 1.7320508f;
}

/* ---- the line ---- */

static const bgi_digit_style *pick_style(bgi_random *random, uint32_t digit)
{
    const bgi_digit_style *first = bgi_digit_styles, *end = bgi_digit_styles + bgi_digit_style_count, *style;
    uint32_t total = 0, left;

    while (first->digit != digit)
        first++;
    for (style = first; style < end && style->digit == digit; style++)
        total += style->weight;
    left = bgi_random_below(random, total);
    for (style = first; left >= style->weight; style++)
        left -= style->weight;
    return style;
}

static void add_point(pen_line *line, point p, bool is_joined)
{
    line->points[line->count] = p;
    line->is_joined[line->count++] = is_joined;
}

/* Evaluates Catmull and Rom's spline between b and c at t in 0..1. */
static float interpolate(float a, float b, float c, float d, float t)
{
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

static void add_curve(pen_line *line, const point *knots, int count)
{
    add_point(line, knots[0], false);
    for (int i = 0; i + 1 < count; i++) {
        const point a = knots[i > 0 ? i - 1 : 0], b = knots[i], c = knots[i + 1],
                    d = knots[i + 2 < count ? i + 2 : i + 1];

        for (int step = 1; step <= STEPS_PER_SPAN; step++) {
            const float t = (float)step / STEPS_PER_SPAN;
            add_point(line, (point){interpolate(a.x, b.x, c.x, d.x, t), interpolate(a.y, b.y, c.y, d.y, t)}, true);
        }
    }
}

/* Adds the points of a straight stroke, with intermediate points, so that the lattice can bend it. */
static void add_straight(pen_line *line, const point *knots, int count)
{
    add_point(line, knots[0], false);
    for (int i = 0; i + 1 < count; i++)
        for (int step = 1; step <= STEPS_PER_SPAN; step++) {
            const float t = (float)step / STEPS_PER_SPAN;
            add_point(
                line,
                (point){knots[i].x + t * (knots[i + 1].x - knots[i].x), knots[i].y + t * (knots[i + 1].y - knots[i].y)},
                true);
        }
}

/* Returns point `at` of a stroke, moved at random. Strokes that meet in a point of the table must still meet afterward,
 * so equal points of different strokes are moved in the same way. */
static point shaken(bgi_random *random, const bgi_digit_style *style, int stroke, int at,
                    point moved[][BGI_STROKE_POINTS])
{
    const int8_t *p = style->strokes[stroke].points[at];

    for (int i = 0; i < stroke; i++)
        for (int j = 0; j < style->strokes[i].point_count; j++)
            if (style->strokes[i].points[j][0] == p[0] && style->strokes[i].points[j][1] == p[1])
                return moved[i][j];
    const float x = hand.point * draw_normal(random), y = hand.point * draw_normal(random);
    return (point){(float)p[0] / 100 - 0.5f + x, (float)p[1] / 100 - 0.5f + y};
}

static void trace_strokes(bgi_random *random, const bgi_digit_style *style, pen_line *line)
{
    point moved[BGI_STYLE_STROKES][BGI_STROKE_POINTS];

    line->count = 0;
    for (int i = 0; i < style->stroke_count; i++) {
        const bgi_stroke *stroke = &style->strokes[i];

        for (int j = 0; j < stroke->point_count; j++)
            moved[i][j] = shaken(random, style, i, j, moved);
        if (stroke->is_curve)
            add_curve(line, moved[i], stroke->point_count);
        else
            add_straight(line, moved[i], stroke->point_count);
    }
}

/* ---- bending and placing ---- */

/* Evaluates the cubic Bernstein polynomials at t. */
static void weigh(float t, float weights[LATTICE])
{
    const float s = 1 - t;

    weights[0] = s * s * s;
    weights[1] = 3 * s * s * t;
    weights[2] = 3 * s * t * t;
    weights[3] = t * t * t;
}

static void bend(bgi_random *random, pen_line *line)
{
    float dx[LATTICE][LATTICE], dy[LATTICE][LATTICE];

    for (int i = 0; i < LATTICE; i++)
        for (int j = 0; j < LATTICE; j++) {
            dx[i][j] = 2 * hand.lattice * draw_normal(random);
            dy[i][j] = 2 * hand.lattice * draw_normal(random);
        }
    for (int k = 0; k < line->count; k++) {
        point *p = &line->points[k];
        float across[LATTICE], down[LATTICE], x = 0, y = 0;

        weigh(p->x + 0.5f, across);
        weigh(p->y + 0.5f, down);
        for (int i = 0; i < LATTICE; i++)
            for (int j = 0; j < LATTICE; j++) {
                x += down[i] * across[j] * dx[i][j];
                y += down[i] * across[j] * dy[i][j];
            }
        p->x += x;
        p->y += y;
    }
}

/* Turns, slants and stretches the line, then moves its center of mass near the middle of the image. This is similar to
 * MNIST, where the center of the ink's mass is in the middle. */
static void place(bgi_random *random, const bgi_digit_style *style, pen_line *line)
{
    const float height = draw_between(random, hand.height_low, hand.height_high);
    const float width = height * (float)style->width_percent / 100 * (1 + hand.width * draw_normal(random));
    const float turn = hand.turn * draw_normal(random);
    const float slant = hand.slant_mean + hand.slant * draw_normal(random);
    /* Sine and cosine to third and fourth order: angles stay below half a radian. */
    const float sine = turn - turn * turn * turn / 6;
    const float cosine = 1 - turn * turn / 2 + turn * turn * turn * turn / 24;
    float sum_x = 0, sum_y = 0, length = 0;

    for (int i = 0; i < line->count; i++) {
        point *p = &line->points[i];
        const float y = p->y * height, x = p->x * width - slant * y;

        *p = (point){cosine * x - sine * y, sine * x + cosine * y};
        if (line->is_joined[i]) {
            const float step_x = p->x - p[-1].x, step_y = p->y - p[-1].y;
            const float step = sqrtf(step_x * step_x + step_y * step_y);

            sum_x += step * (p->x + p[-1].x) / 2;
            sum_y += step * (p->y + p[-1].y) / 2;
            length += step;
        }
    }
    const float to_x = (COLUMNS - 1) / 2.0f + hand.shift * draw_normal(random) - sum_x / (length + 1e-6f);
    const float to_y = (ROWS - 1) / 2.0f + hand.shift * draw_normal(random) - sum_y / (length + 1e-6f);
    for (int i = 0; i < line->count; i++) {
        line->points[i].x += to_x;
        line->points[i].y += to_y;
    }
}

/* ---- ink ---- */

typedef struct pen {
    float radius, radius_change; /* radius in the middle of the line, and its change from the beginning to the end */
    float edge;                  /* width over which ink fades */
    float ink;                   /* 0..1 */
} pen;

static pen take_pen(bgi_random *random)
{
    pen p;

    p.radius = draw_between(random, hand.radius_low, hand.radius_high);
    p.radius_change = p.radius * hand.pressure * draw_normal(random);
    p.edge = draw_between(random, hand.edge_low, hand.edge_high);
    p.ink = draw_between(random, hand.ink_low, 1.0f);
    return p;
}

static int clamp(float value, int limit)
{
    return value < 0 ? 0 : value > (float)limit ? limit : (int)value;
}

/* Darkens the pixels near the segment a-b. The ink is full up to the distance radius - edge / 2, and fades linearly to
 * nothing at radius + edge / 2. */
static void ink_segment(float picture[ROWS][COLUMNS], point a, point b, float radius, const pen *p)
{
    const float reach = radius + p->edge / 2, per_edge = 1 / p->edge;
    const float dx = b.x - a.x, dy = b.y - a.y, length_squared = dx * dx + dy * dy;
    const float per_length = length_squared > 1e-12f ? 1 / length_squared : 0;
    const int left = clamp((a.x < b.x ? a.x : b.x) - reach, COLUMNS - 1);
    const int right = clamp((a.x < b.x ? b.x : a.x) + reach + 1, COLUMNS - 1);
    const int top = clamp((a.y < b.y ? a.y : b.y) - reach, ROWS - 1);
    const int bottom = clamp((a.y < b.y ? b.y : a.y) + reach + 1, ROWS - 1);

    for (int row = top; row <= bottom; row++)
        for (int column = left; column <= right; column++) {
            const float px = (float)column - a.x, py = (float)row - a.y;
            float along = (px * dx + py * dy) * per_length;

            along = along < 0 ? 0 : along > 1 ? 1 : along;
            const float off_x = px - along * dx, off_y = py - along * dy;
            const float distance = sqrtf(off_x * off_x + off_y * off_y);
            float dark = (reach - distance) * per_edge;

            dark = dark > 1 ? 1 : dark;
            if (dark > picture[row][column])
                picture[row][column] = dark;
        }
}

static void ink_line(float picture[ROWS][COLUMNS], const pen_line *line, const pen *p)
{
    for (int i = 1; i < line->count; i++) {
        const float radius = p->radius + p->radius_change * ((float)i / (float)line->count - 0.5f);

        if (line->is_joined[i])
            ink_segment(picture, line->points[i - 1], line->points[i], radius < 0.45f ? 0.45f : radius, p);
    }
}

/* Draws a round spot with a soft edge: ink, or a gap if `strength` is negative. */
static void spot(float picture[ROWS][COLUMNS], point center, float radius, float strength)
{
    const int left = clamp(center.x - radius, COLUMNS - 1), right = clamp(center.x + radius + 1, COLUMNS - 1);
    const int top = clamp(center.y - radius, ROWS - 1), bottom = clamp(center.y + radius + 1, ROWS - 1);

    for (int row = top; row <= bottom; row++)
        for (int column = left; column <= right; column++) {
            const float dx = (float)column - center.x, dy = (float)row - center.y;
            const float nearness = 1 - (dx * dx + dy * dy) / (radius * radius);

            if (nearness > 0) {
                const float dark = picture[row][column] + strength * nearness;
                picture[row][column] = dark < 0 ? 0 : dark > 1 ? 1 : dark;
            }
        }
}

static void add_flaws(bgi_random *random, float picture[ROWS][COLUMNS], const pen_line *line)
{
    if (bgi_random_uniform(random) < hand.fleck_chance) {
        const uint32_t count = 1 + bgi_random_below(random, 3);

        for (uint32_t i = 0; i < count; i++) {
            const float x = draw_between(random, 3, COLUMNS - 4), y = draw_between(random, 3, ROWS - 4);
            const float radius = draw_between(random, 1.0f, 1.9f);
            spot(picture, (point){x, y}, radius, draw_between(random, 0.4f, 1.0f));
        }
    }
    if (bgi_random_uniform(random) < hand.gap_chance) {
        const point where = line->points[bgi_random_below(random, (uint32_t)line->count)];
        const float radius = draw_between(random, 2.0f, 4.0f);
        spot(picture, where, radius, -draw_between(random, 0.6f, 1.5f));
    }
}

static void draw_digit(uint64_t seed, uint64_t index, uint8_t *image, uint8_t *label)
{
    bgi_random random = bgi_random_make(seed, index);
    const uint32_t digit = bgi_random_below(&random, BG_DIGITS_CLASSES);
    const bgi_digit_style *style = pick_style(&random, digit);
    float picture[ROWS][COLUMNS] = {{0}};
    pen_line line;
    pen p;

    trace_strokes(&random, style, &line);
    bend(&random, &line);
    place(&random, style, &line);
    p = take_pen(&random);
    ink_line(picture, &line, &p);
    add_flaws(&random, picture, &line);
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            image[row * COLUMNS + column] = (uint8_t)(255.0f * p.ink * picture[row][column] + 0.5f);
    *label = (uint8_t)digit;
}

/* ---- entries ---- */

void bg_digits_generate(const bg_digits_options *options, uint8_t *images, uint8_t *labels)
{
    const uint64_t seed = bgi_random_domain(options->seed, BGI_RANDOM_DIGITS);

    for (uint64_t i = 0; i < options->count; i++)
        draw_digit(seed, options->first_index + i, images + i * (ROWS * COLUMNS), labels + i);
}

bg_status bg_digits_create(const bg_digits_options *options, bg_image_set *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_digits_options", NULL, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    enum { SOURCE_BYTES = 64 };
    bg_image_set set = {.class_count = BG_DIGITS_CLASSES};
    bg_type images, labels;
    bg_status status;

    if (options->count == 0 || options->count > INT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "generated digits: count is %" PRIu64 " but must be 1 to %d",
                            options->count, INT32_MAX);
    images = bg_tensor3(BG_UINT8, (int64_t)options->count, ROWS, COLUMNS);
    labels = bg_vector(BG_UINT8, (int64_t)options->count);
    BGI_TRY_CLEANUP(bg_array_init(&set.images, &images, error));
    BGI_TRY_CLEANUP(bg_array_init(&set.labels, &labels, error));
    set.source = malloc(SOURCE_BYTES);
    if (set.source == NULL)
        BGI_TRY_CLEANUP(bgi_error_memory(error, "a text", SOURCE_BYTES));
    snprintf(set.source, SOURCE_BYTES, "generated digits, seed %" PRIu64, options->seed);
    bg_digits_generate(options, set.images.data, set.labels.data);
    *out = set;
    return BG_OK;

cleanup:
    bg_image_set_clear(&set);
    return status;
}

void bg_image_set_clear(bg_image_set *set)
{
    bg_array_clear(&set->images);
    bg_array_clear(&set->labels);
    free(set->source);
    memset(set, 0, sizeof *set);
}
