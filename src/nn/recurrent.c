/*
 * recurrent.c: builds LSTM, GRU and plain recurrent modules of several layers in one or two directions, with the
 * parameters of PyTorch's modules. A layer in one direction is one product of the inputs of all steps, and one
 * recurrence, or several recurrences over consecutive runs of steps.
 *
 *     x --linear--> gates --recurrence--> states     forward  \
 *     x --linear--> gates --recurrence--> states     backward / side by side: the next layer's x
 *
 * If samples have lengths, every recurrence runs forward in time: the backward direction reads samples reversed within
 * their lengths, and reverses the resulting states.
 */
#include "nn/layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/error.h"
#include "graph/graph.h"

enum { NAME_BYTES = 256, SUFFIX_BYTES = 64, MOST_STATES = 60 };

/* The common settings of all layers and directions. */
typedef struct recurrent_layers {
    bg_graph *graph;
    const char *kind, *name; /* `kind` is the layer's name in messages, and `name` the prefix of its parameters */
    int64_t gates;           /* 4 for LSTM, 3 for GRU, 1 for RNN */
    int64_t width, samples, directions;
    bg_recurrent_options options;
    bg_dtype dtype;
    bg_value first[2]; /* h0, c0 [layers x directions, N, H]; null: zeros */
    bg_value zeros;
    bg_value last[2][MOST_STATES]; /* of each direction: with lengths the final state [1, N, H], otherwise the states
                                      from which find_last takes it */
    uint32_t last_count;
    /* The following values are used only with lengths. Time and samples are one dimension of T N steps, in x's
     * order. */
    bg_value rows[2]; /* int32 [T N]: index of the step to read at each position, forward or reversed; T N in padding */
    bg_value last_rows; /* int32 [N]: index of the last step in forward order */
    bg_value has_steps; /* uint8 [N, 1] */
} recurrent_layers;

void bg_recurrent_options_init(bg_recurrent_options *options, size_t struct_bytes)
{
    const bg_recurrent_options made = {.struct_bytes = struct_bytes, .layers = 1, .bias = true};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* Adds the parameter NAME.WHAT_lN or NAME.WHAT_lN_reverse of layer N; its initial values are uniform in
 * +-1/sqrt(width). */
static bg_value add_parameter(recurrent_layers *l, const char *what, int64_t layer, bool reverse, bg_type type)
{
    const double bound = 1.0 / sqrt((double)l->width);
    const bg_initializer initializer = {.kind = BG_INITIALIZE_UNIFORM, .a = -bound, .b = bound};
    const bg_shard whole = {.whole = type};
    char suffix[SUFFIX_BYTES];

    snprintf(suffix, sizeof suffix, "%s_l%lld%s", what, (long long)layer, reverse ? "_reverse" : "");
    return bgi_layer_cast(
        l->graph, bgi_layer_variable(l->graph, l->name, suffix, &whole, BG_ROLE_PARAMETER, &initializer), l->dtype);
}

/* Returns the initial state `which` (0: h, 1: c) of direction `number`, counted over layers and directions. */
static bg_value find_first(recurrent_layers *l, int which, int64_t number)
{
    const int64_t dims[] = {l->samples, l->width};
    const bg_type scalar = bg_matrix(BG_FLOAT32, 1, 1);
    const float zero = 0.0f;
    bg_value state = l->first[which];

    if (!bg_value_is_null(state))
        return bg_reshape(l->graph, NULL, bg_slice(l->graph, NULL, state, 0, number, number + 1, 1), 2, dims);
    if (bg_value_is_null(l->zeros)) {
        char name[NAME_BYTES];

        snprintf(name, sizeof name, "%.200s.zeros", l->name);
        l->zeros = bgi_layer_cast(l->graph, bg_graph_constant(l->graph, name, &scalar, &zero), l->dtype);
    }
    return bg_broadcast(l->graph, NULL, l->zeros, 2, dims);
}

/* ---- samples of different lengths ---- */

static bool has_lengths(const recurrent_layers *l)
{
    return !bg_value_is_null(l->options.lengths);
}

/* Adds a constant int32 [rows, columns]: 0, factor, 2 factor, ... */
static bg_value add_numbers(recurrent_layers *l, int64_t rows, int64_t columns, int64_t factor)
{
    const bg_type type = bg_matrix(BG_INT32, rows, columns);
    int32_t *data = calloc((size_t)(rows * columns), sizeof *data);
    bg_value numbers = {0};

    if (data == NULL) {
        bg_graph_fail(l->graph, BG_ERROR_MEMORY, "out of memory for %lld numbers", (long long)(rows * columns));
        return numbers;
    }
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] = (int32_t)(i * factor);
    numbers = bg_graph_constant(l->graph, "numbers", &type, data);
    free(data);
    return numbers;
}

