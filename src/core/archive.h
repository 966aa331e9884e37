/*
 * archive.h: converts structs to bytes and back. One function visits a struct's members in both directions, so that
 * writing and reading always agree:
 *
 *     static void visit_point(bgi_archive *a, point *p)
 *     {
 *         bgi_archive_i64(a, &p->x);     writing: appends p->x        reading: fills p->x
 *         bgi_archive_i64(a, &p->y);
 *     }
 *
 * Integers are written in as few bytes as they need, 7 bits in each, low bits first. A float64 is written in eight
 * bytes, low byte first. Reading checks everything. If the bytes end too early or a number is out of its range, the
 * archive fails; from then on numbers are read as zero and arrays as empty. An array's length is at most the number of
 * remaining bytes, so that memory stays in proportion to the input.
 */
#ifndef BGI_CORE_ARCHIVE_H
#define BGI_CORE_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"

typedef struct bgi_archive_array bgi_archive_array;

typedef struct bgi_archive {
    bool is_reading;
    bool has_failed;    /* the bytes that are read are invalid, a number is out of its range, or memory is exhausted */
    bool out_of_memory; /* when reading or writing; has_failed is then set too */
    /* Writing. */
    unsigned char *data; /* malloc'ed */
    size_t size_bytes, capacity;
    /* Reading. */
    const unsigned char *at, *end;
    bgi_arena *arena; /* memory for strings and arrays */
    /* Arrays that may be shared, by number. When writing, they are also found by address. */
    bgi_archive_array *shared;
    size_t shared_count, shared_capacity;
    uint32_t *shared_table; /* hash table with open addressing: number + 1 */
    size_t shared_table_size;
} bgi_archive;

void bgi_archive_begin_writing(bgi_archive *archive);
/* Begins to read `data`, which must outlive the archive; values that are read are stored in `arena`. */
void bgi_archive_begin_reading(bgi_archive *archive, const void *data, size_t size_bytes, bgi_arena *arena);
/* Frees the archive's memory, including written bytes; values that were read stay in the arena. */
void bgi_archive_end(bgi_archive *archive);
/* Called after reading: returns whether everything succeeded and no bytes are left. */
bool bgi_archive_is_read(const bgi_archive *archive);
void bgi_archive_fail(bgi_archive *archive);

void bgi_archive_u64(bgi_archive *archive, uint64_t *value);
void bgi_archive_u32(bgi_archive *archive, uint32_t *value);
/* Writes or reads a number; the archive fails if it is not below `limit`. */
void bgi_archive_below(bgi_archive *archive, uint32_t *value, uint32_t limit);
void bgi_archive_size(bgi_archive *archive, size_t *value);
void bgi_archive_i64(bgi_archive *archive, int64_t *value);
void bgi_archive_bool(bgi_archive *archive, bool *value);
void bgi_archive_double(bgi_archive *archive, double *value);
/* Writes or reads a string, which may be NULL. */
void bgi_archive_text(bgi_archive *archive, const char **text);
/* Writes or reads `size_bytes` bytes unchanged. The size is not written, so the reader must pass it. */
void bgi_archive_bytes(bgi_archive *archive, const void **bytes, size_t size_bytes);

/* Writes or reads an enumeration whose values are 0 to `limit` - 1. */
#define BGI_ARCHIVE_ENUM(archive, value, limit)                                                                        \
    do {                                                                                                               \
        uint32_t number_ = (uint32_t)(value);                                                                          \
        bgi_archive_below(archive, &number_, (uint32_t)(limit));                                                       \
        (value) = number_;                                                                                             \
    } while (0)

/* Writes or reads the length of an array. Returns `array` when writing, and memory for *count elements when reading;
 * the caller then visits the elements. */
void *bgi_archive_list(bgi_archive *archive, const void *array, uint32_t *count, size_t element_bytes);
/* Does the same as bgi_archive_list for an array that may be NULL. `count` is not written; the reader must pass it. */
void *bgi_archive_table(bgi_archive *archive, const void *array, uint32_t count, size_t element_bytes);
/* Writes or reads an array that several structs may point to; each array is written once. `kind` distinguishes arrays
 * by element type. Returns true if the caller must visit the elements now; false if an earlier call has visited them,
 * or the archive has failed. When reading, sets *array and *count (to NULL and 0 after a failure). */
bool bgi_archive_shared(bgi_archive *archive, const void **array, uint32_t *count, uint32_t kind, size_t element_bytes);

#endif
