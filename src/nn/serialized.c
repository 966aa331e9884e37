/*
 * serialized.c: builds an embedding, a linear layer and an output layer whose weights are cut into pieces, so that each
 * step needs less scratch memory, or the pieces can be on several devices. Results are those of the plain layers,
 * except that BG_SERIALIZE_REDUCING_DIM adds in another order. Two functions split a plain layer's weight into pieces
 * and join the pieces.
 *
 *     embedding    rows [0, V) = [0, V/f) + [V/f, 2V/f) + ...  a look-up in each piece; ids of other pieces read 0
 *     linear       one weight, f products over parts of it
 *     projection   f weights, f products, concatenated or added
 */
#include <brigade/nn.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"

enum { NAME_BYTES = 256, PIECE_LIMIT = 4096, CONCAT_LIMIT = 60 };

static const bg_value none = {0};

static bool can_build(bg_graph *graph, const char *layer, const char *name, bg_value x)
{
    if (bg_graph_check(graph, NULL) != BG_OK)
        return false;
    if (name == NULL || name[0] == '\0' || strlen(name) > NAME_BYTES - 64)
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "%s layer: its name is missing or too long; give one of at most %d bytes", layer,
                      NAME_BYTES - 64);
    else if (bg_value_is_null(x))
        bg_graph_fail(
            graph, BG_ERROR_INVALID,
            "%s layer `%s`: the input is the null value, which the op before it returns when it has no output", layer,
            name);
    else
        return true;
    return false;
}

/* Returns whether `size` can be cut into `factor` equal pieces; otherwise records an error in the graph. */
static bool can_cut(bg_graph *graph, const char *layer, const char *name, const char *what, int64_t size,
                    uint32_t factor)
{
    if (factor >= 1 && factor <= PIECE_LIMIT && size >= 1 && size % factor == 0)
        return true;
    bg_graph_fail(graph, BG_ERROR_INVALID,
                  "%s layer `%s`: %lld %s cannot be cut into %u equal pieces; the factor must divide them", layer, name,
                  (long long)size, what, factor);
    return false;
}

static bg_value as_dtype(bg_graph *graph, bg_value value, bg_dtype dtype)
{
    return bg_value_is_null(value) || bg_graph_type(graph, value).dtype == dtype ? value
                                                                                 : bg_cast(graph, NULL, value, dtype);
}

/* Adds piece `piece` of `layer.weight`; a single piece is the whole parameter. */
static bg_value add_piece(bg_graph *graph, const char *layer, const char *suffix, bg_type whole, uint32_t axis,
                          uint32_t piece, uint32_t factor, bg_initializer initializer)
{
    char name[NAME_BYTES], whole_name[NAME_BYTES];
    const bg_section section = {.name = whole_name,
                                .whole = whole,
                                .axis = axis,
                                .first = (int64_t)piece * (whole.dims[axis] / factor),
                                .count = whole.dims[axis] / factor};

    snprintf(whole_name, sizeof whole_name, "%s.weight", layer);
    snprintf(name, sizeof name, "%s.%s.%u.weight", layer, suffix, piece);
    if (factor == 1)
        return bg_graph_parameter(graph, whole_name, &whole, &initializer);
    return bg_graph_section_parameter(graph, name, &section, &initializer);
}

static bg_value add_parameter(bg_graph *graph, const char *layer, const char *suffix, bg_type type,
                              bg_initializer initializer)
{
    char name[NAME_BYTES];

    snprintf(name, sizeof name, "%s.%s", layer, suffix);
    return bg_graph_parameter(graph, name, &type, &initializer);
}

static bg_initializer uniform(int64_t fan_in)
{
    const double bound = 1.0 / sqrt((double)fan_in);

    return (bg_initializer){.kind = BG_INITIALIZE_UNIFORM, .a = -bound, .b = bound};
}

/* ---- places ---- */

