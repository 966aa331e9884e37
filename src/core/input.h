/*
 * input.h: a file that is read by position, or memory that stands for one. Files are not mapped: if a mapped file is
 * shortened, access to the missing part ends the process, while a failed read is an ordinary error.
 */
#ifndef BGI_CORE_INPUT_H
#define BGI_CORE_INPUT_H

#include <brigade/base.h>

/* All-zero is closed. Threads may read one at once. */
typedef struct bgi_input {
    char *name;          /* what messages call it; NULL: closed */
    uint64_t size_bytes; /* when it was opened */
    const void *content; /* the caller's memory, or `kept`; NULL: a file's */
    void *kept;          /* of a small file: all of it */
    int descriptor;      /* of the file */
} bgi_input;

/* Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO (cannot be opened, or is no regular file), BG_ERROR_MEMORY. */
bg_status bgi_input_open(bgi_input *input, const char *path, bg_error *error);
/* `content` stays where it is until the input is closed. Errors: BG_ERROR_MEMORY. */
bg_status bgi_input_over(bgi_input *input, const char *name, const void *content, uint64_t size_bytes, bg_error *error);
/* As bgi_input_open; a file of at most limit_bytes is read at once and kept, for inputs of which many small pieces are
 * read: a call of the system for each takes longer than the piece. */
bg_status bgi_input_open_kept(bgi_input *input, const char *path, uint64_t limit_bytes, bg_error *error);
void bgi_input_close(bgi_input *input); /* fine on a closed one */

/* Bytes offset to offset + size_bytes, which lie in the input's first size_bytes. Errors: BG_ERROR_IO, naming the file:
 * the disk's, or that the file has become shorter. */
bg_status bgi_input_read(const bgi_input *input, uint64_t offset, void *out, size_t size_bytes, bg_error *error);

#endif
