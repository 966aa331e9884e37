/*
 * call_costs.h: declares a table of the times of kernel calls on this machine. Times are measured once, and stored by
 * kernel, types of the operands, parts, scratch and cost. A call has three times: alone on one core; while all cores of
 * a run do the same, because cores share caches and memory; and when all of these cores divide its parts.
 */
#ifndef BGI_PREDICT_CALL_COSTS_H
#define BGI_PREDICT_CALL_COSTS_H

#include "predict/prediction.h"

enum { BGI_MOST_CORES = 64 }; /* the most cores on which calls are measured */

typedef struct bgi_call_times_ns {
    double alone, busy;
    double helped; /* equal to `alone` when there is one core */
} bgi_call_times_ns;

typedef struct bgi_call_cost {
    char *key;
    bgi_call_times_ns ns;
} bgi_call_cost;

/* A zeroed table is empty. */
typedef struct bgi_call_costs {
    bgi_call_cost *costs; /* sorted by key */
    size_t count, capacity;
    uint32_t cores;               /* number of working cores when `busy` and `helped` were measured */
    double instruction_ns;        /* time from one instruction to the next */
    double copy_bytes_per_ns;     /* speed of copies; counts bytes read and bytes written */
    double transfer_bytes_per_ns; /* speed of remote buffers; 0: unknown */
    bgi_link_model rank_link;     /* link between ranks of this machine; bytes_per_ns 0: unknown */
    /* The time of calls on each core, relative to the mean over cores, while all cores are busy. */
    double core_ratios[BGI_MOST_CORES];
    uint32_t core_ratio_count; /* 0: unknown */
} bgi_call_costs;

void bgi_call_costs_clear(bgi_call_costs *costs);

enum { BGI_CALL_KEY_BYTES = 2048 };
/* Describes the call in words. Returns false if the text does not fit; such a call is not stored. */
bool bgi_call_key(const bgi_call *call, char text[BGI_CALL_KEY_BYTES]);
/* Returns the cost with this key; NULL if it is unknown. */
const bgi_call_cost *bgi_call_costs_find(const bgi_call_costs *costs, const char *key);
/* Adds a cost, or replaces an older one with the same key. Errors: BG_ERROR_MEMORY. */
bg_status bgi_call_costs_put(bgi_call_costs *costs, const char *key, bgi_call_times_ns ns, bg_error *error);
/* Counts the distinct calls of a plan, except transfers and collectives, and the known ones among them. */
bg_status bgi_call_costs_count(const bgi_call_costs *costs, const bg_plan *plan, uint32_t *out_count,
                               uint32_t *out_known, bg_error *error);

/* ---- measure.c ---- */

/* Runs the plan on zeros and fresh weights, and records the times of its calls on one core, on `cores` cores, and on
 * one core that the workers of the other cores help. `anew` clears the table except the link between ranks; otherwise
 * known times stay unless they were measured with another number of cores. The plan must have been made with
 * options.reporting.trace and one core. Each of the three measurements (only the first if `cores` is 1) ends after 0.6
 * s, but not before its 6th run, and at the latest after its 16th. Errors: those of sessions, BG_ERROR_UNSUPPORTED (the
 * plan needs more memory than is available). */
bg_status bgi_call_costs_measure(bgi_call_costs *costs, const bg_plan *plan, uint32_t cores, bool anew,
                                 bg_error *error);

/* ---- call_costs_file.c: the cache ---- */

/* Returns the path for this processor and release in $XDG_CACHE_HOME/brigade or ~/.cache/brigade, malloc'ed; NULL if
 * the folder is unknown or memory is exhausted. */
char *bgi_call_costs_path(void);
/* Reads costs from a text and checks every value. A file of another processor or build gives BG_ERROR_UNSUPPORTED. */
bg_status bgi_call_costs_parse(const char *name, const char *text, size_t size_bytes, bgi_call_costs *out,
                               bg_error *error);
bg_status bgi_call_costs_load(const char *path, bgi_call_costs *out, bg_error *error);
/* Writes the costs to a file, completely or not at all, and creates its folder. */
bg_status bgi_call_costs_save(const bgi_call_costs *costs, const char *path, bg_error *error);
/* Describes the processor: "AMD EPYC, family 26, model 2, avx512-bf16". */
const char *bgi_processor_text(char *text, size_t size_bytes);

/* ---- prices ---- */

typedef struct bgi_measured_prices {
    const bgi_call_costs *costs;
    bool is_busy;
    bgi_device_model model; /* the static model, for unknown calls */
} bgi_measured_prices;

typedef struct bgi_machine_prices {
    bgi_measured_prices alone, busy;
    bgi_prices prices;
} bgi_machine_prices;

/* Makes the prices of this machine. The time of an unknown call is the estimate from operations and bytes, times the
 * ratio of measured to estimated time of the known calls of its kernel. The prices must not move; `costs` must outlive
 * them. `counted` and `known` are results of bgi_call_costs_count. */
void bgi_prices_of_machine(const bgi_call_costs *costs, uint32_t counted, uint32_t known, bgi_machine_prices *out);
double bgi_measured_call_ns(const void *measured_prices, const bgi_call *call);
/* Returns the part of a call's time that helpers divide among them; negative if helpers only delay the call. The result
 * may be above 0 for a call of one part, because a call is faster when the other cores are idle. */
double bgi_measured_divisible_ns(const void *measured_prices, const bgi_call *call);

#endif
