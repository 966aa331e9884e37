/*
 * reference.c: recurrences in plain C. Values that pass from step to step are stored in results: states in y and c,
 * gradients of states in dh0 and dc0, so they are rounded to those types. Formulas: attributes.h; backward, with h and
 * c the states before a step, and dh and dc the gradients of the states after it:
 *
 *     LSTM  dc += dh o (1 - tanh(c')^2);  di = dc g i (1 - i), df = dc c f (1 - f), dg = dc i (1 - g^2),
 *           do = dh tanh(c') o (1 - o);  dh = weight^T d(i, f, g, o), dc = dc f
 *     GRU   dn = dh (1 - z) (1 - n^2), dz = dh (h - n) z (1 - z), dr = dn s r (1 - r);
 *           dh = dh z + weight^T (dr, dz, dn r)
 */
#include "kernels/kernels.h"
#include "kernels/reference/element.h"
#include "kernels/reference/operands.h"
#include "kernels/recurrent/attributes.h"

/* A call and its operands. */
typedef struct recurrence {
    const bg_kernel_call *call;
    bgi_recurrent_shape shape;
    bg_dtype dtype;
    const void *weight, *bias, *h0, *c0;
    const void *y, *c;
    int64_t gates; /* the weight has `gates` times H rows */
} recurrence;

static double load(const recurrence *r, const void *data, int64_t row, int64_t width, int64_t i)
{
    return bgi_load(r->dtype, data, row * width + i);
}

/* Returns an element of the state before step `step`. */
static double load_before(const recurrence *r, const void *states, const void *first, int64_t step, int64_t sample,
                          int64_t i)
{
    const int64_t width = r->shape.width;

    return step == 0 ? load(r, first, sample, width, i)
                     : load(r, states, bgi_recurrent_row(&r->shape, step - 1, sample), width, i);
}

