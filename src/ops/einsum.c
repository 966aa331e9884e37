/*
 * einsum.c: builds sums of products whose dimensions are named by letters, from transposes, reshapes and batched
 * products. Operands are multiplied one after another, from the left:
 *
 *     abc,cbd->adb     b is in both operands and in the result, so it is a batch. c is not in the result, so it is
 *                      summed over: [b,a,c] x [b,c,d] -> [b,a,d] -> [a,d,b]
 */
#include <brigade/ops.h>

#include <ctype.h>
#include <string.h>

#include "graph/graph.h"
#include "ops/ops.h"

enum { LETTERS = 64, MOST_OPERANDS = 16 };

/* A value and the letters of its dimensions. */
typedef struct lettered {
    bg_value value;
    char letters[BG_MAX_RANK + 1];
    int64_t dims[BG_MAX_RANK];
} lettered;

typedef struct einsum {
    bg_graph *graph;
    const char *name;
    lettered operands[MOST_OPERANDS];
    uint32_t count;
    char result[LETTERS];
} einsum;

static bool has(const char *letters, char letter)
{
    return strchr(letters, letter) != NULL;
}

static bool refuse(const einsum *e, const char *equation, const char *why)
{
    bgi_graph_fail_op(e->graph, "einsum", e->name, BG_ERROR_INVALID, "`%.80s`: %s", equation, why);
    return false;
}

/* ---- reading ---- */

/* Reads a list of letters up to a comma, an arrow or the end. */
static bool read_letters(const einsum *e, const char *equation, const char **at, char *out)
{
    size_t count = 0;

    for (; **at != '\0' && **at != ',' && **at != '-'; ++*at) {
        if (**at == ' ')
            continue;
        if (!isalpha((unsigned char)**at))
            return refuse(e, equation, "it may contain only letters, commas, spaces and one arrow, `->`");
        out[count] = '\0';
        if (has(out, **at))
            return refuse(e, equation,
                          "a letter occurs twice in one operand or in the result: diagonals are not supported");
        if (count == BG_MAX_RANK)
            return refuse(e, equation, "an operand, or the result, has more letters than a value can have dimensions");
        out[count++] = **at;
    }
    out[count] = '\0';
    return true;
}

/* Finds the letters of the result. Without an arrow these are the letters that occur once, in alphabetical order,
 * capitals first. */
static bool find_result(einsum *e, const char *equation)
{
    size_t count = 0;

    for (char letter = 'A'; letter <= 'z'; letter++) {
        uint32_t times = 0;
        for (uint32_t i = 0; i < e->count; i++)
            times += has(e->operands[i].letters, letter);
        if (times != 1)
            continue;
        if (count == BG_MAX_RANK)
            return refuse(e, equation, "the result would have more letters than a value can have dimensions");
        e->result[count++] = letter;
    }
    e->result[count] = '\0';
    return true;
}

static bool read_equation(einsum *e, const char *equation)
{
    const char *at = equation;

    for (uint32_t i = 0;; i++) {
        if (i == e->count)
            return refuse(e, equation, "it names more operands than are given");
        if (!read_letters(e, equation, &at, e->operands[i].letters))
            return false;
        if (*at == ',') {
            at++;
            continue;
        }
        if (i + 1 != e->count)
            return refuse(e, equation, "it names fewer operands than are given");
        break;
    }
    if (*at == '\0')
        return find_result(e, equation);
    if (at[1] != '>')
        return refuse(e, equation, "a `-` must be followed by `>`");
    at += 2;
    if (!read_letters(e, equation, &at, e->result))
        return false;
    if (*at != '\0')
        return refuse(e, equation, "there is more text after the result");
    for (const char *letter = e->result; *letter != '\0'; letter++) {
        bool is_known = false;
        for (uint32_t i = 0; i < e->count; i++)
            is_known = is_known || has(e->operands[i].letters, *letter);
        if (!is_known)
            return refuse(e, equation, "the result has a letter that no operand has");
    }
    return true;
}

