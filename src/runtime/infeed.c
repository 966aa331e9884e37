/*
 * infeed.c: elements for the devices, made ahead by a thread. See feed.h for the ring. Knows the loader by its public
 * face; what a source does is its own business.
 */
#include "runtime/feed.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "runtime/engine.h"

enum { MOST_PREFETCH = 255, TENSOR_ALIGNMENT = 64 };

struct bg_infeed {
    bg_infeed_options options;
    bgi_arena arena;
    uint32_t tensor_count;
    bg_type types[BG_DATASET_MAX_TENSORS]; /* of a micro-batch; of data sets and loaders, of a sample until started */
    bg_infeed_source source;
    void *user;

    /* Data sets and loaders. */
    bool has_samples;          /* else a source of the caller */
    const bg_dataset *dataset; /* NULL: the loader is the caller's */
    bg_loader *loader, *own_loader;
    bg_batch batch;
    uint64_t position; /* samples of the batch that are used */
    uint64_t skipped;  /* of the first batch, used before the infeed began */
    uint64_t epoch, micro_batch;
    bool has_batch; /* of this epoch: elements were made */

    /* Constant once started. */
    const bg_plan *plan;
    uint32_t inputs[BG_DATASET_MAX_TENSORS]; /* of the plan, by tensor */
    size_t sizes[BG_DATASET_MAX_TENSORS], offsets[BG_DATASET_MAX_TENSORS];
    size_t slot_bytes;
    uint64_t slot_count;
    uint32_t reader_count; /* of each element */
    pthread_t thread;

    unsigned char *slots;
    _Atomic uint32_t *readers; /* by slot: those that are left */
    _Atomic uint64_t filled;   /* elements */
    _Atomic uint64_t ended_at; /* elements; UINT64_MAX: not ended */
    bg_error error;            /* why it ended; written before */
    uint64_t first;            /* element of the run */
    pthread_mutex_t mutex;
    pthread_cond_t space;
    /* Under the mutex. */
    uint64_t freed; /* elements */
    bool is_ending;
    bgi_engine *engine; /* while a run is on */
};

bg_infeed_options bg_infeed_options_default(void)
{
    return (bg_infeed_options){.prefetch_depth = 1};
}

/* ---- sources ---- */

/* The next batch that has samples left; *out_has_ended when there is none. */
static bg_status turn_batch(bg_infeed *infeed, bool *out_has_ended, bg_error *error)
{
    while (infeed->position == infeed->batch.sample_count) {
        BGI_TRY(bg_loader_next(infeed->loader, &infeed->batch, error));
        infeed->position = infeed->skipped;
        infeed->skipped = 0;
        if (infeed->batch.sample_count % infeed->micro_batch != 0)
            return bg_error_set(error, BG_ERROR_SHAPE,
                                "a batch of %llu samples is no whole number of micro-batches of %llu: make batches a "
                                "multiple, and drop or pad the last one (drop_last, pad_multiple)",
                                (unsigned long long)infeed->batch.sample_count,
                                (unsigned long long)infeed->micro_batch);
        if (infeed->position > infeed->batch.sample_count)
            return bg_error_set(error, BG_ERROR_INVALID, "first_element is %llu, but epoch %llu has fewer elements",
                                (unsigned long long)infeed->options.first_element, (unsigned long long)infeed->epoch);
        if (infeed->batch.sample_count > 0) {
            infeed->has_batch = true;
            continue;
        }
        *out_has_ended = !infeed->options.repeat || !infeed->has_batch;
        if (*out_has_ended)
            return BG_OK;
        infeed->has_batch = false;
        BGI_TRY(bg_loader_begin_epoch(infeed->loader, ++infeed->epoch, error));
    }
    return BG_OK;
}

static bg_status next_of_loader(void *user, void *const tensors[], bool *out_has_ended, bg_error *error)
{
    bg_infeed *infeed = user;

    BGI_TRY(turn_batch(infeed, out_has_ended, error));
    for (uint32_t t = 0; !*out_has_ended && t < infeed->tensor_count; t++)
        memcpy(tensors[t],
               (const char *)infeed->batch.tensors[t] + infeed->position / infeed->micro_batch * infeed->sizes[t],
               infeed->sizes[t]);
    if (!*out_has_ended)
        infeed->position += infeed->micro_batch;
    return BG_OK;
}

/* ---- the thread ---- */

/* Waits for a free slot; false when the infeed ends. */
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

static void *fill(void *argument)
{
    bg_infeed *infeed = argument;
    void *tensors[BG_DATASET_MAX_TENSORS];

    for (uint64_t element = 0; wait_for_space(infeed, element); element++) {
        const uint64_t slot = element % infeed->slot_count;
        bool has_ended = false;
        bg_status status;

        for (uint32_t t = 0; t < infeed->tensor_count; t++)
            tensors[t] = infeed->slots + slot * infeed->slot_bytes + infeed->offsets[t];
        status = infeed->source(infeed->user, tensors, &has_ended, &infeed->error);
        if (status != BG_OK || has_ended) {
            if (status != BG_OK && infeed->error.status == BG_OK)
                bg_error_set(&infeed->error, status, "the source reported '%s' without a message",
                             bg_status_name(status));
            infeed->error.status = status;
            atomic_store(&infeed->ended_at, element);
            tell_engine(infeed);
            return NULL;
        }
        atomic_store(&infeed->readers[slot], infeed->reader_count);
        atomic_store(&infeed->filled, element + 1);
        tell_engine(infeed);
    }
    return NULL;
}

