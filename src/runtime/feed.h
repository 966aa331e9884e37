/*
 * feed.h: declares the engine's side of the queues between the host and the devices, and the gate that lets iterations
 * begin.
 *
 * Infeed. An infeed is a ring of elements that one thread fills and devices read. It holds the elements of one whole
 * iteration, and prefetch_depth more for each group of replicas that read the same elements. An iteration begins when
 * all its elements are in the ring. So iteration i needs no later element, and it is known whether a run ends at i
 * before any device begins it.
 *
 *       freed            filled                     an element has as many readers as there are HOST_IN that copy
 *     ----|=================|-----------> element    something of it, in all replicas; the last one frees it
 *
 * With several ranks each rank has its own infeed over the same elements, which keeps the elements that its devices
 * read and skips the others. Each rank also has its own outfeeds, whose rows hold the values that its devices make.
 *
 * Outfeed. An outfeed is a ring of rows. Devices write the leaves of a row, replica by replica and stage by stage; the
 * last writer completes the row. Rows become complete in order. A bounded ring holds the rows of a step and
 * buffer_depth - 1 further rows. So the rows of a step wait only until the consumer takes rows of earlier steps.
 *
 *       taken          complete         being written
 *     ----|================|================|-----> row      device waits until taken >= row + 1 - capacity
 *
 * Gate. An iteration begins when its conditions are known: the limit, the infeed, the value that stops the run or keeps
 * a while loop running, and a request to stop. The gate is on the host. A device asks at the beginning of each step,
 * and the transport's notes grant it iterations. The gate decides the same for all devices, so every device does the
 * same iterations. With several ranks, rank 0 has the gate. The other ranks forward the requests and votes of their
 * devices and report the progress of their infeeds. Rank 0 grants iterations ahead of time, unless a value decides
 * about each of them.
 *
 * Locks are taken in this order: a queue's lock, then the gate's. No lock is held while a kernel or a source runs.
 */
#ifndef BGI_RUNTIME_FEED_H
#define BGI_RUNTIME_FEED_H

#include <brigade/feed.h>

#include "core/arena.h"
#include "core/threads.h"
#include "plan/plan.h"

typedef struct bgi_engine bgi_engine;
typedef struct bgi_runner bgi_runner;

/* ---- gate.c ---- */

typedef struct bgi_gate {
    pthread_mutex_t mutex;
    /* The mutex protects the following fields. */
    uint64_t end;      /* the number of iterations of this run; UINT64_MAX: not known yet */
    uint64_t begun_at; /* the number of iterations of earlier runs */
    uint64_t next;     /* the number of iterations granted in this run */
    uint64_t asked;    /* the number of iterations that a device has reached */
    uint64_t voted;    /* the number of iterations after which all replicas have voted */
    uint32_t votes;    /* the number of votes for the following iteration */
    bool wants_end;    /* a replica voted to end */
    bool is_on;        /* a run is in progress */
    /* The number of iterations of the run whose data are in the ring, and the iteration at which the data end. On rank
     * 0 there is an entry for each rank; on another rank, entry 0 has the numbers that this rank last reported to rank
     * 0. NULL: one process. */
    uint64_t *ready, *ends;
} bgi_gate;

typedef enum bgi_pass { BGI_PASS_GO, BGI_PASS_WAIT, BGI_PASS_OVER } bgi_pass;

/* Called between runs: begins the run in engine->run. */
void bgi_gate_begin(bgi_engine *engine);
void bgi_gate_end(bgi_engine *engine);
/* Re-evaluates the gate, because a condition may have changed. */
void bgi_gate_look(bgi_engine *engine);
void bgi_gate_stop(bgi_engine *engine);
/* Requests an iteration, counted over all runs, that a device has reached. Late requests of an earlier run are ignored.
 */
void bgi_gate_ask(bgi_engine *engine, uint64_t iteration);
/* Records the progress of another rank's infeed; called on rank 0. */
void bgi_gate_ready(bgi_engine *engine, uint32_t rank, uint64_t ready, uint64_t end);
/* Records, on ranks other than 0, the iteration at which rank 0 ends the run (UINT64_MAX: not known yet). */
void bgi_gate_granted(bgi_engine *engine, uint64_t end);
/* Counts a replica's vote after an iteration. */
void bgi_gate_vote(bgi_engine *engine, uint64_t iteration, bool goes_on);
/* Called by the owner at the beginning of a step: returns whether the step begins, must wait or is not part of the run.
 * If the device must wait, notes the counter that it waits for. */
bgi_pass bgi_gate_pass(bgi_runner *runner);

/* ---- infeed.c ---- */

/* Returns the number of elements of one iteration. */
static inline uint64_t bgi_infeed_elements(const bg_plan *plan)
{
    return (uint64_t)plan->micro_batches * bgi_plan_input_rows(plan);
}
/* Return the number of filled elements, and the number of elements of the data (UINT64_MAX: the data have not ended).
 */
