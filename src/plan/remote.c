/*
 * remote.c: sums the bytes that a device's remote store holds, and the bytes that a step moves between the store, the
 * device and the replicas, by class of tensor. It ignores time and only adds up transfers and instructions.
 */
#include <stdio.h>

#include "core/error.h"
#include "core/text.h"
#include "options/choices.h"
#include "plan/plan.h"

const char *bg_plan_traffic_name(bg_plan_traffic traffic)
{
    static const char *const names[BG_TRAFFIC_COUNT] = {"loads", "stores", "reduces", "gathers"};

    return (unsigned)traffic < BG_TRAFFIC_COUNT ? names[traffic] : "unknown";
}

size_t bg_plan_remote_bytes(const bg_plan *plan, uint32_t device, bg_location_class location_class)
{
    if (device >= plan->device_count || (unsigned)location_class >= BG_LOCATION_COUNT)
        return 0;
    return plan->devices[device].remote_class_bytes[location_class];
}

static uint64_t sum_transfers(const bgi_plan_device *device, bg_action_kind kind, bg_location_class location_class)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < device->transfer_count; i++) {
        const bgi_transfer *transfer = &device->transfers[i];
        const bool is_piece = transfer->piece_bytes > 0 && (kind == BG_ACTION_STORE || transfer->is_own);
        if (transfer->action.kind == kind && transfer->location_class == location_class)
            bytes += is_piece ? transfer->piece_bytes : transfer->size_bytes;
    }
    return bytes;
}

static uint64_t sum_exchanges(const bgi_plan_device *device, bg_action_kind kind)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < device->instruction_count; i++)
        for (uint32_t r = 0; device->instructions[i].action.kind == kind && r < device->instructions[i].reduced_count;
             r++) {
            const bgi_reduced *reduced = &device->instructions[i].reduced[r];
            bytes += (uint64_t)reduced->element_count * bg_dtype_size_bytes(reduced->dtype);
        }
    return bytes;
}

/* Counts the model's collective calls, by which tensor-parallel replicas communicate. A gather counts the bytes of its
 * result. */
static uint64_t sum_collectives(const bgi_plan_device *device, bool are_gathers)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < device->instruction_count; i++)
        for (uint32_t n = 0; n < device->instructions[i].call_count; n++) {
            const bgi_call *call = &device->instructions[i].calls[n];
            const bgi_collective_attributes *attributes = call->attributes;
            const bool is_gather = call->is_collective && attributes->kind == BGI_COLLECTIVE_GATHER;
            if (call->is_collective && is_gather == are_gathers)
                bytes += bg_type_size_bytes(&call->types[is_gather ? call->input_count : 0]);
        }
    return bytes;
}

uint64_t bg_plan_traffic_bytes(const bg_plan *plan, uint32_t device, bg_plan_traffic traffic,
                               bg_location_class location_class)
{
    const bgi_plan_device *of = device < plan->device_count ? &plan->devices[device] : NULL;

    if (of == NULL)
        return 0;
    if (traffic == BG_TRAFFIC_LOADED)
        return sum_transfers(of, BG_ACTION_LOAD, location_class);
    if (traffic == BG_TRAFFIC_STORED)
        return sum_transfers(of, BG_ACTION_STORE, location_class);
    if (traffic != BG_TRAFFIC_REDUCED && traffic != BG_TRAFFIC_GATHERED)
        return 0;
    if (location_class == BG_LOCATION_ACTIVATIONS)
        return sum_collectives(of, traffic == BG_TRAFFIC_GATHERED);
    if (location_class == BG_LOCATION_ACCUMULATORS && traffic == BG_TRAFFIC_REDUCED)
        return sum_exchanges(of, BG_ACTION_REDUCE);
    if (location_class == BG_LOCATION_WEIGHTS && traffic == BG_TRAFFIC_GATHERED)
        return sum_exchanges(of, BG_ACTION_GATHER);
    return 0;
}

static const bg_location_class columns[] = {BG_LOCATION_WEIGHTS, BG_LOCATION_STATE, BG_LOCATION_ACCUMULATORS,
                                            BG_LOCATION_ACTIVATIONS};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static void add_row(bgi_string *text, uint32_t device, const char *what, const uint64_t *bytes)
{
    char name[48];
    uint64_t sum = 0;

    snprintf(name, sizeof name, "device %u %s", device, what);
    bgi_string_add(text, "%-19s", name);
    for (int i = 0; i < COLUMNS; i++) {
        bgi_string_add(text, " %14llu", (unsigned long long)bytes[i]);
        sum += bytes[i];
    }
    bgi_string_add(text, " %14llu\n", (unsigned long long)sum);
}

bg_status bg_plan_print_remote(const bg_plan *plan, char **out_text, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(plan, "plan", __func__, error));
    BGI_TRY(bgi_require(out_text, "out_text", __func__, error));

    bgi_string text = {0};

    bgi_string_add(&text, "%-19s", "bytes a step");
    for (int i = 0; i < COLUMNS; i++)
        bgi_string_add(&text, " %14s", bgi_location_class_name(columns[i]));
    bgi_string_add(&text, " %14s\n", "all");
    for (uint32_t d = 0; d < plan->device_count; d++) {
        uint64_t bytes[COLUMNS];
        for (int i = 0; i < COLUMNS; i++)
            bytes[i] = bg_plan_remote_bytes(plan, d, columns[i]);
        add_row(&text, d, "keeps", bytes);
        for (int traffic = 0; traffic < BG_TRAFFIC_COUNT; traffic++) {
            for (int i = 0; i < COLUMNS; i++)
                bytes[i] = bg_plan_traffic_bytes(plan, d, (bg_plan_traffic)traffic, columns[i]);
            add_row(&text, d, bg_plan_traffic_name((bg_plan_traffic)traffic), bytes);
        }
    }
    return bgi_string_finish(&text, out_text, error);
}
