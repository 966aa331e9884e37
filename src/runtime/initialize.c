/*
 * initialize.c: computes first values as a function of (seed, the variable's number, element), so that they do not
 * depend on threads or order. Kinds whose elements depend on each other first compute a common part from the whole
 * tensor's random numbers.
 *
 * Elements 4 i .. 4 i + 3 come from the four words of one Philox block: each uniform value from one word, and two
 * normal values from each pair of words. Truncated values that miss the range are drawn again from further blocks.
 */
#include "runtime/initialize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/initializer.h"
#include "core/random.h"
#include "core/threads.h"
#include "kernels/reference/element.h"
#include "runtime/orthogonal.h"

enum { WORDS = 4 };
static const uint32_t purpose =
    0x74696e69u; /* makes the random blocks of initializers differ from those of random ops */
static const uint32_t order_purpose =
    0x72617073u; /* makes the random blocks that order a sparse tensor's rows differ from both */

/* The largest number of attempts to draw a block of truncated values. A value that is still outside after all attempts
 * is set to the bound. Each attempt misses with a probability of 1 in 22, so all 32 miss only in theory. */
enum { ATTEMPTS = 32 };

/* The largest number of threads that fill one tensor, and the number of elements that justifies a thread. */
enum { MOST_THREADS = 64, LEAST_ELEMENTS = 1 << 16 };

/* Returns a uniform value. The random number is a float32 for all types, so that a float64 model that checks a float32
 * model starts near the same values. */
static double draw_uniform(bg_dtype dtype, const bg_initializer *initializer, uint32_t word)
{
    const float u = bgi_uniform_from_word(word);
    const float low = (float)initializer->a, high = (float)initializer->b;

    if (dtype == BG_FLOAT64)
        return initializer->a + (initializer->b - initializer->a) * (double)u;
    return low + (high - low) * u;
}

static void draw(bg_dtype dtype, const bg_initializer *initializer, const uint32_t words[WORDS], double out[WORDS])
{
    if (initializer->kind == BG_INITIALIZE_UNIFORM) {
        for (int i = 0; i < WORDS; i++)
            out[i] = draw_uniform(dtype, initializer, words[i]);
        return;
    }
    bgi_normal_from_words(words[0], words[1], &out[0]);
    bgi_normal_from_words(words[2], words[3], &out[2]);
    for (int i = 0; i < WORDS; i++)
        out[i] = initializer->a + initializer->b * out[i];
}

/* Draws a block of values; those beyond two standard deviations are drawn again from the words of the next attempt. */
static void draw_truncated(bg_dtype dtype, const bg_initializer *initializer, const uint32_t first_counter[4],
                           const uint32_t key[2], double out[WORDS])
{
    const double low = initializer->a - 2.0 * initializer->b, high = initializer->a + 2.0 * initializer->b;
    uint32_t counter[4] = {first_counter[0], first_counter[1], first_counter[2], first_counter[3]};
    bool is_inside[WORDS] = {false};

    for (uint32_t attempt = 0, inside = 0; attempt < ATTEMPTS && inside < WORDS; attempt++) {
        uint32_t words[WORDS];
        double values[WORDS];

        counter[3] = first_counter[3] + attempt;
        bg_philox(counter, key, words);
        draw(dtype, initializer, words, values);
        for (int i = 0; i < WORDS; i++) {
            if (is_inside[i])
                continue;
            is_inside[i] = values[i] >= low && values[i] <= high;
            inside += is_inside[i];
            out[i] = values[i] < low ? low : values[i] > high ? high : values[i];
        }
    }
}

/* Elements first .. end - 1, which a thread fills; data[0] is element `origin`. */
typedef struct range {
    const bgi_first_values *values;
    void *data;
    int64_t origin, first, end;
} range;

static bool is_random(bg_initializer_kind kind)
{
    return kind == BG_INITIALIZE_UNIFORM || kind == BG_INITIALIZE_NORMAL || kind == BG_INITIALIZE_TRUNCATED_NORMAL ||
           kind == BG_INITIALIZE_SPARSE;
}

/* Returns whether the element is 1: it must connect output o of a group with input o at the middle position, as in
 * torch.nn.init.dirac_. */
