/*
 * mapping.h: whole files as memory that is read when it is touched.
 */
#ifndef BGI_DATA_MAPPING_H
#define BGI_DATA_MAPPING_H

#include <brigade/base.h>

/* Read-only. An empty file gives NULL and 0 bytes. Errors as bgi_file_open. A file that someone shortens afterwards
 * ends the process when the missing part is touched (SIGBUS). */
bg_status bgi_mapping_open(const char *path, void **out_mapping, size_t *out_size_bytes, bg_error *error);

/* NULL is fine. */
void bgi_mapping_close(void *mapping, size_t size_bytes);

#endif
