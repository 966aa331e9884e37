/*
 * draw.c: draws a simulated schedule as SVG. It knows times and actions, but no order and no strategy.
 *
 *     title
 *     [] forward  [] backward  ...
 *     device 0 |[0][1][2]      [0][3]...
 *     device 1 |   [0][1][0]...
 *              0    2    4    6
 *
 * Numbers are printed from integers, because the caller's locale may have a comma as decimal point.
 */
#include "schedule/schedule.h"

#include "core/error.h"
#include "core/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LEFT = 84,
    RIGHT = 16,
    ROW_HEIGHT = 26,
    ROW_STRIDE = 34,
    NARROWEST = 640,
    WIDEST = 1600,
    LARGEST_WIDTH = 100000,
    TITLE_HEIGHT = 26,
    LEGEND_HEIGHT = 30,
    AXIS_HEIGHT = 38,
    BOX_WIDTH = 22,  /* width of the shortest box */
    DIGIT_WIDTH = 7, /* width of digits in boxes */
    TICK_DISTANCE = 80,
    SHADE_COUNT = 4
};

static const struct {
    bg_action_kind kind;
    const char *letter, *name;
    const char *shades[SHADE_COUNT]; /* dark enough for white numbers and light enough for a dark background */
} kinds[] = {
    {BG_ACTION_FORWARD, "F", "forward", {"#2f6fc4", "#4a86d4", "#1f5299", "#6a8fc0"}},
    {BG_ACTION_RECOMPUTE, "R", "recomputed forward", {"#c2661c", "#d57f3a", "#9c4f12", "#b98a62"}},
    {BG_ACTION_BACKWARD, "B", "backward", {"#23834f", "#3c9a66", "#15633a", "#5f9477"}},
    {BG_ACTION_WEIGHTS, "W", "weight gradients", {"#6f7680", "#868d96", "#565c65", "#8b8378"}},
    {BG_ACTION_UPDATE, "U", "update", {"#7c55b0", "#7c55b0", "#7c55b0", "#7c55b0"}},
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

typedef struct picture {
    const bg_schedule_problem *problem;
    const bg_schedule_timing *timing;
    const bg_schedule_svg_options *options;
    uint32_t *stage_ranks; /* by stage: its rank among the stages of its device */
    bool names_stages;
    double scale; /* pixels for each unit of time */
    uint32_t width, top;
    bgi_string text;
} picture;

/* ---- numbers and text ---- */

enum { NUMBER_BYTES = 32 };

/* Writes a length with one decimal, which is precise enough for pixels. */
static const char *pixels(double value, char text[NUMBER_BYTES])
{
    const int64_t tenths = (int64_t)llround(value * 10.0);

    snprintf(text, NUMBER_BYTES, "%" PRId64 ".%" PRId64, tenths / 10, tenths % 10);
    return text;
}

/* Writes at least three digits; whole numbers are written in full. */
static const char *quantity(double value, char text[NUMBER_BYTES])
{
    int places = 0;
    int64_t scaled, power = 1;

    while (places < 9 && value * (double)power < 100.0 && value * (double)power != floor(value * (double)power)) {
        power *= 10;
        places++;
    }
    if (value >= 9e15) {
        snprintf(text, NUMBER_BYTES, "%.0f", value);
        return text;
    }
    scaled = (int64_t)llround(value * (double)power);
    if (places == 0)
        snprintf(text, NUMBER_BYTES, "%" PRId64, scaled);
    else
        snprintf(text, NUMBER_BYTES, "%" PRId64 ".%0*" PRId64, scaled / power, places, scaled % power);
    return text;
}

/* Adds text with &, < and > escaped for XML. XML does not allow control characters, escaped or not; bytes above 127 are
 * the caller's UTF-8. */
static void add_escaped(bgi_string *text, const char *words)
{
    for (; *words != '\0'; words++) {
        const unsigned char c = (unsigned char)*words;
        if (c == '&')
            bgi_string_add(text, "&amp;");
        else if (c == '<')
            bgi_string_add(text, "&lt;");
        else if (c == '>')
            bgi_string_add(text, "&gt;");
        else
            bgi_string_add(text, "%c", c < 0x20 || c == 0x7f ? ' ' : c);
    }
}

/* ---- places of actions ---- */

static int find_kind(bg_action_kind kind)
{
    for (int i = 0; i < KIND_COUNT; i++)
        if (kinds[i].kind == kind)
            return i;
    return -1;
}

static double place_x(const picture *p, double time)
{
    return LEFT + time * p->scale;
}

static double place_y(const picture *p, uint32_t device)
{
    return p->top + (double)device * ROW_STRIDE;
}

static bg_status check(const bg_schedule_problem *problem, const bg_schedule_timing *timing, bg_error *error)
{
    BGI_TRY(bgi_schedule_problem_check(problem, error));
    if (timing == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "there are no times to draw; bg_schedule_simulate makes them");
    if (!isfinite(timing->makespan) || timing->makespan < 0)
        return bg_error_set(error, BG_ERROR_INVALID, "the makespan is %g; it must be finite and at least 0",
                            timing->makespan);
    for (size_t i = 0; i < timing->event_count; i++) {
        const struct bg_schedule_event *event = &timing->events[i];
        if (event->device >= problem->device_count || event->action.stage >= problem->stage_count ||
            !(event->start >= 0 && event->start <= event->end && event->end <= timing->makespan))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "event %zu (stage %" PRIu32 " on device %" PRIu32
                                ", %g to %g) is not possible: the problem has %" PRIu32 " stages and %" PRIu32
                                " devices, and an event must begin at 0 or later and end between its beginning and %g",
                                i, event->action.stage, event->device, event->start, event->end, problem->stage_count,
                                problem->device_count, timing->makespan);
    }
    return BG_OK;
}

