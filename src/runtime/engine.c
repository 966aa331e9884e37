/*
 * engine.c: memory for replicas of devices, one run from the outside, and the end.
 */
#include "runtime/engine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/narrow.h"
#include "runtime/memmap.h"

enum { PAGE_BYTES = 4096 };

/* How often the watching thread looks, as a share of the limit and at most. A worker that is not inside a kernel leaves
 * within microseconds; copies of streams are the longest it does elsewhere. */
enum { LOOKS_PER_LIMIT = 16 };
static const uint64_t longest_look_ns = 1000000000u;
static const uint64_t leave_ns = 1000000000u;

/* ---- memory ---- */

static void *take_lines(size_t count, size_t element_bytes)
{
    return count <= SIZE_MAX / element_bytes / 2 ? bgi_aligned_take(BGI_CACHE_LINE_BYTES, count * element_bytes) : NULL;
}

static bg_status take_memory(bgi_engine *engine, bg_error *error)
{
    const bg_plan *plan = engine->plan;

    for (uint32_t i = 0; i < engine->device_count; i++) {
        const bgi_plan_device *device = &plan->devices[i % plan->device_count];
        engine->arenas[i] = bgi_aligned_take(PAGE_BYTES, device->arena_bytes);
        if (engine->arenas[i] == NULL)
            return bgi_error_memory(error, "a device's arena", device->arena_bytes);
        if (device->remote_bytes == 0)
            continue;
        engine->remotes[i] = bgi_memmap_address(engine->memmap, i);
        if (engine->remotes[i] != NULL)
            continue;
        engine->remotes[i] = bgi_aligned_take(PAGE_BYTES, device->remote_bytes);
        if (engine->remotes[i] == NULL)
            return bgi_error_memory(error, "a device's remote store", device->remote_bytes);
    }
    return BG_OK;
}

/* Accumulators of outputs in 16 bits that are summed. */
static bg_status take_sums(bgi_engine *engine, bg_error *error)
{
    const bg_plan *plan = engine->plan;

    for (uint32_t i = 0; i < engine->sum_count; i++) {
        const bgi_plan_output *output = &plan->outputs[i / plan->replicas];
        const size_t count = (size_t)bg_type_element_count(&output->type);
        if (output->mode != BG_OUTPUT_SUM || !bgi_dtype_is_narrow(output->type.dtype))
            continue;
        engine->sums[i] = calloc(count, sizeof *engine->sums[i]);
        if (engine->sums[i] == NULL)
            return bgi_error_memory(error, "the sum of an output", count * sizeof *engine->sums[i]);
    }
    return BG_OK;
}

static bg_status take_tables(bgi_engine *engine, bg_error *error)
{
    const bg_plan *plan = engine->plan;
    const size_t channel_count = (size_t)plan->replicas * plan->edge_count;

    engine->devices = take_lines(engine->device_count, sizeof *engine->devices);
    engine->channels = take_lines(channel_count, sizeof *engine->channels);
    engine->barriers =
        take_lines((size_t)plan->device_count * (BG_MESH_ALL + 1) * plan->replicas, sizeof *engine->barriers);
    engine->arenas = calloc(engine->device_count, sizeof *engine->arenas);
    engine->remotes = calloc(engine->device_count, sizeof *engine->remotes);
    engine->sum_count = plan->output_count * plan->replicas;
    engine->sums = calloc((size_t)engine->sum_count + 1, sizeof *engine->sums);
    if (engine->devices == NULL || engine->channels == NULL || engine->barriers == NULL || engine->arenas == NULL ||
        engine->remotes == NULL || engine->sums == NULL)
        return bgi_error_memory(error, "the engine", engine->device_count * sizeof *engine->devices);
    return BG_OK;
}

