/*
 * engine.h: runs a plan: replicas x devices on worker threads. It knows plans, but no graphs, weights, files or
 * optimizers. device/device.h allocates memory, and transport/transport.h lets devices communicate.
 *
 * Runners and workers. A runner is a device and its position in its program. Only the order of its instructions
 * matters, not the thread that executes them. A worker owns at most one runner at a time. It takes a ready runner,
 * advances it until its next instruction must wait, parks it, and takes another.
 *
 *     worker --take--> runner --advance--> ... --must wait--> park --> look again --> take another | help | sleep
 *
 * Among several ready runners the worker takes the one that is least advanced in its program. Among equally advanced
 * ones it takes the one nearest the end of the pipeline, which frees the most memory. When there are fewer workers than
 * devices, a worker leaves a runner that is still ready if another ready runner has fallen behind by more than half a
 * micro-batch. If workers kept a runner until it must wait, the devices would drift apart until some workers starve.
 * With 1F1B and B = 2 F on 4 devices and 3 workers, workers would be busy 88% of the time instead of 99%; with 2
 * workers the difference is below 1%.
 *
 * Every wait is for a counter to reach a number, and counters only grow. All counters are in the process of the waiting
 * runner; the transport raises counters that other devices advance:
 *
 *     RECEIVE          arrived   of the link         >  the message's sequence number
 *     a free slot      credit    of the link         >= sequence number + 1 - depth
 *     REDUCE, GATHER   the transport says which counter, and what it must reach
 *     a collective call, the same
 *     the next step    granted   of the runner       >= steps it has done + 1
 *     a turn           turn      of the runner       >= number of the instruction (strict plans)
 *     a row's place    taken     of the outfeed      >= row + 1 - capacity
 *     a transfer       io_done   of the runner       >= the number of that transfer (also at the end of a run: all)
 *     a sum            sums_done of the runner       >= sums that it has begun
 *     the next run     runs      of the engine       >= runs it has done + 1
 *
 * So a parked runner is a pair (counter, target), and any thread can see whether it is ready without owning it. The
 * pair is only a hint: the thread that takes the runner checks again.
 *
 * No wake-up is lost. A worker that parks a runner writes the pair, gives ownership up, and reads the counter once
 * more. A thread that raises a counter then checks whether the runner that may wait for it is unowned and ready, and
 * wakes a sleeper if so. Sleepers announce themselves before their last check (core/threads.h). These stores and loads
 * are sequentially consistent, so at least one of the two threads sees what the other wrote. Raising a counter costs no
 * system call while no worker sleeps. It wakes no worker when the runner is owned or waits for another counter. With a
 * transport that must be polled, workers never sleep long, because an arriving message would not wake them.
 *
 * Messages. A producer writes into the window of a message once the transport has credit for it. SEND posts the
 * message, and its last reader releases the slot that received it. Sequence numbers count over the life of the engine,
 * so nothing is reset between steps or runs. A message leaves as soon as it is written, which may be in the middle of
 * an action. So the gradient for the previous stage does not wait for the gradients of weights that are computed after
 * it. The plan names the call after which the message leaves; the later SEND then does nothing.
 *
 * Helping. A kernel call is cut into parts by its shapes. With more than one worker the owner of a call always
 * publishes its parts in the runner's ticket (ticket.h). Otherwise a worker that becomes idle in the middle of a call
 * would wait until the owner reaches the next call. The owner claims parts from the beginning and helpers claim from
 * the end, so in successive calls the same part of the data tends to stay with the same core. A call cannot end while a
 * claimed part runs, so the fields that a helper reads about the call are stable. Each thread that runs parts of a call
 * has a number, which selects its scratch memory. The owner's number is 0. A helper's number is that of the first part
 * that it claimed, which is 0 only when the owner claims no part. The device decides which lists of parts a call has
 * (prepare, parts, combine, finish). For each list the owner claims parts as helpers do, and then waits for the parts
 * that helpers took. After each part a helper checks whether a runner is ready, and if so takes that runner. While no
 * worker is idle, helping costs one compare-and-swap a part, on a cache line of the owner; with one worker it costs
 * nothing. Results do not depend on the thread that runs a part, because parts write disjoint memory, and `combine` and
 * `finish` add sums over parts in the order of the parts.
 *
 * Loads and stores. Transfers copy values between remote memory and a device. The plan lists them for each device in
 * the order of its program. LOAD and STORE (and loads and stores of optimizer state inside an update) only raise
 * `io_issued`. The thread that holds the runner's queue copies concurrently with the program, in order: an I/O thread,
 * an idle worker, or the worker whose runner waits for a transfer that has not begun. `io_done` counts completed
 * transfers. The plan knows which transfers each instruction, and each call of an update, waits for (plan/transfers.c).
 *
 *     program  LOAD 1 --- F0 F0 F0 --- LOAD 2 --- wait for 1 --- F1 F1 F1 ---
 *     queue      ==== 1 ====             ======= 2 =======
 *
 * A transfer of more than one piece (io.c) is cut: the holder publishes the pieces in a ticket and releases the queue,
 * and idle threads copy them. When a device waits for the transfer, all idle threads copy pieces. The thread that finds
 * all pieces copied takes the queue again, counts the transfer as done and begins the next.
 *
 * A flag marks a queue as held. A thread takes a free queue and skips a held one, and never waits for a queue. The
 * holder checks again after releasing the queue, the issuer wakes a sleeper after raising `io_issued`, and a worker
 * whose runner must wait does the transfers itself if the queue is free. So no transfer is forgotten, with or without
 * I/O threads.
 *
 * Sharded weights have a piece in each replica's store. LOAD fetches all pieces into the window, and STORE writes the
 * replica's own piece back, so the next load gathers the updated pieces. A load must see the stores of all replicas
 * that precede it in the program, and a store must not overwrite a piece that a replica has yet to load. So runners
 * notify each other of the positions of their queues, and such a transfer waits for the other runners' notes. During
 * this wait, and while pieces are being fetched, the transfer's queue counts as empty.
 *
 * Replicas run collective operations for sums of gradients, for pieces of new weights, and for collective calls of the
 * model inside a forward or a backward pass. A runner contributes its data, is parked, does its share when all members
 * have contributed, is parked again, and continues when all have their results (collective.c). So one worker can run
 * any number of replicas. Each element is summed once, in the members' order, on any device and at any time. For each
 * set of the mesh's axes (brigade/mesh.h), a replica belongs to one group. All replicas run one program, so the members
 * of a group reach the same operations in the same order. So a program that cannot deadlock for one replica cannot
 * deadlock for all.
 *
 * The caller as worker. An engine with one worker that is not bound starts no thread for this worker: the thread in
 * bgi_engine_run does the work, and checks the time limit whenever it is idle. That thread would not return from a
 * kernel that hangs, so a plan with kernels from outside the library always gets a worker thread.
 *
 * Sums of gradients may overlap with the program: REDUCE contributes the gradients, and the device continues up to the
 * instruction that needs the sum (plan/beside.c). The thread that holds the device's queue of transfers (an I/O thread,
 * an idle worker, or the worker whose device needs the sum) does the device's share when all have contributed, and
 * records when all have their results. A device has one such sum in progress at a time; other collective operations of
 * the same group wait for it.
 *
 * Sums in the middle of a backward pass pay off when a thread is free to do them: an I/O thread, or a worker if there
 * are more workers than devices. A rank without such a thread also begins them, because the other ranks' parts arrive
 * while it computes; its workers poll for them between calls (bgi_sum_look). In one process without such a thread the
 * sums wait until the backward pass is over, and are then done in the same order.
 *
 * Between ranks a large sum is cut into rounds, each of which is one collective operation (transport/transport.h). A
 * trace shows the rounds as one sum.
 *
 * Turns. A strict plan numbers the instructions of a step over all devices. A runner begins an instruction when all
 * earlier turns are done, and notifies the device that has the next turn when the instruction and all transfers that it
 * issued are done. All replicas take the same turns, so they reach a collective operation in the same turn.
 *
 * Failure. The thread in bgi_engine_run wakes regularly and checks whether any runner made progress. If no runner did
 * within the limit, or a runner has recorded a failure, the engine is dead: workers leave, and the run reports the
 * device at fault. A worker that does not return from a kernel cannot be ended. Destroying the engine detaches the
 * worker, and the engine's memory stays until that kernel returns (the last detached worker frees it). The caller owns
 * the plan's memory and must keep it until then.
 */