static bool is_dirac(const bgi_first_values *v, int64_t element)
{
    const int64_t groups = v->initializer.a == 0.0 ? 1 : (int64_t)v->initializer.a;
    int64_t in, out;

    for (uint32_t dim = v->whole.rank; dim-- > 2; element /= v->whole.dims[dim])
        if (element % v->whole.dims[dim] != v->whole.dims[dim] / 2)
            return false;
    in = element % v->whole.dims[1];
    out = element / v->whole.dims[1];
    return out % (v->whole.dims[0] / groups) == in;
}

/* Returns an element of an orthogonal tensor. Rows are outputs, and columns are all other dimensions; there is a vector
 * for each row if there are fewer rows than columns, otherwise for each column. */
static double find_orthogonal(const bgi_first_values *v, int64_t element)
{
    const int64_t rows = v->whole.dims[0], columns = bg_type_element_count(&v->whole) / rows;
    const int64_t row = element / columns, column = element % columns;

    return v->initializer.a * v->vectors[rows >= columns ? column * rows + row : row * columns + column];
}

static double find_value(const bgi_first_values *v, int64_t element)
{
    switch (v->initializer.kind) {
    case BG_INITIALIZE_ORTHOGONAL:
        return find_orthogonal(v, element);
    case BG_INITIALIZE_EYE:
        return element / v->whole.dims[1] == element % v->whole.dims[1];
    case BG_INITIALIZE_DIRAC:
        return is_dirac(v, element);
    default:
        return v->initializer.a;
    }
}

static void fill_random(const range *r)
{
    const bgi_first_values *v = r->values;
    const bg_dtype dtype = v->whole.dtype;
    const uint32_t key[2] = {(uint32_t)v->seed, (uint32_t)(v->seed >> 32)};
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = v->initializer.b};
    const bg_initializer *initializer = v->zeros != NULL ? &normal : &v->initializer;

    for (int64_t i = r->first / WORDS * WORDS; i < r->end; i += WORDS) {
        const uint64_t block = (uint64_t)i / WORDS;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), v->number, purpose};
        uint32_t words[WORDS];
        double values[WORDS];

        if (initializer->kind == BG_INITIALIZE_TRUNCATED_NORMAL) {
            draw_truncated(dtype, initializer, counter, key, values);
        } else {
            bg_philox(counter, key, words);
            draw(dtype, initializer, words, values);
        }
        for (int64_t j = i > r->first ? i : r->first; j < r->end && j < i + WORDS; j++)
            bgi_store(dtype, r->data, j - r->origin, v->zeros != NULL && v->zeros[j] ? 0.0 : values[j - i]);
    }
}

static void fill_range(const range *r)
{
    if (is_random(r->values->initializer.kind)) {
        fill_random(r);
        return;
    }
    for (int64_t i = r->first; i < r->end; i++)
        bgi_store(r->values->whole.dtype, r->data, i - r->origin, find_value(r->values, i));
}

static void *run_range(void *argument)
{
    fill_range(argument);
    return NULL;
}

void bgi_first_values_fill(const bgi_first_values *values, int64_t first, int64_t count, void *data)
{
    const int64_t most = count / LEAST_ELEMENTS, wanted = values->threads < most ? values->threads : most;
    const int64_t parts = wanted < 1 ? 1 : wanted > MOST_THREADS ? MOST_THREADS : wanted;
    range ranges[MOST_THREADS];
    pthread_t helpers[MOST_THREADS];
    bool is_helped[MOST_THREADS] = {false};

    for (int64_t p = 0; p < parts; p++) {
        ranges[p] = (range){.values = values, .data = data, .origin = first};
        ranges[p].first = first + count / WORDS * p / parts * WORDS;
        ranges[p].end = first + (p + 1 < parts ? count / WORDS * (p + 1) / parts * WORDS : count);
        is_helped[p] = p > 0 && bgi_thread_create(&helpers[p], run_range, &ranges[p]) == 0;
    }
    for (int64_t p = 0; p < parts; p++)
        if (!is_helped[p])
            fill_range(&ranges[p]);
    for (int64_t p = 0; p < parts; p++)
        if (is_helped[p])
            pthread_join(helpers[p], NULL);
}

