/*
 * measure.c: measures the calls of a plan on this machine. The plan runs briefly on zeros, so calls follow each other
 * in the order of a run and find their operands in the same caches or memory. The time of most kernels does not depend
 * on values. An exception is the backward of a fused convolution, max pool and ReLU, which takes longer if more windows
 * have a gradient.
 *
 * There are three rehearsals:
 *
 *     ALONE    one session on one core: the times of a core that runs alone, and the time from one instruction to
 *              the next
 *     BUSY     the times of busy cores. The devices of one session run on at most `cores` workers, so that they
 *              compete for caches and memory, and messages go from core to core, as in a run. Workers are bound to
 *              cores, unless the application starts the threads. From round to round each device moves to the next
 *              core, because cores differ if programs outside of a virtual machine use the same hardware. A plan of
 *              one device runs in `cores` parallel sessions instead.
 *     HELPED   one session of `cores` workers, of which one runs the devices and the others only help: the times of
 *              shared calls, and of all other calls while the other workers look for parts
 *
 * Only the faster half of the runs counts, because other programs disturbed these runs least. The time of a key is the
 * median over these runs of the mean of all its calls; for busy cores, the mean of these medians over the placements of
 * devices on cores. The time from one instruction to the next is the median over these runs of the run's time minus
 * that of its calls and copies, divided by the number of instructions that it executes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/threads.h"
#include "predict/call_costs.h"
#include "runtime/record.h"
#include "runtime/state.h"

enum { LEAST_ROUNDS = 5, MOST_ROUNDS = 15, COPY_BYTES = 1 << 22, CLOCKS = 1000 };
static const double enough_s = 0.6;

/* The conditions under which calls are timed. */
typedef enum setting { ALONE, BUSY, HELPED } setting;

/* The times of calls with one key: sums over the current round, and the mean of each earlier round. */
typedef struct round_time {
    char *key;
    double total_ns, count;
    double samples[MOST_ROUNDS];
    uint32_t sample_count;
} round_time;

typedef struct rehearsal {
    const bg_plan *plan;
    bg_plan own_plan;      /* a copy of the given plan, with the workers and the records of this rehearsal */
    uint32_t cores;        /* number of parallel sessions */
    double clock_ns;       /* reading the clock, which the time of each call includes */
    pthread_mutex_t mutex; /* protects `order` */
    pthread_cond_t changed;
    enum {
        ORDER_WAIT = 0,
        ORDER_GO,
        ORDER_LEAVE
    } order; /* whether the threads run or leave, which is decided after all could be started or one could not */
    pthread_barrier_t gate;
    bool is_over; /* the first session's thread writes it between two gates */
    uint32_t rounds;
    round_time *times;
    size_t time_count, time_capacity;
    double run_ns;                                          /* time of the first session's run in the current round */
    double durations_ns[MOST_ROUNDS];                       /* by round: time until all sessions have ended */
    double rests[MOST_ROUNDS], transfer_rates[MOST_ROUNDS]; /* by round: ns an instruction; bytes per ns */
    uint32_t turns; /* the number of rounds after which devices are on the same cores again */
    double core_ns[BGI_MOST_CORES][MOST_ROUNDS]; /* with turns > 1: time of calls by core and round */
    struct actor {
        struct rehearsal *rehearsal;
        bgi_thread thread;
        bg_session *session;
        void **streams;
        uint32_t input_count, stream_count;
        bg_error error;
    } actors[BGI_MOST_CORES];
} rehearsal;

