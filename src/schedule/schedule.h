/*
 * schedule.h: declares what the files of src/schedule share: the schedule object, checks of a problem, and helpers of
 * generators.
 */
#ifndef BGI_SCHEDULE_SCHEDULE_H
#define BGI_SCHEDULE_SCHEDULE_H

#include <brigade/schedule.h>

typedef struct bgi_schedule_list {
    bg_action *actions;
    size_t count; /* fits into 32 bits */
    size_t capacity;
} bgi_schedule_list;

struct bg_schedule {
    uint32_t device_count;
    bgi_schedule_list *lists; /* one per device */
    /* Filled by bg_schedule_verify; NULL and 0 before. */
    uint32_t *edge_depths;
    uint32_t edge_count;
    uint32_t *stage_in_flight;
    uint32_t stage_count;
    uint32_t *buffer_depths;
    uint32_t buffer_count;
    /* The problem's stop function, while a generator runs. */
    bg_stop_function stop;
    void *stop_user;
    uint32_t emit_count;
    uint32_t *turns; /* for a strict problem: for each action of a step, the device whose turn it is; otherwise NULL */
};

/* ---- schedule.c ---- */

/* Creates an empty schedule. */
bg_status bgi_schedule_create(uint32_t device_count, bg_schedule **out, bg_error *error);

/* Returns the number of actions of all devices together. */
size_t bgi_schedule_total(const bg_schedule *schedule);

/* Returns BG_ERROR_CANCELED when problem->stop returns true. */
bg_status bgi_schedule_check_stop(const bg_schedule_problem *problem, bg_error *error);
/* The number of actions between two calls of the stop function. */
enum { BGI_STOP_ACTIONS = 1 << 16 };

#define BGI_ACTION_TEXT_BYTES 64
/* Writes "F2.5", "U0:1", "SEND0.3:7" into `text` (BGI_ACTION_TEXT_BYTES) and returns `text`. */
const char *bgi_action_text(const bg_action *action, char *text);

/* Return whether an action of this kind belongs to a micro-batch, and whether its index has a meaning. */
bool bgi_action_has_micro_batch(bg_action_kind kind);
bool bgi_action_has_index(bg_action_kind kind);

/* ---- problem.c ---- */

/* Checks everything that the other files of src/schedule rely on: counts are in range, pointers are not NULL, and edges
 * are between existing actions. */
bg_status bgi_schedule_problem_check(const bg_schedule_problem *problem, bg_error *error);

/* Returns the stage's place along the data flow. */
static inline uint32_t bgi_schedule_position(const bg_schedule_problem *problem, uint32_t stage)
{
    return problem->stage_positions != NULL ? problem->stage_positions[stage] : stage;
}

/* Returns one more than the last position. */
static inline uint32_t bgi_schedule_position_count(const bg_schedule_problem *problem)
{
    return bgi_schedule_position(problem, problem->stage_count - 1) + 1;
}

/* Returns the phase of a stage. */
static inline uint32_t bgi_schedule_phase(const bg_schedule_problem *problem, uint32_t stage)
{
    return problem->stage_phases != NULL ? problem->stage_phases[stage] : bgi_schedule_position(problem, stage);
}

bool bgi_schedule_stage_has_host_in(const bg_schedule_problem *problem, uint32_t stage);
bool bgi_schedule_stage_has_host_out(const bg_schedule_problem *problem, uint32_t stage);
/* Whether the replicas of the stage exchange new weights after the update. */
bool bgi_schedule_stage_gathers(const bg_schedule_problem *problem, uint32_t stage);

/* Whether a stage has R. */
bool bgi_schedule_stage_recomputes(const bg_schedule_problem *problem, uint32_t stage);

/* Returns the duration of a compute action; 0 for every other one. */
double bgi_schedule_cost(const bg_schedule_problem *problem, const bg_action *action);

/* ---- require.c, order.c: building blocks of generators ---- */

/* Each function rejects a kind of problem, with the reason and a remedy. The first rejects two stages on one device,
 * and the second a problem whose W is part of B. The third rejects any placement except a V: stages k and N - 1 - k
 * together on a separate device, and no concurrent stages. */
bg_status bgi_schedule_require_own_devices(const bg_schedule_problem *problem, bg_error *error);
bg_status bgi_schedule_require_split_weights(const bg_schedule_problem *problem, bg_error *error);
bg_status bgi_schedule_require_fold(const bg_schedule_problem *problem, bg_error *error);

