/*
 * session_view.c: shows callers what a session has: the streams of its inputs and outputs, its workers and devices, and
 * the events of their traces.
 */
#include "runtime/session.h"

#include <string.h>

#include "core/error.h"
#include "core/text.h"
#include "core/threads.h"
#include "runtime/weights.h"

/* ---- streams ---- */

uint32_t bg_session_input_count(const bg_session *session)
{
    return session->plan->input_count;
}

uint32_t bg_session_output_count(const bg_session *session)
{
    return bgi_plan_output_count(session->plan);
}

static bg_stream make_stream(uint32_t replicas, const char *name, const bg_type *type, uint64_t count)
{
    return (bg_stream){.name = name,
                       .micro_batch_type = *type,
                       .count = count,
                       .replicas = replicas,
                       .size_bytes = (size_t)count * bg_type_size_bytes(type)};
}

bg_status bg_session_input(const bg_session *session, uint32_t index, bg_stream *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bg_plan *plan = session->plan;

    if (index >= plan->input_count)
        return bg_error_set(error, BG_ERROR_INVALID, "input is %u but must be below %u, the number of inputs", index,
                            plan->input_count);
    *out = make_stream(bgi_plan_is_canonical(plan) ? 1 : bgi_plan_input_rows(plan), plan->inputs[index].name,
                       &plan->inputs[index].type, bgi_stream_input_count(plan));
    return BG_OK;
}

bg_status bg_session_output(const bg_session *session, uint32_t index, bg_stream *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    const bg_plan *plan = session->plan;

    if (index >= bgi_plan_output_count(plan))
        return bg_error_set(error, BG_ERROR_INVALID, "output is %u but must be below %u, the number of outputs", index,
                            bgi_plan_output_count(plan));
    *out =
        make_stream(bgi_plan_has_stretches(plan, &plan->outputs[index]) ? 1 : plan->replicas, plan->outputs[index].name,
                    &plan->outputs[index].type, bgi_stream_output_count(plan, &plan->outputs[index]));
    return BG_OK;
}

