/*
 * ipu_options.c: a configuration as the options of a run. What options have no word for becomes a note: nothing that
 * people wrote is dropped in silence.
 */
#include "config/ipu_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

void bg_ipu_options_clear(bg_ipu_options *options)
{
    free(options->stages);
    free(options->cache_dir);
    free(options->matmul_proportions);
    free(options->notes);
    *options = (bg_ipu_options){0};
}

/* ---- stages ---- */

static void add_block(bgi_text *text, const char *name, uint64_t layer, bool *is_open)
{
    bgi_text_add(text, "%s", *is_open ? "," : "");
    if (name != NULL)
        bgi_text_add(text, "%s", name);
    else
        bgi_text_add(text, "Layer-%" PRIu64, layer);
    *is_open = true;
}

/* "Embedding,Layer-0|Layer-1,Layer-2|Layer-3,Head": a stage each device that has something; the others are left out and
 * the numbers close up, as do `proportions` (NULL: one for all). Returns how many devices there are. */
static uint32_t add_stages(bgi_text *text, const bg_ipu_model *model, const int64_t *layers, uint32_t device_count,
                           double *proportions)
{
    const bool is_tied = model->head_is_tied && model->head_block != NULL;
    uint64_t layer = 0;
    uint32_t number = 0;

    for (uint32_t d = 0; d < device_count; d++) {
        const uint64_t end = layer + (uint64_t)layers[d];
        const bool has_embedding = d == 0 && model->embedding_block != NULL;
        const bool has_head = d == device_count - 1 && !is_tied && model->head_block != NULL;
        bool is_open = false;

        if (layer < end || has_embedding || has_head) {
            bgi_text_add(text, "%s", text->length == 0 ? "" : "|");
            if (has_embedding)
                add_block(text, model->embedding_block, 0, &is_open);
            for (; layer < end; layer++)
                add_block(text, model->layer_blocks != NULL ? model->layer_blocks[layer] : NULL, layer, &is_open);
            if (has_head)
                add_block(text, model->head_block, 0, &is_open);
            if (is_tied)
                bgi_text_add(text, "@%u", number);
        } else if (d > 0 || !is_tied) {
            continue;
        }
        if (proportions != NULL)
            proportions[number] = proportions[d];
        number++;
    }
    /* A tied head follows the last layer as a stage of its own. */
    if (is_tied)
        bgi_text_add(text, "|%s@0", model->head_block);
    return number;
}

static bg_status make_stages(const bg_ipu_settings *settings, const bg_ipu_model *model, bg_ipu_options *out,
                             bg_error *error)
{
    int64_t *layers = calloc(settings->ipus_per_replica, sizeof *layers);
    bgi_text text = {0};
    bg_status status;

    if (layers == NULL)
        return bgi_error_memory(error, "layers", settings->ipus_per_replica * sizeof *layers);
    status = bg_layers_expand(settings->layers_per_ipu, settings->layers_count, settings->ipus_per_replica,
                              model->layer_count, layers, error);
    if (status == BG_OK) {
        const bool is_list = settings->matmul_count > 1;
        out->options.device_count =
            add_stages(&text, model, layers, settings->ipus_per_replica, is_list ? out->matmul_proportions : NULL);
        if (is_list)
            out->options.matmul_proportion_count = out->options.device_count;
        status = bgi_text_finish(&text, &out->stages, error);
    }
    free(layers);
    return status;
}

/* ---- shares of memory ---- */

/* A list has an entry for each device of the configuration, which are the plan's where it places the layers. */
static bool has_known_devices(const bg_ipu_settings *settings, const bg_ipu_model *model)
{
    return settings->matmul_count == 1 || (model != NULL && model->layer_count > 0);
}

static bg_status copy_proportions(const bg_ipu_settings *settings, bg_ipu_options *out, bg_error *error)
{
    const size_t bytes = settings->matmul_count * sizeof *out->matmul_proportions;

    out->matmul_proportions = malloc(bytes);
    if (out->matmul_proportions == NULL)
        return bgi_error_memory(error, "shares of memory", bytes);
    memcpy(out->matmul_proportions, settings->matmul_proportion, bytes);
    out->options.matmul_proportions = out->matmul_proportions;
    out->options.matmul_proportion_count = (uint32_t)settings->matmul_count;
    return BG_OK;
}

/* ---- notes ---- */

static void add_map_note(bgi_text *notes, const bg_ipu_config *config, bool for_inference)
{
    const bgi_ipu_field_id id = bgi_ipu_in_mode(BGI_IPU_PARALLELIZE, for_inference);

    if (json_object_size(config->values[id].json) > 0)
        bgi_text_add(notes, "`%s` is for a model's own placement; options have no word for it\n",
                     bgi_ipu_fields[id].name);
}

