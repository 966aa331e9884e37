/*
 * rate.c: learning rate schedules. Each field is a row of a table, which parsing, printing and range checks use.
 */
#include <brigade/rate.h>

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"

#define PI 3.14159265358979323846

enum {
    LINEAR = 1 << BG_RATE_LINEAR,
    COSINE = 1 << BG_RATE_COSINE,
    POLYNOMIAL = 1 << BG_RATE_POLYNOMIAL,
    ONE_CYCLE = 1 << BG_RATE_ONE_CYCLE,
    STEP = 1 << BG_RATE_STEP,
    PLATEAU = 1 << BG_RATE_PLATEAU,
    ALL = (1 << BG_RATE_KIND_COUNT) - 1,
    ENDING = LINEAR | COSINE | POLYNOMIAL | ONE_CYCLE
};

static const char *const kinds[BG_RATE_KIND_COUNT] = {"constant",  "linear", "cosine",       "polynomial",
                                                      "one_cycle", "step",   "inverse_root", "plateau"};

typedef struct rate_field {
    const char *name;
    size_t offset;
    int kinds;
    bool is_count;
    double least;
} rate_field;

#define FIELD(name, kinds, is_count, least)                                                                            \
    {                                                                                                                  \
#name, offsetof(bg_rate_schedule, name), kinds, is_count, least                                                \
    }
static const rate_field fields[] = {
    FIELD(warmup, ALL, true, 0),        FIELD(start, ALL, false, 0),
    FIELD(steps, ENDING, true, 1),      FIELD(final, ENDING | PLATEAU, false, 0),
    FIELD(power, POLYNOMIAL, false, 0), FIELD(factor, STEP | PLATEAU, false, 0),
    FIELD(period, STEP, true, 1),       FIELD(patience, PLATEAU, true, 0),
    FIELD(cooldown, PLATEAU, true, 0),  FIELD(threshold, PLATEAU, false, 0),
};
#undef FIELD
enum { FIELDS = sizeof fields / sizeof *fields };

static double get_field(const rate_field *field, const bg_rate_schedule *schedule)
{
    const char *at = (const char *)schedule + field->offset;

    return field->is_count ? (double)*(const uint64_t *)(const void *)at : *(const double *)(const void *)at;
}

static void set_field(const rate_field *field, bg_rate_schedule *schedule, double value)
{
    char *at = (char *)schedule + field->offset;

    if (field->is_count)
        *(uint64_t *)(void *)at = (uint64_t)value;
    else
        *(double *)(void *)at = value;
}

void bg_rate_init(bg_rate_schedule *schedule, size_t struct_bytes, bg_rate_kind kind, double rate, uint64_t steps)
{
    const bool cycles = kind == BG_RATE_ONE_CYCLE;
    const bg_rate_schedule made = {.struct_bytes = struct_bytes,
                                   .kind = kind,
                                   .rate = rate,
                                   .start = cycles ? 1.0 / 25.0 : 0.0,
                                   .steps = steps,
                                   .final = cycles ? 1.0 / 250000.0 : 0.0,
                                   .power = 1.0,
                                   .factor = 0.1,
                                   .period = 1,
                                   .patience = 10,
                                   .threshold = 1e-4,
                                   .scale = 1.0,
                                   .best = INFINITY};

    bgi_struct_fill(schedule, struct_bytes, &made, sizeof made);
}

/* ---- rates ---- */

/* Interpolates by a cosine from `from` to `to`, so that the rate changes slowly at both ends. */
static double bend(double from, double to, double share)
{
    return to + (from - to) * (1.0 + cos(PI * share)) / 2.0;
}

static double rise(const bg_rate_schedule *s, uint64_t step)
{
    const double share = (double)step / (double)s->warmup;

    return s->kind == BG_RATE_ONE_CYCLE ? bend(s->start, 1.0, share) : s->start + (1.0 - s->start) * share;
}

/* Returns the fraction of updates done between the warm-up and the end. */
static double find_share(const bg_rate_schedule *s, uint64_t step)
{
    const uint64_t end = s->kind == BG_RATE_ONE_CYCLE ? s->steps - 1 : s->steps;

    return step >= end ? 1.0 : (double)(step - s->warmup) / (double)(end - s->warmup);
}

double bg_rate_at(void *schedule, uint64_t step)
{
    const bg_rate_schedule *s = schedule;
    const uint64_t least = s->warmup > 0 ? s->warmup : 1;
    double share;

    if (step < s->warmup)
        return s->rate * s->scale * rise(s, step);
    switch (s->kind) {
    case BG_RATE_LINEAR:
        return s->rate * (1.0 + (s->final - 1.0) * find_share(s, step));
    case BG_RATE_COSINE:
    case BG_RATE_ONE_CYCLE:
        return s->rate * bend(1.0, s->final, find_share(s, step));
    case BG_RATE_POLYNOMIAL:
        share = 1.0 - find_share(s, step);
        return s->rate * (s->final + (1.0 - s->final) * (share > 0.0 ? pow(share, s->power) : 0.0));
    case BG_RATE_STEP:
        return s->rate * pow(s->factor, (double)((step - s->warmup) / s->period));
    case BG_RATE_INVERSE_ROOT:
        return s->rate * sqrt((double)least / (double)(least + step - s->warmup));
    default:
        return s->rate * s->scale;
    }
}

