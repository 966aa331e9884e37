/*
 * stage_text.c: reads stages from a text.
 *
 *     text     = phase    { ";" phase }        "B1,B2|B3;B4|B5"    phases, one after the other
 *     phase    = position { "|" position }     "B1|B2&B3|B4"
 *     position = stage    { "&" stage }        stages that run at the same time
 *     stage    = block    { "," block } [ "@" device ]
 *
 * It does not look at the data flow: stage_check.c checks whether the stages fit the model.
 */
#include "transform/transform.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/text.h"

enum { MOST_DEVICES = 65536 };

/* A part of the text; `begin` is NULL after the last part. */
typedef struct bgi_span {
    const char *begin, *end;
} bgi_span;

typedef struct bgi_stage_reader {
    const bg_graph *graph;
    bgi_stages *stages;
    bool merges_neighbors;
    uint32_t written;    /* the number of stages of the text that were read so far */
    uint32_t phase;      /* the phase that is being read */
    bool is_phase_begin; /* the phase has no stage yet */
    bool last_is_alone;  /* the last stage is the only one at its position */
    bool this_is_alone;  /* the stage that is being read is the only one at its position */
    bg_error *error;
} bgi_stage_reader;

/* Removes the part before the first separator from `rest`; returns false if nothing is left. */
static bool take_part(bgi_span *rest, char separator, bgi_span *out)
{
    const char *at;

    if (rest->begin == NULL)
        return false;
    at = memchr(rest->begin, separator, (size_t)(rest->end - rest->begin));
    *out = (bgi_span){rest->begin, at != NULL ? at : rest->end};
    rest->begin = at != NULL ? at + 1 : NULL;
    return true;
}

static bgi_span trim(bgi_span span)
{
    while (span.begin < span.end && isspace((unsigned char)span.begin[0]))
        span.begin++;
    while (span.begin < span.end && isspace((unsigned char)span.end[-1]))
        span.end--;
    return span;
}

static bg_status unknown_block(const bgi_stage_reader *r, bgi_span name)
{
    bgi_string names = {0};

    for (size_t b = 1; b < r->graph->block_count; b++)
        bgi_string_add(&names, "%s`%s`", b == 1 ? "" : ", ", r->graph->blocks[b].name);
    bg_error_set(r->error, BG_ERROR_NOT_FOUND, "stages: block `%.*s` is not in the model; its blocks are %s",
                 (int)(name.end - name.begin), name.begin, names.data != NULL ? names.data : "none");
    bgi_string_clear(&names);
    return BG_ERROR_NOT_FOUND;
}

static bg_status find_block(const bgi_stage_reader *r, bgi_span name, uint32_t *out)
{
    size_t length;

    name = trim(name);
    length = (size_t)(name.end - name.begin);
    if (length == 0)
        return bg_error_set(r->error, BG_ERROR_INVALID,
                            "stages: stage %u has an empty block name; write \"B1,B2|B3\" (| separates stages)",
                            r->written);
    for (size_t b = 1; b < r->graph->block_count; b++)
        if (strncmp(r->graph->blocks[b].name, name.begin, length) == 0 && r->graph->blocks[b].name[length] == '\0') {
            *out = (uint32_t)b;
            return BG_OK;
        }
    return unknown_block(r, name);
}

/* Removes "@3" from the stage's text and sets *out to the device, or to BG_DEVICE_NONE if there is no @. */
static bg_status take_device(bgi_stage_reader *r, bgi_span *stage, uint32_t *out)
{
    const char *at = memchr(stage->begin, '@', (size_t)(stage->end - stage->begin));
    bgi_span digits;
    unsigned long parsed;
    char *end;

    *out = BG_DEVICE_NONE;
    if (at == NULL)
        return BG_OK;
    digits = trim((bgi_span){at + 1, stage->end});
    parsed = strtoul(digits.begin, &end, 10);
    if (digits.begin == digits.end || !isdigit((unsigned char)*digits.begin) || end != digits.end ||
        parsed >= MOST_DEVICES)
        return bg_error_set(r->error, BG_ERROR_INVALID,
                            "stages: `%.*s` is not a device number (in stage %u, after @); device numbers are 0 to %d",
                            (int)(stage->end - at - 1), at + 1, r->written, MOST_DEVICES - 1);
    *out = (uint32_t)parsed;
    r->stages->has_text_devices = true;
    stage->end = at;
    return BG_OK;
}

