/*
 * call_costs.c: implements a table of the times of calls by key, and prices from these times.
 */
#include "predict/call_costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

void bgi_call_costs_clear(bgi_call_costs *costs)
{
    for (size_t i = 0; i < costs->count; i++)
        free(costs->costs[i].key);
    free(costs->costs);
    *costs = (bgi_call_costs){.costs = NULL};
}

/* ---- keys ---- */

static bool append(char *text, size_t *length, const char *more)
{
    const size_t size = strlen(more);

    if (*length + size >= BGI_CALL_KEY_BYTES)
        return false;
    memcpy(text + *length, more, size + 1);
    *length += size;
    return true;
}

bool bgi_call_key(const bgi_call *call, char text[BGI_CALL_KEY_BYTES])
{
    char part[BG_TYPE_TEXT_BYTES + 96];
    size_t length = 0;

    text[0] = '\0';
    if (!append(text, &length, call->kernel.name != NULL ? call->kernel.name : "copy"))
        return false;
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        if (!append(text, &length,
                    i == call->input_count ? " -> "
                    : i == 0               ? " "
                                           : ", ") ||
            !append(text, &length, bg_type_text(&call->types[i], part)))
            return false;
    }
    snprintf(part, sizeof part, " / %u parts, %zu scratch, %.17g flop, %.17g bytes", call->kernel.part_count,
             call->kernel.scratch_bytes, call->cost.flops, call->cost.bytes_read + call->cost.bytes_written);
    return append(text, &length, part);
}

/* ---- the table ---- */

