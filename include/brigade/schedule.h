/*
 * schedule.h: the order of actions on each device. A schedule is, for each device, an ordered list of actions for one
 * step (one weight update in training; one pass over the micro-batches in inference). Schedules describe stages and
 * edges, not graphs or memory.
 *
 *     problem --generator--> compute order --complete--> full schedule --verify--> analysis
 *                              (SEND, RECEIVE, LOAD, STORE, HOST_IN, HOST_OUT)      (depths, bubble)
 *
 * Every strategy is one generator: a pure function from a problem to the order of compute actions on each device. All
 * generators share communication, verification, slot depths, simulation and text.
 *
 * Edges. An edge is a bundle of values that lives from one action to later ones: between stages on two devices (a
 * message), between stages on one device, or from a stage's forward to its own backward (a stash). The edge has `depth`
 * slots on the receiving device; micro-batch n, counted over the whole run, uses slot n % depth. A producer writes
 * directly into the receiver's slot: the slot is in use from the producer's start to the end of the last consumer. An
 * action waits until its slots are free and its values are available.
 *
 * Threads: a schedule does not change once it is made, so any number of threads may read it.
 *
 * Errors: BG_ERROR_INVALID for an invalid problem or schedule, BG_ERROR_PARSE for invalid text, BG_ERROR_UNSUPPORTED
 * where a generator cannot order the problem, BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_SCHEDULE_H
#define BRIGADE_SCHEDULE_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bg_action_kind {
    BG_ACTION_FORWARD = 0, /* F */
    BG_ACTION_RECOMPUTE,   /* R: forward again from the stashed inputs */
    BG_ACTION_BACKWARD, /* B: gradients of the stage's inputs, and of its weights unless the problem splits weights */
    BG_ACTION_WEIGHTS,  /* W: gradients of the stage's weights, accumulated */
    BG_ACTION_UPDATE,   /* U: one level of the weight update */
    BG_ACTION_SEND,
    BG_ACTION_RECEIVE,
    BG_ACTION_LOAD, /* remote buffer to device */
    BG_ACTION_STORE,
    BG_ACTION_GATHER, /* sends every replica the pieces of all replicas */
    BG_ACTION_REDUCE, /* sums over the replicas */
    BG_ACTION_HOST_IN,
    BG_ACTION_HOST_OUT,
    BG_ACTION_KIND_COUNT
} bg_action_kind;

/* Returns a name: "F", "B", "W", "R", "U", "SEND", ... */
BG_API const char *bg_action_kind_name(bg_action_kind kind);

typedef struct bg_action {
    bg_action_kind kind;
    uint32_t stage;       /* for SEND the sender's stage, for RECEIVE the receiver's, for LOAD and STORE the buffer's;
                             otherwise the stage whose action it is */
    uint32_t micro_batch; /* number of the micro-batch in the step; 0 for UPDATE, REDUCE and GATHER */
    uint32_t index; /* UPDATE: level. SEND, RECEIVE: edge. LOAD, STORE: buffer (micro_batch 0 for variables). GATHER,
                       REDUCE: collective. Otherwise 0 */
} bg_action;

/* The action `from` makes the values; `to` is the first action on the receiving stage that reads them, `last` the last
 * one. The ends are FORWARD, RECOMPUTE, BACKWARD or WEIGHTS actions of the same micro-batch, or both ends are UPDATE,
 * once per step. In inference all are FORWARD. WEIGHTS needs a problem that splits weights, and RECOMPUTE needs a stage
 * that recomputes. */
typedef struct bg_schedule_edge {
    bg_action_kind from_kind;
    uint32_t from_stage;
    uint32_t from_level; /* UPDATE only */
    bg_action_kind to_kind;
    bg_action_kind last_kind;
    uint32_t to_stage;
    uint32_t to_level;
    size_t size_bytes;
    size_t slot_bytes; /* bytes of a slot on the receiving device, with padding; 0: size_bytes */
} bg_schedule_edge;

/* How long a buffer stays on the device after it is loaded. */
typedef enum bg_residency {
    BG_RESIDENCY_STEP = 0,         /* from the first action of the step that uses the buffer to the last */
    BG_RESIDENCY_FORWARD_BACKWARD, /* from the first forward to the last, and again from the first backward to the
                                      update */
    BG_RESIDENCY_VISIT             /* as long as the device works on the stage without a break (a visit) */
} bg_residency;

