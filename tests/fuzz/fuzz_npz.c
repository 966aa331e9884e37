/*
 * fuzz_npz.c: NumPy's .npz with arbitrary content. A valid input has the number of bytes of its types.
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
    bg_npz npz = {0};
    bg_error error = {0};

    if (bgi_npz_parse("input", data, size, &npz, &error) == BG_OK) {
        for (uint32_t i = 0; i < npz.count; i++) {
            if (bg_type_validate(&npz.arrays[i].type, NULL) != BG_OK || npz.names[i] == NULL)
                abort();
            memset(npz.arrays[i].data, 1, bg_type_size_bytes(&npz.arrays[i].type));
        }
    } else {
        check_message(&error);
    }
    bg_npz_clear(&npz);
    return 0;
}