/* Returns the index of the key, or the index at which it would be added. */
static size_t find_place(const bgi_call_costs *costs, const char *key, bool *is_there)
{
    size_t low = 0, high = costs->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(costs->costs[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *is_there = low < costs->count && strcmp(costs->costs[low].key, key) == 0;
    return low;
}

const bgi_call_cost *bgi_call_costs_find(const bgi_call_costs *costs, const char *key)
{
    bool is_there;
    const size_t at = find_place(costs, key, &is_there);

    return is_there ? &costs->costs[at] : NULL;
}

bg_status bgi_call_costs_put(bgi_call_costs *costs, const char *key, bgi_call_times_ns ns, bg_error *error)
{
    bool is_there;
    const size_t at = find_place(costs, key, &is_there);
    char *copy;

    if (!is_there) {
        copy = malloc(strlen(key) + 1);
        if (copy == NULL ||
            !bgi_array_reserve((void **)&costs->costs, &costs->capacity, costs->count + 1, sizeof *costs->costs)) {
            free(copy);
            return bgi_error_memory(error, "costs of calls", (costs->count + 1) * sizeof *costs->costs);
        }
        memcpy(copy, key, strlen(key) + 1);
        memmove(costs->costs + at + 1, costs->costs + at, (costs->count - at) * sizeof *costs->costs);
        costs->count++;
        costs->costs[at].key = copy;
    }
    costs->costs[at].ns = ns;
    return BG_OK;
}

bg_status bgi_call_costs_count(const bgi_call_costs *costs, const bg_plan *plan, uint32_t *out_count,
                               uint32_t *out_known, bg_error *error)
{
    bgi_call_costs seen = {.costs = NULL};
    char key[BGI_CALL_KEY_BYTES];
    bg_status status = BG_OK;

    *out_known = 0;
    for (uint32_t d = 0; status == BG_OK && d < plan->device_count; d++) {
        const bgi_call *before = NULL;
        for (uint32_t i = 0; status == BG_OK && i < plan->devices[d].instruction_count; i++) {
            const bgi_instruction *instruction = &plan->devices[d].instructions[i];
            if (instruction->calls == before) /* the same pass over another micro-batch, with the same calls */
                continue;
            before = instruction->calls;
            for (uint32_t c = 0; status == BG_OK && c < instruction->call_count; c++) {
                const bgi_call *call = &instruction->calls[c];
                if (call->is_transfer || call->is_collective || !bgi_call_key(call, key) ||
                    bgi_call_costs_find(&seen, key) != NULL)
                    continue;
                *out_known += bgi_call_costs_find(costs, key) != NULL;
                status = bgi_call_costs_put(&seen, key, (bgi_call_times_ns){0}, error);
            }
        }
    }
    *out_count = (uint32_t)seen.count;
    bgi_call_costs_clear(&seen);
    return status;
}

/* ---- prices ---- */

static double time_of(const bgi_measured_prices *prices, const bgi_call_cost *cost)
{
    return prices->is_busy ? cost->ns.busy : cost->ns.alone;
}

/* Reads the operations and bytes from a key of bgi_call_key. */
static bool read_cost(const char *key, double *flops, double *bytes)
{
    const char *at = strstr(key, " scratch, ");

    return at != NULL && sscanf(at, " scratch, %lf flop, %lf bytes", flops, bytes) == 2;
}

/* Returns the ratio of measured times to those estimated from operations and bytes, both summed over the kernel's known
 * calls; 1 if there is none. */
static double correction_of(const bgi_measured_prices *prices, const char *kernel)
{
    const size_t length = strlen(kernel);
    double known = 0.0, modeled = 0.0;

    for (size_t i = 0; i < prices->costs->count; i++) {
        const bgi_call_cost *cost = &prices->costs->costs[i];
        bgi_call like = {.types = NULL};
        if (strncmp(cost->key, kernel, length) != 0 || cost->key[length] != ' ' ||
            !read_cost(cost->key, &like.cost.flops, &like.cost.bytes_read))
            continue;
        known += time_of(prices, cost);
        modeled += bgi_model_call_ns(&prices->model, &like);
    }
    return modeled > 0.0 && known > 0.0 ? known / modeled : 1.0;
}

static const bgi_call_cost *find_cost(const bgi_measured_prices *prices, const bgi_call *call)
{
    char key[BGI_CALL_KEY_BYTES];

    return bgi_call_key(call, key) ? bgi_call_costs_find(prices->costs, key) : NULL;
}

double bgi_measured_call_ns(const void *user, const bgi_call *call)
{
    const bgi_measured_prices *prices = user;
    const bgi_call_cost *cost = find_cost(prices, call);

    if (cost != NULL)
        return time_of(prices, cost);
    return bgi_model_call_ns(&prices->model, call) *
           correction_of(prices, call->kernel.name != NULL ? call->kernel.name : "copy");
}

/* The formula follows from Amdahl's law: n cores need the whole time of the part that cannot be divided, and 1/n of the
 * time of the divisible part. */
double bgi_measured_divisible_ns(const void *user, const bgi_call *call)
{
    const bgi_measured_prices *prices = user;
    const bgi_call_cost *cost = find_cost(prices, call);
    const double cores = prices->costs->cores;

    if (cost == NULL || cores < 2.0)
        return call->kernel.part_count > 1 ? bgi_measured_call_ns(user, call) : 0.0;
    return (time_of(prices, cost) - cost->ns.helped) * cores / (cores - 1.0);
}

void bgi_prices_of_machine(const bgi_call_costs *costs, uint32_t counted, uint32_t known, bgi_machine_prices *out)
{
    char processor[160];
    bgi_prices *prices = &out->prices;

    *out = (bgi_machine_prices){.alone = {.costs = costs}, .busy = {.costs = costs, .is_busy = true}};
    bgi_device_model_static(&out->alone.model);
    out->busy.model = out->alone.model;
    *prices = (bgi_prices){.model = out->alone.model,
                           .call_ns = bgi_measured_call_ns,
                           .divisible_ns = bgi_measured_divisible_ns,
                           .user = &out->alone,
                           .instruction_ns = costs->instruction_ns,
                           .shared_user = &out->busy,
                           .core_ratios = costs->core_ratios,
                           .core_ratio_count = costs->core_ratio_count};
    snprintf(prices->model.name, sizeof prices->model.name, "%s", bgi_processor_text(processor, sizeof processor));
    /* Kernels write messages in place, so messages cost nothing; copies have the measured speed. */
    prices->model.link.bytes_per_ns = prices->model.network.bytes_per_ns = 1e30;
    if (costs->copy_bytes_per_ns > 0.0) {
        prices->model.memory_bytes_per_ns = costs->copy_bytes_per_ns;
        prices->model.remote.bytes_per_ns = 0.5 * costs->copy_bytes_per_ns;
    }
    if (costs->transfer_bytes_per_ns > 0.0)
        prices->model.remote.bytes_per_ns = costs->transfer_bytes_per_ns;
    snprintf(prices->model.source, sizeof prices->model.source, "measured on this machine");
    if (known == 0)
        snprintf(prices->basis, sizeof prices->basis, "operations and bytes of each op, none measured");
    else if (known == counted)
        snprintf(prices->basis, sizeof prices->basis, "%u distinct calls measured on this machine", counted);
    else
        snprintf(prices->basis, sizeof prices->basis,
                 "%u of %u distinct calls measured on this machine, the others by operations and bytes", known,
                 counted);
}
