/*
 * digit_strokes.h: declares a table of the ways in which people write the ten digits. Each digit has several styles, a
 * style has a few strokes, and a stroke has a few points on the pen's path.
 */
#ifndef BGI_DATA_DIGIT_STROKES_H
#define BGI_DATA_DIGIT_STROKES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BGI_STROKE_POINTS = 14, BGI_STYLE_STROKES = 3 };

/* Points are in a box with (0, 0) at the top left and (100, 100) at the bottom right. */
typedef struct bgi_stroke {
    bool is_curve; /* otherwise points are joined by straight lines */
    uint8_t point_count;
    int8_t points[BGI_STROKE_POINTS][2];
} bgi_stroke;

typedef struct bgi_digit_style {
    uint8_t digit;
    uint8_t weight;        /* relative frequency among the digit's styles */
    uint8_t width_percent; /* width of the box, relative to its height */
    uint8_t stroke_count;
    bgi_stroke strokes[BGI_STYLE_STROKES];
} bgi_digit_style;

/* The styles of all digits, sorted by digit. */
extern const bgi_digit_style bgi_digit_styles[];
extern const size_t bgi_digit_style_count;

#endif
