/*
 * digit_strokes.h: how people draw the ten digits, as data: several styles for each, each with a few strokes, each
 * stroke with a few points on the pen's path.
 */
#ifndef BGI_DATA_DIGIT_STROKES_H
#define BGI_DATA_DIGIT_STROKES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BGI_STROKE_POINTS = 14, BGI_STYLE_STROKES = 3 };

/* Points are in a box with (0, 0) at the top left and (100, 100) at the bottom right. */
typedef struct bgi_stroke {
    bool is_curve; /* otherwise straight from point to point */
    uint8_t point_count;
    int8_t points[BGI_STROKE_POINTS][2];
} bgi_stroke;

typedef struct bgi_digit_style {
    uint8_t digit;
    uint8_t weight;        /* relative frequency among the digit's styles */
    uint8_t width_percent; /* of the box, relative to its height */
    uint8_t stroke_count;
    bgi_stroke strokes[BGI_STYLE_STROKES];
} bgi_digit_style;

/* Sorted by digit. */
extern const bgi_digit_style bgi_digit_styles[];
extern const size_t bgi_digit_style_count;

#endif