#ifndef BGI_RUNTIME_ENGINE_H
#define BGI_RUNTIME_ENGINE_H

#include <brigade/session.h>

#include <sys/types.h>

#include "core/progress.h"
#include "core/threads.h"
#include "device/device.h"
#include "plan/plan.h"
#include "runtime/feed.h"
#include "runtime/placement.h"
#include "runtime/ticket.h"
#include "transport/ranks.h"
#include "transport/transport.h"

#define BGI_NO_CALL    UINT32_MAX
#define BGI_NO_CPU     UINT32_MAX
#define BGI_NO_REPLICA UINT32_MAX

typedef struct bgi_trace_ring {
    bg_trace_event *events; /* NULL: not tracing */
    uint32_t capacity;
    uint64_t count; /* number of events recorded so far; event i is at i % capacity */
    /* Totals over all recorded events, including overwritten ones. */
    uint64_t kind_count[BG_ACTION_KIND_COUNT], kind_ns[BG_ACTION_KIND_COUNT];
} bgi_trace_ring;

/* The time of a kernel call in the steps whose calls are timed. */
typedef struct bgi_call_time {
    uint64_t count, total_ns, least_ns, most_ns;
} bgi_call_time;

/* The calls of a device's program. Instructions that share their calls, such as a stage's forwards of different
 * micro-batches, share their times. */
