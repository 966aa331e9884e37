/*
 * schedule_picture.c: draws schedules in letters, optionally colored: forwards blue, backwards green, weight gradients
 * gray, recomputed forwards orange, updates violet, with a shade for each micro-batch.
 *
 *     lockstep   dev0 F0 F1 .  B0        to scale   dev0 F0F1......B0--
 */
#include "cli/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"

enum { SHADE_COUNT = 4, USUAL_COLUMNS = 120, LABEL_BYTES = 40 };

/* Backgrounds of the 256 colors, all dark enough for white letters. */
static const struct {
    char letter;
    bg_action_kind kind;
    int shades[SHADE_COUNT];
} kinds[] = {
    {'F', BG_ACTION_FORWARD, {25, 31, 24, 26}},  {'R', BG_ACTION_RECOMPUTE, {130, 166, 94, 136}},
    {'B', BG_ACTION_BACKWARD, {28, 29, 22, 64}}, {'W', BG_ACTION_WEIGHTS, {240, 242, 238, 244}},
    {'U', BG_ACTION_UPDATE, {54, 54, 54, 54}},
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

bool schedule_wants_color(const schedule_config *config)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");

    if (strcmp(config->color, "auto") != 0)
        return strcmp(config->color, "always") == 0;
    return (no_color == NULL || no_color[0] == '\0') && terminal != NULL && strcmp(terminal, "dumb") != 0 &&
           isatty(STDOUT_FILENO) == 1;
}

static int find_letter(char letter)
{
    for (int i = 0; i < KIND_COUNT; i++)
        if (kinds[i].letter == letter)
            return i;
    return -1;
}

static int find_kind(bg_action_kind kind)
{
    for (int i = 0; i < KIND_COUNT; i++)
        if (kinds[i].kind == kind)
            return i;
    return -1;
}

static void begin_color(int kind, uint32_t micro_batch)
{
    printf("\033[38;5;231;48;5;%dm", kinds[kind].shades[micro_batch % SHADE_COUNT]);
}

static void end_color(void)
{
    fputs("\033[0m", stdout);
}

/* Prints a timetable, with colored cells if `in_color` is true. A cell is a letter and digits ("F3"), followed by
 * ".digits" if stages are named; only cells begin with one of these letters. */
void schedule_print_timetable(const char *timetable, bool in_color)
{
    while (in_color && *timetable != '\0') {
        const int kind = find_letter(*timetable);
        size_t length = kind >= 0 ? 1 + strspn(timetable + 1, "0123456789") : 1;
        const char *number = timetable + 1;
        if (kind < 0) {
            putchar(*timetable++);
            continue;
        }
        if (timetable[length] == '.') {
            number = timetable + length + 1;
            length += 1 + strspn(number, "0123456789");
        }
        begin_color(kind, (uint32_t)strtoul(number, NULL, 10));
        fwrite(timetable, 1, length, stdout);
        end_color();
        timetable += length;
    }
    fputs(timetable, stdout);
}

/* ---- to scale ---- */

typedef struct time_scale {
    double columns_per_time;
    size_t columns;
    bool names_stages;
} time_scale;

static uint64_t find_limit(const schedule_config *config)
{
    const char *text = getenv("COLUMNS");
    const long columns = text != NULL ? strtol(text, NULL, 10) : 0;

    if (config->columns > 0)
        return config->columns;
    return columns >= 20 && columns <= 10000 ? (uint64_t)columns : USUAL_COLUMNS;
}

static int format_label(const time_scale *scale, const bg_action *action, char letter, char label[LABEL_BYTES])
{
    if (action->kind == BG_ACTION_UPDATE)
        return snprintf(label, LABEL_BYTES, "U");
    if (scale->names_stages)
        return snprintf(label, LABEL_BYTES, "%c%" PRIu32 ".%" PRIu32, letter, action->stage, action->micro_batch);
    return snprintf(label, LABEL_BYTES, "%c%" PRIu32, letter, action->micro_batch);
}

