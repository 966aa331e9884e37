/*
 * layers.h: declares functions that the files of layers share.
 */
#ifndef BGI_NN_LAYERS_H
#define BGI_NN_LAYERS_H

#include <brigade/nn.h>

/* Returns false, and records an error in the graph, if the layer cannot be built over `x`. */
bool bgi_layer_check(bg_graph *graph, const char *layer, const char *name, bg_value x);
/* Adds the variable `layer.suffix`. */
bg_value bgi_layer_variable(bg_graph *graph, const char *layer, const char *suffix, const bg_shard *shard,
                            bg_variable_role role, const bg_initializer *initializer);
/* Casts `value` to `dtype` if its type differs; the null value stays null. */
bg_value bgi_layer_cast(bg_graph *graph, bg_value value, bg_dtype dtype);

#endif
