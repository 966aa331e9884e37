/*
 * engine.h: runs a plan: replicas x devices on worker threads. Knows plans; knows no graphs, weights or files.
 *
 * Devices and workers. A virtual device is memory and a straight program; only its order matters, not which thread runs
 * it. A worker owns at most one device at a time. It takes a device that can go on, advances it instruction by
 * instruction until the next one must wait, parks it, and takes another.
 *
 *     worker --take--> device --advance--> ... --must wait--> park --> look again --> take another | help | sleep
 *
 * Of several devices it takes the one that is least advanced in its program, and of equals the last one, which is
 * nearest the end of the pipeline and frees the most. It leaves a device that could go on, when there are fewer workers
 * than devices and another one that is ready has fallen behind by more than half a micro-batch. Keeping a device as
 * long as it can go on lets the devices drift apart until the last workers starve: on 4 devices and 3 workers, 1F1B
 * with B = 2 F, that keeps workers busy 88% of the time, this 99% (with 2 workers both do, within 1%).
 *
 * Waiting has one form. Whatever a device waits for is a counter that only grows, and a number it must reach:
 *
 *     RECEIVE          produced  of the channel      >  the message's sequence number
 *     a free slot      consumed  of the channel      >= sequence number + 1 - depth
 *     REDUCE, GATHER   arrivals  of the barrier      >= members x (how many meetings this one is)
 *     a collective     arrivals  of the barrier      likewise
 *     the next step    granted   of the gate         >= steps this device has done + 1
 *     a row's place    taken     of the outfeed      >= row + 1 - capacity
 *     a transfer       io_done   of the device       >= the number of that transfer (also at the end of a run: all)
 *     a piece          io_done   of the other replicas of the device, likewise
 *     the next run     runs      of the engine       >= runs this device has done + 1
 *
 * so a parked device is a pair (counter, target), and anyone can see whether it can go on without owning it. The pair
 * is a hint only: whoever takes the device looks again.
 *
 * No wake-up is lost. A parker writes the pair, gives ownership up, and looks at the counter once more; whoever raises
 * a counter then looks whether the device that may wait for it is unowned and ready, and wakes a sleeper if so.
 * Sleepers announce themselves before their last look (core/threads.h). These stores and looks are sequentially
 * consistent, hence of any two that could miss each other one sees the other. A raised counter costs no system call
 * while nobody sleeps, and wakes nobody when its device is running or waits for something else.
 *
 * Channels and credits. An edge between devices is a ring of `depth` slots in the receiver's memory and two counters.
 * The producer writes straight into slot (sequence number % depth) after it has seen that the slot is free, SEND raises
 * `produced`, the last reader raises `consumed`: flow control by credits, without locks or copies. Sequence numbers
 * count over the life of the engine, so nothing is reset between steps or runs.
 *
 * A message leaves as soon as it is written, which may be in the middle of an action: the gradient for the stage before
 * does not wait for the gradients of weights behind it. The plan says after which call; the SEND that comes in its turn
 * then has nothing left to do.
 *
 * Helping. A kernel call is cut into parts by its shapes. Where there is more than one worker the owner of a call
 * publishes its parts in the device's ticket, one 64-bit word: (generation, end, beginning of the parts left); always,
 * because one who becomes idle in the middle of a part would otherwise wait until the owner comes to the next. A part
 * is claimed by a compare-and-swap: by the owner from the beginning, by helpers from the end, so that in one call after
 * the other the same part of the data tends to stay with the same core. A helper that read an old ticket fails, because
 * the generation has moved on; one that succeeds knows that the call cannot end without its part, so what it reads
 * about the call is stable. Scratch that only a part that runs needs is told apart by runners: the owner is runner 0, a
 * helper has the number of the first part it claimed of the call. That is part 0 only when the owner claims none. The
 * owner runs `prepare`, claims parts like everyone, waits for those that others took, does the same with the parts of
 * `combine`, and runs `finish`. A helper looks after each part whether there is a device that it can take, and leaves
 * for it. With nobody idle all this is one compare-and-swap a part, on a line that is the owner's alone; with one
 * worker it is nothing. Who runs a part never changes a bit: parts write disjoint memory, sums over parts are made by
 * `combine` and `finish` in part order.
 *
 * Loads and stores. Remote memory comes and goes by transfers, which the plan lists for each device in the order of its
 * program. LOAD and STORE (and loads and stores of optimiser state inside an update) only raise `io_issued`; the
 * copying is done beside the program, in order, by whoever holds the device's queue: an I/O thread, a worker without
 * anything better to do, or the worker whose device waits for a transfer that nobody has begun. `io_done` says how far
 * it is. The plan knows which transfers each instruction and each call of an update needs to be done
 * (plan/transfers.c).
 *
 *     device   LOAD 1 --- F0 F0 F0 --- LOAD 2 --- wait for 1 --- F1 F1 F1 ---
 *     queue      ==== 1 ====             ======= 2 =======
 *
 * A queue is held by a flag that is taken or left alone, never waited for. The holder looks again after letting go, the
 * issuer wakes a sleeper after raising `io_issued`, and a device that must wait does the transfers itself if the queue
 * is free; so no transfer is forgotten, with any number of I/O threads and with none.
 *
 * Of sharded weights each replica's store has a piece. LOAD copies all pieces into the window, STORE takes the own one
 * away: the next load gathers what the others have updated. A load must see the stores that come before it in the
 * program, of all replicas, and a store must leave alone what one of them has yet to load. So such a transfer waits for
 * `io_done` of the other replicas' queues; while it does its queue counts as having nothing to do.
 *
 * Reductions over replicas meet at a barrier (parked, not blocked: one worker can run any number of replicas). Replica
 * r then adds its r-th slice over replicas 0, 1, 2, ... in this order and writes the sum into every replica's copy; a
 * second barrier ends it. Each element is thus summed once, in one order, wherever and whenever that happens. When the
 * replicas update a piece each, replica r adds up its r-th piece, in the same order, for itself alone; after the update
 * GATHER, between two such barriers, lets each replica copy the others' pieces of the new weights.
 *
 * Replicas of a mesh (brigade/mesh.h) are in a group along each set of its axes, and each device has a barrier for each
 * group. Gradients, weights and pieces of them meet along the data axis. Collectives of the model are calls inside a
 * forward or a backward, along tensor axes: the device arrives, is parked and goes on with the same call when its group
 * has met, twice, as above. All replicas run one program, so the members of a group come to the same meetings in the
 * same order, and what cannot deadlock for one replica cannot for all.
 *
 * Failure. The thread in bgi_engine_run wakes now and then and looks whether any device made progress. If none did for
 * the limit, or a device failed, the engine is dead: workers leave, the run reports the device at fault. A worker that
 * does not come back from a kernel cannot be ended; it is detached at destroy, and the engine's memory stays until that
 * kernel returns (the last such worker frees it). The plan's memory is the caller's: keep it until then.
 */
