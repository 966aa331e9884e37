/*
 * ipu_layers.c: assigns layers to devices, resolves wildcards, and divides a model into encoder and decoder.
 */
#include "config/ipu_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

/* Prints "[1, 2, -1]"; a long list is truncated. */
static const char *list_text(const int64_t *values, size_t count, char *text, size_t size)
{
    size_t length = (size_t)snprintf(text, size, "[");

    for (size_t i = 0; i < count && length + 32 < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%" PRId64, i == 0 ? "" : ", ", values[i]);
    snprintf(text + length, size - length, "]");
    return text;
}

enum { LIST_BYTES = 512 };

static bool is_even(const int64_t *layers, size_t count, uint32_t device_count)
{
    size_t i = 0;

    while (i < count && layers[i] == -1)
        i++;
    return i == count && (count == 1 || count == device_count);
}

static bg_status expand_wildcards(const int64_t *layers, size_t count, uint64_t layer_count, int64_t *out,
                                  bg_error *error)
{
    uint64_t fixed = 0, wildcards = 0, left;
    size_t last = 0;
    char text[LIST_BYTES];

    for (size_t i = 0; i < count; i++) {
        fixed += layers[i] == -1 ? 0 : (uint64_t)layers[i];
        wildcards += layers[i] == -1;
        last = layers[i] == -1 ? i : last;
    }
    if (fixed > layer_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s gives %" PRIu64 " layers to devices without a wildcard, but the model has %" PRIu64
                            "; nothing is left for -1",
                            list_text(layers, count, text, sizeof text), fixed, layer_count);
    left = layer_count - fixed;
    for (size_t i = 0; i < count; i++)
        out[i] = layers[i] == -1 ? (int64_t)(left / wildcards) : layers[i];
    out[last] += (int64_t)(left % wildcards);
    return BG_OK;
}

bg_status bg_layers_expand(const int64_t *layers, size_t count, uint32_t device_count, uint64_t layer_count,
                           int64_t *out, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(out, "out", __func__, error));
    if (count > 0)
        BGI_TRY(bgi_require(layers, "layers", __func__, error));

    bool has_wildcard = false;
    uint64_t sum = 0;
    char text[LIST_BYTES];

    list_text(layers, count, text, sizeof text);
    for (size_t i = 0; i < count; i++) {
        if (layers[i] < -1 || layers[i] > INT32_MAX)
            return bg_error_set(error, BG_ERROR_INVALID,
                                "Invalid values in %s: [%zu] is %" PRId64 "; a device has 0 layers or more, or -1",
                                text, i, layers[i]);
        has_wildcard = has_wildcard || layers[i] == -1;
        sum += layers[i] == -1 ? 0 : (uint64_t)layers[i];
    }
    if (device_count < 1)
        return bg_error_set(error, BG_ERROR_INVALID, "the number of devices is 0; it must be at least 1");
    if (layer_count > INT32_MAX)
        return bg_error_set(error, BG_ERROR_INVALID, "%" PRIu64 " layers; a model can have at most %d", layer_count,
                            INT32_MAX);
    if (device_count == 1) {
        out[0] = (int64_t)layer_count;
        return BG_OK;
    }
    if (is_even(layers, count, device_count)) {
        for (uint32_t d = 0; d < device_count; d++)
            out[d] = (int64_t)(layer_count / device_count);
        out[device_count - 1] += (int64_t)(layer_count % device_count);
        return BG_OK;
    }
    if (count != device_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s is a non-default value, but its length does not match: it has %zu elements for %u "
                            "devices; give each device one, or [-1] for an even split",
                            text, count, device_count);
    if (has_wildcard)
        return expand_wildcards(layers, count, layer_count, out, error);
    if (sum != layer_count)
        return bg_error_set(error, BG_ERROR_INVALID,
                            "%s does not define the correct number of layers: it has %" PRIu64 " and the model %" PRIu64
                            "; a -1 gets the remaining layers",
                            text, sum, layer_count);
    memcpy(out, layers, count * sizeof *out);
    return BG_OK;
}

/* ---- encoder and decoder ---- */

/* Returns the largest power of two such that the first devices of this number contain exactly the encoder's layers; 0
 * if there is none. */
static size_t find_cut(const int64_t *layers, size_t count, uint64_t encoder_layers)
{
    uint64_t sum = 0;
    size_t cut = 0;

    for (size_t length = 1; length < count; length++) {
        sum += (uint64_t)layers[length - 1];
        if (sum == encoder_layers && (length & (length - 1)) == 0)
            cut = length;
    }
    return cut;
}

static bool is_zero(const int64_t *values, size_t count)
{
    size_t i = 0;

    while (i < count && values[i] == 0)
        i++;
    return i == count;
}