uint64_t bgi_infeed_filled(const bg_infeed *infeed);
uint64_t bgi_infeed_end(const bg_infeed *infeed);
/* Returns the first element of the run in progress. */
uint64_t bgi_infeed_first(const bg_infeed *infeed);
/* Starts the infeed's thread; `engine` determines which devices are on this rank. */
bg_status bgi_infeed_start(bg_infeed *infeed, const bgi_engine *engine, bg_error *error);
bg_status bgi_infeed_check(const bg_infeed *infeed, const bg_plan *plan, bg_error *error);
void bgi_infeed_attach(bg_infeed *infeed, bgi_engine *engine);
void bgi_infeed_detach(bg_infeed *infeed, uint64_t used_count);
/* Reports why the data ended. */
bg_status bgi_infeed_report(bg_infeed *infeed, uint64_t iterations, bg_error *error);
bool bgi_infeed_feeds(const bg_infeed *infeed, uint32_t input);
/* Return the tensor of element `number` of the run for an input, and release the element for one reader. */
const void *bgi_infeed_tensor(const bg_infeed *infeed, uint64_t number, uint32_t input);
void bgi_infeed_release(bg_infeed *infeed, uint64_t number);

/* ---- outfeed.c, outfeed_structure.c ---- */

typedef struct bgi_leaf {
    const char *path, *output;
    uint32_t stream;    /* output of the plan */
    bg_type value_type; /* type of one replica's value in a row */
    bg_dtype from_dtype;
    bool is_per_update;
    size_t value_bytes, row_bytes;
    unsigned char *rows; /* [capacity][replica] */
    unsigned char *last; /* if newest_only: the newest complete row */
} bgi_leaf;

struct bg_outfeed {
    bg_outfeed_options options;
    bgi_arena arena;
    uint32_t leaf_count;
    bgi_leaf *leaves;
    const char *structure;
    _Atomic uint32_t references; /* held by the consumer and the session */
    atomic_bool is_abandoned;
    bgi_counter taken; /* the number of taken rows; devices that need a free row wait for it */

    /* These change only between runs, except the entries of `written`. */
    const bg_plan *plan; /* NULL: not attached */
    uint32_t rows_per_step;
    uint32_t writes_per_row; /* the number of writes of this rank's devices to a row: leaves times replicas */
    uint64_t capacity;
    uint64_t first_row;        /* the first row of the run */
    _Atomic uint32_t *written; /* by slot: the number of writes to the row so far */
    bg_outfeed *next;          /* the next outfeed of the session */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* The mutex protects the following fields. */
    uint64_t complete;  /* the number of complete rows */
    uint64_t shown;     /* if newest_only: the number of complete rows when the consumer last took one */
    bgi_engine *engine; /* during a run */
    bool is_closed;     /* the session has ended */
    bg_error error;     /* the error of the run that failed */
};

bg_status bgi_outfeed_attach(bg_outfeed *outfeed, const bgi_engine *engine, bg_error *error);
bg_status bgi_outfeed_parse(bg_outfeed *outfeed, const char *text, bg_error *error);
/* Begin and end a run of at most `iterations`; `status` and `message` say how the run ended. */
bg_status bgi_outfeed_begin(bg_outfeed *outfeed, bgi_engine *engine, uint64_t iterations, bg_error *error);
void bgi_outfeed_end(bg_outfeed *outfeed, bg_status status, const char *message);
/* Detaches the outfeed from the session. */
void bgi_outfeed_close(bg_outfeed *outfeed);
/* Called by the device's owner: returns whether the row of the device's micro-batch can be written; otherwise notes the
 * counter that the device waits for. */
bool bgi_outfeed_has_room(bgi_runner *runner, bg_outfeed *outfeed);
void bgi_outfeed_write(bgi_runner *runner, bg_outfeed *outfeed, uint32_t leaf, const void *from);

/* ---- a run, as it is passed to the engine ---- */

#define BGI_NO_OUTPUT UINT32_MAX

typedef struct bgi_run {
    const void *const *inputs;
    const bool *constants; /* or NULL */
    void *const *outputs;
    bg_infeed *infeed;
    bg_outfeed *outfeeds;      /* the first in a list */
    bool (*spare)(void *user); /* or NULL */
    void *spare_user;
    uint64_t step, optimizer_step;
    uint64_t limit;            /* the largest number of iterations */
    uint32_t stop_output;      /* the run ends when this output is above 0; or BGI_NO_OUTPUT */
    uint32_t condition_output; /* the run ends when this output is not above 0; or BGI_NO_OUTPUT */
    bool is_synthetic;
    const double
        *scalars;    /* by iteration: the value of one of the optimizer's numbers, such as the learning rate; or NULL */
    uint32_t scalar; /* the number's index in plan->hyper_variable */
} bgi_run;

/* Returns the caller's array for an output, or NULL. A loop's condition has none, because the list of arrays ends
 * before it. */
static inline void *bgi_run_array(const bgi_run *run, uint32_t output)
{
    return run->outputs == NULL || run->is_synthetic || output == run->condition_output ? NULL : run->outputs[output];
}

/* Returns the number of outputs that vote after each iteration, on each replica. */
static inline uint32_t bgi_run_voters(const bgi_run *run)
{
    return (run->stop_output != BGI_NO_OUTPUT) + (run->condition_output != BGI_NO_OUTPUT);
}

#endif
