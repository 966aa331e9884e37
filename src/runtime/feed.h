/*
 * feed.h: queues between the host and the devices, as the engine sees them, and the gate that lets iterations begin.
 *
 * Infeed. A ring of elements; one thread fills it, devices read. It holds the elements of one whole iteration and
 * prefetch_depth more for each group of replicas that read the same, and an iteration begins when all its elements are
 * there: so iteration i needs nothing that comes after it, and whether a run ends at i is known before any device has
 * begun it.
 *
 *       freed            filled                     an element has as many readers as there are HOST_IN that copy
 *     ----|=================|-----------> element    something of it, in all replicas; the last one frees it
 *
 * Of several ranks each has an infeed of its own, of the same elements, which takes those that its devices read and
 * passes over the others; and outfeeds of its own, whose rows have what its devices make.
 *
 * Outfeed. A ring of rows; devices write leaves of a row, replica by replica and stage by stage; the last writer
 * completes it. Rows are complete in order. A bounded ring has room for the rows of a step less one, and buffer_depth:
 * a step's rows wait for rows of earlier steps only, so a consumer that goes on is all it takes.
 *
 *       taken          complete         being written
 *     ----|================|================|-----> row      device waits until taken >= row + 1 - capacity
 *
 * Gate. Iterations begin when everything that has a say about them is known: the limit, the infeed, the value that
 * stops the run or keeps a while loop going, a request to stop. The gate is the host's: a device asks at the beginning
 * of each step and is granted iterations, by notes of the transport. The answer is one for all devices, hence every
 * device does the same iterations. Of several ranks rank 0 has the gate; the others pass on what their devices ask and
 * vote and say how far their infeeds are, and where no value has a say iterations are granted some time ahead.
 *
 * Locks: a queue's own, then the gate's. Nobody holds one while a kernel or a source runs.
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
    /* Under the mutex. */
    uint64_t end;      /* iterations of this run; UINT64_MAX: not known yet */
    uint64_t begun_at; /* iterations of earlier runs */
    uint64_t next;     /* iterations granted in this run */
    uint64_t asked;    /* iterations that a device has come to */
    uint64_t voted;    /* iterations after which all replicas have said whether to go on */
    uint32_t votes;    /* of the one after those */
    bool wants_end;    /* somebody said no */
    bool is_on;        /* a run is in progress */
    /* Iterations of the run that have their data, and where data end; of rank 0 by rank, else only the own ones, as
     * rank 0 was told. NULL: one process. */
    uint64_t *ready, *ends;
} bgi_gate;

typedef enum bgi_pass { BGI_PASS_GO, BGI_PASS_WAIT, BGI_PASS_OVER } bgi_pass;

/* Between runs: the run in engine->run begins. */
void bgi_gate_begin(bgi_engine *engine);
void bgi_gate_end(bgi_engine *engine);
/* Something that the gate depends on may have changed. */
void bgi_gate_look(bgi_engine *engine);
void bgi_gate_stop(bgi_engine *engine);
/* A device has come to an iteration, counted over all runs. What comes late, of an earlier run, is ignored. */
void bgi_gate_ask(bgi_engine *engine, uint64_t iteration);
/* What rank 0 hears of another rank's infeed. */
void bgi_gate_ready(bgi_engine *engine, uint32_t rank, uint64_t ready, uint64_t end);
/* Rank 0 has said where the run ends (UINT64_MAX: not yet). */
void bgi_gate_granted(bgi_engine *engine, uint64_t end);
/* A replica's word after an iteration. */
void bgi_gate_vote(bgi_engine *engine, uint64_t iteration, bool goes_on);
/* For the owner, at the beginning of a step; notes what the device waits for. */
bgi_pass bgi_gate_pass(bgi_runner *runner);

/* ---- infeed.c ---- */

/* Elements of one iteration. */
static inline uint64_t bgi_infeed_elements(const bg_plan *plan)
{
    return (uint64_t)plan->micro_batches * bgi_plan_input_rows(plan);
}
/* Elements there, and where the data ended (UINT64_MAX: not yet). */
uint64_t bgi_infeed_filled(const bg_infeed *infeed);
uint64_t bgi_infeed_end(const bg_infeed *infeed);
/* The first element of the run in progress. */
uint64_t bgi_infeed_first(const bg_infeed *infeed);
/* `engine` says which devices are here. */
bg_status bgi_infeed_start(bg_infeed *infeed, const bgi_engine *engine, bg_error *error);
bg_status bgi_infeed_check(const bg_infeed *infeed, const bg_plan *plan, bg_error *error);
void bgi_infeed_attach(bg_infeed *infeed, bgi_engine *engine);
void bgi_infeed_detach(bg_infeed *infeed, uint64_t used_count);
/* Why the data ended. */
bg_status bgi_infeed_report(bg_infeed *infeed, uint64_t iterations, bg_error *error);
bool bgi_infeed_feeds(const bg_infeed *infeed, uint32_t input);
/* Element `number` of the run: the tensor for an input; and that one reader needs it no more. */
const void *bgi_infeed_tensor(const bg_infeed *infeed, uint64_t number, uint32_t input);
void bgi_infeed_release(bg_infeed *infeed, uint64_t number);

