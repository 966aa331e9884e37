/*
 * outfeed.c: moves rows from the devices to a consumer. See feed.h for the ring.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "runtime/feed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/clock.h"
#include "core/error.h"
#include "kernels/reference/element.h"
#include "runtime/engine.h"
#include "runtime/session.h"

void bg_outfeed_options_init(bg_outfeed_options *options, size_t struct_bytes)
{
    const bg_outfeed_options made = {.struct_bytes = struct_bytes, .buffer_depth = 1};

    bgi_struct_fill(options, struct_bytes, &made, sizeof made);
}

/* ---- life ---- */

static bg_status check_options(const bg_outfeed_options *options, bg_error *error)
{
    BGI_TRY(bgi_struct_check(options->struct_bytes, sizeof *options, "bg_outfeed_options",
                             "bg_outfeed_options_defaults()", error));
    if (options->buffer_depth < 1)
        return bg_error_set(error, BG_ERROR_INVALID, "outfeed: buffer_depth is 0; it must be at least 1");
    if (options->loss && options->mask != NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "outfeed: loss and mask cannot be combined, because with loss there is nothing to mask");
    if (options->loss == (options->structure != NULL))
        return bg_error_set(
            error, BG_ERROR_INVALID, "outfeed: %s",
            options->loss ? "both structure and loss are set; with loss a row is only the loss, so leave structure NULL"
                          : "structure is NULL; name an output, or several as in \"{loss, correct}\"");
    if (options->accumulate && options->newest_only)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "outfeed: accumulate is set with newest_only, but sums need every row; set only one of them");
    if (options->bounded && options->newest_only)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "outfeed: bounded is set with newest_only, which keeps one row anyway; set only one of them");
    if (options->accumulate_dtype != BG_DTYPE_NONE && options->accumulate_dtype != BG_FLOAT32 &&
        options->accumulate_dtype != BG_FLOAT64)
        return bg_error_set(error, BG_ERROR_INVALID, "outfeed: accumulate_dtype is %s; it must be float32 or float64",
                            bg_dtype_name(options->accumulate_dtype));
    return BG_OK;
}

/* Removes leaves that are masked. */
static bg_status apply_mask(bg_outfeed *outfeed, bg_error *error)
{
    const bg_outfeed_options *options = &outfeed->options;
    uint32_t count = 0;

    if (options->mask == NULL)
        return BG_OK;
    if (options->mask_count != outfeed->leaf_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "outfeed: the mask has %u elements for %u leaves; it must have one for each",
                            options->mask_count, outfeed->leaf_count);
    for (uint32_t i = 0; i < outfeed->leaf_count; i++)
        if (!options->mask[i])
            outfeed->leaves[count++] = outfeed->leaves[i];
    outfeed->leaf_count = count;
    return count > 0 ? BG_OK
                     : bg_error_set(error, BG_ERROR_INVALID,
                                    "outfeed: the mask removes every leaf; it must keep at least one");
}

static bool init_waiting(bg_outfeed *outfeed)
{
    if (pthread_mutex_init(&outfeed->mutex, NULL) != 0)
        return false;
    if (bgi_condition_init(&outfeed->changed))
        return true;
    pthread_mutex_destroy(&outfeed->mutex);
    return false;
}

