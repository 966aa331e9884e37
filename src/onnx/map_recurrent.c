/*
 * map_recurrent.c: maps RNN, GRU and LSTM, step by step: one product with all inputs, and one product with the hidden
 * state for each step.
 *
 *     x [T, N, I] -> x W' + b [T, N, G H],   then for each step   f(that + h R')
 */
#include <brigade/ops.h>

#include "onnx/onnx.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_STEPS = 1024, GATES_MOST = 4 };
typedef enum cell { RNN = 1, GRU = 3, LSTM = 4 } cell; /* the number of gates */

/* A layer that is being mapped, in one direction. */
typedef struct layer {
    bgi_mapper *m;
    cell cell;
    bool is_reverse, resets_before; /* of a GRU: the reset gate is applied before the product (linear_before_reset 0) */
    int64_t steps, batch, hidden;
    bg_value projected;               /* [T, N, G H] */
    bg_value recurrence, hidden_bias; /* [G H, H]; and [H] of a GRU's last gate, or null */
    bg_value peephole;                /* [3 H] or null */
    bg_value lengths;                 /* int32 [N] or null */
    bg_unary activations[3];
    bg_value h, c;
} layer;

/* Selects rows first .. first + count - 1 of `direction` from x [D, R, ...], as [count, ...]. */
static bg_value of_direction(bgi_mapper *m, bg_value x, int64_t direction, int64_t first, int64_t count)
{
    bg_type type = bgi_map_type(m, x);
    int64_t dims[BG_MAX_RANK];

    if (bg_value_is_null(x))
        return x;
    if (type.dims[0] > 1)
        x = bg_slice(m->graph, NULL, x, 0, direction, direction + 1, 1);
    if (first != 0 || count != type.dims[1])
        x = bg_slice(m->graph, NULL, x, 1, first, first + count, 1);
    dims[0] = count;
    for (uint32_t i = 2; i < type.rank; i++)
        dims[i - 1] = type.dims[i];
    return bgi_map_reshape(m, x, type.rank - 1, dims);
}

/* Selects gate g of [N, G H]. */
static bg_value gate(const layer *l, bg_value x, int64_t g)
{
    return bg_slice(l->m->graph, NULL, x, -1, g * l->hidden, (g + 1) * l->hidden, 1);
}

static bg_value activate(const layer *l, int which, bg_value x)
{
    return bg_elementwise_unary(l->m->graph, NULL, l->activations[which], x);
}

static bg_value peep(const layer *l, int64_t which, bg_value x, bg_value c)
{
    if (bg_value_is_null(l->peephole))
        return x;
    return bg_add(
        l->m->graph, x,
        bg_multiply(l->m->graph, c,
                    bg_slice(l->m->graph, NULL, l->peephole, 0, which * l->hidden, (which + 1) * l->hidden, 1)));
}

static void step_rnn(layer *l, bg_value x)
{
    x = bg_add(l->m->graph, x, bg_linear(l->m->graph, NULL, l->h, l->recurrence, (bg_value){0}));
    l->h = activate(l, 0, x);
}

static void step_lstm(layer *l, bg_value x)
{
    bg_graph *g = l->m->graph;
    bg_value in, out, forget, candidate;

    x = bg_add(g, x, bg_linear(g, NULL, l->h, l->recurrence, (bg_value){0}));
    in = activate(l, 0, peep(l, 0, gate(l, x, 0), l->c));
    forget = activate(l, 0, peep(l, 2, gate(l, x, 2), l->c));
    candidate = activate(l, 1, gate(l, x, 3));
    l->c = bg_add(g, bg_multiply(g, forget, l->c), bg_multiply(g, in, candidate));
    out = activate(l, 0, peep(l, 1, gate(l, x, 1), l->c));
    l->h = bg_multiply(g, out, activate(l, 2, l->c));
}

