/*
 * scan.c: builds a loop over time inside a graph. bg_scan slices the sequences, adds the body's ops once for each step,
 * and concatenates the outputs of all steps. Autodiff differentiates these ops. The gradients of slices are joined
 * (transform/slice_gradients.c), so that the slices of all steps cost one pass over the sequences.
 *
 *     x --slice--> x0 -> body -> y0 \
 *                  h0 -/    \-> h1   concat --> y
 *                  x1 -> body -> y1 /
 */
#include <brigade/ops.h>

#include <stdlib.h>

#include "core/error.h"
#include "graph/graph.h"
#include "ops/ops.h"

typedef struct scan {
    bg_graph *graph;
    const bg_scan_options *options;
    int64_t steps;
    bg_value *made; /* outputs: [output_count][steps] */
} scan;

void bg_scan_options_init(bg_scan_options *options, size_t struct_bytes)
{
    const bg_scan_options made = {.struct_bytes = struct_bytes, .input_count = 1, .state_count = 1, .output_count = 1};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

static bool refuse(bg_graph *graph, bg_status status, const char *text, uint32_t number, int64_t value)
{
    bg_graph_fail(graph, status, text, number, (long long)value);
    return false;
}

static bool check_counts(bg_graph *graph, const bg_scan_options *options)
{
    if (options == NULL) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "scan: it has no options; bg_scan_defaults() makes them");
        return false;
    }
    if (!bgi_graph_check_struct(graph, options->struct_bytes, sizeof *options, "bg_scan_options", "bg_scan_defaults()"))
        return false;
    if (options->input_count < 1 || options->output_count < 1 || options->input_count > BG_SCAN_MOST ||
        options->output_count > BG_SCAN_MOST || options->state_count > BG_SCAN_MOST) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "scan: there are %u inputs, %u states and %u outputs; each number can be at most %d, and there "
                      "must be at least one input and one output",
                      options->input_count, options->state_count, options->output_count, BG_SCAN_MOST);
        return false;
    }
    if (options->truncate < 0 || options->checkpoint < 0) {
        bg_graph_fail(graph, BG_ERROR_INVALID,
                      "scan: truncate is %lld and checkpoint is %lld; each must be a number of steps, or 0",
                      (long long)options->truncate, (long long)options->checkpoint);
        return false;
    }
    return bg_graph_check(graph, NULL) == BG_OK;
}

/* Finds the axis and the number of steps, which all inputs share. */
static bool read_inputs(scan *s, const bg_value *inputs)
{
    for (uint32_t i = 0; i < s->options->input_count; i++) {
        const bg_type type = bg_graph_type(s->graph, inputs[i]);
        const int32_t axis = s->options->axis < 0 ? s->options->axis + (int32_t)type.rank : s->options->axis;

        if (bg_value_is_null(inputs[i]) || axis < 0 || axis >= (int32_t)type.rank)
            return refuse(s->graph, BG_ERROR_SHAPE, "scan: input %u has no axis %lld", i, s->options->axis);
        if (i > 0 && type.dims[axis] != s->steps) {
            bg_graph_fail(s->graph, BG_ERROR_SHAPE, "scan: input %u has %lld steps; it must have %lld, like input 0", i,
                          (long long)type.dims[axis], (long long)s->steps);
            return false;
        }
        s->steps = type.dims[axis];
    }
    return true;
}

static uint32_t find_axis(const scan *s, uint32_t rank)
{
    return (uint32_t)(s->options->axis < 0 ? s->options->axis + (int32_t)rank : s->options->axis);
}

static bg_value take_step(const scan *s, bg_value input, int64_t at)
{
    const bg_type type = bg_graph_type(s->graph, input);
    const uint32_t axis = find_axis(s, type.rank);
    int64_t dims[BG_MAX_RANK];

    for (uint32_t d = 0; d + 1 < type.rank; d++)
        dims[d] = type.dims[d < axis ? d : d + 1];
    return bg_reshape(s->graph, NULL, bg_slice(s->graph, NULL, input, (int32_t)axis, at, at + 1, 1), type.rank - 1,
                      dims);
}

/* At every multiple of `truncate` steps, stops gradients to earlier states; at every multiple of `checkpoint` steps,
 * marks the states as checkpoints. */
static void prepare_states(const scan *s, int64_t step, bg_value *states)
{
    const bool cuts = s->options->truncate > 0 && step > 0 && step % s->options->truncate == 0;
    const bool marks = s->options->checkpoint > 0 && step > 0 && step % s->options->checkpoint == 0;

    for (uint32_t i = 0; i < s->options->state_count; i++) {
        if (marks)
            bg_graph_checkpoint(s->graph, states[i]);
        if (cuts)
            states[i] = bg_stop_gradient(s->graph, NULL, states[i]);
    }
}

