/*
 * execute.c: runs a session: checks the caller's arguments, converts them for the engine, and begins and ends the
 * outfeeds.
 */
#include "runtime/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <brigade/loop.h>

#include "core/error.h"
#include "options/optimizer.h"
#include "runtime/weights.h"
#include "transport/ranks.h"

/* ---- the caller's arrays ---- */

/* Returns whether the output's array must have a place for each iteration, or for every n-th one. */
static bool grows(const bgi_plan_output *output)
{
    return output->mode == BG_OUTPUT_ALL || output->mode == BG_OUTPUT_EVERY_N;
}

static bg_status check_inputs(const bg_plan *plan, const bg_run *run, bg_error *error)
{
    if (run->infeed != NULL && !run->synthetic)
        BGI_TRY(bgi_infeed_check(run->infeed, plan, error));
    for (uint32_t i = 0; i < plan->input_count && !run->synthetic; i++) {
        const bool is_given = run->inputs != NULL && run->inputs[i] != NULL;
        if (!is_given && (run->infeed == NULL || !bgi_infeed_feeds(run->infeed, i)))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "input `%s` is missing; pass it in the list of inputs or through the infeed",
                                plan->inputs[i].name);
        if (is_given && run->infeed != NULL && bgi_infeed_feeds(run->infeed, i))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "input `%s` is in the list of inputs and in the infeed; remove it from one",
                                plan->inputs[i].name);
        if (!is_given && run->constants != NULL && run->constants[i])
            return bg_error_set(error, BG_ERROR_INVALID, "input `%s` is marked as constant, but comes from the infeed",
                                plan->inputs[i].name);
    }
    return BG_OK;
}

static bg_status check_limit(const bg_plan *plan, const bg_run *run, uint64_t limit, bg_error *error)
{
    if (limit > plan->iterations && !bgi_plan_counts_steps(plan))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "iterations is %llu, but in inference the plan determines the device iterations; set iterations to 0",
            (unsigned long long)run->iterations);
    for (uint32_t i = 0; i < bgi_plan_output_count(plan) && limit > plan->iterations && !run->synthetic; i++) {
        const bool has_array = grows(&plan->outputs[i]) && run->outputs != NULL && run->outputs[i] != NULL;
        if (has_array)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "output `%s` has an array for %u iterations, but the run has more: use an outfeed",
                                plan->outputs[i].name, plan->iterations);
    }
    for (uint32_t i = 0; i < plan->input_count && limit > plan->iterations && !run->synthetic; i++)
        if (run->inputs != NULL && run->inputs[i] != NULL && (run->constants == NULL || !run->constants[i]))
            return bg_error_set(error, BG_ERROR_INVALID,
                                "input `%s` has an array for %u iterations, but the run has more: use an infeed, "
                                "or make it constant",
                                plan->inputs[i].name, plan->iterations);
    return BG_OK;
}

static bg_status check_rates(const bg_plan *plan, const double *rates, uint64_t limit, bg_error *error)
{
    if (rates == NULL)
        return BG_OK;
    if (!plan->training)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "learning_rates is set, but a session for inference has no optimizer; leave it NULL");
    if (limit == BG_ENDLESS)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "learning_rates is set for an endless run; give the run a number of iterations, or set one rate");
    for (uint64_t i = 0; i < limit; i++)
        if (!isfinite(rates[i]) || rates[i] < 0.0)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "learning_rates[%llu] is %g; it must be a finite number of at least 0",
                                (unsigned long long)i, rates[i]);
    return BG_OK;
}

static bg_status find_stop(const bg_session *session, const char *name, uint32_t *out, bg_error *error)
{
    *out = BGI_NO_OUTPUT;
    if (name == NULL)
        return BG_OK;
    *out = bg_session_find_output(session, name);
    if (*out == UINT32_MAX)
        return bg_error_set(error, BG_ERROR_NOT_FOUND,
                            "the run stops at output `%s`, but the session has no such output", name);
    if (bg_type_element_count(&session->plan->outputs[*out].type) != 1)
        return bg_error_set(error, BG_ERROR_SHAPE, "the run stops at output `%s`, which must be a scalar", name);
    return BG_OK;
}

/* ---- carried values ---- */

static const bgi_plan_variable *carried_variable(const bg_plan *plan, uint32_t index)
{
    return &plan->variables[plan->carried[index]];
}

static void write_zeros(bg_session *session, const bgi_plan_variable *variable, void *zeros)
{
    memset(zeros, 0, bg_type_size_bytes(&variable->type));
    for (uint32_t replica = 0; replica < session->plan->replicas; replica++)
        for (uint32_t p = 0; p < variable->place_count; p++)
            bgi_engine_write(session->engine, replica, &variable->places[p], zeros,
                             bg_type_size_bytes(&variable->type));
}

