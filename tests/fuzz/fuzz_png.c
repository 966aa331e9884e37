/*
 * fuzz_png.c: arbitrary bytes as PNG images, decoded to each number of channels.
 */
#include "formats/png.h"

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
    for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
        bgi_png_size about;
        bg_error error = {0};
        unsigned char *out;

        if (bgi_png_measure("input", data, size, &about, &error) != BG_OK) {
            check_message(&error);
            return 0;
        }
        if ((uint64_t)about.rows * about.columns > 1 << 20)
            return 0;
        out = malloc((size_t)about.rows * about.columns * channels);
        if (out != NULL && bgi_png_decode("input", data, size, &about, channels, out, &error) != BG_OK)
            check_message(&error);
        free(out);
    }
    return 0;
}
