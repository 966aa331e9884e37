/*
 * ipu_options.c: converts a configuration to the options of a run. Settings that options cannot express become notes,
 * so no setting is dropped silently.
 */
#include "config/ipu_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brigade/nn.h>

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

/* Writes blocks in the order of the data, grouped into stages: "Embedding,Layer-0|Layer-1,Layer-2|Layer-3,Head". */
typedef struct stage_writer {
    bgi_string *text; /* NULL: only find whether data return to a device (comes_back) */
    uint32_t *number; /* the plan's number of each device; devices without blocks have no number */
    uint32_t device;  /* device of the open stage */
    bool is_open, is_marked, comes_back;
} stage_writer;

static void end_stage(stage_writer *writer)
{
    if (writer->text != NULL && writer->is_open && writer->is_marked)
        bgi_string_add(writer->text, "@%u", writer->number[writer->device]);
}

/* Adds a block. If `name` is NULL, the block's name is "Layer-" followed by `layer`. */
static void add_block(stage_writer *writer, uint32_t device, const char *name, uint64_t layer)
{
    const bool is_same = writer->is_open && writer->device == device;

    if (!is_same)
        end_stage(writer);
    writer->comes_back = writer->comes_back || (writer->is_open && device < writer->device);
    if (writer->text == NULL) {
        writer->number[device] = 1;
    } else {
        bgi_string_add(writer->text, "%s", !writer->is_open ? "" : is_same ? "," : "|");
        if (name != NULL)
            bgi_string_add(writer->text, "%s", name);
        else
            bgi_string_add(writer->text, "Layer-%" PRIu64, layer);
    }
    writer->device = device;
    writer->is_open = true;
}

/* Adds the block of the embedding or of the head on `device` or, with `splits`, one block for each piece on the piece's
 * device. */
static void add_end(stage_writer *writer, const bgi_ipu_settings *settings, const int64_t *splits, const char *kind,
                    const char *block, uint32_t device)
{
    const bg_split_placement placement = {splits, settings->ipus_per_replica};
    char name[BG_SPLIT_BLOCK_BYTES];

    if (block == NULL)
        return;
    if (splits == NULL)
        add_block(writer, device, block, 0);
    for (uint32_t d = 0; splits != NULL && d < placement.device_count; d++)
        if (bg_split_block_name(&placement, kind, d, name))
            add_block(writer, d, name, 0);
}

/* Adds all blocks of the model. A tied head is on the embedding's device, because it uses the embedding's weights. */
static void add_blocks(stage_writer *writer, const bgi_ipu_settings *settings, const bg_ipu_model *model,
                       const int64_t *layers)
{
    const uint32_t last = settings->ipus_per_replica - 1;
    uint64_t layer = 0;

    add_end(writer, settings, settings->embedding_splits, "Embedding", model->embedding_block, 0);
    for (uint32_t d = 0; d <= last; d++)
        for (int64_t i = 0; i < layers[d]; i++, layer++)
            add_block(writer, d, model->layer_blocks != NULL ? model->layer_blocks[layer] : NULL, layer);
    if (model->head_is_tied)
        add_end(writer, settings, NULL, "Linear", model->head_block, 0);
    else
        add_end(writer, settings, settings->projection_splits, "Linear", model->head_block, last);
    end_stage(writer);
}

/* Numbers the devices that have blocks, and removes the `proportions` (NULL: one for all) of the other devices. Returns
 * the number of devices. */
static uint32_t number_devices(uint32_t *number, uint32_t device_count, double *proportions)
{
    uint32_t count = 0;

    for (uint32_t d = 0; d < device_count; d++) {
        if (number[d] == 0)
            continue;
        if (proportions != NULL)
            proportions[count] = proportions[d];
        number[d] = count++;
    }
    return count;
}

static bg_status write_stages(const bgi_ipu_settings *settings, const bg_ipu_model *model, const int64_t *layers,
                              uint32_t *number, bg_ipu_options *out, bg_error *error)
{
    const bool is_list = settings->matmul_count > 1;
    stage_writer look = {.number = number}, writer = {.number = number};
    bgi_string text = {0};

    add_blocks(&look, settings, model, layers);
    out->options.execution.device_count =
        number_devices(number, settings->ipus_per_replica, is_list ? out->matmul_proportions : NULL);
    if (is_list)
        out->options.memory.matmul_proportion_count = out->options.execution.device_count;
    /* If data return to a device, the pipeline needs a schedule in which devices have several stages. */
    if (look.comes_back && out->options.execution.strategy == BG_STRATEGY_PIPELINED)
        out->options.execution.schedule = "grouped";
    /* Stages name their devices if data return to a device, or if pieces of a layer are on several devices. */
    writer.is_marked = look.comes_back || settings->embedding_splits != NULL || settings->projection_splits != NULL;
    writer.text = &text;
    add_blocks(&writer, settings, model, layers);
    return bgi_string_finish(&text, &out->stages, error);
}

