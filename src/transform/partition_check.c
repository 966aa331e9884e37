/*
 * partition_check.c: verifies and prints a partition: that segments and crossings are what partition.c promises.
 */
#include "transform/transform.h"

#include <stdlib.h>

#include "core/error.h"

static const char *kind_name(bgi_segment_kind kind)
{
    static const char *const names[] = {"F", "R", "B", "W", "U"};

    return (uint32_t)kind < sizeof names / sizeof names[0] ? names[kind] : "?";
}

/* ---- proof ---- */

static bg_status check_segment(const bgi_partition *partition, const bg_graph *graph, uint32_t index, bool *is_seen,
                               bg_error *error)
{
    const bgi_segment *segment = &partition->segments[index];

    if (segment->stage >= partition->stage_count)
        return bg_error_set(error, BG_ERROR_INTERNAL, "segment %u is of stage %u, but there are %u stages", index,
                            segment->stage, partition->stage_count);
    for (uint32_t i = 0; i < segment->op_count; i++) {
        const uint32_t op = segment->ops[i];
        if (op >= graph->op_count || is_seen[op])
            return bg_error_set(error, BG_ERROR_INTERNAL, "op %u is %s", op,
                                op >= graph->op_count ? "not in the graph" : "in two segments");
        is_seen[op] = true;
        if (partition->op_segments[op] != index || partition->op_stages[op] != segment->stage)
            return bg_error_set(
                error, BG_ERROR_INTERNAL, "op `%s` is in segment %u (stage %u) but recorded in %u (stage %u)",
                graph->ops[op].name, index, segment->stage, partition->op_segments[op], partition->op_stages[op]);
    }
    return BG_OK;
}

static bg_status check_segments(const bgi_partition *partition, const bg_graph *graph, bool *is_seen, bg_error *error)
{
    for (uint32_t s = 0; s < partition->segment_count; s++) {
        const bg_status status = check_segment(partition, graph, s, is_seen, error);
        if (status != BG_OK)
            return status;
    }
    for (size_t o = 0; o < graph->op_count; o++)
        if (!is_seen[o])
            return bg_error_set(error, BG_ERROR_INTERNAL, "op `%s` is in no segment", graph->ops[o].name);
    return BG_OK;
}

static bg_status check_crossing(const bgi_partition *partition, const bg_graph *graph, uint32_t index, bg_error *error)
{
    const bgi_crossing *crossing = &partition->crossings[index];
    const uint32_t v = crossing->value.id;
    const bgi_value *value;

    if (v == 0 || v >= graph->value_count || partition->roots[v].id != v)
        return bg_error_set(error, BG_ERROR_INTERNAL, "crossing %u is of value %u, which has no separate bytes", index,
                            v);
    value = &graph->values[v];
    if (crossing->from_segment >= partition->segment_count || crossing->to_stage >= partition->stage_count)
        return bg_error_set(
            error, BG_ERROR_INTERNAL,
            "crossing %u is from segment %u of %u to stage %u of %u; both numbers must be below these counts", index,
            crossing->from_segment, partition->segment_count, crossing->to_stage, partition->stage_count);
    if (value->kind == BGI_VALUE_RESULT && partition->op_segments[value->op] != crossing->from_segment)
        return bg_error_set(error, BG_ERROR_INTERNAL,
                            "crossing %u comes from segment %u, but its value is made in segment %u", index,
                            crossing->from_segment, partition->op_segments[value->op]);
    return BG_OK;
}

bg_status bgi_partition_verify(const bgi_partition *partition, const bg_graph *graph, bg_error *error)
{
    bool *is_seen = calloc(graph->op_count + 1, sizeof *is_seen);
    bg_status status;

    if (is_seen == NULL)
        return bgi_error_memory(error, "a partition", graph->op_count);
    status = check_segments(partition, graph, is_seen, error);
    free(is_seen);
    for (uint32_t i = 0; status == BG_OK && i < partition->crossing_count; i++)
        status = check_crossing(partition, graph, i, error);
    return status;
}

/* ---- text ---- */

static void print_segment_name(const bgi_segment *segment, bgi_string *text)
{
    bgi_string_add(text, "%s stage %u", kind_name(segment->kind), segment->stage);
    if (segment->kind == BGI_SEGMENT_UPDATE)
        bgi_string_add(text, " level %u", segment->level);
}

void bgi_partition_print(const bgi_partition *partition, const bg_graph *graph, bgi_string *text)
{
    for (uint32_t s = 0; s < partition->segment_count; s++) {
        const bgi_segment *segment = &partition->segments[s];
        bgi_string_add(text, "segment ");
        print_segment_name(segment, text);
        bgi_string_add(text, ":");
        for (uint32_t i = 0; i < segment->op_count; i++)
            bgi_string_add(text, " `%s`", graph->ops[segment->ops[i]].name);
        bgi_string_add(text, "\n");
    }
    for (uint32_t i = 0; i < partition->crossing_count; i++) {
        const bgi_crossing *crossing = &partition->crossings[i];
        bgi_string_add(text, "crossing `%s`: ", graph->values[crossing->value.id].name);
        print_segment_name(&partition->segments[crossing->from_segment], text);
        bgi_string_add(text, " to %s stage %u\n", kind_name(crossing->to_kind), crossing->to_stage);
    }
}
