/*
 * presets.h: finds the files of named configurations.
 */
#ifndef BGI_CLI_PRESETS_H
#define BGI_CLI_PRESETS_H

#include <brigade/base.h>

/*
 * The file `name``extension` in sub-folder `kind` ("": none) of $BRIGADE_PRESETS, share/presets, a share folder beside
 * the program's, or where Brigade is installed; *out NULL when there is none. *out_looked: the searched folders,
 * separated by commas. Both are malloc'ed.
 */
bg_status cli_preset_find(const char *name, const char *kind, const char *extension, char **out, char **out_looked,
                          bg_error *error);

#endif
