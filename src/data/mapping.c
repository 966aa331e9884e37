/*
 * mapping.c: files mapped into memory.
 */
#include "data/mapping.h"

#include "core/error.h"
#include "core/file.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

bg_status bgi_mapping_open(const char *path, void **out_mapping, size_t *out_size_bytes, bg_error *error)
{
    char reason[BGI_ERRNO_TEXT_BYTES];
    struct stat about;
    FILE *stream = NULL;
    int problem = 0;

    BGI_TRY(bgi_file_open(path, &stream, error));
    if (fstat(fileno(stream), &about) != 0)
        problem = errno;
    *out_size_bytes = problem == 0 && about.st_size > 0 ? (size_t)about.st_size : 0;
    *out_mapping = NULL;
    if (*out_size_bytes > 0) { /* an empty mapping is an error of mmap, an empty file is one of the format */
        *out_mapping = mmap(NULL, *out_size_bytes, PROT_READ, MAP_PRIVATE, fileno(stream), 0);
        if (*out_mapping == MAP_FAILED)
            problem = errno;
    }
    fclose(stream);
    if (problem != 0)
        return bg_error_set(error, BG_ERROR_IO, "%s: cannot read: %s", path, bgi_errno_text(problem, reason));
    return BG_OK;
}

void bgi_mapping_close(void *mapping, size_t size_bytes)
{
    if (mapping != NULL)
        munmap(mapping, size_bytes);
}
