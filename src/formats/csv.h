/*
 * csv.h: reads tables of numbers in memory, for the file reader and the fuzz target.
 */
#ifndef BGI_FORMATS_CSV_H
#define BGI_FORMATS_CSV_H

#include <brigade/readers.h>

/* Reads columns of a table. The content must end with a zero byte that size_bytes does not count. Errors: those of
 * bg_csv_read. */
bg_status bgi_csv_parse(const char *name, const char *content, size_t size_bytes, const bg_csv_options *options,
                        bg_array *out_features, bg_array *out_labels, bg_error *error);

#endif