bg_status bg_outfeed_create(const bg_outfeed_options *options, bg_outfeed **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bg_outfeed *outfeed;
    bg_status status;

    if (options == NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the outfeed has no options");
    BGI_TRY(check_options(options, error));
    outfeed = bgi_aligned_allocate(BGI_CACHE_LINE_BYTES, sizeof *outfeed);
    if (outfeed == NULL)
        return bgi_error_memory(error, "an outfeed", sizeof *outfeed);
    outfeed->options = *options;
    atomic_init(&outfeed->references, 1);
    if (!init_waiting(outfeed)) {
        free(outfeed);
        return bg_error_set(error, BG_ERROR_IO, "the system refused a mutex or a condition");
    }
    status = bgi_outfeed_parse(outfeed, options->loss ? "loss" : options->structure, error);
    if (status == BG_OK)
        status = apply_mask(outfeed, error);
    if (status != BG_OK) {
        bg_outfeed_destroy(outfeed);
        return status;
    }
    *out = outfeed;
    return BG_OK;
}

enum { LARGE_BYTES = 1 << 20 };

/* Allocates `capacity` zeroed entries. The system provides the pages of large allocations when they are first written.
 * So a run with a limit of billions of rows needs memory only for the rows that it produces. */
static void *take_room(uint64_t capacity, size_t entry_bytes)
{
    void *room;

    if (capacity > SIZE_MAX / 2 / (entry_bytes + 1))
        return NULL;
    if (capacity * entry_bytes < LARGE_BYTES) {
        room = bgi_aligned_allocate(BGI_CACHE_LINE_BYTES, (size_t)capacity * entry_bytes);
        if (room != NULL)
            memset(room, 0, (size_t)capacity * entry_bytes);
        return room;
    }
    room = mmap(NULL, (size_t)capacity * entry_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room != MAP_FAILED ? room : NULL;
}

static void free_room(void *room, uint64_t capacity, size_t entry_bytes)
{
    if (room != NULL && capacity * entry_bytes >= LARGE_BYTES)
        munmap(room, (size_t)capacity * entry_bytes);
    else
        free(room);
}

static void release(bg_outfeed *outfeed)
{
    if (atomic_fetch_sub(&outfeed->references, 1) > 1)
        return;
    for (uint32_t i = 0; i < outfeed->leaf_count; i++) {
        free_room(outfeed->leaves[i].rows, outfeed->capacity, outfeed->leaves[i].row_bytes);
        free(outfeed->leaves[i].last);
    }
    free_room((void *)outfeed->written, outfeed->capacity, sizeof *outfeed->written);
    pthread_cond_destroy(&outfeed->changed);
    pthread_mutex_destroy(&outfeed->mutex);
    bgi_arena_clear(&outfeed->arena);
    free(outfeed);
}

/* Wakes devices that wait for rows to be taken. Called under the mutex. */
static void set_taken(bg_outfeed *outfeed, uint64_t taken)
{
    atomic_store(&outfeed->taken.value, taken);
    if (outfeed->engine != NULL)
        bgi_event_count_notify_all(&outfeed->engine->events);
}

void bg_outfeed_destroy(bg_outfeed *outfeed)
{
    if (outfeed == NULL)
        return;
    pthread_mutex_lock(&outfeed->mutex);
    atomic_store(&outfeed->is_abandoned, true);
    set_taken(outfeed, UINT64_MAX);
    pthread_mutex_unlock(&outfeed->mutex);
    release(outfeed);
}

void bgi_outfeed_close(bg_outfeed *outfeed)
{
    pthread_mutex_lock(&outfeed->mutex);
    outfeed->is_closed = true;
    pthread_cond_broadcast(&outfeed->changed);
    pthread_mutex_unlock(&outfeed->mutex);
    release(outfeed);
}

/* ---- attaching ---- */

static bg_status type_leaf(bg_outfeed *outfeed, const bg_plan *plan, bgi_leaf *leaf, bg_error *error)
{
    const bool is_loss = outfeed->options.loss;
    uint32_t stream = 0;

    if (is_loss && plan->loss_output == NULL)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "outfeed: the loss is not an output of the graph; mark it with bg_graph_output");
    if (is_loss)
        leaf->output = plan->loss_output;
    while (stream < plan->output_count && strcmp(plan->outputs[stream].name, leaf->output) != 0)
        stream++;
    if (stream == plan->output_count)
        return bg_error_set(error, BG_ERROR_NOT_FOUND, "outfeed: the session has no output `%s`", leaf->output);
    leaf->stream = stream;
    leaf->is_per_update = plan->outputs[stream].is_per_update;
    leaf->value_type = plan->outputs[stream].type;
    leaf->from_dtype = leaf->value_type.dtype;
    if (outfeed->options.accumulate) {
        if (leaf->from_dtype == BG_UINT8)
            return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                                "outfeed: output `%s` is %s, which cannot be summed; cast it first", leaf->output,
                                bg_dtype_name(leaf->from_dtype));
        if (bg_dtype_is_float(leaf->from_dtype) && outfeed->options.accumulate_dtype != BG_DTYPE_NONE)
            leaf->value_type.dtype = outfeed->options.accumulate_dtype;
        else if (bgi_dtype_is_narrow(leaf->from_dtype))
            leaf->value_type.dtype = BG_FLOAT32;
    }
    leaf->value_bytes = bg_type_size_bytes(&leaf->value_type);
    leaf->row_bytes = leaf->value_bytes * plan->replicas;
    return BG_OK;
}