static bool read_sizes(einsum *e, const bg_value *operands)
{
    const bg_type first = bg_graph_type(e->graph, operands[0]);
    int64_t sizes[128] = {0};

    for (uint32_t i = 0; i < e->count; i++) {
        const bg_type type = bg_graph_type(e->graph, operands[i]);
        const char *letters = e->operands[i].letters;
        char text[BG_TYPE_TEXT_BYTES];

        if (type.rank != strlen(letters) || !bg_dtype_is_float(type.dtype) || type.dtype != first.dtype) {
            bgi_graph_fail_op(
                e->graph, "einsum", e->name, BG_ERROR_SHAPE,
                "operand %u is %s; it must be a float of the first one's type with a dimension for each of "
                "`%s`",
                i, bg_type_text(&type, text), letters);
            return false;
        }
        e->operands[i].value = operands[i];
        for (uint32_t d = 0; d < type.rank; d++) {
            int64_t *size = &sizes[(unsigned char)letters[d]];

            if (*size != 0 && *size != type.dims[d]) {
                bgi_graph_fail_op(e->graph, "einsum", e->name, BG_ERROR_SHAPE,
                                  "dimension `%c` has size %lld in one operand and %lld in operand %u, which is %s",
                                  letters[d], (long long)*size, (long long)type.dims[d], i, bg_type_text(&type, text));
                return false;
            }
            e->operands[i].dims[d] = *size = type.dims[d];
        }
    }
    return true;
}

/* ---- one step ---- */

static void append(lettered *to, const lettered *from, char letter)
{
    const size_t at = strlen(to->letters);

    to->letters[at] = letter;
    to->letters[at + 1] = '\0';
    to->dims[at] = from->dims[strchr(from->letters, letter) - from->letters];
}

/* Arranges x's dimensions in the order of letters. */
static bg_value arrange(const einsum *e, const char *name, const lettered *x, const char *order)
{
    uint32_t permutation[BG_MAX_RANK];

    if (strcmp(x->letters, order) == 0)
        return x->value;
    for (uint32_t i = 0; order[i] != '\0'; i++)
        permutation[i] = (uint32_t)(strchr(x->letters, order[i]) - x->letters);
    return bg_transpose(e->graph, name, x->value, permutation);
}

/* Sums over the letters of x that are not in `others`. */
static void sum_alone(const einsum *e, lettered *x, const char *others)
{
    int32_t axes[BG_MAX_RANK];
    uint32_t count = 0;
    lettered left = {.letters = ""};

    for (uint32_t i = 0; x->letters[i] != '\0'; i++) {
        if (has(others, x->letters[i]))
            append(&left, x, x->letters[i]);
        else
            axes[count++] = (int32_t)i;
    }
    if (count == 0)
        return;
    left.value = bg_reduce(e->graph, NULL, BG_REDUCE_SUM, x->value, axes, count, false);
    *x = left;
}

/* Selects letters of x by whether the other operand has them and whether the result keeps them; returns the product of
 * their sizes. */
static int64_t pick(const lettered *x, const char *other, bool in_other, const char *kept, bool is_kept, char *out)
{
    int64_t product = 1;
    size_t count = 0;

    for (uint32_t i = 0; x->letters[i] != '\0'; i++)
        if (has(other, x->letters[i]) == in_other && has(kept, x->letters[i]) == is_kept) {
            out[count++] = x->letters[i];
            product *= x->dims[i];
        }
    out[count] = '\0';
    return product;
}

/* Returns x as a batch of matrices with the letters of `parts`. When x already has the last two parts in the other
 * order, x is not transposed and *out_is_exchanged is true. */
static bg_value as_matrices(const einsum *e, const lettered *x, const char *const parts[3], const int64_t sizes[3],
                            bool *out_is_exchanged)
{
    char order[3 * BG_MAX_RANK + 1], exchanged[3 * BG_MAX_RANK + 1];
    bg_value value;

    strcat(strcat(strcpy(order, parts[0]), parts[1]), parts[2]);
    strcat(strcat(strcpy(exchanged, parts[0]), parts[2]), parts[1]);
    *out_is_exchanged = strcmp(x->letters, exchanged) == 0 && strcmp(x->letters, order) != 0;
    value = *out_is_exchanged ? x->value : arrange(e, NULL, x, order);
    return bg_reshape(e->graph, NULL, value, 3,
                      (const int64_t[]){sizes[0], sizes[*out_is_exchanged ? 2 : 1], sizes[*out_is_exchanged ? 1 : 2]});
}

