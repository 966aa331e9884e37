/*
 * safetensors.h: content in memory, for the file reader and for the fuzzer; and the table of element types.
 */
#ifndef BGI_DATA_SAFETENSORS_H
#define BGI_DATA_SAFETENSORS_H

#include <brigade/safetensors.h>

#define BGI_SAFETENSORS_METADATA "__metadata__"

/* The format's own limit for the JSON header. */
#define BGI_SAFETENSORS_HEADER_LIMIT ((uint64_t)100000000)

/* How elements lie in a file. */
typedef struct bgi_safetensors_storage {
    const char *name; /* the format's */
    bg_dtype dtype;   /* BG_DTYPE_NONE: Brigade has no such type ("foreign") */
    size_t element_bytes;
} bgi_safetensors_storage;

/* The format's name for a type, NULL when it has none. */
const char *bgi_safetensors_dtype_name(bg_dtype dtype);

/* Parses content that stays where it is as long as *out is used; `name` is what messages call it. Foreign tensors are
 * refused, or kept as entries whose type has dtype BG_DTYPE_NONE. */
bg_status bgi_safetensors_parse(const char *name, const void *content, size_t size_bytes, bool keeps_foreign,
                                bg_safetensors **out, bg_error *error);
bg_status bgi_safetensors_open(const char *path, bool keeps_foreign, bg_safetensors **out, bg_error *error);

/* `entry` must be an opened file's. */
const bgi_safetensors_storage *bgi_safetensors_storage_of(const bg_safetensors_entry *entry);
/* F32, F64, BF16 or F16. */
bool bgi_safetensors_is_float(const bgi_safetensors_storage *storage);
/* The elements as float32: of F32, F64 (rounded), BF16 and F16; false for others. */
bool bgi_safetensors_read_floats(const bg_safetensors_entry *entry, float *out);

#endif
