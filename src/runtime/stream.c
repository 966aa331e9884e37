/*
 * stream.c: copies between the caller's arrays and the devices. Inputs are stored as [step][micro-batch][group of
 * replicas that read the same]. The layout of outputs depends on their mode; the replica comes last. With canonical
 * reductions replicas have contiguous parts of a step: [step][group][micro-batch]. In inference a run is one step, and
 * its micro-batches are the device iterations.
 */
#include "runtime/engine.h"

#include <string.h>

#include "kernels/reference/element.h"

static const uint64_t not_wanted = UINT64_MAX;

uint64_t bgi_stream_input_count(const bg_plan *plan)
{
    return (uint64_t)plan->iterations * plan->micro_batches * bgi_plan_input_rows(plan);
}

uint64_t bgi_stream_output_count(const bg_plan *plan, const bgi_plan_output *output)
{
    const uint64_t per_step = output->is_per_update ? 1 : plan->micro_batches;

    switch (output->mode) {
    case BG_OUTPUT_ALL:
        return (uint64_t)plan->iterations * per_step * plan->replicas;
    case BG_OUTPUT_EVERY_N:
        if (bgi_plan_counts_steps(plan))
            return plan->iterations / output->period * per_step * plan->replicas;
        return (uint64_t)(plan->micro_batches / output->period) * plan->replicas;
    default:
        return plan->replicas;
    }
}

/* Returns the index of the output's current value in the caller's array; not_wanted when the mode omits the value. An
 * output of the update has one value in each step. */
static uint64_t find_place(const bgi_runner *runner, const bgi_plan_output *output)
{
    const bg_plan *plan = runner->plan;
    const uint32_t per_step = output->is_per_update ? 1 : plan->micro_batches;
    const uint32_t in_step = output->is_per_update ? 0 : runner->micro_batch;
    const uint64_t device_iteration = bgi_plan_counts_steps(plan) ? runner->run_iteration : runner->micro_batch;
    uint64_t number = runner->run_iteration * per_step + in_step;

    switch (output->mode) {
    case BG_OUTPUT_ALL:
        return bgi_plan_output_place(plan, per_step, number, runner->replica);
    case BG_OUTPUT_EVERY_N:
        if ((device_iteration + 1) % output->period != 0)
            return not_wanted;
        number = device_iteration / output->period * (bgi_plan_counts_steps(plan) ? per_step : 1) +
                 (bgi_plan_counts_steps(plan) ? in_step : 0);
        return bgi_plan_output_place(plan, per_step, number, runner->replica);
    case BG_OUTPUT_SUM:
        return runner->replica;
    default:
        /* The last iteration is not known in advance, so values of later iterations overwrite those of earlier ones. */
        return in_step + 1 == per_step ? runner->replica : not_wanted;
    }
}

/* Sums of 16-bit floats are kept in float32 and rounded for the caller after each addition, so that rounding errors do
 * not accumulate. */
static void add_narrow(bg_dtype dtype, float *sum, uint16_t *to, const uint16_t *term, size_t count, bool is_first)
{
    for (size_t i = 0; i < count; i++) {
        const float value = bgi_narrow_to_float(dtype, term[i]);
        sum[i] = is_first ? value : sum[i] + value;
        to[i] = bgi_narrow_from_float(dtype, sum[i]);
    }
}

/* Adds the value of one micro-batch; the first one of a run begins the sum. Integers wrap around. */
static void add(const bg_type *type, float *wide_sum, void *to, const void *term, bool is_first)
{
    const size_t count = (size_t)bg_type_element_count(type);

    if (bgi_dtype_is_narrow(type->dtype)) {
        add_narrow(type->dtype, wide_sum, to, term, count, is_first);
    } else if (is_first) {
        memcpy(to, term, bg_type_size_bytes(type));
    } else if (type->dtype == BG_FLOAT64) {
        for (size_t i = 0; i < count; i++)
            ((double *)to)[i] += ((const double *)term)[i];
    } else if (type->dtype == BG_FLOAT32) {
        for (size_t i = 0; i < count; i++)
            ((float *)to)[i] += ((const float *)term)[i];
    } else if (type->dtype == BG_INT64) {
        for (size_t i = 0; i < count; i++)
            ((uint64_t *)to)[i] += ((const uint64_t *)term)[i];
    } else {
        for (size_t i = 0; i < count; i++)
            ((uint32_t *)to)[i] += ((const uint32_t *)term)[i];
    }
}

