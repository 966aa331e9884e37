/*
 * stages.c: determines the stage of each block, and the devices that the blocks or the text request.
 *
 * Single: one stage holds everything. Text: stage_text.c reads the stages. Automatic: blocks are in the order in which
 * ops name them. Neighbors with one device id form a stage; without ids each block is a stage. Ops before the first
 * block belong to stage 0, which BG_AUTO_STAGE_INCREMENT makes a separate stage. Stages without a device are placed
 * later by the schedule.
 */
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

#define NO_STAGE UINT32_MAX

/* Appends a stage in a separate phase. */
static bg_status add_next(bgi_stages *stages, uint32_t device, bg_error *error)
{
    const uint32_t number = stages->stage_count;

    return bgi_stages_add(stages, device, number, number) ? BG_OK : bgi_error_memory(error, "stages", 0);
}

/* ---- automatic ---- */

static bool is_on_last_device(const bgi_stages *stages, uint32_t device)
{
    return stages->stage_count > 0 && stages->stage_devices[stages->stage_count - 1] == device;
}

/* Checks that all blocks have a device, or none has one. */
static bg_status check_devices_given(const bgi_block *block, const bgi_block **with, const bgi_block **without,
                                     bg_error *error)
{
    if (block->device != BG_DEVICE_NONE)
        *with = block;
    else
        *without = block;
    if (*with == NULL || *without == NULL)
        return BG_OK;
    return bg_error_set(error, BG_ERROR_INVALID,
                        "block `%s` has device %u but block `%s` has none; give a device to all blocks or to none, or "
                        "say which blocks form stages",
                        (*with)->name, (*with)->device, (*without)->name);
}

static bg_status assign_automatic(const bg_graph *graph, const bg_options *options, bool merges_neighbors,
                                  bgi_stages *stages, bg_error *error)
{
    const bgi_block *with_device = NULL, *without_device = NULL;

    for (size_t o = 0; o < graph->op_count; o++) {
        const uint32_t b = graph->ops[o].block;
        const bgi_block *block = &graph->blocks[b];
        if (b == 0 || b == BGI_BLOCK_NONE || stages->block_stages[b] != NO_STAGE)
            continue;
        BGI_TRY(check_devices_given(block, &with_device, &without_device, error));
        /* Ops before the first block are on device 0, the first of the devices. */
        if (stages->stage_count == 0 && options->execution.auto_stage == BG_AUTO_STAGE_INCREMENT &&
            bgi_block_has_ops(graph, 0))
            BGI_TRY(add_next(stages, block->device == BG_DEVICE_NONE ? BG_DEVICE_NONE : 0, error));
        if (!(merges_neighbors && block->device != BG_DEVICE_NONE && is_on_last_device(stages, block->device)))
            BGI_TRY(add_next(stages, block->device, error));
        stages->block_stages[b] = stages->stage_count - 1;
    }
    return stages->stage_count == 0 ? add_next(stages, BG_DEVICE_NONE, error) : BG_OK;
}

/* Returns whether the text is a number, which may be meant as a number of stages. */
static bool is_number(const char *text)
{
    return text != NULL && text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

bg_status bgi_assign_stages(const bg_graph *graph, const bg_options *options, bool merges_neighbors, bgi_stages *out,
                            bg_error *error)
{
    bgi_stages stages = {0};
    bg_status status = BG_OK;

    stages.block_stages = malloc(graph->block_count * sizeof *stages.block_stages);
    if (stages.block_stages == NULL)
        return bgi_error_memory(error, "stages", graph->block_count * sizeof *stages.block_stages);
    for (size_t b = 0; b < graph->block_count; b++)
        stages.block_stages[b] = options->execution.strategy == BG_STRATEGY_SINGLE || b == 0 ? 0 : NO_STAGE;
    if (options->execution.strategy == BG_STRATEGY_SINGLE) {
        BGI_TRY_CLEANUP(add_next(&stages, 0, error));
        *out = stages;
        return BG_OK;
    }
    status = options->execution.stages != NULL
                 ? bgi_read_stages(graph, options->execution.stages, merges_neighbors, &stages, error)
                 : assign_automatic(graph, options, merges_neighbors, &stages, error);
    if (status == BG_OK)
        status = bgi_check_stages(graph, &stages, error);
    if (status == BG_OK) {
        *out = stages;
        return BG_OK;
    }
    if (is_number(options->execution.stages))
        bg_error_context(error, status, "\"%s\" names a block; for %s stages write auto:%s", options->execution.stages,
                         options->execution.stages, options->execution.stages);
cleanup:
    bgi_stages_clear(&stages);
    return status;
}