/* A value of a remote store, which LOAD brings to the device of its stage and STORE writes back. It holds either a
 * stage's variables, or (per_micro_batch) the values of an edge on one device between its producer and its readers:
 * STORE(m) follows the producer, LOAD(m) comes before the first reader. A stashed input of a stage is stored only once:
 * the edge to the stage's F stores the value, and the edge from this F loads it (shares_store). */
typedef struct bg_schedule_buffer {
    uint32_t stage;         /* the stage whose actions use it; for an edge, the receiving stage */
    uint32_t reads, writes; /* for variables: the kinds of the stage's actions that read or write the buffer, as bits 1u
                               << kind: F, R, B, W, U, REDUCE, GATHER */
    /* Bits 1u << level: the levels of U that use it; 0: all levels. Levels from 32 on always use the buffer. */
    uint32_t update_levels;
    bool starts_fresh; /* the first action of a step that writes the buffer needs no old value, and the value is not
                          needed after the step */
    bg_residency residency; /* decides where generated schedules have LOAD and STORE; other valid schedules may
                               differ */
    bool preload; /* LOAD runs one visit of the device earlier (for an edge, one reader earlier), so that it overlaps
                     with work */
    bool per_micro_batch;
    uint32_t edge;     /* for per_micro_batch */
    uint32_t slots;    /* for per_micro_batch: number of slots of the producer, which waits until its value for the
                          micro-batch `slots` earlier is stored */
    bool shares_store; /* for per_micro_batch: the buffer has no STORE, and no action writes its slots; LOAD(m) loads
                          the value that buffer `store_of` stored, whose edge ends where this buffer's edge begins */
    uint32_t store_of;
    size_t size_bytes;
    size_t store_bytes; /* the bytes that a STORE copies (for sharded weights, the replica's piece); 0: all bytes */
} bg_schedule_buffer;

typedef struct bg_stage_cost {
    double forward_ns;
    double backward_ns; /* cost of B without W if the problem splits weights */
    double weights_ns;
    double update_ns;    /* cost of all levels together */
    double recompute_ns; /* cost of R, on stages that have it */
} bg_stage_cost;

typedef struct bg_schedule_problem {
    size_t struct_bytes;  /* set by bg_schedule_problem_defaults; see base.h */
    uint32_t stage_count; /* forward stages, numbered along the data flow */
    uint32_t device_count;
    const uint32_t *stage_devices; /* device of each stage */
    /* Position of each stage along the data flow; NULL: stage k has position k. Positions ascend with the stages, from
     * 0 without gaps. Stages at one position are concurrent: they process the same micro-batch at the same time, on
     * different devices, and share no data. */
    const uint32_t *stage_positions;
    /* Phase of each stage, for "phased"; NULL: each position is a phase. Phases ascend with the stages, from 0 without
     * gaps; stages at one position are in one phase. */
    const uint32_t *stage_phases;
    uint32_t micro_batch_count;
    bool training;
    bool splits_weights;         /* W actions are emitted separately from B */
    bool merges_loss;            /* the last stage's F and B of a micro-batch run back to back */
    uint32_t update_level_count; /* training: at least 1 */
    bool is_strict; /* only one action at a time runs on all devices together: a step is one sequence of actions, and
                       transfers end before the sequence continues. Needs a generator with one_at_a_time */
    bool reduces_gradients;   /* data-parallel replicas: REDUCE of each stage's gradients before its first U */
    bool reduces_in_backward; /* REDUCE follows the stage's last B or W instead, and so does, in "phased", the first of
                                 several levels of the stage's update, which needs no other stage. This level comes one
                                 phase later if no buffer then stays on its device for longer */
    bool keeps_for_sums; /* with reduces_in_backward in "phased": the first of several update levels always comes one
                            phase later, and the stage's buffers with starts_fresh stay on the device until then */
    /* For sharded updates: the stages that have a GATHER of their new weights after their last U. NULL: no stage. */
    const bool *stage_gathers;
    const bg_schedule_edge *edges;
    uint32_t edge_count;
    const bg_schedule_buffer *buffers;
    uint32_t buffer_count;
    double remote_bytes_per_ns;   /* speed of LOAD and STORE, for the simulator; 0: they take no time */
    const bool *stage_host_in;    /* NULL: only stage 0 */
    const bool *stage_host_out;   /* NULL: only the last stage */
    const bool *stage_recomputes; /* training: stages that run forward again (R) before each B; NULL: no stage */
    const bg_stage_cost *costs;   /* NULL: every F, R, B, W costs 1, U costs 0 */
    double bytes_per_ns;          /* speed of messages between devices, for the simulator; 0: they take no time */
    uint32_t send_ahead; /* number of slots of a message's edge in addition to those that the receiver's order needs;
                            default 1. With 0 there are the fewest slots, but producers wait longer. See
                            bg_schedule_edge_depth. */
    /* Limit in bytes, for each device, of the slots of edges that end on it; NULL: no limit. Only the generator "auto"
     * uses these limits. */
    const size_t *device_slot_bytes;
    /* Called while a schedule of this problem is made, verified, simulated or drawn; returning true ends this work.
     * NULL: the work cannot be stopped. */
    bg_stop_function stop;
    void *stop_user;
} bg_schedule_problem;