#ifndef BGI_RUNTIME_ENGINE_H
#define BGI_RUNTIME_ENGINE_H

#include <brigade/session.h>

#include "core/threads.h"
#include "plan/plan.h"
#include "runtime/feed.h"

#define BGI_NO_CALL UINT32_MAX
#define BGI_NO_CPU  UINT32_MAX

/* One (replica, edge); used when the edge joins two devices. */
typedef struct bgi_channel {
    bgi_counter produced, consumed; /* messages */
    uint64_t sent_ns;               /* the sender's, while tracing: when the last message left */
} bgi_channel;

/* One plan device, axes and group of replicas along them: the device meets that of the other members here. */
typedef struct bgi_barrier {
    bgi_counter arrived, finished;
} bgi_barrier;

typedef struct bgi_trace_ring {
    bg_trace_event *events; /* NULL: not tracing */
    uint32_t capacity;
    uint64_t count; /* ever recorded; event i is at i % capacity */
} bgi_trace_ring;

typedef struct bgi_worker bgi_worker;
typedef struct bgi_memmap bgi_memmap;

enum { BGI_FAILURE_BYTES = 320 };

/* One (replica, device). */
struct bgi_device {
    /* Read by all who look for work. The pair is written by the owner before it gives ownership up. */
    _Alignas(BGI_CACHE_LINE_BYTES) atomic_bool is_owned;
    _Atomic(bgi_counter *) wait_counter;
    _Atomic uint64_t wait_target; /* 0: for nothing */
    _Atomic uint64_t position;    /* steps << 32 | share of the program that is done x 2^32 */

