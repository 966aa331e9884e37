/*
 * safetensors.h: named tensors in a file, in the safetensors format that other frameworks read and write.
 *
 * A file consists of the length of the header (8 bytes, little-endian), a header in JSON, and the bytes of the tensors
 * one after the other: {"__metadata__": {"key": "text", ...}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets":
 * [0, 24]}, ...}. The machine's byte order must be little-endian, like that of the format.
 *
 * Threads: an open file does not change, so any number of threads may read it.
 *
 * Errors: BG_ERROR_INVALID, BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE, BG_ERROR_UNSUPPORTED, BG_ERROR_MEMORY.
 */
#ifndef BRIGADE_SAFETENSORS_H
#define BRIGADE_SAFETENSORS_H

#include <brigade/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file that was opened. */
typedef struct bg_safetensors bg_safetensors;

typedef struct bg_safetensors_entry {
    const char *name; /* UTF-8, not "__metadata__" */
    bg_type type;     /* float32 (F32), bfloat16 (BF16), float16 (F16), float64 (F64), int32 (I32), int64 (I64),
                         uint8 (U8) */
    const void *data; /* aligned for its type */
} bg_safetensors_entry;

typedef struct bg_safetensors_metadata {
    const char *key;
    const char *value;
} bg_safetensors_metadata;

/*
 * Writes a file that appears complete or not at all. Tensors are ordered by element size, largest first, then by name
 * (bytes), and data begin at a multiple of 8. The same content therefore gives the same file, and every tensor is
 * aligned. Before the file gets its final name, it is opened again, and its names, types, offsets and metadata are
 * compared. Errors: BG_ERROR_INVALID (a name or key that occurs twice, is reserved or is not UTF-8), BG_ERROR_SHAPE,
 * BG_ERROR_IO, BG_ERROR_NOT_FOUND (no such folder), BG_ERROR_MEMORY.
 */
BG_API bg_status bg_safetensors_write(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                                      const bg_safetensors_metadata *metadata, size_t metadata_count, bg_error *error);

/* Provides the data of an entry whose `data` is NULL. The data must stay valid until the next call. */
typedef bg_status (*bg_safetensors_fetch)(void *user, const bg_safetensors_entry *entry, const void **out_data,
                                          bg_error *error);
/* Writes the same file as bg_safetensors_write, from tensors that need not be in memory at the same time. If `fetch`
 * fails, no file is written. */
BG_API bg_status bg_safetensors_write_fetched(const char *path, const bg_safetensors_entry *entries, size_t entry_count,
                                              const bg_safetensors_metadata *metadata, size_t metadata_count,
                                              bg_safetensors_fetch fetch, void *user, bg_error *error);

/*
 * Opens and checks a file and reads its tensors into memory. Hostile files are refused: the tensors must fill the file
 * exactly, without gaps or overlap. Tensors of an unsupported dtype, empty tensors and tensors of more than BG_MAX_RANK
 * dimensions give BG_ERROR_UNSUPPORTED. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE, BG_ERROR_UNSUPPORTED,
 * BG_ERROR_MEMORY.
 */
BG_API bg_status bg_safetensors_open(const char *path, bg_safetensors **out, bg_error *error);

/* Opens and checks a file without reading the tensors' values, so that the file need not be in memory as a whole. The
 * `data` of entries is NULL, and bg_safetensors_read reads the values. The file stays open; do not change it in place
 * while it is open (replacing it, as bg_safetensors_write does, is allowed). */
BG_API bg_status bg_safetensors_open_header(const char *path, bg_safetensors **out, bg_error *error);

/* Reads size_bytes bytes of a tensor, from its byte `offset_bytes` on; `entry` must belong to `file`. Several threads
 * may call the function at once. Errors: BG_ERROR_INVALID (a range beyond the tensor), BG_ERROR_IO (a disk error, or
 * the file became shorter). */
BG_API bg_status bg_safetensors_read(const bg_safetensors *file, const bg_safetensors_entry *entry, size_t offset_bytes,
                                     size_t size_bytes, void *out, bg_error *error);

BG_API void bg_safetensors_destroy(bg_safetensors *file);

/* Return the number of tensors, tensor `index`, and the tensor of a name. The tensors are sorted by name (bytes). */
BG_API size_t bg_safetensors_count(const bg_safetensors *file);
BG_API const bg_safetensors_entry *bg_safetensors_at(const bg_safetensors *file, size_t index);
BG_API const bg_safetensors_entry *bg_safetensors_find(const bg_safetensors *file, const char *name); /* or NULL */

/* Return the number of metadata, metadata `index`, and the value of a key. The metadata are sorted by key (bytes). */
BG_API size_t bg_safetensors_metadata_count(const bg_safetensors *file);
BG_API const bg_safetensors_metadata *bg_safetensors_metadata_at(const bg_safetensors *file, size_t index);
BG_API const char *bg_safetensors_metadata_find(const bg_safetensors *file, const char *key); /* or NULL */

#ifdef __cplusplus
}
#endif

#endif
