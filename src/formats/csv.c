/*
 * csv.c: reads numbers from comma-separated text (RFC 4180). Two passes over the text in memory: the first counts
 * fields and lines and checks the quotes, the second converts the chosen columns. It reads only numbers, in C's
 * notation in every locale. A row in which a number is missing is an error, or is left out (skip_incomplete).
 */
#include "formats/csv.h"

#include "core/error.h"
#include "core/file.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const size_t LARGEST_FILE_BYTES = (size_t)4 << 30;
enum { LARGEST_COLUMN_COUNT = 65536, FIELD_BYTES = 256 };

typedef struct table {
    const char *name;
    const char *at, *end;
    uint64_t line, column; /* line and column of the next field, from 1 */
    char delimiter;
    bool has_header, skips;
    uint64_t rows_left_out;     /* FNV-1a hash of the indices of the rows that were left out */
    char (*names)[FIELD_BYTES]; /* the fields of the first line */
    uint32_t column_count;
    uint32_t *features; /* column of each feature */
    uint32_t feature_count;
    uint32_t label; /* column_count: no label */
} table;

static bg_status fail_field(const table *t, const char *what, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_PARSE, "%s:%" PRIu64 ": field %" PRIu64 ": %s", t->name, t->line, t->column,
                        what);
}

/* Columns are chosen by names or by numbers from 0, so messages about their values use these. A column without a name
 * has only its number. */
static bg_status fail_value(const table *t, const char *what, bg_error *error)
{
    if (t->has_header && t->names[t->column - 1][0] != '\0')
        return bg_error_set(error, BG_ERROR_PARSE, "%s:%" PRIu64 ": column `%s`: %s", t->name, t->line,
                            t->names[t->column - 1], what);
    return bg_error_set(error, BG_ERROR_PARSE, "%s:%" PRIu64 ": column %" PRIu64 " (from 0): %s", t->name, t->line,
                        t->column - 1, what);
}

/* Whether a field stands for a missing value, or for one that is not finite. */
static bool is_missing(const char *field)
{
    static const char *const words[] = {"", "na", "n/a", "nan", "null", "none", "inf", "infinity"};
    const char *begin = field + strspn(field, " \t");
    size_t length;

    begin += *begin == '+' || *begin == '-';
    length = strcspn(begin, " \t");
    if (begin[length + strspn(begin + length, " \t")] != '\0' || (length == 0 && begin > field && begin[-1] > ' '))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == length && strncasecmp(words[i], begin, length) == 0)
            return true;
    return false;
}

static bg_status refuse_number(const table *t, const char *field, bg_error *error)
{
    char what[3 * FIELD_BYTES];

    if (is_missing(field))
        snprintf(
            what, sizeof what,
            "%s%.40s%s, but every row needs a number here; fill the gaps, or leave such rows out: --skip-incomplete "
            "of `brigade train` and `infer`, skip_incomplete in C",
            field[0] == '\0' ? "the field is empty" : "`", field, field[0] == '\0' ? "" : "` is a missing value");
    else
        snprintf(what, sizeof what, "`%.40s` is not a number", field);
    return fail_value(t, what, error);
}

/* Reads the next field without its quotes, cut to FIELD_BYTES - 1 bytes (a number is shorter). Sets *out_is_last for
 * the last field of a line. */
static bg_status take_field(table *t, char field[FIELD_BYTES], bool *out_is_last, bg_error *error)
{
    const bool is_quoted = t->at < t->end && *t->at == '"';
    size_t length = 0;

    for (t->at += is_quoted; t->at < t->end; t->at++) {
        const char c = *t->at;

        if (is_quoted && c == '"') {
            if (t->at + 1 == t->end || t->at[1] != '"')
                break;
            t->at++;
        } else if (!is_quoted && (c == t->delimiter || c == '\n' || (c == '\r' && t->at[1] == '\n'))) {
            break;
        } else if (!is_quoted && c == '"') {
            return fail_field(t, "the field contains a quote but does not begin with one", error);
        } else if (c == '\0') {
            return fail_field(t, "the field contains a zero byte", error);
        }
        if (length + 1 < FIELD_BYTES)
            field[length++] = c;
    }
    field[length] = '\0';
    if (is_quoted && t->at == t->end)
        return fail_field(t, "the quoted field has no closing quote", error);
    t->at += is_quoted;
    if (t->end - t->at >= 2 && t->at[0] == '\r' && t->at[1] == '\n')
        t->at++;
    *out_is_last = t->at == t->end || *t->at == '\n';
    if (!*out_is_last && *t->at != t->delimiter)
        return fail_field(t, "there is text after the closing quote", error);
    t->at += t->at < t->end;
    return BG_OK;
}

