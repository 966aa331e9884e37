/*
 * cache_key.c: what a plan depends on, as bytes: equal bytes mean equal plans.
 *
 *     library (version, build), instruction set | graph, loop, condition | loss, optimiser | options
 *
 * Not in it is what shapes no plan: seed, cores, threads, traces, limits of waits, the log, the folder. An option that
 * is new belongs to one of the two; tests/plan/test_cache.c knows the size of the struct.
 */
#include "plan/cache.h"

#include <string.h>

#include "core/error.h"
#include "core/isa.h"
#include "plan/op_types.h"

/* ---- what archives write from constants ---- */

static void put_u64(bgi_archive *key, uint64_t value)
{
    bgi_archive_u64(key, &value);
}

static void put_double(bgi_archive *key, double value)
{
    bgi_archive_double(key, &value);
}

static void put_text(bgi_archive *key, const char *text)
{
    bgi_archive_text(key, &text);
}

static void put_bytes(bgi_archive *key, const void *bytes, size_t size_bytes)
{
    put_u64(key, size_bytes);
    bgi_archive_bytes(key, &bytes, size_bytes);
}

static void put_type(bgi_archive *key, const bg_type *type)
{
    put_u64(key, (uint64_t)type->dtype);
    put_u64(key, type->rank);
    for (uint32_t i = 0; i < type->rank; i++)
        put_u64(key, (uint64_t)type->dims[i]);
}

/* ---- the machine ---- */

/* Attributes are kept as the compiler lays structs out: what that depends on is in the key. */
static void put_machine(bgi_archive *key)
{
    const uint32_t one = 1;

    put_text(key, BGI_VERSION);
    put_text(key, BGI_BUILD_ID);
    put_u64(key, (uint64_t)bgi_cpu_isa());
    put_u64(key, sizeof(void *));
    put_bytes(key, &one, sizeof one);
}

/* ---- graphs ---- */

static void put_shard(bgi_archive *key, const bg_shard *shard)
{
    put_type(key, &shard->whole);
    for (uint32_t i = 0; i < shard->whole.rank; i++) {
        put_u64(key, (uint64_t)shard->dims[i].axis);
        put_u64(key, shard->dims[i].blocks);
        put_u64(key, shard->dims[i].multiple);
    }
}

static void put_value(bgi_archive *key, const bgi_value *value)
{
    put_u64(key, (uint64_t)value->kind);
    put_type(key, &value->type);
    put_text(key, value->name);
    put_u64(key, value->is_checkpoint);
    if (value->kind == BGI_VALUE_CONSTANT)
        put_bytes(key, value->data, bg_type_size_bytes(&value->type));
    if (value->kind != BGI_VALUE_VARIABLE)
        return;
    put_u64(key, (uint64_t)value->role);
    put_u64(key, value->variable);
    put_u64(key, value->is_remote);
    put_u64(key, (uint64_t)value->initialiser.kind);
    put_double(key, value->initialiser.a);
    put_double(key, value->initialiser.b);
    put_u64(key, value->shard != NULL);
    if (value->shard != NULL)
        put_shard(key, value->shard);
}

static void put_op(bgi_archive *key, const bgi_op *op)
{
    put_text(key, op->type->name);
    put_u64(key, op->type->revision);
    put_text(key, op->name);
    put_u64(key, op->block);
    put_u64(key, op->input_count);
    put_u64(key, op->output_count);
    for (uint32_t i = 0; i < op->input_count; i++)
        put_u64(key, op->inputs[i].id);
    for (uint32_t i = 0; i < op->output_count; i++)
        put_u64(key, op->outputs[i].id);
    put_bytes(key, op->attributes, op->type->attributes_bytes);
}

static bg_status put_graph(bgi_archive *key, const bg_graph *graph, bg_error *error)
{
    BGI_TRY(bg_graph_check(graph, error));
    put_u64(key, graph->mesh.tensor_1);
    put_u64(key, graph->mesh.tensor_2);
    put_u64(key, graph->value_count);
    for (size_t v = 1; v < graph->value_count; v++)
        put_value(key, &graph->values[v]);
    put_u64(key, graph->op_count);
    for (size_t o = 0; o < graph->op_count; o++) {
        const bg_op_type *type = graph->ops[o].type;
        if (!bgi_op_type_is_kept(type))
            return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                                "it has ops of type `%s`, which is not the library's and has no revision", type->name);
        put_op(key, &graph->ops[o]);
    }
    put_u64(key, graph->block_count);
    for (size_t b = 0; b < graph->block_count; b++) {
        put_text(key, graph->blocks[b].name);
        put_u64(key, graph->blocks[b].device);
    }
    put_u64(key, graph->output_count);
    for (size_t i = 0; i < graph->output_count; i++) {
        put_text(key, graph->outputs[i].name);
        put_u64(key, graph->outputs[i].value.id);
    }
    put_u64(key, graph->variable_count);
    put_u64(key, graph->random_count);
    put_u64(key, graph->automatic_block_count);
    return BG_OK;
}