    /* Helping. */
    _Alignas(BGI_CACHE_LINE_BYTES) _Atomic uint64_t ticket; /* generation, beginning, end of the parts left */
    _Alignas(BGI_CACHE_LINE_BYTES) _Atomic uint32_t helped; /* parts that helpers have done */

    /* Transfers. Issued by the owner, done by the holder. */
    bgi_counter io_issued, io_done; /* over the life of the engine */
    _Alignas(BGI_CACHE_LINE_BYTES) atomic_bool io_is_held;
    size_t io_touched_bytes; /* the holder's, while tracing */
    bgi_trace_ring io_trace; /* the holder's */

    /* Written by the owner, read at leisure by the watching thread. */
    _Alignas(BGI_CACHE_LINE_BYTES) _Atomic uint64_t progress; /* instructions, calls and parts done */
    _Atomic uint32_t instruction;                             /* of the program: the one at work or waiting */
    _Atomic uint32_t call;                                    /* of the instruction: running; or BGI_NO_CALL */
    _Atomic uint64_t iteration;                               /* steps over the life of the engine */

    /* The owner's; handed on with ownership. Helpers read some of it between parts: not on the line in which the owner
     * counts its own. */
    _Alignas(BGI_CACHE_LINE_BYTES) bgi_engine *engine;
    const bg_plan *plan;
    const bgi_plan_device *program;
    uint64_t instruction_share; /* 2^32 / instructions */
    uint32_t replica, number;   /* number: of the device within the replica */
    void **arenas, **remotes;   /* of all devices of the replica */
    bgi_channel *channels;      /* of the replica */
    bool is_between_runs;
    uint64_t run_count;                 /* runs done */
    uint64_t run_begin;                 /* iteration of its first step; steady while transfers are under way */
    uint64_t run_iteration;             /* steps done in this run */
    uint32_t micro_batch;               /* of the current instruction */
    uint32_t phase;                     /* of REDUCE, GATHER and a collective call */
    uint32_t next_call;                 /* of an instruction that waits between its calls; else 0 */
    uint64_t meetings[BG_MESH_ALL + 1]; /* done, by axes of the groups */
    size_t touched_bytes;               /* of the arena; by operands only while tracing */
    bgi_trace_ring trace;
    bg_status failure_status;
    char failure[BGI_FAILURE_BYTES];

    /* The call that runs; read by helpers that hold a part of it. */
    bg_kernel_call kernel_call;
    bg_kernel_env env;
    bg_kernel_function run_part;
    uint32_t part_count;
    void **operands; /* room for the widest call */
};

struct bgi_worker {
    bgi_engine *engine;
    pthread_t thread;
    uint32_t number;
    uint32_t cpu;    /* the system's number; BGI_NO_CPU: not bound */
    bool does_io;    /* nothing but transfers */
    bool has_exited; /* under the engine's mutex */
};

struct bgi_engine {
    const bg_plan *plan;
    uint64_t created_ns;
    uint32_t device_count; /* of all replicas */
    bgi_device *devices;   /* [replica][device] */
    bgi_channel *channels; /* [replica][edge] */
    bgi_barrier *barriers; /* [device][axes][group]; see bgi_engine_barrier */
    void **arenas;         /* [replica][device] */
    void **remotes;        /* [replica][device]; NULL where there is none */
    bgi_memmap *memmap;    /* the files that they are in; NULL: in memory */
    float **sums;          /* [output][replica]: of outputs in 16 bits that are summed; else NULL */
    uint32_t sum_count;
    void **operands; /* of all devices */

    /* The run. */
    bgi_run given;      /* the run's own copy: a worker inside a kernel that never returns outlives the caller's */
    const bgi_run *run; /* that copy */
    bgi_gate gate;
    atomic_bool has_spare;    /* the run has something for the idle */
    bgi_counter spare_count;  /* workers that are about it, or look whether there is any */
    bgi_counter runs;         /* begun */
    bgi_counter devices_left; /* not done with the run; counts down */
    atomic_bool is_stopping;  /* workers leave */
    atomic_bool has_failed;   /* a device has recorded a failure */
    bool is_dead;             /* after a failure or timeout */
    pthread_mutex_t mutex;    /* guards what follows, and sleeping until the run is done */
    pthread_cond_t changed;   /* run done, failure, worker exit */
    uint32_t exited_count;    /* workers */
    uint32_t orphan_count;    /* detached workers that will come back some day */
    bool is_orphaned;