typedef struct bgi_call_times {
    bgi_call_time *times; /* NULL: not tracing */
    uint32_t count;
    uint32_t *first; /* by instruction: its first call */
} bgi_call_times;

/* The beginning and end of a run, and its number of steps. */
typedef struct bgi_run_span {
    uint64_t start_ns, end_ns, steps;
} bgi_run_span;

enum { BGI_RUN_SPANS = 4096 };

typedef struct bgi_run_spans {
    bgi_run_span *spans; /* NULL: not tracing. The latest BGI_RUN_SPANS runs; run i is at i % BGI_RUN_SPANS */
    uint64_t count, total_ns, steps;
    uint64_t start_ns, end_ns; /* start of the first run and end of the last one */
} bgi_run_spans;

typedef struct bgi_worker bgi_worker;

/* A range of an arena whose bytes are read from other memory (in_place.c). */
typedef struct bgi_range {
    size_t begin, end;
    char *data; /* the address of the first byte; set between runs */
} bgi_range;

/* The ranges of a device (the same in each replica), in ascending order. */
typedef struct bgi_in_place {
    bgi_range *ranges;
    uint32_t count;
    size_t bytes;
} bgi_in_place;

enum { BGI_FAILURE_BYTES = 320 };

/* A load or store that is copied in pieces. */
typedef struct bgi_copying {
    char *to;
    const char *from;
    size_t size_bytes, piece_bytes;
} bgi_copying;

/* The tensors that a device contributes to a collective operation, and those of the current round. */
typedef struct bgi_brought {
    bgi_exchange *all, *round;
    uint32_t count, round_count;
    bgi_cut cut;
} bgi_brought;

/* A device of one replica, and its position in its program. */
struct bgi_runner {
    /* All workers that search for work read these fields. The owner writes (counter, target) before it gives up
     * ownership. */
    _Alignas(BGI_CACHE_LINE_BYTES) atomic_bool is_owned;
    _Atomic(bgi_counter *) wait_counter;
    _Atomic uint64_t wait_target; /* 0: the device waits for nothing */
    _Atomic uint64_t position;    /* steps << 32 | completed share of the program x 2^32 */

    /* Helping. */
    _Alignas(BGI_CACHE_LINE_BYTES) bgi_ticket ticket;       /* claims parts of the current call */
    _Alignas(BGI_CACHE_LINE_BYTES) _Atomic uint32_t helped; /* the number of parts that helpers have completed */

    /* Numbers that the host and other devices send to this device in notes. */
    bgi_counter
        granted; /* the number of iterations, over the life of the engine, that may begin; UINT64_MAX: see `end` */
    _Atomic uint64_t end;        /* the number of iterations of this run; UINT64_MAX: not known yet */
    bgi_counter turn;            /* in a strict plan: the number of completed instructions, as of the last note */
    _Atomic uint64_t *peer_done; /* by replica: the number of loads and stores completed there; NULL: not needed */

    /* Transfers. The owner issues transfers, and the holder of the queue completes them. */
    bgi_counter io_issued, io_done; /* counted over the life of the engine */
    atomic_bool is_fetching;        /* the next transfer has begun to fetch pieces of other replicas */
    _Alignas(BGI_CACHE_LINE_BYTES) atomic_bool io_is_held;
    size_t
        io_touched_bytes; /* for the holder, while tracing: the end of the arena's bytes that transfers have touched */
    bgi_trace_ring io_trace; /* written by the holder */
    bgi_copying copying;     /* written by the holder; read by threads that hold a piece of it */
    uint64_t io_start_ns;    /* while tracing: when the current transfer began */
    atomic_bool is_copying;  /* the next transfer has been cut into pieces and is not complete */
    _Alignas(BGI_CACHE_LINE_BYTES) bgi_ticket io_ticket; /* claims pieces of the current transfer */
    _Atomic uint32_t pieces_left;                        /* number of pieces that are not copied yet */

    /* A sum over replicas that overlaps with the program: the owner begins it, and the holder of the queue continues
     * it. Its pair (counter, target) is a hint, like that of the program. */
    bgi_counter sums_begun, sums_done; /* counted over the life of the engine */
    _Atomic(bgi_counter *) sum_counter;
    _Atomic uint64_t sum_target;
    const bgi_instruction *sum;
    bgi_brought sum_brought;
    bgi_wait sum_meeting;
    bool sum_is_delivered; /* the device has delivered its share of the round */
    uint64_t sum_step;     /* the step of the sum, for the trace */
    uint64_t sum_ns[2];    /* while tracing: when the first share began and the last one ended */
    uint32_t sum_worker;   /* the worker that did the last share */

