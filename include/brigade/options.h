/*
 * options.h: how a graph is trained or run: strategy, stages, batches, memory, cores. One struct holds all options.
 * bg_options_defaults fills it, and the library checks it as a whole when a plan is made.
 *
 * Threads: one thread at a time writes a struct of options; functions that only read it may be called by any number of
 * threads.
 *
 * Errors: BG_ERROR_INVALID, with a message that lists every value that is out of range or contradicts another value;
 * BG_ERROR_MEMORY.
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
    /* Stages on devices, one micro-batch at a time. Actions of several devices may overlap unless `strict` is set. */
    BG_STRATEGY_SHARDED,
    BG_STRATEGY_PIPELINED, /* stages on devices, micro-batches overlap in the order of the schedule */
    /* Phases of stages in turn: all micro-batches of a step pass through one phase before the next begins. */
    BG_STRATEGY_PHASED
} bg_strategy;

/* How blocks become stages when `stages` is NULL. */
typedef enum bg_auto_stage {
    /* Neighboring blocks on one device form a stage; without device ids each block is a stage. */
    BG_AUTO_STAGE_SAME_AS_IPU = 0,
    /* Ops before the first block, if any, form stage 0. Each block then begins the next stage, except that neighboring
     * blocks on one device still form one stage. */
    BG_AUTO_STAGE_INCREMENT
} bg_auto_stage;

/* What the planner assumes about a device. Devices are virtual, so these are estimates and budgets. */
typedef struct bg_device_model {
    double speed;        /* relative to the other devices; above 0 */
    size_t memory_bytes; /* budget; 0: options.memory.device_memory_bytes */
} bg_device_model;

/* Measured times of a block for one micro-batch, which replace the estimates. */
typedef struct bg_block_cost {
    const char *name;
    double forward_ns, backward_ns, weights_ns; /* weights: the part of the backward pass that no other block needs */
} bg_block_cost;

/*
 * How the gradient of an update is averaged. With a mean, the gradient is that of the loss of the whole batch (all
 * micro-batches of all replicas), however the batch is split. The terms of the loss are averaged in two ways:
 *
 * - a mean over counted elements (bg_cross_entropy with BG_LOSS_MEAN) is averaged over the counted elements of all
 *   micro-batches of the update. If the count is 0, the term adds nothing and the other terms are unchanged;
 * - every other term is averaged over the micro-batches. For a mean over samples the result is the mean over the batch;
 *   a term that does not depend on the batch (an L2 penalty of weights) does not change.
 *
 * Terms may be scaled, negated, cast, and multiplied or divided by values that do not depend on the data (constants,
 * scalar inputs, functions of parameters). In a loss of several terms, the means over counted elements that have the
 * same labels form one group for each set of labels, and all other terms form one more group. Each group has separate
 * accumulators, and the backward pass through shared ops runs once for each group. If there is only one group, or if an
 * update has one micro-batch, the backward pass runs once. A mean over counted elements inside another function, such
 * as its square, is refused (BG_ERROR_UNSUPPORTED): the value for the whole batch is not an average of values of
 * micro-batches. Batch norm always normalizes over a micro-batch.
 *
 * Outputs, including the loss, are those of micro-batches, and are not averaged like gradients.
 */
typedef enum bg_accumulation {
    BG_ACCUMULATE_MEAN = 0,
    BG_ACCUMULATE_SUM, /* the sum of the micro-batches' gradients; means in a loss are over one micro-batch */
    /* The same mean, kept as a running mean s for each group of terms. A micro-batch with gradient g and c counted
     * elements changes s to s n/(n+c) + g c/(n+c), where n is the number of elements counted before (with equal counts
     * s f/(f+1) + g/(f+1) after f micro-batches). |s| never exceeds the largest |g| of a replica's micro-batches. */
    BG_ACCUMULATE_MEAN_RUNNING
} bg_accumulation;

/* Which forward values are stored for the backward pass; the other values are recomputed, by the same ops with the same
 * random numbers, so results do not change. Inputs of a stage, marked values (bg_graph_checkpoint) and results of ops
 * that change variables (batch norm) are always stored. */
typedef enum bg_recompute {
    BG_RECOMPUTE_NONE = 0, /* everything that the backward pass reads is stored */
    /* Only values that are always stored. The stage of the loss, whose backward pass follows at once, stores everything
     * unless values in it are marked. */
    BG_RECOMPUTE_STAGE,
    BG_RECOMPUTE_CHECKPOINTS, /* like STAGE in stages with marked values; other stages store everything */
    /* Each stage stores fewer bytes, by the share recompute_fraction. Ops that take the least time for each byte saved
     * are recomputed first. */
    BG_RECOMPUTE_FRACTION,
    BG_RECOMPUTE_AUTO /* recomputes as little as device_memory_bytes permits */
} bg_recompute;

typedef enum bg_recompute_order {
    BG_RECOMPUTE_INTERLEAVED = 0, /* each op runs again right before the backward ops that need it */
    BG_RECOMPUTE_THEN             /* the recomputed ops of a stage run together in a separate action (R), which may run
                                     while the device waits for the gradient; their results live until the backward
                                     action (B) ends */
} bg_recompute_order;

/* How the replicas' gradients are combined. The gradients are always summed once for each update. */
typedef enum bg_replica_reduction {
    BG_REPLICAS_LIKE_ACCUMULATION = 0, /* the sum of sums, or the mean of means */
    BG_REPLICAS_MEAN, /* sums are divided by the number of replicas; means become the mean over all counted elements */
    BG_REPLICAS_SUM   /* means become the mean over all counted elements, times the number of replicas */
} bg_replica_reduction;

/* When the replicas' gradients are summed. Micro-batches are always added up first, replica by replica, so all choices
 * give bit-identical results. */