static void step_gru(layer *l, bg_value x)
{
    const int64_t two = 2 * l->hidden;
    bg_graph *g = l->m->graph;
    bg_value update, reset, candidate, both, last;

    if (l->resets_before) {
        both = bg_linear(g, NULL, l->h, bg_slice(g, NULL, l->recurrence, 0, 0, two, 1), (bg_value){0});
        update = activate(l, 0, bg_add(g, gate(l, x, 0), gate(l, both, 0)));
        reset = activate(l, 0, bg_add(g, gate(l, x, 1), gate(l, both, 1)));
        last = bg_linear(g, NULL, bg_multiply(g, reset, l->h),
                         bg_slice(g, NULL, l->recurrence, 0, two, 3 * l->hidden, 1), l->hidden_bias);
    } else {
        both = bg_linear(g, NULL, l->h, l->recurrence, (bg_value){0});
        update = activate(l, 0, bg_add(g, gate(l, x, 0), gate(l, both, 0)));
        reset = activate(l, 0, bg_add(g, gate(l, x, 1), gate(l, both, 1)));
        last = gate(l, both, 2);
        if (!bg_value_is_null(l->hidden_bias))
            last = bg_add(g, last, l->hidden_bias);
        last = bg_multiply(g, reset, last);
    }
    candidate = activate(l, 1, bg_add(g, gate(l, x, 2), last));
    /* (1 - z) n + z h */
    l->h = bg_add(g, candidate, bg_multiply(g, update, bg_subtract(g, l->h, candidate)));
}

/* Runs the step at index `at`. Sequences that have ended keep their state, and give zeros. In the reverse direction a
 * sequence begins at its last step, with the first state. */
static bg_value step(layer *l, int64_t at)
{
    bg_graph *g = l->m->graph;
    const bg_value h = l->h, c = l->c;
    bg_value x = bg_slice(g, NULL, l->projected, 0, at, at + 1, 1), is_going, zero;

    x = bgi_map_reshape(l->m, x, 2, (const int64_t[]){l->batch, l->cell * l->hidden});
    if (l->cell == RNN)
        step_rnn(l, x);
    else if (l->cell == GRU)
        step_gru(l, x);
    else
        step_lstm(l, x);
    if (bg_value_is_null(l->lengths))
        return l->h;
    is_going = bg_compare(g, NULL, BG_GREATER, l->lengths, bgi_map_number(l->m, BG_INT32, (double)at));
    is_going = bgi_map_reshape(l->m, is_going, 2, (const int64_t[]){l->batch, 1});
    zero = bgi_map_number(l->m, bgi_map_type(l->m, h).dtype, 0.0);
    x = bg_where(g, NULL, is_going, l->h, zero);
    l->h = bg_where(g, NULL, is_going, l->h, h);
    if (l->cell == LSTM)
        l->c = bg_where(g, NULL, is_going, l->c, c);
    return x;
}

/* Runs all steps; their results are [T, N, H]. */
static bg_value run(layer *l)
{
    bg_value results[60], all = {0};
    uint32_t count = 0;
    bg_graph *g = l->m->graph;

    for (int64_t i = 0; i < l->steps && bgi_map_is_well(l->m); i++) {
        bg_value y = step(l, l->is_reverse ? l->steps - 1 - i : i);

        y = bgi_map_reshape(l->m, y, 3, (const int64_t[]){1, l->batch, l->hidden});
        results[l->is_reverse ? 59 - count : count] = y;
        count++;
        if (count == 59 || i + 1 == l->steps) { /* joins with the previous results, before or after them */
            bg_value list[60];

            memcpy(list + (l->is_reverse ? 0 : 1), results + (l->is_reverse ? 60 - count : 0), count * sizeof y);
            if (bg_value_is_null(all))
                all = count > 1 ? bg_concat(g, NULL, list + !l->is_reverse, count, 0) : y;
            else {
                list[l->is_reverse ? count : 0] = all;
                all = bg_concat(g, NULL, list, count + 1, 0);
            }
            count = 0;
        }
    }
    return all;
}

/* ---- attributes and operands ---- */

static bool read_activations(bgi_mapper *m, cell kind, uint32_t directions, layer *l)
{
    static const struct {
        const char *name;
        bg_unary function;
    } known[] = {{"Sigmoid", BG_SIGMOID}, {"Tanh", BG_TANH}, {"Relu", BG_RELU}, {"Softsign", BG_SOFTSIGN}};
    const BgiOnnx__Attribute *given = bgi_map_attribute(m, "activations");
    const uint32_t each = kind == LSTM ? 3 : kind == GRU ? 2 : 1;

    l->activations[0] = kind == RNN ? BG_TANH : BG_SIGMOID;
    l->activations[1] = l->activations[2] = BG_TANH;
    if (given == NULL || given->n_strings == 0)
        return true;
    if (given->n_strings != each * directions)
        return bgi_map_refuse(m, "attribute `activations` has %zu names but must have %u", given->n_strings,
                              each * directions);
    for (uint32_t i = 0; i < each * directions; i++) {
        const ProtobufCBinaryData *name = &given->strings[i];
        bool is_known = false;

        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            if (name->len == strlen(known[k].name) && memcmp(name->data, known[k].name, name->len) == 0 &&
                (i < each || l->activations[i % each] == known[k].function)) {
                l->activations[i % each] = known[k].function;
                is_known = true;
            }
        if (!is_known)
            return bgi_map_refuse(
                m,
                "attribute `activations` has `%.*s` at %u; it must have Sigmoid, Tanh, Relu or Softsign, the same "
                "in both directions",
                (int)name->len, (const char *)name->data, i);
    }
    return true;
}

