/*
 * cache_key.c: writes everything that a plan depends on as bytes; equal bytes mean equal plans.
 *
 *     library (version, build), instruction set | graph, loop, condition | loss, optimizer | options
 *
 * The rows of options/options.def say which options shape a plan. Options that do not shape a plan, such as seed,
 * cores, traces and log, are left out.
 */
#include "plan/cache.h"

#include <string.h>

#include "core/error.h"
#include "graph/graph.h"
#include "kernels/kernels.h"
#include "options/optimizer.h"
#include "plan/op_types.h"
#include "plan/options.h"

/* ---- visits of constant data, for archives that only write ---- */

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

const char *bgi_build_id(void)
{
    return BGI_BUILD_ID;
}

/* Attributes are stored in the compiler's struct layout, so the key contains everything that the layout depends on. */
static void put_machine(bgi_archive *key, bg_kernel_policy kernels)
{
    const uint32_t one = 1;

    put_text(key, bg_version());
    put_text(key, bgi_build_id());
    put_u64(key, (uint64_t)bgi_kernel_isa(kernels));
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

static void put_section(bgi_archive *key, const bg_section *section)
{
    put_text(key, section->name);
    put_type(key, &section->whole);
    put_u64(key, section->axis);
    put_u64(key, (uint64_t)section->first);
    put_u64(key, (uint64_t)section->count);
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
    put_u64(key, (uint64_t)value->initializer.kind);
    put_double(key, value->initializer.a);
    put_double(key, value->initializer.b);
    put_u64(key, value->is_frozen);
    put_double(key, value->has_factors ? value->rate_factor : 1.0);
    put_double(key, value->has_factors ? value->decay_factor : 1.0);
    put_u64(key, value->shard != NULL);
    if (value->shard != NULL)
        put_shard(key, value->shard);
    put_u64(key, value->section != NULL);
    if (value->section != NULL)
        put_section(key, value->section);
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
                                "it has ops of type `%s`, which is a custom type without a revision", type->name);
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
    put_u64(key, graph->number_count);
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

static bg_status put_optimizer(bgi_archive *key, const bg_optimizer *optimizer, bg_error *error)
{
    const bgi_setting *setting;

    put_u64(key, optimizer != NULL);
    if (optimizer == NULL)
        return BG_OK;
    if (optimizer->kind == BG_CUSTOM)
        return bg_error_set(error, BG_ERROR_UNSUPPORTED, "it trains with `%s`, which is not one of the library's",
                            optimizer->rule->name);
    put_u64(key, (uint64_t)optimizer->kind);
    put_double(key, optimizer->learning_rate);
    for (uint32_t i = 0; (setting = bgi_setting_at(i)) != NULL; i++)
        put_double(key, bgi_setting_get(setting, optimizer));
    return BG_OK;
}

/* Adds the return values of the caller's callbacks, which represent the callbacks in the key. */
static void put_answers(bgi_archive *key, const bgi_request *request)
{
    const bg_options *options = request->options;

    for (size_t v = 1; options->numerics.accumulator_type == BG_ACCUMULATOR_CALLBACK &&
                       options->numerics.choose_accumulator != NULL && v < request->graph->value_count;
         v++) {
        const bgi_value *value = &request->graph->values[v];
        if (value->kind == BGI_VALUE_VARIABLE && value->role == BG_ROLE_PARAMETER)
            put_u64(key, (uint64_t)options->numerics.choose_accumulator(options->numerics.choose_accumulator_user,
                                                                        value->name, &value->type));
    }
}

bg_status bgi_cache_write_key(const bgi_request *request, bgi_archive *key, bg_error *error)
{
    put_machine(key, request->options->numerics.kernels);
    BGI_TRY(put_graph(key, request->graph, error));
    BGI_TRY(put_loop(key, request->loop, error));
    put_u64(key, request->training);
    put_u64(key, request->loss.id);
    BGI_TRY(put_optimizer(key, request->optimizer, error));
    bgi_options_write_key(request->options, key);
    put_answers(key, request);
    return key->out_of_memory ? bgi_error_memory(error, "the key of a plan", key->size_bytes) : BG_OK;
}