typedef enum bg_reduce_time {
    /* The gradients of a stage are summed as soon as its last backward pass has completed them, while the rest of this
     * pass runs. If each replica updates only a piece, a remote store keeps only this piece of the sums. With phases,
     * the stage's part of the gradients' norm is computed at this time too. */
    BG_REDUCE_IN_BACKWARD = 0,
    BG_REDUCE_IN_UPDATE, /* with the update */
    /* Like IN_BACKWARD, but with phases, gradients that would leave the device after their phase stay until the
     * backward of the next phase has run, so that their sum overlaps with this backward. */
    BG_REDUCE_BESIDE
} bg_reduce_time;

/* Which of R replicas form groups of k each; m is R / k. */
typedef enum bg_grouping {
    BG_GROUPING_CONSECUTIVE = 0, /* {0 .. k-1}, {k .. 2k-1}, ... */
    BG_GROUPING_ORTHOGONAL,      /* {0, m, 2m, ...}, {1, m+1, ...}, ... */
    BG_GROUPING_ALL,             /* one group of all replicas; not for inputs */
    BG_GROUPING_NONE             /* one group for each replica: k is 1 */
} bg_grouping;

/* How the element type is chosen in which a parameter's gradients are accumulated, summed over replicas and passed to
 * the optimizer. */
typedef enum bg_accumulator_type {
    BG_ACCUMULATOR_DEFAULT = 0, /* float32 for parameters of 16 bits, otherwise the parameter's type */
    BG_ACCUMULATOR_SAME,        /* the parameter's type */
    BG_ACCUMULATOR_GIVEN,       /* options.numerics.accumulator_dtype for all parameters */
    BG_ACCUMULATOR_CALLBACK     /* options.numerics.choose_accumulator for each parameter */
} bg_accumulator_type;

/* The micro-batches from which a run returns the values of an output, for each replica. */
typedef enum bg_output_mode {
    BG_OUTPUT_DEFAULT = 0, /* final in training, all in inference */
    BG_OUTPUT_FINAL,       /* the last micro-batch of the last device iteration */
    BG_OUTPUT_ALL,    /* every micro-batch, in the order [device iteration][accumulation][replica]; canonical_reductions
                         changes the order */
    BG_OUTPUT_SUM,    /* the sum over all micro-batches of the run, added in their order, for each replica */
    BG_OUTPUT_EVERY_N /* every micro-batch of device iterations n, 2n, ... (counted from 1) */
} bg_output_mode;

/* An output mode for one output, instead of the common mode. A request may be for a second form of the same output, or
 * for an anchor: the result of any op of the forward graph, even if the result is not marked as an output. If the op is
 * fused with others, the result is computed separately, so the request does not change other results. Values of the
 * backward pass cannot be requested. */
typedef struct bg_output_request {
    const char *output; /* the name of an output of the graph, or of an op (NAME.1 for its second result) */
    const char *name;   /* name of the output in the session; NULL: the same name */
    bg_output_mode mode;
    uint32_t period; /* EVERY_N: n, a divisor of device_iterations */
} bg_output_request;

/* ---- where tensors live ---- */

typedef enum bg_location_class {
    BG_LOCATION_ACTIVATIONS = 0, /* stashes: values that one action keeps for a later one */
    BG_LOCATION_WEIGHTS,         /* parameters and buffers */
    BG_LOCATION_STATE,           /* state of the optimizer */
    BG_LOCATION_ACCUMULATORS,    /* accumulators of gradients */
    BG_LOCATION_COUNT
} bg_location_class;

/* Where values are kept. The place does not change results. Remote values live in a remote store (the host's memory)
 * and are on the device only while they are used: optimizer state for one variable at a time, other values as
 * phase_liveness says. Loads and stores overlap with computation. */
typedef enum bg_place {
    BG_PLACE_DEFAULT = 0, /* REMOTE with the phased strategy, as in PopTorch; otherwise DEVICE */
    BG_PLACE_DEVICE,
    BG_PLACE_REMOTE
} bg_place;

typedef struct bg_tensor_location {
    bg_place place;
    bool sharded; /* sharded over the replicas: each replica keeps a piece of ceil(elements / replicas) elements */
    size_t minimum_elements_remote;  /* smaller tensors stay on the device; default 2 */
    size_t minimum_elements_sharded; /* smaller tensors stay whole; default 8192 */
    /* Loads a value right before its use. False: loads it earlier, while the device works on another stage (optimizer
     * state: while the preceding variable is updated; activations: before the preceding action that reads such values),
     * which needs more device memory, but loads overlap with work. Default true for state, as in IPU software. */
    bool on_demand;
} bg_tensor_location;

/* A location for the tensors whose name matches `pattern`, instead of the location of their class. If several rules
 * match, the last one applies. */
typedef struct bg_location_rule {
    uint32_t classes;    /* bits 1u << bg_location_class */
    const char *pattern; /* pattern of a variable's name (for activations, of a value's name); `*` matches any text, `?`
                            one character */
    bg_tensor_location location;
} bg_location_rule;

/* How long remote weights, accumulators and activations stay on a device that has several stages. */
typedef enum bg_phase_liveness {
    BG_LIVE_ALWAYS = 0,                    /* from the first use in a step to the last */
    BG_LIVE_OFF_CHIP_AFTER_FWD,            /* off the device between a stage's forward pass and its backward pass */
    BG_LIVE_OFF_CHIP_AFTER_FWD_NO_OVERLAP, /* the same, but loads do not overlap with the previous phase */
    BG_LIVE_OFF_CHIP_AFTER_EACH_PHASE /* off the device while the device works on another stage; loads do not overlap */
} bg_phase_liveness;

/* Which processors a session's worker threads run on. All workers start with the affinity of the thread that creates
 * the session, and never run outside it. Results do not depend on the placement. */
typedef enum bg_pinning {
    BG_PINNING_NONE = 0, /* the system places workers, and moves them away from busy processors */
    /* Worker i is bound to the i-th allowed processor to which no other thread is bound. All processors of a core come
     * before those of the next core. */
    BG_PINNING_COMPACT,
    /* Workers are bound evenly over the allowed cores, one on each core before any core gets a second one. */
    BG_PINNING_SPREAD
} bg_pinning;