static bool check_attributes(bgi_mapper *m, cell kind)
{
    if (bgi_map_has(m, "clip"))
        return bgi_map_refuse(m, "attribute `clip` is set but not supported");
    if (bgi_map_has(m, "activation_alpha") || bgi_map_has(m, "activation_beta"))
        return bgi_map_refuse(m, "attributes `activation_alpha` or `activation_beta` are set but not supported");
    if (kind == LSTM && bgi_map_int(m, "input_forget", 0) != 0)
        return bgi_map_refuse(m, "attribute `input_forget` is set but not supported");
    return true;
}

static bool check_shapes(bgi_mapper *m, cell kind, const bg_type *x, int64_t hidden, int64_t directions)
{
    const int64_t rows = kind * hidden, input = x->dims[2];
    const struct {
        uint32_t operand, rank;
        int64_t dims[3];
    } wanted[] = {{1, 3, {directions, rows, input}},
                  {2, 3, {directions, rows, hidden}},
                  {3, 2, {directions, 2 * rows}},
                  {7, 2, {directions, 3 * hidden}}};

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const bg_value value = bgi_map_in(m, wanted[i].operand);
        const bg_type type = bgi_map_type(m, value);
        char text[BG_TYPE_TEXT_BYTES];

        if (bg_value_is_null(value)) {
            if (wanted[i].operand < 3)
                return bgi_map_refuse(m, "input %u is missing", wanted[i].operand);
            continue;
        }
        if (type.rank != wanted[i].rank || memcmp(type.dims, wanted[i].dims, type.rank * sizeof type.dims[0]) != 0)
            return bgi_map_refuse(
                m, "input %u is %s but must be [%" PRId64 ",%" PRId64 "%s] for %" PRId64 " hidden elements",
                wanted[i].operand, bg_type_text(&type, text), wanted[i].dims[0], wanted[i].dims[1],
                wanted[i].rank > 2 ? ",..." : "", hidden);
    }
    return true;
}

static bg_value first_state(bgi_mapper *m, uint32_t input, int64_t direction, bool is_batch_first, const layer *l,
                            bg_dtype dtype)
{
    const uint32_t permutation[] = {1, 0, 2};
    bg_value state = bgi_map_in(m, input);

    if (bg_value_is_null(state))
        return bg_broadcast(m->graph, NULL, bgi_map_number(m, dtype, 0.0), 2, (const int64_t[]){l->batch, l->hidden});
    if (is_batch_first)
        state = bg_transpose(m->graph, NULL, state, permutation);
    return of_direction(m, state, direction, 0, l->batch);
}

/* Prepares everything of one direction except its steps. */
static void prepare(layer *l, bg_value x, int64_t direction, bool is_batch_first)
{
    bgi_mapper *m = l->m;
    const int64_t rows = l->cell * l->hidden;
    const bg_type type = bgi_map_type(m, x);
    const bg_value biases = bgi_map_in(m, 3);
    bg_value weight = of_direction(m, bgi_map_in(m, 1), direction, 0, rows), bias = {0};

    l->recurrence = of_direction(m, bgi_map_in(m, 2), direction, 0, rows);
    if (!bg_value_is_null(biases)) {
        const bg_value of_input = of_direction(m, biases, direction, 0, rows);
        bg_value of_hidden = of_direction(m, biases, direction, rows, rows);

        if (l->cell == GRU) { /* the last gate's bias is part of the product that is reset */
            const bg_value first = bg_slice(m->graph, NULL, of_hidden, 0, 0, 2 * l->hidden, 1);
            const bg_value zeros = bg_broadcast(m->graph, NULL, bgi_map_number(m, type.dtype, 0.0), 1, &l->hidden);

            l->hidden_bias = bg_slice(m->graph, NULL, of_hidden, 0, 2 * l->hidden, rows, 1);
            of_hidden = bg_concat(m->graph, NULL, (const bg_value[]){first, zeros}, 2, 0);
        }
        bias = bg_add(m->graph, of_input, of_hidden);
    }
    l->projected = bgi_map_reshape(m, x, 2, (const int64_t[]){l->steps * l->batch, type.dims[2]});
    l->projected = bg_linear(m->graph, m->name, l->projected, weight, bias);
    l->projected = bgi_map_reshape(m, l->projected, 3, (const int64_t[]){l->steps, l->batch, rows});
    if (l->cell == LSTM)
        l->peephole = of_direction(m, bgi_map_in(m, 7), direction, 0, 3 * l->hidden);
    l->h = first_state(m, 5, direction, is_batch_first, l, type.dtype);
    if (l->cell == LSTM)
        l->c = first_state(m, 6, direction, is_batch_first, l, type.dtype);
}