static uint32_t count_widest_call(const bgi_plan_device *device)
{
    uint32_t widest = 1;

    for (uint32_t i = 0; i < device->instruction_count; i++)
        for (uint32_t c = 0; c < device->instructions[i].call_count; c++) {
            const bgi_call *call = &device->instructions[i].calls[c];
            if (call->input_count + call->output_count > widest)
                widest = call->input_count + call->output_count;
        }
    return widest;
}

/* ---- devices ---- */

static bg_status init_device(bgi_engine *engine, uint32_t replica, uint32_t number, bg_error *error)
{
    const bg_plan *plan = engine->plan;
    const uint32_t first = replica * plan->device_count;
    bgi_device *device = &engine->devices[first + number];
    const uint32_t widest = count_widest_call(&plan->devices[number]);

    device->engine = engine;
    device->plan = plan;
    device->program = &plan->devices[number];
    if (device->program->instruction_count > 0)
        device->instruction_share = (UINT64_C(1) << 32) / device->program->instruction_count;
    device->replica = replica;
    device->number = number;
    device->arenas = &engine->arenas[first];
    device->remotes = &engine->remotes[first];
    device->channels = &engine->channels[(size_t)replica * plan->edge_count];
    device->is_between_runs = true;
    device->env.seed = plan->options.seed;
    device->env.training = plan->training;
    device->kernel_call.env = &device->env;
    atomic_init(&device->wait_counter, &engine->runs);
    atomic_init(&device->wait_target, 1);
    atomic_init(&device->call, BGI_NO_CALL);
    device->operands = calloc(widest, sizeof *device->operands);
    if (device->operands == NULL)
        return bgi_error_memory(error, "operands", widest * sizeof *device->operands);
    device->kernel_call.operands = device->operands;
    if (plan->options.trace)
        BGI_TRY(bgi_trace_init(&device->trace, plan->options.trace_events, error));
    if (plan->options.trace && device->program->transfer_count > 0)
        BGI_TRY(bgi_trace_init(&device->io_trace, plan->options.trace_events, error));
    return BG_OK;
}

static bool init_waiting(bgi_engine *engine)
{
    if (!bgi_event_count_init(&engine->events))
        return false;
    if (!bgi_event_count_init(&engine->io_events))
        goto clear_events;
    if (pthread_mutex_init(&engine->mutex, NULL) != 0)
        goto clear_io_events;
    if (!bgi_condition_init(&engine->changed))
        goto clear_mutex;
    if (pthread_mutex_init(&engine->gate.mutex, NULL) == 0)
        return true;
    pthread_cond_destroy(&engine->changed);
clear_mutex:
    pthread_mutex_destroy(&engine->mutex);
clear_io_events:
    bgi_event_count_clear(&engine->io_events);
clear_events:
    bgi_event_count_clear(&engine->events);
    return false;
}

static bg_status fill(bgi_engine *engine, bg_error *error)
{
    const bg_plan *plan = engine->plan;

    BGI_TRY(take_tables(engine, error));
    BGI_TRY(take_memory(engine, error));
    BGI_TRY(take_sums(engine, error));
    for (uint32_t i = 0; i < engine->device_count; i++)
        BGI_TRY(init_device(engine, i / plan->device_count, i % plan->device_count, error));
    for (uint32_t i = 0; i < plan->constant_count; i++)
        for (uint32_t replica = 0; replica < plan->replicas; replica++)
            bgi_engine_write(engine, replica, &plan->constants[i].place, plan->constants[i].data,
                             plan->constants[i].size_bytes);
    return bgi_workers_start(engine, error);
}