/* How a session uses files in options.files.memmap_dir. */
typedef enum bg_memmap_mode {
    BG_MEMMAP_CONTINUE = 0, /* resumes from the files; creates missing files */
    BG_MEMMAP_RENEW,        /* the same, but replaces files from which it cannot resume instead of failing: for programs
                               that set all weights next, as from a checkpoint */
    BG_MEMMAP_READ_ONLY /* resumes from the files and leaves them untouched: changes are kept in memory. When there are
                           no files, remote stores are in memory */
} bg_memmap_mode;

/* The types in which a float32 graph is computed and kept. Lightning's names ("32", "bf16-mixed", "16-mixed",
 * "bf16-true", "16-true") are the values of the option `precision` by name. The strings "32-true", "16" and "bf16" are
 * also accepted for the first three.
 *
 * Mixed: products (linear layers, matrix products, convolutions, attention, recurrences) have operands and results of
 * 16 bits. Losses, sums, exponentials, logarithms, powers, reciprocals, and tan, asin, acos, sinh and cosh use
 * float32, and so do the caller's own ops and ops that change a variable, except batch norms. Any other op uses the
 * widest type of its operands. Parameters and constants use the type of the other operands, and inputs of the graph are
 * float32. Parameters, optimizer state, inputs and outputs stay float32. If loss_scaling is 1, BG_PRECISION_16_MIXED
 * also turns auto_loss_scaling on. True: computes like mixed, but parameters are kept in 16 bits too, as with
 * bg_graph_set_parameter_dtype. Weights that are set, read and saved then have that type.
 *
 * Values of other types than float32 keep their type. */
typedef enum bg_precision {
    BG_PRECISION_32 = 0,
    BG_PRECISION_BF16_MIXED,
    BG_PRECISION_16_MIXED,
    BG_PRECISION_BF16_TRUE,
    BG_PRECISION_16_TRUE
} bg_precision;

/* Types in which inference keeps the matrices of linear layers and matrix products: the types of the model, or float32
 * parameters rounded to 16, 8 or 4 bits when a session gets their values. In bfloat16 a weight changes by at most half
 * a unit in the last place, and products with x in bfloat16 are bit-identical to products with the matrix cast to
 * bfloat16. In 8 and 4 bits, each block of 32 weights of an output feature has a scale of 16 bits, so a weight
 * takes 8.5 or 4.5 bits on the devices. The weight becomes an integer from -128 to 127, or from -8 to 7, times the
 * scale, and changes by at most half the scale (bg_weights_quantized). Other products multiply the rounded values in
 * float32, in the order of float32 products. A table that is both an embedding and the matrix of a product is rounded
 * for both uses. Parameters that are not rounded are vectors, tables that are only embeddings, sections
 * (bg_graph_section_parameter), matrices that other ops read or that are outputs, and matrices that would not become
 * smaller.
 *
 * A session rounds a parameter again when its value has changed. Refused: training, meshes with tensor axes, several
 * ranks, readers (bg_session_create_reader), files.memmap_dir, and graphs without a matrix to round.
 *
 * CAST gives the results of FLOAT bit by bit. A float32 matrix that products in bfloat16 read (bg_cast,
 * numerics.precision) is cast when a session gets it, instead of in each run, and has the layout of BFLOAT16. Other ops
 * read the float32 matrix. Readers accept CAST; in the other cases in which the other types are refused, CAST has no
 * effect. Generators (bg_generator_create) use CAST if the type is FLOAT. */
typedef enum bg_weights_type {
    BG_WEIGHTS_FLOAT = 0,
    BG_WEIGHTS_INT8,
    BG_WEIGHTS_INT4,
    BG_WEIGHTS_BFLOAT16,
    BG_WEIGHTS_CAST
} bg_weights_type;

/* A loss scale that is options.numerics.loss_scaling at first and changes between updates, as in PopART. The library
 * counts elements of the parameters' scaled gradients whose absolute value is above bin_edge x 65504 (the largest
 * float16), for gradients of any type, in each micro-batch of each replica. If means are weighted by counts
 * (bg_accumulation), the counted gradients are those of the sum over the samples instead of the mean. After each
 * `period` updates, if the share of counted elements in these updates is above the threshold, the scale is multiplied
 * by `decrease`, otherwise by `increase`. If an accumulated gradient is not finite, the update is skipped (weights and
 * optimizer state do not change; only bg_session_step counts the update) and the scale decreases at once. Every stage's
 * update waits for the gradients of all stages. The scale is the variable "loss.scale" (float32) of the weights, which
 * checkpoints keep. Automatic loss scaling needs means over micro-batches and over replicas. */
typedef struct bg_auto_loss_scaling {
    bool enabled;
    bool output;      /* training has one more output, `loss_scale`: the scale of each update, a float32 scalar */
    double bin_edge;  /* above 0, up to 1; default 0.125 */
    double threshold; /* 0 to below 1; default 1e-7 */
    uint32_t period;  /* updates whose counts are added up before the scale is adapted; default 1 */
    double increase, decrease; /* default 2 and 0.5; scaling by powers of two rounds nothing */
    double minimum, maximum;   /* bounds of the scale; default 1 and 2^24 */
} bg_auto_loss_scaling;

/* The memory assumed for a device without a budget if a share of its memory is needed: that of a Mk2 IPU. */
#define BG_NOMINAL_MEMORY_BYTES ((size_t)900 << 20)

typedef enum bg_log_level { BG_LOG_ERROR = 0, BG_LOG_WARNING, BG_LOG_INFO, BG_LOG_DEBUG } bg_log_level;
typedef void (*bg_log_function)(void *user, bg_log_level level, const char *text);

