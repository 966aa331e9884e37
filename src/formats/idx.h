/*
 * idx.h: reads IDX content in memory, for the file reader and the fuzz target.
 */
#ifndef BGI_FORMATS_IDX_H
#define BGI_FORMATS_IDX_H

#include <brigade/data.h>

/* Parses plain or gzipped IDX content; `name` is its name in messages. Errors: those of bg_idx_read. */
bg_status bgi_idx_parse(const char *name, const void *content, size_t size_bytes, bg_array *out, bg_error *error);

#endif