bg_status bgi_engine_create(const bg_plan *plan, bgi_engine **out, bg_error *error)
{
    bgi_engine *engine;
    bg_status status;

    BGI_TRY(bgi_plan_check(plan, error));
    engine = take_lines(1, sizeof *engine);
    if (engine == NULL)
        return bgi_error_memory(error, "the engine", sizeof *engine);
    status = bgi_memmap_open(plan, &engine->memmap, error);
    if (status != BG_OK) {
        free(engine);
        return status;
    }
    engine->plan = plan;
    engine->device_count = plan->device_count * plan->replicas;
    engine->created_ns = bgi_clock_ns();
    if (!init_waiting(engine)) {
        bgi_memmap_close(engine->memmap);
        free(engine);
        return bg_error_set(error, BG_ERROR_IO, "the system refused a mutex or a condition");
    }
    status = fill(engine, error);
    if (status != BG_OK) {
        bgi_engine_destroy(engine);
        return status;
    }
    *out = engine;
    return BG_OK;
}

/* The plan may be gone when an orphan calls this. */
void bgi_engine_free(bgi_engine *engine)
{
    for (uint32_t i = 0; i < engine->device_count; i++) {
        if (engine->arenas != NULL)
            free(engine->arenas[i]);
        if (engine->remotes != NULL && bgi_memmap_address(engine->memmap, i) == NULL)
            free(engine->remotes[i]);
        if (engine->devices != NULL) {
            bgi_trace_clear(&engine->devices[i].trace);
            bgi_trace_clear(&engine->devices[i].io_trace);
            free(engine->devices[i].operands);
        }
    }
    for (uint32_t i = 0; engine->sums != NULL && i < engine->sum_count; i++)
        free(engine->sums[i]);
    free(engine->sums);
    free(engine->remotes);
    free(engine->arenas);
    free(engine->barriers);
    free(engine->channels);
    free(engine->devices);
    free(engine->workers);
    pthread_mutex_destroy(&engine->gate.mutex);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->mutex);
    bgi_event_count_clear(&engine->io_events);
    bgi_event_count_clear(&engine->events);
    bgi_memmap_close(engine->memmap);
    free(engine);
}

void bgi_engine_destroy(bgi_engine *engine)
{
    bool is_orphaned;

    if (engine == NULL)
        return;
    /* In a dead engine a worker may be inside a kernel that never returns; bgi_engine_run has waited for it. */
    bgi_workers_stop(engine, engine->is_dead ? 0 : UINT64_MAX);
    pthread_mutex_lock(&engine->mutex);
    engine->orphan_count = engine->worker_count - engine->exited_count;
    engine->is_orphaned = engine->orphan_count > 0;
    is_orphaned = engine->is_orphaned;
    /* Workers that left need the mutex no more. Once it is unlocked the last orphan may free everything. */
    for (uint32_t i = 0; i < engine->worker_count; i++)
        if (engine->workers[i].has_exited)
            pthread_join(engine->workers[i].thread, NULL);
        else
            pthread_detach(engine->workers[i].thread);
    pthread_mutex_unlock(&engine->mutex);
    if (!is_orphaned)
        bgi_engine_free(engine);
}

/* ---- a run ---- */

static uint64_t count_progress(const bgi_engine *engine)
{
    uint64_t progress = 0;

    for (uint32_t i = 0; i < engine->device_count; i++)
        progress += atomic_load_explicit(&engine->devices[i].progress, memory_order_acquire) +
                    atomic_load_explicit(&engine->devices[i].io_done.value, memory_order_relaxed);
    return progress;
}

static bool is_over(const bgi_engine *engine)
{
    return atomic_load(&engine->has_failed) || atomic_load(&engine->devices_left.value) == 0;
}

/* Sleeps until the run is over. Looks whether devices make progress; false when none did for the limit. */
static bool watch(bgi_engine *engine, double *out_waited_s)
{
    const double limit_s = engine->plan->options.wait_limit_s;
    uint64_t look_ns = longest_look_ns, progress = count_progress(engine), moved_ns = bgi_clock_ns();

    if (limit_s > 0.0 && limit_s * 1e9 / LOOKS_PER_LIMIT < (double)longest_look_ns)
        look_ns = (uint64_t)(limit_s * 1e9 / LOOKS_PER_LIMIT) + 1;
    pthread_mutex_lock(&engine->mutex);
    while (!is_over(engine)) {
        const uint64_t seen = count_progress(engine), now_ns = bgi_clock_ns();
        if (seen != progress) {
            progress = seen;
            moved_ns = now_ns;
        }
        *out_waited_s = (double)(now_ns - moved_ns) * 1e-9;
        if (limit_s > 0.0 && *out_waited_s > limit_s)
            break;
        bgi_condition_wait_ns(&engine->changed, &engine->mutex, look_ns);
    }
    pthread_mutex_unlock(&engine->mutex);
    return is_over(engine);
}