static bool check_step(const scan *s, const bg_value *before, const bg_value *states, const bg_value *outputs)
{
    char have[BG_TYPE_TEXT_BYTES], want[BG_TYPE_TEXT_BYTES];

    if (bg_graph_check(s->graph, NULL) != BG_OK)
        return false;
    for (uint32_t i = 0; i < s->options->output_count; i++)
        if (bg_value_is_null(outputs[i]))
            return refuse(s->graph, BG_ERROR_INVALID, "scan: the body did not set output %u (the loop has %lld steps)",
                          i, s->steps);
    for (uint32_t i = 0; i < s->options->state_count; i++) {
        const bg_type is = bg_graph_type(s->graph, states[i]), was = bg_graph_type(s->graph, before[i]);

        if (bg_type_equal(&is, &was))
            continue;
        bg_graph_fail(s->graph, BG_ERROR_SHAPE, "scan: the body changes state %u to %s; it must stay %s", i,
                      bg_type_text(&is, have), bg_type_text(&was, want));
        return false;
    }
    return true;
}

static void run_steps(scan *s, const bg_value *inputs, bg_value *states,
                      void (*body)(void *user, bg_graph *graph, bg_scan_step *step), void *user)
{
    for (int64_t step = 0; step < s->steps; step++) {
        const int64_t at = s->options->reverse ? s->steps - 1 - step : step;
        bg_value now[BG_SCAN_MOST] = {{0}}, before[BG_SCAN_MOST] = {{0}}, made[BG_SCAN_MOST] = {{0}};

        for (uint32_t i = 0; i < s->options->input_count; i++)
            now[i] = take_step(s, inputs[i], at);
        prepare_states(s, step, states);
        for (uint32_t i = 0; i < s->options->state_count; i++)
            before[i] = states[i];
        body(user, s->graph, &(bg_scan_step){.step = (uint64_t)step, .inputs = now, .states = states, .outputs = made});
        if (!check_step(s, before, states, made))
            return;
        for (uint32_t i = 0; i < s->options->output_count; i++)
            s->made[i * s->steps + at] = made[i];
    }
}

/* Joins the outputs of all steps along the time axis, which the output of a single step does not have. */
static bg_value join_steps(const scan *s, bg_value *made)
{
    const bg_type type = bg_graph_type(s->graph, made[0]);
    const uint32_t axis = find_axis(s, type.rank + 1);
    int64_t dims[BG_MAX_RANK + 1];

    if (type.rank >= BG_MAX_RANK || axis > type.rank) {
        refuse(s->graph, BG_ERROR_SHAPE, "scan: an output has rank %u, so axis %lld of time cannot be added to it",
               type.rank, s->options->axis);
        return (bg_value){0};
    }
    for (uint32_t d = 0; d <= type.rank; d++)
        dims[d] = d == axis ? 1 : type.dims[d < axis ? d : d - 1];
    for (int64_t step = 0; step < s->steps; step++)
        made[step] = bg_reshape(s->graph, NULL, made[step], type.rank + 1, dims);
    return bg_concat(s->graph, NULL, made, (uint32_t)s->steps, (int32_t)axis);
}

bg_value bg_scan(bg_graph *graph, const bg_scan_options *options, const bg_value *inputs, bg_value *states,
                 void (*body)(void *user, bg_graph *graph, bg_scan_step *step), void *user, bg_value *outputs)
{
    scan s = {.graph = graph, .options = options};
    bg_value first = {0};

    if (!check_counts(graph, options))
        return first;
    if (inputs == NULL || body == NULL || (states == NULL && options->state_count > 0)) {
        bg_graph_fail(graph, BG_ERROR_INVALID, "scan: it needs %s",
                      inputs == NULL ? "inputs"
                      : body == NULL ? "a body"
                                     : "first states");
        return first;
    }
    if (!read_inputs(&s, inputs))
        return first;
    s.made = calloc((size_t)s.steps * options->output_count, sizeof *s.made);
    if (s.made == NULL) {
        bg_graph_fail(graph, BG_ERROR_MEMORY, "out of memory for a scan of %lld steps", (long long)s.steps);
        return first;
    }
    run_steps(&s, inputs, states, body, user);
    for (uint32_t i = 0; i < options->output_count && bg_graph_check(graph, NULL) == BG_OK; i++) {
        const bg_value joined = join_steps(&s, s.made + i * s.steps);

        if (i == 0)
            first = joined;
        if (outputs != NULL)
            outputs[i] = joined;
    }
    free(s.made);
    return bg_graph_check(graph, NULL) == BG_OK ? first : (bg_value){0};
}
