/*
 * stages.c: which stage and device each block belongs to.
 *
 * Three ways. Single: everything is stage 0. Explicit: the text "B1,B2|B3,B4@0" lists the blocks of each stage; a stage
 * runs on the device behind @, else on the device of its own position; neighbours on one device become one stage.
 * Automatic: blocks in the order in which they are met; with device ids, neighbours on one device form a stage; without
 * any, each block is a stage of its own. Ops before the first annotation belong to stage 0.
 */
#include "transform/transform.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"

#define NO_STAGE UINT32_MAX
enum { MOST_DEVICES = 65536 };

void bgi_stages_clear(bgi_stages *stages)
{
    free(stages->stage_devices);
    free(stages->block_stages);
    memset(stages, 0, sizeof *stages);
}

static bool add_stage(bgi_stages *stages, uint32_t device)
{
    uint32_t *grown = realloc(stages->stage_devices, (stages->stage_count + 1) * sizeof *grown);

    if (grown == NULL)
        return false;
    stages->stage_devices = grown;
    grown[stages->stage_count++] = device;
    return true;
}

static bool is_on_last_device(const bgi_stages *stages, uint32_t device)
{
    return stages->stage_count > 0 && stages->stage_devices[stages->stage_count - 1] == device;
}

/* ---- explicit ---- */

static bg_status unknown_block(const bg_graph *graph, const char *name, size_t length, bg_error *error)
{
    bgi_text names = {0};

    for (size_t b = 1; b < graph->block_count; b++)
        bgi_text_add(&names, "%s`%s`", b == 1 ? "" : ", ", graph->blocks[b].name);
    bg_error_set(error, BG_ERROR_NOT_FOUND, "stages: block `%.*s` is not in the model; its blocks are %s", (int)length,
                 name, names.data != NULL ? names.data : "none");
    bgi_text_clear(&names);
    return BG_ERROR_NOT_FOUND;
}

static bg_status put_block(const bg_graph *graph, bgi_stages *stages, const char *name, size_t length, uint32_t stage,
                           bg_error *error)
{
    while (length > 0 && isspace((unsigned char)name[0]))
        name++, length--;
    while (length > 0 && isspace((unsigned char)name[length - 1]))
        length--;
    if (length == 0)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "stages: an empty block name in stage %u; write \"B1,B2|B3\" (| parts stages)", stage);
    for (size_t b = 1; b < graph->block_count; b++) {
        if (strncmp(graph->blocks[b].name, name, length) != 0 || graph->blocks[b].name[length] != '\0')
            continue;
        if (stages->block_stages[b] != NO_STAGE)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "stages: block `%s` is in stage %u and in stage %u; once is right",
                                graph->blocks[b].name, stages->block_stages[b], stage);
        stages->block_stages[b] = stage;
        return BG_OK;
    }
    return unknown_block(graph, name, length, error);
}

/* "B1,B2@3": the blocks of one stage and its device. Neighbours on one device are one stage: nothing lies between. */
static bg_status put_stage(const bg_graph *graph, bgi_stages *stages, uint32_t position, const char *text,
                           size_t length, bg_error *error)
{
    const char *at = memchr(text, '@', length);
    uint32_t device = position;

    if (at != NULL) {
        const char *digits = at + 1;
        char *end;
        unsigned long parsed;
        while (digits < text + length && isspace((unsigned char)*digits))
            digits++;
        parsed = strtoul(digits, &end, 10);
        while (end < text + length && isspace((unsigned char)*end))
            end++;
        if (!isdigit((unsigned char)*digits) || end != text + length || parsed >= MOST_DEVICES)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "stages: `%.*s` is no device number (in stage %u, after @); they go from 0 to %d",
                                (int)(text + length - at - 1), at + 1, position, MOST_DEVICES - 1);
        device = (uint32_t)parsed;
        length = (size_t)(at - text);
    }
    if (!is_on_last_device(stages, device) && !add_stage(stages, device))
        return bgi_error_memory(error, "stages", 0);
    for (size_t begin = 0; begin <= length;) {
        const char *comma = memchr(text + begin, ',', length - begin);
        const size_t end = comma != NULL ? (size_t)(comma - text) : length;
        BGI_TRY(put_block(graph, stages, text + begin, end - begin, stages->stage_count - 1, error));
        begin = end + 1;
    }
    return BG_OK;
}

static bg_status assign_explicit(const bg_graph *graph, const char *text, bgi_stages *stages, bg_error *error)
{
    uint32_t position = 0;

    for (const char *begin = text; begin != NULL; position++) {
        const char *bar = strchr(begin, '|');
        BGI_TRY(put_stage(graph, stages, position, begin, bar != NULL ? (size_t)(bar - begin) : strlen(begin), error));
        begin = bar != NULL ? bar + 1 : NULL;
    }
    return BG_OK;
}

/* ---- automatic ---- */