static bg_status rank_stages(picture *p, bg_error *error)
{
    uint32_t *counts = calloc(p->problem->device_count, sizeof *counts);

    p->stage_ranks = calloc(p->problem->stage_count, sizeof *p->stage_ranks);
    if (counts == NULL || p->stage_ranks == NULL) {
        free(counts);
        return bgi_error_memory(error, "the stages of a drawing", p->problem->stage_count * sizeof *p->stage_ranks);
    }
    for (uint32_t stage = 0; stage < p->problem->stage_count; stage++) {
        p->stage_ranks[stage] = counts[p->problem->stage_devices[stage]]++;
        p->names_stages |= p->stage_ranks[stage] > 0;
    }
    free(counts);
    return BG_OK;
}

static void choose_scale(picture *p)
{
    const double makespan = p->timing->makespan > 0 ? p->timing->makespan : 1.0;
    double shortest = makespan, width = p->options->width;

    for (size_t i = 0; i < p->timing->event_count; i++) {
        const struct bg_schedule_event *event = &p->timing->events[i];
        const double length = event->end - event->start;
        if (find_kind(event->action.kind) >= 0 && length > 0 && length < shortest)
            shortest = length;
    }
    if (p->options->width == 0) {
        width = LEFT + RIGHT + makespan / shortest * BOX_WIDTH * (p->names_stages ? 1.5 : 1.0);
        width = fmin(fmax(width, NARROWEST), WIDEST);
    }
    p->width = (uint32_t)fmax(width, LEFT + RIGHT + 1);
    p->scale = (p->width - LEFT - RIGHT) / makespan;
}

/* ---- parts of the drawing ---- */

static void draw_head(picture *p)
{
    const uint32_t height = p->top + p->problem->device_count * ROW_STRIDE + AXIS_HEIGHT;

    bgi_string_add(&p->text,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%" PRIu32 "\" height=\"%" PRIu32
                   "\" viewBox=\"0 0 %" PRIu32 " %" PRIu32
                   "\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n",
                   p->width, height, p->width, height);
    if (p->options->title != NULL) {
        bgi_string_add(&p->text, "<title>");
        add_escaped(&p->text, p->options->title);
        bgi_string_add(&p->text, "</title>\n");
    }
    bgi_string_add(&p->text,
                   "<style>\n.ground { fill: #ffffff } .row { fill: #f0f1f3 } .word { fill: #24292f } "
                   ".tick { fill: #5b6370 }\n.line { stroke: #d0d4da } .message { stroke: #5b6370; fill: none } "
                   ".number { fill: #ffffff; font-size: 11px; text-anchor: middle }\n"
                   "@media (prefers-color-scheme: dark) {\n.ground { fill: #16191d } .row { fill: #23272d } "
                   ".word { fill: #e6e9ed } .tick { fill: #a3abb6 }\n.line { stroke: #3a4049 } "
                   ".message { stroke: #a3abb6 }\n}\n");
    for (int i = 0; i < KIND_COUNT; i++)
        for (int shade = 0; shade < SHADE_COUNT; shade++)
            bgi_string_add(&p->text, ".%s%d { fill: %s }%s", kinds[i].letter, shade, kinds[i].shades[shade],
                           shade + 1 < SHADE_COUNT ? " " : "\n");
    bgi_string_add(&p->text, "</style>\n");
    if (p->options->shows_messages)
        bgi_string_add(&p->text, "<marker id=\"end\" viewBox=\"0 0 6 6\" refX=\"5\" refY=\"3\" markerWidth=\"5\" "
                                 "markerHeight=\"5\" orient=\"auto\"><path class=\"message\" d=\"M0 0 L5 3 L0 6\"/>"
                                 "</marker>\n");
    bgi_string_add(&p->text, "<rect class=\"ground\" width=\"%" PRIu32 "\" height=\"%" PRIu32 "\"/>\n", p->width,
                   height);
    if (p->options->title != NULL) {
        bgi_string_add(&p->text, "<text class=\"word\" x=\"12\" y=\"20\" font-size=\"15\" font-weight=\"bold\">");
        add_escaped(&p->text, p->options->title);
        bgi_string_add(&p->text, "</text>\n");
    }
}