/* Makes a block's name: "Embedding-0-2" for three pieces, "Embedding-3" for one. */
bool bg_split_block_name(const bg_split_placement *placement, const char *kind, uint32_t device,
                         char out_name[BG_SPLIT_BLOCK_BYTES])
{
    long long first = 0, last;

    out_name[0] = '\0';
    if (device >= placement->device_count || placement->splits[device] < 1)
        return false;
    for (uint32_t d = 0; d < device; d++)
        first += placement->splits[d];
    last = first + placement->splits[device] - 1;
    if (first == last)
        snprintf(out_name, BG_SPLIT_BLOCK_BYTES, "%s-%lld", kind, first);
    else
        snprintf(out_name, BG_SPLIT_BLOCK_BYTES, "%s-%lld-%lld", kind, first, last);
    return true;
}

/* Begins a device's block if `piece` is the first piece on the device. */
static void start_block(bg_graph *graph, const char *kind, const bg_split_placement *placement, uint32_t piece)
{
    char name[BG_SPLIT_BLOCK_BYTES];
    int64_t first = 0;

    for (uint32_t d = 0; placement != NULL && d < placement->device_count; first += placement->splits[d++])
        if (first == (int64_t)piece && bg_split_block_name(placement, kind, d, name))
            bg_block_start(graph, name, d);
}

/* Checks the placement and sets *factor to its number of pieces. Without a placement, *factor does not change. */
static bool count_pieces(bg_graph *graph, const char *layer, const char *name, const bg_split_placement *placement,
                         uint32_t *factor)
{
    int64_t sum = 0;
    bool is_done = false, is_gap = false;

    if (placement == NULL)
        return true;
    if (placement->splits == NULL && placement->device_count > 0) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "%s layer `%s`: splits is NULL, but there are %u devices", layer, name,
                      placement->device_count);
        return false;
    }
    for (uint32_t d = 0; d < placement->device_count; d++) {
        const int64_t splits = placement->splits[d];
        is_gap = is_gap || splits < 0 || splits > PIECE_LIMIT || (splits > 0 && is_done);
        is_done = is_done || (splits == 0 && sum > 0);
        sum += splits;
    }
    if (is_gap || sum < 1 || sum > PIECE_LIMIT || (*factor != 0 && (int64_t)*factor != sum)) {
        bg_graph_fail(
            graph, BG_ERROR_INVALID,
            "%s layer `%s`: the splits must be 0 or more, on consecutive devices, and make the %u pieces asked "
            "for (0: any number from 1 to %d); their sum is %lld",
            layer, name, *factor, PIECE_LIMIT, (long long)sum);
        return false;
    }
    *factor = (uint32_t)sum;
    return true;
}

/* ---- embedding ---- */

/* Converts ids to rows of the piece that begins at `first`, through float64, which represents every int32. */
static bg_value shift_ids(bg_graph *graph, bg_value ids, int64_t first)
{
    if (first == 0)
        return ids;
    return bg_cast(graph, NULL, bg_scale(graph, NULL, bg_cast(graph, NULL, ids, BG_FLOAT64), 1.0, -(double)first),
                   BG_INT32);
}