static bg_status make_stages(const bgi_ipu_settings *settings, const bg_ipu_model *model, bg_ipu_options *out,
                             bg_error *error)
{
    int64_t *layers = calloc(settings->ipus_per_replica, sizeof *layers);
    uint32_t *number = calloc(settings->ipus_per_replica, sizeof *number);
    bg_status status;

    if (layers == NULL || number == NULL)
        status = bgi_error_memory(error, "layers", settings->ipus_per_replica * sizeof *layers);
    else
        status = bg_layers_expand(settings->layers_per_ipu, settings->layers_count, settings->ipus_per_replica,
                                  model->layer_count, layers, error);
    if (status == BG_OK)
        status = write_stages(settings, model, layers, number, out, error);
    free(number);
    free(layers);
    return status;
}

/* ---- shares of memory ---- */

/* Whether the devices of the memory proportions are devices of the plan. A list has an entry for each device of the
 * configuration, and these are the plan's devices only if the configuration places the layers. */
static bool has_known_devices(const bgi_ipu_settings *settings, const bg_ipu_model *model)
{
    return settings->matmul_count == 1 || (model != NULL && model->layer_count > 0);
}

static bg_status copy_proportions(const bgi_ipu_settings *settings, bg_ipu_options *out, bg_error *error)
{
    const size_t bytes = settings->matmul_count * sizeof *out->matmul_proportions;

    out->matmul_proportions = malloc(bytes);
    if (out->matmul_proportions == NULL)
        return bgi_error_memory(error, "shares of memory", bytes);
    memcpy(out->matmul_proportions, settings->matmul_proportion, bytes);
    out->options.memory.matmul_proportions = out->matmul_proportions;
    out->options.memory.matmul_proportion_count = (uint32_t)settings->matmul_count;
    return BG_OK;
}

/* ---- notes ---- */

static void add_map_note(bgi_string *notes, const bg_ipu_config *config, bool for_inference)
{
    const bgi_ipu_field_id id = bgi_ipu_in_mode(BGI_IPU_PARALLELIZE, for_inference);

    if (json_object_size(config->values[id].json) > 0)
        bgi_string_add(notes, "`%s` is for a model's own placement; options cannot express it\n",
                       bgi_ipu_fields[id].name);
}

static void add_notes(bgi_string *notes, const bg_ipu_config *config, const bgi_ipu_settings *settings,
                      const bg_ipu_model *model, bool for_inference)
{
    if (!has_known_devices(settings, model))
        bgi_string_add(notes, "`%s` has no effect: the model's layers are unknown, and so are the devices\n",
                       bgi_ipu_fields[bgi_ipu_in_mode(BGI_IPU_MATMUL, for_inference)].name);
    if (for_inference && bgi_ipu_bool(config, BGI_IPU_EXPLICIT_IR))
        bgi_string_add(notes, "`explicit_ir_inference` has no effect: Brigade has only one compiler path\n");
    if (settings->replicated_tensor_sharding && settings->replicas == 1)
        bgi_string_add(notes, "`replicated_tensor_sharding` has no effect with one replica\n");
    if (settings->recompute_checkpoint_every_layer && !for_inference)
        bgi_string_add(notes, "`recompute_checkpoint_every_layer`: the model must mark its layers' results "
                              "(bg_graph_checkpoint); only stages with marks recompute\n");
    if (settings->embedding_factor > 1)
        bgi_string_add(notes, "the model must build the embedding in %u pieces with bg_ipu_embedding_layer\n",
                       settings->embedding_factor);
    if (settings->projection_factor > 1)
        bgi_string_add(notes, "the model must build the projection in %u pieces with bg_ipu_projection_layer\n",
                       settings->projection_factor);
    if (settings->projection_splits != NULL && model != NULL && model->head_is_tied)
        bgi_string_add(notes, "`%s` has no effect: a tied head is on the embedding's device\n",
                       bgi_ipu_fields[bgi_ipu_in_mode(BGI_IPU_PROJECTION_SPLITS, for_inference)].name);
    if (model == NULL || model->layer_count == 0)
        bgi_string_add(notes, "`%s` has no effect: the model's layers are unknown, so its own blocks are the stages\n",
                       bgi_ipu_fields[bgi_ipu_in_mode(BGI_IPU_LAYERS, for_inference)].name);
    add_map_note(notes, config, for_inference);
}