static void draw_legend(picture *p)
{
    const uint32_t y = p->top - LEGEND_HEIGHT + 4;
    bool is_there[KIND_COUNT] = {false};
    uint32_t x = LEFT;

    for (size_t i = 0; i < p->timing->event_count; i++) {
        const struct bg_schedule_event *event = &p->timing->events[i];
        const int kind = find_kind(event->action.kind);
        if (kind >= 0 && event->end > event->start)
            is_there[kind] = true;
    }
    for (int i = 0; i < KIND_COUNT; i++) {
        if (!is_there[i])
            continue;
        bgi_string_add(&p->text,
                       "<rect class=\"%s0\" x=\"%" PRIu32 "\" y=\"%" PRIu32 "\" width=\"14\" height=\"14\" rx=\"2\"/>"
                       "<text class=\"word\" x=\"%" PRIu32 "\" y=\"%" PRIu32 "\">%s</text>\n",
                       kinds[i].letter, x, y, x + 20, y + 11, kinds[i].name);
        x += 140;
    }
    bgi_string_add(&p->text, "<text class=\"tick\" x=\"%" PRIu32 "\" y=\"%" PRIu32 "\">%s</text>\n", x, y + 11,
                   p->names_stages ? "stage.micro-batch" : "number: micro-batch");
}

static void draw_rows(picture *p)
{
    char y[NUMBER_BYTES], text_y[NUMBER_BYTES];

    for (uint32_t device = 0; device < p->problem->device_count && !p->text.failed; device++)
        bgi_string_add(&p->text,
                       "<rect class=\"row\" x=\"%d\" y=\"%s\" width=\"%" PRIu32 "\" height=\"%d\"/>"
                       "<text class=\"word\" x=\"12\" y=\"%s\">device %" PRIu32 "</text>\n",
                       LEFT, pixels(place_y(p, device), y), p->width - LEFT - RIGHT, ROW_HEIGHT,
                       pixels(place_y(p, device) + 17, text_y), device);
}

/* Draws ticks at 1, 2 or 5 times a power of ten, at least TICK_DISTANCE pixels apart. */
static void draw_axis(picture *p)
{
    const double wanted = TICK_DISTANCE / p->scale, power = pow(10.0, floor(log10(wanted)));
    const double tick = wanted / power < 2.0 ? 2.0 * power : wanted / power < 5.0 ? 5.0 * power : 10.0 * power;
    const double bottom = place_y(p, p->problem->device_count);
    char x[NUMBER_BYTES], top[NUMBER_BYTES], end[NUMBER_BYTES], y[NUMBER_BYTES], value[NUMBER_BYTES];

    for (uint32_t i = 0; i * tick <= p->timing->makespan && !p->text.failed; i++)
        bgi_string_add(&p->text,
                       "<line class=\"line\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>"
                       "<text class=\"tick\" x=\"%s\" y=\"%s\" text-anchor=\"middle\">%s</text>\n",
                       pixels(place_x(p, i * tick), x), pixels(p->top - 4, top), x, pixels(bottom, end), x,
                       pixels(bottom + 13, y), quantity(i * tick, value));
    bgi_string_add(&p->text, "<text class=\"tick\" x=\"%d\" y=\"%s\">makespan %s", LEFT, pixels(bottom + 30, y),
                   quantity(p->timing->makespan, value));
    bgi_string_add(&p->text, ", idle %s %%</text>\n", pixels(100.0 * p->timing->bubble, value));
}