bg_value bg_serialized_embedding_layer(bg_graph *graph, const char *name, bg_value ids, int64_t row_count,
                                       int64_t width, int64_t padding_index, bg_dtype dtype, uint32_t factor,
                                       const bg_split_placement *placement)
{
    int64_t rows;
    bg_value sum = none;

    if (!can_build(graph, "serialized embedding", name, ids) ||
        !count_pieces(graph, "serialized embedding", name, placement, &factor) ||
        !can_cut(graph, "serialized embedding", name, "rows", row_count, factor))
        return none;
    if (width < 1 || padding_index < -1 || padding_index >= row_count) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "serialized embedding layer `%s`: width is %lld and padding_index is %lld; the width must be at "
                      "least 1, and the index must be -1 (none) or one of %lld rows",
                      name, (long long)width, (long long)padding_index, (long long)row_count);
        return none;
    }
    rows = row_count / factor;
    for (uint32_t i = 0; i < factor; i++) {
        const bool has_padding = padding_index >= 0 && padding_index / rows == (int64_t)i;
        bg_value table, y;
        start_block(graph, "Embedding", placement, i);
        table = add_piece(graph, name, "split_embeddings", bg_matrix(BG_FLOAT32, row_count, width), 0, i, factor,
                          (bg_initializer){.kind = BG_INITIALIZE_NORMAL, .a = 0.0, .b = 1.0});
        y = bg_embedding(graph, name, table, shift_ids(graph, ids, (int64_t)i * rows),
                         has_padding ? padding_index % rows : -1);
        y = as_dtype(graph, y, dtype);
        sum = i == 0 ? y : bg_add(graph, sum, y);
    }
    return sum;
}

/* ---- linear ---- */

/* Concatenates `joined` and the parts once there are many parts, or at the last part, because an op has a limited
 * number of operands. Returns the result, or `joined` if nothing is concatenated yet. */
static bg_value join(bg_graph *graph, bg_value joined, bg_value *parts, uint32_t *count, bool is_last, int32_t axis)
{
    if (*count < CONCAT_LIMIT - 2 && !is_last)
        return joined;
    if (!bg_value_is_null(joined)) {
        memmove(parts + 1, parts, *count * sizeof *parts);
        parts[0] = joined;
        ++*count;
    }
    joined = *count == 1 ? parts[0] : bg_concat(graph, NULL, parts, *count, axis);
    *count = 0;
    return joined;
}

static bg_value cut(bg_graph *graph, bg_value x, int32_t axis, int64_t size, uint32_t i)
{
    return bg_slice(graph, NULL, x, axis, (int64_t)i * size, (int64_t)(i + 1) * size, 1);
}

static bg_value multiply_pieces(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_serialize_mode mode,
                                uint32_t factor, int64_t size)
{
    bg_value parts[CONCAT_LIMIT], y = none;
    uint32_t count = 0;

    for (uint32_t i = 0; i < factor; i++) {
        const bg_value a = mode == BG_SERIALIZE_OUTPUT_CHANNELS ? x
                           : mode == BG_SERIALIZE_REDUCING_DIM  ? cut(graph, x, 1, size, i)
                                                                : cut(graph, x, 0, size, i);
        const bg_value w = mode == BG_SERIALIZE_OUTPUT_CHANNELS ? cut(graph, weight, 0, size, i)
                           : mode == BG_SERIALIZE_REDUCING_DIM  ? cut(graph, weight, 1, size, i)
                                                                : weight;
        const bg_value part = bg_linear(graph, name, a, w, none);
        if (mode == BG_SERIALIZE_REDUCING_DIM) {
            y = i == 0 ? part : bg_add(graph, y, part);
        } else {
            parts[count++] = part;
            y = join(graph, y, parts, &count, i + 1 == factor, mode == BG_SERIALIZE_OUTPUT_CHANNELS ? 1 : 0);
        }
    }
    return y;
}

/* Reshapes [..., in] to [rows, in]. */
static bg_value as_matrix(bg_graph *graph, bg_value x, int64_t *out_rows, int64_t *out_width)
{
    const bg_type type = bg_graph_type(graph, x);

    *out_width = type.rank > 0 ? type.dims[type.rank - 1] : 1;
    *out_rows = bg_type_element_count(&type) / (*out_width > 0 ? *out_width : 1);
    return type.rank == 2 ? x : bg_reshape(graph, NULL, x, 2, (int64_t[]){*out_rows, *out_width});
}