static int compare_numbers(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

static double median(double *values, uint32_t count)
{
    if (count == 0)
        return 0.0;
    qsort(values, count, sizeof *values, compare_numbers);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

/* Returns the median of the values of the rounds first, first + r->turns and so on, of which only the faster half
 * counts. */
static double median_of_turn(const rehearsal *r, const double *values, uint32_t first)
{
    double sorted[MOST_ROUNDS], calm[MOST_ROUNDS];
    uint32_t count = 0, calm_count = 0;

    for (uint32_t i = first; i < r->rounds; i += r->turns)
        sorted[count++] = r->durations_ns[i];
    qsort(sorted, count, sizeof *sorted, compare_numbers);
    for (uint32_t i = first; i < r->rounds; i += r->turns)
        if (r->durations_ns[i] <= sorted[(count - 1) / 2])
            calm[calm_count++] = values[i];
    return median(calm, calm_count);
}

/* Returns the mean over turns of the median over the faster half of their rounds; the median of all values if some
 * rounds have no value. */
static double calm_median(const rehearsal *r, double *values, uint32_t count)
{
    const uint32_t turns = r->turns < r->rounds ? r->turns : r->rounds;
    double sum = 0.0;

    if (count < r->rounds || count == 0)
        return median(values, count);
    for (uint32_t turn = 0; turn < turns; turn++)
        sum += median_of_turn(r, values, turn);
    return sum / turns;
}

/* ---- sessions ---- */

static bg_status open_actor(struct actor *a, const bg_plan *plan, bg_error *error)
{
    BGI_TRY(bgi_session_create(plan, NULL, true, &a->session, error));
    a->input_count = bg_session_input_count(a->session);
    a->stream_count = a->input_count + bg_session_output_count(a->session);
    a->streams = calloc((size_t)a->stream_count + 1, sizeof *a->streams);
    if (a->streams == NULL)
        return bgi_error_memory(error, "inputs", a->stream_count * sizeof *a->streams);
    for (uint32_t i = 0; i < a->input_count; i++) {
        bg_stream stream;
        BGI_TRY(bg_session_input(a->session, i, &stream, error));
        a->streams[i] = calloc(1, stream.size_bytes + 1);
        if (a->streams[i] == NULL)
            return bgi_error_memory(error, stream.name, stream.size_bytes);
    }
    return BG_OK;
}

static void close_actor(struct actor *a)
{
    for (uint32_t i = 0; a->streams != NULL && i < a->input_count; i++)
        free(a->streams[i]);
    free(a->streams);
    bg_session_destroy(a->session);
}

static bool run(struct actor *a)
{
    return a->error.status != BG_OK ||
           bg_session_run(a->session, (const void *const *)a->streams, a->streams + a->input_count, &a->error) == BG_OK;
}

/* ---- one round ---- */

static round_time *time_of_key(rehearsal *r, const char *key)
{
    size_t low = 0, high = r->time_count;
    char *copy;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(r->times[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < r->time_count && strcmp(r->times[low].key, key) == 0)
        return &r->times[low];
    copy = malloc(strlen(key) + 1);
    if (copy == NULL ||
        !bgi_array_reserve((void **)&r->times, &r->time_capacity, r->time_count + 1, sizeof *r->times)) {
        free(copy);
        return NULL;
    }
    memcpy(copy, key, strlen(key) + 1);
    memmove(r->times + low + 1, r->times + low, (r->time_count - low) * sizeof *r->times);
    r->time_count++;
    r->times[low] = (round_time){.key = copy};
    return &r->times[low];
}

static bg_status add_device(rehearsal *r, const bg_session *session, uint32_t replica, uint32_t device, bg_error *error)
{
    const bgi_plan_device *program = &r->plan->devices[device];
    const uint32_t core = (replica * r->plan->device_count + device + r->plan->fixed_owners) % r->turns;
    char key[BGI_CALL_KEY_BYTES];
    const bgi_call *before = NULL;
    bgi_recorded recorded;

    if (!bgi_session_recorded(session, replica, device, &recorded))
        return BG_OK;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const bgi_instruction *instruction = &program->instructions[i];
        if (instruction->call_count == 0 || instruction->calls == before)
            continue;
        before = instruction->calls;
        for (uint32_t c = 0; c < instruction->call_count; c++) {
            const bgi_call *call = &instruction->calls[c];
            const bgi_call_time *time = &recorded.times[recorded.first[i] + c];
            round_time *sum;
            if (call->is_transfer || call->is_collective || time->count == 0 || !bgi_call_key(call, key))
                continue;
            sum = time_of_key(r, key);
            if (sum == NULL)
                return bgi_error_memory(error, "costs of calls", sizeof *sum);
            sum->total_ns += (double)time->total_ns;
            sum->count += (double)time->count;
            if (r->turns > 1)
                r->core_ns[core][r->rounds] += (double)time->total_ns;
        }
    }
    return BG_OK;
}

static uint64_t count_instructions(const bg_plan *plan)
{
    uint64_t count = 0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        count += plan->devices[d].instruction_count;
    return count * plan->replicas;
}

static double bytes_of_transfers(const bg_plan *plan)
{
    double bytes = 0.0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t t = 0; t < plan->devices[d].transfer_count; t++)
            bytes += (double)plan->devices[d].transfers[t].size_bytes;
    return bytes * plan->replicas;
}

static bool is_compute(int kind)
{
    return kind <= BG_ACTION_UPDATE;
}

/* Sums of times in one round, over all devices of a session. */
typedef struct round_sums {
    double calls, actions, others, transfers;
} round_sums;

static round_sums sum_round(const rehearsal *r, const bg_session *session)
{
    const bg_plan *plan = r->plan;
    round_sums sums = {0};
    bgi_recorded recorded;

    for (uint32_t i = 0; i < plan->replicas * plan->device_count; i++) {
        if (!bgi_session_recorded(session, i / plan->device_count, i % plan->device_count, &recorded))
            continue;
        for (uint32_t t = 0; t < recorded.time_count; t++)
            sums.calls += (double)recorded.times[t].total_ns;
        for (int kind = 0; kind < BG_ACTION_KIND_COUNT; kind++)
            *(is_compute(kind) ? &sums.actions : &sums.others) += (double)recorded.program.kind_ns[kind];
        sums.transfers += (double)(recorded.beside.kind_ns[BG_ACTION_LOAD] + recorded.beside.kind_ns[BG_ACTION_STORE]);
    }
    return sums;
}

/* Records two values of the first session: its time outside calls and copies, and the speed of its transfers. Devices
 * may wait for transfers, and waits are no work, so with transfers only the time inside actions counts. */
static void note_rest(rehearsal *r)
{
    const round_sums sums = sum_round(r, r->actors[0].session);
    const double steps = r->plan->iterations > 0 ? r->plan->iterations : 1;
    const double rest = sums.transfers > 0.0 ? sums.actions - sums.calls : r->run_ns - sums.calls - sums.others;

    r->rests[r->rounds] = fmax(0.0, rest) / steps / (double)count_instructions(r->plan);
    r->transfer_rates[r->rounds] = sums.transfers > 0.0 ? steps * bytes_of_transfers(r->plan) / sums.transfers : 0.0;
}

/* Records the times of a round. The first session's thread calls it while the others wait. */
static void end_round(rehearsal *r)
{
    bg_error *error = &r->actors[0].error;

    note_rest(r);
    for (uint32_t a = 0; a < r->cores && error->status == BG_OK; a++) {
        for (uint32_t i = 0; i < r->plan->replicas * r->plan->device_count && error->status == BG_OK; i++)
            add_device(r, r->actors[a].session, i / r->plan->device_count, i % r->plan->device_count, error);
        bgi_session_record(r->actors[a].session, true); /* forgets the round's records */
    }
    for (size_t t = 0; t < r->time_count; t++) {
        round_time *time = &r->times[t];
        if (time->count > 0.0)
            time->samples[time->sample_count++] = fmax(0.0, time->total_ns / time->count - r->clock_ns);
        time->total_ns = time->count = 0.0;
    }
    r->rounds++;
    if (r->turns > 1)
        atomic_store(&r->own_plan.fixed_owners, 1 + r->rounds % r->turns);
}

static void act(struct actor *a)
{
    rehearsal *r = a->rehearsal;
    const bool is_first = a == r->actors;
    const uint64_t begin_ns = bgi_clock_ns();

    run(a); /* this run is not recorded, because memory is touched for the first time */
    pthread_barrier_wait(&r->gate);
    if (is_first)
        for (uint32_t i = 0; i < r->cores; i++)
            bgi_session_record(r->actors[i].session, true);
    pthread_barrier_wait(&r->gate);
    while (!r->is_over) {
        const uint64_t start_ns = bgi_clock_ns();
        run(a);
        if (is_first)
            r->run_ns = (double)(bgi_clock_ns() - start_ns);
        pthread_barrier_wait(&r->gate);
        if (is_first) {
            r->durations_ns[r->rounds] = (double)(bgi_clock_ns() - start_ns);
            end_round(r);
            r->is_over = r->rounds >= MOST_ROUNDS ||
                         (r->rounds >= LEAST_ROUNDS && (double)(bgi_clock_ns() - begin_ns) > 1e9 * enough_s);
            for (uint32_t i = 0; i < r->cores; i++)
                r->is_over = r->is_over || r->actors[i].error.status != BG_OK;
            for (uint32_t i = 0; r->is_over && i < r->cores; i++)
                bgi_session_record(r->actors[i].session, false);
        }
        pthread_barrier_wait(&r->gate);
    }
}

/* ---- all rounds ---- */

static void enter(void *argument)
{
    struct actor *a = argument;
    rehearsal *r = a->rehearsal;
    bool goes;

    pthread_mutex_lock(&r->mutex);
    while (r->order == ORDER_WAIT)
        pthread_cond_wait(&r->changed, &r->mutex);
    goes = r->order == ORDER_GO;
    pthread_mutex_unlock(&r->mutex);
    if (goes)
        act(a);
}

static void give_order(rehearsal *r, bool goes)
{
    pthread_mutex_lock(&r->mutex);
    r->order = goes ? ORDER_GO : ORDER_LEAVE;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

/* Starts the threads. They act only if all of them could be started, because the number of threads at a gate is
 * fixed. */
static bg_status start(rehearsal *r, bg_error *error)
{
    const bg_execution_options *execution = &r->plan->options.execution;
    const bgi_thread_source source = {execution->start_thread, execution->start_thread_user};
    uint32_t started = 1;
    bool goes = true;
    bg_status status = BG_OK;

    if (pthread_barrier_init(&r->gate, NULL, r->cores) != 0)
        return bg_error_set(error, BG_ERROR_IO, "the system refused a barrier to measure costs");
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    while (goes && started < r->cores) {
        goes = bgi_thread_start(&r->actors[started].thread, &source, enter, &r->actors[started]) == 0;
        started += goes;
    }
    give_order(r, goes);
    if (goes)
        act(&r->actors[0]);
    else
        status = bg_error_set(error, BG_ERROR_IO, "%s refused a thread to measure costs",
                              source.start != NULL ? "start_thread" : "the system");
    for (uint32_t i = 1; i < started; i++)
        bgi_thread_join(&r->actors[i].thread);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
    pthread_barrier_destroy(&r->gate);
    for (uint32_t i = 0; i < r->cores && status == BG_OK; i++)
        if (r->actors[i].error.status != BG_OK)
            status = bg_error_set(error, r->actors[i].error.status, "%s", r->actors[i].error.message);
    return status;
}

static void forget(rehearsal *r)
{
    for (uint32_t i = 0; i < r->cores; i++)
        close_actor(&r->actors[i]);
    for (size_t i = 0; i < r->time_count; i++)
        free(r->times[i].key);
    free(r->times);
    free(r);
}

static double measure_clock(void)
{
    const uint64_t start_ns = bgi_clock_ns();

    for (int i = 1; i < CLOCKS; i++)
        bgi_clock_ns();
    return (double)(bgi_clock_ns() - start_ns) / CLOCKS;
}

static double measure_copy(void)
{
    char *memory = malloc(2 * (size_t)COPY_BYTES);
    double best = 0.0;

    if (memory == NULL)
        return 0.0;
    memset(memory, 1, 2 * (size_t)COPY_BYTES);
    for (int i = 0; i < 8; i++) {
        const uint64_t start_ns = bgi_clock_ns();
        double rate;
        memcpy(memory + (i % 2 != 0 ? COPY_BYTES : 0), memory + (i % 2 != 0 ? 0 : COPY_BYTES), COPY_BYTES);
        rate = 2.0 * COPY_BYTES / (double)(bgi_clock_ns() - start_ns + 1);
        best = rate > best ? rate : best;
    }
    free(memory);
    return best;
}

/* Returns the known times of a call, with the time under setting `of` replaced by `ns`. */
static bgi_call_times_ns merge_times(const bgi_call_cost *known, double ns, setting of)
{
    bgi_call_times_ns times = known != NULL ? known->ns : (bgi_call_times_ns){.alone = ns, .busy = ns, .helped = ns};

    if (of == BUSY)
        times.busy = ns;
    if (of == HELPED)
        times.helped = ns;
    return times;
}

/* Compares the cores' times for the calls of all devices. The ratios stay unknown if not every device has been on every
 * core. */
static void find_core_ratios(const rehearsal *r, bgi_call_costs *out)
{
    double sum = 0.0;

    if (r->rounds < r->turns)
        return;
    for (uint32_t core = 0; core < r->turns; core++) {
        out->core_ratios[core] = 0.0;
        for (uint32_t turn = 0; turn < r->turns; turn++)
            out->core_ratios[core] += median_of_turn(r, r->core_ns[core], turn);
        sum += out->core_ratios[core];
    }
    for (uint32_t core = 0; core < r->turns && sum > 0.0; core++)
        out->core_ratios[core] *= r->turns / sum;
    out->core_ratio_count = sum > 0.0 ? r->turns : 0;
}

/* Runs the plan under setting `of` and adds the times of its calls to `costs`. `cores` is the number of cores of the
 * machine that are used. */
static bg_status rehearse(bgi_call_costs *costs, const bg_plan *plan, uint32_t cores, setting of, bg_error *error)
{
    const uint32_t devices = plan->device_count * plan->replicas;
    const uint32_t sessions = of == BUSY && devices == 1 ? cores : 1;
    rehearsal *r = calloc(1, sizeof *r);
    bg_status status = BG_OK;

    if (r == NULL)
        return bgi_error_memory(error, "measuring costs", sizeof *r);
    r->own_plan = *plan;
    r->own_plan.times_all_steps = true;
    r->turns = of == BUSY && devices > 1 ? (devices < cores ? devices : cores) : 1;
    if (r->turns > 1) {
        r->own_plan.fixed_owners = 1;
        if (r->own_plan.options.execution.start_thread == NULL)
            r->own_plan.options.execution.pinning = BG_PINNING_COMPACT;
    }
    if (of == HELPED || (of == BUSY && devices > 1)) {
        r->own_plan.options.execution.cores = of == BUSY && devices < cores ? devices : cores;
        r->own_plan.has_one_owner = of == HELPED;
        r->own_plan.has_no_helpers = of == BUSY;
    }
    r->plan = &r->own_plan;
    r->clock_ns = measure_clock();
    r->cores = sessions;
    for (uint32_t i = 0; i < sessions && status == BG_OK; i++) {
        r->actors[i].rehearsal = r;
        status = open_actor(&r->actors[i], r->plan, error);
    }
    if (status == BG_OK)
        status = start(r, error);
    for (size_t t = 0; t < r->time_count && status == BG_OK; t++) {
        const double ns = calm_median(r, r->times[t].samples, r->times[t].sample_count);
        const bgi_call_cost *known = bgi_call_costs_find(costs, r->times[t].key);
        status = bgi_call_costs_put(costs, r->times[t].key, merge_times(known, ns, of), error);
    }
    if (status == BG_OK && of == ALONE) {
        costs->instruction_ns = calm_median(r, r->rests, r->rounds);
        costs->transfer_bytes_per_ns = calm_median(r, r->transfer_rates, r->rounds);
    }
    if (status == BG_OK && r->turns > 1 && r->own_plan.options.execution.pinning != BG_PINNING_NONE)
        find_core_ratios(r, costs);
    forget(r);
    return status;
}

static bg_status check_memory(const bg_plan *plan, uint32_t cores, bg_error *error)
{
    const long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const double free_bytes = pages > 0 && page > 0 ? (double)pages * (double)page : 0.0;
    double bytes = 0.0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        bytes += (double)plan->devices[d].arena_bytes + (double)plan->devices[d].remote_bytes;
    /* Twice the memory of the devices, because the host also has a copy of the weights. */
    bytes *= 2.0 * plan->replicas * cores;
    if (bytes > 0.6 * free_bytes)
        return bg_error_set(
            error, BG_ERROR_UNSUPPORTED,
            "measuring the costs of calls may take %.3g GB of memory, more than 60 %% of the free %.3g GB",
            1e-9 * bytes, 1e-9 * free_bytes);
    return BG_OK;
}

/* Adds the measured costs of unknown calls. Known costs stay, so that later predictions can be compared with earlier
 * ones. */
static bg_status keep_known(const bgi_call_costs *measured, bgi_call_costs *costs, bg_error *error)
{
    for (size_t i = 0; i < measured->count; i++)
        if (bgi_call_costs_find(costs, measured->costs[i].key) == NULL)
            BGI_TRY(bgi_call_costs_put(costs, measured->costs[i].key, measured->costs[i].ns, error));
    return BG_OK;
}

bg_status bgi_call_costs_measure(bgi_call_costs *costs, const bg_plan *plan, uint32_t cores, bool anew, bg_error *error)
{
    bgi_call_costs measured = {.copy_bytes_per_ns = measure_copy()};
    bg_status status;

    cores = cores < 1 ? 1 : cores > BGI_MOST_CORES ? BGI_MOST_CORES : cores;
    measured.cores = cores;
    BGI_TRY(check_memory(plan, cores, error));
    status = rehearse(&measured, plan, cores, ALONE, error);
    if (status == BG_OK && cores > 1)
        status = rehearse(&measured, plan, cores, BUSY, error);
    if (status == BG_OK && cores > 1)
        status = rehearse(&measured, plan, cores, HELPED, error);
    if (status == BG_OK && (anew || costs->count == 0 || costs->cores != cores)) {
        /* Times of busy cores are valid only for the same number of cores. */
        measured.rank_link = costs->rank_link;
        bgi_call_costs_clear(costs);
        *costs = measured;
        return BG_OK;
    }
    if (status == BG_OK && costs->transfer_bytes_per_ns == 0.0)
        costs->transfer_bytes_per_ns = measured.transfer_bytes_per_ns;
    if (status == BG_OK && measured.core_ratio_count > 0) {
        memcpy(costs->core_ratios, measured.core_ratios, sizeof costs->core_ratios);
        costs->core_ratio_count = measured.core_ratio_count;
    }
    if (status == BG_OK)
        status = keep_known(&measured, costs, error);
    bgi_call_costs_clear(&measured);
    return status;
}