/* Computes the s of one row of the weight. */
static double sum_hidden(const recurrence *r, int64_t step, int64_t sample, int64_t row)
{
    double sum = r->bias != NULL ? bgi_load(r->dtype, r->bias, row) : 0.0;

    for (int64_t i = 0; i < r->shape.width; i++)
        sum += load(r, r->weight, row, r->shape.width, i) * load_before(r, r->y, r->h0, step, sample, i);
    return sum;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static bool has_input(const bg_kernel_call *call, uint32_t input)
{
    return input < call->input_count && bgi_input_type(call, input)->dtype != BG_DTYPE_NONE;
}

typedef void (*unit_function)(const recurrence *r, int64_t step, int64_t sample, int64_t unit);

/* Calls `function` for each unit of each sample and step. Steps are in order, or in reverse order with
 * `is_backward`. */
static void for_each_unit(const recurrence *r, bool is_backward, unit_function function)
{
    for (int64_t step = 0; step < r->shape.steps; step++)
        for (int64_t sample = 0; sample < r->shape.samples; sample++)
            for (int64_t unit = 0; unit < r->shape.width; unit++)
                function(r, is_backward ? r->shape.steps - 1 - step : step, sample, unit);
}

/* ---- forward ---- */

/* Reads a forward call; `bias` is the number of the bias operand. */
static recurrence read_forward(const bg_kernel_call *call, uint32_t bias)
{
    return (recurrence){.call = call,
                        .shape = bgi_recurrent_read(bgi_output_type(call, 0), call->attributes),
                        .dtype = bgi_input_type(call, 0)->dtype,
                        .weight = call->operands[1],
                        .h0 = call->operands[2],
                        .bias = has_input(call, bias) ? call->operands[bias] : NULL,
                        .y = bgi_output(call, 0)};
}

static void step_lstm(const recurrence *r, int64_t step, int64_t sample, int64_t unit)
{
    const int64_t width = r->shape.width, row = bgi_recurrent_row(&r->shape, step, sample);
    double gates[4], c;

    for (int g = 0; g < 4; g++) {
        const double sum = load(r, r->call->operands[0], row, 4 * width, g * width + unit) +
                           sum_hidden(r, step, sample, g * width + unit);

        gates[g] = g == 2 ? tanh(sum) : sigmoid(sum);
        bgi_store(r->dtype, bgi_output(r->call, 1), row * 4 * width + g * width + unit, gates[g]);
    }
    c = gates[1] * load_before(r, r->c, r->c0, step, sample, unit) + gates[0] * gates[2];
    bgi_store(r->dtype, bgi_output(r->call, 2), row * width + unit, c);
    bgi_store(r->dtype, bgi_output(r->call, 0), row * width + unit, gates[3] * tanh(load(r, r->c, row, width, unit)));
}

void bgi_reference_lstm(const bg_kernel_call *call, uint32_t part)
{
    recurrence r = read_forward(call, 4);

    (void)part;
    r.c0 = call->operands[3];
    r.c = bgi_output(call, 2);
    for_each_unit(&r, false, step_lstm);
}

static void step_gru(const recurrence *r, int64_t step, int64_t sample, int64_t unit)
{
    const int64_t width = r->shape.width, row = bgi_recurrent_row(&r->shape, step, sample);
    double x[3], s[3], gates[4];

    for (int g = 0; g < 3; g++) {
        x[g] = load(r, r->call->operands[0], row, 3 * width, g * width + unit);
        s[g] = sum_hidden(r, step, sample, g * width + unit);
    }
    gates[0] = sigmoid(x[0] + s[0]);
    gates[1] = sigmoid(x[1] + s[1]);
    gates[2] = tanh(x[2] + gates[0] * s[2]);
    gates[3] = s[2];
    for (int g = 0; g < 4; g++)
        bgi_store(r->dtype, bgi_output(r->call, 1), row * 4 * width + g * width + unit, gates[g]);
    bgi_store(r->dtype, bgi_output(r->call, 0), row * width + unit,
              (1.0 - gates[1]) * gates[2] + gates[1] * load_before(r, r->y, r->h0, step, sample, unit));
}

/* Computes a step with reset_first, which needs r and z of all units of a sample first. */
static void step_reset_gru(const recurrence *r, int64_t step, int64_t sample)
{
    const int64_t width = r->shape.width, row = bgi_recurrent_row(&r->shape, step, sample);
    void *gates = bgi_output(r->call, 1);

    for (int64_t i = 0; i < 2 * width; i++)
        bgi_store(r->dtype, gates, row * 4 * width + i,
                  sigmoid(load(r, r->call->operands[0], row, 3 * width, i) + sum_hidden(r, step, sample, i)));
    for (int64_t unit = 0; unit < width; unit++) {
        double sum = r->bias != NULL ? bgi_load(r->dtype, r->bias, 2 * width + unit) : 0.0, fresh;
        const double update = load(r, gates, row, 4 * width, width + unit);

        for (int64_t i = 0; i < width; i++)
            sum += load(r, r->weight, 2 * width + unit, width, i) * load(r, gates, row, 4 * width, i) *
                   load_before(r, r->y, r->h0, step, sample, i);
        fresh = tanh(load(r, r->call->operands[0], row, 3 * width, 2 * width + unit) + sum);
        bgi_store(r->dtype, gates, row * 4 * width + 2 * width + unit, fresh);
        bgi_store(r->dtype, gates, row * 4 * width + 3 * width + unit, sum);
        bgi_store(r->dtype, bgi_output(r->call, 0), row * width + unit,
                  (1.0 - update) * fresh + update * load_before(r, r->y, r->h0, step, sample, unit));
    }
}

static void run_reset_gru(const recurrence *r)
{
    for (int64_t step = 0; step < r->shape.steps; step++)
        for (int64_t sample = 0; sample < r->shape.samples; sample++)
            step_reset_gru(r, step, sample);
}

void bgi_reference_gru(const bg_kernel_call *call, uint32_t part)
{
    const recurrence r = read_forward(call, 3);

    (void)part;
    if (((const bgi_recurrent_attributes *)call->attributes)->reset_first)
        run_reset_gru(&r);
    else
        for_each_unit(&r, false, step_gru);
}

static void step_rnn(const recurrence *r, int64_t step, int64_t sample, int64_t unit)
{
    const int64_t width = r->shape.width, row = bgi_recurrent_row(&r->shape, step, sample);
    const double sum = load(r, r->call->operands[0], row, width, unit) + sum_hidden(r, step, sample, unit);
    const bool relu = ((const bgi_recurrent_attributes *)r->call->attributes)->relu;

    bgi_store(r->dtype, bgi_output(r->call, 0), row * width + unit, relu ? (sum <= 0.0 ? 0.0 : sum) : tanh(sum));
}

void bgi_reference_rnn(const bg_kernel_call *call, uint32_t part)
{
    const recurrence r = read_forward(call, 3);

    (void)part;
    for_each_unit(&r, false, step_rnn);
}

/* ---- backward ---- */

/* Returns an element of weight^T d, the contribution of step + 1 to the gradient of the state after `step`; 0 after the
 * last step. */
static double sum_across(const recurrence *r, const void *gradients, int64_t step, int64_t sample, int64_t unit)
{
    const int64_t width = r->shape.width;
    double sum = 0.0;

    if (step + 1 == r->shape.steps)
        return 0.0;
    for (int64_t row = 0; row < r->gates * width; row++)
        sum += load(r, gradients, bgi_recurrent_row(&r->shape, step + 1, sample), r->gates * width, row) *
               load(r, r->weight, row, width, unit);
    return sum;
}

/* Returns an element of the gradient of h0 from the gradients of step 0; h0 counts as the state after step -1. */
static double sum_first(const recurrence *r, const void *gradients, int64_t sample, int64_t unit)
{
    return sum_across(r, gradients, -1, sample, unit);
}

static void store_first(const recurrence *r, const void *gradients, void *dh0)
{
    for (int64_t sample = 0; sample < r->shape.samples; sample++)
        for (int64_t unit = 0; unit < r->shape.width; unit++)
            bgi_store(r->dtype, dh0, sample * r->shape.width + unit, sum_first(r, gradients, sample, unit));
}

static void step_lstm_back(const recurrence *r, int64_t step, int64_t sample, int64_t unit)
{
    const bg_kernel_call *call = r->call;
    const int64_t width = r->shape.width, row = bgi_recurrent_row(&r->shape, step, sample), at = sample * width + unit;
    void *dx = bgi_output(call, 0), *dc0 = bgi_output(call, 2);
    const bool is_last = step + 1 == r->shape.steps;
    double dh = load(r, call->operands[6], row, width, unit) + sum_across(r, dx, step, sample, unit);
    double dc = is_last ? 0.0 : bgi_load(r->dtype, dc0, at);
    double gates[4], gradients[4], bent;

    for (int g = 0; g < 4; g++)
        gates[g] = load(r, call->operands[4], row, 4 * width, g * width + unit);
    bent = tanh(load(r, r->c, row, width, unit));
    if (has_input(call, 7))
        dc += load(r, call->operands[7], row, width, unit);
    dc += dh * gates[3] * (1.0 - bent * bent);
    gradients[0] = dc * gates[2] * gates[0] * (1.0 - gates[0]);
    gradients[1] = dc * load_before(r, r->c, r->c0, step, sample, unit) * gates[1] * (1.0 - gates[1]);
    gradients[2] = dc * gates[0] * (1.0 - gates[2] * gates[2]);
    gradients[3] = dh * bent * gates[3] * (1.0 - gates[3]);
    for (int g = 0; g < 4; g++)
        bgi_store(r->dtype, dx, row * 4 * width + g * width + unit, gradients[g]);
    bgi_store(r->dtype, dc0, at, dc * gates[1]);
}

void bgi_reference_lstm_backward(const bg_kernel_call *call, uint32_t part)
{
    const recurrence r = {.call = call,
                          .shape = bgi_recurrent_read(bgi_input_type(call, 3), call->attributes),
                          .dtype = bgi_input_type(call, 3)->dtype,
                          .weight = call->operands[0],
                          .h0 = call->operands[1],
                          .c0 = call->operands[2],
                          .y = call->operands[3],
                          .c = call->operands[5],
                          .gates = 4};

    (void)part;
    for_each_unit(&r, true, step_lstm_back);
    store_first(&r, bgi_output(call, 0), bgi_output(call, 1));
}

static void step_gru_back(const recurrence *r, int64_t step, int64_t sample, int64_t unit)
{
    const bg_kernel_call *call = r->call;
    const int64_t width = r->shape.width, row = bgi_recurrent_row(&r->shape, step, sample), at = sample * width + unit;
    void *dhidden = bgi_output(call, 1), *dh0 = bgi_output(call, 2);
    const bool is_last = step + 1 == r->shape.steps;
    /* dh0 holds dh z of the following step */
    const double dh = load(r, call->operands[4], row, width, unit) + (is_last ? 0.0 : bgi_load(r->dtype, dh0, at)) +
                      sum_across(r, dhidden, step, sample, unit);
    double gates[4], gradients[3];

    for (int g = 0; g < 4; g++)
        gates[g] = load(r, call->operands[3], row, 4 * width, g * width + unit);
    gradients[2] = dh * (1.0 - gates[1]) * (1.0 - gates[2] * gates[2]);
    gradients[1] = dh * (load_before(r, r->y, r->h0, step, sample, unit) - gates[2]) * gates[1] * (1.0 - gates[1]);
    gradients[0] = gradients[2] * gates[3] * gates[0] * (1.0 - gates[0]);
    for (int g = 0; g < 3; g++) {
        bgi_store(r->dtype, bgi_output(call, 0), row * 3 * width + g * width + unit, gradients[g]);
        bgi_store(r->dtype, dhidden, row * 3 * width + g * width + unit, gradients[g] * (g == 2 ? gates[0] : 1.0));
    }
    bgi_store(r->dtype, dh0, at, dh * gates[1]);
}

/* Returns an element of weight^T d over rows first..end - 1 of the weight. */
static double sum_rows(const recurrence *r, const void *d, int64_t row, int64_t first, int64_t end, int64_t unit)
{
    double sum = 0.0;

    for (int64_t i = first; i < end; i++)
        sum += load(r, r->weight, i, r->shape.width, unit) * load(r, d, row, 3 * r->shape.width, i);
    return sum;
}

/* Differentiates a step with reset_first. On entry, dh0 has the gradient of the step's resulting state from all later
 * steps; the last step ignores dh0. */
static void step_reset_gru_back(const recurrence *r, int64_t step, int64_t sample)
{
    const bg_kernel_call *call = r->call;
    const int64_t width = r->shape.width, row = bgi_recurrent_row(&r->shape, step, sample);
    void *dx = bgi_output(call, 0), *dh0 = bgi_output(call, 2);

    for (int64_t unit = 0; unit < width; unit++) {
        const double carried = step + 1 == r->shape.steps ? 0.0 : bgi_load(r->dtype, dh0, sample * width + unit);
        const double dh = load(r, call->operands[4], row, width, unit) + carried;
        const double update = load(r, call->operands[3], row, 4 * width, width + unit);
        const double fresh = load(r, call->operands[3], row, 4 * width, 2 * width + unit);
        const double before = load_before(r, r->y, r->h0, step, sample, unit);

        bgi_store(r->dtype, dx, row * 3 * width + width + unit, dh * (before - fresh) * update * (1.0 - update));
        bgi_store(r->dtype, dx, row * 3 * width + 2 * width + unit, dh * (1.0 - update) * (1.0 - fresh * fresh));
        bgi_store(r->dtype, dh0, sample * width + unit, dh * update);
    }
    for (int64_t unit = 0; unit < width; unit++) {
        const double left = sum_rows(r, dx, row, 2 * width, 3 * width, unit);
        const double reset = load(r, call->operands[3], row, 4 * width, unit);

        bgi_store(r->dtype, dx, row * 3 * width + unit,
                  left * load_before(r, r->y, r->h0, step, sample, unit) * reset * (1.0 - reset));
        bgi_store(r->dtype, dh0, sample * width + unit, bgi_load(r->dtype, dh0, sample * width + unit) + left * reset);
    }
    for (int64_t unit = 0; unit < width; unit++)
        bgi_store(r->dtype, dh0, sample * width + unit,
                  bgi_load(r->dtype, dh0, sample * width + unit) + sum_rows(r, dx, row, 0, 2 * width, unit));
    for (int64_t i = 0; i < 3 * width; i++)
        bgi_store(r->dtype, bgi_output(call, 1), row * 3 * width + i, load(r, dx, row, 3 * width, i));
}

void bgi_reference_gru_backward(const bg_kernel_call *call, uint32_t part)
{
    const recurrence r = {.call = call,
                          .shape = bgi_recurrent_read(bgi_input_type(call, 2), call->attributes),
                          .dtype = bgi_input_type(call, 2)->dtype,
                          .weight = call->operands[0],
                          .h0 = call->operands[1],
                          .y = call->operands[2],
                          .gates = 3};

    (void)part;
    if (((const bgi_recurrent_attributes *)call->attributes)->reset_first) {
        for (int64_t step = r.shape.steps - 1; step >= 0; step--)
            for (int64_t sample = 0; sample < r.shape.samples; sample++)
                step_reset_gru_back(&r, step, sample);
        return;
    }
    for_each_unit(&r, true, step_gru_back);
    for (int64_t sample = 0; sample < r.shape.samples; sample++)
        for (int64_t unit = 0; unit < r.shape.width; unit++) {
            const int64_t at = sample * r.shape.width + unit;

            bgi_store(r.dtype, bgi_output(call, 2), at,
                      bgi_load(r.dtype, bgi_output(call, 2), at) + sum_first(&r, bgi_output(call, 1), sample, unit));
        }
}

static void step_rnn_back(const recurrence *r, int64_t step, int64_t sample, int64_t unit)
{
    const int64_t width = r->shape.width, row = bgi_recurrent_row(&r->shape, step, sample);
    const bool relu = ((const bgi_recurrent_attributes *)r->call->attributes)->relu;
    const double y = load(r, r->y, row, width, unit);
    const double dh =
        load(r, r->call->operands[3], row, width, unit) + sum_across(r, bgi_output(r->call, 0), step, sample, unit);

    bgi_store(r->dtype, bgi_output(r->call, 0), row * width + unit, relu ? (y <= 0.0 ? 0.0 : dh) : dh * (1.0 - y * y));
}

void bgi_reference_rnn_backward(const bg_kernel_call *call, uint32_t part)
{
    const recurrence r = {.call = call,
                          .shape = bgi_recurrent_read(bgi_input_type(call, 2), call->attributes),
                          .dtype = bgi_input_type(call, 2)->dtype,
                          .weight = call->operands[0],
                          .y = call->operands[2],
                          .gates = 1};

    (void)part;
    for_each_unit(&r, true, step_rnn_back);
    store_first(&r, bgi_output(call, 0), bgi_output(call, 1));
}
