/*
 * safetensors.h: content in memory, for the file reader and for the fuzzer; and the table of element types.
 */
#ifndef BGI_DATA_SAFETENSORS_H
#define BGI_DATA_SAFETENSORS_H

#include <brigade/safetensors.h>

#define BGI_SAFETENSORS_METADATA "__metadata__"

/* The format's own limit for the JSON header. */
#define BGI_SAFETENSORS_HEADER_LIMIT ((uint64_t)100000000)

/* The format's name for a type, NULL when it has none; and back, BG_DTYPE_NONE when there is none. */
const char *bgi_safetensors_dtype_name(bg_dtype dtype);
bg_dtype bgi_safetensors_dtype_find(const char *name);

/* Parses content that stays where it is as long as *out is used; `name` is what messages call it. */
bg_status bgi_safetensors_parse(const char *name, const void *content, size_t size_bytes, bg_safetensors **out,
                                bg_error *error);

#endif
