/*
 * png.h: reads PNG images in memory, for the file reader, for folders of images, and for the fuzz target.
 */
#ifndef BGI_FORMATS_PNG_H
#define BGI_FORMATS_PNG_H

#include <brigade/base.h>

typedef struct bgi_png_size {
    uint32_t channels; /* 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA; for a palette, the channels of the decoded colors */
    uint32_t rows, columns;
} bgi_png_size;

/* Reads only the header. `name` is the content's name in messages. Errors: BG_ERROR_PARSE, BG_ERROR_UNSUPPORTED. */
bg_status bgi_png_measure(const char *name, const void *content, size_t size_bytes, bgi_png_size *out, bg_error *error);

/* Writes the image as [channels, rows, columns], for 1, 3 or 4 channels; `size` is the result of bgi_png_measure. */
bg_status bgi_png_decode(const char *name, const void *content, size_t size_bytes, const bgi_png_size *size,
                         uint32_t channels, unsigned char *out, bg_error *error);

#endif