static bg_value add_number(recurrent_layers *l, int64_t number)
{
    const bg_type type = bg_matrix(BG_INT32, 1, 1);
    const int32_t value = (int32_t)number;

    return bg_graph_constant(l->graph, "number", &type, &value);
}

/* Returns the row of step `steps` - 1 of each sample: (steps - 1) x `distance` + the sample's first row. */
static bg_value find_row(recurrent_layers *l, bg_value steps, int64_t distance, bg_value sample)
{
    return bg_add(l->graph, bg_scale(l->graph, NULL, steps, (double)distance, -(double)distance), sample);
}

/* Fills rows, last_rows and has_steps. Matrices are [T, N], or [N, T] if samples come first. */
static void read_lengths(recurrent_layers *l, int64_t steps)
{
    bg_graph *g = l->graph;
    const bool first = l->options.batch_first;
    const int64_t distance = first ? 1 : l->samples, all = steps * l->samples, column[] = {l->samples, 1};
    const int64_t dims[] = {first ? l->samples : 1, first ? 1 : l->samples};
    const bg_value place = first ? add_numbers(l, 1, steps, 1) : add_numbers(l, steps, 1, 1);
    const bg_value sample = add_numbers(l, dims[0], dims[1], first ? steps : 1);
    const bg_value longest = add_number(l, steps), outside = add_number(l, all), one = add_number(l, 1);
    bg_value lengths = bg_reshape(g, NULL, bg_cast(g, NULL, l->options.lengths, BG_INT32), 2, dims), is_inside;

    lengths = bg_elementwise_binary(g, NULL, BG_MINIMUM, lengths, longest);
    is_inside = bg_compare(g, NULL, BG_LESS, place, lengths);
    l->rows[0] = bg_where(g, NULL, is_inside, find_row(l, bg_add(g, place, one), distance, sample), outside);
    l->rows[1] = bg_where(g, NULL, is_inside, find_row(l, bg_subtract(g, lengths, place), distance, sample), outside);
    for (int i = 0; i < 2; i++)
        l->rows[i] = bg_reshape(g, NULL, l->rows[i], 1, &all);
    l->last_rows = find_row(l, lengths, distance, sample); /* unused for a sample without steps */
    l->last_rows = bg_reshape(g, NULL, l->last_rows, 1, &l->samples);
    l->has_steps = bg_reshape(g, NULL, bg_compare(g, NULL, BG_GREATER_EQUAL, lengths, one), 2, column);
}

/* Gathers steps by their rows; padding gets zeros. */
static bg_value gather_steps(recurrent_layers *l, bg_value x, bg_value rows)
{
    const bg_type type = bg_graph_type(l->graph, x);
    const int64_t flat[] = {type.dims[0] * type.dims[1], type.dims[2]};

    x = bg_gather(l->graph, NULL, bg_reshape(l->graph, NULL, x, 2, flat), 0, rows);
    return bg_reshape(l->graph, NULL, x, 3, type.dims);
}

/* Returns the state after each sample's last step, or `first` for a sample without steps: [1, N, H]. */
static bg_value gather_last(recurrent_layers *l, bg_value states, bg_value first)
{
    const bg_type type = bg_graph_type(l->graph, states);
    const int64_t flat[] = {type.dims[0] * type.dims[1], type.dims[2]}, dims[] = {1, l->samples, l->width};

    states = bg_gather(l->graph, NULL, bg_reshape(l->graph, NULL, states, 2, flat), 0, l->last_rows);
    return bg_reshape(l->graph, NULL, bg_where(l->graph, NULL, l->has_steps, states, first), 3, dims);
}

/* ---- one direction of a layer ---- */