/* How work is divided among devices, in which order it runs, and on how many processors. */
typedef struct bg_execution_options {
    bg_strategy strategy;
    /* PIPELINED: name of a schedule generator (bg_schedule_generator_find accepts any case and other systems' names).
     * NULL: "interleaved", or "grouped" in training if stages share devices (bg_plan_schedule_name returns the choice).
     * "auto" searches for the order that takes the least time by the stages' costs, within the memory budgets. */
    const char *schedule;
    /* Training: the backward pass of the stage with the loss is a separate position of the pipeline, one step after its
     * forward pass, as in TensorFlow for IPU. False: the backward pass follows its forward pass at once, as in
     * PopTorch. With "grouped", M micro-batches on N stages then take M + 2N - 1 steps instead of M + 2N - 2, and each
     * stage has one more micro-batch in flight. With PHASED the last phase does all forwards, then all backwards.
     * "auto" also uses this option; other schedules ignore it. Results are bit-identical. */
    bool separate_loss;
    /* For debugging: the devices of a replica run one action at a time. Each action ends, together with the loads and
     * stores that it starts, before the next action on any device begins, also across steps. Results are bit-identical.
     * The option works with SHARDED, the schedule "sequential" and any plan on one device, and is an error with other
     * schedules. Replicas still run in parallel. */
    bool strict;
    /* Measured costs, one for each stage (bg_profile_measure); NULL: estimates from the ops. The costs determine
     * predicted times and, with "auto", the order; they never change results. Every schedule accepts costs that include
     * W in B (weights_ns is 0), and costs that give W separately. */
    const bg_stage_cost *stage_costs;
    uint32_t stage_cost_count;
    double message_bytes_per_ns; /* with stage_costs: speed of messages between devices; 0: messages take no time */
    /* The blocks of each stage, in order: "B1,B2|B3,B4". A stage may have a device: "B1|B2@0". An & joins stages that
     * run at the same time and share neither data nor weights: "B1|B2&B3|B4". A semicolon separates phases (PHASED):
     * "B1,B2|B3;B4|B5". "auto:4": four stages that minimize the longest stage by cutting at block borders; "auto-ops:4"
     * cuts inside blocks too. NULL: auto_stage decides. */
    const char *stages;
    bg_auto_stage auto_stage; /* when stages is NULL */
    /* The device of each stage. Devices may repeat; neighboring stages on one device stay separate. Devices below
     * the highest number that have no stage are idle; up to 64 of them give a warning, more are an error. NULL: the
     * device after @, or the device of the stage's blocks, or the device that the schedule assigns. */
    const uint32_t *device_mapping;
    uint32_t device_mapping_count;
    uint32_t device_count; /* devices of one replica; 0: the number that the stages and the schedule need */
    bool phases_parallel;  /* PHASED: even phases run on one group of devices and odd phases on another one; false: all
                              phases run on one group */
    const bg_device_model *devices;   /* NULL: all devices are equal */
    uint32_t device_model_count;      /* one for each device */
    const bg_block_cost *block_costs; /* NULL: estimates */
    uint32_t block_cost_count;
    uint32_t device_iterations; /* training: weight updates in a run; inference: micro-batches in a run. At least 1 */
    uint32_t gradient_accumulation; /* micro-batches in a weight update; 1 in inference */
    /* Worker threads. 0: one for each processor in the affinity of the thread that creates the session, but no more
     * than the kernels' parts can use. If there is one worker, the thread that calls bg_session_run does its work, and
     * the session starts no thread for it, unless the worker is pinned or the graph has custom ops (whose kernels may
     * hang). */
    uint32_t cores;
    /* Default none: the system places the threads of sessions and processes. Workers are bound to processors to which
     * no other thread of the machine is bound, as long as there are such processors. Two sessions or processes that pin
     * workers therefore do not share a processor while another one is free. A session that needs all allowed processors
     * uses them all. With more workers than allowed processors no worker is bound. I/O threads are never bound. */
    bg_pinning pinning;
    /* The order of processors for pinned workers; NULL: by processor number. The function is called while a session is
     * created. `cpus` holds the processors that workers may use (the system's numbers, ascending); the function sorts
     * them into the order in which workers get them, according to `pinning`. It returns the number of processors at the
     * beginning that are on different cores; 0: not known. bg_topology_order (topology.h) is such a function, which
     * reads the topology of cores and caches. */
    uint32_t (*processor_order)(void *user, bg_pinning pinning, uint32_t *cpus, uint32_t cpu_count);
    void *processor_order_user;
    /* A callback that provides threads of the caller for the workers and I/O threads of a session, instead of new
     * threads. It is called while a session is created, once for each thread. It makes a thread call
     * function(argument), which returns when the session is destroyed (bg_session_destroy waits for this), and until
     * then the thread does nothing else. It returns false if it has no thread; creating the session then fails. An
     * infeed of the session needs one more thread until the infeed is destroyed. A checkpoint needs one more while it
     * is written; without this thread bg_checkpoint_save reads the file back in the calling thread, and
     * bg_checkpoint_finish fails. With this callback only the calling thread makes first values of weights. The caller
     * is responsible for the signals and the placement of these threads, so only BG_PINNING_NONE is allowed. A session
     * with one worker, without custom ops and without an I/O thread needs no thread (docs/strategies.md). NULL: the
     * session creates threads, in which all signals are blocked. */
    bool (*start_thread)(void *user, void (*function)(void *argument), void *argument);
    void *start_thread_user;
    int32_t io_threads; /* number of threads for loads and stores; 0: idle workers do them; -1 (default): one thread if
                           workers leave a processor free, otherwise none */
    bool ipu_limits;    /* the limits of IPU software are errors instead of warnings */
    /* With ipu_limits: rounds the number of devices up to a power of two, where the additional devices are idle,
     * instead of failing. */
    bool auto_round_devices;
    double wait_limit_s; /* a wait longer than this ends the run with an error; default 60 */
    bool compile_only;   /* the plan is only for inspection: creating a session of it is an error */
    /* Called every 0.1 s or more often while a plan is made. Returning true ends the compilation with
     * BG_ERROR_CANCELED. NULL: compilation cannot be stopped. */
    bg_stop_function stop;
    void *stop_user;
    /* The transport between processes that share the devices (brigade/transport.h): this process creates and runs only
     * the devices that the layout gives its rank. The transport must outlive the plan. NULL: all devices belong to this
     * process. */
    const struct bg_transport *transport;
    /* Which devices each rank has. Either an order of the axes "tensor", "stage" and "data", innermost first: the
     * devices are listed in this order, and each rank gets a contiguous range of almost equal length. Or a rank for
     * each device of each replica ("0,0,1,1"). NULL or "": "tensor,stage,data", which keeps the devices with the most
     * traffic in one rank. */
    const char *layout;
    /* For the program: the number of ranks for which it describes a plan (bg_plan_print_ranks) without running it; 0:
     * the actual number. The library does not read this field. */
    uint32_t planned_ranks;
} bg_execution_options;

