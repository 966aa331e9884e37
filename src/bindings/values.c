/*
 * values.c: returns through a pointer what other functions return as a struct.
 */
#include <brigade/bindings.h>

void bg_graph_read_type(const bg_graph *graph, bg_value value, bg_type *out)
{
    *out = bg_graph_type(graph, value);
}

void bg_plan_read_summary(const bg_plan *plan, bg_plan_summary *out)
{
    *out = bg_plan_summarize(plan);
}

void bg_plan_read_variable(const bg_plan *plan, uint32_t index, bg_plan_variable *out)
{
    *out = bg_plan_variable_at(plan, index);
}

void bg_plan_read_edge(const bg_plan *plan, uint32_t index, bg_plan_edge *out)
{
    *out = bg_plan_edge_at(plan, index);
}

void bg_plan_read_instruction(const bg_plan *plan, uint32_t device, uint32_t index, bg_plan_instruction *out)
{
    *out = bg_plan_instruction_at(plan, device, index);
}

void bg_dataset_read_stream(const bg_dataset *dataset, bg_sample_stream *out)
{
    *out = bg_dataset_stream(dataset);
}

void bg_loader_read_statistics(const bg_loader *loader, bg_loader_statistics *out)
{
    *out = bg_loader_statistics_of(loader);
}

void bg_convnet_add(bg_graph *graph, const bg_convnet_options *options, bg_convnet *out)
{
    *out = bg_convnet_build(graph, options);
}

void bg_gpt_add(bg_graph *graph, const bg_gpt_options *options, bg_gpt *out)
{
    *out = bg_gpt_build(graph, options);
}

void bg_gpt_add_steps(bg_graph *graph, const bg_gpt_options *options, int64_t cache_length, uint32_t sequences,
                      bg_gpt *out)
{
    *out = bg_gpt_build_steps(graph, options, cache_length, sequences);
}