/* Sets the number of rows of a step. A row belongs to a micro-batch or to an update, so an outfeed with values of both
 * kinds must accumulate. */
static bg_status find_rows_per_step(bg_outfeed *outfeed, const bg_plan *plan, bg_error *error)
{
    uint32_t per_update = 0;

    for (uint32_t i = 0; i < outfeed->leaf_count; i++)
        per_update += outfeed->leaves[i].is_per_update;
    outfeed->rows_per_step = outfeed->options.accumulate || per_update == outfeed->leaf_count ? 1 : plan->micro_batches;
    if (per_update == 0 || outfeed->rows_per_step == 1)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "outfeed: some outputs of `%s` have a value for each update, others one for each of its %u "
                        "micro-batches; accumulate, or use two outfeeds",
                        outfeed->structure, plan->micro_batches);
}

/* Returns the number of writes to a row by devices of this rank. */
static uint32_t count_writes(const bg_outfeed *outfeed, const bgi_engine *engine)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < outfeed->leaf_count; i++)
        for (uint32_t replica = 0; replica < engine->plan->replicas; replica++)
            count += bgi_engine_has(engine, replica, engine->output_devices[outfeed->leaves[i].stream]);
    return count;
}

/* Changes the ring's capacity to `capacity` rows and keeps the waiting rows. Called while no device writes. */
static bg_status resize(bg_outfeed *outfeed, uint64_t capacity, bg_error *error)
{
    const uint64_t taken = atomic_load(&outfeed->taken.value), waiting = outfeed->complete - taken;
    _Atomic uint32_t *written = take_room(capacity, sizeof *written);

    if (written == NULL)
        return bgi_error_memory(error, "an outfeed's ring", (size_t)capacity * sizeof *written);
    for (uint32_t i = 0; i < outfeed->leaf_count; i++) {
        bgi_leaf *leaf = &outfeed->leaves[i];
        unsigned char *rows = take_room(capacity, leaf->row_bytes);

        /* After a failure the ring keeps its old capacity. */
        if (rows == NULL) {
            for (uint32_t done = 0; done < i; done++) {
                free_room(outfeed->leaves[done].last, capacity, outfeed->leaves[done].row_bytes);
                outfeed->leaves[done].last = NULL;
            }
            free_room((void *)written, capacity, sizeof *written);
            return bgi_error_memory(error, leaf->output, (size_t)capacity * leaf->row_bytes);
        }
        leaf->last = rows;
    }
    for (uint32_t i = 0; i < outfeed->leaf_count; i++) {
        bgi_leaf *leaf = &outfeed->leaves[i];
        for (uint64_t row = taken; row < taken + waiting; row++)
            memcpy(leaf->last + row % capacity * leaf->row_bytes,
                   leaf->rows + row % outfeed->capacity * leaf->row_bytes, leaf->row_bytes);
        free_room(leaf->rows, outfeed->capacity, leaf->row_bytes);
        leaf->rows = leaf->last;
        leaf->last = NULL;
    }
    for (uint64_t row = taken; row < taken + waiting; row++)
        atomic_store(&written[row % capacity], outfeed->writes_per_row);
    free_room((void *)outfeed->written, outfeed->capacity, sizeof *written);
    outfeed->written = written;
    outfeed->capacity = capacity;
    return BG_OK;
}

static bg_status take_last(bg_outfeed *outfeed, bg_error *error)
{
    for (uint32_t i = 0; outfeed->options.newest_only && i < outfeed->leaf_count; i++) {
        outfeed->leaves[i].last = bgi_aligned_allocate(BGI_CACHE_LINE_BYTES, outfeed->leaves[i].row_bytes);
        if (outfeed->leaves[i].last == NULL)
            return bgi_error_memory(error, "an outfeed's newest row", outfeed->leaves[i].row_bytes);
    }
    return BG_OK;
}