static json_t *part_of(const bgi_ipu_value *value, size_t first, size_t end)
{
    json_t *list = json_array();

    for (size_t i = first; list != NULL && i < end; i++)
        if (json_array_append(list, json_array_get(value->json, i)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static void give_new(bg_ipu_config *config, bgi_ipu_field_id id, json_t *json)
{
    bgi_ipu_give(config, id, json);
    json_decref(json);
}

/* Makes the encoder or the decoder from the settled values of devices `first` .. `end` - 1. The part keeps the splits
 * of its own serialized layer, `kept`. */
static bg_status make_part(const bg_ipu_config *config, const int64_t *layers, size_t first, size_t end,
                           bgi_ipu_field_id kept, bgi_ipu_field_id dropped, bgi_ipu_field_id dropped_factor,
                           bg_ipu_config **out, bg_error *error)
{
    const bool inference = config->is_inference;
    const bgi_ipu_field_id matmul = bgi_ipu_in_mode(BGI_IPU_MATMUL, inference);
    json_t *list = json_array();
    bg_ipu_config *part = NULL, *trial = NULL;
    bg_status status;

    for (size_t i = first; list != NULL && i < end; i++)
        json_array_append_new(list, json_integer(layers[i]));
    if (list == NULL || json_array_size(list) != end - first) {
        json_decref(list);
        return bgi_error_memory(error, "layers", (end - first) * sizeof *layers);
    }
    BGI_TRY_CLEANUP(bg_ipu_config_clone(config, &part, error));
    BGI_TRY_CLEANUP(bg_ipu_config_clone(config, &trial, error));
    /* Inferred values become given ones. Otherwise the values of the other mode (training or inference) would be
     * inferred again from this part's layers and devices. */
    bgi_ipu_give_all(trial);
    bgi_ipu_give(trial, bgi_ipu_in_mode(BGI_IPU_LAYERS, inference), list);
    give_new(trial, bgi_ipu_in_mode(BGI_IPU_IPUS, inference), json_integer((json_int_t)(end - first)));
    if (json_is_array(config->values[matmul].json))
        give_new(trial, matmul, part_of(&config->values[matmul], first, end));
    if (json_is_array(config->values[kept].json))
        give_new(trial, kept, part_of(&config->values[kept], first, end));
    if (json_is_array(config->values[dropped].json)) {
        bgi_ipu_give(trial, dropped, NULL);
        bgi_ipu_give(trial, dropped_factor, NULL);
    }
    status = bgi_ipu_take(part, trial, error);
    trial = NULL;
cleanup:
    json_decref(list);
    bg_ipu_config_destroy(trial);
    if (status != BG_OK)
        bg_ipu_config_destroy(part);
    else
        *out = part;
    return status;
}

static bg_status check_splits(const bg_ipu_config *config, size_t cut, bg_error *error)
{
    const bgi_ipu_value *embedding = bgi_ipu_held(config, BGI_IPU_EMBEDDING_SPLITS, config->is_inference);
    const bgi_ipu_value *projection = bgi_ipu_held(config, BGI_IPU_PROJECTION_SPLITS, config->is_inference);
    char text[LIST_BYTES];

    if (embedding->count > 0 && !is_zero(embedding->integers + cut, embedding->count - cut))
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "the embedding's splits %s must have all splits placed on the encoder, which is on the first "
            "%zu devices",
            list_text(embedding->integers, embedding->count, text, sizeof text), cut);
    if (projection->count > 0 && !is_zero(projection->integers, cut))
        return bg_error_set(error, BG_ERROR_INVALID,
                            "the projection's splits %s must have all splits placed on the decoder, which begins after "
                            "the first %zu devices",
                            list_text(projection->integers, projection->count, text, sizeof text), cut);
    return BG_OK;
}

bg_status bg_ipu_config_split_encoder_decoder(const bg_ipu_config *config, uint64_t encoder_layers,
                                              uint64_t decoder_layers, bg_ipu_config **out_encoder,
                                              bg_ipu_config **out_decoder, bg_error *error)
{
    bg_error_clear(error);
    BGI_TRY(bgi_require(config, "config", __func__, error));
    BGI_TRY(bgi_require(out_encoder, "out_encoder", __func__, error));
    BGI_TRY(bgi_require(out_decoder, "out_decoder", __func__, error));

    const bool inference = config->is_inference;
    const bgi_ipu_settings settings = bgi_ipu_config_settings(config, inference);
    const size_t count = settings.ipus_per_replica;
    const bgi_ipu_field_id embedding = bgi_ipu_in_mode(BGI_IPU_EMBEDDING_SPLITS, inference);
    const bgi_ipu_field_id projection = bgi_ipu_in_mode(BGI_IPU_PROJECTION_SPLITS, inference);
    bg_ipu_config *encoder = NULL, *decoder = NULL;
    int64_t *layers;
    char text[LIST_BYTES];
    size_t cut;
    bg_status status;

    if (count < 2)
        return bg_error_set(
            error, BG_ERROR_INVALID,
            "`%s` is %zu but must be at least 2 for an encoder and a decoder; set it, even if layers_per_ipu is [-1]",
            bgi_ipu_fields[bgi_ipu_in_mode(BGI_IPU_IPUS, inference)].name, count);
    layers = calloc(count, sizeof *layers);
    if (layers == NULL)
        return bgi_error_memory(error, "layers", count * sizeof *layers);
    BGI_TRY_CLEANUP(bg_layers_expand(settings.layers_per_ipu, settings.layers_count, settings.ipus_per_replica,
                                     encoder_layers + decoder_layers, layers, error));
    cut = find_cut(layers, count, encoder_layers);
    if (cut == 0) {
        status = bg_error_set(
            error, BG_ERROR_INVALID,
            "Unable to find a valid split of %s: the first 1, 2, 4, ... devices must have just the %" PRIu64
            " layers of the encoder (the decoder may have any number of devices)",
            list_text(layers, count, text, sizeof text), encoder_layers);
        goto cleanup;
    }
    BGI_TRY_CLEANUP(check_splits(config, cut, error));
    BGI_TRY_CLEANUP(make_part(config, layers, 0, cut, embedding, projection,
                              bgi_ipu_in_mode(BGI_IPU_PROJECTION_FACTOR, inference), &encoder, error));
    BGI_TRY_CLEANUP(make_part(config, layers, cut, count, projection, embedding,
                              bgi_ipu_in_mode(BGI_IPU_EMBEDDING_FACTOR, inference), &decoder, error));
    *out_encoder = encoder;
    *out_decoder = decoder;
    encoder = NULL;
cleanup:
    bg_ipu_config_destroy(encoder);
    free(layers);
    return status;
}
