/*
 * config.h: declares what the files of `brigade config` share.
 */
#ifndef BGI_CLI_CONFIG_H
#define BGI_CLI_CONFIG_H

#include <brigade/config.h>

#include "config/problems.h"

typedef struct config_options {
    const char *preset; /* --config: a name, a file or a folder */
    const char *update, *to, *out;
    bool keep_unknown, no_version;
    uint64_t layers, encoder_layers, decoder_layers, batch_size, devices;
} config_options;

/* Returns the number of layers of the whole model; 0 if unknown. */
uint64_t config_layer_count(const config_options *options);

/* Finds the file that a preset's name or a path denotes; *out is malloc'ed. Errors: BG_ERROR_NOT_FOUND, whose message
 * lists the searched folders. */
bg_status config_find(const char *name, char **out, bg_error *error);

/* Prints the layout for training and for inference. Adds to `problems` everything that does not fit the model or the
 * devices. */
bg_status config_explain(const bg_ipu_config *config, const config_options *options, bgi_problems *problems,
                         bg_error *error);

#endif
