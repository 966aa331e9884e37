/*
 * options.h: how a graph is trained or run: strategy, stages, batches, memory, cores. One struct, filled by
 * bg_options_defaults, checked as a whole when a plan is made.
 */
#ifndef BRIGADE_OPTIONS_H
#define BRIGADE_OPTIONS_H

#include <brigade/graph.h>
#include <brigade/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bg_strategy {
    BG_STRATEGY_SINGLE = 0, /* one device, no partition */
    BG_STRATEGY_SHARDED,    /* stages on devices, one micro-batch at a time */
    BG_STRATEGY_PIPELINED,  /* stages on devices, micro-batches overlap as the schedule says */
    BG_STRATEGY_PHASED      /* phases of stages one after the other, all micro-batches of a step through each */
} bg_strategy;

/* Stages that nobody lists. */
typedef enum bg_auto_stage {
    /* Neighbouring blocks on one device are a stage; without any device ids each block is one. */
    BG_AUTO_STAGE_SAME_AS_IPU = 0,
    /* Each new block is the next stage, from 1; stage 0 is what precedes the first block, if anything does. Neighbours
     * on one device are one stage all the same. */
    BG_AUTO_STAGE_INCREMENT
} bg_auto_stage;

/* What a device is to the planner: only estimates and budgets, for devices are virtual. */
typedef struct bg_device_model {
    double speed;        /* relative to the others; above 0 */
    size_t memory_bytes; /* budget; 0: as options.device_memory_bytes says */
} bg_device_model;

/* What a block was measured to take for one micro-batch, instead of the estimate. */
typedef struct bg_block_cost {
    const char *name;
    double forward_ns, backward_ns, weights_ns; /* weights: that part of the backward pass which no other block needs */
} bg_block_cost;

typedef enum bg_accumulation {
    BG_ACCUMULATE_MEAN = 0, /* over all counted elements of the step (all micro-batches, all replicas) */
    BG_ACCUMULATE_SUM,
    /* The same mean, kept up to date: s = s n/(n+c) + g c/(n+c), with n elements counted before and c in this
     * micro-batch (of means over equally many: s f/(f+1) + g/(f+1)). Never exceeds the largest |g| of a replica's
     * micro-batches. */
    BG_ACCUMULATE_MEAN_RUNNING
} bg_accumulation;

/* What of a forward is kept for its backward; the rest is computed again from it, by the same ops with the same random
 * numbers, so that no bit changes. What enters a stage, marked values (bg_graph_checkpoint) and results of ops that
 * change variables (batch norm) are always kept. */
typedef enum bg_recompute {
    BG_RECOMPUTE_NONE = 0,    /* all that the backward reads is kept */
    BG_RECOMPUTE_STAGE,       /* only what is always kept; the stage of the loss, whose backward follows at once, keeps
                                 all unless values in it are marked */
    BG_RECOMPUTE_CHECKPOINTS, /* the same in stages with marked values; the others keep all */
    BG_RECOMPUTE_FRACTION,    /* a share (recompute_fraction) of each stage's kept bytes is saved, cheapest ops first */
    BG_RECOMPUTE_AUTO         /* as little as meets device_memory_bytes */
} bg_recompute;

typedef enum bg_recompute_order {
    BG_RECOMPUTE_INTERLEAVED = 0, /* each op runs again right before the backward ops that need it */
    BG_RECOMPUTE_THEN             /* all run again in an action of their own (R), which can overlap the wait for the
                                     gradient; their results then live until B has ended */
} bg_recompute_order;

/* What becomes of the replicas' gradients, which are always summed once an update. */
typedef enum bg_replica_reduction {
    BG_REPLICAS_LIKE_ACCUMULATION = 0, /* the sum of sums, the mean of means */
    BG_REPLICAS_MEAN, /* of sums: divided by the replicas; of means: the mean over all that was counted */
    BG_REPLICAS_SUM   /* of means: that mean times the replicas */
} bg_replica_reduction;

/* Which replicas are in one group: of R replicas in groups of k, with m = R / k. */
typedef enum bg_grouping {
    BG_GROUPING_CONSECUTIVE = 0, /* {0 .. k-1}, {k .. 2k-1}, ... */
    BG_GROUPING_ORTHOGONAL,      /* {0, m, 2m, ...}, {1, m+1, ...}, ... */
    BG_GROUPING_ALL,             /* all in one; not for inputs */
    BG_GROUPING_NONE             /* each for itself: k is 1 */
} bg_grouping;

