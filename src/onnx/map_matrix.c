/*
 * map_matrix.c: maps matrix products. A product with a matrix [in, out] treats all rows of the other operand as one
 * matrix, so that the matrix's gradient is one product. A product with the transpose of a weight [out, in] is
 * bg_linear.
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>
#include <string.h>

/* Multiplies x [..., K] by w [K, N]. */
static bg_value times_matrix(bgi_mapper *m, bg_value x, bg_value w)
{
    const bg_type a = bgi_map_type(m, x), b = bgi_map_type(m, w);
    int64_t rows[2] = {bg_type_element_count(&a) / a.dims[a.rank - 1], a.dims[a.rank - 1]};
    int64_t dims[BG_MAX_RANK];
    bg_value y;

    y = bg_matmul(m->graph, m->name, bgi_map_reshape(m, x, 2, rows), w, false, false);
    for (uint32_t i = 0; i < a.rank; i++)
        dims[i] = i + 1 < a.rank ? a.dims[i] : b.dims[1];
    return bgi_map_reshape(m, y, a.rank, dims);
}

static bg_value product(bgi_mapper *m, bg_value a, bg_value b)
{
    const bg_type ta = bgi_map_type(m, a), tb = bgi_map_type(m, b);
    int64_t dims[BG_MAX_RANK];
    bg_value x = a, y = b;
    bg_type type;
    uint32_t rank = 0;

    if (ta.rank == 0 || tb.rank == 0) {
        bgi_map_refuse(m, "an operand is a scalar but must have at least one dimension");
        return (bg_value){0};
    }
    if (tb.rank == 2 && ta.rank > 2 && ta.dims[ta.rank - 1] == tb.dims[0])
        return times_matrix(m, a, b);
    if (ta.rank == 1)
        x = bgi_map_reshape(m, a, 2, (const int64_t[]){1, ta.dims[0]});
    if (tb.rank == 1)
        y = bgi_map_reshape(m, b, 2, (const int64_t[]){tb.dims[0], 1});
    y = bg_matmul(m->graph, m->name, x, y, false, false);
    if ((ta.rank > 1 && tb.rank > 1) || !bgi_map_is_well(m))
        return y;
    type = bgi_map_type(m, y);
    for (uint32_t i = 0; i < type.rank; i++)
        if (!(ta.rank == 1 && i + 2 == type.rank) && !(tb.rank == 1 && i + 1 == type.rank))
            dims[rank++] = type.dims[i];
    return bgi_map_reshape(m, y, rank, dims);
}

static bool map_matmul(bgi_mapper *m)
{
    const bg_value a = bgi_map_in(m, 0), weight = bgi_map_transposed(m, 1);
    bg_value b;

    if (!bg_value_is_null(a) && !bg_value_is_null(weight) && bgi_map_type(m, a).rank >= 2)
        return bgi_map_out(m, 0, bg_linear(m->graph, m->name, a, weight, (bg_value){0}));
    b = bgi_map_in(m, 1);
    if (bg_value_is_null(a) || bg_value_is_null(b))
        return bgi_map_refuse(m, "it takes two operands");
    if (!bg_dtype_is_float(bgi_map_type(m, a).dtype))
        return bgi_map_refuse(m, "its elements are %s but only floats are supported",
                              bgi_onnx_element_name(bgi_map_element(m, 0)));
    return bgi_map_out(m, 0, product(m, a, b));
}

