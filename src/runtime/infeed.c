/*
 * infeed.c: fills a ring of elements for the devices ahead of time, with a thread. See feed.h for the ring. The infeed
 * does not know what a source does.
 */
#include "runtime/feed.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "options/table.h"
#include "runtime/engine.h"

enum { MOST_PREFETCH = 255, TENSOR_ALIGNMENT = 64 };

/* The number of filled elements that an infeed reports when all its readers are on other ranks. */
static const uint64_t IDLE_ELEMENTS = UINT64_MAX / 4;

struct bg_infeed {
    bg_infeed_options options;
    bgi_arena arena;
    uint32_t tensor_count;
    bg_type types[BG_INFEED_MAX_TENSORS]; /* types of an element or, until the start, of a sample */
    bg_infeed_source source;
    void *user;

    bool has_samples; /* the source gives samples; false: it gives elements */
    bg_sample_source samples;
    uint64_t micro_batch;

    /* These do not change after the start. */
    const bg_plan *plan;
    uint32_t inputs[BG_INFEED_MAX_TENSORS]; /* by tensor: the plan's input */
    size_t sizes[BG_INFEED_MAX_TENSORS], offsets[BG_INFEED_MAX_TENSORS];
    size_t slot_bytes;
    uint64_t slot_count;
    uint32_t row_count;    /* the number of groups of replicas that read the same elements */
    uint32_t row_elements; /* consecutive elements of one group; copied, because the plan may be destroyed first */
    uint32_t *row_readers; /* by row (group of replicas): the number of readers of each of its elements on this rank */
    uint32_t *row_tensors; /* by row: bit t means that the readers need tensor t; stored after row_readers */
    bool is_idle;          /* this rank has no readers, so the source is not called */
    bool has_ended_elsewhere; /* another rank's data have ended before this rank's */
    bgi_thread thread;        /* a system thread, or one lent to the session */
    bool has_thread;

    bg_allocator allocator; /* the plan's allocator, which allocated `slots` */
    unsigned char *slots;
    _Atomic uint32_t *readers; /* by slot: the number of remaining readers */
    _Atomic uint64_t filled;   /* the number of filled elements */
    _Atomic uint64_t ended_at; /* the number of elements of ended data; UINT64_MAX: the data have not ended */
    bg_error error;            /* the reason why the data ended; written before ended_at */
    uint64_t first;            /* the first element of the run in progress */
    pthread_mutex_t mutex;
    pthread_cond_t space;
    /* The mutex protects the following fields. */
    uint64_t freed; /* the number of freed elements */
    bool is_ending;
    bgi_engine *engine; /* during a run */
};