/* ---- options ---- */

static void fill_options(const bgi_ipu_settings *settings, bool for_inference, bg_options *options)
{
    *options = bg_options_defaults();
    options->execution.strategy = for_inference ? BG_STRATEGY_SHARDED : BG_STRATEGY_PIPELINED;
    options->execution.auto_stage = BG_AUTO_STAGE_INCREMENT;
    options->replicas.count = settings->replicas;
    options->execution.device_iterations = settings->device_iterations;
    options->execution.gradient_accumulation = settings->gradient_accumulation;
    options->numerics.accumulation = BG_ACCUMULATE_MEAN;
    options->reporting.output_mode = settings->output_mode;
    options->execution.auto_round_devices = true;
    options->numerics.partials = settings->enable_half_partials ? BG_FLOAT16 : BG_FLOAT32;
    if (settings->has_seed)
        options->numerics.seed = (uint64_t)settings->seed;
    if (for_inference)
        return;
    options->numerics.stochastic_rounding = true; /* applies to values that are stored in 16 bits, if there are any */
    options->numerics.auto_loss_scaling.enabled = settings->auto_loss_scaling;
    options->memory.offload_optimizer = settings->optimizer_state_offchip;
    options->memory.locations[BG_LOCATION_STATE].sharded =
        settings->replicated_tensor_sharding && settings->replicas > 1;
    if (settings->recompute_checkpoint_every_layer)
        options->memory.recompute = BG_RECOMPUTE_CHECKPOINTS;
}

bg_status bg_ipu_config_to_options(const bg_ipu_config *config, bool for_inference, bool compile_only,
                                   const bg_ipu_model *model, bg_ipu_options *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (model != NULL)
        BGI_TRY(bgi_struct_check(model->struct_bytes, sizeof *model, "bg_ipu_model", NULL, error));

    const bgi_ipu_settings settings = bgi_ipu_config_settings(config, for_inference);
    bg_ipu_options made = {0};
    bgi_string notes = {0};
    bg_status status = BG_OK;

    if (bgi_ipu_bool(config, BGI_IPU_ENCODER_ON_CPU))
        return bg_error_set(error, BG_ERROR_UNSUPPORTED,
                            "execute_encoder_on_cpu_for_generation is not supported; set it to false");
    fill_options(&settings, for_inference, &made.options);
    made.options.execution.compile_only = compile_only;
    if (has_known_devices(&settings, model))
        status = copy_proportions(&settings, &made, error);
    if (status == BG_OK && model != NULL && model->layer_count > 0)
        status = make_stages(&settings, model, &made, error);
    if (status == BG_OK && made.stages != NULL) {
        made.options.execution.stages = made.stages;
        made.options.execution.auto_stage = BG_AUTO_STAGE_SAME_AS_IPU; /* stages are listed */
        if (made.options.execution.device_count < settings.ipus_per_replica)
            bgi_string_add(&notes, "`%s`: %u of %u devices have no layers and are left out\n",
                           bgi_ipu_fields[bgi_ipu_in_mode(BGI_IPU_LAYERS, for_inference)].name,
                           settings.ipus_per_replica - made.options.execution.device_count, settings.ipus_per_replica);
    }
    if (status == BG_OK && settings.cache_folder != NULL) {
        made.options.files.cache_dir = made.cache_dir = strdup(settings.cache_folder);
        if (made.cache_dir == NULL)
            status = bgi_error_memory(error, "options", strlen(settings.cache_folder) + 1);
    }
    add_notes(&notes, config, &settings, model, for_inference);
    if (status == BG_OK)
        status = bgi_string_finish(&notes, &made.notes, error);
    bgi_string_clear(&notes);
    if (status != BG_OK) {
        bg_ipu_options_clear(&made);
        return status;
    }
    *out = made;
    return BG_OK;
}