/* Returns the ring's capacity when the outfeed is attached; make_room enlarges an unbounded ring later. */
static uint64_t find_capacity(const bg_outfeed *outfeed)
{
    const bg_plan *plan = outfeed->plan;

    if (outfeed->options.newest_only)
        return (uint64_t)outfeed->rows_per_step + 1;
    if (outfeed->options.bounded || plan->is_endless)
        return (uint64_t)outfeed->rows_per_step - 1 + outfeed->options.buffer_depth;
    return (uint64_t)plan->iterations * outfeed->rows_per_step;
}

bg_status bgi_outfeed_attach(bg_outfeed *outfeed, const bgi_engine *engine, bg_error *error)
{
    const bg_plan *plan = engine->plan;
    const bg_outfeed_options *options = &outfeed->options;
    bg_status status = BG_OK;

    if (outfeed->plan != NULL)
        return bg_error_set(error, BG_ERROR_INVALID, "the outfeed is attached already; create another one");
    if (!plan->training && (options->loss || options->mask != NULL || options->accumulate))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "outfeed: %s is set, which is only for training, but the session is for inference",
                            options->loss           ? "loss"
                            : options->mask != NULL ? "mask"
                                                    : "accumulate");
    for (uint32_t i = 0; i < outfeed->leaf_count; i++)
        BGI_TRY(type_leaf(outfeed, plan, &outfeed->leaves[i], error));
    BGI_TRY(find_rows_per_step(outfeed, plan, error));
    outfeed->plan = plan;
    outfeed->writes_per_row = count_writes(outfeed, engine);
    pthread_mutex_lock(&outfeed->mutex);
    status = resize(outfeed, find_capacity(outfeed), error);
    pthread_mutex_unlock(&outfeed->mutex);
    if (status == BG_OK)
        status = take_last(outfeed, error);
    if (status != BG_OK) {
        outfeed->plan = NULL;
        return status;
    }
    atomic_fetch_add(&outfeed->references, 1);
    return BG_OK;
}

/* ---- looking ---- */

uint32_t bg_outfeed_leaf_count(const bg_outfeed *outfeed)
{
    return outfeed->leaf_count;
}

/* Adds a dimension before the others; returns false when the type has too many. */
static bool add_dimension(bg_type *type, uint64_t before)
{
    if (type->rank == BG_MAX_RANK)
        return false;
    memmove(type->dims + 1, type->dims, type->rank * sizeof *type->dims);
    type->dims[0] = (int64_t)before;
    type->rank++;
    return true;
}

static bg_status find_row_type(const bg_outfeed *outfeed, uint32_t leaf, bg_type *out, bg_error *error)
{
    *out = outfeed->leaves[leaf].value_type;
    if (outfeed->plan == NULL || outfeed->plan->replicas == 1 || add_dimension(out, outfeed->plan->replicas))
        return BG_OK;
    return bg_error_set(error, BG_ERROR_SHAPE, "outfeed: leaf `%s` has more than %d dimensions",
                        outfeed->leaves[leaf].path, BG_MAX_RANK);
}

