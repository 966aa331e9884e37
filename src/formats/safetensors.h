/*
 * safetensors.h: content in memory, for the file reader and for the fuzzer; and the table of element types.
 */
#ifndef BGI_FORMATS_SAFETENSORS_H
#define BGI_FORMATS_SAFETENSORS_H

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
/* As bg_safetensors_open_header. */
bg_status bgi_safetensors_open_header(const char *path, bool keeps_foreign, bg_safetensors **out, bg_error *error);

/* Looks at a file that is complete on the disk, opened as by bg_safetensors_open_header, before it takes its name. */
typedef bg_status (*bgi_safetensors_check)(void *user, const bg_safetensors *file, bg_error *error);
/* bg_safetensors_write_fetched (`fetch` may be NULL when all entries have data); an error of `check` leaves the file
 * that was there before, or none. */
bg_status bgi_safetensors_write_checked(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                                        const bg_safetensors_metadata *metadata, size_t metadata_count,
                                        bg_safetensors_fetch fetch, bgi_safetensors_check check, void *user,
                                        bg_error *error);

/* `entry` must be an opened file's. */
const bgi_safetensors_storage *bgi_safetensors_storage_of(const bg_safetensors_entry *entry);
/* F32, F64, BF16 or F16. */
bool bgi_safetensors_is_float(const bgi_safetensors_storage *storage);
/* The elements as float32, as they are read: of F32, F64 (rounded), BF16 and F16; others are UNSUPPORTED. */
bg_status bgi_safetensors_read_floats(const bg_safetensors *file, const bg_safetensors_entry *entry, float *out,
                                      bg_error *error);

#endif