/* Where values live, and for how long. */
typedef struct bg_memory_options {
    size_t device_memory_bytes; /* budget of each device; 0: unlimited */
    /* The share of a device's memory (of BG_NOMINAL_MEMORY_BYTES where it is unlimited) that the scratch of a matrix
     * product or convolution may use: one share for all devices, or one for each; at least 0. NULL: the scratch of the
     * fastest kernel. With a smaller share, fewer or smaller pieces are computed at the same time, but at least one of
     * the smallest size. Results do not change. Each share is rounded down to a number of bytes that is a power of two.
     * The weight gradient of a fused convolution and pool ignores this option. */
    const double *matmul_proportions;
    uint32_t matmul_proportion_count;
    bool offload_optimizer; /* has the effect of BG_PLACE_REMOTE in locations[BG_LOCATION_STATE].place */
    /* If STATE is sharded, each replica keeps and updates a piece of the state. If ACCUMULATORS are sharded, each
     * replica gets only the sum of its piece of the gradients; an optimizer with state then needs STATE sharded too. If
     * WEIGHTS are sharded (they must be remote), each replica's remote store keeps a piece of each parameter, a load
     * gets the pieces of all replicas, and each replica stores its updated piece without broadcasting it. If
     * ACTIVATIONS are sharded (they must be remote, on a mesh with tensor axes), the replicas along an axis, which have
     * the same activations, each keep a piece of them. */
    bg_tensor_location locations[BG_LOCATION_COUNT];
    const bg_location_rule *location_rules;
    uint32_t location_rule_count;
    bg_phase_liveness phase_liveness; /* default OFF_CHIP_AFTER_FWD; parallel phases: one of the first two */
    bg_recompute recompute;           /* training */
    double recompute_fraction;        /* FRACTION: 0 (no recomputation) to 1 */
    bg_recompute_order recompute_order;
    bool no_memory_check; /* a session may need more memory than the machine has free (bg_session_create) */
    /* The caller's allocator, which replaces the C library's; bg_allocator (base.h) describes its contract. The
     * allocator provides the memory of the plan and its compilation, of the arenas and remote stores of the sessions'
     * devices, of the sessions' infeeds, and of weights that a session makes itself. It must outlive the plan, the
     * sessions and these weights. docs/embedding.md lists memory that does not come from it. */
    void *(*allocate)(void *user, size_t alignment, size_t size_bytes);
    void (*release)(void *user, void *memory, size_t size_bytes);
    void *allocator_user; /* passed to both */
} bg_memory_options;

/* Copies of the model, and the groups of copies that get the same data. */
typedef struct bg_replicas_options {
    /* Number of copies of all stages. For a graph with a mesh (bg_graph_set_mesh) it is the number of all replicas:
     * data-parallel copies x tensor_1 x tensor_2, numbered as in mesh.h; the replicas of one copy of the model get the
     * same data. */
    uint32_t count;
    /* Number of devices of all replicas together; 0: the number that `count` replicas need. A value above 0 determines
     * the number of replicas: 8 devices are 4 replicas of a model on two devices, and 7 devices are an error. `count`
     * must then be 1, or that number of replicas. */
    uint32_t total_devices;
    /* Number of replicas that get the same data, which form a group: a run takes micro-batches for count /
     * input_group_size groups. */
    uint32_t input_group_size; /* a divisor of `count`; default 1; on a mesh, a group is the replicas of one copy of the
                                  model */
    bg_grouping input_grouping;
    bg_replica_reduction replica_reduction;
    bg_reduce_time reduce_time;
    /* Applies where a device would be idle during the sum of a stage's gradients. When at least this number of bytes of
     * the gradients, and at least an eighth of all of them, are final, these gradients are summed while the rest of the
     * backward pass runs. 0: all gradients are summed after the backward pass. Results do not change. */
    size_t reduce_bytes;
    /* Training: every bg_batch_norm of the graph takes its statistics over all data-parallel replicas
     * (bg_sync_batch_norm). Otherwise each replica uses its own statistics, and the weights get the running statistics
     * of replica 0. */
    bool synchronize_batch_norm;
} bg_replicas_options;

