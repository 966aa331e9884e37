/*
 * csv.h: reads tables of numbers in memory, for the file reader and the fuzz target.
 */
#ifndef BGI_FORMATS_CSV_H
#define BGI_FORMATS_CSV_H

#include <brigade/readers.h>

/* Columns that are not read, but that must have numbers too. */
typedef struct bgi_csv_columns {
    const char *const *names; /* names or numbers of columns */
    uint32_t count;
    bool has_all; /* all columns of the table are included */
} bgi_csv_columns;

/* Reads columns of a table. The content must end with a zero byte that size_bytes does not count. `also` may be NULL;
 * with skip_incomplete, a row is left out if one of these columns lacks a number, too. Errors: those of bg_csv_read. */
bg_status bgi_csv_parse(const char *name, const char *content, size_t size_bytes, const bg_csv_options *options,
                        const bgi_csv_columns *also, bg_array *out_features, bg_array *out_labels, bg_error *error);

/* Like bg_csv_read, for valid arguments. *out_rows_left_out becomes a hash of the numbers of the rows that
 * skip_incomplete leaves out, which is never 0. */
bg_status bgi_csv_read(const char *path, const bg_csv_options *options, bg_array *out_features, bg_array *out_labels,
                       uint64_t *out_rows_left_out, bg_error *error);

/* Whether the first line of a table with commas is a header: its first field is a name. If that field is blank or a
 * missing value, all other fields must be names, as in a table that pandas wrote with its index. */
bool bgi_csv_has_header(const char *content, size_t size_bytes);

#endif
