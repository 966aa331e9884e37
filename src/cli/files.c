/*
 * files.c: checks that no option writes a file that another option reads or writes, such as weights over a
 * configuration.
 */
#include "cli/program.h"

#include "core/error.h"
#include "core/file.h"

/* Whether `a` and `b` must not be the same file. Weights may be saved to the file that they were loaded from. */
static bool excludes(const cli_file *a, const cli_file *b)
{
    if (a->path == NULL || b->path == NULL || (!a->is_written && !b->is_written))
        return false;
    return !(a->is_weights && b->is_weights && a->is_written != b->is_written);
}

bg_status cli_files_check(const cli_file *files, size_t count, bg_error *error)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++)
            if (excludes(&files[i], &files[j]) && bgi_file_is_same(files[i].path, files[j].path))
                return bg_error_set(error, BG_ERROR_INVALID,
                                    "%s and %s name the same file, %s; give them different files", files[i].option,
                                    files[j].option, files[i].path);
    return BG_OK;
}