static void begin_line(table *t)
{
    t->line++;
    t->column = 1;
}

/* ---- columns ---- */

static bool is_number(const char *text, uint64_t *out)
{
    char *stop;

    if (text[0] < '0' || text[0] > '9')
        return false;
    *out = strtoull(text, &stop, 10);
    return *stop == '\0';
}

/* Reads the first line, whether it is a header or not, and counts its columns. */
static bg_status read_first_line(table *t, bg_error *error)
{
    bool is_last = false;

    begin_line(t);
    for (; !is_last; t->column++) {
        char(*grown)[FIELD_BYTES];

        if (t->column_count == LARGEST_COLUMN_COUNT)
            return fail_field(t, "the file has more than 65536 columns", error);
        grown = realloc(t->names, (t->column_count + 1) * sizeof *t->names);
        if (grown == NULL)
            return bgi_error_memory(error, "the names of columns", (t->column_count + 1) * sizeof *t->names);
        t->names = grown;
        BGI_TRY(take_field(t, grown[t->column_count], &is_last, error));
        t->column_count++;
    }
    return BG_OK;
}

static bg_status find_column(const table *t, const char *wanted, uint32_t *out, bg_error *error)
{
    uint64_t number = 0;

    for (uint32_t i = 0; t->has_header && i < t->column_count; i++)
        if (strcmp(t->names[i], wanted) == 0) {
            *out = i;
            return BG_OK;
        }
    if (is_number(wanted, &number) && number < t->column_count) {
        *out = (uint32_t)number;
        return BG_OK;
    }
    return bg_error_set(error, BG_ERROR_NOT_FOUND,
                        "%s: there is no column `%s`; use %sa number from 0 to %" PRIu32 "%s", t->name, wanted,
                        t->has_header ? "a name of the first line or " : "", t->column_count - 1,
                        t->column_count == 1 ? " (the file has one column: are its fields separated by commas?)" : "");
}

static bg_status choose_columns(table *t, const bg_csv_options *options, bg_error *error)
{
    const uint32_t room = options->column_count > t->column_count ? options->column_count : t->column_count;

    t->label = t->column_count;
    if (options->label != NULL)
        BGI_TRY(find_column(t, options->label, &t->label, error));
    t->features = calloc(room, sizeof *t->features);
    if (t->features == NULL)
        return bgi_error_memory(error, "the columns", room * sizeof *t->features);
    for (uint32_t i = 0; i < options->column_count; i++)
        BGI_TRY(find_column(t, options->columns[i], &t->features[t->feature_count++], error));
    for (uint32_t i = 0; options->column_count == 0 && i < t->column_count; i++)
        if (i != t->label)
            t->features[t->feature_count++] = i;
    if (t->feature_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s: the file has no column besides the label but must have at least one more", t->name);
    return BG_OK;
}

/* ---- rows ---- */

/* Reads one line into values[column_count], which may be NULL. Sets *out_is_complete to whether all wanted columns have
 * numbers; without skip_incomplete, a missing number is an error. */
static bg_status read_row(table *t, double *values, const bool *is_wanted, bool *out_is_complete, bg_error *error)
{
    bool is_last = false;

    *out_is_complete = true;
    begin_line(t);
    for (; !is_last; t->column++) {
        char field[FIELD_BYTES], *stop;
        double value;

        if (t->column > t->column_count)
            return fail_field(t, "the line has more fields than the first line", error);
        BGI_TRY(take_field(t, field, &is_last, error));
        if (values == NULL || !is_wanted[t->column - 1])
            continue;
        /* strtod accepts blanks, "inf", "nan" and hexadecimal, which are not numbers here. */
        value = strtod(field, &stop);
        if (field[0] == '\0' || field[strspn(field, "+-0123456789.eE")] != '\0' || *stop != '\0') {
            if (!t->skips || !is_missing(field))
                return refuse_number(t, field, error);
            *out_is_complete = false;
        } else if (!isfinite(value)) {
            return fail_value(t, "the number is too large for float64", error);
        }
        values[t->column - 1] = value;
    }
    if (t->column <= t->column_count)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s:%" PRIu64 ": the line has %" PRIu64 " fields but must have %" PRIu32, t->name, t->line,
                            t->column - 1, t->column_count);
    return BG_OK;
}