bg_status bg_outfeed_leaf_at(const bg_outfeed *outfeed, uint32_t index, bg_outfeed_leaf *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(outfeed, "outfeed", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (index >= outfeed->leaf_count)
        return bg_error_set(error, BG_ERROR_INVALID, "leaf is %u but must be below %u, the number of leaves", index,
                            outfeed->leaf_count);
    *out = (bg_outfeed_leaf){.path = outfeed->leaves[index].path, .output = outfeed->leaves[index].output};
    return find_row_type(outfeed, index, &out->type, error);
}

uint32_t bg_outfeed_find(const bg_outfeed *outfeed, const char *path)
{
    for (uint32_t i = 0; i < outfeed->leaf_count; i++)
        if (strcmp(outfeed->leaves[i].path, path) == 0)
            return i;
    return UINT32_MAX;
}

const char *bg_outfeed_structure(const bg_outfeed *outfeed)
{
    return outfeed->structure;
}

/* ---- the consumer ---- */

static bg_status check_attached(const bg_outfeed *outfeed, bg_error *error)
{
    return outfeed->plan != NULL
               ? BG_OK
               : bg_error_set(error, BG_ERROR_INVALID, "the outfeed is not attached, so it receives no values");
}

/* Returns the number of rows that the consumer can take. This and the following functions are called under the mutex.
 */
static uint64_t count_waiting(const bg_outfeed *outfeed)
{
    if (outfeed->options.newest_only)
        return outfeed->complete > outfeed->shown;
    return outfeed->complete - atomic_load(&outfeed->taken.value);
}

static bg_status report(const bg_outfeed *outfeed, bg_error *error)
{
    if (outfeed->error.status == BG_OK)
        return BG_OK;
    bg_error_set(error, outfeed->error.status, "%s", outfeed->error.message);
    return bg_error_context(error, outfeed->error.status, "outfeed: the run failed");
}

/* Removes row `row` from the ring. */
static void free_row(bg_outfeed *outfeed, uint64_t row)
{
    atomic_store(&outfeed->written[row % outfeed->capacity], 0);
    set_taken(outfeed, row + 1);
}

static const unsigned char *find_row(const bg_outfeed *outfeed, uint32_t leaf)
{
    const bgi_leaf *l = &outfeed->leaves[leaf];

    if (outfeed->options.newest_only)
        return l->last;
    return l->rows + atomic_load(&outfeed->taken.value) % outfeed->capacity * l->row_bytes;
}

static void pop(bg_outfeed *outfeed)
{
    if (outfeed->options.newest_only)
        outfeed->shown = outfeed->complete;
    else
        free_row(outfeed, atomic_load(&outfeed->taken.value));
}

bg_status bg_outfeed_next(bg_outfeed *outfeed, void *const *leaves, bool *out_has, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(outfeed, "outfeed", __func__, error));
    BGI_TRY(bgi_require(out_has, "out_has", __func__, error));

    bg_status status = BG_OK;

    *out_has = false;
    BGI_TRY(check_attached(outfeed, error));
    pthread_mutex_lock(&outfeed->mutex);
    *out_has = count_waiting(outfeed) > 0;
    if (*out_has) {
        for (uint32_t i = 0; i < outfeed->leaf_count; i++)
            if (leaves != NULL && leaves[i] != NULL)
                memcpy(leaves[i], find_row(outfeed, i), outfeed->leaves[i].row_bytes);
        pop(outfeed);
    } else {
        status = report(outfeed, error);
    }
    pthread_mutex_unlock(&outfeed->mutex);
    return status;
}

bg_status bg_outfeed_wait(bg_outfeed *outfeed, double limit_s, bool *out_has, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out_has, "out_has", __func__, error));

    const uint64_t begin_ns = bgi_clock_ns(), limit_ns = limit_s > 0.0 ? (uint64_t)(limit_s * 1e9) : 0;
    bg_status status = BG_OK;

    *out_has = false;
    BGI_TRY(check_attached(outfeed, error));
    pthread_mutex_lock(&outfeed->mutex);
    while (count_waiting(outfeed) == 0 && !outfeed->is_closed && outfeed->error.status == BG_OK) {
        const uint64_t waited_ns = bgi_clock_ns() - begin_ns;
        if (waited_ns >= limit_ns)
            break;
        bgi_condition_wait_ns(&outfeed->changed, &outfeed->mutex, limit_ns - waited_ns);
    }
    *out_has = count_waiting(outfeed) > 0;
    if (!*out_has)
        status = report(outfeed, error);
    pthread_mutex_unlock(&outfeed->mutex);
    return status;
}

static bg_status take_array(const bg_outfeed *outfeed, uint32_t leaf, uint64_t count, bg_array *out, bg_error *error)
{
    bg_type type;

    BGI_TRY(find_row_type(outfeed, leaf, &type, error));
    if (!outfeed->options.newest_only && !add_dimension(&type, count))
        return bg_error_set(error, BG_ERROR_SHAPE, "outfeed: leaf `%s` has more than %d dimensions",
                            outfeed->leaves[leaf].path, BG_MAX_RANK);
    *out = (bg_array){.type = type};
    return count > 0 ? bg_array_init(out, &type, error) : BG_OK;
}