/* Sets the carried values; sets out->limit to 0 if the condition of a while loop fails before the first iteration. */
static bg_status give_carried(bg_session *session, const bg_run *run, bgi_run *out, bg_error *error)
{
    const bg_plan *plan = session->plan;
    const void *values[BG_LOOP_MOST_CARRIED];
    double goes_on = 0.0;

    for (uint32_t i = 0; i < plan->carried_count; i++) {
        const bgi_plan_variable *variable = carried_variable(plan, i);
        if (run->carried_in != NULL && run->carried_in[i] != NULL)
            bgi_session_upload(session, variable, run->carried_in[i]);
        else
            write_zeros(session, variable, session->carried[i]);
        values[i] = session->carried[i];
        BGI_TRY(bgi_engine_fetch(session->engine, 0, &variable->places[0], NULL, session->carried[i],
                                 bg_type_size_bytes(&variable->type), error));
    }
    if (plan->condition == NULL)
        return BG_OK;
    bgi_interpret_condition(plan->condition, session->condition_memory, values, &goes_on);
    if (!(goes_on > 0.0))
        out->limit = 0;
    return BG_OK;
}

static bg_status return_carried(const bg_session *session, const bg_run *run, bg_error *error)
{
    const bg_plan *plan = session->plan;

    for (uint32_t i = 0; run->carried_out != NULL && i < plan->carried_count; i++) {
        const bgi_plan_variable *variable = carried_variable(plan, i);
        const size_t size = bg_type_size_bytes(&variable->type);
        for (uint32_t replica = 0; run->carried_out[i] != NULL && replica < plan->replicas; replica++)
            BGI_TRY(bgi_engine_fetch(session->engine, replica, &variable->places[0], NULL,
                                     (char *)run->carried_out[i] + replica * size, size, error));
    }
    return BG_OK;
}

/* ---- a run ---- */

static void end_outfeeds(bg_outfeed *first, const bg_outfeed *end, bg_status status, const bg_error *error)
{
    for (bg_outfeed *outfeed = first; outfeed != end; outfeed = outfeed->next)
        bgi_outfeed_end(outfeed, status == BG_ERROR_RANGE ? BG_OK : status, error->message);
}

static bg_status begin_outfeeds(bg_session *session, const bgi_run *run, bg_error *error)
{
    for (bg_outfeed *outfeed = run->outfeeds; outfeed != NULL; outfeed = outfeed->next) {
        const bg_status status = bgi_outfeed_begin(outfeed, session->engine, run->limit, error);
        if (status != BG_OK) {
            end_outfeeds(run->outfeeds, outfeed, BG_OK, error);
            return status;
        }
    }
    return BG_OK;
}

/* Returns, on all ranks, the failure of the lowest rank whose data failed. If no rank's data failed, returns `own`, the
 * status of this rank's data. */
static bg_status share_failure(const bg_session *session, const bg_error *own, bg_error *error)
{
    struct {
        uint64_t status;
        char text[256];
    } said;

    for (uint32_t rank = 0; rank < session->engine->ranks->carrier->rank_count; rank++) {
        memset(&said, 0, sizeof said);
        said.status = (uint64_t)own->status;
        snprintf(said.text, sizeof said.text, "%.*s", (int)sizeof said.text - 1, own->message);
        BGI_TRY(bgi_ranks_share(session->engine->transport, rank, &said, sizeof said, error));
        if (said.status != BG_OK && said.status != BG_ERROR_RANGE)
            return bg_error_set(error, (bg_status)said.status, "rank %u: %s", rank, said.text);
    }
    return bg_error_set(error, own->status, "%s", own->message);
}

/* Reports data that ended or failed before the run reached its limit. */
static bg_status check_data(const bg_session *session, const bgi_run *run, uint64_t first, uint64_t iterations,
                            bg_error *error)
{
    const bg_plan *plan = session->plan;

    if (run->infeed == NULL || run->is_synthetic || iterations >= run->limit || session->engine->gate.wants_end)
        return BG_OK;
    if (session->engine->ranks != NULL) {
        bg_error own = {0};
        bgi_infeed_report(run->infeed, iterations, &own);
        return share_failure(session, &own, error);
    }
    if (bgi_infeed_end(run->infeed) >= first + (iterations + 1) * bgi_infeed_elements(plan))
        return BG_OK;
    return bgi_infeed_report(run->infeed, iterations, error);
}