    /* The owner writes these fields; the watching thread reads them from time to time. */
    _Alignas(
        BGI_CACHE_LINE_BYTES) _Atomic uint64_t progress; /* the number of completed instructions, calls and parts */
    _Atomic uint32_t instruction;                        /* the instruction that runs or waits */
    _Atomic uint32_t call;                               /* the instruction's call that runs, or BGI_NO_CALL */
    _Atomic uint64_t iteration;                          /* steps over the life of the engine */

    /* Fields of the owner, which pass to the next owner. Helpers read them between parts, so they are on a different
     * cache line from the owner's progress counters. */
    _Alignas(BGI_CACHE_LINE_BYTES) bgi_engine *engine;
    const bg_plan *plan;
    const bgi_plan_device *program;
    const bgi_in_place *in_place; /* ranges that are read from other memory; NULL: none */
    uint64_t instruction_share;   /* 2^32 / instructions */
    uint32_t replica, number;     /* `number` counts the devices of the replica */
    bgi_device *device;
    bgi_transport *transport;
    uint32_t index;      /* number among the devices of all replicas */
    uint32_t first_link; /* number of the first link of the replica's edges */
    uint64_t *sent_ns;   /* by edge, while tracing: when the last message left */
    bool is_between_runs;
    bool is_ending;         /* in a strict plan: the instruction is done except for its transfers */
    uint64_t run_count;     /* runs done */
    uint64_t run_begin;     /* iteration of the run's first step; does not change while transfers are in progress */
    uint64_t run_iteration; /* steps done in this run */
    uint32_t micro_batch;   /* the micro-batch of the current instruction */
    uint32_t phase;         /* the step of a REDUCE, GATHER or collective call (collective.c) */
    uint32_t next_call;     /* the next call of an instruction that waits between its calls; otherwise 0 */
    bgi_wait meeting;       /* the counter that the device waits for in a collective operation */
    bgi_brought brought;    /* the tensors that the device contributes to the collective operation */
    uint64_t meeting_ns;    /* while tracing: when the device's share of the operation began */
    uint32_t put_off;       /* the first instruction with a delayed sum, or BGI_NO_INSTRUCTION */
    uint64_t looked_ns;     /* when bgi_sum_look last checked */
    size_t touched_bytes;   /* the end of the arena's bytes that were touched; operands count only while tracing */
    atomic_bool is_traced;  /* changes only between runs */
    bool is_sampled;        /* the calls of this step are timed */
    bgi_trace_ring trace;
    bgi_call_times call_times;
    bg_status failure_status;
    char failure[BGI_FAILURE_BYTES];

    /* The running call, which helpers that hold a part of it read. */
    void *host_value; /* memory for an output; NULL when the host can read the device's memory */
    bg_kernel_call kernel_call;
    bg_kernel_env env;
    bg_kernel_function run_part;
    uint32_t part_count;
    bool call_is_long; /* so long that waking a sleeper pays off */
    void **operands;   /* memory for the operands of the widest call */
};

struct bgi_worker {
    bgi_engine *engine;
    pthread_t thread;
    uint32_t number;
    uint32_t cpu; /* the processor to which the worker is bound, in the system's numbers; BGI_NO_CPU: not bound */
    bgi_trace_ring
        helps; /* while tracing: when the worker ran parts of calls of devices that it did not own; under help_mutex */
    bool is_caller;  /* has no separate thread: the caller of bgi_engine_run works */
    bool does_io;    /* does only transfers */
    bool is_on_loan; /* a thread of the calling program (options.execution.start_thread), which is not joined */
    bool has_exited; /* under the engine's mutex */
};

/* Memory of remote stores that the engine does not own, such as files. The engine releases it when its last worker has
 * left, which may be after bgi_engine_destroy. */
typedef struct bgi_stores {
    void *user;
    void *(*address)(const void *user, uint32_t device); /* returns the memory of device `device` among all replicas'
                                                            devices; NULL: the device allocates it */
    void (*close)(void *user);                           /* NULL: nothing to release */
} bgi_stores;

/* The resources that an engine runs on. */
typedef struct bgi_engine_options {
    const bgi_ranks *ranks;                   /* the ranks and their devices; NULL: all devices are in this process */
    const bgi_device_type *device_type;       /* NULL: the CPU */
    const bgi_transport_type *transport_type; /* NULL: threads */
    bgi_stores stores; /* all zero: the devices allocate their stores; the engine releases given stores, even when its
                          creation fails */
    const bool *in_place; /* by variable: whether it is read at the address from bgi_in_place_set instead of in arenas;
                             NULL: no variable is */
    bgi_progress
        *progress; /* called before the memory of each device is created, also for other ranks' devices; or NULL */
} bgi_engine_options;