static bg_status assign_automatic(const bg_graph *graph, bgi_stages *stages, bg_error *error)
{
    const bgi_block *with_device = NULL, *without_device = NULL;

    for (size_t o = 0; o < graph->op_count; o++) {
        const uint32_t b = graph->ops[o].block;
        const bgi_block *block = &graph->blocks[b];
        if (b == 0 || b == BGI_BLOCK_NONE || stages->block_stages[b] != NO_STAGE)
            continue;
        if (block->device != BG_DEVICE_NONE)
            with_device = block;
        else
            without_device = block;
        if (with_device != NULL && without_device != NULL)
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "block `%s` has device %u but block `%s` has none; give all blocks a device, or none, or "
                "say which blocks form stages",
                with_device->name, with_device->device, without_device->name);
        if (!(block->device != BG_DEVICE_NONE && is_on_last_device(stages, block->device)) &&
            !add_stage(stages, block->device == BG_DEVICE_NONE ? stages->stage_count : block->device))
            return bgi_error_memory(error, "stages", 0);
        stages->block_stages[b] = stages->stage_count - 1;
    }
    if (stages->stage_count == 0 && !add_stage(stages, 0))
        return bgi_error_memory(error, "stages", 0);
    return BG_OK;
}

/* ---- checks ---- */

static bg_status check_devices(bgi_stages *stages, bg_error *error)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < stages->stage_count; s++)
        if (stages->stage_devices[s] + 1 > count)
            count = stages->stage_devices[s] + 1;
    for (uint32_t d = 0; d < count; d++) {
        bool used = false;
        for (uint32_t s = 0; s < stages->stage_count && !used; s++)
            used = stages->stage_devices[s] == d;
        if (!used)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "device %u has no stage, but device %u has; number the devices from 0 without gaps", d,
                                count - 1);
    }
    stages->device_count = count;
    return BG_OK;
}

static bg_status check_op(const bg_graph *graph, const bgi_stages *stages, const bgi_op *op, bg_error *error)
{
    const uint32_t stage = op->block == BGI_BLOCK_NONE ? NO_STAGE : stages->block_stages[op->block];

    if (op->block == BGI_BLOCK_NONE)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "no active block at %s `%s`: all ops must belong to a block; it was added after a block scope "
            "had ended",
            op->type->name, op->name);
    if (stage == NO_STAGE)
        return bg_error_set(error, BG_ERROR_INVALID, "block `%s` is in no stage; add it to the stages",
                            graph->blocks[op->block].name);
    for (uint32_t i = 0; i < op->input_count; i++) {
        const bgi_value *value = bgi_graph_value(graph, op->inputs[i]);
        const bgi_op *source;
        if (value->kind != BGI_VALUE_RESULT)
            continue;
        source = &graph->ops[value->op];
        if (stages->block_stages[source->block] > stage)
            return bg_error_set(
                error, BG_ERROR_INVALID,
                "a cycle between stages: %s `%s` (block `%s`, stage %u) needs `%s` from block `%s` of the "
                "later stage %u; order the stages along the data flow",
                op->type->name, op->name, graph->blocks[op->block].name, stage, value->name,
                graph->blocks[source->block].name, stages->block_stages[source->block]);
    }
    return BG_OK;
}

/* Stages must hold ops: a stage of empty blocks would be a device with nothing to do. */
static bg_status check_stages(const bg_graph *graph, const bgi_stages *stages, bg_error *error)
{
    for (uint32_t s = 0; s < stages->stage_count; s++) {
        bool has_op = false;
        for (size_t o = 0; o < graph->op_count && !has_op; o++)
            has_op = graph->ops[o].block != BGI_BLOCK_NONE && stages->block_stages[graph->ops[o].block] == s;
        if (!has_op)
            return bg_error_set(error, BG_ERROR_INVALID, "stage %u has no ops: its blocks are empty", s);
    }
    return BG_OK;
}

bg_status bgi_assign_stages(const bg_graph *graph, const bg_options *options, bgi_stages *out, bg_error *error)
{
    bgi_stages stages = {0};
    bg_status status = BG_OK;

    stages.block_stages = malloc(graph->block_count * sizeof *stages.block_stages);
    if (stages.block_stages == NULL)
        return bgi_error_memory(error, "stages", graph->block_count * sizeof *stages.block_stages);
    for (size_t b = 0; b < graph->block_count; b++)
        stages.block_stages[b] = options->strategy == BG_STRATEGY_SINGLE || b == 0 ? 0 : NO_STAGE;
    if (options->strategy == BG_STRATEGY_SINGLE) {
        stages.device_count = 1;
        if (!add_stage(&stages, 0))
            BGI_TRY_CLEANUP(bgi_error_memory(error, "stages", 0));
        *out = stages;
        return BG_OK;
    }
    BGI_TRY_CLEANUP(options->stages != NULL ? assign_explicit(graph, options->stages, &stages, error)
                                            : assign_automatic(graph, &stages, error));
    BGI_TRY_CLEANUP(check_devices(&stages, error));
    for (size_t o = 0; o < graph->op_count; o++)
        BGI_TRY_CLEANUP(check_op(graph, &stages, &graph->ops[o], error));
    BGI_TRY_CLEANUP(check_stages(graph, &stages, error));
    *out = stages;
    return BG_OK;
cleanup:
    bgi_stages_clear(&stages);
    return status;
}