/* Returns the state after the last step, [1, N, H]. */
static bg_value find_last(recurrent_layers *l, bg_value states, bool reverse)
{
    const bg_type type = bg_graph_type(l->graph, states);
    const int32_t axis = l->options.batch_first ? 1 : 0;
    const int64_t steps = type.rank == 3 ? type.dims[axis] : 1, at = reverse ? 0 : steps - 1;
    const int64_t dims[] = {1, l->samples, l->width};

    return bg_reshape(l->graph, NULL, bg_slice(l->graph, NULL, states, axis, at, at + 1, 1), 3, dims);
}

/* Adds the recurrence of time steps `from` .. `to` - 1; *h and *c are the states before these steps, and become the
 * states after them. */
static void add_piece(recurrent_layers *l, bg_value given, int64_t from, int64_t to, bool reverse, bg_value weight,
                      bg_value bias, bg_value *h, bg_value *c)
{
    const bg_type type = bg_graph_type(l->graph, given);
    const int32_t axis = l->options.batch_first ? 1 : 0;

    if (type.rank == 3 && (from > 0 || to < type.dims[axis]))
        given = bg_slice(l->graph, NULL, given, axis, from, to, 1);
    if (l->gates == 4)
        *h = bg_lstm(l->graph, NULL, given, weight, bias, *h, *c, l->options.batch_first, reverse, c);
    else if (l->gates == 1)
        *h = bg_rnn(l->graph, NULL, given, weight, bias, *h, l->options.relu, l->options.batch_first, reverse);
    else
        *h = (l->options.reset_first ? bg_gru_reset_first : bg_gru)(l->graph, NULL, given, weight, bias, *h,
                                                                    l->options.batch_first, reverse);
}

/* Returns the initial state of the next piece, which begins after `steps` steps, from the states of a piece. */
static bg_value pass_state(recurrent_layers *l, bg_value states, bool reverse, int64_t steps)
{
    const int64_t dims[] = {l->samples, l->width};
    bg_value state = bg_reshape(l->graph, NULL, find_last(l, states, reverse), 2, dims);

    if (l->options.checkpoint > 0 && steps % l->options.checkpoint == 0)
        bg_graph_checkpoint(l->graph, state);
    return l->options.truncate > 0 && steps % l->options.truncate == 0 ? bg_stop_gradient(l->graph, NULL, state)
                                                                       : state;
}

/* Adds the recurrence in pieces of at most `piece` steps. *c becomes the cell states of the last piece or, with
 * lengths, those of all pieces. */
static bg_value add_pieces(recurrent_layers *l, bg_value given, int64_t piece, bool reverse, bg_value weight,
                           bg_value bias, bg_value h, bg_value *c)
{
    const int64_t steps = bg_graph_type(l->graph, given).dims[l->options.batch_first ? 1 : 0];
    const int64_t count = (steps + piece - 1) / piece;
    const int32_t axis = l->options.batch_first ? 1 : 0;
    bg_value *made = calloc(2 * (size_t)count, sizeof *made), y; /* states of all pieces, followed by cells */

    if (made == NULL) {
        bg_graph_fail(l->graph, BG_ERROR_MEMORY, "out of memory for %lld pieces of time", (long long)count);
        return (bg_value){0};
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t before = i * piece, behind = before + piece < steps ? before + piece : steps;

        add_piece(l, given, reverse ? steps - behind : before, reverse ? steps - before : behind, reverse, weight, bias,
                  &h, c);
        made[reverse ? count - 1 - i : i] = h;
        made[count + i] = *c;
        if (i + 1 == count)
            break;
        h = pass_state(l, h, reverse, behind);
        if (l->gates == 4)
            *c = pass_state(l, *c, reverse, behind);
    }
    y = bg_concat(l->graph, NULL, made, (uint32_t)count, axis);
    if (has_lengths(l) && l->gates == 4)
        *c = bg_concat(l->graph, NULL, made + count, (uint32_t)count, axis);
    free(made);
    return y;
}

