/*
 * presets.c: searches for presets. The user's folder comes first, so that the user can redefine a name.
 */
#include "cli/presets.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

enum { EXECUTABLE_BYTES = 4096, FOLDERS = 5 };

/* Finds the folder of the program; "" if the system does not report it. */
static void find_program(char folder[EXECUTABLE_BYTES])
{
    const ssize_t length = readlink("/proc/self/exe", folder, EXECUTABLE_BYTES - 1);
    char *slash;

    folder[length > 0 ? length : 0] = '\0';
    slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
}

static void list_folders(bgi_string folders[FOLDERS])
{
    const char *own = getenv("BRIGADE_PRESETS");
    char program[EXECUTABLE_BYTES];

    find_program(program);
    if (own != NULL && own[0] != '\0')
        bgi_string_add(&folders[0], "%s", own);
    bgi_string_add(&folders[1], "share/presets");
    if (program[0] != '\0') {
        bgi_string_add(&folders[2], "%s/../share/presets", program);
        bgi_string_add(&folders[3], "%s/../share/brigade/presets", program);
    }
    bgi_string_add(&folders[4], BGI_SHARE "/presets");
}

bg_status cli_preset_find(const char *name, const char *kind, const char *extension, char **out, char **out_looked,
                          bg_error *error)
{
    const char *slash = kind[0] != '\0' ? "/" : "";
    bgi_string folders[FOLDERS] = {{0}}, looked = {0}, path = {0};
    bool failed = false;

    list_folders(folders);
    for (int i = 0; i < FOLDERS; i++) {
        failed = failed || folders[i].failed;
        if (folders[i].data == NULL || path.data != NULL)
            continue;
        bgi_string_add(&looked, "%s%s%s%s", looked.length > 0 ? ", " : "", folders[i].data, slash, kind);
        bgi_string_add(&path, "%s%s%s/%s%s", folders[i].data, slash, kind, name, extension);
        if (!path.failed && !bgi_file_exists(path.data))
            bgi_string_clear(&path);
    }
    for (int i = 0; i < FOLDERS; i++)
        bgi_string_clear(&folders[i]);
    if (failed || path.failed || looked.failed) {
        bgi_string_clear(&path);
        bgi_string_clear(&looked);
        return bgi_error_memory(error, "path", 0);
    }
    *out = path.data;
    *out_looked = looked.data;
    return BG_OK;
}
