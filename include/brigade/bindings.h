/*
 * bindings.h: functions that foreign function interfaces of other languages need in addition to the other headers. The
 * Python package (python/brigade) uses this header.
 *
 * A binding can compare the sizes of structs before it calls anything. For other functions that return a struct by
 * value, a function here writes the struct to *out. Functions that return a bg_value, a bg_mesh or a bg_plan_block, or
 * that make a bg_type or a bg_loop, have no such counterpart.
 *
 * Threads: as for the original function.
 */
#ifndef BRIGADE_BINDINGS_H
#define BRIGADE_BINDINGS_H

#include <brigade/convnet.h>
#include <brigade/data.h>
#include <brigade/gpt.h>
#include <brigade/plan_view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the size in bytes of a public struct in this library, by its name: "bg_options", "bg_stream". Returns 0 if
 * the struct does not exist, or belongs to a part that a core-only library lacks. */
BG_API size_t bg_struct_bytes(const char *name);

/* Writes the result of bg_graph_type. */
BG_API void bg_graph_read_type(const bg_graph *graph, bg_value value, bg_type *out);
/* Write the results of bg_plan_summarize, bg_plan_variable_at, bg_plan_edge_at and bg_plan_instruction_at. */
BG_API void bg_plan_read_summary(const bg_plan *plan, bg_plan_summary *out);
BG_API void bg_plan_read_variable(const bg_plan *plan, uint32_t index, bg_plan_variable *out);
BG_API void bg_plan_read_edge(const bg_plan *plan, uint32_t index, bg_plan_edge *out);
BG_API void bg_plan_read_instruction(const bg_plan *plan, uint32_t device, uint32_t index, bg_plan_instruction *out);
/* Write the results of bg_dataset_stream and bg_loader_statistics_of. */
BG_API void bg_dataset_read_stream(const bg_dataset *dataset, bg_sample_stream *out);
BG_API void bg_loader_read_statistics(const bg_loader *loader, bg_loader_statistics *out);
/* Call bg_convnet_build, bg_gpt_build and bg_gpt_build_steps, and write their results. */
BG_API void bg_convnet_add(bg_graph *graph, const bg_convnet_options *options, bg_convnet *out);
BG_API void bg_gpt_add(bg_graph *graph, const bg_gpt_options *options, bg_gpt *out);
BG_API void bg_gpt_add_steps(bg_graph *graph, const bg_gpt_options *options, int64_t cache_length, uint32_t sequences,
                             bg_gpt *out);

#ifdef __cplusplus
}
#endif

#endif