BG_API void bg_schedule_problem_init(bg_schedule_problem *problem, size_t struct_bytes);
/* Sets the defaults: training on one device, one micro-batch, one update level, merges_loss, send_ahead 1; all other
 * fields, such as stage_count, are zero. */
static inline bg_schedule_problem bg_schedule_problem_defaults(void)
{
    bg_schedule_problem problem;

    bg_schedule_problem_init(&problem, sizeof problem);
    return problem;
}

/* Sets the edges of a problem that was made by hand to those of a plain chain: F_k -> F_k+1, B_k+1 -> B_k, and the
 * stash F_k -> B_k (F_k -> R_k -> B_k on stages with R). *out_edges is malloc'ed, and the caller frees it. Tests and
 * `brigade schedule` use this function. */
BG_API bg_status bg_schedule_problem_chain(bg_schedule_problem *problem, size_t edge_bytes,
                                           bg_schedule_edge **out_edges, bg_error *error);

typedef struct bg_schedule bg_schedule;

/* The default device of each stage. Each comment is the device of stage k, for N stages on D devices. */
typedef enum bg_placement {
    BG_PLACEMENT_LINE = 0, /* k; needs N = D */
    BG_PLACEMENT_LOOP,     /* k mod D: several stages on each device that are not neighbors (virtual stages); needs N
                              divisible by D */
    BG_PLACEMENT_ANY,      /* k mod D, for any D up to N; by default D = N */
    BG_PLACEMENT_ONE,      /* 0; needs D = 1 */
    BG_PLACEMENT_FOLD      /* k, or N - 1 - k in the second half: 0 1 ... D-1 D-1 ... 1 0 (a V); needs N = 2 D */
} bg_placement;

typedef struct bg_schedule_generator {
    size_t struct_bytes; /* 0, or sizeof(bg_schedule_generator): see base.h */
    const char *name;    /* "interleaved" */
    const char *summary; /* one line for listings */
    /* Emits the compute actions of every device, in order, with bg_schedule_emit. A generator may leave out R, which is
     * then inserted before its B, and before the actions for which this B waits. */
    bg_status (*generate)(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error);
    /* Returns the smallest number of micro-batches that IPU software accepts for `stage_count` stages. A smaller number
     * gives a warning, or an error with `ipu_limits`. */
    uint32_t (*minimum_micro_batches)(uint32_t stage_count, bool training);
    bg_placement placement;
    bool splits_weights; /* needs a problem with splits_weights */
    bool one_at_a_time;  /* runs one micro-batch at a time, so the problem may have is_strict */
} bg_schedule_generator;

/* Return a generator, by its index or by its name. The indices follow this order: single, sharded, sequential, grouped,
 * interleaved, gpipe, looped, looped-bfs, looped-zb, zb-h1, zb-h2, zb-v, v-half, v-min, dualpipev, phased, auto. NULL:
 * the index is past the end, or the name is unknown. bg_schedule_generator_find accepts names in any case, and names
 * that other systems use ("1F1B", bg_schedule_alias_at). */
BG_API const bg_schedule_generator *bg_schedule_generator_at(uint32_t index);
BG_API const bg_schedule_generator *bg_schedule_generator_find(const char *name);
/* Returns name `index` of the names from other systems: "1F1B", "Interleaved1F1B", ...; NULL past the end.
 * *out_generator (may be NULL) receives the generator of that name. */
BG_API const char *bg_schedule_alias_at(uint32_t index, const bg_schedule_generator **out_generator);