static void add_notes(bgi_text *notes, const bg_ipu_config *config, const bg_ipu_settings *settings,
                      const bg_ipu_model *model, bool for_inference)
{
    if (!has_known_devices(settings, model))
        bgi_text_add(notes, "`%s` has no effect: the model's layers are unknown, so which devices there are\n",
                     bgi_ipu_fields[bgi_ipu_in_mode(BGI_IPU_MATMUL, for_inference)].name);
    if (!for_inference)
        bgi_text_add(notes,
                     "stochastic rounding, which IPU software turns on in training, is off: weights are float32\n");
    if (for_inference && bgi_ipu_bool(config, BGI_IPU_EXPLICIT_IR))
        bgi_text_add(notes, "`explicit_ir_inference` has no effect: there is one compiler path\n");
    if (settings->replicated_tensor_sharding && settings->replicas == 1)
        bgi_text_add(notes, "`replicated_tensor_sharding` has no effect with one replica\n");
    if (settings->recompute_checkpoint_every_layer && !for_inference)
        bgi_text_add(notes, "`recompute_checkpoint_every_layer`: the model has to mark its layers' results "
                            "(bg_graph_checkpoint); only stages with marks compute again\n");
    if (settings->embedding_factor > 1)
        bgi_text_add(notes, "the embedding in %u pieces is the model's: bg_serialised_embedding_layer\n",
                     settings->embedding_factor);
    if (settings->projection_factor > 1)
        bgi_text_add(notes,
                     "the projection in %u pieces is the model's: bg_serialised_linear_layer, "
                     "bg_split_projection_layer\n",
                     settings->projection_factor);
    if (model == NULL || model->layer_count == 0)
        bgi_text_add(notes, "`%s` has no effect: the model's layers are unknown, so its own blocks are the stages\n",
                     bgi_ipu_fields[bgi_ipu_in_mode(BGI_IPU_LAYERS, for_inference)].name);
    add_map_note(notes, config, for_inference);
}

/* ---- options ---- */

static void fill_options(const bg_ipu_settings *settings, bool for_inference, bg_options *options)
{
    *options = bg_options_defaults();
    options->strategy = for_inference ? BG_STRATEGY_SHARDED : BG_STRATEGY_PIPELINED;
    options->auto_stage = BG_AUTO_STAGE_INCREMENT;
    options->replicas = settings->replicas;
    options->device_iterations = settings->device_iterations;
    options->gradient_accumulation = settings->gradient_accumulation;
    options->accumulation = BG_ACCUMULATE_MEAN;
    options->output_mode = settings->output_mode;
    options->auto_round_devices = true;
    options->partials = settings->enable_half_partials ? BG_BFLOAT16 : BG_FLOAT32;
    if (settings->has_seed)
        options->seed = (uint64_t)settings->seed;
    if (for_inference)
        return;
    options->auto_loss_scaling.enabled = settings->auto_loss_scaling;
    options->offload_optimiser = settings->optimizer_state_offchip;
    options->locations[BG_LOCATION_STATE].sharded = settings->replicated_tensor_sharding && settings->replicas > 1;
    if (settings->recompute_checkpoint_every_layer)
        options->recompute = BG_RECOMPUTE_CHECKPOINTS;
}

bg_status bg_ipu_config_to_options(const bg_ipu_config *config, bool for_inference, bool compile_only,
                                   const bg_ipu_model *model, bg_ipu_options *out, bg_error *error)
{
    const bg_ipu_settings settings = bg_ipu_config_settings(config, for_inference);
    bg_ipu_options made = {0};
    bgi_text notes = {0};
    bg_status status = BG_OK;

    if (bgi_ipu_bool(config, BGI_IPU_ENCODER_ON_CPU))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "execute_encoder_on_cpu_for_generation is not supported; set it to false");
    fill_options(&settings, for_inference, &made.options);
    made.options.compile_only = compile_only;
    if (has_known_devices(&settings, model))
        status = copy_proportions(&settings, &made, error);
    if (status == BG_OK && model != NULL && model->layer_count > 0)
        status = make_stages(&settings, model, &made, error);
    if (status == BG_OK && made.stages != NULL) {
        made.options.stages = made.stages;
        /* A pipeline that comes back to a device needs a schedule in which devices have several stages. */
        if (!for_inference && model->head_is_tied && model->head_block != NULL && made.options.device_count > 1)
            made.options.schedule = "grouped";
        made.options.auto_stage = BG_AUTO_STAGE_SAME_AS_IPU; /* stages are listed */
        if (made.options.device_count < settings.ipus_per_replica)
            bgi_text_add(&notes, "`%s`: %u of %u devices have no layers and are left out\n",
                         bgi_ipu_fields[bgi_ipu_in_mode(BGI_IPU_LAYERS, for_inference)].name,
                         settings.ipus_per_replica - made.options.device_count, settings.ipus_per_replica);
    }
    if (status == BG_OK && settings.cache_folder != NULL) {
        made.options.cache_dir = made.cache_dir = strdup(settings.cache_folder);
        if (made.cache_dir == NULL)
            status = bgi_error_memory(error, "options", strlen(settings.cache_folder) + 1);
    }
    add_notes(&notes, config, &settings, model, for_inference);
    if (status == BG_OK)
        status = bgi_text_finish(&notes, &made.notes, error);
    bgi_text_clear(&notes);
    if (status != BG_OK) {
        bg_ipu_options_clear(&made);
        return status;
    }
    *out = made;
    return BG_OK;
}