static bg_status take_row(table *t, const double *values, float *features, int32_t *label, bg_error *error)
{
    for (uint32_t i = 0; i < t->feature_count; i++) {
        t->column = t->features[i] + 1;
        features[i] = (float)values[t->features[i]];
        if (!isfinite(features[i]))
            return fail_value(t, "the number is too large for float32", error);
    }
    if (t->label < t->column_count) {
        const double value = values[t->label];

        t->column = t->label + 1;
        if (value != floor(value) || fabs(value) > INT32_MAX)
            return fail_value(t, "the label must be a whole number of 32 bits", error);
        *label = (int32_t)value;
    }
    return BG_OK;
}

/* Reads the rows into arrays of `row_count` rows, and then reduces the arrays to the rows that were not left out. */
static bg_status read_rows(table *t, uint64_t row_count, double *values, const bool *is_wanted, bg_array *features,
                           bg_array *labels, uint64_t *out_skipped, bg_error *error)
{
    const bg_type matrix = bg_matrix(BG_FLOAT32, (int64_t)row_count, t->feature_count);
    const bg_type vector = bg_vector(BG_INT32, (int64_t)row_count);
    const uint64_t first_line = t->line + 1;
    uint64_t kept = 0;

    BGI_TRY(bg_array_init(features, &matrix, error));
    if (t->label < t->column_count)
        BGI_TRY(bg_array_init(labels, &vector, error));
    for (uint64_t row = 0; row < row_count; row++) {
        bool is_complete;

        BGI_TRY(read_row(t, values, is_wanted, &is_complete, error));
        if (!is_complete) {
            t->rows_left_out = (t->rows_left_out ^ row) * UINT64_C(0x100000001B3);
            continue;
        }
        BGI_TRY(take_row(t, values, (float *)features->data + kept * t->feature_count,
                         labels->data != NULL ? (int32_t *)labels->data + kept : NULL, error));
        kept++;
    }
    if (kept == 0)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s:%" PRIu64 ": each of the %" PRIu64 " rows has a missing value in the columns to read",
                            t->name, first_line, row_count);
    features->type.dims[0] = (int64_t)kept;
    if (labels->data != NULL)
        labels->type.dims[0] = (int64_t)kept;
    *out_skipped = row_count - kept;
    return BG_OK;
}

/* Marks the columns that are read, and those of `also`, which are only checked. */
static bg_status want_columns(const table *t, const bgi_csv_columns *also, bool *is_wanted, bg_error *error)
{
    for (uint32_t i = 0; i < t->feature_count; i++)
        is_wanted[t->features[i]] = true;
    if (t->label < t->column_count)
        is_wanted[t->label] = true;
    for (uint32_t i = 0; also != NULL && i < also->count; i++) {
        uint32_t column;

        BGI_TRY(find_column(t, also->names[i], &column, error));
        is_wanted[column] = true;
    }
    for (uint32_t i = 0; also != NULL && also->has_all && i < t->column_count; i++)
        is_wanted[i] = true;
    return BG_OK;
}

/* Counts the lines of data, and then reads them. */
static bg_status read_body(table *t, const bgi_csv_columns *also, bg_array *features, bg_array *labels,
                           uint64_t *out_skipped, bg_error *error)
{
    const table start = *t;
    double *values;
    bool *is_wanted, is_complete;
    uint64_t row_count = 0;
    bg_status status;

    for (; t->at < t->end; row_count++)
        BGI_TRY(read_row(t, NULL, NULL, &is_complete, error));
    if (row_count == 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s:%" PRIu64 ": the file has no lines of numbers", t->name,
                            t->line + 1);
    *t = start;
    values = calloc(t->column_count, sizeof *values);
    is_wanted = calloc(t->column_count, sizeof *is_wanted);
    status = values != NULL && is_wanted != NULL ? want_columns(t, also, is_wanted, error)
                                                 : bgi_error_memory(error, "a row", t->column_count * sizeof *values);
    if (status == BG_OK)
        status = read_rows(t, row_count, values, is_wanted, features, labels, out_skipped, error);
    free(values);
    free(is_wanted);
    return status;
}

static bg_status parse_table(table *t, const bg_csv_options *options, const bgi_csv_columns *also, bg_array *features,
                             bg_array *labels, uint64_t *out_skipped, bg_error *error)
{
    const table start = *t;

    BGI_TRY(read_first_line(t, error));
    BGI_TRY(choose_columns(t, options, error));
    if (!t->has_header) {
        t->at = start.at;
        t->line = start.line;
    }
    return read_body(t, also, features, labels, out_skipped, error);
}