/* ---- life ---- */

static bg_status check_options(const bg_infeed_options *options, uint32_t tensor_count, bg_error *error)
{
    if (options->prefetch_depth < 1 || options->prefetch_depth > MOST_PREFETCH)
        return bg_error_set(error, BG_ERROR_INVALID, "prefetch_depth is %u; it must be 1 to %d",
                            options->prefetch_depth, MOST_PREFETCH);
    if (tensor_count < 1 || tensor_count > BG_DATASET_MAX_TENSORS)
        return bg_error_set(error, BG_ERROR_INVALID, "an element of %u tensors; it has 1 to %d", tensor_count,
                            BG_DATASET_MAX_TENSORS);
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
    names = bgi_arena_take(&infeed->arena, infeed->tensor_count, sizeof *names);
    for (uint32_t t = 0; names != NULL && t < infeed->tensor_count; t++)
        if ((names[t] = bgi_arena_text(&infeed->arena, infeed->options.names[t])) == NULL)
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
    bg_infeed *infeed = NULL;

    if (types == NULL || source == NULL || options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "an infeed without %s",
                            types == NULL    ? "types"
                            : source == NULL ? "a source"
                                             : "options");
    for (uint32_t t = 0; t < tensor_count && t < BG_DATASET_MAX_TENSORS; t++)
        BGI_TRY(bg_type_validate(&types[t], error));
    if (options->first_epoch > 0 || options->first_element > 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "first_epoch and first_element are for data sets and loaders; let the source begin there");
    BGI_TRY(create(types, tensor_count, options, &infeed, error));
    infeed->source = source;
    infeed->user = user;
    *out = infeed;
    return BG_OK;
}

static bg_status create_over(const bg_type *types, uint32_t count, const bg_infeed_options *options, bg_infeed **out,
                             bg_error *error)
{
    BGI_TRY(create(types, count, options, out, error));
    (*out)->has_samples = true;
    (*out)->source = next_of_loader;
    (*out)->user = *out;
    return BG_OK;
}

bg_status bg_infeed_create_loader(bg_loader *loader, const bg_infeed_options *options, bg_infeed **out, bg_error *error)
{
    const bg_type *types;
    uint32_t count = 0;

    if (loader == NULL || options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "an infeed without %s", loader == NULL ? "a loader" : "options");
    types = bg_loader_sample_types(loader, &count);
    BGI_TRY(create_over(types, count, options, out, error));
    (*out)->loader = loader;
    return BG_OK;
}

bg_status bg_infeed_create_dataset(const bg_dataset *dataset, const bg_infeed_options *options, bg_infeed **out,
                                   bg_error *error)
{
    bg_type types[BG_DATASET_MAX_TENSORS];

    if (dataset == NULL || options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "an infeed without %s",
                            dataset == NULL ? "a data set" : "options");
    for (uint32_t t = 0; t < bg_dataset_tensor_count(dataset); t++)
        types[t] = *bg_dataset_sample_type(dataset, t);
    BGI_TRY(create_over(types, bg_dataset_tensor_count(dataset), options, out, error));
    (*out)->dataset = dataset;
    return BG_OK;
}

void bg_infeed_destroy(bg_infeed *infeed)
{
    if (infeed == NULL)
        return;
    if (infeed->plan != NULL) {
        pthread_mutex_lock(&infeed->mutex);
        infeed->is_ending = true;
        pthread_cond_broadcast(&infeed->space);
        pthread_mutex_unlock(&infeed->mutex);
        pthread_join(infeed->thread, NULL);
    }
    bg_loader_destroy(infeed->own_loader);
    pthread_cond_destroy(&infeed->space);
    pthread_mutex_destroy(&infeed->mutex);
    bgi_arena_clear(&infeed->arena);
    free((void *)infeed->readers);
    free(infeed->slots);
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
    return bgi_infeed_end(infeed) != UINT64_MAX && infeed->error.status == BG_OK;
}

/* ---- the beginning ---- */