/* Copies complete rows to the arrays and removes them from the ring. Only one thread takes rows, so these rows stay
 * until then. */
static void copy_rows(bg_outfeed *outfeed, uint64_t count, bg_array *arrays)
{
    const uint64_t taken = atomic_load(&outfeed->taken.value);

    for (uint32_t i = 0; i < outfeed->leaf_count; i++) {
        const bgi_leaf *leaf = &outfeed->leaves[i];
        if (outfeed->options.newest_only) {
            memcpy(arrays[i].data, leaf->last, leaf->row_bytes);
            continue;
        }
        for (uint64_t r = 0; r < count; r++)
            memcpy((char *)arrays[i].data + r * leaf->row_bytes,
                   leaf->rows + (taken + r) % outfeed->capacity * leaf->row_bytes, leaf->row_bytes);
    }
    if (!outfeed->options.newest_only)
        for (uint64_t r = 0; r < count; r++)
            free_row(outfeed, taken + r);
}

static uint64_t count_for_dequeue(bg_outfeed *outfeed, bool wait_for_completion)
{
    uint64_t count;

    pthread_mutex_lock(&outfeed->mutex);
    while (wait_for_completion && outfeed->engine != NULL)
        pthread_cond_wait(&outfeed->changed, &outfeed->mutex);
    count = outfeed->options.newest_only ? outfeed->complete > 0 : count_waiting(outfeed);
    pthread_mutex_unlock(&outfeed->mutex);
    return count;
}

bg_status bg_outfeed_dequeue(bg_outfeed *outfeed, bool wait_for_completion, bg_array *arrays, uint64_t *out_row_count,
                             bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(outfeed, "outfeed", __func__, error));
    BGI_TRY(bgi_require(arrays, "arrays", __func__, error));

    bg_status status = BG_OK;
    uint64_t count;

    BGI_TRY(check_attached(outfeed, error));
    count = count_for_dequeue(outfeed, wait_for_completion);
    pthread_mutex_lock(&outfeed->mutex);
    if (count == 0)
        status = report(outfeed, error);
    pthread_mutex_unlock(&outfeed->mutex);
    BGI_TRY(status);
    if (count == 0 && outfeed->options.newest_only)
        return bg_error_set(error, BG_ERROR_INVALID, "outfeed: no run has written a row yet");
    for (uint32_t i = 0; i < outfeed->leaf_count && status == BG_OK; i++) {
        status = take_array(outfeed, i, count, &arrays[i], error);
        for (uint32_t done = 0; status != BG_OK && done < i; done++)
            bg_array_clear(&arrays[done]);
    }
    BGI_TRY(status);
    pthread_mutex_lock(&outfeed->mutex);
    if (count > 0)
        copy_rows(outfeed, count, arrays);
    pthread_mutex_unlock(&outfeed->mutex);
    if (out_row_count != NULL)
        *out_row_count = count;
    return BG_OK;
}

/* ---- the devices ---- */

/* Allocates memory for waiting rows and those of the run; an unbounded queue grows here, before the devices begin. */
static bg_status make_room(bg_outfeed *outfeed, uint64_t iterations, bg_error *error)
{
    const uint64_t waiting = outfeed->complete - atomic_load(&outfeed->taken.value);
    uint64_t needed;

    if (outfeed->options.newest_only || outfeed->options.bounded)
        return BG_OK;
    if (iterations > UINT64_MAX / 2 / outfeed->rows_per_step)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "an endless run produces any number of rows; make the outfeed bounded, or let it keep only the newest row");
    needed = waiting + iterations * outfeed->rows_per_step;
    return needed > outfeed->capacity ? resize(outfeed, needed, error) : BG_OK;
}