/* Computes alpha A' B' + beta C. */
static bool map_gemm(bgi_mapper *m)
{
    const double alpha = bgi_map_real(m, "alpha", 1.0), beta = bgi_map_real(m, "beta", 1.0);
    const bool transpose_a = bgi_map_int(m, "transA", 0) != 0, transpose_b = bgi_map_int(m, "transB", 0) != 0;
    const bg_value a = bgi_map_in(m, 0), folded = bgi_map_transposed(m, 1);
    const bool is_folded = !transpose_a && !transpose_b && !bg_value_is_null(folded);
    const bg_value b = is_folded ? folded : bgi_map_in(m, 1);
    bg_value c = bgi_map_in(m, 2), y;
    bg_type type;

    if (bg_value_is_null(a) || bg_value_is_null(b))
        return bgi_map_refuse(m, "it takes at least two operands");
    type = bgi_map_type(m, c);
    if (bgi_map_type(m, a).rank != 2 || bgi_map_type(m, b).rank != 2)
        return bgi_map_refuse(m, "its operands have %u and %u dimensions but must be matrices", bgi_map_type(m, a).rank,
                              bgi_map_type(m, b).rank);
    if (!bg_dtype_is_float(bgi_map_type(m, a).dtype))
        return bgi_map_refuse(m, "its elements are %s but only floats are supported",
                              bgi_onnx_element_name(bgi_map_element(m, 0)));
    if (!transpose_a && (transpose_b || is_folded)) {
        const bool is_bias = !bg_value_is_null(c) && alpha == 1.0 && beta == 1.0 && type.rank == 1 &&
                             type.dims[0] == bgi_map_type(m, b).dims[0];

        y = bg_linear(m->graph, m->name, a, b, is_bias ? c : (bg_value){0});
        if (is_bias)
            return bgi_map_out(m, 0, y);
    } else {
        y = bg_matmul(m->graph, m->name, a, b, transpose_a, transpose_b);
    }
    if (alpha != 1.0)
        y = bg_scale(m->graph, NULL, y, alpha, 0.0);
    if (!bg_value_is_null(c)) {
        if (beta != 1.0)
            c = bg_scale(m->graph, NULL, c, beta, 0.0);
        y = bg_add(m->graph, y, c);
    }
    return bgi_map_out(m, 0, y);
}

/* Subtracts an operand's zero point in float64, which represents sums of products of 8 bits exactly. With `of_rows`, a
 * vector of zero points has one for each row, otherwise one for each column. */
static bg_value centered(bgi_mapper *m, uint32_t input, uint32_t zero_point, bool of_rows)
{
    bg_value x = bgi_map_cast(m, bgi_map_in(m, input), BG_FLOAT64);
    bg_value zero = bgi_map_cast(m, bgi_map_in(m, zero_point), BG_FLOAT64);
    const bg_type type = bgi_map_type(m, zero);

    if (bg_value_is_null(zero))
        return x;
    if (of_rows && type.rank == 1)
        zero = bgi_map_reshape(m, zero, 2, (const int64_t[]){type.dims[0], 1});
    return bg_subtract(m->graph, x, zero);
}

static bool map_matmul_integer(bgi_mapper *m)
{
    const bg_value a = centered(m, 0, 2, true), b = centered(m, 1, 3, false);

    if (bg_value_is_null(a) || bg_value_is_null(b))
        return bgi_map_refuse(m, "it takes two operands");
    return bgi_map_out_as(m, 0, bgi_map_cast(m, product(m, a, b), BG_INT32), BGI_ONNX_INT32);
}

/* ---- Einsum ---- */

enum { EINSUM_LETTERS = 58, EINSUM_OPERANDS = 16 };

typedef struct term {
    char letters[BG_MAX_RANK + 1];
    uint32_t rank;
} term;

static bool has_letter(const term *t, char c, uint32_t *place)
{
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->letters[i] == c) {
            *place = i;
            return true;
        }
    return false;
}

/* The dimensions of "..." have separate letters, counted from the last one, so that operands agree on them. */
static const char ellipsis[BG_MAX_RANK] = {'6', '5', '4', '3', '2', '1'};

/* Reads a term. `dots`: the number of dimensions of "..."; UINT32_MAX: all dimensions of the operand's `rank` without a
 * letter. */