/* The element type in which a parameter's gradients are accumulated, summed over replicas and given to the optimiser.
 */
typedef enum bg_accumulator_type {
    BG_ACCUMULATOR_DEFAULT = 0, /* float32 for parameters of 16 bits, else the parameter's own */
    BG_ACCUMULATOR_SAME,        /* the parameter's own */
    BG_ACCUMULATOR_GIVEN,       /* options.accumulator_dtype for all */
    BG_ACCUMULATOR_CALLBACK     /* options.choose_accumulator for each */
} bg_accumulator_type;

/* Called while a plan is made; `name` and `type` are the parameter's. Returns a float type. */
typedef bg_dtype (*bg_accumulator_function)(void *user, const char *name, const bg_type *type);

/* What a run returns of an output that is computed for each micro-batch; per replica. */
typedef enum bg_output_mode {
    BG_OUTPUT_DEFAULT = 0, /* final in training, all in inference */
    BG_OUTPUT_FINAL,       /* the last micro-batch of the last device iteration */
    BG_OUTPUT_ALL,         /* every micro-batch: [device iteration][accumulation][replica] */
    BG_OUTPUT_SUM,         /* the sum over all of them, in order (not over replicas) */
    BG_OUTPUT_EVERY_N      /* those of device iterations n, 2n, ... */
} bg_output_mode;

/* An output mode for one output, instead of the options' common one; also a second form of the same output. Also an
 * anchor: what any op of the forward graph makes, returned although nothing marked it when the graph was built. Where
 * ops are fused over it, it is computed once more apart: asking changes no bit of the rest. Values of the backward pass
 * cannot be asked for. */
typedef struct bg_output_request {
    const char *output; /* of the graph; else the op's name (NAME.1 for its second result) */
    const char *name;   /* name in the session; NULL: the same */
    bg_output_mode mode;
    uint32_t period; /* EVERY_N */
} bg_output_request;

/* ---- where tensors live ---- */

typedef enum bg_location_class {
    BG_LOCATION_ACTIVATIONS = 0, /* what is kept from an action to a later one: stashes */
    BG_LOCATION_WEIGHTS,         /* parameters and buffers */
    BG_LOCATION_STATE,           /* the optimiser's */
    BG_LOCATION_ACCUMULATORS,    /* of gradients */
    BG_LOCATION_COUNT
} bg_location_class;
/* "activations", "weights", "optimiser", "accumulators". */
BG_API const char *bg_location_class_name(bg_location_class location_class);
BG_API bool bg_location_class_find(const char *name, bg_location_class *out);

/* Neutral in bits. What is remote has its home in a remote store (the host's memory) and is on the device only while it
 * is used: optimiser state one variable at a time, the rest as phase_liveness says. Loads and stores overlap work. */
typedef enum bg_place {
    BG_PLACE_DEFAULT = 0, /* REMOTE with the phased strategy, as in PopTorch; else DEVICE */
    BG_PLACE_DEVICE,
    BG_PLACE_REMOTE
} bg_place;

typedef struct bg_tensor_location {
    bg_place place;
    bool sharded;                    /* over the replicas: each keeps a piece of ceil(elements / replicas) */
    size_t minimum_elements_remote;  /* smaller tensors stay on the device; default 2 */
    size_t minimum_elements_sharded; /* smaller tensors stay whole; default 8192 */
    bool on_demand; /* load when it is needed instead of one visit (update, micro-batch) before: less device memory, no
                       overlap of loads. Default for state, as in IPU software */
} bg_tensor_location;

/* A location for the tensors whose name matches, instead of their class's. The last rule that matches holds. */
typedef struct bg_location_rule {
    uint32_t classes;    /* bits 1u << bg_location_class */
    const char *pattern; /* of a variable's name (of a value's for activations); `*` stands for any text, `?` for a
                            character */
    bg_tensor_location location;
} bg_location_rule;

/* How long remote weights, accumulators and activations stay on a device that works on several stages in turn. */
typedef enum bg_phase_liveness {
    BG_LIVE_ALWAYS = 0,                    /* from the first use in a step to the last */
    BG_LIVE_OFF_CHIP_AFTER_FWD,            /* off the device between a stage's forward and its backward */
    BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP, /* as before, and loads do not overlap the phase before */
    BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE      /* off the device whenever it works on another stage; no overlap */
} bg_phase_liveness;
BG_API const char *bg_phase_liveness_name(bg_phase_liveness liveness);
BG_API bool bg_phase_liveness_find(const char *name, bg_phase_liveness *out);

