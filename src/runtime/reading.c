/*
 * reading.c: borrows the values of one version for a reader's run.
 */
#include <stdlib.h>

#include "core/error.h"
#include "runtime/session.h"
#include "runtime/weights.h"

/* ---- a run ---- */

static bg_status lose(const bgi_weight *weight, bg_error *error)
{
    return bg_error_set(error, BG_ERROR_NOT_FOUND,
                        "weight `%s` is not in the weights any more: pieces of it were joined; create a new reader",
                        weight->name);
}

/* Borrows the values of another version. */
static bg_status change_version(bg_session *session, const bgi_version *version, bg_error *error)
{
    bgi_reading *reading = session->reading;
    bg_weights *weights = session->weights;

    for (uint32_t i = 0; i < reading->count; i++) {
        const uint32_t number = reading->numbers[i];
        const bgi_published *item = number < version->count ? &version->items[number] : NULL;
        if (item == NULL || item->name == NULL)
            return lose(&weights->items[i], error);
        if (reading->changes[i] == item->change && weights->items[i].data == item->block->data)
            continue;
        weights->items[i].data = item->block->data;
        weights->items[i].version++;
        weights->epoch++;
        reading->changes[i] = item->change;
    }
    weights->step = version->step;
    reading->version = version->number;
    return BG_OK;
}

bg_status bgi_reading_begin(bg_session *session, bg_error *error)
{
    bgi_reading *reading = session->reading;
    const bgi_version *version = bgi_reader_take(&reading->source->publication, reading->reader);

    return version->number == reading->version ? BG_OK : change_version(session, version, error);
}

void bgi_reading_end(bg_session *session)
{
    bgi_reader_drop(session->reading->reader);
}

/* ---- the end ---- */

void bgi_reading_free(bgi_reading *reading)
{
    if (reading == NULL)
        return;
    free(reading->numbers);
    free(reading->changes);
    free(reading);
}

void bgi_reading_close(bgi_reading *reading, bool is_dead)
{
    bg_weights *source;

    if (reading == NULL)
        return;
    source = reading->source;
    if (!is_dead)
        bgi_reader_remove(&source->publication, reading->reader);
    bgi_reading_free(reading);
    bg_weights_destroy(source);
}