/* Returns the default number of devices: the number of stages, except half that number for LOOP and FOLD if it is even,
 * and 1 for ONE. */
BG_API uint32_t bg_schedule_default_devices(const bg_schedule_generator *generator, uint32_t stage_count);
/* Writes the device of each of `stage_count` stages to out_stage_devices, by the generator's placement.
 * BG_ERROR_INVALID if the number of devices does not fit: LINE needs the number of stages, FOLD half of it, LOOP a
 * divisor of it, ANY at most this number, and ONE needs one device. */
BG_API bg_status bg_schedule_place(const bg_schedule_generator *generator, uint32_t stage_count, uint32_t device_count,
                                   uint32_t *out_stage_devices, bg_error *error);

/* Generates the compute actions of a schedule, adds communication, and verifies the schedule. */
BG_API bg_status bg_schedule_create(const bg_schedule_problem *problem, const bg_schedule_generator *generator,
                                    bg_schedule **out, bg_error *error);
BG_API void bg_schedule_destroy(bg_schedule *schedule);

/* Appends an action to a device's list, for generators. */
BG_API bg_status bg_schedule_emit(bg_schedule *schedule, uint32_t device, bg_action action, bg_error *error);

BG_API uint32_t bg_schedule_device_count(const bg_schedule *schedule);
BG_API uint32_t bg_schedule_action_count(const bg_schedule *schedule, uint32_t device);
BG_API const bg_action *bg_schedule_actions(const bg_schedule *schedule, uint32_t device);

/* Returns the number of slots of an edge on its receiving device, as the verifier computed it; 0 before the schedule is
 * verified. For an edge on one device the depth is the number of micro-batches that are live at the same time. For a
 * message it is the number of micro-batches between RECEIVE and the last reader, plus send_ahead. If send_ahead is
 * above 0, the depth is at least the number of micro-batches in flight when every action takes one step, so that an
 * edge that skips stages does not slow a pipeline. The depth is larger where fewer slots would deadlock. The depth is
 * from 1 to micro_batch_count; UPDATE edges have 1. */
BG_API uint32_t bg_schedule_edge_depth(const bg_schedule *schedule, uint32_t edge);
/* Returns, for a buffer of an edge, the number of micro-batches whose values are on the device at the same time between
 * LOAD and the last reader; 1 for other buffers; 0 before the schedule is verified. bg_schedule_edge_depth of the
 * buffer's edge is the number of micro-batches in the remote store. */
BG_API uint32_t bg_schedule_buffer_depth(const bg_schedule *schedule, uint32_t buffer);
/* Returns the largest number of micro-batches at one time for which the stage's forward has begun and its backward has
 * not ended; 1 in inference, 0 before the schedule is verified. */
BG_API uint32_t bg_schedule_stage_in_flight(const bg_schedule *schedule, uint32_t stage);

/* Checks that a completed schedule is valid, whether it was generated or read: each action of the problem occurs
 * exactly once on the right device. Each value is made before it is read. Gradients of a stage are accumulated in
 * ascending micro-batch order, and updates follow the last backward. Each SEND has its RECEIVE. Remote buffers are on
 * the device when they are used, and are stored after changes. The function computes and sets the depths of edges and
 * buffers; with these depths two consecutive steps do not deadlock. */
BG_API bg_status bg_schedule_verify(bg_schedule *schedule, const bg_schedule_problem *problem, bg_error *error);

typedef struct bg_schedule_timing {
    double makespan;     /* ns, or unit costs */
    double bubble;       /* idle share of the devices' time in the step, 0 to 1 */
    double *device_busy; /* per device; owned by the timing */
    struct bg_schedule_event {
        bg_action action;
        uint32_t device;
        double start, end;
    } * events; /* in order of start; owned by the timing */
    size_t event_count;
} bg_schedule_timing;

/* Verifies the schedule, and simulates one step of it with the problem's costs. Devices run their lists in order. A
 * message arrives size / bytes_per_ns after its SEND, messages do not slow each other down, and a producer waits for a
 * free slot. LOAD and STORE only enqueue a transfer: each device has one queue, which runs in order at
 * remote_bytes_per_ns. The events of LOAD and STORE have the times of the transfer, and actions that use the buffer
 * wait for its LOAD. The event of a RECEIVE starts when the device reaches it, and ends when the message arrives. The
 * events of all other actions start after their waits. Busy time is the time of F, R, B, W and U. */