/* Data sets and loaders know samples: the micro-batch is the input's first dimension. */
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
        return name != NULL
                   ? bg_error_set(error, BG_ERROR_NOT_FOUND, "infeed: the session has no input `%s`", name)
                   : bg_error_set(error, BG_ERROR_INVALID, "infeed: an element has %u tensors, the session %u inputs",
                                  infeed->tensor_count, plan->input_count);
    for (uint32_t other = 0; other < t; other++)
        if (infeed->inputs[other] == input)
            return bg_error_set(error, BG_ERROR_INVALID, "infeed: two tensors are for input `%s`",
                                plan->inputs[input].name);
    bg_type_text(&infeed->types[t], have);
    fits = !infeed->has_samples || add_micro_batch(infeed, t, &plan->inputs[input].type);
    if (!fits || !bg_type_equal(&infeed->types[t], &plan->inputs[input].type))
        return bg_error_set(error, BG_ERROR_SHAPE, "infeed: tensor %u is %s%s, input `%s` is %s; %s", t, have,
                            infeed->has_samples ? " a sample" : "", plan->inputs[input].name,
                            bg_type_text(&plan->inputs[input].type, want),
                            infeed->has_samples
                                ? "an input must be a sample with the micro-batch, the same for all, as first dimension"
                                : "they must be equal");
    infeed->inputs[t] = input;
    return BG_OK;
}

/* HOST_IN of one micro-batch that copy something of the infeed, on all replicas that read the same. */
static uint32_t count_readers(const bg_infeed *infeed, const bg_plan *plan)
{
    uint32_t count = 0;

    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++) {
            const bgi_instruction *instruction = &plan->devices[d].instructions[i];
            bool reads = false;
            if (instruction->action.kind != BG_ACTION_HOST_IN || instruction->action.micro_batch != 0)
                continue;
            for (uint32_t c = 0; c < instruction->copy_count; c++)
                reads |= bgi_infeed_feeds(infeed, instruction->copies[c].stream);
            count += reads;
        }
    return count * plan->input_group_size;
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
        infeed->slots = bgi_aligned_take(TENSOR_ALIGNMENT, (size_t)slots * infeed->slot_bytes);
        infeed->readers = calloc((size_t)slots, sizeof *infeed->readers);
    }
    if (infeed->slots == NULL || infeed->readers == NULL)
        return bgi_error_memory(error, "an infeed's ring", (size_t)slots * infeed->slot_bytes);
    return BG_OK;
}

/* Behind the elements that were used before: whole batches of them, then a part of one. */
static bg_status begin_loader(bg_infeed *infeed, bg_error *error)
{
    const uint64_t elements = infeed->options.first_element, batch_size = bg_loader_batch_size(infeed->loader);
    const uint64_t samples = elements * infeed->micro_batch;

    if (elements > UINT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "first_element is %llu; it must be at most %u",
                            (unsigned long long)elements, UINT32_MAX);
    infeed->epoch = infeed->options.first_epoch;
    infeed->skipped = samples % batch_size;
    infeed->has_batch = elements > 0;
    return bg_loader_begin_at(infeed->loader, infeed->epoch, samples / batch_size, error);
}

static bg_status open_loader(bg_infeed *infeed, bg_error *error)
{
    bg_loader_options options = bg_loader_options_default();

    if (!infeed->has_samples)
        return BG_OK;
    if (infeed->loader == NULL) {
        options.batch_size = infeed->micro_batch;
        options.worker_count = 0; /* the infeed's thread */
        BGI_TRY(bg_loader_create(infeed->dataset, &options, &infeed->own_loader, error));
        infeed->loader = infeed->own_loader;
    }
    return begin_loader(infeed, error);
}

/* Signals are the caller's business. */
static bool start_thread(bg_infeed *infeed)
{
    sigset_t all, before;
    bool has_started;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    has_started = pthread_create(&infeed->thread, NULL, fill, infeed) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return has_started;
}

bg_status bgi_infeed_start(bg_infeed *infeed, const bg_plan *plan, bg_error *error)
{
    if (infeed->plan != NULL || infeed->slots != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "an infeed is started once; make another one");
    for (uint32_t t = 0; t < infeed->tensor_count; t++)
        BGI_TRY(match_tensor(infeed, plan, t, error));
    infeed->reader_count = count_readers(infeed, plan);
    if (infeed->reader_count == 0)
        return bg_error_set(error, BG_ERROR_INVALID, "infeed: nothing in the session takes from it");
    BGI_TRY(take_ring(infeed, plan, error));
    BGI_TRY(open_loader(infeed, error));
    if (!start_thread(infeed))
        return bg_error_set(error, BG_ERROR_IO, "the system refused a thread");
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

bg_status bgi_infeed_report(const bg_infeed *infeed, uint64_t iterations, bg_error *error)
{
    const uint64_t end = bgi_infeed_end(infeed);

    if (infeed->error.status == BG_OK)
        return bg_error_set(error, BG_ERROR_RANGE,
                            "the infeed's data ended after %llu elements, %llu iterations of this run were done; "
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

/* Elements are freed in order. */
void bgi_infeed_release(bg_infeed *infeed, uint64_t number)
{
    const uint64_t slot = (infeed->first + number) % infeed->slot_count;

    if (atomic_fetch_sub(&infeed->readers[slot], 1) != 1)
        return;
    pthread_mutex_lock(&infeed->mutex);
    while (infeed->freed < atomic_load(&infeed->filled) &&
           atomic_load(&infeed->readers[infeed->freed % infeed->slot_count]) == 0)
        infeed->freed++;
    pthread_cond_signal(&infeed->space);
    pthread_mutex_unlock(&infeed->mutex);
}