struct bgi_engine {
    const bg_plan *plan;
    bg_plan *own_plan; /* the plan, when the session and the engine own it (own_plan.c); otherwise NULL */
    uint64_t created_ns;
    uint32_t device_count;  /* number of devices of all replicas */
    const bgi_ranks *ranks; /* NULL: one process; otherwise the engine's own copy */
    bgi_ranks own_ranks;
    uint32_t *own_owners;
    char (*own_hosts)[BGI_HOST_BYTES];
    bgi_runner *runners;      /* [replica][device]; the entries of other ranks are empty */
    bg_weights *read_weights; /* in a dead engine: a reference to the weights that it reads in place; or NULL */
    bgi_in_place *in_place;   /* by device; NULL: all operands are read in arenas */
    uint32_t in_place_count;
    bgi_runner **local; /* the devices of this rank, from the end of the pipeline to its beginning */
    uint32_t local_count;
    _Atomic uint64_t *rank_progress;  /* by rank: the progress in its last note; NULL: one process */
    char lost[BGI_FAILURE_BYTES * 2]; /* the last message of another rank that failed; "": none */
    bg_status lost_status;
    bgi_transport *transport;
    bgi_link *links;        /* [replica][edge] */
    bgi_group *groups;      /* [device][axes][group]; see bgi_engine_group */
    uint32_t *members;      /* the members of all groups */
    uint64_t *sent_ns;      /* [replica][edge], while tracing; otherwise NULL */
    uint32_t turn_count;    /* instructions of a step on all devices */
    uint32_t *turn_devices; /* [turn]: the device that has it */
    const bgi_device_type *device_type;
    bgi_device **devices; /* [replica][device]; NULL: the device is on another rank */
    bgi_stores stores;    /* the owner of the remote stores' memory, if the devices do not own it */
    float **sums;         /* [output][replica]: float32 sums of summed outputs of 16 bits; otherwise NULL */
    uint32_t sum_count;
    uint32_t *output_devices; /* [output]: the device that makes the output */

    /* The run. */
    bgi_run given;      /* a copy, because a worker inside a kernel that never returns outlives the caller's run */
    const bgi_run *run; /* that copy */
    bgi_gate gate;
    atomic_bool has_spare;    /* the run has work for idle workers */
    bgi_counter spare_count;  /* the number of workers that do such work, or check for it */
    bgi_counter runs;         /* the number of runs that have begun */
    bgi_counter devices_left; /* the number of devices that have not finished the run */
    atomic_bool asks_to_stop; /* this rank requests that no further run begins */
    bool is_asked_to_stop;    /* some rank had requested a stop when the last run ended */
    bool has_refused;         /* the last run skipped an update on some rank (options.numerics.guard_loss) */
    atomic_bool is_stopping;  /* workers leave */
    atomic_bool has_failed;   /* a device has recorded a failure */
    bool is_dead;             /* a device failed, or no device made progress within the limit */
    pthread_mutex_t mutex;    /* guards the following fields, and sleeping until the run is done */
    pthread_cond_t changed;   /* signals the end of a run, a failure, or that a worker has left */
    uint32_t exited_count;    /* the number of workers that have left */
    uint32_t orphan_count;    /* the number of detached workers that may still return */
    bool is_orphaned;

    /* Idleness. */
    _Alignas(BGI_CACHE_LINE_BYTES) bgi_event_count events,
        io_events;     /* `events` wakes workers, `io_events` wakes I/O threads */
    uint64_t spin_ns;  /* how long a worker polls before it yields */
    uint64_t yield_ns; /* after spin_ns, how long a worker alternates between yielding the processor and polling; then
                          it sleeps */
    bool has_helpers;  /* there is more than one worker */
    bool sees_to_sums; /* workers check between calls for parts of sums from other ranks, because no other thread does
                          so */

    pid_t process; /* the process with the workers' threads; a process forked from it does not have them */
    bgi_worker *workers;
    uint32_t worker_count;    /* including I/O threads, which come last */
    uint32_t computing_count; /* without I/O threads */
    uint32_t processor_count; /* the number of processors that workers may use; 0: fewer than the ranks on this host */
    uint32_t
        worker_room; /* the number of allocated workers, which exceeds worker_count when a thread failed to start */
    pthread_mutex_t help_mutex; /* guards `helps` of all workers */
    bool is_driven;             /* workers[0] is the caller of bgi_engine_run, and all other workers are I/O
                                   threads */
    bgi_run_spans run_spans;
    char cpus[BGI_PLACEMENT_TEXT_BYTES]; /* the processors that unbound workers may use, as "0-3"; "": unknown */
    uint64_t tolerance; /* how far behind another device must be before a worker switches to it; UINT64_MAX: never */
};

