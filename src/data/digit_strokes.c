/*
 * digit_strokes.c: defines the table of pen strokes. The strokes were drawn for this project; a comment describes each
 * style. Most closed shapes end a little beyond their beginning, as handwritten ones do.
 */
#include "data/digit_strokes.h"

#define POINTS(...) .point_count = sizeof((int8_t[][2]){__VA_ARGS__}) / 2, .points = {__VA_ARGS__}
#define CURVE(...)                                                                                                     \
    {                                                                                                                  \
        .is_curve = true, POINTS(__VA_ARGS__)                                                                          \
    }
#define STRAIGHT(...)                                                                                                  \
    {                                                                                                                  \
        .is_curve = false, POINTS(__VA_ARGS__)                                                                         \
    }
#define P(x, y)                                                                                                        \
    {                                                                                                                  \
        x, y                                                                                                           \
    }

const bgi_digit_style bgi_digit_styles[] = {
    /* 0: oval */
    {0,
     4,
     72,
     1,
     {CURVE(P(52, 0), P(22, 12), P(4, 42), P(6, 74), P(28, 98), P(60, 98), P(88, 74), P(96, 42), P(80, 12), P(52, 1),
            P(36, 5))}},
    /* 0: narrow, begun at the upper right with an overlap */
    {0,
     2,
     56,
     1,
     {CURVE(P(74, 10), P(44, 0), P(14, 20), P(2, 56), P(14, 90), P(46, 100), P(82, 84), P(98, 48), P(86, 14), P(62, 2),
            P(40, 10))}},
    /* 0: round, not quite closed at the top */
    {0,
     2,
     88,
     1,
     {CURVE(P(44, 6), P(14, 20), P(2, 52), P(14, 84), P(46, 100), P(80, 88), P(98, 54), P(88, 20), P(60, 2))}},

    /* 1: one line */
    {1, 6, 30, 1, {STRAIGHT(P(52, 0), P(50, 100))}},
    /* 1: slightly bent line */
    {1, 2, 36, 1, {CURVE(P(66, 0), P(56, 34), P(48, 66), P(40, 100))}},
    /* 1: with a flag */
    {1, 2, 38, 1, {STRAIGHT(P(14, 26), P(62, 0), P(60, 100))}},
    /* 1: with a flag and a foot */
    {1, 1, 56, 2, {STRAIGHT(P(14, 24), P(52, 0), P(50, 98)), STRAIGHT(P(8, 98), P(94, 98))}},

    /* 2: round head, straight foot */
    {2,
     4,
     74,
     2,
     {CURVE(P(6, 24), P(22, 4), P(54, 0), P(82, 14), P(84, 38), P(60, 64), P(30, 84), P(4, 98)),
      STRAIGHT(P(4, 98), P(96, 96))}},
    /* 2: a loop at the lower left */
    {2,
     3,
     80,
     1,
     {CURVE(P(10, 18), P(34, 2), P(66, 6), P(78, 28), P(64, 56), P(38, 82), P(14, 96), P(6, 84), P(24, 76), P(50, 88),
            P(74, 98), P(98, 88))}},
    /* 2: pointed, like a z with a round shoulder */
    {2,
     2,
     72,
     1,
     {CURVE(P(4, 10), P(40, 0), P(78, 6), P(82, 24), P(58, 54), P(24, 86), P(8, 99), P(30, 98), P(62, 95), P(98, 97))}},

    /* 3: two bellies */
    {3,
     5,
     66,
     2,
     {CURVE(P(8, 14), P(34, 0), P(68, 4), P(80, 22), P(66, 40), P(36, 48)),
      CURVE(P(36, 48), P(70, 52), P(94, 70), P(82, 92), P(46, 100), P(4, 88))}},
    /* 3: flat top */
    {3,
     2,
     68,
     2,
     {STRAIGHT(P(8, 2), P(86, 2), P(42, 40)), CURVE(P(42, 40), P(76, 46), P(96, 68), P(80, 94), P(42, 100), P(4, 88))}},
    /* 3: a small loop at the waist */
    {3,
     2,
     66,
     1,
     {CURVE(P(6, 16), P(36, 0), P(74, 6), P(80, 28), P(56, 46), P(34, 50), P(44, 42), P(76, 52), P(96, 74), P(74, 98),
            P(34, 100), P(2, 84))}},

    /* 4: open */
    {4,
     5,
     74,
     2,
     {CURVE(P(20, 2), P(10, 28), P(6, 52), P(30, 58), P(66, 54), P(94, 50)),
      STRAIGHT(P(78, 0), P(74, 48), P(70, 100))}},
    /* 4: open, angular */
    {4, 2, 76, 2, {STRAIGHT(P(24, 0), P(6, 56), P(98, 54)), STRAIGHT(P(74, 22), P(68, 100))}},
    /* 4: closed, as printed */
    {4, 2, 74, 1, {STRAIGHT(P(96, 68), P(2, 70), P(68, 0), P(70, 100))}},
    /* 4: like a y */
    {4,
     1,
     72,
     2,
     {CURVE(P(8, 4), P(4, 34), P(22, 54), P(54, 52), P(80, 36)), CURVE(P(90, 0), P(84, 34), P(72, 70), P(60, 100))}},

    /* 5: belly and a separate cap */
    {5,
     4,
     70,
     2,
     {CURVE(P(22, 4), P(18, 24), P(14, 46), P(46, 40), P(82, 52), P(92, 74), P(70, 96), P(34, 100), P(4, 88)),
      STRAIGHT(P(22, 4), P(92, 0))}},
    /* 5: one line, angular */
    {5,
     2,
     72,
     2,
     {STRAIGHT(P(92, 2), P(24, 4), P(16, 44)), CURVE(P(16, 44), P(52, 36), P(86, 50), P(92, 76), P(66, 98), P(4, 92))}},
    /* 5: like an s */
    {5,
     2,
     66,
     1,
     {CURVE(P(94, 4), P(58, 2), P(28, 14), P(22, 36), P(52, 46), P(82, 60), P(84, 84), P(50, 100), P(4, 92))}},

    /* 6: a bow and a loop */
    {6,
     4,
     64,
     1,
     {CURVE(P(70, 0), P(36, 20), P(12, 48), P(4, 76), P(24, 98), P(62, 98), P(88, 80), P(78, 58), P(46, 54),
            P(16, 74))}},
    /* 6: a straight back */
    {6,
     3,
     58,
     1,
     {CURVE(P(40, 0), P(20, 36), P(6, 72), P(24, 98), P(64, 100), P(94, 82), P(78, 60), P(44, 60), P(12, 80))}},
    /* 6: a wide bow, small loop */
    {6,
     2,
     72,
     1,
     {CURVE(P(92, 6), P(56, 4), P(20, 32), P(4, 68), P(22, 96), P(58, 98), P(78, 82), P(68, 64), P(40, 64),
            P(18, 80))}},

    /* 7: bar and slope */
    {7, 5, 68, 1, {STRAIGHT(P(4, 6), P(92, 2), P(42, 100))}},
    /* 7: a bent slope */
    {7, 3, 70, 2, {CURVE(P(4, 10), P(40, 6), P(92, 2)), CURVE(P(92, 2), P(72, 34), P(54, 66), P(48, 100))}},
    /* 7: crossed */
    {7, 2, 72, 2, {STRAIGHT(P(6, 4), P(92, 4), P(40, 100)), STRAIGHT(P(26, 52), P(90, 48))}},
    /* 7: with a tick at its left */
    {7, 2, 70, 1, {STRAIGHT(P(6, 22), P(8, 4), P(92, 2), P(46, 100))}},

    /* 8: one line through both loops */
    {8,
     4,
     62,
     1,
     {CURVE(P(78, 14), P(46, 0), P(16, 16), P(24, 38), P(64, 56), P(90, 80), P(52, 100), P(12, 82), P(30, 56),
            P(68, 40), P(86, 20), P(66, 4))}},
    /* 8: two rings */
    {8,
     2,
     62,
     2,
     {CURVE(P(52, 0), P(22, 10), P(18, 34), P(48, 48), P(80, 36), P(80, 10), P(52, 0)),
      CURVE(P(50, 48), P(12, 60), P(8, 86), P(48, 100), P(90, 86), P(86, 60), P(50, 48))}},
    /* 8: begun at the waist, open at the upper right */
    {8,
     2,
     60,
     1,
     {CURVE(P(92, 8), P(48, 0), P(12, 18), P(38, 42), P(80, 64), P(84, 90), P(46, 100), P(12, 84), P(34, 54), P(70, 32),
            P(94, 10))}},

    /* 9: a loop and a straight stem */
    {9,
     4,
     62,
     1,
     {CURVE(P(86, 14), P(56, 0), P(18, 14), P(8, 40), P(38, 54), P(74, 40), P(88, 14), P(86, 40), P(80, 70),
            P(74, 100))}},
    /* 9: a loop and a bent tail */
    {9,
     3,
     64,
     1,
     {CURVE(P(84, 18), P(52, 0), P(14, 16), P(10, 42), P(44, 54), P(80, 34), P(88, 20), P(92, 58), P(72, 92),
            P(38, 100), P(8, 90))}},
    /* 9: a ring, then the stem */
    {9,
     2,
     60,
     2,
     {CURVE(P(84, 10), P(46, 0), P(10, 20), P(14, 48), P(50, 54), P(82, 34), P(84, 8)),
      STRAIGHT(P(86, 6), P(66, 100))}},
};

const size_t bgi_digit_style_count = sizeof bgi_digit_styles / sizeof bgi_digit_styles[0];