static bool device_has_several(const bg_schedule_problem *problem)
{
    for (uint32_t a = 0; a < problem->stage_count; a++)
        for (uint32_t b = a + 1; b < problem->stage_count; b++)
            if (problem->stage_devices[a] == problem->stage_devices[b])
                return true;
    return false;
}

/* Chooses the scale at which every label fits its box, or a smaller scale at which the diagram has `limit` columns. */
static time_scale choose_scale(const bg_schedule_problem *problem, const bg_schedule_timing *timing, uint64_t limit)
{
    time_scale out = {.names_stages = device_has_several(problem)};
    double widest = 0.0;
    char label[LABEL_BYTES];

    for (size_t i = 0; i < timing->event_count; i++) {
        const struct bg_schedule_event *event = &timing->events[i];
        const int kind = find_kind(event->action.kind);
        const double length = event->end - event->start;
        if (kind >= 0 && length > 0)
            widest = fmax(widest, format_label(&out, &event->action, kinds[kind].letter, label) / length);
    }
    out.columns_per_time = timing->makespan > 0 ? fmin(widest, (double)limit / timing->makespan) : 0.0;
    out.columns = (size_t)ceil(timing->makespan * out.columns_per_time - 1e-9);
    return out;
}

typedef struct column {
    char letter; /* 0: idle */
    int kind;
    uint32_t micro_batch;
    bool begins;
} column;

static void fill(const time_scale *scale, const struct bg_schedule_event *event, column *row)
{
    const int kind = find_kind(event->action.kind);
    const size_t begin = (size_t)(event->start * scale->columns_per_time + 1e-9);
    const size_t end = (size_t)(event->end * scale->columns_per_time + 1e-9);
    char label[LABEL_BYTES];
    int length;

    if (kind < 0 || event->end <= event->start)
        return;
    length = format_label(scale, &event->action, kinds[kind].letter, label);
    for (size_t at = begin; at < end && at < scale->columns; at++) {
        const size_t place = at - begin;
        const bool fits = (size_t)length <= end - begin;
        row[at] = (column){.letter = fits && place < (size_t)length ? label[place]
                                     : place == 0                   ? label[0]
                                                                    : '-',
                           .kind = kind,
                           .micro_batch = event->action.micro_batch,
                           .begins = place == 0};
    }
}

static void print_row(const time_scale *scale, const column *row, bool in_color)
{
    bool is_colored = false;

    for (size_t at = 0; at < scale->columns; at++) {
        if (in_color && is_colored && (row[at].letter == '\0' || row[at].begins)) {
            end_color();
            is_colored = false;
        }
        if (in_color && row[at].letter != '\0' && !is_colored) {
            begin_color(row[at].kind, row[at].micro_batch);
            is_colored = true;
        }
        putchar(row[at].letter == '\0' ? '.' : row[at].letter == '-' && in_color ? ' ' : row[at].letter);
    }
    if (is_colored)
        end_color();
    putchar('\n');
}

bg_status schedule_print_timed(const schedule_config *config, const bg_schedule_problem *problem,
                               const bg_schedule_timing *timing, bool in_color, bg_error *error)
{
    char label[LABEL_BYTES];
    const int label_width = snprintf(label, sizeof label, "dev%" PRIu32 " ", problem->device_count - 1);
    const uint64_t limit = find_limit(config);
    const time_scale scale = choose_scale(problem, timing, limit - (uint64_t)label_width);
    column *rows = calloc(scale.columns * problem->device_count + 1, sizeof *rows);

    if (rows == NULL)
        return bgi_error_memory(error, "a timed picture", scale.columns * problem->device_count * sizeof *rows);
    for (size_t i = 0; i < timing->event_count; i++)
        fill(&scale, &timing->events[i], &rows[timing->events[i].device * scale.columns]);
    for (uint32_t device = 0; device < problem->device_count; device++) {
        snprintf(label, sizeof label, "dev%" PRIu32, device);
        printf("%-*s", label_width, label);
        print_row(&scale, &rows[device * scale.columns], in_color);
    }
    free(rows);
    return BG_OK;
}