/* ---- groups of replicas ---- */

static inline bg_mesh bgi_runner_place(const bgi_runner *runner)
{
    const bg_mesh mesh = bgi_plan_mesh(runner->plan);

    return bg_mesh_coordinates(&mesh, runner->replica);
}

/* Returns the number that the transport gives the replica's group along the axes. */
static inline uint32_t bgi_engine_group(const bgi_engine *engine, uint32_t device, uint32_t axes, uint32_t replica)
{
    const bg_mesh mesh = bgi_plan_mesh(engine->plan);

    return (device * (BG_MESH_ALL + 1) + axes) * engine->plan->replicas + bg_mesh_group_index(&mesh, axes, replica);
}

/* Return the size of the group of replicas that differ from the runner's replica only in their data coordinate, and
 * this replica's place in the group. Each member may keep a piece of a variable. */
static inline uint32_t bgi_group_size(const bgi_runner *runner)
{
    return bgi_plan_data_replicas(runner->plan);
}
static inline uint32_t bgi_group_place(const bgi_runner *runner)
{
    return bgi_runner_place(runner).data;
}
/* Return the replica that is member `member` of the runner's group along the axes, and the number that the transport
 * gives the runner's device in that replica. */
static inline uint32_t bgi_group_replica(const bgi_runner *runner, uint32_t axes, uint32_t member)
{
    const bg_mesh mesh = bgi_plan_mesh(runner->plan);

    return bg_mesh_group_at(&mesh, axes, runner->replica, member);
}
static inline uint32_t bgi_group_device(const bgi_runner *runner, uint32_t axes, uint32_t member)
{
    return bgi_group_replica(runner, axes, member) * runner->plan->device_count + runner->number;
}

/* Whether an instruction delivers outputs: a HOST_OUT, or an update with outputs. */
static inline bool bgi_instruction_brings_out(const bgi_instruction *instruction)
{
    return instruction->action.kind == BG_ACTION_HOST_OUT ||
           (instruction->action.kind == BG_ACTION_UPDATE && instruction->copy_count > 0);
}

/* ---- engine.c ---- */

/* Checks the plan, allocates memory, uploads constants, and starts the workers. */
bg_status bgi_engine_create(const bg_plan *plan, const bgi_engine_options *options, bgi_engine **out, bg_error *error);
/* Whether the workers' threads are in another process, from which this one was forked. */
bool bgi_engine_lacks_threads(const bgi_engine *engine);
void bgi_engine_destroy(bgi_engine *engine);
/* Runs the plan once; *out_iterations: the number of completed steps. After a failure the engine is dead. */
bg_status bgi_engine_run(bgi_engine *engine, const bgi_run *run, uint64_t *out_iterations, bg_error *error);
/* Implements bgi_session_leaves_processor. */
bool bgi_engine_leaves_processor(const bgi_engine *engine);
/* Returns the address of a place for the host; NULL when the host cannot access it. This and the following functions
 * may be called only between runs. */
void *bgi_engine_map(const bgi_engine *engine, uint32_t replica, const bgi_place *place);
/* bgi_engine_write copies `data` to a place, and bgi_engine_read a place to `data`. */
void bgi_engine_write(bgi_engine *engine, uint32_t replica, const bgi_place *place, const void *data,
                      size_t size_bytes);
void bgi_engine_read(const bgi_engine *engine, uint32_t replica, const bgi_place *place, void *data, size_t size_bytes);
/* Reads a place for several ranks, all of which call this function: the place's owner sends the value to `readers` (by
 * rank; NULL: all). `data` may be NULL on ranks that are not among them. */
bg_status bgi_engine_fetch(const bgi_engine *engine, uint32_t replica, const bgi_place *place, const bool *readers,
                           void *data, size_t size_bytes, bg_error *error);
/* Whether this rank owns a device. */
static inline bool bgi_engine_has(const bgi_engine *engine, uint32_t replica, uint32_t device)
{
    return bgi_ranks_has(engine->ranks, replica * engine->plan->device_count + device);
}
/* Whether the run is done or has failed. */
static inline bool bgi_engine_is_over(bgi_engine *engine)
{
    return atomic_load(&engine->has_failed) || atomic_load(&engine->devices_left.value) == 0;
}
/* Handles notes that a transport delivers (events.told). */
void bgi_engine_told(void *user, uint32_t to, const bgi_note *note);
/* Frees an engine whose workers are gone. */
void bgi_engine_free(bgi_engine *engine);

/* ---- in_place.c ---- */

/* Finds which variables a process that has all devices can read in the weights' own memory. *out is malloc'ed, by
 * variable; NULL: none, because the plan trains or keeps variables in files. */
