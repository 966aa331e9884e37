/*
 * input.c: reads files by position.
 */
#include "core/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/error.h"
#include "core/file.h"

static bg_status fail_read(const char *name, int error_number, bg_error *error)
{
    char reason[BGI_ERRNO_TEXT_BYTES];

    return bg_error_set(error, BG_ERROR_IO, "%s: cannot read: %s", name, bgi_errno_text(error_number, reason));
}

bg_status bgi_input_open(bgi_input *input, const char *path, bg_error *error)
{
    bgi_input opened = {.content = NULL};
    struct stat about;
    FILE *stream = NULL;
    int problem = 0;

    BGI_TRY(bgi_file_open(path, &stream, error));
    opened.descriptor = fcntl(fileno(stream), F_DUPFD_CLOEXEC, 0);
    if (opened.descriptor < 0 || fstat(opened.descriptor, &about) != 0)
        problem = errno;
    fclose(stream);
    if (problem == 0) {
        opened.size_bytes = (uint64_t)about.st_size;
        opened.name = strdup(path);
    }
    if (opened.name == NULL && opened.descriptor >= 0)
        close(opened.descriptor);
    if (problem != 0)
        return fail_read(path, problem, error);
    if (opened.name == NULL)
        return bgi_error_memory(error, "a path", strlen(path));
    *input = opened;
    return BG_OK;
}

bg_status bgi_input_over(bgi_input *input, const char *name, const void *content, uint64_t size_bytes, bg_error *error)
{
    /* Empty content gets a pointer that is never read, because NULL would mean a file. */
    *input = (bgi_input){.name = strdup(name), .content = content != NULL ? content : "", .size_bytes = size_bytes};
    return input->name != NULL ? BG_OK : bgi_error_memory(error, "a name", strlen(name));
}

bg_status bgi_input_open_kept(bgi_input *input, const char *path, uint64_t limit_bytes, bg_error *error)
{
    bgi_input opened = {.content = NULL};
    bg_status status;

    BGI_TRY(bgi_input_open(&opened, path, error));
    if (opened.size_bytes > 0 && opened.size_bytes <= limit_bytes) {
        void *kept = bgi_aligned_reserve(64, (size_t)opened.size_bytes);

        status = kept != NULL ? bgi_input_read(&opened, 0, kept, (size_t)opened.size_bytes, error)
                              : bgi_error_memory(error, path, (size_t)opened.size_bytes);
        if (status != BG_OK) {
            free(kept);
            bgi_input_close(&opened);
            return status;
        }
        close(opened.descriptor);
        opened.content = opened.kept = kept;
    }
    *input = opened;
    return BG_OK;
}

void bgi_input_close(bgi_input *input)
{
    if (input->name != NULL && input->content == NULL)
        close(input->descriptor);
    free(input->kept);
    free(input->name);
    *input = (bgi_input){.name = NULL};
}

bg_status bgi_input_read(const bgi_input *input, uint64_t offset, void *out, size_t size_bytes, bg_error *error)
{
    unsigned char *at = out;

    if (input->content != NULL) {
        if (size_bytes > 0)
            memcpy(out, (const unsigned char *)input->content + offset, size_bytes);
        return BG_OK;
    }
    while (size_bytes > 0) {
        const ssize_t got = pread(input->descriptor, at, size_bytes < (1 << 30) ? size_bytes : 1 << 30, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_read(input->name, errno, error);
        if (got == 0)
            return bg_error_set(error, BG_ERROR_IO,
                                "%s: ends at byte %" PRIu64 " but had %" PRIu64
                                " bytes when it was opened; a file must not be shortened while it is used",
                                input->name, offset, input->size_bytes);
        at += got;
        offset += (uint64_t)got;
        size_bytes -= (size_t)got;
    }
    return BG_OK;
}