/* ---- the common part, which is computed once ---- */

/* Makes the orthonormal vectors from standard normal numbers in the tensor's shape. Vectors are rows if there are fewer
 * rows than columns, otherwise columns. */
static bg_status make_vectors(bgi_first_values *v, const char *name, bg_error *error)
{
    const bg_initializer normal = {.kind = BG_INITIALIZE_NORMAL, .b = 1.0};
    const int64_t rows = v->whole.dims[0], columns = bg_type_element_count(&v->whole) / rows;
    const size_t vectors_bytes = (size_t)(rows * columns) * sizeof(double);
    bgi_first_values drawn = *v;
    double *row = malloc((size_t)columns * sizeof *row);

    v->vectors = malloc(vectors_bytes);
    if (v->vectors == NULL || row == NULL) {
        free(row);
        return bgi_error_memory(error, name, vectors_bytes);
    }
    drawn.whole.dtype = BG_FLOAT64;
    drawn.initializer = normal;
    if (rows < columns)
        bgi_first_values_fill(&drawn, 0, rows * columns, v->vectors);
    for (int64_t r = 0; r < rows && rows >= columns; r++) {
        bgi_first_values_fill(&drawn, r * columns, columns, row);
        for (int64_t c = 0; c < columns; c++)
            v->vectors[c * rows + r] = row[c];
    }
    free(row);
    bgi_orthonormalize(v->vectors, rows < columns ? rows : columns, rows < columns ? columns : rows, v->threads);
    return BG_OK;
}

/* Marks the zero elements: in each column, the first rows of a random order. */
static bg_status make_zeros(bgi_first_values *v, const char *name, bg_error *error)
{
    const int64_t rows = v->whole.dims[0], columns = v->whole.dims[1];
    const int64_t zero_count = (int64_t)ceil(v->initializer.a * (double)rows);
    bgi_random random = bgi_random_make(v->seed, (uint64_t)order_purpose << 32 | v->number);
    uint32_t *order;

    if (rows > UINT32_MAX)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "first values of `%s`: sparse supports fewer than 2^32 rows",
                            name);
    order = malloc((size_t)rows * sizeof *order);
    v->zeros = calloc((size_t)(rows * columns), 1);
    if (order == NULL || v->zeros == NULL) {
        free(order);
        return bgi_error_memory(error, name, (size_t)(rows * columns));
    }
    for (int64_t c = 0; c < columns; c++) {
        for (int64_t r = 0; r < rows; r++)
            order[r] = (uint32_t)r;
        bgi_random_shuffle(&random, order, (size_t)rows);
        for (int64_t i = 0; i < zero_count; i++)
            v->zeros[(int64_t)order[i] * columns + c] = 1;
    }
    free(order);
    return BG_OK;
}

bg_status bgi_first_values_init(bgi_first_values *values, const bg_type *whole, const bg_initializer *initializer,
                                const char *name, uint64_t seed, uint32_t number, uint32_t threads, bg_error *error)
{
    bg_status status = bgi_initializer_check(initializer, whole, name, error);

    *values = (bgi_first_values){
        .whole = *whole, .initializer = *initializer, .seed = seed, .number = number, .threads = threads};
    if (status == BG_OK && initializer->kind == BG_INITIALIZE_ORTHOGONAL)
        status = make_vectors(values, name, error);
    if (status == BG_OK && initializer->kind == BG_INITIALIZE_SPARSE)
        status = make_zeros(values, name, error);
    if (status != BG_OK)
        bgi_first_values_clear(values);
    return status;
}

void bgi_first_values_clear(bgi_first_values *values)
{
    free(values->vectors);
    free(values->zeros);
    *values = (bgi_first_values){0};
}

bg_status bgi_initialize(const bg_type *type, const bg_initializer *initializer, const char *name, uint64_t seed,
                         uint32_t number, uint32_t threads, void *data, bg_error *error)
{
    bgi_first_values values;

    BGI_TRY(bgi_first_values_init(&values, type, initializer, name, seed, number, threads, error));
    bgi_first_values_fill(&values, 0, bg_type_element_count(type), data);
    bgi_first_values_clear(&values);
    return BG_OK;
}