static bg_status put_loop(bgi_archive *key, const bg_loop *loop, bg_error *error)
{
    put_u64(key, loop != NULL);
    if (loop == NULL)
        return BG_OK;
    put_u64(key, loop->carried_count);
    for (uint32_t i = 0; i < loop->carried_count; i++) {
        put_u64(key, loop->carried[i].id);
        put_u64(key, loop->results[i].id);
    }
    put_u64(key, loop->iterations);
    put_u64(key, loop->condition != NULL);
    return loop->condition != NULL ? put_graph(key, loop->condition, error) : BG_OK;
}

/* ---- options ---- */

static void put_optimiser(bgi_archive *key, const bg_optimiser *optimiser)
{
    put_u64(key, optimiser != NULL);
    if (optimiser == NULL)
        return;
    put_u64(key, (uint64_t)optimiser->kind);
    put_double(key, optimiser->learning_rate);
    put_double(key, optimiser->weight_decay);
    put_double(key, optimiser->momentum);
    put_double(key, optimiser->dampening);
    put_u64(key, optimiser->nesterov);
    put_u64(key, optimiser->combined);
    put_double(key, optimiser->velocity_scaling);
    put_double(key, optimiser->beta1);
    put_double(key, optimiser->beta2);
    put_double(key, optimiser->alpha);
    put_double(key, optimiser->max_weight_norm);
    put_double(key, optimiser->epsilon);
    put_u64(key, optimiser->uncorrected);
    put_u64(key, optimiser->centred);
    put_u64(key, optimiser->tf_variant);
    put_u64(key, optimiser->decay_matrices_only);
}

static void put_division(bgi_archive *key, const bg_options *options)
{
    put_u64(key, (uint64_t)options->strategy);
    put_text(key, options->schedule);
    put_text(key, options->stages);
    put_u64(key, (uint64_t)options->auto_stage);
    put_u64(key, options->device_mapping_count);
    for (uint32_t i = 0; i < options->device_mapping_count; i++)
        put_u64(key, options->device_mapping[i]);
    put_u64(key, options->device_count);
    put_u64(key, options->phases_parallel);
    put_u64(key, options->device_model_count);
    for (uint32_t i = 0; i < options->device_model_count; i++) {
        put_double(key, options->devices[i].speed);
        put_u64(key, options->devices[i].memory_bytes);
    }
    put_u64(key, options->device_memory_bytes);
}

static void put_costs(bgi_archive *key, const bg_options *options)
{
    put_u64(key, options->stage_cost_count);
    for (uint32_t i = 0; i < options->stage_cost_count; i++) {
        const bg_stage_cost *cost = &options->stage_costs[i];
        put_double(key, cost->forward_ns);
        put_double(key, cost->backward_ns);
        put_double(key, cost->weights_ns);
        put_double(key, cost->update_ns);
        put_double(key, cost->recompute_ns);
    }
    put_double(key, options->message_bytes_per_ns);
    put_u64(key, options->block_cost_count);
    for (uint32_t i = 0; i < options->block_cost_count; i++) {
        put_text(key, options->block_costs[i].name);
        put_double(key, options->block_costs[i].forward_ns);
        put_double(key, options->block_costs[i].backward_ns);
        put_double(key, options->block_costs[i].weights_ns);
    }
}

static void put_batches(bgi_archive *key, const bg_options *options)
{
    put_u64(key, options->device_iterations);
    put_u64(key, options->gradient_accumulation);
    put_u64(key, options->replicas);
    put_u64(key, options->total_devices);
    put_u64(key, options->input_group_size);
    put_u64(key, (uint64_t)options->input_grouping);
    put_u64(key, (uint64_t)options->output_mode);
    put_u64(key, options->output_period);
    put_u64(key, options->output_request_count);
    for (uint32_t i = 0; i < options->output_request_count; i++) {
        const bg_output_request *request = &options->output_requests[i];
        put_text(key, request->output);
        put_text(key, request->name);
        put_u64(key, (uint64_t)request->mode);
        put_u64(key, request->period);
    }
    put_u64(key, options->requests_only);
}

