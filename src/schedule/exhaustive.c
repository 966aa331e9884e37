/*
 * exhaustive.c: tries every order of a small problem. The orders of each device are listed separately. Micro-batches
 * ascend, F comes before R before B before W, and the device makes its own values before it reads them, and its slots
 * fit its limit. Then all combinations of these orders are timed. Two stages with three micro-batches have 25
 * combinations, or 1764 when W is separate.
 */
#include "schedule/automatic.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

/* Limits of a small problem: the number of orders of a device, the number of actions examined over all combinations,
 * and the number of rows of a device. */
enum { MOST_LISTS = 1 << 12, MOST_WORK = 1 << 20, MOST_ROWS = 32 };

typedef struct lists {
    uint32_t *items; /* [count][length] */
    size_t capacity; /* elements */
    uint32_t count, length;
} lists;

typedef struct enumeration {
    bgi_search *search;
    lists *devices;
    uint32_t *order;
    uint32_t *next; /* by row: the next micro-batch */
    uint32_t rows[MOST_ROWS];
    uint32_t row_count;
    uint32_t device;
    uint32_t listed; /* the number of orders of this device, including those that do not fit */
    bool is_too_large;
} enumeration;

static bool is_local_input_missing(const enumeration *e, uint32_t row, uint32_t micro_batch)
{
    const bgi_schedule_layout *layout = &e->search->layout;

    for (uint32_t i = layout->to.begin[row]; i < layout->to.begin[row + 1]; i++) {
        const bgi_schedule_edge_rows *edge = &layout->edges[layout->to.edges[i]];
        if (!edge->crosses && e->next[edge->from] <= micro_batch)
            return true;
    }
    return false;
}

static bool may_follow(const enumeration *e, uint32_t place, uint32_t row)
{
    const bgi_search *search = e->search;
    const bgi_schedule_layout *layout = &search->layout;
    const bgi_schedule_row *info = &layout->rows[row];
    const uint32_t micro_batch = e->next[row], begin = search->begins[e->device];

    if (micro_batch >= info->count || is_local_input_missing(e, row, micro_batch))
        return false;
    if (info->kind != BG_ACTION_FORWARD && e->next[bgi_search_previous_row(search, row)] <= micro_batch)
        return false;
    if (place > begin) {
        const uint32_t before = search->rows[e->order[place - 1]];
        if (bgi_search_is_bound(search, before))
            return row == bgi_search_next_row(search, before);
    }
    return true;
}

static bg_status keep_list(enumeration *e, bg_error *error)
{
    const bgi_search *search = e->search;
    const size_t *limits = search->problem->device_slot_bytes;
    lists *own = &e->devices[e->device];
    const size_t used = (size_t)own->count * own->length;

    e->is_too_large = e->listed++ == MOST_LISTS;
    if (e->is_too_large ||
        (limits != NULL && bgi_search_device_bytes(e->search, e->order, e->device) > (double)limits[e->device]))
        return BG_OK;
    if (!bgi_array_reserve((void **)&own->items, &own->capacity, used + own->length, sizeof *own->items))
        return bgi_error_memory(error, "searching a schedule", (used + own->length) * sizeof *own->items);
    if (own->length > 0) /* a device without stages has an empty list */
        memcpy(own->items + used, e->order + search->begins[e->device], own->length * sizeof *own->items);
    own->count++;
    return BG_OK;
}

static bg_status list_orders(enumeration *e, uint32_t place, bg_error *error)
{
    if (place == e->search->ends[e->device])
        return keep_list(e, error);
    for (uint32_t i = 0; i < e->row_count && !e->is_too_large; i++) {
        const uint32_t row = e->rows[i];
        if (!may_follow(e, place, row))
            continue;
        e->order[place] = e->search->layout.rows[row].first + e->next[row]++;
        BGI_TRY(list_orders(e, place + 1, error));
        e->next[row]--;
    }
    return BG_OK;
}

