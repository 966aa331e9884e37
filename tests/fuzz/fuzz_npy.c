/*
 * fuzz_npy.c: NumPy's .npy with arbitrary content. A valid input has the number of bytes of its type.
 */
#include "formats/npy.h"

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
    bg_array array = {0};
    bg_error error = {0};

    if (bgi_npy_parse("input", data, size, &array, &error) == BG_OK) {
        if (bg_type_validate(&array.type, NULL) != BG_OK)
            abort();
        memset(array.data, 1, bg_type_size_bytes(&array.type));
    } else {
        check_message(&error);
    }
    bg_array_clear(&array);
    return 0;
}
