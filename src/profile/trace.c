/*
 * trace.c: writes a recorded run as Chrome trace events. The format is the part of "Trace Event Format" (Google, 2016)
 * that Perfetto reads: "X" complete slices, "C" counters, "s"/"f" arrows, "M" names. Times are microseconds.
 *
 * Only the names of blocks are the user's, so only they are escaped.
 */
#include <brigade/profile.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/file.h"
#include "profile/events.h"
#include "profile/memory.h"

typedef struct trace_writer {
    bgi_file_writer *file; /* stores a failure until the file is committed */
    const bg_plan *plan;
    const bgi_events *events;
    bool has_items;
} trace_writer;

/* Writes a comma before every item except the first, and each item on its own line. */
static void begin_item(trace_writer *writer)
{
    bgi_file_print(writer->file, "%s", writer->has_items ? ",\n" : "\n");
    writer->has_items = true;
}

/* Writes all digits of nanoseconds without converting to double. */
static void write_time(bgi_file_writer *file, const char *key, uint64_t time_ns)
{
    bgi_file_print(file, ",\"%s\":%" PRIu64 ".%03u", key, time_ns / 1000, (unsigned)(time_ns % 1000));
}

static void write_escaped(bgi_file_writer *file, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            bgi_file_print(file, "\\%c", c);
        else if (c < 0x20)
            bgi_file_print(file, "\\u%04x", c);
        else
            bgi_file_write(file, text, 1);
    }
}

/* Writes the name of a device's track: "device 0 (stage 0: B1)". */
static void write_device_name(trace_writer *writer, uint32_t device)
{
    const bg_plan *plan = writer->plan;
    const bg_plan_summary summary = bg_plan_summarize(plan);
    bgi_file_writer *file = writer->file;
    bool is_first = true;

    bgi_file_print(file, "device %u (", device);
    for (uint32_t stage = 0; stage < summary.stage_count; stage++) {
        const char *separator = ": ";
        if (bg_plan_stage_device(plan, stage) != device)
            continue;
        bgi_file_print(file, "%sstage %u", is_first ? "" : "; ", stage);
        is_first = false;
        for (uint32_t i = 0; i < summary.block_count; i++) {
            const bg_plan_block block = bg_plan_block_at(plan, i);
            if (block.stage != stage || block.name[0] == '\0')
                continue;
            bgi_file_print(file, "%s", separator);
            write_escaped(file, block.name);
            separator = ", ";
        }
    }
    bgi_file_print(file, ")");
}

/* Returns the name of the device's track for work that overlaps with its program. */
static const char *name_beside(const bg_plan *plan, uint32_t device)
{
    bool has_sums = false;

    for (uint32_t i = 0; i < bg_plan_instruction_count(plan, device); i++)
        has_sums = has_sums || bg_plan_instruction_at(plan, device, i).is_beside;
    if (bg_plan_transfer_count(plan, device) == 0)
        return has_sums ? "reductions" : NULL;
    return has_sums ? "loads, stores and reductions" : "loads and stores";
}

static void write_names(trace_writer *writer)
{
    for (uint32_t replica = 0; replica < writer->events->replica_count; replica++) {
        begin_item(writer);
        bgi_file_print(writer->file,
                       "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"replica %u\"}}",
                       replica, replica);
        for (uint32_t device = 0; device < writer->events->device_count; device++) {
            begin_item(writer);
            bgi_file_print(writer->file,
                           "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"",
                           replica, device);
            write_device_name(writer, device);
            bgi_file_print(writer->file, "\"}}");
            if (name_beside(writer->plan, device) == NULL)
                continue;
            begin_item(writer);
            bgi_file_print(
                writer->file,
                "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"device %u: "
                "%s\"}}",
                replica, writer->events->device_count + device, device, name_beside(writer->plan, device));
        }
    }
}

/* Returns the number in an action's label: of the micro-batch in "F 3", of the level in "U 1", of the edge in "SEND
 * 2". */