void bgi_stream_in(bgi_runner *runner, const bgi_instruction *instruction)
{
    const bgi_run *run = runner->engine->run;
    const bg_plan *plan = runner->plan;
    const uint64_t step = runner->run_iteration * plan->micro_batches * bgi_plan_input_rows(plan);
    const uint64_t place =
        step + bgi_plan_input_place(plan, runner->micro_batch, bgi_plan_input_row(plan, runner->replica));
    bool has_fed = false;

    if (run->is_synthetic)
        return;
    for (uint32_t i = 0; i < instruction->copy_count; i++) {
        const bgi_copy *copy = &instruction->copies[i];
        const bool is_constant = run->constants != NULL && run->constants[copy->stream];
        const void *from;
        if (run->inputs != NULL && run->inputs[copy->stream] != NULL) {
            from = (const char *)run->inputs[copy->stream] + (is_constant ? 0 : place * copy->size_bytes);
        } else {
            from = bgi_infeed_tensor(run->infeed, place, copy->stream);
            has_fed = true;
        }
        runner->device->type->copy_in(runner->device, bgi_runner_address(runner, &copy->operand, copy->size_bytes),
                                      from, copy->size_bytes);
    }
    if (has_fed)
        bgi_infeed_release(run->infeed, place);
}

/* ---- out ---- */

/* Votes for this replica after the last micro-batch of an iteration. */
static void vote(bgi_runner *runner, const bgi_plan_output *output, uint32_t stream, const void *value)
{
    const bgi_run *run = runner->engine->run;
    bool is_above;

    if ((!output->is_per_update && runner->micro_batch + 1 < runner->plan->micro_batches) ||
        (stream != run->stop_output && stream != run->condition_output))
        return;
    is_above = bgi_load(output->type.dtype, value, 0) > 0.0;
    if (stream == run->stop_output)
        bgi_runner_tell(runner, BGI_HOST, BGI_NOTE_VOTE, !is_above);
    if (stream == run->condition_output)
        bgi_runner_tell(runner, BGI_HOST, BGI_NOTE_VOTE, is_above);
}

static void feed_out(bgi_runner *runner, uint32_t stream, const void *value)
{
    for (bg_outfeed *outfeed = runner->engine->run->outfeeds; outfeed != NULL; outfeed = outfeed->next)
        for (uint32_t leaf = 0; leaf < outfeed->leaf_count; leaf++)
            if (outfeed->leaves[leaf].stream == stream)
                bgi_outfeed_write(runner, outfeed, leaf, value);
}

bool bgi_stream_has_room(bgi_runner *runner, const bgi_instruction *instruction)
{
    for (bg_outfeed *outfeed = runner->engine->run->outfeeds; outfeed != NULL; outfeed = outfeed->next)
        for (uint32_t i = 0; i < instruction->copy_count; i++)
            for (uint32_t leaf = 0; leaf < outfeed->leaf_count; leaf++)
                if (outfeed->leaves[leaf].stream == instruction->copies[i].stream &&
                    !bgi_outfeed_has_room(runner, outfeed))
                    return false;
    return true;
}

/* Returns the address at which the host reads an output: in place if the host can access it, otherwise in a copy. */
static const void *find_value(bgi_runner *runner, const bgi_copy *copy)
{
    const bgi_device_type *type = runner->device->type;
    void *address = bgi_runner_address(runner, &copy->operand, copy->size_bytes);

    if (type->map != NULL)
        return type->map(runner->device, address);
    type->copy_out(runner->device, runner->host_value, address, copy->size_bytes);
    return runner->host_value;
}

void bgi_stream_out(bgi_runner *runner, const bgi_instruction *instruction)
{
    const bgi_run *run = runner->engine->run;
    const bool is_first = runner->run_iteration == 0 && runner->micro_batch == 0;

    for (uint32_t i = 0; i < instruction->copy_count; i++) {
        const bgi_copy *copy = &instruction->copies[i];
        const bgi_plan_output *output = &runner->plan->outputs[copy->stream];
        const uint64_t place = find_place(runner, output);
        const void *from = find_value(runner, copy);
        char *to = bgi_run_array(run, copy->stream);

        vote(runner, output, copy->stream, from);
        feed_out(runner, copy->stream, from);
        if (to == NULL || place == not_wanted)
            continue;
        to += place * copy->size_bytes;
        if (output->mode == BG_OUTPUT_SUM)
            add(&output->type, runner->engine->sums[copy->stream * runner->plan->replicas + runner->replica], to, from,
                is_first);
        else
            memcpy(to, from, copy->size_bytes);
    }
}