/* What a session does with files in options.memmap_dir. */
typedef enum bg_memmap_mode {
    BG_MEMMAP_CONTINUE = 0, /* goes on from them; makes them where there are none */
    BG_MEMMAP_RENEW,        /* as before, but files that cannot be gone on from are made anew instead of being an error:
                               for who sets all weights next, as from a checkpoint */
    BG_MEMMAP_READ_ONLY /* goes on from them and leaves them untouched: what changes is kept in memory. Without files
                           remote stores are in memory */
} bg_memmap_mode;
BG_API const char *bg_memmap_mode_name(bg_memmap_mode mode);
BG_API bool bg_memmap_mode_find(const char *name, bg_memmap_mode *out);

/* A loss scale that begins at options.loss_scaling and adapts itself between updates, as PopART's does: of the elements
 * of all parameters' gradients, as the backward pass of each micro-batch of each replica makes them (scaled; of the sum
 * over its samples where means are weighted by what they count), those above bin_edge x 65504 in size, the largest
 * number of float16, are counted, whatever type the gradients have. Is their share of the whole update above the
 * threshold, the scale is multiplied by `decrease`, else by `increase`, from the next update on. An accumulated
 * gradient that is not finite skips the update (weights and optimiser state stay; it counts for bg_session_step alone)
 * and decreases the scale at once. All updates wait for all gradients. The scale is a variable of the weights,
 * "loss.scale" (float32), that checkpoints keep. Training by means only. */
typedef struct bg_auto_loss_scaling {
    bool enabled;
    bool output;      /* training has a further output, `loss_scale`: the scale of each update, a float32 scalar */
    double bin_edge;  /* above 0, up to 1; default 0.125 */
    double threshold; /* 0 to below 1; default 1e-7 */
    uint32_t period;  /* updates whose counts are added up before the scale is adapted; default 1 */
    double increase, decrease; /* default 2 and 0.5: powers of two change no other bit */
    double minimum, maximum;   /* of the scale; default 1 and 2^24 */
} bg_auto_loss_scaling;

/* What a device without a budget counts as where a share of its memory is asked for: that of a Mk2 IPU. */
#define BG_NOMINAL_MEMORY_BYTES ((size_t)900 << 20)

typedef enum bg_log_level { BG_LOG_ERROR = 0, BG_LOG_WARNING, BG_LOG_INFO, BG_LOG_DEBUG } bg_log_level;
typedef void (*bg_log_function)(void *user, bg_log_level level, const char *text);