bg_status bgi_in_place_choose(const bg_plan *plan, bool **out, bg_error *error);
/* Creates the ranges of a new engine; `in_place` by variable. */
bg_status bgi_in_place_create(bgi_engine *engine, const bool *in_place, bg_error *error);
void bgi_in_place_clear(bgi_engine *engine);
/* Called between runs: sets the address of a variable's value from the next run on. NULL: in the arena. */
void bgi_in_place_set(bgi_engine *engine, const bgi_plan_variable *variable, void *data);
/* Returns the address from which bytes at an arena offset are read instead; NULL: from the arena. */
void *bgi_in_place_address(const bgi_in_place *in_place, size_t offset);

/* ---- worker.c ---- */

bg_status bgi_workers_start(bgi_engine *engine, bg_error *error);
/* Makes the calling thread work as workers[0] of a driven engine, until the run is over or the thread has waited
 * `timeout_ns` for work. */
void bgi_workers_drive(bgi_engine *engine, uint64_t timeout_ns);
/* Returns the ready device that is least advanced; a hint. NULL when none is ready. */
bgi_runner *bgi_workers_find_device(const bgi_engine *engine);
/* Whether there is a ready device or a call with parts left; both have priority over transfers. A hint. */
bool bgi_workers_are_wanted(const bgi_engine *engine);
/* Makes all workers leave and waits for them, at most `limit_ns` (UINT64_MAX: without a limit); returns true when all
 * left. */
bool bgi_workers_stop(bgi_engine *engine, uint64_t limit_ns);

/* ---- runner.c ---- */

/* Advances an owned device until it must wait (the pair says for what), the engine stops, or another device should run
 * first; returns true in the last case. */
bool bgi_runner_advance(bgi_runner *runner, const bgi_worker *worker);
/* Records a failure, which ends the engine. Called by the owner. */
void bgi_runner_fail(bgi_runner *runner, bg_status status, const char *format, ...) BG_PRINTF(3, 4);
/* Returns the current address of an operand. */
void *bgi_runner_address(bgi_runner *runner, const bgi_operand *operand, size_t size_bytes);
/* Whether the counter has reached the target; otherwise notes that the device waits for it. Called by the owner. */
bool bgi_runner_reached(bgi_runner *runner, bgi_counter *counter, uint64_t target);
/* Sends a note to another device, or to the host. */
void bgi_runner_tell(bgi_runner *runner, uint32_t to, bgi_note_kind kind, uint64_t value);
/* Raises a counter that `waiting` may wait for, and makes sure that a thread continues `waiting`. */
void bgi_counter_raise(bgi_counter *counter, uint64_t value, bgi_runner *waiting);

/* Called by the owner: counts progress. The store has release order: when the watching thread gives up on a kernel,
 * everything before that kernel, such as reading the caller's inputs, has happened. */
static inline void bgi_runner_add_progress(bgi_runner *runner)
{
    const uint64_t progress = atomic_load_explicit(&runner->progress, memory_order_relaxed);

    atomic_store_explicit(&runner->progress, progress + 1, memory_order_release);
}

/* Whether a parked device can continue; a hint. */
static inline bool bgi_runner_is_ready(bgi_runner *runner)
{
    return !atomic_load(&runner->is_owned) &&
           atomic_load(&atomic_load(&runner->wait_counter)->value) >= atomic_load(&runner->wait_target);
}

/* ---- io.c ---- */

/* The value of `until` for an I/O thread, and for a worker that has nothing else to do. */
#define BGI_IO_ALL        (UINT64_MAX - 1)
#define BGI_IO_WHILE_IDLE UINT64_MAX

/* Does issued transfers in order until the total number of completed ones is `until`, unless another thread holds the
 * queue. Returns true when it did any transfer. */
bool bgi_io_run(bgi_runner *runner, const bgi_worker *worker, uint64_t until);
/* Whether there are transfers that no thread is doing; a hint. */
bool bgi_io_is_wanted(bgi_runner *runner);
/* Wakes a thread that can do transfers. */
void bgi_io_wake(bgi_engine *engine);
/* Records that the same device of `replica` has completed `done` transfers. */
void bgi_io_peer_moved(bgi_runner *runner, uint32_t replica, uint64_t done);
/* Returns another replica that the next transfer of the queue waits for; BGI_NO_REPLICA: none. */
uint32_t bgi_io_late_replica(const bgi_runner *runner);
/* Called by the owner: issues the next `count` transfers. */
void bgi_io_issue(bgi_runner *runner, uint32_t count);
/* Called by the owner: returns whether `target` transfers are done. If they are not, does them or, when another thread
 * holds the queue, notes that the device waits for `io_done`. */
bool bgi_io_reached(bgi_runner *runner, const bgi_worker *worker, uint64_t target);

/* ---- share.c ---- */

/* Runs all parts of the device's call, with the help of idle workers. `is_long`: so long that waking a sleeper pays
 * off. */
