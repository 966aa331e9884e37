/*
 * prediction.h: predicts how a plan runs on a described device or on this machine. The results are times, waits, memory
 * and traffic, as numbers, text or a page.
 */
#ifndef BGI_PREDICT_PREDICTION_H
#define BGI_PREDICT_PREDICTION_H

#include "predict/simulate.h"

/* The times of calls that a prediction uses. */
typedef struct bgi_prices {
    bgi_device_model model; /* for its name, links and memories */
    double (*call_ns)(const void *user, const bgi_call *call);
    /* The part of a call's time that helpers divide. NULL: all of it if the call has several parts. */
    double (*divisible_ns)(const void *user, const bgi_call *call);
    const void *user;
    double instruction_ns;
    /* The `user` for times while other cores work too; NULL: the same as `user`. */
    const void *shared_user;
    const double *core_ratios; /* for ranks with one core each; see bgi_simulation_setup */
    uint32_t core_ratio_count;
    char basis[320]; /* the origin of the times, for reports: "costs measured on this machine" */
} bgi_prices;

/* Makes prices that are estimates from the operations and bytes of calls and the model's speeds. The model is copied;
 * the prices must not move. */
void bgi_prices_of_model(const bgi_device_model *model, bgi_prices *out);
double bgi_model_call_ns(const void *model, const bgi_call *call);
/* Makes the model of one core of a server from the planner's static costs (plan/costs.h). This model is used if no
 * other costs are known. */
void bgi_device_model_static(bgi_device_model *out);

typedef struct bgi_prediction {
    const bg_plan *plan;
    const bgi_prices *prices;
    bgi_simulation own;    /* each device has its own cores */
    bgi_simulation shared; /* all devices share `cores`; device_count 0: not requested */
    uint32_t cores;
    bgi_simulation ranks; /* each device is a rank with one core; device_count 0: not requested */
    bgi_link_model rank_link;
    uint32_t rank_cores;                            /* 0: each rank has its own core */
    double own_run_ns, shared_run_ns, ranks_run_ns; /* time of one run, which has the plan's steps */
} bgi_prediction;

/* Predicts a run with separate devices and, unless `cores` is 0, a run in which all devices share `cores` cores. `plan`
 * and `prices` must outlive the prediction. */
bg_status bgi_prediction_make(const bg_plan *plan, const bgi_prices *prices, uint32_t cores, bool wants_events,
                              bgi_prediction *out, bg_error *error);
/* Adds a prediction for processes with one device each, for all devices of all replicas, and this link between them.
 * Each process has a core (`cores` 0), or all of them share `cores`. The core also copies arriving messages and
 * computes the sums. Calls take the time that they take while other cores are busy; calls that read messages take the
 * time of a core that runs alone. */
bg_status bgi_prediction_add_ranks(bgi_prediction *prediction, const bgi_link_model *link, uint32_t cores,
                                   bg_error *error);
void bgi_prediction_clear(bgi_prediction *prediction);

/* Returns the fraction of the devices' time, over all simulated steps, that is neither compute, collectives nor
 * copies. */
double bgi_prediction_idle_share(const bgi_simulation *simulation);
/* Returns the bytes of messages between the devices of a replica in a step. */
uint64_t bgi_plan_message_bytes(const bg_plan *plan);
/* Returns whether each device fits into the described memories; *out_device is the device that needs the most memory,
 * *out_bytes. *out_remote_bytes is the largest remote memory of a device. */
bool bgi_prediction_fits(const bgi_prediction *prediction, uint32_t *out_device, size_t *out_bytes,
                         size_t *out_remote_bytes);

/* Prints text, malloc'ed: step time, throughput, idle shares and peak memory, then a table of the time of devices by
 * class, in which equal devices share a row. `samples` names what throughput counts, such as "images". */
bg_status bgi_prediction_print(const bgi_prediction *prediction, const char *samples, char **out_text, bg_error *error);
/* Draws the simulated schedule, which must have been made with wants_events; malloc'ed. */
bg_status bgi_prediction_draw(const bgi_prediction *prediction, const char *title, char **out_text, bg_error *error);
/* Makes one HTML page with all results, which needs no script and no network; malloc'ed. */
bg_status bgi_prediction_page(const bgi_prediction *prediction, const char *title, const char *samples, char **out_text,
                              bg_error *error);

#endif