bg_status bgi_outfeed_begin(bg_outfeed *outfeed, bgi_engine *engine, uint64_t iterations, bg_error *error)
{
    bg_status status = BG_OK;

    pthread_mutex_lock(&outfeed->mutex);
    if (!atomic_load(&outfeed->is_abandoned))
        status = make_room(outfeed, iterations, error);
    if (status == BG_OK) {
        outfeed->first_row = outfeed->complete;
        outfeed->engine = engine;
        bg_error_clear(&outfeed->error);
    }
    pthread_mutex_unlock(&outfeed->mutex);
    return status;
}

void bgi_outfeed_end(bg_outfeed *outfeed, bg_status status, const char *message)
{
    pthread_mutex_lock(&outfeed->mutex);
    outfeed->engine = NULL;
    if (status != BG_OK)
        bg_error_set(&outfeed->error, status, "%s", message);
    pthread_cond_broadcast(&outfeed->changed);
    pthread_mutex_unlock(&outfeed->mutex);
}

static uint64_t find_device_row(const bgi_runner *runner, const bg_outfeed *outfeed)
{
    return outfeed->first_row + runner->run_iteration * outfeed->rows_per_step +
           (outfeed->rows_per_step == 1 ? 0 : runner->micro_batch);
}

bool bgi_outfeed_has_room(bgi_runner *runner, bg_outfeed *outfeed)
{
    const uint64_t end = find_device_row(runner, outfeed) + 1;

    return end <= outfeed->capacity || bgi_runner_reached(runner, &outfeed->taken, end - outfeed->capacity);
}

static void complete_rows(bg_outfeed *outfeed)
{
    pthread_mutex_lock(&outfeed->mutex);
    while (!atomic_load(&outfeed->is_abandoned) &&
           outfeed->complete < atomic_load(&outfeed->taken.value) + outfeed->capacity &&
           atomic_load(&outfeed->written[outfeed->complete % outfeed->capacity]) == outfeed->writes_per_row) {
        const uint64_t row = outfeed->complete++;
        if (!outfeed->options.newest_only)
            continue;
        for (uint32_t i = 0; i < outfeed->leaf_count; i++)
            memcpy(outfeed->leaves[i].last,
                   outfeed->leaves[i].rows + row % outfeed->capacity * outfeed->leaves[i].row_bytes,
                   outfeed->leaves[i].row_bytes);
        free_row(outfeed, row);
    }
    pthread_cond_broadcast(&outfeed->changed);
    pthread_mutex_unlock(&outfeed->mutex);
}

/* Adds a value to a row. The first micro-batch begins the sum, and each addition is rounded to the row's type. */
static void add(const bgi_leaf *leaf, void *to, const void *from, bool is_first)
{
    const int64_t count = bg_type_element_count(&leaf->value_type);

    if (is_first && leaf->value_type.dtype == leaf->from_dtype) {
        memcpy(to, from, leaf->value_bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const double term = bgi_load(leaf->from_dtype, from, i);
        if (is_first)
            bgi_store(leaf->value_type.dtype, to, i, term);
        else if (leaf->value_type.dtype == BG_INT32)
            ((uint32_t *)to)[i] += ((const uint32_t *)from)[i]; /* wraps around */
        else if (leaf->value_type.dtype == BG_INT64)
            ((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
        else if (leaf->value_type.dtype == BG_FLOAT32)
            ((float *)to)[i] += (float)term;
        else
            ((double *)to)[i] += term;
    }
}

void bgi_outfeed_write(bgi_runner *runner, bg_outfeed *outfeed, uint32_t leaf, const void *from)
{
    const bgi_leaf *l = &outfeed->leaves[leaf];
    const uint64_t slot = find_device_row(runner, outfeed) % outfeed->capacity;
    unsigned char *to = l->rows + slot * l->row_bytes + runner->replica * l->value_bytes;

    if (atomic_load(&outfeed->is_abandoned))
        return;
    if (outfeed->options.accumulate) {
        add(l, to, from, l->is_per_update || runner->micro_batch == 0);
        if (!l->is_per_update && runner->micro_batch + 1 < runner->plan->micro_batches)
            return;
    } else {
        memcpy(to, from, l->value_bytes);
    }
    if (atomic_fetch_add(&outfeed->written[slot], 1) + 1 == outfeed->writes_per_row)
        complete_rows(outfeed);
}