void bg_infeed_options_init(bg_infeed_options *options, size_t struct_bytes)
{
    const bg_infeed_options made = {.struct_bytes = struct_bytes, .prefetch_depth = 1};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* ---- the thread ---- */

/* Waits for a free slot for the element; returns false when the infeed ends. */
static bool wait_for_space(bg_infeed *infeed, uint64_t element)
{
    bool goes_on;

    pthread_mutex_lock(&infeed->mutex);
    while (!infeed->is_ending && element - infeed->freed >= infeed->slot_count)
        pthread_cond_wait(&infeed->space, &infeed->mutex);
    goes_on = !infeed->is_ending;
    pthread_mutex_unlock(&infeed->mutex);
    return goes_on;
}

static void tell_engine(bg_infeed *infeed)
{
    pthread_mutex_lock(&infeed->mutex);
    if (infeed->engine != NULL)
        bgi_gate_look(infeed->engine);
    pthread_mutex_unlock(&infeed->mutex);
}

/* Frees elements that have been read by all readers, in order. */
static void free_elements(bg_infeed *infeed)
{
    pthread_mutex_lock(&infeed->mutex);
    while (infeed->freed < atomic_load(&infeed->filled) &&
           atomic_load(&infeed->readers[infeed->freed % infeed->slot_count]) == 0)
        infeed->freed++;
    pthread_cond_signal(&infeed->space);
    pthread_mutex_unlock(&infeed->mutex);
}

static uint32_t row_of(const bg_infeed *infeed, uint64_t element)
{
    return (uint32_t)(element / infeed->row_elements % infeed->row_count);
}

/* Sets the addresses to which the source writes the element; NULL for tensors that the source may skip. */
static void find_tensors(const bg_infeed *infeed, uint64_t element, void *tensors[BG_INFEED_MAX_TENSORS])
{
    const uint32_t read = infeed->options.omit_unread ? infeed->row_tensors[row_of(infeed, element)] : UINT32_MAX;
    unsigned char *slot = infeed->slots + element % infeed->slot_count * infeed->slot_bytes;

    for (uint32_t t = 0; t < infeed->tensor_count; t++)
        tensors[t] = (read >> t & 1) != 0 ? slot + infeed->offsets[t] : NULL;
}

static void fill(void *argument)
{
    bg_infeed *infeed = argument;
    void *tensors[BG_INFEED_MAX_TENSORS];

    for (uint64_t element = 0; wait_for_space(infeed, element); element++) {
        const uint32_t readers = infeed->row_readers[row_of(infeed, element)];
        bool has_ended = false;
        bg_status status;

        find_tensors(infeed, element, tensors);
        status = infeed->source(infeed->user, tensors, &has_ended, &infeed->error);
        if (status != BG_OK || has_ended) {
            if (status != BG_OK)
                bgi_error_unexplained(&infeed->error, status, "the source");
            infeed->error.status = status;
            atomic_store(&infeed->ended_at, element);
            tell_engine(infeed);
            return;
        }
        atomic_store(&infeed->readers[element % infeed->slot_count], readers);
        atomic_store(&infeed->filled, element + 1);
        tell_engine(infeed);
        if (readers == 0)
            free_elements(infeed);
    }
}

/* ---- life ---- */

static bg_status check_options(const bg_infeed_options *options, uint32_t tensor_count, bg_error *error)
{
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_infeed_options",
                             "bg_infeed_options_defaults()", error));
    if (options->prefetch_depth < 1 || options->prefetch_depth > MOST_PREFETCH)
        return bg_error_set(error, BG_ERROR_INVALID, "prefetch_depth is %u; it must be 1 to %d",
                            options->prefetch_depth, MOST_PREFETCH);
    if (tensor_count < 1 || tensor_count > BG_INFEED_MAX_TENSORS)
        return bg_error_set(error, BG_ERROR_INVALID, "an element has %u tensors; it must have 1 to %d", tensor_count,
                            BG_INFEED_MAX_TENSORS);
    for (uint32_t t = 0; options->names != NULL && t < tensor_count; t++)
        if (options->names[t] == NULL)
            return bg_error_set(error, BG_ERROR_INVALID, "tensor %u of the dictionary has no name", t);
    return BG_OK;
}

static bg_status copy_names(bg_infeed *infeed, bg_error *error)
{
    const char **names;

    if (infeed->options.names == NULL)
        return BG_OK;
    names = bgi_arena_allocate(&infeed->arena, infeed->tensor_count, sizeof *names);
    for (uint32_t t = 0; names != NULL && t < infeed->tensor_count; t++)
        if ((names[t] = bgi_arena_string(&infeed->arena, infeed->options.names[t])) == NULL)
            names = NULL;
    infeed->options.names = names;
    return names != NULL ? BG_OK : bgi_error_memory(error, "names", 0);
}

static bool init_waiting(bg_infeed *infeed)
{
    if (pthread_mutex_init(&infeed->mutex, NULL) != 0)
        return false;
    if (pthread_cond_init(&infeed->space, NULL) == 0)
        return true;
    pthread_mutex_destroy(&infeed->mutex);
    return false;
}

static bg_status create(const bg_type *types, uint32_t tensor_count, const bg_infeed_options *options, bg_infeed **out,
                        bg_error *error)
{
    bg_infeed *infeed;
    bg_status status;

    BGI_TRY(check_options(options, tensor_count, error));
    infeed = calloc(1, sizeof *infeed);
    if (infeed == NULL)
        return bgi_error_memory(error, "an infeed", sizeof *infeed);
    infeed->options = *options;
    infeed->tensor_count = tensor_count;
    memcpy(infeed->types, types, tensor_count * sizeof *types);
    atomic_init(&infeed->ended_at, UINT64_MAX);
    if (!init_waiting(infeed)) {
        free(infeed);
        return bg_error_set(error, BG_ERROR_IO, "the system refused a mutex or a condition");
    }
    status = copy_names(infeed, error);
    if (status != BG_OK)
        bg_infeed_destroy(infeed);
    else
        *out = infeed;
    return status;
}

