/*
 * config_find.c: finds an IPU configuration, and counts the layers of the model.
 */
#include "cli/config.h"

#include <stdlib.h>
#include <string.h>

#include "cli/presets.h"
#include "config/ipu_config.h"
#include "core/error.h"
#include "core/file.h"

uint64_t config_layer_count(const config_options *options)
{
    return options->layers > 0 ? options->layers : options->encoder_layers + options->decoder_layers;
}

/* ---- search path ---- */

static bool has_plain_name(const char *name)
{
    return strchr(name, '/') == NULL && strchr(name, '.') == NULL;
}

bg_status config_find(const char *name, char **out, bg_error *error)
{
    char *found = NULL, *looked = NULL;
    bg_status status = BG_OK;

    if (has_plain_name(name))
        BGI_TRY(cli_preset_find(name, "", ".json", &found, &looked, error));
    if (found == NULL) {
        status = bgi_ipu_file_of(name, &found, error);
        if (status == BG_OK && has_plain_name(name) && !bgi_file_exists(name) && strlen(name) < 64 &&
            strcmp(found, name) == 0)
            status =
                bg_error_set(error, BG_ERROR_NOT_FOUND,
                             "there is no preset, file or folder `%s`; presets are looked for in %s", name, looked);
    }
    free(looked);
    if (status != BG_OK) {
        free(found);
        return status;
    }
    *out = found;
    return BG_OK;
}