/* Appends one F, B or W to the device of the stage. */
bg_status bgi_schedule_emit_action(const bg_schedule_problem *problem, bg_schedule *schedule, bg_action_kind kind,
                                   uint32_t stage, uint32_t micro_batch, bg_error *error);

/* Appends F, or B (with its W where the problem splits weights), to the device of the stage. */
bg_status bgi_schedule_emit_compute(const bg_schedule_problem *problem, bg_schedule *schedule, bg_action_kind kind,
                                    uint32_t stage, uint32_t micro_batch, bg_error *error);

/* Emits the action of the micro-batch that is at position `offset` of a pipeline in step `step`, if a new micro-batch
 * enters every `stride` steps. Emits nothing when the position is empty. */
bg_status bgi_schedule_emit_at(const bg_schedule_problem *problem, bg_schedule *schedule, bg_action_kind kind,
                               uint32_t stage, uint64_t step, uint64_t offset, uint64_t stride, bg_error *error);

/* Appends the W of the device's oldest B without one; does nothing if there is no such B. `begin` is 0 at first, and
 * then keeps the place where the search continues. */
bg_status bgi_schedule_emit_oldest_weights(bg_schedule *schedule, uint32_t device, size_t *begin, bg_error *error);

/* Emit all levels of the weight update, or those from `first` on, level by level; nothing in inference. */
bg_status bgi_schedule_emit_updates(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error);
bg_status bgi_schedule_emit_update_levels(const bg_schedule_problem *problem, bg_schedule *schedule, uint32_t first,
                                          bg_error *error);

/* Emits one micro-batch after another through all stages and back, then the update. */
bg_status bgi_schedule_emit_one_at_a_time(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error);

/* Emits the forwards of all micro-batches stage by stage, then the backwards in the same way, then the update. */
bg_status bgi_schedule_emit_breadth_first(const bg_schedule_problem *problem, bg_schedule *schedule, bg_error *error);

/* Emits a pipeline for inference, in which every stage works on a different micro-batch. */
bg_status bgi_schedule_emit_forward_pipeline(const bg_schedule_problem *problem, bg_schedule *schedule,
                                             bg_error *error);

/* Functions for the field minimum_micro_batches: of generators that need only one micro-batch, and of those that need
 * as many as there are stages. */
uint32_t bgi_schedule_minimum_of_one(uint32_t stage_count, bool training);
uint32_t bgi_schedule_minimum_of_stages(uint32_t stage_count, bool training);

extern const bg_schedule_generator bgi_schedule_single;
extern const bg_schedule_generator bgi_schedule_sharded;
extern const bg_schedule_generator bgi_schedule_sequential;
extern const bg_schedule_generator bgi_schedule_grouped;
extern const bg_schedule_generator bgi_schedule_interleaved;
extern const bg_schedule_generator bgi_schedule_gpipe;
extern const bg_schedule_generator bgi_schedule_looped;
extern const bg_schedule_generator bgi_schedule_looped_bfs;
extern const bg_schedule_generator bgi_schedule_looped_zb;
extern const bg_schedule_generator bgi_schedule_zb_h1;
extern const bg_schedule_generator bgi_schedule_zb_h2;
extern const bg_schedule_generator bgi_schedule_zb_v;
extern const bg_schedule_generator bgi_schedule_v_half;
extern const bg_schedule_generator bgi_schedule_v_min;
extern const bg_schedule_generator bgi_schedule_dualpipev;
extern const bg_schedule_generator bgi_schedule_phased;
extern const bg_schedule_generator bgi_schedule_automatic;

/* ---- complete.c ---- */

/* Adds the other actions around the compute actions, as the comment at the top of complete.c says. */
bg_status bgi_schedule_complete(bg_schedule *schedule, const bg_schedule_problem *problem, bg_error *error);

/* ---- search.c ---- */

/* Computes the cost of a completed schedule: the end of its step according to bg_schedule_simulate, and the bytes of
 * slots on each device (an array of device_count). Costs of problems that differ only in splits_weights can be
 * compared. */
bg_status bgi_schedule_judge(const bg_schedule *schedule, const bg_schedule_problem *problem, double *device_bytes,
                             double *out_makespan_ns, bg_error *error);

#endif