static uint32_t label_number(const bg_action *action)
{
    switch (action->kind) {
    case BG_ACTION_FORWARD:
    case BG_ACTION_BACKWARD:
    case BG_ACTION_WEIGHTS:
    case BG_ACTION_RECOMPUTE:
    case BG_ACTION_HOST_IN:
    case BG_ACTION_HOST_OUT:
        return action->micro_batch;
    default:
        return action->index;
    }
}

/* Returns the track of an event. Loads, stores and some reductions overlap with the program, so they have separate
 * tracks after those of the devices. */
static uint32_t find_track(const trace_writer *writer, const bg_trace_event *event)
{
    return event->is_beside ? writer->events->device_count + event->device : event->device;
}

static void write_slice(trace_writer *writer, const bg_trace_event *event)
{
    const char *kind = bg_action_kind_name(event->action.kind);

    begin_item(writer);
    bgi_file_print(writer->file, "{\"ph\":\"X\",\"name\":\"%s %u\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u", kind,
                   label_number(&event->action), kind, event->replica, find_track(writer, event));
    write_time(writer->file, "ts", event->start_ns);
    write_time(writer->file, "dur", event->end_ns - event->start_ns);
    bgi_file_print(writer->file, ",\"args\":{\"step\":%" PRIu64 ",\"micro_batch\":%u,\"stage\":%u,\"worker\":%u}}",
                   event->step, event->action.micro_batch, event->action.stage, event->worker);
}

/* Writes one end of an arrow; both ends have the same (cat, name, id). */
static void write_arrow_end(trace_writer *writer, const bg_trace_event *event)
{
    bool is_start = event->action.kind == BG_ACTION_SEND;

    begin_item(writer);
    bgi_file_print(writer->file,
                   "{\"ph\":\"%s\",\"name\":\"message\",\"cat\":\"message\",\"id\":\"%u.%u.%" PRIu64
                   ".%u\",\"pid\":%u,\"tid\":%u",
                   is_start ? "s" : "f\",\"bp\":\"e", event->replica, event->action.index, event->step,
                   event->action.micro_batch, event->replica, event->device);
    write_time(writer->file, "ts", is_start ? event->start_ns : event->end_ns);
    bgi_file_print(writer->file, "}");
}

/* Compares by message, then by time. */
static int compare_messages(const void *a, const void *b)
{
    const bg_trace_event *x = *(const bg_trace_event *const *)a, *y = *(const bg_trace_event *const *)b;

    if (x->replica != y->replica)
        return x->replica < y->replica ? -1 : 1;
    if (x->action.index != y->action.index)
        return x->action.index < y->action.index ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->action.micro_batch != y->action.micro_batch)
        return x->action.micro_batch < y->action.micro_batch ? -1 : 1;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static bool is_one_message(const bg_trace_event *send, const bg_trace_event *receive)
{
    return send->action.kind == BG_ACTION_SEND && receive->action.kind == BG_ACTION_RECEIVE &&
           send->replica == receive->replica && send->action.index == receive->action.index &&
           send->step == receive->step && send->action.micro_batch == receive->action.micro_batch;
}

/* Writes an arrow for each message, unless one of the two events was dropped with the oldest events. */
static bg_status write_arrows(trace_writer *writer, bg_error *error)
{
    const bgi_events *events = writer->events;
    const bg_trace_event **ends;
    size_t count = 0, limit = 0;

    for (uint32_t d = 0; d < events->replica_count * events->device_count; d++)
        limit += events->devices[d].count;
    ends = malloc((limit + 1) * sizeof *ends);
    if (ends == NULL)
        return bgi_error_memory(error, "trace arrows", (limit + 1) * sizeof *ends);
    for (uint32_t d = 0; d < events->replica_count * events->device_count; d++) {
        const bgi_device_events *own = &events->devices[d];
        for (uint32_t i = 0; i < own->count; i++)
            if (own->events[i].action.kind == BG_ACTION_SEND || own->events[i].action.kind == BG_ACTION_RECEIVE)
                ends[count++] = &own->events[i];
    }
    qsort(ends, count, sizeof *ends, compare_messages);
    for (size_t i = 0; i + 1 < count; i++) {
        if (!is_one_message(ends[i], ends[i + 1]))
            continue;
        write_arrow_end(writer, ends[i]);
        write_arrow_end(writer, ends[i + 1]);
        i++;
    }
    free(ends);
    return BG_OK;
}

