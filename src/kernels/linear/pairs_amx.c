/*
 * pairs_amx.c: products of pairs by AMX (pairs.h): two by two tiles of sums. Without its compiler flags the file is
 * empty.
 */
#include "kernels/linear/pairs.h"

#if defined(__AMX_BF16__) || defined(__AMXBF16__) /* gcc's name, and clang's */
#include "kernels/linear/pairs_body.h"

enum { ROW_BYTES = 64 };

/* LDTILECFG's operand: all eight tiles have the full size. */
typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;

/* A tile of sums at C, of which rows x columns exist. */
typedef struct place {
    float *c;
    int64_t c_row, rows, columns;
} place;

static inline bool is_whole(const place *at)
{
    return at->rows >= TILE && at->columns >= TILE;
}

static void fetch(const place *at, float sums[TILE * TILE])
{
    const __mmask16 live = (__mmask16)pairs_mask(at->columns < TILE ? at->columns : TILE);

    for (int64_t r = 0; r < TILE; r++)
        _mm512_storeu_ps(sums + r * TILE,
                         r < at->rows ? _mm512_maskz_loadu_ps(live, at->c + r * at->c_row) : _mm512_setzero_ps());
}

static void put(const place *at, const float sums[TILE * TILE])
{
    const __mmask16 live = (__mmask16)pairs_mask(at->columns < TILE ? at->columns : TILE);

    for (int64_t r = 0; r < TILE && r < at->rows; r++)
        _mm512_mask_storeu_ps(at->c + r * at->c_row, live, _mm512_loadu_ps(sums + r * TILE));
}

/* These are macros, because the numbers of tiles are constants in the instructions. */
#define BEGIN(tile, at)                                                                                                \
    do {                                                                                                               \
        if (!p->goes_on) {                                                                                             \
            _tile_zero(tile);                                                                                          \
        } else if (is_whole(at)) {                                                                                     \
            _tile_loadd(tile, (at)->c, (size_t)(at)->c_row * sizeof(float));                                           \
        } else {                                                                                                       \
            fetch(at, sums);                                                                                           \
            _tile_loadd(tile, sums, ROW_BYTES);                                                                        \
        }                                                                                                              \
    } while (0)
#define END(tile, at)                                                                                                  \
    do {                                                                                                               \
        if (is_whole(at)) {                                                                                            \
            _tile_stored(tile, (at)->c, (size_t)(at)->c_row * sizeof(float));                                          \
        } else {                                                                                                       \
            _tile_stored(tile, sums, ROW_BYTES);                                                                       \
            put(at, sums);                                                                                             \
        }                                                                                                              \
    } while (0)

/* A's rows, packed or in place. */
typedef struct rows {
    const uint16_t *at;
    int64_t row;
} rows;

/* Multiplies two by two tiles from row m and column n on. If there is no second tile in a direction, it is skipped. */
static void multiply_four(const bgi_pairs *p, rows a, pairs_tiles b, int64_t terms, int64_t m, int64_t n)
{
    const size_t a_bytes = (size_t)a.row * sizeof(uint16_t), b_bytes = (size_t)b.pair * sizeof(uint16_t);
    const bool has_rows = m + TILE < p->m, has_columns = n + TILE < p->n;
    const uint16_t *a0 = a.at + m * a.row, *a1 = has_rows ? a0 + TILE * a.row : a0;
    const uint16_t *b0 = b.at, *b1 = has_columns ? b0 + b.tile : b0;
    float *c = p->c + m * p->c_row + n;
    const place at[4] = {{c, p->c_row, p->m - m, p->n - n},
                         {c + TILE, p->c_row, p->m - m, p->n - n - TILE},
                         {c + TILE * p->c_row, p->c_row, p->m - m - TILE, p->n - n},
                         {c + TILE * p->c_row + TILE, p->c_row, p->m - m - TILE, p->n - n - TILE}};
    float sums[TILE * TILE] __attribute__((aligned(64)));

    BEGIN(0, &at[0]);
    if (has_columns)
        BEGIN(1, &at[1]);
    if (has_rows)
        BEGIN(2, &at[2]);
    if (has_rows && has_columns)
        BEGIN(3, &at[3]);
    for (int64_t k = 0; k < terms; k += BGI_PAIRS_TERMS) {
        _tile_loadd(4, a0 + k, a_bytes);
        _tile_loadd(6, b0 + k / 2 * b.pair, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        if (has_columns) {
            _tile_loadd(7, b1 + k / 2 * b.pair, b_bytes);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (has_rows) {
            _tile_loadd(5, a1 + k, a_bytes);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (has_rows && has_columns)
            _tile_dpbf16ps(3, 5, 7);
    }
    END(0, &at[0]);
    if (has_columns)
        END(1, &at[1]);
    if (has_rows)
        END(2, &at[2]);
    if (has_rows && has_columns)
        END(3, &at[3]);
}

void bgi_pairs_multiply_amx(const bgi_pairs *p)
{
    const int64_t terms = pairs_round_up(p->k, BGI_PAIRS_TERMS);
    uint16_t *packed = p->scratch, *b = packed + pairs_round_up(p->m, TILE) * terms;
    const bool is_in_place = p->a_column == 1 && p->k == terms && p->m % TILE == 0;
    const rows a = is_in_place ? (rows){p->a, p->a_row} : (rows){packed, terms};
    tile_shapes shapes = {.palette = 1};

    for (int i = 0; i < 8; i++) {
        shapes.row_bytes[i] = ROW_BYTES;
        shapes.rows[i] = TILE;
    }
    if (!is_in_place)
        pairs_pack_a(p, terms, packed);
    _tile_loadconfig(&shapes);
    for (int64_t n = 0; n < p->n; n += 2 * TILE) {
        pairs_tiles tiles = pairs_view_packed(b, terms);

        if (bgi_pairs_has_panel(p)) {
            tiles = pairs_view_panel(p);
            tiles.at += 2 * n;
        } else {
            pairs_pack_b(p, n, terms, b);
            if (n + TILE < p->n)
                pairs_pack_b(p, n + TILE, terms, b + TILE * terms);
        }
        for (int64_t m = 0; m < p->m; m += 2 * TILE)
            multiply_four(p, a, tiles, terms, m, n);
    }
    _tile_release();
}
#endif