static bool read_term(bgi_mapper *m, const char **at, const char *end, uint32_t rank, uint32_t dots, term *out)
{
    const char *from = *at;
    uint32_t letters = 0;

    *out = (term){0};
    for (; *at < end && **at != ',' && **at != '-'; ++*at)
        letters += **at != ' ' && **at != '.';
    if (dots == UINT32_MAX)
        dots = rank >= letters ? rank - letters : 0;
    for (uint32_t place = 0; from < *at; from++) {
        const char c = *from;

        if (c == ' ')
            continue;
        if (c == '.' && *at - from >= 3 && from[1] == '.' && from[2] == '.' && !has_letter(out, '1', &place) &&
            out->rank + dots <= BG_MAX_RANK) {
            memcpy(&out->letters[out->rank], &ellipsis[BG_MAX_RANK - dots], dots);
            out->rank += dots;
            from += 2;
            continue;
        }
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) || out->rank == BG_MAX_RANK)
            return bgi_map_refuse(m, "attribute `equation` has `%c`, or more than %d letters in a term", c,
                                  BG_MAX_RANK);
        if (has_letter(out, c, &place))
            return bgi_map_refuse(m, "attribute `equation` has `%c` twice in a term", c);
        out->letters[out->rank++] = c;
    }
    return true;
}

/* Sums the dimensions of x that `letters` lacks, and puts the others in the order of `letters`. */
static bg_value arrange(bgi_mapper *m, bg_value x, const term *has, const char *letters, uint32_t count)
{
    uint32_t permutation[BG_MAX_RANK], kept_count = 0;
    int32_t summed[BG_MAX_RANK];
    uint32_t summed_count = 0;
    term kept = {0};

    for (uint32_t i = 0; i < has->rank; i++) {
        bool is_kept = false;

        for (uint32_t k = 0; k < count; k++)
            is_kept = is_kept || letters[k] == has->letters[i];
        if (is_kept)
            kept.letters[kept_count++] = has->letters[i];
        else
            summed[summed_count++] = (int32_t)i;
    }
    kept.rank = kept_count;
    if (summed_count > 0)
        x = bg_reduce(m->graph, NULL, BG_REDUCE_SUM, x, summed, summed_count, false);
    for (uint32_t k = 0; k < count; k++)
        has_letter(&kept, letters[k], &permutation[k]);
    return count > 1 ? bg_transpose(m->graph, NULL, x, permutation) : x;
}

/* Selects the letters of `from` whose membership in `a` and `out` is as requested. */
static uint32_t choose(const term *from, const term *a, bool in_a, const term *out, bool in_out, char *letters)
{
    uint32_t count = 0, place;

    for (uint32_t i = 0; i < from->rank; i++)
        if (has_letter(a, from->letters[i], &place) == in_a && has_letter(out, from->letters[i], &place) == in_out)
            letters[count++] = from->letters[i];
    return count;
}

static int64_t size_of(const bg_type *type, const term *t, const char *letters, uint32_t count)
{
    int64_t size = 1;
    uint32_t place;

    for (uint32_t i = 0; i < count; i++)
        if (has_letter(t, letters[i], &place))
            size *= type->dims[place];
    return size;
}

/* Contracts two operands to the letters of `out`, as a batch of matrix products over the letters that all three terms
 * have. */
