/*
 * ipu_model.c: builds the embedding and the output layer of a model as a configuration requests: whole, in sections
 * that run one after another, or in sections on several devices. ipu_options.c places the blocks of the sections.
 */
#include "config/ipu_config.h"

#include <brigade/nn.h>

bg_value bg_ipu_embedding_layer(bg_graph *graph, const bg_ipu_config *config, bool for_inference, const char *name,
                                bg_value ids, int64_t row_count, int64_t width, int64_t padding_index, bg_dtype dtype)
{
    const bgi_ipu_settings settings = bgi_ipu_config_settings(config, for_inference);
    const bg_split_placement placement = {settings.embedding_splits, settings.ipus_per_replica};

    return bg_serialized_embedding_layer(graph, name, ids, row_count, width, padding_index, dtype,
                                         settings.embedding_factor,
                                         settings.embedding_splits != NULL ? &placement : NULL);
}

bg_value bg_ipu_projection_layer(bg_graph *graph, const bg_ipu_config *config, bool for_inference, const char *name,
                                 bg_value x, int64_t out_features, bool bias)
{
    const bgi_ipu_settings settings = bgi_ipu_config_settings(config, for_inference);
    const bg_split_placement placement = {settings.projection_splits, settings.ipus_per_replica};

    if (settings.projection_splits != NULL)
        return bg_split_projection_layer(graph, name, x, out_features, bias, BG_SERIALIZE_OUTPUT_CHANNELS,
                                         settings.projection_factor, &placement);
    if (settings.projection_factor > 1)
        return bg_serialized_linear_layer(graph, name, x, out_features, bias, BG_SERIALIZE_OUTPUT_CHANNELS,
                                          settings.projection_factor);
    return bg_linear_layer(graph, name, x, out_features, bias);
}
