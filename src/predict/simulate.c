/*
 * simulate.c: runs the programs of a plan in simulated time.
 *
 * A runner is a device of a replica, with the device's position in its program. It is ready, running, waiting, or done.
 * It may wait for a message, a free slot, transfers, a sum, its turn or the other replicas; each of these conditions
 * stays true once it is true. A heap contains the coming events:
 *
 *     work      a runner's instruction reaches its next mark or its end
 *     message   a message arrives
 *     transfer  the oldest transfer of a device's queue is complete
 *     sum       a sum that overlapped with the program is complete
 *
 * With shared cores a runner needs a core to continue. A core takes the ready runner that has advanced least, and among
 * equals the last one, as the runtime's workers do (runtime/engine.h). Cores without a runner help the other cores, so
 * the divisible part of an instruction runs faster. When the number of busy cores changes, all rates change.
 */
#include "predict/simulate.h"

#include <stdlib.h>

#include "core/error.h"

typedef enum runner_state { IS_READY = 0, IS_WORKING, IS_WAITING, IS_DONE } runner_state;

typedef enum wait_kind {
    WAITS_NOT = 0,
    WAITS_FOR_MESSAGE,
    WAITS_FOR_SLOT,
    WAITS_FOR_TRANSFERS,
    WAITS_FOR_SUM,
    WAITS_FOR_TURN,
    WAITS_FOR_REPLICAS
} wait_kind;

typedef struct runner {
    uint32_t replica, device;
    runner_state state;
    wait_kind wait;
    uint32_t wait_edge;
    uint64_t wait_target;      /* number of complete transfers that the runner waits for */
    double since_ns;           /* time since which the runner waits or is ready, or of the last update of its work */
    uint32_t step, at;         /* its current step, and the index of its instruction */
    bool has_begun;            /* whether the runner is in the middle of the instruction */
    bool has_come;             /* whether the runner has reached the collective operation of this instruction */
    double done_ns, rate;      /* completed work of the instruction, and the runner's speed */
    double target_ns;          /* completed work at which the runner next acts */
    double began_ns, spent_ns; /* start of the instruction, and its time so far */
    uint32_t mark, generation;
    /* Work that runs concurrently with the program. */
    uint64_t issued, transferred, sums_begun, sums_done, meetings;
    bool is_transferring, owes_turn;
    double sum_free_ns, link_free_ns;
} runner;

typedef struct edge_state {
    uint64_t sent, arrived, consumed;
    double *sent_ns; /* by slot: when its message was sent */
} edge_state;

typedef enum event_kind { WORK = 0, MESSAGE, TRANSFER, SUM } event_kind;

typedef struct event {
    double at_ns;
    uint64_t number; /* simultaneous events happen in the order in which they were made */
    event_kind kind;
    uint32_t index, generation;
} event;

typedef struct simulator {
    const bg_plan *plan;
    const bgi_simulation_setup *setup;
    bgi_simulation *out;
    bgi_arena arena;
    bgi_device_work *work; /* by device */
    runner *runners;       /* replica x device */
    uint32_t runner_count, replicas;
    edge_state *edges;  /* replica x edge */
    uint64_t *arrivals; /* by group and device: the number of times that replicas have reached collective operations */
    uint64_t *turns;    /* by replica: number of turns that have passed */
    uint32_t *turn_devices;
    uint64_t turn_count; /* number of turns in a step */
    double now_ns, *step_ends;
    event *heap;
    size_t heap_count, heap_capacity;
    uint64_t event_number;
    uint32_t *ready; /* a heap if cores are shared, otherwise a stack */
    uint32_t ready_count;
    uint32_t *working; /* indices of the runners that have a core */
    uint32_t working_count;
    uint32_t *queues; /* with shared cores: runners whose transfers need a core */
    uint32_t queue_count, queue_working;
    size_t timing_capacity;
    bool is_out_of_memory;
} simulator;

const char *bgi_time_class_name(bgi_time_class time_class)
{
    static const char *const names[BGI_TIME_CLASS_COUNT] = {"forward",   "recompute",   "backward", "weights",
                                                            "update",    "collectives", "copies",   "links",
                                                            "transfers", "sums",        "cores",    "pipeline"};

    return (unsigned)time_class < BGI_TIME_CLASS_COUNT ? names[time_class] : "unknown";
}

