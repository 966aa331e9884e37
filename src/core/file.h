/*
 * file.h: reads and writes whole files.
 *
 * A file is written under a temporary name in the target's folder, flushed to disk and then renamed. So a reader of the
 * target finds either the old content or all of the new content. Links are followed: the target is replaced and the
 * link stays. A replaced file keeps its permissions. A target that is not a regular file (a device, a pipe, a folder)
 * is refused.
 */
#ifndef BGI_CORE_FILE_H
#define BGI_CORE_FILE_H

#include <brigade/base.h>

#include <stdio.h>

/* A file that is being written, through a separate buffer. Must be zeroed; a successful begin must be followed by
 * exactly one of commit or abandon. */
typedef struct bgi_file_writer {
    char *path;
    char *temporary_path;
    unsigned char *buffer; /* NULL: no file is being written */
    size_t buffered;
    size_t unsent_bytes;    /* bytes that the disk was not yet asked to write */
    uint64_t written_bytes; /* bytes of the open file that readers can see */
    int descriptor;
    int first_errno; /* errno of the first failed call below; 0 without failures */
} bgi_file_writer;

/* Begins to write a file. Errors: BG_ERROR_IO (the message has the path and the system's reason, or says that the path
 * is not a regular file), BG_ERROR_NOT_FOUND (no such folder, or a broken link), BG_ERROR_MEMORY. */
bg_status bgi_file_writer_begin(bgi_file_writer *writer, const char *path, bg_error *error);

/* Writes bytes. bgi_file_writer_commit reports a failure, so the caller need not check for one. */
void bgi_file_write(bgi_file_writer *writer, const void *data, size_t size_bytes);

/* Writes formatted text in the same way. */
void bgi_file_print(bgi_file_writer *writer, const char *format, ...) BG_PRINTF(2, 3);

/* Makes the next write begin at the start of the file. */
void bgi_file_writer_restart(bgi_file_writer *writer);

/* Passes everything so far to the system. Then temporary_path can be opened and checked while the disk writes, before
 * the file replaces the target. Commit waits for the disk. After a failure the writer must still be abandoned. */
bg_status bgi_file_writer_send(bgi_file_writer *writer, bg_error *error);

/* Flushes, syncs and renames the file, and syncs the folder. After a failure before the rename, the temporary file is
 * removed and the target is unchanged. If only the folder cannot be flushed, the function fails with the new file in
 * place. */
bg_status bgi_file_writer_commit(bgi_file_writer *writer, bg_error *error);

/* Removes the temporary file. If it cannot be removed, adds this fact to an error that is already set. May be called
 * for a writer that was never begun, or has ended. */
void bgi_file_writer_abandon(bgi_file_writer *writer, bg_error *error);

/* Writes a whole file with the functions above. */
bg_status bgi_file_save(const char *path, const void *data, size_t size_bytes, bg_error *error);

/*
 * Reads the whole file into malloc'ed memory, with a zero byte after its end that *out_size_bytes does not count.
 * Errors: BG_ERROR_NOT_FOUND (no such file), BG_ERROR_IO (cannot be read, or is not a regular file), BG_ERROR_INVALID
 * (longer than limit_bytes), BG_ERROR_MEMORY.
 */
bg_status bgi_file_load(const char *path, size_t limit_bytes, char **out_data, size_t *out_size_bytes, bg_error *error);

/* Opens a file for reading; errors as for bgi_file_load. */
bg_status bgi_file_open(const char *path, FILE **out_stream, bg_error *error);

/* Whether the path names a regular file, or a link to one. */
bool bgi_file_exists(const char *path);

/* Whether both paths name one file, or would when it is created, so that writing one would overwrite the other. */
bool bgi_file_is_same(const char *a, const char *b);

/* Creates a folder and its parents; succeeds when it exists. */
bg_status bgi_folder_create(const char *path, bg_error *error);

/* Whether a folder has no entries. Errors: BG_ERROR_NOT_FOUND (no such folder), BG_ERROR_IO, BG_ERROR_MEMORY. */
bg_status bgi_folder_is_empty(const char *path, bool *out, bg_error *error);

/* Locks a folder for this process until *out is released or the process ends; BG_ERROR_INVALID if another process has
 * locked it. The lock excludes only processes that request it. On file systems without locks it has no effect, and *out
 * is -1. Other errors: BG_ERROR_NOT_FOUND (no such folder), BG_ERROR_IO, BG_ERROR_MEMORY. */
bg_status bgi_folder_lock(const char *path, int *out, bg_error *error);
void bgi_folder_release(int *held);

/* Returns "folder/name" in malloc'ed memory, or NULL if memory is exhausted; "name" if `folder` is "". */
char *bgi_path_join(const char *folder, const char *name);

/* Writes the system's message for an errno value to `text`; thread-safe. */
enum { BGI_ERRNO_TEXT_BYTES = 128 };
const char *bgi_errno_text(int error_number, char text[BGI_ERRNO_TEXT_BYTES]);

#endif
