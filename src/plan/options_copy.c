/*
 * options_copy.c: options with all that they point to, into an arena: whoever keeps options owns them whole. Callbacks
 * and what they are given stay the user's.
 */
#include <string.h>

#include "core/error.h"
#include "plan/options.h"

static bg_status copy_text(bgi_arena *arena, const char **text, bg_error *error)
{
    if (*text == NULL)
        return BG_OK;
    *text = bgi_arena_text(arena, *text);
    return *text != NULL ? BG_OK : bgi_error_memory(error, "options", 0);
}

/* The copy of an array; NULL stays NULL. */
static bg_status copy_array(bgi_arena *arena, const void *from, size_t count, size_t element_bytes, void **out,
                            bg_error *error)
{
    *out = from != NULL ? bgi_arena_copy(arena, from, count * element_bytes) : NULL;
    return from == NULL || *out != NULL ? BG_OK : bgi_error_memory(error, "options", count * element_bytes);
}

#define COPY(pointer, field, count) copy_array(arena, from->field, count, sizeof *from->field, &pointer, error)

static bg_status copy_devices(bgi_arena *arena, const bg_options *from, bg_options *out, bg_error *error)
{
    void *mapping, *devices, *stages, *costs, *proportions;

    BGI_TRY(COPY(mapping, device_mapping, from->device_mapping_count));
    BGI_TRY(COPY(devices, devices, from->device_model_count));
    BGI_TRY(COPY(stages, stage_costs, from->stage_cost_count));
    BGI_TRY(COPY(proportions, matmul_proportions, from->matmul_proportion_count));
    BGI_TRY(COPY(costs, block_costs, from->block_cost_count));
    for (uint32_t b = 0; costs != NULL && b < from->block_cost_count; b++)
        BGI_TRY(copy_text(arena, &((bg_block_cost *)costs)[b].name, error));
    out->device_mapping = mapping;
    out->devices = devices;
    out->stage_costs = stages;
    out->matmul_proportions = proportions;
    out->block_costs = costs;
    return BG_OK;
}

bg_status bgi_options_copy(bgi_arena *arena, const bg_options *from, bg_options *out, bg_error *error)
{
    bg_options made = *from;
    void *requests, *rules;

    BGI_TRY(copy_text(arena, &made.schedule, error));
    BGI_TRY(copy_text(arena, &made.stages, error));
    BGI_TRY(copy_text(arena, &made.cache_dir, error));
    BGI_TRY(copy_text(arena, &made.log_dir, error));
    BGI_TRY(copy_text(arena, &made.memmap_dir, error));
    BGI_TRY(copy_devices(arena, from, &made, error));
    BGI_TRY(COPY(requests, output_requests, from->output_request_count));
    for (uint32_t i = 0; requests != NULL && i < from->output_request_count; i++) {
        BGI_TRY(copy_text(arena, &((bg_output_request *)requests)[i].output, error));
        BGI_TRY(copy_text(arena, &((bg_output_request *)requests)[i].name, error));
    }
    BGI_TRY(COPY(rules, location_rules, from->location_rule_count));
    for (uint32_t i = 0; rules != NULL && i < from->location_rule_count; i++)
        BGI_TRY(copy_text(arena, &((bg_location_rule *)rules)[i].pattern, error));
    made.output_requests = requests;
    made.location_rules = rules;
    *out = made;
    return BG_OK;
}
