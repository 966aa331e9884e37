/*
 * png.c: reads PNG through libpng: pixels as they are stored (no gamma, no color management), as planes.
 *
 * libpng reports failure by longjmp. Data that must survive the jump is in a struct outside the function that calls
 * setjmp. Errors are written directly to the caller's bg_error.
 */
#include "formats/png.h"

#include "core/error.h"

#include <inttypes.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_SIDE = 32768, HEADER_BYTES = 33, LARGEST_PIXEL_COUNT = 1 << 26 };

typedef struct decoder {
    const char *name;
    const unsigned char *content;
    size_t size_bytes, at;
    bg_error *error;
    bg_status status;
    png_structp png;
    png_infop info;
    unsigned char *pixels; /* [rows][columns][channels as stored] */
    png_bytep *rows;
} decoder;

static uint32_t read_big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bg_status bgi_png_measure(const char *name, const void *content, size_t size_bytes, bgi_png_size *out, bg_error *error)
{
    static const uint32_t channels_of[] = {1, 0, 3, 3, 2, 0, 4};
    const unsigned char *c = content;
    uint32_t rows, columns;

    if (size_bytes < HEADER_BYTES || memcmp(c, "\x89PNG\r\n\x1a\n", 8) != 0 || memcmp(c + 12, "IHDR", 4) != 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte 0: this is not a PNG image", name);
    columns = read_big_endian(c + 16);
    rows = read_big_endian(c + 20);
    if (rows == 0 || columns == 0 || rows > LARGEST_SIDE || columns > LARGEST_SIDE ||
        (uint64_t)rows * columns > LARGEST_PIXEL_COUNT)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte 16: the image has %" PRIu32 " x %" PRIu32
                            " pixels but must have 1 to %d on each side and at most %d in all",
                            name, columns, rows, LARGEST_SIDE, LARGEST_PIXEL_COUNT);
    /* Deflate expands a byte to at most 1032 bytes. */
    if ((uint64_t)rows * columns / 8 > (uint64_t)size_bytes * 1032)
        return bg_error_set(error, BG_ERROR_PARSE,
                            "%s: byte 16: %" PRIu32 " x %" PRIu32 " pixels do not fit in %zu bytes", name, columns,
                            rows, size_bytes);
    if (c[24] == 16)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "%s: byte 24: a channel has 16 bits but must have at most 8",
                            name);
    if (c[25] > 6 || channels_of[c[25]] == 0)
        return bg_error_set(error, BG_ERROR_PARSE, "%s: byte 25: color type %d does not exist", name, c[25]);
    *out = (bgi_png_size){channels_of[c[25]], rows, columns};
    return BG_OK;
}

static void note_error(png_structp png, png_const_charp message)
{
    decoder *d = png_get_error_ptr(png);

    d->status = bg_error_set(d->error, BG_ERROR_PARSE, "%s: byte %zu: %s", d->name, d->at, message);
    png_longjmp(png, 1);
}

static void ignore_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void read_bytes(png_structp png, png_bytep out, size_t count)
{
    decoder *d = png_get_io_ptr(png);

    if (count > d->size_bytes - d->at)
        png_error(png, "the image is truncated there");
    memcpy(out, d->content + d->at, count);
    d->at += count;
}

static bool read_pixels(decoder *d, const bgi_png_size *size)
{
    size_t row_bytes;

    if (setjmp(png_jmpbuf(d->png)))
        return false;
    png_set_read_fn(d->png, d, read_bytes);
    png_set_user_limits(d->png, LARGEST_SIDE, LARGEST_SIDE);
    png_read_info(d->png, d->info);
    if (png_get_color_type(d->png, d->info) == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(d->png);
    if (png_get_color_type(d->png, d->info) == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(d->png, d->info) < 8)
        png_set_expand_gray_1_2_4_to_8(d->png);
    png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    row_bytes = png_get_rowbytes(d->png, d->info);
    if (png_get_image_height(d->png, d->info) != size->rows || row_bytes != (size_t)size->columns * size->channels)
        png_error(d->png, "the size differs from that in the header");
    d->pixels = malloc(row_bytes * size->rows);
    d->rows = malloc(size->rows * sizeof *d->rows);
    if (d->pixels == NULL || d->rows == NULL) {
        d->status = bgi_error_memory(d->error, d->name, row_bytes * size->rows);
        return false;
    }
    for (uint32_t y = 0; y < size->rows; y++)
        d->rows[y] = d->pixels + y * row_bytes;
    png_read_image(d->png, d->rows);
    png_read_end(d->png, NULL); /* checks the final checksum */
    return true;
}

/* Converts pixels to planes. Gray is the rounded sum of the colors with the weights of ITU-R 601-2 in 16 bits. */
static void convert(const unsigned char *pixels, const bgi_png_size *size, uint32_t channels, unsigned char *out)
{
    const size_t count = (size_t)size->rows * size->columns;
    const uint32_t from = size->channels;
    const bool is_color = from >= 3, has_alpha = from == 2 || from == 4;

    for (size_t i = 0; i < count; i++) {
        const unsigned char *p = pixels + i * from;

        if (channels == 1) {
            out[i] = is_color ? (unsigned char)((p[0] * 19595U + p[1] * 38470U + p[2] * 7471U + 32768U) >> 16) : p[0];
            continue;
        }
        for (uint32_t c = 0; c < 3; c++)
            out[c * count + i] = p[is_color ? c : 0];
        if (channels == 4)
            out[3 * count + i] = has_alpha ? p[from - 1] : 255;
    }
}

bg_status bgi_png_decode(const char *name, const void *content, size_t size_bytes, const bgi_png_size *size,
                         uint32_t channels, unsigned char *out, bg_error *error)
{
    decoder d = {.name = name, .content = content, .size_bytes = size_bytes, .error = error};

    d.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &d, note_error, ignore_warning);
    d.info = d.png != NULL ? png_create_info_struct(d.png) : NULL;
    if (d.info == NULL)
        d.status = bgi_error_memory(error, "the state of libpng", 0);
    else if (read_pixels(&d, size))
        convert(d.pixels, size, channels, out);
    png_destroy_read_struct(&d.png, &d.info, NULL);
    free(d.pixels);
    free(d.rows);
    return d.status;
}