/* Number types, and the order of sums. */
typedef struct bg_numerics_options {
    bg_precision precision;
    bg_weights_type weights_type; /* inference; default BG_WEIGHTS_FLOAT */
    bg_accumulation accumulation;
    /* Training: gradients, and the counts by which they are averaged, are added up in one tree over the N micro-batches
     * of an update, where N = data-parallel replicas x gradient_accumulation. For the same N micro-batches, weights and
     * losses are therefore bit-identical for every such pair of factors. The tree splits n micro-batches at the largest
     * power of two below n. Replica r has gradient_accumulation micro-batches, from number r x gradient_accumulation
     * on. Arrays of inputs, and of outputs in the modes ALL and EVERY_N, are ordered [device
     * iteration][replica][accumulation], which is the order of the whole batch. Rows of outfeeds still have a dimension
     * for replicas.
     *
     * With several data-parallel replicas gradient_accumulation must be a power of two. Refused: a running mean, a
     * replica_reduction that differs from the accumulation, groups of replicas with the same data (except those of a
     * mesh), ops that change variables in the forward pass (such as batch norm, whose statistics differ between
     * replicas) and, with several replicas, LAMB with sharded state. A device holds ceil(log2(gradient_accumulation)) -
     * 1 more sums of each gradient. If gradient_accumulation is above two, there is one more pass over each gradient,
     * because the op that makes the gradient cannot add it to an accumulator. */
    bool canonical_reductions;
    bg_accumulator_type accumulator_type;
    bg_dtype accumulator_dtype; /* for BG_ACCUMULATOR_GIVEN: float32, bfloat16 or float16 */
    /* For BG_ACCUMULATOR_CALLBACK: called while a plan is made, with a parameter's name and type; returns a float
     * type. */
    bg_dtype (*choose_accumulator)(void *user, const char *name, const bg_type *type);
    void *choose_accumulator_user;
    /* If accumulated gradients have another type than the parameter, they are cast to the type in which the optimizer
     * computes; default true. False: such accumulators are an error. */
    bool cast_gradients;
    /* Gradients are multiplied by m / max(norm, m), where m is this number and the norm is that of all parameters'
     * final gradients together (accumulated, scaled, summed over replicas); 0 or INFINITY: no limit. A limit forces a
     * barrier between the last backward pass and the update. */
    double max_gradient_norm;
    /* Each element of the final gradients is clamped to -v .. v, where v is this number, after max_gradient_norm is
     * applied; 0 or INFINITY: no clamping. NaN stays NaN. */
    double max_gradient_value;
    /* Scales the loss gradient; gradients are unscaled before the update. Small gradients then stay in the range of a
     * narrow type. The scale is from 2^-64 to 2^64, default 1. A power of two does not change results as long as no
     * gradient leaves the range of its type. */
    double loss_scaling;
    bg_auto_loss_scaling auto_loss_scaling; /* default off */
    /* Training: before an update all replicas and ranks agree on whether the losses of its micro-batches are finite. If
     * a loss is infinite or NaN, weights and optimizer state change neither in this update nor in later updates of the
     * same run. The run fails with BG_ERROR_NOT_FINITE: bg_session_execute returns the number of iterations before that
     * update, the outputs are available, and the session can be saved or run again. Variables that the forward pass
     * changes, such as the running statistics of a batch norm, keep their new values. A gradient that overflows under
     * auto_loss_scaling skips only its update, and training continues. Default off. The result of the check is sent to
     * other stages with the gradients, so the updates of all stages wait for the stage of the loss. */
    bool guard_loss;
    /* Types of the optimizer's moments for parameters that are not float64: BG_BFLOAT16, BG_FLOAT16, or float32
     * (BG_DTYPE_NONE or BG_FLOAT32). Squares of gradients often fall below the smallest float16, 6e-8, so do not keep
     * second moments in float16. */
    bg_dtype first_moment_dtype, second_moment_dtype;
    /* New weights and optimizer state of 16 bits are rounded up or down at random, so that the mean of many roundings
     * is the exact value. With rounding to nearest, updates of less than half a unit in the last place are lost. The
     * random number of an element is a function of seed, step, the parameter's name and the element, so it is the same
     * under every strategy and on all replicas. The option causes a warning if no weights or state are stored in 16
     * bits. */
    bool stochastic_rounding;
    uint64_t seed;
    bg_kernel_policy kernels;
    /* Type of partial sums in linear layers and matrix products with operands of float16 or bfloat16. The default is
     * BG_FLOAT32 (or BG_DTYPE_NONE). BG_FLOAT16 and BG_BFLOAT16 have the same effect: the partial sum is rounded to the
     * type of the operands after each block of at most 256 terms (a float16 sum may then overflow to infinity, a
     * bfloat16 sum does not). Products of float32, convolutions and attention ignore this type. */
    bg_dtype partials;
    bool no_fusion;          /* do not fuse ops */
    bool initialize_missing; /* inference: parameters that the weights lack are initialized from the seed, as in
                                training; false: creating the session fails */
} bg_numerics_options;

/* Folders for plans, remote memory and the log. */
typedef struct bg_files_options {
    /* A folder for the remote stores of a session, which are then files that are mapped into memory. The folder is
     * created if it is missing. The files keep weights, optimizer state and step for the next session with the same
     * plan (bg_session_flush). If a file belongs to another plan, is damaged or is in use, creating the session fails.
     * Damage is detected in a file's length, first page and index, but not in the values, which have no checksum
     * (unlike those of a checkpoint). `locations` decides which values are remote. NULL or "": no files. */
    const char *memmap_dir;
    bg_memmap_mode memmap_mode;
    /* A folder in which plans are cached. When the same plan (graph, options, library, kind of processor) is made
     * again, it is read from there, many times faster. Processes may share the folder. A damaged file, or one of
     * another plan, is not used, and the log gets a note; a folder that cannot be written is not an error. Files are
     * never deleted. NULL or "": no folder. */
    const char *cache_dir;
    /* A folder for the file brigade.log, created if it is missing. Each message that `log` gets is appended to the file
     * as a line with time (UTC) and level; the stages, memory and timetable of each plan are appended too. NULL or "":
     * no folder. If the file cannot be opened for writing, making the plan fails; lines that cannot be written later
     * are lost. */
    const char *log_dir;
} bg_files_options;