    /* Idleness. */
    _Alignas(BGI_CACHE_LINE_BYTES) bgi_event_count events, io_events; /* of workers; of I/O threads */
    uint64_t spin_ns;                                                 /* how long a worker looks before it sleeps */
    bool has_helpers;                                                 /* there is more than one worker */

    bgi_worker *workers;
    uint32_t worker_count; /* I/O threads included; they come last */
    uint64_t tolerance;    /* how far behind another device may be before a worker changes to it; UINT64_MAX: any */
};

/* ---- groups of replicas ---- */

static inline bg_mesh bgi_device_place(const bgi_device *device)
{
    const bg_mesh mesh = bgi_plan_mesh(device->plan);

    return bg_mesh_coordinates(&mesh, device->replica);
}

/* Where the members of the replica's group along the axes meet. */
static inline bgi_barrier *bgi_engine_barrier(const bgi_engine *engine, uint32_t device, uint32_t axes,
                                              uint32_t replica)
{
    const bg_mesh mesh = bgi_plan_mesh(engine->plan);

    return &engine->barriers[((size_t)device * (BG_MESH_ALL + 1) + axes) * engine->plan->replicas +
                             bg_mesh_group_index(&mesh, axes, replica)];
}

/* Replicas that have pieces of one variable: those that differ from this one in their data coordinate only; this one is
 * at its place among them. */
static inline uint32_t bgi_group_size(const bgi_device *device)
{
    return bgi_plan_data_replicas(device->plan);
}
static inline uint32_t bgi_group_place(const bgi_device *device)
{
    return bgi_device_place(device).data;
}
/* The same device of a member of the replica's group along the axes. */
static inline bgi_device *bgi_group_member(const bgi_device *device, uint32_t axes, uint32_t member)
{
    const bg_mesh mesh = bgi_plan_mesh(device->plan);
    const uint32_t replica = bg_mesh_group_at(&mesh, axes, device->replica, member);

    return &device->engine->devices[(size_t)replica * device->plan->device_count + device->number];
}

/* ---- engine.c ---- */

/* Checks the plan, takes memory, opens files, uploads constants, starts the workers. */
bg_status bgi_engine_create(const bg_plan *plan, bgi_engine **out, bg_error *error);
void bgi_engine_destroy(bgi_engine *engine);
/* One run of the plan; *out_iterations: how many steps were done. After a failure the engine is dead. */
bg_status bgi_engine_run(bgi_engine *engine, const bgi_run *run, uint64_t *out_iterations, bg_error *error);
/* Address of a fixed place (no edge). Between runs only. */
void *bgi_engine_address(const bgi_engine *engine, uint32_t replica, const bgi_operand *operand);
/* Copies `data` there. Between runs only. */
void bgi_engine_write(bgi_engine *engine, uint32_t replica, const bgi_operand *operand, const void *data,
                      size_t size_bytes);
/* Frees an engine whose workers are gone. */
void bgi_engine_free(bgi_engine *engine);

/* ---- worker.c ---- */

bg_status bgi_workers_start(bgi_engine *engine, bg_error *error);
/* The ready device that is least advanced; a hint. NULL when none is ready. */
bgi_device *bgi_workers_find_device(const bgi_engine *engine);
/* Tells all to leave and waits for them, at most `limit_ns` (UINT64_MAX: as long as it takes); true when all left. */
bool bgi_workers_stop(bgi_engine *engine, uint64_t limit_ns);

/* ---- device.c ---- */

/* Advances an owned device until it must wait (the pair says for what), the engine stops, or another device should be
 * run first: true then. */
bool bgi_device_advance(bgi_device *device, const bgi_worker *worker);
/* Ends the engine for a reason. For the owner. */
void bgi_device_fail(bgi_device *device, bg_status status, const char *format, ...) BG_PRINTF(3, 4);
/* Where an operand is now. */
void *bgi_device_address(bgi_device *device, const bgi_operand *operand, size_t size_bytes);
/* Whether the device has nothing to wait for; notes what it waits for when it has. For the owner. */
bool bgi_device_reached(bgi_device *device, bgi_counter *counter, uint64_t target);
/* Raises a counter that `waiting` may wait for and sees to it that someone goes on with it. */
void bgi_counter_raise(bgi_counter *counter, uint64_t value, bgi_device *waiting);

