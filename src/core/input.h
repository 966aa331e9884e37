/*
 * input.h: reads a file, or memory in its place, by position. Files are not mapped: if a mapped file is shortened,
 * access to the missing part ends the process, while a failed read is an ordinary error.
 */
#ifndef BGI_CORE_INPUT_H
#define BGI_CORE_INPUT_H

#include <brigade/base.h>

/* A zeroed input is closed. Several threads may read one input at once. */
typedef struct bgi_input {
    char *name;          /* the name in messages; NULL: the input is closed */
    uint64_t size_bytes; /* the size when the input was opened */
    const void *content; /* the caller's memory, or `kept`; NULL: read from the file */
    void *kept;          /* the whole content of a small file */
    int descriptor;      /* descriptor of the file */
} bgi_input;

/* Opens a file. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO (cannot be opened; not a regular file), BG_ERROR_MEMORY. */
bg_status bgi_input_open(bgi_input *input, const char *path, bg_error *error);
/* Opens content in memory, which must outlive the input. Errors: BG_ERROR_MEMORY. */
bg_status bgi_input_over(bgi_input *input, const char *name, const void *content, uint64_t size_bytes, bg_error *error);
/* Opens a file like bgi_input_open, but keeps the content of a file of at most limit_bytes in memory. This is for
 * inputs that are read in many small parts, for which system calls would take most of the time. */
bg_status bgi_input_open_kept(bgi_input *input, const char *path, uint64_t limit_bytes, bg_error *error);
void bgi_input_close(bgi_input *input); /* also accepts a closed input */

/* Reads bytes offset .. offset + size_bytes - 1, which must be within the input's size_bytes. Errors: BG_ERROR_IO,
 * which names the file: a disk error, or a file that has become shorter. */
bg_status bgi_input_read(const bgi_input *input, uint64_t offset, void *out, size_t size_bytes, bg_error *error);

#endif
