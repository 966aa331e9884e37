/*
 * presets.h: finds the files of named configurations.
 */
#ifndef BGI_CLI_PRESETS_H
#define BGI_CLI_PRESETS_H

#include <brigade/base.h>

/*
 * Finds the file `name` + `extension` in the subfolder `kind` ("" for no subfolder) of $BRIGADE_PRESETS, of
 * share/presets, of a share folder next to the program's folder, or of the installed share folder. *out is NULL if
 * there is no such file. *out_looked lists the searched folders, separated by commas. Both are malloc'ed.
 */
bg_status cli_preset_find(const char *name, const char *kind, const char *extension, char **out, char **out_looked,
                          bg_error *error);

#endif
