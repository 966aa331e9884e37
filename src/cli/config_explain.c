/*
 * config_explain.c: explains a configuration for a model with a given number of layers: the layers of each device, the
 * samples of a call, and everything that does not fit. The command continues after a problem, so that it shows all
 * problems at once.
 */
#include "cli/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "config/ipu_config.h"
#include "core/error.h"
#include "core/text.h"

/* Writes "0-5" or "7", or "-" without layers. */
static const char *range_text(uint64_t first, uint64_t count, char text[48])
{
    if (count == 0)
        snprintf(text, 48, "-");
    else if (count == 1)
        snprintf(text, 48, "%" PRIu64, first);
    else
        snprintf(text, 48, "%" PRIu64 "-%" PRIu64, first, first + count - 1);
    return text;
}

static void add_extras(bgi_string *line, const bgi_ipu_settings *settings, uint32_t device)
{
    const bool is_last = device + 1 == settings->ipus_per_replica;

    if (settings->embedding_splits != NULL && settings->embedding_splits[device] > 0)
        bgi_string_add(line, "  embedding: %" PRId64 " of %u pieces", settings->embedding_splits[device],
                       settings->embedding_factor);
    else if (settings->embedding_splits == NULL && device == 0)
        bgi_string_add(line, "  embedding%s", settings->embedding_factor > 1 ? ", in pieces" : "");
    if (settings->projection_splits != NULL && settings->projection_splits[device] > 0)
        bgi_string_add(line, "  head: %" PRId64 " of %u pieces", settings->projection_splits[device],
                       settings->projection_factor);
    else if (settings->projection_splits == NULL && is_last)
        bgi_string_add(line, "  head%s", settings->projection_factor > 1 ? ", in pieces" : "");
}

static void add_layers(bgi_string *line, const config_options *options, uint64_t first, uint64_t count)
{
    const uint64_t encoder = options->encoder_layers, end = first + count;
    const uint64_t in_encoder = first >= encoder ? 0 : (end < encoder ? end : encoder) - first;
    char text[48];

    if (encoder == 0)
        bgi_string_add(line, "  %-9s", range_text(first, count, text));
    if (in_encoder > 0)
        bgi_string_add(line, "  encoder %-6s", range_text(first, in_encoder, text));
    if (encoder > 0 && count > in_encoder)
        bgi_string_add(line, "  decoder %-6s", range_text(first + in_encoder - encoder, count - in_encoder, text));
}

/* Prints a line for each device: the number of its layers, which layers they are, and its share of embedding and
 * head. */
static bg_status print_devices(const config_options *options, const bgi_ipu_settings *settings, const int64_t *layers,
                               bg_error *error)
{
    uint64_t first = 0;

    for (uint32_t d = 0; d < settings->ipus_per_replica; d++) {
        bgi_string line = {0};
        char *text = NULL;

        bgi_string_add(&line, "    device %-3u %4" PRId64 " layer%s", d, layers[d], layers[d] == 1 ? " " : "s");
        add_layers(&line, options, first, (uint64_t)layers[d]);
        add_extras(&line, settings, d);
        BGI_TRY(bgi_string_finish(&line, &text, error));
        for (size_t length = strlen(text); length > 0 && text[length - 1] == ' '; length--)
            text[length - 1] = '\0';
        printf("%s\n", text);
        free(text);
        first += (uint64_t)layers[d];
    }
    return BG_OK;
}

static void add_error(bgi_problems *problems, const char *mode, bg_error *error)
{
    bgi_problems_add(problems, NULL, "%s: %s", mode, error->message);
    bg_error_clear(error);
}

static bg_status print_layout(const bg_ipu_config *config, const config_options *options, bool for_inference,
                              bgi_problems *problems, bg_error *error)
{
    const char *mode = for_inference ? "inference" : "training";
    const bgi_ipu_settings settings = bgi_ipu_config_settings(config, for_inference);
    const uint64_t total = config_layer_count(options);
    bg_ipu_config *copy = NULL, *encoder = NULL, *decoder = NULL;
    const size_t before = problems->count;
    bg_error own = {0};
    int64_t *layers;
    bg_status status = BG_OK;

    if (total == 0) {
        printf("    --layers N, or --encoder-layers and --decoder-layers, also show the device of each layer\n");
        return BG_OK;
    }
    layers = calloc(settings.ipus_per_replica, sizeof *layers);
    if (layers == NULL)
        return bgi_error_memory(error, "layers", settings.ipus_per_replica * sizeof *layers);
    if (bg_layers_expand(settings.layers_per_ipu, settings.layers_count, settings.ipus_per_replica, total, layers,
                         &own) != BG_OK)
        add_error(problems, mode, &own);
    else
        status = print_devices(options, &settings, layers, error);
    if (status == BG_OK && options->encoder_layers > 0 && problems->count == before) {
        status = bg_ipu_config_clone(config, &copy, error);
        if (status == BG_OK)
            status = bg_ipu_config_set_mode(copy, mode, error);
        if (status == BG_OK &&
            bg_ipu_config_split_encoder_decoder(copy, options->encoder_layers, options->decoder_layers, &encoder,
                                                &decoder, &own) != BG_OK)
            add_error(problems, mode, &own);
        bg_ipu_config_destroy(decoder);
        bg_ipu_config_destroy(encoder);
        bg_ipu_config_destroy(copy);
    }
    free(layers);
    return status;
}