static bg_value add_direction(recurrent_layers *l, bg_value x, int64_t layer, bool reverse)
{
    const int64_t gates = l->gates * l->width, number = layer * l->directions + reverse;
    const int64_t truncate = l->options.truncate, checkpoint = l->options.checkpoint;
    const int64_t piece =
        truncate > 0 && (checkpoint == 0 || truncate < checkpoint) ? truncate : checkpoint; /* 0: one piece */
    const bg_type type = bg_graph_type(l->graph, x);
    const int64_t in = type.rank == 3 ? type.dims[2] : 1, steps = type.dims[l->options.batch_first ? 1 : 0];
    const bool runs_back = reverse && !has_lengths(l);
    bg_value weights[2], biases[2] = {{0}}, y, c = {0}, given, first[2] = {{0}};

    if (has_lengths(l) && (reverse || layer == 0)) /* in other layers the padding already has zeros */
        x = gather_steps(l, x, l->rows[reverse]);
    weights[0] = add_parameter(l, "weight_ih", layer, reverse, bg_matrix(BG_FLOAT32, gates, in));
    weights[1] = add_parameter(l, "weight_hh", layer, reverse, bg_matrix(BG_FLOAT32, gates, l->width));
    if (l->options.bias) {
        biases[0] = add_parameter(l, "bias_ih", layer, reverse, bg_vector(BG_FLOAT32, gates));
        biases[1] = add_parameter(l, "bias_hh", layer, reverse, bg_vector(BG_FLOAT32, gates));
    }
    given = bg_linear(l->graph, NULL, x, weights[0], biases[0]);
    y = first[0] = find_first(l, 0, number);
    if (l->gates == 4)
        c = first[1] = find_first(l, 1, number);
    if (piece > 0 && piece < steps)
        y = add_pieces(l, given, piece, runs_back, weights[1], biases[1], y, &c);
    else
        add_piece(l, given, 0, steps, runs_back, weights[1], biases[1], &y, &c);
    l->last[0][l->last_count] = has_lengths(l) ? gather_last(l, y, first[0]) : y;
    l->last[1][l->last_count++] = has_lengths(l) && l->gates == 4 ? gather_last(l, c, first[1]) : c;
    return has_lengths(l) ? gather_steps(l, y, l->rows[reverse]) : y;
}

static bool check_pieces(recurrent_layers *l)
{
    const int64_t truncate = l->options.truncate, checkpoint = l->options.checkpoint;
    const int64_t less = truncate < checkpoint ? truncate : checkpoint;

    if (less == 0 || (less > 0 && (truncate + checkpoint - less) % less == 0))
        return true;
    bg_graph_fail(l->graph, BG_ERROR_INVALID,
                  "%s layer `%s`: truncate is %lld and checkpoint is %lld; each must be a number of steps or 0, and "
                  "one must divide the other",
                  l->kind, l->name, (long long)truncate, (long long)checkpoint);
    return false;
}

static bool check_lengths(recurrent_layers *l)
{
    const bg_type type = bg_graph_type(l->graph, l->options.lengths);
    char text[BG_TYPE_TEXT_BYTES];

    if (!has_lengths(l) ||
        ((type.dtype == BG_INT32 || type.dtype == BG_INT64) && type.rank == 1 && type.dims[0] == l->samples))
        return true;
    bg_graph_fail(l->graph, BG_ERROR_SHAPE, "%s layer `%s`: lengths are %s; they must be int32 or int64 [%lld]",
                  l->kind, l->name, bg_type_text(&type, text), (long long)l->samples);
    return false;
}