static bg_value contract(bgi_mapper *m, const term *terms, const bg_value *operands, const term *out)
{
    const bg_type ta = bgi_map_type(m, operands[0]), tb = bgi_map_type(m, operands[1]);
    char batch[BG_MAX_RANK], summed[BG_MAX_RANK], rows[BG_MAX_RANK], columns[BG_MAX_RANK], order[3 * BG_MAX_RANK];
    const uint32_t batch_count = choose(&terms[0], &terms[1], true, out, true, batch);
    const uint32_t summed_count = choose(&terms[0], &terms[1], true, out, false, summed);
    const uint32_t row_count = choose(&terms[0], &terms[1], false, out, true, rows);
    const uint32_t column_count = choose(&terms[1], &terms[0], false, out, true, columns);
    const int64_t batches = size_of(&ta, &terms[0], batch, batch_count);
    int64_t dims[3] = {batches, size_of(&ta, &terms[0], rows, row_count),
                       size_of(&ta, &terms[0], summed, summed_count)};
    term made = {0};
    int64_t made_dims[BG_MAX_RANK];
    uint32_t count = 0, place, permutation[BG_MAX_RANK];
    bg_value a, b, y;

    for (uint32_t i = 0; i < terms[0].rank; i++)
        if (has_letter(&terms[1], terms[0].letters[i], &place) && ta.dims[i] != tb.dims[place]) {
            bgi_map_refuse(m, "attribute `equation`: a letter stands for %" PRId64 " and for %" PRId64, ta.dims[i],
                           tb.dims[place]);
            return (bg_value){0};
        }
    if (batch_count + row_count + column_count != out->rank || out->rank > BG_MAX_RANK) {
        bgi_map_refuse(m, "attribute `equation`: a letter of the result is in no term");
        return (bg_value){0};
    }
    for (uint32_t i = 0; i < batch_count; i++)
        order[count++] = batch[i];
    for (uint32_t i = 0; i < row_count; i++)
        order[count++] = rows[i];
    for (uint32_t i = 0; i < summed_count; i++)
        order[count++] = summed[i];
    a = bgi_map_reshape(m, arrange(m, operands[0], &terms[0], order, count), 3, dims);
    count = batch_count;
    for (uint32_t i = 0; i < summed_count; i++)
        order[count++] = summed[i];
    for (uint32_t i = 0; i < column_count; i++)
        order[count++] = columns[i];
    dims[1] = dims[2];
    dims[2] = size_of(&tb, &terms[1], columns, column_count);
    b = bgi_map_reshape(m, arrange(m, operands[1], &terms[1], order, count), 3, dims);
    y = bg_matmul(m->graph, m->name, a, b, false, false);
    for (uint32_t i = 0; i < batch_count; i++)
        made.letters[made.rank++] = batch[i];
    for (uint32_t i = 0; i < row_count; i++)
        made.letters[made.rank++] = rows[i];
    for (uint32_t i = 0; i < column_count; i++)
        made.letters[made.rank++] = columns[i];
    for (uint32_t i = 0; i < made.rank; i++)
        made_dims[i] = has_letter(&terms[0], made.letters[i], &place)   ? ta.dims[place]
                       : has_letter(&terms[1], made.letters[i], &place) ? tb.dims[place]
                                                                        : 1;
    y = bgi_map_reshape(m, y, made.rank, made_dims);
    for (uint32_t i = 0; i < out->rank; i++)
        if (!has_letter(&made, out->letters[i], &permutation[i]))
            return (bg_value){0};
    return out->rank > 1 ? bg_transpose(m->graph, NULL, y, permutation) : y;
}

/* Finds the result without "->": the dimensions of "...", then the letters that occur once, in alphabetical order. */
static void implied(const term *terms, uint32_t count, term *out)
{
    static const char letters[] = "654321ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    *out = (term){0};
    for (uint32_t i = 0; i < EINSUM_LETTERS; i++) {
        uint32_t times = 0, place;

        for (uint32_t k = 0; k < count; k++)
            times += has_letter(&terms[k], letters[i], &place);
        if ((times == 1 || (times > 0 && letters[i] <= '9')) && out->rank < BG_MAX_RANK)
            out->letters[out->rank++] = letters[i];
    }
}