/* Finds the device of a stage from its blocks, because the text gives none. Blocks with different devices are an
 * error. */
static bg_status find_blocks_device(const bgi_stage_reader *r, bgi_span blocks, uint32_t *device)
{
    const bgi_block *first = NULL;
    bgi_span name;

    while (take_part(&blocks, ',', &name)) {
        const bgi_block *block;
        uint32_t b = 0;
        BGI_TRY(find_block(r, name, &b));
        block = &r->graph->blocks[b];
        if (block->device == BG_DEVICE_NONE)
            continue;
        if (first != NULL && first->device != block->device)
            return bg_error_set(
                r->error, BG_ERROR_INVALID,
                "stages: blocks `%s` and `%s` of stage %u have devices %u and %u; give the stage's device with @",
                first->name, block->name, r->written, first->device, block->device);
        first = block;
        *device = block->device;
    }
    return BG_OK;
}

/* Returns whether a stage on `device` becomes part of the last stage: both are on one device, and no other stage is
 * between them. */
static bool joins_last(const bgi_stage_reader *r, uint32_t device)
{
    const bgi_stages *stages = r->stages;

    return r->merges_neighbors && device != BG_DEVICE_NONE && stages->stage_count > 0 && !r->is_phase_begin &&
           r->last_is_alone && r->this_is_alone && stages->stage_devices[stages->stage_count - 1] == device;
}

static bg_status read_stage(bgi_stage_reader *r, bgi_span stage, bool begins_position)
{
    bgi_stages *stages = r->stages;
    const uint32_t before = stages->stage_count > 0 ? stages->stage_positions[stages->stage_count - 1] : UINT32_MAX;
    uint32_t device, b = 0;
    bgi_span name;

    BGI_TRY(take_device(r, &stage, &device));
    if (device == BG_DEVICE_NONE)
        BGI_TRY(find_blocks_device(r, stage, &device));
    if (!joins_last(r, device) && !bgi_stages_add(stages, device, begins_position ? before + 1 : before, r->phase))
        return bgi_error_memory(r->error, "stages", 0);
    while (take_part(&stage, ',', &name)) {
        BGI_TRY(find_block(r, name, &b));
        if (stages->block_stages[b] != UINT32_MAX)
            return bg_error_set(r->error, BG_ERROR_INVALID,
                                "stages: block `%s` is in stage %u and in stage %u; list it once",
                                r->graph->blocks[b].name, stages->block_stages[b], stages->stage_count - 1);
        stages->block_stages[b] = stages->stage_count - 1;
    }
    r->written++;
    r->is_phase_begin = false;
    return BG_OK;
}

static bg_status read_position(bgi_stage_reader *r, bgi_span position)
{
    bgi_span stage;
    bool begins = true;

    r->this_is_alone = memchr(position.begin, '&', (size_t)(position.end - position.begin)) == NULL;
    for (; take_part(&position, '&', &stage); begins = false)
        BGI_TRY(read_stage(r, stage, begins));
    r->last_is_alone = r->this_is_alone;
    return BG_OK;
}

bg_status bgi_read_stages(const bg_graph *graph, const char *text, bool merges_neighbors, bgi_stages *stages,
                          bg_error *error)
{
    bgi_stage_reader reader = {.graph = graph, .stages = stages, .merges_neighbors = merges_neighbors, .error = error};
    bgi_span rest = {text, text + strlen(text)}, phase, position;

    stages->has_phases = strchr(text, ';') != NULL;
    for (; take_part(&rest, ';', &phase); reader.phase++) {
        reader.is_phase_begin = true;
        while (take_part(&phase, '|', &position))
            BGI_TRY(read_position(&reader, position));
    }
    for (uint32_t s = 0; !stages->has_phases && s < stages->stage_count; s++)
        stages->stage_phases[s] = stages->stage_positions[s];
    return BG_OK;
}
