/*
 * file.h: whole files in, whole files out.
 *
 * Writing goes to a temporary name in the target's folder, is flushed to disk and only then renamed over the target, so
 * that a reader of the target finds either the old content or the new one, never a part. Links are followed: the target
 * is replaced and the link stays. A replaced file keeps its permissions. A target that is not a regular file (a device,
 * a pipe, a folder) is refused.
 */
#ifndef BGI_CORE_FILE_H
#define BGI_CORE_FILE_H

#include <brigade/base.h>

#include <stdio.h>

/* A file being written, through a buffer of its own. Zero-initialize; end with exactly one of commit or abandon after a
 * successful begin. */
typedef struct bgi_file_writer {
    char *path;
    char *temporary_path;
    unsigned char *buffer; /* NULL: nothing is being written */
    size_t buffered;
    size_t unsent_bytes;    /* written since the disk was last asked to begin */
    uint64_t written_bytes; /* that the system has, and the file has for who reads it */
    int descriptor;
    int first_errno; /* of the first that failed of all below; 0 while all is well */
} bgi_file_writer;

/* Errors: BG_ERROR_IO (naming path and the system's reason, or that it is no regular file), BG_ERROR_NOT_FOUND (no such
 * folder, or a link to nothing), BG_ERROR_MEMORY. */
bg_status bgi_file_writer_begin(bgi_file_writer *writer, const char *path, bg_error *error);

/* May be called without looking: a failure is kept and reported by commit. */
void bgi_file_write(bgi_file_writer *writer, const void *data, size_t size_bytes);

/* Formatted text, likewise. */
void bgi_file_print(bgi_file_writer *writer, const char *format, ...) BG_PRINTF(2, 3);

/* What is written next replaces bytes from the beginning of the file on. */
void bgi_file_writer_restart(bgi_file_writer *writer);

/* Everything so far to the system, so that temporary_path can be opened and checked before it takes the target's place,
 * while the disk is at work: commit waits for it. On failure the writer is still to be abandoned. */
bg_status bgi_file_writer_send(bgi_file_writer *writer, bg_error *error);

/* Flush, fsync, rename, fsync the folder. On failure before the rename the temporary file is gone and the target is
 * untouched; a folder that cannot be flushed is a failure with the new file in place. */
bg_status bgi_file_writer_commit(bgi_file_writer *writer, bg_error *error);

/* Removes the temporary file; an error that is set says so where that fails. Fine on a writer that was never begun, or
 * is already ended. */
void bgi_file_writer_abandon(bgi_file_writer *writer, bg_error *error);

/* The three above in one call. */
bg_status bgi_file_save(const char *path, const void *data, size_t size_bytes, bg_error *error);

/*
 * The whole of a file in malloc'ed memory, with a zero byte after its end that *out_size_bytes does not count.
 * Errors: BG_ERROR_NOT_FOUND (no such file), BG_ERROR_IO (cannot be read, or is no regular file), BG_ERROR_INVALID
 * (longer than limit_bytes), BG_ERROR_MEMORY.
 */
bg_status bgi_file_load(const char *path, size_t limit_bytes, char **out_data, size_t *out_size_bytes, bg_error *error);

/* Opens for reading; the same errors as bgi_file_load. */
bg_status bgi_file_open(const char *path, FILE **out_stream, bg_error *error);

/* True for something that can be opened as a regular file's path (a file or a link to one). */
bool bgi_file_exists(const char *path);

/* True when both paths lead to one file, or would when it is made: whatever is written to one is lost in the other. */
bool bgi_file_is_same(const char *a, const char *b);

/* Creates a folder and those above it; fine when it exists. */
bg_status bgi_folder_create(const char *path, bg_error *error);

/* Whether a folder has no entries. Errors: BG_ERROR_IO (it is not there, or cannot be read). */
bg_status bgi_folder_is_empty(const char *path, bool *out, bg_error *error);

/* Takes a folder for this process alone, until *out is released or the process ends, whichever way; BG_ERROR_INVALID
 * when another one has it. Only who asks is kept away. On file systems without locks nobody is, and *out is -1; that a
 * lock fails for another reason is BG_ERROR_IO. */
bg_status bgi_folder_lock(const char *path, int *out, bg_error *error);
void bgi_folder_release(int *held);

/* "folder/name" in malloc'ed memory; NULL when memory is out. An empty folder gives `name`. */
char *bgi_path_join(const char *folder, const char *name);

/* The system's reason for an errno value, in `text`; safe with threads. */
enum { BGI_ERRNO_TEXT_BYTES = 128 };
const char *bgi_errno_text(int error_number, char text[BGI_ERRNO_TEXT_BYTES]);

#endif