static bg_value finish(bg_graph *graph, bg_value y, bg_value bias, bg_type x_type, int64_t out_features)
{
    if (!bg_value_is_null(bias))
        y = bg_add(graph, y, as_dtype(graph, bias, x_type.dtype));
    x_type.dims[x_type.rank - 1] = out_features;
    return x_type.rank == 2 ? y : bg_reshape(graph, NULL, y, x_type.rank, x_type.dims);
}

bg_value bg_serialized_linear(bg_graph *graph, const char *name, bg_value x, bg_value weight, bg_value bias,
                              bg_serialize_mode mode, uint32_t factor)
{
    bg_type x_type, weight_type;
    int64_t rows, width, size;
    bg_value matrix;

    if (!can_build(graph, "serialized linear", name, x) || !can_build(graph, "serialized linear", name, weight))
        return none;
    x_type = bg_graph_type(graph, x);
    weight_type = bg_graph_type(graph, weight);
    if (mode == BG_SERIALIZE_NONE || x_type.rank < 1 || weight_type.rank != 2)
        return bg_linear(graph, name, x, weight, bias);
    if ((unsigned)mode > BG_SERIALIZE_OUTPUT_CHANNELS) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "serialized linear layer `%s`: mode %d is not one of bg_serialize_mode",
                      name, (int)mode);
        return none;
    }
    matrix = as_matrix(graph, x, &rows, &width);
    size = mode == BG_SERIALIZE_INPUT_CHANNELS ? rows : mode == BG_SERIALIZE_REDUCING_DIM ? width : weight_type.dims[0];
    if (!can_cut(graph, "serialized linear", name,
                 mode == BG_SERIALIZE_INPUT_CHANNELS ? "rows of the input"
                 : mode == BG_SERIALIZE_REDUCING_DIM ? "input features"
                                                     : "output features",
                 size, factor))
        return none;
    if (factor == 1)
        return bg_linear(graph, name, x, weight, bias);
    return finish(graph, multiply_pieces(graph, name, matrix, weight, mode, factor, size / factor), bias, x_type,
                  weight_type.dims[0]);
}

bg_value bg_serialized_linear_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_features, bool bias,
                                    bg_serialize_mode mode, uint32_t factor)
{
    bg_value weight, offset = none;
    bg_type type;

    if (!can_build(graph, "serialized linear", name, x) ||
        !can_cut(graph, "serialized linear", name, "output features", out_features, 1))
        return none;
    type = bg_graph_type(graph, x);
    if (type.rank < 1) {
        bg_graph_fail(graph, BG_ERROR_SHAPE,
                      "serialized linear layer `%s`: the input is a scalar; it must be [..., in]", name);
        return none;
    }
    weight = add_parameter(graph, name, "weight", bg_matrix(BG_FLOAT32, out_features, type.dims[type.rank - 1]),
                           uniform(type.dims[type.rank - 1]));
    if (bias)
        offset =
            add_parameter(graph, name, "bias", bg_vector(BG_FLOAT32, out_features), uniform(type.dims[type.rank - 1]));
    return bg_serialized_linear(graph, name, x, as_dtype(graph, weight, type.dtype),
                                as_dtype(graph, offset, type.dtype), mode, factor);
}

/* ---- projection ---- */