void bgi_parts_run(bgi_runner *runner, bool is_long);
/* Runs parts of the device's call, if it has published any, until none is left or a device is ready; returns the number
 * of parts. */
uint32_t bgi_parts_help(bgi_runner *runner);
bool bgi_parts_wanted(bgi_runner *runner);

/* ---- collective.c ---- */

/* Advances a REDUCE or GATHER as far as possible; true when it is done. */
bool bgi_collective_advance(bgi_runner *runner, const bgi_instruction *instruction, const bgi_worker *worker);
/* Does the same for a collective call of an instruction. */
bool bgi_collective_call(bgi_runner *runner, const bgi_call *call, const bgi_worker *worker);
/* Whether any sum overlaps with the program (engine.c). */
bool bgi_has_sums_beside(const bgi_plan_device *program);
/* Called by the owner: begins a REDUCE that overlaps with the program. */
void bgi_sum_begin(bgi_runner *runner, const bgi_instruction *instruction);
/* Called by the holder of the queue: advances the sum as far as possible; returns whether it did anything. */
bool bgi_sum_advance(bgi_runner *runner, const bgi_worker *worker);
/* Whether a sum can be advanced; a hint. */
bool bgi_sum_is_wanted(const bgi_runner *runner);
/* Called by the owner: returns whether the sum is done. If it is not, advances the sum or, when another thread does so,
 * notes what the device waits for. */
bool bgi_sum_reached(bgi_runner *runner, const bgi_worker *worker);

/* Called between kernel calls if engine->sees_to_sums: receives parts of sums from other ranks, and continues sums that
 * wait for them. Returns false when nothing is in progress, or when the last check was a moment ago. */
bool bgi_sum_look(bgi_runner *runner, const bgi_worker *worker);
/* Returns the exchange, without addresses, of a group of this size for a variable of REDUCE or GATHER, or for a call.
 */
bgi_exchange bgi_collective_exchange(const bgi_instruction *instruction, uint32_t index, uint32_t size);
bgi_pattern bgi_collective_pattern(const bgi_call *call);

/* ---- stream.c ---- */

void bgi_stream_in(bgi_runner *runner, const bgi_instruction *instruction);
void bgi_stream_out(bgi_runner *runner, const bgi_instruction *instruction);
/* Returns whether outfeeds have free rows for the values of the HOST_OUT or UPDATE; otherwise notes the counter that
 * the device waits for. */
bool bgi_stream_has_room(bgi_runner *runner, const bgi_instruction *instruction);
/* Return the number of micro-batches of a run that the caller passes for each input, or receives for an output. */
uint64_t bgi_stream_input_count(const bg_plan *plan);
uint64_t bgi_stream_output_count(const bg_plan *plan, const bgi_plan_output *output);

/* ---- report.c ---- */

/* Fills the error with the device that blocks the run. */
bg_status bgi_report_stuck(bgi_engine *engine, double waited_s, bg_error *error);

/* ---- trace.c ---- */

bg_status bgi_trace_init(bgi_trace_ring *ring, uint32_t capacity, bg_error *error);
void bgi_trace_clear(bgi_trace_ring *ring);
bg_status bgi_call_times_init(bgi_call_times *times, const bgi_plan_device *program, bg_error *error);
void bgi_call_times_clear(bgi_call_times *times);
void bgi_call_times_add(bgi_call_times *times, uint32_t instruction, uint32_t call, uint64_t ns);
/* Adds an event and its time. */
void bgi_trace_put(bgi_trace_ring *ring, const bg_trace_event *event);
/* Records that a worker ran parts of the device's calls. */
void bgi_trace_add_help(bgi_worker *worker, const bgi_runner *runner, uint64_t start_ns);
/* Called between runs: clears the records and starts or stops recording. */
void bgi_trace_switch(bgi_engine *engine, bool on);
/* Records the end of a run. */
void bgi_trace_add_run(bgi_engine *engine, uint64_t start_ns, uint64_t steps);
/* Records an event of the device's current instruction that ends now; returns the current time. */
uint64_t bgi_trace_add(bgi_runner *runner, const bgi_worker *worker, bg_action_kind kind, uint64_t start_ns);
/* Records an event that has ended earlier. */
void bgi_trace_add_span(bgi_runner *runner, const bgi_worker *worker, bg_action_kind kind, uint64_t start_ns,
                        uint64_t end_ns);
static inline bool bgi_trace_is_on(const bgi_runner *runner)
{
    return atomic_load_explicit(&runner->is_traced, memory_order_relaxed);
}
/* Returns whether calls are timed, and the bytes that they touch counted, in this step: in the first 16 and in every
 * eighth later one. */
static inline bool bgi_trace_samples(uint64_t step)
{
    return step < 16 || step % 8 == 0;
}

#endif