/* For the owner. Release: the watching thread that gives up on a kernel has seen all that came before it, such as the
 * reading of the caller's inputs. */
static inline void bgi_device_add_progress(bgi_device *device)
{
    const uint64_t progress = atomic_load_explicit(&device->progress, memory_order_relaxed);

    atomic_store_explicit(&device->progress, progress + 1, memory_order_release);
}

/* A parked device that can go on; a hint. */
static inline bool bgi_device_is_ready(bgi_device *device)
{
    return !atomic_load(&device->is_owned) &&
           atomic_load(&atomic_load(&device->wait_counter)->value) >= atomic_load(&device->wait_target);
}

/* ---- io.c ---- */

/* `until` of an I/O thread, and of a worker that would do something else if there were anything. */
#define BGI_IO_ALL        (UINT64_MAX - 1)
#define BGI_IO_WHILE_IDLE UINT64_MAX

/* Does issued transfers in order until `until` of them are done in all, when nobody else holds the queue; true when it
 * did any. */
bool bgi_io_run(bgi_device *device, const bgi_worker *worker, uint64_t until);
/* There are transfers that nobody does; a hint. */
bool bgi_io_is_wanted(bgi_device *device);
/* The same device of another replica, which the next transfer of the queue waits for; NULL: none. */
const bgi_device *bgi_io_late_peer(const bgi_device *device);
/* For the owner: the next `count` transfers may run. */
void bgi_io_issue(bgi_device *device, uint32_t count);
/* For the owner: whether so many are done. Does them if nobody else does; notes what it waits for if not. */
bool bgi_io_reached(bgi_device *device, const bgi_worker *worker, uint64_t target);

/* ---- share.c ---- */

/* Runs all parts of the device's call, with help when somebody is idle. `is_long`: worth waking a sleeper for. */
void bgi_parts_run(bgi_device *device, bool is_long);
/* Runs parts of the device's call, if it has published any, until none is left or a device is ready; the number done.
 */
uint32_t bgi_parts_help(bgi_device *device);
bool bgi_parts_wanted(bgi_device *device);

/* ---- collective.c ---- */

/* One REDUCE or GATHER as far as it goes; true when it is done. */
bool bgi_collective_advance(bgi_device *device, const bgi_instruction *instruction, const bgi_worker *worker);
/* The same for a collective among an instruction's calls. */
bool bgi_collective_call(bgi_device *device, const bgi_call *call, const bgi_worker *worker);

/* ---- stream.c ---- */

void bgi_stream_in(bgi_device *device, const bgi_instruction *instruction);
void bgi_stream_out(bgi_device *device, const bgi_instruction *instruction);
/* Whether outfeeds have room for what the HOST_OUT or U brings; notes what the device waits for. */
bool bgi_stream_has_room(bgi_device *device, const bgi_instruction *instruction);
/* Micro-batches of a run that the caller gives for each input, and gets of an output. */
uint64_t bgi_stream_input_count(const bg_plan *plan);
uint64_t bgi_stream_output_count(const bg_plan *plan, const bgi_plan_output *output);

/* ---- report.c ---- */

/* Fills the error with the device that keeps the run from going on. */
bg_status bgi_report_stuck(bgi_engine *engine, double waited_s, bg_error *error);

/* ---- trace.c ---- */

bg_status bgi_trace_init(bgi_trace_ring *ring, uint32_t capacity, bg_error *error);
void bgi_trace_clear(bgi_trace_ring *ring);
/* Records an event of the device's current instruction that ends now; returns now. */
uint64_t bgi_trace_add(bgi_device *device, const bgi_worker *worker, bg_action_kind kind, uint64_t start_ns);
/* The same of an event that has ended before. */
void bgi_trace_add_span(bgi_device *device, const bgi_worker *worker, bg_action_kind kind, uint64_t start_ns,
                        uint64_t end_ns);
static inline bool bgi_trace_is_on(const bgi_device *device)
{
    return device->trace.events != NULL;
}

#endif