bg_status bg_infeed_create(const bg_type *types, uint32_t tensor_count, bg_infeed_source source, void *user,
                           const bg_infeed_options *options, bg_infeed **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_infeed *infeed = NULL;

    if (types == NULL || source == NULL || options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the infeed has no %s",
                            types == NULL    ? "types"
                            : source == NULL ? "a source"
                                             : "options");
    for (uint32_t t = 0; t < tensor_count && t < BG_INFEED_MAX_TENSORS; t++)
        BGI_TRY(bg_type_validate(&types[t], error));
    if (options->first_epoch > 0 || options->first_element > 0)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "first_epoch and first_element apply only to data sets and loaders; let the source begin there");
    BGI_TRY(create(types, tensor_count, options, &infeed, error));
    infeed->source = source;
    infeed->user = user;
    *out = infeed;
    return BG_OK;
}

bg_status bg_infeed_create_samples(const bg_type *types, uint32_t tensor_count, const bg_sample_source *source,
                                   const bg_infeed_options *options, bg_infeed **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    BGI_TRY(bgi_require(types, "types", __func__, error));
    BGI_TRY(bgi_require(options, "options", __func__, error));
    if (source == NULL || source->next == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the infeed has no source");
    BGI_TRY(bgi_struct_check(source->struct_bytes, sizeof *source, "bg_sample_source", NULL, error));

    bg_infeed *infeed = NULL;

    BGI_TRY(create(types, tensor_count, options, &infeed, error));
    infeed->has_samples = true;
    infeed->samples = *source;
    infeed->source = source->next;
    infeed->user = source->user;
    *out = infeed;
    return BG_OK;
}

void bg_infeed_destroy(bg_infeed *infeed)
{
    if (infeed == NULL)
        return;
    if (infeed->has_thread) {
        pthread_mutex_lock(&infeed->mutex);
        infeed->is_ending = true;
        pthread_cond_broadcast(&infeed->space);
        pthread_mutex_unlock(&infeed->mutex);
        bgi_thread_join(&infeed->thread);
    }
    if (infeed->samples.end != NULL)
        infeed->samples.end(infeed->samples.user);
    pthread_cond_destroy(&infeed->space);
    pthread_mutex_destroy(&infeed->mutex);
    bgi_arena_clear(&infeed->arena);
    free((void *)infeed->readers);
    free(infeed->row_readers);
    bgi_memory_return(&infeed->allocator, infeed->slots, (size_t)infeed->slot_count * infeed->slot_bytes);
    free(infeed);
}

uint64_t bg_infeed_used_count(const bg_infeed *infeed)
{
    return infeed->first;
}

const bg_plan *bg_infeed_plan(const bg_infeed *infeed)
{
    return infeed->plan;
}

bool bg_infeed_has_ended(const bg_infeed *infeed)
{
    return infeed->has_ended_elsewhere || (bgi_infeed_end(infeed) != UINT64_MAX && infeed->error.status == BG_OK);
}

/* ---- the beginning ---- */

/* Converts a sample's type to an input's by adding the micro-batch as first dimension. */
static bool add_micro_batch(bg_infeed *infeed, uint32_t tensor, const bg_type *input)
{
    bg_type *type = &infeed->types[tensor];

    if (input->rank != type->rank + 1 || (tensor > 0 && (uint64_t)input->dims[0] != infeed->micro_batch))
        return false;
    infeed->micro_batch = (uint64_t)input->dims[0];
    memmove(type->dims + 1, type->dims, type->rank * sizeof *type->dims);
    type->dims[0] = input->dims[0];
    type->rank++;
    return true;
}

static bg_status match_tensor(bg_infeed *infeed, const bg_plan *plan, uint32_t t, bg_error *error)
{
    const char *name = infeed->options.names != NULL ? infeed->options.names[t] : NULL;
    char have[BG_TYPE_TEXT_BYTES], want[BG_TYPE_TEXT_BYTES];
    uint32_t input = name != NULL ? 0 : t;
    bool fits;

    while (name != NULL && input < plan->input_count && strcmp(plan->inputs[input].name, name) != 0)
        input++;
    if (input >= plan->input_count)
        return name != NULL ? bg_error_set(error, BG_ERROR_NOT_FOUND, "infeed: the session has no input `%s`", name)
                            : bg_error_set(error, BG_ERROR_INVALID,
                                           "infeed: an element has %u tensors, but the session has %u inputs",
                                           infeed->tensor_count, plan->input_count);
    for (uint32_t other = 0; other < t; other++)
        if (infeed->inputs[other] == input)
            return bg_error_set(error, BG_ERROR_INVALID, "infeed: two tensors are for input `%s`",
                                plan->inputs[input].name);
    bg_type_text(&infeed->types[t], have);
    fits = !infeed->has_samples || add_micro_batch(infeed, t, &plan->inputs[input].type);
    if (!fits || !bg_type_equal(&infeed->types[t], &plan->inputs[input].type))
        return bg_error_set(error, BG_ERROR_SHAPE, "infeed: tensor %u is %s%s, but input `%s` is %s; %s", t, have,
                            infeed->has_samples ? " a sample" : "", plan->inputs[input].name,
                            bg_type_text(&plan->inputs[input].type, want),
                            infeed->has_samples ? "an input must be a sample with a first dimension for the "
                                                  "micro-batch, of the same size for all inputs"
                                                : "they must be equal");
    infeed->inputs[t] = input;
    return BG_OK;
}

/* Returns the tensors that an instruction copies, one bit each. */
static uint32_t tensors_of(const bg_infeed *infeed, const bgi_instruction *instruction)
{
    uint32_t found = 0;

    for (uint32_t c = 0; c < instruction->copy_count; c++)
        for (uint32_t t = 0; t < infeed->tensor_count; t++)
            found |= (uint32_t)(infeed->inputs[t] == instruction->copies[c].stream) << t;
    return found;
}

/* Counts, for each group of replicas that read the same elements, the HOST_IN instructions on this rank that copy from
 * the infeed in one micro-batch. */
static void count_readers(bg_infeed *infeed, const bgi_engine *engine)
{
    const bg_plan *plan = engine->plan;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            const bgi_instruction *instruction = &plan->devices[d].instructions[i];
            const uint32_t tensors = tensors_of(infeed, instruction);
            if (instruction->action.kind != BG_ACTION_HOST_IN || instruction->action.micro_batch != 0)
                continue;
            for (uint32_t replica = 0; tensors != 0 && replica < plan->replicas; replica++) {
                const uint32_t row = bgi_plan_input_row(plan, replica);
                if (!bgi_engine_has(engine, replica, d))
                    continue;
                infeed->row_readers[row]++;
                infeed->row_tensors[row] |= tensors;
            }
        }
}