static bool check_layers(recurrent_layers *l, bg_value x, const bg_recurrent_options *options)
{
    const bg_type type = bg_graph_type(l->graph, x);
    char text[BG_TYPE_TEXT_BYTES], state_text[BG_TYPE_TEXT_BYTES];
    bg_type wanted;

    if (!bgi_layer_check(l->graph, l->kind, l->name, x))
        return false;
    if (options != NULL && !bgi_graph_check_struct(l->graph, options->struct_bytes, sizeof *options,
                                                   "bg_recurrent_options", "bg_recurrent_defaults()"))
        return false;
    if (type.rank != 3 || !bg_dtype_is_float(type.dtype)) {
        bg_graph_fail(l->graph, BG_ERROR_SHAPE, "%s layer `%s`: the input is %s; it must be float %s", l->kind, l->name,
                      bg_type_text(&type, text), l->options.batch_first ? "[N, T, in]" : "[T, N, in]");
        return false;
    }
    if (l->width < 1 || l->options.layers < 1 || l->options.layers * l->directions > MOST_STATES) {
        bg_graph_fail(l->graph, BG_ERROR_INVALID,
                      "%s layer `%s`: there are %lld layers of width %lld; both numbers must be at least 1, and layers "
                      "times directions at most %d",
                      l->kind, l->name, (long long)l->options.layers, (long long)l->width, (int)MOST_STATES);
        return false;
    }
    if (!check_pieces(l))
        return false;
    l->dtype = type.dtype;
    l->samples = type.dims[l->options.batch_first ? 0 : 1];
    if (!check_lengths(l))
        return false;
    wanted = bg_tensor3(l->dtype, l->options.layers * l->directions, l->samples, l->width);
    for (int which = 0; which < 2; which++) {
        const bg_type state = bg_graph_type(l->graph, l->first[which]);

        if (bg_value_is_null(l->first[which]) || bg_type_equal(&state, &wanted))
            continue;
        bg_graph_fail(l->graph, BG_ERROR_SHAPE,
                      "%s layer `%s`: the first state is %s; it must be %s (layers x directions, samples, width)",
                      l->kind, l->name, bg_type_text(&state, state_text), bg_type_text(&wanted, text));
        return false;
    }
    return true;
}

static bg_value join_last(recurrent_layers *l, int which)
{
    bg_value states[MOST_STATES];

    for (uint32_t i = 0; i < l->last_count; i++)
        states[i] =
            has_lengths(l) ? l->last[which][i] : find_last(l, l->last[which][i], i % (uint32_t)l->directions == 1);
    return l->last_count == 1 ? states[0] : bg_concat(l->graph, NULL, states, l->last_count, 0);
}

static bg_value add_layers(recurrent_layers *l, bg_value x, const bg_recurrent_options *options, bg_value *out_h,
                           bg_value *out_c)
{
    l->options = options != NULL ? *options : bg_recurrent_defaults();
    l->directions = l->options.bidirectional ? 2 : 1;
    if (out_h != NULL)
        *out_h = (bg_value){0};
    if (out_c != NULL)
        *out_c = (bg_value){0};
    if (!check_layers(l, x, options))
        return (bg_value){0};
    if (has_lengths(l))
        read_lengths(l, bg_graph_type(l->graph, x).dims[l->options.batch_first ? 1 : 0]);
    for (int64_t layer = 0; layer < l->options.layers; layer++) {
        bg_value states[2];

        if (layer > 0 && l->options.dropout > 0.0)
            x = bg_dropout(l->graph, NULL, x, l->options.dropout);
        for (int64_t d = 0; d < l->directions; d++)
            states[d] = add_direction(l, x, layer, d == 1);
        x = l->directions == 2 ? bg_concat(l->graph, NULL, states, 2, 2) : states[0];
    }
    if (out_h != NULL)
        *out_h = join_last(l, 0);
    if (out_c != NULL)
        *out_c = join_last(l, 1);
    return bg_graph_check(l->graph, NULL) == BG_OK ? x : (bg_value){0};
}

bg_value bg_lstm_layer(bg_graph *graph, const char *name, bg_value x, int64_t width,
                       const bg_recurrent_options *options, bg_value h0, bg_value c0, bg_value *out_h, bg_value *out_c)
{
    recurrent_layers layers = {
        .graph = graph, .kind = "LSTM", .name = name, .gates = 4, .width = width, .first = {h0, c0}};

    return add_layers(&layers, x, options, out_h, out_c);
}

bg_value bg_gru_layer(bg_graph *graph, const char *name, bg_value x, int64_t width, const bg_recurrent_options *options,
                      bg_value h0, bg_value *out_h)
{
    recurrent_layers layers = {.graph = graph, .kind = "GRU", .name = name, .gates = 3, .width = width, .first = {h0}};

    return add_layers(&layers, x, options, out_h, NULL);
}

bg_value bg_rnn_layer(bg_graph *graph, const char *name, bg_value x, int64_t width, const bg_recurrent_options *options,
                      bg_value h0, bg_value *out_h)
{
    recurrent_layers layers = {.graph = graph, .kind = "RNN", .name = name, .gates = 1, .width = width, .first = {h0}};

    return add_layers(&layers, x, options, out_h, NULL);
}