/* Reads the equation up to "->", and its result. */
static bool read_equation(bgi_mapper *m, const bg_value *operands, term *terms, term *out)
{
    const BgiOnnx__Attribute *equation = bgi_map_attribute(m, "equation");
    const char *at, *end;
    uint32_t count = 0, place, dots = 0;

    if (equation == NULL || !equation->has_s)
        return bgi_map_refuse(m, "attribute `equation` is missing");
    at = (const char *)equation->s.data;
    end = at + equation->s.len;
    do {
        uint32_t rank;

        if (count == m->input_count)
            return bgi_map_refuse(m, "attribute `equation` has more terms than there are operands");
        rank = bgi_map_type(m, operands[count]).rank;
        if (!read_term(m, &at, end, rank, UINT32_MAX, &terms[count]))
            return false;
        if (terms[count].rank != rank)
            return bgi_map_refuse(m, "attribute `equation`: term %u has %u letters but its operand has %u dimensions",
                                  count, terms[count].rank, rank);
        for (uint32_t i = 0; i < BG_MAX_RANK; i++)
            if (has_letter(&terms[count], ellipsis[i], &place) && BG_MAX_RANK - i > dots)
                dots = BG_MAX_RANK - i;
        count++;
    } while (at < end && *at == ',' && ++at <= end);
    if (count != m->input_count)
        return bgi_map_refuse(m, "attribute `equation` has fewer terms than there are operands");
    if (at == end) {
        implied(terms, count, out);
        return true;
    }
    if (end - at < 2 || at[0] != '-' || at[1] != '>')
        return bgi_map_refuse(m, "attribute `equation` must have \"->\"");
    at += 2;
    if (!read_term(m, &at, end, 0, dots, out) || at != end)
        return bgi_map_refuse(m, "attribute `equation` has more text after the result");
    return true;
}

/* Sets `kept` to the letters of two terms that the result or a later term has. Returns false if there are too many. */
static bool keep_letters(const term *terms, const term *later, uint32_t later_count, const term *out, term *kept)
{
    uint32_t place;

    *kept = (term){0};
    for (uint32_t t = 0; t < 2; t++)
        for (uint32_t i = 0; i < terms[t].rank; i++) {
            const char c = terms[t].letters[i];
            bool is_wanted = has_letter(out, c, &place);

            for (uint32_t k = 0; k < later_count; k++)
                is_wanted = is_wanted || has_letter(&later[k], c, &place);
            if (!is_wanted || has_letter(kept, c, &place))
                continue;
            if (kept->rank == BG_MAX_RANK)
                return false;
            kept->letters[kept->rank++] = c;
        }
    return true;
}

/* Multiplies several operands one after another, from the left. */
static bool map_einsum(bgi_mapper *m)
{
    term terms[EINSUM_OPERANDS], out, pair[2];
    bg_value operands[EINSUM_OPERANDS], both[2];

    if (m->input_count < 1 || m->input_count > EINSUM_OPERANDS)
        return bgi_map_refuse(m, "it has %u operands but 1 to %d are supported", m->input_count, EINSUM_OPERANDS);
    for (uint32_t i = 0; i < m->input_count; i++) {
        operands[i] = bgi_map_in(m, i);
        if (bg_value_is_null(operands[i]))
            return bgi_map_refuse(m, "operand %u is missing", i);
    }
    if (!read_equation(m, operands, terms, &out))
        return false;
    pair[0] = terms[0];
    both[0] = operands[0];
    for (uint32_t i = 1; i < m->input_count; i++) {
        term made = out;

        pair[1] = terms[i];
        both[1] = operands[i];
        if (i + 1 < m->input_count && !keep_letters(pair, &terms[i + 1], m->input_count - i - 1, &out, &made))
            return bgi_map_refuse(m, "the product of two operands has more than %d dimensions", BG_MAX_RANK);
        both[0] = contract(m, pair, both, &made);
        pair[0] = made;
        if (bg_value_is_null(both[0]))
            return bgi_map_is_well(m) &&
                   bgi_map_refuse(m, "attribute `equation`: the product of two operands is not supported");
    }
    if (m->input_count > 1)
        return bgi_map_out(m, 0, both[0]);
    for (uint32_t i = 0, place; i < out.rank; i++)
        if (!has_letter(&terms[0], out.letters[i], &place))
            return bgi_map_refuse(m, "attribute `equation`: a letter of the result is in no term");
    return bgi_map_out(m, 0, arrange(m, operands[0], &terms[0], out.letters, out.rank));
}

const bgi_mapping bgi_onnx_matrix[] = {
    {"Einsum", map_einsum, 0},
    {"Gemm", map_gemm, 0},
    {"MatMul", map_matmul, 0},
    {"MatMulInteger", map_matmul_integer, 0},
    {0},
};