/* What a run returns and records. */
typedef struct bg_reporting_options {
    /* Training has an additional output, `gradient_norm`, a float32 scalar: the norm of all gradients before
     * max_gradient_norm is applied. The output has one value for each weight update, the same on all replicas. No
     * update waits for this output. */
    bool output_gradient_norm;
    bg_output_mode output_mode;
    uint32_t output_period;                   /* EVERY_N: n, a divisor of device_iterations */
    const bg_output_request *output_requests; /* additional forms of outputs */
    uint32_t output_request_count;
    bool requests_only;    /* return only the requests; inference drops ops that they do not need */
    bool trace;            /* record every action */
    uint32_t trace_events; /* events kept for each device; default 65536 */
    /* For inspecting the compiler: after the pass of this name, or after each pass ("all"), `dump` gets the result of
     * the pass as text: a graph, in later passes each device's order of actions, in the last ones the devices'
     * programs. bg_plan_pass_at lists the passes. Such a plan is compiled even when cache_dir has it. NULL: no dump. */
    const char *dump_after;
    void (*dump)(void *user, const char *pass, const char *text); /* `text` is valid during the call. NULL: no dump */
    void *dump_user;
    bool log_cycles;     /* logs the cycles of each run as BG_LOG_INFO; see bg_session_cycles */
    bg_log_function log; /* NULL: silent */
    void *log_user;
    /* Gets the progress of long work on the plan, and can cancel the work. Each kind of work begins at 0 and has a
     * separate `total`:
     *   - making a plan: called before each pass (`what` is its name); the unit is passes. A second attempt to fit a
     *     budget begins again at 0. If the plan comes from the cache, there is no call. execution.stop is called within
     *     long passes too.
     *   - creating a session: called before each step; the unit is bytes. Steps are the memory of each device (`what`
     *     is "memory of device 0"), each new file of remote buffers (its name), each first value of a weight, and each
     *     copy of a value to the devices (the weight's name). The callback must not use the session's weights.
     *   - bg_profile_measure: called before each run ("measure"); the unit is runs.
     *   - bg_profile_write and bg_profile_write_trace: called before each step, file and device, each of which is one
     *     unit.
     * The callback and its `user` must outlive the plan. NULL: no callback. */
    bg_progress_function progress;
    void *progress_user;
} bg_reporting_options;

typedef struct bg_options {
    /* sizeof(bg_options) in the calling program, set by bg_options_defaults. A struct that was not initialized, or that
     * comes from a program compiled for another release, is refused. */
    size_t struct_bytes;
    bg_execution_options execution;
    bg_memory_options memory;
    bg_replicas_options replicas;
    bg_numerics_options numerics;
    bg_files_options files;
    bg_reporting_options reporting;
} bg_options;

/* Writes the defaults into `options`, a struct of `struct_bytes` bytes. If another release has another size, the
 * function fills the fields that fit, and the struct is refused when it is used. This function is for bindings; C
 * programs use bg_options_defaults. */
BG_API void bg_options_init(bg_options *options, size_t struct_bytes);

static inline bg_options bg_options_defaults(void)
{
    bg_options options;

    bg_options_init(&options, sizeof options);
    return options;
}
/* Lists all errors in the options that do not depend on the graph, one on each line, with reason and remedy. The text
 * is malloc'ed, and "" if there are no errors. */
BG_API bg_status bg_options_problems(const bg_options *options, bool training, char **out_text, bg_error *error);

/* Returns the name of a value of an enumerated option: "pipelined" for "strategy" and BG_STRATEGY_PIPELINED. These
 * names are used where options are set by name. NULL: the option does not exist (docs/options.md lists the names), is
 * not enumerated, or has no such value. */
BG_API const char *bg_option_value_name(const char *option, int value);
/* Sets *out to the value that `word` names. Returns false, and leaves *out unchanged, if the option has no such
 * value. */
BG_API bool bg_option_value_find(const char *option, const char *word, int *out);

/* ---- optimizers ---- */

typedef enum bg_optimizer_kind {
    BG_SGD = 0,
    BG_ADAM,
    BG_ADAMW,
    BG_ADAMAX,
    BG_RMSPROP,
    BG_LAMB,
    BG_ADAGRAD,
    BG_ADADELTA,
    BG_CUSTOM /* the caller's own: bg_custom */
} bg_optimizer_kind;

/* Indices of the numbers that a custom optimizer's update reads, in a float64 [BG_UPDATE_NUMBERS]. */
enum {
    BG_UPDATE_RATE = 0, /* learning rate times the parameter's factor (bg_graph_set_factors) */
    BG_UPDATE_DECAY,    /* weight_decay times the parameter's factor; 0 if decay_matrices_only excludes the parameter */
    BG_UPDATE_OWN,      /* bg_optimizer.numbers: this element and the next two */
    /* Not 0 if gradients overflowed (auto_loss_scaling) or a loss is not finite (guard_loss): the update must then
     * change nothing. */
    BG_UPDATE_SKIP = 5,
    /* The number of skipped updates. env->optimizer_step minus this number is the number of earlier updates. */
    BG_UPDATE_SKIPPED = 6,
    BG_UPDATE_NUMBERS = 8
};

/*
 * A custom optimizer. Its update is a custom op (docs/custom-ops.md) with these operands and no outputs:
 *
 *     parameter!, gradient, numbers float64 [BG_UPDATE_NUMBERS], scale (a float32 scalar), a state! for each name
 *
 * The op changes the operands marked ! in place (written_inputs is 1 without states, and 1 | 1 << 4, 1 | 3 << 4 or 1 |
 * 7 << 4 with one, two or three). The gradient has the parameter's shape and possibly another float type
 * (options.numerics.accumulator_type); the update must multiply it by the scale. States have the parameter's shape in
 * float32 (float64 for float64) and begin as zeros. Options and checkpoints treat these states like the state of other
 * optimizers, under the name `PARAMETER.STATE`. With sharded state, an op whose type has `is_elementwise_update` runs
 * on each replica's piece. Rule, op type and attributes must outlive the plans. Such plans are not cached in
 * options.files.cache_dir, and options.numerics.stochastic_rounding is refused.
 */
typedef struct bg_update_rule {
    const char *name;         /* letters, digits and _, at most 40; checkpoints record it: "custom:lion" */
    const bg_op_type *update; /* the op */
    const void *attributes;   /* the op's attributes, the same for every parameter; NULL if update->attributes_bytes
                                 is 0 */
    /* Names of the states, at most 3, sorted, separated by spaces: "exp_avg square"; NULL: no states. */
    const char *states;
} bg_update_rule;

/* Equations and defaults are those of torch.optim, with two exceptions. AdaMax (Kingma and Ba, 2014) divides by the
 * largest gradient plus epsilon, as in PopART, while torch keeps epsilon in the state. LAMB (You et al., 2019), which
 * torch does not have, scales AdamW's update to a length of the learning rate times the parameter's norm. All numbers
 * except velocity_scaling may be changed between runs (bg_session_set_optimizer); the flags may not. */
