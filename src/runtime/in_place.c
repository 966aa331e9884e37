/*
 * in_place.c: finds the weights that devices can read outside of their arenas, in inference. The weights' places in the
 * arenas stay unused, and operands in these places are redirected.
 */
#include "runtime/engine.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "runtime/record.h"

static bool is_arena(const bgi_operand *operand)
{
    return operand->memory == BGI_MEMORY_ARENA && operand->edge == BGI_NO_EDGE;
}

/* ---- which ---- */

/* Whether the variable is a whole weight in arenas, and no op writes it. */
static bool is_whole(const bgi_plan_variable *variable)
{
    if ((variable->role != BG_ROLE_PARAMETER && variable->role != BG_ROLE_BUFFER) || variable->is_written ||
        variable->section != NULL || variable->shard != NULL || variable->piece_count > 0)
        return false;
    for (uint32_t p = 0; p < variable->place_count; p++)
        if (!is_arena(&variable->places[p].operand))
            return false;
    return true;
}

static bool is_at(const bgi_plan_variable *variable, uint32_t device, const bgi_operand *operand)
{
    for (uint32_t p = 0; p < variable->place_count; p++)
        if (variable->places[p].device == device && is_arena(operand) &&
            operand->offset >= variable->places[p].operand.offset &&
            operand->offset < variable->places[p].operand.offset + bgi_plan_variable_bytes(variable))
            return true;
    return false;
}

/* Excludes variables, except `but`, that have a place on the device where the operand is. */
static void exclude(const bg_plan *plan, uint32_t device, const bgi_operand *operand, uint32_t but, bool *in_place)
{
    for (uint32_t i = 0; i < plan->variable_count; i++)
        if (in_place[i] && i != but && is_at(&plan->variables[i], device, operand))
            in_place[i] = false;
}

static void exclude_written(const bg_plan *plan, uint32_t device, const bgi_instruction *instruction, bool *in_place)
{
    for (uint32_t c = 0; c < instruction->call_count; c++)
        for (uint32_t i = 0; i < instruction->calls[c].output_count; i++)
            exclude(plan, device, &instruction->calls[c].operands[instruction->calls[c].input_count + i], UINT32_MAX,
                    in_place);
}

bg_status bgi_in_place_choose(const bg_plan *plan, bool **out, bg_error *error)
{
    const char *files = plan->options.files.memmap_dir;
    bool *in_place;

    *out = NULL;
    if (plan->training || (files != NULL && files[0] != '\0'))
        return BG_OK;
    in_place = calloc((size_t)plan->variable_count + 1, sizeof *in_place);
    if (in_place == NULL)
        return bgi_error_memory(error, "variables", plan->variable_count);
    for (uint32_t i = 0; i < plan->variable_count; i++)
        in_place[i] = is_whole(&plan->variables[i]);
    for (uint32_t d = 0; d < plan->device_count; d++)
        for (uint32_t i = 0; i < plan->devices[d].instruction_count; i++)
            exclude_written(plan, d, &plan->devices[d].instructions[i], in_place);
    for (uint32_t i = 0; i < plan->variable_count; i++)
        for (uint32_t p = 0; p < plan->variables[i].place_count; p++)
            exclude(plan, plan->variables[i].places[p].device, &plan->variables[i].places[p].operand, i, in_place);
    *out = in_place;
    return BG_OK;
}

uint64_t bgi_in_place_bytes(const bg_plan *plan, uint32_t device)
{
    bool *in_place;
    uint64_t bytes = 0;

    if (bgi_in_place_choose(plan, &in_place, NULL) != BG_OK) /* subtracting nothing overestimates the memory */
        return 0;
    for (uint32_t i = 0; in_place != NULL && i < plan->variable_count; i++)
        for (uint32_t p = 0; in_place[i] && p < plan->variables[i].place_count; p++)
            if (plan->variables[i].places[p].device == device)
                bytes += bgi_plan_variable_bytes(&plan->variables[i]);
    free(in_place);
    return bytes;
}

/* ---- where ---- */

static int compare_ranges(const void *a, const void *b)
{
    const bgi_range *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static bg_status list_ranges(const bg_plan *plan, uint32_t device, const bool *in_place, bgi_in_place *out,
                             bg_error *error)
{
    out->ranges = calloc((size_t)plan->variable_count + 1, sizeof *out->ranges);
    if (out->ranges == NULL)
        return bgi_error_memory(error, "shared weights", plan->variable_count * sizeof *out->ranges);
    for (uint32_t i = 0; i < plan->variable_count; i++)
        for (uint32_t p = 0; in_place[i] && p < plan->variables[i].place_count; p++) {
            const bgi_place *place = &plan->variables[i].places[p];
            if (place->device != device)
                continue;
            out->ranges[out->count++] =
                (bgi_range){.begin = place->operand.offset,
                            .end = place->operand.offset + bgi_plan_variable_bytes(&plan->variables[i])};
            out->bytes += bgi_plan_variable_bytes(&plan->variables[i]);
        }
    qsort(out->ranges, out->count, sizeof *out->ranges, compare_ranges);
    return BG_OK;
}

bg_status bgi_in_place_create(bgi_engine *engine, const bool *in_place, bg_error *error)
{
    const uint32_t count = engine->plan->device_count;

    engine->in_place = calloc((size_t)count + 1, sizeof *engine->in_place);
    if (engine->in_place == NULL)
        return bgi_error_memory(error, "shared weights", count * sizeof *engine->in_place);
    engine->in_place_count = count;
    for (uint32_t d = 0; d < count; d++)
        BGI_TRY(list_ranges(engine->plan, d, in_place, &engine->in_place[d], error));
    return BG_OK;
}

void bgi_in_place_clear(bgi_engine *engine)
{
    for (uint32_t d = 0; d < engine->in_place_count; d++)
        free(engine->in_place[d].ranges);
    free(engine->in_place);
}

static bgi_range *find_range(const bgi_in_place *in_place, size_t offset)
{
    uint32_t low = 0, high = in_place->count;

    if (high == 0 ||
        offset >= in_place->ranges[high - 1]
                      .end) /* most activations end the search here, because weights are at the arena's beginning */
        return NULL;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (in_place->ranges[middle].end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < in_place->count && in_place->ranges[low].begin <= offset ? &in_place->ranges[low] : NULL;
}

void bgi_in_place_set(bgi_engine *engine, const bgi_plan_variable *variable, void *data)
{
    for (uint32_t p = 0; p < variable->place_count; p++) {
        const bgi_place *place = &variable->places[p];
        find_range(&engine->in_place[place->device], place->operand.offset)->data = data;
    }
}

void *bgi_in_place_address(const bgi_in_place *in_place, size_t offset)
{
    const bgi_range *range = find_range(in_place, offset);

    return range != NULL && range->data != NULL ? range->data + (offset - range->begin) : NULL;
}
