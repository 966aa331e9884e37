/*
 * fuzz_table.c: tables of numbers as CSV with arbitrary content; the first byte chooses options.
 */
#include "formats/csv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks that an error has one line with the reason. */
static void check_message(const bg_error *error)
{
    if (error->message[0] == '\0' || strchr(error->message, '\n') != NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const columns[] = {"0", "b"};
    bg_array features = {0}, labels = {0};
    bg_csv_options options = {0};
    bg_error error = {0};
    char *text;

    if (size == 0)
        return 0;
    options.has_no_header = data[0] & 1;
    options.label = data[0] & 2 ? "1" : NULL;
    options.columns = columns;
    options.column_count = data[0] >> 2 & 3 ? (data[0] >> 2 & 3) % 3 : 0;
    options.delimiter = data[0] & 16 ? ';' : '\0';
    options.skip_incomplete = data[0] & 32;
    text = malloc(size);
    if (text == NULL)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (bgi_csv_parse("input", text, size - 1, &options, NULL, &features, &labels, &error) == BG_OK)
        memset(features.data, 1, bg_type_size_bytes(&features.type));
    else
        check_message(&error);
    bg_array_clear(&features);
    bg_array_clear(&labels);
    free(text);
    return 0;
}