bg_value bg_split_projection_layer(bg_graph *graph, const char *name, bg_value x, int64_t out_features, bool bias,
                                   bg_serialize_mode mode, uint32_t factor, const bg_split_placement *placement)
{
    const bool is_reduced = mode == BG_SERIALIZE_REDUCING_DIM;
    bg_value parts[CONCAT_LIMIT], matrix = none, y = none, offset = none;
    uint32_t count = 0;
    int64_t rows, width, size;
    bg_type type;

    if (!can_build(graph, "split projection", name, x) ||
        !count_pieces(graph, "split projection", name, placement, &factor))
        return none;
    type = bg_graph_type(graph, x);
    if (type.rank < 1 || (!is_reduced && mode != BG_SERIALIZE_OUTPUT_CHANNELS)) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "split projection layer `%s`: mode must be output channels or the reducing dimension, and the "
                      "input must be [..., in]",
                      name);
        return none;
    }
    width = type.dims[type.rank - 1];
    if (!can_cut(graph, "split projection", name, is_reduced ? "input features" : "output features",
                 is_reduced ? width : out_features, factor) ||
        !can_cut(graph, "split projection", name, "output features", out_features, 1))
        return none;
    size = (is_reduced ? width : out_features) / factor;
    for (uint32_t i = 0; i < factor; i++) {
        bg_value weight;
        start_block(graph, "Linear", placement, i);
        if (i == 0) /* in the first piece's block, because there may be no block before it */
            matrix = as_matrix(graph, x, &rows, &width);
        weight = add_piece(graph, name, "split_linear_layers", bg_matrix(BG_FLOAT32, out_features, width), is_reduced,
                           i, factor, uniform(width));
        parts[count++] = bg_linear(graph, name, is_reduced ? cut(graph, matrix, 1, size, i) : matrix,
                                   as_dtype(graph, weight, type.dtype), none);
        if (is_reduced) {
            y = i == 0 ? parts[0] : bg_add(graph, y, parts[0]);
            count = 0;
        } else {
            y = join(graph, y, parts, &count, i + 1 == factor, 1);
        }
    }
    if (bias)
        offset = add_parameter(graph, name, "bias", bg_vector(BG_FLOAT32, out_features), uniform(width));
    return finish(graph, y, offset, type, out_features);
}

/* ---- weights ---- */

/* Copies a plain weight to its pieces if `to_pieces`, otherwise the pieces to the plain weight. Pieces of rows are
 * contiguous in memory; pieces of columns are strips of each row. */
static bg_status move_pieces(void *plain, void *const *pieces, const bg_type *type, uint32_t axis, uint32_t factor,
                             bool to_pieces, bg_error *error)
{
    size_t outer, inner;

    if (type->rank != 2 || axis > 1 || factor < 1 || type->dims[axis] % factor != 0)
        return bg_error_set(error, BG_ERROR_SHAPE,
                            "the weight has rank %u and is to be cut along dimension %u into %u parts; it must be a "
                            "matrix, and the number of parts must divide the dimension",
                            type->rank, axis, factor);
    for (uint32_t i = 0; i < factor; i++)
        if (pieces[i] == NULL)
            return bg_error_set(error, BG_ERROR_INVALID, "piece %u of the %u pieces of a weight is NULL", i, factor);
    outer = axis == 0 ? 1 : (size_t)type->dims[0];
    inner = bg_type_size_bytes(type) / outer / factor;
    for (size_t row = 0; row < outer; row++)
        for (uint32_t i = 0; i < factor; i++) {
            unsigned char *whole = (unsigned char *)plain + (row * factor + i) * inner;
            unsigned char *piece = (unsigned char *)pieces[i] + row * inner;
            memcpy(to_pieces ? piece : whole, to_pieces ? whole : piece, inner);
        }
    return BG_OK;
}

bg_status bg_serialized_weight_cut(const void *plain, const bg_type *type, uint32_t axis, uint32_t factor,
                                   void *const *out_pieces, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(type, "type", __func__, error));
    BGI_TRY(bgi_require(out_pieces, "out_pieces", __func__, error));
    BGI_TRY(bgi_require(plain, "plain", __func__, error));
    return move_pieces((void *)(uintptr_t)plain, out_pieces, type, axis, factor, true, error);
}

bg_status bg_serialized_weight_join(const void *const *pieces, const bg_type *type, uint32_t axis, uint32_t factor,
                                    void *out_plain, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(type, "type", __func__, error));
    BGI_TRY(bgi_require(out_plain, "out_plain", __func__, error));
    BGI_TRY(bgi_require(pieces, "pieces", __func__, error));
    return move_pieces(out_plain, (void *const *)(uintptr_t)pieces, type, axis, factor, false, error);
}