static void draw_box(picture *p, const struct bg_schedule_event *event)
{
    const int kind = find_kind(event->action.kind);
    const uint32_t shade = p->names_stages ? p->stage_ranks[event->action.stage] : event->action.micro_batch % 2;
    const double width = (event->end - event->start) * p->scale;
    char x[NUMBER_BYTES], y[NUMBER_BYTES], w[NUMBER_BYTES], label[NUMBER_BYTES];
    int length;

    if (kind < 0 || event->end <= event->start)
        return;
    bgi_string_add(&p->text, "<rect class=\"%s%" PRIu32 "\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%d\" rx=\"2\"/>",
                   kinds[kind].letter, shade % SHADE_COUNT, pixels(place_x(p, event->start) + 0.4, x),
                   pixels(place_y(p, event->device), y), pixels(fmax(width - 0.8, 0.4), w), ROW_HEIGHT);
    if (event->action.kind == BG_ACTION_UPDATE)
        length = snprintf(label, sizeof label, "U");
    else if (p->names_stages)
        length = snprintf(label, sizeof label, "%" PRIu32 ".%" PRIu32, event->action.stage, event->action.micro_batch);
    else
        length = snprintf(label, sizeof label, "%" PRIu32, event->action.micro_batch);
    if (length * DIGIT_WIDTH + 3 <= width)
        bgi_string_add(&p->text, "<text class=\"number\" x=\"%s\" y=\"%s\">%s</text>",
                       pixels(place_x(p, (event->start + event->end) / 2.0), x),
                       pixels(place_y(p, event->device) + 17, y), label);
    bgi_string_add(&p->text, "\n");
}

/* Draws a line from the sending to the receiving event of each message, which are matched by (edge, micro-batch). */
static bg_status draw_messages(picture *p, bg_error *error)
{
    const bg_schedule_timing *timing = p->timing;
    const size_t micro_batches = p->problem->micro_batch_count;
    const size_t slots = p->problem->edge_count * micro_batches;
    const struct bg_schedule_event **receives = calloc(slots == 0 ? 1 : slots, sizeof(struct bg_schedule_event *));
    char x1[NUMBER_BYTES], y1[NUMBER_BYTES], x2[NUMBER_BYTES], y2[NUMBER_BYTES];

    if (receives == NULL)
        return bgi_error_memory(error, "the messages of a drawing", slots * sizeof *receives);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < timing->event_count; i++) {
            const struct bg_schedule_event *event = &timing->events[i], *receive;
            const size_t slot = event->action.index * micro_batches + event->action.micro_batch;
            double from, to;
            if (event->action.kind != (pass == 0 ? BG_ACTION_RECEIVE : BG_ACTION_SEND) || slot >= slots)
                continue;
            if (pass == 0)
                receives[slot] = event;
            receive = receives[slot];
            if (pass == 0 || receive == NULL)
                continue;
            from = place_y(p, event->device) + (receive->device > event->device ? ROW_HEIGHT : 0);
            to = place_y(p, receive->device) + (receive->device > event->device ? 0 : ROW_HEIGHT);
            bgi_string_add(
                &p->text,
                "<path class=\"message\" stroke-width=\"0.8\" marker-end=\"url(#end)\" d=\"M%s %s L%s %s\"/>\n",
                pixels(place_x(p, event->start), x1), pixels(from, y1), pixels(place_x(p, receive->end), x2),
                pixels(to, y2));
        }
    free(receives);
    return BG_OK;
}

bg_status bg_schedule_draw_svg(const bg_schedule_problem *problem, const bg_schedule_timing *timing,
                               const bg_schedule_svg_options *options, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(problem, "problem", __func__, error));
    BGI_TRY(bgi_require(timing, "timing", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));
    if (options != NULL)
        BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_schedule_svg_options", NULL, error));

    static const bg_schedule_svg_options defaults = {0};
    picture p = {.problem = problem, .timing = timing, .options = options != NULL ? options : &defaults};
    bg_status status = BG_OK;

    BGI_TRY(check(problem, timing, error));
    if (p.options->width > LARGEST_WIDTH)
        return bg_error_set(error, BG_ERROR_INVALID, "the width is %" PRIu32 " pixels; it must be at most %d",
                            p.options->width, LARGEST_WIDTH);
    BGI_TRY_CLEANUP(rank_stages(&p, error));
    choose_scale(&p);
    p.top = (p.options->title != NULL ? TITLE_HEIGHT : 0) + 8 + LEGEND_HEIGHT;
    draw_head(&p);
    draw_legend(&p);
    draw_rows(&p);
    draw_axis(&p);
    for (size_t i = 0; i < timing->event_count && !p.text.failed; i++)
        draw_box(&p, &timing->events[i]);
    if (p.options->shows_messages)
        BGI_TRY_CLEANUP(draw_messages(&p, error));
    bgi_string_add(&p.text, "</svg>\n");
    status = bgi_string_finish(&p.text, out_text, error);

cleanup:
    free(p.stage_ranks);
    bgi_string_clear(&p.text);
    return status;
}