typedef struct bg_options {
    uint32_t cookie; /* set by bg_options_defaults: catches a struct that nobody initialised */
    bg_strategy strategy;
    /* PIPELINED: name of a schedule generator (bg_schedule_generator_at); NULL: "interleaved". "auto"
     * searches the order that ends first with the stages' costs, within the budgets. */
    const char *schedule;
    /* What the stages cost, one of each stage (bg_profile_measure); NULL: a model of the ops. They decide times and,
     * with "auto", the order; never a bit of the result. Measured with W in B (weights_ns 0) or apart, they
     * serve schedules of both kinds. */
    const bg_stage_cost *stage_costs;
    uint32_t stage_cost_count;
    double message_bytes_per_ns; /* with stage_costs: speed of messages; 0: they are free */
    /* Blocks to stages, in order: "B1,B2|B3,B4"; a stage may be given a device: "B1|B2@0". & joins stages that run at
     * the same time and share neither data nor weights: "B1|B2&B3|B4"; ; parts phases (PHASED): "B1,B2|B3;B4|B5".
     * "auto:4": four stages whose longest is as short as block borders allow; "auto-ops:4" cuts inside blocks too.
     * NULL: as auto_stage says. */
    const char *stages;
    bg_auto_stage auto_stage; /* when stages is NULL */
    /* The device of each stage; devices may repeat, and neighbours on one device stay two stages. Devices that are
     * left out are idle (at most 64, and a warning). NULL: the device behind @, else that of the stage's blocks, else
     * where the schedule places the stage. */
    const uint32_t *device_mapping;
    uint32_t device_mapping_count;
    uint32_t device_count; /* of one replica; 0: what the stages and the schedule make of it */
    bool phases_parallel; /* PHASED: two groups of devices take turns, even and odd; else all phases are on one group */
    const bg_device_model *devices;   /* NULL: all alike */
    uint32_t device_model_count;      /* as many as there are devices */
    const bg_block_cost *block_costs; /* NULL: estimates */
    uint32_t block_cost_count;
    uint32_t device_iterations;     /* training: weight updates a run; inference: micro-batches a run. At least 1 */
    uint32_t gradient_accumulation; /* micro-batches a weight update; 1 in inference */
    /* Copies of all stages. Of a graph for a mesh (bg_graph_set_mesh) all replicas together: data-parallel copies times
     * tensor_1 times tensor_2, numbered as mesh.h says; those that make up one copy of the model get the same data. */
    uint32_t replicas;
    /* Devices of all replicas together; 0: as many as there are replicas for. Else `replicas` is what they make of the
     * devices of one: 8 devices with two stages are 4 replicas, 7 are an error. Leave `replicas` 1, or agree. */
    uint32_t total_devices;
    /* Replicas of a group get the same data: a run takes micro-batches for replicas / input_group_size of them. */
    uint32_t input_group_size; /* default 1; divides `replicas`. Leave it 1 on a mesh */
    bg_grouping input_grouping;
    bg_accumulation accumulation;
    bg_replica_reduction replica_reduction;
    bg_accumulator_type accumulator_type;
    bg_dtype accumulator_dtype;                 /* GIVEN: float32, bfloat16 or float16 */
    bg_accumulator_function choose_accumulator; /* CALLBACK */
    void *choose_accumulator_user;
    /* Gradients of another type than their parameter's are cast to what the optimiser computes in; default. Without it
     * accumulators of another type are an error. */
    bool cast_gradients;
    /* Gradients are multiplied by max / max(norm, max), with the norm over all parameters' final gradients
     * (accumulated, scaled, summed over replicas); 0 or INFINITY: never. Forces a barrier between the last backward and
     * the update. */
    double max_gradient_norm;
    /* Training has a further output, `gradient_norm`, a float32 scalar: that norm before it is bounded, whether it is
     * or not. One value for each weight update, the same on all replicas; holds up no update. */
    bool output_gradient_norm;
    /* The gradient of the loss is multiplied by it, and what the update reads divided by it again, so that small
     * gradients stay in a narrow type's range; from 2^-64 to 2^64, default 1. A power of two changes no bit as long as
     * nothing leaves that range. */
    double loss_scaling;
    bg_auto_loss_scaling auto_loss_scaling; /* default off */
    /* The optimiser's state of parameters that are no float64: BG_BFLOAT16, BG_FLOAT16, or BG_DTYPE_NONE or BG_FLOAT32:
     * float32. Squares of gradients are soon below the smallest float16, 6e-8: second moments had better not be. */
    bg_dtype first_moment_dtype, second_moment_dtype;
    /* New weights and optimiser state of 16 bits are rounded up or down by chance, such that the mean of many roundings
     * is the value: else updates of less than half a last place are lost. The chance of an element is a function of
     * seed, step and the parameter's name: the same under every strategy and on replicas that keep the same. A warning
     * when nothing is kept in 16 bits. */
    bool stochastic_rounding;
    size_t device_memory_bytes; /* budget of each device; 0: unlimited */
    /* The share of a device's memory (of BG_NOMINAL_MEMORY_BYTES where it is unlimited) that the scratch of a matrix
     * product or convolution may take: one for all devices, or one each; at least 0. NULL: as it is fastest. With
     * less there are fewer or smaller pieces at a time, down to the smallest one; no bit changes. Shares become
     * powers of two of bytes, rounded down. The weights' gradient of a fused convolution and pool takes no notice. */
    const double *matmul_proportions;
    uint32_t matmul_proportion_count;
    uint32_t cores; /* worker threads; 0: as many as the process may use, at most one a device */
    uint64_t seed;
    bool offload_optimiser; /* the same as BG_PLACE_REMOTE in locations[BG_LOCATION_STATE].place */
    /* STATE sharded: each replica keeps and updates a piece of the state; ACCUMULATORS sharded: each replica gets the
     * sum of its piece of the gradients only, which an optimiser with state needs STATE sharded for. WEIGHTS sharded,
     * which must be remote: each replica's remote store keeps a piece of each parameter, a load brings all pieces, and
     * what an update made of the own piece is stored without handing it round. ACTIVATIONS sharded, remote too, on a
     * mesh with tensor axes: of those that all replicas along an axis have in common each keeps a piece. */
    bg_tensor_location locations[BG_LOCATION_COUNT];
    const bg_location_rule *location_rules;
    uint32_t location_rule_count;
    bg_phase_liveness phase_liveness; /* default OFF_CHIP_AFTER_FWD; parallel phases: one of the first two */
    int32_t io_threads;        /* threads for loads and stores; 0: workers do them when they have nothing else to do; -1
                                  (default): one where there are processors that workers leave free, else none */
    bg_recompute recompute;    /* training */
    double recompute_fraction; /* FRACTION: 0 (nothing runs again) to 1 */
    bg_recompute_order recompute_order;
    bg_output_mode output_mode;
    uint32_t output_period;                   /* EVERY_N */
    const bg_output_request *output_requests; /* further forms of outputs */
    uint32_t output_request_count;
    bool requests_only; /* return the requests alone; inference leaves out what they do not need */
    bool ipu_limits;    /* the limits of IPU software are errors instead of warnings */
    bool
        auto_round_devices; /* ipu_limits: take the next power of two of devices, with idle ones, instead of an error */
    double wait_limit_s;    /* a wait longer than this ends the run with an error; default 120 */
    bool trace;             /* record every action */
    uint32_t trace_events;  /* events kept for each device; default 65536 */
    bg_kernel_policy kernels;
    /* In which linear layers and matrix products keep the sums of operands in float16 or bfloat16: BG_FLOAT32 (default;
     * the same as BG_DTYPE_NONE), or BG_FLOAT16 or BG_BFLOAT16, which mean the same: the sum so far is rounded to the
     * operands' own type after each block of at most 256 terms (float16 may end at infinity then, bfloat16 does not).
     * Products of float32 take no notice, nor do convolutions and attention. */
    bg_dtype partials;
    bool no_fusion;    /* leave ops as written */
    bool compile_only; /* the plan is to be looked at: it is made as ever, and a session of it is an error */
    /* A folder, made if it is not there, in which the remote stores of a session are files that are mapped into memory
     * instead of memory of the process. They keep weights, optimiser state and step from one session to the next that
     * has the same plan (bg_session_flush). A file that is foreign, damaged (in its
     * length, its first page or the index; the values have no checksum, which a checkpoint's have) or in use is an
     * error of the session, never used. Which values are remote, `locations` say. NULL or "": none. */
    const char *memmap_dir;
    bg_memmap_mode memmap_mode;
    bool log_cycles; /* tells the log, as BG_LOG_INFO, the cycles of each run; see bg_session_cycles */
    /* A folder in which plans are kept: who asks for the same plan again (graph, options, library, kind of processor)
     * gets it from there, many times faster. Processes may share it. A file that is damaged or foreign is not used,
     * with a note for the log; nor is a folder that cannot be written an error. Files are never deleted. NULL or "":
     * none. */
    const char *cache_dir;
    /* A folder, made if it is not there, with the file brigade.log: each message that `log` is told is added as a line
     * with time (UTC) and level, and of each plan that is made its stages, memory and timetable. NULL or "": none. A
     * file that cannot be written is an error of the plan; what fails to be written later is lost. */
    const char *log_dir;
    bg_log_function log; /* NULL: silent */
    void *log_user;
} bg_options;