static bg_status list_device(enumeration *e, uint32_t device, bg_error *error)
{
    const bgi_search *search = e->search;
    const uint32_t begin = search->begins[device], end = search->ends[device];

    e->device = device;
    e->devices[device].length = end - begin;
    e->row_count = 0;
    e->listed = 0;
    for (uint32_t at = begin; at < end; at++) {
        const uint32_t row = search->rows[e->order[at]];
        if (e->order[at] != search->layout.rows[row].first)
            continue; /* the row was counted with its first instance */
        if (e->row_count == MOST_ROWS) {
            e->is_too_large = true;
            return BG_OK;
        }
        e->rows[e->row_count++] = row;
    }
    return list_orders(e, begin, error);
}

static void take_list(enumeration *e, uint32_t device, uint32_t number)
{
    const lists *own = &e->devices[device];

    if (own->length > 0)
        memcpy(e->order + e->search->begins[device], own->items + (size_t)number * own->length,
               own->length * sizeof *own->items);
}

/* Steps through the combinations like an odometer. */
static bg_status try_combinations(enumeration *e, uint32_t *numbers, bg_error *error)
{
    const uint32_t devices = e->search->problem->device_count;
    uint32_t device = 0;
    bool is_kept;

    for (uint32_t d = 0; d < devices; d++)
        take_list(e, d, 0);
    while (device < devices && !bgi_search_is_done(e->search)) {
        if (bgi_search_time(e->search, e->order) < e->search->best_ns)
            BGI_TRY(bgi_search_consider(e->search, e->order, &is_kept, error));
        for (device = 0; device < devices; device++) {
            numbers[device] = numbers[device] + 1 < e->devices[device].count ? numbers[device] + 1 : 0;
            take_list(e, device, numbers[device]);
            if (numbers[device] != 0)
                break;
        }
    }
    return BG_OK;
}

static bg_status enumerate(enumeration *e, uint32_t *numbers, bg_error *error)
{
    const uint32_t devices = e->search->problem->device_count;
    uint64_t work = e->search->action_count;

    for (uint32_t device = 0; device < devices && !e->is_too_large; device++) {
        BGI_TRY(list_device(e, device, error));
        work *= e->devices[device].count;
        e->is_too_large = e->is_too_large || work > MOST_WORK;
        if (work == 0)
            return BG_OK; /* a device has no order within its limit */
        take_list(e, device, 0);
    }
    if (e->is_too_large)
        return BG_OK;
    e->search->work_left = e->search->work_left < 4 * work ? 4 * work : e->search->work_left;
    return try_combinations(e, numbers, error);
}

bg_status bgi_search_exhaust(bgi_search *search, const uint32_t *any_order, bool *out_is_complete, bg_error *error)
{
    const uint32_t devices = search->problem->device_count;
    enumeration e = {.search = search};
    uint32_t *numbers = bgi_arena_allocate(&search->arena, devices, sizeof *numbers);
    bg_status status;

    *out_is_complete = false;
    if (numbers == NULL)
        return bgi_error_memory(error, "searching a schedule", devices * sizeof *numbers);
    if (search->action_count > 64 || devices > 64)
        return BG_OK; /* too many orders, so the work is not computed */
    e.devices = bgi_arena_allocate(&search->arena, devices, sizeof *e.devices);
    e.order = bgi_arena_copy(&search->arena, any_order, search->layout.instance_count * sizeof *e.order);
    e.next = bgi_arena_allocate(&search->arena, search->layout.row_count, sizeof *e.next);
    if (e.devices == NULL || e.order == NULL || e.next == NULL)
        return bgi_error_memory(error, "searching a schedule", search->layout.instance_count * sizeof *e.order);
    status = enumerate(&e, numbers, error);
    *out_is_complete = status == BG_OK && !e.is_too_large;
    for (uint32_t device = 0; device < devices; device++)
        free(e.devices[device].items);
    return status;
}