static void print_batches(const config_options *options, const bgi_ipu_settings *settings, bool for_inference,
                          bgi_problems *problems)
{
    const uint64_t micro = options->batch_size, replica = cli_multiply(micro, settings->gradient_accumulation);
    const uint64_t global = cli_multiply(replica, settings->replicas);
    const uint64_t call = cli_multiply(global, settings->device_iterations);

    if (call == UINT64_MAX)
        bgi_problems_add(problems, NULL,
                         "%s: %" PRIu64 " samples x %u accumulation x %u replicas x %u iterations exceed the largest "
                         "number; make one of them smaller",
                         for_inference ? "inference" : "training", micro, settings->gradient_accumulation,
                         settings->replicas, settings->device_iterations);
    else if (for_inference)
        printf("    batch: micro %" PRIu64 ", x %u replicas x %u iterations = %" PRIu64 " samples a call\n", micro,
               settings->replicas, settings->device_iterations, call);
    else
        printf("    batch: micro %" PRIu64 ", x %u accumulation = %" PRIu64 " a replica, x %u replicas = %" PRIu64
               " an update, x %u iterations = %" PRIu64 " samples a call\n",
               micro, settings->gradient_accumulation, replica, settings->replicas, global, settings->device_iterations,
               call);
}

/* Prints how the configuration uses memory. Inference has no optimizer state and stashes no activations. */
static void print_memory(const bgi_ipu_settings *settings, bool for_inference)
{
    printf("    memory: ");
    if (!for_inference)
        printf("optimizer's state %s%s; activations %s; ",
               settings->optimizer_state_offchip ? "off the devices" : "on the devices",
               settings->replicated_tensor_sharding && settings->replicas > 1 ? ", sharded over the replicas" : "",
               settings->recompute_checkpoint_every_layer ? "recomputed from each layer's result" : "kept");
    printf("scratch of a matrix product up to");
    for (size_t i = 0; i < settings->matmul_count; i++)
        printf("%s %g", i == 0 ? "" : ",", settings->matmul_proportion[i]);
    printf(" of a device's memory, sums in %s\n", settings->enable_half_partials ? "16 bits" : "float32");
}

static void check_devices(const config_options *options, const bgi_ipu_settings *settings, const char *mode,
                          bgi_problems *problems)
{
    const uint64_t devices = (uint64_t)settings->ipus_per_replica * settings->replicas;

    if (options->devices > 0 && devices > options->devices)
        bgi_problems_add(problems, NULL,
                         "%s: %u devices a replica x %u replicas = %" PRIu64 " devices, but there are %" PRIu64
                         "; use fewer replicas or fewer devices a replica",
                         mode, settings->ipus_per_replica, settings->replicas, devices, options->devices);
}

/* Prints a hint if an update has fewer micro-batches than a replica has devices. IPU software refuses this; Brigade
 * allows it, but then devices are idle. */
static void hint_pipeline(const bgi_ipu_settings *settings)
{
    if (settings->gradient_accumulation < settings->ipus_per_replica)
        printf(
            "    hint: %u micro-batches an update leave some of %u devices idle; gradient_accumulation_steps of %u or "
            "more fills the pipeline (IPU software needs %u)\n",
            settings->gradient_accumulation, settings->ipus_per_replica, settings->ipus_per_replica,
            2 * settings->ipus_per_replica - 1);
}

bg_status config_explain(const bg_ipu_config *config, const config_options *options, bgi_problems *problems,
                         bg_error *error)
{
    if (bgi_ipu_bool(config, BGI_IPU_ENCODER_ON_CPU))
        bgi_problems_add(
            problems, NULL,
            "execute_encoder_on_cpu_for_generation is not supported: every run refuses it; set it to false");
    for (int inference = 0; inference < 2; inference++) {
        const bgi_ipu_settings settings = bgi_ipu_config_settings(config, inference != 0);
        const char *mode = inference != 0 ? "inference" : "training";

        printf("%s: %s, %u device%s a replica, %u replica%s, devices in all: %" PRIu64 "\n",
               inference != 0 ? "Inference" : "Training", inference != 0 ? "sharded" : "pipelined",
               settings.ipus_per_replica, settings.ipus_per_replica == 1 ? "" : "s", settings.replicas,
               settings.replicas == 1 ? "" : "s", (uint64_t)settings.ipus_per_replica * settings.replicas);
        BGI_TRY(print_layout(config, options, inference != 0, problems, error));
        print_batches(options, &settings, inference != 0, problems);
        print_memory(&settings, inference != 0);
        if (inference == 0)
            hint_pipeline(&settings);
        check_devices(options, &settings, mode, problems);
    }
    return BG_OK;
}
