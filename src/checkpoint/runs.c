/*
 * runs.c: combines regular ranges of elements into runs. A tensor that is cut along its last dimension has one run in
 * each part, whatever its number of rows.
 *
 *     rows of 6, cut in two:   a a a b b b      part 0: 0+3*4/6
 *                              a a a b b b      part 1: 3+3*4/6
 *                              ...
 */
#include "checkpoint/runs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"

/* Limits the number of ranges into which `flatten` splits runs. */
enum { MOST_STRETCHES = 1 << 20 };

void bgi_runs_clear(bgi_runs *runs)
{
    free(runs->items);
    memset(runs, 0, sizeof *runs);
}

/* Extends the last run if the range continues it; otherwise returns false. */
static bool extend(bgi_run *last, uint32_t part, int64_t first, int64_t length)
{
    if (last->part != part || first <= last->first)
        return false;
    if (last->count == 1 && first == last->first + last->length) {
        last->length += length;
        return true;
    }
    if (length != last->length || (last->count > 1 && first != last->first + last->count * last->stride))
        return false;
    last->stride = last->count == 1 ? first - last->first : last->stride;
    last->count++;
    return true;
}

static void append(bgi_runs *runs, const bgi_run *run)
{
    if (runs->failed ||
        !bgi_array_reserve((void **)&runs->items, &runs->capacity, runs->count + 1, sizeof *runs->items)) {
        runs->failed = true;
        return;
    }
    runs->items[runs->count++] = *run;
}

void bgi_runs_add(bgi_runs *runs, uint32_t part, int64_t first, int64_t length)
{
    if (runs->count > 0 && extend(&runs->items[runs->count - 1], part, first, length))
        return;
    append(runs, &(bgi_run){.part = part, .first = first, .length = length, .count = 1});
}

int64_t bgi_runs_elements(const bgi_runs *runs, uint32_t part)
{
    int64_t elements = 0;

    for (size_t i = 0; i < runs->count; i++)
        if (runs->items[i].part == part)
            elements += runs->items[i].length * runs->items[i].count;
    return elements;
}

void bgi_runs_print(const bg_type *type, const bgi_runs *runs, bgi_string *out)
{
    char text[BG_TYPE_TEXT_BYTES];

    out->failed = out->failed || runs->failed;
    bgi_string_add(out, "%s", bg_type_text(type, text));
    for (size_t i = 0; i < runs->count; i++) {
        const bgi_run *run = &runs->items[i];
        bgi_string_add(out, " %" PRIu32 ":%" PRId64 "+%" PRId64, run->part, run->first, run->length);
        if (run->count > 1)
            bgi_string_add(out, "*%" PRId64 "/%" PRId64, run->count, run->stride);
    }
}

/* ---- reading ---- */