static bg_status write_slices(trace_writer *writer, bgi_progress *progress, bg_error *error)
{
    const bgi_events *events = writer->events;

    for (uint32_t d = 0; d < events->replica_count * events->device_count; d++) {
        char name[64];
        snprintf(name, sizeof name, "trace of replica %u, device %u", d / events->device_count,
                 d % events->device_count);
        BGI_TRY(bgi_progress_begin(progress, name, 1, error));
        for (uint32_t i = 0; i < events->devices[d].count; i++)
            write_slice(writer, &events->devices[d].events[i]);
    }
    return BG_OK;
}

/* Writes one counter event for each moment at which the sum changes. */
static void write_track(trace_writer *writer, uint32_t replica, uint32_t device, const bgi_memory_track *track)
{
    int64_t live = 0;

    for (size_t i = 0; i < track->count; i++) {
        live += track->changes[i].bytes;
        if (i + 1 < track->count && track->changes[i + 1].at_ns == track->changes[i].at_ns)
            continue;
        begin_item(writer);
        bgi_file_print(writer->file, "{\"ph\":\"C\",\"name\":\"memory of device %u\",\"pid\":%u", device, replica);
        write_time(writer->file, "ts", track->changes[i].at_ns);
        bgi_file_print(writer->file, ",\"args\":{\"bytes\":%" PRId64 "}}", live);
    }
}

static bg_status write_memory(trace_writer *writer, bg_error *error)
{
    uint32_t device_count = writer->events->device_count;
    bgi_memory_track *tracks = calloc(device_count + 1, sizeof *tracks);
    bg_status status = BG_OK;

    if (tracks == NULL)
        return bgi_error_memory(error, "memory trace", device_count * sizeof *tracks);
    for (uint32_t replica = 0; status == BG_OK && replica < writer->events->replica_count; replica++) {
        for (uint32_t device = 0; device < device_count; device++)
            tracks[device].count = 0;
        status = bgi_memory_trace(writer->events, writer->plan, replica, tracks, error);
        for (uint32_t device = 0; status == BG_OK && device < device_count; device++)
            write_track(writer, replica, device, &tracks[device]);
    }
    for (uint32_t device = 0; device < device_count; device++)
        free(tracks[device].changes);
    free(tracks);
    return status;
}

bg_status bgi_trace_write(const bg_session *session, const bg_plan *plan, uint32_t most, const char *path,
                          bgi_progress *progress, bg_error *error)
{
    bgi_file_writer file = {0};
    trace_writer writer = {.plan = plan};
    bgi_events events;
    bg_status status;

    BGI_TRY(bgi_events_read(session, plan, &events, error));
    if (most < UINT32_MAX)
        bgi_events_crop(&events, most / (events.replica_count * events.device_count) + 1);
    BGI_TRY_CLEANUP(bgi_file_writer_begin(&file, path, error));
    writer.file = &file;
    writer.events = &events;
    bgi_file_print(&file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    write_names(&writer);
    BGI_TRY_CLEANUP(write_slices(&writer, progress, error));
    BGI_TRY_CLEANUP(write_arrows(&writer, error));
    BGI_TRY_CLEANUP(write_memory(&writer, error));
    bgi_file_print(&file, "\n]}\n");
    status = bgi_file_writer_commit(&file, error);
cleanup:
    bgi_file_writer_abandon(&file, error);
    bgi_events_clear(&events);
    return status;
}

bg_status bg_profile_write_trace(const bg_session *session, const bg_plan *plan, const char *path, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(session, "session", __func__, error));
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(path, "path", __func__, error));

    const bg_reporting_options *reporting = &bg_plan_options(plan)->reporting;
    const bg_plan_summary summary = bg_plan_summarize(plan);
    bgi_progress progress = {reporting->progress, reporting->progress_user, "the trace", 0,
                             (uint64_t)summary.replicas * summary.device_count};

    return bgi_trace_write(session, plan, UINT32_MAX, path, &progress, error);
}