/* Runs the session; called after the thread has entered the session's weights. */
static bg_status execute(bg_session *session, const bg_run *given, uint64_t *out_iterations, bg_error *error)
{
    const bg_plan *plan = session->plan;
    const uint64_t planned = plan->is_loop ? plan->loop_iterations : plan->iterations;
    bgi_run run = {.inputs = given->inputs,
                   .constants = given->constants,
                   .outputs = given->outputs,
                   .infeed = given->infeed,
                   .outfeeds = given->synthetic ? NULL : session->outfeeds,
                   .spare = given->spare,
                   .spare_user = given->spare_user,
                   .limit = given->iterations != 0 ? given->iterations : planned,
                   .condition_output = plan->condition != NULL ? plan->condition_output : BGI_NO_OUTPUT,
                   .is_synthetic = given->synthetic,
                   .scalars = given->learning_rates,
                   .scalar = BGI_OPTIMIZER_RATE};
    uint64_t iterations = 0, first = 0;
    bg_error own = {0};
    bg_status status;

    BGI_TRY(check_inputs(plan, given, error));
    BGI_TRY(check_limit(plan, given, run.limit, error));
    BGI_TRY(check_rates(plan, given->learning_rates, run.limit, error));
    BGI_TRY(find_stop(session, given->stop, &run.stop_output, error));
    if (plan->condition != NULL && run.limit > plan->loop_iterations)
        run.limit = plan->loop_iterations;
    BGI_TRY(give_carried(session, given, &run, error));
    BGI_TRY(begin_outfeeds(session, &run, error));
    if (run.infeed != NULL && !run.is_synthetic)
        first = bgi_infeed_first(run.infeed);
    status = bgi_session_run(session, &run, &iterations, &own);
    if (status == BG_OK)
        status = return_carried(session, given, &own);
    if (status == BG_OK) {
        if (out_iterations != NULL)
            *out_iterations = iterations;
        status = check_data(session, &run, first, iterations, &own);
    }
    if (status == BG_ERROR_NOT_FINITE && out_iterations != NULL)
        *out_iterations = iterations; /* the iterations before the refused update */
    end_outfeeds(run.outfeeds, NULL, status, &own);
    return status != BG_OK ? bg_error_set(error, status, "%s", own.message) : BG_OK;
}

static bg_status begin(bg_session *session, bg_error *error)
{
    const bg_plan *plan = session->plan;

    if (bgi_engine_lacks_threads(session->engine))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the session's threads are in process %ld, from which this process was forked; create a "
                            "session here, or fork before creating one",
                            (long)session->engine->process);
    return bgi_weights_enter(session->weights, session,
                             plan->training  ? "a training run"
                             : plan->is_loop ? "a run of a loop"
                                             : "an inference run",
                             error);
}

bg_status bg_session_execute(bg_session *session, const bg_run *given, uint64_t *out_iterations, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(given, "run", __func__, error));
    BGI_TRY(bgi_struct_check(given->struct_bytes, sizeof *given, "bg_run", NULL, error));

    bg_status status;

    if (out_iterations != NULL)
        *out_iterations = 0;
    BGI_TRY(begin(session, error));
    status = execute(session, given, out_iterations, error);
    bgi_weights_leave(session->weights);
    return status;
}

bg_status bg_session_run(bg_session *session, const void *const *inputs, void *const *outputs, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));

    const bg_plan *plan = session->plan;

    if ((plan->input_count > 0 && inputs == NULL) || (bgi_plan_output_count(plan) > 0 && outputs == NULL))
        return bg_error_set(error, BG_ERROR_INVALID, "the array of %s is NULL",
                            plan->input_count > 0 && inputs == NULL ? "inputs" : "outputs");
    return bg_session_execute(session, &(bg_run){.inputs = inputs, .outputs = outputs}, NULL, error);
}

bg_status bg_session_run_infeed(bg_session *session, bg_infeed *infeed, void *const *outputs, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(infeed, "infeed", __func__, error));
    return bg_session_execute(session, &(bg_run){.infeed = infeed, .outputs = outputs}, NULL, error);
}

typedef bg_status (*open_infeed)(void *user, bg_infeed **out, bg_error *error);

/* Keeps the session's kept infeed if it belongs to this key and number. Otherwise replaces it with a new infeed, which
 * `open` creates. */
static bg_status open_kept(bg_session *session, const void *key, uint64_t number, open_infeed open, void *user,
                           bg_error *error)
{
    bg_infeed *infeed = NULL;
    bg_status status;

    if (session->kept_infeed != NULL && session->kept_key == key && session->kept_number == number)
        return BG_OK;
    bg_infeed_destroy(session->kept_infeed);
    session->kept_infeed = NULL;
    BGI_TRY(open(user, &infeed, error));
    status = bg_infeed_start(infeed, session, error);
    if (status != BG_OK) {
        bg_infeed_destroy(infeed);
        return status;
    }
    session->kept_infeed = infeed;
    session->kept_key = key;
    session->kept_number = number;
    return BG_OK;
}