void bg_rate_report(bg_rate_schedule *s, double value)
{
    const double wanted = isfinite(s->best) ? s->best - s->threshold * fabs(s->best) : s->best;

    if (s->kind != BG_RATE_PLATEAU)
        return;
    if (value < wanted) {
        s->best = value;
        s->bad_reports = 0;
    } else {
        s->bad_reports++;
    }
    if (s->resting > 0) {
        s->resting--;
        s->bad_reports = 0;
    }
    if (s->bad_reports > s->patience) {
        s->scale = fmax(s->scale * s->factor, s->final);
        s->resting = s->cooldown;
        s->bad_reports = 0;
    }
}

/* ---- ranges and text ---- */

bg_status bg_rate_validate(const bg_rate_schedule *s, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(s, "schedule", __func__, error));
    BGI_TRY(bgi_struct_check(s->struct_bytes, sizeof *s, "bg_rate_schedule", "bg_rate_make", error));

    if ((unsigned)s->kind >= BG_RATE_KIND_COUNT)
        return bg_error_set(error, BG_ERROR_INVALID, "learning rate: kind is %d; it must be a bg_rate_kind",
                            (int)s->kind);
    if (!(s->rate >= 0.0 && isfinite(s->rate)))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "learning rate: rate is %g; it must be a finite number of at least 0", s->rate);
    for (int f = 0; f < FIELDS; f++) {
        const double value = get_field(&fields[f], s);

        if ((fields[f].kinds >> s->kind & 1) != 0 && !(value >= fields[f].least && isfinite(value)))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "learning rate: %s of %s is %g; it must be a finite number of at least %g",
                                fields[f].name, kinds[s->kind], value, fields[f].least);
    }
    if ((ENDING >> s->kind & 1) != 0 && s->warmup >= s->steps)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "learning rate: the warm-up has %llu updates but must be shorter than the training, which has %llu",
            (unsigned long long)s->warmup, (unsigned long long)s->steps);
    return BG_OK;
}

static bg_status refuse_kind(const char *text, size_t length, bg_error *error)
{
    char names[128] = "";

    for (int k = 0; k < BG_RATE_KIND_COUNT; k++)
        strcat(strcat(names, k > 0 ? ", " : ""), kinds[k]);
    return bg_error_set(error, BG_ERROR_INVALID, "learning rate: there is no `%.*s`; the schedules are %s",
                        (int)(length < 64 ? length : 64), text, names);
}

static bg_status refuse_field(const char *text, size_t length, bg_rate_kind kind, bg_error *error)
{
    char names[128] = "";

    for (int f = 0; f < FIELDS; f++)
        if ((fields[f].kinds >> kind & 1) != 0)
            strcat(strcat(names, names[0] != '\0' ? ", " : ""), fields[f].name);
    return bg_error_set(error, BG_ERROR_INVALID, "learning rate: %s has no setting `%.*s`; it has %s", kinds[kind],
                        (int)(length < 64 ? length : 64), text, names);
}

/* Reads a field such as "final=0.1". */
static bg_status read_field(const char *text, size_t length, bg_rate_schedule *schedule, bg_error *error)
{
    const char *equals = memchr(text, '=', length);
    const size_t name = equals != NULL ? (size_t)(equals - text) : length;
    char *end = NULL;
    double value;
    int f = 0;

    while (f < FIELDS && !(strlen(fields[f].name) == name && strncmp(fields[f].name, text, name) == 0 &&
                           (fields[f].kinds >> schedule->kind & 1) != 0))
        f++;
    if (f == FIELDS)
        return refuse_field(text, name, schedule->kind, error);
    value = equals != NULL ? bgi_text_real(equals + 1, &end) : 0.0;
    if (equals == NULL || equals + 1 == text + length || end != text + length)
        return bg_error_set(error, BG_ERROR_INVALID, "learning rate: `%.*s` has no number; write name=number",
                            (int)(length < 64 ? length : 64), text);
    if (fields[f].is_count && !(value >= 0.0 && value <= 0x1p53 && value == floor(value)))
        return bg_error_set(error, BG_ERROR_INVALID, "learning rate: `%.*s` must have a whole number of at least 0",
                            (int)(length < 64 ? length : 64), text);
    set_field(&fields[f], schedule, value);
    return BG_OK;
}

bg_status bg_rate_parse(const char *text, double rate, uint64_t steps, bg_rate_schedule *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(text, "text", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    size_t length = strcspn(text, ":");
    int kind = 0;
    bg_rate_schedule schedule;

    while (kind < BG_RATE_KIND_COUNT && !(strlen(kinds[kind]) == length && strncmp(kinds[kind], text, length) == 0))
        kind++;
    if (kind == BG_RATE_KIND_COUNT)
        return refuse_kind(text, length, error);
    schedule = bg_rate_make((bg_rate_kind)kind, rate, steps);
    for (text += length; *text != '\0'; text += length) {
        text++;
        length = strcspn(text, ",");
        BGI_TRY(read_field(text, length, &schedule, error));
    }
    BGI_TRY(bg_rate_validate(&schedule, error));
    *out = schedule;
    return BG_OK;
}