/* The failure of the lowest device. Workers have left, or cannot have written one. */
static bg_status report_failure(const bgi_engine *engine, bg_error *error)
{
    for (uint32_t i = 0; i < engine->device_count; i++) {
        const bgi_device *device = &engine->devices[i];
        if (device->failure_status != BG_OK)
            return bg_error_set(error, device->failure_status, "replica %u, device %u: %s", device->replica,
                                device->number, device->failure);
    }
    return bg_error_set(error, BG_ERROR_INTERNAL, "a run failed without a reason");
}

/* What is for the idle is the caller's: nobody is about it when the run is over. */
static void end_spare(bgi_engine *engine)
{
    atomic_store(&engine->has_spare, false);
    while (atomic_load(&engine->spare_count.value) > 0)
        sched_yield();
}

bg_status bgi_engine_run(bgi_engine *engine, const bgi_run *run, uint64_t *out_iterations, bg_error *error)
{
    bg_status status = BG_OK;
    double waited_s = 0.0;

    if (engine->is_dead)
        return bg_error_set(error, BG_ERROR_INVALID, "an earlier run of this session failed; create the session anew");
    engine->given = *run;
    engine->run = &engine->given;
    bgi_gate_begin(engine);
    if (run->infeed != NULL && !run->is_synthetic)
        bgi_infeed_attach(run->infeed, engine);
    atomic_store(&engine->devices_left.value, engine->device_count);
    atomic_store(&engine->has_spare, run->spare != NULL);
    atomic_store(&engine->runs.value, atomic_load(&engine->runs.value) + 1);
    bgi_event_count_notify_all(&engine->events);
    if (!watch(engine, &waited_s))
        status = bgi_report_stuck(engine, waited_s, error);
    else if (atomic_load(&engine->has_failed))
        status = BG_ERROR_INTERNAL;
    if (status != BG_OK) {
        engine->is_dead = true;
        /* Whoever is not inside a kernel leaves now, and so stops touching the caller's arrays. */
        bgi_workers_stop(engine, leave_ns);
        if (atomic_load(&engine->has_failed))
            status = report_failure(engine, error);
    }
    end_spare(engine);
    bgi_gate_end(engine);
    *out_iterations = atomic_load(&engine->gate.end);
    if (run->infeed != NULL && !run->is_synthetic)
        bgi_infeed_detach(run->infeed, status == BG_OK ? *out_iterations * bgi_infeed_elements(engine->plan) : 0);
    return status;
}

/* ---- access from outside ---- */

void *bgi_engine_address(const bgi_engine *engine, uint32_t replica, const bgi_operand *operand)
{
    void *const *memory = operand->is_remote ? engine->remotes : engine->arenas;

    return (char *)memory[(size_t)replica * engine->plan->device_count + operand->device] + operand->offset;
}

void bgi_engine_write(bgi_engine *engine, uint32_t replica, const bgi_operand *operand, const void *data,
                      size_t size_bytes)
{
    bgi_device *device = &engine->devices[replica * engine->plan->device_count + operand->device];

    void *to = bgi_engine_address(engine, replica, operand);

    if (to != data)
        memcpy(to, data, size_bytes);
    if (!operand->is_remote && operand->offset + size_bytes > device->touched_bytes)
        device->touched_bytes = operand->offset + size_bytes;
}