bg_status bg_session_run_kept(bg_session *session, const void *key, uint64_t number, open_infeed open, void *user,
                              void *const *outputs, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    if (open == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "bg_session_run_kept: `open` is NULL");

    bg_status status;

    BGI_TRY(begin(session, error));
    status = open_kept(session, key, number, open, user, error);
    if (status == BG_OK)
        status = execute(session, &(bg_run){.infeed = session->kept_infeed, .outputs = outputs}, NULL, error);
    bgi_weights_leave(session->weights);
    return status;
}

void bg_session_stop(bg_session *session)
{
    bgi_gate_stop(session->engine);
}

/* ---- queues ---- */

bg_status bg_infeed_start(bg_infeed *infeed, const bg_session *session, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(infeed, "infeed", __func__, error));
    BGI_TRY(bgi_require(session, "session", __func__, error));
    return bgi_infeed_start(infeed, session->engine, error);
}

bg_status bg_outfeed_attach(bg_outfeed *outfeed, bg_session *session, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(outfeed, "outfeed", __func__, error));
    BGI_TRY(bgi_require(session, "session", __func__, error));

    bg_status status;

    BGI_TRY(bgi_weights_enter(session->weights, session, "bg_outfeed_attach", error));
    status = bgi_outfeed_attach(outfeed, session->engine, error);
    if (status == BG_OK) {
        outfeed->next = session->outfeeds;
        session->outfeeds = outfeed;
    }
    bgi_weights_leave(session->weights);
    return status;
}

/* ---- shapes ---- */

/* Reports a wrong shape, with the factors of an input's first dimension. */
static bg_status refuse_shape(const bg_plan *plan, const bg_stream *stream, const bg_type *type, bg_error *error)
{
    const bg_type *own = &stream->micro_batch_type;
    const uint32_t updates = plan->training ? plan->iterations : plan->is_loop ? plan->iterations : plan->micro_batches;
    char have[BG_TYPE_TEXT_BYTES], each[BG_TYPE_TEXT_BYTES];

    return bg_error_set(
        error, BG_ERROR_SHAPE,
        "input `%s` is %s, but a run takes %lld samples of a micro-batch x %u device iterations x %u accumulation x "
        "(%u replicas / input_group_size %u) = %llu in the first dimension; a micro-batch is %s",
        stream->name, bg_type_text(type, have), (long long)(own->rank > 0 ? own->dims[0] : 1), updates,
        plan->training ? plan->micro_batches : 1, plan->replicas, plan->input_group_size,
        (unsigned long long)(stream->count * (uint64_t)(own->rank > 0 ? own->dims[0] : 1)), bg_type_text(own, each));
}

bg_status bg_session_check_input(const bg_session *session, uint32_t index, const bg_type *type, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(type, "type", __func__, error));

    bg_stream stream;
    bg_type flat, split;

    BGI_TRY(bg_session_input(session, index, &stream, error));
    BGI_TRY(bg_stream_shape(&stream, BG_STREAM_FLAT, &flat, error));
    if (bg_type_equal(type, &flat) ||
        (bg_stream_shape(&stream, BG_STREAM_SPLIT, &split, NULL) == BG_OK && bg_type_equal(type, &split)))
        return BG_OK;
    return refuse_shape(session->plan, &stream, type, error);
}

bg_status bg_stream_shape(const bg_stream *stream, bg_stream_form form, bg_type *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(stream, "stream", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bg_type *type = &stream->micro_batch_type;
    const uint64_t transfers = stream->replicas > 0 ? stream->count / stream->replicas : stream->count;
    const uint64_t leading[] = {transfers, stream->replicas};
    bg_type shape = {.dtype = type->dtype};

    if (stream->count == 0)
        return bg_error_set(error, BG_ERROR_SHAPE, "stream `%s` is not returned by a run", stream->name);
    if (form == BG_STREAM_FLAT) {
        shape = *type;
        if (type->rank > 0)
            shape.dims[0] *= (int64_t)stream->count;
        else if (stream->count > 1)
            shape = bg_vector(type->dtype, (int64_t)stream->count);
        *out = shape;
        return BG_OK;
    }
    for (uint32_t i = 0; i < 2; i++)
        if (leading[i] > 1)
            shape.dims[shape.rank++] = (int64_t)leading[i];
    if (shape.rank + type->rank > BG_MAX_RANK)
        return bg_error_set(error, BG_ERROR_SHAPE, "stream `%s` would have %u dimensions, above the limit of %d",
                            stream->name, shape.rank + type->rank, BG_MAX_RANK);
    memcpy(shape.dims + shape.rank, type->dims, type->rank * sizeof *type->dims);
    shape.rank += type->rank;
    *out = shape;
    return BG_OK;
}