static bool multiply(const einsum *e, lettered *a, const lettered *b, const char *kept)
{
    char batch[BG_MAX_RANK + 1], inner[BG_MAX_RANK + 1], rows[BG_MAX_RANK + 1], columns[BG_MAX_RANK + 1];
    const int64_t batches = pick(a, b->letters, true, kept, true, batch);
    const int64_t terms = pick(a, b->letters, true, kept, false, inner);
    const int64_t height = pick(a, b->letters, false, kept, true, rows);
    const int64_t width = pick(b, a->letters, false, kept, true, columns);
    bool of_a, of_b;
    const bg_value left =
        as_matrices(e, a, (const char *const[]){batch, rows, inner}, (const int64_t[]){batches, height, terms}, &of_a);
    const bg_value right = as_matrices(e, b, (const char *const[]){batch, inner, columns},
                                       (const int64_t[]){batches, terms, width}, &of_b);
    lettered y = {.letters = ""};

    if (strlen(batch) + strlen(rows) + strlen(columns) > BG_MAX_RANK) {
        bgi_graph_fail_op(e->graph, "einsum", e->name, BG_ERROR_UNSUPPORTED,
                          "the product of `%s` and `%s` has more than %d dimensions", a->letters, b->letters,
                          BG_MAX_RANK);
        return false;
    }
    for (const char *letter = batch; *letter != '\0'; letter++)
        append(&y, a, *letter);
    for (const char *letter = rows; *letter != '\0'; letter++)
        append(&y, a, *letter);
    for (const char *letter = columns; *letter != '\0'; letter++)
        append(&y, b, *letter);
    y.value = bg_matmul(e->graph, NULL, left, right, of_a, of_b);
    y.value = bg_reshape(e->graph, NULL, y.value, (uint32_t)strlen(y.letters), y.dims);
    *a = y;
    return true;
}

/* Lists the letters of the result and of the operands from `first` on. */
static void find_kept(const einsum *e, uint32_t first, char *out)
{
    size_t count = strlen(strcpy(out, e->result));

    for (uint32_t i = first; i < e->count; i++)
        for (const char *letter = e->operands[i].letters; *letter != '\0'; letter++)
            if (!has(out, *letter)) {
                out[count++] = *letter;
                out[count] = '\0';
            }
}

bg_value bg_einsum(bg_graph *graph, const char *name, const char *equation, const bg_value *operands, uint32_t count)
{
    einsum e = {.graph = graph, .name = name, .count = count};
    char others[LETTERS], of_other[2 * LETTERS];
    bg_type type;

    if (bg_graph_check(graph, NULL) != BG_OK)
        return (bg_value){0};
    if (equation == NULL || operands == NULL || count < 1 || count > MOST_OPERANDS) {
        bgi_graph_fail_op(graph, "einsum", name, BG_ERROR_INVALID,
                          "it needs an equation and 1 to %d operands, but %u operands are given", MOST_OPERANDS, count);
        return (bg_value){0};
    }
    if (!read_equation(&e, equation) || !read_sizes(&e, operands))
        return (bg_value){0};
    for (uint32_t i = 1; i < count; i++) {
        find_kept(&e, i, others);
        sum_alone(&e, &e.operands[0], others);
        find_kept(&e, i + 1, others);
        sum_alone(&e, &e.operands[i], strcat(strcpy(of_other, others), e.operands[0].letters));
        if (!multiply(&e, &e.operands[0], &e.operands[i], others))
            return (bg_value){0};
    }
    sum_alone(&e, &e.operands[0], e.result);
    if (strcmp(e.operands[0].letters, e.result) != 0)
        return arrange(&e, name, &e.operands[0], e.result);
    type = bg_graph_type(graph, e.operands[0].value);
    return bg_reshape(graph, name, e.operands[0].value, type.rank, type.dims);
}