static bg_status find_readers(bg_infeed *infeed, const bgi_engine *engine, bg_error *error)
{
    const uint32_t row_count = bgi_plan_input_rows(engine->plan);
    uint32_t count = 0;

    infeed->row_count = row_count;
    infeed->row_elements = bgi_plan_row_elements(engine->plan);
    free(infeed->row_readers);
    infeed->row_readers = calloc(2 * ((size_t)row_count + 1), sizeof *infeed->row_readers);
    if (infeed->row_readers == NULL)
        return bgi_error_memory(error, "an infeed", row_count * sizeof *infeed->row_readers);
    infeed->row_tensors = infeed->row_readers + row_count;
    count_readers(infeed, engine);
    for (uint32_t row = 0; row < row_count; row++)
        count += infeed->row_readers[row];
    infeed->is_idle = count == 0;
    if (count == 0 && engine->ranks == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "infeed: no device of the session reads its tensors");
    return BG_OK;
}

static bg_status take_ring(bg_infeed *infeed, const bg_plan *plan, bg_error *error)
{
    const uint64_t slots =
        bgi_infeed_elements(plan) + (uint64_t)infeed->options.prefetch_depth * bgi_plan_input_rows(plan);

    infeed->slot_bytes = 0;
    for (uint32_t t = 0; t < infeed->tensor_count; t++) {
        infeed->sizes[t] = bg_type_size_bytes(&infeed->types[t]);
        infeed->offsets[t] = infeed->slot_bytes;
        infeed->slot_bytes += (infeed->sizes[t] + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
    }
    infeed->slot_count = slots;
    if (slots <= SIZE_MAX / 2 / infeed->slot_bytes) {
        infeed->allocator = bgi_options_allocator(&plan->options);
        infeed->slots = bgi_memory_take(&infeed->allocator, TENSOR_ALIGNMENT, (size_t)slots * infeed->slot_bytes);
        infeed->readers = calloc((size_t)slots, sizeof *infeed->readers);
    }
    if (infeed->slots == NULL || infeed->readers == NULL)
        return bgi_error_memory(error, "an infeed's ring", (size_t)slots * infeed->slot_bytes);
    return BG_OK;
}

static bg_status start_thread(bg_infeed *infeed, const bg_options *options, bg_error *error)
{
    const bgi_thread_source source = {options->execution.start_thread, options->execution.start_thread_user};

    if (bgi_thread_start(&infeed->thread, &source, fill, infeed) != 0)
        return bg_error_set(error, BG_ERROR_IO, "%s failed to start the infeed's thread",
                            source.start != NULL ? "start_thread" : "the system");
    infeed->has_thread = true;
    return BG_OK;
}

bg_status bgi_infeed_start(bg_infeed *infeed, const bgi_engine *engine, bg_error *error)
{
    const bg_plan *plan = engine->plan;

    if (infeed->plan != NULL || infeed->slots != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the infeed was started already; create another one");
    for (uint32_t t = 0; t < infeed->tensor_count; t++)
        BGI_TRY(match_tensor(infeed, plan, t, error));
    BGI_TRY(find_readers(infeed, engine, error));
    if (infeed->is_idle) {
        atomic_store(&infeed->filled, IDLE_ELEMENTS);
        infeed->plan = plan;
        return BG_OK;
    }
    BGI_TRY(take_ring(infeed, plan, error));
    if (infeed->samples.begin != NULL)
        BGI_TRY(infeed->samples.begin(infeed->samples.user, infeed->micro_batch, error));
    BGI_TRY(start_thread(infeed, &plan->options, error));
    infeed->plan = plan;
    return BG_OK;
}

/* ---- for the engine ---- */

uint64_t bgi_infeed_filled(const bg_infeed *infeed)
{
    return atomic_load(&infeed->filled);
}

uint64_t bgi_infeed_end(const bg_infeed *infeed)
{
    return atomic_load(&infeed->ended_at);
}

uint64_t bgi_infeed_first(const bg_infeed *infeed)
{
    return infeed->first;
}

bg_status bgi_infeed_check(const bg_infeed *infeed, const bg_plan *plan, bg_error *error)
{
    if (infeed->plan == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the infeed has not been started (bg_infeed_start)");
    if (infeed->plan != plan)
        return bg_error_set(error, BG_ERROR_INVALID, "the infeed was started for a session with another plan");
    return BG_OK;
}

void bgi_infeed_attach(bg_infeed *infeed, bgi_engine *engine)
{
    pthread_mutex_lock(&infeed->mutex);
    infeed->engine = engine;
    pthread_mutex_unlock(&infeed->mutex);
}

void bgi_infeed_detach(bg_infeed *infeed, uint64_t used_count)
{
    pthread_mutex_lock(&infeed->mutex);
    infeed->engine = NULL;
    infeed->first += used_count;
    pthread_mutex_unlock(&infeed->mutex);
}

bg_status bgi_infeed_report(bg_infeed *infeed, uint64_t iterations, bg_error *error)
{
    const bool is_elsewhere = bgi_infeed_end(infeed) == UINT64_MAX; /* another rank's data have ended */
    const uint64_t end = is_elsewhere ? infeed->first : bgi_infeed_end(infeed);

    infeed->has_ended_elsewhere = is_elsewhere;
    if (infeed->error.status == BG_OK)
        return bg_error_set(error, BG_ERROR_RANGE,
                            "the infeed's data ended after %llu elements, when %llu iterations of this run were done; "
                            "repeat the data, or run fewer iterations",
                            (unsigned long long)end, (unsigned long long)iterations);
    bg_error_set(error, infeed->error.status, "%s", infeed->error.message);
    return bg_error_context(error, infeed->error.status, "infeed, element %llu", (unsigned long long)end);
}

bool bgi_infeed_feeds(const bg_infeed *infeed, uint32_t input)
{
    for (uint32_t t = 0; t < infeed->tensor_count; t++)
        if (infeed->inputs[t] == input)
            return true;
    return false;
}

const void *bgi_infeed_tensor(const bg_infeed *infeed, uint64_t number, uint32_t input)
{
    const uint64_t slot = (infeed->first + number) % infeed->slot_count;

    for (uint32_t t = 0; t < infeed->tensor_count; t++)
        if (infeed->inputs[t] == input)
            return infeed->slots + slot * infeed->slot_bytes + infeed->offsets[t];
    return NULL;
}

void bgi_infeed_release(bg_infeed *infeed, uint64_t number)
{
    const uint64_t slot = (infeed->first + number) % infeed->slot_count;

    if (atomic_fetch_sub(&infeed->readers[slot], 1) == 1)
        free_elements(infeed);
}