/* ---- outfeed.c, outfeed_structure.c ---- */

typedef struct bgi_leaf {
    const char *path, *output;
    uint32_t stream;    /* output of the plan */
    bg_type value_type; /* in the row, of one replica */
    bg_dtype from_dtype;
    bool is_per_update;
    size_t value_bytes, row_bytes;
    unsigned char *rows; /* [capacity][replica] */
    unsigned char *last; /* LAST: the newest complete row */
} bgi_leaf;

struct bg_outfeed {
    bg_outfeed_options options;
    bgi_arena arena;
    uint32_t leaf_count;
    bgi_leaf *leaves;
    const char *structure;
    _Atomic uint32_t references; /* the consumer's and the session's */
    atomic_bool is_abandoned;
    bgi_counter taken; /* rows; what devices wait for */

    /* Between runs only, but the elements of `written`. */
    const bg_plan *plan; /* NULL: not attached */
    uint32_t rows_per_step;
    uint32_t writes_per_row; /* by devices of this rank: leaves and replicas */
    uint64_t capacity;
    uint64_t first_row;        /* of the run */
    _Atomic uint32_t *written; /* by slot: writes that its row has */
    bg_outfeed *next;          /* of the session */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex. */
    uint64_t complete;  /* rows */
    uint64_t shown;     /* LAST: the rows that were complete when the consumer took one */
    bgi_engine *engine; /* while a run is on */
    bool is_closed;     /* the session has ended */
    bg_error error;     /* of the run that failed */
};

bg_status bgi_outfeed_attach(bg_outfeed *outfeed, const bgi_engine *engine, bg_error *error);
bg_status bgi_outfeed_parse(bg_outfeed *outfeed, const char *text, bg_error *error);
/* A run of at most `iterations` begins, ends; `status` with its message when it failed. */
bg_status bgi_outfeed_begin(bg_outfeed *outfeed, bgi_engine *engine, uint64_t iterations, bg_error *error);
void bgi_outfeed_end(bg_outfeed *outfeed, bg_status status, const char *message);
/* The session leaves. */
void bgi_outfeed_close(bg_outfeed *outfeed);
/* For the device's owner: whether the row of its micro-batch can be written to; notes what it waits for. */
bool bgi_outfeed_has_room(bgi_runner *runner, bg_outfeed *outfeed);
void bgi_outfeed_write(bgi_runner *runner, bg_outfeed *outfeed, uint32_t leaf, const void *from);

/* ---- a run, as the engine gets it ---- */

#define BGI_NO_OUTPUT UINT32_MAX

typedef struct bgi_run {
    const void *const *inputs;
    const bool *constants; /* or NULL */
    void *const *outputs;
    bg_infeed *infeed;
    bg_outfeed *outfeeds;      /* the first one */
    bool (*spare)(void *user); /* or NULL */
    void *spare_user;
    uint64_t step, optimizer_step;
    uint64_t limit;            /* iterations */
    uint32_t stop_output;      /* ends the run when it is above 0; or BGI_NO_OUTPUT */
    uint32_t condition_output; /* ends it when it is not; or BGI_NO_OUTPUT */
    bool is_synthetic;
    const double *scalars; /* by iteration, or NULL: what the host writes over one of the update's numbers */
    uint32_t scalar;       /* that element of the hyper variable */
} bgi_run;

/* The caller's array for an output, or NULL. It has none for a loop's condition: its list ends before that. */
static inline void *bgi_run_array(const bgi_run *run, uint32_t output)
{
    return run->outputs == NULL || run->is_synthetic || output == run->condition_output ? NULL : run->outputs[output];
}

/* How many outputs have a say after each iteration, on each replica. */
static inline uint32_t bgi_run_voters(const bgi_run *run)
{
    return (run->stop_output != BGI_NO_OUTPUT) + (run->condition_output != BGI_NO_OUTPUT);
}

#endif