BG_API bg_status bg_schedule_simulate(const bg_schedule *schedule, const bg_schedule_problem *problem,
                                      bg_schedule_timing *out, bg_error *error);
BG_API void bg_schedule_timing_clear(bg_schedule_timing *timing);

/* Print a schedule as text, malloc'ed, and read such a text. The text has one line per device, "device 0: F0.0
 * SEND0.0:0 ... U0:0". An action is its kind and stage, then .micro-batch, then :index (level of U, edge of SEND and
 * RECEIVE), if the kind has them. '#' begins a comment. A wrong text gives BG_ERROR_PARSE, "file:line:column: expected
 * ..., found ..."; the reader does not verify the schedule. */
BG_API bg_status bg_schedule_print(const bg_schedule *schedule, char **out_text, bg_error *error);
BG_API bg_status bg_schedule_parse(const char *text, const char *file_name, bg_schedule **out, bg_error *error);
/* Draws a timetable in which each F, R, B and W takes one step: devices are rows, steps are columns, and cells are kind
 * and micro-batch, "F0 F1 B0 .", or kind, stage and micro-batch, "F1.0", where a device has several stages. As in
 * papers, a cell has one action, or a forward and a backward ("F6B0") if only then no micro-batch waits between stages;
 * costs are ignored. If the text would exceed 32 MiB, steps in the middle are left out ("..."), and a last line gives
 * their number. With few micro-batches two strategies may have the same order of actions, and thus the same timetable.
 * malloc'ed. */
BG_API bg_status bg_schedule_timetable(const bg_schedule *schedule, const bg_schedule_problem *problem, char **out_text,
                                       bg_error *error);

/* Print a schedule as the CSV of PyTorch's torch.distributed.pipelining, and read such a text. A row is a device, and a
 * cell is a time step. A cell holds "0F1" (stage, kind, micro-batch), where B is a full backward, and I and W are its
 * halves; an empty cell is idle. The printer verifies the schedule first and writes F, B or I, and W; malloc'ed. The
 * reader adds the messages and updates of a plain chain. In a text with I or W, a B is a full backward unless the text
 * also has a W of the same stage and micro-batch; then B is the half for the inputs, as older releases of PyTorch wrote
 * it (their full backward is BW). The reader skips messages, gathers of sharded weights and sums of gradients (SEND_F,
 * UNSHARD, REDUCE_GRAD, ...), and writes their number to *out_skipped (may be NULL). A wrong text gives BG_ERROR_PARSE,
 * "file:line:column: expected ..., found ...". */
BG_API bg_status bg_schedule_print_csv(const bg_schedule *schedule, const bg_schedule_problem *problem, char **out_text,
                                       bg_error *error);
BG_API bg_status bg_schedule_parse_csv(const char *text, const char *file_name, bg_schedule **out,
                                       uint64_t *out_skipped, bg_error *error);

/* Derives the problem that a schedule from a file seems to solve: the counts, the device of each stage, whether W is
 * separate, and the edges of a plain chain with messages of `edge_bytes`. The function does not verify the schedule.
 * The problem's arrays are malloc'ed; free them with bg_schedule_problem_free, which is only for problems that this
 * function made. */
BG_API bg_status bg_schedule_problem_infer(const bg_schedule *schedule, size_t edge_bytes, bg_schedule_problem *out,
                                           bg_error *error);
BG_API void bg_schedule_problem_free(bg_schedule_problem *problem);

typedef struct bg_schedule_svg_options {
    size_t struct_bytes; /* 0, or sizeof(bg_schedule_svg_options): see base.h */
    const char *title;   /* NULL: no title */
    bool shows_messages; /* thin arrows from SEND to RECEIVE */
    uint32_t width;      /* width of the drawing in pixels; 0: wide enough for the numbers in boxes, 640 to 1600 */
} bg_schedule_svg_options;

/* Draws a simulated schedule: devices are rows, time runs to the right, and there is a box for each F, B, W, R and U
 * with its micro-batch where it fits ("stage.micro-batch" where a device has several stages). The drawing is readable
 * on light and dark backgrounds. `options` NULL: all zero. malloc'ed. */
BG_API bg_status bg_schedule_draw_svg(const bg_schedule_problem *problem, const bg_schedule_timing *timing,
                                      const bg_schedule_svg_options *options, char **out_text, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