/* Reads a decimal number below 2^63, and moves *text behind its digits. */
static bool take_number(const char **text, int64_t *out)
{
    const char *at = *text;
    int64_t value = 0;

    if (*at < '0' || *at > '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        const int64_t digit = *at - '0';
        if (value > (INT64_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *text = at;
    *out = value;
    return true;
}

static bool take_character(const char **text, char c)
{
    const bool is_there = **text == c;

    *text += is_there;
    return is_there;
}

static bool take_type(const char **text, bg_type *out)
{
    static const bg_dtype dtypes[] = {BG_FLOAT32, BG_BFLOAT16, BG_FLOAT64, BG_INT32, BG_UINT8, BG_FLOAT16, BG_INT64};
    const size_t length = strcspn(*text, "[");

    *out = (bg_type){0};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strlen(bg_dtype_name(dtypes[i])) == length && strncmp(*text, bg_dtype_name(dtypes[i]), length) == 0)
            out->dtype = dtypes[i];
    *text += length;
    if (out->dtype == BG_DTYPE_NONE || !take_character(text, '['))
        return false;
    while (out->rank < BG_MAX_RANK && take_number(text, &out->dims[out->rank])) {
        out->rank++;
        if (!take_character(text, ','))
            break;
    }
    return take_character(text, ']') && bg_type_validate(out, NULL) == BG_OK;
}

static bool take_run(const char **text, bgi_run *out)
{
    int64_t part = 0;

    *out = (bgi_run){.count = 1};
    if (!take_character(text, ' ') || !take_number(text, &part) || part > UINT32_MAX || !take_character(text, ':') ||
        !take_number(text, &out->first) || !take_character(text, '+') || !take_number(text, &out->length))
        return false;
    out->part = (uint32_t)part;
    if (take_character(text, '*') && (!take_number(text, &out->count) || !take_character(text, '/') ||
                                      !take_number(text, &out->stride) || out->count < 2))
        return false;
    return **text == ' ' || **text == '\0';
}

/* Whether a run's ranges are disjoint and inside a tensor of `elements` elements. */
static bool is_inside(const bgi_run *run, int64_t elements)
{
    if (run->length < 1 || run->first > elements || run->length > elements - run->first)
        return false;
    return run->count == 1 ||
           (run->stride >= run->length && run->count - 1 <= (elements - run->first - run->length) / run->stride);
}

/* ---- each element once ---- */

/* Compares runs by count, then by stride, then by first element. */
static int compare_rules(const void *a, const void *b)
{
    const bgi_run *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    if (x->stride != y->stride)
        return x->stride < y->stride ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Counts the runs with the same count and stride that each begin where the previous one ends. If they fill the stride,
 * as all columns fill the rows, *out is the range of all their elements; otherwise out->length is 0. */
static size_t find_neighbors(const bgi_run *runs, size_t count, bgi_run *out)
{
    int64_t filled = 0;
    size_t some = 0;

    while (some < count && runs[some].count == runs[0].count && runs[some].stride == runs[0].stride &&
           runs[some].first == runs[0].first + filled && filled < runs[0].stride)
        filled += runs[some++].length;
    *out = (bgi_run){.first = runs[0].first, .count = 1};
    if (filled == runs[0].stride)
        out->length = runs[0].stride * runs[0].count;
    return some;
}

/* Splits runs into ranges of count 1. Returns false if memory is exhausted or there are too many. */
static bool flatten(const bgi_run *sorted, size_t count, bgi_runs *out)
{
    size_t some;

    for (size_t i = 0; i < count; i += some) {
        bgi_run whole = {0};
        some = sorted[i].count > 1 ? find_neighbors(sorted + i, count - i, &whole) : 1;
        if (whole.length > 0) {
            append(out, &whole);
            continue;
        }
        for (size_t j = i; j < i + some; j++)
            for (int64_t k = 0; k < sorted[j].count && !out->failed && out->count < MOST_STRETCHES; k++)
                append(out, &(bgi_run){.first = sorted[j].first + k * sorted[j].stride,
                                       .length = sorted[j].length,
                                       .count = 1});
        if (out->failed || out->count >= MOST_STRETCHES)
            return false;
    }
    return !out->failed;
}

static bg_status check_once(const bgi_runs *runs, int64_t elements, bg_error *error)
{
    bgi_run *sorted = malloc((runs->count + 1) * sizeof *sorted);
    bgi_runs flat = {0};
    int64_t next = 0;
    bg_status status = BG_OK;

    if (sorted == NULL)
        return bgi_error_memory(error, "runs", runs->count * sizeof *sorted);
    if (runs->count > 0) {
        memcpy(sorted, runs->items, runs->count * sizeof *sorted);
        qsort(sorted, runs->count, sizeof *sorted, compare_rules);
    }
    if (!flatten(sorted, runs->count, &flat))
        status = flat.failed ? bgi_error_memory(error, "runs", flat.count * sizeof *sorted)
                             : bg_error_set(error, BG_ERROR_PARSE, "its runs have more than %d separate ranges",
                                            MOST_STRETCHES);
    if (status == BG_OK && flat.count > 0)
        qsort(flat.items, flat.count, sizeof *flat.items, compare_rules);
    for (size_t i = 0; status == BG_OK && i < flat.count; i++) {
        if (flat.items[i].first != next)
            status = bg_error_set(error, BG_ERROR_PARSE, "element %" PRId64 " is in %s",
                                  next < flat.items[i].first ? next : flat.items[i].first,
                                  next < flat.items[i].first ? "no part" : "two runs");
        next = flat.items[i].first + flat.items[i].length;
    }
    if (status == BG_OK && next != elements)
        status = bg_error_set(error, BG_ERROR_PARSE, "element %" PRId64 " is in no part", next);
    bgi_runs_clear(&flat);
    free(sorted);
    return status;
}

bg_status bgi_runs_parse(const char *text, uint32_t part_count, bg_type *out_type, bgi_runs *out, bg_error *error)
{
    const char *at = text;
    int64_t elements;

    if (!take_type(&at, out_type))
        return bg_error_set(error, BG_ERROR_PARSE, "`%.60s` must begin with a type, such as float32[2,3]", text);
    elements = bg_type_element_count(out_type);
    while (*at != '\0') {
        const char *begin = at;
        bgi_run run;
        if (!take_run(&at, &run) || run.part >= part_count || !is_inside(&run, elements))
            return bg_error_set(error, BG_ERROR_PARSE,
                                "`%.40s` must name a part below %" PRIu32 " and elements below %" PRId64
                                ", such as 0:0+6 or 0:0+3*4/6",
                                begin, part_count, elements);
        append(out, &run);
    }
    if (out->failed)
        return bgi_error_memory(error, "runs", out->count * sizeof *out->items);
    return check_once(out, elements, error);
}
