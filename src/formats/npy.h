/*
 * npy.h: reads NumPy's files in memory, for the file readers and the fuzz targets.
 */
#ifndef BGI_FORMATS_NPY_H
#define BGI_FORMATS_NPY_H

#include <brigade/readers.h>

/* Parse content in memory; `name` is its name in messages. Errors: those of bg_npy_read and bg_npz_read. */
bg_status bgi_npy_parse(const char *name, const void *content, size_t size_bytes, bg_array *out, bg_error *error);
bg_status bgi_npz_parse(const char *name, const void *content, size_t size_bytes, bg_npz *out, bg_error *error);

#endif