BG_API bg_options bg_options_defaults(void);
/* Everything that is wrong with the options by themselves, a line each, with reason and remedy: what a plan would be
 * refused for before its graph is looked at. malloc'ed; "" when there is nothing. */
BG_API bg_status bg_options_problems(const bg_options *options, bool training, char **out_text, bg_error *error);

/* "pipelined" and the like; -1 / false when there is no such name. */
BG_API const char *bg_strategy_name(bg_strategy strategy);
BG_API bool bg_strategy_find(const char *name, bg_strategy *out);
/* "none", "stage", "checkpoints", "fraction", "auto"; "interleaved", "then". */
BG_API const char *bg_recompute_name(bg_recompute recompute);
BG_API bool bg_recompute_find(const char *name, bg_recompute *out);
BG_API const char *bg_recompute_order_name(bg_recompute_order order);
BG_API bool bg_recompute_order_find(const char *name, bg_recompute_order *out);
/* "mean", "sum", "mean-running"; "default", "mean", "sum". */
BG_API const char *bg_accumulation_name(bg_accumulation accumulation);
BG_API bool bg_accumulation_find(const char *name, bg_accumulation *out);
BG_API const char *bg_replica_reduction_name(bg_replica_reduction reduction);
BG_API bool bg_replica_reduction_find(const char *name, bg_replica_reduction *out);
/* "consecutive", "orthogonal", "all", "none". */
BG_API const char *bg_grouping_name(bg_grouping grouping);
BG_API bool bg_grouping_find(const char *name, bg_grouping *out);
BG_API const char *bg_output_mode_name(bg_output_mode mode);
BG_API bool bg_output_mode_find(const char *name, bg_output_mode *out);