static bool shares_cores(const simulator *s)
{
    return s->setup->cores > 0;
}

/* Returns whether the simulator keeps a list of the runners that work, because their number decides how fast they
 * are. */
static bool lists_working(const simulator *s)
{
    return shares_cores(s) || (s->setup->are_ranks && s->setup->rank_cores > 0);
}

/* ---- events ---- */

static bool is_before(const event *a, const event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void push_event(simulator *s, double at_ns, event_kind kind, uint32_t index, uint32_t generation)
{
    const event made = {
        .at_ns = at_ns, .number = s->event_number++, .kind = kind, .index = index, .generation = generation};
    size_t at = s->heap_count;

    if (!bgi_array_reserve((void **)&s->heap, &s->heap_capacity, s->heap_count + 1, sizeof *s->heap)) {
        s->is_out_of_memory = true;
        return;
    }
    s->heap_count++;
    for (; at > 0 && is_before(&made, &s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = made;
}

static event pop_event(simulator *s)
{
    const event first = s->heap[0], last = s->heap[--s->heap_count];
    size_t at = 0;

    for (size_t child = 1; child < s->heap_count; child = 2 * at + 1) {
        if (child + 1 < s->heap_count && is_before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!is_before(&s->heap[child], &last))
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return first;
}

/* ---- ready devices ---- */

static double position_of(const simulator *s, const runner *r)
{
    const uint32_t count = s->plan->devices[r->device].instruction_count;

    return r->step + (count > 0 ? (double)r->at / count : 0.0);
}

/* Returns whether cores prefer runner a to runner b. */
static bool goes_first(const simulator *s, uint32_t a, uint32_t b)
{
    const double first = position_of(s, &s->runners[a]), other = position_of(s, &s->runners[b]);

    return first != other ? first < other : a > b;
}

static void push_ready(simulator *s, uint32_t index)
{
    uint32_t at = s->ready_count++;

    for (; shares_cores(s) && at > 0 && goes_first(s, index, s->ready[(at - 1) / 2]); at = (at - 1) / 2)
        s->ready[at] = s->ready[(at - 1) / 2];
    s->ready[at] = index;
}

static uint32_t pop_ready(simulator *s)
{
    const uint32_t first = s->ready[0], last = s->ready[--s->ready_count];
    uint32_t at = 0;

    if (!shares_cores(s))
        return s->ready_count == 0 ? first : last;
    for (uint32_t child = 1; child < s->ready_count; child = 2 * at + 1) {
        if (child + 1 < s->ready_count && goes_first(s, s->ready[child + 1], s->ready[child]))
            child++;
        if (!goes_first(s, s->ready[child], last))
            break;
        s->ready[at] = s->ready[child];
        at = child;
    }
    s->ready[at] = last;
    return first;
}

/* ---- accounting of time ---- */

static void add_time(simulator *s, const runner *r, bgi_time_class time_class, double ns)
{
    if (r->replica == 0 && ns > 0.0)
        s->out->times[r->device][time_class] += ns;
}

static bgi_time_class class_of_kind(bg_action_kind kind)
{
    switch (kind) {
    case BG_ACTION_FORWARD:
        return BGI_TIME_FORWARD;
    case BG_ACTION_RECOMPUTE:
        return BGI_TIME_RECOMPUTE;
    case BG_ACTION_BACKWARD:
        return BGI_TIME_BACKWARD;
    case BG_ACTION_WEIGHTS:
        return BGI_TIME_WEIGHTS;
    case BG_ACTION_UPDATE:
        return BGI_TIME_UPDATE;
    case BG_ACTION_GATHER:
    case BG_ACTION_REDUCE:
        return BGI_TIME_COLLECTIVES;
    case BG_ACTION_LOAD:
    case BG_ACTION_STORE:
        return BGI_TIME_TRANSFERS;
    default:
        return BGI_TIME_COPIES;
    }
}

/* Divides the time of an instruction among the classes of its parts. */
static void add_work_time(simulator *s, const runner *r, const bgi_instruction *instruction, const bgi_work *work)
{
    const double whole = work->total_ns > 0.0 ? work->total_ns : 1.0;
    const double collective = r->spent_ns * work->collective_ns / whole, copies = r->spent_ns * work->copy_ns / whole;

    add_time(s, r, BGI_TIME_COLLECTIVES, collective);
    add_time(s, r, BGI_TIME_COPIES, copies);
    add_time(s, r, class_of_kind(instruction->action.kind), r->spent_ns - collective - copies);
}

/* Records a wait that ends now. */
static void add_wait_time(simulator *s, const runner *r)
{
    const double waited = s->now_ns - r->since_ns;
    bgi_time_class time_class = BGI_TIME_PIPELINE;

    if (r->wait == WAITS_FOR_MESSAGE) {
        const bgi_plan_edge *edge = &s->plan->edges[r->wait_edge];
        const edge_state *state = &s->edges[(size_t)r->replica * s->plan->edge_count + r->wait_edge];
        const double sent = state->sent_ns[(state->arrived - 1) % edge->depth];
        const double from = sent > r->since_ns ? sent : r->since_ns;
        add_time(s, r, BGI_TIME_LINKS, s->now_ns - from);
        add_time(s, r, BGI_TIME_PIPELINE, from - r->since_ns);
        return;
    }
    if (r->wait == WAITS_FOR_TRANSFERS)
        time_class = BGI_TIME_TRANSFERS;
    else if (r->wait == WAITS_FOR_SUM || r->wait == WAITS_FOR_REPLICAS)
        time_class = BGI_TIME_SUMS;
    add_time(s, r, time_class, waited);
}

static void add_to_timing(simulator *s, const runner *r, const bg_action *action)
{
    bg_schedule_timing *timing = &s->out->timing;

    if (!s->setup->wants_events || r->replica != 0 || r->step != 0 || action->kind > BG_ACTION_UPDATE)
        return;
    if (!bgi_array_reserve((void **)&timing->events, &s->timing_capacity, timing->event_count + 1,
                           sizeof *timing->events)) {
        s->is_out_of_memory = true;
        return;
    }
    timing->events[timing->event_count++] =
        (struct bg_schedule_event){.action = *action, .device = r->device, .start = r->began_ns, .end = s->now_ns};
    timing->device_busy[r->device] += r->spent_ns;
    timing->makespan = s->now_ns > timing->makespan ? s->now_ns : timing->makespan;
}

/* ---- waiting and waking ---- */

static void park(simulator *s, runner *r, wait_kind wait, uint32_t edge, uint64_t target)
{
    r->state = IS_WAITING;
    r->wait = wait;
    r->wait_edge = edge;
    r->wait_target = target;
    r->since_ns = s->now_ns;
}

static void wake(simulator *s, runner *r)
{
    add_wait_time(s, r);
    r->state = IS_READY;
    r->wait = WAITS_NOT;
    r->since_ns = s->now_ns;
    push_ready(s, (uint32_t)(r - s->runners));
}

static void wake_for(simulator *s, runner *r, wait_kind wait, uint32_t edge)
{
    if (r->state == IS_WAITING && r->wait == wait && r->wait_edge == edge)
        wake(s, r);
}

static runner *runner_of(simulator *s, uint32_t replica, uint32_t device)
{
    return &s->runners[(size_t)replica * s->plan->device_count + device];
}

static uint64_t sequence_of(const simulator *s, const runner *r, const bgi_plan_edge *edge, uint32_t micro_batch)
{
    return edge->per_step ? r->step : (uint64_t)r->step * s->plan->micro_batches + micro_batch;
}

/* ---- concurrently with the program ---- */

static bool transfers_are_done(const simulator *s, const runner *r, uint32_t io_wait, uint64_t *out_target)
{
    const uint64_t count = s->plan->devices[r->device].transfer_count, target = r->step * count + io_wait;

    *out_target = target > count ? target - count : 0;
    return io_wait == 0 || r->transferred >= *out_target;
}

static void begin_transfer(simulator *s, runner *r)
{
    const uint32_t count = s->plan->devices[r->device].transfer_count;
    const uint32_t index = (uint32_t)(r - s->runners);

    if (r->is_transferring || r->transferred >= r->issued || count == 0)
        return;
    r->is_transferring = true;
    if (shares_cores(s))
        s->queues[s->queue_count++] = index;
    else
        push_event(s, s->now_ns + s->work[r->device].transfer_ns[r->transferred % count], TRANSFER, index, 0);
}

static void pass_turn(simulator *s, runner *r)
{
    uint64_t turn;

    if (!bgi_plan_is_strict(s->plan))
        return;
    r->owes_turn = r->transferred < r->issued;
    if (r->owes_turn)
        return;
    turn = ++s->turns[r->replica];
    wake_for(s, runner_of(s, r->replica, s->turn_devices[turn % s->turn_count]), WAITS_FOR_TURN, 0);
}

static void end_transfer(simulator *s, runner *r)
{
    r->transferred++;
    r->is_transferring = false;
    begin_transfer(s, r);
    if (r->owes_turn && r->transferred >= r->issued)
        pass_turn(s, r);
    if (r->state == IS_WAITING && r->wait == WAITS_FOR_TRANSFERS && r->transferred >= r->wait_target)
        wake(s, r);
}

static void issue(simulator *s, runner *r, uint32_t count)
{
    r->issued += count;
    begin_transfer(s, r);
}

static void send_message(simulator *s, runner *r, uint32_t edge)
{
    edge_state *state = &s->edges[(size_t)r->replica * s->plan->edge_count + edge];
    const double begin = r->link_free_ns > s->now_ns ? r->link_free_ns : s->now_ns;
    double latency;
    const double ns = bgi_message_ns(s->plan, s->setup->model, r->replica, edge, &latency);

    r->link_free_ns = begin + (s->setup->are_ranks ? 0.0 : ns); /* in a rank, RECEIVE copies the bytes (work.c) */
    state->sent_ns[state->sent++ % s->plan->edges[edge].depth] = s->now_ns;
    push_event(s, r->link_free_ns + latency, MESSAGE, (uint32_t)(r->replica * s->plan->edge_count + edge), 0);
}

static void arrive(simulator *s, uint32_t index)
{
    const uint32_t replica = index / s->plan->edge_count, edge = index % s->plan->edge_count;

    s->edges[index].arrived++;
    wake_for(s, runner_of(s, replica, s->plan->edges[edge].to_device), WAITS_FOR_MESSAGE, edge);
}

/* Replicas that share cores wait for each other before a sum or a gather. Returns true when all replicas of the group
 * have arrived. */
static bool has_met(simulator *s, runner *r)
{
    const bg_mesh mesh = bgi_plan_mesh(s->plan);
    const uint32_t members = bg_mesh_group_size(&mesh, BG_MESH_DATA);
    const uint32_t group = bg_mesh_group_index(&mesh, BG_MESH_DATA, r->replica);
    uint64_t *arrivals = &s->arrivals[(size_t)group * s->plan->device_count + r->device];

    if (s->replicas == 1 || members == 1)
        return true;
    if (!r->has_come) {
        r->has_come = true;
        r->meetings++;
        ++*arrivals;
        for (uint32_t i = 0; *arrivals >= members * r->meetings && i < members; i++)
            wake_for(s, runner_of(s, bg_mesh_group_at(&mesh, BG_MESH_DATA, r->replica, i), r->device),
                     WAITS_FOR_REPLICAS, 0);
    }
    return *arrivals >= members * r->meetings;
}

/* ---- instructions ---- */

static const bgi_instruction *instruction_of(const simulator *s, const runner *r)
{
    return &s->plan->devices[r->device].instructions[r->at];
}

/* Returns whether the instruction may begin; otherwise the runner is parked. */
static bool may_begin(simulator *s, runner *r, const bgi_instruction *instruction)
{
    edge_state *edges = s->edges + (size_t)r->replica * s->plan->edge_count;
    const uint32_t micro_batch = instruction->action.micro_batch;
    uint64_t target;

    if (bgi_plan_is_strict(s->plan) && s->turns[r->replica] != r->step * s->turn_count + instruction->turn)
        return park(s, r, WAITS_FOR_TURN, 0, 0), false;
    for (uint32_t i = 0; i < instruction->acquire_count; i++) {
        const uint32_t edge = instruction->acquires[i];
        const uint64_t end = sequence_of(s, r, &s->plan->edges[edge], micro_batch) + 1;
        if (end > s->plan->edges[edge].depth && edges[edge].consumed < end - s->plan->edges[edge].depth)
            return park(s, r, WAITS_FOR_SLOT, edge, 0), false;
    }
    if (!transfers_are_done(s, r, instruction->io_wait, &target))
        return park(s, r, WAITS_FOR_TRANSFERS, 0, target), false;
    if (instruction->needs_sum && r->sums_done < r->sums_begun)
        return park(s, r, WAITS_FOR_SUM, 0, 0), false;
    if (instruction->action.kind == BG_ACTION_RECEIVE) {
        const uint32_t edge = instruction->action.index;
        if (edges[edge].arrived <= sequence_of(s, r, &s->plan->edges[edge], micro_batch))
            return park(s, r, WAITS_FOR_MESSAGE, edge, 0), false;
    }
    if ((instruction->action.kind == BG_ACTION_REDUCE || instruction->action.kind == BG_ACTION_GATHER) &&
        shares_cores(s) && !has_met(s, r))
        return park(s, r, WAITS_FOR_REPLICAS, 0, 0), false;
    return true;
}

static void begin(simulator *s, runner *r, const bgi_instruction *instruction, const bgi_work *work)
{
    r->has_begun = true;
    r->has_come = false;
    r->mark = 0;
    r->done_ns = r->spent_ns = 0.0;
    r->began_ns = s->now_ns;
    if (instruction->issues > 0)
        issue(s, r, instruction->issues);
    if (work->sum_ns > 0.0) {
        const double begin_ns = r->sum_free_ns > s->now_ns ? r->sum_free_ns : s->now_ns;
        r->sums_begun++;
        r->sum_free_ns = begin_ns + work->sum_ns;
        push_event(s, r->sum_free_ns, SUM, (uint32_t)(r - s->runners), 0);
    }
}

static void finish(simulator *s, runner *r, const bgi_instruction *instruction, const bgi_work *work)
{
    edge_state *edges = s->edges + (size_t)r->replica * s->plan->edge_count;

    add_work_time(s, r, instruction, work);
    add_to_timing(s, r, &instruction->action);
    for (uint32_t i = 0; i < instruction->release_count; i++) {
        const uint32_t edge = instruction->releases[i];
        edges[edge].consumed++;
        wake_for(s, runner_of(s, r->replica, s->plan->edges[edge].from_device), WAITS_FOR_SLOT, edge);
    }
    if (instruction->action.kind == BG_ACTION_SEND && instruction->after_calls == 0)
        send_message(s, r, instruction->action.index);
    r->has_begun = false;
    pass_turn(s, r);
    if (++r->at == s->plan->devices[r->device].instruction_count) {
        if (s->now_ns > s->step_ends[r->step])
            s->step_ends[r->step] = s->now_ns;
        r->at = 0;
        r->step++;
    }
}

/* Processes the marks that have been reached; returns false when the runner has to wait at a mark. */
static bool pass_marks(simulator *s, runner *r, const bgi_work *work)
{
    const bgi_mark *marks = s->work[r->device].marks + work->first_mark;
    uint64_t target;

    for (; r->mark < work->mark_count && marks[r->mark].at_ns <= r->done_ns; r->mark++) {
        const bgi_mark *mark = &marks[r->mark];
        if (mark->kind == BGI_MARK_WAIT && !transfers_are_done(s, r, mark->value, &target))
            return park(s, r, WAITS_FOR_TRANSFERS, 0, target), false;
        if (mark->kind == BGI_MARK_SEND)
            send_message(s, r, mark->value);
        else if (mark->kind == BGI_MARK_ISSUE)
            issue(s, r, mark->value);
    }
    return true;
}

static void set_rate(simulator *s, runner *r, double rate)
{
    r->rate = rate;
    push_event(s, s->now_ns + (r->target_ns - r->done_ns) / rate, WORK, (uint32_t)(r - s->runners), ++r->generation);
}

/* Returns whether the core must leave a runner that could continue, because another runner is behind the first one by
 * more than half a micro-batch. */
static bool must_yield(const simulator *s, const runner *r)
{
    return s->setup->cores > 1 && s->ready_count > 0 &&
           position_of(s, &s->runners[s->ready[0]]) + 0.5 / s->plan->micro_batches < position_of(s, r);
}

/* Advances the runner until it is running, waits, is done, or must yield. Returns true when it is running. */
static bool advance(simulator *s, runner *r)
{
    add_time(s, r, BGI_TIME_CORES, s->now_ns - r->since_ns);
    while (r->step < s->setup->steps && !s->is_out_of_memory) {
        const bgi_instruction *instruction = instruction_of(s, r);
        const bgi_work *work = &s->work[r->device].instructions[r->at];
        if (!r->has_begun) {
            if (!may_begin(s, r, instruction))
                return false;
            begin(s, r, instruction, work);
        }
        if (!pass_marks(s, r, work))
            return false;
        r->target_ns =
            r->mark < work->mark_count ? s->work[r->device].marks[work->first_mark + r->mark].at_ns : work->total_ns;
        if (r->target_ns > r->done_ns) {
            r->state = IS_WORKING;
            r->since_ns = s->now_ns;
            return true;
        }
        finish(s, r, instruction, work);
        if (must_yield(s, r)) {
            r->state = IS_READY;
            r->since_ns = s->now_ns;
            push_ready(s, (uint32_t)(r - s->runners));
            return false;
        }
    }
    r->state = IS_DONE;
    return false;
}

/* ---- cores ---- */

/* Updates the completed work of a runner to the current time. */
static void look_at(simulator *s, runner *r)
{
    const double spent = s->now_ns - r->since_ns;

    r->done_ns += spent * r->rate;
    r->spent_ns += spent;
    r->since_ns = s->now_ns;
}

/* Returns the speed of a rank, relative to a rank with its own core. The system gives equal time to ranks that compete
 * for cores. */
static double rate_of_rank(const simulator *s)
{
    /* All replicas do the same as the simulated one. */
    const double cores = s->setup->rank_cores, busy = (double)s->working_count * s->plan->replicas;

    return busy > cores ? cores / busy : 1.0;
}

static void share_cores(simulator *s)
{
    const uint32_t busy = s->working_count + s->queue_working;
    const double helpers =
        s->working_count > 0 && busy < s->setup->cores ? (double)(s->setup->cores - busy) / s->working_count : 0.0;

    for (uint32_t i = 0; i < s->working_count; i++) {
        runner *r = &s->runners[s->working[i]];
        const bgi_work *work = &s->work[r->device].instructions[r->at];
        const double helped = work->total_ns - work->divisible_ns + work->divisible_ns / (1.0 + helpers);
        const double rate = !shares_cores(s) ? rate_of_rank(s) : helped > 0.0 ? work->total_ns / helped : 1.0;
        if (rate == r->rate)
            continue;
        look_at(s, r);
        set_rate(s, r, rate);
    }
}

/* Starts the oldest transfer of some queue. With only_waited_for, this is a queue whose device waits for transfers, or
 * cannot pass its turn before they are complete. Returns whether a transfer was started. */
static bool start_queue(simulator *s, bool only_waited_for)
{
    for (uint32_t i = 0; i < s->queue_count; i++) {
        runner *r = &s->runners[s->queues[i]];
        const uint32_t count = s->plan->devices[r->device].transfer_count, index = s->queues[i];
        if (only_waited_for && !(r->state == IS_WAITING && r->wait == WAITS_FOR_TRANSFERS) && !r->owes_turn)
            continue;
        s->queues[i] = s->queues[--s->queue_count];
        s->queue_working++;
        push_event(s, s->now_ns + s->work[r->device].transfer_ns[r->transferred % count], TRANSFER, index, 0);
        return true;
    }
    return false;
}

/* Starts runners that are ready and, with shared cores, transfers, while cores are free. */
static void start_work(simulator *s)
{
    for (;;) {
        runner *r;
        if (shares_cores(s) && s->working_count + s->queue_working >= s->setup->cores)
            break;
        if (shares_cores(s) && start_queue(s, s->ready_count > 0))
            continue;
        if (s->ready_count == 0)
            break;
        r = &s->runners[pop_ready(s)];
        if (!advance(s, r))
            continue;
        r->rate = 0.0; /* differs from every rate, so share_cores sets one */
        if (lists_working(s))
            s->working[s->working_count++] = (uint32_t)(r - s->runners);
        else
            set_rate(s, r, 1.0);
    }
    if (lists_working(s))
        share_cores(s);
}

static void end_work(simulator *s, uint32_t index)
{
    runner *r = &s->runners[index];

    look_at(s, r);
    r->done_ns = r->target_ns;
    if (advance(s, r)) {
        r->rate = 0.0;
        if (!lists_working(s))
            set_rate(s, r, 1.0);
        return;
    }
    for (uint32_t i = 0; i < s->working_count; i++)
        if (s->working[i] == index) {
            s->working[i] = s->working[--s->working_count];
            break;
        }
}

static void happen(simulator *s, const event *e)
{
    runner *r = &s->runners[e->kind == MESSAGE ? 0 : e->index];

    if (e->kind == WORK && e->generation != r->generation)
        return;
    s->out->core_busy_ns += (e->at_ns - s->now_ns) * (s->working_count + s->queue_working);
    s->now_ns = e->at_ns;
    if (e->kind == WORK) {
        end_work(s, e->index);
    } else if (e->kind == MESSAGE) {
        arrive(s, e->index);
    } else if (e->kind == TRANSFER) {
        s->queue_working -= shares_cores(s) ? 1 : 0;
        end_transfer(s, r);
    } else {
        r->sums_done++;
        if (r->state == IS_WAITING && r->wait == WAITS_FOR_SUM && r->sums_done >= r->sums_begun)
            wake(s, r);
    }
}

/* ---- the whole simulation ---- */

static bg_status prepare_edges(simulator *s, bg_error *error)
{
    const bg_plan *plan = s->plan;

    s->edges = bgi_arena_allocate(&s->arena, (size_t)s->replicas * plan->edge_count, sizeof *s->edges);
    for (size_t i = 0; s->edges != NULL && i < (size_t)s->replicas * plan->edge_count; i++) {
        s->edges[i].sent_ns = bgi_arena_allocate(&s->arena, plan->edges[i % plan->edge_count].depth, sizeof(double));
        if (s->edges[i].sent_ns == NULL)
            return bgi_error_memory(error, "the messages of a simulation", plan->edge_count * sizeof *s->edges);
    }
    return s->edges != NULL
               ? BG_OK
               : bgi_error_memory(error, "the messages of a simulation", plan->edge_count * sizeof *s->edges);
}

static bg_status prepare_turns(simulator *s, bg_error *error)
{
    const bg_plan *plan = s->plan;

    if (!bgi_plan_is_strict(plan))
        return BG_OK;
    for (uint32_t d = 0; d < plan->device_count; d++)
        s->turn_count += plan->devices[d].instruction_count;
    s->turn_devices = bgi_arena_allocate(&s->arena, (size_t)s->turn_count, sizeof *s->turn_devices);
    if (s->turn_devices == NULL)
        return bgi_error_memory(error, "the turns of a simulation", (size_t)s->turn_count * sizeof *s->turn_devices);
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            s->turn_devices[plan->devices[d].instructions[i].turn] = d;
    return BG_OK;
}

static bg_status prepare(simulator *s, bg_error *error)
{
    const bg_plan *plan = s->plan;
    const size_t count = (size_t)s->runner_count;

    s->work = bgi_arena_allocate(&s->arena, plan->device_count, sizeof *s->work);
    s->runners = bgi_arena_allocate(&s->arena, count, sizeof *s->runners);
    s->ready = bgi_arena_allocate(&s->arena, count, sizeof *s->ready);
    s->working = bgi_arena_allocate(&s->arena, count, sizeof *s->working);
    s->queues = bgi_arena_allocate(&s->arena, count, sizeof *s->queues);
    s->arrivals = bgi_arena_allocate(&s->arena, count, sizeof *s->arrivals);
    s->turns = bgi_arena_allocate(&s->arena, s->replicas, sizeof *s->turns);
    s->step_ends = bgi_arena_allocate(&s->arena, s->setup->steps, sizeof *s->step_ends);
    s->out->times = calloc(plan->device_count, sizeof *s->out->times);
    s->out->timing.device_busy = calloc(plan->device_count, sizeof(double));
    if (s->work == NULL || s->runners == NULL || s->ready == NULL || s->working == NULL || s->queues == NULL ||
        s->arrivals == NULL || s->turns == NULL || s->step_ends == NULL || s->out->times == NULL ||
        s->out->timing.device_busy == NULL)
        return bgi_error_memory(error, "a simulation", count * sizeof *s->runners);
    for (uint32_t d = 0; d < plan->device_count; d++)
        BGI_TRY(bgi_work_of_device(plan, s->setup, d, &s->arena, &s->work[d], error));
    for (uint32_t i = 0; i < s->runner_count; i++) {
        s->runners[i] = (runner){.replica = i / plan->device_count, .device = i % plan->device_count};
        if (plan->devices[i % plan->device_count].instruction_count == 0)
            s->runners[i].step = s->setup->steps;
    }
    BGI_TRY(prepare_edges(s, error));
    return prepare_turns(s, error);
}

static bg_status check_end(const simulator *s, bg_error *error)
{
    if (s->is_out_of_memory)
        return bgi_error_memory(error, "the events of a simulation", s->heap_capacity * sizeof *s->heap);
    for (uint32_t i = 0; i < s->runner_count; i++)
        if (s->runners[i].state != IS_DONE)
            return bg_error_set(error, BG_ERROR_INTERNAL,
                                "simulation: device %u of replica %u waits forever at instruction %u of step %u",
                                s->runners[i].device, s->runners[i].replica, s->runners[i].at, s->runners[i].step);
    return BG_OK;
}

static void summarize(simulator *s)
{
    const uint32_t steps = s->setup->steps;
    bgi_simulation *out = s->out;
    double busy = 0.0;

    for (uint32_t i = 1; i < steps; i++)
        if (s->step_ends[i] < s->step_ends[i - 1])
            s->step_ends[i] = s->step_ends[i - 1];
    out->first_step_ns = s->step_ends[0];
    out->step_ns = steps > 1 ? (s->step_ends[steps - 1] - s->step_ends[0]) / (steps - 1) : s->step_ends[0];
    out->total_ns = s->step_ends[steps - 1];
    out->device_count = s->plan->device_count;
    for (uint32_t d = 0; d < s->plan->device_count; d++) {
        double known = 0.0;
        for (int k = 0; k < BGI_TIME_CLASS_COUNT; k++)
            known += out->times[d][k];
        if (known < out->total_ns)
            out->times[d][BGI_TIME_PIPELINE] += out->total_ns - known;
        busy += out->timing.device_busy[d];
    }
    if (out->timing.makespan > 0.0)
        out->timing.bubble = 1.0 - busy / (out->timing.makespan * s->plan->device_count);
}

bg_status bgi_simulate(const bg_plan *plan, const bgi_simulation_setup *setup, bgi_simulation *out, bg_error *error)
{
    bgi_simulation made = {.device_count = 0};
    simulator s = {.plan = plan, .setup = setup, .out = &made};
    bg_status status;

    s.replicas = setup->cores > 0 ? plan->replicas : 1;
    s.runner_count = s.replicas * plan->device_count;
    status = prepare(&s, error);
    if (status == BG_OK) {
        for (uint32_t i = s.runner_count; i-- > 0;)
            push_ready(&s, i);
        start_work(&s);
        while (s.heap_count > 0 && !s.is_out_of_memory) {
            const event next = pop_event(&s);
            happen(&s, &next);
            start_work(&s);
        }
        status = check_end(&s, error);
    }
    if (status == BG_OK) {
        summarize(&s);
        *out = made;
    } else {
        bgi_simulation_clear(&made);
    }
    free(s.heap);
    bgi_arena_clear(&s.arena);
    return status;
}

double bgi_simulation_run_ns(const bgi_simulation *simulation, uint64_t steps)
{
    return steps == 0 ? 0.0 : simulation->first_step_ns + simulation->step_ns * (double)(steps - 1);
}

void bgi_simulation_clear(bgi_simulation *simulation)
{
    free(simulation->times);
    bg_schedule_timing_clear(&simulation->timing);
    *simulation = (bgi_simulation){.device_count = 0};
}
