/*
 * presets.c: looks for presets. The user's own folder comes first, so that a name can be given another meaning.
 */
#include "cli/presets.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

bg_status cli_preset_find(const char *name, const char *kind, const char *extension, char **out, char **out_looked,
                          bg_error *error)
{
    const char *folders[] = {getenv("BRIGADE_PRESETS"), "share/presets", BGI_SHARE "/presets"};
    const char *slash = kind[0] != '\0' ? "/" : "";
    bgi_text looked = {0}, path = {0};

    for (size_t i = 0; path.data == NULL && i < sizeof folders / sizeof folders[0]; i++) {
        if (folders[i] == NULL || folders[i][0] == '\0')
            continue;
        bgi_text_add(&looked, "%s%s%s%s", looked.length > 0 ? ", " : "", folders[i], slash, kind);
        bgi_text_add(&path, "%s%s%s/%s%s", folders[i], slash, kind, name, extension);
        if (!path.failed && !bgi_file_exists(path.data))
            bgi_text_clear(&path);
    }
    if (path.failed || looked.failed) {
        bgi_text_clear(&path);
        bgi_text_clear(&looked);
        return bgi_error_memory(error, "path", 0);
    }
    *out = path.data;
    *out_looked = looked.data;
    return BG_OK;
}