/* ---- optimisers ---- */

typedef enum bg_optimiser_kind {
    BG_SGD = 0,
    BG_ADAM,
    BG_ADAMW,
    BG_ADAMAX,
    BG_RMSPROP,
    BG_LAMB,
    BG_ADAGRAD,
    BG_ADADELTA
} bg_optimiser_kind;

/* Equations and defaults are torch.optim's; but AdaMax (Kingma and Ba, 2014) adds epsilon to the largest gradient when
 * it divides by it, as PopART does, where torch keeps it in the state; and LAMB (You et al., 2019) is not torch's:
 * AdamW's direction, as long as the learning rate times the parameter's norm. All numbers but velocity_scaling may be
 * changed between runs (bg_session_set_optimiser), the yes and no may not. */
typedef struct bg_optimiser {
    bg_optimiser_kind kind;
    double learning_rate;
    double weight_decay; /* 0, AdamW and LAMB 0.01: theirs is of the weights, the others' of the gradient (L2) */
    double momentum;     /* SGD, RMSProp */
    double dampening;    /* SGD */
    bool nesterov;       /* SGD; needs momentum > 0 and dampening 0 */
    /* SGD as PopART's combined variant has it, which needs momentum > 0: the velocity v holds the change itself, times
     * velocity_scaling (above 0; 1): v = momentum v + (1 - dampening) scaling g from v = 0, and the weights change by
     * learning rate / scaling times v. So the first gradient is dampened too, where torch's is not. Without `combined`
     * the scaling is ignored, with a warning. */
    bool combined;
    double velocity_scaling;
    double beta1, beta2; /* the Adams: 0.9, 0.999 */
    double alpha;        /* RMSProp, AdaDelta: the share of their means that stays: 0.99, 0.9 */
    double epsilon;      /* all but SGD: 1e-8; AdaGrad 1e-10, AdaDelta 1e-6 */
    /* LAMB: the weights' norm, by which the length of an update grows, counts for no more: 65500; INFINITY: no bound */
    double max_weight_norm;
    bool uncorrected; /* the Adams: first and second moment as they are, not divided by 1 - beta^t */
    bool centred;     /* RMSProp: divides by the gradient's deviation: the mean of squares less the mean's square */
    bool tf_variant;  /* RMSProp as TensorFlow has it: epsilon inside the root, the learning rate inside the momentum */
    /* weight_decay is for parameters of two or more dimensions: not for biases and norms. */
    bool decay_matrices_only;
} bg_optimiser;

BG_API bg_optimiser bg_sgd(double learning_rate);
BG_API bg_optimiser bg_adam(double learning_rate);
BG_API bg_optimiser bg_adamw(double learning_rate);
BG_API bg_optimiser bg_adamax(double learning_rate);
BG_API bg_optimiser bg_rmsprop(double learning_rate);
BG_API bg_optimiser bg_lamb(double learning_rate);
BG_API bg_optimiser bg_adagrad(double learning_rate);  /* Duchi et al., 2011; 0.01 is usual */
BG_API bg_optimiser bg_adadelta(double learning_rate); /* Zeiler, 2012, whose steps have their own length: 1 is usual */
/* From a text: a name (sgd, adam, adamw, adamax, rmsprop, lamb, adagrad, adadelta), and what differs from its defaults:
 * "adamw", "sgd:momentum=0.9,nesterov", "rmsprop:alpha=0.9,centred,tf_variant". The words are the fields' names. `out`
 * is untouched when the text is wrong; the numbers' ranges are bg_optimiser_validate's. */
BG_API bg_status bg_optimiser_parse(const char *text, double learning_rate, bg_optimiser *out, bg_error *error);
BG_API const char *bg_optimiser_name(bg_optimiser_kind kind); /* "adamw"; NULL for none of the kinds */
/* Every number in its range, with the reason and the remedy. */
BG_API bg_status bg_optimiser_validate(const bg_optimiser *optimiser, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
