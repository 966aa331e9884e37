/*
 * safetensors.h: reads content in memory, for the file reader and the fuzz target, writes files with hooks, and has the
 * table of element types.
 */
#ifndef BGI_FORMATS_SAFETENSORS_H
#define BGI_FORMATS_SAFETENSORS_H

#include <brigade/safetensors.h>

#include "core/threads.h"

#define BGI_SAFETENSORS_METADATA "__metadata__"

/* The limit of the format for the JSON header. */
#define BGI_SAFETENSORS_HEADER_LIMIT ((uint64_t)100000000)

/* How elements are stored in a file. */
typedef struct bgi_safetensors_storage {
    const char *name; /* the format's name for the type */
    bg_dtype dtype;   /* BG_DTYPE_NONE: Brigade does not support the type (it is "foreign") */
    size_t element_bytes;
} bgi_safetensors_storage;

/* Returns the format's name for a type; NULL if it has none. */
const char *bgi_safetensors_dtype_name(bg_dtype dtype);

/* Parses content that must outlive *out; `name` is its name in messages. Foreign tensors are refused, or become entries
 * whose dtype is BG_DTYPE_NONE. */
bg_status bgi_safetensors_parse(const char *name, const void *content, size_t size_bytes, bool keeps_foreign,
                                bg_safetensors **out, bg_error *error);
/* Like bg_safetensors_open_header; foreign tensors are handled as by bgi_safetensors_parse. */
bg_status bgi_safetensors_open_header(const char *path, bool keeps_foreign, bg_safetensors **out, bg_error *error);

/* Functions that are called while a file is written; each may be NULL. `entry` is an index into the given entries. */
typedef struct bgi_safetensors_hooks {
    bg_safetensors_fetch fetch; /* reads the values of entries without data */
    /* Called with each part of an entry's values that is written to the file, in the order of the entry. */
    void (*written)(void *user, size_t entry, const void *data, size_t size_bytes);
    /* Called when all values of entries are written. It may change the values of metadata, but not their lengths. */
    void (*complete)(void *user);
    /* Called with each part of an entry's values that was read back, in the order of the entry. Another thread calls
     * it, concurrently with the other functions. */
    void (*read)(void *user, size_t entry, const void *data, size_t size_bytes);
    /* Called with the complete file, opened as by bg_safetensors_open_header, before it gets its name. After an error
     * an earlier file is unchanged. */
    bg_status (*check)(void *user, const bg_safetensors *file, bg_error *error);
    void *user;
    const bgi_thread_source *threads; /* starts the thread that reads back; NULL: the system does */
} bgi_safetensors_hooks;
/* Like bg_safetensors_write_fetched, with hooks. */
bg_status bgi_safetensors_write_hooked(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                                       const bg_safetensors_metadata *metadata, size_t metadata_count,
                                       const bgi_safetensors_hooks *hooks, bg_error *error);

/* Returns how a tensor is stored; `entry` must be that of an opened file. */
const bgi_safetensors_storage *bgi_safetensors_storage_of(const bg_safetensors_entry *entry);
/* Whether the storage is F32, F64, BF16 or F16. */
bool bgi_safetensors_is_float(const bgi_safetensors_storage *storage);
/* Reads the elements as float32: from F32, F64 (rounded), BF16 and F16; others are BG_ERROR_UNSUPPORTED. */
bg_status bgi_safetensors_read_floats(const bg_safetensors *file, const bg_safetensors_entry *entry, float *out,
                                      bg_error *error);

#endif
