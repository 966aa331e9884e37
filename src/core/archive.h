/*
 * archive.h: structs to bytes and back. One function visits a struct's members for both ways, so that what writes and
 * what reads cannot drift apart:
 *
 *     static void visit_point(bgi_archive *a, point *p)
 *     {
 *         bgi_archive_i64(a, &p->x);     writing: appends p->x        reading: fills p->x
 *         bgi_archive_i64(a, &p->y);
 *     }
 *
 * Whole numbers take as few bytes as they need (7 bits a byte, low ones first), float64 eight, low byte first. Reading
 * trusts nothing: past the end, or with a number out of its range, the archive has failed, whatever is read from then
 * on is zero and arrays are empty. An array's length is at most the bytes that are left, so that memory stays in
 * proportion to the input.
 */
#ifndef BGI_CORE_ARCHIVE_H
#define BGI_CORE_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"

typedef struct bgi_archive_array bgi_archive_array;

typedef struct bgi_archive {
    bool is_reading;
    bool has_failed;    /* reading: these bytes are no such thing */
    bool out_of_memory; /* either way; has_failed too */
    /* Writing. */
    unsigned char *data; /* malloc'ed */
    size_t size_bytes, capacity;
    /* Reading. */
    const unsigned char *at, *end;
    bgi_arena *arena; /* for texts and arrays */
    /* Arrays that others may refer to; by number, and when writing also found by address. */
    bgi_archive_array *shared;
    size_t shared_count, shared_capacity;
    uint32_t *shared_table; /* number + 1 by hash, open addressing */
    size_t shared_table_size;
} bgi_archive;

void bgi_archive_begin_writing(bgi_archive *archive);
/* `data` must stay until the end; what is read is put into `arena`. */
void bgi_archive_begin_reading(bgi_archive *archive, const void *data, size_t size_bytes, bgi_arena *arena);
/* Frees what the archive has, written bytes included; what was read stays in the arena. */
void bgi_archive_end(bgi_archive *archive);
/* Reading: whether all went well and nothing is left over. */
bool bgi_archive_is_read(const bgi_archive *archive);
void bgi_archive_fail(bgi_archive *archive);

void bgi_archive_u64(bgi_archive *archive, uint64_t *value);
void bgi_archive_u32(bgi_archive *archive, uint32_t *value);
/* Fails when it is not below `limit`. */
void bgi_archive_below(bgi_archive *archive, uint32_t *value, uint32_t limit);
void bgi_archive_size(bgi_archive *archive, size_t *value);
void bgi_archive_i64(bgi_archive *archive, int64_t *value);
void bgi_archive_bool(bgi_archive *archive, bool *value);
void bgi_archive_double(bgi_archive *archive, double *value);
/* May be NULL. */
void bgi_archive_text(bgi_archive *archive, const char **text);
/* `size_bytes` as they are; both sides know how many. */
void bgi_archive_bytes(bgi_archive *archive, const void **bytes, size_t size_bytes);

/* An enumeration whose values are 0 to `limit` - 1. */
#define BGI_ARCHIVE_ENUM(archive, value, limit)                                                                        \
    do {                                                                                                               \
        uint32_t number_ = (uint32_t)(value);                                                                          \
        bgi_archive_below(archive, &number_, (uint32_t)(limit));                                                       \
        (value) = number_;                                                                                             \
    } while (0)

/* The length of an array, and its memory: `array` itself when writing, else memory for *count elements; the caller
 * visits them. */
void *bgi_archive_list(bgi_archive *archive, const void *array, uint32_t *count, size_t element_bytes);
/* The same for `count` elements, a number that both sides know; the array may be NULL. */
void *bgi_archive_table(bgi_archive *archive, const void *array, uint32_t count, size_t element_bytes);
/* An array that several structs may point to: written once. `kind` tells arrays of one element type from others. True
 * when the elements are to be visited now; else *array and *count are those of an earlier one. */
bool bgi_archive_shared(bgi_archive *archive, const void **array, uint32_t *count, uint32_t kind, size_t element_bytes);

#endif
