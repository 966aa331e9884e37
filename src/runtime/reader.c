/*
 * reader.c: implements sessions for inference that read published values. Several such sessions may run at once, each
 * with its own workers, while another session trains the same weights. Shared values are in memory once, and a run uses
 * one version from its first op to its last.
 */
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/error.h"
#include "runtime/session.h"
#include "runtime/weights.h"

/* ---- life ---- */

static bg_status open_reading(bg_weights *source, bgi_reading **out, bg_error *error)
{
    bgi_reading *reading = bgi_take_pages(1, sizeof *reading);

    if (reading == NULL)
        return bgi_error_memory(error, "a reader", sizeof *reading);
    reading->reader = bgi_reader_add(&source->publication);
    if (reading->reader == NULL) {
        bgi_reading_free(reading);
        return bgi_error_memory(error, "a reader", sizeof *reading->reader);
    }
    atomic_fetch_add(&source->references, 1);
    reading->source = source;
    *out = reading;
    return BG_OK;
}

/* ---- the reader's own weights ---- */

/* Whether ops of the plan write the variable; the session then keeps a separate value, which begins as the published
 * one. */
static bool is_written(const bg_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->variable_count; i++)
        if (plan->variables[i].is_written && strcmp(bgi_plan_variable_weight(&plan->variables[i]), name) == 0)
            return true;
    return false;
}

static bg_status add_own(bg_weights *weights, const bgi_published *item, bg_error *error)
{
    BGI_TRY(bgi_weights_add(weights, item->name, &item->type, item->role, NULL, 0, error));
    memcpy(weights->items[weights->count - 1].data, item->block->data, bg_type_size_bytes(&item->type));
    return BG_OK;
}

static bg_status list_values(const bg_plan *plan, const bgi_version *version, bgi_reading *reading, bg_weights *weights,
                             bg_error *error)
{
    reading->numbers = calloc((size_t)version->count + 1, sizeof *reading->numbers);
    reading->changes = calloc((size_t)version->count + 1, sizeof *reading->changes);
    if (reading->numbers == NULL || reading->changes == NULL)
        return bgi_error_memory(error, "a reader", version->count * sizeof *reading->changes);
    for (uint32_t i = 0; i < version->count; i++) {
        const bgi_published *item = &version->items[i];
        if (item->name == NULL || is_written(plan, item->name))
            continue;
        reading->numbers[weights->count] = i;
        reading->changes[weights->count] = item->change;
        BGI_TRY(bgi_weights_borrow(weights, item->name, &item->type, item->role, item->block->data, error));
    }
    reading->count = weights->count;
    for (uint32_t i = 0; i < version->count; i++)
        if (version->items[i].name != NULL && is_written(plan, version->items[i].name))
            BGI_TRY(add_own(weights, &version->items[i], error));
    reading->version = version->number;
    weights->step = version->step;
    return BG_OK;
}

static bg_status check_plan(const bg_plan *plan, bg_error *error)
{
    const bg_transport *transport = plan->options.execution.transport;

    if (plan->training)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the plan trains, and a reader cannot change weights; use bg_session_create");
    if (plan->options.execution.compile_only)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the plan was made with options.compile_only, only for inspection, and cannot run; make it "
                            "again with compile_only false");
    if (transport != NULL && transport->rank_count > 1)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the plan has %u ranks, but readers share the memory of one process; use bg_session_create",
                            transport->rank_count);
    if (plan->options.files.memmap_dir != NULL && plan->options.files.memmap_dir[0] != '\0')
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "the plan has options.memmap_dir, so its weights are in its own files; use bg_session_create");
    return BG_OK;
}

/* ---- the public face ---- */

static bg_status publish_first(bg_weights *weights, bg_error *error)
{
    bg_status status;

    if (atomic_load(&weights->publication.current) != NULL)
        return BG_OK;
    BGI_TRY(bgi_weights_enter(weights, NULL, "bg_session_create_reader, which publishes the weights", error));
    status = atomic_load(&weights->publication.current) != NULL ? BG_OK : bgi_weights_publish(weights, error);
    bgi_weights_leave(weights);
    return status;
}

/* Creates the reader's session from the current version, which the caller drops afterward. */
static bg_status create_session(const bg_plan *plan, bgi_reading *reading, bg_session **out, bg_error *error)
{
    const bgi_version *version = bgi_reader_take(&reading->source->publication, reading->reader);
    bg_weights *own = NULL;
    bg_status status;

    BGI_TRY(bg_weights_create(&own, error));
    status = list_values(plan, version, reading, own, error);
    if (status == BG_OK)
        status = bgi_weights_enter(own, NULL, "bg_session_create_reader", error);
    if (status == BG_OK) {
        status = bgi_session_make(plan, own, plan->options.numerics.initialize_missing, reading, out, error);
        bgi_weights_leave(own);
    }
    if (status != BG_OK)
        bg_weights_destroy(own);
    return status;
}

bg_status bg_session_create_reader(const bg_plan *plan, bg_weights *weights, bg_session **out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(weights, "weights", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));

    bgi_reading *reading = NULL;
    bg_status status;

    BGI_TRY(check_plan(plan, error));
    BGI_TRY(publish_first(weights, error));
    BGI_TRY(open_reading(weights, &reading, error));
    status = create_session(plan, reading, out, error);
    bgi_reader_drop(reading->reader);
    if (status != BG_OK)
        bgi_reading_close(reading, false);
    return status;
}

uint64_t bg_session_version(const bg_session *session)
{
    return session->reading != NULL ? session->reading->version : 0;
}