uint32_t bg_session_find_input(const bg_session *session, const char *name)
{
    for (uint32_t i = 0; i < session->plan->input_count; i++)
        if (strcmp(session->plan->inputs[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

uint32_t bg_session_find_output(const bg_session *session, const char *name)
{
    for (uint32_t i = 0; i < bgi_plan_output_count(session->plan); i++)
        if (strcmp(session->plan->outputs[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

/* ---- looking inside ---- */

bg_status bg_session_print_workers(const bg_session *session, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    const char *allowed = session->engine->cpus;
    bgi_string text = {0};

    for (uint32_t i = 0; i < session->engine->worker_count; i++) {
        const bgi_worker *worker = &session->engine->workers[i];
        if (worker->does_io)
            bgi_string_add(&text, "worker %u on any core%s%s, for loads and stores\n", worker->number,
                           allowed[0] != '\0' ? " of " : "", allowed);
        else if (worker->is_caller)
            bgi_string_add(&text, "worker %u on the calling thread\n", worker->number);
        else if (worker->cpu == BGI_NO_CPU)
            bgi_string_add(&text, "worker %u on any core%s%s\n", worker->number, allowed[0] != '\0' ? " of " : "",
                           allowed);
        else
            bgi_string_add(&text, "worker %u on core %u\n", worker->number, worker->cpu);
    }
    return bgi_string_finish(&text, out_text, error);
}

static bgi_runner *find_device(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bg_plan *plan = session->plan;

    if (replica >= plan->replicas || device >= plan->device_count || !bgi_engine_has(session->engine, replica, device))
        return NULL;
    return &session->engine->runners[replica * plan->device_count + device];
}

void bg_session_ask_to_stop(bg_session *session)
{
    atomic_store(&session->engine->asks_to_stop, true);
}

bool bg_session_is_asked_to_stop(const bg_session *session)
{
    return session->engine->ranks != NULL ? session->engine->is_asked_to_stop
                                          : atomic_load(&session->engine->asks_to_stop);
}

bool bg_session_has_device(const bg_session *session, uint32_t replica, uint32_t device)
{
    return find_device(session, replica, device) != NULL;
}

/* Whether the device reads the input; a device reads the same inputs for every micro-batch. */
static bool device_reads(const bgi_plan_device *device, uint32_t input)
{
    for (uint32_t i = 0; i < device->instruction_count; i++) {
        const bgi_instruction *instruction = &device->instructions[i];

        if (instruction->action.kind != BG_ACTION_HOST_IN || instruction->action.micro_batch != 0)
            continue;
        for (uint32_t c = 0; c < instruction->copy_count; c++)
            if (instruction->copies[c].stream == input)
                return true;
    }
    return false;
}

bool bg_session_reads(const bg_session *session, uint32_t input, uint64_t index)
{
    const bg_plan *plan = session->plan;
    const uint32_t row = bgi_plan_place_row(plan, index);

    for (uint32_t d = 0; d < plan->device_count; d++) {
        if (!device_reads(&plan->devices[d], input))
            continue;
        for (uint32_t replica = 0; replica < plan->replicas; replica++)
            if (bgi_plan_input_row(plan, replica) == row && bgi_engine_has(session->engine, replica, d))
                return true;
    }
    return false;
}

size_t bg_session_device_bytes(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bgi_runner *found = find_device(session, replica, device);
    size_t touched;

    if (found == NULL)
        return 0;
    if (found->trace.events == NULL)
        return found->program->arena_bytes;
    if (bgi_weights_enter(session->weights, session, "bg_session_device_bytes", NULL) != BG_OK)
        return 0;
    touched = found->touched_bytes > found->io_touched_bytes ? found->touched_bytes : found->io_touched_bytes;
    bgi_weights_leave(session->weights);
    return (touched + BGI_CACHE_LINE_BYTES - 1) / BGI_CACHE_LINE_BYTES * BGI_CACHE_LINE_BYTES;
}

static uint32_t count_events(const bgi_trace_ring *ring)
{
    return ring->count < ring->capacity ? (uint32_t)ring->count : ring->capacity;
}

/* Returns the trace of another rank's device, if it was shared; otherwise NULL. */
static const bgi_shared_trace *find_shared(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bg_plan *plan = session->plan;

    if (session->shared_traces == NULL || replica >= plan->replicas || device >= plan->device_count)
        return NULL;
    return &session->shared_traces[replica * plan->device_count + device];
}

static uint32_t count_all_events(const bg_session *session, uint32_t replica, uint32_t device)
{
    const bgi_runner *found = find_device(session, replica, device);
    const bgi_shared_trace *shared = find_shared(session, replica, device);

    if (found == NULL)
        return shared != NULL ? (uint32_t)shared->count : 0;
    return found->trace.events != NULL ? count_events(&found->trace) + count_events(&found->io_trace) : 0;
}

uint32_t bg_session_trace_count(const bg_session *session, uint32_t replica, uint32_t device)
{
    uint32_t count;

    if (bgi_weights_enter(session->weights, session, "bg_session_trace_count", NULL) != BG_OK)
        return 0;
    count = count_all_events(session, replica, device);
    bgi_weights_leave(session->weights);
    return count;
}

/* Finds event `index` of a device; the events of its program come first, then those of its transfers. */
static bg_status find_event(const bg_session *session, uint32_t replica, uint32_t device, uint32_t index,
                            bg_trace_event *out, bg_error *error)
{
    const uint32_t total = count_all_events(session, replica, device);
    const bgi_runner *found = find_device(session, replica, device);
    const bgi_trace_ring *ring;
    uint32_t count;

    if (index >= total)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "event is %u but must be below %u, the number of events of replica %u, device %u%s", index, total, replica,
            device, session->plan->options.reporting.trace ? "" : "; the plan's options do not ask for a trace");
    if (found == NULL) {
        *out = find_shared(session, replica, device)->events[index];
        return BG_OK;
    }
    ring = &found->trace;
    count = count_events(ring);
    if (index >= count) {
        index -= count;
        ring = &found->io_trace;
        count = count_events(ring);
    }
    *out = ring->events[(ring->count - count + index) % ring->capacity];
    return BG_OK;
}

bg_status bg_session_trace_event(const bg_session *session, uint32_t replica, uint32_t device, uint32_t index,
                                 bg_trace_event *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_status status;

    BGI_TRY(bgi_weights_enter(session->weights, session, "bg_session_trace_event", error));
    status = find_event(session, replica, device, index, out, error);
    bgi_weights_leave(session->weights);
    return status;
}