/* Returns the length of the UTF-8 byte order mark at the beginning of the content; 0 if there is none. */
static size_t measure_mark(const char *content, size_t size_bytes)
{
    return size_bytes >= 3 && memcmp(content, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

/* Whether a field is a name: neither a number nor a missing value. The locale must have a decimal point. */
static bool is_name(const char *field)
{
    char *stop;

    if (is_missing(field))
        return false;
    (void)strtod(field, &stop);
    return stop == field || stop[strspn(stop, " \t")] != '\0';
}

/* Whether the first line is a header, as bgi_csv_has_header defines it; false if the line cannot be read. */
static bool begins_with_names(table *t)
{
    char field[FIELD_BYTES];
    bool is_last = false;

    if (take_field(t, field, &is_last, NULL) != BG_OK)
        return false;
    if (is_last || !is_missing(field))
        return is_name(field);
    while (!is_last)
        if (take_field(t, field, &is_last, NULL) != BG_OK || !is_name(field))
            return false;
    return true;
}

bool bgi_csv_has_header(const char *content, size_t size_bytes)
{
    table t = {
        .name = "", .at = content + measure_mark(content, size_bytes), .end = content + size_bytes, .delimiter = ','};
    const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    locale_t usual;
    bool has_header;

    if (plain == (locale_t)0)
        return true; /* reading the table reports that memory is exhausted */
    usual = uselocale(plain);
    has_header = begins_with_names(&t);
    uselocale(usual);
    freelocale(plain);
    return has_header;
}

/* Like bgi_csv_parse; also sets *out_rows_left_out as bgi_csv_read does. */
static bg_status parse(const char *name, const char *content, size_t size_bytes, const bg_csv_options *options,
                       const bgi_csv_columns *also, bg_array *out_features, bg_array *out_labels,
                       uint64_t *out_rows_left_out, bg_error *error)
{
    table t = {.name = name,
               .at = content + measure_mark(content, size_bytes),
               .end = content + size_bytes,
               .delimiter = options->delimiter != '\0' ? options->delimiter : ',',
               .has_header = !options->has_no_header,
               .skips = options->skip_incomplete,
               .rows_left_out = UINT64_C(0xCBF29CE484222325)};
    bg_array features = {.data = NULL}, labels = {.data = NULL};
    uint64_t skipped = 0;
    locale_t plain, usual;
    bg_status status;

    if (strchr("\"\r\n", t.delimiter) != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "%s: delimiter cannot be a quote or the end of a line", name);
    if (t.at == t.end)
        return bg_error_set(error, BG_ERROR_PARSE, "%s:1: the file is empty but must have lines of numbers", name);
    plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return bgi_error_memory(error, "a locale", 0);
    usual = uselocale(plain);
    status = parse_table(&t, options, also, &features, &labels, &skipped, error);
    uselocale(usual);
    freelocale(plain);
    free(t.features);
    free(t.names);
    if (status != BG_OK) {
        bg_array_clear(&features);
        bg_array_clear(&labels);
        return status;
    }
    *out_features = features;
    if (labels.data != NULL)
        *out_labels = labels;
    if (options->out_skipped != NULL)
        *options->out_skipped = skipped;
    *out_rows_left_out = t.rows_left_out | 1;
    return BG_OK;
}

bg_status bgi_csv_parse(const char *name, const char *content, size_t size_bytes, const bg_csv_options *options,
                        const bgi_csv_columns *also, bg_array *out_features, bg_array *out_labels, bg_error *error)
{
    uint64_t ignored;

    return parse(name, content, size_bytes, options, also, out_features, out_labels, &ignored, error);
}

bg_status bgi_csv_read(const char *path, const bg_csv_options *options, bg_array *out_features, bg_array *out_labels,
                       uint64_t *out_rows_left_out, bg_error *error)
{
    char *content = NULL;
    size_t size_bytes = 0;
    bg_status status;

    BGI_TRY(bgi_file_load(path, LARGEST_FILE_BYTES, &content, &size_bytes, error));
    status = parse(path, content, size_bytes, options, NULL, out_features, out_labels, out_rows_left_out, error);
    free(content);
    return status;
}

bg_status bg_csv_read(const char *path, const bg_csv_options *options, bg_array *out_features, bg_array *out_labels,
                      bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(path, "path", __func__, error));
    BGI_TRY(bgi_require(out_features, "out_features", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_csv_options", NULL, error));
    if (options->label != NULL)
        BGI_TRY(bgi_require(out_labels, "out_labels", __func__, error));

    uint64_t ignored;

    return bgi_csv_read(path, options, out_features, out_labels, &ignored, error);
}