/* Joins the states of the directions: [D, N, H], or [N, D, H]. */
static bg_value join_states(bgi_mapper *m, const bg_value *states, uint32_t directions, const layer *l,
                            bool is_batch_first)
{
    const uint32_t permutation[] = {1, 0, 2};
    bg_value y = directions > 1 ? bg_concat(m->graph, NULL, states, 2, 0) : states[0];

    y = bgi_map_reshape(m, y, 3, (const int64_t[]){directions, l->batch, l->hidden});
    return is_batch_first ? bg_transpose(m->graph, NULL, y, permutation) : y;
}

static bool map_recurrent(bgi_mapper *m)
{
    const cell kind = (cell)bgi_map_parameter(m);
    const bool is_batch_first = bgi_map_int(m, "layout", 0) != 0;
    const bool is_both = bgi_map_text_is(m, "direction", "bidirectional", false);
    const bool is_reverse = bgi_map_text_is(m, "direction", "reverse", false);
    const uint32_t directions = is_both ? 2 : 1, swap[] = {1, 0, 2}, batch_first[] = {2, 0, 1, 3};
    bg_value x = bgi_map_in(m, 0), lengths = bgi_map_in(m, 4), all[2], last[2], cells[2], y;
    layer l = {.m = m, .cell = kind};
    bg_type type;

    if (bg_value_is_null(x) || bgi_map_type(m, x).rank != 3)
        return bgi_map_refuse(m, "x has %u dimensions but must have 3", bgi_map_type(m, x).rank);
    if (is_batch_first)
        x = bg_transpose(m->graph, NULL, x, swap);
    type = bgi_map_type(m, x);
    l.hidden = bgi_map_int(m, "hidden_size", bgi_map_type(m, bgi_map_in(m, 2)).dims[2]);
    if (l.hidden < 1 || l.hidden > INT32_MAX)
        return bgi_map_refuse(m, "attribute `hidden_size` is %" PRId64 " but must be at least 1", l.hidden);
    if (!check_attributes(m, kind) || !check_shapes(m, kind, &type, l.hidden, directions) ||
        !read_activations(m, kind, directions, &l))
        return false;
    if (type.dims[0] > MOST_STEPS)
        return bgi_map_refuse(m, "it has %" PRId64 " steps but at most %d are possible", type.dims[0], MOST_STEPS);
    l.steps = type.dims[0];
    l.batch = type.dims[1];
    l.lengths = bgi_map_cast(m, lengths, BG_INT32);
    l.resets_before = bgi_map_int(m, "linear_before_reset", 0) == 0;
    for (uint32_t d = 0; d < directions; d++) {
        layer one = l;

        one.is_reverse = is_reverse || d == 1;
        prepare(&one, x, d, is_batch_first);
        all[d] = run(&one);
        last[d] = one.h;
        cells[d] = one.c;
        if (!bgi_map_is_well(m))
            return false;
        all[d] = bgi_map_reshape(m, all[d], 4, (const int64_t[]){l.steps, 1, l.batch, l.hidden});
    }
    if (bgi_map_wants(m, 0)) {
        y = directions > 1 ? bg_concat(m->graph, NULL, all, 2, 1) : all[0];
        if (!bgi_map_out(m, 0, is_batch_first ? bg_transpose(m->graph, NULL, y, batch_first) : y))
            return false;
    }
    if (bgi_map_wants(m, 1) && !bgi_map_out(m, 1, join_states(m, last, directions, &l, is_batch_first)))
        return false;
    return !bgi_map_wants(m, 2) || kind != LSTM ||
           bgi_map_out(m, 2, join_states(m, cells, directions, &l, is_batch_first));
}

const bgi_mapping bgi_onnx_recurrent[] = {
    {"GRU", map_recurrent, GRU},
    {"LSTM", map_recurrent, LSTM},
    {"RNN", map_recurrent, RNN},
    {0},
};