typedef struct bg_optimizer {
    size_t struct_bytes; /* set by bg_sgd, bg_adam and the like; see base.h */
    bg_optimizer_kind kind;
    double learning_rate;
    double weight_decay; /* default 0, for AdamW and LAMB 0.01. AdamW and LAMB apply it to the weights, other optimizers
                            add it to the gradient (L2) */
    double momentum;     /* SGD, RMSProp */
    double dampening;    /* SGD */
    bool nesterov;       /* SGD; needs momentum > 0 and dampening 0 */
    /* SGD in PopART's combined variant, which needs momentum > 0. The velocity v starts at 0 and is v = momentum v + (1
     * - dampening) s g for a gradient g, where s is velocity_scaling (above 0; default 1). The weights change by v
     * times learning rate / s. The first gradient is dampened too, unlike in torch. Without `combined` velocity_scaling
     * is ignored, with a warning. */
    bool combined;
    double velocity_scaling;
    double beta1, beta2; /* Adam, AdamW, AdaMax, LAMB; default 0.9 and 0.999 */
    double alpha;        /* decay of the running means of RMSProp (default 0.99) and AdaDelta (0.9) */
    double epsilon;      /* all except SGD; default 1e-8, AdaGrad 1e-10, AdaDelta 1e-6 */
    /* LAMB: upper bound of the parameter's norm, to which the length of an update is proportional; default 65500;
     * INFINITY: no bound */
    double max_weight_norm;
    bool uncorrected; /* Adam, AdamW, AdaMax, LAMB: moments are not divided by 1 - beta^t */
    bool centered;    /* RMSProp: divides by the gradient's standard deviation instead of its root mean square */
    bool tf_variant;  /* RMSProp as in TensorFlow: epsilon inside the root, the learning rate inside the momentum */
    /* weight_decay applies only to parameters of two or more dimensions, which excludes biases and norms. */
    bool decay_matrices_only;
    const bg_update_rule *rule; /* BG_CUSTOM */
    double numbers[3];          /* BG_CUSTOM: numbers that the update reads (BG_UPDATE_OWN) */
} bg_optimizer;

/* Writes the defaults of a kind of optimizer into `optimizer`, a struct of `struct_bytes` bytes; an invalid kind is
 * refused when the struct is used. This function is for bindings; C programs use the functions below. */
BG_API void bg_optimizer_init(bg_optimizer *optimizer, size_t struct_bytes, bg_optimizer_kind kind,
                              double learning_rate);

static inline bg_optimizer bg_optimizer_make(bg_optimizer_kind kind, double learning_rate)
{
    bg_optimizer optimizer;

    bg_optimizer_init(&optimizer, sizeof optimizer, kind, learning_rate);
    return optimizer;
}

static inline bg_optimizer bg_sgd(double learning_rate)
{
    return bg_optimizer_make(BG_SGD, learning_rate);
}

static inline bg_optimizer bg_adam(double learning_rate)
{
    return bg_optimizer_make(BG_ADAM, learning_rate);
}

static inline bg_optimizer bg_adamw(double learning_rate)
{
    return bg_optimizer_make(BG_ADAMW, learning_rate);
}

static inline bg_optimizer bg_adamax(double learning_rate)
{
    return bg_optimizer_make(BG_ADAMAX, learning_rate);
}

static inline bg_optimizer bg_rmsprop(double learning_rate)
{
    return bg_optimizer_make(BG_RMSPROP, learning_rate);
}

static inline bg_optimizer bg_lamb(double learning_rate)
{
    return bg_optimizer_make(BG_LAMB, learning_rate);
}

/* Makes AdaGrad (Duchi et al., 2011); a learning rate of 0.01 is usual. */
static inline bg_optimizer bg_adagrad(double learning_rate)
{
    return bg_optimizer_make(BG_ADAGRAD, learning_rate);
}

/* Makes AdaDelta (Zeiler, 2012), which determines the length of its steps, so a learning rate of 1 is usual. */
static inline bg_optimizer bg_adadelta(double learning_rate)
{
    return bg_optimizer_make(BG_ADADELTA, learning_rate);
}

/* Makes a custom optimizer. The defaults of weight_decay and numbers are 0; other settings are ignored. */
static inline bg_optimizer bg_custom(double learning_rate, const bg_update_rule *rule)
{
    bg_optimizer optimizer = bg_optimizer_make(BG_CUSTOM, learning_rate);

    optimizer.rule = rule;
    return optimizer;
}

/* Reads an optimizer from a string, which has a name (sgd, adam, adamw, adamax, rmsprop, lamb, adagrad, adadelta) and
 * the settings that differ from its defaults: "adamw", "sgd:momentum=0.9,nesterov",
 * "rmsprop:alpha=0.9,centered,tf_variant". Settings have the names of the fields. `out` is unchanged if the string is
 * invalid or a number is out of range (bg_optimizer_validate). */
BG_API bg_status bg_optimizer_parse(const char *text, double learning_rate, bg_optimizer *out, bg_error *error);
/* Returns the name of a kind, such as "adamw"; NULL for BG_CUSTOM and for invalid kinds. */
BG_API const char *bg_optimizer_name(bg_optimizer_kind kind);
#define BG_OPTIMIZER_STATE_TEXT_BYTES 80
/* Writes a description of an optimizer's state into `text` (BG_OPTIMIZER_STATE_TEXT_BYTES): the optimizer's name and
 * the settings that change the meaning of the state, such as "adamw", "sgd:momentum" or "rmsprop:momentum,tf_variant".
 * An optimizer with another description cannot use the state. Numbers that may change during training are left out. */
BG_API void bg_optimizer_describe_state(const bg_optimizer *optimizer, char *text);
/* Returns the kinds of state that an optimizer keeps for each parameter, sorted and separated by spaces: "exp_avg
 * exp_avg_sq", the last parts of the names of the state. "" if the optimizer has no state. */
BG_API const char *bg_optimizer_state_kinds(const bg_optimizer *optimizer);
/* Checks that every number is in its range; the error gives the reason and the remedy. */
BG_API bg_status bg_optimizer_validate(const bg_optimizer *optimizer, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