static void put_auto_loss_scaling(bgi_archive *key, const bg_auto_loss_scaling *scaling)
{
    put_u64(key, scaling->enabled);
    put_u64(key, scaling->output);
    put_double(key, scaling->bin_edge);
    put_double(key, scaling->threshold);
    put_u64(key, scaling->period);
    put_double(key, scaling->increase);
    put_double(key, scaling->decrease);
    put_double(key, scaling->minimum);
    put_double(key, scaling->maximum);
}

/* A callback is known by its answers. */
static void put_gradients(bgi_archive *key, const bgi_request *request)
{
    const bg_options *options = request->options;

    put_u64(key, (uint64_t)options->accumulation);
    put_u64(key, (uint64_t)options->replica_reduction);
    put_u64(key, (uint64_t)options->accumulator_type);
    put_u64(key, (uint64_t)options->accumulator_dtype);
    for (size_t v = 1; options->accumulator_type == BG_ACCUMULATOR_CALLBACK && options->choose_accumulator != NULL &&
                       v < request->graph->value_count;
         v++) {
        const bgi_value *value = &request->graph->values[v];
        if (value->kind == BGI_VALUE_VARIABLE && value->role == BG_ROLE_PARAMETER)
            put_u64(key,
                    (uint64_t)options->choose_accumulator(options->choose_accumulator_user, value->name, &value->type));
    }
    put_u64(key, options->cast_gradients);
    put_double(key, options->max_gradient_norm);
    put_u64(key, options->output_gradient_norm);
    put_double(key, options->loss_scaling);
    put_auto_loss_scaling(key, &options->auto_loss_scaling);
    put_u64(key, (uint64_t)options->first_moment_dtype);
    put_u64(key, options->stochastic_rounding);
    put_u64(key, (uint64_t)options->second_moment_dtype);
}

static void put_location(bgi_archive *key, const bg_tensor_location *location)
{
    put_u64(key, (uint64_t)location->place);
    put_u64(key, location->sharded);
    put_u64(key, location->minimum_elements_remote);
    put_u64(key, location->minimum_elements_sharded);
    put_u64(key, location->on_demand);
}

static void put_memory(bgi_archive *key, const bg_options *options)
{
    put_u64(key, options->offload_optimiser);
    for (int i = 0; i < BG_LOCATION_COUNT; i++)
        put_location(key, &options->locations[i]);
    put_u64(key, options->location_rule_count);
    for (uint32_t i = 0; i < options->location_rule_count; i++) {
        put_u64(key, options->location_rules[i].classes);
        put_text(key, options->location_rules[i].pattern);
        put_location(key, &options->location_rules[i].location);
    }
    put_u64(key, (uint64_t)options->phase_liveness);
    put_u64(key, (uint64_t)options->recompute);
    put_double(key, options->recompute_fraction);
    put_u64(key, (uint64_t)options->recompute_order);
}

bg_status bgi_cache_write_key(const bgi_request *request, bgi_archive *key, bg_error *error)
{
    const bg_options *options = request->options;

    put_machine(key);
    BGI_TRY(put_graph(key, request->graph, error));
    BGI_TRY(put_loop(key, request->loop, error));
    put_u64(key, request->training);
    put_u64(key, request->loss.id);
    put_optimiser(key, request->optimiser);
    put_division(key, options);
    put_costs(key, options);
    put_batches(key, options);
    put_gradients(key, request);
    put_memory(key, options);
    put_u64(key, options->ipu_limits);
    put_u64(key, options->auto_round_devices);
    put_u64(key, (uint64_t)options->kernels);
    put_u64(key, (uint64_t)options->partials);
    put_u64(key, options->no_fusion);
    put_u64(key, options->matmul_proportion_count);
    for (uint32_t i = 0; i < options->matmul_proportion_count; i++)
        put_double(key, options->matmul_proportions[i]);
    return key->out_of_memory ? bgi_error_memory(error, "the key of a plan", key->size_bytes) : BG_OK;
}
